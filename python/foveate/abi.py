"""The memory of a segment, byte by byte: ABI 2.3, as specified in ``docs/reference/abi.md``.

Everything is little-endian. NumPy's structured types are the structs of the document, with the same names and offsets;
a test compares the two.
"""

from __future__ import annotations

from typing import Any

import numpy as np

MAGIC = b"FOVEATE\0"
ABI_MAJOR = 2
ABI_MINOR = 3

#: Offset of slot 0, in bytes.
HEADER_BYTES = 4096
#: Bounds of the number of slots, both included.
SLOT_COUNT_MIN, SLOT_COUNT_MAX = 2, 1024
#: Alignment of planes and slots, in bytes.
PLANE_ALIGNMENT = 64
#: The longest side of a source, in pixels.
SIDE_MAX = 16384
#: Most tokens of a frame.
CAPACITY_MAX = 1 << 24
#: The longest side of a token, in texels.
PATCH_MAX = 1024
#: Most source pixels of a texel along an axis.
STEP_MAX = 2048
#: The longest side of a token of a real step, in source pixels.
REAL_SIDE_MAX = 4096
#: Bytes of a shared word.
WORD_BYTES = 8
#: Bytes of a notice on the subscription socket.
NOTICE_BYTES = 16
#: Bit of ``SlotHeader.flags``: ``pts_ns`` is valid.
FLAG_PTS = 1
#: Most fixations of a frame.
FOVEAE_MAX = 8
#: ``CameraBlock.kind``.
CAMERA_NONE, CAMERA_PINHOLE = 0, 1

STATES = {1: "live", 2: "stalled", 3: "ended"}
CAPTURE_CLOCKS = {0: "unknown", 1: "running-time", 2: "reference"}
FIXATION_REASONS = {0: "policy", 1: "look", 2: "attend", 3: "saliency", 4: "relevance"}
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

CAMERA_BLOCK = np.dtype(
    [
        ("kind", "<u4"),
        ("coefficient_count", "<u4"),
        ("distortion_name", "S32"),
        ("k", "<f8", 9),
        ("coefficients", "<f8", 14),
    ]
)

PLANE_ENTRY = np.dtype(
    [
        ("name", "S32"),
        ("order", "S8"),
        ("dtype", "<u4"),
        ("ndim", "<u4"),
        ("shape", "<u4", 4),
        ("offset", "<u8"),
        ("token_stride", "<u8"),
        ("bytes", "<u8"),
        ("reserved", "<u8"),
    ]
)

SEGMENT_HEADER = np.dtype(
    [
        ("magic", "V8"),
        ("abi_major", "<u4"),
        ("abi_minor", "<u4"),
        ("total_bytes", "<u8"),
        ("header_bytes", "<u4"),
        ("slot_count", "<u4"),
        ("slot_stride", "<u8"),
        ("slot_header_bytes", "<u4"),
        ("record_bytes", "<u4"),
        ("records_offset", "<u4"),
        ("token_capacity", "<u4"),
        ("patch_side", "<u4"),
        ("plane_count", "<u4"),
        ("epoch", "<u8"),
        ("source_width", "<u4"),
        ("source_height", "<u4"),
        ("backend_kind", "<u4"),
        ("fovea_capacity", "<u4"),
        ("mean", "<f8", 3),
        ("std", "<f8", 3),
        ("pixel_format", "S16"),
        ("stream_name", "S64"),
        ("view_name", "S64"),
        ("layout_name", "S32"),
        ("backend_device", "S64"),
        ("grid_columns", "<u4"),
        ("grid_rows", "<u4"),
        ("camera", CAMERA_BLOCK),
        ("outside", "<u4"),
        ("rounding", "<u4"),
        ("pixel_aspect_width", "<u4"),
        ("pixel_aspect_height", "<u4"),
        ("color_matrix", "<u2"),
        ("color_range", "<u2"),
        ("color_transfer", "<u2"),
        ("color_assumed", "<u2"),
        ("reserved", "<u8"),
        ("planes", PLANE_ENTRY, 8),
    ]
)

STATE_BLOCK = np.dtype([("code", "<u4"), ("reserved", "<u4"), ("reason", "S128")])

#: At :data:`LIVE_OFFSET`. Never read whole: each number is an atomic of its own.
LIVE_BLOCK = np.dtype(
    [
        ("newest", "<u8"),
        ("futex", "<u4"),
        ("reserved_0", "<u4"),
        ("reserved_1", "<u8", 6),
        ("state_sequence", "<u4"),
        ("reserved_2", "<u4"),
        ("states", STATE_BLOCK, 2),
        ("reserved_3", "<u8", 5),
    ]
)
LIVE_OFFSET = SEGMENT_HEADER.itemsize

#: Pose of the camera, and the pipeline's transform of its picture; at :data:`CAMERA_FRAME_OFFSET`.
CAMERA_FRAME_BLOCK = np.dtype(
    [
        ("optical_frame", "S64"),
        ("parent_frame", "S64"),
        ("parent_from_optical", "<f8", 12),
        ("source_from_calibrated", "<f8", 6),
        ("calibrated_width", "<u4"),
        ("calibrated_height", "<u4"),
    ]
)
CAMERA_FRAME_OFFSET = LIVE_OFFSET + LIVE_BLOCK.itemsize

#: What the items of the plane ``channels`` are; at :data:`CHANNEL_OFFSET`.
CHANNEL_BLOCK = np.dtype([("cell_side", "<u4"), ("count", "<u4"), ("names", "S32", 63)])
CHANNEL_OFFSET = CAMERA_FRAME_OFFSET + CAMERA_FRAME_BLOCK.itemsize

FIXATION_BLOCK = np.dtype(
    [
        ("id", "<u8"),
        ("x", "<f8"),
        ("y", "<f8"),
        ("since_frame", "<u8"),
        ("weight", "<f4"),
        ("reason", "<u4"),
    ]
)

SLOT_HEADER = np.dtype(
    [
        ("lock", "<u8"),
        ("ring_sequence", "<u8"),
        ("frame_seq", "<u8"),
        ("pts_ns", "<u8"),
        ("capture_ns", "<u8"),
        ("capture_unix_ns", "<u8"),
        ("arrival_ns", "<u8"),
        ("publish_ns", "<u8"),
        ("flags", "<u4"),
        ("capture_clock", "<u4"),
        ("sample_bound", "<u4"),
        ("rgb_bound", "<u4"),
        ("token_count", "<u4"),
        ("dirty_tiles", "<u4"),
        ("tile_count", "<u4"),
        ("fixation_count", "<u4"),
        ("relevance_frame", "<u8"),
        ("asked_ns", "<u8"),
        ("fixations", FIXATION_BLOCK, FOVEAE_MAX),
        ("channels_frame", "<u8"),
        ("motion", "<f4", 6),
        ("motion_frame", "<u8"),
        ("capture_error_ns", "<u8"),
        ("clock_steps", "<u8"),
        ("depth_capture_ns", "<u8"),
        ("depth_frame", "<u8"),
        ("reserved", "<u8"),
    ]
)

#: One token: what ``frame.tokens`` is an array of. ``box`` is x0, y0, x1, y1 of the document in one field.
TOKEN = np.dtype(
    [
        ("changed_frame", "<u8"),
        ("box", "<u4", 4),
        ("x", "<i4"),
        ("y", "<i4"),
        ("sx", "<u2"),
        ("sy", "<u2"),
        ("size", "<u2"),
        ("group", "<u2"),
        ("first_column", "<u2"),
        ("columns", "<u2"),
        ("first_row", "<u2"),
        ("rows", "<u2"),
        ("fovea", "<u2"),
        ("extra_width", "u1"),
        ("extra_height", "u1"),
        ("relevance", "<f4"),
    ]
)

#: The fields of a record that say where its texels lie. In a segment tokens of the same place and ``changed_frame`` have
#: the same bytes.
PLACE = ("x", "y", "sx", "sy", "extra_width", "extra_height")


def offset_of(struct: Any, field: str) -> int:
    """Offset of ``field`` in ``struct``, in bytes."""
    return int(struct.fields[field][1])


def unpadded(text: bytes) -> bytes:
    """The text before the first NUL."""
    return text.split(b"\0", 1)[0]
