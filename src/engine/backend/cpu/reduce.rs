//! The levels above a tile: exact sums over the tile grid, halved up to the top, and rounded once from there.
//!
//! Twin of `glsl/reduce.comp`.

use super::level::{CpuLevel, KEPT_TILE_LEVELS};
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::pyramid::{PyramidShape, TILE_LEVEL_COUNT, rounded_mean};
use foveate_core::geometry::tile::TileSet;

/// Sums of R, G and B of level 5, one per tile, and of every level above it.
#[derive(Debug)]
pub struct PyramidTail {
    tiles: TailLevel,
    above: Vec<TailLevel>,
}

/// The sums of one level.
#[derive(Debug)]
struct TailLevel {
    /// Level of the pyramid.
    number: u32,
    extent: Extent,
    sums: Vec<[u32; 3]>,
    /// The texels over the dirty tiles of an update, above the tiles.
    reached: TileSet,
}

impl PyramidTail {
    /// Zeroed sums for a pyramid.
    pub fn new(shape: PyramidShape) -> Self {
        let level = |number: u32| {
            let extent = shape.level_extent(number);
            let (sums, reached) = (vec![[0; 3]; extent.area()], TileSet::none_of(extent));
            TailLevel { number, extent, sums, reached }
        };
        Self {
            tiles: level(TILE_LEVEL_COUNT - 1),
            above: (TILE_LEVEL_COUNT..shape.level_count()).map(level).collect(),
        }
    }

    /// The sums of the tiles, row by row.
    pub fn tiles(&self) -> &[[u32; 3]] {
        &self.tiles.sums
    }

    /// The sums of the tiles, row by row, to write.
    pub fn tiles_mut(&mut self) -> &mut [[u32; 3]] {
        &mut self.tiles.sums
    }
}

impl TailLevel {
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

/// Brings the levels above the dirty tiles up to date; `levels` are those from level 1 on.
pub fn reduce(
    tail: &mut PyramidTail,
    dirty: &TileSet,
    shape: PyramidShape,
    levels: &mut [CpuLevel],
) {
    let (mut below, mut changed) = (&tail.tiles, dirty);
    for (level, target) in tail.above.iter_mut().zip(&mut levels[KEPT_TILE_LEVELS..]) {
        level.reached.cover(changed);
        for (x, y) in level.reached.iter() {
            let sums = below.sum_below(x, y);
            let index = level.index(x, y);
            level.sums[index] = sums;
            let count = shape.texel_pixel_count(level.number, x, y);
            let texel = sums.map(|sum| rounded_mean(sum, count));
            target.put(x as usize, y as usize, texel);
        }
        let level = &*level;
        (below, changed) = (level, &level.reached);
    }
}
