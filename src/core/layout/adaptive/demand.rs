//! What a view still needs of each part of the picture: its detail, less what the consumer has.

use crate::detail::{BLOCK_SIDE, Detail, TILE_BLOCKS};
use crate::frame::FrameTime;
use crate::geometry::extent::Extent;
use crate::geometry::plan::TokenPlan;
use crate::geometry::region::PixelBox;
use crate::geometry::relevance::RelevanceMap;

/// What the consumer of a view keeps between frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConsumerMemory {
    /// Nothing: it looks at single frames.
    #[default]
    None,
    /// A canvas: of each place the finest token since the place last changed.
    Canvas,
}

crate::names!(ConsumerMemory { None = "none", Canvas = "canvas" });

/// Parts of a share of loss.
const SHARE_UNITS: u32 = 4096;

/// Parts of a weight.
const WEIGHT_UNITS: u32 = 64;

/// Share of a block's loss that counts although the consumer has it, so that the budget is spent: 0.001.
const SEEN_SHARE: u32 = 4;

/// The same for what changed in the newest frame: a half, for those who look at single frames.
const CHANGED_SHARE: f64 = 0.5;

/// What is left of that share a frame later: a tenth part of e, so it is gone after some ten frames.
const DECAY: f64 = 0.904_837_418_035_959_6;

/// Frames after which a change counts no more.
const AGE_END: u8 = 64;

/// More changed blocks than this share of all are a cut, after which no place has changed more recently than others.
const CUT_SHARE: f64 = 0.5;

/// After this time all that was delivered has been forgotten once, as a consumer who joined later does not have it.
pub const REFRESH_NS: u64 = 10_000_000_000;

/// At most so often all of it is forgotten at once because consumers ask for it: in a second most of a picture is delivered again.
pub const REFRESH_PAUSE_NS: u64 = 1_000_000_000;

/// The demand of one view, block by block.
#[derive(Clone, Debug)]
pub struct Demand {
    memory: ConsumerMemory,
    grid: Extent,
    base: u8,
    /// The finest level that the consumer has of each block.
    finest: Vec<u8>,
    /// Frames since each block last changed, up to [`AGE_END`].
    ages: Vec<u8>,
    /// Of each level from 1 to the base, what a block loses to the consumer if it is shown at that level.
    losses: Vec<Vec<u32>>,
    /// By age.
    shares: [u32; AGE_END as usize + 1],
    /// The newest frame that was noted.
    frame_seq: u64,
    /// Where forgetting goes on, and since when it has been there.
    forgotten: usize,
    since_ns: Option<u64>,
}

impl Demand {
    /// The demand for pictures of `extent` of a view that covers them by patches of level `base`, before the first.
    #[expect(clippy::cast_possible_truncation, reason = "at most 12 levels")]
    pub fn new(memory: ConsumerMemory, extent: Extent, base: u32) -> Self {
        let grid = extent.in_cells(BLOCK_SIDE);
        Self {
            memory,
            grid,
            base: base as u8,
            finest: vec![base as u8; grid.area()],
            ages: vec![AGE_END; grid.area()],
            losses: vec![vec![0; grid.area()]; base as usize],
            shares: shares(),
            frame_seq: 0,
            forgotten: 0,
            since_ns: None,
        }
    }

    /// The level that the view covers the picture by.
    pub fn base(&self) -> u32 {
        self.base.into()
    }

    /// The finest level that the consumer has of each block, row by row.
    pub fn finest(&self) -> &[u8] {
        &self.finest
    }

    /// Forgets all: the next frame is as the first.
    pub fn reset(&mut self) {
        self.finest.fill(self.base);
        self.ages.fill(AGE_END);
        (self.forgotten, self.since_ns) = (0, None);
    }

    /// Notes the frame of `at`, whose `detail` is up to date. Of each tile, row by row, `changed_frame` is the newest frame that changed
    /// it. `weights` multiply what is lost.
    ///
    /// # Panics
    ///
    /// If `detail` has fewer levels than the base.
    pub fn note(
        &mut self,
        detail: &Detail,
        changed_frame: &[u64],
        at: FrameTime,
        weights: Option<&RelevanceMap>,
    ) {
        if self.memory == ConsumerMemory::Canvas {
            self.age(changed_frame);
            self.frame_seq = at.frame_seq;
            self.forget(at.time_ns);
        }
        for level in 1..=u32::from(self.base) {
            let lost = detail.losses(level).expect("the detail of all levels up to the base");
            let (below, losses) = self.losses.split_at_mut(level as usize - 1);
            let losses = &mut losses[0];
            match self.memory {
                ConsumerMemory::None => losses.copy_from_slice(lost),
                ConsumerMemory::Canvas => {
                    let known = self.finest.iter().zip(lost).enumerate();
                    for (losses, (index, (finest, lost))) in losses.iter_mut().zip(known) {
                        *losses = if level <= u32::from(*finest) {
                            *lost
                        } else {
                            below.last().map_or(0, |below| below[index])
                        };
                    }
                }
            }
        }
        if self.memory == ConsumerMemory::Canvas {
            self.add_shares(detail);
        }
        if let Some(weights) = weights {
            self.weigh(weights);
        }
    }

    /// Adds the share of its loss that counts even of what the consumer has.
    fn add_shares(&mut self, detail: &Detail) {
        for (level, losses) in (1..).zip(&mut self.losses) {
            let lost = detail.losses(level).expect("the detail of all levels up to the base");
            for ((losses, lost), age) in losses.iter_mut().zip(lost).zip(&self.ages) {
                *losses += lost * self.shares[usize::from(*age)] / SHARE_UNITS;
            }
        }
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most 1024")]
    fn weigh(&mut self, weights: &RelevanceMap) {
        let width = self.grid.width;
        let extent = Extent::new(width, self.grid.height);
        for row in 0..self.grid.height {
            for column in 0..width {
                let block = PixelBox::of(column..column + 1, row..row + 1);
                let weight = weights.greatest(extent, block);
                let weight = (weight * f64::from(WEIGHT_UNITS)).round() as u32;
                let index = (row * width + column) as usize;
                for losses in &mut self.losses {
                    losses[index] = losses[index] * weight / WEIGHT_UNITS;
                }
            }
        }
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
            self.finest[index % blocks] = self.base;
        }
        self.forgotten = turn;
    }

    /// Notes that the consumer is shown `plan`, of pyramid-aligned patches.
    #[expect(clippy::cast_possible_truncation, reason = "at most 12 levels")]
    pub fn deliver(&mut self, plan: &TokenPlan) {
        if self.memory == ConsumerMemory::None {
            return;
        }
        let Extent { width, height } = self.grid;
        for token in &plan.tokens {
            let side = token.width(plan.patch_side);
            let columns = blocks_of(token.x.cast_unsigned(), side, width);
            let level = token.sx.trailing_zeros() as u8;
            for row in blocks_of(token.y.cast_unsigned(), side, height) {
                let row = &mut self.finest[(row * width) as usize..][..width as usize];
                for finest in &mut row[columns.start as usize..columns.end as usize] {
                    *finest = level.min(*finest);
                }
            }
        }
    }

    /// What the blocks of a square of source pixels lose if they are shown at `level`.
    pub(super) fn lost_in(&self, x: u32, y: u32, side: u32, level: u32) -> u64 {
        let Some(index) = level.checked_sub(1) else { return 0 };
        let losses = &self.losses[index as usize];
        let Extent { width, height } = self.grid;
        let columns = blocks_of(x, side, width);
        let rows = blocks_of(y, side, height).map(|row| {
            let row = &losses[(row * width) as usize..][..width as usize];
            row[columns.start as usize..columns.end as usize]
                .iter()
                .map(|loss| u64::from(*loss))
                .sum::<u64>()
        });
        rows.sum()
    }
}

/// The blocks along an axis of `count` whose middles lie in `start..start + side`.
fn blocks_of(start: u32, side: u32, count: u32) -> std::ops::Range<u32> {
    let block = |place: u32| (place + BLOCK_SIDE / 2 - 1) / BLOCK_SIDE;
    let end = block(start + side).min(count);
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
