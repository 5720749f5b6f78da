//! Sums of luma of the blocks of tiles, for layouts that follow the detail of the picture.
//!
//! They are of the frame's own samples, on the host with any backend: the samples of a tile that was ingested are those of the resident
//! copy.

use std::ops::Range;

use arrayvec::ArrayVec;
use foveate_core::detail::{BLOCK_SIDE, BlockSums, Detail, INNER_LEVELS, TILE_BLOCKS};
use foveate_core::frame::FrameView;
use foveate_core::geometry::tile::TileSet;

use super::PARTS_MAX;
use super::convert::SIDE;
use super::features::Luma;
use super::level::RealPixels;
use crate::pool::Pool;
use crate::simd::{Instructions, Kernel, Vectors};

/// Side of a block.
const BLOCK: usize = BLOCK_SIDE as usize;

/// With fewer tiles one thread is faster than sharing them.
const WORTH_SHARING: usize = 64;

/// Brings the sums of the tiles of `changed` up to date from `frame`, with the help of `pool`.
pub(crate) fn note_detail(
    detail: &mut Detail,
    frame: &FrameView<'_>,
    changed: &TileSet,
    pool: Option<&Pool>,
) {
    let width = detail.grid().width as usize;
    let band_rows = (changed.grid().height as usize).div_ceil(PARTS_MAX);
    let mut bands: ArrayVec<_, PARTS_MAX> =
        (0..).step_by(band_rows).zip(detail.bands_of_tiles(band_rows)).collect();
    let instructions = pool.map_or_else(Instructions::best, Pool::instructions);
    let note = |(first, blocks): &mut (usize, &mut [BlockSums])| {
        for (row, target) in (*first..).zip(blocks.chunks_mut(TILE_BLOCKS as usize * width)) {
            for columns in changed.runs(row) {
                instructions.run(DetailRun { frame, row, columns, width, target });
            }
        }
    };
    match pool.filter(|_| WORTH_SHARING <= changed.count()) {
        Some(pool) => pool.for_each(&mut bands, &note),
        None => bands.iter_mut().for_each(note),
    }
}

/// The sums of neighbouring tiles of a row.
struct DetailRun<'a> {
    frame: &'a FrameView<'a>,
    row: usize,
    columns: Range<usize>,
    /// Blocks of a row of the picture.
    width: usize,
    /// The rows of blocks of the row of tiles.
    target: &'a mut [BlockSums],
}

impl Kernel for DetailRun<'_> {
    #[inline(always)]
    fn run<V: Vectors>(self, vectors: V) {
        let Self { frame, row, columns, width, target } = self;
        let extent = frame.extent();
        let (frame_width, frame_height) = (extent.width as usize, extent.height as usize);
        let mut luma = Luma::default();
        for column in columns {
            let (x, y) = (column * SIDE, row * SIDE);
            let real = RealPixels {
                columns: (frame_width - x).min(SIDE),
                rows: (frame_height - y).min(SIDE),
            };
            let is_whole = real.columns == SIDE && real.rows == SIDE;
            if is_whole {
                luma.load(vectors, frame, x, y);
            } else {
                luma.load_cut(frame, x, y, real);
            }
            let tile = luma.samples();
            for (block, sums) in blocks(target, width, column) {
                let (x, y) = (block.0 * BLOCK, block.1 * BLOCK);
                *sums = if is_whole {
                    whole_block(tile, x, y)
                } else {
                    let within =
                        |length: usize, from: usize| length.saturating_sub(from).min(BLOCK);
                    cut_block(tile, x, y, within(real.columns, x), within(real.rows, y))
                };
            }
        }
    }
}

/// The blocks of a tile that the picture reaches, and where in the tile they lie, in blocks.
fn blocks(
    rows: &mut [BlockSums],
    width: usize,
    column: usize,
) -> impl Iterator<Item = ((usize, usize), &mut BlockSums)> {
    let first = column * TILE_BLOCKS as usize;
    let last = width.min(first + TILE_BLOCKS as usize);
    rows.chunks_mut(width).enumerate().flat_map(move |(row, blocks)| {
        blocks[first..last].iter_mut().enumerate().map(move |(at, sums)| ((at, row), sums))
    })
}

/// The sums of a block of a tile, all of whose pixels are real.
#[inline(always)]
fn whole_block(tile: &[u8], x: usize, y: usize) -> BlockSums {
    let mut halves = [[0u16; BLOCK / 2]; BLOCK / 2];
    let mut squares = 0;
    for (row, sums) in halves.iter_mut().enumerate() {
        for row in [2 * row, 2 * row + 1] {
            let samples: &[u8; BLOCK] =
                tile[(y + row) * SIDE + x..].first_chunk().expect("a row of a block");
            for (sum, [left, right]) in sums.iter_mut().zip(samples.as_chunks().0) {
                *sum += u16::from(*left) + u16::from(*right);
            }
            for sample in samples {
                squares += u32::from(u16::from(*sample) * u16::from(*sample));
            }
        }
    }
    let mut sums: [[u32; BLOCK / 2]; BLOCK / 2] = halves.map(|row| row.map(u32::from));
    let mut side = BLOCK / 2;
    let mut mean_squares = [0; INNER_LEVELS];
    for (level, target) in (1..).zip(&mut mean_squares) {
        if 1 < level {
            side /= 2;
            for row in 0..side {
                for column in 0..side {
                    let (x, y) = (2 * column, 2 * row);
                    sums[row][column] =
                        sums[y][x] + sums[y][x + 1] + sums[y + 1][x] + sums[y + 1][x + 1];
                }
            }
        }
        for row in &sums[..side] {
            for sum in &row[..side] {
                // At most (255 * 256)^2, which is below 2^32.
                *target += (sum * sum) >> (2 * level);
            }
        }
    }
    #[expect(clippy::cast_possible_truncation, reason = "256 pixels")]
    let count = (BLOCK * BLOCK) as u32;
    BlockSums { count, luma: sums[0][0], squares, mean_squares }
}

/// The sums of a block of which only some `columns` and `rows` are real.
#[inline(never)]
fn cut_block(tile: &[u8], x: usize, y: usize, columns: usize, rows: usize) -> BlockSums {
    let mut sums = BlockSums::default();
    for row in 0..rows {
        for sample in &tile[(y + row) * SIDE + x..][..columns] {
            let sample = u32::from(*sample);
            sums.count += 1;
            sums.luma += sample;
            sums.squares += sample * sample;
        }
    }
    for (level, target) in (1..).zip(&mut sums.mean_squares) {
        let side = 1 << level;
        for top in (0..rows).step_by(side) {
            for left in (0..columns).step_by(side) {
                let (mut luma, mut count) = (0u32, 0);
                for row in top..rows.min(top + side) {
                    for sample in &tile[(y + row) * SIDE + x..][left..columns.min(left + side)] {
                        luma += u32::from(*sample);
                        count += 1;
                    }
                }
                *target += luma * luma / count;
            }
        }
    }
    sums
}
