//! Where a stream is stuck, if it is: each of its threads says when it begins something and when that is done.
//!
//! Waiting for a frame is nothing that a thread is at, and may last for months. Being in a call that does not return is.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use foveate_core::clock::monotonic_ns;

/// A stage that has been at one thing for so long is stuck.
pub const STUCK_AFTER: Duration = Duration::from_secs(10);

/// What a stream's threads are at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Opening the source, or taking a frame from it.
    Capture,
    /// Bringing the pyramid up to date, and what else the frame loop does.
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

/// Since when a thread has been at something.
#[derive(Debug, Default)]
pub struct Pulse {
    /// CLOCK_MONOTONIC in nanoseconds; 0 while it is at nothing.
    since_ns: AtomicU64,
}

impl Pulse {
    /// Does `work`, and shows meanwhile that it is being done. One thread at a time.
    pub fn during<R>(&self, work: impl FnOnce() -> R) -> R {
        self.since_ns.store(monotonic_ns(), Ordering::Relaxed);
        // Also where the work panics.
        let _rest = Rest(self);
        work()
    }

    /// How long it has been at one thing; `None` while it is at nothing.
    pub fn busy_for(&self) -> Option<Duration> {
        let since_ns = Some(self.since_ns.load(Ordering::Relaxed)).filter(|since| *since != 0)?;
        Some(Duration::from_nanos(monotonic_ns().saturating_sub(since_ns)))
    }
}

struct Rest<'a>(&'a Pulse);

impl Drop for Rest<'_> {
    fn drop(&mut self) {
        self.0.since_ns.store(0, Ordering::Relaxed);
    }
}

/// The pulses of one pipeline.
#[derive(Debug, Default)]
pub struct CapturePulses {
    /// Of the thread that opens it.
    pub opening: Pulse,
    /// Of its thread that brings frames.
    pub delivering: Pulse,
}

impl CapturePulses {
    fn busy_for(&self) -> Option<Duration> {
        self.opening.busy_for().max(self.delivering.busy_for())
    }
}

/// The pulses of one stream.
#[derive(Debug, Default)]
pub struct Stages {
    /// Of the frame loop, while it has something to do.
    pub frame_loop: Pulse,
    /// Of the frame loop, while it publishes.
    pub publish: Pulse,
    /// Locked when a pipeline begins and when somebody asks, never for a frame.
    capture: Mutex<Arc<CapturePulses>>,
}

impl Stages {
    /// The pulses of a pipeline that takes the place of the one before, which no longer counts.
    pub fn next_pipeline(&self) -> Arc<CapturePulses> {
        let pulses = Arc::<CapturePulses>::default();
        *self.capture.lock() = Arc::clone(&pulses);
        pulses
    }

    /// What has been at one thing for at least `limit`, and for how long.
    pub fn stuck(&self, limit: Duration) -> Option<(Stage, Duration)> {
        let stages = [
            // First, because the frame loop is stuck in it, too.
            (Stage::Publish, self.publish.busy_for()),
            (Stage::FrameLoop, self.frame_loop.busy_for()),
            (Stage::Capture, self.capture.lock().busy_for()),
        ];
        stages.into_iter().find_map(|(stage, busy)| Some((stage, busy.filter(|at| limit <= *at)?)))
    }
}
