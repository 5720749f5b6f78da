//! Where a view looks.

use std::sync::Arc;

use super::extent::Extent;
use super::relevance::Relevance;

/// Fixations lie on a grid of this many positions per pixel, so that a plan is a function of few bits.
const STEPS_PER_PIXEL: f64 = 16.0;

/// Why a fixation was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FixationReason {
    /// The view's policy fixes it.
    Policy,
    /// A client said `look`.
    Look,
    /// A client's attention has its peak there.
    Attend,
    /// Something stands out or moves there.
    Saliency,
}

crate::names!(FixationReason {
    Policy = "policy", Look = "look", Attend = "attend", Saliency = "saliency",
});
crate::codes!(FixationReason { Policy = 0, Look = 1, Attend = 2, Saliency = 3 });

/// A point that a view looks at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fixation {
    /// Grows by one with every new fixation of the view, from 1.
    pub id: u64,
    /// Pixels right of the source's left edge.
    pub x: f64,
    /// Pixels below the source's top edge.
    pub y: f64,
    /// `frame_seq` of the first frame that was sampled around it.
    pub since_frame: u64,
    /// Why it was chosen.
    pub reason: FixationReason,
}

crate::object!(Fixation {
    "id": id, "x": x, "y": y, "since_frame": since_frame, "reason": reason,
});

/// Where a view looks, and what else matters to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Gaze {
    /// The point.
    pub fixation: Fixation,
    /// How much each part of the image matters; `None` where all of it matters alike.
    pub relevance: Option<Arc<Relevance>>,
}

/// The point nearest to (`x`, `y`) that a fixation may take in a source of `extent`: inside the image, on a
/// grid of 1/16 pixel.
pub fn snapped(extent: Extent, x: f64, y: f64) -> (f64, f64) {
    let snap = |value: f64, side: u32| {
        let rounded = (value * STEPS_PER_PIXEL).round() / STEPS_PER_PIXEL;
        rounded.clamp(0.0, f64::from(side))
    };
    (snap(x, extent.width), snap(y, extent.height))
}
