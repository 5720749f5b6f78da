//! Recordings of a view: MCAP files with its token frames as in the ring, and messages that other viewers can show.
//! `docs/reference/recording.md` specifies them.
//!
//! ```text
//!  record --> ViewRecorder: messages of a frame
//!         --> RecordingFile: reserves disk space, compresses, indexes -> run.mcap, run-0001.mcap, ...
//!  replay <-- Playback: segments and token frames <- the files, in this order
//! ```

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use foxglove::Encode;
use prost::Message;

use self::messages::{
    GazeMessage, SegmentMessage, StateKind, StateMessage, TokenFrameMessage, VERSION,
};
use self::part::{RecordingFile, Times, WriteError};
use self::topic::Topic;
use foveate::messages::{SceneEvent, ViewName};
use foveate_core::clock::unix_ns;
use foveate_core::geometry::fixation::Fixations;
use foveate_core::rate::RateLimit;
use foveate_ring::{FrameHead, HeaderPage, RingError, SegmentInfo, TokenFrameBuf};

pub mod messages;
#[cfg(feature = "web")]
pub(crate) mod page;
mod part;
mod pictures;
pub mod playback;
mod source;
mod topic;

/// Most messages of a frame: one of each topic.
const FRAME_MESSAGES_MAX: u64 = 8;

/// Errors of recordings.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// A file cannot be created.
    #[error("cannot create {}{}", path.display(), if_exists(source))]
    Create {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },

    /// The disk is full.
    #[error("disk full: the recording {} ends after {frames} frames; the file is complete", path.display())]
    Full {
        /// The file.
        path: PathBuf,
        /// Frames of the recording.
        frames: u64,
        /// The system's error.
        source: io::Error,
    },

    /// Writing failed; the file ends with its last whole chunk and has no index.
    #[error("cannot write {}: it ends with its last whole chunk and lacks an index; add one with `mcap recover`", path.display())]
    WriteFailed {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },

    /// A picture cannot be encoded.
    #[error("cannot encode the picture of frame {frame_seq}")]
    Picture {
        /// The frame.
        frame_seq: u64,
        /// The encoder's error.
        source: image::ImageError,
    },

    /// A file cannot be opened.
    #[error("cannot read {}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },

    /// A file is not MCAP, or damaged.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The mistake.
        source: mcap::McapError,
    },

    /// A message is not what it should be.
    #[error("{} is not a recording of a view: {what}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The mistake.
        what: String,
    },

    /// The header of a segment cannot be used.
    #[error("{} has an invalid segment", path.display())]
    Segment {
        /// The file.
        path: PathBuf,
        /// The mistake.
        source: RingError,
    },
}

impl RecordingError {
    /// Whether a file to be read does not exist.
    pub(super) fn is_missing_file(&self) -> bool {
        matches!(self, Self::Open { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

fn if_exists(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::AlreadyExists => ": choose another name, or remove it",
        _ => "",
    }
}

/// Settings of a recording.
#[derive(Clone, Debug)]
pub struct RecordingSettings {
    /// The first file; the others have numbers before its extension.
    pub path: PathBuf,
    /// Most bytes of a file; one with a single frame may have more.
    pub rotate_bytes: Option<u64>,
    /// Time limit of a file.
    pub rotate_after: Option<Duration>,
    /// Interval of pictures; `None` for no pictures.
    pub picture_interval: Option<Duration>,
}

/// A file that is complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedFile {
    /// The file.
    pub path: PathBuf,
    /// Size in bytes.
    pub bytes: u64,
    /// Token frames in the file.
    pub frames: u64,
}

/// Records a view.
pub struct ViewRecorder {
    settings: RecordingSettings,
    view: ViewName,
    part: RecordingFile,
    /// Files so far, with the open one.
    count: u32,
    finished: Vec<FinishedFile>,
    segment: Option<(Box<HeaderPage>, SegmentInfo)>,
    /// Whether the segment's header is still to be written to the file.
    is_segment_due: bool,
    /// Fixations of the newest frame.
    fixations: Fixations,
    /// Limit of pictures; `None` for a recording without pictures.
    pictures: Option<RateLimit>,
    /// Whether pictures are skipped for now, because they take too long.
    skips_pictures: bool,
    /// Pictures that were due and were skipped.
    pictures_skipped: u64,
}

impl ViewRecorder {
    /// Begins a recording of `view`.
    ///
    /// # Errors
    ///
    /// If the file exists, or cannot be created.
    pub fn create(view: &ViewName, settings: RecordingSettings) -> Result<Self, RecordingError> {
        Ok(Self {
            part: created(&settings.path)?,
            view: view.clone(),
            count: 1,
            finished: Vec::new(),
            segment: None,
            is_segment_due: false,
            fixations: Fixations::new(),
            pictures: settings.picture_interval.map(RateLimit::new),
            skips_pictures: false,
            pictures_skipped: 0,
            settings,
        })
    }

    /// Begins a segment, to which the frames that follow belong.
    pub fn begin_segment(&mut self, page: Box<HeaderPage>, info: SegmentInfo) {
        self.segment = Some((page, info));
        self.is_segment_due = true;
        self.fixations.clear();
    }

    /// Records a frame, before which `missed` frames were lost.
    ///
    /// # Errors
    ///
    /// If the disk is full or fails.
    ///
    /// # Panics
    ///
    /// If no segment came before it.
    pub fn record_frame(
        &mut self,
        frame: TokenFrameBuf,
        missed: u64,
    ) -> Result<(), RecordingError> {
        let (page, info) = self.segment.as_ref().expect("frames are of a segment");
        let (epoch, times) = (info.epoch, times_of(&frame.head));
        // The segment's message has the times of its first frame, and comes before it, so that messages are in the order of time, too.
        let segment = (Topic::Segment, segment_message(page, epoch));
        let gaze = (Topic::Gaze, gaze_message(&frame.head));
        let mut messages = Vec::new();
        if 0 < missed {
            let reason = "overwritten before they could be recorded".to_owned();
            let event = StateMessage { kind: StateKind::Missed.to_string(), reason, epoch, missed };
            messages.push((Topic::Status, event.encode_to_vec()));
        }
        if self.pictures.as_mut().is_some_and(|rate| rate.takes(frame.head.stamp.capture_ns)) {
            if self.skips_pictures {
                self.pictures_skipped += 1;
            } else {
                picture_messages(info, &frame, &mut messages)?;
            }
        }
        let is_gaze_new = frame.head.fixations != self.fixations;
        self.fixations.clone_from(&frame.head.fixations);
        messages.push((Topic::Tokens, token_message(frame, epoch, missed)));

        let largest = [&segment, &gaze].into_iter().chain(&messages);
        let has_rotated = self.must_rotate(largest.map(|(_, data)| data.len() as u64).sum())?;
        if has_rotated {
            self.rotate()?;
        }
        let is_segment_due = std::mem::take(&mut self.is_segment_due);
        if has_rotated || is_segment_due {
            self.append(segment.0, times, &segment.1)?;
        }
        if has_rotated || is_gaze_new {
            self.append(gaze.0, times, &gaze.1)?;
        }
        messages.iter().try_for_each(|(topic, data)| self.append(*topic, times, data))
    }

    /// Records a state change of the view (live, stalled, ended ...).
    ///
    /// # Errors
    ///
    /// If the disk is full or fails.
    pub(super) fn record_state(
        &mut self,
        kind: StateKind,
        reason: &str,
    ) -> Result<(), RecordingError> {
        let epoch = self.segment.as_ref().map_or(0, |(_, info)| info.epoch);
        let event =
            StateMessage { kind: kind.to_string(), reason: reason.to_owned(), epoch, missed: 0 };
        self.append(Topic::Status, now(), &event.encode_to_vec())
    }

    /// Records an event in the picture, at the time of the frame that reported it.
    ///
    /// # Errors
    ///
    /// If the disk is full or fails.
    pub(super) fn record_event(&mut self, event: &SceneEvent) -> Result<(), RecordingError> {
        let times = Times { log: event.capture_unix_ns, publish: unix_ns() };
        self.append(Topic::Events, times, &messages::SceneMessage::from(event).encode_to_vec())
    }

    /// Writes buffered messages that are old enough. Call it at least every second.
    ///
    /// # Errors
    ///
    /// If the disk fails.
    pub(super) fn flush_due(&mut self) -> Result<(), RecordingError> {
        self.part.flush_due().map_err(|error| self.failed(error))
    }

    /// Ends the last file.
    ///
    /// # Errors
    ///
    /// If the disk fails.
    pub fn finish(&mut self) -> Result<(), RecordingError> {
        let (path, frames) = (self.part.path().to_owned(), self.part.frames());
        match self.part.finish() {
            Ok(bytes) => {
                self.finished.push(FinishedFile { path, bytes, frames });
                Ok(())
            }
            Err(source) => {
                self.part.cut();
                Err(RecordingError::WriteFailed { path, source })
            }
        }
    }

    /// Sets whether the frames that follow are recorded without pictures, because those take too long.
    pub(super) fn skip_pictures(&mut self, skips: bool) {
        self.skips_pictures = skips;
    }

    /// Pictures that were due and were skipped.
    pub(super) fn pictures_skipped(&self) -> u64 {
        self.pictures_skipped
    }

    /// The files that are complete.
    pub fn finished(&self) -> &[FinishedFile] {
        &self.finished
    }

    /// Whether a frame with `bytes` bytes of messages belongs in another file. A file has at least one frame.
    fn must_rotate(&mut self, bytes: u64) -> Result<bool, RecordingError> {
        let RecordingSettings { rotate_bytes, rotate_after, .. } = self.settings;
        let is_large = |part: &RecordingFile| {
            rotate_bytes.is_some_and(|most| most < part.bound(FRAME_MESSAGES_MAX, bytes))
        };
        if is_large(&self.part) {
            // Uncompressed data counts in full, because it may not shrink.
            self.part.flush().map_err(|error| self.failed(error))?;
        }
        let is_old = rotate_after.is_some_and(|limit| limit <= self.part.age());
        Ok(0 < self.part.frames() && (is_large(&self.part) || is_old))
    }

    /// Continues in a new file, which can be read without the earlier ones.
    fn rotate(&mut self) -> Result<(), RecordingError> {
        let path = numbered(&self.settings.path, self.count);
        self.finish()?;
        self.part = created(&path)?;
        self.count += 1;
        Ok(())
    }

    fn append(&mut self, topic: Topic, times: Times, data: &[u8]) -> Result<(), RecordingError> {
        self.part.write(&self.view, topic, times, data).map_err(|error| self.failed(error))
    }

    /// Ends the file as well as possible after `error`, and returns the error to report.
    fn failed(&mut self, error: WriteError) -> RecordingError {
        let (path, frames) = (self.part.path().to_owned(), self.part.frames());
        match error {
            WriteError::Full(source) => match self.finish() {
                Ok(()) => RecordingError::Full { path, frames, source },
                Err(error) => error,
            },
            WriteError::Failed(source) => {
                self.part.cut();
                RecordingError::WriteFailed { path, source }
            }
        }
    }
}

fn created(path: &Path) -> Result<RecordingFile, RecordingError> {
    RecordingFile::create(path)
        .map_err(|source| RecordingError::Create { path: path.to_owned(), source })
}

/// `run.mcap` with the number 1 is `run-0001.mcap`.
fn numbered(path: &Path, number: u32) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(format!("-{number:04}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

/// The times of a message that belongs to no frame.
fn now() -> Times {
    let now = unix_ns();
    Times { log: now, publish: now }
}

/// When a frame was captured, and when it was published.
fn times_of(head: &FrameHead) -> Times {
    let log = head.stamp.capture_unix_ns;
    let latency = head.publish_ns.saturating_sub(head.stamp.capture_ns);
    Times { log, publish: log.saturating_add(latency) }
}

fn segment_message(page: &HeaderPage, epoch: u64) -> Vec<u8> {
    SegmentMessage { version: VERSION, epoch, header: page.to_vec() }.encode_to_vec()
}

fn gaze_message(head: &FrameHead) -> Vec<u8> {
    let fixations = head.fixations.iter().map(messages::FixationMessage::from).collect();
    GazeMessage { frame_seq: head.stamp.frame_seq, fixations }.encode_to_vec()
}

fn token_message(frame: TokenFrameBuf, epoch: u64, missed: u64) -> Vec<u8> {
    let TokenFrameBuf { head, records, pixels, planes } = frame;
    let message = TokenFrameMessage {
        version: VERSION,
        epoch,
        missed,
        header: bytemuck::bytes_of(&head.to_slot(records.len())).to_vec(),
        records: bytemuck::cast_slice(&records).to_vec(),
        planes: std::iter::once(pixels).chain(planes).collect(),
    };
    message.encode_to_vec()
}

/// Adds the messages of a frame that other viewers can show.
fn picture_messages(
    info: &SegmentInfo,
    frame: &TokenFrameBuf,
    messages: &mut Vec<(Topic, Vec<u8>)>,
) -> Result<(), RecordingError> {
    let frame_seq = frame.head.stamp.frame_seq;
    let image = pictures::image(info, frame)
        .map_err(|source| RecordingError::Picture { frame_seq, source })?;
    messages.push((Topic::Image, encoded(&image)));
    let boxes = pictures::boxes(info, frame)
        .map_err(|source| RecordingError::Picture { frame_seq, source })?;
    messages.push((Topic::Boxes, encoded(&boxes)));
    messages.push((Topic::Annotations, encoded(&pictures::annotations(info, frame))));
    if let Some(calibration) = pictures::calibration(info, frame) {
        messages.push((Topic::Calibration, encoded(&calibration)));
    }
    Ok(())
}

fn encoded(message: &impl Encode) -> Vec<u8> {
    let mut data = Vec::new();
    message.encode(&mut data).expect("a vector has room");
    data
}
