//! The definition of detail, demand and the layout `adaptive`, written as plainly as possible.

#![allow(clippy::cast_possible_truncation, reason = "sides and levels are small")]

use foveate_core::geometry::extent::Extent;
use foveate_gaze::layout::adaptive::demand::ConsumerMemory;

use crate::naive::OwnedFrame;

const BLOCK: u32 = 16;

/// What each block loses at each level: `losses[level][row * columns + column]`, in 16ths.
pub fn losses(frame: &OwnedFrame, levels: u32) -> Vec<Vec<u32>> {
    let Extent { width, height } = frame.extent;
    let luma = |x: u32, y: u32| {
        let [a, b, c] = frame.samples(x, y).map(u64::from);
        if frame.format.is_rgb() { (54 * a + 183 * b + 19 * c + 128) / 256 } else { a }
    };
    let grid = Extent::new(width.div_ceil(BLOCK), height.div_ceil(BLOCK));
    let pixels = |x: u32, y: u32, side: u32| {
        let columns = x..width.min(x + side);
        (y..height.min(y + side)).flat_map(move |y| columns.clone().map(move |x| (x, y)))
    };
    let mut losses = vec![vec![0; grid.area()]; levels as usize + 1];
    for level in 1..=levels {
        for row in 0..grid.height {
            for column in 0..grid.width {
                let (x, y) = (column * BLOCK, row * BLOCK);
                let count = pixels(x, y, BLOCK).count() as u64;
                let squares: u64 = pixels(x, y, BLOCK).map(|(x, y)| luma(x, y).pow(2)).sum();
                let side = 1 << level;
                let energy = if side <= BLOCK {
                    let mut of_means = 0;
                    for top in (y..height.min(y + BLOCK)).step_by(side as usize) {
                        for left in (x..width.min(x + BLOCK)).step_by(side as usize) {
                            let sum: u64 = pixels(left, top, side).map(|(x, y)| luma(x, y)).sum();
                            of_means += sum * sum / pixels(left, top, side).count() as u64;
                        }
                    }
                    (squares - of_means) as f64
                } else {
                    let (left, top) = (x / side * side, y / side * side);
                    let sum: u64 = pixels(left, top, side).map(|(x, y)| luma(x, y)).sum();
                    let mean = sum as f64 / pixels(left, top, side).count() as f64;
                    pixels(x, y, BLOCK).map(|(x, y)| (luma(x, y) as f64 - mean).powi(2)).sum()
                };
                let loss = (energy / count as f64).sqrt() * count as f64 * 16.0;
                losses[level as usize][(row * grid.width + column) as usize] = loss.round() as u32;
            }
        }
    }
    losses
}

/// A view with the layout `adaptive`, frame by frame.
pub struct View {
    extent: Extent,
    side: u32,
    budget: usize,
    memory: ConsumerMemory,
    base: u32,
    finest: Vec<u32>,
    ages: Vec<u32>,
    begun_ns: u64,
    forgotten: u64,
    split: Vec<Square>,
    /// What each block of the newest frame loses at the base.
    whole: Vec<u32>,
}

/// A square of the quadtree: level, column, row.
pub type Square = (u32, u32, u32);

impl View {
    pub fn new(
        extent: Extent,
        side: u32,
        budget: usize,
        memory: ConsumerMemory,
        begun_ns: u64,
    ) -> Self {
        let count = |level: u32| {
            let side = side << level;
            extent.width.div_ceil(side) as usize * extent.height.div_ceil(side) as usize
        };
        let last = (0..).find(|level| extent.longer_side().div_ceil(1 << level) <= 8).unwrap();
        let most = ((budget as f64 * 0.45) as usize).max(1);
        let base = (0..last).find(|level| count(*level) <= most).unwrap_or(last);
        let blocks = (extent.width.div_ceil(BLOCK) * extent.height.div_ceil(BLOCK)) as usize;
        Self {
            extent,
            side,
            budget,
            memory,
            base,
            finest: vec![base; blocks],
            ages: vec![64; blocks],
            begun_ns,
            forgotten: 0,
            split: Vec::new(),
            whole: vec![0; blocks],
        }
    }

    pub fn base(&self) -> u32 {
        self.base
    }

    /// Forgets everything, as when masks change.
    pub fn reset(&mut self, now_ns: u64) {
        *self = Self::new(self.extent, self.side, self.budget, self.memory, now_ns);
    }

    /// The squares of the next frame, in no order; `changed` are the tiles that changed, row by row.
    pub fn step(&mut self, losses: &[Vec<u32>], changed: &[bool], time_ns: u64) -> Vec<Square> {
        let is_cut = changed.len() <= 2 * changed.iter().filter(|changed| **changed).count();
        let (columns, tiles) = (self.extent.width.div_ceil(BLOCK), self.extent.width.div_ceil(32));
        for index in 0..self.finest.len() {
            let (column, row) = (index as u32 % columns, index as u32 / columns);
            let changed = changed[(row / 2 * tiles + column / 2) as usize];
            self.ages[index] = 64.min(self.ages[index] + 1);
            if changed {
                self.finest[index] = self.base;
                if !is_cut {
                    self.ages[index] = 0;
                }
            }
        }
        let blocks = self.finest.len() as u64;
        let turn = (time_ns - self.begun_ns) * blocks / 10_000_000_000;
        for index in self.forgotten..turn {
            self.finest[(index % blocks) as usize] = self.base;
        }
        self.forgotten = turn;

        let squares = self.allocate(losses);
        if 0 < self.base {
            self.whole.clone_from(&losses[self.base as usize]);
        }
        for (level, column, row) in &squares {
            for block in self.blocks((*level, *column, *row)) {
                self.finest[block] = self.finest[block].min(*level);
            }
        }
        squares
    }

    /// What was needed of the newest frame in and around the cell of 64 x 64 pixels with (`x`, `y`), and the most of any cell.
    pub fn need_at(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let columns = self.extent.width.div_ceil(BLOCK);
        let mut cells = std::collections::BTreeMap::new();
        for (index, whole) in (0..).zip(&self.whole) {
            let cell = (index % columns / 4, index / columns / 4);
            *cells.entry(cell).or_insert(0.0) += f64::from(*whole);
        }
        let most = cells.values().copied().fold(0.0, f64::max);
        let is_near = |(column, row): (u32, u32)| {
            (f64::from(column) - (x / 64.0).floor()).abs() <= 1.0
                && (f64::from(row) - (y / 64.0).floor()).abs() <= 1.0
        };
        let near = cells.iter().filter(|(cell, _)| is_near(**cell)).map(|(_, need)| *need);
        (near.fold(0.0, f64::max), most)
    }

    /// What a block loses to the consumer at a level.
    fn loss(&self, losses: &[Vec<u32>], level: u32, block: usize) -> u64 {
        let lost = |level: u32| if level == 0 { 0 } else { losses[level as usize][block] };
        if self.memory == ConsumerMemory::None {
            return lost(level).into();
        }
        let age = self.ages[block];
        let recent = if age < 64 {
            let mut share = 0.5;
            (0..age).for_each(|_| share *= 0.904_837_418_035_959_6);
            (share * 4096.0_f64).round() as u32
        } else {
            0
        };
        (lost(level.min(self.finest[block])) + lost(level) * (4 + recent) / 4096).into()
    }

    /// The blocks whose middles lie in a square; the last square has the rest.
    fn blocks(&self, (level, column, row): Square) -> Vec<usize> {
        let side = self.side << level;
        let columns = self.extent.width.div_ceil(BLOCK);
        let lies = |place: u32, index: u32, length: u32| {
            let middle = place * BLOCK + BLOCK / 2;
            let is_last = length <= (index + 1) * side;
            index * side <= middle && (middle < (index + 1) * side || is_last)
        };
        let is_inside = |index: &usize| {
            let (x, y) = (*index as u32 % columns, *index as u32 / columns);
            lies(x, column, self.extent.width) && lies(y, row, self.extent.height)
        };
        (0..self.finest.len()).filter(is_inside).collect()
    }

    fn children(&self, (level, column, row): Square) -> Vec<Square> {
        let side = self.side << (level - 1);
        let all = [(0, 0), (1, 0), (0, 1), (1, 1)];
        let all = all.map(|(x, y)| (level - 1, 2 * column + x, 2 * row + y));
        let is_real =
            |(_, x, y): &Square| x * side < self.extent.width && y * side < self.extent.height;
        all.into_iter().filter(is_real).collect()
    }

    /// What the split of a square gains with those below it that are worth more, and how many tokens they cost.
    fn pool(&self, losses: &[Vec<u32>], square: Square) -> (f64, f64) {
        let (level, ..) = square;
        let total = |level: u32| -> u64 {
            let loss =
                |block: &usize| if level == 0 { 0 } else { self.loss(losses, level, *block) };
            self.blocks(square).iter().map(loss).sum()
        };
        let children = self.children(square);
        let mut gain = total(level).saturating_sub(total(level - 1)) as f64;
        if self.split.contains(&square) {
            gain *= 2.0;
        }
        let mut cost = (children.len() as f64 - 1.0).max(1.0 / 4096.0);
        if 1 < level {
            let worth = |(gain, cost): &(f64, f64)| gain / cost;
            let mut below: Vec<_> =
                children.iter().map(|child| self.pool(losses, *child)).collect();
            below.sort_by(|a, b| worth(b).partial_cmp(&worth(a)).unwrap());
            for pool in below {
                if gain / cost < worth(&pool) {
                    gain += pool.0;
                    cost += pool.1;
                }
            }
        }
        (gain, cost)
    }

    fn worth(&self, losses: &[Vec<u32>], square: Square) -> f64 {
        if square.0 == 0 {
            return 0.0;
        }
        let (gain, cost) = self.pool(losses, square);
        gain / cost
    }

    fn allocate(&mut self, losses: &[Vec<u32>]) -> Vec<Square> {
        let side = self.side << self.base;
        let (columns, rows) = (self.extent.width.div_ceil(side), self.extent.height.div_ceil(side));
        let mut leaves: Vec<(f64, Square)> = Vec::new();
        let mut refused: Vec<Square> = Vec::new();
        let mut split = Vec::new();
        for row in 0..rows {
            for column in 0..columns {
                let square = (self.base, column, row);
                leaves.push((self.worth(losses, square), square));
            }
        }
        loop {
            // The coarser of two of equal worth first, then the first along the Morton curve.
            let key = |(worth, (level, column, row)): &(f64, Square)| {
                (*worth, *level, std::cmp::Reverse(morton(*column, *row)))
            };
            let open = leaves
                .iter()
                .enumerate()
                .filter(|(_, (worth, square))| 0.0 < *worth && !refused.contains(square));
            let best = open.max_by(|(_, a), (_, b)| key(a).partial_cmp(&key(b)).unwrap());
            let Some((index, (_, square))) = best.map(|(index, leaf)| (index, *leaf)) else {
                break;
            };
            let children = self.children(square);
            if self.budget < leaves.len() - 1 + children.len() {
                refused.push(square);
                continue;
            }
            leaves.remove(index);
            let children = children.into_iter().map(|child| (self.worth(losses, child), child));
            leaves.extend(children.collect::<Vec<_>>());
            split.push(square);
        }
        self.split = split;
        leaves.into_iter().map(|(_, square)| square).collect()
    }
}

fn morton(column: u32, row: u32) -> u64 {
    let bit = |value: u32, index: u32, to: u32| u64::from(value >> index & 1) << to;
    (0..32).map(|index| bit(column, index, 2 * index) | bit(row, index, 2 * index + 1)).sum()
}
