//! Fixations and gazes.

use std::sync::Arc;

use arrayvec::ArrayVec;
use serde_core::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::extent::Extent;
use super::region::Region;
use super::relevance::{Relevance, RelevanceMap};

/// Fixations are quantized to this many positions per pixel, so that a plan is a function of few bits.
const STEPS_PER_PIXEL: f64 = 16.0;

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
    /// Saliency.
    Saliency,
    /// What a scorer makes of the channels.
    Relevance,
}

crate::names!(FixationReason {
    Policy = "policy", Look = "look", Attend = "attend", Saliency = "saliency",
    Relevance = "relevance",
});
crate::codes!(FixationReason { Policy = 0, Look = 1, Attend = 2, Saliency = 3, Relevance = 4 });

/// A fixated point.
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
    /// How strongly the map asked for it when it was chosen, as a share of the map's greatest weight, above 0 to 1; 1 for a point.
    pub weight: f32,
    /// What somebody asked to see around it; `None` if it is a point.
    pub region: Option<Region>,
    /// Share of the budget that its block gets, 0 to 1; `None` for what the layout says.
    pub share: Option<f64>,
}

impl Default for Fixation {
    /// The first, of the policy, at the top left corner.
    fn default() -> Self {
        Self {
            id: 1,
            x: 0.0,
            y: 0.0,
            since_frame: 1,
            reason: FixationReason::Policy,
            weight: 1.0,
            region: None,
            share: None,
        }
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
}

impl Focus {
    /// A point.
    pub const fn at(x: f64, y: f64) -> Self {
        Self { x, y, region: None, share: None }
    }
}

impl From<&Fixation> for Focus {
    fn from(fixation: &Fixation) -> Self {
        let Fixation { x, y, region, share, .. } = *fixation;
        Self { x, y, region, share }
    }
}

/// The JSON of a fixation.
struct FixationObject {
    id: u64,
    x: f64,
    y: f64,
    since_frame: u64,
    reason: FixationReason,
    weight: f32,
    region: Option<Region>,
    share: Option<f64>,
}

crate::object!(FixationObject {
    "id": id, "x": x, "y": y, "since_frame": since_frame, "reason": reason, "weight": weight;
    "region": region, "share": share,
});

impl Serialize for Fixation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { id, x, y, since_frame, reason, weight, region, share } = *self;
        FixationObject { id, x, y, since_frame, reason, weight, region, share }
            .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Fixation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = FixationObject::deserialize(deserializer)?;
        let FixationObject { id, x, y, since_frame, reason, weight, region, share } = object;
        // Numbers beyond those of an f32 have become infinite, which JSON cannot say.
        if !(0.0..=1.0).contains(&weight) {
            return Err(de::Error::custom("a `weight` of 0 to 1 is expected"));
        }
        if !region.is_none_or(Region::has_area) {
            return Err(de::Error::custom("a `region` with an area is expected"));
        }
        if !share.is_none_or(|share| (0.0..=1.0).contains(&share)) {
            return Err(de::Error::custom("a `share` of 0 to 1 is expected"));
        }
        Ok(Self { id, x, y, since_frame, reason, weight, region, share })
    }
}

/// The fixations of a view, at least one, no two at the same place. A fovea keeps its place in the order for as long as it lasts,
/// and until one before it ends.
pub type Fixations = ArrayVec<Fixation, FOVEAE_MAX>;

/// Fixations as a plan takes them.
pub type Foci = ArrayVec<Focus, FOVEAE_MAX>;

/// Places of fixations, in pixels.
pub type Points = ArrayVec<(f64, f64), FOVEAE_MAX>;

/// Fixations and relevance of a view.
#[derive(Clone, Debug, PartialEq)]
pub struct Gaze {
    /// The points.
    pub fixations: Fixations,
    /// Relevance of each part of the image; `None` where all of it matters alike.
    pub relevance: Option<Arc<Relevance>>,
}

impl Gaze {
    /// A gaze at one point.
    pub fn at(fixation: Fixation, relevance: Option<Arc<Relevance>>) -> Self {
        Self { fixations: Fixations::from_iter([fixation]), relevance }
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

    /// The relevance map, where a map chose all of the fixations, too: not a client's `look`, and not a fixed place.
    pub fn leading_map(&self) -> Option<&RelevanceMap> {
        let by_map = |fixation: &Fixation| {
            matches!(fixation.reason, FixationReason::Attend | FixationReason::Saliency)
        };
        self.relevance
            .as_ref()
            .filter(|_| self.fixations.iter().all(by_map))
            .map(|given| &given.map)
    }

    /// The fixations as a plan takes them, in order.
    pub fn foci(&self) -> Foci {
        self.fixations.iter().map(Focus::from).collect()
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
