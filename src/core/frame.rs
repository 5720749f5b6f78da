//! A camera frame as the stages see it: borrowed samples in the camera's format, and its stamp.

use std::collections::VecDeque;
use std::fmt;

use crate::color::ColorTransform;
use crate::geometry::extent::Extent;

/// Memory layouts of camera samples that are read without conversion; all have 8 bits a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PixelFormat {
    /// Luma, then interleaved Cb Cr at half width and half height.
    Nv12,
    /// Luma, Cb, Cr in three planes; chroma at half width and half height.
    I420,
    /// Y0 Cb Y1 Cr in one plane; chroma at half width.
    Yuy2,
    /// R G B, three bytes a pixel.
    Rgb,
    /// B G R, three bytes a pixel.
    Bgr,
    /// R G B and a padding byte.
    Rgbx,
    /// B G R and a padding byte.
    Bgrx,
    /// R G B and alpha. The engine ignores alpha: what has it is [composited](composite) before.
    Rgba,
    /// B G R and alpha, as `Rgba`.
    Bgra,
    /// Luma alone.
    Gray8,
}

/// The memory of one plane of a format, for a source of a given extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaneShape {
    /// Bytes of a row that hold samples; the stride may be larger.
    pub row_bytes: u32,
    /// Rows.
    pub rows: u32,
}

impl PixelFormat {
    /// Whether the samples of the format are R, G and B.
    pub const fn is_rgb(self) -> bool {
        matches!(self, Self::Rgb | Self::Bgr) || self.has_fourth_byte()
    }

    /// Whether a pixel is R, G, B and an unused byte.
    pub const fn has_fourth_byte(self) -> bool {
        matches!(self, Self::Rgbx | Self::Bgrx | Self::Rgba | Self::Bgra)
    }

    /// Whether a pixel has alpha, in its fourth byte.
    pub const fn has_alpha(self) -> bool {
        matches!(self, Self::Rgba | Self::Bgra)
    }

    /// Number of planes, 1 to 3.
    pub const fn plane_count(self) -> usize {
        match self {
            Self::Nv12 => 2,
            Self::I420 => 3,
            _ => 1,
        }
    }

    /// Shape of plane `index` for a source of `extent`. Odd sides round chroma up, so that every pixel has a sample.
    pub const fn plane_shape(self, index: usize, extent: Extent) -> PlaneShape {
        let Extent { width, height } = extent;
        let (row_bytes, rows) = match (self, index) {
            (Self::Nv12 | Self::I420 | Self::Gray8, 0) => (width, height),
            (Self::Nv12, _) => (width.div_ceil(2) * 2, height.div_ceil(2)),
            (Self::I420, _) => (width.div_ceil(2), height.div_ceil(2)),
            (Self::Yuy2, _) => (width.div_ceil(2) * 4, height),
            (Self::Rgb | Self::Bgr, _) => (width * 3, height),
            _ => (width * 4, height),
        };
        PlaneShape { row_bytes, rows }
    }
}

// As in GStreamer's caps.
crate::names!(PixelFormat {
    Nv12 = "NV12", I420 = "I420", Yuy2 = "YUY2", Rgb = "RGB", Bgr = "BGR", Rgbx = "RGBx", Bgrx = "BGRx",
    Rgba = "RGBA", Bgra = "BGRA", Gray8 = "GRAY8",
});

/// Rows of samples in memory.
#[derive(Clone, Copy, Debug)]
pub struct Plane<'a> {
    /// Samples; the last row may end before a whole stride.
    pub bytes: &'a [u8],
    /// Bytes from one row to the next.
    pub stride: usize,
}

impl<'a> Plane<'a> {
    /// The first `row_bytes` of row `y`.
    #[inline]
    pub fn row(self, y: usize, row_bytes: usize) -> &'a [u8] {
        &self.bytes[y * self.stride..][..row_bytes]
    }

    /// The plane, if it holds `rows` rows of `row_bytes` bytes; otherwise the bytes that they need, at most [`usize::MAX`].
    pub(crate) fn checked(mut self, rows: usize, row_bytes: usize) -> Result<Self, usize> {
        if rows == 1 && row_bytes <= self.stride {
            // A single row has no next row, so any stride is valid.
            self.stride = row_bytes;
        }
        let needed = (rows - 1).saturating_mul(self.stride).saturating_add(row_bytes);
        if self.stride < row_bytes || self.bytes.len() < needed { Err(needed) } else { Ok(self) }
    }
}

/// Why memory cannot be read as a frame.
#[derive(Debug, PartialEq, Eq)]
pub struct FrameError(String);

impl FrameError {
    /// The error that a picture was read as depth, or depth as a picture.
    pub fn other_content() -> Self {
        Self("a frame of other content than was asked for".to_owned())
    }

    pub(crate) fn extent(extent: Extent) -> Self {
        let most = Extent::SIDE_MAX;
        Self(format!("unsupported frame size: {extent} pixels (expected sides of 1 to {most})"))
    }

    /// The error that plane `index` of a frame described by `name` ends before its last sample, for which it needs `needed` bytes.
    pub(crate) fn too_short(name: &str, index: usize, plane: Plane<'_>, needed: usize) -> Self {
        let Plane { bytes, stride } = plane;
        let len = bytes.len();
        Self(format!(
            "plane {index} of a {name} frame has {len} bytes at a stride of {stride}; {needed} are needed"
        ))
    }
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for FrameError {}

/// Format, colour and extent, which all frames of a stream share until its caps change. Resident copies and pyramids are built for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameKind {
    /// Memory layout of the samples.
    pub format: PixelFormat,
    /// Width and height in pixels.
    pub extent: Extent,
    /// Conversion from samples to RGB.
    pub color: ColorTransform,
}

impl FrameKind {
    /// Bytes of a row of plane `index` that hold samples.
    pub fn row_bytes(self, index: usize) -> usize {
        self.format.plane_shape(index, self.extent).row_bytes as usize
    }

    /// Rows of plane `index`.
    pub fn rows(self, index: usize) -> usize {
        self.format.plane_shape(index, self.extent).rows as usize
    }
}

/// One frame of the camera, borrowed.
#[derive(Clone, Copy, Debug)]
pub struct FrameView<'a> {
    kind: FrameKind,
    planes: [Plane<'a>; 3],
    /// Bytes of a row of each plane that hold samples.
    row_bytes: [usize; 3],
}

impl<'a> FrameView<'a> {
    /// A frame of `extent` pixels in `planes`, exactly [`PixelFormat::plane_count`] of them.
    ///
    /// # Errors
    ///
    /// If the extent is not supported or a plane is too short for it.
    pub fn new(
        format: PixelFormat,
        extent: Extent,
        color: ColorTransform,
        planes: &[Plane<'a>],
    ) -> Result<Self, FrameError> {
        assert_eq!(planes.len(), format.plane_count(), "planes of {}", format.name());
        if !extent.is_supported() {
            return Err(FrameError::extent(extent));
        }
        let (mut all, mut all_row_bytes) = ([Plane { bytes: &[], stride: 0 }; 3], [0; 3]);
        for (index, plane) in planes.iter().enumerate() {
            let PlaneShape { row_bytes, rows } = format.plane_shape(index, extent);
            all_row_bytes[index] = row_bytes as usize;
            let checked = plane.checked(rows as usize, row_bytes as usize);
            let too_short = |needed| {
                FrameError::too_short(&format!("{extent} {format}"), index, *plane, needed)
            };
            all[index] = checked.map_err(too_short)?;
        }
        let kind = FrameKind { format, extent, color };
        Ok(Self { kind, planes: all, row_bytes: all_row_bytes })
    }

    /// Format, extent and colour.
    pub fn kind(&self) -> FrameKind {
        self.kind
    }

    /// Memory layout of the samples.
    pub fn format(&self) -> PixelFormat {
        self.kind.format
    }

    /// Width and height in pixels.
    pub fn extent(&self) -> Extent {
        self.kind.extent
    }

    /// Conversion from samples to RGB.
    pub fn color(&self) -> ColorTransform {
        self.kind.color
    }

    /// Plane `index`, below [`PixelFormat::plane_count`].
    pub fn plane(&self, index: usize) -> Plane<'a> {
        self.planes[index]
    }

    /// The bytes of row `y` of plane `index` that hold samples.
    #[inline]
    pub fn row(&self, index: usize, y: usize) -> &'a [u8] {
        self.planes[index].row(y, self.row_bytes[index])
    }
}

/// Whether all pixels of four bytes, the last of which is alpha, are opaque.
pub fn is_opaque(pixels: &[u8]) -> bool {
    // In blocks, which compile to vector instructions.
    let are_opaque =
        |block: &[u8]| block.chunks_exact(4).fold(255, |all, pixel| all & pixel[3]) == 255;
    pixels.chunks(256).all(are_opaque)
}

/// Composites pixels of four bytes, the last of which is alpha, on `background`, whose bytes are in their order, rounded to the nearest.
/// They are opaque then.
#[expect(clippy::cast_possible_truncation, reason = "a mean of two bytes")]
pub fn composite(pixels: &mut [u8], background: [u8; 3]) {
    for [samples @ .., alpha] in pixels.as_chunks_mut::<4>().0 {
        let share = u32::from(*alpha);
        for (sample, behind) in samples.iter_mut().zip(background) {
            let sum = u32::from(*sample) * share + u32::from(behind) * (255 - share);
            *sample = ((sum + 127) / 255) as u8;
        }
        *alpha = 255;
    }
}

/// Copies a row of samples; the row lengths of a single tile are special-cased, so that they compile to plain moves.
#[inline(always)]
pub fn copy_row(target: &mut [u8], source: &[u8]) {
    match (target.as_chunks_mut::<16>(), source.as_chunks::<16>()) {
        (([target], []), ([source], [])) => *target = *source,
        (([a, b], []), ([c, d], [])) => [*a, *b] = [*c, *d],
        (([a, b, c, d], []), ([e, f, g, h], [])) => [*a, *b, *c, *d] = [*e, *f, *g, *h],
        _ => target.copy_from_slice(source),
    }
}

/// Source of a capture time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureClock {
    /// Unknown capture time; the arrival time stands in.
    Unknown,
    /// Base time of the pipeline plus running time of the frame.
    RunningTime,
    /// A reference timestamp that came with the frame.
    Reference,
}

crate::names!(CaptureClock {
    Unknown = "unknown", RunningTime = "running-time", Reference = "reference",
});
crate::codes!(CaptureClock { Unknown = 0, RunningTime = 1, Reference = 2 });

/// Number and times of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameStamp {
    /// Counts the frames that the pipeline delivered, from 1; assigned at capture, so that drops show as gaps.
    pub frame_seq: u64,
    /// Presentation time in the stream, in nanoseconds; `None` where the pipeline gives none.
    pub pts_ns: Option<u64>,
    /// Capture time on CLOCK_MONOTONIC, in nanoseconds.
    pub capture_ns: u64,
    /// Capture time on CLOCK_REALTIME, in nanoseconds since 1970.
    pub capture_unix_ns: u64,
    /// Source of the capture time.
    pub capture_clock: CaptureClock,
    /// Bound of the error of CLOCK_REALTIME when the frame arrived, in nanoseconds, as the kernel's clock discipline promises; 0 if
    /// it promises nothing, and if the capture time is of another clock.
    pub capture_error_ns: u64,
    /// How often CLOCK_REALTIME was set since the process started: between two frames with different numbers it jumped.
    pub clock_steps: u64,
    /// Arrival in this process on CLOCK_MONOTONIC, in nanoseconds.
    pub arrival_ns: u64,
}

impl FrameStamp {
    /// The stamp of a frame of which nothing is known but its number.
    pub fn numbered(frame_seq: u64) -> Self {
        Self {
            frame_seq,
            pts_ns: None,
            capture_ns: 0,
            capture_unix_ns: 0,
            capture_clock: CaptureClock::Unknown,
            capture_error_ns: 0,
            clock_steps: 0,
            arrival_ns: 0,
        }
    }
}

/// Number and stream time of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameTime {
    /// `frame_seq` of the frame.
    pub frame_seq: u64,
    /// Presentation time in nanoseconds, or capture time where there is none. May jump, also backwards when a file starts over.
    pub time_ns: u64,
}

impl FrameTime {
    /// The time of the frame with `stamp`.
    pub fn of(stamp: &FrameStamp) -> Self {
        let time_ns = stamp.pts_ns.unwrap_or(stamp.capture_ns);
        Self { frame_seq: stamp.frame_seq, time_ns }
    }

    /// Time since an earlier frame, in seconds.
    pub fn seconds_since(self, earlier: Self) -> f64 {
        (self.time_ns - earlier.time_ns) as f64 / 1e9
    }
}

/// How a picture as a whole moved up to a frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PictureMotion {
    /// `frame_seq` of the frame, not 0.
    pub frame_seq: u64,
    /// Rows of a 2 x 3 matrix: from (x, y, 1) in source pixels of the frame that the stream took before to source pixels of this frame.
    pub now_from_before: [f32; 6],
}

/// Frames whose times and motion are kept one by one.
pub const NEWEST_KEPT: usize = 64;

/// Shortest time for which times and motion are kept: language models answer late.
pub const KEPT_NS: u64 = 10_000_000_000;

/// Most frames whose times are kept: above 100 frames a second, some frames before the [newest](NEWEST_KEPT) are left out.
const TIMES_MAX: usize = 1024;

/// Times of the newest frames: of at least 64, and of at least ten seconds. All memory is allocated at construction.
#[derive(Clone, Debug)]
pub struct FrameTimes(VecDeque<FrameTime>);

impl Default for FrameTimes {
    fn default() -> Self {
        Self(VecDeque::with_capacity(TIMES_MAX))
    }
}

impl FrameTimes {
    /// Adds the newest frame.
    pub fn push(&mut self, at: FrameTime) {
        // The first kept time is at least ten seconds old. A time before a jump back counts as older.
        let is_over = |kept: &FrameTime| {
            kept.time_ns.saturating_add(KEPT_NS) <= at.time_ns || at.time_ns < kept.time_ns
        };
        while NEWEST_KEPT <= self.0.len() && self.0.get(1).is_some_and(is_over) {
            self.0.pop_front();
        }
        if self.0.len() == TIMES_MAX {
            self.leave_one_out();
        }
        self.0.push_back(at);
    }

    /// Forgets the frame before the newest ones whose neighbours are nearest to each other.
    fn leave_one_out(&mut self) {
        let gap =
            |index: &usize| self.0[index + 1].time_ns.saturating_sub(self.0[index - 1].time_ns);
        if let Some(index) = (1..TIMES_MAX - NEWEST_KEPT).min_by_key(gap) {
            self.0.remove(index);
        }
    }

    /// `frame_seq` of the oldest frame whose time is kept; `None` before the first.
    pub fn oldest(&self) -> Option<u64> {
        self.0.front().map(|at| at.frame_seq)
    }

    /// Whether the first frame is still to come.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The time of frame `frame_seq`, or if it was left out of the last frame before it; `None` if it is older than all kept frames.
    pub fn time_ns(&self, frame_seq: u64) -> Option<u64> {
        self.0.iter().rev().find(|at| at.frame_seq <= frame_seq).map(|at| at.time_ns)
    }

    /// `frame_seq` of the first kept frame that was not before `time_ns`, if times do not jump.
    pub fn first_since(&self, time_ns: u64) -> Option<u64> {
        self.0.iter().find(|at| time_ns <= at.time_ns).map(|at| at.frame_seq)
    }
}
