//! Memory layout of a segment: ABI 2.3. `docs/reference/abi.md` documents it for readers in other languages.
//!
//! ```text
//! 0     SegmentHeader   written once, before the segment is shared
//! 1408  LiveBlock       newest sequence, futex word, state
//! 1792  CameraFrameBlock  written once: camera pose and picture geometry
//! 2072  ChannelBlock    written once: names of the channels
//! 4096  slot 0          SlotHeader, TokenRecord * capacity, planes
//!       slot 1          at slot_stride from the one before
//!       ...
//! ```
//!
//! Everything is little-endian. Reserved bytes are 0. Texts are UTF-8, padded with at least one NUL.

#![allow(unsafe_code, reason = "`unsafe impl` of `Zeroable` and `Pod`, checked at compile time")]

use bytemuck::{Pod, Zeroable};

use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::{FOVEAE_MAX, Fixation};
use foveate_core::geometry::plan::Token;
use foveate_core::geometry::region::PixelBox;
use foveate_core::relevance::channel::PUBLISHED_MAX;

/// Defines a plain-data struct: valid for any bytes, without padding. Checks what `derive(Pod)` would, without its crates.
macro_rules! plain {
    (
        $(#[$attribute:meta])*
        pub struct $Struct:ident { $($(#[$doc:meta])* pub $field:ident: $Field:ty,)+ }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug)]
        #[repr(C)]
        pub struct $Struct { $($(#[$doc])* pub $field: $Field,)+ }

        const _: () = {
            const fn check<T: Pod>() {}
            $(check::<$Field>();)+
            assert!(size_of::<$Struct>() == 0 $(+ size_of::<$Field>())+, "no byte is padding");
        };

        // SAFETY: zeros are a value of every field, since each is `Pod`.
        unsafe impl Zeroable for $Struct {}
        // SAFETY: it is `repr(C)`, every field is `Pod`, and no byte is padding.
        unsafe impl Pod for $Struct {}
    };
}

/// First bytes of a segment.
pub const MAGIC: [u8; 8] = *b"FOVEATE\0";

/// Incremented when an old reader would misread a new segment.
pub const ABI_MAJOR: u32 = 2;

/// Incremented when reserved bytes or a plane gain a meaning that old readers may ignore.
pub const ABI_MINOR: u32 = 3;

/// Offset of the first slot.
pub const HEADER_BYTES: usize = 4096;

/// Offset of [`LiveBlock`], directly after [`SegmentHeader`].
pub const LIVE_OFFSET: usize = size_of::<SegmentHeader>();

/// Alignment of slots: a page, so that a device may import one.
pub const SLOT_ALIGNMENT: usize = 4096;

/// Alignment of planes in a slot: a cache line.
pub const PLANE_ALIGNMENT: usize = 64;

/// Entries of the table of planes.
pub const MAX_PLANE_COUNT: usize = 8;

/// Fewest slots of a ring: one to read while the writer fills the next.
pub const MIN_SLOT_COUNT: u32 = 2;

/// Far above any use; limits what a reader must accept.
pub const MAX_SLOT_COUNT: u32 = 1024;

/// Bit of [`SlotHeader::flags`]: `pts_ns` is valid.
pub const FLAG_PTS: u32 = 1;

/// Size of [`StateBlock::reason`], including at least one NUL.
pub const REASON_BYTES: usize = 128;

/// Bytes of a notice: the newest ring sequence and its publish time in nanoseconds, two u64.
pub const NOTICE_BYTES: usize = 16;

plain! {
    /// The constant part of a segment, at offset 0.
    #[repr(align(64))]
    pub struct SegmentHeader {
        /// [`MAGIC`].
        pub magic: [u8; 8],
        /// [`ABI_MAJOR`] of the writer.
        pub abi_major: u32,
        /// [`ABI_MINOR`] of the writer.
        pub abi_minor: u32,
        /// Size of the segment in bytes.
        pub total_bytes: u64,
        /// [`HEADER_BYTES`].
        pub header_bytes: u32,
        /// Slots of the ring, [`MIN_SLOT_COUNT`] to [`MAX_SLOT_COUNT`].
        pub slot_count: u32,
        /// Bytes from one slot to the next.
        pub slot_stride: u64,
        /// Size of [`SlotHeader`] in bytes.
        pub slot_header_bytes: u32,
        /// Size of [`TokenRecord`] in bytes, and the stride of the records.
        pub record_bytes: u32,
        /// Offset of the records in a slot, in bytes.
        pub records_offset: u32,
        /// Most tokens of a frame.
        pub token_capacity: u32,
        /// P: side of a token in texels.
        pub patch_side: u32,
        /// Entries of `planes` that are in use.
        pub plane_count: u32,
        /// Random; different for every segment.
        pub epoch: u64,
        /// Width of the source in pixels.
        pub source_width: u32,
        /// Height of the source in pixels.
        pub source_height: u32,
        /// [`BackendKind::code`](foveate_core::backend::BackendKind::code).
        pub backend_kind: u32,
        /// Most fixations of a frame, 1 to [`FOVEAE_MAX`].
        pub fovea_capacity: u32,
        /// Of the normalisation, for R, G and B.
        pub mean: [f64; 3],
        /// Of the normalisation, for R, G and B.
        pub std: [f64; 3],
        /// The camera's format in GStreamer's caps.
        pub pixel_format: [u8; 16],
        /// Name of the stream.
        pub stream_name: [u8; 64],
        /// Name of the view.
        pub view_name: [u8; 64],
        /// Name of the layout.
        pub layout_name: [u8; 32],
        /// Name of the device, perhaps truncated.
        pub backend_device: [u8; 64],
        /// Columns of the tokens, row by row; 0 if they form no grid.
        pub grid_columns: u32,
        /// Rows of the tokens; 0 if they form no grid.
        pub grid_rows: u32,
        /// The camera model.
        pub camera: CameraBlock,
        /// [`Outside::code`](foveate_core::token::Outside::code).
        pub outside: u32,
        /// [`Rounding::code`](foveate_core::token::Rounding::code).
        pub rounding: u32,
        /// Width of a pixel as it is meant to be shown, in units of its height; 0, which counts as 1, up to ABI 2.1.
        pub pixel_aspect_width: u32,
        /// Height of a pixel as it is meant to be shown, in units of its width; 0, which counts as 1, up to ABI 2.1.
        pub pixel_aspect_height: u32,
        /// [`ColorMatrix::code`](foveate_core::color::ColorMatrix::code), [`COLOR_MATRIX_RGB`] or 0 for unknown.
        pub color_matrix: u16,
        /// [`ColorRange::code`](foveate_core::color::ColorRange::code), or 0 for unknown.
        pub color_range: u16,
        /// [`Transfer::code`](foveate_core::color::Transfer::code), or 0 for unknown.
        pub color_transfer: u16,
        /// [`ASSUMED_MATRIX`] and [`ASSUMED_RANGE`], if the source does not say them.
        pub color_assumed: u16,
        /// 0.
        pub reserved: u64,
        /// The table of planes.
        pub planes: [PlaneEntry; MAX_PLANE_COUNT],
    }
}

/// Offset of [`CameraFrameBlock`], directly after [`LiveBlock`].
pub const CAMERA_FRAME_OFFSET: usize = LIVE_OFFSET + size_of::<LiveBlock>();

/// [`SegmentHeader::color_matrix`] of samples that are RGB.
pub const COLOR_MATRIX_RGB: u16 = 1;

/// Bit of [`SegmentHeader::color_assumed`]: the matrix was chosen by the height of the pictures.
pub const ASSUMED_MATRIX: u16 = 1;

/// Bit of [`SegmentHeader::color_assumed`]: the range was chosen by the format.
pub const ASSUMED_RANGE: u16 = 2;

/// [`CameraBlock::kind`] of a pinhole camera.
pub const CAMERA_PINHOLE: u32 = 1;

plain! {
    /// The camera model; all 0 if there is none.
    pub struct CameraBlock {
        /// 0: none; [`CAMERA_PINHOLE`].
        pub kind: u32,
        /// Entries of `coefficients` that are in use.
        pub coefficient_count: u32,
        /// Name of the distortion model.
        pub distortion_name: [u8; 32],
        /// The camera matrix, row by row, in pixels of the calibrated picture.
        pub k: [f64; 9],
        /// Coefficients of the distortion, in the order of `D` of ROS's `camera_info`.
        pub coefficients: [f64; 14],
    }
}

plain! {
    /// Pose and picture geometry of the camera, at [`CAMERA_FRAME_OFFSET`]. Constant while the segment lives; all 0 if there is no
    /// camera model.
    pub struct CameraFrameBlock {
        /// Name of the optical frame of the camera's rays: x right, y down, z forward.
        pub optical_frame: [u8; 64],
        /// Name of the frame that the camera is mounted in; empty if unknown.
        pub parent_frame: [u8; 64],
        /// Rows of [R | t]: from the optical frame to the parent's, in metres.
        pub parent_from_optical: [f64; 12],
        /// Rows of a 2 x 3 matrix: from (x, y, 1) of the calibrated picture to pixels of the source.
        pub source_from_calibrated: [f64; 6],
        /// Width of the calibrated picture in pixels.
        pub calibrated_width: u32,
        /// Height of the calibrated picture in pixels.
        pub calibrated_height: u32,
    }
}

/// Offset of [`ChannelBlock`], directly after [`CameraFrameBlock`].
pub const CHANNEL_OFFSET: usize = CAMERA_FRAME_OFFSET + size_of::<CameraFrameBlock>();

plain! {
    /// What the items of the plane `channels` are, at [`CHANNEL_OFFSET`]. Constant while the segment lives; all 0 without that
    /// plane.
    pub struct ChannelBlock {
        /// Side of a cell in source pixels.
        pub cell_side: u32,
        /// Entries of `names` that are in use.
        pub count: u32,
        /// Names of the channels.
        pub names: [[u8; 32]; PUBLISHED_MAX],
    }
}

plain! {
    /// One entry of the table of planes: an array with one item for each token, or with a fixed number of items.
    pub struct PlaneEntry {
        /// Name of the plane.
        pub name: [u8; 32],
        /// One letter for each axis.
        pub order: [u8; 8],
        /// [`DType::code`](foveate_core::token::DType::code).
        pub dtype: u32,
        /// Axes, 1 to 4.
        pub ndim: u32,
        /// Extent of each axis; the first is the capacity where `order` begins with `N`. 0 from `ndim` on.
        pub shape: [u32; 4],
        /// Offset of the plane in a slot, in bytes.
        pub offset: u64,
        /// Bytes from one item to the next.
        pub token_stride: u64,
        /// Size in bytes.
        pub bytes: u64,
        /// 0.
        pub reserved: u64,
    }
}

plain! {
    /// The changing part of a segment, at [`LIVE_OFFSET`]. Never accessed as plain memory: each number is one atomic, `reason` is
    /// atomic words.
    #[repr(align(64))]
    pub struct LiveBlock {
        /// Ring sequence of the newest complete frame; 0 before the first.
        pub newest: u64,
        /// Incremented after each publish and each change of the state; wraps.
        pub futex: u32,
        /// 0.
        pub reserved_0: u32,
        /// 0.
        pub reserved_1: [u64; 6],
        /// Counts the changes of the state; wraps.
        pub state_sequence: u32,
        /// 0.
        pub reserved_2: u32,
        /// The state is in `states[state_sequence % 2]`; the next one is written to the other.
        pub states: [StateBlock; 2],
        /// 0.
        pub reserved_3: [u64; 5],
    }
}

plain! {
    /// State of a view, and its reason.
    pub struct StateBlock {
        /// [`State::code`].
        pub code: u32,
        /// 0.
        pub reserved: u32,
        /// The reason in words.
        pub reason: [u8; REASON_BYTES],
    }
}

plain! {
    /// First bytes of a slot. Slot `sequence % slot_count` holds frame `sequence`.
    #[repr(align(64))]
    pub struct SlotHeader {
        /// `2 * sequence` while the slot holds that frame, `2 * sequence - 1` while it is being written.
        pub lock: u64,
        /// Counts the frames of this segment, from 1.
        pub ring_sequence: u64,
        /// Counts the frames of the stream, from 1; a gap is a dropped frame.
        pub frame_seq: u64,
        /// Presentation time in nanoseconds; 0 without [`FLAG_PTS`].
        pub pts_ns: u64,
        /// Capture time, CLOCK_MONOTONIC in nanoseconds.
        pub capture_ns: u64,
        /// The same instant, CLOCK_REALTIME in nanoseconds since 1970.
        pub capture_unix_ns: u64,
        /// Arrival in the daemon, CLOCK_MONOTONIC in nanoseconds.
        pub arrival_ns: u64,
        /// Publish time, CLOCK_MONOTONIC in nanoseconds.
        pub publish_ns: u64,
        /// [`FLAG_PTS`].
        pub flags: u32,
        /// [`CaptureClock::code`](foveate_core::frame::CaptureClock::code).
        pub capture_clock: u32,
        /// Bound on the difference between a camera sample and the one in the pyramid, which tokens are sampled from.
        pub sample_bound: u32,
        /// Bound on the difference between a channel of a texel and the one made of the newest frame.
        pub rgb_bound: u32,
        /// Tokens of this frame, at most the capacity.
        pub token_count: u32,
        /// Tiles that were ingested for this frame.
        pub dirty_tiles: u32,
        /// Tiles of the source.
        pub tile_count: u32,
        /// Entries of `fixations` that are in use, at least 1.
        pub fixation_count: u32,
        /// `frame_seq` of the frame that the relevance of the tokens was made from; 0 where all matter alike.
        pub relevance_frame: u64,
        /// Arrival of the message that led to the newest fixation, CLOCK_MONOTONIC in nanoseconds; 0 if there was none.
        pub asked_ns: u64,
        /// Where the view looked, each in the place that it keeps.
        pub fixations: [FixationBlock; FOVEAE_MAX],
        /// `frame_seq` of the frame that the plane `channels` was made from; 0 before the first decision and without that plane.
        pub channels_frame: u64,
        /// How the picture moved up to frame `motion_frame`, if that is not 0: rows of a 2 x 3 matrix from (x, y, 1) in source pixels
        /// of the frame that the stream took before it to source pixels of it.
        pub motion: [f32; 6],
        /// `frame_seq` of the frame up to which the motion of the picture is in `motion`; 0 if it is not known, or not computed.
        pub motion_frame: u64,
        /// 0.
        /// Bound of the error of CLOCK_REALTIME when the frame arrived, in nanoseconds; 0 if it is unknown.
        pub capture_error_ns: u64,
        /// How often CLOCK_REALTIME was set since the daemon started.
        pub clock_steps: u64,
        /// Capture time of the depth picture that the planes `depth` and `boxes` were made from, CLOCK_MONOTONIC in nanoseconds; 0 if
        /// the frame has none, and without those planes.
        pub depth_capture_ns: u64,
        /// Number of that picture, from 1: counts those of the depth pipeline; 0 if there is none.
        pub depth_frame: u64,
        /// 0.
        pub reserved: u64,
    }
}

plain! {
    /// A point that a view looked at.
    pub struct FixationBlock {
        /// Counts the fixations of the view, from 1.
        pub id: u64,
        /// Pixels right of the source's left edge.
        pub x: f64,
        /// Pixels below the source's top edge.
        pub y: f64,
        /// `frame_seq` of the first frame that was sampled around this fixation.
        pub since_frame: u64,
        /// Value of the map here when it was chosen, as a share of the greatest; 1 for a point.
        pub weight: f32,
        /// [`FixationReason::code`](foveate_core::geometry::fixation::FixationReason::code).
        pub reason: u32,
    }
}

plain! {
    /// Place of a token, and the frame in which its content last changed.
    #[derive(PartialEq)]
    pub struct TokenRecord {
        /// Newest `frame_seq` that changed a pixel of a tile of 32 x 32 that the token touches, when it was last sampled anew.
        pub changed_frame: u64,
        /// First column of the box in source pixels. The box is half-open and clipped to the source; empty if the token lies outside.
        pub x0: u32,
        /// First row of the box in source pixels.
        pub y0: u32,
        /// One past the last column of the box in source pixels.
        pub x1: u32,
        /// One past the last row of the box in source pixels.
        pub y1: u32,
        /// Left edge in source pixels; may lie outside the source.
        pub x: i32,
        /// Top edge in source pixels; may lie outside the source.
        pub y: i32,
        /// Whole source pixels from one texel to the next along a row.
        pub sx: u16,
        /// Whole source pixels from one texel to the next down a column.
        pub sy: u16,
        /// P: side in texels.
        pub size: u16,
        /// Pyramid level, ring, window or block; see the layout.
        pub group: u16,
        /// First column with a real pixel.
        pub first_column: u16,
        /// Columns with a real pixel; the others are filled as the header says.
        pub columns: u16,
        /// First row with a real pixel.
        pub first_row: u16,
        /// Rows with a real pixel.
        pub rows: u16,
        /// Index of the fixation that it belongs to.
        pub fovea: u16,
        /// Source pixels that the token is wider than P * `sx`; 0 before ABI 2.3.
        pub extra_width: u8,
        /// Source pixels that the token is higher than P * `sy`; 0 before ABI 2.3.
        pub extra_height: u8,
        /// Relevance used by the layout.
        pub relevance: f32,
    }
}

const _: () = {
    assert!(LIVE_OFFSET == 1408, "the header keeps its size within a major version");
    assert!(
        CHANNEL_OFFSET + size_of::<ChannelBlock>() == HEADER_BYTES,
        "the first slot begins where the channels' names end"
    );
    assert!(size_of::<SlotHeader>() == 512, "the slot header keeps its size");
    assert!(size_of::<TokenRecord>() == 56, "the record keeps its size");
};

impl TokenRecord {
    /// The record of `token` over a source of `extent`.
    #[expect(clippy::cast_possible_truncation, reason = "P is at most 1024")]
    pub fn new(
        token: Token,
        extent: Extent,
        patch_side: u32,
        changed_frame: u64,
        relevance: f32,
    ) -> Self {
        let PixelBox { x0, y0, x1, y1 } = token.pixel_box(extent, patch_side);
        let columns = token.columns(extent, patch_side).real();
        let rows = token.rows(extent, patch_side).real();
        let Token { x, y, sx, sy, extra_width, extra_height, group, fovea } = token;
        Self {
            changed_frame,
            x0,
            y0,
            x1,
            y1,
            x,
            y,
            sx,
            sy,
            size: patch_side as u16,
            group,
            first_column: columns.start as u16,
            columns: columns.len() as u16,
            first_row: rows.start as u16,
            rows: rows.len() as u16,
            fovea,
            extra_width,
            extra_height,
            relevance,
        }
    }

    /// Whether each field has a value that a token over a source of `extent` may have. Of other records, which a broken writer may
    /// publish, nothing is drawn; check those that size memory or index it.
    pub fn is_within_limits(&self, extent: Extent, patch_side: u32) -> bool {
        let Self { x0, y0, x1, y1, size, .. } = *self;
        let are_texels = |first: u16, count: u16| u32::from(first) + u32::from(count) <= patch_side;
        u32::from(size) == patch_side
            && self.token().is_within_limits(patch_side)
            && are_texels(self.first_column, self.columns)
            && are_texels(self.first_row, self.rows)
            && x0 <= x1
            && x1 <= extent.width
            && y0 <= y1
            && y1 <= extent.height
    }

    /// The source pixels that the token covers.
    pub fn pixel_box(&self) -> PixelBox {
        PixelBox { x0: self.x0, y0: self.y0, x1: self.x1, y1: self.y1 }
    }

    /// The token.
    pub fn token(&self) -> Token {
        let Self { x, y, sx, sy, extra_width, extra_height, group, fovea, .. } = *self;
        Token { x, y, sx, sy, extra_width, extra_height, group, fovea }
    }
}

/// Fixations as a slot has them.
pub fn fixation_blocks(fixations: &[Fixation]) -> [FixationBlock; FOVEAE_MAX] {
    let mut blocks = [FixationBlock::zeroed(); FOVEAE_MAX];
    for (block, fixation) in blocks.iter_mut().zip(fixations) {
        let Fixation { id, x, y, since_frame, reason, weight, .. } = *fixation;
        *block = FixationBlock { id, x, y, since_frame, weight, reason: reason.code() };
    }
    blocks
}

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

/// `text` padded with at least one NUL, truncated at a character boundary if too long.
pub fn padded_text<const BYTES: usize>(text: &str) -> [u8; BYTES] {
    let cut = text.floor_char_boundary(BYTES - 1);
    let mut padded = [0; BYTES];
    padded[..cut].copy_from_slice(&text.as_bytes()[..cut]);
    padded
}

/// The bytes of a padded text before its first NUL.
pub fn unpadded(padded: &[u8]) -> &[u8] {
    let end = padded.iter().position(|&byte| byte == 0).unwrap_or(padded.len());
    &padded[..end]
}
