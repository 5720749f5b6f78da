//! Messages between the daemon and a source process, each a datagram of a `SOCK_SEQPACKET` pair.
//!
//! Both ends are the same program, so integers have the machine's byte order, and a message of another [`VERSION`] is refused. The
//! process trusts the daemon. The daemon trusts nothing: [`FromSource::decode`] refuses bytes that are not a message, and
//! [`Ledger`](crate::ledger::Ledger) refuses messages that no honest process sends. There is no message to stop: the process ends when the daemon's end
//! of the pair is shut down, as it is when the daemon dies.

use foveate_core::color::{ColorMatrix, ColorRange, Colorimetry, Transfer};
use foveate_core::depth::DepthFormat;
use foveate_core::frame::{CaptureClock, PixelFormat};
use foveate_core::geometry::extent::Extent;
use foveate_core::gray::GrayRange;
use foveate_core::mask::Mask;
use foveate_core::pixel::PixelAspect;
use foveate_core::source::SourceSpec;
use foveate_stats::{Counter, LossReason, StreamCounters};
use serde::{Deserialize, Serialize};

use crate::frame::{FrameLayout, PlaneLayout, SampleFormat};
use crate::pool::PoolLimits;

/// Version of the protocol, which both ends must share.
pub const VERSION: u8 = 1;

/// Most bytes of a message to the daemon.
pub const FROM_SOURCE_BYTES_MAX: usize = 8192;

/// Most bytes of a message to the process: what a socket takes by default.
pub const TO_SOURCE_BYTES_MAX: usize = 160 * 1024;

/// Most bytes of the text of an error.
pub const TEXT_BYTES_MAX: usize = 4096;

/// Reason for refusing a datagram.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// Another version of the protocol.
    #[error("a message of version {0} (expected {VERSION})")]
    Version(u8),
    /// Unknown kind of message.
    #[error("an unknown message: {0}")]
    Kind(u8),
    /// The message is too short or too long for its fields.
    #[error("a message of {0} bytes, which is not its length")]
    Length(usize),
    /// A field has an invalid value.
    #[error("an invalid value of `{0}`")]
    Value(&'static str),
}

/// The first message of the daemon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// The source to capture. Its masks hold from the first frame on.
    pub spec: SourceSpec,
    /// Revision of the masks: the number of the change that led to them.
    pub mask_revision: u64,
    /// Whether the source is only checked, without sending frames.
    pub only_checks: bool,
    /// Whether an earlier pipeline of the stream was lost.
    pub is_restart: bool,
    /// Whether an earlier pipeline of the stream has delivered frames.
    pub has_delivered: bool,
    /// Limits of the process's buffers.
    pub pool: PoolLimits,
    /// Most frames that the daemon holds at a time.
    pub frames_max: u8,
    /// Most bytes of the data of the process: its heap and its stacks.
    pub data_bytes_max: u64,
}

/// A message of the daemon.
#[derive(Clone, Debug, PartialEq)]
pub enum ToSource {
    /// Capture begins.
    Start(Box<Start>),
    /// The revision and the masks from the next frame on.
    Masks(u64, Vec<Mask>),
    /// A buffer may be written again.
    Free(u8),
}

/// A message of a source process.
#[derive(Clone, Debug, PartialEq)]
pub enum FromSource {
    /// The memory of a buffer, whose descriptor is attached. It replaces an earlier one of the same number.
    Buffer(u8),
    /// The process has freed the buffer of this number.
    Gone(u8),
    /// A frame is in a buffer. The buffer is the daemon's until [`ToSource::Free`].
    Frame(FrameReady),
    /// Frames counted since the last message.
    Counts(FrameCounts),
    /// The end of a clip: the last message.
    Ended,
    /// The source failed: the last message.
    Failed(Failure),
}

/// A frame that a source process hands over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameReady {
    /// Number of the buffer.
    pub buffer: u8,
    /// Layout of the samples in the buffer.
    pub layout: FrameLayout,
    /// Number and times.
    pub stamp: SourceStamp,
    /// Revision of the masks that fill the frame, as in [`Start`].
    pub mask_revision: u64,
    /// Whether the pipeline is live.
    pub is_live: bool,
    /// Whether the samples are exact.
    pub is_exact: bool,
    /// Counts since the message before, with this frame.
    pub counts: FrameCounts,
}

/// Number and times of a frame, as the process knows them. The daemon adds what it knows of the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceStamp {
    /// Counts the frames of the process, from 1.
    pub number: u64,
    /// Presentation time in nanoseconds.
    pub pts_ns: Option<u64>,
    /// Capture time on CLOCK_MONOTONIC, in nanoseconds.
    pub capture_ns: u64,
    /// Capture time on CLOCK_REALTIME, in nanoseconds since 1970.
    pub capture_unix_ns: u64,
    /// Source of the capture time.
    pub capture_clock: CaptureClock,
    /// Arrival in the process on CLOCK_MONOTONIC, in nanoseconds.
    pub arrival_ns: u64,
}

/// Counts of a source since its last message. Each field is named after its counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameCounts {
    /// `frames_captured`.
    pub captured: u32,
    /// `frames_dropped`.
    pub dropped: u32,
    /// `frames_refused`.
    pub refused: u32,
    /// `frames_corrupted`.
    pub corrupted: u32,
    /// `frames_skipped`.
    pub skipped: u32,
    /// `frames_masked`.
    pub masked: u32,
    /// `frames_copied_to_mask`.
    pub copied_to_mask: u32,
    /// `frames_copied_to_send`.
    pub copied_to_send: u32,
    /// `stamps_clamped`.
    pub clamped: u32,
}

/// The counters of a stream in the order of [`FrameCounts::all`].
pub fn counters(counters: &StreamCounters) -> [&Counter; 9] {
    [
        &counters.frames_captured,
        &counters.frames_dropped,
        &counters.frames_refused,
        &counters.frames_corrupted,
        &counters.frames_skipped,
        &counters.frames_masked,
        &counters.frames_copied_to_mask,
        &counters.frames_copied_to_send,
        &counters.stamps_clamped,
    ]
}

impl FrameCounts {
    /// The counts in the order of a message.
    pub fn all(&self) -> [u32; 9] {
        let Self { captured, dropped, refused, corrupted, skipped, masked, .. } = *self;
        let Self { copied_to_mask, copied_to_send, clamped, .. } = *self;
        let (to_mask, to_send) = (copied_to_mask, copied_to_send);
        [captured, dropped, refused, corrupted, skipped, masked, to_mask, to_send, clamped]
    }

    /// The counts in the order of [`all`](Self::all).
    pub fn of(counts: [u32; 9]) -> Self {
        let [captured, dropped, refused, corrupted, skipped, masked, to_mask, to_send, clamped] =
            counts;
        let (copied_to_mask, copied_to_send) = (to_mask, to_send);
        Self {
            captured,
            dropped,
            refused,
            corrupted,
            skipped,
            masked,
            copied_to_mask,
            copied_to_send,
            clamped,
        }
    }
}

/// Why a source failed. The process has decided what the daemon may do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The error with its remedy, at most [`TEXT_BYTES_MAX`] bytes.
    pub text: String,
    /// Reason by which a restart after it is counted.
    pub reason: LossReason,
    /// Whether another pipeline may succeed.
    pub is_transient: bool,
    /// Whether only another configuration helps.
    pub is_configuration: bool,
    /// Whether the failure is that a live source was asked for every frame, for which it would have to wait for its consumer.
    pub is_every_frame_live: bool,
}

// Kinds of messages: below 16 of the daemon, from 16 on of the process.
const START: u8 = 1;
const MASKS: u8 = 2;
const FREE: u8 = 3;
const BUFFER: u8 = 16;
const FRAME: u8 = 17;
const COUNTS: u8 = 18;
const ENDED: u8 = 19;
const FAILED: u8 = 20;
const GONE: u8 = 21;

/// [`ToSource::Free`], without allocating.
pub(crate) fn free_message(buffer: u8) -> [u8; 3] {
    [VERSION, FREE, buffer]
}

impl ToSource {
    /// Writes the message over `bytes`.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.clear();
        bytes.push(VERSION);
        match self {
            Self::Start(start) => {
                bytes.push(START);
                serde_json::to_writer(bytes, start).expect("paths are text by now");
            }
            Self::Masks(revision, masks) => {
                bytes.push(MASKS);
                bytes.extend(revision.to_ne_bytes());
                serde_json::to_writer(bytes, masks).expect("masks are plain values");
            }
            Self::Free(buffer) => bytes.extend(&free_message(*buffer)[1..]),
        }
    }

    /// The message in `bytes`.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut fields = Fields::of_message(bytes)?;
        match fields.u8()? {
            START => {
                let start = serde_json::from_slice(fields.rest());
                start.map(Self::Start).map_err(|_| WireError::Value("start"))
            }
            MASKS => {
                let revision = fields.u64()?;
                let masks = serde_json::from_slice(fields.rest());
                masks
                    .map(|masks| Self::Masks(revision, masks))
                    .map_err(|_| WireError::Value("masks"))
            }
            FREE => fields.last(Fields::u8).map(Self::Free),
            kind => Err(WireError::Kind(kind)),
        }
    }
}

impl FromSource {
    /// Writes the message over `bytes`.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.clear();
        bytes.push(VERSION);
        match self {
            Self::Buffer(buffer) => bytes.extend([BUFFER, *buffer]),
            Self::Gone(buffer) => bytes.extend([GONE, *buffer]),
            Self::Frame(frame) => {
                bytes.extend([FRAME, frame.buffer]);
                encode_layout(&frame.layout, bytes);
                encode_stamp(&frame.stamp, bytes);
                bytes.extend(frame.mask_revision.to_ne_bytes());
                bytes.extend([frame.is_live, frame.is_exact].map(u8::from));
                encode_counts(&frame.counts, bytes);
            }
            Self::Counts(counts) => {
                bytes.push(COUNTS);
                encode_counts(counts, bytes);
            }
            Self::Ended => bytes.push(ENDED),
            Self::Failed(failure) => {
                let reason = index_in(&LossReason::ALL, failure.reason);
                let Failure { is_transient, is_configuration, is_every_frame_live, .. } = *failure;
                bytes.extend([FAILED, reason]);
                bytes.extend([is_transient, is_configuration, is_every_frame_live].map(u8::from));
                let end = failure.text.floor_char_boundary(TEXT_BYTES_MAX);
                bytes.extend(&failure.text.as_bytes()[..end]);
            }
        }
    }

    /// The message in `bytes`.
    ///
    /// # Errors
    ///
    /// If there is none. Its values are not to be trusted: [`Ledger`](crate::ledger::Ledger) checks them.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut fields = Fields::of_message(bytes)?;
        match fields.u8()? {
            BUFFER => fields.last(Fields::u8).map(Self::Buffer),
            GONE => fields.last(Fields::u8).map(Self::Gone),
            FRAME => fields.last(decode_frame).map(Self::Frame),
            COUNTS => fields.last(decode_counts).map(Self::Counts),
            ENDED => fields.last(|_| Ok(())).map(|()| Self::Ended),
            FAILED => {
                let reason = fields.one_of(&LossReason::ALL, "reason")?;
                let is_transient = fields.flag("transient")?;
                let is_configuration = fields.flag("configuration")?;
                let is_every_frame_live = fields.flag("every-frame")?;
                let text = fields.rest();
                if TEXT_BYTES_MAX < text.len() {
                    return Err(WireError::Length(bytes.len()));
                }
                let text = String::from_utf8_lossy(text).into_owned();
                Ok(Self::Failed(Failure {
                    text,
                    reason,
                    is_transient,
                    is_configuration,
                    is_every_frame_live,
                }))
            }
            kind => Err(WireError::Kind(kind)),
        }
    }
}

fn encode_layout(layout: &FrameLayout, bytes: &mut Vec<u8>) {
    match layout.samples {
        SampleFormat::Picture(format, color) => {
            bytes.extend([0, index_in(&PixelFormat::ALL, format)]);
            let matrix = color.matrix.map_or(0, |matrix| 1 + index_in(&ColorMatrix::ALL, matrix));
            let transfer =
                color.transfer.map_or(0, |transfer| 1 + index_in(&Transfer::ALL, transfer));
            bytes.extend([matrix, index_in(&ColorRange::ALL, color.range), transfer]);
            bytes.extend([color.is_matrix_assumed, color.is_range_assumed].map(u8::from));
        }
        SampleFormat::Depth(format) => {
            bytes.extend([1, index_in(&DepthFormat::ALL, format), 0, 0, 0, 0, 0]);
        }
    }
    let Extent { width, height } = layout.extent;
    let PixelAspect { width: aspect_width, height: aspect_height } = layout.pixel_aspect;
    bytes.extend([width, height, aspect_width, aspect_height].map(u32::to_ne_bytes).as_flattened());
    // 0, 0 stands for no range.
    let gray_range = layout.gray_range.map_or([0; 2], GrayRange::bounds);
    bytes.extend(gray_range.map(u32::from).map(u32::to_ne_bytes).as_flattened());
    for PlaneLayout { offset, stride } in layout.planes {
        bytes.extend([offset as u64, stride as u64].map(u64::to_ne_bytes).as_flattened());
    }
}

fn decode_layout(fields: &mut Fields<'_>) -> Result<FrameLayout, WireError> {
    let samples = match fields.u8()? {
        0 => {
            let format = fields.one_of(&PixelFormat::ALL, "format")?;
            let matrix = fields.optional(&ColorMatrix::ALL, "matrix")?;
            let range = fields.one_of(&ColorRange::ALL, "range")?;
            let transfer = fields.optional(&Transfer::ALL, "transfer")?;
            let is_matrix_assumed = fields.flag("assumed")?;
            let is_range_assumed = fields.flag("assumed")?;
            let color =
                Colorimetry { matrix, range, transfer, is_matrix_assumed, is_range_assumed };
            SampleFormat::Picture(format, color)
        }
        1 => {
            let format = fields.one_of(&DepthFormat::ALL, "format")?;
            fields.array::<5>()?;
            SampleFormat::Depth(format)
        }
        _ => return Err(WireError::Value("content")),
    };
    let extent = Extent::new(fields.u32()?, fields.u32()?);
    let pixel_aspect = PixelAspect { width: fields.u32()?, height: fields.u32()? };
    if pixel_aspect.width == 0 || pixel_aspect.height == 0 {
        return Err(WireError::Value("pixel aspect ratio"));
    }
    let gray_range = match (fields.u32()?, fields.u32()?) {
        (0, 0) => None,
        (low, high) => {
            let bounds = u16::try_from(low).ok().zip(u16::try_from(high).ok());
            let range = bounds.and_then(|(low, high)| GrayRange::new(low, high));
            Some(range.ok_or(WireError::Value("gray range"))?)
        }
    };
    let mut planes = [PlaneLayout::default(); 3];
    for plane in &mut planes {
        let mut size = || usize::try_from(fields.u64()?).map_err(|_| WireError::Value("plane"));
        *plane = PlaneLayout { offset: size()?, stride: size()? };
    }
    Ok(FrameLayout { samples, extent, pixel_aspect, gray_range, planes })
}

fn encode_stamp(stamp: &SourceStamp, bytes: &mut Vec<u8>) {
    let SourceStamp { number, pts_ns, capture_ns, capture_unix_ns, capture_clock, arrival_ns } =
        *stamp;
    bytes.push(pts_ns.is_some().into());
    bytes.push(index_in(&CaptureClock::ALL, capture_clock));
    let numbers = [number, pts_ns.unwrap_or(0), capture_ns, capture_unix_ns, arrival_ns];
    bytes.extend(numbers.map(u64::to_ne_bytes).as_flattened());
}

fn decode_stamp(fields: &mut Fields<'_>) -> Result<SourceStamp, WireError> {
    let has_pts = fields.flag("presentation time")?;
    let capture_clock = fields.one_of(&CaptureClock::ALL, "clock")?;
    let number = fields.u64()?;
    let pts_ns = Some(fields.u64()?).filter(|_| has_pts);
    let (capture_ns, capture_unix_ns) = (fields.u64()?, fields.u64()?);
    let arrival_ns = fields.u64()?;
    Ok(SourceStamp { number, pts_ns, capture_ns, capture_unix_ns, capture_clock, arrival_ns })
}

fn encode_counts(counts: &FrameCounts, bytes: &mut Vec<u8>) {
    bytes.extend(counts.all().map(u32::to_ne_bytes).as_flattened());
}

fn decode_counts(fields: &mut Fields<'_>) -> Result<FrameCounts, WireError> {
    let mut counts = [0; 9];
    for count in &mut counts {
        *count = fields.u32()?;
    }
    Ok(FrameCounts::of(counts))
}

fn decode_frame(fields: &mut Fields<'_>) -> Result<FrameReady, WireError> {
    Ok(FrameReady {
        buffer: fields.u8()?,
        layout: decode_layout(fields)?,
        stamp: decode_stamp(fields)?,
        mask_revision: fields.u64()?,
        is_live: fields.flag("live")?,
        is_exact: fields.flag("exact")?,
        counts: decode_counts(fields)?,
    })
}

/// The index of `value` in `all`.
fn index_in<T: PartialEq>(all: &[T], value: T) -> u8 {
    let index = all.iter().position(|known| *known == value);
    // A value outside `all` gets the number after the last.
    u8::try_from(index.unwrap_or(all.len())).unwrap_or(u8::MAX)
}

/// Reads the fields of a message one by one.
struct Fields<'a> {
    /// Bytes that are not read yet.
    left: &'a [u8],
    /// Length of the message in bytes, for errors.
    len: usize,
}

impl<'a> Fields<'a> {
    /// The fields after the version.
    fn of_message(bytes: &'a [u8]) -> Result<Self, WireError> {
        let mut fields = Self { left: bytes, len: bytes.len() };
        match fields.u8()? {
            VERSION => Ok(fields),
            other => Err(WireError::Version(other)),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (taken, left) = self.left.split_first_chunk().ok_or(WireError::Length(self.len))?;
        self.left = left;
        Ok(*taken)
    }

    fn u8(&mut self) -> Result<u8, WireError> {
        self.array().map(u8::from_ne_bytes)
    }

    fn u32(&mut self) -> Result<u32, WireError> {
        self.array().map(u32::from_ne_bytes)
    }

    fn u64(&mut self) -> Result<u64, WireError> {
        self.array().map(u64::from_ne_bytes)
    }

    fn flag(&mut self, name: &'static str) -> Result<bool, WireError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(WireError::Value(name)),
        }
    }

    fn one_of<T: Copy>(&mut self, all: &[T], name: &'static str) -> Result<T, WireError> {
        all.get(usize::from(self.u8()?)).copied().ok_or(WireError::Value(name))
    }

    /// Like [`one_of`](Self::one_of), counted from 1; 0 is `None`.
    fn optional<T: Copy>(&mut self, all: &[T], name: &'static str) -> Result<Option<T>, WireError> {
        let Some(index) = usize::from(self.u8()?).checked_sub(1) else { return Ok(None) };
        all.get(index).copied().map(Some).ok_or(WireError::Value(name))
    }

    fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.left)
    }

    /// Reads all remaining bytes with `read`; an error if some are left over.
    fn last<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, WireError>,
    ) -> Result<T, WireError> {
        let value = read(self)?;
        if self.left.is_empty() { Ok(value) } else { Err(WireError::Length(self.len)) }
    }
}

#[cfg(test)]
mod tests;
