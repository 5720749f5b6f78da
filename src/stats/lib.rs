//! Numbers that a stream's threads write and anybody may read.
//!
//! Writing one is an atomic operation or two: no lock, no memory, nothing that a frame waits for.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use self::durations::StreamDurations;
use self::stages::Stages;

pub mod durations;
pub mod process;
pub mod stages;

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `amount`.
    pub fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    /// Counts one more, and returns how many there are with it: no two callers get the same number.
    pub fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The value now.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How many there are of something that comes and goes.
#[derive(Debug, Default)]
pub struct Level(AtomicU64);

impl Level {
    /// One more.
    pub fn enter(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// One less; it must have come before.
    pub fn leave(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// How many there are now.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number that goes up and down, below 2^64 - 1, or is not known.
#[derive(Debug)]
pub struct Gauge(AtomicU64);

/// Stands for a number that is not known.
const UNKNOWN: u64 = u64::MAX;

impl Gauge {
    /// Changes the value.
    pub fn set(&self, value: Option<u64>) {
        self.0.store(value.unwrap_or(UNKNOWN), Ordering::Relaxed);
    }

    /// The value now.
    pub fn get(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|value| *value != UNKNOWN)
    }
}

impl Default for Gauge {
    fn default() -> Self {
        Self(AtomicU64::new(UNKNOWN))
    }
}

/// What became of the notices to a view's subscribers so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoticeCounts {
    /// Notices that a subscriber's socket took.
    pub sent: u64,
    /// Notices that a subscriber's full socket had no room for: it stands still, or is too slow.
    pub skipped: u64,
    /// Subscribers that are gone, whether they hung up or died.
    pub subscribers_gone: u64,
}

/// What counts as a change of a stream now. Nothing is known before the first frame.
#[derive(Debug, Default)]
pub struct ChangeGauges {
    /// Threshold of the newest frame, in steps of 8 bits.
    pub threshold: Gauge,
    /// What the threshold never exceeds; known only where it follows the noise.
    pub threshold_limit: Gauge,
    /// Noise of a sample, a standard deviation, in thousandths of a step of 8 bits; known only where the threshold
    /// follows it, and once enough has been seen.
    pub noise_thousandths: Gauge,
    /// The most by which an RGB value of a level differs from the newest frame's, in steps of 8 bits.
    pub rgb_bound: Gauge,
    /// Tiles that were ingested for the newest frame.
    pub tiles_dirty: Gauge,
    /// Tiles of a frame.
    pub tile_count: Gauge,
}

/// Why a stream had to begin another pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LossReason {
    /// A camera or server is not there, does not answer, or lets nobody in.
    Unreachable,
    /// A live source ended, or ended before its first frame.
    Ended,
    /// No frame came for too long.
    Silent,
    /// What came was damaged, or of a kind that cannot be read.
    Unreadable,
    /// An element reported another error.
    Failed,
    /// Pipelines of before do not stop.
    Stuck,
    /// A reason that this version does not know.
    #[serde(other)]
    Other,
}

impl LossReason {
    /// All that are counted.
    pub const ALL: [Self; 6] =
        [Self::Unreachable, Self::Ended, Self::Silent, Self::Unreadable, Self::Failed, Self::Stuck];
}

impl fmt::Display for LossReason {
    /// As in JSON.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// How often a stream began another pipeline, by reason.
#[derive(Debug, Default)]
pub struct Restarts([Counter; LossReason::ALL.len()]);

impl Restarts {
    /// Counts one because of `reason`.
    pub fn add(&self, reason: LossReason) {
        if let Some(counter) = self.0.get(reason as usize) {
            counter.add(1);
        }
    }

    /// For all reasons together.
    pub fn total(&self) -> u64 {
        self.0.iter().map(Counter::get).sum()
    }

    /// For every reason, also those for which there was none.
    pub fn by_reason(&self) -> impl Iterator<Item = (LossReason, u64)> {
        LossReason::ALL.into_iter().zip(self.0.iter().map(Counter::get))
    }
}

/// What one stream has done since it started.
#[derive(Debug, Default)]
pub struct StreamCounters {
    /// Frames that its pipelines delivered: the `frame_seq` of the newest.
    pub frames_captured: Counter,
    /// Frames that a newer one replaced before the frame loop took them.
    pub frames_dropped: Counter,
    /// Frames whose tokens were published.
    pub frames_published: Counter,
    /// Frames that no view wanted: nobody read it, or it had enough.
    pub frames_rested: Counter,
    /// Frames that could not be read: a buffer that does not map, or is too short for its caps.
    pub frames_refused: Counter,
    /// Frames that were skipped because fewer were asked for; they are not counted as captured.
    pub frames_skipped: Counter,
    /// Frames whose capture time lay in the future, and became that of their arrival.
    pub stamps_clamped: Counter,
    /// Tiles that were ingested: those that changed, and those whose turn to be refreshed it was.
    pub tiles_dirty: Counter,
    /// Times the stream went on on the CPU because its GPU was lost or refused.
    pub backend_fallbacks: Counter,
    /// Times it tried to get back to the GPU.
    pub backend_attempts: Counter,
    /// Times it went on on the GPU again.
    pub backend_returns: Counter,
    /// Times the stream began another pipeline after it had lost one.
    pub restarts: Restarts,
    /// Pipelines that were given up and have not stopped yet.
    pub pipelines_stopping: Gauge,
    /// What its threads are at.
    pub stages: Stages,
    /// Bytes of samples that crossed to a device.
    pub bytes_uploaded: Counter,
    /// What counts as a change now.
    pub change: ChangeGauges,
    /// How long its frames took.
    pub durations: StreamDurations,
    /// When the newest frame was taken that was published, or that no view wanted, on CLOCK_MONOTONIC, in nanoseconds.
    pub newest_capture_ns: Gauge,
}

/// What one view has done since it was made.
#[derive(Debug, Default)]
pub struct ViewCounters {
    /// Frames that it published.
    pub frames_published: Counter,
    /// Frames that it left out because fewer were asked for.
    pub frames_skipped: Counter,
    /// Frames that it left out because nobody read it.
    pub frames_unread: Counter,
    /// Fixations that it moved to, the first one not included.
    pub saccades: Counter,
    /// Connections that follow it now.
    pub subscribers: Level,
}
