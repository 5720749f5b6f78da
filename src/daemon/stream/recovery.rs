//! Recovery from a lost GPU: the stream runs on the CPU and retries the GPU with backoff for as long as it lives.
//!
//! A driver may take seconds to open a device and compile for it, and may hang after losing one, so it is called on a thread of
//! its own. Between two frames the stream checks whether a new backend is ready, fills it from the resident copy, and switches.
//!
//! Time is the frames' arrival time: a stream without frames needs no GPU.

use std::convert::Infallible;
use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError, bounded, unbounded};

use foveate_engine::backend::BackendError;
use foveate_engine::backend::choice::{GpuReopener, ReopenedGpu, StreamBackend};
use foveate_engine::planes::SamplerSpec;
use foveate_engine::{Engine, View};

use super::publisher::Publisher;
use foveate_core::backoff::{Backoff, next_try};
use foveate_core::error::chain;
use foveate_core::frame::FrameKind;
use foveate_stats::StreamCounters;

/// Pause before the first attempt: about what a kernel driver takes to reset a device.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// Longest pause: an attempt costs about a second of CPU time, and a replaced driver should be picked up within minutes.
const LONGEST_PAUSE: Duration = Duration::from_secs(5 * 60);

/// A device counts as healthy, and the backoff restarts, once it has run for this long and at least as long as the pause before
/// it.
const HEALTHY_AFTER: Duration = Duration::from_secs(60);

/// An attempt that takes longer is logged as hanging.
const HANGS_AFTER: Duration = Duration::from_secs(30);

/// How long a stream that ends waits for the thread. A process that exits while a driver compiles may crash.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// Recovery state of one stream.
#[derive(Debug)]
pub(super) struct Recovery {
    stream: String,
    counters: Arc<StreamCounters>,
    backoff: Backoff,
    /// The latest pause.
    pause: Duration,
    phase: RecoveryPhase,
    /// Changes of the backend's description.
    changes: u64,
    /// The thread that opens the GPU; `None` while there is nothing to do, or if it could not be started.
    worker: Option<GpuWorker>,
}

/// Phase of the recovery. Times are arrivals of frames, CLOCK_MONOTONIC in nanoseconds.
#[derive(Clone, Copy, Debug)]
enum RecoveryPhase {
    /// The stream is on the chosen backend; `since_ns` is when the stream returned to it, if it was lost before.
    Settled { since_ns: Option<u64> },
    /// The stream is on the CPU until the next attempt.
    Pausing { until_ns: u64 },
    /// The stream is on the CPU while the thread attempts to reopen the GPU.
    Trying { since_ns: u64, is_logged: bool },
}

/// Why an attempt failed.
#[derive(Debug, thiserror::Error)]
enum AttemptError {
    #[error(transparent)]
    Backend(#[from] BackendError),
    #[error("cannot start a thread to open the device")]
    NoThread(#[source] io::Error),
    #[error("opening the device panicked: this is a bug; please report the log")]
    Panicked,
}

impl Recovery {
    /// The recovery of a stream on the chosen backend. `seed` sets the jitter of the pauses, so that streams do not all retry at once.
    pub(super) fn new(stream: &str, counters: &Arc<StreamCounters>, seed: u64) -> Self {
        Self {
            stream: stream.to_owned(),
            counters: Arc::clone(counters),
            backoff: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE, seed),
            pause: Duration::ZERO,
            phase: RecoveryPhase::Settled { since_ns: None },
            changes: 0,
            worker: None,
        }
    }

    /// Grows whenever the description of the backend changes.
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    /// Starts recovery: the stream continues on the CPU, for the reason in `backend`, and `retired` is dropped off its thread.
    pub(super) fn begin(
        &mut self,
        backend: &mut StreamBackend,
        retired: Option<Box<dyn Send>>,
        now_ns: u64,
    ) {
        self.counters.backend_fallbacks.add(1);
        if let RecoveryPhase::Settled { since_ns: Some(since_ns) } = self.phase
            && self.pause.max(HEALTHY_AFTER).as_nanos() <= now_ns.saturating_sub(since_ns).into()
        {
            self.backoff.succeeded();
        }
        let reason = backend.info().reason.clone();
        self.pause(backend, reason, now_ns);
        let reason = backend.info().reason.as_str();
        tracing::warn!(stream = self.stream, reason, "continuing on the CPU");
        if let Some(retired) = retired {
            self.drop_on_worker(backend, retired);
        }
    }

    /// Starts an attempt that is due, or takes the result of one. Returns whether the stream switched to another backend, for which
    /// every token will be sampled.
    pub(super) fn poll(
        &mut self,
        backend: &mut StreamBackend,
        engine: &mut Engine,
        views: &mut [View<Publisher>],
        now_ns: u64,
    ) -> bool {
        match self.phase {
            RecoveryPhase::Settled { .. } => {}
            RecoveryPhase::Pausing { until_ns } if now_ns < until_ns => {}
            RecoveryPhase::Pausing { .. } => {
                self.counters.backend_attempts.add(1);
                self.try_again(backend, engine.kind(), specs(views), now_ns);
            }
            RecoveryPhase::Trying { since_ns, is_logged } => match self.outcome() {
                None if is_logged || now_ns.saturating_sub(since_ns) < nanoseconds(HANGS_AFTER) => {
                }
                None => {
                    self.phase = RecoveryPhase::Trying { since_ns, is_logged: true };
                    tracing::warn!(stream = self.stream, "the GPU's driver does not answer");
                }
                Some(Ok(reopened)) => {
                    return self.switch(backend, engine, views, *reopened, now_ns);
                }
                Some(Err(failure)) => self.retry_later(backend, &failure, now_ns),
            },
        }
        false
    }

    /// Switches to the reopened GPU, unless the kind of frames or the views have changed since the attempt began.
    fn switch(
        &mut self,
        backend: &mut StreamBackend,
        engine: &mut Engine,
        views: &mut [View<Publisher>],
        reopened: ReopenedGpu,
        now_ns: u64,
    ) -> bool {
        if reopened.backend.kind() != engine.kind() || reopened.views != specs(views) {
            self.drop_on_worker(backend, Box::new(reopened));
            self.try_again(backend, engine.kind(), specs(views), now_ns);
            return false;
        }
        match engine.move_to(reopened.backend, reopened.samplers, views) {
            Ok(retired) => {
                self.drop_on_worker(backend, retired);
                *backend = reopened.chosen;
                self.settle(backend, now_ns);
                true
            }
            Err((retired, error)) => {
                self.drop_on_worker(backend, retired);
                self.retry_later(backend, &error, now_ns);
                false
            }
        }
    }

    fn settle(&mut self, backend: &StreamBackend, now_ns: u64) {
        self.counters.backend_returns.add(1);
        self.changes += 1;
        self.phase = RecoveryPhase::Settled { since_ns: Some(now_ns) };
        // The thread ends once it has dropped its jobs; nothing waits for it.
        self.worker = None;
        let (stream, device) = (&self.stream, &backend.info().device);
        let attempts = self.backoff.failures();
        tracing::info!(stream, device, attempts, "back on the GPU");
    }

    /// Schedules the next attempt after a failed one, with a longer pause.
    fn retry_later(
        &mut self,
        backend: &mut StreamBackend,
        error: &(dyn Error + 'static),
        now_ns: u64,
    ) {
        self.pause(backend, format!("the GPU is still unavailable: {}", chain(error)), now_ns);
        let reason = backend.info().reason.as_str();
        // A GPU may be unavailable for months.
        if self.backoff.failures().is_power_of_two() {
            tracing::warn!(stream = self.stream, reason, "staying on the CPU");
        } else {
            tracing::debug!(stream = self.stream, reason, "staying on the CPU");
        }
    }

    fn pause(&mut self, backend: &mut StreamBackend, reason: String, now_ns: u64) {
        self.changes += 1;
        self.pause = self.backoff.after_failure();
        let next = next_try(self.pause, self.backoff.failures());
        backend.explain(format!("{reason}; {next}"));
        self.phase =
            RecoveryPhase::Pausing { until_ns: now_ns.saturating_add(nanoseconds(self.pause)) };
    }

    fn try_again(
        &mut self,
        backend: &mut StreamBackend,
        kind: FrameKind,
        views: Vec<SamplerSpec>,
        now_ns: u64,
    ) {
        self.phase = RecoveryPhase::Trying { since_ns: now_ns, is_logged: false };
        if let Err(error) = self.send_job(backend, Job::Build(kind, views)) {
            self.retry_later(backend, &AttemptError::NoThread(error), now_ns);
        }
    }

    /// Drops on the worker thread what may call the driver when dropped.
    fn drop_on_worker(&mut self, backend: &StreamBackend, retired: Box<dyn Send>) {
        if let Err(error) = self.send_job(backend, Job::Drop(retired)) {
            tracing::debug!(%error, "a retired backend was dropped in the frame loop");
        }
    }

    fn send_job(&mut self, backend: &StreamBackend, job: Job) -> io::Result<()> {
        let Some(reopener) = backend.reopener() else {
            unreachable!("a stream that left a GPU has a reopener");
        };
        let worker = match self.worker.take() {
            Some(worker) => worker,
            None => GpuWorker::start(&self.stream, reopener)?,
        };
        // `outcome` notices a thread that has panicked.
        let _ = self.worker.insert(worker).jobs.send(job);
        Ok(())
    }

    /// The result of the attempt; `None` while it runs.
    fn outcome(&mut self) -> Option<Result<Box<ReopenedGpu>, AttemptError>> {
        let outcome = self.worker.as_ref().map(|worker| worker.outcomes.try_recv());
        match outcome {
            Some(Ok(outcome)) => Some(outcome.map_err(AttemptError::Backend)),
            Some(Err(TryRecvError::Empty)) => None,
            Some(Err(TryRecvError::Disconnected)) | None => {
                tracing::error!(stream = self.stream, "the thread that opens the GPU panicked");
                self.worker = None;
                Some(Err(AttemptError::Panicked))
            }
        }
    }
}

impl Drop for Recovery {
    fn drop(&mut self) {
        if let Some(worker) = self.worker.take()
            && !worker.stops_within(STOP_TIMEOUT)
        {
            let stream = &self.stream;
            tracing::warn!(stream, "the GPU's driver does not answer: abandoning its thread");
        }
    }
}

/// The thread that calls the driver.
struct GpuWorker {
    jobs: Sender<Job>,
    outcomes: Receiver<Result<Box<ReopenedGpu>, BackendError>>,
    /// Disconnected when the thread ends; nothing is ever sent.
    end: Receiver<Infallible>,
}

enum Job {
    Build(FrameKind, Vec<SamplerSpec>),
    Drop(Box<dyn Send>),
}

impl GpuWorker {
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

    /// Tells the thread to end, and returns whether it did in time.
    fn stops_within(self, limit: Duration) -> bool {
        let Self { jobs, outcomes, end } = self;
        drop((jobs, outcomes));
        !matches!(end.recv_timeout(limit), Err(RecvTimeoutError::Timeout))
    }
}

impl fmt::Debug for GpuWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").finish_non_exhaustive()
    }
}

fn specs(views: &[View<Publisher>]) -> Vec<SamplerSpec> {
    views.iter().map(|view| view.planes().spec()).collect()
}

/// Runs jobs until the stream drops its end.
fn work(
    reopener: &GpuReopener,
    to_do: &Receiver<Job>,
    done: &Sender<Result<Box<ReopenedGpu>, BackendError>>,
) {
    for job in to_do {
        match job {
            Job::Drop(retired) => drop(retired),
            Job::Build(kind, views) => {
                if done.send(reopener.build(kind, views).map(Box::new)).is_err() {
                    return;
                }
            }
        }
    }
}

fn nanoseconds(pause: Duration) -> u64 {
    u64::try_from(pause.as_nanos()).unwrap_or(u64::MAX)
}
