//! Detects stuck streams: each thread of a stream marks when it starts and finishes a piece of work.
//!
//! Waiting for a frame is idle time and may last for months; a call that does not return is work.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use foveate_core::clock::monotonic_ns;

/// A stage that has been busy with one piece of work for this long is stuck.
pub const STUCK_AFTER: Duration = Duration::from_secs(10);

/// The work of a stream's threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Opening the source for longer than it may take, or taking a frame from it.
    Capture,
    /// The frame loop: updating the pyramid and everything else but publishing.
    FrameLoop,
    /// Storing token frames in the rings, and waking readers.
    Publish,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Capture => "capture",
            Self::FrameLoop => "frame loop",
            Self::Publish => "publish",
        })
    }
}

/// Whether a thread is busy, and since when.
#[derive(Debug, Default)]
pub struct Activity {
    /// CLOCK_MONOTONIC in nanoseconds, in the future for work with a limit; 0 while idle.
    since_ns: AtomicU64,
}

impl Activity {
    /// Runs `work` and is busy meanwhile. One thread at a time.
    pub fn during<R>(&self, work: impl FnOnce() -> R) -> R {
        self.since_ns.store(monotonic_ns(), Ordering::Relaxed);
        // Idle again even if the work panics.
        let _idle = IdleOnDrop(self);
        work()
    }

    /// Begins work that may take `limit`: only after that is it busy.
    pub fn begin_within(&self, limit: Duration) {
        let limit_ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        self.since_ns.store(monotonic_ns().saturating_add(limit_ns), Ordering::Relaxed);
    }

    /// Ends work that [`begin_within`](Self::begin_within) began.
    pub fn finish(&self) {
        self.since_ns.store(0, Ordering::Relaxed);
    }

    /// Time that is left of the limit of its work; `None` while idle.
    pub fn left(&self) -> Option<Duration> {
        let limit_ns = Some(self.since_ns.load(Ordering::Relaxed)).filter(|since| *since != 0)?;
        Some(Duration::from_nanos(limit_ns.saturating_sub(monotonic_ns())))
    }

    /// Time since the activity began; `None` while idle.
    pub fn busy_for(&self) -> Option<Duration> {
        let since_ns = Some(self.since_ns.load(Ordering::Relaxed)).filter(|since| *since != 0)?;
        Some(Duration::from_nanos(monotonic_ns().saturating_sub(since_ns)))
    }
}

struct IdleOnDrop<'a>(&'a Activity);

impl Drop for IdleOnDrop<'_> {
    fn drop(&mut self) {
        self.0.finish();
    }
}

/// The activity of the threads of one pipeline.
#[derive(Debug, Default)]
pub struct CaptureActivity {
    /// The thread that opens it, for which it has a limit.
    pub opening: Activity,
    /// GStreamer's thread that delivers frames.
    pub delivering: Activity,
}

impl CaptureActivity {
    fn busy_for(&self) -> Option<Duration> {
        self.opening.busy_for().max(self.delivering.busy_for())
    }
}

/// The activity of the threads of one stream.
#[derive(Debug, Default)]
pub struct Stages {
    /// The frame loop, from taking a frame on.
    pub frame_loop: Activity,
    /// The frame loop, while it publishes.
    pub publish: Activity,
    /// Locked when a pipeline starts and for queries, never for a frame.
    capture: Mutex<Arc<CaptureActivity>>,
}

impl Stages {
    /// The activity of a new pipeline; that of the previous one no longer counts.
    pub fn next_pipeline(&self) -> Arc<CaptureActivity> {
        let activity = Arc::<CaptureActivity>::default();
        *self.capture.lock() = Arc::clone(&activity);
        activity
    }

    /// The stage that has been busy with one piece of work for at least `limit`, and for how long.
    pub fn stuck(&self, limit: Duration) -> Option<(Stage, Duration)> {
        let stages = [
            // First: a frame loop that is stuck publishing is busy in both.
            (Stage::Publish, self.publish.busy_for()),
            (Stage::FrameLoop, self.frame_loop.busy_for()),
            (Stage::Capture, self.capture.lock().busy_for()),
        ];
        stages.into_iter().find_map(|(stage, busy)| Some((stage, busy.filter(|at| limit <= *at)?)))
    }
}
