//! What the daemon counts, in numbers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{ChangeListing, ServerListing, StreamState, StuckListing};
use foveate::messages::{RefusalReason, ViewName};
use foveate_core::backend::BackendInfo;
use foveate_stats::LossReason;
use foveate_stats::durations::HistogramCounts;
use foveate_stats::process::ProcessUse;

/// The answer to [`Request::Stats`](super::Request::Stats), and what metrics are made of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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

/// What one stream has done since it started, and how it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamStats {
    /// Its name.
    pub name: String,
    /// What it is doing.
    pub state: StreamState,
    /// Why, in words; empty where there is nothing to say.
    pub reason: String,
    /// What computes its pyramid, and why; absent before the first frame.
    pub backend: Option<BackendInfo>,
    /// Frames that the pipeline delivered.
    pub frames_captured: u64,
    /// Frames that a newer one replaced before they were taken.
    pub frames_dropped: u64,
    /// Frames whose tokens were published.
    pub frames_published: u64,
    /// Frames that could not be read.
    pub frames_refused: u64,
    /// Frames that were skipped because of `max_fps`; they are not counted as captured.
    pub frames_skipped: u64,
    /// Frames that no view took, for lack of readers or because of `max_fps`.
    pub frames_rested: u64,
    /// Frames whose capture time lay in the future, and became that of their arrival.
    pub stamps_clamped: u64,
    /// Tiles that were ingested: those that changed, and those whose turn to be refreshed it was.
    pub tiles_dirty: u64,
    /// Bytes of samples that crossed to a device.
    pub bytes_uploaded: u64,
    /// Times the stream went on on the CPU because its GPU was lost or refused.
    pub backend_fallbacks: u64,
    /// Times it tried to get back to the GPU.
    pub backend_attempts: u64,
    /// Times it went on on the GPU again.
    pub backend_returns: u64,
    /// Times it began another pipeline after it had lost one, by reason; 0 for those for which it did not.
    pub restarts: BTreeMap<LossReason, u64>,
    /// Pipelines that were given up and have not stopped yet.
    pub pipelines_stopping: u64,
    /// The stage that makes no progress, if one does not.
    pub stuck: Option<StuckListing>,
    /// What counts as a change; absent before the first frame.
    pub change: Option<ChangeListing>,
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
    /// Its views, in the order of the configuration.
    pub views: Vec<ViewStats>,
}

impl StreamStats {
    /// Which part of the tiles was dirty, of the frames published since `earlier`; `None` without one.
    pub fn dirty_share(&self, earlier: &Self) -> Option<f64> {
        let frames = self.frames_published.saturating_sub(earlier.frames_published);
        let tiles = frames * self.change?.tile_count;
        let dirty = self.tiles_dirty.saturating_sub(earlier.tiles_dirty);
        // A frame may be counted between one number and the other.
        (0 < tiles).then(|| (dirty as f64 / tiles as f64).min(1.0))
    }
}

/// What one view has done since it was made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ViewStats {
    /// Its address.
    pub name: ViewName,
    /// Connections that follow it now.
    pub subscribers: u64,
    /// Frames that it published.
    pub frames_published: u64,
    /// Frames that it left out because of its `max_fps`.
    pub frames_skipped: u64,
    /// Frames that it skipped for lack of readers.
    pub frames_unread: u64,
    /// Moves to a new fixation.
    pub saccades: u64,
    /// Messages of feedback that were accepted.
    pub feedback_accepted: u64,
    /// Messages of feedback that were refused, by reason.
    pub feedback_refused: BTreeMap<RefusalReason, u64>,
    /// Notices of a frame that the socket of a subscriber took.
    pub notices_sent: u64,
    /// Notices that it had no room for.
    pub notices_skipped: u64,
}
