//! What streams and views there are, and how they are.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use foveate::messages::{Epoch, RefusalReason, ViewName};
use foveate_core::backend::BackendInfo;
use foveate_core::geometry::fixation::Fixation;
use foveate_core::token::DType;
use foveate_stats::stages::Stage;
use foveate_stats::{LossReason, NoticeCounts, ServerCounts, StreamCounts};

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

/// A stream at one moment: what `list` and `stats` both say, and what only one of them does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamSnapshot<Detail, View> {
    /// Its name.
    pub name: String,
    /// What it is doing.
    pub state: StreamState,
    /// Why, in words; empty where there is nothing to say.
    pub reason: String,
    /// What computes its pyramid, and why; absent before the first frame.
    pub backend: Option<BackendInfo>,
    /// What it has done since it started.
    #[serde(flatten)]
    pub counts: StreamCounts,
    /// Times it began another pipeline after it had lost one, by reason. `list` leaves out those for which it did not.
    #[serde(default)]
    pub restarts: BTreeMap<LossReason, u64>,
    /// The stage that makes no progress, if one does not.
    #[serde(default)]
    pub stuck: Option<StuckListing>,
    /// What counts as a change; absent before the first frame.
    pub change: Option<ChangeListing>,
    /// What the other answer does not say.
    #[serde(flatten)]
    pub detail: Detail,
    /// Its views, in the order of the configuration.
    pub views: Vec<View>,
}

/// One stream of a [`Listing`].
pub type StreamListing = StreamSnapshot<StreamInput, ViewListing>;

/// What the frames of a stream are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamInput {
    /// Where they come from, without secrets.
    pub source: String,
    /// Pixel format as GStreamer's caps name it; absent before the first frame.
    pub format: Option<String>,
    /// Width and height in pixels; absent before the first frame.
    pub extent: Option<[u32; 2]>,
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
    /// What it counts.
    #[serde(flatten)]
    pub counts: ServerCounts,
    /// Requests and connections that were refused, by reason.
    pub refused: BTreeMap<RefusalReason, u64>,
}
