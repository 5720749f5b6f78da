//! What consumers tell a view, on its way to the frame loop.

use std::sync::Arc;

use super::attention::AttentionMap;

/// Where a consumer wants a view to look.
#[derive(Clone, Debug, PartialEq)]
pub enum Feedback {
    /// At this point, at once.
    Look {
        /// Pixels right of the source's left edge.
        x: f64,
        /// Pixels below the source's top edge.
        y: f64,
        /// For how long, in nanoseconds of the stream's time; without it, until something else is said or the policy
        /// takes over.
        hold_ns: Option<u64>,
    },
    /// Where this map has its peak, from the next decision on.
    Attend {
        /// What is attended to.
        map: Arc<AttentionMap>,
        /// The frame that the consumer looked at.
        frame_seq: u64,
    },
    /// Wherever the view's policy says.
    Release,
}
