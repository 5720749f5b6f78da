//! Fixations and gazes.

use std::sync::Arc;

use arrayvec::ArrayVec;

use super::extent::Extent;
use super::region::Region;
use super::relevance::Relevance;

/// Fixations are quantized to this many positions per pixel, so that a plan is a function of few bits.
const STEPS_PER_PIXEL: f64 = 16.0;

/// Most of the budget, as a share, for all that somebody asked for. By measurement; see docs/reports/value.md.
const ASKED_SHARE: f64 = 0.8;

/// Most fixations of a view.
pub const FOVEAE_MAX: usize = 8;

/// Why a fixation was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FixationReason {
    /// The view's policy.
    Policy,
    /// A client's `look`.
    Look,
    /// The peak of a client's attention map.
    Attend,
    /// The need of the view, weighed by saliency.
    Saliency,
    /// The need of the view, weighed by channels.
    Relevance,
    /// The need of the view, at a place that has just changed.
    Changed,
    /// The need of the view, at a place that has not changed, and has not been seen yet, or not for a while.
    Unseen,
}

crate::names!(FixationReason {
    Policy = "policy", Look = "look", Attend = "attend", Saliency = "saliency",
    Relevance = "relevance", Changed = "changed", Unseen = "unseen",
});
crate::codes!(FixationReason {
    Policy = 0, Look = 1, Attend = 2, Saliency = 3, Relevance = 4, Changed = 5, Unseen = 6,
});

impl FixationReason {
    /// Whether the same map leads to both: what a view needs has changed or is unseen.
    pub fn has_map_of(self, other: Self) -> bool {
        let is_need = |reason| matches!(reason, Self::Changed | Self::Unseen);
        self == other || is_need(self) && is_need(other)
    }
}

/// A fixated point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fixation {
    /// Grows by one with every new fixation of the view, from 1.
    pub id: u64,
    /// Pixels right of the source's left edge.
    pub x: f64,
    /// Pixels below the source's top edge.
    pub y: f64,
    /// `frame_seq` of the first frame that was sampled around the point.
    pub since_frame: u64,
    /// Why the point was chosen.
    pub reason: FixationReason,
    /// How strongly a map asked for the point when it was chosen, as a share of the map's greatest weight, above 0 to 1; 1 for a point.
    pub weight: f32,
    /// The box around the point that somebody asked for, in whole pixels; `None` for a point alone.
    pub region: Option<Region>,
    /// Share of the budget that somebody asked for, above 0 to 1; `None` leaves it to the layout.
    pub share: Option<f64>,
}

crate::object!(Fixation {
    "id": id, "x": x, "y": y, "since_frame": since_frame, "reason": reason, "weight": weight;
    "box": region, "share": share,
} where Fixation::check);

impl Fixation {
    /// Checks numbers from JSON.
    fn check(&self) -> Result<(), &'static str> {
        // Numbers beyond the range of an f32 have become infinite, which JSON cannot express.
        if !(0.0..=1.0).contains(&self.weight) {
            return Err("invalid `weight` (expected 0 to 1)");
        }
        if self.share.is_some_and(|share| !is_share(share)) {
            return Err("invalid `share` (expected a number above 0 and up to 1)");
        }
        if self.region.is_some_and(|region| !region.has_area()) {
            return Err("invalid `box` (expected [x0, y0, x1, y1] with an area)");
        }
        Ok(())
    }

    /// The first fixation of a view, at a point in pixels.
    pub fn at((x, y): (f64, f64), reason: FixationReason) -> Self {
        Self { id: 1, x, y, since_frame: 1, reason, weight: 1.0, region: None, share: None }
    }

    /// Whether a client asked for the point or box, by a `look` or by a map with its weight in one place. It comes before all else.
    pub fn is_asked(&self) -> bool {
        self.region.is_some() || self.reason == FixationReason::Look
    }

    /// The target: the box between the middles of the outermost pixels of the region, or the point as a box without an area. A box
    /// that only touches the region is therefore apart from the target.
    pub fn target(&self) -> Region {
        let point = Region { x0: self.x, y0: self.y, x1: self.x, y1: self.y };
        let inside = |Region { x0, y0, x1, y1 }: Region| Region {
            x0: x0 + 0.5,
            y0: y0 + 0.5,
            x1: x1 - 0.5,
            y1: y1 - 0.5,
        };
        self.region.map_or(point, inside)
    }
}

impl Default for Fixation {
    /// The first, of the policy, at the top left corner.
    fn default() -> Self {
        Self::at((0.0, 0.0), FixationReason::Policy)
    }
}

/// A place that a plan is to show sharply.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Focus {
    /// Pixels right of the source's left edge.
    pub x: f64,
    /// Pixels below the source's top edge.
    pub y: f64,
    /// All that is to be shown, in source pixels; `None` for what lies around the point.
    pub region: Option<Region>,
    /// Share of the budget for it, 0 to 1; `None` for what the layout says.
    pub share: Option<f64>,
    /// Largest share of the budget for the region at full resolution; `None` for a fixation of the view's own choice.
    pub own_share: Option<f64>,
}

impl Focus {
    /// A point of a policy, which no client asked for.
    pub const fn at(x: f64, y: f64) -> Self {
        Self { x, y, region: None, share: None, own_share: None }
    }
}

/// Whether a number is a share of a budget that somebody may ask for.
pub fn is_share(share: f64) -> bool {
    0.0 < share && share <= 1.0
}

/// The fixations of a view, at least one, no two at the same place. A fixation keeps its place in the order until it, or one before it,
/// ends.
pub type Fixations = ArrayVec<Fixation, FOVEAE_MAX>;

/// Places of fixations, in pixels.
pub type Points = ArrayVec<(f64, f64), FOVEAE_MAX>;

/// Fixations and relevance of a view.
#[derive(Clone, Debug, PartialEq)]
pub struct Gaze {
    /// The fixated points.
    pub fixations: Fixations,
    /// Relevance of each part of the image; `None` where all of it matters equally.
    pub relevance: Option<Arc<Relevance>>,
}

impl Gaze {
    /// A gaze at one point.
    pub fn at(fixation: Fixation, relevance: Option<Arc<Relevance>>) -> Self {
        Self::new(Fixations::from_iter([fixation]), relevance)
    }

    /// A gaze at several points, at least one.
    pub fn new(fixations: Fixations, relevance: Option<Arc<Relevance>>) -> Self {
        Self { fixations, relevance }
    }

    /// The first fixation: of the fovea that has been there longest.
    pub fn first(&self) -> Fixation {
        self.fixations[0]
    }

    /// The fixation that was chosen last.
    pub fn newest(&self) -> Fixation {
        self.fixations.iter().copied().max_by_key(|fixation| fixation.id).expect("at least one")
    }

    /// The newest fixation that a client asked for.
    pub fn newest_asked(&self) -> Option<Fixation> {
        let asked = [FixationReason::Look, FixationReason::Attend];
        let asked = self.fixations.iter().filter(|fixation| asked.contains(&fixation.reason));
        asked.copied().max_by_key(|fixation| fixation.id)
    }

    /// The reason of the first fixation, if a map chose all fixations and weighs on the plan, too: not for a client's `look`, and not for a
    /// fixed place. Because maps flicker, a plan keeps a part of the plan before if both have the same leading reason.
    pub fn leading_reason(&self) -> Option<FixationReason> {
        let by_map = |fixation: &Fixation| {
            !matches!(fixation.reason, FixationReason::Policy | FixationReason::Look)
        };
        let is_led = self.relevance.is_some() && self.fixations.iter().all(by_map);
        is_led.then(|| self.first().reason)
    }

    /// The fixations as a plan takes them, in order.
    pub fn foci(&self) -> ArrayVec<Focus, FOVEAE_MAX> {
        let focus = |fixation: &Fixation| {
            let Fixation { x, y, region, share, .. } = *fixation;
            let own_share = fixation.is_asked().then_some(ASKED_SHARE);
            Focus { x, y, region, share, own_share }
        };
        self.fixations.iter().map(focus).collect()
    }

    /// The points, in order.
    pub fn points(&self) -> Points {
        self.fixations.iter().map(|fixation| (fixation.x, fixation.y)).collect()
    }
}

/// The nearest valid fixation in a source of `extent`: inside the image, on a grid of 1/16 pixel.
pub fn snapped(extent: Extent, x: f64, y: f64) -> (f64, f64) {
    let snap = |value: f64, side: u32| {
        let rounded = (value * STEPS_PER_PIXEL).round() / STEPS_PER_PIXEL;
        rounded.clamp(0.0, f64::from(side))
    };
    (snap(x, extent.width), snap(y, extent.height))
}
