"""Pictures rebuilt from tokens: what the tokens are, and what a model is given as a picture."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache, reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import abi


def limits(
    tokens: NDArray[np.void], patch: int, extent: tuple[int, int]
) -> Iterator[tuple[str, str, NDArray[Any], NDArray[np.bool_]]]:
    """The limits of ``docs/abi.md`` that bound what a record may make a reader allocate, or index.

    :returns: of each: the field, the expected values in words, the values of the records, and which of these are within.
    """
    (width, height), box = extent, tokens["box"]
    for field in ("sx", "sy"):
        yield field, f"1 to {abi.STEP_MAX}", tokens[field], (1 <= tokens[field]) & (tokens[field] <= abi.STEP_MAX)
    yield "size", str(patch), tokens["size"], tokens["size"] == patch
    for first, count in (("first_column", "columns"), ("first_row", "rows")):
        end = tokens[first].astype("u4") + tokens[count]
        yield f"{first} + {count}", f"at most {patch}", end, end <= patch
    for axis, name, side in ((0, "x", width), (1, "y", height)):
        start, end = box[:, axis], box[:, axis + 2]
        yield f"{name}1", f"{name}0 to {side}", end, (start <= end) & (end <= side)


class _Place(NamedTuple):
    """Where a token lies: texel (u, v) is the mean of the pixels from (x + u sx, y + v sy), sx by sy of them."""

    x: int
    y: int
    sx: int
    sy: int
    #: Its texels that have real pixels.
    columns: slice
    rows: slice

    @classmethod
    def of(cls, token: Any) -> _Place:
        """From a record. Only this and :func:`limits` know its fields."""
        x, y, sx, sy, column, columns, row, rows = (
            int(token[name]) for name in ("x", "y", "sx", "sy", "first_column", "columns", "first_row", "rows")
        )
        return cls(x, y, sx, sy, slice(column, column + columns), slice(row, row + rows))

    def pixels(self, extent: tuple[int, int]) -> tuple[int, int, int, int]:
        """The pixels of a picture that its real texels cover: left, top, right, bottom."""
        width, height = extent
        left, right = self.x + self.columns.start * self.sx, self.x + self.columns.stop * self.sx
        top, bottom = self.y + self.rows.start * self.sy, self.y + self.rows.stop * self.sy
        return max(0, left), max(0, top), min(width, right), min(height, bottom)


def replicated(tokens: NDArray[np.void], rgb: NDArray[np.uint8], extent: tuple[int, int]) -> NDArray[np.uint8]:
    """Each texel fills the pixels that it is the mean of; where tokens overlap, those with smaller steps are on top.

    :param tokens: [N] of :data:`foveate.TOKEN`. Records that exceed the :func:`limits` are left out.
    :param rgb: [N, P, P, 3] uint8.
    :param extent: width and height of the picture.
    :returns: [height, width, 3] uint8; black where no token lies.
    """
    width, height = extent
    picture = np.zeros((height, width, 3), np.uint8)
    for place, texels in _coarse_first(tokens, rgb, extent):
        left, top, right, bottom = place.pixels(extent)
        columns = (np.arange(left, right) - place.x) // place.sx
        rows = (np.arange(top, bottom) - place.y) // place.sy
        band = _count_at_once(right - left)
        for start in range(top, bottom, band):
            stop = min(start + band, bottom)
            picture[start:stop, left:right] = texels.take(rows[start - top : stop - top], axis=0).take(columns, axis=1)
    return picture


def smoothed(tokens: NDArray[np.void], rgb: NDArray[np.uint8], extent: tuple[int, int]) -> NDArray[np.uint8]:
    """A picture without the edges of texels and tokens; exact where the steps are 1.

    The texels of a token are cells of a grid that goes on beyond the token. A cell outside it has the mean of its
    pixels in the :func:`replicated` picture, rounded half up; that picture goes on beyond its edges with the pixels at
    its edges. A pixel is interpolated between the centres of 4 x 4 cells by Catmull-Rom splines, with weights rounded
    to 2^-14 along each axis, and rounded half up. Where tokens overlap, those with smaller steps are on top. All of it
    is exact, so every reader draws the same bytes.

    Parameters and result as of :func:`replicated`.
    """
    plain = replicated(tokens, rgb, extent)
    picture = plain.copy()
    for place, texels in _coarse_first(tokens, rgb, extent):
        left, top, right, bottom = place.pixels(extent)
        if place.sx == place.sy == 1:
            picture[top:bottom, left:right] = plain[top:bottom, left:right]
            continue
        cells = _cell_means(plain, place, rgb.shape[1])
        inner = cells[_MARGIN:-_MARGIN, _MARGIN:-_MARGIN]
        inner[place.rows, place.columns] = texels[place.rows, place.columns]
        band = _count_at_once(max(right - left, len(cells)))
        for start in range(top, bottom, band):
            stop = min(start + band, bottom)
            along = _interpolated(cells, 0, place.sy, start - place.y, stop - place.y)
            sums = _interpolated(along, 1, place.sx, left - place.x, right - place.x)
            picture[start:stop, left:right] = np.clip(np.floor(sums / _ONE**2 + 0.5), 0, 255)
    return picture


#: Cells beyond each edge of a token that its pixels are interpolated from.
_MARGIN = 2


def _coarse_first(
    tokens: NDArray[np.void], rgb: NDArray[np.uint8], extent: tuple[int, int]
) -> list[tuple[_Place, NDArray[np.uint8]]]:
    """Places and texels in the order of painting: falling area of a texel, then as they come. Tokens without a pixel, and
    records that exceed the limits, are left out."""
    is_drawable = np.ones(len(tokens), bool)
    for *_, is_within in limits(tokens, rgb.shape[1], extent):
        is_drawable &= is_within
    placed = []
    for token, texels in zip(tokens[is_drawable], rgb[is_drawable]):
        place = _Place.of(token)
        left, top, right, bottom = place.pixels(extent)
        if left < right and top < bottom:
            placed.append((place, texels))
    return sorted(placed, key=lambda token: -token[0].sx * token[0].sy)


def _count_at_once(pixels: int) -> int:
    """How many rows of so many pixels are worked on at a time, so that memory stays bounded."""
    return max(1, (1 << 20) // max(1, pixels))


def _cell_means(picture: NDArray[np.uint8], place: _Place, side: int) -> NDArray[np.float64]:
    """Means of the picture over the cells of a token and the margin around them, [P + 4, P + 4, 3]."""
    height, width = picture.shape[:2]
    count, area = side + 2 * _MARGIN, place.sx * place.sy
    xs = np.clip(place.x - _MARGIN * place.sx + np.arange(count * place.sx), 0, width - 1)
    ys = np.clip(place.y - _MARGIN * place.sy + np.arange(count * place.sy), 0, height - 1)
    region = picture[:, xs[0] : xs[-1] + 1]
    sums = np.empty((count, count, 3), np.int64)
    # Rows first: sums of whole rows are quick.
    step = _count_at_once(max(region.shape[1] * place.sy, len(xs)))
    for start in range(0, count, step):
        rows = ys[start * place.sy : (start + step) * place.sy]
        taken = region[rows[0] : rows[-1] + 1].take(rows - rows[0], axis=0)
        in_rows = taken.reshape(-1, place.sy, region.shape[1], 3).sum(1, dtype=np.int64)
        in_cells = in_rows.take(xs - xs[0], axis=1).reshape(len(in_rows), count, place.sx, 3)
        sums[start : start + step] = in_cells.sum(2)
    return ((sums + area // 2) // area).astype(np.float64)


#: Weights are whole numbers of this part of 1.
_ONE = 1 << 14


@lru_cache(maxsize=64)
def _taps(step: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Of each pixel of a texel, along one axis: the first of the four cells that it is interpolated from, counted from the
    start of the margin and for the first texel, and their weights, [step] and [step, 4]."""
    # In half pixels from the centre of the first cell of the margin.
    place = 2 * np.arange(step) + 1 - step + 2 * _MARGIN * step
    cell = place // (2 * step)
    t = (place - 2 * step * cell) / (2 * step)
    exact = np.stack([((2 - t) * t - 1) * t / 2, ((3 * t - 5) * t * t + 2) / 2, ((4 - 3 * t) * t + 1) * t / 2], axis=1)
    rounded = np.floor(exact * _ONE + 0.5)
    return cell - 1, np.column_stack([rounded, _ONE - rounded.sum(1)])


def _interpolated(cells: NDArray[np.float64], axis: int, step: int, start: int, stop: int) -> NDArray[np.float64]:
    """Cells interpolated along an axis at the pixels ``start`` to ``stop`` of a token, in parts of :data:`_ONE`."""
    # Whole numbers below 2^53: no sum is rounded.
    texel, pixel = np.divmod(np.arange(start, stop), step)
    first, weights = _taps(step)
    shape = (-1, 1, 1) if axis == 0 else (1, -1, 1)
    taps = (cells.take(texel + first[pixel] + tap, axis) * weights[pixel, tap].reshape(shape) for tap in range(4))
    return reduce(np.add, taps)
