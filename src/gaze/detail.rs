//! Detail: what each part of a picture loses where it is shown at a coarser step.
//!
//! A block is 16 x 16 source pixels. What it loses at level L is D, the sum over its real pixels of the squared difference between luma and
//! its mean over the texel of level L that the pixel lies under. Sums are exact integers: the squares of the pixels less those of the means.

use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::pyramid::LEVEL_COUNT_MAX;
use foveate_core::geometry::tile::{TILE_SIDE, TileSet};

/// Side of a block in source pixels.
pub const BLOCK_SIDE: u32 = 16;

/// Blocks along a side of a tile.
pub const TILE_BLOCKS: u32 = TILE_SIDE / BLOCK_SIDE;

/// Levels above 0 whose texels lie within a block.
pub const INNER_LEVELS: usize = BLOCK_SIDE.ilog2() as usize;

/// Units of a [loss](Detail::losses) per unit of luma and pixel.
pub const LOSS_UNITS: f64 = 16.0;

/// Steps of a camera's noise that are distinguished, per step of luma.
const NOISE_STEPS: f64 = 8.0;

/// Sums over the real pixels of a block.
///
/// Luma is the camera's own sample, where it has one; of RGB it is (54 R + 183 G + 19 B + 128) / 256, rounded down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockSums {
    /// Real pixels; 0 for a block outside of the picture.
    pub count: u32,
    /// Sum of luma.
    pub luma: u32,
    /// Sum of the squares of luma.
    pub squares: u32,
    /// For each of the levels 1 to 4: the sum over its texels of the square of the texel's luma sum, divided by its pixels and rounded down.
    pub mean_squares: [u32; INNER_LEVELS],
}

/// The detail of the newest frame, for views whose layout asks for it.
#[derive(Clone, Debug)]
pub struct Detail {
    grid: Extent,
    blocks: Vec<BlockSums>,
    /// Losses at each level from 1 on, block by block.
    losses: Vec<Vec<u32>>,
    /// Standard deviation of the camera's noise in the newest frame, in [`NOISE_STEPS`] of luma.
    noise: f64,
    /// The newest frame whose losses differed from those of the frame before; 0 before the first.
    changed_frame: u64,
}

impl Detail {
    /// The detail of pictures of `extent` at levels 1 to `levels`, before the first.
    pub fn new(extent: Extent, levels: u32) -> Self {
        let grid = extent.in_cells(BLOCK_SIDE);
        let levels = levels.min(LEVEL_COUNT_MAX);
        Self {
            grid,
            blocks: vec![BlockSums::default(); grid.area()],
            losses: vec![vec![0; grid.area()]; levels as usize],
            noise: 0.0,
            changed_frame: 0,
        }
    }

    /// Has it know the levels up to `levels`.
    pub fn reach(&mut self, levels: u32) {
        let levels = levels.min(LEVEL_COUNT_MAX) as usize;
        if self.losses.len() < levels {
            self.losses.resize(levels, vec![0; self.grid.area()]);
            self.update_all();
        }
    }

    /// Columns and rows of blocks.
    pub fn grid(&self) -> Extent {
        self.grid
    }

    /// The coarsest level that it knows.
    #[expect(clippy::cast_possible_truncation, reason = "at most 12 levels")]
    pub fn levels(&self) -> u32 {
        self.losses.len() as u32
    }

    /// The newest frame whose losses differed from those of the frame before; 0 before the first.
    pub fn changed_frame(&self) -> u64 {
        self.changed_frame
    }

    /// The sums of the blocks, row by row.
    pub fn blocks(&self) -> &[BlockSums] {
        &self.blocks
    }

    /// The sums of the blocks of `rows` rows of tiles at a time, row by row.
    pub fn bands_of_tiles(&mut self, rows: usize) -> impl Iterator<Item = &mut [BlockSums]> {
        self.blocks.chunks_mut(rows * (TILE_BLOCKS * self.grid.width) as usize)
    }

    /// What each block loses at `level`, row by row: pixels * sqrt(D / pixels), so that a single hard edge does not outweigh fine print,
    /// in [`LOSS_UNITS`]; without what the camera's noise loses. All 0 at level 0.
    pub fn losses(&self, level: u32) -> Option<&[u32]> {
        Some(self.losses.get(level.checked_sub(1)? as usize)?.as_slice())
    }

    /// Brings the losses up to date once the sums of the tiles of `changed` are. `noise` is the standard deviation of luma that the camera
    /// itself adds to this frame, number `frame_seq`.
    pub fn update(&mut self, changed: &TileSet, noise: f64, frame_seq: u64) {
        // Round the estimate, which changes a little with every frame.
        let noise = (noise * NOISE_STEPS).round() / NOISE_STEPS;
        if changed.is_empty() && noise == self.noise {
            return;
        }
        self.changed_frame = frame_seq;
        if noise != self.noise {
            self.noise = noise;
            self.update_all();
            return;
        }
        for (column, row) in changed.iter() {
            let columns = column * TILE_BLOCKS..((column + 1) * TILE_BLOCKS).min(self.grid.width);
            for row in row * TILE_BLOCKS..((row + 1) * TILE_BLOCKS).min(self.grid.height) {
                self.update_blocks(row, columns.clone());
            }
        }
        self.update_outer(Some(changed));
    }

    fn update_all(&mut self) {
        (0..self.grid.height).for_each(|row| self.update_blocks(row, 0..self.grid.width));
        self.update_outer(None);
    }

    /// The losses of some blocks of a row at the levels whose texels lie within them.
    fn update_blocks(&mut self, row: u32, columns: std::ops::Range<u32>) {
        let first = (row * self.grid.width) as usize;
        let noise: [f64; INNER_LEVELS] =
            std::array::from_fn(|index| noise_energy(self.noise, index + 1));
        for at in first + columns.start as usize..first + columns.end as usize {
            let BlockSums { count, squares, mean_squares, .. } = self.blocks[at];
            let count = f64::from(count.max(1));
            // Signed numbers are faster to convert.
            let energies = mean_squares.map(|means| f64::from((squares - means).cast_signed()));
            let means = if count == WHOLE_COUNT {
                // The same numbers: a division takes longer than a root.
                energies.map(|energy| energy * (1.0 / WHOLE_COUNT))
            } else {
                energies.map(|energy| energy / count)
            };
            let losses = std::array::from_fn::<_, INNER_LEVELS, _>(|index| {
                loss_of(means[index], count, noise[index])
            });
            for (target, loss) in self.losses.iter_mut().zip(losses) {
                target[at] = loss;
            }
        }
    }

    /// The losses at the levels whose texels cover several blocks: of the texels over tiles of `changed`, or of all.
    fn update_outer(&mut self, changed: Option<&TileSet>) {
        let Self { grid, blocks, losses, noise, .. } = self;
        for (index, losses) in losses.iter_mut().enumerate().skip(INNER_LEVELS) {
            let side = 1 << (index - INNER_LEVELS + 1);
            let noise = noise_energy(*noise, index + 1);
            let texels = grid.in_cells(side);
            for (column, row) in cells_of(texels) {
                let columns = column * side..((column + 1) * side).min(grid.width);
                let rows = row * side..((row + 1) * side).min(grid.height);
                let tiles = |blocks: &std::ops::Range<u32>| {
                    blocks.start / TILE_BLOCKS..blocks.end.div_ceil(TILE_BLOCKS)
                };
                if changed.is_some_and(|set| !set.intersects(tiles(&columns), tiles(&rows))) {
                    continue;
                }
                let rows = rows.map(|row| {
                    let first = (row * grid.width) as usize;
                    first + columns.start as usize..first + columns.end as usize
                });
                let (mut luma, mut count) = (0.0, 0.0);
                for sums in rows.clone().flat_map(|row| &blocks[row]) {
                    luma += f64::from(sums.luma);
                    count += f64::from(sums.count);
                }
                let mean = luma / count;
                for row in rows {
                    for (loss, sums) in losses[row.clone()].iter_mut().zip(&blocks[row]) {
                        let (own, count) = (f64::from(sums.luma), f64::from(sums.count));
                        let energy = f64::from(sums.squares) - mean * (2.0 * own - mean * count);
                        let count = count.max(1.0);
                        *loss = loss_of(energy / count, count, noise);
                    }
                }
            }
        }
    }
}

/// The cells of a grid, row by row.
fn cells_of(grid: Extent) -> impl Iterator<Item = (u32, u32)> {
    (0..grid.height).flat_map(move |row| (0..grid.width).map(move |column| (column, row)))
}

/// The part of D per pixel that noise of this deviation has at a level: of its variance what the mean over 4^level pixels takes away.
fn noise_energy(noise: f64, level: usize) -> f64 {
    let pixels = f64::from(1u32 << (2 * level));
    noise * noise * (1.0 - 1.0 / pixels)
}

/// Pixels of a block within the picture.
const WHOLE_COUNT: f64 = (BLOCK_SIDE * BLOCK_SIDE) as f64;

/// The loss of a block with a D of `per_pixel` over `count` pixels.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most 2^20")]
fn loss_of(per_pixel: f64, count: f64, noise: f64) -> u32 {
    // A block beyond the picture has no energy. Adding a half is faster than `round` where the processor has no instruction for that.
    ((per_pixel - noise).max(0.0).sqrt() * count * LOSS_UNITS + 0.5) as u32
}
