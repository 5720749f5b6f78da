//! The shared-memory format: ABI 1.0.
//!
//! ```text
//! 0     SegmentHeader     written once, before the segment is shared
//! 1408  LiveBlock         newest sequence, futex word, state
//! 1792  CameraFrameBlock  written once: camera pose and picture geometry
//! 2072  ChannelBlock      written once: names of the channels
//! 4096  slot 0            SlotHeader, TokenRecord * capacity, planes
//!       slot 1            at slot_stride from the one before
//!       ...
//! ```
//!
//! Everything is little-endian. Reserved bytes are 0. Texts are UTF-8, padded with at least one NUL.
//!
//! This file is the only definition of the structs. `include/foveate/abi.h`, `python/foveate/abi.py` and the tables of
//! `docs/reference/abi.md` are generated from it (`tests/ring/abi_files.rs`); so the documentation of a field must make sense in any language.

use bytemuck::{Pod, Zeroable};

use foveate_core::channel::PUBLISHED_MAX;
use foveate_core::geometry::fixation::FOVEAE_MAX;
use foveate_core::token::WINDOW_SIDES;

use super::schema::structs;
use super::text::Text;

/// First bytes of a segment, as a text.
pub const MAGIC: &str = "FOVEATE";

/// Incremented when an old reader would misread a new segment.
pub const ABI_MAJOR: u32 = 1;

/// Incremented when reserved bytes or a plane gain a meaning that old readers may ignore.
pub const ABI_MINOR: u32 = 0;

/// Offset of the first slot.
pub const HEADER_BYTES: usize = 4096;

/// Offset of [`LiveBlock`], directly after [`SegmentHeader`].
pub const LIVE_OFFSET: usize = size_of::<SegmentHeader>();

/// Offset of [`CameraFrameBlock`], directly after [`LiveBlock`].
pub const CAMERA_FRAME_OFFSET: usize = LIVE_OFFSET + size_of::<LiveBlock>();

/// Offset of [`ChannelBlock`], directly after [`CameraFrameBlock`].
pub const CHANNEL_OFFSET: usize = CAMERA_FRAME_OFFSET + size_of::<CameraFrameBlock>();

/// Alignment of slots: a page, so that a device may import one.
pub const SLOT_ALIGNMENT: usize = 4096;

/// Alignment of planes in a slot: a cache line.
pub const PLANE_ALIGNMENT: usize = 64;

/// Entries of the table of planes.
pub const PLANE_COUNT_MAX: usize = 8;

/// Fewest slots of a ring: one to read while the writer fills the next.
pub const MIN_SLOT_COUNT: u32 = 2;

/// Far above any use; limits what a reader must accept.
pub const SLOT_COUNT_MAX: u32 = 1024;

/// Most tokens of a frame: far above any use, so that no size overflows.
pub const CAPACITY_MAX: usize = 1 << 24;

/// Longest side of a token, in texels.
pub const PATCH_SIDE_MAX: u32 = *WINDOW_SIDES.end();

/// Bit of [`SlotHeader::flags`]: `pts_ns` is valid.
pub const FLAG_PTS: u32 = 1;

/// Size of [`StateBlock::reason`], including at least one NUL.
pub const REASON_BYTES: usize = 128;

/// Bytes of a notice: the newest ring sequence and its publish time in nanoseconds, two u64.
pub const NOTICE_BYTES: usize = 16;

/// [`SegmentHeader::color_matrix`] of samples that are RGB.
pub const COLOR_MATRIX_RGB: u16 = 1;

/// Bit of [`SegmentHeader::color_assumed`]: the matrix was chosen by the height of the pictures.
pub const ASSUMED_MATRIX: u16 = 1;

/// Bit of [`SegmentHeader::color_assumed`]: the range was chosen by the format.
pub const ASSUMED_RANGE: u16 = 2;

/// [`CameraBlock::kind`] of a pinhole camera.
pub const CAMERA_PINHOLE: u32 = 1;

structs! {
    /// The constant part of a segment, at offset 0. It never changes.
    SegmentHeader align 64 {
        /// `FOVEATE`.
        [0] magic: Text<8>;
        /// Major version of the ABI that the writer follows: 1.
        [8] abi_major: u32;
        /// Minor version of the ABI that the writer follows.
        [12] abi_minor: u32;
        /// Size of the segment: `header_bytes` + `slot_count` * `slot_stride`.
        [16] total_bytes: u64, unit bytes;
        /// Offset of slot 0: 4096.
        [24] header_bytes: u32, unit bytes;
        /// Slots of the ring, 2 to 1024.
        [28] slot_count: u32;
        /// Distance from one slot to the next.
        [32] slot_stride: u64, unit bytes;
        /// Size of SlotHeader: 512.
        [40] slot_header_bytes: u32, unit bytes;
        /// Size and stride of a TokenRecord: 56.
        [44] record_bytes: u32, unit bytes;
        /// Offset of the records in a slot.
        [48] records_offset: u32, unit bytes;
        /// Most tokens of a frame, 1 to 2^24.
        [52] token_capacity: u32;
        /// P: side of a token, 1 to 1024.
        [56] patch_side: u32, unit texels;
        /// Entries of `planes` in use, 1 to 8.
        [60] plane_count: u32;
        /// Random; different for every segment.
        [64] epoch: u64;
        /// Width of the source.
        [72] source_width: u32, unit pixels;
        /// Height of the source.
        [76] source_height: u32, unit pixels;
        /// Backend when the segment was created: 1 CPU, 2 Vulkan. After the loss of a GPU the CPU continues in the segment, with the
        /// same bytes if the threshold of change detection is 0; otherwise all tokens are resampled.
        [80] backend_kind: u32;
        /// Most fixations of a frame, 1 to 8.
        [84] fovea_capacity: u32;
        /// Mean of R, G and B: a texel is (value / 255 - `mean`) / `std`.
        [88] mean: [f64; 3];
        /// Standard deviation of R, G and B.
        [112] std: [f64; 3];
        /// The camera's format, as GStreamer names it.
        [136] pixel_format: Text<16>;
        /// Name of the stream.
        [152] stream_name: Text<64>;
        /// Name of the view.
        [216] view_name: Text<64>;
        /// Name of the layout.
        [280] layout_name: Text<32>;
        /// Name of the device, possibly truncated.
        [312] backend_device: Text<64>;
        /// Columns of the grid over the source that the tokens of every frame form, row by row; 0 if they form none.
        [376] grid_columns: u32;
        /// Rows of the grid; 0 if the tokens form none.
        [380] grid_rows: u32;
        /// The camera model.
        [384] camera: CameraBlock;
        /// What a texel without a real pixel holds: 0 the value of the nearest texel with one; 1 the number 0.
        [608] outside: u32;
        /// How the mean of a texel's pixels becomes 8 bits: 0 to the nearest value, half up; 1 down.
        [612] rounding: u32;
        /// Width of a pixel as it is meant to be shown; 0 counts as 1.
        [616] pixel_aspect_width: u32;
        /// Height of a pixel as it is meant to be shown; 0 counts as 1.
        [620] pixel_aspect_height: u32;
        /// How the source's samples become RGB: see [Colour](#colour).
        [624] color_matrix: u16;
        /// The values of black and white: see [Colour](#colour).
        [626] color_range: u16;
        /// The curve from light to samples: see [Colour](#colour).
        [628] color_transfer: u16;
        /// Bits for what the source does not say: 1 the matrix, chosen by the height of the pictures; 2 the range, chosen by the format.
        [630] color_assumed: u16;
        /// Reserved: 0.
        [632] reserved: u64;
        /// The table of planes.
        [640] planes: [PlaneEntry; PLANE_COUNT_MAX];
    }

    /// The projection of the camera, as in ROS's `camera_info`. All 0 without a calibration.
    CameraBlock {
        /// Camera model: 0 none, 1 pinhole. Others count as 0.
        [0] kind: u32;
        /// Entries of `coefficients` in use.
        [4] coefficient_count: u32;
        /// Name of the distortion model as in ROS: `plumb_bob`, `rational_polynomial`, `equidistant` or another.
        [8] distortion_name: Text<32>;
        /// Camera matrix, row by row, in pixels of the calibrated picture, with the centre of the first pixel at (0, 0) as in ROS.
        [40] k: [f64; 9];
        /// Distortion coefficients, in the order of `D` of `camera_info`.
        [112] coefficients: [f64; 14];
    }

    /// Pose of the camera, and the pipeline's transform of its picture; at offset 1792. It never changes. All 0 without a camera model.
    CameraFrameBlock {
        /// `frame_id` of the camera's rays: x right, y down, z forward.
        [0] optical_frame: Text<64>;
        /// Frame that the camera is mounted in; empty if unknown.
        [64] parent_frame: Text<64>;
        /// Rows of [R, t]: from the optical frame to the parent's.
        [128] parent_from_optical: [f64; 12], unit metres;
        /// Rows of a 2 x 3 matrix: from (x, y, 1) in pixels of the calibrated picture to pixels of the source. The centre of the first
        /// pixel is at (0.5, 0.5) in both.
        [224] source_from_calibrated: [f64; 6];
        /// Width of the calibrated picture.
        [272] calibrated_width: u32, unit pixels;
        /// Height of the calibrated picture.
        [276] calibrated_height: u32, unit pixels;
    }

    /// The channels of the plane `channels`; at offset 2072. It never changes. All 0 without that plane.
    ChannelBlock {
        /// Side of a cell. Cells of the last row and column may reach beyond the source.
        [0] cell_side: u32, unit pixels;
        /// Entries of `names` in use, at most 63: the first axis of the plane.
        [4] count: u32;
        /// Names of the channels, in the order of the plane.
        [8] names: [Text<32>; PUBLISHED_MAX];
    }

    /// One array, found by its name. Where `order` begins with `N`, it has an item for each token; otherwise all of its items are valid in
    /// every frame.
    PlaneEntry {
        /// Name of the plane.
        [0] name: Text<32>;
        /// One letter for each axis, such as `NCHW`; `N` for the tokens, which come first.
        [32] order: Text<8>;
        /// Number format: 1 u8, 2 IEEE binary16, 3 bfloat16, 4 IEEE binary32.
        [40] dtype: u32;
        /// Axes, 1 to 4.
        [44] ndim: u32;
        /// Extent of each axis, at least 1; the first is the capacity where `order` begins with `N`; 0 from `ndim` on.
        [48] shape: [u32; 4];
        /// Start of the plane in a slot, a multiple of 64.
        [64] offset: u64, unit bytes;
        /// Distance from one item to the next. An item is dense, its last axis fastest.
        [72] token_stride: u64, unit bytes;
        /// Size of the plane.
        [80] bytes: u64, unit bytes;
        /// Reserved: 0.
        [88] reserved: u64;
    }

    /// The changing part of a segment, at offset 1408. Never read as plain memory: every number is one atomic of its size, and `reason` is
    /// atomic words of 8 bytes, with the word of `code`.
    LiveBlock align 64 {
        /// Ring sequence of the newest complete frame; 0 before the first.
        [0] newest: u64;
        /// Incremented after each publish and each change of the state; wraps.
        [8] futex: u32;
        /// Reserved: 0.
        [12] reserved_0: u32;
        /// Reserved: 0.
        [16] reserved_1: [u64; 6];
        /// Counts the changes of the state; wraps.
        [64] state_sequence: u32;
        /// Reserved: 0.
        [68] reserved_2: u32;
        /// The state is `states[state_sequence % 2]`; the next one is written to the other.
        [72] states: [StateBlock; 2];
        /// Reserved: 0.
        [344] reserved_3: [u64; 5];
    }

    /// State of a view, and its reason.
    StateBlock {
        /// 1 live; 2 stalled: no frames arrive, or the source is being reopened; 3 ended: no more frames in this segment.
        [0] code: u32;
        /// Reserved: 0.
        [4] reserved: u32;
        /// The reason, for people.
        [8] reason: Text<REASON_BYTES>;
    }

    /// The start of a slot: the header of a frame. Slot n % `slot_count` holds the frame with ring sequence n.
    SlotHeader align 64 {
        /// 2n while the slot holds frame n, 2n - 1 while frame n is being written; 0 before the first.
        [0] lock: u64;
        /// n: counts the frames of this segment, from 1.
        [8] ring_sequence: u64;
        /// Counts the frames of the stream, from 1; a gap is a dropped frame.
        [16] frame_seq: u64;
        /// Presentation time in the stream, which for a clip begins with its edit list; 0 unless bit 0 of `flags` is set.
        [24] pts_ns: u64, unit ns;
        /// Capture time on `CLOCK_MONOTONIC`. Never after `arrival_ns`: a later stamp is clamped to it, and counted.
        [32] capture_ns: u64, unit ns;
        /// Capture time on `CLOCK_REALTIME`, since 1970.
        [40] capture_unix_ns: u64, unit ns;
        /// Arrival in the daemon on `CLOCK_MONOTONIC`.
        [48] arrival_ns: u64, unit ns;
        /// Publish time on `CLOCK_MONOTONIC`.
        [56] publish_ns: u64, unit ns;
        /// Bit 0: `pts_ns` is valid.
        [64] flags: u32;
        /// Source of the capture time: 0 unknown, the arrival is used; 1 base time + running time; 2 reference timestamp. Others count
        /// as 0.
        [68] capture_clock: u32;
        /// Largest possible difference between a camera sample and the one in the pyramid, which tokens are sampled from: the threshold
        /// of change detection.
        [72] sample_bound: u32;
        /// Largest possible difference between a channel of a texel, before it is normalised, and the one made of the newest frame: what
        /// samples within `sample_bound` make of an RGB value, and `sample_bound` more if tokens may keep their texels
        /// ([changed_frame](#tokenrecord)).
        [76] rgb_bound: u32;
        /// Tokens of this frame, at most `token_capacity`.
        [80] token_count: u32;
        /// Tiles of 32 x 32 pixels that were ingested for this frame.
        [84] dirty_tiles: u32;
        /// Tiles of the source.
        [88] tile_count: u32;
        /// Entries of `fixations` in use, 1 to `fovea_capacity`. Readers clamp it to 1 to 8.
        [92] fixation_count: u32;
        /// `frame_seq` of the frame that the relevance of the tokens was made from; 0 without a relevance map.
        [96] relevance_frame: u64;
        /// Arrival of the message that led to the newest fixation, on `CLOCK_MONOTONIC`; 0 if no message did.
        [104] asked_ns: u64, unit ns;
        /// Where the view looked, each in the place that it keeps.
        [112] fixations: [FixationBlock; FOVEAE_MAX];
        /// `frame_seq` of the frame that the plane `channels` was made from; 0 before the first decision, and without that plane.
        [432] channels_frame: u64;
        /// How the picture moved up to frame `motion_frame`: rows of a 2 x 3 matrix from (x, y, 1) in source pixels of the frame that the
        /// stream took before that one to source pixels of it.
        [440] motion: [f32; 6];
        /// `frame_seq` of the frame that `motion` leads to, an earlier one than this; 0 if the motion is unknown, as after a cut, or not
        /// computed.
        [464] motion_frame: u64;
        /// Bound of the error of `CLOCK_REALTIME` when the frame arrived: see [capture time](#capture-time); 0 if unknown.
        [472] capture_error_ns: u64, unit ns;
        /// How often `CLOCK_REALTIME` was set since the daemon started.
        [480] clock_steps: u64;
        /// Capture time on `CLOCK_MONOTONIC` of the depth picture that the planes `depth` and `boxes` were made from; 0 if the frame has
        /// none, and without those planes.
        [488] depth_capture_ns: u64, unit ns;
        /// Number of that picture in the depth pipeline, from 1; 0 if there is none.
        [496] depth_frame: u64;
        /// Reserved: 0.
        [504] reserved: u64;
    }

    /// A point that the view looked at.
    FixationBlock {
        /// Counts the fixations of the view, from 1.
        [0] id: u64;
        /// Distance from the source's left edge.
        [8] x: f64, unit pixels;
        /// Distance from the source's top edge.
        [16] y: f64, unit pixels;
        /// `frame_seq` of the first frame sampled around this fixation.
        [24] since_frame: u64;
        /// Value of the map here when the point was chosen, as a share of the map's greatest; 1 for a point.
        [32] weight: f32;
        /// 0 the view's policy, 1 a client's `look`, 2 a client's attention, 3 saliency, 4 relevance, 5 changed, 6 unseen. Others count as 0.
        [36] reason: u32;
    }

    /// Place of a token of P x P texels, and the frame in which its content last changed. It covers P `sx` + `extra_width` by
    /// P `sy` + `extra_height` source pixels from (`x`, `y`).
    TokenRecord {
        /// Newest `frame_seq` that changed a pixel of a tile of 32 x 32 pixels under the texels that the token is read from, when the
        /// token was last resampled. While the threshold is 0 it is resampled whenever such a tile changes. Unless that is fixed, it
        /// keeps its texels and this number until one of its texels has moved by more than `sample_bound`, such a tile is refreshed, a
        /// mask or the backend changes, or a frame has no token at its place. Without a real pixel, in a view whose texels outside are
        /// the mean, it always keeps this number while it keeps its place.
        [0] changed_frame: u64;
        /// First column of the token's box. The box is half-open and clipped to the source; empty if the token lies outside.
        [8] x0: u32, unit pixels;
        /// First row of the box.
        [12] y0: u32, unit pixels;
        /// One past the last column of the box.
        [16] x1: u32, unit pixels;
        /// One past the last row of the box.
        [20] y1: u32, unit pixels;
        /// Left edge of the token; may lie outside the source.
        [24] x: i32, unit pixels;
        /// Top edge of the token; may lie outside the source.
        [28] y: i32, unit pixels;
        /// Width of a texel, rounded down, 1 to 2048.
        [32] sx: u16, unit pixels;
        /// Height of a texel, rounded down, 1 to 2048.
        [34] sy: u16, unit pixels;
        /// P: side of the token.
        [36] size: u16, unit texels;
        /// Pyramid level, ring, window or block: see [layouts](#layouts).
        [38] group: u16;
        /// First column of texels with a real pixel.
        [40] first_column: u16;
        /// Columns with a real pixel, from `first_column` on; 0 if the token lies left or right of the source.
        [42] columns: u16;
        /// First row of texels with a real pixel.
        [44] first_row: u16;
        /// Rows with a real pixel, from `first_row` on; 0 if the token lies above or below the source.
        [46] rows: u16;
        /// Index in `fixations` of the one that the token belongs to.
        [48] fovea: u16;
        /// Columns of the token beyond P `sx`.
        [50] extra_width: u8, unit pixels;
        /// Rows of the token beyond P `sy`.
        [51] extra_height: u8, unit pixels;
        /// Weight of the token's place in the layout, 1/16 to 16: the maximum of the relevance map under it; 1 without a map.
        [52] relevance: f32;
    }
}

const _: () = {
    assert!(LIVE_OFFSET == 1408, "the header keeps its size within a major version");
    assert!(CAMERA_FRAME_OFFSET == 1792, "the live block keeps its size");
    assert!(CHANNEL_OFFSET == 2072, "the camera frame keeps its size");
    assert!(
        CHANNEL_OFFSET + size_of::<ChannelBlock>() == HEADER_BYTES,
        "the first slot begins where the channels' names end"
    );
    assert!(size_of::<SlotHeader>() == 512, "the slot header keeps its size");
    assert!(size_of::<TokenRecord>() == 56, "the record keeps its size");
};

/// State of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Frames are published.
    Live,
    /// No frames for a while; more may follow.
    Stalled,
    /// This segment will receive no more frames.
    Ended,
}

foveate_core::names!(State { Live = "live", Stalled = "stalled", Ended = "ended" });
foveate_core::codes!(State { Live = 1, Stalled = 2, Ended = 3 });
