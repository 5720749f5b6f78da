//! Looking around: what stands out competes for the eye, and what was looked at makes room.

use std::sync::Arc;

use super::fixation_state::{CENTRE, FixationState};
use super::inhibition::Inhibition;
use super::saliency::Saliency;
use crate::gaze::parameters::GazeParameters;
use crate::geometry::attention::{AttentionMap, Region};
use crate::geometry::coarse::CoarseLevel;
use crate::geometry::extent::Extent;
use crate::geometry::fixation::FixationReason;
use crate::geometry::pyramid::PyramidShape;
use crate::geometry::relevance::{Relevance, RelevanceMap};
use crate::geometry::weights::Weights;

/// The longest side of a relevance map that a view makes.
const RELEVANCE_SIDE_MAX: u32 = 64;

/// A relevance map made from what is seen is kept until a weight differs from it by this factor: what flickers below makes no new
/// plan.
const RELEVANCE_STEP: f64 = 1.19;

/// Change above which what was looked at is taken for something that moves.
const MOVING: f32 = 0.1;

/// Time in seconds beyond which pictures are taken to be so far apart.
const LONGEST_GAP_S: f32 = 1.0;

/// What is seen of a source, and what of it was looked at.
#[derive(Debug)]
pub(super) struct Scan {
    parameters: GazeParameters,
    extent: Extent,
    /// Side of a cell in pixels.
    cell_px: f64,
    saliency: Saliency,
    inhibition: Inhibition,
    /// What stands out, but for what is inhibited.
    inhibited: Vec<f32>,
    relevance: Option<Arc<Relevance>>,
    /// The picture that was last absorbed, and when.
    absorbed: Option<(u64, u64)>,
}

impl Scan {
    pub(super) fn new(parameters: GazeParameters, extent: Extent) -> Self {
        let saliency = Saliency::new(extent, parameters.centre_prior);
        let level = CoarseLevel::level_of(PyramidShape::new(extent));
        Self {
            parameters,
            extent,
            cell_px: f64::from(1u32 << level),
            inhibited: vec![0.0; saliency.grid().area()],
            saliency,
            inhibition: Inhibition::new(parameters.inhibition, parameters.inhibition_decay_ms),
            relevance: None,
            absorbed: None,
        }
    }

    /// The source has another extent: nothing of it has been seen yet. What mattered in the old picture does so until then.
    pub(super) fn resize(&mut self, extent: Extent) {
        let relevance = self.relevance.take();
        *self = Self { relevance, ..Self::new(self.parameters, extent) };
    }

    /// Weighs what stands out in the picture that is `seen`, or leaves all as it was weighed before.
    pub(super) fn weigh(&mut self, seen: Option<(&CoarseLevel, u64)>) {
        let Some((coarse, frame_seq)) = self.fitting(seen) else { return };
        self.saliency.weigh(coarse);
        let made = self.relevance_from(&self.weights(self.saliency.map()), frame_seq);
        let is_far = |old: &Arc<Relevance>, new: &Arc<Relevance>| {
            RELEVANCE_STEP < old.map.factor_to(&new.map)
        };
        let keeps = matches!((&self.relevance, &made), (Some(old), Some(new)) if !is_far(old, new));
        if !keeps {
            self.relevance = made;
        }
    }

    /// Takes the picture that is `seen` into what is known of the scene.
    pub(super) fn absorb(&mut self, seen: Option<(&CoarseLevel, u64)>, now_ns: u64) {
        let Some((coarse, frame_seq)) = self.fitting(seen) else { return };
        let (last, last_ns) = self.absorbed.unwrap_or((frame_seq.wrapping_sub(1), now_ns));
        if last != frame_seq {
            let elapsed_s = now_ns.saturating_sub(last_ns) as f32 * 1e-9;
            self.saliency.absorb(coarse, elapsed_s.min(LONGEST_GAP_S));
            self.absorbed = Some((frame_seq, now_ns));
        }
    }

    /// What stands out, as relevance.
    pub(super) fn relevance(&self) -> Option<Arc<Relevance>> {
        self.relevance.clone()
    }

    /// What a client attends to in frame `frame_seq`, as relevance; `before` if that is the same.
    pub(super) fn relevance_of(
        &self,
        map: &AttentionMap,
        frame_seq: u64,
        before: Option<Arc<Relevance>>,
    ) -> Option<Arc<Relevance>> {
        let made = self.relevance_from(&map.as_weights(), frame_seq);
        let is_same = matches!((&before, &made), (Some(old), Some(new)) if old.map == new.map);
        if is_same { before } else { made }
    }

    /// Looks at what stands out most where the eye has not just been, if that beats the present place.
    pub(super) fn choose(&mut self, state: &mut FixationState) {
        let now_ns = state.elapsed_ns();
        self.inhibition.forget(now_ns);
        self.follow();
        self.inhibited.copy_from_slice(self.saliency.map());
        let (width, radius) = (self.saliency.grid().width as usize, self.radius());
        self.inhibition.inhibit(&mut self.inhibited, width, radius, now_ns);
        if !state.may_move() {
            return;
        }
        let fixation = state.gaze().fixation;
        let is_own = fixation.reason == FixationReason::Saliency;
        let weights = self.weights(&self.inhibited);
        if let Some(peak) = weights.peak(self.extent) {
            let here = f64::from(weights.at(fixation.x, fixation.y));
            if !is_own || self.parameters.hysteresis * here < f64::from(peak.weight) {
                state.saccade(peak.x, peak.y, FixationReason::Saliency);
                self.leave_trace(state);
            }
        } else if !is_own {
            let (x, y) = state.pixel_from_share(CENTRE);
            state.saccade(x, y, FixationReason::Policy);
        }
    }

    /// Remembers that the eye looks where it does.
    pub(super) fn leave_trace(&mut self, state: &FixationState) {
        let fixation = state.gaze().fixation;
        let change = self.weights(self.saliency.change()).at(fixation.x, fixation.y);
        let (x, y) = (fixation.x / self.cell_px, fixation.y / self.cell_px);
        self.inhibition.look(x, y, MOVING < change, self.radius(), state.elapsed_ns());
    }

    /// Takes what is remembered of moving things along with them: to the middle of the change around it.
    fn follow(&mut self) {
        let radius = self.radius();
        let (grid, change) = (self.saliency.grid(), self.saliency.change());
        for trace in self.inhibition.traces_mut().iter_mut().filter(|trace| trace.follows) {
            (trace.x, trace.y) = middle_of_change(change, grid, (trace.x, trace.y), radius);
        }
    }

    fn relevance_from(&self, weights: &Weights<'_>, frame_seq: u64) -> Option<Arc<Relevance>> {
        let gain = self.parameters.relevance_gain;
        let grid = self.extent.in_cells(self.extent.longer_side().div_ceil(RELEVANCE_SIDE_MAX));
        let map = RelevanceMap::from_values(grid, &weights.pooled(self.extent, grid), gain)?;
        Some(Arc::new(Relevance { map, frame_seq }))
    }

    /// A picture of this source, not of one before.
    fn fitting<'a>(&self, seen: Option<(&'a CoarseLevel, u64)>) -> Option<(&'a CoarseLevel, u64)> {
        seen.filter(|(coarse, _)| coarse.extent() == self.saliency.grid())
    }

    fn weights<'a>(&self, cells: &'a [f32]) -> Weights<'a> {
        let grid = self.saliency.grid();
        let side = |cells: u32| f64::from(cells) * self.cell_px;
        let region = Region { x0: 0.0, y0: 0.0, x1: side(grid.width), y1: side(grid.height) };
        Weights { grid, region, cells }
    }

    /// Radius of what is inhibited, in cells; at least one, which is less than which cells cannot tell.
    fn radius(&self) -> f64 {
        let radius_px = self.parameters.inhibition_radius * f64::from(self.extent.longer_side());
        (radius_px / self.cell_px).max(1.0)
    }
}

/// The mean place of the change around `from`, weighed by a Gaussian of `radius`; `from` where nothing changes.
fn middle_of_change(change: &[f32], grid: Extent, from: (f64, f64), radius: f64) -> (f64, f64) {
    let near = |place: f64, count: u32| super::inhibition::reached(place, radius, count as usize);
    let bell = |offset: f64| (-0.5 * (offset / radius) * (offset / radius)).exp();
    let (mut sum, mut sum_x, mut sum_y) = (0.0, 0.0, 0.0);
    for row in near(from.1, grid.height) {
        let dy = row as f64 + 0.5 - from.1;
        for column in near(from.0, grid.width) {
            let dx = column as f64 + 0.5 - from.0;
            let change = f64::from(change[row * grid.width as usize + column]);
            let weight =
                if f64::from(MOVING) < change { change * bell(dx) * bell(dy) } else { 0.0 };
            sum += weight;
            sum_x += weight * dx;
            sum_y += weight * dy;
        }
    }
    if sum > 0.0 { (from.0 + sum_x / sum, from.1 + sum_y / sum) } else { from }
}
