"""Pictures of what a scorer finds: relevance over the frame, what was chosen, and the boxes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import picture as pictures
from ..abi import TOKEN
from ..models.common import library
from .overlap import Cells

_BOX, _CHOSEN = (0, 255, 0), (255, 255, 255)


def heat(score: NDArray[np.floating]) -> NDArray[np.uint8]:
    """Black, red, yellow for a score of 0 to 4 octaves above the mean: [rows, columns, 3]."""
    part = np.clip((score - score.mean()) / 4, 0, 1)
    bands = np.stack([part * 2, part * 2 - 1, np.zeros_like(part)], axis=-1)
    return (np.clip(bands, 0, 1) * 255).astype(np.uint8)


def frame(tokens: Any, pixels: NDArray[np.uint8], size: tuple[int, int]) -> NDArray[np.uint8]:
    """The picture that tokens of `foveate extract` show, [height, width, 3]."""
    return pictures.smoothed(tokens.view(TOKEN), np.moveaxis(pixels, 1, 3), size)


def draw(
    path: Path,
    picture: NDArray[np.uint8] | None,
    score: NDArray[np.floating],
    cells: Cells,
    chosen: NDArray[np.float64],
    boxes: NDArray[np.float64],
) -> None:
    """Writes a PNG: the heat of a score over a frame; what was chosen is outlined in white, boxes in green.

    :param picture: [height, width, 3] uint8, or None for black.
    :param score: [rows, columns] in octaves.
    :param chosen: [N, 4]: x0, y0, x1, y1 in pixels.
    :param boxes: [M, 4].
    """
    image = library("PIL.Image", "Pillow", "--pictures")
    drawing = library("PIL.ImageDraw", "Pillow", "--pictures")
    width, height = cells.size
    layer = heat(score).repeat(cells.side, 0).repeat(cells.side, 1)[:height, :width]
    below = np.zeros((height, width, 3), np.uint8) if picture is None else picture
    canvas = image.fromarray((below * 0.6 + layer * 0.4).astype(np.uint8))
    pen = drawing.Draw(canvas)
    for color, lines, thick in ((_CHOSEN, chosen, 1), (_BOX, boxes, 2)):
        for x0, y0, x1, y1 in lines:
            pen.rectangle((x0, y0, x1 - 1, y1 - 1), outline=color, width=thick)
    canvas.save(path)
