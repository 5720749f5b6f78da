// Prints where every field of the ABI lies for a C compiler, for comparison with docs/reference/abi.md. A line for each field of each struct,
//
//     STRUCT.FIELD OFFSET BYTES
//
// with the names of docs/reference/abi.md and the offset in the struct, after a line for the struct itself,
//
//     STRUCT OFFSET BYTES
//
// with the offset of the first one in a segment.

#include <foveate.h>

#include <stdio.h>

#define STRUCT(name, offset, type) printf("%s %zu %zu\n", name, (size_t)(offset), sizeof(struct type))
#define FIELD(name, type, field) \
    printf("%s.%s %zu %zu\n", name, #field, offsetof(struct type, field), sizeof(((struct type *)0)->field))

static void print_segment_header(void) {
    STRUCT("SegmentHeader", 0, foveate_segment_header);
    FIELD("SegmentHeader", foveate_segment_header, magic);
    FIELD("SegmentHeader", foveate_segment_header, abi_major);
    FIELD("SegmentHeader", foveate_segment_header, abi_minor);
    FIELD("SegmentHeader", foveate_segment_header, total_bytes);
    FIELD("SegmentHeader", foveate_segment_header, header_bytes);
    FIELD("SegmentHeader", foveate_segment_header, slot_count);
    FIELD("SegmentHeader", foveate_segment_header, slot_stride);
    FIELD("SegmentHeader", foveate_segment_header, slot_header_bytes);
    FIELD("SegmentHeader", foveate_segment_header, record_bytes);
    FIELD("SegmentHeader", foveate_segment_header, records_offset);
    FIELD("SegmentHeader", foveate_segment_header, token_capacity);
    FIELD("SegmentHeader", foveate_segment_header, patch_side);
    FIELD("SegmentHeader", foveate_segment_header, plane_count);
    FIELD("SegmentHeader", foveate_segment_header, epoch);
    FIELD("SegmentHeader", foveate_segment_header, source_width);
    FIELD("SegmentHeader", foveate_segment_header, source_height);
    FIELD("SegmentHeader", foveate_segment_header, backend_kind);
    FIELD("SegmentHeader", foveate_segment_header, fovea_capacity);
    FIELD("SegmentHeader", foveate_segment_header, mean);
    FIELD("SegmentHeader", foveate_segment_header, std);
    FIELD("SegmentHeader", foveate_segment_header, pixel_format);
    FIELD("SegmentHeader", foveate_segment_header, stream_name);
    FIELD("SegmentHeader", foveate_segment_header, view_name);
    FIELD("SegmentHeader", foveate_segment_header, layout_name);
    FIELD("SegmentHeader", foveate_segment_header, backend_device);
    FIELD("SegmentHeader", foveate_segment_header, grid_columns);
    FIELD("SegmentHeader", foveate_segment_header, grid_rows);
    FIELD("SegmentHeader", foveate_segment_header, camera);
    FIELD("SegmentHeader", foveate_segment_header, outside);
    FIELD("SegmentHeader", foveate_segment_header, rounding);
    FIELD("SegmentHeader", foveate_segment_header, pixel_aspect_width);
    FIELD("SegmentHeader", foveate_segment_header, pixel_aspect_height);
    FIELD("SegmentHeader", foveate_segment_header, color_matrix);
    FIELD("SegmentHeader", foveate_segment_header, color_range);
    FIELD("SegmentHeader", foveate_segment_header, color_transfer);
    FIELD("SegmentHeader", foveate_segment_header, color_assumed);
    FIELD("SegmentHeader", foveate_segment_header, reserved);
    FIELD("SegmentHeader", foveate_segment_header, planes);
}

static void print_camera_block(void) {
    STRUCT("CameraBlock", offsetof(struct foveate_segment_header, camera), foveate_camera);
    FIELD("CameraBlock", foveate_camera, kind);
    FIELD("CameraBlock", foveate_camera, coefficient_count);
    FIELD("CameraBlock", foveate_camera, distortion_name);
    FIELD("CameraBlock", foveate_camera, k);
    FIELD("CameraBlock", foveate_camera, coefficients);
}

static void print_channel_block(void) {
    STRUCT("ChannelBlock", FOVEATE_CHANNEL_OFFSET, foveate_channels);
    FIELD("ChannelBlock", foveate_channels, cell_side);
    FIELD("ChannelBlock", foveate_channels, count);
    FIELD("ChannelBlock", foveate_channels, names);
}

static void print_plane_entry(void) {
    STRUCT("PlaneEntry", offsetof(struct foveate_segment_header, planes), foveate_plane);
    FIELD("PlaneEntry", foveate_plane, name);
    FIELD("PlaneEntry", foveate_plane, order);
    FIELD("PlaneEntry", foveate_plane, dtype);
    FIELD("PlaneEntry", foveate_plane, ndim);
    FIELD("PlaneEntry", foveate_plane, shape);
    FIELD("PlaneEntry", foveate_plane, offset);
    FIELD("PlaneEntry", foveate_plane, token_stride);
    FIELD("PlaneEntry", foveate_plane, bytes);
    FIELD("PlaneEntry", foveate_plane, reserved);
}

static void print_live_block(void) {
    STRUCT("LiveBlock", FOVEATE_LIVE_OFFSET, foveate_live);
    FIELD("LiveBlock", foveate_live, newest);
    FIELD("LiveBlock", foveate_live, futex);
    FIELD("LiveBlock", foveate_live, reserved_0);
    FIELD("LiveBlock", foveate_live, reserved_1);
    FIELD("LiveBlock", foveate_live, state_sequence);
    FIELD("LiveBlock", foveate_live, reserved_2);
    FIELD("LiveBlock", foveate_live, states);
    FIELD("LiveBlock", foveate_live, reserved_3);
}

static void print_state_block(void) {
    STRUCT("StateBlock", FOVEATE_LIVE_OFFSET + offsetof(struct foveate_live, states), foveate_state_block);
    FIELD("StateBlock", foveate_state_block, code);
    FIELD("StateBlock", foveate_state_block, reserved);
    FIELD("StateBlock", foveate_state_block, reason);
}

static void print_camera_frame_block(void) {
    STRUCT("CameraFrameBlock", FOVEATE_CAMERA_FRAME_OFFSET, foveate_camera_frame);
    FIELD("CameraFrameBlock", foveate_camera_frame, optical_frame);
    FIELD("CameraFrameBlock", foveate_camera_frame, parent_frame);
    FIELD("CameraFrameBlock", foveate_camera_frame, parent_from_optical);
    FIELD("CameraFrameBlock", foveate_camera_frame, source_from_calibrated);
    FIELD("CameraFrameBlock", foveate_camera_frame, calibrated_width);
    FIELD("CameraFrameBlock", foveate_camera_frame, calibrated_height);
}

static void print_slot_header(void) {
    STRUCT("SlotHeader", FOVEATE_HEADER_BYTES, foveate_slot_header);
    FIELD("SlotHeader", foveate_slot_header, lock);
    FIELD("SlotHeader", foveate_slot_header, ring_sequence);
    FIELD("SlotHeader", foveate_slot_header, frame_seq);
    FIELD("SlotHeader", foveate_slot_header, pts_ns);
    FIELD("SlotHeader", foveate_slot_header, capture_ns);
    FIELD("SlotHeader", foveate_slot_header, capture_unix_ns);
    FIELD("SlotHeader", foveate_slot_header, arrival_ns);
    FIELD("SlotHeader", foveate_slot_header, publish_ns);
    FIELD("SlotHeader", foveate_slot_header, flags);
    FIELD("SlotHeader", foveate_slot_header, capture_clock);
    FIELD("SlotHeader", foveate_slot_header, sample_bound);
    FIELD("SlotHeader", foveate_slot_header, rgb_bound);
    FIELD("SlotHeader", foveate_slot_header, token_count);
    FIELD("SlotHeader", foveate_slot_header, dirty_tiles);
    FIELD("SlotHeader", foveate_slot_header, tile_count);
    FIELD("SlotHeader", foveate_slot_header, fixation_count);
    FIELD("SlotHeader", foveate_slot_header, relevance_frame);
    FIELD("SlotHeader", foveate_slot_header, asked_ns);
    FIELD("SlotHeader", foveate_slot_header, fixations);
    FIELD("SlotHeader", foveate_slot_header, channels_frame);
    FIELD("SlotHeader", foveate_slot_header, motion);
    FIELD("SlotHeader", foveate_slot_header, motion_frame);
    FIELD("SlotHeader", foveate_slot_header, capture_error_ns);
    FIELD("SlotHeader", foveate_slot_header, clock_steps);
    FIELD("SlotHeader", foveate_slot_header, depth_capture_ns);
    FIELD("SlotHeader", foveate_slot_header, depth_frame);
    FIELD("SlotHeader", foveate_slot_header, reserved);
}

static void print_fixation_block(void) {
    STRUCT("FixationBlock", FOVEATE_HEADER_BYTES + offsetof(struct foveate_slot_header, fixations), foveate_fixation);
    FIELD("FixationBlock", foveate_fixation, id);
    FIELD("FixationBlock", foveate_fixation, x);
    FIELD("FixationBlock", foveate_fixation, y);
    FIELD("FixationBlock", foveate_fixation, since_frame);
    FIELD("FixationBlock", foveate_fixation, weight);
    FIELD("FixationBlock", foveate_fixation, reason);
}

static void print_token_record(void) {
    STRUCT("TokenRecord", FOVEATE_HEADER_BYTES + sizeof(struct foveate_slot_header), foveate_token);
    FIELD("TokenRecord", foveate_token, changed_frame);
    FIELD("TokenRecord", foveate_token, x0);
    FIELD("TokenRecord", foveate_token, y0);
    FIELD("TokenRecord", foveate_token, x1);
    FIELD("TokenRecord", foveate_token, y1);
    FIELD("TokenRecord", foveate_token, x);
    FIELD("TokenRecord", foveate_token, y);
    FIELD("TokenRecord", foveate_token, sx);
    FIELD("TokenRecord", foveate_token, sy);
    FIELD("TokenRecord", foveate_token, size);
    FIELD("TokenRecord", foveate_token, group);
    FIELD("TokenRecord", foveate_token, first_column);
    FIELD("TokenRecord", foveate_token, columns);
    FIELD("TokenRecord", foveate_token, first_row);
    FIELD("TokenRecord", foveate_token, rows);
    FIELD("TokenRecord", foveate_token, fovea);
    FIELD("TokenRecord", foveate_token, extra_width);
    FIELD("TokenRecord", foveate_token, extra_height);
    FIELD("TokenRecord", foveate_token, relevance);
}

int main(void) {
    print_segment_header();
    print_camera_block();
    print_plane_entry();
    print_live_block();
    print_state_block();
    print_camera_frame_block();
    print_channel_block();
    print_slot_header();
    print_fixation_block();
    print_token_record();
    return 0;
}
