//! Reads a recording back.

use std::collections::VecDeque;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use bytemuck::Zeroable;
use mcap::McapError;
use mcap::io::MessageReader;
use mcap::sans_io::LinearReaderOptions;
use prost::{DecodeError, Message};

use super::RecordingError;
use super::messages::{Event, Segment, TokenFrame, VERSION};
use foveate_ring::abi::SlotHeader;
use foveate_ring::{FrameHead, HeaderPage, SegmentInfo, State, TokenFrameBuf, TokenRecord};

/// Longest record that is read: far above any frame, so that a broken length does not take all memory.
const RECORD_BYTES_MAX: usize = 1 << 30;

/// What a recording holds, in the order in which it was recorded.
#[derive(Clone, Debug)]
pub enum Played {
    /// The frames that follow are of the segment with this header.
    Segment(Box<HeaderPage>, Box<SegmentInfo>),
    /// A token frame.
    Frame {
        /// As a reader of the ring got it.
        frame: Box<TokenFrameBuf>,
        /// When it was published, in nanoseconds since 1970.
        published_unix_ns: u64,
        /// Frames before it that were not recorded.
        missed: u64,
    },
    /// The state of the view changed, for this reason.
    State(State, String),
    /// The file ends in the middle of a chunk, as it does when the recorder was killed.
    CutShort(PathBuf),
}

/// Reads the files of a recording of one view, in their order.
pub struct Playback {
    waiting: VecDeque<PathBuf>,
    open: Option<(PathBuf, MessageReader<BufReader<File>>)>,
    /// Prefix of the topics of the view; known from the first message on.
    view: Option<String>,
    segment: Option<Box<SegmentInfo>>,
}

impl Playback {
    /// Plays `files`, which are opened one after the other.
    pub fn new(files: impl IntoIterator<Item = PathBuf>) -> Self {
        let waiting = files.into_iter().collect();
        Self { waiting, open: None, view: None, segment: None }
    }

    /// What comes next; `None` after the last file.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, or is no recording of the same view.
    pub fn advance(&mut self) -> Result<Option<Played>, RecordingError> {
        loop {
            let Some((path, reader)) = &mut self.open else {
                let Some(path) = self.waiting.pop_front() else { return Ok(None) };
                let reader = opened(&path)?;
                self.open = Some((path, reader));
                continue;
            };
            let message = match reader.next() {
                Some(Ok(message)) => message,
                Some(Err(McapError::UnexpectedEof | McapError::UnexpectedEoc)) => {
                    let path = std::mem::take(path);
                    self.open = None;
                    return Ok(Some(Played::CutShort(path)));
                }
                Some(Err(source)) => {
                    return Err(RecordingError::Read { path: path.clone(), source });
                }
                None => {
                    self.open = None;
                    continue;
                }
            };
            let path = path.clone();
            if let Some(played) = self.played(&path, &message)? {
                return Ok(Some(played));
            }
        }
    }

    fn played(
        &mut self,
        path: &Path,
        message: &mcap::Message<'_>,
    ) -> Result<Option<Played>, RecordingError> {
        let schema = message.channel.schema.as_ref().map_or("", |schema| &schema.name);
        if !["foveate.Segment", "foveate.TokenFrame", "foveate.Event"].contains(&schema) {
            return Ok(None);
        }
        let malformed = |what: String| RecordingError::Malformed { path: path.to_owned(), what };
        let undecodable = |error: DecodeError| malformed(format!("a {schema} is broken: {error}"));
        let topic = &message.channel.topic;
        let view = topic.rsplit_once('/').map_or("", |(view, _)| view);
        let known = self.view.get_or_insert_with(|| view.to_owned());
        if known != view {
            return Err(malformed(format!("it has topics of {known} and of {view}")));
        }
        let data = &message.data[..];
        match schema {
            "foveate.Segment" => {
                let segment = Segment::decode(data).map_err(undecodable)?;
                check_version(segment.version).map_err(malformed)?;
                self.enter(path, &segment)
            }
            "foveate.TokenFrame" => {
                let frame = TokenFrame::decode(data).map_err(undecodable)?;
                check_version(frame.version).map_err(malformed)?;
                let Some(segment) = &self.segment else {
                    return Err(malformed("a frame comes before its segment".to_owned()));
                };
                let (missed, published_unix_ns) = (frame.missed, message.publish_time);
                let frame = Box::new(frame_of(frame, segment).map_err(malformed)?);
                Ok(Some(Played::Frame { frame, published_unix_ns, missed }))
            }
            _ => {
                let event = Event::decode(data).map_err(undecodable)?;
                let states = [State::Live, State::Stalled, State::Ended];
                let state = states.into_iter().find(|state| state.to_string() == event.kind);
                Ok(state.map(|state| Played::State(state, event.reason)))
            }
        }
    }

    /// Each file begins with the segment that the one before ended with.
    fn enter(&mut self, path: &Path, segment: &Segment) -> Result<Option<Played>, RecordingError> {
        let page: Box<HeaderPage> =
            segment.header.as_slice().try_into().map(Box::new).map_err(|_| {
                let what = format!("the header of a segment has {} bytes", segment.header.len());
                RecordingError::Malformed { path: path.to_owned(), what }
            })?;
        let info = SegmentInfo::from_page(&page)
            .map_err(|source| RecordingError::Segment { path: path.to_owned(), source })?;
        if self.segment.as_ref().is_some_and(|present| present.epoch == info.epoch) {
            return Ok(None);
        }
        let info = Box::new(info);
        self.segment = Some(info.clone());
        Ok(Some(Played::Segment(page, info)))
    }
}

fn opened(path: &Path) -> Result<MessageReader<BufReader<File>>, RecordingError> {
    let failed = |source| RecordingError::Open { path: path.to_owned(), source };
    let file = File::open(path).map_err(failed)?;
    let options = LinearReaderOptions::default()
        .with_prevalidate_chunk_crcs(true)
        .with_record_length_limit(RECORD_BYTES_MAX);
    Ok(MessageReader::new_with_options(BufReader::new(file), options))
}

fn check_version(version: u32) -> Result<(), String> {
    if version == VERSION {
        return Ok(());
    }
    Err(format!("it is of version {version}, and this program reads version {VERSION}"))
}

/// The frame as a reader of the ring got it. Everything that its segment promises of it is checked.
fn frame_of(frame: TokenFrame, segment: &SegmentInfo) -> Result<TokenFrameBuf, String> {
    let TokenFrame { epoch, header, records, planes, .. } = frame;
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
    let mut planes = planes.into_iter();
    Ok(TokenFrameBuf {
        head: FrameHead::from_slot(&header),
        records: copied,
        pixels: planes.next().unwrap_or_default(),
        planes: planes.collect(),
    })
}
