//! The pyramid's layout in memory, and how threads share it.

use std::ops::RangeInclusive;
use std::slice::ChunksMut;

use crate::aligned::AlignedBytes;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::pyramid::{PyramidShape, TILE_LEVEL_COUNT};
use foveate_core::geometry::tile::TILE_SIDE;

/// Number of the stored levels that depend on a single tile: levels 1 to 5.
pub const KEPT_TILE_LEVELS: usize = TILE_LEVEL_COUNT as usize - 1;

/// Columns of a block, and bytes of its rows.
pub const BLOCK: usize = 16;

/// One level of the pyramid, in blocks of [`BLOCK`] columns and as many rows as a tile has of them: a raster of R, one of G and
/// one of B.
///
/// What a tile has of a level lies together, in a fourth of the cache lines that it would touch in rasters as wide as the level.
#[derive(Clone, Debug)]
pub struct CpuLevel {
    extent: Extent,
    /// Rows of a block; a power of two.
    rows: usize,
    /// Bytes from one row of blocks to the next.
    pitch: usize,
    /// Texels block by block; those outside the extent are undefined. The buffer is a row longer, so that any row can be read whole.
    texels: AlignedBytes,
}

impl CpuLevel {
    /// A level of `extent` whose blocks have `rows` rows, with room for `columns` by `block_rows` rows of blocks.
    fn new(extent: Extent, rows: usize, columns: usize, block_rows: usize) -> Self {
        let pitch = columns.div_ceil(BLOCK) * block_bytes(rows);
        Self { extent, rows, pitch, texels: AlignedBytes::new(block_rows * pitch + BLOCK) }
    }

    /// Offset of the R of texel (`x`, `y`); G and B are [`raster_bytes`](Self::raster_bytes) further on each.
    #[inline(always)]
    fn place(&self, x: usize, y: usize) -> usize {
        let shift = self.rows.trailing_zeros();
        let (block_row, row) = (y >> shift, y & (self.rows - 1));
        block_row * self.pitch + x / BLOCK * block_bytes(self.rows) + row * BLOCK + x % BLOCK
    }

    fn raster_bytes(&self) -> usize {
        self.rows * BLOCK
    }

    /// Sets texel (`x`, `y`).
    pub fn put(&mut self, x: usize, y: usize, rgb: [u8; 3]) {
        let (place, raster_bytes) = (self.place(x, y), self.raster_bytes());
        for (channel, value) in rgb.into_iter().enumerate() {
            self.texels[place + channel * raster_bytes] = value;
        }
    }

    /// Fills `target` with R, G or B from texel (`x`, `y`) on, all in the level.
    #[inline(always)]
    pub fn copy_row(&self, channel: usize, x: usize, y: usize, mut target: &mut [u8]) {
        let mut place = self.place(x, y) + channel * self.raster_bytes();
        let mut count = BLOCK - x % BLOCK;
        while !target.is_empty() {
            let texels = row_from(&self.texels, place);
            match target.first_chunk_mut() {
                // The next block overwrites the surplus.
                Some(target) => *target = texels,
                None => target.copy_from_slice(&texels[..target.len()]),
            }
            target = target.get_mut(count..).unwrap_or_default();
            place += count + block_bytes(self.rows) - BLOCK;
            count = BLOCK;
        }
    }

    /// Sums R, G or B down columns: from column `x` on, which begins a block, the first and the last of `rows` by the weights of
    /// `ends`, and those between by `weight`. If there is only one row, its weight is the first. Sums beyond the level are undefined.
    #[inline(always)]
    pub fn sum_rows(
        &self,
        channel: usize,
        x: usize,
        rows: RangeInclusive<usize>,
        weight: u32,
        ends: [u32; 2],
        sums: &mut [[u32; BLOCK]],
    ) {
        let (first, last) = (*rows.start(), *rows.end());
        let start = self.place(x, 0) + channel * self.raster_bytes();
        for (index, sums) in sums.iter_mut().enumerate() {
            let texels = &self.texels[start + index * block_bytes(self.rows)..];
            let mut between = [0u32; BLOCK];
            let mut y = (first + 1).min(last);
            while y < last {
                // At most as many values as 16 bits can sum.
                let end = last.min(y + usize::from(u8::MAX));
                let mut narrow = [0u16; BLOCK];
                for y in y..end {
                    for (sum, value) in narrow.iter_mut().zip(row_from(texels, self.row(y))) {
                        *sum += u16::from(value);
                    }
                }
                for (sum, narrow) in between.iter_mut().zip(narrow) {
                    *sum += u32::from(narrow);
                }
                y = end;
            }
            let top = row_from(texels, self.row(first));
            let bottom = row_from(texels, self.row(last));
            for (index, sum) in sums.iter_mut().enumerate() {
                *sum = ends[0] * u32::from(top[index])
                    + weight * between[index]
                    + ends[1] * u32::from(bottom[index]);
            }
        }
    }

    /// The texels under a token: the columns from `x` on, which begins a block, in `count` rows from row `y` on.
    #[inline(always)]
    pub fn footprint(&self, x: usize, y: usize, count: usize) -> Footprint<'_> {
        let mut rows = [0; FOOTPRINT_ROWS];
        for (row, place) in rows[..count].iter_mut().enumerate() {
            *place = self.row(y + row) / BLOCK;
        }
        Footprint {
            texels: self.texels[self.place(x, 0)..].as_chunks().0,
            channel_step: self.raster_bytes() / BLOCK,
            block_step: block_bytes(self.rows) / BLOCK,
            rows,
        }
    }

    /// Offset of row `y` of a column of blocks from the top of the column.
    #[inline(always)]
    fn row(&self, y: usize) -> usize {
        (y >> self.rows.trailing_zeros()) * self.pitch + (y & (self.rows - 1)) * BLOCK
    }

    /// Fills the targets with R, G and B of the square of [`BLOCK`] by [`BLOCK`] texels from texel (`x`, `y`) on, which is in the level,
    /// and overwrites up to a row behind it.
    #[inline(always)]
    pub fn copy_square(&self, x: usize, y: usize, targets: [&mut [u8; BLOCK * (BLOCK + 1)]; 3]) {
        let (texels, raster_bytes) = (&*self.texels, self.raster_bytes());
        let (skipped, next) = (x % BLOCK, block_bytes(self.rows) - x % BLOCK);
        let mut rasters = targets.map(|target| target.as_mut_slice());
        for row in 0..BLOCK {
            let left = self.place(x, y + row);
            for (channel, target) in rasters.iter_mut().enumerate() {
                let left = left + channel * raster_bytes;
                let at = row * BLOCK;
                target[at..][..BLOCK].copy_from_slice(&row_from(texels, left));
                if skipped != 0 {
                    let at = at + BLOCK - skipped;
                    target[at..][..BLOCK].copy_from_slice(&row_from(texels, left + next));
                }
            }
        }
    }

    /// Copies the level row by row, without padding.
    pub fn copy_to(&self, target: &mut [[u8; 3]]) {
        for (y, target) in target.chunks_exact_mut(self.extent.width as usize).enumerate() {
            for (index, target) in target.chunks_mut(BLOCK).enumerate() {
                let place = self.place(index * BLOCK, y);
                let [red, green, blue] = [0, 1, 2]
                    .map(|channel| row_from(&self.texels, place + channel * self.raster_bytes()));
                for (((target, red), green), blue) in
                    target.iter_mut().zip(red).zip(green).zip(blue)
                {
                    *target = [red, green, blue];
                }
            }
        }
    }
}

/// The most rows of a [`Footprint`].
pub const FOOTPRINT_ROWS: usize = 65;

/// The texels of a level under a token.
#[derive(Debug)]
pub struct Footprint<'a> {
    /// The rows of blocks, of which the fields below count.
    texels: &'a [[u8; BLOCK]],
    /// Distance from a channel of a block to the next channel.
    channel_step: usize,
    /// Distance from a block to the block on its right.
    block_step: usize,
    /// Distance from the first row to each row.
    rows: [usize; FOOTPRINT_ROWS],
}

impl<'a> Footprint<'a> {
    /// Three rasters of [`FOOTPRINT_ROWS`], each row of `BLOCKS` blocks.
    #[inline(always)]
    pub fn of_rasters<const BLOCKS: usize>(
        rasters: &'a [[[[u8; BLOCK]; BLOCKS]; FOOTPRINT_ROWS]; 3],
    ) -> Self {
        let rows = std::array::from_fn(|row| row * BLOCKS);
        let texels = rasters.as_flattened().as_flattened();
        Self { texels, channel_step: FOOTPRINT_ROWS * BLOCKS, block_step: 1, rows }
    }

    /// R, G or B of a block, from the first row on.
    #[inline(always)]
    pub fn block(&self, channel: usize, block: usize) -> &'a [[u8; BLOCK]] {
        &self.texels[channel * self.channel_step + block * self.block_step..]
    }

    /// Offset of each row in a [`block`](Self::block).
    #[inline(always)]
    pub fn rows(&self) -> &[usize; FOOTPRINT_ROWS] {
        &self.rows
    }
}

/// The [`BLOCK`] bytes from byte `place` on.
#[inline(always)]
fn row_from(texels: &[u8], place: usize) -> [u8; BLOCK] {
    *texels[place..].first_chunk().expect("there is more behind the last row")
}

/// Bytes of a block with so many rows.
const fn block_bytes(rows: usize) -> usize {
    3 * rows * BLOCK
}

/// Level 1 and those above it; level 0 is the resident copy. Levels 1 to 5 exist even if the pyramid ends below, padded
/// to whole tiles.
pub fn levels_above_0(shape: PyramidShape) -> Vec<CpuLevel> {
    let grid = shape.extent().in_cells(TILE_SIDE);
    let level = |level: u32| {
        let extent = shape.level_extent(level);
        if level < TILE_LEVEL_COUNT {
            let side = TILE_SIDE as usize >> level;
            CpuLevel::new(extent, side, grid.width as usize * side, grid.height as usize)
        } else {
            CpuLevel::new(extent, 1, extent.width as usize, extent.height as usize)
        }
    };
    (1..shape.level_count().max(TILE_LEVEL_COUNT)).map(level).collect()
}

/// The part of the pyramid under one row of tiles.
#[derive(Debug)]
pub struct TileRow<'a> {
    /// Counted from the top of the image.
    pub index: usize,
    /// The blocks of levels 1 to 5 under the tiles.
    pub levels: [LevelRow<'a>; KEPT_TILE_LEVELS],
    /// The sums of R, G and B over each tile.
    pub sums: &'a mut [[u32; 3]],
}

/// A row of blocks of one of levels 1 to 5.
#[derive(Debug)]
pub struct LevelRow<'a>(&'a mut [u8]);

impl LevelRow<'_> {
    /// Row `y` of `channel` of tile `column`, which has `side` texels a side in this level.
    #[inline(always)]
    pub fn texels_mut_of(
        &mut self,
        side: usize,
        channel: usize,
        y: usize,
        column: usize,
    ) -> &mut [u8] {
        let x = column * side;
        let row = (channel * side + y) * BLOCK;
        &mut self.0[x / BLOCK * block_bytes(side) + row + x % BLOCK..][..side]
    }

    /// [`texels_mut_of`](Self::texels_mut_of) for the level of which each tile has `SIDE` texels a side.
    #[inline(always)]
    pub fn texels_mut<const SIDE: usize>(
        &mut self,
        channel: usize,
        y: usize,
        column: usize,
    ) -> &mut [u8; SIDE] {
        self.texels_mut_of(SIDE, channel, y, column).first_chunk_mut().expect("so many")
    }

    /// Rows `2 * pair` and `2 * pair + 1` of `channel` of tile `column`, of level 1.
    #[inline(always)]
    pub fn two_rows_mut(
        &mut self,
        channel: usize,
        pair: usize,
        column: usize,
    ) -> &mut [[u8; BLOCK]; 2] {
        let block = &mut self.0[column * block_bytes(BLOCK)..][..block_bytes(BLOCK)];
        &mut block.as_chunks_mut().0.as_chunks_mut().0[channel * BLOCK / 2 + pair]
    }
}

/// A few rows of tiles of the pyramid, updated by one thread.
#[derive(Debug)]
pub struct Band<'a> {
    first_tile_row: usize,
    /// Levels 1 to 5, each with the bytes of a row of its blocks.
    levels: [(usize, &'a mut [u8]); KEPT_TILE_LEVELS],
    grid_width: usize,
    sums: &'a mut [[u32; 3]],
}

impl Band<'_> {
    /// Row of tiles `index`, one of its own.
    pub fn tile_row(&mut self, index: usize) -> TileRow<'_> {
        let Self { first_tile_row, levels, grid_width, sums } = self;
        let row = index - *first_tile_row;
        TileRow {
            index,
            levels: levels
                .each_mut()
                .map(|(pitch, blocks)| LevelRow(&mut blocks[row * *pitch..][..*pitch])),
            sums: &mut sums[row * *grid_width..][..*grid_width],
        }
    }
}

/// Splits levels 1 to 5, the first of `levels`, and the tile sums into bands of `tile_rows` rows of tiles.
pub fn bands<'a>(
    levels: &'a mut [CpuLevel],
    sums: &'a mut [[u32; 3]],
    tile_rows: usize,
    grid_width: usize,
) -> impl Iterator<Item = Band<'a>> {
    let levels = levels.first_chunk_mut::<KEPT_TILE_LEVELS>().expect("every pyramid has these");
    let mut levels = levels
        .each_mut()
        .map(|level| (level.pitch, level.texels.chunks_mut(tile_rows * level.pitch)));
    sums.chunks_mut(tile_rows * grid_width).enumerate().map(move |(index, sums)| Band {
        first_tile_row: index * tile_rows,
        levels: levels.each_mut().map(|(pitch, blocks): &mut (usize, ChunksMut<'a, u8>)| {
            (*pitch, blocks.next().expect("as many rows as of sums"))
        }),
        grid_width,
        sums,
    })
}

/// Columns and rows of real pixels of a tile, or of four of its rows.
#[derive(Clone, Copy)]
pub(super) struct RealPixels {
    pub(super) columns: usize,
    pub(super) rows: usize,
}

impl RealPixels {
    /// Number of real pixels under texel (`x`, `y`) of `level`.
    pub(super) fn pixels(self, level: u32, x: usize, y: usize) -> usize {
        let side = 1 << level;
        let along = |index: usize, end: usize| end.saturating_sub(index * side).min(side);
        along(x, self.columns) * along(y, self.rows)
    }
}
