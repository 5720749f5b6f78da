//! What a page and the server say to each other in JSON, besides frames.

use serde::{Deserialize, Serialize};

use foveate::messages::{RefusalReason, ViewName};

/// What a page says.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum FromPage {
    /// Show me this view and no other, or none.
    Watch {
        /// Which.
        view: Option<ViewName>,
        /// Also show the same budget spent uniformly.
        #[serde(default)]
        compare: bool,
    },
    /// A frame is on the screen: send the next.
    Ack {
        /// Which of the two pictures: 0 the view, 1 the uniform one.
        pane: u8,
        /// Which packet.
        serial: u32,
    },
    /// Look at a point.
    Look {
        /// Pixels right of the source's left edge.
        x: f64,
        /// Pixels below the source's top edge.
        y: f64,
    },
    /// Look where the policy says.
    Release,
}

/// What the server says.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ToPage {
    /// The first message.
    Hello {
        /// Of `foveate`.
        version: &'static str,
        /// What to show first, where the page was not told otherwise.
        view: Option<ViewName>,
        /// The page steers no view.
        read_only: bool,
    },
    /// What the picture is, whether frames come, and why they do not.
    State {
        /// Which of the two pictures.
        pane: u8,
        /// What it shows.
        state: FeedState,
        /// Why, in words; empty where there is nothing to say.
        reason: String,
        /// How long ago the newest frame was captured, in milliseconds; absent before the first.
        age_ms: Option<f64>,
    },
    /// The view looks there from its next frame on.
    Looking {
        /// Pixels right of the source's left edge.
        x: f64,
        /// Pixels below the source's top edge.
        y: f64,
    },
    /// The view looks where its policy says.
    Released,
    /// The view was not steered.
    Refused {
        /// For programs; absent where there is no daemon to refuse.
        reason: Option<RefusalReason>,
        /// For people.
        error: String,
    },
}

impl ToPage {
    /// The message as text.
    pub(super) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("messages have string keys and no failing parts")
    }
}

/// What is to be seen of a view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FeedState {
    /// Nothing yet.
    #[default]
    Starting,
    /// Frames come.
    Live,
    /// Frames came and stay away.
    Stalled,
    /// No frame will come again.
    Ended,
    /// There is no daemon, or no such view; it is looked for.
    Lost,
}
