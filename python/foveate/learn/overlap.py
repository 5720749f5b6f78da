"""How well chosen cells, tokens and positions cover the boxes of objects.

*Overlap* is the intersection of what was chosen with the boxes, over the union of both, in pixels. Several boxes count as
their union, and a pixel belongs to a box if its centre does. *Positions* are squares of a picture's finest patches, and one
lies in a box if its centre does.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

#: Positions that are chosen in a frame, and their side in pixels.
POSITIONS, POSITION_SIDE = 64, 16


def mask(boxes: NDArray[np.float64], size: tuple[int, int]) -> NDArray[np.bool_]:
    """The pixels in a union of boxes.

    :param boxes: [N, 4]: x0, y0, x1, y1 in pixels, half-open.
    :param size: width and height of the picture.
    :returns: [height, width].
    """
    covered = np.zeros((size[1], size[0]), np.bool_)
    # The first pixel whose centre, half a pixel on, is not before the edge.
    for x0, y0, x1, y1 in np.ceil(boxes - 0.5).astype(np.int64).clip(0):
        covered[y0:y1, x0:x1] = True
    return covered


def overlap(chosen: NDArray[np.bool_], truth: NDArray[np.bool_]) -> float:
    """Intersection over union of two masks; 0 if both are empty."""
    union = np.count_nonzero(chosen | truth)
    return np.count_nonzero(chosen & truth) / union if union else 0.0


class Cells:
    """The cells of a picture.

    :ivar area: [rows, columns], the pixels of each cell: fewer at the right and the bottom.
    """

    def __init__(self, size: tuple[int, int], side: int) -> None:
        """Of a picture of ``size``, width and height, in cells of ``side`` pixels."""
        self.size, self.side = size, side
        self.area = self.sums(np.ones((size[1], size[0]), np.bool_))

    def sums(self, picture: NDArray[np.bool_]) -> NDArray[np.int64]:
        """[rows, columns], how many pixels of a [height, width] mask each cell has."""
        rows, columns = -(-self.size[1] // self.side), -(-self.size[0] // self.side)
        padded = np.zeros((rows * self.side, columns * self.side), np.bool_)
        padded[: self.size[1], : self.size[0]] = picture
        return padded.reshape(rows, self.side, columns, self.side).sum((1, 3), dtype=np.int64)

    def count(self, covered: NDArray[np.int64]) -> int:
        """How many cells are chosen: as many as the boxes would fill, rounded up.

        :param covered: [rows, columns], the pixels of each cell that lie in boxes.
        """
        return max(1, math.ceil(int(covered.sum()) / self.side**2))

    def overlap(self, covered: NDArray[np.int64], chosen: NDArray[np.int64]) -> float:
        """Overlap of cells with boxes.

        :param chosen: indices of the cells, row by row.
        """
        both = int(covered.flat[chosen].sum())
        return both / (int(covered.sum()) + int(self.area.flat[chosen].sum()) - both)

    def greatest(self, score: NDArray[np.floating], count: int) -> NDArray[np.int64]:
        """Indices of the ``count`` cells of the greatest score, of equal ones the first."""
        return np.argsort(-score.ravel(), kind="stable")[:count]

    def by_score(self, covered: NDArray[np.int64], score: NDArray[np.floating]) -> float:
        """Overlap of as many cells as the boxes would fill, those of the greatest score."""
        return self.overlap(covered, self.greatest(score, self.count(covered)))

    def best_of_as_many(self, covered: NDArray[np.int64]) -> float:
        """The most that :meth:`by_score` could be: the cells that have most of the boxes."""
        return self.by_score(covered, covered / self.area)

    def best(self, covered: NDArray[np.int64]) -> float:
        """The overlap of the best choice of any number of cells."""
        order = self.greatest(covered / self.area, covered.size)
        both, area = np.cumsum(covered.flat[order]), np.cumsum(self.area.flat[order])
        return float((both / (covered.sum() + area - both)).max())


class Positions:
    """Squares of :data:`POSITION_SIDE` pixels from the top left corner on, those whose centre is in the picture."""

    def __init__(self, size: tuple[int, int]) -> None:
        """Of a picture of ``size``, width and height."""
        half = POSITION_SIDE // 2
        self.columns, self.rows = (np.arange(half, length, POSITION_SIDE) for length in size)

    def inside(self, picture: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """[rows, columns], which positions lie in the boxes of a [height, width] mask."""
        return picture[np.ix_(self.rows, self.columns)]

    def best(self, inside: NDArray[np.bool_]) -> float:
        """The most that :meth:`by_score` could be."""
        return min(1.0, np.count_nonzero(inside) / POSITIONS)

    def by_score(self, inside: NDArray[np.bool_], score: NDArray[np.floating], side: int) -> float:
        """Share of :data:`POSITIONS` positions that lie in boxes: those in the cells of the greatest score.

        :param score: [rows, columns] of cells of ``side`` pixels. Of equal scores the first counts, row by row.
        """
        of_each = score[np.ix_(self.rows // side, self.columns // side)]
        chosen = np.argsort(-of_each.ravel(), kind="stable")[:POSITIONS]
        return np.count_nonzero(inside.ravel()[chosen]) / POSITIONS
