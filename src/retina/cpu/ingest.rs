//! Dirty tiles: from the camera's samples to the mip column of each, levels 1 to 5, and to its sums.
//!
//! Twin of `glsl/ingest.comp`. The camera's bytes are read once, and every level is rounded once, from sums of level 0.
//! Level 0 itself is not kept: its texels are samples of the resident copy, converted when a token needs them.
//!
//! Neighbouring dirty tiles are a run, which is walked four rows of pixels at a time in the order of memory: the rows of
//! a single tile are half cache lines far apart, and waiting for them would cost more than converting them.

use std::ops::Range;

use super::convert::{RgbRow, RowPair, SIDE, Sampling, rgb_row, with_sampling};
use super::level::{LevelRows, TileRow};
use crate::frame::{FrameView, PixelFormat};
use crate::geometry::pyramid::{TILE_LEVEL_COUNT, rounded_mean};
use crate::simd::Kernel;

/// Steps of four rows of pixels in a tile.
const QUADS: usize = SIDE / 4;

/// Most tiles of a run that are walked together.
const RUN_TILES: usize = 16;

/// The levels that a tile writes in steps of four rows; the others come out of their sums.
const _: () = assert!(TILE_LEVEL_COUNT == 6 && SIDE == 32);

/// R, G, B and nothing, side by side: `LANES` sums of each, so that one operation serves all.
type Lanes<const N: usize> = [u16; N];

/// The sums over 4 x 4 pixels of a tile: for each four rows of pixels, eight of R, of G, of B, and eight zeros.
type QuadSums = [Lanes<32>; QUADS];

/// Working memory of one thread.
#[derive(Clone, Debug)]
pub struct Scratch([QuadSums; RUN_TILES]);

impl Default for Scratch {
    fn default() -> Self {
        Self([[[0; 32]; QUADS]; RUN_TILES])
    }
}

/// Ingests the tiles of `columns`, neighbours in one row of tiles.
#[derive(Debug)]
pub struct IngestRun<'a, 'b> {
    /// What the pyramid is built from.
    pub frame: &'a FrameView<'a>,
    /// What the row of tiles has of the pyramid.
    pub target: &'a mut TileRow<'b>,
    /// Which tiles.
    pub columns: Range<usize>,
    /// Working memory.
    pub scratch: &'a mut Scratch,
}

impl Kernel for IngestRun<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { frame, target, columns, scratch } = self;
        for start in columns.clone().step_by(RUN_TILES) {
            let columns = start..columns.end.min(start + RUN_TILES);
            with_sampling!(frame.format(), ingest(frame, target, columns, scratch));
        }
    }
}

#[inline(always)]
fn ingest<S: Sampling>(
    frame: &FrameView<'_>,
    target: &mut TileRow<'_>,
    columns: Range<usize>,
    scratch: &mut Scratch,
) {
    let (width, height) = (frame.extent().width as usize, frame.extent().height as usize);
    let first_row = target.index * SIDE;
    let real = |column: usize, y: usize, rows: usize| Real {
        columns: (width - column * SIDE).min(SIDE),
        rows: height.saturating_sub(y).min(rows),
    };
    // Only the last column of tiles may be cut.
    let whole_end = columns.end.min(width / SIDE).max(columns.start);
    for quad in 0..QUADS {
        let y = first_row + 4 * quad;
        let whole_quads = if y + 4 <= height { columns.start..whole_end } else { 0..0 };
        ingest_whole_quads::<S>(frame, target, quad, whole_quads.clone(), scratch);
        for column in columns.clone().skip(whole_quads.len()) {
            let sums = ingest_cut_quad(frame, target, quad, column, real(column, y, 4));
            scratch.0[column - columns.start][quad] = sums;
        }
    }
    for (column, sums) in columns.zip(&scratch.0) {
        climb(target, column, sums, real(column, first_row, SIDE));
    }
}

/// Columns and rows of pixels that are there, of a tile or of four rows of one.
#[derive(Clone, Copy)]
struct Real {
    columns: usize,
    rows: usize,
}

impl Real {
    /// How many of the pixels under texel (`x`, `y`) of `level` are there.
    fn pixels(self, level: u32, x: usize, y: usize) -> usize {
        let side = 1 << level;
        let along = |index: usize, end: usize| end.saturating_sub(index * side).min(side);
        along(x, self.columns) * along(y, self.rows)
    }
}

/// Writes levels 1 and 2 of four rows of pixels of some tiles, and leaves their sums in `scratch`.
#[inline(always)]
fn ingest_whole_quads<S: Sampling>(
    frame: &FrameView<'_>,
    target: &mut TileRow<'_>,
    quad: usize,
    columns: Range<usize>,
    scratch: &mut Scratch,
) {
    if columns.is_empty() {
        return;
    }
    let color = frame.color();
    let y = target.index * SIDE + 4 * quad;
    let pairs = [RowPair::new(frame, y), RowPair::new(frame, y + 2)];
    let [first, second, ..] = &mut target.levels;
    let mut first = first.rows_mut(2 * quad);
    let mut second = second.row_mut(quad);
    for (column, quad_sums) in columns.zip(&mut scratch.0) {
        let quad_sums = &mut quad_sums[quad];
        let mut sums = [[[0; 16]; 3]; 2];
        for ((sums, pair), rows) in sums.iter_mut().zip(&pairs).zip(&mut first) {
            let [upper, lower] = S::rows_of_pair(color, pair, column * SIDE);
            *sums = pair_sums(&upper, &lower);
            for (row, sums) in rows.iter_mut().zip(sums) {
                *chunk_mut::<16>(row, column) = means_of_whole::<16>(sums, 1);
            }
        }
        *quad_sums = sums_of_pairs(&sums);
        let means = means_of_whole::<32>(quad_sums, 2);
        for (row, means) in second.iter_mut().zip(means.as_chunks::<8>().0) {
            *chunk_mut::<8>(row, column) = *means;
        }
    }
}

/// The same for one tile of which only `real` pixels are there.
#[inline(never)]
fn ingest_cut_quad(
    frame: &FrameView<'_>,
    target: &mut TileRow<'_>,
    quad: usize,
    column: usize,
    real: Real,
) -> Lanes<32> {
    let (x, y) = (column * SIDE, target.index * SIDE + 4 * quad);
    let row = |row: usize| -> RgbRow {
        if real.rows <= row {
            return [[0; SIDE]; 3];
        }
        let mut rgb = rgb_row(frame, x, y + row, real.columns);
        for channel in &mut rgb {
            channel[real.columns..].fill(0);
        }
        rgb
    };
    let [first, second, ..] = &mut target.levels;
    let pair_sums = [0, 1].map(|pair| {
        let sums = pair_sums(&row(2 * pair), &row(2 * pair + 1));
        let real = Real { rows: real.rows.saturating_sub(2 * pair), ..real };
        for (channel, sums) in sums.iter().enumerate() {
            let means = std::array::from_fn(|x| mean_of_cut(sums[x], 1, x, 0, real));
            *chunk_mut::<16>(first.row_mut_of(channel, 2 * quad + pair), column) = means;
        }
        sums
    });
    let sums = sums_of_pairs(&pair_sums);
    for (channel, sums) in sums.as_chunks::<8>().0.iter().enumerate().take(3) {
        let means = std::array::from_fn(|x| mean_of_cut(sums[x], 2, x, 0, real));
        *chunk_mut::<8>(second.row_mut_of(channel, quad), column) = means;
    }
    sums
}

/// Writes levels 3 to 5 of a tile, and its sums.
#[inline(always)]
fn climb(target: &mut TileRow<'_>, column: usize, sums: &QuadSums, real: Real) {
    let mut third = [[0; 16]; QUADS / 2];
    for (sums, [upper, lower]) in third.iter_mut().zip(sums.as_chunks().0) {
        *sums = halved(upper, lower);
    }
    let mut fourth = [[0; 8]; QUADS / 4];
    for (sums, [upper, lower]) in fourth.iter_mut().zip(third.as_chunks().0) {
        // 256 samples of 255 are 65,280, and half of their count still fits.
        *sums = halved(upper, lower);
    }
    let mut total = [0; 3];
    for (channel, total) in total.iter_mut().enumerate() {
        for row in &fourth {
            *total += u32::from(row[2 * channel]) + u32::from(row[2 * channel + 1]);
        }
    }
    let [.., third_level, fourth_level, fifth_level] = &mut target.levels;
    store_level::<16, 4>(third_level, 3, column, &third, real);
    store_level::<8, 2>(fourth_level, 4, column, &fourth, real);
    for (channel, total) in total.iter().enumerate() {
        fifth_level.row_mut_of(channel, 0)[column] = mean(*total, real.columns * real.rows);
    }
    target.sums[column] = total;
}

/// Rounds the sums of one level of a tile, `WIDTH` to a row of each channel, and stores them.
#[inline(always)]
fn store_level<const LANES: usize, const WIDTH: usize>(
    level: &mut LevelRows<'_>,
    number: u32,
    column: usize,
    sums: &[Lanes<LANES>],
    real: Real,
) {
    let is_whole = real.columns == SIDE && real.rows == SIDE;
    for (y, sums) in sums.iter().enumerate() {
        let mut means = means_of_whole(sums, number);
        if !is_whole {
            for (lane, mean) in means.iter_mut().enumerate() {
                *mean = mean_of_cut(sums[lane], number, lane % WIDTH, y, real);
            }
        }
        for (channel, means) in means.as_chunks::<WIDTH>().0.iter().enumerate().take(3) {
            *chunk_mut::<WIDTH>(level.row_mut_of(channel, y), column) = *means;
        }
    }
}

/// The place of tile `column` in a row of a level that has `N` texels for each.
#[inline(always)]
fn chunk_mut<const N: usize>(row: &mut [u8], column: usize) -> &mut [u8; N] {
    row[column * N..].first_chunk_mut().expect("rows are padded to whole tiles")
}

/// The sums over 2 x 2 pixels.
#[inline(always)]
fn pair_sums(upper: &RgbRow, lower: &RgbRow) -> [Lanes<16>; 3] {
    let mut sums = [[0; 16]; 3];
    for channel in 0..3 {
        let mut rows = [0; SIDE];
        for x in 0..SIDE {
            rows[x] = upper[channel][x] + lower[channel][x];
        }
        add_pairs(&rows, &mut sums[channel]);
    }
    sums
}

/// The sums over 4 x 4 pixels.
#[inline(always)]
fn sums_of_pairs([upper, lower]: &[[Lanes<16>; 3]; 2]) -> Lanes<32> {
    let mut sums = [0; 32];
    let (channels, _) = sums.as_chunks_mut::<8>();
    for (channel, sums) in channels.iter_mut().enumerate().take(3) {
        *sums = halved(&upper[channel], &lower[channel]);
    }
    sums
}

/// Adds up boxes of 2 x 2.
#[inline(always)]
fn halved<const FROM: usize, const TO: usize>(
    upper: &Lanes<FROM>,
    lower: &Lanes<FROM>,
) -> Lanes<TO> {
    let mut rows = [0; FROM];
    for x in 0..FROM {
        rows[x] = upper[x] + lower[x];
    }
    let mut sums = [0; TO];
    add_pairs(&rows, &mut sums);
    sums
}

#[inline(always)]
fn add_pairs<const FROM: usize, const TO: usize>(row: &[u16; FROM], sums: &mut [u16; TO]) {
    for (sum, [left, right]) in sums.iter_mut().zip(row.as_chunks().0) {
        *sum = left + right;
    }
}

/// The means of sums over whole boxes of a level.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "a mean of 8-bit samples has 8 bits")]
fn means_of_whole<const N: usize>(sums: &Lanes<N>, level: u32) -> [u8; N] {
    let mut means = [0; N];
    for (mean, sum) in means.iter_mut().zip(sums) {
        *mean = ((sum + (1 << (2 * level - 1))) >> (2 * level)) as u8;
    }
    means
}

/// The mean of a sum over the box of texel (`x`, `y`), of which only the pixels `real` are there.
fn mean_of_cut(sum: u16, level: u32, x: usize, y: usize, real: Real) -> u8 {
    mean(sum.into(), real.pixels(level, x, y))
}

/// 0 where there is no real pixel: such a texel is past its level's edges.
#[expect(clippy::cast_possible_truncation, reason = "at most the pixels of a tile")]
fn mean(sum: u32, count: usize) -> u8 {
    if count == 0 { 0 } else { rounded_mean(sum, count as u32) }
}
