//! Feedback from consumers to a view.

use std::sync::Arc;

use crate::relevance::injection::Injection;
use foveate_core::geometry::attention::AttentionMap;
use foveate_core::geometry::fixation::Points;

/// One message of feedback.
#[derive(Clone, Debug, PartialEq)]
pub enum Feedback {
    /// Look at these points from the next frame on.
    Look {
        /// Points in source pixels, x to the right and y downwards.
        points: Points,
        /// Duration in nanoseconds of stream time; without one, until newer feedback or until the policy takes over.
        hold_ns: Option<u64>,
        /// `frame_seq` of the frame in which the points lie; `None` for the frame to come.
        frame_seq: Option<u64>,
        /// Area around the points.
        area: LookArea,
    },
    /// Look at the peaks of a map, from the next decision on.
    Attend {
        /// The map.
        map: Arc<AttentionMap>,
        /// `frame_seq` of the frame that the map was computed from.
        frame_seq: u64,
        /// `frame_seq` of the frame over which the map lies, if the client's ego motion has moved it; `None` if it still lies over the frame
        /// that it was computed from.
        lies_in: Option<u64>,
    },
    /// Give a view a map by name; for the policy `relevance`.
    Inject(Arc<Injection>),
    /// Forget the maps of these names, whose client is gone; for the policy `relevance`.
    Withdraw(Arc<[String]>),
    /// Set the weights of channels in the score, by name, beside the scorer's own; 0 takes a weight back. For the policy `relevance`.
    Weigh(Arc<[ChannelWeight]>),
    /// Return control to the view's policy, with the weights of its configuration.
    Release,
}

/// What a `look` asks for around its points.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LookArea {
    /// Width and height in pixels of a box with a point in its middle; `None` for the point alone.
    pub size: Option<(f64, f64)>,
    /// Share of the budget that is spent on it, above 0 to 1; `None` leaves it to the layout.
    pub share: Option<f64>,
}

/// What a channel adds to the score: octaves of relevance for each of its units.
#[derive(Clone, Debug, PartialEq)]
pub struct ChannelWeight {
    /// A computed channel, or an injected one, whether it is there or not.
    pub name: String,
    /// Finite, at most [`CHANNEL_WEIGHT_MAX`] from 0.
    pub weight: f32,
}

/// Greatest weight of a channel.
pub const CHANNEL_WEIGHT_MAX: f32 = 64.0;

/// Most weights of a view.
pub const CHANNEL_WEIGHTS_MAX: usize = 64;

impl Feedback {
    /// Whether newer feedback of this kind makes it void.
    pub fn is_superseded(&self) -> bool {
        matches!(self, Self::Look { .. } | Self::Attend { .. } | Self::Release)
    }

    /// Look at one point in pixels.
    pub fn look_at(x: f64, y: f64, hold_ns: Option<u64>) -> Self {
        let area = LookArea::default();
        Self::Look { points: Points::from_iter([(x, y)]), hold_ns, frame_seq: None, area }
    }
}
