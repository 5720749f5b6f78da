//! Plays a recording back: frames and state changes in order.

#![cfg_attr(not(feature = "web"), allow(dead_code, reason = "only the page asks where a frame is"))]

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use bytemuck::Zeroable;
use prost::{DecodeError, Message};

use super::RecordingError;
use super::messages::{SceneMessage, SegmentMessage, StateMessage, TokenFrameMessage, VERSION};
use super::source::{MessageKind, MessagePlace, RecordedMessage, RecordingItem, RecordingSource};
use foveate_ring::abi::SlotHeader;
use foveate_ring::{FrameHead, HeaderPage, SegmentInfo, State, TokenFrameBuf, TokenRecord};

/// Largest segment that is made again: its header alone says how large it is.
const SEGMENT_BYTES_MAX: usize = 2 << 30;

/// An item of a recording. Items come in the order in which they were recorded.
#[derive(Clone, Debug)]
pub enum PlaybackItem {
    /// The frames that follow are of the segment with this header.
    Segment(Box<HeaderPage>, Box<SegmentInfo>),
    /// A token frame.
    Frame {
        /// The frame as a reader of the ring got it.
        frame: Box<TokenFrameBuf>,
        /// When the frame was published, in nanoseconds since 1970.
        published_unix_ns: u64,
        /// Frames before it that were not recorded.
        missed: u64,
    },
    /// The state of the view changed, for this reason.
    State(State, String),
    /// Something happened in the picture.
    Event(Box<SceneMessage>),
    /// A part of the file is damaged, as described, and was left out.
    Damaged(PathBuf, String),
    /// The rest of the file cannot be read, as after its recorder was killed.
    CutShort(PathBuf, String),
}

/// Reads the files of a recording of one view, in their order.
pub struct Playback {
    waiting: VecDeque<PathBuf>,
    open: Option<(PathBuf, RecordingSource)>,
    /// Prefix of the topics of the view; known from the first message on.
    view: Option<String>,
    segment: Option<Box<SegmentInfo>>,
    /// Whether a part was left out, so that segments may be missing.
    is_damaged: bool,
}

impl Playback {
    /// Plays `files`, which are opened one after the other.
    pub fn new(files: impl IntoIterator<Item = PathBuf>) -> Self {
        let waiting = files.into_iter().collect();
        Self { waiting, open: None, view: None, segment: None, is_damaged: false }
    }

    /// Place of the newest message in the open file.
    pub(super) fn place(&self) -> MessagePlace {
        self.open.as_ref().map(|(_, source)| source.place()).unwrap_or_default()
    }

    /// Files that have not been opened yet.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The next item; `None` after the last file, and once `is_over`.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, or is not a recording of the same view.
    pub fn advance(
        &mut self,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Option<PlaybackItem>, RecordingError> {
        while !is_over() {
            let Some((path, source)) = &mut self.open else {
                let Some(path) = self.waiting.pop_front() else { return Ok(None) };
                let source = RecordingSource::open(&path)?;
                self.open = Some((path, source));
                continue;
            };
            let path = path.clone();
            let item = source.next(is_over);
            match item.map_err(|source| RecordingError::Read { path: path.clone(), source })? {
                Some(RecordingItem::Message(entry)) => {
                    if let Some(played) = self.played(&path, entry)? {
                        return Ok(Some(played));
                    }
                }
                Some(RecordingItem::Damaged(why)) => {
                    self.is_damaged = true;
                    return Ok(Some(PlaybackItem::Damaged(path, why)));
                }
                Some(RecordingItem::CutShort(why)) => {
                    self.open = None;
                    return Ok(Some(PlaybackItem::CutShort(path, why)));
                }
                None => self.open = None,
            }
        }
        Ok(None)
    }

    fn played(
        &mut self,
        path: &Path,
        entry: RecordedMessage,
    ) -> Result<Option<PlaybackItem>, RecordingError> {
        let RecordedMessage { kind, topic, publish_time, data } = entry;
        let malformed = |what: String| RecordingError::Malformed { path: path.to_owned(), what };
        let undecodable = |error: DecodeError| malformed(format!("invalid {kind:?}: {error}"));
        let view = topic.rsplit_once('/').map_or("", |(view, _)| view);
        let known = self.view.get_or_insert_with(|| view.to_owned());
        if known != view {
            return Err(malformed(format!("it has topics of {known} and of {view}")));
        }
        match kind {
            MessageKind::Segment => {
                let segment = SegmentMessage::decode(&data[..]).map_err(undecodable)?;
                check_version(segment.version).map_err(malformed)?;
                self.enter(path, &segment)
            }
            MessageKind::TokenFrame => {
                let frame = TokenFrameMessage::decode(&data[..]).map_err(undecodable)?;
                check_version(frame.version).map_err(malformed)?;
                let segment = self.segment.as_ref();
                if self.is_damaged && segment.is_none_or(|segment| segment.epoch != frame.epoch) {
                    let why = "the segment of a frame is missing".to_owned();
                    return Ok(Some(PlaybackItem::Damaged(path.to_owned(), why)));
                }
                let Some(segment) = segment else {
                    return Err(malformed("a frame precedes its segment".to_owned()));
                };
                let missed = frame.missed;
                let frame = Box::new(frame_of(frame, segment).map_err(malformed)?);
                Ok(Some(PlaybackItem::Frame { frame, published_unix_ns: publish_time, missed }))
            }
            MessageKind::Event => {
                let event = StateMessage::decode(&data[..]).map_err(undecodable)?;
                let states = [State::Live, State::Stalled, State::Ended];
                let state = states.into_iter().find(|state| state.to_string() == event.kind);
                Ok(state.map(|state| PlaybackItem::State(state, event.reason)))
            }
            MessageKind::SceneEvent => {
                let event = SceneMessage::decode(&data[..]).map_err(undecodable)?;
                Ok(Some(PlaybackItem::Event(Box::new(event))))
            }
        }
    }

    /// Each file begins with the segment that the one before ended with.
    fn enter(
        &mut self,
        path: &Path,
        segment: &SegmentMessage,
    ) -> Result<Option<PlaybackItem>, RecordingError> {
        let page: Box<HeaderPage> =
            segment.header.as_slice().try_into().map(Box::new).map_err(|_| {
                let what = format!("the header of a segment has {} bytes", segment.header.len());
                RecordingError::Malformed { path: path.to_owned(), what }
            })?;
        let info = SegmentInfo::from_page(&page)
            .map_err(|source| RecordingError::Segment { path: path.to_owned(), source })?;
        if SEGMENT_BYTES_MAX < info.total_bytes {
            let bytes = info.total_bytes;
            let what = format!(
                "its ring has {bytes} bytes (expected at most {SEGMENT_BYTES_MAX}): record a view with fewer `slots`"
            );
            return Err(RecordingError::Malformed { path: path.to_owned(), what });
        }
        if self.segment.as_ref().is_some_and(|present| present.epoch == info.epoch) {
            return Ok(None);
        }
        let info = Box::new(info);
        self.segment = Some(info.clone());
        Ok(Some(PlaybackItem::Segment(page, info)))
    }
}

/// The frame in the data of a message that is of the segment with this header.
pub(super) fn decoded_frame(data: &[u8], segment: &SegmentInfo) -> Result<TokenFrameBuf, String> {
    let frame = TokenFrameMessage::decode(data).map_err(|error| error.to_string())?;
    check_version(frame.version)?;
    frame_of(frame, segment)
}

fn check_version(version: u32) -> Result<(), String> {
    if version == VERSION {
        return Ok(());
    }
    Err(format!("unsupported version {version} (expected {VERSION})"))
}

/// The frame as a reader of the ring got it. Everything that its segment promises of it is checked.
fn frame_of(frame: TokenFrameMessage, segment: &SegmentInfo) -> Result<TokenFrameBuf, String> {
    let TokenFrameMessage { epoch, header, records, planes, .. } = frame;
    if epoch != segment.epoch {
        return Err(format!(
            "a frame is of segment {epoch:016x}, and follows {:016x}",
            segment.epoch
        ));
    }
    if header.len() != size_of::<SlotHeader>() {
        return Err(format!("the header of a frame has {} bytes", header.len()));
    }
    let header: SlotHeader = bytemuck::pod_read_unaligned(&header);
    let token_count = header.token_count as usize;
    let frame_seq = header.frame_seq;
    let expected = segment.planes.iter().map(|plane| plane.items_bytes(token_count));
    let is_whole = token_count <= segment.capacity
        && records.len() == token_count * size_of::<TokenRecord>()
        && planes.iter().map(Vec::len).eq(expected);
    if !is_whole {
        return Err(format!("frame {frame_seq} is not as its segment says"));
    }
    let mut copied = vec![TokenRecord::zeroed(); token_count];
    bytemuck::cast_slice_mut(&mut copied).copy_from_slice(&records);
    let head = FrameHead::from_slot(&header);
    let is_sound = |record: &TokenRecord| {
        record.is_within_limits(segment.extent, segment.format.patch_side)
            && usize::from(record.fovea) < head.fixations.len()
    };
    if let Some(index) = copied.iter().position(|record| !is_sound(record)) {
        return Err(format!(
            "token {index} of frame {frame_seq} exceeds the limits of docs/reference/abi.md"
        ));
    }
    let mut planes = planes.into_iter();
    Ok(TokenFrameBuf {
        head,
        records: copied,
        pixels: planes.next().unwrap_or_default(),
        planes: planes.collect(),
    })
}
