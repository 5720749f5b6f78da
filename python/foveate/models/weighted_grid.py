"""The relevance of a view as one weight for each patch of a model's own grid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .common import Unsuitable

if TYPE_CHECKING:
    from ..frame import TokenFrame

_NAME = "models.weighted_grid"


def weights(
    frame: TokenFrame,
    rows: int,
    columns: int,
    box: Sequence[float] | None = None,
    uncovered: float = 0.0,
) -> NDArray[np.float32]:
    """The mean relevance of the source pixels under each patch, where a pixel has its token's relevance.

    With a layout whose tokens overlap, each token counts by the area that it shares with the patch. 1/16 to 16; 1 without
    a relevance map.

    :param rows: rows of the model's grid.
    :param columns: its columns.
    :param box: the part of the source that the model sees, (x0, y0, x1, y1) in source pixels, beyond the picture if its
        input is letterboxed; None for the whole picture.
    :param uncovered: the weight of a patch that no token covers.
    :returns: [rows, columns].
    :raises Unsuitable: if the grid has no patches, or the box is empty.
    """
    if rows < 1 or columns < 1:
        raise Unsuitable(_NAME, "rows x columns", (rows, columns), "a grid has at least one row and one column")
    x0, y0, x1, y1 = (0, 0, *frame.info.extent) if box is None else box
    if not (x0 < x1 and y0 < y1):
        raise Unsuitable(_NAME, "box", (x0, y0, x1, y1), "x0 < x1 and y0 < y1, in source pixels")
    boxes = frame.tokens["box"].astype(np.float64)
    across = _overlaps(boxes[:, 0], boxes[:, 2], np.linspace(x0, x1, columns + 1))
    down = _overlaps(boxes[:, 1], boxes[:, 3], np.linspace(y0, y1, rows + 1))
    area = down.T @ across
    total = (down * frame.tokens["relevance"].astype(np.float64)[:, None]).T @ across
    # What rounding leaves of two boxes that only touch is not an overlap.
    is_covered = area > 1e-9
    return np.where(is_covered, total / np.where(is_covered, area, 1), uncovered).astype(np.float32)


def _overlaps(
    first: NDArray[np.float64], end: NDArray[np.float64], edges: NDArray[np.float64]
) -> NDArray[np.float64]:
    """How much of each interval lies between each two edges, [N, len(edges) - 1]."""
    shared = np.minimum(end[:, None], edges[1:]) - np.maximum(first[:, None], edges[:-1])
    return np.maximum(shared, 0)
