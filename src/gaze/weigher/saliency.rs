//! Saliency as a weight.

use std::sync::Arc;

use arrayvec::ArrayVec;

use super::{fitting, relevance_of, settle};
use crate::GazeParameters;
use crate::fixation_state::FixationState;
use crate::inhibition::{Inhibition, darken, reached};
use crate::motion::Unknown;
use crate::peaks::peak_radius_px;
use crate::relevance::seen::Seen;
use crate::saliency::Saliency;
use foveate_core::geometry::affine::Affine;
use foveate_core::geometry::coarse::{COARSE_SIDE_MAX, CoarseLevel};
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::{FixationReason, Points};
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_core::geometry::region::Region;
use foveate_core::geometry::relevance::Relevance;
use foveate_core::geometry::tile::TileSet;
use foveate_core::geometry::weights::Weights;

/// Longest time between two pictures that counts, in seconds.
const LONGEST_GAP_S: f32 = 1.0;

/// Change above which a fixated place counts as moving.
const MOVING: f32 = 0.1;

/// How much of its weight a place loses that was looked at. Below all of it, so that what is clearly better is returned to, as 20 % of
/// people's fixations are returns: Wilming, Harst, Schmidt and König, PLoS Computational Biology 9 (2013).
const INHIBITION: f64 = 0.9;

/// Time in milliseconds in which that decays to 1/e. It is seen for a few seconds: Klein, "Inhibition of return", Trends in Cognitive
/// Sciences 4 (2000).
const INHIBITION_DECAY_MS: u32 = 1500;

/// Saliency of a source.
#[derive(Debug)]
pub(crate) struct SaliencyWeigher {
    parameters: GazeParameters,
    extent: Extent,
    /// Most fixations at a time.
    foveae: usize,
    /// Side of a texel of the coarse level in pixels.
    texel_px: f64,
    saliency: Saliency,
    /// Places that were looked at, in texels.
    inhibition: Inhibition,
    relevance: Option<Arc<Relevance>>,
    /// `frame_seq` and time of the newest picture.
    absorbed: Option<(u64, u64)>,
}

impl SaliencyWeigher {
    /// A weigher for a source of `extent`, before its first picture.
    pub(crate) fn new(parameters: GazeParameters, extent: Extent, foveae: usize) -> Self {
        let level = CoarseLevel::level_of(PyramidShape::new(extent));
        Self {
            parameters,
            extent,
            texel_px: f64::from(1u32 << level),
            saliency: Saliency::new(extent, parameters.centre_prior),
            inhibition: Inhibition::new(INHIBITION, INHIBITION_DECAY_MS, foveae),
            foveae,
            relevance: None,
            absorbed: None,
        }
    }

    pub(super) fn relevance(&self) -> Option<Arc<Relevance>> {
        self.relevance.clone()
    }

    /// Saliency as of the newest picture that was weighed.
    pub(crate) fn saliency(&self) -> &Saliency {
        &self.saliency
    }

    /// Takes in a picture, once; `now_ns` is its time. If `weighs`, saliency becomes that of this picture.
    pub(crate) fn see(&mut self, seen: Option<Seen<'_>>, weighs: bool, now_ns: u64) {
        let Some(seen) = fitting(seen, self.saliency.grid()) else { return };
        let Seen { coarse, frame_seq, .. } = seen;
        let (last, last_ns) = self.absorbed.unwrap_or((frame_seq.wrapping_sub(1), now_ns));
        if last != frame_seq {
            self.align(&seen, last);
        }
        if weighs {
            self.saliency.weigh(coarse);
            let weights = self.weights(self.saliency.map());
            let made = relevance_of(&weights, self.extent, self.parameters.relevance_gain);
            settle(&mut self.relevance, made, frame_seq);
        }
        if last != frame_seq {
            let elapsed_s = now_ns.saturating_sub(last_ns) as f32 * 1e-9;
            self.saliency.absorb(coarse, elapsed_s.min(LONGEST_GAP_S));
            self.absorbed = Some((frame_seq, now_ns));
        }
    }

    /// Moves the model of the scene, and the traces of what was looked at, along with the picture in `seen` from that of frame `last`.
    fn align(&mut self, seen: &Seen<'_>, last: u64) {
        if self.absorbed.is_none() {
            return;
        }
        let steps = seen.motion.and_then(|motions| motions.since(last)).unwrap_or_default();
        for step in steps.iter().filter(|step| step.frames().1 <= seen.frame_seq) {
            let before_from_now = match step.before_from_now() {
                Ok(map) => Some(map.in_units_of(self.texel_px)),
                // Unknown motion counts as no motion.
                Err(Unknown::NoTexture) => Some(Affine::IDENTITY),
                Err(Unknown::Cut) => None,
            };
            self.saliency.follow(before_from_now);
            if let Some(moved) = before_from_now.and_then(|map| map.inverse()) {
                for trace in self.inhibition.traces_mut() {
                    (trace.x, trace.y) = moved.at((trace.x, trace.y));
                }
            }
        }
    }

    pub(super) fn apply_mask(&mut self, texels: &TileSet) {
        self.saliency.apply_mask(texels);
        self.relevance = None;
    }

    pub(super) fn resize(&mut self, extent: Extent) {
        *self = Self::new(self.parameters, extent, self.foveae);
    }

    /// Moves to the most salient places that were not looked at just now, where they beat the current ones by the hysteresis.
    pub(super) fn choose(
        &mut self,
        avoided: &Points,
        state: &mut FixationState,
        reason: FixationReason,
    ) {
        self.choose_inhibited(self.saliency.map().to_vec(), avoided, state, reason);
    }

    /// Chooses fixations by the weights of cells of the picture. A fixation goes to the most salient place of its cell, not to the middle.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "cells of a grid")]
    pub(super) fn choose_by(
        &mut self,
        weights: &Weights<'_>,
        avoided: &Points,
        state: &mut FixationState,
        reason: FixationReason,
    ) {
        let columns = self.saliency.grid().width as usize;
        let cells = weights.grid;
        let side = (weights.region.x1 - weights.region.x0) / f64::from(cells.width);
        // Along either axis.
        let cell_of = |texel: u32| ((f64::from(texel) + 0.5) * self.texel_px / side) as usize;
        let cell_of: ArrayVec<usize, { COARSE_SIDE_MAX as usize }> =
            (0..self.saliency.grid().longer_side()).map(cell_of).collect();
        let map = self.saliency.map();
        let cell = |texel: usize| {
            cell_of[texel / columns] * cells.width as usize + cell_of[texel % columns]
        };
        let mut greatest = vec![f32::MIN_POSITIVE; cells.area()];
        for (texel, salient) in map.iter().enumerate() {
            greatest[cell(texel)] = greatest[cell(texel)].max(*salient);
        }
        let weighed = map.iter().enumerate().map(|(texel, salient)| {
            weights.cells[cell(texel)] * (1.0 + 3.0 * salient / greatest[cell(texel)])
        });
        let weighed = weighed.collect();
        self.choose_inhibited(weighed, avoided, state, reason);
    }

    /// Inhibits the weights of texels, and moves by them.
    fn choose_inhibited(
        &mut self,
        mut weights: Vec<f32>,
        avoided: &Points,
        state: &mut FixationState,
        reason: FixationReason,
    ) {
        let now_ns = state.elapsed_ns();
        self.inhibition.forget(now_ns);
        self.follow();
        let (width, radius) = (self.saliency.grid().width as usize, self.radius());
        self.inhibition.inhibit(&mut weights, width, radius, now_ns);
        for (x, y) in avoided {
            let place = (x / self.texel_px, y / self.texel_px);
            darken(&mut weights, width, place, 1.0, (radius, radius));
        }
        if state.may_move() {
            for place in state.go_to_peaks(&self.weights(&weights), |_, _| reason) {
                self.leave_trace(place, now_ns);
            }
        }
    }

    /// Inhibits a place in pixels from now on.
    fn leave_trace(&mut self, (x, y): (f64, f64), now_ns: u64) {
        let change = self.weights(self.saliency.change()).at(x, y);
        let (x, y) = (x / self.texel_px, y / self.texel_px);
        self.inhibition.look(x, y, MOVING < change, self.radius(), now_ns);
    }

    /// Moves the traces of moving things along with them: to the centre of the change around each.
    fn follow(&mut self) {
        let radius = self.radius();
        let (grid, change) = (self.saliency.grid(), self.saliency.change());
        for trace in self.inhibition.traces_mut().iter_mut().filter(|trace| trace.follows) {
            (trace.x, trace.y) = centroid_of_change(change, grid, (trace.x, trace.y), radius);
        }
    }

    /// Radius of inhibition in texels, at least 1.
    fn radius(&self) -> f64 {
        (peak_radius_px(self.extent) / self.texel_px).max(1.0)
    }

    fn weights<'a>(&self, texels: &'a [f32]) -> Weights<'a> {
        let grid = self.saliency.grid();
        let side = |texels: u32| f64::from(texels) * self.texel_px;
        let region = Region { x0: 0.0, y0: 0.0, x1: side(grid.width), y1: side(grid.height) };
        Weights { grid, region, cells: texels }
    }
}

/// Centroid of the change around `from`, weighted by a Gaussian of `radius`; `from` where nothing changes.
fn centroid_of_change(change: &[f32], grid: Extent, from: (f64, f64), radius: f64) -> (f64, f64) {
    let near = |place: f64, count: u32| reached(place, radius, count as usize);
    let gaussian = |offset: f64| (-0.5 * (offset / radius) * (offset / radius)).exp();
    let (mut sum, mut sum_x, mut sum_y) = (0.0, 0.0, 0.0);
    for row in near(from.1, grid.height) {
        let dy = row as f64 + 0.5 - from.1;
        for column in near(from.0, grid.width) {
            let dx = column as f64 + 0.5 - from.0;
            let change = f64::from(change[row * grid.width as usize + column]);
            let weight =
                if f64::from(MOVING) < change { change * gaussian(dx) * gaussian(dy) } else { 0.0 };
            sum += weight;
            sum_x += weight * dx;
            sum_y += weight * dy;
        }
    }
    if sum > 0.0 { (from.0 + sum_x / sum, from.1 + sum_y / sum) } else { from }
}
