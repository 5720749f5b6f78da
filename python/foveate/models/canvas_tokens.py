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
        self._pyramid: _Pyramid | None = None
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
            self._divided, self._pyramid = {}, None
        top = self._top(canvas)
        if self._pyramid is None or self._pyramid.top != top:
            self._pyramid = _Pyramid(info.extent, info.patch, top)
        self._pyramid.update(canvas)
        divided = self._divide(canvas, self._pyramid)
        tokens, texels = _leaves(divided, self._pyramid, info.extent)
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

    def _divide(self, canvas: Canvas, pyramid: _Pyramid) -> dict[int, NDArray[np.bool_]]:
        """Of each level above the finest, which squares are divided."""
        patch, extent, top = canvas.info.patch, canvas.info.extent, pyramid.top
        finest = _finest_steps(canvas, pyramid)
        priorities: dict[int, NDArray[np.float64]] = {}
        below: NDArray[np.float64] | None = None
        for level in range(1, top + 1):
            lost = pyramid.lost(level)
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
        children = [_children(extent, patch, level, priorities[level].shape).ravel() - 1 for level in priorities]
        more = np.concatenate(children or [np.zeros(0, np.int64)])
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


class _Pyramid:
    """A canvas at each step, in squares of the coarsest; beyond the picture its last row and column go on. Squares whose
    pixels are those of the update before are left as they are."""

    def __init__(self, extent: tuple[int, int], patch: int, top: int) -> None:
        self.patch, self.top = patch, top
        self.rows, self.columns = _count(extent, patch << top)
        self._pixels: NDArray[Any] | None = None
        count = self.rows, self.columns
        #: Of each level, [rows, columns, 3, side, side].
        self._levels = [np.zeros((*count, 3, *[patch << (top - level)] * 2), np.float32) for level in range(top + 1)]
        #: Of each level from 1, what each of its squares loses to the level below, [rows, columns, squares, squares].
        self._lost = [np.zeros((*count, *[1 << (top - level)] * 2)) for level in range(1, top + 1)]

    def update(self, canvas: Canvas) -> None:
        """Takes what changed."""
        side, (height, width) = self.patch << self.top, canvas.pixels.shape[:2]
        room = (0, self.rows * side - height), (0, self.columns * side - width), (0, 0)
        pixels = np.pad(canvas.pixels, room, "edge").reshape(self.rows, side, self.columns, side, 3)
        changed = np.ones((self.rows, self.columns), bool)
        if self._pixels is not None:
            changed = (pixels != self._pixels).any(axis=(1, 3, 4))
        self._pixels = pixels
        where = np.nonzero(changed)
        fine = floats(np.ascontiguousarray(pixels[where[0], :, where[1]].transpose(0, 3, 1, 2)), canvas.info.dtype)
        self._levels[0][where] = fine
        for level in range(1, self.top + 1):
            quarters = [fine[..., row::2, column::2] for row in (0, 1) for column in (0, 1)]
            coarse = (quarters[0] + quarters[1] + quarters[2] + quarters[3]) / np.float32(4)
            difference = sum(np.abs(quarter - coarse) for quarter in quarters)
            squares = self._lost[level - 1].shape[-1]
            blocks = np.asarray(difference).reshape(len(fine), 3, squares, self.patch, squares, self.patch)
            self._lost[level - 1][where] = blocks.sum(axis=(1, 3, 5), dtype=np.float64) * 4.0 ** (level - 1)
            self._levels[level][where] = fine = coarse

    def lost(self, level: int) -> NDArray[np.float64]:
        """Of each square of a level from 1, the sum of what its texels differ from those of the level below: a copy."""
        lost = self._lost[level - 1]
        count = lost.shape[-1]
        return lost.transpose(0, 2, 1, 3).copy().reshape(self.rows * count, self.columns * count)

    def texels(self, level: int, y: NDArray[np.int64], x: NDArray[np.int64]) -> NDArray[np.float32]:
        """Of squares of a level, [N, 3, P, P]."""
        count = 1 << (self.top - level)
        blocks = self._levels[level].reshape(self.rows, self.columns, 3, count, self.patch, count, self.patch)
        return blocks[y // count, x // count, :, y % count, :, x % count]


def _finest_steps(canvas: Canvas, pyramid: _Pyramid) -> list[NDArray[np.int64]]:
    """Of each level and square, the finest step of the canvas under it."""
    count = pyramid.patch // canvas.side
    rows, columns = (number * count << pyramid.top for number in (pyramid.rows, pyramid.columns))
    steps = np.where(canvas.steps == 0, _NEVER, canvas.steps).astype(np.int64)
    steps = np.pad(steps, ((0, rows - steps.shape[0]), (0, columns - steps.shape[1])), constant_values=_NEVER)
    found = [steps.reshape(rows // count, count, columns // count, count).min((1, 3))]
    for _ in range(pyramid.top):
        found.append(_pooled(found[-1], np.minimum))
    return found


def _pooled(values: NDArray[Any], function: Any) -> NDArray[Any]:
    """Of each 2 x 2 numbers one."""
    pooled: NDArray[Any] = function(
        function(values[::2, ::2], values[1::2, ::2]), function(values[::2, 1::2], values[1::2, 1::2])
    )
    return pooled


def _children(extent: tuple[int, int], patch: int, level: int, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Of each square of a level, how many of the four of the level below begin in the picture."""
    rows, columns = _count(extent, patch << (level - 1))
    down = np.minimum(rows - 2 * np.arange(shape[0]), 2)
    across = np.minimum(columns - 2 * np.arange(shape[1]), 2)
    return np.maximum(down, 0)[:, None] * np.maximum(across, 0)[None, :]


def _leaves(
    divided: dict[int, NDArray[np.bool_]], pyramid: _Pyramid, extent: tuple[int, int]
) -> tuple[NDArray[np.void], NDArray[np.float32]]:
    """Records and texels of the squares that are not divided, the finest first."""
    (width, height), patch, top = extent, pyramid.patch, pyramid.top
    records, texels = [], []
    for level in range(top + 1):
        is_there = np.ones((pyramid.rows << (top - level), pyramid.columns << (top - level)), bool)
        if level < top:
            is_there = divided[level + 1].repeat(2, 0).repeat(2, 1)
        if 0 < level:
            is_there = is_there & ~divided[level]
        y, x = np.nonzero(is_there)
        is_within = (y * (patch << level) < height) & (x * (patch << level) < width)
        y, x = y[is_within], x[is_within]
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
        texels.append(pyramid.texels(level, y, x))
    return np.concatenate(records), np.concatenate(texels)


def _keep_numbers(before: Any, now: Any) -> None:
    """Gives tokens whose texels are those of the update before their ``changed_frame``."""
    known = {place: index for index, place in enumerate(_places(before.tokens))}
    found = np.array([known.get(place, -1) for place in _places(now.tokens)], np.int64)
    index = np.flatnonzero(0 <= found)
    is_same = (now.pixels[index] == before.pixels[found[index]]).all(axis=(1, 2, 3))
    now.tokens["changed_frame"][index[is_same]] = before.tokens["changed_frame"][found[index[is_same]]]


def _places(tokens: NDArray[np.void]) -> list[Any]:
    return list(zip(*(tokens[name].tolist() for name in PLACE), strict=True))
