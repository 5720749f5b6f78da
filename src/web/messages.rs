//! JSON messages between a page and the server. Frames are binary: see `packet`.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::history::HistoryExtent;
use super::history::playhead::Moment;
use super::history::timeline::TimelineEntry;
use super::inspection::TokenReport;
use super::reports::StreamReport;
use foveate::messages::{RefusalReason, ViewName};
use foveate_core::geometry::region::Region;

/// Message of a page.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum FromPage {
    /// Show this view alone; `None` shows no view.
    Watch {
        view: Option<ViewName>,
        /// Also show a uniform view of the same budget.
        #[serde(default)]
        compare: bool,
        /// The channel that is drawn over the view, if it publishes it.
        #[serde(default)]
        channel: Option<String>,
    },
    /// A frame is on the screen: send the next.
    Ack {
        /// 0 for the view, 1 for the uniform one.
        pane: u8,
        /// Number of the packet.
        serial: u32,
    },
    /// Show small pictures of exactly these views.
    Thumbnails { views: Vec<ViewName> },
    /// The small pictures are on the screen: send the next.
    AckThumbnails,
    /// Look at points, or at a box, in source pixels.
    Look {
        #[serde(default)]
        points: Vec<(f64, f64)>,
        #[serde(default, rename = "box")]
        region: Option<Region>,
    },
    /// Tell of the token under a point, in source pixels, of the frame that was sent last.
    Inspect { x: f64, y: f64 },
    /// Set a mask of the view's stream.
    Mask {
        name: String,
        /// Corners x, y as shares of the sides.
        points: Vec<[f64; 2]>,
    },
    /// Clear one that was set at run time.
    ClearMask { name: String },
    /// Return to the view's policy.
    Release,
    /// Pause, and show the frame of this time, in milliseconds since 1970, or the newest one.
    Seek {
        #[serde(default)]
        at: Option<f64>,
    },
    /// Pause, and show the frame that is `by` frames after the one on the screen.
    Step { by: i32 },
    /// Show new frames again.
    Live,
    /// Send the whole frame of time `at`, for a small picture, as a frame of pane 2.
    Thumbnail { at: f64 },
    /// Keep all frames after this time in memory as long as others can give way, in milliseconds since 1970; until they are saved.
    Record { after: f64 },
    /// Send a recording of the frames on this page's timeline, or of those in memory that arrived after this time, in milliseconds
    /// since 1970.
    Save {
        #[serde(default)]
        after: Option<f64>,
    },
}

/// Message of the server.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ToPage {
    /// The first message.
    Hello {
        /// Version of `foveate`.
        version: &'static str,
        /// The view to show first, unless the page's address names one.
        view: Option<ViewName>,
        /// The page may not steer.
        read_only: bool,
        /// The page may set masks, as far as the daemon lets the user of this program.
        masks: bool,
        /// The files that the page shows in place of a daemon.
        recording: Option<String>,
        /// Whether what is in memory can be saved.
        can_save: bool,
    },
    /// The state of a feed has changed.
    State {
        pane: u8,
        state: FeedState,
        /// The reason, in words; may be empty.
        reason: String,
        /// Age of the newest frame since its capture, in milliseconds; absent before the first.
        age_ms: Option<f64>,
    },
    /// The channels that the view publishes.
    Channels {
        /// Their names, in the order of the plane.
        names: Vec<String>,
    },
    /// The view looks at these points, in source pixels, from its next frame on.
    Looking { points: Vec<(f64, f64)> },
    /// Description of a token; absent where there is no token.
    Token { token: Option<TokenReport> },
    /// The masks have changed.
    Masked {
        /// Why the views do not show it yet, if they do not.
        reason: Option<String>,
    },
    /// The view has returned to its policy.
    Released,
    /// Streams, views and their cost.
    Report {
        /// An object with the daemon's `version`; absent without a daemon.
        daemon: Option<Value>,
        /// Why the daemon does not answer.
        error: Option<String>,
        streams: Vec<StreamReport>,
    },
    /// Span and number of the frames of the view in memory.
    History {
        /// Times of the kept frames; absent without frames.
        extent: Option<HistoryExtent>,
        /// Bytes of the kept frames of all views.
        bytes: usize,
        bytes_max: usize,
        /// Now, in milliseconds since 1970.
        now_ms: f64,
    },
    /// The page is paused; the frame follows, unless it is on the screen.
    Moment(Moment),
    /// The page shows new frames again.
    Resumed,
    /// New entries of the view's timeline since the last message of this kind.
    Timeline { is_whole: bool, entries: Vec<TimelineEntry> },
    /// The answer to a request for a small picture: the frame follows if there is one.
    Thumbnail { at_ms: f64, is_kept: bool },
    /// A recording follows, in pieces that are acknowledged as frames of pane 3.
    Saving { name: String, bytes: u64, frames: usize },
    /// A moment cannot be shown, or the recording not be made.
    HistoryError { error: String },
    /// A mask was not set or cleared, for people.
    MaskRefused { error: String },
    /// A look or a release failed.
    Refused {
        /// Reason for programs; absent if no daemon answered.
        reason: Option<RefusalReason>,
        /// Error, in words.
        error: String,
    },
}

impl ToPage {
    pub(super) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("messages have string keys and no failing parts")
    }
}

/// State of a feed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FeedState {
    /// No frame yet.
    #[default]
    Starting,
    Live,
    /// Frames have stopped arriving.
    Stalled,
    /// No more frames will arrive.
    Ended,
    /// There is no daemon or no such view; the follower keeps trying.
    Lost,
}

impl FeedState {
    /// Name of the state in messages.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Live => "live",
            Self::Stalled => "stalled",
            Self::Ended => "ended",
            Self::Lost => "lost",
        }
    }
}
