//! The thread of one stream: frames out of the mailbox, through the stages, and the news of it into the directory.

use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::StreamFailure;
use super::running::StopSign;
use super::views::{self, ViewChange, ViewThread};
use crate::control::directory::{StreamPort, ViewPort};
use crate::stream::{
    NewView, Refusal, Replacement, ServedView, Stepped, Stream, StreamBackend, ViewPace,
};
use foveate::messages::ViewName;
use foveate_capture::reconnecting::{Loss, ReconnectingSource, SourceEvent};
use foveate_capture::{CapturedFrame, End, SourceSpec};
use foveate_config::{StreamConfig, ViewConfig};
use foveate_control::StreamState;
use foveate_core::camera::Camera;
use foveate_core::error::chain;
use foveate_log::redact::redacted;

/// How long the loop waits for a frame before it looks whether it is to stop.
const TURN: Duration = Duration::from_millis(100);

/// Bytes of a reason that a segment holds.
const REASON_BYTES: usize = 127;

/// One stream and what it needs to run.
pub(super) struct FrameLoop {
    name: String,
    source: ReconnectingSource,
    stream: Stream,
    port: StreamPort,
    view_thread: ViewThread,
    stop: StopSign,
    /// After how long without a frame a stream that has delivered is stalled.
    stall_timeout: Duration,
    last_frame: Option<Instant>,
    is_stalled: bool,
}

impl FrameLoop {
    pub(super) fn new(
        config: &StreamConfig,
        backend: StreamBackend,
        mut port: StreamPort,
        views: Vec<ServedView>,
        camera: Option<Camera>,
        stop: StopSign,
    ) -> io::Result<Self> {
        let chosen = backend.info();
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
        let channels = port.views.iter_mut().map(ViewPort::take_channel);
        let views = views.into_iter().zip(channels);
        let stream = Stream::new(&config.name, backend, config.change, views, counters);
        let stream = stream.with_camera(camera);
        let source = ReconnectingSource::new(&SourceSpec::from(config), port.counters());
        let builder = stream.view_builder().clone();
        let view_thread = views::start(&config.name, builder, port.commands.clone())?;
        Ok(Self {
            name: config.name.clone(),
            source,
            stream,
            port,
            view_thread,
            stop,
            stall_timeout: Duration::from_millis(config.stall_timeout_ms.into()),
            last_frame: None,
            is_stalled: false,
        })
    }

    /// Runs until the source has ended for good, or the stream is to stop; tells readers and listings why.
    pub(super) fn run(mut self) -> Result<(), StreamFailure> {
        let frames = AssertUnwindSafe(|| self.frames());
        let result = panic::catch_unwind(frames).unwrap_or_else(|_| {
            tracing::error!(stream = self.name, "the frame loop panicked");
            Err(StreamFailure::Panicked)
        });
        let reason = match &result {
            Ok(reason) => (*reason).to_owned(),
            Err(failure) => redacted(&chain(failure)),
        };
        tracing::info!(stream = self.name, reason, "the stream has ended");
        // Before the source is dropped, because a pipeline may take its time to stop.
        self.stream.end(&reason);
        self.port.ended(&reason);
        self.view_thread.end();
        result.map(drop)
    }

    /// Takes the frames of the source, until it has ended for good.
    fn frames(&mut self) -> Result<&'static str, StreamFailure> {
        let counters = Arc::clone(self.port.counters());
        loop {
            if let Some(reason) = self.stop.reason() {
                return Ok(reason);
            }
            let event = match self.source.take(TURN) {
                SourceEvent::Ended(End::Eos) => return Ok("end of file"),
                SourceEvent::Ended(End::Failed(error)) => return Err(error.into()),
                event => event,
            };
            counters.stages.frame_loop.during(|| self.turn(event))?;
        }
    }

    /// Does what there is to do, with a frame or without.
    fn turn(&mut self, event: SourceEvent) -> Result<(), StreamFailure> {
        self.change_views();
        match event {
            SourceEvent::Frame(frame) => self.step(&frame)?,
            SourceEvent::Lost(loss) => self.lose(&loss),
            SourceEvent::Nothing | SourceEvent::Ended(_) => self.watch_for_stall(),
        }
        Ok(())
    }

    fn step(&mut self, frame: &CapturedFrame) -> Result<(), StreamFailure> {
        let stamp = frame.stamp();
        let Ok(view) = frame.view() else {
            self.port.counters().frames_refused.add(1);
            return Ok(());
        };
        let changes = self.stream.backend_changes();
        let stepped = self.stream.step(&view, &stamp)?;
        if stepped == Stepped::PublishedInNewSegments {
            self.announce(&view)?;
        } else if stepped == Stepped::PublishedNewViews {
            self.hand_out_segments()?;
        }
        if changes != self.stream.backend_changes() {
            let backend = self.stream.backend().clone();
            self.port.update(|status| status.backend = Some(backend));
        }
        self.last_frame = Some(Instant::now());
        if std::mem::take(&mut self.is_stalled) {
            tracing::info!(stream = self.name, "frames come again");
            self.stream.resume();
            self.port.update(|status| {
                status.state = StreamState::Live;
                status.reason.clear();
            });
        }
        Ok(())
    }

    /// Says what is in the new segments, and hands them out.
    fn announce(
        &mut self,
        frame: &foveate_core::frame::FrameView<'_>,
    ) -> Result<(), StreamFailure> {
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
        tracing::info!(stream = self.name, format = format.name(), %extent, "publishing");
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
        while let Some(change) = self.view_thread.next_change() {
            match change {
                ViewChange::Join(joining) => self.join(*joining),
                ViewChange::Leave(name) => self.leave(&name),
                ViewChange::Replace(replacement) => self.replace(*replacement),
                ViewChange::SetPace(name, config) => self.set_pace(&name, *config),
            }
        }
    }

    fn join(&mut self, (port, view): (ViewPort, NewView)) {
        // It may have been closed while it was made again.
        if port.is_over() {
            return self.view_thread.drop_unused(view);
        }
        match self.stream.add_view(view).map_err(|refused| *refused) {
            Ok(()) => self.port.views.push(port),
            Err((view, Refusal::Outdated)) => self.view_thread.give_back(port, view),
            Err((view, refusal)) => {
                port.fail(&refusal.to_string());
                self.view_thread.drop_unused(view);
            }
        }
    }

    fn leave(&mut self, name: &ViewName) {
        // One that could not be made, or is made again, is not there.
        if let Some(index) = self.index_of(name) {
            self.port.views.remove(index);
            let old = self.stream.remove_view(index, "the client that opened the view is gone");
            self.view_thread.discard(old);
        }
    }

    /// A view becomes another one under its name.
    fn replace(&mut self, (name, config, replacement): (ViewName, ViewConfig, Replacement)) {
        let Some(index) = self.index_of(&name) else { return };
        match self.stream.replace_view(index, replacement) {
            Ok(old) => {
                self.view_thread.discard(old);
                tracing::info!(view = %name, "the view goes on as another one");
                self.port.views[index].set_config(config);
            }
            Err(_) => self.view_thread.replace_again(name),
        }
    }

    fn set_pace(&mut self, name: &ViewName, config: ViewConfig) {
        if let Some(index) = self.index_of(name) {
            self.stream.set_pace(index, ViewPace::from(&config));
            self.port.views[index].set_config(config);
        }
    }

    fn index_of(&self, name: &ViewName) -> Option<usize> {
        self.port.views.iter().position(|port| port.name() == name)
    }

    fn watch_for_stall(&mut self) {
        let silent = self.last_frame.is_some_and(|last| self.stall_timeout < last.elapsed());
        if silent && !self.is_stalled {
            let reason = format!("no frame for {} s", self.stall_timeout.as_secs_f64());
            tracing::warn!(stream = self.name, reason, "the stream has stalled");
            self.stall(&reason, &reason);
        }
    }

    /// The source is gone, and will be looked for.
    fn lose(&mut self, loss: &Loss) {
        let reason = loss.to_string();
        // A camera may be away for months.
        if loss.attempt.is_power_of_two() {
            tracing::warn!(stream = self.name, reason, "the stream has lost its source");
        } else {
            tracing::debug!(stream = self.name, reason, "the source stays away");
        }
        self.stall(&loss.to_text(REASON_BYTES), &reason);
    }

    /// Tells readers and listings that no frames come, and why.
    fn stall(&mut self, reason: &str, listed: &str) {
        self.is_stalled = true;
        self.stream.stall(reason);
        let has_delivered = self.last_frame.is_some();
        self.port.update(|status| {
            if has_delivered {
                status.state = StreamState::Stalled;
            }
            listed.clone_into(&mut status.reason);
        });
    }
}
