//! A source: a thread that plays a pipeline, and again where it should, until it ends or is dropped.

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
use super::passing::Shown;
use super::pipeline::{self, Event, Pipeline, error_of, missing_plugin_of};
use super::{CaptureError, CapturedFrame, End, SourceSpec, Taken, hints};
use foveate_log::redact::redacted;
use foveate_stats::StreamCounters;
use foveate_stats::stages::CapturePulses;

/// How long dropping a source waits for its pipeline to stop. After that the pipeline stops on its own; a daemon that was
/// asked to end does so within a second.
const STOP_TIMEOUT: Duration = Duration::from_millis(600);

/// Frames of one camera or file.
///
/// Dropping it stops the pipeline, also one that waits for a frame to be taken.
#[derive(Debug)]
pub struct Source {
    stream: String,
    description: String,
    /// `None` only while dropping.
    frames: Option<Consumer<CapturedFrame>>,
    opened: Receiver<Result<Option<Duration>, CaptureError>>,
    /// How long the file plays; `None` before [`Source::open`] and where nothing tells.
    duration: Option<Duration>,
    /// Whether the pipeline has said that it is live.
    is_live: Arc<AtomicBool>,
    /// Dropped to stop the thread.
    stop: Option<Sender<()>>,
    /// Disconnected when the thread is through; `None` where nobody waits for that.
    stopped: Option<Receiver<()>>,
}

/// A source that was let go and whose pipeline stops, sooner or later.
#[derive(Debug)]
pub struct Departing(Receiver<()>);

impl Departing {
    /// Whether it has stopped, and nothing of it is left.
    pub fn has_stopped(&self) -> bool {
        self.0.try_recv() == Err(TryRecvError::Disconnected)
    }
}

impl Source {
    /// Starts a source and does not wait for its first frame. Whatever fails after the text was looked
    /// at ends the stream, so [`Source::take`] says it.
    ///
    /// # Errors
    ///
    /// If the text of the source cannot be expanded, or the system gives no thread.
    pub fn start(spec: &SourceSpec, counters: &Arc<StreamCounters>) -> Result<Self, CaptureError> {
        hints::initialised()?;
        let expansion = expansion::expand(spec)?;
        tracing::debug!(stream = spec.stream, pipeline = expansion.shown, "capturing");
        let description = expansion.shown.clone();
        let (producer, frames) = mailbox(spec.pace);
        let ender = producer.ender();
        let pulses = counters.stages.next_pipeline();
        let delivery = Delivery::new(producer, Arc::clone(counters), Arc::clone(&pulses), spec);
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
            pulses,
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

    /// Makes sure that the text of a source can work: that its elements and files are there. Nothing is started, so a camera or
    /// server may be away.
    ///
    /// # Errors
    ///
    /// If it cannot, and will not by itself.
    pub fn check(spec: &SourceSpec) -> Result<(), CaptureError> {
        let expansion = hints::initialised().and_then(|()| expansion::expand(spec));
        match expansion.and_then(|expansion| pipeline::check(&expansion)) {
            Err(error) if error.is_passing(spec, Shown::default()) => Ok(()),
            checked => checked,
        }
    }

    /// Starts a source and waits for its first frame, at most [`SourceSpec::caps_timeout`] and once more where an
    /// element must be inserted.
    ///
    /// # Errors
    ///
    /// If the source gives no frames that can be read.
    pub fn open(spec: &SourceSpec, counters: &Arc<StreamCounters>) -> Result<Self, CaptureError> {
        let mut source = Self::start(spec, counters)?;
        source.duration = source.opened.recv().unwrap_or(Err(CaptureError::Closed))?;
        Ok(source)
    }

    /// How long the file plays, for a source that was [opened](Source::open) and whose container tells.
    pub fn duration(&self) -> Option<Duration> {
        self.duration
    }

    /// The newest frame, waiting up to `timeout` for one.
    pub fn take(&mut self, timeout: Duration) -> Taken {
        match &mut self.frames {
            Some(frames) => frames.take(timeout),
            None => Taken::Ended(End::Failed(CaptureError::Closed)),
        }
    }

    /// Whether its pipeline has said that it is live: it makes frames when it pleases.
    pub fn is_live(&self) -> bool {
        self.is_live.load(Ordering::Relaxed)
    }

    /// Stops it, and does not wait until it has.
    pub fn let_go(mut self) -> Departing {
        let stopped = self.stopped.take();
        // Nothing waits for what was disconnected from the beginning.
        Departing(stopped.unwrap_or_else(|| bounded(0).1))
    }

    /// The pipeline that it expanded to, without credentials.
    pub fn description(&self) -> &str {
        &self.description
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        // First, because the streaming thread may be waiting for a frame to be taken.
        self.frames = None;
        self.stop = None;
        let Some(stopped) = &self.stopped else { return };
        if stopped.recv_timeout(STOP_TIMEOUT) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!(
                stream = self.stream,
                "the pipeline takes long to stop; going on without it"
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
    /// Its caps need elements before the appsink.
    Adapt {
        /// What it gives.
        offered: gst::Caps,
        /// What it said, if anything.
        reason: Option<String>,
    },
    /// Nothing helps.
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
    /// What the caps turned out to need.
    adapters: Vec<Adapter>,
    delivery: Arc<Delivery>,
    pulses: Arc<CapturePulses>,
    is_live: Arc<AtomicBool>,
    /// Disconnected when the source is dropped.
    stop: Receiver<()>,
}

impl Session {
    /// Plays until the end, and says it.
    fn run(
        mut self,
        opened: &Sender<Result<Option<Duration>, CaptureError>>,
        ender: &Ender<CapturedFrame>,
    ) {
        let mut pipeline = match self.open() {
            Ok(pipeline) => pipeline,
            Err(error) => {
                ender.end(End::Failed(error.clone()));
                // Nobody listens after `start`.
                let _ = opened.send(Err(error));
                return;
            }
        };
        self.log_opened(&pipeline);
        let _ = opened.send(Ok(pipeline.duration()));
        loop {
            let end = self.watch(&pipeline);
            if end != End::Eos || !self.spec.looped {
                // Before the pipeline stops, because its thread may be waiting for the consumer.
                ender.end(end);
                return;
            }
            // A pipeline cannot be trusted after its end.
            self.pulses.opening.during(|| drop(pipeline));
            pipeline = match self.open() {
                Ok(pipeline) => pipeline,
                Err(error) => return ender.end(End::Failed(error)),
            };
        }
    }

    /// A pipeline that has given its first frame, with adapters if its caps need them.
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
        tracing::info!(stream, inserted, from, to, "the pipeline gives what is not read as it is");
    }

    fn attempt(&self) -> Result<Pipeline, Failure> {
        let SourceSpec { pace, .. } = self.spec;
        let play = || Pipeline::play(&self.expansion, &self.adapters, &self.delivery, pace);
        let pipeline = self.pulses.opening.during(play)?;
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
                Wait::Deadline => return Err(self.why_nothing_came(pipeline, missing)),
            };
            let message = match event {
                Event::FirstFrame => return Ok(()),
                Event::Interlaced(offered) => return Err(Failure::Adapt { offered, reason: None }),
                Event::Refused(error) => return Err(error.into()),
                Event::Message(message) => message,
            };
            match missing_plugin_of(&message) {
                // An error follows, unless something else in the file can be shown.
                Some(error) => missing = missing.or(Some(error)),
                None => return Err(why_not(pipeline, missing, error_of(&message))),
            }
        }
    }

    fn why_nothing_came(&self, pipeline: &Pipeline, missing: Option<CaptureError>) -> Failure {
        if let Some(error) = missing {
            return error.into();
        }
        // A short file without pictures may be over before its sound is found to have nowhere to go, and then
        // nothing fails. Pictures of a live source may come late.
        if let Some(other) = not_raw(&pipeline.offers()).filter(|_| !pipeline.live) {
            return other.into();
        }
        Failure::Error(CaptureError::CapsTimeout {
            seconds: self.spec.caps_timeout.as_secs(),
            seen: pipeline.progress(),
        })
    }

    /// How a pipeline that plays ends.
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

/// What ended a wait.
enum Wait {
    Event(Event),
    Stop,
    Deadline,
}

/// Why a pipeline failed (`told`) or ended before its first frame.
fn why_not(
    pipeline: &Pipeline,
    missing: Option<CaptureError>,
    told: Option<CaptureError>,
) -> Failure {
    if let Some(error) = missing {
        return error.into();
    }
    let told_nothing = matches!(told, None | Some(CaptureError::Failed { .. }));
    let offers = pipeline.offers();
    if let Some(raw) = offers.iter().find(|caps| is_raw(caps)) {
        if !raw.can_intersect(&caps::readable()) {
            return Failure::Adapt {
                offered: raw.clone(),
                reason: told.map(|error| error.to_string()),
            };
        }
    } else if let Some(other) = not_raw(&offers).filter(|_| told_nothing) {
        return other.into();
    }
    told.unwrap_or(CaptureError::NoFrames).into()
}

/// The refusal of what is offered, if something is and nothing of it is raw video.
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
