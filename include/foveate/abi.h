// foveate/abi.h: the memory of a segment. foveate.h includes it, and docs/reference/abi.md explains it.
//
// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Do not edit: generated from src/ring/abi.rs by `FOVEATE_WRITE_ABI=1 cargo test -p foveate-ring --test ring abi_files`.

#ifndef FOVEATE_ABI_H
#define FOVEATE_ABI_H

#include <stddef.h>
#include <stdint.h>

#define FOVEATE_ABI_MAJOR 1 // Other major versions are refused.
#define FOVEATE_ABI_MINOR 0 // Newer minor versions only add to it.
#define FOVEATE_HEADER_BYTES 4096 // Offset of slot 0 in a segment.
#define FOVEATE_LIVE_OFFSET 1408 // Offset of the LiveBlock in a segment.
#define FOVEATE_CAMERA_FRAME_OFFSET 1792 // Offset of the CameraFrameBlock in a segment.
#define FOVEATE_CHANNEL_OFFSET 2072 // Offset of the ChannelBlock in a segment.
#define FOVEATE_PLANE_ALIGNMENT 64 // Alignment of planes and slots.
#define FOVEATE_NOTICE_BYTES 16 // Size of a notice on the subscription socket.
#define FOVEATE_REASON_BYTES 128 // Size of the text of a state, with its NUL.
#define FOVEATE_PLANE_COUNT_MAX 8 // Most planes of a segment.
#define FOVEATE_CHANNEL_COUNT_MAX 63 // Most channels that a view publishes.
#define FOVEATE_FOVEAE_MAX 8 // Most fixations of a frame.
#define FOVEATE_SLOT_COUNT_MIN 2 // Fewest slots of a ring.
#define FOVEATE_SLOT_COUNT_MAX 1024 // Most slots of a ring.
#define FOVEATE_SOURCE_SIDE_MAX 16384 // Longest side of a source, in pixels.
#define FOVEATE_TOKEN_CAPACITY_MAX 16777216 // Most tokens of a frame.
#define FOVEATE_PATCH_SIDE_MAX 1024 // Longest side of a token, in texels.
#define FOVEATE_STEP_MAX 2048 // Most source pixels of a texel along an axis.
#define FOVEATE_REAL_SIDE_MAX 4096 // Longest side of a token with a real step, in source pixels.
#define FOVEATE_FLAG_PTS 1 // Bit of SlotHeader.flags: pts_ns is valid.

#ifdef __cplusplus
#define FOVEATE__ASSERT(condition, text) static_assert(condition, text)
#else
#define FOVEATE__ASSERT(condition, text) _Static_assert(condition, text)
#endif
#define FOVEATE__AT(type, field, offset) \
    FOVEATE__ASSERT(offsetof(struct type, field) == (offset), #type "." #field " lies elsewhere")
#define FOVEATE__BYTES(type, bytes) FOVEATE__ASSERT(sizeof(struct type) == (bytes), #type " has another size")

// The projection of the camera, as in ROS's `camera_info`. All 0 without a calibration.
struct foveate_camera {
    // Camera model: 0 none, 1 pinhole. Others count as 0.
    uint32_t kind;
    // Entries of `coefficients` in use.
    uint32_t coefficient_count;
    // Name of the distortion model as in ROS: `plumb_bob`, `rational_polynomial`, `equidistant` or another.
    char distortion_name[32];
    // Camera matrix, row by row, in pixels of the calibrated picture, with the centre of the first pixel at (0, 0) as
    // in ROS.
    double k[9];
    // Distortion coefficients, in the order of `D` of `camera_info`.
    double coefficients[14];
};
FOVEATE__AT(foveate_camera, kind, 0);
FOVEATE__AT(foveate_camera, coefficient_count, 4);
FOVEATE__AT(foveate_camera, distortion_name, 8);
FOVEATE__AT(foveate_camera, k, 40);
FOVEATE__AT(foveate_camera, coefficients, 112);
FOVEATE__BYTES(foveate_camera, 224);

// One array, found by its name. Where `order` begins with `N`, it has an item for each token; otherwise all of its
// items are valid in every frame.
struct foveate_plane {
    // Name of the plane.
    char name[32];
    // One letter for each axis, such as `NCHW`; `N` for the tokens, which come first.
    char order[8];
    // Number format: 1 u8, 2 IEEE binary16, 3 bfloat16, 4 IEEE binary32.
    uint32_t dtype;
    // Axes, 1 to 4.
    uint32_t ndim;
    // Extent of each axis, at least 1; the first is the capacity where `order` begins with `N`; 0 from `ndim` on.
    uint32_t shape[4];
    // Start of the plane in a slot, a multiple of 64. In bytes.
    uint64_t offset;
    // Distance from one item to the next. An item is dense, its last axis fastest. In bytes.
    uint64_t token_stride;
    // Size of the plane. In bytes.
    uint64_t bytes;
    // Reserved: 0.
    uint64_t reserved;
};
FOVEATE__AT(foveate_plane, name, 0);
FOVEATE__AT(foveate_plane, order, 32);
FOVEATE__AT(foveate_plane, dtype, 40);
FOVEATE__AT(foveate_plane, ndim, 44);
FOVEATE__AT(foveate_plane, shape, 48);
FOVEATE__AT(foveate_plane, offset, 64);
FOVEATE__AT(foveate_plane, token_stride, 72);
FOVEATE__AT(foveate_plane, bytes, 80);
FOVEATE__AT(foveate_plane, reserved, 88);
FOVEATE__BYTES(foveate_plane, 96);

// State of a view, and its reason.
struct foveate_state_block {
    // 1 live; 2 stalled: no frames arrive, or the source is being reopened; 3 ended: no more frames in this segment.
    uint32_t code;
    // Reserved: 0.
    uint32_t reserved;
    // The reason, for people.
    char reason[128];
};
FOVEATE__AT(foveate_state_block, code, 0);
FOVEATE__AT(foveate_state_block, reserved, 4);
FOVEATE__AT(foveate_state_block, reason, 8);
FOVEATE__BYTES(foveate_state_block, 136);

// A point that the view looked at.
struct foveate_fixation {
    // Counts the fixations of the view, from 1.
    uint64_t id;
    // Distance from the source's left edge. In pixels.
    double x;
    // Distance from the source's top edge. In pixels.
    double y;
    // `frame_seq` of the first frame sampled around this fixation.
    uint64_t since_frame;
    // Value of the map here when the point was chosen, as a share of the map's greatest; 1 for a point.
    float weight;
    // 0 the view's policy, 1 a client's `look`, 2 a client's attention, 3 saliency, 4 relevance, 5 changed, 6 unseen.
    // Others count as 0.
    uint32_t reason;
};
FOVEATE__AT(foveate_fixation, id, 0);
FOVEATE__AT(foveate_fixation, x, 8);
FOVEATE__AT(foveate_fixation, y, 16);
FOVEATE__AT(foveate_fixation, since_frame, 24);
FOVEATE__AT(foveate_fixation, weight, 32);
FOVEATE__AT(foveate_fixation, reason, 36);
FOVEATE__BYTES(foveate_fixation, 40);

// The constant part of a segment, at offset 0. It never changes.
struct foveate_segment_header {
    // `FOVEATE`.
    char magic[8];
    // Major version of the ABI that the writer follows: 1.
    uint32_t abi_major;
    // Minor version of the ABI that the writer follows.
    uint32_t abi_minor;
    // Size of the segment: `header_bytes` + `slot_count` * `slot_stride`. In bytes.
    uint64_t total_bytes;
    // Offset of slot 0: 4096. In bytes.
    uint32_t header_bytes;
    // Slots of the ring, 2 to 1024.
    uint32_t slot_count;
    // Distance from one slot to the next. In bytes.
    uint64_t slot_stride;
    // Size of SlotHeader: 512. In bytes.
    uint32_t slot_header_bytes;
    // Size and stride of a TokenRecord: 56. In bytes.
    uint32_t record_bytes;
    // Offset of the records in a slot. In bytes.
    uint32_t records_offset;
    // Most tokens of a frame, 1 to 2^24.
    uint32_t token_capacity;
    // P: side of a token, 1 to 1024. In texels.
    uint32_t patch_side;
    // Entries of `planes` in use, 1 to 8.
    uint32_t plane_count;
    // Random; different for every segment.
    uint64_t epoch;
    // Width of the source. In pixels.
    uint32_t source_width;
    // Height of the source. In pixels.
    uint32_t source_height;
    // Backend when the segment was created: 1 CPU, 2 Vulkan. After the loss of a GPU the CPU continues in the segment,
    // with the same bytes if the threshold of change detection is 0; otherwise all tokens are resampled.
    uint32_t backend_kind;
    // Most fixations of a frame, 1 to 8.
    uint32_t fovea_capacity;
    // Mean of R, G and B: a texel is (value / 255 - `mean`) / `std`.
    double mean[3];
    // Standard deviation of R, G and B.
    double std[3];
    // The camera's format, as GStreamer names it.
    char pixel_format[16];
    // Name of the stream.
    char stream_name[64];
    // Name of the view.
    char view_name[64];
    // Name of the layout.
    char layout_name[32];
    // Name of the device, possibly truncated.
    char backend_device[64];
    // Columns of the grid over the source that the tokens of every frame form, row by row; 0 if they form none.
    uint32_t grid_columns;
    // Rows of the grid; 0 if the tokens form none.
    uint32_t grid_rows;
    // The camera model.
    struct foveate_camera camera;
    // What a texel without a real pixel holds: 0 the value of the nearest texel with one; 1 the number 0.
    uint32_t outside;
    // How the mean of a texel's pixels becomes 8 bits: 0 to the nearest value, half up; 1 down.
    uint32_t rounding;
    // Width of a pixel as it is meant to be shown; 0 counts as 1.
    uint32_t pixel_aspect_width;
    // Height of a pixel as it is meant to be shown; 0 counts as 1.
    uint32_t pixel_aspect_height;
    // How the source's samples become RGB: see Colour.
    uint16_t color_matrix;
    // The values of black and white: see Colour.
    uint16_t color_range;
    // The curve from light to samples: see Colour.
    uint16_t color_transfer;
    // Bits for what the source does not say: 1 the matrix, chosen by the height of the pictures; 2 the range, chosen by
    // the format.
    uint16_t color_assumed;
    // Reserved: 0.
    uint64_t reserved;
    // The table of planes.
    struct foveate_plane planes[8];
};
FOVEATE__AT(foveate_segment_header, magic, 0);
FOVEATE__AT(foveate_segment_header, abi_major, 8);
FOVEATE__AT(foveate_segment_header, abi_minor, 12);
FOVEATE__AT(foveate_segment_header, total_bytes, 16);
FOVEATE__AT(foveate_segment_header, header_bytes, 24);
FOVEATE__AT(foveate_segment_header, slot_count, 28);
FOVEATE__AT(foveate_segment_header, slot_stride, 32);
FOVEATE__AT(foveate_segment_header, slot_header_bytes, 40);
FOVEATE__AT(foveate_segment_header, record_bytes, 44);
FOVEATE__AT(foveate_segment_header, records_offset, 48);
FOVEATE__AT(foveate_segment_header, token_capacity, 52);
FOVEATE__AT(foveate_segment_header, patch_side, 56);
FOVEATE__AT(foveate_segment_header, plane_count, 60);
FOVEATE__AT(foveate_segment_header, epoch, 64);
FOVEATE__AT(foveate_segment_header, source_width, 72);
FOVEATE__AT(foveate_segment_header, source_height, 76);
FOVEATE__AT(foveate_segment_header, backend_kind, 80);
FOVEATE__AT(foveate_segment_header, fovea_capacity, 84);
FOVEATE__AT(foveate_segment_header, mean, 88);
FOVEATE__AT(foveate_segment_header, std, 112);
FOVEATE__AT(foveate_segment_header, pixel_format, 136);
FOVEATE__AT(foveate_segment_header, stream_name, 152);
FOVEATE__AT(foveate_segment_header, view_name, 216);
FOVEATE__AT(foveate_segment_header, layout_name, 280);
FOVEATE__AT(foveate_segment_header, backend_device, 312);
FOVEATE__AT(foveate_segment_header, grid_columns, 376);
FOVEATE__AT(foveate_segment_header, grid_rows, 380);
FOVEATE__AT(foveate_segment_header, camera, 384);
FOVEATE__AT(foveate_segment_header, outside, 608);
FOVEATE__AT(foveate_segment_header, rounding, 612);
FOVEATE__AT(foveate_segment_header, pixel_aspect_width, 616);
FOVEATE__AT(foveate_segment_header, pixel_aspect_height, 620);
FOVEATE__AT(foveate_segment_header, color_matrix, 624);
FOVEATE__AT(foveate_segment_header, color_range, 626);
FOVEATE__AT(foveate_segment_header, color_transfer, 628);
FOVEATE__AT(foveate_segment_header, color_assumed, 630);
FOVEATE__AT(foveate_segment_header, reserved, 632);
FOVEATE__AT(foveate_segment_header, planes, 640);
FOVEATE__BYTES(foveate_segment_header, 1408);

// Pose of the camera, and the pipeline's transform of its picture; at offset 1792. It never changes. All 0 without a
// camera model.
struct foveate_camera_frame {
    // `frame_id` of the camera's rays: x right, y down, z forward.
    char optical_frame[64];
    // Frame that the camera is mounted in; empty if unknown.
    char parent_frame[64];
    // Rows of [R, t]: from the optical frame to the parent's. In metres.
    double parent_from_optical[12];
    // Rows of a 2 x 3 matrix: from (x, y, 1) in pixels of the calibrated picture to pixels of the source. The centre of
    // the first pixel is at (0.5, 0.5) in both.
    double source_from_calibrated[6];
    // Width of the calibrated picture. In pixels.
    uint32_t calibrated_width;
    // Height of the calibrated picture. In pixels.
    uint32_t calibrated_height;
};
FOVEATE__AT(foveate_camera_frame, optical_frame, 0);
FOVEATE__AT(foveate_camera_frame, parent_frame, 64);
FOVEATE__AT(foveate_camera_frame, parent_from_optical, 128);
FOVEATE__AT(foveate_camera_frame, source_from_calibrated, 224);
FOVEATE__AT(foveate_camera_frame, calibrated_width, 272);
FOVEATE__AT(foveate_camera_frame, calibrated_height, 276);
FOVEATE__BYTES(foveate_camera_frame, 280);

// The channels of the plane `channels`; at offset 2072. It never changes. All 0 without that plane.
struct foveate_channels {
    // Side of a cell. Cells of the last row and column may reach beyond the source. In pixels.
    uint32_t cell_side;
    // Entries of `names` in use, at most 63: the first axis of the plane.
    uint32_t count;
    // Names of the channels, in the order of the plane.
    char names[63][32];
};
FOVEATE__AT(foveate_channels, cell_side, 0);
FOVEATE__AT(foveate_channels, count, 4);
FOVEATE__AT(foveate_channels, names, 8);
FOVEATE__BYTES(foveate_channels, 2024);

// The changing part of a segment, at offset 1408. Never read as plain memory: every number is one atomic of its size,
// and `reason` is atomic words of 8 bytes, with the word of `code`.
struct foveate_live {
    // Ring sequence of the newest complete frame; 0 before the first.
    uint64_t newest;
    // Incremented after each publish and each change of the state; wraps.
    uint32_t futex;
    // Reserved: 0.
    uint32_t reserved_0;
    // Reserved: 0.
    uint64_t reserved_1[6];
    // Counts the changes of the state; wraps.
    uint32_t state_sequence;
    // Reserved: 0.
    uint32_t reserved_2;
    // The state is `states[state_sequence % 2]`; the next one is written to the other.
    struct foveate_state_block states[2];
    // Reserved: 0.
    uint64_t reserved_3[5];
};
FOVEATE__AT(foveate_live, newest, 0);
FOVEATE__AT(foveate_live, futex, 8);
FOVEATE__AT(foveate_live, reserved_0, 12);
FOVEATE__AT(foveate_live, reserved_1, 16);
FOVEATE__AT(foveate_live, state_sequence, 64);
FOVEATE__AT(foveate_live, reserved_2, 68);
FOVEATE__AT(foveate_live, states, 72);
FOVEATE__AT(foveate_live, reserved_3, 344);
FOVEATE__BYTES(foveate_live, 384);

// The start of a slot: the header of a frame. Slot n % `slot_count` holds the frame with ring sequence n.
struct foveate_slot_header {
    // 2n while the slot holds frame n, 2n - 1 while frame n is being written; 0 before the first.
    uint64_t lock;
    // n: counts the frames of this segment, from 1.
    uint64_t ring_sequence;
    // Counts the frames of the stream, from 1; a gap is a dropped frame.
    uint64_t frame_seq;
    // Presentation time in the stream, which for a clip begins with its edit list; 0 unless bit 0 of `flags` is set. In
    // ns.
    uint64_t pts_ns;
    // Capture time on `CLOCK_MONOTONIC`. Never after `arrival_ns`: a later stamp is clamped to it, and counted. In ns.
    uint64_t capture_ns;
    // Capture time on `CLOCK_REALTIME`, since 1970. In ns.
    uint64_t capture_unix_ns;
    // Arrival in the daemon on `CLOCK_MONOTONIC`. In ns.
    uint64_t arrival_ns;
    // Publish time on `CLOCK_MONOTONIC`. In ns.
    uint64_t publish_ns;
    // Bit 0: `pts_ns` is valid.
    uint32_t flags;
    // Source of the capture time: 0 unknown, the arrival is used; 1 base time + running time; 2 reference timestamp.
    // Others count as 0.
    uint32_t capture_clock;
    // Largest possible difference between a camera sample and the one in the pyramid, which tokens are sampled from:
    // the threshold of change detection.
    uint32_t sample_bound;
    // Largest possible difference between a channel of a texel, before it is normalised, and the one made of the newest
    // frame: what samples within `sample_bound` make of an RGB value, and `sample_bound` more if tokens may keep their
    // texels (changed_frame).
    uint32_t rgb_bound;
    // Tokens of this frame, at most `token_capacity`.
    uint32_t token_count;
    // Tiles of 32 x 32 pixels that were ingested for this frame.
    uint32_t dirty_tiles;
    // Tiles of the source.
    uint32_t tile_count;
    // Entries of `fixations` in use, 1 to `fovea_capacity`. Readers clamp it to 1 to 8.
    uint32_t fixation_count;
    // `frame_seq` of the frame that the relevance of the tokens was made from; 0 without a relevance map.
    uint64_t relevance_frame;
    // Arrival of the message that led to the newest fixation, on `CLOCK_MONOTONIC`; 0 if no message did. In ns.
    uint64_t asked_ns;
    // Where the view looked, each in the place that it keeps.
    struct foveate_fixation fixations[8];
    // `frame_seq` of the frame that the plane `channels` was made from; 0 before the first decision, and without that
    // plane.
    uint64_t channels_frame;
    // How the picture moved up to frame `motion_frame`: rows of a 2 x 3 matrix from (x, y, 1) in source pixels of the
    // frame that the stream took before that one to source pixels of it.
    float motion[6];
    // `frame_seq` of the frame that `motion` leads to, an earlier one than this; 0 if the motion is unknown, as after a
    // cut, or not computed.
    uint64_t motion_frame;
    // Bound of the error of `CLOCK_REALTIME` when the frame arrived: see capture time; 0 if unknown. In ns.
    uint64_t capture_error_ns;
    // How often `CLOCK_REALTIME` was set since the daemon started.
    uint64_t clock_steps;
    // Capture time on `CLOCK_MONOTONIC` of the depth picture that the planes `depth` and `boxes` were made from; 0 if
    // the frame has none, and without those planes. In ns.
    uint64_t depth_capture_ns;
    // Number of that picture in the depth pipeline, from 1; 0 if there is none.
    uint64_t depth_frame;
    // Reserved: 0.
    uint64_t reserved;
};
FOVEATE__AT(foveate_slot_header, lock, 0);
FOVEATE__AT(foveate_slot_header, ring_sequence, 8);
FOVEATE__AT(foveate_slot_header, frame_seq, 16);
FOVEATE__AT(foveate_slot_header, pts_ns, 24);
FOVEATE__AT(foveate_slot_header, capture_ns, 32);
FOVEATE__AT(foveate_slot_header, capture_unix_ns, 40);
FOVEATE__AT(foveate_slot_header, arrival_ns, 48);
FOVEATE__AT(foveate_slot_header, publish_ns, 56);
FOVEATE__AT(foveate_slot_header, flags, 64);
FOVEATE__AT(foveate_slot_header, capture_clock, 68);
FOVEATE__AT(foveate_slot_header, sample_bound, 72);
FOVEATE__AT(foveate_slot_header, rgb_bound, 76);
FOVEATE__AT(foveate_slot_header, token_count, 80);
FOVEATE__AT(foveate_slot_header, dirty_tiles, 84);
FOVEATE__AT(foveate_slot_header, tile_count, 88);
FOVEATE__AT(foveate_slot_header, fixation_count, 92);
FOVEATE__AT(foveate_slot_header, relevance_frame, 96);
FOVEATE__AT(foveate_slot_header, asked_ns, 104);
FOVEATE__AT(foveate_slot_header, fixations, 112);
FOVEATE__AT(foveate_slot_header, channels_frame, 432);
FOVEATE__AT(foveate_slot_header, motion, 440);
FOVEATE__AT(foveate_slot_header, motion_frame, 464);
FOVEATE__AT(foveate_slot_header, capture_error_ns, 472);
FOVEATE__AT(foveate_slot_header, clock_steps, 480);
FOVEATE__AT(foveate_slot_header, depth_capture_ns, 488);
FOVEATE__AT(foveate_slot_header, depth_frame, 496);
FOVEATE__AT(foveate_slot_header, reserved, 504);
FOVEATE__BYTES(foveate_slot_header, 512);

// Place of a token of P x P texels, and the frame in which its content last changed. It covers P `sx` + `extra_width`
// by P `sy` + `extra_height` source pixels from (`x`, `y`).
struct foveate_token {
    // Newest `frame_seq` that changed a pixel of a tile of 32 x 32 pixels under the texels that the token is read from,
    // when the token was last resampled. While the threshold is 0 it is resampled whenever such a tile changes. Unless
    // that is fixed, it keeps its texels and this number until one of its texels has moved by more than `sample_bound`,
    // such a tile is refreshed, a mask or the backend changes, or a frame has no token at its place. Without a real
    // pixel, in a view whose texels outside are the mean, it always keeps this number while it keeps its place.
    uint64_t changed_frame;
    // First column of the token's box. The box is half-open and clipped to the source; empty if the token lies outside.
    // In pixels.
    uint32_t x0;
    // First row of the box. In pixels.
    uint32_t y0;
    // One past the last column of the box. In pixels.
    uint32_t x1;
    // One past the last row of the box. In pixels.
    uint32_t y1;
    // Left edge of the token; may lie outside the source. In pixels.
    int32_t x;
    // Top edge of the token; may lie outside the source. In pixels.
    int32_t y;
    // Width of a texel, rounded down, 1 to 2048. In pixels.
    uint16_t sx;
    // Height of a texel, rounded down, 1 to 2048. In pixels.
    uint16_t sy;
    // P: side of the token. In texels.
    uint16_t size;
    // Pyramid level, ring, window or block: see layouts.
    uint16_t group;
    // First column of texels with a real pixel.
    uint16_t first_column;
    // Columns with a real pixel, from `first_column` on; 0 if the token lies left or right of the source.
    uint16_t columns;
    // First row of texels with a real pixel.
    uint16_t first_row;
    // Rows with a real pixel, from `first_row` on; 0 if the token lies above or below the source.
    uint16_t rows;
    // Index in `fixations` of the one that the token belongs to.
    uint16_t fovea;
    // Columns of the token beyond P `sx`. In pixels.
    uint8_t extra_width;
    // Rows of the token beyond P `sy`. In pixels.
    uint8_t extra_height;
    // Weight of the token's place in the layout, 1/16 to 16: the maximum of the relevance map under it; 1 without a
    // map.
    float relevance;
};
FOVEATE__AT(foveate_token, changed_frame, 0);
FOVEATE__AT(foveate_token, x0, 8);
FOVEATE__AT(foveate_token, y0, 12);
FOVEATE__AT(foveate_token, x1, 16);
FOVEATE__AT(foveate_token, y1, 20);
FOVEATE__AT(foveate_token, x, 24);
FOVEATE__AT(foveate_token, y, 28);
FOVEATE__AT(foveate_token, sx, 32);
FOVEATE__AT(foveate_token, sy, 34);
FOVEATE__AT(foveate_token, size, 36);
FOVEATE__AT(foveate_token, group, 38);
FOVEATE__AT(foveate_token, first_column, 40);
FOVEATE__AT(foveate_token, columns, 42);
FOVEATE__AT(foveate_token, first_row, 44);
FOVEATE__AT(foveate_token, rows, 46);
FOVEATE__AT(foveate_token, fovea, 48);
FOVEATE__AT(foveate_token, extra_width, 50);
FOVEATE__AT(foveate_token, extra_height, 51);
FOVEATE__AT(foveate_token, relevance, 52);
FOVEATE__BYTES(foveate_token, 56);

#endif // FOVEATE_ABI_H
