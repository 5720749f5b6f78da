//! What the dirty tiles look like, in sums of integers.
//!
//! Twin of `glsl/features.comp`.

#![expect(clippy::cast_possible_truncation, reason = "samples of 8 bits, counts within a tile")]

use std::ops::Range;

use super::convert::SIDE;
use crate::simd::{Instructions, Kernel, Vectors};
use foveate_core::frame::{FrameView, PixelFormat};
use foveate_core::geometry::tile::TILE_SIDE;
use foveate_core::relevance::features::{BINS, STROKE_MAX, STRONG, TileFeatures};

/// Luma of a tile. Beyond the source, and one column and row beyond the tile, it is that of the nearest pixel, so that nothing
/// differs there.
struct Luma([[u8; SIDE + 1]; SIDE + 1]);

/// Real columns and rows of a tile.
#[derive(Clone, Copy)]
struct Real {
    columns: usize,
    rows: usize,
}

/// Computes the features of the tiles of `columns`, neighbours in one row of tiles.
#[derive(Debug)]
pub struct FeatureRun<'a> {
    /// The resident copy.
    pub frame: &'a FrameView<'a>,
    /// The row of tiles.
    pub row: usize,
    /// The tiles of the run.
    pub columns: Range<usize>,
    /// The features of the whole row of tiles.
    pub target: &'a mut [TileFeatures],
}

/// The features of all tiles of a frame.
pub fn features_of(frame: &FrameView<'_>, target: &mut [TileFeatures]) {
    let columns = frame.extent().in_cells(TILE_SIDE).width as usize;
    for (row, target) in target.chunks_mut(columns).enumerate() {
        Instructions::best().run(FeatureRun { frame, row, columns: 0..columns, target });
    }
}

impl Kernel for FeatureRun<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vectors>(self, vectors: V) {
        let Self { frame, row, columns, target } = self;
        let (width, height) = (frame.extent().width as usize, frame.extent().height as usize);
        let mut luma = Luma([[0; SIDE + 1]; SIDE + 1]);
        for (column, target) in columns.clone().zip(&mut target[columns]) {
            let (x, y) = (column * SIDE, row * SIDE);
            let real = Real { columns: (width - x).min(SIDE), rows: (height - y).min(SIDE) };
            load(frame, x, y, real, &mut luma);
            // Twice, so that the loops of a whole tile have constant bounds.
            if real.columns == SIDE && real.rows == SIDE {
                let real = Real { columns: SIDE, rows: SIDE };
                *target = sums(vectors, &luma, real);
                add_coarse(&luma, real, target);
            } else {
                *target = sums(vectors, &luma, real);
                correct_cut(target, &luma, real);
                add_coarse(&luma, real, target);
            }
        }
    }
}

#[inline(always)]
fn load(frame: &FrameView<'_>, x: usize, y: usize, real: Real, luma: &mut Luma) {
    for (row, target) in luma.0[..real.rows].iter_mut().enumerate() {
        let samples = frame.row(0, y + row);
        let (target, beyond) = target.split_at_mut(real.columns);
        match frame.format() {
            PixelFormat::Nv12 | PixelFormat::I420 | PixelFormat::Gray8 => {
                target.copy_from_slice(&samples[x..x + real.columns]);
            }
            PixelFormat::Yuy2 => {
                for (luma, pair) in target.iter_mut().zip(samples[2 * x..].chunks(2)) {
                    *luma = pair[0];
                }
            }
            format => {
                let is_reversed = matches!(format, PixelFormat::Bgrx | PixelFormat::Bgra);
                for (luma, pixel) in target.iter_mut().zip(samples[4 * x..].as_chunks::<4>().0) {
                    let [first, g, third] = [pixel[0], pixel[1], pixel[2]].map(u32::from);
                    let (r, b) = if is_reversed { (third, first) } else { (first, third) };
                    *luma = ((54 * r + 183 * g + 19 * b + 128) >> 8) as u8;
                }
            }
        }
        beyond.fill(target[real.columns - 1]);
    }
    let (rows, beyond) = luma.0.split_at_mut(real.rows);
    beyond.fill(rows[real.rows - 1]);
}

/// All but the coarse sums. Of a tile that is cut off, what [`correct_cut`] says is still to be corrected.
#[inline(always)]
fn sums<V: Vectors>(vectors: V, Luma(luma): &Luma, real: Real) -> TileFeatures {
    let none = vectors.sums(0);
    let [mut total, mut across, mut down] = [vectors.words([0; 2]); 3];
    let [mut squares, mut across_squares, mut down_squares, mut products] = [none; 4];
    // Strong rises and falls, to the right and below: a bit each.
    let (mut rises, mut falls) = ([[0u32; SIDE]; 2], [[0u32; SIDE]; 2]);
    let strong = i16::from(STRONG) - 1;
    let zero = vectors.words([0; 2]);
    let columns = u32::MAX >> (SIDE - real.columns);
    for (y, rows) in luma.array_windows().enumerate().take(real.rows) {
        let [row, below]: &[_; 2] = rows;
        let value = vectors.widened(first(row));
        let dx = vectors.subtracted(vectors.widened(row.last_chunk().expect("a row")), value);
        let dy = vectors.subtracted(vectors.widened(first(below)), value);
        total = vectors.added(total, value);
        across = vectors.added(across, vectors.magnitudes(dx));
        down = vectors.added(down, vectors.magnitudes(dy));
        squares = vectors.multiplied_and_added(squares, value, value);
        across_squares = vectors.multiplied_and_added(across_squares, dx, dx);
        down_squares = vectors.multiplied_and_added(down_squares, dy, dy);
        products = vectors.multiplied_and_added(products, dx, dy);
        for (axis, difference) in [dx, dy].into_iter().enumerate() {
            rises[axis][y] = columns & vectors.above(difference, strong);
            falls[axis][y] = columns & vectors.above(vectors.subtracted(zero, difference), strong);
        }
    }
    const PIXELS: u32 = (SIDE * SIDE) as u32;
    TileFeatures {
        count: PIXELS,
        luma: sum_of_words(vectors, total),
        luma_squared: sum_of_sums(vectors, squares),
        differences: [PIXELS - SIDE as u32; 2],
        gradient: [sum_of_words(vectors, across), sum_of_words(vectors, down)],
        gradient_squared: [
            sum_of_sums(vectors, across_squares),
            sum_of_sums(vectors, down_squares),
        ],
        gradient_product: sum_of_sums(vectors, products).cast_signed(),
        strokes: [
            strokes_in_rows(&rises[0], &falls[0]) + strokes_in_rows(&falls[0], &rises[0]),
            strokes_in_columns(&rises[1], &falls[1]) + strokes_in_columns(&falls[1], &rises[1]),
        ],
        histogram: histogram(luma),
        ..TileFeatures::default()
    }
}

#[inline(always)]
fn first(row: &[u8; SIDE + 1]) -> &[u8; SIDE] {
    row.first_chunk().expect("a row")
}

#[inline(always)]
fn sum_of_words<V: Vectors>(vectors: V, words: V::Words) -> u32 {
    let mut total = 0;
    for word in vectors.stored(words) {
        total += u32::from(word);
    }
    total
}

#[inline(always)]
fn sum_of_sums<V: Vectors>(vectors: V, sums: V::Sums) -> u32 {
    let mut total = 0u32;
    for sum in vectors.stored_sums(sums) {
        total = total.wrapping_add(sum);
    }
    total
}

/// Pixels of a whole tile by luma / 16. Each bin is counted by itself, in every column at once.
#[inline(always)]
fn histogram(luma: &[[u8; SIDE + 1]; SIDE + 1]) -> [u32; BINS] {
    let mut shares = [[0u8; SIDE]; SIDE];
    // Not zipped: a call that is not inlined would cost more than a row.
    for (y, shares) in shares.iter_mut().enumerate() {
        for (x, share) in shares.iter_mut().enumerate() {
            *share = luma[y][x] >> 4;
        }
    }
    let mut bins = [0; BINS];
    for (bin, total) in bins.iter_mut().enumerate() {
        let mut counts = [0u8; SIDE];
        for row in &shares {
            for (x, count) in counts.iter_mut().enumerate() {
                *count += u8::from(row[x] == bin as u8);
            }
        }
        for count in counts {
            *total += u32::from(count);
        }
    }
    bins
}

/// Corrects what the pixels beyond the source have changed: they count, and the columns differ downwards as the last one does.
#[inline(never)]
fn correct_cut(features: &mut TileFeatures, Luma(luma): &Luma, real: Real) {
    let Real { columns, rows } = real;
    features.count = (columns * rows) as u32;
    features.differences = [(columns - 1) * rows, columns * (rows - 1)].map(|count| count as u32);
    (features.luma, features.luma_squared, features.histogram) = (0, 0, [0; BINS]);
    for row in &luma[..rows] {
        for value in &row[..columns] {
            let value = u32::from(*value);
            features.luma += value;
            features.luma_squared += value * value;
            features.histogram[value as usize * BINS / 256] += 1;
        }
    }
    let copies = (SIDE - columns) as u32;
    for rows in luma[..rows].windows(2) {
        let down = u32::from(rows[0][columns - 1].abs_diff(rows[1][columns - 1]));
        features.gradient[1] -= copies * down;
        features.gradient_squared[1] -= copies * down * down;
    }
}

/// How many differences of each row are followed by one of the `other` sign.
#[inline(always)]
fn strokes_in_rows(strong: &[u32; SIDE], other: &[u32; SIDE]) -> u32 {
    let mut count = 0;
    for (y, strong) in strong.iter().enumerate() {
        let mut near = 0;
        for later in 1..=STROKE_MAX {
            near |= other[y] >> later;
        }
        count += (strong & near).count_ones();
    }
    count
}

/// The same of each column.
#[inline(always)]
fn strokes_in_columns(strong: &[u32; SIDE], other: &[u32; SIDE]) -> u32 {
    let mut count = 0;
    for (y, strong) in strong.iter().enumerate() {
        let mut near = 0;
        for later in &other[y + 1..(y + 1 + STROKE_MAX as usize).min(SIDE)] {
            near |= later;
        }
        count += (strong & near).count_ones();
    }
    count
}

/// The sums of the blocks whose pixels are all real.
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "zipping is a call")]
fn add_coarse(Luma(luma): &Luma, real: Real, features: &mut TileFeatures) {
    const BLOCKS: usize = SIDE / 4;
    let (columns, rows) = (real.columns / 4, real.rows / 4);
    let mut means = [[0i32; BLOCKS]; BLOCKS];
    for (y, means) in means.iter_mut().enumerate() {
        let mut quads = [0u16; SIDE];
        for row in &luma[4 * y..4 * y + 4] {
            for (x, quad) in quads.iter_mut().enumerate() {
                *quad += u16::from(row[x]);
            }
        }
        for (x, mean) in means.iter_mut().enumerate() {
            let quads = &quads[4 * x..4 * x + 4];
            *mean = i32::from((quads[0] + quads[1] + quads[2] + quads[3] + 8) >> 4);
        }
    }
    let (across, down) = (columns.saturating_sub(1), rows.saturating_sub(1));
    let mut squares = 0;
    for row in &means[..rows] {
        for x in 0..across {
            let difference = row[x + 1] - row[x];
            squares += difference * difference;
        }
    }
    for y in 0..down {
        for x in 0..columns {
            let difference = means[y + 1][x] - means[y][x];
            squares += difference * difference;
        }
    }
    features.coarse_differences = (across * rows + columns * down) as u32;
    features.coarse_squared = squares.cast_unsigned();
}
