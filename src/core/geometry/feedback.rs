//! Feedback from consumers to a view.

use std::sync::Arc;

use super::attention::AttentionMap;
use super::fixation::Points;

/// One message of feedback.
#[derive(Clone, Debug, PartialEq)]
pub enum Feedback {
    /// Look at points at once, and at nothing else.
    Look {
        /// Pixels right of the source's left edge, and below its top edge.
        points: Points,
        /// Duration in nanoseconds of stream time; without one, until newer feedback or until the policy takes over.
        hold_ns: Option<u64>,
    },
    /// Look at the peaks of a map, from the next decision on.
    Attend {
        /// The map.
        map: Arc<AttentionMap>,
        /// `frame_seq` of the frame that it was computed from.
        frame_seq: u64,
    },
    /// Return control to the view's policy.
    Release,
}

impl Feedback {
    /// Look at one point in pixels.
    pub fn look_at(x: f64, y: f64, hold_ns: Option<u64>) -> Self {
        Self::Look { points: Points::from_iter([(x, y)]), hold_ns }
    }
}
