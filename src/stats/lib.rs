//! Numbers that a stream's threads write and anybody may read.
//!
//! Writing one is an atomic operation or two: no lock, no memory, nothing that a frame waits for.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use self::durations::StreamDurations;
use self::metric::{Metric, counters};
use self::stages::Stages;

pub mod durations;
pub mod metric;
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

    /// There are so many, where another has counted them.
    pub fn set(&self, count: u64) {
        self.0.store(count, Ordering::Relaxed);
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

    /// There are so many, where one thread counts them.
    pub fn set(&self, count: u64) {
        self.0.store(count, Ordering::Relaxed);
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

counters! {
    /// What one stream has done since it started. The number of captured frames is the `frame_seq` of the newest.
    StreamCounters => StreamCounts {
        frames_captured: Counter, "foveate_frames_captured_total",
            "Frames that the pipeline delivered";
        frames_dropped: Counter, "foveate_frames_dropped_total",
            "Frames that a newer one replaced before they were taken";
        frames_published: Counter, "foveate_frames_published_total",
            "Frames whose tokens were published";
        frames_refused: Counter, "foveate_frames_refused_total",
            "Frames that could not be read";
        frames_skipped: Counter, "foveate_frames_skipped_total",
            "Frames that max_fps left out; they are not counted as captured";
        frames_rested: Counter, "foveate_frames_rested_total",
            "Frames that no view wanted, because nobody read it or it had enough";
        stamps_clamped: Counter, "foveate_stamps_clamped_total",
            "Frames whose capture time lay in the future, and became that of their arrival";
        tiles_dirty: Counter, "foveate_dirty_tiles_total",
            "Tiles that were ingested: changed ones, and those to be refreshed";
        bytes_uploaded: Counter, "foveate_uploaded_bytes_total",
            "Bytes of samples that crossed to a device";
        backend_fallbacks: Counter, "foveate_backend_fallbacks_total",
            "Times the stream went on on the CPU because its GPU was lost or refused";
        backend_attempts: Counter, "foveate_backend_attempts_total",
            "Times the stream tried to get back to its GPU";
        backend_returns: Counter, "foveate_backend_returns_total",
            "Times the stream went on on its GPU again";
        pipelines_stopping: Level, "foveate_pipelines_stopping",
            "Pipelines that were given up and have not stopped yet";
    } {
        /// Times the stream began another pipeline after it had lost one.
        restarts: Restarts,
        /// What its threads are at.
        stages: Stages,
        /// What counts as a change now.
        change: ChangeGauges,
        /// How long its frames took.
        durations: StreamDurations,
        /// When the newest frame was taken that was published, or that no view wanted, on CLOCK_MONOTONIC, in nanoseconds.
        newest_capture_ns: Gauge,
    }
}

counters! {
    /// What one view has done since it was made.
    ViewCounters => ViewCounts {
        subscribers: Level, "foveate_subscribers",
            "Connections that follow the view";
        frames_published: Counter, "foveate_view_frames_published_total",
            "Frames that the view published";
        frames_skipped: Counter, "foveate_view_frames_skipped_total",
            "Frames that the view left out because of its max_fps";
        frames_unread: Counter, "foveate_view_frames_unread_total",
            "Frames that the view left out because nobody read it";
        saccades: Counter, "foveate_saccades_total",
            "Moves of the view to a new fixation";
        feedback_accepted: Counter, "foveate_feedback_accepted_total",
            "Messages of feedback that were accepted";
        notices_sent: Counter, "foveate_notices_sent_total",
            "Notices of a frame that a subscriber's socket took";
        notices_skipped: Counter, "foveate_notices_skipped_total",
            "Notices of a frame that a subscriber's socket had no room for";
    } {
        /// Subscribers that are gone, whether they hung up or died.
        subscribers_gone: Counter,
    }
}

counters! {
    /// What the server of the control socket has done since it started.
    ServerCounters => ServerCounts {
        clients: Level, "foveate_control_clients",
            "Connections to the control socket";
        clients_accepted: Counter, "foveate_control_clients_accepted_total",
            "Connections to the control socket that were accepted";
        clients_dropped: Counter, "foveate_control_clients_dropped_total",
            "Connections that were dropped because they did not read what they were sent";
        requests: Counter, "foveate_control_requests_total",
            "Requests that were answered, refusals included";
    }
}
