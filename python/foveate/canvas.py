"""The picture of a view's finest texels so far, kept from frame to frame."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import texels
from .errors import FoveateError
from .frame import Frame
from .segment import SegmentInfo

#: Side of the tiles that change detection works on, in pixels.
_TILE_SIDE = 32

#: Pause after a refused refresh, in seconds: the daemon forgets at most once a second.
_RETRY_S = 1.0


class CanvasUpdate(NamedTuple):
    """What a frame did to a :class:`Canvas`.

    :ivar places: [rows, columns] of bool: the places that it drew.
    :ivar is_new: Whether the frame cleared the canvas first: it is the first one, or the first of another segment, as after
        a restart of the daemon or a change of the picture's size.
    """

    places: NDArray[np.bool_]
    is_new: bool


class Canvas:
    """The picture of the finest texels so far of a view with ``memory = "canvas"``.

    A *place* is a square of ``side`` x ``side`` pixels, the greatest that lies in one token and in one tile of change
    detection. Each frame draws a place if its token there is at least as fine as what the canvas has, or if a tile under
    the texel that it was drawn from has changed since; so no place shows what is not in the picture any more, and what
    masks cover is gone with the first frame that has them. Memory is allocated with the first frame of a segment, and
    constant then. ``docs/reference/canvas.md`` is the definition, which all languages follow byte for byte.

    Feed it every frame, in order: ``view.read(newest=False)``. One that joins late, or misses frames, lacks what the
    daemon takes for delivered: then :attr:`wants_refresh` is set, and :meth:`foveate.View.canvas` asks for it.

    For one thread at a time.

    :ivar side: Side of a place in pixels; 0 before the first frame.
    :ivar steps: [rows, columns] uint16: width of the texels that a place was drawn from, in source pixels; 0 where nothing
        was drawn yet.
    :ivar frames: [rows, columns] uint64: ``frame_seq`` of the newest frame that changed the pixels under those texels, as
        far as tiles tell.
    :ivar frame_seq: That of the newest frame; 0 before the first.
    :ivar wants_refresh: Whether the daemon may take something for delivered that this canvas did not get.
    """

    def __init__(self, refresh: Callable[[], object] | None = None) -> None:
        """:param refresh: asks the daemon to forget what it takes for delivered, such as :meth:`foveate.View.refresh`. It is
        called by :meth:`update` when needed; a :class:`FoveateError` that it raises is taken for "not now"."""
        self._refresh = refresh
        self._retry_at = 0.0
        self._info: SegmentInfo | None = None
        self._ring_sequence = 0
        self.side = self.frame_seq = 0
        self.wants_refresh = False
        self.steps: NDArray[np.uint16] = np.zeros((0, 0), np.uint16)
        self.frames: NDArray[np.uint64] = np.zeros((0, 0), np.uint64)
        #: ``changed_frame`` of the token that each place was drawn from.
        self._tokens: NDArray[np.uint64] = self.frames
        #: [rows, side, columns, side, 3]: whole places, so the last ones may hang over.
        self._blocks: NDArray[Any] = np.zeros((0, 0, 0, 0, 3), np.uint8)
        self.pixels: NDArray[Any] = np.zeros((0, 0, 3), np.uint8)
        """[height, width, 3]: R, G, B of each pixel in the dtype of the view, as in :attr:`Frame.pixels`; 0 where nothing
        was drawn. It changes with each :meth:`update`."""

    @property
    def info(self) -> SegmentInfo:
        """The description of the segment that it is of.

        :raises FoveateError: before the first frame.
        """
        if self._info is None:
            raise FoveateError("the canvas has no frame yet: `update` it with one")
        return self._info

    def picture(self, smooth: bool = False) -> NDArray[np.uint8]:
        """A copy as a picture, [height, width, 3] uint8: R, G, B; black where nothing was drawn.

        :param smooth: without the edges of texels, for models and people: as :meth:`foveate.Frame.rebuild`, Catmull-Rom
            splines between texels, exact where a texel is a pixel. Otherwise each texel fills its pixels.
        :raises FoveateError: before the first frame.
        """
        rgb = texels.rgb(np.moveaxis(self.pixels, 2, 0)[np.newaxis], self.info)[0]
        picture = np.array(np.moveaxis(rgb, 0, 2))
        drawn = self.steps.repeat(self.side, 0).repeat(self.side, 1)[: picture.shape[0], : picture.shape[1]]
        picture[drawn == 0] = 0
        if smooth:
            plain = picture.copy()
            for step in np.unique(self.steps[1 < self.steps]).tolist():
                is_here = drawn == step
                picture[is_here] = _interpolated(_interpolated(_means(plain, step), step, 0), step, 1)[
                    : picture.shape[0], : picture.shape[1]
                ][is_here]
        return picture

    def update(self, frame: Frame) -> CanvasUpdate:
        """Draws a frame.

        :param frame: of a view with ``layout = "adaptive"`` and ``memory = "canvas"``.
        :raises FoveateError: of another view.
        :raises ValueError: if the frame is not newer than the one before.
        """
        tiles = frame.tiles
        is_new = self._info is None or self._info.epoch != frame.epoch
        if is_new:
            self._open(frame.info, frame.pixels.dtype)
        elif frame.ring_sequence <= self._ring_sequence:
            raise ValueError(
                f"frame {frame.ring_sequence} of the segment after frame {self._ring_sequence} "
                "(expected newer frames, in order)"
            )
        places = self._draw(frame, _Changes(tiles, self.side, self.steps.shape))
        self.wants_refresh |= frame.ring_sequence != self._ring_sequence + 1
        self._ring_sequence, self.frame_seq = frame.ring_sequence, frame.frame_seq
        if self.wants_refresh and self._refresh is not None:
            self._ask(self._refresh)
        return CanvasUpdate(places, is_new)

    def refreshed(self) -> None:
        """Notes that the daemon has forgotten what it took for delivered, for those who asked it themselves."""
        self.wants_refresh = False

    def _ask(self, refresh: Callable[[], object]) -> None:
        now = time.monotonic()
        if now < self._retry_at:
            return
        try:
            refresh()
        except FoveateError:
            self._retry_at = now + _RETRY_S
        else:
            self.refreshed()

    def _open(self, info: SegmentInfo, dtype: np.dtype[Any]) -> None:
        """Clears the canvas, for frames of another segment."""
        width, height = info.extent
        side = math.gcd(info.patch, _TILE_SIDE)
        columns, rows = -(-width // side), -(-height // side)
        self.side, self._info = side, info
        self.steps = np.zeros((rows, columns), np.uint16)
        self.frames = np.zeros((rows, columns), np.uint64)
        self._tokens = np.zeros((rows, columns), np.uint64)
        self._blocks = np.zeros((rows, side, columns, side, 3), dtype)
        self.pixels = self._blocks.reshape(rows * side, columns * side, 3)[:height, :width]
        self._ring_sequence = self.frame_seq = 0
        self.wants_refresh = False

    def _draw(self, frame: Frame, changes: _Changes) -> NDArray[np.bool_]:
        """Draws a frame, and returns the places that were drawn."""
        had = self.steps != 0
        self.steps[self.frames < changes.newest(self.steps)] = 0
        index, steps, tokens = self._under(frame)
        is_other = (steps == self.steps) & (tokens != self._tokens)
        drawn = (steps != 0) & ((self.steps == 0) | (steps < self.steps) | is_other)
        # Only a broken writer leaves a place out.
        lost = had & (self.steps == 0) & (steps == 0)
        rows, columns = np.nonzero(lost)
        self._blocks[rows, :, columns] = 0
        self.frames[lost] = self._tokens[lost] = 0
        self.steps[drawn], self._tokens[drawn] = steps[drawn], tokens[drawn]
        self.frames[drawn] = changes.newest(self.steps)[drawn]
        for step in np.unique(steps[drawn]).tolist():
            self._fill(frame, step, index, np.nonzero(drawn & (steps == step)))
        return drawn | lost

    def _under(self, frame: Frame) -> tuple[NDArray[np.int64], NDArray[np.uint16], NDArray[np.uint64]]:
        """The token at each place, its step and its ``changed_frame``; 0 where there is none. Records that are not of
        pyramid-aligned tokens are left out."""
        tokens, patch, shape = frame.tokens, self.info.patch, self.steps.shape
        x, y, step = (tokens[name].astype(np.int64) for name in ("x", "y", "sx"))
        width, height = self.info.extent
        is_within = (0 <= x) & (x < width) & (0 <= y) & (y < height) & (tokens["size"] == patch)
        is_square = (tokens["sy"] == step) & (0 < step) & (step & (step - 1) == 0)
        length = patch * np.maximum(step, 1)
        is_aligned = (x % length == 0) & (y % length == 0) & (tokens["extra_width"] == 0) & (tokens["extra_height"] == 0)
        is_aligned &= is_within & is_square
        index, steps, changes = np.zeros(shape, np.int64), np.zeros(shape, np.uint16), np.zeros(shape, np.uint64)
        for size in sorted(np.unique(step[is_aligned]).tolist(), reverse=True):
            chosen = np.nonzero(is_aligned & (step == size))[0]
            count = patch * size // self.side
            coarse = np.full((-(-shape[0] // count), -(-shape[1] // count)), -1, np.int64)
            coarse[y[chosen] // (patch * size), x[chosen] // (patch * size)] = chosen
            spread = coarse.repeat(count, 0).repeat(count, 1)[: shape[0], : shape[1]]
            is_here = 0 <= spread
            index[is_here], steps[is_here] = spread[is_here], size
            changes[is_here] = tokens["changed_frame"][spread[is_here]]
        return index, steps, changes

    def _fill(self, frame: Frame, step: int, index: NDArray[np.int64], places: tuple[NDArray[np.intp], ...]) -> None:
        """Draws places from tokens of one step."""
        rows, columns = places
        token = index[places]
        # The texels of a place, or the one that it is part of.
        count = max(1, self.side // step)
        first_row = (rows * self.side - frame.tokens["y"][token]) // step
        first_column = (columns * self.side - frame.tokens["x"][token]) // step
        row = (first_row[:, np.newaxis] + np.arange(count))[:, :, np.newaxis]
        column = (first_column[:, np.newaxis] + np.arange(count))[:, np.newaxis, :]
        values = frame.pixels[token[:, np.newaxis, np.newaxis], :, row, column]
        length = self.side // count
        self._blocks[rows, :, columns] = values.repeat(length, 1).repeat(length, 2)


def _means(picture: NDArray[np.uint8], step: int) -> NDArray[np.float32]:
    """Means over squares of ``step`` pixels, and over two more beyond each edge, where the picture goes on with the pixels
    there."""
    height, width = picture.shape[:2]
    margin = 2 * step
    whole = np.pad(picture, ((margin, margin - height % -step), (margin, margin - width % -step), (0, 0)), "edge")
    cells = whole.reshape(whole.shape[0] // step, step, whole.shape[1] // step, step, 3)
    means: NDArray[np.float32] = cells.mean((1, 3), dtype=np.float32)
    return means


def _interpolated(cells: NDArray[np.float32], step: int, axis: int) -> NDArray[np.float32]:
    """``step`` pixels for each cell along an axis, without the margin; along the second one rounded to bytes."""
    rows = np.moveaxis(cells, axis, 0)
    count = len(rows) - 4
    drawn = np.empty((count * step, *rows.shape[1:]), np.float32)
    for pixel in range(step):
        place = (pixel + 0.5) / step + 1.5
        first = int(place) - 1
        t = place - int(place)
        weights = (
            ((2 - t) * t - 1) * t / 2,
            ((3 * t - 5) * t * t + 2) / 2,
            ((4 - 3 * t) * t + 1) * t / 2,
            (t - 1) * t * t / 2,
        )
        parts = (np.float32(weight) * rows[first + tap : first + tap + count] for tap, weight in enumerate(weights))
        drawn[pixel::step] = reduce(np.add, parts)
    drawn = np.moveaxis(drawn, 0, axis)
    return np.clip(np.floor(drawn + 0.5), 0, 255) if axis == 1 else drawn


class _Changes:
    """When the pixels under texels last changed."""

    def __init__(self, tiles: NDArray[np.uint64], side: int, shape: tuple[int, ...]) -> None:
        self._tiles = tiles
        self._side = side
        self._shape = shape
        self._fine = self._spread(tiles, 1)

    def newest(self, steps: NDArray[np.uint16]) -> NDArray[np.uint64]:
        """Of each place, the newest change of a tile under a texel of its step."""
        newest = self._fine
        for step in self._beyond_tiles(steps):
            newest = np.where(steps == step, self._pooled(step // _TILE_SIDE), newest)
        return newest

    @staticmethod
    def _beyond_tiles(steps: NDArray[np.uint16]) -> Iterator[int]:
        if steps.max() > _TILE_SIDE:
            yield from np.unique(steps[_TILE_SIDE < steps]).tolist()

    def _pooled(self, count: int) -> NDArray[np.uint64]:
        pooled = self._tiles
        for axis in (0, 1):
            pooled = np.maximum.reduceat(pooled, np.arange(0, pooled.shape[axis], count), axis)
        return self._spread(pooled, count)

    def _spread(self, tiles: NDArray[np.uint64], count: int) -> NDArray[np.uint64]:
        length = count * _TILE_SIDE // self._side
        return tiles.repeat(length, 0).repeat(length, 1)[: self._shape[0], : self._shape[1]]
