//! The thread that writes an MCAP file, and the queue to it: the ring is read on, while the disk or a picture takes its time.

use std::io::{self, Write};
use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

use crate::ToolError;
use crate::recording::messages::StateKind;
use crate::recording::{RecordingError, RecordingSettings, ViewRecorder};
use foveate::client::Next;
use foveate::messages::{SceneEvent, ViewName};
use foveate_ring::{HeaderPage, Reader, SegmentInfo, State, TokenFrameBuf};

/// Most frames in the queue.
const QUEUED_FRAMES_MAX: usize = 256;

/// Bytes of frames in the queue, if more than two fit.
const QUEUED_BYTES: usize = 128 << 20;

/// Interval at which the thread writes messages that have waited long enough.
const TICK: Duration = Duration::from_millis(200);

/// Items to write to the recording.
enum Work {
    Segment(Box<HeaderPage>, Box<SegmentInfo>),
    Frame(Box<TokenFrameBuf>, u64),
    State(StateKind, String),
    Event(Box<SceneEvent>),
}

/// A recording that is being made.
pub(super) struct Tape {
    /// The recorder before the first segment arrives.
    recorder: Option<ViewRecorder>,
    /// The writing thread, from the first segment on.
    running: Option<(Sender<Work>, JoinHandle<Written>)>,
    /// State of the view, and its reason.
    state: Option<(State, String)>,
    /// Whether the thread makes no more pictures.
    skips_pictures: Arc<AtomicBool>,
    /// Frames that were overwritten before they were read.
    missed: u64,
    has_ended: bool,
}

/// The result of the thread.
type Written = (ViewRecorder, Result<(), RecordingError>);

impl Tape {
    pub(super) fn begin(
        view: &ViewName,
        settings: RecordingSettings,
    ) -> Result<Self, RecordingError> {
        let recorder = Some(ViewRecorder::create(view, settings)?);
        let skips_pictures = Arc::default();
        Ok(Self {
            recorder,
            running: None,
            state: None,
            skips_pictures,
            missed: 0,
            has_ended: false,
        })
    }

    /// Takes what came `next` from `reader`: a frame is moved out of its buffer. False if nothing more can be written.
    pub(super) fn record(
        &mut self,
        next: &Next,
        reader: &Reader,
        frame: &mut TokenFrameBuf,
    ) -> bool {
        let is_going_on = match next {
            Next::NewSegment => self.segment(reader),
            Next::Frame { missed } => {
                self.missed += missed;
                self.send(Work::Frame(Box::new(std::mem::take(frame)), *missed))
            }
            Next::Ended(reason) => {
                self.has_ended = true;
                self.send(Work::State(StateKind::Ended, reason.clone()))
            }
            Next::TimedOut => true,
        };
        is_going_on && self.state(reader)
    }

    /// Takes what happened in the picture, once there is a segment. False if nothing more can be written.
    pub(super) fn event(&self, event: SceneEvent) -> bool {
        self.send(Work::Event(Box::new(event)))
    }

    /// Ends the recording, after following the view has ended as `followed` says, and prints its files.
    pub(super) fn end(
        self,
        followed: &Result<(), ToolError>,
        out: &mut dyn Write,
    ) -> Result<(), ToolError> {
        // The queue may hold hundreds of frames, and the program has to end soon after a signal.
        self.skips_pictures.store(true, Ordering::Relaxed);
        if !self.has_ended {
            let (kind, reason) = match followed {
                Ok(()) => (StateKind::Stopped, "by a signal or the time limit".to_owned()),
                Err(error) => (StateKind::Disconnected, error.to_string()),
            };
            self.send(Work::State(kind, reason));
        }
        let (recorder, written) = match (self.running, self.recorder) {
            (Some((queue, thread)), _) => {
                drop(queue);
                thread.join().unwrap_or_else(|panic| panic::resume_unwind(panic))
            }
            (None, Some(mut recorder)) => {
                let finished = recorder.finish();
                (recorder, finished)
            }
            (None, None) => unreachable!("the recorder is here until the thread takes it"),
        };
        for file in recorder.finished() {
            writeln!(out, "{}: {} frames, {} bytes", file.path.display(), file.frames, file.bytes)
                .map_err(ToolError::Output)?;
        }
        if 0 < recorder.pictures_skipped() {
            writeln!(
                io::stderr(),
                "skipped {} pictures of the last frames to end in time; the frames are recorded",
                recorder.pictures_skipped()
            )
            .map_err(ToolError::Output)?;
        }
        if 0 < self.missed {
            writeln!(
                io::stderr(),
                "{} frames are missing: they were overwritten before they were recorded",
                self.missed
            )
            .map_err(ToolError::Output)?;
        }
        Ok(written?)
    }

    fn segment(&mut self, reader: &Reader) -> bool {
        let info = reader.header();
        if let Some(recorder) = self.recorder.take() {
            let slot_bytes = info.total_bytes / info.slot_count;
            let capacity = (QUEUED_BYTES / slot_bytes).clamp(2, QUEUED_FRAMES_MAX);
            let (sender, queue) = bounded(capacity);
            let skips_pictures = Arc::clone(&self.skips_pictures);
            let thread = thread::spawn(move || write(recorder, &queue, &skips_pictures));
            self.running = Some((sender, thread));
        }
        self.state = None;
        self.send(Work::Segment(Box::new(reader.header_page()), Box::new(info.clone())))
    }

    /// Notes a change of the view's state. The end of a segment is not the end of the view.
    fn state(&mut self, reader: &Reader) -> bool {
        let state = reader.state();
        if self.state.as_ref() == Some(&state) {
            return true;
        }
        let kind = match state.0 {
            State::Live => StateKind::Live,
            State::Stalled => StateKind::Stalled,
            State::Ended => return true,
        };
        let reason = state.1.clone();
        self.state = Some(state);
        self.send(Work::State(kind, reason))
    }

    /// Waits for room in the queue. False if the thread has given up.
    fn send(&self, work: Work) -> bool {
        self.running.as_ref().is_none_or(|(queue, _)| queue.send(work).is_ok())
    }
}

/// Writes what comes until there is no more, or it fails.
fn write(
    mut recorder: ViewRecorder,
    queue: &Receiver<Work>,
    skips_pictures: &AtomicBool,
) -> Written {
    let mut turn = || match queue.recv_timeout(TICK) {
        Ok(Work::Segment(page, info)) => {
            recorder.begin_segment(page, *info);
            Ok(true)
        }
        Ok(Work::Frame(frame, missed)) => {
            recorder.skip_pictures(skips_pictures.load(Ordering::Relaxed));
            recorder.record_frame(*frame, missed).map(|()| true)
        }
        Ok(Work::Event(event)) => recorder.record_event(&event).map(|()| true),
        Ok(Work::State(kind, reason)) => recorder.record_state(kind, &reason).map(|()| true),
        Err(RecvTimeoutError::Timeout) => recorder.flush_due().map(|()| true),
        Err(RecvTimeoutError::Disconnected) => recorder.finish().map(|()| false),
    };
    let written = loop {
        match turn() {
            Ok(true) => {}
            Ok(false) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    (recorder, written)
}
