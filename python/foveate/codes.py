"""Numbers in a segment, and what they stand for."""

from __future__ import annotations

from typing import Any

import numpy as np

#: ``CameraBlock.kind``.
CAMERA_NONE, CAMERA_PINHOLE = 0, 1

STATES = {1: "live", 2: "stalled", 3: "ended"}
CAPTURE_CLOCKS = {0: "unknown", 1: "running-time", 2: "reference"}
FIXATION_REASONS = {0: "policy", 1: "look", 2: "attend", 3: "saliency", 4: "relevance", 5: "changed", 6: "unseen"}
BACKENDS = {1: "cpu", 2: "vulkan"}
OUTSIDES = {0: "edge", 1: "mean"}
ROUNDINGS = {0: "half-up", 1: "floor"}
#: ``SegmentHeader.color_matrix`` of samples that are RGB.
COLOR_MATRIX_RGB = 1
#: The numbers are those of GStreamer's GstVideoColorMatrix, GstVideoColorRange and GstVideoTransferFunction.
COLOR_MATRICES = {2: "fcc", 3: "bt709", 4: "bt601", 5: "smpte240m", 6: "bt2020"}
COLOR_RANGES = {1: "full", 2: "limited"}
COLOR_TRANSFERS = {
    1: "gamma10",
    2: "gamma18",
    3: "gamma20",
    4: "gamma22",
    5: "bt709",
    6: "smpte240m",
    7: "srgb",
    8: "gamma28",
    9: "log100",
    10: "log316",
    11: "bt2020-12",
    12: "adobergb",
    13: "bt2020-10",
    14: "smpte2084",
    15: "arib-std-b67",
    16: "bt601",
}
#: Bits of ``SegmentHeader.color_assumed``.
COLOR_ASSUMED = {1: "matrix", 2: "range"}

#: Element type of a plane, by its code in the table of planes. NumPy has no bfloat16: its bits come as uint16.
DTYPES: dict[int, np.dtype[Any]] = {1: np.dtype("u1"), 2: np.dtype("<f2"), 3: np.dtype("<u2"), 4: np.dtype("<f4")}
DTYPE_NAMES = {1: "u8", 2: "f16", 3: "bf16", 4: "f32"}
