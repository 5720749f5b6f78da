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

/// Columns of 4x4 pixels of a tile.
const QUARTERS: usize = SIDE / 4;

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
            let upper = whole_blocks(vectors, tile);
            let lower = whole_blocks(vectors, &tile[BLOCK * SIDE..]);
            let whole = [upper, lower];
            for (block, sums) in blocks(target, width, column) {
                let (x, y) = (block.0 * BLOCK, block.1 * BLOCK);
                let within = |length: usize, from: usize| length.saturating_sub(from).min(BLOCK);
                let (columns, rows) = (within(real.columns, x), within(real.rows, y));
                *sums = if columns == BLOCK && rows == BLOCK {
                    whole[block.1][block.0]
                } else {
                    cut_block(tile, x, y, columns, rows)
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

/// The sums of the two blocks whose `rows` of a tile these are, as if all of their pixels were real.
#[inline(always)]
fn whole_blocks<V: Vectors>(vectors: V, rows: &[u8]) -> [BlockSums; 2] {
    let ones = vectors.words([1; 2]);
    let [mut squares, mut halved_squares] = [vectors.sums(0); 2];
    let mut quarters = [[0; QUARTERS]; BLOCK / 4];
    for four in 0..BLOCK / 4 {
        // Of 2x2 pixels each, two rows.
        let mut halves = [0; 2 * BLOCK];
        for two in 0..2 {
            let rows = chunk(rows, (4 * four + 2 * two) * SIDE);
            let [even, odd] = vectors.unzipped(rows);
            squares = vectors.multiplied_and_added(squares, even, even);
            squares = vectors.multiplied_and_added(squares, odd, odd);
            let pairs = vectors.stored(vectors.added_pairs(vectors.loaded_bytes(rows)));
            for at in 0..BLOCK {
                halves[two * BLOCK + at] = pairs[at] + pairs[BLOCK + at];
            }
        }
        let halves = vectors.loaded(&halves);
        // s^2 / 4, rounded down, is s / 2 rounded down times s / 2 rounded up.
        let up = vectors.rounded_down::<1>(halves);
        let down = vectors.subtracted(halves, up);
        halved_squares = vectors.multiplied_and_added(halved_squares, down, up);
        let pairs = vectors.multiplied_and_added(vectors.sums(0), halves, ones);
        let pairs = vectors.stored_sums(pairs);
        for at in 0..QUARTERS {
            quarters[four][at] = pairs[at] + pairs[QUARTERS + at];
        }
    }
    let squares = vectors.stored_sums(squares);
    let halved_squares = vectors.stored_sums(halved_squares);
    let mut blocks = [BlockSums::default(); 2];
    for block in 0..2 {
        let sums = &mut blocks[block];
        sums.count = (BLOCK * BLOCK) as u32;
        // Of the sums over a row four are of the first block, and four of the second.
        for at in 4 * block..4 * (block + 1) {
            sums.squares += squares[at] + squares[8 + at];
            sums.mean_squares[0] += halved_squares[at] + halved_squares[8 + at];
        }
        let mut eighths = [[0; 2]; 2];
        for y in 0..4 {
            for x in 0..4 {
                let sum = quarters[y][4 * block + x];
                sums.mean_squares[1] += mean_square(sum, 2);
                eighths[y / 2][x / 2] += sum;
            }
        }
        for sum in [eighths[0][0], eighths[0][1], eighths[1][0], eighths[1][1]] {
            sums.mean_squares[2] += mean_square(sum, 3);
            sums.luma += sum;
        }
        sums.mean_squares[3] = mean_square(sums.luma, 4);
    }
    blocks
}

/// The square of the sum over a texel of a level, divided by its pixels.
#[inline(always)]
fn mean_square(sum: u32, level: u32) -> u32 {
    // At most (255 * 256)^2, which is below 2^32.
    (sum * sum) >> (2 * level)
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
