//! A source that reconnects: after transient errors, a new pipeline follows with a growing pause before each.
//!
//! A pipeline that ended, failed or fell silent is never used again, and has to stop before the next one starts. A source process that
//! does not is killed. Without one a driver that hangs keeps the stream from going on, and so from starting pipelines that hang, too.

use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::source::CaptureThread;
use super::transient::{Evidence, may_reconnect};
use super::{CaptureError, CapturedFrame, End, Pace, Source, SourceSpec, TakeResult};
use foveate_core::backoff::{Backoff, next_try};
use foveate_core::clock::monotonic_ns;
use foveate_core::gray::GrayScaling;
use foveate_log::redact::redacted;
use foveate_source::Masks;
use foveate_stats::{LossReason, StreamCounters};

const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// How much longer than the pause after its loss a lost pipeline may take to stop.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// A pipeline succeeds once it has delivered frames for this long, and for as long as the pause before it.
const SUCCESS_MIN: Duration = Duration::from_secs(1);

/// Result of taking from a reconnecting source.
#[derive(Debug)]
pub enum SourceEvent {
    /// The newest frame.
    Frame(CapturedFrame),
    /// No frame in time.
    Nothing,
    /// Only damaged frames in time, which were dropped: the source is not silent.
    Corrupted,
    /// The pipeline was lost; another one follows after a pause.
    Lost(Loss),
    /// The source has ended permanently; later calls return the same.
    Ended(End),
}

/// Loss of a pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The error that ended it.
    pub cause: CaptureError,
    /// Time until the next attempt.
    pub pause: Duration,
    /// Number of the next attempt since the last success, from 1.
    pub attempt: u32,
}

impl Loss {
    /// The message within `bytes_max` bytes, with the cause cut where it is too long. It is redacted before it is cut.
    pub fn to_text(&self, bytes_max: usize) -> String {
        let cause = redacted(&self.cause.to_string());
        let rest = self.next_try();
        let room = bytes_max.saturating_sub(rest.len());
        if cause.len() <= room {
            return cause + &rest;
        }
        let cut = cause.floor_char_boundary(room.saturating_sub('…'.len_utf8()));
        format!("{}…{rest}", &cause[..cut])
    }

    fn next_try(&self) -> String {
        let Self { pause, attempt, .. } = *self;
        format!("; {}", next_try(pause, attempt))
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", redacted(&self.cause.to_string()), self.next_try())
    }
}

/// The frames of one stream across restarts of its pipeline.
#[derive(Debug)]
pub struct ReconnectingSource {
    spec: SourceSpec,
    masks: Arc<Masks>,
    counters: Arc<StreamCounters>,
    backoff: Backoff,
    /// The pause before the current pipeline.
    pause: Duration,
    has_delivered: bool,
    is_live: bool,
    /// Whether the samples are exact.
    is_exact: bool,
    phase: SourcePhase,
    /// The previous pipeline, while it stops.
    stopping: Option<CaptureThread>,
}

#[derive(Debug)]
enum SourcePhase {
    Playing(Playing),
    /// When to start the next pipeline, and why the previous one was lost, if there was one.
    Pausing(Instant, Option<LossReason>),
    Ended(End),
}

#[derive(Debug)]
struct Playing {
    source: Source,
    started_at: Instant,
    first_frame: Option<Instant>,
    /// Arrival of the newest frame, damaged or not.
    last_frame: Option<Instant>,
    /// Damaged frames of the stream up to `last_frame`.
    corrupted: u64,
}

impl ReconnectingSource {
    /// Creates a source whose first pipeline starts with the first call of [`next_event`](Self::next_event). The masks of its frames are
    /// `masks`, not those of `spec`.
    pub fn new(spec: &SourceSpec, masks: &Arc<Masks>, counters: &Arc<StreamCounters>) -> Self {
        let pauses = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE, monotonic_ns());
        Self::with_pauses(spec, masks, counters, pauses)
    }

    /// Like [`new`](Self::new), with `backoff` for the pauses between pipelines.
    pub fn with_pauses(
        spec: &SourceSpec,
        masks: &Arc<Masks>,
        counters: &Arc<StreamCounters>,
        backoff: Backoff,
    ) -> Self {
        Self {
            spec: spec.clone(),
            masks: Arc::clone(masks),
            counters: Arc::clone(counters),
            backoff,
            pause: Duration::ZERO,
            has_delivered: false,
            is_live: false,
            is_exact: false,
            phase: SourcePhase::Pausing(Instant::now(), None),
            stopping: None,
        }
    }

    /// Whether the pipeline of the newest frame is live.
    pub fn is_live(&self) -> bool {
        self.is_live
    }

    /// Whether the samples of its frames are [exact](Source::is_exact), as of the newest.
    pub fn is_exact(&self) -> bool {
        self.is_exact
    }

    /// Whether the next frame is waiting already, and a further one would replace it.
    pub fn is_late(&self) -> bool {
        let SourcePhase::Playing(playing) = &self.phase else { return false };
        self.spec.pace == Pace::Realtime && playing.source.has_next()
    }

    /// Takes the newest frame or another event, waiting up to `timeout`.
    pub fn next_event(&mut self, timeout: Duration) -> SourceEvent {
        match &mut self.phase {
            SourcePhase::Playing(playing) => match playing.source.next_frame(timeout) {
                TakeResult::Frame(frame) => self.deliver(frame),
                TakeResult::TimedOut => self.check_for_silence(),
                TakeResult::Ended(End::Failed(error)) => self.lose(error),
                TakeResult::Ended(End::Eos) => self.end(End::Eos),
            },
            SourcePhase::Pausing(until, reason) => {
                let (until, reason) = (*until, *reason);
                let left = until.saturating_duration_since(Instant::now());
                if !left.is_zero() {
                    thread::sleep(left.min(timeout));
                    return SourceEvent::Nothing;
                }
                let hangs = |before: &&CaptureThread| !before.stops_within(timeout);
                match self.stopping.as_ref().filter(hangs).map(CaptureThread::not_stopping) {
                    None => self.begin(reason),
                    Some(error) if STOP_GRACE < until.elapsed() => self.lose(error),
                    Some(_) => SourceEvent::Nothing,
                }
            }
            SourcePhase::Ended(end) => SourceEvent::Ended(end.clone()),
        }
    }

    fn deliver(&mut self, frame: CapturedFrame) -> SourceEvent {
        self.has_delivered = true;
        if self.spec.gray_range == Some(GrayScaling::Auto)
            && let Some(range) = frame.facts().gray_range
        {
            // The next pipeline goes on with it.
            self.spec.gray_range = Some(GrayScaling::Fixed(range));
        }
        if let SourcePhase::Playing(playing) = &mut self.phase {
            let now = Instant::now();
            playing.last_frame = Some(now);
            playing.corrupted = self.counters.frames_corrupted.get();
            self.is_live = playing.source.is_live();
            self.is_exact = playing.source.is_exact();
            let first = *playing.first_frame.get_or_insert(now);
            if self.pause.max(SUCCESS_MIN) <= now.duration_since(first) {
                self.backoff.succeeded();
            }
        }
        SourceEvent::Frame(frame)
    }

    fn begin(&mut self, reason: Option<LossReason>) -> SourceEvent {
        self.stopping = None;
        if let Some(reason) = reason {
            self.counters.restarts.add(reason);
        }
        match Source::start_behind(&self.masks, &self.spec, &self.counters) {
            Ok(source) => {
                let (started_at, corrupted) =
                    (Instant::now(), self.counters.frames_corrupted.get());
                let playing =
                    Playing { source, started_at, first_frame: None, last_frame: None, corrupted };
                self.phase = SourcePhase::Playing(playing);
                SourceEvent::Nothing
            }
            Err(error) => self.lose(error),
        }
    }

    /// Gives up a pipeline without frames for too long. Until its first frame, the source itself has a timeout; this one is for
    /// sources that hang.
    fn check_for_silence(&mut self) -> SourceEvent {
        let SourcePhase::Playing(playing) = &mut self.phase else { return SourceEvent::Nothing };
        let corrupted = self.counters.frames_corrupted.get();
        if std::mem::replace(&mut playing.corrupted, corrupted) < corrupted {
            playing.last_frame = Some(Instant::now());
            return SourceEvent::Corrupted;
        }
        let Some(limit) = self.spec.restart_timeout else { return SourceEvent::Nothing };
        let (since, limit) = match playing.last_frame {
            Some(last) => (last, limit),
            // Inserting an element may restart the caps timeout once.
            None => (playing.started_at, limit + 2 * self.spec.caps_timeout),
        };
        let silent = since.elapsed();
        if silent < limit || !may_reconnect(&self.spec, self.evidence()) {
            return SourceEvent::Nothing;
        }
        self.lose(CaptureError::Silent { seconds: silent.as_secs() })
    }

    fn lose(&mut self, cause: CaptureError) -> SourceEvent {
        if !cause.is_transient(&self.spec, self.evidence()) {
            return self.end(End::Failed(cause));
        }
        let pause = self.backoff.after_failure();
        self.pause = pause;
        let next = SourcePhase::Pausing(Instant::now() + pause, Some(cause.loss_reason()));
        if let SourcePhase::Playing(playing) = std::mem::replace(&mut self.phase, next) {
            self.stopping = Some(playing.source.detach());
        }
        SourceEvent::Lost(Loss { cause, pause, attempt: self.backoff.failures() })
    }

    fn evidence(&self) -> Evidence {
        // This pipeline may not have delivered anything.
        let is_live =
            matches!(&self.phase, SourcePhase::Playing(playing) if playing.source.is_live());
        Evidence { is_live: is_live || self.is_live, has_delivered: self.has_delivered }
    }

    fn end(&mut self, end: End) -> SourceEvent {
        self.phase = SourcePhase::Ended(end.clone());
        SourceEvent::Ended(end)
    }
}
