"""The structs of a segment as types of NumPy, with the names and offsets of ``docs/reference/abi.md``.

Do not edit: generated from src/ring/abi.rs by ``FOVEATE_WRITE_ABI=1 cargo test -p foveate-ring --test ring abi_files``.
"""

import numpy as np

#: The first bytes of a segment.
MAGIC = b"FOVEATE"
#: Other major versions are refused.
ABI_MAJOR = 1
#: Newer minor versions only add to it.
ABI_MINOR = 0
#: Offset of slot 0 in a segment.
HEADER_BYTES = 4096
#: Offset of the LiveBlock in a segment.
LIVE_OFFSET = 1408
#: Offset of the CameraFrameBlock in a segment.
CAMERA_FRAME_OFFSET = 1792
#: Offset of the ChannelBlock in a segment.
CHANNEL_OFFSET = 2072
#: Alignment of planes and slots.
PLANE_ALIGNMENT = 64
#: Size of a notice on the subscription socket.
NOTICE_BYTES = 16
#: Size of the text of a state, with its NUL.
REASON_BYTES = 128
#: Most planes of a segment.
PLANE_COUNT_MAX = 8
#: Most channels that a view publishes.
CHANNEL_COUNT_MAX = 63
#: Most fixations of a frame.
FOVEAE_MAX = 8
#: Fewest slots of a ring.
SLOT_COUNT_MIN = 2
#: Most slots of a ring.
SLOT_COUNT_MAX = 1024
#: Longest side of a source, in pixels.
SOURCE_SIDE_MAX = 16384
#: Most tokens of a frame.
TOKEN_CAPACITY_MAX = 16777216
#: Longest side of a token, in texels.
PATCH_SIDE_MAX = 1024
#: Most source pixels of a texel along an axis.
STEP_MAX = 2048
#: Longest side of a token with a real step, in source pixels.
REAL_SIDE_MAX = 4096
#: Bit of SlotHeader.flags: pts_ns is valid.
FLAG_PTS = 1

#: The projection of the camera, as in ROS's `camera_info`. All 0 without a calibration.
CAMERA_BLOCK = np.dtype(
    [
        ("kind", "<u4"),
        ("coefficient_count", "<u4"),
        ("distortion_name", "S32"),
        ("k", "<f8", 9),
        ("coefficients", "<f8", 14),
    ]
)

#: One array, found by its name. Where `order` begins with `N`, it has an item for each token; otherwise all of its
#: items are valid in every frame.
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

#: State of a view, and its reason.
STATE_BLOCK = np.dtype(
    [
        ("code", "<u4"),
        ("reserved", "<u4"),
        ("reason", "S128"),
    ]
)

#: A point that the view looked at.
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

#: The constant part of a segment, at offset 0. It never changes.
SEGMENT_HEADER = np.dtype(
    [
        ("magic", "S8"),
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

#: Pose of the camera, and the pipeline's transform of its picture; at offset 1792. It never changes. All 0 without a
#: camera model.
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

#: The channels of the plane `channels`; at offset 2072. It never changes. All 0 without that plane.
CHANNEL_BLOCK = np.dtype(
    [
        ("cell_side", "<u4"),
        ("count", "<u4"),
        ("names", "S32", 63),
    ]
)

#: The changing part of a segment, at offset 1408. Never read as plain memory: every number is one atomic of its size,
#: and `reason` is atomic words of 8 bytes, with the word of `code`.
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

#: The start of a slot: the header of a frame. Slot n % `slot_count` holds the frame with ring sequence n.
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
        ("fixations", FIXATION_BLOCK, 8),
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

#: Place of a token of P x P texels, and the frame in which its content last changed. It covers P `sx` + `extra_width`
#: by P `sy` + `extra_height` source pixels from (`x`, `y`).
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
