"""Number formats beside each other: bytes of a frame, and how far a texel is from the 8-bit value that it was made from."""

from __future__ import annotations

from typing import Any

import numpy as np
from common import Table, one_camera
from product import extract

FORMATS = ("u8", "f16", "bf16", "f32")
#: Of the default normalisation, "imagenet".
MEAN, STD = (np.array(row).reshape(3, 1, 1) for row in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))


def values(pixels: Any, dtype: str) -> Any:
    """In steps of 8 bits, not rounded."""
    if dtype == "u8":
        return pixels.astype(np.float64)
    numbers = (pixels.astype(np.uint32) << 16).view(np.float32) if dtype == "bf16" else pixels
    return (numbers.astype(np.float64) * STD + MEAN) * 255


def main() -> None:
    table = Table(
        ["format", "bytes of a frame of 273 tokens", "largest error, in steps of 8 bits", "texels off after rounding"]
    )
    source = one_camera()
    views = extract(source, {name: {"layout": "foveal", "dtype": name, "gaze": {"policy": "fixed"}} for name in FORMATS})
    exact = views["u8"].frame(source.measured[0])[1]
    for name, view in views.items():
        pixels = view.frame(source.measured[0])[1]
        found = values(pixels, name)
        off = np.count_nonzero(np.round(found) != exact)
        table.row(name, [f"{273 * pixels[0].nbytes:,}", f"{np.abs(found - exact).max():.3f}", f"{off}"])
    print(table)


if __name__ == "__main__":
    main()
