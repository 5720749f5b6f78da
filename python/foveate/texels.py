"""Values of texels, whatever their number format."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .segment import SegmentInfo


def floats(pixels: NDArray[Any], dtype: str) -> NDArray[np.float32]:
    """Texels as they are; exact, since each format is a subset of float32.

    :param pixels: texels of a ring, in any shape.
    :param dtype: their format, :attr:`foveate.SegmentInfo.dtype`.
    """
    if dtype == "bf16":
        # A bfloat16 is the upper half of a float32.
        return (pixels.astype(np.uint32) << 16).view(np.float32)
    return pixels.astype(np.float32)


def rgb(pixels: NDArray[Any], info: SegmentInfo) -> NDArray[np.uint8]:
    """The 8-bit values that texels were made from.

    :param pixels: [N, 3, P, P] of a ring.
    :returns: the same shape.
    """
    if info.dtype == "u8":
        return pixels
    mean, std = (np.reshape(np.asarray(values, np.float64), (3, 1, 1)) for values in (info.mean, info.std))
    values = (floats(pixels, info.dtype).astype(np.float64) * std + mean) * 255
    # Rounding of the format may lead a little beyond the ends.
    return np.clip(np.floor(values + 0.5), 0, 255).astype(np.uint8)
