"""Pictures rebuilt from tokens: what the tokens are, and what a model is given as a picture."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache, reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import abi


def limits(
    tokens: NDArray[np.void], patch: int, extent: tuple[int, int]
) -> Iterator[tuple[str, str, NDArray[Any], NDArray[np.bool_]]]:
    """The limits of ``docs/reference/abi.md`` that bound what a record may make a reader allocate, or index.

    :returns: of each: the field, the expected values in words, the values of the records, and which of these are within.
    """
    (width, height), box = extent, tokens["box"]
    for field in ("sx", "sy"):
        yield field, f"1 to {abi.STEP_MAX}", tokens[field], (1 <= tokens[field]) & (tokens[field] <= abi.STEP_MAX)
    yield "size", str(patch), tokens["size"], tokens["size"] == patch
    is_real = (tokens["extra_width"] != 0) | (tokens["extra_height"] != 0)
    for step, extra in (("sx", "extra_width"), ("sy", "extra_height")):
        yield extra, f"at most {patch - 1}", tokens[extra], tokens[extra] < patch
        side = tokens[step].astype("u4") * patch + tokens[extra]
        expected = f"at most {abi.REAL_SIDE_MAX} where an extra is not 0"
        yield f"{patch} {step} + {extra}", expected, side, ~is_real | (side <= abi.REAL_SIDE_MAX)
    for first, count in (("first_column", "columns"), ("first_row", "rows")):
        end = tokens[first].astype("u4") + tokens[count]
        yield f"{first} + {count}", f"at most {patch}", end, end <= patch
    for axis, name, side in ((0, "x", width), (1, "y", height)):
        start, end = box[:, axis], box[:, axis + 2]
        yield f"{name}1", f"{name}0 to {side}", end, (start <= end) & (end <= side)


#: What a token's place consists of, and its texels that have real pixels.
#: The fields of a record that say where its texels lie. In a segment tokens of the same place and ``changed_frame`` have
#: the same bytes.
PLACE = ("x", "y", "sx", "sy", "extra_width", "extra_height")
_FIELDS = (*PLACE, "first_column", "columns", "first_row", "rows")


class _Axis(NamedTuple):
    """The texels of a token along one axis: texel u covers the pixels from ``origin`` + u ``step`` / ``parts`` to the
    next.
    """

    origin: int
    #: Width of a texel in parts of a pixel. The fraction is in lowest terms.
    step: int
    #: Parts of a pixel.
    parts: int
    #: The texels that have real pixels.
    real: slice

    @classmethod
    def of(cls, origin: int, length: int, side: int, first: int, count: int) -> _Axis:
        """Of ``side`` texels over ``length`` pixels."""
        common = math.gcd(length, side)
        return cls(origin, length // common, side // common, slice(first, first + count))

    def pixels(self, length: int) -> tuple[int, int]:
        """The pixels of a picture whose centres lie in the real texels: the first, and the first one after."""
        # Rounded up, from twice the distance of the texel's edge and the centre of the token's first pixel.
        first, end = (
            self.origin - (self.parts - 2 * texel * self.step) // (2 * self.parts)
            for texel in (self.real.start, self.real.stop)
        )
        return max(0, first), min(length, end)

    def texels(self, start: int, stop: int) -> NDArray[np.int64]:
        """The texel under the centre of each pixel from ``start`` to ``stop``."""
        return (2 * (np.arange(start, stop) - self.origin) + 1) * self.parts // (2 * self.step)


class _Cells(NamedTuple):
    """The pixels under each cell of an axis, one cell after the other; a pixel that two cells share is there twice."""

    #: From the first pixel of the token.
    pixels: NDArray[np.int64]
    #: Parts of each pixel that lie in the cell.
    weights: NDArray[np.int64]
    #: Where the pixels of each cell begin.
    starts: NDArray[np.int64]


# Few, because those of large tokens have megabytes.
@lru_cache(maxsize=8)
def _cells(step: int, parts: int, side: int) -> _Cells:
    """The cells of ``side`` texels of ``step`` / ``parts`` pixels, and of the margins."""
    edges = step * np.arange(-_MARGIN, side + _MARGIN + 1)
    first, end = edges[:-1] // parts, -(-edges[1:] // parts)
    counts = end - first
    starts = np.cumsum(counts) - counts
    pixels = np.arange(counts.sum()) + np.repeat(first - starts, counts)
    shared_end = np.minimum((pixels + 1) * parts, np.repeat(edges[1:], counts))
    shared_start = np.maximum(pixels * parts, np.repeat(edges[:-1], counts))
    return _Cells(pixels, shared_end - shared_start, starts)


class _Place(NamedTuple):
    """Where a token lies."""

    across: _Axis
    down: _Axis
    #: Pixels under it, those outside the picture included.
    area: int

    @classmethod
    def of(cls, token: Any, side: int) -> _Place:
        """From a record. Only this and :func:`limits` know its fields."""
        x, y, sx, sy, extra_width, extra_height, column, columns, row, rows = (int(token[name]) for name in _FIELDS)
        width, height = side * sx + extra_width, side * sy + extra_height
        across, down = _Axis.of(x, width, side, column, columns), _Axis.of(y, height, side, row, rows)
        return cls(across, down, width * height)

    @property
    def is_exact(self) -> bool:
        """Whether each texel is a pixel."""
        return self.across.step == self.across.parts == self.down.step == self.down.parts

    def cells(self, side: int) -> tuple[int, int, int, int]:
        """The pixels under its ``side`` x ``side`` cells and the margins: left, top, right, bottom."""
        (left, right), (top, bottom) = (
            (axis.origin + -_MARGIN * axis.step // axis.parts, axis.origin - (side + _MARGIN) * -axis.step // axis.parts)
            for axis in (self.across, self.down)
        )
        return left, top, right, bottom

    def pixels(self, extent: tuple[int, int]) -> tuple[int, int, int, int]:
        """The pixels of a picture that its real texels cover: left, top, right, bottom."""
        (left, right), (top, bottom) = self.across.pixels(extent[0]), self.down.pixels(extent[1])
        return left, top, right, bottom


#: Left, top, right and bottom of a part of a picture, in pixels.
Box = tuple[int, int, int, int]


def replicated(
    tokens: NDArray[np.void], rgb: NDArray[np.uint8], extent: tuple[int, int], box: Box | None = None
) -> NDArray[np.uint8]:
    """Each texel fills the pixels whose centres lie in it; where tokens overlap, those of the smaller area, width by height,
    are on top.

    :param tokens: [N] of :data:`foveate.TOKEN`. Records that exceed the :func:`limits` are left out.
    :param rgb: [N, P, P, 3] uint8.
    :param extent: width and height of the picture.
    :param box: the part of it that is drawn, inside it; None for all.
    :returns: [height, width, 3] uint8, of the box if there is one; black where no token lies.
    """
    box = box or (0, 0, *extent)
    x, y = box[:2]
    picture = np.zeros((box[3] - y, box[2] - x, 3), np.uint8)
    for place, texels in _coarse_first(tokens, rgb, extent, box):
        left, top, right, bottom = _common(place.pixels(extent), box)
        columns, rows = place.across.texels(left, right), place.down.texels(top, bottom)
        band = _count_at_once(right - left)
        for start in range(top, bottom, band):
            stop = min(start + band, bottom)
            part = texels.take(rows[start - top : stop - top], axis=0).take(columns, axis=1)
            picture[start - y : stop - y, left - x : right - x] = part
    return picture


def smoothed(
    tokens: NDArray[np.void], rgb: NDArray[np.uint8], extent: tuple[int, int], box: Box | None = None
) -> NDArray[np.uint8]:
    """A picture without the edges of texels and tokens; exact where the steps are 1.

    The texels of a token are cells of a grid that goes on beyond the token. A cell outside it has the mean of its
    pixels in the :func:`replicated` picture, by the share of each that lies in it, rounded half up; that picture goes
    on beyond its edges with the pixels at its edges. A pixel is interpolated between the centres of 4 x 4 cells by
    Catmull-Rom splines, with weights rounded to 2^-14 along each axis, and rounded half up. Where tokens overlap, those
    of the smaller area, width by height, are on top. All of it is exact, so every reader draws the same bytes.

    Parameters and result as of :func:`replicated`.
    """
    box = box or (0, 0, *extent)
    placed = _coarse_first(tokens, rgb, extent, box)
    around = _common(reduce(_both, (place.cells(rgb.shape[1]) for place, _ in placed), box), (0, 0, *extent))
    plain = replicated(tokens, rgb, extent, around)
    x, y = box[:2]
    picture = _part(plain, box, around).copy()
    for place, texels in placed:
        left, top, right, bottom = _common(place.pixels(extent), box)
        if place.is_exact:
            part = _part(plain, (left, top, right, bottom), around)
            picture[top - y : bottom - y, left - x : right - x] = part
            continue
        cells = _cell_means(plain, place, rgb.shape[1], around[:2])
        inner = cells[_MARGIN:-_MARGIN, _MARGIN:-_MARGIN]
        real = place.down.real, place.across.real
        inner[real] = texels[real]
        band = _count_at_once(max(right - left, len(cells)))
        for start in range(top, bottom, band):
            stop = min(start + band, bottom)
            along = _interpolated(cells, 0, place.down, start, stop)
            sums = _interpolated(along, 1, place.across, left, right)
            part = np.clip(np.floor(sums / _ONE**2 + 0.5), 0, 255)
            picture[start - y : stop - y, left - x : right - x] = part
    return picture


def _common(one: Box, other: Box) -> Box:
    """What lies in both boxes."""
    (x0, y0), (x1, y1) = (map(max, one[:2], other[:2])), (map(min, one[2:], other[2:]))
    return x0, y0, x1, y1


def _both(one: Box, other: Box) -> Box:
    """The smallest box around two."""
    (x0, y0), (x1, y1) = (map(min, one[:2], other[:2])), (map(max, one[2:], other[2:]))
    return x0, y0, x1, y1


def _part(picture: NDArray[np.uint8], box: Box, of: Box) -> NDArray[np.uint8]:
    """A box of a picture that is itself the box ``of`` of another one."""
    (x, y), (x0, y0, x1, y1) = of[:2], box
    return picture[y0 - y : y1 - y, x0 - x : x1 - x]


#: Cells beyond each edge of a token that its pixels are interpolated from.
_MARGIN = 2


def _coarse_first(
    tokens: NDArray[np.void], rgb: NDArray[np.uint8], extent: tuple[int, int], box: Box
) -> list[tuple[_Place, NDArray[np.uint8]]]:
    """Places and texels in the order of painting: falling area of the token, then as they come. Tokens without a pixel in
    the box, and records that exceed the limits, are left out."""
    is_drawable = np.ones(len(tokens), bool)
    for *_, is_within in limits(tokens, rgb.shape[1], extent):
        is_drawable &= is_within
    placed = []
    for token, texels in zip(tokens[is_drawable], rgb[is_drawable], strict=True):
        place = _Place.of(token, rgb.shape[1])
        left, top, right, bottom = _common(place.pixels(extent), box)
        if left < right and top < bottom:
            placed.append((place, texels))
    return sorted(placed, key=lambda token: -token[0].area)


def _count_at_once(pixels: int) -> int:
    """How many rows of so many pixels are worked on at a time, so that memory stays bounded."""
    return max(1, (1 << 20) // max(1, pixels))


def _cell_means(
    picture: NDArray[np.uint8], place: _Place, side: int, origin: tuple[int, int]
) -> NDArray[np.float64]:
    """Means of the picture over the cells of a token and the margin around them, [P + 4, P + 4, 3]. ``origin`` is where the
    picture begins in the whole one, which ends where it does unless the cells do before."""
    height, width = picture.shape[:2]
    area = place.across.step * place.down.step
    across, down = (_cells(axis.step, axis.parts, side) for axis in (place.across, place.down))
    xs = np.clip(place.across.origin + across.pixels - origin[0], 0, width - 1)
    ys = np.clip(place.down.origin + down.pixels - origin[1], 0, height - 1)
    region = picture[:, xs[0] : xs[-1] + 1]
    count = len(down.starts)
    sums = np.empty((count, count, 3), np.int64)
    ends = np.append(down.starts[1:], len(ys))
    # Rows first: sums of whole rows are quick.
    step = _count_at_once(max(region.shape[1], len(xs)) * -(-place.down.step // place.down.parts + 1))
    for start in range(0, count, step):
        stop = min(start + step, count)
        which = slice(down.starts[start], ends[stop - 1])
        rows = ys[which]
        taken = region[rows[0] : rows[-1] + 1].take(rows - rows[0], axis=0)
        weighted = taken * down.weights[which, None, None]
        in_rows = np.add.reduceat(weighted, down.starts[start:stop] - down.starts[start], axis=0)
        weighted = in_rows.take(xs - xs[0], axis=1) * across.weights[:, None]
        sums[start:stop] = np.add.reduceat(weighted, across.starts, axis=1)
    return ((sums + area // 2) // area).astype(np.float64)


#: Weights are whole numbers of this part of 1.
_ONE = 1 << 14


@lru_cache(maxsize=64)
def _taps(step: int, parts: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Of each pixel of the first ``parts`` texels, along one axis: the first of the four cells that it is interpolated from,
    counted from the start of the margin, and their weights, [step] and [step, 4]."""
    # From the centre of the first cell of the margin, where a cell is 2 * step wide.
    place = (2 * np.arange(step) + 1) * parts - step + 2 * _MARGIN * step
    cell = place // (2 * step)
    t = (place - 2 * step * cell) / (2 * step)
    exact = np.stack([((2 - t) * t - 1) * t / 2, ((3 * t - 5) * t * t + 2) / 2, ((4 - 3 * t) * t + 1) * t / 2], axis=1)
    rounded = np.floor(exact * _ONE + 0.5)
    return cell - 1, np.column_stack([rounded, _ONE - rounded.sum(1)])


def _interpolated(cells: NDArray[np.float64], index: int, axis: _Axis, start: int, stop: int) -> NDArray[np.float64]:
    """Cells interpolated along axis ``index`` at the pixels ``start`` to ``stop``, in parts of :data:`_ONE`."""
    # Whole numbers below 2^53: no sum is rounded.
    period, pixel = np.divmod(np.arange(start, stop) - axis.origin, axis.step)
    first, weights = _taps(axis.step, axis.parts)
    cell = period * axis.parts + first[pixel]
    shape = (-1, 1, 1) if index == 0 else (1, -1, 1)
    taps = (cells.take(cell + tap, index) * weights[pixel, tap].reshape(shape) for tap in range(4))
    return reduce(np.add, taps)
