//! A source: a thread that plays a pipeline, in a loop if configured, until it ends or is dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError, bounded, select};
use gstreamer as gst;

use super::caps::{self, Adapter};
use super::delivery::Delivery;
use super::expansion::{self, Expansion};
use super::mailbox::{Consumer, Ender, mailbox};
use super::pipeline::{self, Event, Pipeline, error_of, missing_plugin_of};
use super::transient::Evidence;
use super::{CaptureError, CapturedFrame, End, SourceSpec, Taken, hints};
use foveate_log::redact::redacted;
use foveate_stats::StreamCounters;
use foveate_stats::stages::CaptureActivity;

/// How long dropping a source waits for its pipeline to stop, which then goes on in the background: the daemon must exit within
/// a second.
const STOP_TIMEOUT: Duration = Duration::from_millis(600);

/// Frames of one camera or file.
///
/// Dropping it stops the pipeline, even one that waits for a frame to be taken.
#[derive(Debug)]
pub struct Source {
    stream: String,
    description: String,
    /// `None` only during drop.
    frames: Option<Consumer<CapturedFrame>>,
    opened: Receiver<Result<Option<Duration>, CaptureError>>,
    duration: Option<Duration>,
    is_live: Arc<AtomicBool>,
    /// Dropped to stop the thread.
    stop: Option<Sender<()>>,
    /// Disconnected when the thread has finished; `None` once [detached](Source::detach).
    stopped: Option<Receiver<()>>,
}

/// A detached source whose pipeline is stopping.
#[derive(Debug)]
pub struct StoppingSource(Receiver<()>);

impl StoppingSource {
    /// Whether it has stopped and released its resources.
    pub fn has_stopped(&self) -> bool {
        self.0.try_recv() == Err(TryRecvError::Disconnected)
    }
}

impl Source {
    /// Starts a source without waiting for its first frame. Later failures are reported by [`Source::take`].
    ///
    /// # Errors
    ///
    /// If the source cannot be expanded, or the thread not started.
    pub fn start(spec: &SourceSpec, counters: &Arc<StreamCounters>) -> Result<Self, CaptureError> {
        hints::initialised()?;
        let expansion = expansion::expand(spec)?;
        tracing::debug!(stream = spec.stream, pipeline = expansion.shown, "capturing");
        let description = expansion.shown.clone();
        let (producer, frames) = mailbox(spec.pace);
        let ender = producer.ender();
        let activity = counters.stages.next_pipeline();
        let delivery = Delivery::new(producer, Arc::clone(counters), Arc::clone(&activity), spec);
        let is_live = Arc::<AtomicBool>::default();
        let (stop, stop_asked) = bounded(0);
        let (opened_sender, opened) = bounded(1);
        let (stopped_sender, stopped) = bounded::<()>(0);
        let (spec, stream) = (spec.clone(), spec.stream.clone());
        let session = Session {
            spec,
            expansion,
            adapters: Vec::new(),
            delivery: Arc::new(delivery),
            activity,
            is_live: Arc::clone(&is_live),
            stop: stop_asked,
        };
        let run = move || {
            session.run(&opened_sender, &ender);
            drop(stopped_sender);
        };
        spawn(&stream, run)?;
        Ok(Self {
            stream,
            description,
            frames: Some(frames),
            opened,
            duration: None,
            is_live,
            stop: Some(stop),
            stopped: Some(stopped),
        })
    }

    /// Checks that a source is valid and its elements and files exist. Nothing is started, so its camera or server need not be
    /// reachable.
    ///
    /// # Errors
    ///
    /// On errors that are not transient.
    pub fn check(spec: &SourceSpec) -> Result<(), CaptureError> {
        let expansion = hints::initialised().and_then(|()| expansion::expand(spec));
        match expansion.and_then(|expansion| pipeline::check(&expansion)) {
            Err(error) if error.is_transient(spec, Evidence::default()) => Ok(()),
            checked => checked,
        }
    }

    /// Starts a source and waits for its first frame, for at most [`SourceSpec::caps_timeout`], twice if an element must be
    /// inserted.
    ///
    /// # Errors
    ///
    /// If no readable frame arrives.
    pub fn open(spec: &SourceSpec, counters: &Arc<StreamCounters>) -> Result<Self, CaptureError> {
        let mut source = Self::start(spec, counters)?;
        source.duration = source.opened.recv().unwrap_or(Err(CaptureError::Closed))?;
        Ok(source)
    }

    /// Duration of a file that was [opened](Source::open), if its container gives it.
    pub fn duration(&self) -> Option<Duration> {
        self.duration
    }

    /// Takes the newest frame, waiting up to `timeout` for one.
    pub fn take(&mut self, timeout: Duration) -> Taken {
        match &mut self.frames {
            Some(frames) => frames.take(timeout),
            None => Taken::Ended(End::Failed(CaptureError::Closed)),
        }
    }

    /// Whether its pipeline has reported that it is live.
    pub fn is_live(&self) -> bool {
        self.is_live.load(Ordering::Relaxed)
    }

    /// Stops it without waiting.
    pub fn detach(mut self) -> StoppingSource {
        let stopped = self.stopped.take();
        StoppingSource(stopped.expect("only detaching takes it"))
    }

    /// The expanded pipeline, without credentials.
    pub fn description(&self) -> &str {
        &self.description
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        // First, because the streaming thread may be waiting for the consumer.
        self.frames = None;
        self.stop = None;
        let Some(stopped) = &self.stopped else { return };
        if stopped.recv_timeout(STOP_TIMEOUT) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!(
                stream = self.stream,
                "the pipeline is slow to stop; it goes on in the background"
            );
        }
    }
}

fn spawn(stream: &str, run: impl FnOnce() + Send + 'static) -> Result<(), CaptureError> {
    let builder = thread::Builder::new().name(format!("capture-{stream}"));
    match builder.spawn(run) {
        Ok(_) => Ok(()),
        Err(error) => {
            Err(CaptureError::Failed { element: "thread".to_owned(), reason: error.to_string() })
        }
    }
}

/// Why a pipeline gave no first frame.
enum Failure {
    /// Its caps need a conversion.
    Adapt {
        offered: gst::Caps,
        /// GStreamer's error, if any.
        reason: Option<String>,
    },
    Error(CaptureError),
}

impl From<CaptureError> for Failure {
    fn from(error: CaptureError) -> Self {
        Self::Error(error)
    }
}

/// The watching thread.
struct Session {
    spec: SourceSpec,
    expansion: Expansion,
    /// Elements that the caps need before the appsink.
    adapters: Vec<Adapter>,
    delivery: Arc<Delivery>,
    activity: Arc<CaptureActivity>,
    is_live: Arc<AtomicBool>,
    /// Disconnected when the source is dropped.
    stop: Receiver<()>,
}

impl Session {
    /// Plays until the end, and reports it to `ender`.
    fn run(
        mut self,
        opened: &Sender<Result<Option<Duration>, CaptureError>>,
        ender: &Ender<CapturedFrame>,
    ) {
        let mut pipeline = match self.open() {
            Ok(pipeline) => pipeline,
            Err(error) => {
                ender.end(End::Failed(error.clone()));
                // The receiver is gone if the source was dropped.
                let _ = opened.send(Err(error));
                return;
            }
        };
        self.log_opened(&pipeline);
        let _ = opened.send(Ok(pipeline.duration()));
        loop {
            let end = self.watch(&pipeline);
            if end != End::Eos || !self.spec.looped {
                // Before the pipeline is stopped, because its streaming thread may be waiting for the consumer.
                ender.end(end);
                return;
            }
            // Pipelines are not reliable after their end.
            self.activity.opening.during(|| drop(pipeline));
            pipeline = match self.open() {
                Ok(pipeline) => pipeline,
                Err(error) => return ender.end(End::Failed(error)),
            };
        }
    }

    /// A pipeline that has delivered its first frame, with adapters if its caps need them.
    fn open(&mut self) -> Result<Pipeline, CaptureError> {
        let (offered, reason) = match self.attempt() {
            Ok(pipeline) => return Ok(pipeline),
            Err(Failure::Error(error)) => return Err(error),
            Err(Failure::Adapt { offered, reason }) => (offered, reason),
        };
        let adapters = caps::adapters(&offered)?;
        if adapters == self.adapters {
            return Err(not_negotiated(&offered, reason));
        }
        self.adapters = adapters;
        match self.attempt() {
            Ok(pipeline) => {
                self.log_adapters(&offered, &pipeline);
                Ok(pipeline)
            }
            Err(Failure::Error(error)) => Err(error),
            Err(Failure::Adapt { offered, reason }) => Err(not_negotiated(&offered, reason)),
        }
    }

    fn log_opened(&self, pipeline: &Pipeline) {
        let caps = pipeline.caps().map(|caps| caps.to_string());
        tracing::info!(stream = self.spec.stream, caps, live = pipeline.live, "frames arrive");
    }

    fn log_adapters(&self, offered: &gst::Caps, pipeline: &Pipeline) {
        let inserted: Vec<_> = self.adapters.iter().map(|adapter| adapter.element).collect();
        let (from, to) = (offered.to_string(), pipeline.caps().map(|caps| caps.to_string()));
        let (stream, inserted) = (&self.spec.stream, inserted.join(" ! "));
        tracing::info!(stream, inserted, from, to, "inserted elements to convert the caps");
    }

    fn attempt(&self) -> Result<Pipeline, Failure> {
        let SourceSpec { pace, .. } = self.spec;
        let play = || Pipeline::play(&self.expansion, &self.adapters, &self.delivery, pace);
        let pipeline = self.activity.opening.during(play)?;
        self.is_live.store(pipeline.live, Ordering::Relaxed);
        self.wait_for_first_frame(&pipeline)?;
        Ok(pipeline)
    }

    fn wait_for_first_frame(&self, pipeline: &Pipeline) -> Result<(), Failure> {
        let deadline = Instant::now() + self.spec.caps_timeout;
        let mut missing = None;
        loop {
            let event = match self.next_event(pipeline, Some(deadline)) {
                Wait::Event(event) => event,
                Wait::Stop => return Err(CaptureError::Closed.into()),
                Wait::Deadline => return Err(self.timeout_failure(pipeline, missing)),
            };
            let message = match event {
                Event::FirstFrame => return Ok(()),
                Event::Interlaced(offered) => return Err(Failure::Adapt { offered, reason: None }),
                Event::Refused(error) => return Err(error.into()),
                Event::Message(message) => message,
            };
            match missing_plugin_of(&message) {
                // An error follows, unless another stream of the file can be played.
                Some(error) => missing = missing.or(Some(error)),
                None => return Err(end_failure(pipeline, missing, error_of(&message))),
            }
        }
    }

    fn timeout_failure(&self, pipeline: &Pipeline, missing: Option<CaptureError>) -> Failure {
        if let Some(error) = missing {
            return error.into();
        }
        // A short file without video may end before its audio fails to link, and then no error is reported. The video of a
        // live source may still appear.
        if let Some(other) = not_raw(&pipeline.offers()).filter(|_| !pipeline.live) {
            return other.into();
        }
        Failure::Error(CaptureError::CapsTimeout {
            seconds: self.spec.caps_timeout.as_secs(),
            seen: pipeline.progress(),
        })
    }

    /// Waits for the end of a playing pipeline.
    fn watch(&self, pipeline: &Pipeline) -> End {
        loop {
            let event = match self.next_event(pipeline, None) {
                Wait::Event(event) => event,
                Wait::Stop | Wait::Deadline => return End::Failed(CaptureError::Closed),
            };
            match event {
                Event::FirstFrame => {}
                Event::Interlaced(_) => return End::Failed(CaptureError::BecameInterlaced),
                Event::Refused(error) => return End::Failed(error),
                Event::Message(message) => match error_of(&message) {
                    Some(error) => return End::Failed(error),
                    None if missing_plugin_of(&message).is_some() => {}
                    None if pipeline.live => return End::Failed(CaptureError::LiveEnded),
                    None => return End::Eos,
                },
            }
        }
    }

    fn next_event(&self, pipeline: &Pipeline, deadline: Option<Instant>) -> Wait {
        let timer = deadline.map_or_else(crossbeam_channel::never, crossbeam_channel::at);
        select! {
            recv(self.stop) -> _ => Wait::Stop,
            recv(pipeline.events) -> event => event.map_or(Wait::Stop, Wait::Event),
            recv(timer) -> _ => Wait::Deadline,
        }
    }
}

enum Wait {
    Event(Event),
    Stop,
    Deadline,
}

/// Why a pipeline ended before its first frame: with the error `reported`, or without.
fn end_failure(
    pipeline: &Pipeline,
    missing: Option<CaptureError>,
    reported: Option<CaptureError>,
) -> Failure {
    if let Some(error) = missing {
        return error.into();
    }
    let is_unspecific = matches!(reported, None | Some(CaptureError::Failed { .. }));
    let offers = pipeline.offers();
    if let Some(raw) = offers.iter().find(|caps| is_raw(caps)) {
        if !raw.can_intersect(&caps::readable()) {
            return Failure::Adapt {
                offered: raw.clone(),
                reason: reported.map(|error| error.to_string()),
            };
        }
    } else if let Some(other) = not_raw(&offers).filter(|_| is_unspecific) {
        return other.into();
    }
    reported.unwrap_or(CaptureError::NoFrames).into()
}

/// The error if caps are offered and none of them is raw video.
fn not_raw(offers: &[gst::Caps]) -> Option<CaptureError> {
    let first = offers.first().filter(|_| !offers.iter().any(is_raw))?;
    Some(CaptureError::NotRawVideo { offered: redacted(&first.to_string()) })
}

fn is_raw(caps: &gst::Caps) -> bool {
    caps.structure(0).is_some_and(|structure| structure.name() == "video/x-raw")
}

fn not_negotiated(offered: &gst::Caps, reason: Option<String>) -> CaptureError {
    CaptureError::NotNegotiated {
        offered: redacted(&offered.to_string()),
        reason: reason.unwrap_or_else(|| "no element converts it".to_owned()),
    }
}
