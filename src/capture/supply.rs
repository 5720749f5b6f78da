//! The frames of one stream for as long as it lives: from one pipeline after the other, with a pause before each new one.
//!
//! A pipeline that ended, failed, or fell silent is given up and never used again. Stopping it may take a while, or for ever
//! where a driver hangs, and nobody waits for that: it is left to its own thread, and only a few may be left so.

use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::passing::Shown;
use super::source::Departing;
use super::{CaptureError, CapturedFrame, End, Source, SourceSpec, Taken};
use foveate_core::backoff::{Backoff, NextTry};
use foveate_core::clock::monotonic_ns;
use foveate_log::redact::redacted;
use foveate_stats::{LossReason, StreamCounters};

/// The pause before the first try.
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// What pauses grow to.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Pipelines of one stream that may be stopping. Each that hangs keeps a thread, and its camera.
pub const STOPPING_MAX: usize = 4;

/// A pipeline has succeeded when it has brought frames for so long, and for as long as the pause before it.
const SUCCESS_MIN: Duration = Duration::from_secs(1);

/// What a stream gets.
#[derive(Debug)]
pub enum Supplied {
    /// The newest frame.
    Frame(CapturedFrame),
    /// Nothing new in the time given.
    Nothing,
    /// The pipeline was lost; another one follows after a pause.
    Lost(Loss),
    /// No frame will come again. Every later call says so again.
    Ended(End),
}

/// A pipeline that was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Why.
    pub cause: CaptureError,
    /// How long until the next try.
    pub pause: Duration,
    /// Which try that is since a pipeline last succeeded, from 1.
    pub attempt: u32,
}

impl Loss {
    /// The sentence for places that hold `bytes_max` bytes: where it is too long, the cause is cut. It shows no secret, nor part of
    /// one.
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
        format!("; {}", NextTry { pause, attempt })
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", redacted(&self.cause.to_string()), self.next_try())
    }
}

/// The frames of one stream.
#[derive(Debug)]
pub struct Supply {
    spec: SourceSpec,
    counters: Arc<StreamCounters>,
    backoff: Backoff,
    /// The pause before the present pipeline.
    pause: Duration,
    has_delivered: bool,
    phase: Phase,
    stopping: Vec<Departing>,
}

#[derive(Debug)]
enum Phase {
    Playing(Playing),
    /// Until then no pipeline is begun. The reason is that of the loss before, if there was one.
    Pausing(Instant, Option<LossReason>),
    Ended(End),
}

#[derive(Debug)]
struct Playing {
    source: Source,
    begun: Instant,
    first_frame: Option<Instant>,
    last_frame: Option<Instant>,
}

impl Supply {
    /// The frames of `spec`. The first pipeline begins when the first frame is waited for.
    pub fn new(spec: &SourceSpec, counters: &Arc<StreamCounters>) -> Self {
        let pauses = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE, monotonic_ns());
        Self::with_pauses(spec, counters, pauses)
    }

    /// The same with other pauses.
    pub fn with_pauses(
        spec: &SourceSpec,
        counters: &Arc<StreamCounters>,
        backoff: Backoff,
    ) -> Self {
        Self {
            spec: spec.clone(),
            counters: Arc::clone(counters),
            backoff,
            pause: Duration::ZERO,
            has_delivered: false,
            phase: Phase::Pausing(Instant::now(), None),
            stopping: Vec::new(),
        }
    }

    /// The newest frame, or what else there is to know, waiting up to `timeout` for it.
    pub fn take(&mut self, timeout: Duration) -> Supplied {
        self.forget_stopped();
        match &mut self.phase {
            Phase::Playing(playing) => match playing.source.take(timeout) {
                Taken::Frame(frame) => self.came(frame),
                Taken::TimedOut => self.look_for_silence(),
                Taken::Ended(End::Failed(error)) => self.lose(error),
                Taken::Ended(End::Eos) => self.end(End::Eos),
            },
            Phase::Pausing(until, reason) => {
                let (left, reason) = (until.saturating_duration_since(Instant::now()), *reason);
                if left.is_zero() {
                    return self.begin(reason);
                }
                thread::sleep(left.min(timeout));
                Supplied::Nothing
            }
            Phase::Ended(end) => Supplied::Ended(end.clone()),
        }
    }

    fn came(&mut self, frame: CapturedFrame) -> Supplied {
        self.has_delivered = true;
        if let Phase::Playing(playing) = &mut self.phase {
            let now = Instant::now();
            playing.last_frame = Some(now);
            let first = *playing.first_frame.get_or_insert(now);
            if self.pause.max(SUCCESS_MIN) <= now.duration_since(first) {
                self.backoff.succeeded();
            }
        }
        Supplied::Frame(frame)
    }

    fn begin(&mut self, reason: Option<LossReason>) -> Supplied {
        if STOPPING_MAX <= self.stopping.len() {
            return self.lose(CaptureError::NotStopping { count: self.stopping.len() });
        }
        if let Some(reason) = reason {
            self.counters.restarts.add(reason);
        }
        match Source::start(&self.spec, &self.counters) {
            Ok(source) => {
                if reason.is_none() {
                    let pipeline = source.description();
                    tracing::info!(stream = self.spec.stream, pipeline, "capturing");
                }
                let begun = Instant::now();
                let playing = Playing { source, begun, first_frame: None, last_frame: None };
                self.phase = Phase::Playing(playing);
                Supplied::Nothing
            }
            Err(error) => self.lose(error),
        }
    }

    /// Gives the pipeline up if no frame has come for too long. Before the first one the source itself watches the time, unless
    /// it hangs.
    fn look_for_silence(&mut self) -> Supplied {
        let (Phase::Playing(playing), Some(limit)) = (&self.phase, self.spec.restart_timeout)
        else {
            return Supplied::Nothing;
        };
        let (since, limit) = match playing.last_frame {
            Some(last) => (last, limit),
            // An element may have to be inserted, and then caps are waited for twice.
            None => (playing.begun, limit + 2 * self.spec.caps_timeout),
        };
        let silent = since.elapsed();
        if silent < limit || !self.spec.begins_again() {
            return Supplied::Nothing;
        }
        self.lose(CaptureError::Silent { seconds: silent.as_secs() })
    }

    fn lose(&mut self, cause: CaptureError) -> Supplied {
        let is_live = matches!(&self.phase, Phase::Playing(playing) if playing.source.is_live());
        let shown = Shown { is_live, has_delivered: self.has_delivered };
        if !cause.is_passing(&self.spec, shown) {
            return self.end(End::Failed(cause));
        }
        let pause = self.backoff.after_failure();
        self.pause = pause;
        let next = Phase::Pausing(Instant::now() + pause, Some(cause.loss_reason()));
        if let Phase::Playing(playing) = std::mem::replace(&mut self.phase, next) {
            self.stopping.push(playing.source.let_go());
        }
        Supplied::Lost(Loss { cause, pause, attempt: self.backoff.failures() })
    }

    /// The pipeline stops when this is dropped.
    fn end(&mut self, end: End) -> Supplied {
        self.phase = Phase::Ended(end.clone());
        Supplied::Ended(end)
    }

    fn forget_stopped(&mut self) {
        self.stopping.retain(|source| !source.has_stopped());
        self.counters.pipelines_stopping.set(Some(self.stopping.len() as u64));
    }
}
