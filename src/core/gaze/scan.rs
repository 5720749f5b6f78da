//! Free viewing: salient places compete for the fixations, and visited ones are inhibited.

use std::sync::Arc;

use arrayvec::ArrayVec;

use super::compensation::{Placed, placed};
use super::fixation_state::FixationState;
use super::inhibition::{Inhibition, darken};
use super::peaks::Peaks;
use super::saliency::Saliency;
use crate::gaze::GazeParameters;
use crate::geometry::affine::Affine;
use crate::geometry::attention::AttentionMap;
use crate::geometry::coarse::{COARSE_SIDE_MAX, CoarseLevel};
use crate::geometry::extent::Extent;
use crate::geometry::fixation::{FixationReason, Points};
use crate::geometry::pyramid::PyramidShape;
use crate::geometry::region::Region;
use crate::geometry::relevance::{Relevance, RelevanceMap};
use crate::geometry::tile::TileSet;
use crate::geometry::weights::Weights;
use crate::layout::adaptive::demand::{Demand, NEED_CELL_SIDE};
use crate::motion::{Motions, Unknown};
use crate::relevance::seen::Seen;

/// Longest side of a relevance map made by a view.
const RELEVANCE_SIDE_MAX: u32 = 64;

/// Values below this share of a map's peak count as this share: in saliency they are noise, which moves no token then; and what a
/// consumer's map leaves out does not stay coarse for good.
const RELEVANCE_FLOOR: f32 = 0.05;

/// A saliency-based relevance map is kept until some weight differs from it by this factor, so that flicker makes no new plan.
const RELEVANCE_STEP: f64 = 1.19;

/// Change above which a fixated place counts as moving.
const MOVING: f32 = 0.1;

/// Longest time between two pictures that counts, in seconds.
const LONGEST_GAP_S: f32 = 1.0;

/// Saliency of a source and inhibition of what was looked at.
#[derive(Debug)]
pub(super) struct Scan {
    parameters: GazeParameters,
    extent: Extent,
    /// Most fixations at a time.
    foveae: usize,
    /// Side of a cell in pixels.
    cell_px: f64,
    saliency: Saliency,
    inhibition: Inhibition,
    /// Inhibition and relevance before the newest decision.
    before: (Inhibition, Option<Arc<Relevance>>),
    /// What foveae of other policies look at, in pixels.
    avoided: Points,
    /// Saliency less inhibition.
    inhibited: Vec<f32>,
    relevance: Option<Arc<Relevance>>,
    /// `frame_seq` and time of the picture that was last absorbed.
    absorbed: Option<(u64, u64)>,
    /// `frame_seq` of the picture that the model of the scene was last moved to; 0 before any.
    aligned: u64,
}

impl Scan {
    pub(super) fn new(parameters: GazeParameters, extent: Extent, foveae: usize) -> Self {
        let saliency = Saliency::new(extent, parameters.centre_prior);
        let level = CoarseLevel::level_of(PyramidShape::new(extent));
        let GazeParameters { inhibition, inhibition_decay_ms, .. } = parameters;
        let inhibition = Inhibition::new(inhibition, inhibition_decay_ms, foveae);
        Self {
            parameters,
            extent,
            foveae,
            cell_px: f64::from(1u32 << level),
            inhibited: vec![0.0; saliency.grid().area()],
            saliency,
            before: (inhibition.clone(), None),
            inhibition,
            avoided: Points::new(),
            relevance: None,
            absorbed: None,
            aligned: 0,
        }
    }

    /// Does not go to these places, in pixels, as long as others look there.
    pub(super) fn avoid(&mut self, places: &[(f64, f64)]) {
        self.avoided = places.iter().copied().collect();
    }

    /// Starts over for a source of another extent, but keeps the old relevance until a picture of it has been seen.
    pub(super) fn resize(&mut self, extent: Extent) {
        let relevance = self.relevance.take();
        *self = Self { relevance, ..Self::new(self.parameters, extent, self.foveae) };
    }

    /// Forgets what was seen in `texels`, which masks cover from now on, and the relevance made of it.
    pub(super) fn hide(&mut self, texels: &TileSet) {
        self.saliency.hide(texels);
        self.relevance = None;
    }

    /// A decision by `seen` follows, which [`take_back`](Self::take_back) may take back.
    pub(super) fn begin_decision(&mut self, seen: Option<Seen<'_>>) {
        if let Some(seen) = self.fitting(seen) {
            self.align(&seen);
        }
        let (inhibition, relevance) = &mut self.before;
        inhibition.clone_from(&self.inhibition);
        relevance.clone_from(&self.relevance);
    }

    /// What was looked at, and relevance, are as before the newest decision.
    pub(super) fn take_back(&mut self) {
        let (inhibition, relevance) = &self.before;
        self.inhibition.clone_from(inhibition);
        self.relevance.clone_from(relevance);
        self.saliency.take_back();
    }

    /// Updates saliency from the picture in `seen`, if there is one that fits. At each decision, before anything else asks for it.
    pub(super) fn weigh_saliency(&mut self, seen: Option<Seen<'_>>) {
        let Some(seen) = self.fitting(seen) else { return };
        self.align(&seen);
        self.saliency.weigh(seen.coarse);
    }

    /// Updates relevance from saliency, which is that of the picture in `seen`.
    pub(super) fn weigh(&mut self, seen: Option<Seen<'_>>) {
        let Some(Seen { frame_seq, .. }) = self.fitting(seen) else { return };
        let made = self.relevance_from(&self.weights(self.saliency.map()), frame_seq);
        settle(&mut self.relevance, made);
    }

    /// Takes the picture in `seen` into the model of the scene, once.
    pub(super) fn absorb(&mut self, seen: Option<Seen<'_>>, now_ns: u64) {
        let Some(seen) = self.fitting(seen) else { return };
        self.align(&seen);
        let Seen { coarse, frame_seq, .. } = seen;
        let (last, last_ns) = self.absorbed.unwrap_or((frame_seq.wrapping_sub(1), now_ns));
        if last != frame_seq {
            let elapsed_s = now_ns.saturating_sub(last_ns) as f32 * 1e-9;
            self.saliency.absorb(coarse, elapsed_s.min(LONGEST_GAP_S));
            self.absorbed = Some((frame_seq, now_ns));
        }
    }

    /// Moves the model of the scene, and the traces of what was looked at, along with the picture in `seen`, once.
    fn align(&mut self, seen: &Seen<'_>) {
        let Some((last, _)) = self.absorbed else { return };
        if last == seen.frame_seq
            || std::mem::replace(&mut self.aligned, seen.frame_seq) == seen.frame_seq
        {
            return;
        }
        let steps = seen.motion.and_then(|motions| motions.since(last)).unwrap_or_default();
        for step in steps.iter().filter(|step| step.frames().1 <= seen.frame_seq) {
            let before_from_now = match step.before_from_now() {
                Ok(map) => Some(map.in_units_of(self.cell_px)),
                // Nothing is known of how it moved, so it counts as still.
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

    /// Saliency as of the last decision.
    pub(super) fn saliency(&self) -> &Saliency {
        &self.saliency
    }

    /// Saliency as relevance.
    pub(super) fn relevance(&self) -> Option<Arc<Relevance>> {
        self.relevance.clone()
    }

    /// Relevance of a client's map, made from frame `frame_seq`; `before` if its weights are the same.
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

    /// Moves to the most salient places that are not inhibited, where they beat the current ones by the hysteresis.
    pub(super) fn choose(&mut self, state: &mut FixationState) {
        self.inhibited.copy_from_slice(self.saliency.map());
        self.choose_inhibited(state, FixationReason::Saliency);
    }

    /// The same by the weights of cells of the picture. Within a cell the most salient place is looked at, not the middle.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "cells of a grid")]
    pub(super) fn choose_by(&mut self, weights: &Weights<'_>, state: &mut FixationState) {
        let columns = self.saliency.grid().width as usize;
        let cells = weights.grid;
        let side = (weights.region.x1 - weights.region.x0) / f64::from(cells.width);
        // Along either axis.
        let cell_of = |texel: u32| ((f64::from(texel) + 0.5) * self.cell_px / side) as usize;
        let cell_of: ArrayVec<usize, { COARSE_SIDE_MAX as usize }> =
            (0..self.saliency.grid().longer_side()).map(cell_of).collect();
        let mut greatest = vec![f32::MIN_POSITIVE; cells.area()];
        let rows = self.saliency.map().chunks_exact(columns).zip(&cell_of);
        for (map, row) in rows.clone() {
            let greatest = &mut greatest[row * cells.width as usize..];
            for (salient, column) in map.iter().zip(&cell_of) {
                greatest[*column] = greatest[*column].max(*salient);
            }
        }
        for ((map, row), inhibited) in rows.zip(self.inhibited.chunks_exact_mut(columns)) {
            let first = row * cells.width as usize;
            for ((weight, salient), column) in inhibited.iter_mut().zip(map).zip(&cell_of) {
                let cell = first + column;
                *weight = weights.cells[cell] * (1.0 + 3.0 * salient / greatest[cell]);
            }
        }
        self.choose_inhibited(state, FixationReason::Relevance);
    }

    /// Moves to what a view needs most. What it has been shown it needs no more, so nothing is inhibited.
    pub(super) fn choose_needed(&mut self, demand: &Demand, state: &mut FixationState) {
        if !state.may_move() {
            return;
        }
        let mut need = demand.need();
        let side = f64::from(NEED_CELL_SIDE);
        let radius = self.radius_px() / side;
        for (x, y) in &self.avoided {
            let place = (x / side, y / side);
            darken(&mut need.cells, need.grid.width as usize, place, 1.0, (radius, radius));
        }
        let weights = need.weights();
        let peaks = self.peaks_of(&weights);
        let reason = FixationReason::Relevance;
        if peaks.as_slice().is_empty() {
            state.go_to_middle_unless(reason);
        } else {
            state.follow(&weights, &peaks, reason, None);
        }
    }

    /// Inhibits the weights in `inhibited`, and moves by them.
    fn choose_inhibited(&mut self, state: &mut FixationState, reason: FixationReason) {
        let now_ns = state.elapsed_ns();
        self.inhibition.forget(now_ns);
        self.follow();
        let (width, radius) = (self.saliency.grid().width as usize, self.radius());
        self.inhibition.inhibit(&mut self.inhibited, width, radius, now_ns);
        for (x, y) in &self.avoided {
            let place = (x / self.cell_px, y / self.cell_px);
            darken(&mut self.inhibited, width, place, 1.0, (radius, radius));
        }
        if !state.may_move() {
            return;
        }
        let weights = self.weights(&self.inhibited);
        let peaks = self.peaks_of(&weights);
        if peaks.as_slice().is_empty() {
            state.go_to_middle_unless(reason);
        } else {
            for place in state.follow(&weights, &peaks, reason, None) {
                self.leave_trace(place, now_ns);
            }
        }
    }

    /// As many peaks of a map of this source as there may be fixations.
    pub(super) fn peaks_of(&self, map: &Weights<'_>) -> Peaks {
        Peaks::of(map, self.extent, self.foveae, self.radius_px())
    }

    /// A client's map of frame `frame_seq` of this source, moved to the frame to come.
    pub(super) fn placed(&self, map: &AttentionMap, frame_seq: u64, motions: &Motions) -> Placed {
        placed(map, frame_seq, motions, self.extent, self.radius_px())
    }

    /// Inhibits a place in pixels from now on.
    pub(super) fn leave_trace(&mut self, (x, y): (f64, f64), now_ns: u64) {
        let change = self.weights(self.saliency.change()).at(x, y);
        let (x, y) = (x / self.cell_px, y / self.cell_px);
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

    fn relevance_from(&self, weights: &Weights<'_>, frame_seq: u64) -> Option<Arc<Relevance>> {
        let gain = self.parameters.relevance_gain;
        let grid = self.extent.in_cells(self.extent.longer_side().div_ceil(RELEVANCE_SIDE_MAX));
        let mut values = weights.pooled(self.extent, grid);
        let least = RELEVANCE_FLOOR * values.iter().copied().fold(0.0, f32::max);
        values.iter_mut().for_each(|value| *value = value.max(least));
        let map = RelevanceMap::from_values(grid, &values, gain)?;
        Some(Arc::new(Relevance { map, frame_seq }))
    }

    /// A picture of this source, not of one before.
    pub(super) fn fitting<'a>(&self, seen: Option<Seen<'a>>) -> Option<Seen<'a>> {
        seen.filter(|seen| seen.coarse.extent() == self.saliency.grid())
    }

    fn weights<'a>(&self, cells: &'a [f32]) -> Weights<'a> {
        let grid = self.saliency.grid();
        let side = |cells: u32| f64::from(cells) * self.cell_px;
        let region = Region { x0: 0.0, y0: 0.0, x1: side(grid.width), y1: side(grid.height) };
        Weights { grid, region, cells }
    }

    /// Radius of inhibition in cells, at least 1.
    fn radius(&self) -> f64 {
        (self.radius_px() / self.cell_px).max(1.0)
    }

    fn radius_px(&self) -> f64 {
        self.parameters.inhibition_radius * f64::from(self.extent.longer_side())
    }
}

/// Replaces `relevance` by what was made of a newer picture, unless that is hardly any other.
pub(super) fn settle(relevance: &mut Option<Arc<Relevance>>, made: Option<Arc<Relevance>>) {
    let is_near = |old: &Relevance, new: &Relevance| old.map.factor_to(&new.map) <= RELEVANCE_STEP;
    let keeps = matches!((&*relevance, &made), (Some(old), Some(new)) if is_near(old, new));
    if !keeps {
        *relevance = made;
    }
}

/// Centroid of the change around `from`, weighted by a Gaussian of `radius`; `from` where nothing changes.
fn centroid_of_change(change: &[f32], grid: Extent, from: (f64, f64), radius: f64) -> (f64, f64) {
    let near = |place: f64, count: u32| super::inhibition::reached(place, radius, count as usize);
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
