//! What the dirty tiles look like, in sums of integers.
//!
//! Twin of `glsl/features.comp`.

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
            *target = sums(vectors, &luma, real);
            if real.columns < SIDE || real.rows < SIDE {
                correct_cut(target, &luma, real);
            }
            add_coarse(&luma, real, target);
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
    let here = |row: &[u8; SIDE + 1]| vectors.widened(row.first_chunk().expect("a row"));
    let columns = u32::MAX >> (SIDE - real.columns);
    for (y, rows) in luma.array_windows().enumerate().take(real.rows) {
        let [row, below]: &[_; 2] = rows;
        let value = here(row);
        let dx = vectors.subtracted(vectors.widened(row.last_chunk().expect("a row")), value);
        let dy = vectors.subtracted(here(below), value);
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
    let of_words =
        |words: V::Words| vectors.stored(words).iter().map(|word| u32::from(*word)).sum();
    let of_sums =
        |sums: V::Sums| vectors.stored_sums(sums).iter().fold(0u32, |a, b| a.wrapping_add(*b));
    const PIXELS: u32 = (SIDE * SIDE) as u32;
    TileFeatures {
        count: PIXELS,
        luma: of_words(total),
        luma_squared: of_sums(squares),
        differences: [PIXELS - SIDE as u32; 2],
        gradient: [of_words(across), of_words(down)],
        gradient_squared: [of_sums(across_squares), of_sums(down_squares)],
        gradient_product: of_sums(products).cast_signed(),
        strokes: [
            strokes_in_rows(&rises[0], &falls[0]) + strokes_in_rows(&falls[0], &rises[0]),
            strokes_in_columns(&rises[1], &falls[1]) + strokes_in_columns(&falls[1], &rises[1]),
        ],
        histogram: histogram(luma),
        ..TileFeatures::default()
    }
}

/// Pixels of a whole tile by luma / 16. Each bin is counted by itself, in every column at once.
#[inline(always)]
fn histogram(luma: &[[u8; SIDE + 1]; SIDE + 1]) -> [u32; BINS] {
    let mut shares = [[0u8; SIDE]; SIDE];
    for (shares, row) in shares.iter_mut().zip(luma) {
        for (share, value) in shares.iter_mut().zip(row) {
            *share = value >> 4;
        }
    }
    std::array::from_fn(|bin| {
        let mut counts = [0u8; SIDE];
        for row in &shares {
            for (count, share) in counts.iter_mut().zip(row) {
                *count += u8::from(usize::from(*share) == bin);
            }
        }
        counts.iter().map(|count| u32::from(*count)).sum()
    })
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
    let near = |other: u32| (1..=STROKE_MAX).fold(0, |any, later| any | other >> later);
    strong.iter().zip(other).map(|(strong, other)| (strong & near(*other)).count_ones()).sum()
}

/// The same of each column.
#[inline(always)]
fn strokes_in_columns(strong: &[u32; SIDE], other: &[u32; SIDE]) -> u32 {
    let near = |y: usize| {
        let end = (y + 1 + STROKE_MAX as usize).min(SIDE);
        other[y + 1..end].iter().fold(0, |any, row| any | row)
    };
    strong.iter().enumerate().map(|(y, strong)| (strong & near(y)).count_ones()).sum()
}

#[inline(always)]
fn add_coarse(Luma(luma): &Luma, real: Real, features: &mut TileFeatures) {
    const BLOCKS: usize = SIDE / 4;
    let (columns, rows) = (real.columns / 4, real.rows / 4);
    let mut means = [[0u32; BLOCKS]; BLOCKS];
    for (y, row) in means[..rows].iter_mut().enumerate() {
        for (x, mean) in row[..columns].iter_mut().enumerate() {
            let lines = luma[4 * y..4 * y + 4].iter();
            let sum: u32 =
                lines.flat_map(|line| &line[4 * x..4 * x + 4]).map(|value| u32::from(*value)).sum();
            *mean = (sum + 8) >> 4;
        }
    }
    let mut add = |one: u32, other: u32| {
        features.coarse_differences += 1;
        features.coarse_squared += one.abs_diff(other) * one.abs_diff(other);
    };
    for y in 0..rows {
        for x in 0..columns {
            if x + 1 < columns {
                add(means[y][x], means[y][x + 1]);
            }
            if y + 1 < rows {
                add(means[y][x], means[y + 1][x]);
            }
        }
    }
}
