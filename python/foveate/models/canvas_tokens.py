"""Tokens of a canvas: squares of unlike size that show all of it, at most as many as a model's budget."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..abi import TOKEN
from ..canvas import Canvas
from ..picture import PLACE
from ..texels import floats
from .common import Unsuitable

#: How much more a square must lose before it takes the place of one that is divided already.
_HYSTERESIS = 1.25
#: Step of a place that was never drawn.
_NEVER = np.iinfo(np.uint16).max


class CanvasTokens:
    """The tokens of a canvas, from update to update.

    All squares of the coarsest step that the canvas shows are divided into four, and these again, those first that lose most
    without, as far as the budget reaches and the canvas has finer texels. A square that is divided stays so unless another
    one loses a quarter more.
    """

    def __init__(self, budget: int) -> None:
        """:param budget: most tokens."""
        self._budget = budget
        self._frame: Any = None
        #: Of each level above the finest, which squares are divided.
        self._divided: dict[int, NDArray[np.bool_]] = {}

    def update(self, canvas: Canvas) -> Any:
        """The tokens of a canvas, as functions of :mod:`foveate.models` take a frame: ``info``, ``tokens`` and ``pixels``.

        ``changed_frame`` of a token is the newest frame at an update that changed its texels.

        :raises Unsuitable: if the canvas has no frame yet.
        """
        if canvas.frame_seq == 0:
            raise Unsuitable("models.video", "frame", "an empty canvas", "update it with a frame first")
        info = canvas.info
        identity = (info.epoch, info.extent, info.patch)
        before = self._frame if self._frame is not None and self._frame.identity == identity else None
        if before is None:
            self._divided = {}
        top = self._top(canvas)
        pictures = _pyramid(canvas, top)
        divided = self._divide(canvas, pictures, top)
        tokens, texels = _leaves(divided, pictures, info.extent, info.patch, top)
        tokens["changed_frame"] = canvas.frame_seq
        is_bytes = info.dtype == "u8"
        self._frame = SimpleNamespace(
            identity=identity,
            info=SimpleNamespace(
                epoch=info.epoch,
                extent=info.extent,
                patch=info.patch,
                layout="adaptive",
                dtype="u8" if is_bytes else "f32",
                mean=getattr(info, "mean", ()),
                std=getattr(info, "std", ()),
                capacity=self._budget,
            ),
            tokens=tokens,
            pixels=np.floor(texels + 0.5).astype(np.uint8) if is_bytes else texels,
        )
        if before is not None:
            _keep_numbers(before, self._frame)
        self._divided = divided
        return self._frame

    def _top(self, canvas: Canvas) -> int:
        """The level of the coarsest squares: that of the canvas's coarsest texels, or a higher one for a small budget."""
        width, height = canvas.info.extent
        top = max(0, int(canvas.steps.max()).bit_length() - 1)
        while True:
            side = canvas.info.patch << top
            if -(-width // side) * -(-height // side) <= self._budget:
                return top
            top += 1

    def _divide(self, canvas: Canvas, pictures: list[Any], top: int) -> dict[int, NDArray[np.bool_]]:
        """Of each level above the finest, which squares are divided."""
        patch, extent = canvas.info.patch, canvas.info.extent
        finest = _finest_steps(canvas, pictures, top)
        priorities: dict[int, NDArray[np.float64]] = {}
        below: NDArray[np.float64] | None = None
        for level in range(1, top + 1):
            lost = _lost(pictures[level - 1], pictures[level], patch) * 4.0 ** (level - 1)
            if level in self._divided and self._divided[level].shape == lost.shape:
                lost[self._divided[level]] *= _HYSTERESIS
            lost[finest[level] >= 1 << level] = 0
            # One that holds a square that loses much comes before that one.
            below = lost if below is None else np.maximum(lost, _pooled(below, np.maximum))
            priorities[level] = below
        base = _count(extent, patch << top)
        left = self._budget - base[0] * base[1]
        levels = np.concatenate([np.full(priorities[level].size, level) for level in priorities] or [np.zeros(0, np.int64)])
        values = np.concatenate([priorities[level].ravel() for level in priorities] or [np.zeros(0)])
        more = np.concatenate([_children(extent, patch, level, priorities[level].shape).ravel() - 1 for level in priorities]
                              or [np.zeros(0, np.int64)])
        order = np.lexsort([-levels, -values])
        order = order[0 < values[order]]
        chosen = np.zeros(len(values), bool)
        chosen[order[np.cumsum(more[order]) <= left]] = True
        divided, start = {}, 0
        for level, priority in priorities.items():
            divided[level] = chosen[start : start + priority.size].reshape(priority.shape)
            start += priority.size
        return divided


def _count(extent: tuple[int, int], side: int) -> tuple[int, int]:
    """Rows and columns of squares that cover a picture."""
    return -(-extent[1] // side), -(-extent[0] // side)


def _pyramid(canvas: Canvas, top: int) -> list[NDArray[np.float32]]:
    """The canvas at each step, [rows of texels, columns of texels, 3], in whole squares of the coarsest; the picture's last
    row and column go on beyond it."""
    info = canvas.info
    rows, columns = _count(info.extent, info.patch << top)
    height, width = canvas.pixels.shape[:2]
    room = (0, rows * (info.patch << top) - height), (0, columns * (info.patch << top) - width), (0, 0)
    pictures = [floats(np.pad(canvas.pixels, room, "edge"), info.dtype)]
    for _ in range(top):
        fine = pictures[-1]
        pictures.append((fine[::2, ::2] + fine[1::2, ::2] + fine[::2, 1::2] + fine[1::2, 1::2]) / np.float32(4))
    return pictures


def _finest_steps(canvas: Canvas, pictures: list[Any], top: int) -> list[NDArray[np.int64]]:
    """Of each level and square, the finest step of the canvas under it."""
    patch, side = canvas.info.patch, canvas.side
    steps = np.where(canvas.steps == 0, _NEVER, canvas.steps).astype(np.int64)
    rows, columns = (length // side for length in pictures[0].shape[:2])
    steps = np.pad(steps, ((0, rows - steps.shape[0]), (0, columns - steps.shape[1])), constant_values=_NEVER)
    count = patch // side
    found = [steps.reshape(rows // count, count, columns // count, count).min((1, 3))]
    for _ in range(top):
        found.append(_pooled(found[-1], np.minimum))
    return found


def _pooled(values: NDArray[Any], function: Any) -> NDArray[Any]:
    """Of each 2 x 2 numbers one."""
    pooled: NDArray[Any] = function(
        function(values[::2, ::2], values[1::2, ::2]), function(values[::2, 1::2], values[1::2, 1::2])
    )
    return pooled


def _lost(fine: NDArray[np.float32], coarse: NDArray[np.float32], patch: int) -> NDArray[np.float64]:
    """Of each square of the coarse picture, the sum of what its texels differ from those of the fine one."""
    height, width = coarse.shape[:2]
    difference: NDArray[np.float32] = np.zeros((height, width), np.float32)
    for row in (0, 1):
        for column in (0, 1):
            difference += np.abs(fine[row::2, column::2] - coarse).sum(axis=2)
    return difference.reshape(height // patch, patch, width // patch, patch).sum((1, 3), dtype=np.float64)


def _children(extent: tuple[int, int], patch: int, level: int, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Of each square of a level, how many of the four of the level below begin in the picture."""
    rows, columns = _count(extent, patch << (level - 1))
    down = np.minimum(rows - 2 * np.arange(shape[0]), 2)
    across = np.minimum(columns - 2 * np.arange(shape[1]), 2)
    return np.maximum(down, 0)[:, None] * np.maximum(across, 0)[None, :]


def _leaves(
    divided: dict[int, NDArray[np.bool_]], pictures: list[Any], extent: tuple[int, int], patch: int, top: int
) -> tuple[NDArray[np.void], NDArray[np.float32]]:
    """Records and texels of the squares that are not divided, the finest first."""
    width, height = extent
    records, texels = [], []
    for level in range(top + 1):
        rows, columns = (length // patch for length in pictures[level].shape[:2])
        is_there = np.ones((rows, columns), bool)
        if level < top:
            is_there = divided[level + 1].repeat(2, 0).repeat(2, 1)
        if 0 < level:
            is_there = is_there & ~divided[level]
        y, x = np.nonzero(is_there)
        is_within = (y * (patch << level) < height) & (x * (patch << level) < width)
        y, x = y[is_within], x[is_within]
        blocks = pictures[level].reshape(rows, patch, columns, patch, 3)[y, :, x]
        tokens = np.zeros(len(y), TOKEN)
        side = patch << level
        tokens["x"], tokens["y"], tokens["sx"], tokens["sy"] = x * side, y * side, 1 << level, 1 << level
        tokens["size"], tokens["group"] = patch, level
        left, top_edge = x * side, y * side
        right, bottom = np.minimum(left + side, width), np.minimum(top_edge + side, height)
        tokens["box"] = np.stack([left, top_edge, right, bottom], axis=1)
        tokens["columns"] = -(-(right - left) >> level)
        tokens["rows"] = -(-(bottom - top_edge) >> level)
        records.append(tokens)
        texels.append(blocks.transpose(0, 3, 1, 2))
    return np.concatenate(records), np.ascontiguousarray(np.concatenate(texels))


def _keep_numbers(before: Any, now: Any) -> None:
    """Gives tokens whose texels are those of the update before their ``changed_frame``."""
    known = {place: index for index, place in enumerate(_places(before.tokens))}
    found = np.array([known.get(place, -1) for place in _places(now.tokens)], np.int64)
    index = np.flatnonzero(0 <= found)
    is_same = (now.pixels[index] == before.pixels[found[index]]).all(axis=(1, 2, 3))
    now.tokens["changed_frame"][index[is_same]] = before.tokens["changed_frame"][found[index[is_same]]]


def _places(tokens: NDArray[np.void]) -> list[Any]:
    return list(zip(*(tokens[name].tolist() for name in PLACE), strict=True))
