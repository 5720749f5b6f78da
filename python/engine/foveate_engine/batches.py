"""Many pictures of one size."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any, Union

import numpy as np
from numpy.typing import ArrayLike

from . import _native
from .arrays import Color, Colorimetry, Picture, picture, read

#: Most pictures of a submission.
SIZE_MAX = 32

#: Batches that are kept for the next pictures of their size.
_KEPT = 2

#: A place to look at, x and y in source pixels, or several.
Fixation = Union["tuple[float, float]", "Sequence[tuple[float, float]]"]


class Batches:
    """The batches of an engine, by what their pictures and tokens look like."""

    def __init__(self, engine: _native.Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[Any, ...], _native.Batch] = OrderedDict()

    def of(self, spec: _native.Spec, first: Picture, colors: Colorimetry, count: int) -> _native.Batch:
        """The batch for ``count`` pictures like the first."""
        size = min(SIZE_MAX, 1 << (count - 1).bit_length())
        # Specs are cached, so equal ones are the same object.
        key = (spec, first.format, first.extent, colors, size)
        with self._lock:
            batch = self._kept.pop(key, None)
            if batch is None:
                given = (first.format, first.extent, colors.matrix, colors.range)
                batch = _native.Batch(self._engine, spec, *given, size)
            self._kept[key] = batch
            while _KEPT < len(self._kept):
                self._kept.popitem(last=False)
        return batch

    def close(self) -> None:
        """Gives their memory back."""
        with self._lock:
            while self._kept:
                self._kept.popitem()[1].close()


def pictures(images: Any, format: str | None, background: Color) -> Iterator[list[Picture]]:
    """Pictures of one size and format, at most :data:`SIZE_MAX` at a time.

    :param images: a sequence of pictures, or an array of them, [B, H, W, ...].
    :param background: as for :func:`foveate_engine.arrays.picture`.
    :raises TypeError: if it is none, or as for :func:`foveate_engine.arrays.picture`.
    :raises ValueError: if it is empty, or they differ.
    """
    if isinstance(images, (str, bytes)) or not hasattr(images, "__len__"):
        raise TypeError(f"images is a {type(images).__name__} (expected a list of pictures, or an array of them)")
    if not len(images):
        raise ValueError("images is empty (expected at least one picture)")
    first = None
    for start in range(0, len(images), SIZE_MAX):
        found = []
        for index in range(start, min(start + SIZE_MAX, len(images))):
            found.append(_element(images, index, format, background))
            first = first or found[0]
            if (found[-1].format, found[-1].extent) != (first.format, first.extent):
                shapes = ["{} x {} {}".format(*each.extent, each.format) for each in (found[-1], first)]
                raise ValueError(
                    f"images[{index}] is {shapes[0]}, and images[0] {shapes[1]}; a batch has one size and format: "
                    "group them, or use Engine.folder for files of any size"
                )
        yield found


def _element(images: Any, index: int, format: str | None, background: Color) -> Picture:
    name = f"images[{index}]"
    if type(images) is np.ndarray and images.ndim and images.dtype == np.uint8:
        # An element of an array is a view, whose memory another thread could move before it is copied.
        return read(_native.owned(images, index), format, name, background)
    return picture(images[index], format, name, background)


def each(given: Any, count: int) -> list[Any]:
    """What is given for each of ``count`` pictures; None, and one point, are for all of them.

    :raises ValueError: if it is of another number.
    """
    is_point = isinstance(given, (tuple, list)) and len(given) == 2 and all(np.isscalar(number) for number in given)
    if given is None or is_point:
        return [given] * count
    if len(given) != count:
        raise ValueError(
            f"fixations has {len(given)} entries, for {count} pictures (expected one point for all, or one entry each)"
        )
    return list(given)


def maps(given: ArrayLike | Sequence[ArrayLike | None] | None, count: int) -> list[Any]:
    """A map for each of ``count`` pictures, or None.

    :raises ValueError: if they are of another number.
    """
    if given is None:
        return [None] * count
    found: list[Any] = list(given) if isinstance(given, (list, tuple, np.ndarray)) else [given]
    if len(found) != count:
        raise ValueError(f"relevance has {len(found)} maps, for {count} pictures (expected one for each, or None)")
    return found

