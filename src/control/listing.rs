//! Listings of streams and views, and their state.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use foveate::messages::{Epoch, RefusalReason, ViewName};
use foveate_core::backend::BackendInfo;
use foveate_core::color::Colorimetry;
use foveate_core::event::EventKind;
use foveate_core::geometry::fixation::Fixation;
use foveate_core::token::DType;
use foveate_stats::process::SourceProcessUse;
use foveate_stats::stages::Stage;
use foveate_stats::{LossReason, NoticeCounts, ServerCounts, StreamCounts};

/// The answer to [`Request::List`](super::Request::List): streams in the order of their names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Listing {
    /// The daemon's version; only on the first page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The streams. One whose views do not fit a page continues under the same name on the next.
    pub streams: Vec<StreamListing>,
    /// State of the control server; only on the first page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerListing>,
    /// The `after` of the next page, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<ViewName>,
}

/// State of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamState {
    /// No frame has arrived yet.
    Starting,
    /// Frames arrive.
    Live,
    /// Frames have stopped arriving.
    Stalled,
    /// No frame will arrive again.
    Ended,
}

foveate_core::names!(StreamState {
    Starting = "starting", Live = "live", Stalled = "stalled", Ended = "ended",
});

/// A snapshot of a stream: what `list` and `stats` have in common, and the `detail` of one of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamSnapshot<Detail, View> {
    /// Name of the stream.
    pub name: String,
    /// State of the stream.
    pub state: StreamState,
    /// The reason for the state; may be empty.
    pub reason: String,
    /// The backend of its pyramid, and the reason for it; absent before the first frame.
    pub backend: Option<BackendInfo>,
    /// Counts since it started.
    #[serde(flatten)]
    pub counts: StreamCounts,
    /// Pipelines started after one was lost, by reason. `list` leaves out zeros.
    #[serde(default)]
    pub restarts: BTreeMap<LossReason, u64>,
    /// The processes of its source: of `pictures` and of `depth`. Empty if its pipelines run in the daemon.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub processes: BTreeMap<String, SourceProcessUse>,
    /// Events since it started, by kind; empty if it does not look for any. `list` leaves out zeros.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub events: BTreeMap<EventKind, u64>,
    /// States of the picture that hold now, such as that it is covered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holding: Vec<EventKind>,
    /// The stage that is stuck, if any.
    #[serde(default)]
    pub stuck: Option<StuckListing>,
    /// State of change detection; absent before the first frame.
    pub change: Option<ChangeListing>,
    /// The fields that only one of the two answers, listing or statistics, has.
    #[serde(flatten)]
    pub detail: Detail,
    /// Views of the stream, in the order of the configuration.
    pub views: Vec<View>,
}

/// One stream of a [`Listing`].
pub type StreamListing = StreamSnapshot<StreamInput, ViewListing>;

impl StreamListing {
    /// What an operator should know about the stream, most important first. The words do not depend on the stream.
    pub fn reasons(&self) -> Vec<String> {
        let depth = self.detail.depth.as_ref().filter(|depth| !depth.reason.is_empty());
        let depth = depth.map(|depth| format!("depth is {}: {}", depth.state, depth.reason));
        let stuck = self.stuck.map(|stuck| format!("{} makes no progress", stuck.stage));
        let reuse = self.change.and_then(|change| change.reuse_remedy(&self.counts));
        let reuse =
            reuse.map(|(_, remedy)| format!("nearly all tiles change in each frame: {remedy}"));
        let reason = Some(self.reason.clone()).filter(|reason| !reason.is_empty());
        [reason, depth, stuck, reuse].into_iter().flatten().collect()
    }
}

/// Source and format of a stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamInput {
    /// Source of the frames, without secrets.
    pub source: String,
    /// Pixel format as GStreamer's caps name it; absent before the first frame.
    pub format: Option<String>,
    /// Width and height in pixels; absent before the first frame.
    pub extent: Option<[u32; 2]>,
    /// Width and height of a pixel as it is meant to be shown; absent before the first frame.
    #[serde(default)]
    pub pixel_aspect: Option<[u32; 2]>,
    /// Colorimetry of the samples; absent before the first frame.
    #[serde(default)]
    pub color: Option<Colorimetry>,
    /// The samples of 16-bit gray that become black and white; absent if it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gray_range: Option<[u16; 2]>,
    /// Depth of the stream; absent if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<DepthListing>,
    /// Parts of the picture that are filled with black before anything reads it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub masks: Vec<MaskListing>,
}

/// The depth of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DepthListing {
    /// Source of its pictures, without secrets.
    pub source: String,
    /// State of the depth source.
    pub state: StreamState,
    /// The reason for the state; may be empty.
    pub reason: String,
}

/// A mask of a stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MaskListing {
    /// Name of the mask.
    pub name: String,
    /// Corners x, y of the mask as shares of the picture's width and height, to five digits.
    pub points: Vec<[f64; 2]>,
    /// Whether the mask belongs to the configuration; otherwise it was set at run time.
    #[serde(rename = "configured")]
    pub is_configured: bool,
}

/// A stuck stage of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StuckListing {
    /// The stage.
    pub stage: Stage,
    /// Seconds without progress.
    pub seconds: u64,
}

/// State of a stream's change detection.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChangeListing {
    /// The most by which a camera sample may differ from the one that the pyramid was built from, in steps of 8 bits.
    pub threshold: u64,
    /// Upper limit of the threshold; absent if the threshold is fixed.
    pub threshold_limit: Option<u64>,
    /// Standard deviation of a sample's noise, in steps of 8 bits; absent if the threshold is fixed, and until enough
    /// frames have been seen.
    pub noise: Option<f64>,
    /// Tiles ingested for the newest frame.
    pub tiles_dirty: u64,
    /// Tiles of a frame.
    pub tile_count: u64,
}

/// Frames before the share of dirty tiles is judged: in the first all are dirty, and a camera adapts its exposure.
const FRAMES_TO_JUDGE: u64 = 30;

/// Share of dirty tiles above which hardly a token can be reused.
const DIRTY_SHARE_MAX: f64 = 0.9;

impl ChangeListing {
    /// Share of dirty tiles in the average frame of a stream with these counts, and the remedy, if more than nine of ten tiles are
    /// dirty, so that hardly a token can be reused.
    pub fn reuse_remedy(&self, counts: &StreamCounts) -> Option<(f64, &'static str)> {
        let tiles = counts.frames_published * self.tile_count;
        if counts.frames_published < FRAMES_TO_JUDGE || tiles == 0 {
            return None;
        }
        // A frame may be counted between one number and the other.
        let share = (counts.tiles_dirty as f64 / tiles as f64).min(1.0);
        let remedy = match self.threshold_limit {
            None => {
                "if the camera stands still, set `threshold = \"auto\"`, or a number above its noise, in [stream.change]"
            }
            Some(_) => "if the camera stands still, raise `threshold_limit` in [stream.change]",
        };
        (DIRTY_SHARE_MAX < share).then_some((share, remedy))
    }
}

/// One view of a [`StreamListing`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ViewListing {
    /// Address of the view.
    pub name: ViewName,
    /// Name of its layout.
    pub layout: String,
    /// P: side of a token in texels.
    pub patch_side: u32,
    /// Number format of a texel.
    pub dtype: DType,
    /// Most tokens of a frame.
    pub budget: u32,
    /// Gaze policy: `fixed`, `feedback`, `saliency`, `relevance` or `replay`.
    pub policy: String,
    /// Limit on published frames per second; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_fps: Option<f64>,
    /// Publishing mode: `always` or `when-read`.
    #[serde(default)]
    pub publish: String,
    /// The client that opened it, for the life of its connection; absent for views of the configuration.
    pub opened_by: Option<String>,
    /// Epoch of the view's current segment; absent before the first frame.
    pub epoch: Option<Epoch>,
    /// Where the view looks; empty before the first frame.
    pub fixations: Vec<Fixation>,
    /// The last fixations, at most 16, in the order in which they were chosen.
    pub scanpath: Vec<Fixation>,
    /// The client that steers the view.
    pub steering: SteeringListing,
    /// The maps that clients have injected, by name.
    #[serde(default)]
    pub channels: Vec<ChannelListing>,
    /// Counts of notices to the view's subscribers.
    #[serde(default)]
    pub notices: NoticeCounts,
    /// Frames that a view opened by a client skipped because the next frame was waiting already.
    #[serde(default)]
    pub frames_shed: u64,
    /// Tokens that the view has published.
    #[serde(default)]
    pub tokens_published: u64,
    /// Published tokens that were in the frame before too, at the same place and with the same bytes.
    #[serde(default)]
    pub tokens_kept: u64,
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

/// A map that a client has injected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelListing {
    /// Name of the channel.
    pub name: String,
    /// Rows and columns.
    pub shape: [u32; 2],
    /// The client that injects it.
    pub owner: String,
    /// `frame_seq` of the frame that it was made from.
    pub frame: u64,
    /// Milliseconds since it arrived.
    pub age_ms: u64,
    /// Milliseconds for which it is kept.
    pub ttl_ms: u32,
}

/// State of the control server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerListing {
    /// Counts since it started.
    #[serde(flatten)]
    pub counts: ServerCounts,
    /// Requests and connections that were refused, by reason.
    pub refused: BTreeMap<RefusalReason, u64>,
}
