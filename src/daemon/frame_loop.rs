//! The thread of one stream: frames out of the mailbox, through the stages, and the news of it into the directory.

use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::StreamFailure;
use super::views::{self, Joiners, ViewChange};
use crate::camera::Camera;
use crate::capture::mailbox::Taken;
use crate::capture::{CapturedFrame, End, Source, SourceSpec};
use crate::config::StreamConfig;
use crate::control::directory::{StreamPort, ViewPort};
use crate::control::messages::{DAEMON_STOPS, StreamState, ViewName};
use crate::error::chain;
use crate::redact::redacted;
use crate::stream::{NewView, Refusal, Stepped, Stream, StreamBackend, ViewPlan};

/// How long the loop waits for a frame before it looks whether it is to stop.
const TURN: Duration = Duration::from_millis(100);

/// Without a frame for this long, a stream that has delivered is stalled.
const STALL_TIMEOUT: Duration = Duration::from_secs(2);

/// One stream and what it needs to run.
pub(super) struct FrameLoop {
    spec: SourceSpec,
    stream: Stream,
    port: StreamPort,
    joiners: Joiners,
    stop: Arc<AtomicBool>,
    last_frame: Option<Instant>,
    is_stalled: bool,
}

impl FrameLoop {
    pub(super) fn new(
        config: &StreamConfig,
        backend: StreamBackend,
        mut port: StreamPort,
        plans: Vec<ViewPlan>,
        camera: Option<Camera>,
        stop: Arc<AtomicBool>,
    ) -> io::Result<Self> {
        let chosen = backend.describe();
        tracing::info!(
            stream = config.name,
            backend = %chosen.kind,
            device = chosen.device,
            reason = chosen.reason,
            change_on = %chosen.change_on,
            "backend chosen"
        );
        port.update(|status| status.backend = Some(chosen.clone()));
        let counters = Arc::clone(port.counters());
        let links = port.views.iter_mut().map(ViewPort::take_link);
        let views = plans.into_iter().zip(links);
        let stream = Stream::new(&config.name, backend, config.change, views, counters);
        let stream = stream.with_camera(camera);
        let spec = SourceSpec::from(config);
        let workshop = stream.workshop().clone();
        let joiners = views::start(&config.name, workshop, port.commands.clone())?;
        Ok(Self { spec, stream, port, joiners, stop, last_frame: None, is_stalled: false })
    }

    /// Runs until the source ends or fails, or the daemon stops; tells readers and listings why.
    pub(super) fn run(mut self) -> Result<(), StreamFailure> {
        let mut source = None;
        let frames = AssertUnwindSafe(|| self.frames(&mut source));
        let result = panic::catch_unwind(frames).unwrap_or_else(|_| {
            tracing::error!(stream = self.spec.stream, "the frame loop panicked");
            Err(StreamFailure::Panicked)
        });
        let reason = match &result {
            Ok(reason) => (*reason).to_owned(),
            Err(failure) => redacted(&chain(failure)),
        };
        tracing::info!(stream = self.spec.stream, reason, "the stream has ended");
        // Before the source is dropped, because a pipeline may take its time to stop.
        self.stream.end(&reason);
        self.port.ended(&reason);
        self.joiners.end();
        result.map(drop)
    }

    /// Starts the source and takes its frames, until one of them ends.
    fn frames(&mut self, source: &mut Option<Source>) -> Result<&'static str, StreamFailure> {
        let source = source.insert(Source::start(&self.spec, self.port.counters())?);
        while !self.stop.load(Ordering::Relaxed) {
            self.change_views();
            match source.take(TURN) {
                Taken::Frame(frame) => self.step(&frame)?,
                Taken::Ended(End::Eos) => return Ok("end of file"),
                Taken::Ended(End::Failed(error)) => return Err(error.into()),
                Taken::TimedOut => self.watch_for_stall(),
            }
        }
        Ok(DAEMON_STOPS)
    }

    fn step(&mut self, frame: &CapturedFrame) -> Result<(), StreamFailure> {
        let stamp = frame.stamp();
        let Ok(view) = frame.view() else {
            self.port.counters().frames_refused.add(1);
            return Ok(());
        };
        let fallbacks = self.port.counters().backend_fallbacks.get();
        let stepped = self.stream.step(&view, &stamp)?;
        if stepped == Stepped::PublishedInNewSegments {
            self.announce(&view)?;
        } else if stepped == Stepped::PublishedNewViews {
            self.hand_out_segments()?;
        }
        if fallbacks != self.port.counters().backend_fallbacks.get() {
            let backend = self.stream.backend().clone();
            self.port.update(|status| status.backend = Some(backend));
        }
        self.last_frame = Some(Instant::now());
        if std::mem::take(&mut self.is_stalled) {
            tracing::info!(stream = self.spec.stream, "frames come again");
            self.stream.resume();
            self.port.update(|status| {
                status.state = StreamState::Live;
                status.reason.clear();
            });
        }
        Ok(())
    }

    /// Says what is in the new segments, and hands them out.
    fn announce(&mut self, frame: &crate::frame::FrameView<'_>) -> Result<(), StreamFailure> {
        let (format, extent) = (frame.format(), frame.extent());
        let backend = self.stream.backend().clone();
        self.port.update(|status| {
            status.state = StreamState::Live;
            status.reason.clear();
            status.format = Some(format);
            status.extent = Some(extent);
            status.backend = Some(backend);
        });
        // Only now, because whoever has a segment may ask to look somewhere in the picture.
        self.hand_out_segments()?;
        tracing::info!(stream = self.spec.stream, format = format.name(), %extent, "publishing");
        Ok(())
    }

    /// Gives subscribers the segments that they do not have yet. Where no descriptor is left, it is a view that a client opened
    /// that has to go, and not the stream.
    fn hand_out_segments(&self) -> Result<(), StreamFailure> {
        for (index, port) in self.port.views.iter().enumerate() {
            if self.stream.epoch(index) == port.epoch() {
                continue;
            }
            match self.stream.segment(index) {
                Ok(Some((descriptor, epoch))) => port.set_segment(descriptor, epoch),
                Ok(None) => {}
                Err(error) if port.is_opened() => port.fail(&chain(&error)),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Takes in the views that were made since, and lets those go that were closed. Never waits.
    fn change_views(&mut self) {
        while let Some(change) = self.joiners.next_change() {
            match change {
                ViewChange::Join(joining) => self.join(*joining),
                ViewChange::Leave(name) => self.leave(&name),
            }
        }
    }

    fn join(&mut self, (port, view): (ViewPort, NewView)) {
        // It may have been closed while it was made again.
        if port.is_over() {
            return self.joiners.drop_unused(view);
        }
        match self.stream.add_view(view).map_err(|refused| *refused) {
            Ok(()) => self.port.views.push(port),
            Err((view, Refusal::OtherRetina)) => self.joiners.give_back(port, view),
            Err((view, refusal)) => {
                port.fail(&refusal.to_string());
                self.joiners.drop_unused(view);
            }
        }
    }

    fn leave(&mut self, name: &ViewName) {
        // One that could not be made, or is made again, is not there.
        if let Some(index) = self.port.views.iter().position(|port| port.name() == name) {
            self.port.views.remove(index);
            let old = self.stream.remove_view(index, "the client that opened the view is gone");
            self.joiners.discard(old);
        }
    }

    fn watch_for_stall(&mut self) {
        let silent = self.last_frame.is_some_and(|last| STALL_TIMEOUT < last.elapsed());
        if silent && !self.is_stalled {
            self.is_stalled = true;
            let reason = format!("no frame for {} s", STALL_TIMEOUT.as_secs());
            tracing::warn!(stream = self.spec.stream, reason, "the stream has stalled");
            self.stream.stall(&reason);
            self.port.update(|status| {
                status.state = StreamState::Stalled;
                status.reason = reason;
            });
        }
    }
}
