//! The levels above a tile: exact sums over the tile grid, halved up to the top, and rounded once from there.
//!
//! Twin of `glsl/reduce.comp`.

use super::Level;
use crate::geometry::extent::Extent;
use crate::geometry::pyramid::{PyramidShape, TILE_LEVEL_COUNT, rounded_mean};
use crate::geometry::tile::TileSet;

/// Sums of R, G and B over the boxes of the last level that a tile writes and of every level above it.
#[derive(Debug)]
pub struct Tail {
    grids: Vec<SumGrid>,
}

/// The sums of one level.
#[derive(Debug)]
struct SumGrid {
    extent: Extent,
    sums: Vec<[u32; 3]>,
}

impl Tail {
    /// Room for the sums of a pyramid; none where it ends within a tile.
    pub fn new(shape: PyramidShape) -> Self {
        let grid = |level: u32| {
            let extent = shape.level_extent(level);
            SumGrid { extent, sums: vec![[0; 3]; extent.area()] }
        };
        let levels = if TILE_LEVEL_COUNT < shape.level_count() {
            TILE_LEVEL_COUNT - 1..shape.level_count()
        } else {
            0..0
        };
        Self { grids: levels.map(grid).collect() }
    }

    /// Takes the sums of one tile.
    pub fn set_tile(&mut self, column: u32, row: u32, sums: [u32; 3]) {
        if let Some(tiles) = self.grids.first_mut() {
            let index = tiles.index(column, row);
            tiles.sums[index] = sums;
        }
    }
}

impl SumGrid {
    fn index(&self, x: u32, y: u32) -> usize {
        y as usize * self.extent.width as usize + x as usize
    }

    /// The sum over the up to 2 x 2 cells below cell (`x`, `y`) of the next level.
    fn sum_below(&self, x: u32, y: u32) -> [u32; 3] {
        let mut total = [0; 3];
        for (dx, dy) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
            let (x, y) = (2 * x + dx, 2 * y + dy);
            if self.extent.contains(x, y) {
                let cell = self.sums[self.index(x, y)];
                total = std::array::from_fn(|channel| total[channel] + cell[channel]);
            }
        }
        total
    }
}

/// Brings the levels above the dirty tiles up to date.
pub fn reduce(tail: &mut Tail, dirty: &TileSet, shape: PyramidShape, levels: &mut [Level]) {
    for step in 1..tail.grids.len() {
        let (below, above) = tail.grids.split_at_mut(step);
        let (below, above) = (&below[step - 1], &mut above[0]);
        let level = TILE_LEVEL_COUNT as usize - 1 + step;
        let target = &mut levels[level];
        let mut previous = None;
        for (column, row) in dirty.iter() {
            let (x, y) = (column >> step, row >> step);
            // Neighbours in a row share the cell above them: once is enough.
            if previous.replace((x, y)) == Some((x, y)) {
                continue;
            }
            let sums = below.sum_below(x, y);
            let index = above.index(x, y);
            above.sums[index] = sums;
            #[expect(clippy::cast_possible_truncation, reason = "a level is at most 11")]
            let count = shape.texel_pixel_count(level as u32, x, y);
            let texel = y as usize * target.stride + x as usize;
            for (channel, sum) in target.channels.iter_mut().zip(sums) {
                channel[texel] = rounded_mean(sum, count);
            }
        }
    }
}
