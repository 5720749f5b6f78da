//! Latency compensation: what a client says about a frame, moved to where it is now. The frame loop moves a `look` once, when a view
//! takes it, and a policy its map at each frame, as long as the map counts. A motion that the client itself knows is
//! [another](foveate_core::ego): the server applies it before it answers, since the answer says where the points are.
//!
//! The whole picture moves by its global motion; an object that moves on its own takes a point, or a peak of a map, along.
//! The frame that is about to be looked at has not been seen yet: up to it, motion goes on as before.

use crate::feedback::Feedback;
use crate::motion::{Motion, Motions, Unknown, length};
use foveate_core::geometry::affine::Affine;
use foveate_core::geometry::attention::AttentionMap;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::{FOVEAE_MAX, Points};

use super::parameters::GazeParameters;
use super::peaks::{Peaks, peak_radius_px};

/// Distance in pixels between a place moved with the picture and with what is there, below which they count as the same.
const SAME_PX: f64 = 0.5;

/// How far the reach of a peak in its map is, in standard deviations of the inhibition around it.
const REACH: f64 = 2.0;

/// A map after compensation.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Placed {
    /// No motion, or unknown motion: the map is unchanged.
    AsItIs,
    /// The moved map.
    At(AttentionMap),
    /// The whole map has left the picture.
    Nowhere,
}

/// Motion since a frame.
struct Path<'a> {
    steps: &'a [Motion],
    /// Motion of the frame to come.
    next: Option<&'a Motion>,
}

impl<'a> Path<'a> {
    /// `None` if it is not known any more, or after a cut.
    fn since(motions: &'a Motions, frame_seq: u64) -> Option<Self> {
        // Motion over a gap is not the motion of one frame.
        let is_of_one = |newest: &&Motion| newest.frames().0 + 1 == newest.frames().1;
        // A place in the frame to come needs no further motion.
        let is_before = |newest: &&Motion| frame_seq <= newest.frames().1;
        let next = motions.newest().filter(is_of_one).filter(is_before);
        let path = Self { steps: motions.since(frame_seq)?, next };
        let is_cut = |step: &Motion| step.before_from_now() == Err(Unknown::Cut);
        let has_cut = path.steps().any(is_cut);
        (!has_cut).then_some(path)
    }

    fn steps(&self) -> impl Iterator<Item = &'a Motion> {
        self.steps.iter().chain(self.next)
    }

    fn global(&self) -> Affine {
        let steps = self.steps().filter_map(Motion::global);
        steps.fold(Affine::IDENTITY, Affine::then)
    }

    /// The place to which the content within `radius` pixels of a place moves.
    fn carried(&self, place: (f64, f64), radius: f64) -> (f64, f64) {
        self.steps().fold(place, |at, step| {
            let local = step.onward(at, radius);
            (at.0 + local.dx, at.1 + local.dy)
        })
    }
}

/// Feedback for frame `to_come`, of `extent`: the points of a `look` at an earlier frame are moved along with what has been there. The
/// client's own ego motion has moved places to frame `moved_to` already, if that is given.
pub fn compensated(
    feedback: Feedback,
    moved_to: Option<u64>,
    parameters: &GazeParameters,
    (extent, to_come): (Extent, u64),
    motions: Option<&Motions>,
) -> Feedback {
    match feedback {
        Feedback::Look { points, hold_ns, frame_seq, area } => {
            let frame_seq = moved_to.or(frame_seq);
            let known = frame_seq.zip(motions).filter(|_| parameters.compensation);
            let Some((from, motions)) = known else {
                return Feedback::Look { points, hold_ns, frame_seq, area };
            };
            let points = carried_points(&points, from, motions, 0.5 * peak_radius_px(extent));
            Feedback::Look { points, hold_ns, frame_seq: Some(to_come), area }
        }
        Feedback::Attend { map, frame_seq, lies_in } => {
            Feedback::Attend { map, frame_seq, lies_in: moved_to.or(lies_in) }
        }
        feedback => feedback,
    }
}

/// Points of frame `frame_seq` where they are in the frame to come; as they are, if nothing is known of it. What lies within
/// `radius` pixels of one moves it.
pub fn carried_points(points: &Points, frame_seq: u64, motions: &Motions, radius: f64) -> Points {
    match Path::since(motions, frame_seq) {
        Some(path) => points.iter().map(|point| path.carried(*point, radius)).collect(),
        None => points.clone(),
    }
}

/// Moves a map of frame `frame_seq` of an image to the frame to come. Its peaks are found as those of fixations are, with an
/// inhibition of `radius_px`.
pub(super) fn placed(
    map: &AttentionMap,
    frame_seq: u64,
    motions: &Motions,
    image: Extent,
    radius_px: f64,
) -> Placed {
    let Some(path) = Path::since(motions, frame_seq) else { return Placed::AsItIs };
    let weights = map.as_weights();
    let peaks = Peaks::of(&weights, image, FOVEAE_MAX, radius_px);
    let global = path.global();
    let Some(back) = global.inverse() else { return Placed::AsItIs };
    // Shifts of moving objects, and their earlier places.
    let mut things = arrayvec::ArrayVec::<MovingObject, FOVEAE_MAX>::new();
    for peak in peaks.as_slice() {
        let from = (peak.x, peak.y);
        let (to, ground) = (path.carried(from, 0.5 * radius_px), global.at(from));
        let is_own = SAME_PX < length(to.0 - ground.0, to.1 - ground.1);
        let shift = if is_own { Some((to.0 - from.0, to.1 - from.1)) } else { None };
        things.push(MovingObject { from, shift });
    }
    if global == Affine::IDENTITY && things.iter().all(|thing| thing.shift.is_none()) {
        return Placed::AsItIs;
    }
    let owner = |place: (f64, f64)| {
        let off = |thing: &MovingObject| length(place.0 - thing.from.0, place.1 - thing.from.1);
        let nearest = things.iter().enumerate().map(|(index, thing)| (index, off(thing)));
        let nearest = nearest.min_by(|a, b| a.1.total_cmp(&b.1));
        nearest.filter(|(_, off)| *off < REACH * radius_px).map(|(index, _)| index)
    };
    let with_ground = |index: &usize| things[*index].shift.is_none();
    let moved = map.resampled(image, map.region(), |place| {
        let ground = back.at(place);
        let is_ground = owner(ground).as_ref().is_none_or(with_ground);
        let mut weight = if is_ground { weights.between(ground) } else { 0.0 };
        for (index, thing) in things.iter().enumerate() {
            let Some((dx, dy)) = thing.shift else { continue };
            let from = (place.0 - dx, place.1 - dy);
            if owner(from) == Some(index) {
                weight = weight.max(weights.between(from));
            }
        }
        weight
    });
    moved.map_or(Placed::Nowhere, Placed::At)
}

/// A peak of a map.
#[derive(Clone, Copy, Debug)]
struct MovingObject {
    from: (f64, f64),
    /// Motion against the picture; `None` if the object moves with the picture.
    shift: Option<(f64, f64)>,
}
