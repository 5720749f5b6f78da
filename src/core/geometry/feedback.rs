//! Feedback from consumers to a view.

use std::sync::Arc;

use super::attention::AttentionMap;

/// One message of feedback.
#[derive(Clone, Debug, PartialEq)]
pub enum Feedback {
    /// Look at a point at once.
    Look {
        /// Pixels right of the source's left edge.
        x: f64,
        /// Pixels below the source's top edge.
        y: f64,
        /// Duration in nanoseconds of stream time; without one, until newer feedback or until the policy takes over.
        hold_ns: Option<u64>,
    },
    /// Look at the peak of a map, from the next decision on.
    Attend {
        /// The map.
        map: Arc<AttentionMap>,
        /// `frame_seq` of the frame that it was computed from.
        frame_seq: u64,
    },
    /// Return control to the view's policy.
    Release,
}
