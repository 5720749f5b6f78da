//! The layout `adaptive`: finest where the picture loses most to a coarser step.
//!
//! The tokens are leaves of a quadtree over the pyramid-aligned patch grid. It starts from the finest level whose patches number at most
//! 45 % of the budget, so no place is ever more than about three times as coarse as the picture shrunk to the same number of tokens. A patch
//! is worth the loss that its split saves, for each token that the split costs; if splits below it save more
//! for each of their tokens, all of them count as one split, as fine print gains nothing until its own step is reached. Patches are split in
//! the order of their worth until the budget is spent, or nothing is gained. What a client asked for comes before all else.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use arrayvec::ArrayVec;

use super::heap_key;
use demand::Demand;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::{FOVEAE_MAX, Focus, is_share, snapped};
use foveate_core::geometry::patch::{Patch, PatchGrids, PatchSet};
use foveate_core::geometry::plan::{Token, TokenPlan};
use foveate_core::geometry::region::{PixelBox, Region};

pub mod demand;

/// Most of the budget, as a share, for the patches that cover the picture before any is split. Finer patches leave less for fine print. The
/// value was measured.
const BASE_SHARE: f64 = 0.45;

/// Factor of the gain of a split that the plan before had, so that tokens stay in place.
const KEEPING: f64 = 2.0;

/// Share of what is left of the budget for the box around a point that somebody asked for.
const POINT_SHARE: f64 = 0.5;

/// Columns for each row of the box around a point: text is wider than high.
const POINT_ASPECT: f64 = 2.0;

/// The level that covers the picture before any patch is split.
pub fn base_level(grids: PatchGrids, budget: usize) -> u32 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of it")]
    let most = (BASE_SHARE * budget as f64) as usize;
    grids.finest_level_within(most.max(1))
}

/// The tokens, ordered by level, then along the Morton curve. Without a `demand`, all of the picture is worth the same.
pub(super) fn tokens(
    grids: PatchGrids,
    budget: usize,
    demand: Option<&Demand>,
    foci: &[Focus],
    before: Option<&TokenPlan>,
) -> Vec<Token> {
    let mut tree = Tree::new(grids, budget);
    let asked: ArrayVec<&Focus, FOVEAE_MAX> =
        foci.iter().filter(|focus| focus.own_share.is_some()).collect();
    for (index, focus) in asked.iter().enumerate() {
        let left = budget - tree.count;
        // Later targets also share what earlier ones left over.
        let even = left / (asked.len() - index);
        let given = focus.share.filter(|share| is_share(*share));
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share")]
        let share = given.map_or(even, |share| (share * budget as f64) as usize);
        tree.show(focus, share.min(left));
    }
    tree.spend(demand, &super::foveal::split_patches(grids, before));
    tree.tokens(foci)
}

/// A quadtree that grows from its base.
struct Tree {
    grids: PatchGrids,
    budget: usize,
    base: u32,
    /// Patches that were split.
    split: PatchSet,
    /// Leaves so far.
    count: usize,
}

impl Tree {
    fn new(grids: PatchGrids, budget: usize) -> Self {
        let base = base_level(grids, budget);
        Self { grids, budget, base, split: PatchSet::none(grids), count: grids.level(base).area() }
    }

    /// Splits a leaf.
    fn split(&mut self, patch: Patch) {
        self.split.insert(patch);
        self.count = self.count - 1 + patch.children(self.grids).count();
    }

    /// Shows what `focus` asks for at the finest level for which at most `most` tokens are needed beyond those there are.
    fn show(&mut self, focus: &Focus, most: usize) {
        let extent = self.grids.shape().extent();
        let region = focus.region.map(|region| region.pixels(extent));
        let region = region.unwrap_or_else(|| self.around_point(focus, most));
        for level in 0..self.base {
            let mut split = Vec::new();
            let mut cost = 0;
            let mut coarser: Vec<Patch> = self.grids.patches(self.base).collect();
            while let Some(patch) = coarser.pop() {
                if level < patch.level && touches(patch, self.grids, region) {
                    let children = patch.children(self.grids);
                    if !self.split.contains(patch) {
                        cost += children.clone().count() - 1;
                        split.push(patch);
                    }
                    coarser.extend(children);
                }
            }
            if cost <= most {
                split.into_iter().for_each(|patch| self.split(patch));
                return;
            }
        }
    }

    /// The box around a point that a share of `most` tokens covers at full resolution.
    fn around_point(&self, focus: &Focus, most: usize) -> PixelBox {
        let extent = self.grids.shape().extent();
        let (x, y) = snapped(extent, focus.x, focus.y);
        let side = f64::from(self.grids.patch_side());
        let height = side * (POINT_SHARE * most as f64 / POINT_ASPECT).sqrt();
        let width = height * POINT_ASPECT;
        let [half_width, half_height] = [width, height].map(|length| length / 2.0);
        let region = Region {
            x0: x - half_width,
            y0: y - half_height,
            x1: x + half_width,
            y1: y + half_height,
        };
        region.pixels(extent)
    }

    /// Splits leaves in the order of their worth.
    fn spend(&mut self, demand: Option<&Demand>, split_before: &PatchSet) {
        let grids = self.grids;
        let mut splits: Vec<Splits> = Vec::new();
        for level in 1..=self.base {
            let splits_of = Splits::new(grids, level, demand, split_before, splits.last());
            splits.push(splits_of);
        }
        let candidate = |patch: Patch| {
            let worth = splits.get((patch.level as usize).checked_sub(1)?)?.worth_of(patch);
            (0.0 < worth).then(|| (heap_key(worth), patch.level, Reverse(patch.morton()), patch))
        };
        let mut queue: BinaryHeap<_> = self.leaves().filter_map(candidate).collect();
        while let Some((.., patch)) = queue.pop() {
            let children = patch.children(grids);
            if self.budget < self.count - 1 + children.clone().count() {
                // At an edge a split may cost less.
                continue;
            }
            queue.extend(children.filter_map(candidate));
            self.split(patch);
        }
    }

    /// The leaves, from the last on the Morton curve to the first.
    fn leaves(&self) -> impl Iterator<Item = Patch> {
        let last = self.grids.shape().level_count() - 1;
        let mut open = vec![Patch { level: last, i: 0, j: 0 }];
        std::iter::from_fn(move || {
            loop {
                let patch = open.pop()?;
                if patch.level <= self.base && !self.split.contains(patch) {
                    return Some(patch);
                }
                open.extend(patch.children(self.grids));
            }
        })
    }

    /// The leaves as tokens, each of the nearest of `foci`.
    fn tokens(&self, foci: &[Focus]) -> Vec<Token> {
        let extent = self.grids.shape().extent();
        let points: ArrayVec<_, FOVEAE_MAX> =
            foci.iter().map(|focus| snapped(extent, focus.x, focus.y)).collect();
        let mut leaves: Vec<Patch> = self.leaves().collect();
        leaves.reverse();
        leaves.sort_by_key(|patch| patch.level);
        let token = |patch: Patch| {
            let token = Token::from_patch(patch, self.grids.patch_side());
            let side = f64::from(patch.side_px(self.grids.patch_side()));
            let middle = (f64::from(token.x) + side / 2.0, f64::from(token.y) + side / 2.0);
            let distance = |(x, y): (f64, f64)| (x - middle.0).powi(2) + (y - middle.1).powi(2);
            let (mut nearest, mut least) = (0, f64::INFINITY);
            for (index, distance) in (0..).zip(points.iter().map(|point| distance(*point))) {
                if distance < least {
                    (nearest, least) = (index, distance);
                }
            }
            Token { fovea: nearest, ..token }
        };
        leaves.into_iter().map(token).collect()
    }
}

/// Whether a patch has pixels of a box.
fn touches(patch: Patch, grids: PatchGrids, region: PixelBox) -> bool {
    let side = patch.side_px(grids.patch_side());
    let (x, y) = (patch.i * side, patch.j * side);
    x < region.x1 && region.x0 < x + side && y < region.y1 && region.y0 < y + side
}

/// The splits of the patches of a level, each with the splits below it that are worth more; row by row.
struct Splits {
    grid: Extent,
    /// Loss that each saves.
    gains: Vec<f64>,
    /// Tokens that each costs.
    costs: Vec<f64>,
    /// Gain for each token.
    worths: Vec<f64>,
}

impl Splits {
    /// The splits of the patches of `level`; `finer` are those of the level below.
    fn new(
        grids: PatchGrids,
        level: u32,
        demand: Option<&Demand>,
        split_before: &PatchSet,
        finer: Option<&Self>,
    ) -> Self {
        let (grid, below) = (grids.level(level), grids.level(level - 1));
        let mut gains = match demand {
            Some(demand) => demand.gains_of_splits(level).to_vec(),
            None => vec![f64::from(grids.patch_side() << level).powi(2); grid.area()],
        };
        split_before.indices(level).for_each(|index| gains[index] *= KEEPING);
        let mut costs = Vec::with_capacity(grid.area());
        for row in 0..grid.height {
            let rows = children(row, below.height).len() as f64;
            costs.extend((1..grid.width).map(|_| rows * 2.0 - 1.0));
            let columns = children(grid.width - 1, below.width).len() as f64;
            // At a corner of the picture one patch may follow on one.
            costs.push((rows * columns - 1.0).max(1.0 / 4096.0));
        }
        let worths = gains.iter().zip(&costs).map(|(gain, cost)| gain / cost).collect();
        let mut splits = Self { grid, gains, costs, worths };
        if let Some(finer) = finer {
            splits.join(finer);
        }
        splits
    }

    fn worth_of(&self, patch: Patch) -> f64 {
        self.worths[(patch.j * self.grid.width + patch.i) as usize]
    }

    /// Adds the splits below that are worth more, the best first.
    fn join(&mut self, finer: &Self) {
        let Extent { width, height } = finer.grid;
        let rows = (0..self.grid.height).map(|row| children(row, height));
        let cells = rows.flat_map(|rows| (0..self.grid.width).map(move |at| (rows.clone(), at)));
        for (at, (rows, column)) in cells.enumerate() {
            let mut below = ArrayVec::<usize, 4>::new();
            for row in rows {
                let index = |column| (row * width + column) as usize;
                let indices = children(column, width).map(index);
                below.extend(indices.filter(|index| self.worths[at] < finer.worths[*index]));
            }
            let best = |below: &[usize]| {
                let worth = |place: &usize| finer.worths[below[*place]];
                (0..below.len()).max_by(|a, b| worth(a).total_cmp(&worth(b)))
            };
            while let Some(place) = best(&below)
                && self.worths[at] < finer.worths[below[place]]
            {
                let index = below.swap_remove(place);
                self.gains[at] += finer.gains[index];
                self.costs[at] += finer.costs[index];
                self.worths[at] = self.gains[at] / self.costs[at];
            }
        }
    }
}

/// The columns, or rows, of the children of a patch, of `count` that there are.
fn children(place: u32, count: u32) -> Range<u32> {
    2 * place..count.min(2 * place + 2)
}
