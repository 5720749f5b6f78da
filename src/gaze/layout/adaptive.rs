//! The layout `adaptive`: finest where the picture loses most to a coarser step.
//!
//! The tokens are leaves of a quadtree over the pyramid-aligned patch grid. It starts from the finest level whose patches number at most
//! 45 % of the budget, so no place is ever more than about three times as coarse as the picture shrunk to the same number of tokens. A patch
//! is worth the loss that its split saves, for each token that the split costs; if splits below it save more
//! for each of their tokens, all of them count as one split, as fine print gains nothing until its own step is reached. Patches are split in
//! the order of their worth until the budget is spent, or nothing is gained. What a client asked for comes before all else.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};
use std::ops::Range;

use arrayvec::ArrayVec;

use super::heap_key;
use demand::Demand;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::{FOVEAE_MAX, Focus, is_share, snapped};
use foveate_core::geometry::patch::{Patch, PatchGrids};
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
    tree.spend(demand, &super::foveal::split_patches(before));
    tree.tokens(foci)
}

/// A quadtree that grows from its base.
struct Tree {
    grids: PatchGrids,
    budget: usize,
    base: u32,
    /// Patches that were split.
    split: HashSet<Patch>,
    /// Leaves so far.
    count: usize,
}

impl Tree {
    fn new(grids: PatchGrids, budget: usize) -> Self {
        let base = base_level(grids, budget);
        Self { grids, budget, base, split: HashSet::new(), count: grids.level(base).area() }
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
                    if !self.split.contains(&patch) {
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
    fn spend(&mut self, demand: Option<&Demand>, split_before: &HashSet<Patch>) {
        let grids = self.grids;
        let pools = Pools::new(grids, self.base, demand, split_before);
        let candidate = |patch: Patch| {
            let worth = if patch.level == 0 { 0.0 } else { pools.of(patch).worth() };
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

    fn leaves(&self) -> impl Iterator<Item = Patch> {
        let mut open: Vec<Patch> = self.grids.patches(self.base).collect();
        std::iter::from_fn(move || {
            loop {
                let patch = open.pop()?;
                if !self.split.contains(&patch) {
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
        leaves.sort_unstable_by_key(|patch| (patch.level, patch.morton()));
        let token = |patch: Patch| {
            let token = Token::from_patch(patch, self.grids.patch_side());
            let side = f64::from(patch.side_px(self.grids.patch_side()));
            let middle = (f64::from(token.x) + side / 2.0, f64::from(token.y) + side / 2.0);
            let distance = |(x, y): &(f64, f64)| (x - middle.0).powi(2) + (y - middle.1).powi(2);
            let nearest = (0..)
                .zip(&points)
                .min_by(|(_, a), (_, b)| distance(a).total_cmp(&distance(b)))
                .map_or(0, |(index, _)| index);
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

/// The split of a patch, with the splits below it that are worth more.
#[derive(Clone, Copy)]
struct Pool {
    /// Loss that they save.
    gain: f64,
    /// Tokens.
    cost: f64,
}

impl Pool {
    /// Gain for each token.
    fn worth(self) -> f64 {
        self.gain / self.cost
    }
}

/// The pools of all patches of a quadtree above level 0.
struct Pools {
    /// Pools of the levels, from level 1 on.
    levels: Vec<PoolLevel>,
}

/// The pools of the patches of a level.
struct PoolLevel {
    grid: Extent,
    /// Row by row.
    pools: Vec<Pool>,
}

impl Pools {
    fn new(
        grids: PatchGrids,
        base: u32,
        demand: Option<&Demand>,
        split_before: &HashSet<Patch>,
    ) -> Self {
        let mut pools =
            Self { levels: (1..=base).map(|level| PoolLevel::new(grids, level, demand)).collect() };
        for patch in split_before.iter().filter(|patch| (1..=base).contains(&patch.level)) {
            pools.of_mut(*patch).gain *= KEEPING;
        }
        for level in 1..pools.levels.len() {
            let (finer, coarser) = pools.levels.split_at_mut(level);
            coarser[0].join(&finer[level - 1]);
        }
        pools
    }

    fn of(&self, patch: Patch) -> Pool {
        let PoolLevel { grid, pools } = &self.levels[patch.level as usize - 1];
        pools[(patch.j * grid.width + patch.i) as usize]
    }

    fn of_mut(&mut self, patch: Patch) -> &mut Pool {
        let PoolLevel { grid, pools } = &mut self.levels[patch.level as usize - 1];
        &mut pools[(patch.j * grid.width + patch.i) as usize]
    }
}

impl PoolLevel {
    /// Each split alone.
    fn new(grids: PatchGrids, level: u32, demand: Option<&Demand>) -> Self {
        let (grid, finer) = (grids.level(level), grids.level(level - 1));
        let area = f64::from(grids.patch_side() << level).powi(2);
        let own = |patch: Patch| {
            let gain = demand.map_or(area, |demand| demand.gain_of_split(patch) as f64);
            let children =
                children(patch.i, finer.width).len() * children(patch.j, finer.height).len();
            // At a corner of the picture one patch may follow on one.
            let cost = (children as f64 - 1.0).max(1.0 / 4096.0);
            Pool { gain, cost }
        };
        Self { grid, pools: grids.patches(level).map(own).collect() }
    }

    /// Adds the pools below that are worth more, the best first.
    fn join(&mut self, finer: &Self) {
        let width = self.grid.width;
        for (pool, at) in self.pools.iter_mut().zip(0..) {
            let mut below = ArrayVec::<Pool, 4>::new();
            for row in children(at / width, finer.grid.height) {
                for column in children(at % width, finer.grid.width) {
                    below.push(finer.pools[(row * finer.grid.width + column) as usize]);
                }
            }
            let best = |below: &[Pool]| {
                (0..below.len()).max_by(|a, b| below[*a].worth().total_cmp(&below[*b].worth()))
            };
            while let Some(index) = best(&below)
                && pool.worth() < below[index].worth()
            {
                let Pool { gain, cost } = below.swap_remove(index);
                *pool = Pool { gain: pool.gain + gain, cost: pool.cost + cost };
            }
        }
    }
}

/// The columns, or rows, of the children of a patch, of `count` that there are.
fn children(place: u32, count: u32) -> Range<u32> {
    2 * place..count.min(2 * place + 2)
}
