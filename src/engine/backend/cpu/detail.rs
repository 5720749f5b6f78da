//! Sums of luma of the blocks of tiles, for layouts that follow the detail of the picture.
//!
//! They are of the frame's own samples, on the host with any backend: the samples of a tile that was ingested are those of the resident
//! copy.

#![expect(clippy::cast_possible_truncation, reason = "pixels of a block")]
#![expect(clippy::needless_range_loop, reason = "zipped iterators are calls inside of kernels")]

use std::ops::Range;

use arrayvec::ArrayVec;
use foveate_core::frame::FrameView;
use foveate_core::geometry::tile::TileSet;
use foveate_gaze::detail::{BLOCK_SIDE, BlockSums, Detail, TILE_BLOCKS};

use super::PARTS_MAX;
use super::convert::SIDE;
use super::features::{Luma, chunk};
use super::level::RealPixels;
use crate::pool::Pool;
use crate::simd::{Instructions, Kernel, Vectors};

/// Side of a block.
const BLOCK: usize = BLOCK_SIDE as usize;

/// Fewest tiles whose work is shared; with fewer, one thread is faster.
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
            if real.columns == SIDE && real.rows == SIDE {
                luma.load_samples(vectors, frame, x, y);
            } else {
                luma.load_cut(frame, x, y, real);
            }
            let tile = luma.samples();
            let first = column * TILE_BLOCKS as usize;
            for (row, blocks) in target.chunks_mut(width).enumerate() {
                let y = row * BLOCK;
                let rows = (real.rows - y).min(BLOCK);
                if real.columns == SIDE && rows == BLOCK {
                    [blocks[first], blocks[first + 1]] = whole_blocks(vectors, &tile[y * SIDE..]);
                    continue;
                }
                for (at, sums) in blocks[first..].iter_mut().take(TILE_BLOCKS as usize).enumerate()
                {
                    let x = at * BLOCK;
                    *sums = cut_block(tile, x, y, (real.columns - x).min(BLOCK), rows);
                }
            }
        }
    }
}

/// The sums of the two blocks whose `rows` of a tile these are, as if all of their pixels were real.
#[inline(always)]
fn whole_blocks<V: Vectors>(vectors: V, rows: &[u8]) -> [BlockSums; 2] {
    let (zero, ones) = (vectors.sums(0), vectors.words([1; 2]));
    let [mut squares, mut halved_squares] = [zero; 2];
    let mut quarters = [zero; 2];
    for eight in 0..2 {
        // Rows of upper and of lower texels of 4x4 pixels lie beside each other, so that no sum crosses over.
        let mut halves = [vectors.words([0; 2]); 2];
        for row in 0..4 {
            let at = (8 * eight + row) * SIDE;
            let mut both = [0; 2 * SIDE];
            both[..SIDE].copy_from_slice(chunk::<_, SIDE>(rows, at));
            both[SIDE..].copy_from_slice(chunk::<_, SIDE>(rows, at + 4 * SIDE));
            let [even, odd] = vectors.unzipped(&both);
            squares = vectors.multiplied_and_added(squares, even, even);
            squares = vectors.multiplied_and_added(squares, odd, odd);
            halves[row / 2] = vectors.added(halves[row / 2], vectors.added(even, odd));
        }
        for sums in halves {
            // s^2 / 4, rounded down, is s / 2 rounded down times s / 2 rounded up.
            let up = vectors.rounded_down::<1>(sums);
            let down = vectors.subtracted(sums, up);
            halved_squares = vectors.multiplied_and_added(halved_squares, down, up);
        }
        let pairs = vectors.added(halves[0], halves[1]);
        quarters[eight] = vectors.multiplied_and_added(zero, pairs, ones);
    }
    // Each group: two sums of squares and two of those of pairs; and sums over four texels of 4x4 pixels.
    let squares = vectors.stored_sums(vectors.added_halves(squares, halved_squares));
    let eighths = vectors.narrowed_sums(quarters[0], quarters[1]);
    let eighths = vectors.stored_sums(vectors.multiplied_and_added(zero, eighths, ones));
    let [upper, lower] = quarters;
    let upper = mean_squares(vectors.stored_sums(upper), 2);
    let lower = mean_squares(vectors.stored_sums(lower), 2);
    // Groups 0 and 2 are of the first block, 1 and 3 of the second.
    let [mut both_squares, mut quarters, mut both_eighths] = [[0; 8]; 3];
    for at in 0..8 {
        both_squares[at] = squares[at] + squares[8 + at];
        quarters[at] = upper[at] + lower[at] + upper[8 + at] + lower[8 + at];
        both_eighths[at] = eighths[at] + eighths[8 + at];
    }
    let squared_eighths = mean_squares(both_eighths, 3);
    let mut blocks = [BlockSums::default(); 2];
    for block in 0..2 {
        let at = 4 * block;
        let luma = sum_of_four(&both_eighths, at);
        blocks[block] = BlockSums {
            count: (BLOCK * BLOCK) as u32,
            luma,
            squares: both_squares[at] + both_squares[at + 1],
            mean_squares: [
                both_squares[at + 2] + both_squares[at + 3],
                sum_of_four(&quarters, at),
                sum_of_four(&squared_eighths, at),
                mean_squares([luma], 4)[0],
            ],
        };
    }
    blocks
}

#[inline(always)]
fn sum_of_four(sums: &[u32; 8], at: usize) -> u32 {
    sums[at] + sums[at + 1] + sums[at + 2] + sums[at + 3]
}

/// The squares of the sums over texels of a level, divided by their pixels.
#[inline(always)]
fn mean_squares<const N: usize>(mut sums: [u32; N], level: u32) -> [u32; N] {
    for at in 0..N {
        // At most (255 * 256)^2, which is below 2^32.
        sums[at] = (sums[at] * sums[at]) >> (2 * level);
    }
    sums
}

/// The sums of a block of which only some `columns` and `rows` are real.
#[inline(never)]
fn cut_block(tile: &[u8], x: usize, y: usize, columns: usize, rows: usize) -> BlockSums {
    let mut sums = BlockSums { count: (columns * rows) as u32, ..BlockSums::default() };
    // Luma of the texels of a level.
    let mut texels = [[0u32; BLOCK]; BLOCK];
    for row in 0..rows {
        for column in 0..columns {
            let sample = u32::from(tile[(y + row) * SIDE + x + column]);
            texels[row][column] = sample;
            sums.luma += sample;
            sums.squares += sample * sample;
        }
    }
    for (level, target) in (1..).zip(&mut sums.mean_squares) {
        let side = 1 << level;
        let within = |length: usize, texel: usize| (length - texel * side).min(side);
        let finer = std::mem::take(&mut texels);
        for row in 0..rows.div_ceil(side) {
            for column in 0..columns.div_ceil(side) {
                let pair = |row: usize| finer[row][2 * column] + finer[row][2 * column + 1];
                let luma = pair(2 * row) + pair(2 * row + 1);
                texels[row][column] = luma;
                let count = (within(columns, column) * within(rows, row)) as u32;
                // A shift takes a few percent of the time of a division.
                *target += if count.is_power_of_two() {
                    (luma * luma) >> count.ilog2()
                } else {
                    luma * luma / count
                };
            }
        }
    }
    sums
}
