//! What the daemon counts, in numbers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{ServerListing, StreamSnapshot};
use foveate::messages::{RefusalReason, ViewName};
use foveate_stats::ViewCounts;
use foveate_stats::durations::HistogramCounts;
use foveate_stats::process::ProcessUse;

/// The answer to [`Request::Stats`](super::Request::Stats), and what metrics are made of.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    /// What concerns the daemon as a whole; only on the first page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub daemon: Option<DaemonStats>,
    /// The streams, in the order of their names.
    pub streams: Vec<StreamStats>,
    /// Where more follow: what to ask for next, as `after`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// What concerns the daemon as a whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DaemonStats {
    /// Its version.
    pub version: String,
    /// What its process takes of the machine.
    pub process: ProcessUse,
    /// Memory that it has of each GPU that it opened, in bytes, by the name of the device.
    pub gpu_memory_bytes: BTreeMap<String, u64>,
    /// What its control socket has done.
    pub server: ServerListing,
}

/// One stream of [`Stats`].
pub type StreamStats = StreamSnapshot<StreamPace, ViewStats>;

/// How old the frames of a stream are, how long they took, and how exact they are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamPace {
    /// The most by which a camera sample differs from the newest frame's, in steps of 8 bits; absent before the first frame.
    pub sample_bound: Option<u64>,
    /// The same of an RGB value of a level.
    pub rgb_bound: Option<u64>,
    /// How long ago the newest frame was taken that was published, or that no view wanted, in nanoseconds; absent before the
    /// first.
    pub newest_age_ns: Option<u64>,
    /// From the capture of a frame until its tokens were published.
    pub age: HistogramCounts,
    /// From a frame in memory until its tokens were published.
    pub step: HistogramCounts,
    /// The stages of that, by name.
    pub stages: BTreeMap<String, HistogramCounts>,
}

/// What a stream has done a second; numbers are absent where nothing was known or counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct StreamRates {
    /// Frames published a second.
    pub fps: Option<f64>,
    /// Frames dropped a second.
    pub dropped_per_s: Option<f64>,
    /// From the capture of a frame until its tokens were published, of half the frames.
    pub age_p50_ms: Option<f64>,
    /// The same of 99 in 100 frames.
    pub age_p99_ms: Option<f64>,
    /// Which part of the tiles was dirty.
    pub dirty_share: Option<f64>,
}

impl Stats {
    /// `stream` as it was in these earlier ones; `None` where that was another stream, or another daemon, which had counted more.
    pub fn earlier(&self, stream: &StreamStats) -> Option<&StreamStats> {
        let mut streams = self.streams.iter();
        streams.find(|earlier| {
            earlier.name == stream.name
                && earlier.counts.frames_captured <= stream.counts.frames_captured
        })
    }
}

impl StreamStats {
    /// What it has done since it was `earlier`, so many seconds ago.
    pub fn rates_since(&self, earlier: &Self, seconds: f64) -> StreamRates {
        let (counts, before) = (&self.counts, &earlier.counts);
        let age = self.detail.age.since(&earlier.detail.age);
        StreamRates {
            fps: Some(per_second(before.frames_published, counts.frames_published, seconds)),
            dropped_per_s: Some(per_second(before.frames_dropped, counts.frames_dropped, seconds)),
            age_p50_ms: age.quantile_ms(0.5),
            age_p99_ms: age.quantile_ms(0.99),
            dirty_share: self.dirty_share(earlier),
        }
    }

    /// Which part of the tiles was dirty, of the frames published since `earlier`; `None` without one.
    fn dirty_share(&self, earlier: &Self) -> Option<f64> {
        let (counts, before) = (&self.counts, &earlier.counts);
        let frames = counts.frames_published.saturating_sub(before.frames_published);
        let tiles = frames * self.change?.tile_count;
        let dirty = counts.tiles_dirty.saturating_sub(before.tiles_dirty);
        // A frame may be counted between one number and the other.
        (0 < tiles).then(|| (dirty as f64 / tiles as f64).min(1.0))
    }
}

/// The rate of a count that was `before` so many seconds ago.
pub fn per_second(before: u64, now: u64, seconds: f64) -> f64 {
    now.saturating_sub(before) as f64 / seconds
}

/// What one view has done since it was made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ViewStats {
    /// Its address.
    pub name: ViewName,
    /// What it counts.
    #[serde(flatten)]
    pub counts: ViewCounts,
    /// Messages of feedback that were refused, by reason.
    pub feedback_refused: BTreeMap<RefusalReason, u64>,
}
