//! The pyramid's layout in memory, and how threads share it.

use std::slice::ChunksMut;

use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::pyramid::{PyramidShape, TILE_LEVEL_COUNT};
use foveate_core::geometry::tile::TILE_SIDE;

/// Levels 1 to 5: those that depend on a single tile and are stored.
pub const KEPT_TILE_LEVELS: usize = TILE_LEVEL_COUNT as usize - 1;

/// One level of the pyramid: a raster for each of R, G and B.
#[derive(Clone, Debug)]
pub struct Level {
    /// Size in texels.
    pub extent: Extent,
    /// Texels from one row to the next; those outside the extent are undefined.
    pub stride: usize,
    /// Row by row.
    pub channels: [Vec<u8>; 3],
}

impl Level {
    /// A level of `extent`, with room for the rows and columns of `padded`.
    fn new(extent: Extent, padded: Extent) -> Self {
        let channels = std::array::from_fn(|_| vec![0; padded.area()]);
        Self { extent, stride: padded.width as usize, channels }
    }

    /// Row `y` of `channel`, without padding.
    pub fn row(&self, channel: usize, y: usize) -> &[u8] {
        &self.channels[channel][y * self.stride..][..self.extent.width as usize]
    }

    /// Copies the level row by row, without padding.
    pub fn copy_to(&self, target: &mut [[u8; 3]]) {
        for (y, target) in target.chunks_exact_mut(self.extent.width as usize).enumerate() {
            let [red, green, blue] = [0, 1, 2].map(|channel| self.row(channel, y));
            for (((target, &red), &green), &blue) in target.iter_mut().zip(red).zip(green).zip(blue)
            {
                *target = [red, green, blue];
            }
        }
    }
}

/// Level 1 and those above it; level 0 is the resident copy. Levels 1 to 5 exist even if the pyramid ends below, padded
/// to whole tiles.
pub fn levels_above_0(shape: PyramidShape) -> Vec<Level> {
    let grid = shape.extent().in_cells(TILE_SIDE);
    let level = |level: u32| {
        let extent = shape.level_extent(level);
        let texels = TILE_SIDE.checked_shr(level).unwrap_or(0);
        let padded = Extent::new(grid.width * texels, grid.height * texels);
        Level::new(extent, if level < TILE_LEVEL_COUNT { padded } else { extent })
    };
    (1..shape.level_count().max(TILE_LEVEL_COUNT)).map(level).collect()
}

/// The part of the pyramid under one row of tiles.
#[derive(Debug)]
pub struct TileRow<'a> {
    /// Counted from the top of the image.
    pub index: usize,
    /// Its rows of levels 1 to 5.
    pub levels: [LevelRows<'a>; KEPT_TILE_LEVELS],
    /// The sums of R, G and B over each tile.
    pub sums: &'a mut [[u32; 3]],
}

/// A few rows of one level.
#[derive(Debug)]
pub struct LevelRows<'a> {
    stride: usize,
    channels: [&'a mut [u8]; 3],
}

impl LevelRows<'_> {
    /// `count` rows from row `y`.
    fn rows_mut(&mut self, y: usize, count: usize) -> LevelRows<'_> {
        let (stride, rows) = (self.stride, y * self.stride..(y + count) * self.stride);
        LevelRows {
            stride,
            channels: self.channels.each_mut().map(|rows_of| &mut rows_of[rows.clone()]),
        }
    }

    /// Row `y` of `channel`.
    #[inline(always)]
    pub fn row_mut_of(&mut self, channel: usize, y: usize) -> &mut [u8] {
        &mut self.channels[channel][y * self.stride..][..self.stride]
    }

    // No closures here: these are called for every few rows of every run.

    /// Row `y` of every channel.
    #[inline(always)]
    pub fn row_mut(&mut self, y: usize) -> [&mut [u8]; 3] {
        let (stride, start) = (self.stride, y * self.stride);
        let [red, green, blue] = &mut self.channels;
        [&mut red[start..][..stride], &mut green[start..][..stride], &mut blue[start..][..stride]]
    }

    /// Rows `y` and `y + 1` of every channel.
    #[inline(always)]
    pub fn two_rows_mut(&mut self, y: usize) -> [(&mut [u8], &mut [u8]); 3] {
        let (stride, rows) = (self.stride, y * self.stride..(y + 2) * self.stride);
        let [red, green, blue] = &mut self.channels;
        [
            red[rows.clone()].split_at_mut(stride),
            green[rows.clone()].split_at_mut(stride),
            blue[rows].split_at_mut(stride),
        ]
    }
}

/// A few rows of tiles of the pyramid, updated by one thread.
#[derive(Debug)]
pub struct Band<'a> {
    first_tile_row: usize,
    /// Levels 1 to 5.
    levels: [LevelRows<'a>; KEPT_TILE_LEVELS],
    grid_width: usize,
    sums: &'a mut [[u32; 3]],
}

impl Band<'_> {
    /// Row of tiles `index`, one of its own.
    pub fn tile_row(&mut self, index: usize) -> TileRow<'_> {
        let Self { first_tile_row, levels, grid_width, sums } = self;
        let row = index - *first_tile_row;
        let mut number = 0;
        TileRow {
            index,
            levels: levels.each_mut().map(|level| {
                number += 1;
                level.rows_mut(row * (TILE_SIDE as usize >> number), TILE_SIDE as usize >> number)
            }),
            sums: &mut sums[row * *grid_width..][..*grid_width],
        }
    }
}

/// Splits levels 1 to 5, the first of `levels`, and the tile sums into bands of `tile_rows` rows of tiles.
pub fn bands<'a>(
    levels: &'a mut [Level],
    sums: &'a mut [[u32; 3]],
    tile_rows: usize,
    grid_width: usize,
) -> impl Iterator<Item = Band<'a>> {
    let levels = levels.first_chunk_mut::<KEPT_TILE_LEVELS>().expect("every pyramid has these");
    let mut number = 0;
    let mut levels = levels.each_mut().map(|level| {
        number += 1;
        let rows = tile_rows * (TILE_SIDE as usize >> number);
        Chunks::new(level.stride, rows, level.channels.each_mut().map(Vec::as_mut_slice))
    });
    sums.chunks_mut(tile_rows * grid_width).enumerate().map(move |(index, sums)| Band {
        first_tile_row: index * tile_rows,
        levels: levels.each_mut().map(|level| level.next().expect("as many rows as of sums")),
        grid_width,
        sums,
    })
}

/// Splits a level into chunks of a few rows.
struct Chunks<'a> {
    stride: usize,
    channels: [ChunksMut<'a, u8>; 3],
}

impl<'a> Chunks<'a> {
    fn new(stride: usize, rows: usize, channels: [&'a mut [u8]; 3]) -> Self {
        Self { stride, channels: channels.map(|channel| channel.chunks_mut(rows * stride)) }
    }
}

impl<'a> Iterator for Chunks<'a> {
    type Item = LevelRows<'a>;

    fn next(&mut self) -> Option<LevelRows<'a>> {
        let [r, g, b] = self.channels.each_mut().map(ChunksMut::next);
        Some(LevelRows { stride: self.stride, channels: [r?, g?, b?] })
    }
}
