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

/// What the threads of a stream do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Taking a frame from the pipeline. Opening it has a limit of its own.
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
    /// CLOCK_MONOTONIC in nanoseconds; 0 while idle.
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

    /// How long it has been busy; `None` while idle.
    pub fn busy_for(&self) -> Option<Duration> {
        let since_ns = Some(self.since_ns.load(Ordering::Relaxed)).filter(|since| *since != 0)?;
        Some(Duration::from_nanos(monotonic_ns().saturating_sub(since_ns)))
    }
}

struct IdleOnDrop<'a>(&'a Activity);

impl Drop for IdleOnDrop<'_> {
    fn drop(&mut self) {
        self.0.since_ns.store(0, Ordering::Relaxed);
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
    capture: Mutex<Arc<Activity>>,
}

impl Stages {
    /// The activity of GStreamer's thread that delivers the frames of a new pipeline; that of the previous one no longer counts.
    pub fn next_pipeline(&self) -> Arc<Activity> {
        let activity = Arc::<Activity>::default();
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
