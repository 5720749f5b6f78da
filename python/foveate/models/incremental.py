"""Decides which tokens of a frame a model computes again: shared by :mod:`.video` (PyTorch) and :mod:`.video_onnx`."""

from __future__ import annotations

import operator
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..canvas import Canvas
from ..picture import PLACE
from ..texels import floats
from .canvas_tokens import CanvasTokens
from .common import Unsuitable

if TYPE_CHECKING:
    from ..frame import TokenFrame

#: Share of ``full_after`` after which everything is computed in a frame that needs no token computed.
_REST_SHARE = 0.1

#: Numbers of tokens, or of slots.
Indices = NDArray[np.int64]


class EncodedFrame(NamedTuple):
    """What ``encode`` computed of a frame.

    :ivar tokens: Tokens of the frame.
    :ivar computed: Those that went through the model.
    :ivar is_full: Whether the result is that of a run without a cache.
    """

    tokens: int
    computed: int
    is_full: bool


class Incremental:
    """Encodes frame after frame, and keeps what it computed of tokens that did not change.

    A class for a library says what a model computes (:meth:`_run`), where that is kept (:meth:`_allocate`, :meth:`_move`),
    and what it gives (:meth:`_result`). Each token of the newest frame has a slot, and the slots are the first ones.

    :ivar last: What the newest frame took; None before the first.
    :ivar frame: What was encoded last: the frame, or the tokens of the canvas; None before the first.
    :ivar tokens: Tokens of all frames so far.
    :ivar computed: Those of them that went through the model.
    """

    #: Whether a run without tokens computes something: a class token, which attends to them.
    _has_prefix = True

    def __init__(
        self, name: str, tolerance: float, full_every: int, full_after: float, full_share: float, budget: int
    ) -> None:
        """
        :param name: of the module, for errors. The others are as for :class:`.video.VideoEncoder`.
        :raises Unsuitable: if a parameter is out of its range.
        """
        for key, value, is_valid, expected in (
            ("tolerance", tolerance, tolerance >= 0, "a number from 0"),
            ("full_every", full_every, full_every >= 0, "a whole number from 0"),
            ("full_after", full_after, full_after > 0, "a number above 0"),
            ("full_share", full_share, 0 <= full_share <= 1, "a number from 0 to 1"),
            ("budget", budget, budget >= 1, "a whole number from 1"),
        ):
            if not is_valid:
                raise Unsuitable(name, key, value, f"give {expected}")
        self.tolerance = float(tolerance)
        self.full_every = operator.index(full_every)
        self.full_after = float(full_after)
        self.full_share = float(full_share)
        self._canvas_tokens = CanvasTokens(operator.index(budget))
        self.last: EncodedFrame | None = None
        self.frame: TokenFrame | None = None
        self.tokens = self.computed = 0
        self.reset()

    def reset(self) -> None:
        """Forgets everything, as needed after a change of the model's weights or device: the next run is a full one."""
        self._identity: object = None
        self._kept: _Kept | None = None
        self._slots: dict[tuple[int, ...], int] = {}
        #: Frames, and computed tokens, since the last full run.
        self._partial = self._changed = 0

    def encode(self, frame: TokenFrame | Canvas) -> Any:
        """The model's output for a frame.

        :param frame: a frame of a view, with the model's P and normalisation (or dtype u8); or a :class:`foveate.Canvas`, of
            which the encoder makes at most ``budget`` tokens, fine ones where coarse ones would lose most: :attr:`frame`.
        :returns: a new tensor or array, [1, prefix + N, D], as :func:`.vit.features` gives; of a vision tower
            :class:`.video.TowerOutput`.
        :raises Unsuitable: if the frame does not fit the model.
        """
        source = self._canvas_tokens.update(frame) if isinstance(frame, Canvas) else frame
        self.frame = source
        try:
            with self._running():
                return self._encode(source)
        except BaseException:
            # What was begun must not be taken for computed.
            self.reset()
            raise

    def _running(self) -> AbstractContextManager[object]:
        return nullcontext()

    def _check(self, frame: TokenFrame) -> None:
        """:raises Unsuitable: if the frame does not fit the model."""
        raise NotImplementedError

    def _allocate(self, capacity: int) -> None:
        """Makes room for so many tokens; what was kept is lost."""
        raise NotImplementedError

    def _move(self, sources: list[int], targets: list[int]) -> None:
        """Moves tokens to other slots."""
        raise NotImplementedError

    def _run(self, frame: TokenFrame, indices: Indices, slots: Indices, every: Indices) -> None:
        """Computes tokens of a frame, and keeps what comes out.

        :param indices: the tokens, and ``slots`` theirs.
        :param every: the slots of all tokens of the frame.
        """
        raise NotImplementedError

    def _result(self, order: Indices) -> Any:
        """The output of the tokens in these slots."""
        raise NotImplementedError

    def _encode(self, frame: TokenFrame) -> Any:
        info = frame.info
        self._check(frame)
        identity = (info.epoch, info.extent, info.patch, info.layout, info.dtype)
        if identity != self._identity:
            self.reset()
        keys = _keys(frame)
        missing, is_approximate = self._missing(frame, keys)
        count = len(keys)
        # Tokens that are gone leave the others approximate, too.
        is_same = not missing.any() and count == len(self._slots)
        most = self.full_after * count * (_REST_SHARE if is_same else 1)
        is_late = 0 < self.full_every <= self._partial or most <= self._changed
        if (is_late and self._partial) or self.full_share * count < missing.sum():
            missing[:] = True
            self._slots = {}
        if missing.any() or not is_same:
            self._compute(frame, keys, missing)
            self._identity = identity
        if missing.all():
            self._partial = self._changed = 0
        elif not is_same or is_approximate or self._partial:
            self._partial += 1
            self._changed += int(missing.sum())
        self.last = EncodedFrame(count, int(missing.sum()), self._partial == 0)
        self.tokens += count
        self.computed += self.last.computed
        return self._result(np.array([self._slots[key] for key in keys], np.int64))

    def _missing(self, frame: TokenFrame, keys: list[tuple[int, ...]]) -> tuple[NDArray[np.bool_], bool]:
        """Which tokens must be computed, [N], and whether others are kept although their texels changed a little."""
        slots = np.array([self._slots.get(key, -1) for key in keys], np.int64)
        missing = slots < 0
        kept = self._kept
        if kept is None or not self._slots:
            return missing, False
        known = np.flatnonzero(~missing)
        is_other = kept.changes[slots[known]] != frame.tokens["changed_frame"][known]
        doubtful = known[is_other]
        differences = _differences(frame, doubtful, kept.texels[slots[doubtful]])
        missing[doubtful] = self.tolerance < differences
        same = doubtful[differences == 0]
        kept.changes[slots[same]] = frame.tokens["changed_frame"][same]
        return missing, bool(((0 < differences) & (differences <= self.tolerance)).any())

    def _compute(self, frame: TokenFrame, keys: list[tuple[int, ...]], missing: NDArray[np.bool_]) -> None:
        """Computes tokens, and keeps what the others need of them."""
        if self._kept is None or len(self._kept.changes) < len(keys):
            capacity = max(len(keys), getattr(frame.info, "capacity", 0))
            self._kept = _Kept(
                np.zeros(capacity, np.uint64), np.zeros((capacity, *frame.pixels.shape[1:]), frame.pixels.dtype)
            )
            self._allocate(capacity)
            self._slots = {}
            missing[:] = True
        indices = np.flatnonzero(missing)
        slots = self._place(self._kept, keys, indices)
        self._kept.changes[slots] = frame.tokens["changed_frame"][indices]
        self._kept.texels[slots] = frame.pixels[indices]
        if len(indices) or self._has_prefix:
            self._run(frame, indices, slots, np.array([self._slots[key] for key in keys]))

    def _place(self, kept: _Kept, keys: list[tuple[int, ...]], indices: Indices) -> Indices:
        """Gives tokens slots, such that those of the frame are the first ones, and returns those of ``indices``."""
        count = len(keys)
        present = {key: self._slots.get(key, -1) for key in keys}
        free = sorted(set(range(count)) - set(present.values()))
        moved = [key for key, slot in present.items() if count <= slot]
        sources, targets = [present[key] for key in moved], free[: len(moved)]
        if moved:
            kept.changes[targets], kept.texels[targets] = kept.changes[sources], kept.texels[sources]
            self._move(sources, targets)
        present.update(zip(moved, targets, strict=True))
        rest = iter(free[len(moved) :])
        for index in indices.tolist():
            if present[keys[index]] < 0:
                present[keys[index]] = next(rest)
        self._slots = present
        return np.array([present[keys[index]] for index in indices.tolist()], np.int64)


class _Kept(NamedTuple):
    """What tokens were computed from, by slot.

    :ivar changes: [capacity] ``changed_frame``.
    :ivar texels: [capacity, 3, P, P].
    """

    changes: NDArray[np.uint64]
    texels: NDArray[Any]


def part(frame: TokenFrame, indices: Indices) -> TokenFrame:
    """Some tokens of a frame, as the functions of :mod:`foveate.models` take them."""
    return SimpleNamespace(info=frame.info, tokens=frame.tokens[indices], pixels=frame.pixels[indices])


def _keys(frame: TokenFrame) -> list[tuple[int, ...]]:
    """The places of tokens; the second one of a place has another key than the first."""
    places: list[tuple[int, ...]] = list(zip(*(frame.tokens[name].tolist() for name in PLACE), strict=True))
    if len(set(places)) == len(places):
        return places
    seen: dict[tuple[int, ...], int] = {}
    keys = []
    for place in places:
        seen[place] = seen.get(place, 0) + 1
        keys.append((*place, seen[place]))
    return keys


def _differences(frame: TokenFrame, indices: Indices, kept: NDArray[Any]) -> NDArray[np.float32]:
    """Root mean square of the difference of tokens from kept texels, in levels of 8 bits, [M]."""
    info = frame.info
    new, old = (floats(texels, info.dtype) for texels in (frame.pixels[indices], kept))
    squares = np.square(new - old).mean(axis=(2, 3))
    if info.dtype != "u8":
        squares = squares * np.square(255 * np.asarray(info.std, np.float32))
    found: NDArray[np.float32] = np.sqrt(squares.mean(axis=1))
    return found
