//! The way back to a GPU that a stream had to leave: tried again and again, for as long as the stream runs.
//!
//! A driver may take seconds to open a device and to compile for it, and one that has just lost a device may hang. So
//! all that calls it is done on a thread of its own. Between two frames the stream looks whether a retina is ready,
//! fills it from the resident copy, and goes on on it.
//!
//! Time is that of the frames' arrival: a stream without frames needs no GPU.

use std::convert::Infallible;
use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError, bounded, unbounded};

use foveate_engine::backend::choice::{GpuReopener, ReopenedGpu, StreamBackend};
use foveate_engine::backend::{BackendError, SamplerSpec};
use foveate_engine::{Engine, RetiredBackend, View};

use super::publisher::Publisher;
use foveate_core::backoff::{Backoff, NextTry};
use foveate_core::error::chain;
use foveate_core::frame::FrameKind;
use foveate_stats::StreamCounters;

/// The pause before the first try: about what a kernel driver takes to reset a device.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// What pauses grow to: trying costs the processor a second or so, and whoever exchanges a driver waits no longer.
const LONGEST_PAUSE: Duration = Duration::from_secs(5 * 60);

/// A device is well when it has served for so long, and for as long as the pause before it. One that fails again sooner
/// is waited for longer than before.
const WELL_AFTER: Duration = Duration::from_secs(60);

/// After how long a try is said to hang.
const HANGS_AFTER: Duration = Duration::from_secs(30);

/// How long a stream that ends waits for the thread. A process that exits while a driver compiles may crash.
const PARTING: Duration = Duration::from_secs(2);

/// What there is to do for one stream.
#[derive(Debug)]
pub(super) struct Recovery {
    stream: String,
    counters: Arc<StreamCounters>,
    backoff: Backoff,
    /// The newest pause.
    pause: Duration,
    phase: Phase,
    /// How often the backend was described anew.
    changes: u64,
    /// `None` where there is nothing to do for it, or none could be started.
    worker: Option<Worker>,
}

/// Where the stream stands. `now` is when a frame arrived, on CLOCK_MONOTONIC, in nanoseconds.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// On the backend that was chosen, and since when if it was lost before.
    Settled { since_ns: Option<u64> },
    /// On the CPU until then.
    Pausing { until_ns: u64 },
    /// On the CPU, and the thread is at it since then.
    Trying { since_ns: u64, is_told: bool },
}

/// Why a try came to nothing.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Backend(#[from] BackendError),
    #[error("no thread to open the device on")]
    NoThread(#[source] io::Error),
    #[error("opening the device panicked, which is a bug")]
    Panicked,
}

impl Recovery {
    /// For a stream on the backend that was chosen. `seed` decides how pauses are moved: not all
    /// streams are to try at once.
    pub(super) fn new(stream: &str, counters: &Arc<StreamCounters>, seed: u64) -> Self {
        Self {
            stream: stream.to_owned(),
            counters: Arc::clone(counters),
            backoff: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE, seed),
            pause: Duration::ZERO,
            phase: Phase::Settled { since_ns: None },
            changes: 0,
            worker: None,
        }
    }

    /// A number that grows whenever the description of the backend changes.
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    /// The stream goes on on the CPU, as `backend` says. `remains` are what is left of its retina.
    pub(super) fn begin(
        &mut self,
        backend: &mut StreamBackend,
        remains: Option<RetiredBackend>,
        now_ns: u64,
    ) {
        self.counters.backend_fallbacks.add(1);
        if let Phase::Settled { since_ns: Some(since_ns) } = self.phase
            && self.pause.max(WELL_AFTER).as_nanos() <= now_ns.saturating_sub(since_ns).into()
        {
            self.backoff.succeeded();
        }
        let reason = backend.info().reason.clone();
        self.pause(backend, reason, now_ns);
        let reason = backend.info().reason.as_str();
        tracing::warn!(stream = self.stream, reason, "going on on the CPU");
        if let Some(remains) = remains {
            self.bury(backend, Box::new(remains));
        }
    }

    /// Begins a try that is due, or takes what one has brought. Says whether the stream is on another retina now: then
    /// every token will be sampled.
    pub(super) fn turn(
        &mut self,
        backend: &mut StreamBackend,
        engine: &mut Engine,
        views: &mut [View<Publisher>],
        now_ns: u64,
    ) -> bool {
        match self.phase {
            Phase::Settled { .. } => {}
            Phase::Pausing { until_ns } if now_ns < until_ns => {}
            Phase::Pausing { .. } => {
                self.counters.backend_attempts.add(1);
                self.try_again(backend, engine.kind(), specs(views), now_ns);
            }
            Phase::Trying { since_ns, is_told } => match self.outcome() {
                None if is_told || now_ns.saturating_sub(since_ns) < nanoseconds(HANGS_AFTER) => {}
                None => {
                    self.phase = Phase::Trying { since_ns, is_told: true };
                    tracing::warn!(stream = self.stream, "the GPU's driver does not answer");
                }
                Some(Ok(reopened)) => {
                    return self.take(backend, engine, views, *reopened, now_ns);
                }
                Some(Err(failure)) => self.put_off(backend, &failure, now_ns),
            },
        }
        false
    }

    /// Goes on on what was reopened, if it is for the frames and views that the stream has by now.
    fn take(
        &mut self,
        backend: &mut StreamBackend,
        engine: &mut Engine,
        views: &mut [View<Publisher>],
        reopened: ReopenedGpu,
        now_ns: u64,
    ) -> bool {
        if reopened.backend.kind() != engine.kind() || reopened.views != specs(views) {
            self.bury(backend, Box::new(reopened));
            self.try_again(backend, engine.kind(), specs(views), now_ns);
            return false;
        }
        match engine.move_to(reopened.backend, reopened.samplers, views) {
            Ok(remains) => {
                self.bury(backend, Box::new(remains));
                *backend = reopened.chosen;
                self.settle(backend, now_ns);
                true
            }
            Err((remains, error)) => {
                self.bury(backend, Box::new(remains));
                self.put_off(backend, &error, now_ns);
                false
            }
        }
    }

    fn settle(&mut self, backend: &StreamBackend, now_ns: u64) {
        self.counters.backend_returns.add(1);
        self.changes += 1;
        self.phase = Phase::Settled { since_ns: Some(now_ns) };
        // It ends once it has dropped what it was given, and nobody waits for that.
        self.worker = None;
        let (stream, device) = (&self.stream, &backend.info().device);
        let attempts = self.backoff.failures();
        tracing::info!(stream, device, attempts, "back on the GPU");
    }

    /// A try failed: waits for longer.
    fn put_off(&mut self, backend: &mut StreamBackend, error: &(dyn Error + 'static), now_ns: u64) {
        self.pause(backend, format!("the GPU stays away: {}", chain(error)), now_ns);
        let reason = backend.info().reason.as_str();
        // A GPU may be away for months.
        if self.backoff.failures().is_power_of_two() {
            tracing::warn!(stream = self.stream, reason, "staying on the CPU");
        } else {
            tracing::debug!(stream = self.stream, reason, "staying on the CPU");
        }
    }

    fn pause(&mut self, backend: &mut StreamBackend, reason: String, now_ns: u64) {
        self.changes += 1;
        self.pause = self.backoff.after_failure();
        let next = NextTry { pause: self.pause, attempt: self.backoff.failures() };
        backend.explain(format!("{reason}; {next}"));
        self.phase = Phase::Pausing { until_ns: now_ns.saturating_add(nanoseconds(self.pause)) };
    }

    fn try_again(
        &mut self,
        backend: &mut StreamBackend,
        kind: FrameKind,
        views: Vec<SamplerSpec>,
        now_ns: u64,
    ) {
        self.phase = Phase::Trying { since_ns: now_ns, is_told: false };
        if let Err(error) = self.hand_over(backend, Job::Build(kind, views)) {
            self.put_off(backend, &Failure::NoThread(error), now_ns);
        }
    }

    /// Has something dropped that may call the driver.
    fn bury(&mut self, backend: &StreamBackend, remains: Box<dyn Send>) {
        if let Err(error) = self.hand_over(backend, Job::Drop(remains)) {
            tracing::debug!(%error, "what is left of a retina was dropped in the frame loop");
        }
    }

    fn hand_over(&mut self, backend: &StreamBackend, job: Job) -> io::Result<()> {
        let Some(reopener) = backend.reopener() else {
            unreachable!("who was on a GPU knows the way back");
        };
        let worker = match self.worker.take() {
            Some(worker) => worker,
            None => Worker::start(&self.stream, reopener)?,
        };
        // One that panicked is noticed when its outcome is asked for.
        let _ = self.worker.insert(worker).jobs.send(job);
        Ok(())
    }

    /// What the try came to, once it did.
    fn outcome(&mut self) -> Option<Result<Box<ReopenedGpu>, Failure>> {
        let outcome = self.worker.as_ref().map(|worker| worker.outcomes.try_recv());
        match outcome {
            Some(Ok(outcome)) => Some(outcome.map_err(Failure::Backend)),
            Some(Err(TryRecvError::Empty)) => None,
            Some(Err(TryRecvError::Disconnected)) | None => {
                tracing::error!(stream = self.stream, "the thread that opens the GPU panicked");
                self.worker = None;
                Some(Err(Failure::Panicked))
            }
        }
    }
}

impl Drop for Recovery {
    fn drop(&mut self) {
        if let Some(worker) = self.worker.take()
            && !worker.parts_within(PARTING)
        {
            let stream = &self.stream;
            tracing::warn!(stream, "the GPU's driver does not answer: its thread is left alone");
        }
    }
}

/// The thread that may wait for the driver.
struct Worker {
    jobs: Sender<Job>,
    outcomes: Receiver<Outcome>,
    /// Nothing comes this reopener; it is cut when the thread ends.
    end: Receiver<Infallible>,
}

/// What there is to do on that thread.
enum Job {
    Build(FrameKind, Vec<SamplerSpec>),
    Drop(Box<dyn Send>),
}

type Outcome = Result<Box<ReopenedGpu>, BackendError>;

impl Worker {
    fn start(stream: &str, reopener: GpuReopener) -> io::Result<Self> {
        let (jobs, to_do) = unbounded();
        let (done, outcomes) = unbounded();
        let (end_of_thread, end) = bounded(0);
        thread::Builder::new().name(format!("gpu-{stream}")).spawn(move || {
            let _end_of_thread: Sender<Infallible> = end_of_thread;
            work(&reopener, &to_do, &done);
        })?;
        Ok(Self { jobs, outcomes, end })
    }

    /// Lets the thread end, and says whether it did in time.
    fn parts_within(self, limit: Duration) -> bool {
        let Self { jobs, outcomes, end } = self;
        drop((jobs, outcomes));
        !matches!(end.recv_timeout(limit), Err(RecvTimeoutError::Timeout))
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").finish_non_exhaustive()
    }
}

/// What the views sample with.
fn specs(views: &[View<Publisher>]) -> Vec<SamplerSpec> {
    views.iter().map(|view| view.planes().spec()).collect()
}

/// Does what there is to do until nobody has more.
fn work(reopener: &GpuReopener, to_do: &Receiver<Job>, done: &Sender<Outcome>) {
    for job in to_do {
        match job {
            Job::Drop(remains) => drop(remains),
            Job::Build(kind, views) => {
                if done.send(reopener.build(kind, views).map(Box::new)).is_err() {
                    return;
                }
            }
        }
    }
}

/// A pause in nanoseconds; pauses are minutes at most.
fn nanoseconds(pause: Duration) -> u64 {
    u64::try_from(pause.as_nanos()).unwrap_or(u64::MAX)
}
