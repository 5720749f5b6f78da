//! Recordings for the live page: where each frame is in its file, and recordings of what the page has in memory.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::messages::SceneMessage;
use super::playback::{Playback, PlaybackItem, decoded_frame};
use super::source::{MessagePlace, RecordingSource};
use super::{RecordingError, RecordingSettings, ViewRecorder};
use foveate::messages::ViewName;
use foveate_ring::TokenFrameBuf;
use foveate_web::{
    FrameSegment, FrameToRecord, RecordedFrames, RecordedView, Timeline, TimelineFact,
};

/// Most frames of a recording that the page shows: nine hours of 30 a second.
const FRAMES_MAX: usize = 1 << 20;

/// Most segments of a recording: each has a header in memory.
const SEGMENTS_MAX: usize = 4096;

/// Most facts of before the first frame.
const EARLY_MAX: usize = 256;

/// Interval of pictures in a recording that the page saves, as in one of `foveate record`.
const PICTURE_INTERVAL: Duration = Duration::from_millis(500);

/// Location of a frame.
#[derive(Clone, Copy, Debug)]
struct FramePlace {
    file: u32,
    segment: u32,
    message: MessagePlace,
}

/// The frames of the files of a recording.
struct FrameIndex {
    files: Vec<PathBuf>,
    segments: Vec<Arc<FrameSegment>>,
    places: Vec<FramePlace>,
    /// The file that was read last.
    open: Mutex<Option<(u32, RecordingSource)>>,
}

/// Reads `files` once, to know their frames. `None` once `is_over`.
///
/// # Errors
///
/// If a file cannot be read, or has no frame.
pub(crate) fn open(
    files: Vec<PathBuf>,
    is_over: &dyn Fn() -> bool,
) -> Result<Option<RecordedView>, RecordingError> {
    let mut playback = Playback::new(files.iter().cloned());
    let (mut segments, mut places) = (Vec::new(), Vec::new());
    let (mut times_ms, mut timeline) = (Vec::<f64>::new(), Timeline::default());
    // Facts from before the first frame, which get its time.
    let mut early = Vec::new();
    while let Some(item) = playback.advance(is_over)? {
        let fact = match item {
            PlaybackItem::Segment(..) if segments.len() == SEGMENTS_MAX => {
                tracing::warn!("the page shows the first {SEGMENTS_MAX} segments of the recording");
                break;
            }
            PlaybackItem::Segment(page, info) => {
                segments.push(Arc::new(FrameSegment { page, info: *info }));
                continue;
            }
            PlaybackItem::Frame { frame, published_unix_ns, .. } => {
                if places.len() == FRAMES_MAX {
                    tracing::warn!(
                        "the recording is long: the page shows its first {FRAMES_MAX} frames"
                    );
                    break;
                }
                let at_ms = published_unix_ns as f64 / 1e6;
                let at_ms = times_ms.last().map_or(at_ms, |before| before.max(at_ms));
                times_ms.push(at_ms);
                places.push(FramePlace {
                    file: count(files.len() - playback.waiting() - 1),
                    segment: count(segments.len() - 1),
                    message: playback.place(),
                });
                early.drain(..).for_each(|fact| timeline.add(at_ms, fact));
                timeline.add_fixations(at_ms, &frame.head.fixations);
                continue;
            }
            PlaybackItem::State(state, reason) => {
                TimelineFact::State { state: state.to_string(), reason }
            }
            PlaybackItem::Event(event) => fact_of(*event),
            PlaybackItem::Damaged(path, why) => {
                tracing::warn!(path = %path.display(), "skipping a damaged part: {why}");
                continue;
            }
            PlaybackItem::CutShort(path, why) => {
                tracing::warn!(path = %path.display(), "cannot read the rest of the file: {why}");
                continue;
            }
        };
        match times_ms.last() {
            Some(at_ms) => timeline.add(*at_ms, fact),
            None if early.len() < EARLY_MAX => early.push(fact),
            None => {}
        }
    }
    if is_over() {
        return Ok(None);
    }
    let malformed =
        |what: &str| RecordingError::Malformed { path: files[0].clone(), what: what.to_owned() };
    let first = places.first().ok_or_else(|| malformed("it has no frame"))?;
    let segment = Arc::clone(&segments[first.segment as usize]);
    let view = ViewName::new(&segment.info.stream, &segment.info.view)
        .map_err(|_| malformed("its view has an invalid name"))?;
    let title = match &files[..] {
        [file] => file.display().to_string(),
        [file, others @ ..] => format!("{} and {} more", file.display(), others.len()),
        [] => String::new(),
    };
    let frames = Box::new(FrameIndex { files, segments, places, open: Mutex::default() });
    Ok(Some(RecordedView { view, title, times_ms, segment, timeline, frames }))
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn fact_of(event: SceneMessage) -> TimelineFact {
    let SceneMessage { kind, phase, value, r#box, .. } = event;
    TimelineFact::Event { kind, phase, region: r#box.try_into().ok(), value }
}

impl RecordedFrames for FrameIndex {
    fn read(&self, index: usize) -> io::Result<(TokenFrameBuf, Arc<FrameSegment>)> {
        let FramePlace { file, segment, message } = self.places[index];
        let segment = Arc::clone(&self.segments[segment as usize]);
        let mut open = self.open.lock();
        let source = match &mut *open {
            Some((number, source)) if *number == file => source,
            open => {
                let source = RecordingSource::open(&self.files[file as usize]);
                &mut open.insert((file, source.map_err(io::Error::other)?)).1
            }
        };
        let data = source.read_at(message)?;
        drop(open);
        let frame = decoded_frame(&data, &segment.info).map_err(io::Error::other)?;
        Ok((frame, segment))
    }
}

/// Makes a recording of `frames`, as `foveate record` does.
///
/// # Errors
///
/// If the folder for temporary files is full, or fails.
pub(crate) fn make(
    view: &ViewName,
    frames: &mut dyn Iterator<Item = FrameToRecord>,
) -> io::Result<File> {
    let folder = tempfile::Builder::new().prefix("foveate-web-").tempdir()?;
    let path = folder.path().join("minute.mcap");
    let settings = RecordingSettings {
        path: path.clone(),
        rotate_bytes: None,
        rotate_after: None,
        picture_interval: Some(PICTURE_INTERVAL),
    };
    let recorder = &mut ViewRecorder::create(view, settings).map_err(io::Error::other)?;
    let mut epoch = None;
    for FrameToRecord { segment, missed, frame } in frames {
        if epoch != Some(segment.info.epoch) {
            epoch = Some(segment.info.epoch);
            recorder.begin_segment(segment.page.clone(), segment.info.clone());
        }
        recorder.record_frame(frame, missed).map_err(io::Error::other)?;
    }
    recorder.finish().map_err(io::Error::other)?;
    File::open(&path)
}
