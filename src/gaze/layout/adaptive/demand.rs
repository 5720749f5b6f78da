//! What a view still needs of each part of the picture: its detail, less what the consumer has.

use std::ops::Range;
use std::sync::Arc;

use crate::detail::{BLOCK_SIDE, Detail, TILE_BLOCKS};
use crate::need::Need;
use foveate_core::frame::FrameTime;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::patch::PatchGrids;
use foveate_core::geometry::plan::TokenPlan;
use foveate_core::geometry::region::PixelBox;
use foveate_core::geometry::relevance::Relevance;

/// What the consumer of a view keeps between frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConsumerMemory {
    /// The consumer keeps nothing between frames.
    #[default]
    None,
    /// A canvas: of each place the finest token since the place last changed.
    Canvas,
}

foveate_core::names!(ConsumerMemory { None = "none", Canvas = "canvas" });

/// Parts of a share of loss.
const SHARE_UNITS: u32 = 4096;

/// Parts of a weight.
const WEIGHT_UNITS: u32 = 64;

/// Share of a block's loss that counts although the consumer has it, so that the budget is spent: 0.001.
const SEEN_SHARE: u32 = 4;

/// Share of a block's loss that counts although the consumer has it, if the block changed in the newest frame: a half, for consumers that
/// look at single frames.
const CHANGED_SHARE: f64 = 0.5;

/// Factor of [`CHANGED_SHARE`] from one frame to the next: e^-0.1, so the share is gone after some ten frames.
const DECAY: f64 = 0.904_837_418_035_959_6;

/// Frames after which a change no longer counts.
const AGE_END: u8 = 64;

/// Share of changed tiles from which on a frame counts as a cut, after which no place has changed more recently than others.
const CUT_SHARE: f64 = 0.5;

/// Time within which every delivered block is forgotten once, as a consumer who joined later does not have it.
pub const REFRESH_NS: u64 = 10_000_000_000;

/// Shortest time from one request of a consumer to forget all blocks to the next: in a second most of a picture is delivered again.
pub const REFRESH_PAUSE_NS: u64 = 1_000_000_000;

/// The demand of one view, block by block.
#[derive(Clone, Debug)]
pub struct Demand {
    memory: ConsumerMemory,
    extent: Extent,
    /// Columns and rows of blocks.
    grid: Extent,
    base: u8,
    /// The finest level that the consumer has been shown of each block since it changed.
    finest: Vec<u8>,
    /// Frames since each block last changed, up to [`AGE_END`].
    ages: Vec<u8>,
    /// Shares by age.
    shares: [u32; AGE_END as usize + 1],
    /// Weight of each block, from the map of `weighed_by`; empty without a map.
    weights: Vec<u32>,
    weighed_by: Option<Arc<Relevance>>,
    /// The splits of patches of each level from 1 to the base.
    splits: Vec<SplitGains>,
    /// The demand as a need of fixations.
    need: Need,
    /// Working memory of [`add_up`](Self::add_up).
    row: BlockRow,
    /// The newest frame that was noted.
    frame_seq: u64,
    /// The frame whose detail the sums were made of; 0 before any.
    detail_of: u64,
    /// Whether what the consumer has changed after the sums were made.
    is_outdated: bool,
    /// Blocks forgotten since `since_ns`, round after round.
    forgotten: usize,
    /// Stream time from which `forgotten` counts; `None` until the next frame.
    since_ns: Option<u64>,
}

/// By how much less the blocks of the patches of a level lose where those are split.
#[derive(Clone, Debug)]
struct SplitGains {
    /// The blocks of each column of patches.
    columns: Vec<Range<u32>>,
    /// The row of patches of each row of blocks.
    rows: Vec<u32>,
    /// Row by row; not negative.
    gains: Vec<f64>,
    /// Sums over the blocks above each other in a row of patches, as far as they have been added.
    sums: Vec<i64>,
}

/// The blocks of a row while they are added up, level by level.
#[derive(Clone, Debug, Default)]
struct BlockRow {
    /// What each loses at a level as far as that counts, and the same at the next finer level.
    lost: Vec<u32>,
    finer_lost: Vec<u32>,
    /// What each loses at the level that the consumer has of it, where that is finer.
    known: Vec<u32>,
    /// The share of what it loses that counts although the consumer has it.
    share: Vec<u32>,
}

impl Demand {
    /// The demand for pictures with these `grids` of patches of a view that covers them by patches of level `base`, before the first.
    #[expect(clippy::cast_possible_truncation, reason = "at most 12 levels")]
    pub fn new(memory: ConsumerMemory, grids: PatchGrids, base: u32) -> Self {
        let extent = grids.shape().extent();
        let grid = extent.in_cells(BLOCK_SIDE);
        Self {
            memory,
            extent,
            grid,
            base: base as u8,
            finest: vec![base as u8; grid.area()],
            ages: vec![AGE_END; grid.area()],
            shares: shares(),
            weights: Vec::new(),
            weighed_by: None,
            splits: (1..=base).map(|level| SplitGains::new(grids, level)).collect(),
            need: Need::none(extent),
            row: BlockRow::default(),
            frame_seq: 0,
            detail_of: 0,
            is_outdated: true,
            forgotten: 0,
            since_ns: None,
        }
    }

    /// The level by which the view covers the picture before any patch is split.
    pub fn base(&self) -> u32 {
        self.base.into()
    }

    /// Forgets what the consumer has: the next frame counts as the first.
    pub fn reset(&mut self) {
        self.finest.fill(self.base);
        self.ages.fill(AGE_END);
        (self.forgotten, self.since_ns) = (0, None);
        self.is_outdated = true;
    }

    /// Notes the frame of `at`, whose `detail` is up to date. `changed_frame` has for each tile, row by row, the newest frame
    /// that changed it. `weights` multiply the losses. Returns whether the losses differ from those before.
    ///
    /// # Panics
    ///
    /// If `detail` has fewer levels than the base.
    pub fn note(
        &mut self,
        detail: &Detail,
        changed_frame: &[u64],
        at: FrameTime,
        weights: Option<&Arc<Relevance>>,
    ) -> bool {
        if self.remembers() {
            self.age(changed_frame);
            self.forget(at.time_ns);
        }
        self.frame_seq = at.frame_seq;
        self.weigh_by(weights);
        let detail_of = std::mem::replace(&mut self.detail_of, detail.changed_frame());
        let is_outdated = std::mem::take(&mut self.is_outdated) || detail_of != self.detail_of;
        if is_outdated {
            self.add_up(detail);
        }
        is_outdated
    }

    /// What the view needed most of the newest frame that was noted.
    pub fn need(&self) -> &Need {
        &self.need
    }

    /// Adds up by how much less every patch loses where it is split.
    fn add_up(&mut self, detail: &Detail) {
        let width = self.grid.width as usize;
        let BlockRow { lost, finer_lost, known, share } = &mut self.row;
        for row in [&mut *lost, finer_lost, known, share] {
            row.resize(width, 0);
        }
        for row in 0..self.grid.height as usize {
            let range = row * width..(row + 1) * width;
            let finest = &self.finest[range.clone()];
            if self.memory == ConsumerMemory::Canvas {
                for (share, age) in share.iter_mut().zip(&self.ages[range.clone()]) {
                    *share = self.shares[usize::from(*age)];
                }
            }
            // At level 0 nothing is lost.
            finer_lost.fill(0);
            known.fill(0);
            for (level, splits) in (1..=self.base).zip(&mut self.splits) {
                let shown = detail.losses(level.into()).expect("all levels up to the base");
                let shown = &shown[range.clone()];
                lost.copy_from_slice(shown);
                if self.memory == ConsumerMemory::Canvas {
                    let blocks = lost.iter_mut().zip(&mut *known).zip(&*share);
                    for (((lost, known), share), finest) in blocks.zip(finest) {
                        // What the consumer has is no coarser than what it is shown.
                        *known = if level <= *finest { *lost } else { *known };
                        *lost = *known + *lost * *share / SHARE_UNITS;
                    }
                }
                if level == self.base {
                    self.need.fill_row(row, lost);
                }
                if !self.weights.is_empty() {
                    for (lost, weight) in lost.iter_mut().zip(&self.weights[range.clone()]) {
                        *lost = *lost * *weight / WEIGHT_UNITS;
                    }
                }
                splits.add(row, lost, finer_lost);
                std::mem::swap(lost, finer_lost);
            }
        }
    }

    /// Takes the weights of blocks from a map, unless it is the same map as before.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most 1024")]
    fn weigh_by(&mut self, weights: Option<&Arc<Relevance>>) {
        let is_same = match (weights, &self.weighed_by) {
            (Some(given), Some(known)) => Arc::ptr_eq(given, known) || given.map == known.map,
            (given, known) => given.is_none() && known.is_none(),
        };
        if is_same {
            return;
        }
        self.is_outdated = true;
        self.weighed_by = weights.cloned();
        self.weights.clear();
        let Some(weights) = weights else { return };
        let extent = self.grid;
        for row in 0..extent.height {
            for column in 0..extent.width {
                let block = PixelBox::of(column..column + 1, row..row + 1);
                let weight = weights.map.greatest(extent, block);
                self.weights.push((weight * f64::from(WEIGHT_UNITS)).round() as u32);
            }
        }
    }

    /// Whether what the consumer has been shown counts for what it needs.
    fn remembers(&self) -> bool {
        self.memory == ConsumerMemory::Canvas
    }

    /// Notes which blocks have changed since the frame before.
    fn age(&mut self, changed_frame: &[u64]) {
        let has_changed = |frame: u64| self.frame_seq < frame;
        let columns = self.grid.width.div_ceil(TILE_BLOCKS) as usize;
        let changed = changed_frame.iter().filter(|frame| has_changed(**frame)).count();
        let is_cut = CUT_SHARE * changed_frame.len() as f64 <= changed as f64;
        let width = self.grid.width as usize;
        let rows = self.finest.chunks_mut(width).zip(self.ages.chunks_mut(width));
        for (row, (finest, ages)) in rows.enumerate() {
            let tiles = &changed_frame[row / TILE_BLOCKS as usize * columns..][..columns];
            let blocks = finest.iter_mut().zip(ages);
            for (column, (finest, age)) in blocks.enumerate() {
                // The share of a block that is as old as `AGE_END` stays.
                self.is_outdated |= *age < AGE_END;
                *age = AGE_END.min(*age + 1);
                if has_changed(tiles[column / TILE_BLOCKS as usize]) {
                    *finest = self.base;
                    *age = if is_cut { *age } else { 0 };
                }
            }
        }
    }

    /// Forgets the blocks whose turn it is until `time_ns`: all of them once in [`REFRESH_NS`].
    fn forget(&mut self, time_ns: u64) {
        let blocks = self.finest.len();
        let since_ns = *self.since_ns.get_or_insert(time_ns);
        let passed_ns = time_ns.saturating_sub(since_ns);
        let turn = u128::from(passed_ns) * blocks as u128 / u128::from(REFRESH_NS);
        let turn = usize::try_from(turn).unwrap_or(usize::MAX);
        for index in self.forgotten..turn.min(self.forgotten.saturating_add(blocks)) {
            let finest = &mut self.finest[index % blocks];
            self.is_outdated |= std::mem::replace(finest, self.base) != self.base;
        }
        self.forgotten = turn;
    }

    /// Notes that the consumer is shown `plan`, of pyramid-aligned patches.
    #[expect(clippy::cast_possible_truncation, reason = "at most 12 levels")]
    pub fn deliver(&mut self, plan: &TokenPlan) {
        if !self.remembers() {
            return;
        }
        let Extent { width, height } = self.grid;
        let extent = self.extent;
        for token in &plan.tokens {
            let side = token.width(plan.patch_side);
            let columns = blocks_of(token.x.cast_unsigned(), side, extent.width, width);
            let level = token.sx.trailing_zeros() as u8;
            for row in blocks_of(token.y.cast_unsigned(), side, extent.height, height) {
                let row = &mut self.finest[(row * width) as usize..][..width as usize];
                for finest in &mut row[columns.start as usize..columns.end as usize] {
                    self.is_outdated |= level < *finest;
                    *finest = level.min(*finest);
                }
            }
        }
    }

    /// By how much less the blocks of each patch of a level, from 1 to the base, lose if it is split; row by row.
    pub(super) fn gains_of_splits(&self, level: u32) -> &[f64] {
        &self.splits[level as usize - 1].gains
    }
}

impl SplitGains {
    fn new(grids: PatchGrids, level: u32) -> Self {
        let (extent, grid) = (grids.shape().extent(), grids.level(level));
        let blocks = extent.in_cells(BLOCK_SIDE);
        let side = grids.patch_side() << level;
        let columns = |at| blocks_of(at * side, side, extent.width, blocks.width);
        let rows = |at| blocks_of(at * side, side, extent.height, blocks.height).map(move |_| at);
        Self {
            columns: (0..grid.width).map(columns).collect(),
            rows: (0..grid.height).flat_map(rows).collect(),
            gains: vec![0.0; grid.area()],
            sums: vec![0; blocks.width as usize],
        }
    }

    /// Adds a row of blocks, from top to bottom: what each loses at the level, and at the next finer one.
    fn add(&mut self, row: usize, lost: &[u32], finer_lost: &[u32]) {
        let Self { columns, rows, gains, sums } = self;
        for ((sum, lost), finer) in sums.iter_mut().zip(lost).zip(finer_lost) {
            *sum += i64::from(*lost) - i64::from(*finer);
        }
        let is_last = rows.get(row + 1) != Some(&rows[row]);
        if is_last {
            let gains = &mut gains[rows[row] as usize * columns.len()..];
            for (gain, columns) in gains.iter_mut().zip(&*columns) {
                let sum: i64 = sums[columns.start as usize..columns.end as usize].iter().sum();
                *gain = sum.max(0) as f64;
            }
            sums.fill(0);
        }
    }
}

/// The blocks along an axis of `count` that belong to `start..start + side`: those whose middles lie there. The last square of a picture
/// of `length` has the rest.
fn blocks_of(start: u32, side: u32, length: u32, count: u32) -> Range<u32> {
    let block = |place: u32| (place + BLOCK_SIDE / 2 - 1) / BLOCK_SIDE;
    let end = if length <= start + side { count } else { block(start + side).min(count) };
    block(start).min(end)..end
}

/// The share of a block's loss that counts although the consumer has it, by age in frames.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below a whole")]
fn shares() -> [u32; AGE_END as usize + 1] {
    let mut share = CHANGED_SHARE;
    let mut shares = [SEEN_SHARE; AGE_END as usize + 1];
    for target in &mut shares[..AGE_END as usize] {
        *target += (share * f64::from(SHARE_UNITS)).round() as u32;
        share *= DECAY;
    }
    shares
}
