//! Messages with statistics of streams and views, and rates between two of them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{ServerListing, StreamSnapshot};
use foveate::messages::{RefusalReason, ViewName};
use foveate_stats::ViewCounts;
use foveate_stats::durations::HistogramCounts;
use foveate_stats::process::ProcessUse;

/// The answer to [`Request::Stats`](super::Request::Stats), and the source of metrics.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    /// The daemon as a whole; only on the first page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub daemon: Option<DaemonStats>,
    /// The streams, in the order of their names.
    pub streams: Vec<StreamStats>,
    /// The `after` of the next page, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Statistics of the daemon as a whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DaemonStats {
    /// Version of the daemon.
    pub version: String,
    /// Resource usage of its process.
    pub process: ProcessUse,
    /// Lines dropped because the log was too slow.
    #[serde(default)]
    pub log_lines_dropped: u64,
    /// Bound of the error of CLOCK_REALTIME in nanoseconds, as the kernel promises; absent if it promises nothing.
    #[serde(default)]
    pub clock_error_ns: Option<u64>,
    /// How often CLOCK_REALTIME was set since the daemon started.
    #[serde(default)]
    pub clock_steps: u64,
    /// Allocated memory of each open GPU in bytes, by device name.
    pub gpu_memory_bytes: BTreeMap<String, u64>,
    /// State of the control server.
    pub server: ServerListing,
}

/// One stream of [`Stats`].
pub type StreamStats = StreamSnapshot<StreamPace, ViewStats>;

/// Ages, durations and error bounds of the frames of a stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamPace {
    /// The most by which a camera sample differs from the newest frame's, in steps of 8 bits; absent before the first frame.
    pub sample_bound: Option<u64>,
    /// The most by which a channel of a published texel differs from the texel made of the newest frame; absent before the first frame.
    pub rgb_bound: Option<u64>,
    /// Speed of the middle of the picture, in thousandths of pixels a second; absent if it is not known.
    #[serde(default)]
    pub picture_speed: Option<u64>,
    /// Time since the capture of the newest frame that was published or that no view took, in nanoseconds; absent before
    /// the first.
    pub newest_age_ns: Option<u64>,
    /// Time from the capture of the frame of `newest_age_ns` until it left the pipeline, in nanoseconds; absent before the first frame.
    #[serde(default)]
    pub newest_delay_ns: Option<u64>,
    /// Time from capture until all views had published.
    pub age: HistogramCounts,
    /// Time from a frame in memory until all views had published.
    pub step: HistogramCounts,
    /// Times of the stages of a frame, by name.
    pub stages: BTreeMap<String, HistogramCounts>,
}

/// Rates of a stream; absent where nothing is known or was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct StreamRates {
    /// Frames published per second.
    pub fps: Option<f64>,
    /// Frames dropped per second.
    pub dropped_per_s: Option<f64>,
    /// Median time from capture until all views had published.
    pub age_p50_ms: Option<f64>,
    /// 99th percentile of the time from capture until all views had published.
    pub age_p99_ms: Option<f64>,
    /// Share of dirty tiles.
    pub dirty_share: Option<f64>,
}

impl Stats {
    /// `stream` in these earlier statistics; `None` if those are of another stream, or of a daemon that has restarted since.
    pub fn earlier(&self, stream: &StreamStats) -> Option<&StreamStats> {
        let mut streams = self.streams.iter();
        streams.find(|earlier| {
            earlier.name == stream.name
                && earlier.counts.frames_captured <= stream.counts.frames_captured
        })
    }
}

impl StreamStats {
    /// Rates since `earlier`, `seconds` ago.
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

    /// Share of dirty tiles of the frames published since `earlier`; `None` without frames.
    fn dirty_share(&self, earlier: &Self) -> Option<f64> {
        let (counts, before) = (&self.counts, &earlier.counts);
        let frames = counts.frames_published.saturating_sub(before.frames_published);
        let tiles = frames * self.change?.tile_count;
        let dirty = counts.tiles_dirty.saturating_sub(before.tiles_dirty);
        // A frame may be counted between one number and the other.
        (0 < tiles).then(|| (dirty as f64 / tiles as f64).min(1.0))
    }
}

/// The rate of a count that was `before` the given seconds ago.
pub fn per_second(before: u64, now: u64, seconds: f64) -> f64 {
    now.saturating_sub(before) as f64 / seconds
}

/// Statistics of one view since it was created.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ViewStats {
    /// Address of the view.
    pub name: ViewName,
    /// Counts since it was created.
    #[serde(flatten)]
    pub counts: ViewCounts,
    /// Messages of feedback that were refused, by reason.
    pub feedback_refused: BTreeMap<RefusalReason, u64>,
}
