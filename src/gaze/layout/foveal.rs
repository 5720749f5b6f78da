//! Full resolution at the fixation, coarser with eccentricity, as in the primate retina and cortex.
//!
//! The tokens are leaves of a quadtree over the pyramid-aligned patch grid. Starting from the finest level with at
//! most 16 patches, the leaf with the highest priority is split until the first split that would exceed the
//! budget. Priority is a leaf's side in pixels times cortical magnification, M(e) = M0 / (e + e0), so that at the
//! end no leaf is large for its eccentricity; beside a fixation e0 is never wide, so that what is looked at is sharp. Around
//! what somebody asked for magnification falls with the square of the distance, and no map weighs on it.
//! See Schwartz, "Spatial mapping in the primate sensory projection", Biological Cybernetics 25 (1977), and Van Essen,
//! Newsome and Maunsell, Vision Research 24 (1984).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::heap_key;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation;
use foveate_core::geometry::patch::{Patch, PatchGrids, PatchSet};
use foveate_core::geometry::plan::{Token, TokenPlan};
use foveate_core::geometry::region::Region;
use foveate_core::geometry::relevance::RelevanceMap;

/// Most patches that the quadtree starts from.
const ROOTS_MAX: usize = 16;

/// The eccentricity in pixels at which magnification has halved, where nothing else is asked for: 3 % of the
/// longer side, but no more than three patches.
pub fn default_e0_px(extent: Extent, patch_side: u32) -> f64 {
    (0.03 * f64::from(extent.longer_side())).min(3.0 * f64::from(patch_side))
}

/// 1 / (e + e0), in 1/pixel; within a patch side of a fixation, e0 counts as the default at most.
pub(super) fn magnification(eccentricity: f64, e0_px: f64, extent: Extent, patch_side: u32) -> f64 {
    let is_beside = eccentricity < f64::from(patch_side);
    let e0_px = if is_beside { e0_px.min(default_e0_px(extent, patch_side)) } else { e0_px };
    1.0 / (eccentricity + e0_px)
}

/// Magnification around what somebody asked for, as a share of the greatest: (P / (e + P))^2. By trial on lines of small print; see
/// docs/data/pursuit.txt.
pub(super) fn asked_share(eccentricity: f64, patch_side: u32) -> f64 {
    let share = f64::from(patch_side) / (eccentricity + f64::from(patch_side));
    share * share
}

/// Distance from a box to another one, both axis by axis; 0 where they touch.
pub(super) fn distance([along_x, along_y]: [(f64, f64); 2], to: Region) -> f64 {
    let apart =
        |(start, end): (f64, f64), from: f64, to: f64| (start - to).max(from - end).max(0.0);
    let (dx, dy) = (apart(along_x, to.x0, to.x1), apart(along_y, to.y0, to.y1));
    (dx * dx + dy * dy).sqrt()
}

/// What decides which leaf of the tree is split next.
#[derive(Clone, Copy, Debug)]
pub struct Priority<'a> {
    /// Where the view looks, in pixels; clamped into the image and rounded to 1/16 pixel.
    pub fixations: &'a [(f64, f64)],
    /// The eccentricity in pixels at which magnification has halved; above 0.
    pub e0_px: f64,
    /// Weights that multiply the priority; 1 everywhere where there are none.
    pub relevance: Option<&'a RelevanceMap>,
    /// The requested box of each fixation, without an area for a point; empty without a request.
    pub asked: &'a [Option<Region>],
}

impl Priority<'_> {
    /// Priority of a patch: side in pixels * magnification * relevance, at the distance from the nearest fixation to the patch. Near requested
    /// fixations it leaves out relevance. A child is never above its parent.
    pub fn of(&self, patch: Patch, grids: PatchGrids) -> f64 {
        let side = f64::from(patch.side_px(grids.patch_side()));
        let extent = grids.shape().extent();
        let greatest = 1.0 / default_e0_px(extent, grids.patch_side());
        let asked = side * greatest * self.asked_share(patch, grids);
        if self.is_asked() {
            return asked;
        }
        let eccentricity = self.eccentricity(patch, grids);
        let magnification = magnification(eccentricity, self.e0_px, extent, grids.patch_side());
        (side * magnification * self.relevance_of(patch, grids)).max(asked)
    }

    /// Whether somebody asked for all that the view looks at.
    pub fn is_asked(&self) -> bool {
        !self.asked.is_empty() && self.asked.iter().all(Option::is_some)
    }

    /// The greatest [`asked_share`] of a patch; 0 without a request.
    pub(super) fn asked_share(&self, patch: Patch, grids: PatchGrids) -> f64 {
        let edges = edges(patch, grids);
        let share = |asked: &Region| asked_share(distance(edges, *asked), grids.patch_side());
        self.asked.iter().flatten().map(share).fold(0.0, f64::max)
    }

    /// The nearest fixation, the first of several, and its distance to `patch` in pixels.
    fn nearest(&self, patch: Patch, grids: PatchGrids) -> (usize, f64) {
        let edges = edges(patch, grids);
        let eccentricity = |(index, &(x, y)): (usize, &(f64, f64))| {
            let (x, y) = fixation::snapped(grids.shape().extent(), x, y);
            let point = Region { x0: x, y0: y, x1: x, y1: y };
            let target = self.asked.get(index).copied().flatten().unwrap_or(point);
            (index, distance(edges, target))
        };
        let eccentricities = self.fixations.iter().enumerate().map(eccentricity);
        eccentricities.min_by(|(_, a), (_, b)| a.total_cmp(b)).unwrap_or((0, f64::INFINITY))
    }

    /// Distance from the nearest fixation to `patch` in pixels.
    pub fn eccentricity(&self, patch: Patch, grids: PatchGrids) -> f64 {
        self.nearest(patch, grids).1
    }

    /// Greatest weight of the map under `patch`; 1 without one.
    pub fn relevance_of(&self, patch: Patch, grids: PatchGrids) -> f64 {
        let extent = grids.shape().extent();
        let side = grids.patch_side();
        let region = Token::from_patch(patch, side).pixel_box(extent, side);
        self.relevance.map_or(1.0, |map| map.greatest(extent, region))
    }
}

/// Where a patch begins and ends along x and along y, in pixels.
fn edges(patch: Patch, grids: PatchGrids) -> [(f64, f64); 2] {
    let side = f64::from(patch.side_px(grids.patch_side()));
    [patch.i, patch.j].map(|index| {
        let start = f64::from(index) * side;
        (start, start + side)
    })
}

/// The tokens of the leaves, ordered by level, then along the Morton curve.
pub fn tokens(
    grids: PatchGrids,
    budget: usize,
    coarsest: Option<u32>,
    priority: &Priority<'_>,
    before: Option<&TokenPlan>,
) -> Vec<Token> {
    let roots = root_level(grids, budget, coarsest);
    ordered(leaves(grids, budget, roots, priority, &split_patches(grids, before)), grids, priority)
}

/// The tokens of leaves, ordered by level, then along the Morton curve.
pub(super) fn ordered(
    mut leaves: Vec<Patch>,
    grids: PatchGrids,
    priority: &Priority<'_>,
) -> Vec<Token> {
    leaves.sort_unstable_by_key(|patch| (patch.level, patch.morton()));
    let token = |patch: Patch| {
        let (nearest, _) = priority.nearest(patch, grids);
        let fovea = u16::try_from(nearest).expect("at most 8 fixations");
        Token { fovea, ..Token::from_patch(patch, grids.patch_side()) }
    };
    leaves.into_iter().map(token).collect()
}

/// The level that the quadtree starts from: the finest with at most 16 patches, or `coarsest` where that is finer; where its patches
/// exceed the budget, the finest level whose patches do not.
pub fn root_level(grids: PatchGrids, budget: usize, coarsest: Option<u32>) -> u32 {
    let few = grids.finest_level_within(budget.min(ROOTS_MAX));
    coarsest.map_or(few, |coarsest| few.min(coarsest.max(grids.finest_level_within(budget))))
}

/// Factor of the priority of a patch that was split in the plan before: half a level. With a whole level too little of the budget
/// is left for moving objects; see docs/data/pursuit.txt.
pub const KEEPING: f64 = std::f64::consts::SQRT_2;

/// The patches that were split in a plan.
pub(super) fn split_patches(grids: PatchGrids, plan: Option<&TokenPlan>) -> PatchSet {
    let mut split = PatchSet::none(grids);
    for token in plan.iter().flat_map(|plan| &plan.tokens) {
        let mut patch = token.patch(grids.patch_side());
        // Of what was inserted before, so was all above.
        while patch.level + 1 < grids.shape().level_count() && split.insert(patch.parent()) {
            patch = patch.parent();
        }
    }
    split
}

/// The leaves of the quadtree from `root_level` on, in no particular order: they cover the image once, and are at most `budget`. Of
/// leaves with the same priority the coarser is split first, then the first along the Morton curve.
fn leaves(
    grids: PatchGrids,
    budget: usize,
    root_level: u32,
    priority: &Priority<'_>,
    split_before: &PatchSet,
) -> Vec<Patch> {
    let candidate = |patch| {
        let kept = if split_before.contains(patch) { KEEPING } else { 1.0 };
        let key = heap_key(kept * priority.of(patch, grids));
        (key, patch.level, Reverse(patch.morton()), patch)
    };

    let roots = grids.patches(root_level);
    let (mut finest, splittable): (Vec<Patch>, Vec<Patch>) =
        roots.partition(|patch| patch.level == 0);
    let mut queue: BinaryHeap<_> = splittable.into_iter().map(candidate).collect();

    while let Some(parent) = queue.pop() {
        let (_, level, _, patch) = parent;
        let children = patch.children(grids);
        if budget < finest.len() + queue.len() + children.clone().count() {
            queue.push(parent);
            break;
        }
        if level == 1 {
            finest.extend(children);
        } else {
            queue.extend(children.map(candidate));
        }
    }
    finest.extend(queue.into_iter().map(|(.., patch)| patch));
    finest
}
