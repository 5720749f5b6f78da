//! The peaks of a map, with inhibition between them, and which fovea goes to which.
//!
//! The strongest peak is taken, the map is inhibited around it, and so on, as the winner-take-all of Itti, Koch and Niebur, IEEE
//! PAMI 20 (1998), does from one fixation to the next. What lies under the same fovea is one thing, so that is how wide a peak is.

use arrayvec::ArrayVec;

use super::inhibition::{darken, gaussian};
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::{FOVEAE_MAX, Fixation, FixationReason, snapped};
use foveate_core::geometry::region::Region;
use foveate_core::geometry::weights::{Peak, Weights};

/// A peak gets a fovea of its own if more than this share of the map's greatest weight is left there by the stronger ones. A
/// Gaussian bump as wide as the inhibition leaves just that beside its own peak, so only wider things get several foveae.
const LEFT_MIN: f64 = 0.25;

/// Standard deviation of the inhibition around a peak, as a share of the longer side of the image.
const RADIUS_SHARE: f64 = 0.06;

/// Peaks of a map, the strongest first.
#[derive(Clone, Debug)]
pub(super) struct Peaks {
    /// Places that a fixation may have, all different, each with the weight of the map there.
    peaks: ArrayVec<Peak, FOVEAE_MAX>,
    /// Standard deviations of the inhibition along x and y, in pixels.
    radius: (f64, f64),
    /// The box around what the map has its weight in, in pixels, if that is one place.
    region: Option<Region>,
}

impl Peaks {
    /// Up to `count` peaks of `map` over the image; none if it has no weight there. Inhibition has a standard deviation of
    /// `radius_px`, but at least a cell.
    pub(super) fn of(map: &Weights<'_>, image: Extent, count: usize, radius_px: f64) -> Self {
        let Region { x0, y0, x1, y1 } = map.region;
        let cell = ((x1 - x0) / f64::from(map.grid.width), (y1 - y0) / f64::from(map.grid.height));
        let radius = (radius_px.max(cell.0), radius_px.max(cell.1));
        let mut found = Self { peaks: ArrayVec::new(), radius, region: None };
        let Some(mut newest) = map.peak(image) else { return found };
        let greatest = newest.weight;
        let is_worth_one = |peak: &Peak| LEFT_MIN * f64::from(greatest) < f64::from(peak.weight);
        found.add(image, newest);
        if count == 1 {
            found.region = map.only_place(image);
            return found;
        }
        let mut left = map.cells.to_vec();
        for _ in 1..count.min(FOVEAE_MAX) {
            let at = ((newest.x - x0) / cell.0, (newest.y - y0) / cell.1);
            let radius = (radius.0 / cell.0, radius.1 / cell.1);
            darken(&mut left, map.grid.width as usize, at, 1.0, radius);
            let peak = Weights { cells: &left, ..*map }.peak(image);
            let Some(peak) = peak.filter(is_worth_one) else { break };
            newest = peak;
            let weight = map.at(peak.x, peak.y).clamp(peak.weight, greatest);
            found.add(image, Peak { weight, ..peak });
        }
        if let [_] = found.peaks[..] {
            found.region = map.only_place(image);
        }
        found
    }

    /// The box around what the map has its weight in, if that is one place with one peak.
    pub(super) fn region(&self) -> Option<Region> {
        self.region
    }

    pub(super) fn as_slice(&self) -> &[Peak] {
        &self.peaks
    }

    /// Whether a place is so near to a peak that the same thing is at both: within the inhibition.
    pub(super) fn are_one(&self, (x, y): (f64, f64), peak: &Peak) -> bool {
        let (across, down) = ((x - peak.x) / self.radius.0, (y - peak.y) / self.radius.1);
        across * across + down * down <= 1.0
    }

    /// Weight of a peak as a share of the greatest.
    pub(super) fn share(&self, index: usize) -> f32 {
        self.peaks[index].weight / self.peaks[0].weight
    }

    /// The peak that each fovea goes for: of the foveae that somebody placed, the one and the peak that are nearest to each other,
    /// then the nearest of the rest, and so on; then the others in order, the strongest peaks first.
    pub(super) fn goals(&self, foveae: &[Fixation]) -> [Option<usize>; FOVEAE_MAX] {
        let mut goals = [None; FOVEAE_MAX];
        for _ in 0..foveae.len().min(self.peaks.len()) {
            let is_free = |(index, _): &(usize, &Fixation)| goals[*index].is_none();
            let pairs = foveae.iter().enumerate().filter(is_free).flat_map(|(index, fovea)| {
                let peaks = self.peaks.iter().enumerate();
                let free = peaks.filter(|(peak, _)| !goals.contains(&Some(*peak)));
                free.map(move |(peak, at)| (apart(fovea, at), index, peak))
            });
            let nearest = pairs.min_by(|a, b| a.0.total_cmp(&b.0));
            let Some((_, index, peak)) = nearest else { break };
            goals[index] = Some(peak);
        }
        goals
    }

    /// The worth of a place of `weight` to the fovea whose goal is the peak `goal`: the weight that inhibition by the other peaks leaves.
    pub(super) fn worth(&self, weight: f32, (x, y): (f64, f64), goal: Option<usize>) -> f64 {
        let others = self.peaks.iter().enumerate().filter(|(index, _)| Some(*index) != goal);
        let kept = |(_, peak): (usize, &Peak)| {
            1.0 - gaussian(x - peak.x, self.radius.0) * gaussian(y - peak.y, self.radius.1)
        };
        f64::from(weight) * others.map(kept).product::<f64>()
    }

    /// The worth of a fovea's goal; without a goal, the worth that its place must have.
    pub(super) fn worth_of(&self, goal: Option<usize>) -> f64 {
        let goal_worth = |index: usize| {
            let Peak { x, y, weight } = self.peaks[index];
            self.worth(weight, (x, y), goal)
        };
        goal.map_or(LEFT_MIN * f64::from(self.peaks[0].weight), goal_worth)
    }

    fn add(&mut self, image: Extent, peak: Peak) {
        let (x, y) = snapped(image, peak.x, peak.y);
        if self.peaks.iter().all(|other| (other.x, other.y) != (x, y)) {
            self.peaks.push(Peak { x, y, ..peak });
        }
    }
}

/// Distance of a fovea and a peak in pixels; equal for all peaks before the fovea has been placed.
fn apart(fovea: &Fixation, peak: &Peak) -> f64 {
    match fovea.reason {
        FixationReason::Policy => f64::INFINITY,
        _ => (peak.x - fovea.x).hypot(peak.y - fovea.y),
    }
}

/// Standard deviation of the inhibition around a peak of a map over an image, in pixels.
pub(super) fn peak_radius_px(image: Extent) -> f64 {
    RADIUS_SHARE * f64::from(image.longer_side())
}
