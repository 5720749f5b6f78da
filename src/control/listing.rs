//! What streams and views there are, and how they are.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use foveate::messages::{Epoch, RefusalReason, ViewName};
use foveate_core::backend::BackendInfo;
use foveate_core::geometry::fixation::Fixation;
use foveate_core::token::DType;
use foveate_stats::stages::Stage;
use foveate_stats::{LossReason, NoticeCounts};

/// The answer to [`Request::List`](super::Request::List): streams in the order of their names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Listing {
    /// The streams. One whose views do not fit a page goes on under the same name in the next.
    pub streams: Vec<StreamListing>,
    /// What the server has done; only on the first page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerListing>,
    /// Where more follow: what to ask for next, as `after`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<ViewName>,
}

/// What a stream is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamState {
    /// No frame has come yet.
    Starting,
    /// Frames come.
    Live,
    /// Frames came and stay away.
    Stalled,
    /// No frame will come again.
    Ended,
}

foveate_core::names!(StreamState {
    Starting = "starting", Live = "live", Stalled = "stalled", Ended = "ended",
});

/// One stream of a [`Listing`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamListing {
    /// Its name.
    pub name: String,
    /// What it is doing.
    pub state: StreamState,
    /// Why, in words; empty where there is nothing to say.
    pub reason: String,
    /// Where its frames come from, without secrets.
    pub source: String,
    /// Pixel format as GStreamer's caps name it; absent before the first frame.
    pub format: Option<String>,
    /// Width and height in pixels; absent before the first frame.
    pub extent: Option<[u32; 2]>,
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
    #[serde(default)]
    pub frames_skipped: u64,
    /// Frames that no view took, for lack of readers or because of `max_fps`.
    #[serde(default)]
    pub frames_rested: u64,
    /// Frames whose capture time lay in the future, and became that of their arrival.
    pub stamps_clamped: u64,
    /// Tiles that were ingested: those that changed, and those whose turn to be refreshed it was.
    pub tiles_dirty: u64,
    /// Times the stream went on on the CPU because its GPU was lost or refused.
    pub backend_fallbacks: u64,
    /// Times it tried to get back to the GPU.
    #[serde(default)]
    pub backend_attempts: u64,
    /// Times it went on on the GPU again.
    #[serde(default)]
    pub backend_returns: u64,
    /// Times it began another pipeline after it had lost one, by reason.
    #[serde(default)]
    pub restarts: BTreeMap<LossReason, u64>,
    /// Pipelines that were given up and have not stopped yet.
    #[serde(default)]
    pub pipelines_stopping: u64,
    /// The stage that makes no progress, if one does not.
    #[serde(default)]
    pub stuck: Option<StuckListing>,
    /// What counts as a change; absent before the first frame.
    pub change: Option<ChangeListing>,
    /// Its views, in the order of the configuration.
    pub views: Vec<ViewListing>,
}

/// A stage of a stream that makes no progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StuckListing {
    /// Which.
    pub stage: Stage,
    /// For how many seconds.
    pub seconds: u64,
}

/// What counts as a change of a stream now.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChangeListing {
    /// The most by which a camera sample may differ from the one that the pyramid was built from, in steps of 8 bits.
    pub threshold: u64,
    /// What the threshold never exceeds; absent where it is fixed.
    pub threshold_limit: Option<u64>,
    /// Noise of a sample, a standard deviation, in steps of 8 bits; absent where the threshold is fixed, and until
    /// enough has been seen.
    pub noise: Option<f64>,
    /// Tiles that were ingested for the newest frame.
    pub tiles_dirty: u64,
    /// Tiles of a frame.
    pub tile_count: u64,
}

/// One view of a [`StreamListing`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ViewListing {
    /// Its address.
    pub name: ViewName,
    /// Name of its layout.
    pub layout: String,
    /// P: side of a token in texels.
    pub patch_side: u32,
    /// Number format of a texel.
    pub dtype: DType,
    /// Most tokens of a frame.
    pub budget: u32,
    /// Who chooses where it looks: `fixed`, `feedback`, `saliency` or `replay`.
    pub policy: String,
    /// Most frames a second that it publishes; absent where all are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_fps: Option<f64>,
    /// When it publishes: `always` or `when-read`.
    #[serde(default)]
    pub publish: String,
    /// The client that opened it and whose connection it lives as long as; absent for views of the configuration.
    pub opened_by: Option<String>,
    /// Identity of its present segment; absent before the first frame.
    pub epoch: Option<Epoch>,
    /// Where it looks; absent before the first frame.
    pub fixation: Option<Fixation>,
    /// Its newest fixations, at most 16, the present one last.
    pub scanpath: Vec<Fixation>,
    /// Who steers it.
    pub steering: SteeringListing,
    /// Counts of notices to its subscribers.
    #[serde(default)]
    pub notices: NoticeCounts,
}

/// Who steers a view, and counts of feedback.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SteeringListing {
    /// The client that holds the lease; absent without one.
    pub holder: Option<String>,
    /// Messages that were accepted.
    pub accepted: u64,
    /// Messages that were refused, by reason.
    pub refused: BTreeMap<RefusalReason, u64>,
}

/// What the server has done since it started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerListing {
    /// Connections at present.
    pub clients: u64,
    /// Connections that were accepted.
    pub clients_accepted: u64,
    /// Connections that were dropped because they did not read what they were sent.
    pub clients_dropped: u64,
    /// Requests that were answered, refusals included.
    pub requests: u64,
    /// Requests and connections that were refused, by reason.
    pub refused: BTreeMap<RefusalReason, u64>,
}
