//! Dirty tiles: from the camera's samples to levels 1 to 5 and the sums of each tile.
//!
//! Twin of `glsl/ingest.comp`. The camera's bytes are read once, and every level is rounded once, from sums of level 0.
//! Level 0 itself is not kept: its texels are samples of the resident copy, converted when a token needs them.
//!
//! Neighbouring dirty tiles form a run, which is walked four rows of pixels at a time in memory order: the rows of a
//! single tile are half cache lines far apart, and waiting for them would cost more than converting them.

use std::ops::Range;

use super::convert::{Converter, RowPair, SIDE, Sampling, rgb_row_of, with_sampling};
use super::level::{RealPixels, TileRow};
use crate::simd::{Kernel, Vectors};
use foveate_core::frame::{FrameView, PixelFormat};
use foveate_core::geometry::pyramid::{TILE_LEVEL_COUNT, rounded_mean};

/// Steps of four rows of pixels in a tile.
const QUADS: usize = SIDE / 4;

/// Most tiles of a run walked together.
const RUN_TILES: usize = 16;

/// Levels 1 and 2 are written in steps of four rows; the others are computed from sums.
const _: () = assert!(TILE_LEVEL_COUNT == 6 && SIDE == 32);

/// The sums over 4 x 4 pixels of four rows of a tile: four groups, each of two of R, two of G, two of B, and two
/// unused.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct QuadSums([u16; 32]);

impl QuadSums {
    /// Index of the sum of `channel` at `x`, 0..8.
    fn place(channel: usize, x: usize) -> usize {
        x / 2 * 8 + 2 * channel + x % 2
    }
}

/// Working memory of one thread: the sums of every tile of a run.
#[derive(Clone, Debug)]
pub struct IngestScratch([[QuadSums; QUADS]; RUN_TILES]);

impl Default for IngestScratch {
    fn default() -> Self {
        Self([[QuadSums([0; 32]); QUADS]; RUN_TILES])
    }
}

/// Ingests runs of neighbouring tiles in one row of tiles.
pub struct IngestRuns<'a, 'b> {
    /// The frame whose samples are ingested.
    pub frame: &'a FrameView<'a>,
    /// The pyramid rows to write.
    pub target: &'a mut TileRow<'b>,
    /// The columns of each run.
    pub runs: &'a mut dyn Iterator<Item = Range<usize>>,
    /// Working memory.
    pub scratch: &'a mut IngestScratch,
}

impl Kernel for IngestRuns<'_, '_> {
    #[inline(always)]
    fn run<V: Vectors>(self, vectors: V) {
        let Self { frame, target, runs, scratch } = self;
        let converter = Converter::new(vectors, frame.color());
        with_sampling!(
            frame.format(),
            ingest_runs(vectors, &converter, frame, target, runs, scratch)
        );
    }
}

#[inline(always)]
fn ingest_runs<V: Vectors, S: Sampling>(
    vectors: V,
    converter: &Converter<V>,
    frame: &FrameView<'_>,
    target: &mut TileRow<'_>,
    runs: &mut dyn Iterator<Item = Range<usize>>,
    scratch: &mut IngestScratch,
) {
    for columns in runs {
        for start in columns.clone().step_by(RUN_TILES) {
            let columns = start..columns.end.min(start + RUN_TILES);
            ingest::<V, S>(vectors, converter, frame, target, columns, scratch);
        }
    }
}

#[inline(always)]
fn ingest<V: Vectors, S: Sampling>(
    vectors: V,
    converter: &Converter<V>,
    frame: &FrameView<'_>,
    target: &mut TileRow<'_>,
    columns: Range<usize>,
    scratch: &mut IngestScratch,
) {
    let (width, height) = (frame.extent().width as usize, frame.extent().height as usize);
    let first_row = target.index * SIDE;
    let real = |column: usize, y: usize, rows: usize| RealPixels {
        columns: (width - column * SIDE).min(SIDE),
        rows: height.saturating_sub(y).min(rows),
    };
    // Only the last column of tiles may be cut off.
    let whole_end = columns.end.min(width / SIDE).max(columns.start);
    for quad in 0..QUADS {
        let y = first_row + 4 * quad;
        if height <= y {
            for sums in &mut scratch.0[..columns.len()] {
                sums[quad] = QuadSums([0; 32]);
            }
            continue;
        }
        let whole_quads = if y + 4 <= height { columns.start..whole_end } else { 0..0 };
        let whole_count = whole_quads.len();
        ingest_whole_quads::<V, S>(vectors, converter, frame, target, quad, whole_quads, scratch);
        for column in columns.start + whole_count..columns.end {
            let real = real(column, y, 4);
            let sums = ingest_cut_quad::<V, S>(converter, frame, target, quad, column, real);
            scratch.0[column - columns.start][quad] = sums;
        }
    }
    for (column, sums) in columns.zip(&scratch.0) {
        let real = real(column, first_row, SIDE);
        if real.columns == SIDE && real.rows == SIDE {
            climb_whole(vectors, target, column, sums);
        } else {
            climb_cut(target, column, sums, real);
        }
    }
}

/// Writes levels 1 and 2 of four rows of pixels of some tiles, and leaves their sums in `scratch`.
#[inline(always)]
fn ingest_whole_quads<V: Vectors, S: Sampling>(
    vectors: V,
    converter: &Converter<V>,
    frame: &FrameView<'_>,
    target: &mut TileRow<'_>,
    quad: usize,
    columns: Range<usize>,
    scratch: &mut IngestScratch,
) {
    if columns.is_empty() {
        return;
    }
    let y = target.index * SIDE + 4 * quad;
    let pairs = [RowPair::new(frame, y), RowPair::new(frame, y + 2)];
    let [first, second, ..] = &mut target.levels;
    for (column, sums) in columns.zip(&mut scratch.0) {
        let [row_0, row_1] = S::rows_of_pair(converter, &pairs[0], column * SIDE);
        let [row_2, row_3] = S::rows_of_pair(converter, &pairs[1], column * SIDE);
        let boxes = [
            box_sums(vectors, [row_0[0], row_1[0], row_2[0], row_3[0]]),
            box_sums(vectors, [row_0[1], row_1[1], row_2[1], row_3[1]]),
            box_sums(vectors, [row_0[2], row_1[2], row_2[2], row_3[2]]),
        ];
        let quad_sums = quad_sums(vectors, boxes);
        sums[quad] = QuadSums(vectors.stored(quad_sums));

        let [red, green, blue] = boxes;
        let red = vectors.rounded_down::<2>(red);
        let green = vectors.rounded_down::<2>(green);
        let blue = vectors.rounded_down::<2>(blue);
        let [upper_red, lower_red, upper_green, lower_green] =
            vectors.transposed_4(vectors.narrowed(red, green));
        let rest = vectors.narrowed(blue, vectors.rounded_down::<4>(quad_sums));
        let [upper_blue, lower_blue, ..] = vectors.transposed_4(rest);
        *first.two_rows_mut(0, quad, column) = [upper_red, lower_red];
        *first.two_rows_mut(1, quad, column) = [upper_green, lower_green];
        *first.two_rows_mut(2, quad, column) = [upper_blue, lower_blue];
        let [.., red, green, blue, _] = vectors.transposed_2(rest);
        *second.texels_mut(0, quad, column) = red;
        *second.texels_mut(1, quad, column) = green;
        *second.texels_mut(2, quad, column) = blue;
    }
}

/// The sums over 2 x 2 pixels of four rows of one channel: four groups, each of four of the upper two rows and four of the
/// lower two.
#[inline(always)]
fn box_sums<V: Vectors>(vectors: V, [row_0, row_1, row_2, row_3]: [V::Words; 4]) -> V::Words {
    let even_rows = vectors.added_pairs(vectors.narrowed(row_0, row_2));
    let odd_rows = vectors.added_pairs(vectors.narrowed(row_1, row_3));
    vectors.added(even_rows, odd_rows)
}

/// The sums over 4 x 4 pixels, in the layout of [`QuadSums`].
#[inline(always)]
fn quad_sums<V: Vectors>(vectors: V, [red, green, blue]: [V::Words; 3]) -> V::Words {
    let (none, ones) = (vectors.sums(0), vectors.words([1; 2]));
    let red = vectors.multiplied_and_added(none, red, ones);
    let green = vectors.multiplied_and_added(none, green, ones);
    let blue = vectors.multiplied_and_added(none, blue, ones);
    let red_green = vectors.added_halves(red, green);
    let blue = vectors.added_halves(blue, blue);
    vectors.narrowed_sums(red_green, blue)
}

/// Ingests a quad of a tile at the edge, of which only the `real` pixels are in the picture.
#[inline(always)]
fn ingest_cut_quad<V: Vectors, S: Sampling>(
    converter: &Converter<V>,
    frame: &FrameView<'_>,
    target: &mut TileRow<'_>,
    quad: usize,
    column: usize,
    real: RealPixels,
) -> QuadSums {
    let (x, y) = (column * SIDE, target.index * SIDE + 4 * quad);
    let mut quad_sums = QuadSums([0; 32]);
    let [first, second, ..] = &mut target.levels;
    for pair in 0..2 {
        let real = RealPixels { rows: real.rows.saturating_sub(2 * pair).min(2), ..real };
        let mut sums = [[0; SIDE / 2]; 3];
        for row in 0..real.rows {
            let rgb = rgb_row_of::<V, S>(converter, frame, x, y + 2 * pair + row, real.columns);
            for (sums, values) in sums.iter_mut().zip(&rgb) {
                for (x, value) in values[..real.columns].iter().enumerate() {
                    sums[x / 2] += u16::from(*value);
                }
            }
        }
        for (channel, sums) in sums.iter().enumerate() {
            let texels = first.texels_mut::<{ SIDE / 2 }>(channel, 2 * quad + pair, column);
            for (x, (texel, sum)) in texels.iter_mut().zip(sums).enumerate() {
                *texel = mean((*sum).into(), real.pixels(1, x, 0));
                quad_sums.0[QuadSums::place(channel, x / 2)] += sum;
            }
        }
    }
    for channel in 0..3 {
        let texels = second.texels_mut::<{ SIDE / 4 }>(channel, quad, column);
        for (x, texel) in texels.iter_mut().enumerate() {
            let sum = quad_sums.0[QuadSums::place(channel, x)];
            *texel = mean(sum.into(), real.pixels(2, x, 0));
        }
    }
    quad_sums
}

/// Writes levels 3 to 5 of a whole tile, and its sums.
#[inline(always)]
fn climb_whole<V: Vectors>(
    vectors: V,
    target: &mut TileRow<'_>,
    column: usize,
    sums: &[QuadSums; QUADS],
) {
    let [_, _, third_level, fourth_level, fifth_level] = &mut target.levels;
    let (none, ones) = (vectors.sums(0), vectors.words([1; 2]));
    // For each row: four groups, each of one sum of R, of G, of B, and one unused.
    let mut third = [none; QUADS / 2];
    for (sums, [upper, lower]) in third.iter_mut().zip(sums.as_chunks().0) {
        let rows = vectors.added(vectors.loaded(&upper.0), vectors.loaded(&lower.0));
        *sums = vectors.multiplied_and_added(none, rows, ones);
    }
    let mut fourth = [[0; 16]; QUADS / 4];
    for (fourth, [upper, lower]) in fourth.iter_mut().zip(third.as_chunks().0) {
        let (upper, lower) = (vectors.stored_sums(*upper), vectors.stored_sums(*lower));
        for (sum, (upper, lower)) in fourth.iter_mut().zip(upper.iter().zip(&lower)) {
            *sum = upper + lower;
        }
    }
    let [row_0, row_1, row_2, row_3] = third;
    let upper = vectors.narrowed_sums(
        vectors.rounded_sums_down::<6>(row_0),
        vectors.rounded_sums_down::<6>(row_1),
    );
    let lower = vectors.narrowed_sums(
        vectors.rounded_sums_down::<6>(row_2),
        vectors.rounded_sums_down::<6>(row_3),
    );
    let means = vectors.transposed_1(vectors.narrowed(upper, lower));
    for (y, [red, green, blue, _]) in means.as_chunks().0.iter().enumerate() {
        *third_level.texels_mut(0, y, column) = *red;
        *third_level.texels_mut(1, y, column) = *green;
        *third_level.texels_mut(2, y, column) = *blue;
    }
    for channel in 0..3 {
        let mut total = 0;
        for (y, sums) in fourth.iter().enumerate() {
            let [left, right] =
                [sums[channel] + sums[4 + channel], sums[8 + channel] + sums[12 + channel]];
            *fourth_level.texels_mut(channel, y, column) =
                [mean_of_whole(left, 4), mean_of_whole(right, 4)];
            total += left + right;
        }
        *fifth_level.texels_mut(channel, 0, column) = [mean_of_whole(total, 5)];
        target.sums[column][channel] = total;
    }
}

/// Writes levels 3 to 5 of a tile at the edge, with only `real` pixels, and its sums.
#[inline(never)]
fn climb_cut(target: &mut TileRow<'_>, column: usize, sums: &[QuadSums; QUADS], real: RealPixels) {
    let [_, _, levels @ ..] = &mut target.levels;
    for channel in 0..3 {
        let mut below = [[0; QUADS]; QUADS];
        for (row, sums) in below.iter_mut().zip(sums) {
            for (x, sum) in row.iter_mut().enumerate() {
                *sum = u32::from(sums.0[QuadSums::place(channel, x)]);
            }
        }
        for (level, rows) in (3..).zip(&mut *levels) {
            let side = SIDE >> level;
            below = halved(&below);
            for (y, sums) in below[..side].iter().enumerate() {
                let row = rows.texels_mut_of(side, channel, y, column);
                for (x, (texel, sum)) in row.iter_mut().zip(sums).enumerate() {
                    *texel = mean(*sum, real.pixels(level, x, y));
                }
            }
        }
        target.sums[column][channel] = below[0][0];
    }
}

/// Adds up boxes of 2 x 2; values outside are 0.
fn halved(sums: &[[u32; QUADS]; QUADS]) -> [[u32; QUADS]; QUADS] {
    let mut halved = [[0; QUADS]; QUADS];
    for (y, row) in sums.iter().enumerate() {
        for (x, sum) in row.iter().enumerate() {
            halved[y / 2][x / 2] += sum;
        }
    }
    halved
}

/// The mean of a sum over a whole box of a level.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "a mean of 8-bit samples has 8 bits")]
fn mean_of_whole(sum: u32, level: u32) -> u8 {
    ((sum + (1 << (2 * level - 1))) >> (2 * level)) as u8
}

/// 0 without real pixels: such a texel is outside its level.
#[expect(clippy::cast_possible_truncation, reason = "at most the pixels of a tile")]
fn mean(sum: u32, count: usize) -> u8 {
    if count == 0 { 0 } else { rounded_mean(sum, count as u32) }
}
