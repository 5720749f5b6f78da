//! A source: a thread that plays pipelines, one for each round of a loop and each picture of a folder, until it ends or is dropped.
//!
//! All that may block, such as opening a FIFO, a file of a network mount or a driver's device, and stopping such a pipeline, is
//! done on that thread, or in a process of its own. Nobody waits for it longer than a limit. What blocks then is killed with its process; a
//! thread cannot be, and stays until the call returns.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, select};
use gstreamer as gst;

use super::caps::{self, Adapter};
use super::color::ColorOverrides;
use super::delivery::{Delivery, Round};
use super::error::PROCESSES_REMEDY;
use super::expansion::{Expansion, Playlist};
use super::mailbox::{Mailbox, MailboxConsumer, MailboxProducer, mailbox};
use super::network::{Network, Redirect};
use super::outlet::Outlet;
use super::pipeline::{
    self, Demands, Liveness, Pipeline, PipelineEvent, error_of, is_raw, missing_plugin_of, web_page,
};
use super::process::ProcessSession;
use super::{
    CaptureError, CapturedFrame, Content, End, Isolation, Orientation, Pace, SourceSpec,
    TakeResult, hints,
};
use foveate_core::source::ShorthandKind;
use foveate_log::redact::redacted;
use foveate_source::Masks;
use foveate_stats::StreamCounters;
use foveate_stats::stages::CaptureActivity;

/// How long dropping a source waits for its pipeline to stop: the daemon must exit within a second.
const STOP_TIMEOUT: Duration = Duration::from_millis(600);

/// How much longer than [`SourceSpec::caps_timeout`] opening may take before the opening thread counts as blocked. If it can, that thread
/// reports the timeout itself, with more details.
const BLOCKED_AFTER: Duration = Duration::from_millis(300);

/// Capture threads that have finished.
static FINISHED_THREADS: AtomicUsize = AtomicUsize::new(0);

/// Capture threads that have finished since the process started, including those of [`Source::check`].
pub fn finished_threads() -> usize {
    FINISHED_THREADS.load(Ordering::Relaxed)
}

/// Duration of each picture of a folder or a loop that is played in real time.
const PICTURE: Duration = Duration::from_secs(1);

/// How long other caps or an error may follow caps that the appsink has refused, before the pipeline counts as stuck. A converter tries
/// several; a demuxer that has read all of its file reports no error any more.
const REFUSED_CAPS_GRACE: Duration = Duration::from_millis(500);

/// A clip that ends this much before the duration of its container is reported as truncated. Sound often ends a little later.
const TRUNCATED: Duration = Duration::from_millis(500);

/// Reason of the timeout if a call that opens a source does not return.
const BLOCKED: &str = "opening it does not return: a FIFO has no writer, or a network mount or a driver does not answer";

/// Frames of one camera or clip.
///
/// Dropping it stops the pipeline, even one that waits for a frame to be taken.
#[derive(Debug)]
pub struct Source {
    /// Dropped first, because the streaming thread may be waiting for the consumer.
    frames: MailboxConsumer<CapturedFrame>,
    opened: Receiver<Result<Option<Duration>, CaptureError>>,
    duration: Option<Duration>,
    caps_timeout: Duration,
    activity: Arc<CaptureActivity>,
    is_live: Arc<AtomicBool>,
    is_exact: Arc<AtomicBool>,
    #[expect(dead_code, reason = "dropped to stop the thread, before that is waited for")]
    stop: Sender<()>,
    thread: CaptureThread,
}

/// The thread of a source. Dropping it waits until its pipeline has stopped, though not for long.
#[derive(Debug)]
pub struct CaptureThread {
    stream: String,
    isolation: Isolation,
    /// Disconnected when it has finished.
    finished: Receiver<()>,
}

impl CaptureThread {
    fn spawn(spec: &SourceSpec, run: impl FnOnce() + Send + 'static) -> Result<Self, CaptureError> {
        let (finishing, finished) = bounded::<()>(0);
        let run = move || {
            run();
            FINISHED_THREADS.fetch_add(1, Ordering::Relaxed);
            drop(finishing);
        };
        let builder = thread::Builder::new().name(format!("capture-{}", spec.stream));
        builder.spawn(run).map_err(|error| CaptureError::Failed {
            element: "thread".to_owned(),
            reason: format!("{error}; {PROCESSES_REMEDY}"),
        })?;
        Ok(Self { stream: spec.stream.clone(), isolation: spec.isolation, finished })
    }

    /// Whether the source's pipeline stops and releases its resources within `timeout`.
    pub fn stops_within(&self, timeout: Duration) -> bool {
        self.finished.recv_timeout(timeout) == Err(RecvTimeoutError::Disconnected)
    }

    /// The error that the source's pipeline has not stopped.
    pub(super) fn not_stopping(&self) -> CaptureError {
        let remedy = match self.isolation {
            Isolation::None => "set `isolation = \"process\"`, with which it is killed",
            // Killed it was.
            Isolation::Process => "replug the camera, or restart the machine",
        };
        CaptureError::NotStopping { remedy }
    }
}

impl Drop for CaptureThread {
    fn drop(&mut self) {
        if !self.stops_within(STOP_TIMEOUT) {
            let (stream, reason) = (&self.stream, self.not_stopping().to_string());
            tracing::warn!(stream, reason, "a pipeline goes on in the background");
        }
    }
}

impl Source {
    /// Starts a source without waiting for anything. Every failure is reported by [`Source::next_frame`], and one that reports nothing
    /// within [`SourceSpec::caps_timeout`] too.
    ///
    /// # Errors
    ///
    /// If no thread can be started.
    pub fn start(spec: &SourceSpec, counters: &Arc<StreamCounters>) -> Result<Self, CaptureError> {
        Self::start_behind(&Arc::new(Masks::new(spec.masks.clone())), spec, counters)
    }

    /// Starts a source as [`start`](Self::start) does, with `masks`, which may change, instead of the masks of `spec`.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn start_behind(
        masks: &Arc<Masks>,
        spec: &SourceSpec,
        counters: &Arc<StreamCounters>,
    ) -> Result<Self, CaptureError> {
        Self::start_into(Outlet::Mailbox, Task::Play, masks, spec, counters)
    }

    /// Starts a source as [`start_behind`](Self::start_behind) does, for `task`. Frames go to what `outlet` makes of the mailbox's producer.
    pub(super) fn start_into(
        outlet: impl FnOnce(MailboxProducer<CapturedFrame>) -> Outlet,
        task: Task,
        masks: &Arc<Masks>,
        spec: &SourceSpec,
        counters: &Arc<StreamCounters>,
    ) -> Result<Self, CaptureError> {
        let (producer, frames) = mailbox(spec.pace);
        let own_mailbox = producer.mailbox();
        let activity = counters.stages.next_pipeline();
        let (stop, stop_asked) = bounded(0);
        let (opened_sender, opened) = bounded(1);
        let (is_live, is_exact): (Arc<AtomicBool>, Arc<AtomicBool>);
        let run: Box<dyn FnOnce() + Send> = match spec.isolation {
            Isolation::None => {
                let (own_counters, own_activity) = (Arc::clone(counters), Arc::clone(&activity));
                let outlet = outlet(producer);
                let delivery = Delivery::new(outlet, own_counters, own_activity, spec, masks);
                [is_live, is_exact] = [&delivery.is_live, &delivery.is_exact].map(Arc::clone);
                let session = SourceSession {
                    spec: spec.clone(),
                    is_restart: 0 < counters.restarts.total(),
                    adapters: Vec::new(),
                    network: Network::of(spec),
                    delivery: Arc::new(delivery),
                    activity: Arc::clone(&activity),
                    failed: None,
                    stop: stop_asked,
                };
                match task {
                    Task::Play => {
                        activity.opening.begin_within(spec.caps_timeout + BLOCKED_AFTER);
                        Box::new(move || session.run(&opened_sender, &own_mailbox))
                    }
                    Task::Check => Box::new(move || own_mailbox.end(session.check())),
                }
            }
            Isolation::Process => {
                [is_live, is_exact] = Default::default();
                let session = ProcessSession {
                    spec: spec.clone(),
                    task,
                    masks: Arc::clone(masks),
                    counters: Arc::clone(counters),
                    producer,
                    is_live: Arc::clone(&is_live),
                    is_exact: Arc::clone(&is_exact),
                    stop: stop_asked,
                };
                Box::new(move || session.run(&opened_sender, &own_mailbox))
            }
        };
        Ok(Self {
            frames,
            opened,
            duration: None,
            caps_timeout: spec.caps_timeout,
            activity,
            is_live,
            is_exact,
            stop,
            thread: CaptureThread::spawn(spec, run)?,
        })
    }

    /// Checks that a source is valid and its elements and files exist, for at most `limit`. Nothing is started, so its camera or
    /// server need not be reachable, and no FIFO is opened.
    ///
    /// # Errors
    ///
    /// On errors that are not transient, if the source process ends without an answer, and [`CaptureError::CapsTimeout`] if that is not known within `limit`.
    pub fn check(spec: &SourceSpec, limit: Duration) -> Result<(), CaptureError> {
        if limit.is_zero() {
            return Err(blocked(limit));
        }
        let (masks, counters) = Default::default();
        let mut source = Self::start_into(Outlet::Mailbox, Task::Check, &masks, spec, &counters)?;
        match source.next_frame(limit) {
            TakeResult::Ended(End::Failed(error)) if error.is_excused(spec) => Ok(()),
            TakeResult::Ended(End::Failed(error)) => Err(error),
            TakeResult::Ended(End::Eos) => Ok(()),
            TakeResult::TimedOut | TakeResult::Frame(_) => Err(blocked(limit)),
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
        source.duration = source.first_frame()?;
        Ok(source)
    }

    fn first_frame(&self) -> Result<Option<Duration>, CaptureError> {
        loop {
            match self.opened.recv_timeout(self.activity.opening.left().unwrap_or(BLOCKED_AFTER)) {
                Ok(opened) => return opened,
                Err(RecvTimeoutError::Disconnected) => return Err(CaptureError::Closed),
                Err(RecvTimeoutError::Timeout) if self.is_blocked() => {
                    return Err(blocked(self.caps_timeout));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Duration of a clip that was [opened](Source::open), if its container gives it.
    pub fn duration(&self) -> Option<Duration> {
        self.duration
    }

    /// Takes the newest frame, waiting up to `timeout` for one.
    pub fn next_frame(&mut self, timeout: Duration) -> TakeResult {
        let timeout = self.activity.opening.left().map_or(timeout, |left| timeout.min(left));
        match self.frames.take(timeout) {
            TakeResult::TimedOut if self.is_blocked() => {
                TakeResult::Ended(End::Failed(blocked(self.caps_timeout)))
            }
            taken => taken,
        }
    }

    /// Whether a frame is waiting to be taken.
    pub fn has_next(&self) -> bool {
        self.frames.has_next()
    }

    fn is_blocked(&self) -> bool {
        self.activity.opening.left() == Some(Duration::ZERO)
    }

    /// Whether the source's pipeline has reported that it is live.
    pub fn is_live(&self) -> bool {
        self.is_live.load(Ordering::Relaxed)
    }

    /// Whether the samples of its frames are exact: pictures, and what no lossy codec and no camera made. Known with the first frame.
    pub fn is_exact(&self) -> bool {
        self.is_exact.load(Ordering::Relaxed)
    }

    /// Stops the source without waiting. Its thread is returned.
    pub fn detach(self) -> CaptureThread {
        self.thread
    }
}

fn blocked(limit: Duration) -> CaptureError {
    CaptureError::CapsTimeout { seconds: limit.as_secs(), seen: BLOCKED.to_owned() }
}

/// Purpose of opening a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// Deliver frames.
    Play,
    /// [Check](Source::check) the source.
    Check,
}

/// Why a pipeline gave no first frame.
enum OpenFailure {
    /// The caps need a conversion.
    Adapt {
        offered: gst::Caps,
        /// GStreamer's error, if any.
        reason: Option<String>,
    },
    /// A tag asks to turn the pictures.
    Turn(String),
    /// The server redirects to another address.
    Redirect(Redirect),
    Error(CaptureError),
}

impl From<CaptureError> for OpenFailure {
    fn from(error: CaptureError) -> Self {
        Self::Error(error)
    }
}

/// The watching thread.
struct SourceSession {
    spec: SourceSpec,
    /// Whether a pipeline of this stream was lost before, which the log has.
    is_restart: bool,
    /// Elements that the pipeline needs before the appsink.
    adapters: Vec<Adapter>,
    /// Permissions of the network elements.
    network: Network,
    delivery: Arc<Delivery>,
    activity: Arc<CaptureActivity>,
    /// The pipeline whose failure ends the source. It is stopped after that was reported: some never stop.
    failed: Option<Pipeline>,
    /// Disconnected when the source is dropped.
    stop: Receiver<()>,
}

impl SourceSession {
    /// Checks what the pipelines of the source are made of.
    fn check(&self) -> End {
        let check = || {
            hints::initialised()?;
            let playlist = Playlist::of(&self.spec)?;
            self.network.check()?;
            pipeline::check(&playlist.expansion(0, &self.spec)?)
        };
        check().map_or_else(End::Failed, |()| End::Eos)
    }

    /// Plays until the end, and reports it to `frames`.
    fn run(
        mut self,
        opened: &Sender<Result<Option<Duration>, CaptureError>>,
        frames: &Mailbox<CapturedFrame>,
    ) {
        let end = self.rounds(opened, frames);
        self.activity.opening.finish();
        if let End::Failed(error) = &end {
            // The receiver is gone if the source was dropped, and full if it was open.
            let _ = opened.try_send(Err(error.clone()));
        }
        frames.end(end);
    }

    fn rounds(
        &mut self,
        opened: &Sender<Result<Option<Duration>, CaptureError>>,
        frames: &Mailbox<CapturedFrame>,
    ) -> End {
        let playlist = hints::initialised().and_then(|()| self.network.check());
        let playlist = match playlist.and_then(|()| Playlist::of(&self.spec)) {
            Ok(playlist) => playlist,
            Err(error) => return End::Failed(error),
        };
        let (mut round, mut extent, mut index) = (Round::default(), None, 0);
        if !self.is_restart {
            let (stream, pictures) = (&self.spec.stream, playlist.len());
            match &playlist {
                Playlist::One(expansion) => {
                    tracing::info!(stream, pipeline = expansion.shown, "capturing");
                }
                Playlist::Pictures(_) => tracing::info!(stream, pictures, "capturing a folder"),
            }
        }
        loop {
            let started_at = Instant::now();
            let (content, pace) = (self.spec.content, self.spec.pace);
            let (liveness, track) = (liveness(&self.spec), self.spec.track);
            let (heeds_tags, max_pixels) = (false, self.spec.max_pixels);
            let color = ColorOverrides { range: self.spec.range, matrix: self.spec.matrix };
            let demands =
                Demands { content, pace, liveness, track, heeds_tags, extent, max_pixels, color };
            let played = playlist.expansion(index, &self.spec).and_then(|expansion| {
                self.delivery.begin_round(round);
                let pipeline =
                    self.open(&expansion, demands).map_err(|error| named(error, &expansion))?;
                Ok((expansion, pipeline))
            });
            let (expansion, pipeline) = match played {
                Ok(played) => played,
                Err(error) => return End::Failed(error),
            };
            self.activity.opening.finish();
            if index == 0 && round.played_ns == 0 {
                self.log_opened(&pipeline, &expansion);
                let _ = opened.send(Ok(pipeline.duration()));
            }
            let end = self.watch(&pipeline);
            let is_last = index + 1 == playlist.len();
            if let End::Failed(error) = end {
                let end = End::Failed(named(error, &expansion));
                // Before the pipeline is stopped, because its streaming thread may be waiting for the consumer.
                frames.end(end.clone());
                return end;
            }
            log_truncated(&self.spec.stream, &pipeline, &expansion);
            if is_last && !self.spec.looped {
                frames.end(End::Eos);
                return End::Eos;
            }
            let is_picture = pipeline.buffers() == 1;
            let lasts = if is_picture { PICTURE } else { pipeline.end().unwrap_or(PICTURE) };
            if matches!(playlist, Playlist::Pictures(_)) {
                extent = extent.or_else(|| caps::extent_of(&pipeline.caps()?).ok());
            }
            let lasts_ns = u64::try_from(lasts.as_nanos()).unwrap_or(u64::MAX);
            round.played_ns = round.played_ns.saturating_add(lasts_ns);
            (index, round.pts_ns) =
                if is_last { (0, 0) } else { (index + 1, round.pts_ns.saturating_add(lasts_ns)) };
            if is_picture
                && self.spec.pace == Pace::Realtime
                && self.is_stopped_by(started_at + PICTURE)
            {
                return End::Failed(CaptureError::Closed);
            }
            self.activity.opening.begin_within(self.spec.caps_timeout + BLOCKED_AFTER);
            // Pipelines are not reliable after their end.
            drop(pipeline);
        }
    }

    /// Waits until `time`; true if the source was dropped before.
    fn is_stopped_by(&self, time: Instant) -> bool {
        select! {
            recv(self.stop) -> _ => true,
            recv(crossbeam_channel::at(time)) -> _ => false,
        }
    }

    /// A pipeline that has delivered its first frame, with the adapters that its caps and tags need.
    fn open(&mut self, expansion: &Expansion, demands: Demands) -> Result<Pipeline, CaptureError> {
        let is_auto = self.spec.orientation == Orientation::Auto;
        let exif = expansion.exif_orientation.filter(|_| is_auto);
        let turning = match exif {
            Some(orientation) => caps::turning_by_exif(orientation),
            None => caps::turning(self.spec.orientation),
        };
        let follows_tags = is_auto && exif.is_none();
        // The previous picture may have needed another turn.
        let is_other =
            |adapter: &Adapter| adapter.element == caps::TURNING && Some(*adapter) != turning;
        self.adapters.retain(|adapter| !is_other(adapter));
        if let Some((tag, turning)) = exif.zip(turning)
            && !self.adapters.contains(&turning)
        {
            let stream = &self.spec.stream;
            tracing::info!(stream, tag, "the pictures are turned as their tag says");
        }
        if expansion.fifo.is_some() {
            // No second attempt can insert them.
            let conversions = match self.spec.content {
                Content::Pictures => &caps::CONVERSIONS[..],
                Content::Depth => &[],
            };
            self.adapters = conversions.iter().copied().chain(turning).collect();
        } else if !follows_tags {
            self.adapters = caps::joined(&self.adapters, turning);
        }
        if self.spec.interlaced {
            self.adapters = caps::joined(&self.adapters, caps::INTERLACED);
        }
        if self.spec.square_pixels || (self.spec.scale_pictures && demands.extent.is_some()) {
            self.adapters = caps::joined(&self.adapters, [caps::SCALE]);
        }
        loop {
            let is_turning = turning.is_some_and(|turning| self.adapters.contains(&turning));
            let heeds_tags = follows_tags && !is_turning;
            let demands = Demands { heeds_tags, ..demands };
            let (adapters, refused) = match self.attempt(expansion, demands) {
                Ok(pipeline) => {
                    self.log_adapters(&pipeline);
                    return Ok(pipeline);
                }
                Err(OpenFailure::Error(error)) => return Err(error),
                Err(OpenFailure::Redirect(redirect)) => {
                    tracing::info!(stream = self.spec.stream, %redirect, "redirected");
                    self.network.follow(redirect);
                    continue;
                }
                Err(OpenFailure::Turn(tag)) => {
                    let stream = &self.spec.stream;
                    tracing::info!(stream, tag, "the pictures are turned as their tag says");
                    (caps::joined(&self.adapters, turning), None)
                }
                Err(OpenFailure::Adapt { offered, reason }) => {
                    let adapters =
                        caps::joined(&self.adapters, caps::adapters(self.spec.content, &offered)?);
                    (adapters, Some(not_negotiated(&offered, reason)))
                }
            };
            if let Some(error) = refused
                && (adapters == self.adapters || expansion.fifo.is_some())
            {
                return Err(error);
            }
            self.adapters = adapters;
        }
    }

    fn log_opened(&self, pipeline: &Pipeline, expansion: &Expansion) {
        if expansion.is_animated_png() {
            let (stream, clip) = (&self.spec.stream, &expansion.clip);
            tracing::warn!(
                stream,
                clip,
                "only the first picture of an animated PNG is shown: GStreamer cannot play it"
            );
        }
        let color = self.delivery.color().map(|color| color.to_string());
        let caps = pipeline.caps().map(|caps| caps.to_string());
        tracing::info!(
            stream = self.spec.stream,
            caps,
            color,
            live = pipeline.is_live(),
            "frames arrive"
        );
    }

    fn log_adapters(&self, pipeline: &Pipeline) {
        if self.adapters.is_empty() {
            return;
        }
        let inserted: Vec<_> = self.adapters.iter().map(|adapter| adapter.element).collect();
        let caps = pipeline.caps().map(|caps| caps.to_string());
        let (stream, inserted) = (&self.spec.stream, inserted.join(" ! "));
        tracing::info!(stream, inserted, caps, "inserted elements before the appsink");
    }

    fn attempt(
        &mut self,
        expansion: &Expansion,
        demands: Demands,
    ) -> Result<Pipeline, OpenFailure> {
        let deadline = Instant::now() + self.spec.caps_timeout;
        self.activity.opening.begin_within(self.spec.caps_timeout + BLOCKED_AFTER);
        // A pipeline may drop frames before `play` returns.
        let corrupted_before = self.delivery.corrupted();
        let pipeline =
            Pipeline::play(expansion, &self.adapters, &self.delivery, demands, &self.network)?;
        let failure = match self.wait_for_first_frame(&pipeline, deadline, corrupted_before) {
            Ok(()) => return Ok(pipeline),
            Err(OpenFailure::Error(error)) => error,
            Err(failure) => return Err(failure),
        };
        let answer = pipeline.answer();
        match answer.and_then(|answer| self.network.redirect(&answer)) {
            Some(redirect) => Err(OpenFailure::Redirect(redirect)),
            None => {
                let error = self.explained(failure, &pipeline);
                self.failed = Some(pipeline);
                Err(error.into())
            }
        }
    }

    /// `error` of `pipeline` with the answer of its server.
    fn explained(&self, error: CaptureError, pipeline: &Pipeline) -> CaptureError {
        self.activity.opening.begin_within(Network::diagnosis_limit() + BLOCKED_AFTER);
        let (answer, address) = (pipeline.answer(), pipeline.address());
        self.network.explained(error, answer.as_ref(), address.as_deref())
    }

    fn wait_for_first_frame(
        &self,
        pipeline: &Pipeline,
        mut deadline: Instant,
        corrupted_before: u64,
    ) -> Result<(), OpenFailure> {
        let (mut missing, mut corrupted) = (None, corrupted_before);
        // When caps that were refused are given up.
        let mut given_up: Option<Instant> = None;
        loop {
            let until = given_up.map_or(deadline, |given_up| given_up.min(deadline));
            let event = match self.next_event(pipeline, Some(until)) {
                Ok(event) => event,
                Err(RecvTimeoutError::Disconnected) => return Err(CaptureError::Closed.into()),
                Err(RecvTimeoutError::Timeout) if given_up.take().is_some() => {
                    if let Some(offered) = pipeline.refused_caps(self.spec.content) {
                        return Err(OpenFailure::Adapt { offered, reason: None });
                    }
                    continue;
                }
                // Frames come, and the keyframe is yet to come.
                Err(RecvTimeoutError::Timeout) if corrupted < self.delivery.corrupted() => {
                    corrupted = self.delivery.corrupted();
                    deadline = Instant::now() + self.spec.caps_timeout;
                    self.activity.opening.begin_within(self.spec.caps_timeout + BLOCKED_AFTER);
                    continue;
                }
                Err(RecvTimeoutError::Timeout) => {
                    return Err(self.timeout_failure(pipeline, missing));
                }
            };
            let message = match event {
                PipelineEvent::FirstFrame => return Ok(()),
                PipelineEvent::Interlaced(offered) => {
                    return Err(OpenFailure::Adapt { offered, reason: None });
                }
                PipelineEvent::Tagged(tag) => return Err(OpenFailure::Turn(tag)),
                PipelineEvent::Tracks(tracks) => {
                    tracing::info!(stream = self.spec.stream, tracks, "several video tracks");
                    continue;
                }
                PipelineEvent::Refused(error) => return Err(error.into()),
                PipelineEvent::CapsRefused => {
                    given_up.get_or_insert(Instant::now() + REFUSED_CAPS_GRACE);
                    continue;
                }
                PipelineEvent::Message(message) => message,
            };
            match missing_plugin_of(&message) {
                // An error follows, unless another stream of the file can be played.
                Some(error) => missing = missing.or(Some(error)),
                None => {
                    let reported = error_of(&message);
                    let dropped = self.delivery.corrupted() - corrupted_before;
                    if reported.is_none() && 0 < dropped {
                        return Err(all_corrupted(dropped).into());
                    }
                    return Err(end_failure(pipeline, self.spec.content, missing, reported));
                }
            }
        }
    }

    fn timeout_failure(&self, pipeline: &Pipeline, missing: Option<CaptureError>) -> OpenFailure {
        if let Some(error) = missing {
            return error.into();
        }
        // A short file without video may end before its audio fails to link, and then no error is reported. The video of a
        // live source may still appear.
        if self.spec.content == Content::Pictures
            && let Some(other) = not_raw(&pipeline.offers()).filter(|_| !pipeline.is_live())
        {
            return other.into();
        }
        let seconds = self.spec.caps_timeout.as_secs();
        let refusal = self.delivery.refusal();
        let refusal =
            refusal.map(|reason| format!("; the frames that arrived were refused: {reason}"));
        let seen = pipeline.progress() + &refusal.unwrap_or_default();
        OpenFailure::Error(CaptureError::CapsTimeout { seconds, seen })
    }

    /// Waits for the end of a playing pipeline.
    fn watch(&self, pipeline: &Pipeline) -> End {
        loop {
            let Ok(event) = self.next_event(pipeline, None) else {
                return End::Failed(CaptureError::Closed);
            };
            match event {
                PipelineEvent::FirstFrame
                | PipelineEvent::Tagged(_)
                | PipelineEvent::Tracks(_)
                | PipelineEvent::CapsRefused => {}
                PipelineEvent::Interlaced(_) => return End::Failed(CaptureError::BecameInterlaced),
                PipelineEvent::Refused(error) => return End::Failed(error),
                PipelineEvent::Message(message) => match error_of(&message) {
                    Some(error) => return End::Failed(self.explained(error, pipeline)),
                    None if missing_plugin_of(&message).is_some() => {}
                    None if pipeline.is_live() => return End::Failed(CaptureError::LiveEnded),
                    None => return End::Eos,
                },
            }
        }
    }

    /// The next event of the pipeline; disconnected once the source is dropped.
    fn next_event(
        &self,
        pipeline: &Pipeline,
        deadline: Option<Instant>,
    ) -> Result<PipelineEvent, RecvTimeoutError> {
        let timer = deadline.map_or_else(crossbeam_channel::never, crossbeam_channel::at);
        select! {
            recv(self.stop) -> _ => Err(RecvTimeoutError::Disconnected),
            recv(pipeline.events) -> event => Ok(event?),
            recv(timer) -> _ => Err(RecvTimeoutError::Timeout),
        }
    }
}

/// How to find out whether the pipelines of `spec` are live.
fn liveness(spec: &SourceSpec) -> Liveness {
    match (spec.live, spec.kind(), spec.pace) {
        (Some(is_live), ..) => Liveness::Given(is_live),
        (None, Some(ShorthandKind::Http), Pace::Realtime) => Liveness::ByLength,
        (None, ..) => Liveness::Reported,
    }
}

/// Why a pipeline ended before its first frame: with the error `reported`, or without.
fn end_failure(
    pipeline: &Pipeline,
    content: Content,
    missing: Option<CaptureError>,
    reported: Option<CaptureError>,
) -> OpenFailure {
    let is_page = pipeline.answer().is_some_and(|answer| answer.is_web_page())
        && matches!(
            reported,
            None | Some(CaptureError::Failed { .. } | CaptureError::Corrupt { .. })
        );
    if is_page {
        return web_page().into();
    }
    if let Some(error) = missing {
        return error.into();
    }
    let is_unspecific = matches!(reported, None | Some(CaptureError::Failed { .. }));
    let offers = pipeline.offers();
    if let Some(raw) = offers.iter().find(|caps| is_raw(caps)) {
        if !raw.can_intersect(&caps::readable(content, None, false)) {
            return OpenFailure::Adapt {
                offered: raw.clone(),
                reason: reported.map(|error| error.to_string()),
            };
        }
    } else if content == Content::Depth
        && let Some(other) =
            offers.first().filter(|caps| !caps.can_intersect(&caps::readable(content, None, false)))
    {
        return caps::depth::refused(other).into();
    } else if content == Content::Pictures
        && let Some(other) = not_raw(&offers).filter(|_| is_unspecific)
    {
        return other.into();
    }
    reported.unwrap_or(CaptureError::NoFrames { what: "the source".to_owned() }).into()
}

/// The error of a clip whose frames were all dropped.
fn all_corrupted(count: u64) -> CaptureError {
    CaptureError::Corrupt {
        what: "the file or stream".to_owned(),
        reason: format!(
            "all {count} frames lack their keyframe or their end (`corrupted = \"show\"` takes them)"
        ),
    }
}

/// The error if caps are offered and none of them is raw video.
fn not_raw(offers: &[gst::Caps]) -> Option<CaptureError> {
    let first = offers.first().filter(|_| !offers.iter().any(is_raw))?;
    Some(CaptureError::NotRawVideo { offered: redacted(&first.to_string()) })
}

/// `error` with the name of the clip that `expansion` plays.
fn named(error: CaptureError, expansion: &Expansion) -> CaptureError {
    let Some(clip) = expansion.clip.clone() else { return error };
    let quoted = format!("{clip:?}");
    match error {
        CaptureError::Corrupt { reason, .. } => CaptureError::Corrupt { what: quoted, reason },
        CaptureError::NoFrames { .. } => CaptureError::NoFrames { what: quoted },
        CaptureError::WebPage { .. } => CaptureError::WebPage { what: quoted },
        CaptureError::Playlist { playlist, .. } => {
            CaptureError::Playlist { what: quoted, playlist }
        }
        CaptureError::Undecodable { reason, .. } => {
            CaptureError::Undecodable { what: quoted, reason }
        }
        CaptureError::EndlessPicture { mebibytes, .. } => {
            CaptureError::EndlessPicture { what: quoted, mebibytes }
        }
        CaptureError::NotRawVideo { offered } => CaptureError::NoVideo { what: clip, offered },
        CaptureError::UnlikePictures { extent, expected, .. } => {
            CaptureError::UnlikePictures { picture: clip, extent, expected }
        }
        CaptureError::TooManyPixels { extent, max_pixels, .. } => {
            CaptureError::TooManyPixels { picture: clip, extent, max_pixels }
        }
        error => error,
    }
}

/// Warns of a clip that ended long before the end that its container gives.
fn log_truncated(stream: &str, pipeline: &Pipeline, expansion: &Expansion) {
    let (duration, end) = (pipeline.duration(), pipeline.end());
    let is_early = duration.zip(end).is_some_and(|(duration, end)| end + TRUNCATED < duration);
    if is_early || expansion.is_short_avi() {
        let [duration_s, ended_s] = [duration, end].map(|time| time.map(|time| time.as_secs_f64()));
        tracing::warn!(
            stream,
            clip = expansion.clip,
            ended_s,
            duration_s,
            "the video ended before the end of its container: the clip is truncated, or its sound is longer"
        );
    }
}

fn not_negotiated(offered: &gst::Caps, reason: Option<String>) -> CaptureError {
    CaptureError::NotNegotiated {
        offered: redacted(&offered.to_string()),
        reason: reason.unwrap_or_else(|| "no element converts it".to_owned()),
    }
}
