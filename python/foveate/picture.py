"""Pictures rebuilt from tokens: what the tokens are, and what a model is given as a picture."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


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
        """From a record. This is the only place here that knows its fields."""
        x, y, sx, sy, column, columns, row, rows = (
            int(token[name]) for name in ("x", "y", "sx", "sy", "first_column", "columns", "first_row", "rows")
        )
        return cls(x, y, sx, sy, slice(column, column + columns), slice(row, row + rows))


def replicated(tokens: NDArray[np.void], rgb: NDArray[np.uint8], extent: tuple[int, int]) -> NDArray[np.uint8]:
    """Each texel fills the pixels that it is the mean of; where tokens overlap, those with smaller steps are on top.

    :param tokens: [N] of :data:`foveate.TOKEN`.
    :param rgb: [N, P, P, 3] uint8.
    :param extent: width and height of the picture.
    :returns: [height, width, 3] uint8; black where no token lies.
    """
    width, height = extent
    picture = np.zeros((height, width, 3), np.uint8)
    for place, texels in _coarse_first(tokens, rgb):
        texels = texels[place.rows, place.columns]
        left, top = place.x + place.columns.start * place.sx, place.y + place.rows.start * place.sy
        block = texels.repeat(place.sy, axis=0).repeat(place.sx, axis=1)
        block = block[max(0, -top) :, max(0, -left) :]
        target = picture[max(0, top) :, max(0, left) :][: block.shape[0], : block.shape[1]]
        target[:] = block[: target.shape[0], : target.shape[1]]
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
    height, width = plain.shape[:2]
    side = rgb.shape[1]
    for place, texels in _coarse_first(tokens, rgb):
        x, y, sx, sy = place[:4]
        left, right = max(0, x + place.columns.start * sx), min(width, x + place.columns.stop * sx)
        top, bottom = max(0, y + place.rows.start * sy), min(height, y + place.rows.stop * sy)
        if left >= right or top >= bottom:
            continue
        if sx == sy == 1:
            picture[top:bottom, left:right] = plain[top:bottom, left:right]
            continue
        cells = _cell_means(plain, place, side)
        inner = cells[_MARGIN:-_MARGIN, _MARGIN:-_MARGIN]
        inner[place.rows, place.columns] = texels[place.rows, place.columns]
        rows = _weights(side, sy)[top - y : bottom - y]
        columns = _weights(side, sx)[left - x : right - x]
        # Whole numbers below 2^53: no sum is rounded.
        sums = columns @ (rows @ cells.reshape(len(cells), -1)).reshape(len(rows), len(cells), 3)
        picture[top:bottom, left:right] = np.clip(np.floor(sums / _ONE**2 + 0.5), 0, 255)
    return picture


#: Cells beyond each edge of a token that its pixels are interpolated from.
_MARGIN = 2


def _coarse_first(tokens: NDArray[np.void], rgb: NDArray[np.uint8]) -> list[tuple[_Place, NDArray[np.uint8]]]:
    """Places and texels in the order of painting: falling area of a texel, then as they come."""
    placed = [(_Place.of(token), texels) for token, texels in zip(tokens, rgb)]
    return sorted(placed, key=lambda token: -token[0].sx * token[0].sy)


def _cell_means(picture: NDArray[np.uint8], place: _Place, side: int) -> NDArray[np.float64]:
    """Means of the picture over the cells of a token and the margin around them, [P + 4, P + 4, 3]."""
    height, width = picture.shape[:2]
    count, pixels = side + 2 * _MARGIN, place.sx * place.sy
    xs = np.clip(place.x - _MARGIN * place.sx + np.arange(count * place.sx), 0, width - 1)
    ys = np.clip(place.y - _MARGIN * place.sy + np.arange(count * place.sy), 0, height - 1)
    rows = picture[ys[0] : ys[-1] + 1].take(ys - ys[0], axis=0).take(xs, axis=1)
    # Rows first: sums of whole rows are quick.
    sums = rows.reshape(count, place.sy, -1).sum(1, dtype=np.int64).reshape(count, count, place.sx, 3).sum(2)
    return ((sums + pixels // 2) // pixels).astype(np.float64)


#: Weights are whole numbers of this part of 1.
_ONE = 1 << 14


@lru_cache(maxsize=64)
def _weights(side: int, step: int) -> NDArray[np.float64]:
    """Weight of each cell, margin included, in each pixel along one axis of a token: [P step, P + 4]."""
    weights = np.zeros((side * step, side + 2 * _MARGIN))
    for pixel in range(side * step):
        # In half pixels from the centre of the first cell of the margin.
        place = 2 * pixel + 1 - step + 2 * _MARGIN * step
        first = place // (2 * step)
        t = (place - 2 * step * first) / (2 * step)
        taps = [((2 - t) * t - 1) * t / 2, ((3 * t - 5) * t * t + 2) / 2, ((4 - 3 * t) * t + 1) * t / 2]
        before, here, after = (np.floor(tap * _ONE + 0.5) for tap in taps)
        weights[pixel, first - 1 : first + 3] = before, here, after, _ONE - before - here - after
    return weights
