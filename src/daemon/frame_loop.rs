//! The thread of one stream: takes frames from the mailbox through the stages, and reports to the directory.

use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::StreamFailure;
use super::depth::DepthInlet;
use super::views::{self, ViewChange, ViewThread};
use crate::stream::{
    AddViewError, NewView, Replacement, ServedView, StepOutcome, Stream, StreamBackend, ViewPace,
};
use foveate::messages::end_text;
use foveate_capture::reconnecting::{Loss, ReconnectingSource, SourceEvent};
use foveate_capture::{CapturedFrame, End, warn_of_picture};
use foveate_config::{StreamConfig, ViewConfig};
use foveate_control::StreamState;
use foveate_core::camera::Camera;
use foveate_core::depth::pairing::Moment;
use foveate_core::error::chain;
use foveate_core::frame::FrameView;
use foveate_core::pixel::PixelFacts;
use foveate_log::redact::redacted;
use foveate_server::directory::StreamPort;
use foveate_source::Masks;

/// How long the loop waits for a frame before it checks whether to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Reason of a stall while the source delivers only damaged frames.
const AWAITS_KEYFRAME: &str = "waiting for a keyframe; damaged frames are dropped";

/// Most changes of the format that are logged in a second.
const FORMATS_LOGGED_MAX: u32 = 5;

/// Longest reason that a segment holds, in bytes.
const REASON_BYTES: usize = 127;

/// The frame loop of one stream: its source, its engine and its place in the directory.
pub(super) struct FrameLoop {
    name: String,
    source: ReconnectingSource,
    depth: Option<DepthInlet>,
    stream: Stream,
    masks: Arc<Masks>,
    /// Revision of the masks in the newest frame; 0 before the first frame.
    mask_revision: u64,
    port: StreamPort,
    view_thread: ViewThread,
    /// Set to the reason when the stream has to end.
    stop: Arc<OnceLock<&'static str>>,
    /// Time without a frame after which a stream that has delivered one is stalled.
    stall_timeout: Duration,
    /// When the newest frame was published; `None` before the first.
    last_frame: Option<Instant>,
    /// Whether readers were informed that no frames arrive; the next frame ends the stall.
    is_stalled: bool,
    /// Whether the stall is reported as a wait for a keyframe, so that it is reported once.
    awaits_keyframe: bool,
    /// Start of the present second, and the number of format changes in it, for limiting their log lines.
    formats: (Instant, u32),
}

impl FrameLoop {
    pub(super) fn new(
        config: &StreamConfig,
        backend: StreamBackend,
        mut port: StreamPort,
        views: Vec<ServedView>,
        camera: Option<Camera>,
        stop: Arc<OnceLock<&'static str>>,
    ) -> io::Result<Self> {
        let (chosen, camera) = (backend.info(), camera.map(Arc::new));
        tracing::info!(
            stream = config.name,
            backend = %chosen.kind,
            device = chosen.device,
            reason = chosen.reason,
            change_on = %chosen.change_on,
            "backend chosen"
        );
        port.update(|status| {
            status.backend = Some(chosen.clone());
            status.camera.clone_from(&camera);
        });
        let counters = Arc::clone(port.counters());
        let views = views.into_iter().zip(std::mem::take(&mut port.views));
        let stream = Stream::new(&config.name, backend, config.change.config, views, counters);
        let depth = DepthInlet::new(config, &port);
        let stream = stream
            .with_camera(camera, depth.is_some())
            .with_events(config.events)
            .with_motion(config.motion);
        let masks = Arc::clone(port.masks());
        let source = ReconnectingSource::new(&config.source(), &masks, port.counters());
        let builder = stream.view_builder().clone();
        let view_thread = views::start(&config.name, builder, port.commands.clone())?;
        Ok(Self {
            name: config.name.clone(),
            source,
            depth,
            stream,
            masks,
            mask_revision: 0,
            port,
            view_thread,
            stop,
            stall_timeout: Duration::from_millis(config.stall_timeout_ms.into()),
            last_frame: None,
            is_stalled: false,
            awaits_keyframe: false,
            formats: (Instant::now(), 0),
        })
    }

    /// Runs until the source has ended or the stream is asked to stop, and informs readers and listings of the reason.
    pub(super) fn run(mut self) -> Result<(), StreamFailure> {
        let frames = AssertUnwindSafe(|| self.run_events());
        let result = panic::catch_unwind(frames).unwrap_or_else(|_| {
            tracing::error!(stream = self.name, "the frame loop panicked");
            Err(StreamFailure::Panicked)
        });
        let reason = match &result {
            Ok(reason) => (*reason).to_owned(),
            Err(failure) => redacted(&chain(failure)),
        };
        tracing::info!(stream = self.name, reason = end_text(&reason), "the stream has ended");
        // Before the source is dropped, because a pipeline may take long to stop.
        self.stream.end(&reason);
        self.port.ended(&reason);
        self.view_thread.end();
        result.map(drop)
    }

    /// Processes events of the source until the stream ends, and returns the reason.
    fn run_events(&mut self) -> Result<&'static str, StreamFailure> {
        let counters = Arc::clone(self.port.counters());
        loop {
            if let Some(reason) = self.stop.get() {
                return Ok(reason);
            }
            let event = match self.source.next_event(POLL_INTERVAL) {
                SourceEvent::Ended(End::Eos) => return Ok("end of file"),
                SourceEvent::Ended(End::Failed(error)) => return Err(error.into()),
                event => event,
            };
            let depth_at = self.await_depth(&event);
            counters.stages.frame_loop.during(|| self.iterate(event, depth_at))?;
        }
    }

    /// Takes depth pictures that have arrived. If both pipelines are files, waits for the picture of the frame. Returns the moment by which
    /// the frame is paired.
    fn await_depth(&mut self, event: &SourceEvent) -> Moment {
        let Some(depth) = &mut self.depth else { return Moment::default() };
        depth.poll(&self.port);
        let SourceEvent::Frame(frame) = event else { return Moment::default() };
        let at = depth.moment(&frame.stamp(), self.source.is_live());
        depth.wait(at, &self.port, || self.stop.get().is_none());
        at
    }

    fn iterate(&mut self, event: SourceEvent, depth_at: Moment) -> Result<(), StreamFailure> {
        self.change_views();
        match event {
            SourceEvent::Frame(frame) => self.process_frame(&frame, depth_at)?,
            SourceEvent::Lost(loss) => self.report_loss(&loss),
            SourceEvent::Corrupted => self.await_keyframe(),
            // `run_events` returns at the end and passes no such event.
            SourceEvent::Nothing | SourceEvent::Ended(_) => self.watch_for_stall(),
        }
        Ok(())
    }

    fn process_frame(
        &mut self,
        frame: &CapturedFrame,
        depth_at: Moment,
    ) -> Result<(), StreamFailure> {
        let stamp = frame.stamp();
        let Ok(view) = frame.view() else {
            self.port.counters().frames_refused.add(1);
            return Ok(());
        };
        let changes_before = self.stream.backend_changes();
        let has_new_masks = self.mask_revision != frame.mask_revision();
        if has_new_masks {
            self.stream.masks_changed(frame.masks().texels.as_deref(), stamp.frame_seq);
        }
        self.stream.set_live(self.source.is_live());
        self.stream.set_exact(self.source.is_exact());
        self.stream.set_picture(frame.facts());
        let picture = self
            .depth
            .as_mut()
            .and_then(|depth| depth.pair(depth_at, frame.mask_revision(), &self.port));
        let is_late = || self.source.is_late();
        let stepped = self.stream.step_with(&view, &stamp, picture.as_ref(), &is_late)?;
        if stepped == StepOutcome::PublishedInNewSegments {
            self.announce(&view, frame.facts())?;
        } else if stepped == StepOutcome::PublishedNewViews {
            self.stream.hand_out_segments()?;
        }
        if has_new_masks {
            self.mask_revision = frame.mask_revision();
            self.masks.note_published(self.mask_revision);
        }
        if changes_before != self.stream.backend_changes() {
            let backend = self.stream.backend().clone();
            self.port.update(|status| status.backend = Some(backend));
        }
        self.last_frame = Some(Instant::now());
        self.awaits_keyframe = false;
        if std::mem::take(&mut self.is_stalled) {
            tracing::info!(stream = self.name, "frames are arriving again");
            self.stream.resume();
            self.port.update(|status| {
                status.state = StreamState::Live;
                status.reason.clear();
            });
        }
        Ok(())
    }

    /// Updates the listing for the new segments, and hands them out.
    fn announce(
        &mut self,
        frame: &FrameView<'_>,
        picture: PixelFacts,
    ) -> Result<(), StreamFailure> {
        let (format, extent) = (frame.format(), frame.extent());
        let backend = self.stream.backend().clone();
        let mut is_new_picture = false;
        self.port.update(|status| {
            status.state = StreamState::Live;
            status.reason.clear();
            status.format = Some(format);
            status.extent = Some(extent);
            status.backend = Some(backend);
            is_new_picture = status.picture.replace(picture) != Some(picture);
        });
        // After the status: a client with a segment may at once ask to look somewhere in the picture.
        self.stream.hand_out_segments()?;
        let (since, count) = self.formats;
        let is_over = Duration::from_secs(1) <= since.elapsed();
        let unlogged = count.checked_sub(FORMATS_LOGGED_MAX).filter(|count| is_over && 0 < *count);
        self.formats = if is_over { (Instant::now(), 1) } else { (since, count + 1) };
        // A camera may change its format in each frame.
        if self.formats.1 <= FORMATS_LOGGED_MAX {
            if is_new_picture {
                warn_of_picture(&self.name, &picture);
            }
            let (stream, format) = (&self.name, format.name());
            tracing::info!(stream, format, %extent, unlogged_before = unlogged, "publishing");
        }
        Ok(())
    }

    /// Applies the pending changes of views. Never waits.
    fn change_views(&mut self) {
        while let Some(change) = self.view_thread.next_change() {
            match change {
                ViewChange::Add(view) => self.add_view(*view),
                ViewChange::Remove(name) => {
                    // The view is missing if it failed or is being rebuilt.
                    let removed = self.stream.remove_view(name.view());
                    removed.into_iter().for_each(|old| self.view_thread.discard(old));
                }
                ViewChange::Replace(replacement) => self.replace_view(*replacement),
                ViewChange::SetPace(config) => {
                    self.stream.set_pace(&config.name, ViewPace::from(&*config));
                    self.set_config(*config);
                }
            }
        }
    }

    fn add_view(&mut self, view: NewView) {
        // A client may have closed the view while it was being built.
        if view.channel().end_reason().is_some() {
            return self.view_thread.discard(view);
        }
        match self.stream.add_view(view).map_err(|refused| *refused) {
            Ok(_) => {}
            Err((view, AddViewError::Outdated)) => self.view_thread.rebuild(view),
            Err((view, error)) => {
                view.channel().fail(&error.to_string());
                self.view_thread.discard(view);
            }
        }
    }

    fn replace_view(&mut self, (config, replacement): (ViewConfig, Replacement)) {
        match self.stream.replace_view(replacement) {
            Ok(None) => {}
            Ok(Some(old)) => {
                self.view_thread.discard(old);
                tracing::info!(stream = self.name, view = config.name, "the view has changed");
                self.set_config(config);
            }
            Err(_) => self.view_thread.rebuild_replacement(config.name),
        }
    }

    fn set_config(&mut self, config: ViewConfig) {
        if let Some(channel) = self.stream.channel(&config.name) {
            channel.set_config(config);
        }
    }

    fn watch_for_stall(&mut self) {
        let silent = self.last_frame.is_some_and(|last| self.stall_timeout < last.elapsed());
        if silent && !self.is_stalled {
            let reason = format!("no frame for {} s", self.stall_timeout.as_secs_f64());
            tracing::warn!(stream = self.name, reason, "the stream has stalled");
            self.stall(&reason, &reason);
        }
    }

    /// Reports, after the stall time-out, that only damaged frames arrive.
    fn await_keyframe(&mut self) {
        let is_over = |last: Instant| self.stall_timeout < last.elapsed();
        let is_long = self.last_frame.is_none_or(is_over);
        if is_long && !std::mem::replace(&mut self.awaits_keyframe, true) {
            // A stream that is joined between two keyframes has not stalled.
            if self.last_frame.is_some() && !self.is_stalled {
                let reason = AWAITS_KEYFRAME;
                tracing::warn!(stream = self.name, reason, "the stream has stalled");
            }
            self.stall(AWAITS_KEYFRAME, AWAITS_KEYFRAME);
        }
    }

    /// Reports that the source is lost and is being reopened.
    fn report_loss(&mut self, loss: &Loss) {
        self.awaits_keyframe = false;
        let reason = loss.to_string();
        // A camera may be unavailable for months.
        if loss.attempt.is_power_of_two() {
            tracing::warn!(stream = self.name, reason, "the stream has lost its source");
        } else {
            tracing::debug!(stream = self.name, reason, "the source is still unavailable");
        }
        self.stall(&loss.to_text(REASON_BYTES), &reason);
    }

    /// Informs readers and listings that no frames arrive, and why. Readers get `reason`, which has to fit a segment.
    fn stall(&mut self, reason: &str, listed_reason: &str) {
        self.is_stalled = true;
        self.stream.stall(reason);
        let has_delivered = self.last_frame.is_some();
        self.port.update(|status| {
            if has_delivered {
                status.state = StreamState::Stalled;
            }
            listed_reason.clone_into(&mut status.reason);
        });
    }
}
