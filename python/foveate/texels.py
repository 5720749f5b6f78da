"""Values of texels, whatever their number format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from .frame import TokenInfo

#: Texels that are converted at a time.
_TEXELS_AT_ONCE = 1 << 22


def floats(pixels: NDArray[Any], dtype: str) -> NDArray[np.float32]:
    """Texels as they are; exact, since each format is a subset of float32.

    :param pixels: texels of a ring, in any shape.
    :param dtype: their format, :attr:`foveate.SegmentInfo.dtype`.
    """
    if dtype == "bf16":
        # A bfloat16 is the upper half of a float32.
        return (pixels.astype(np.uint32) << 16).view(np.float32)
    return pixels.astype(np.float32)


def rgb(pixels: NDArray[Any], info: TokenInfo) -> NDArray[np.uint8]:
    """The 8-bit values that texels were made from.

    :param pixels: [N, 3, P, P] of a ring.
    :returns: the same shape.
    """
    if info.dtype == "u8":
        return pixels
    mean, std = (np.reshape(np.asarray(values, np.float64), (3, 1, 1)) for values in (info.mean, info.std))
    rounded = np.empty(pixels.shape, np.uint8)
    # As doubles they would take many times their memory.
    step = max(1, _TEXELS_AT_ONCE // max(1, pixels[:1].size))
    for start in range(0, len(pixels), step):
        part = floats(pixels[start : start + step], info.dtype).astype(np.float64)
        # Rounding of the format may lead a little beyond the ends.
        rounded[start : start + step] = np.clip(np.floor((part * std + mean) * 255 + 0.5), 0, 255)
    return rounded
