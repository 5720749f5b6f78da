//! What the dirty tiles look like, in sums of integers.
//!
//! Twin of `glsl/features.comp`.

use std::ops::Range;

use super::convert::SIDE;
use crate::simd::{Instructions, Kernel, Vectors};
use foveate_core::frame::{FrameView, PixelFormat};
use foveate_core::geometry::tile::TILE_SIDE;
use foveate_core::relevance::features::{BINS, STROKE_MAX, STRONG, TileFeatures};

/// Luma of a tile, 0 beyond the source.
type Luma = [[u8; SIDE]; SIDE];

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
    fn run<V: Vectors>(self, _vectors: V) {
        let Self { frame, row, columns, target } = self;
        let (width, height) = (frame.extent().width as usize, frame.extent().height as usize);
        let mut luma = [[0; SIDE]; SIDE];
        for (column, target) in columns.clone().zip(&mut target[columns]) {
            let (x, y) = (column * SIDE, row * SIDE);
            let real = Real { columns: (width - x).min(SIDE), rows: (height - y).min(SIDE) };
            load(frame, x, y, real, &mut luma);
            *target = if real.columns == SIDE && real.rows == SIDE {
                sums(&luma, Real { columns: SIDE, rows: SIDE })
            } else {
                sums_of_cut(&luma, real)
            };
        }
    }
}

#[inline(always)]
fn load(frame: &FrameView<'_>, x: usize, y: usize, real: Real, luma: &mut Luma) {
    for (row, target) in luma[..real.rows].iter_mut().enumerate() {
        let samples = frame.row(0, y + row);
        let target = &mut target[..real.columns];
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
                for (luma, pixel) in target.iter_mut().zip(samples[4 * x..].chunks(4)) {
                    let [first, g, third] = [pixel[0], pixel[1], pixel[2]].map(u32::from);
                    let (r, b) = if is_reversed { (third, first) } else { (first, third) };
                    *luma = ((54 * r + 183 * g + 19 * b + 128) >> 8) as u8;
                }
            }
        }
    }
}

#[inline(never)]
fn sums_of_cut(luma: &Luma, real: Real) -> TileFeatures {
    sums(luma, real)
}

/// Inlined, so that the loops of a whole tile have constant bounds.
#[inline(always)]
fn sums(luma: &Luma, real: Real) -> TileFeatures {
    let Real { columns, rows } = real;
    let (dx_columns, dy_rows) = (columns - 1, rows - 1);
    let mut features = TileFeatures {
        count: (columns * rows) as u32,
        differences: [(dx_columns * rows) as u32, (columns * dy_rows) as u32],
        ..TileFeatures::default()
    };
    // Bit x of a row: whether the difference right of x, or below it, is a strong rise or fall.
    let (mut across, mut down) = ([[0u32; 2]; SIDE], [[0u32; 2]; SIDE]);
    for (y, row) in luma[..rows].iter().enumerate() {
        let below = &luma[(y + 1).min(SIDE - 1)];
        let has_below = y < dy_rows;
        let mut dx = [0i16; SIDE];
        for x in 0..dx_columns {
            dx[x] = i16::from(row[x + 1]) - i16::from(row[x]);
        }
        let mut dy = [0i16; SIDE];
        if has_below {
            for x in 0..columns {
                dy[x] = i16::from(below[x]) - i16::from(row[x]);
            }
        }
        let products = if has_below { dx_columns } else { 0 };
        for x in 0..columns {
            let value = u32::from(row[x]);
            features.luma += value;
            features.luma_squared += value * value;
            features.gradient[0] += u32::from(dx[x].unsigned_abs());
            features.gradient[1] += u32::from(dy[x].unsigned_abs());
            features.gradient_squared[0] += (i32::from(dx[x]) * i32::from(dx[x])) as u32;
            features.gradient_squared[1] += (i32::from(dy[x]) * i32::from(dy[x])) as u32;
        }
        for x in 0..products {
            features.gradient_product += i32::from(dx[x]) * i32::from(dy[x]);
        }
        across[y] = strong(&dx);
        down[y] = strong(&dy);
        for value in &row[..columns] {
            features.histogram[usize::from(*value) * BINS / 256] += 1;
        }
    }
    for y in 0..rows {
        let [rises, falls] = across[y];
        features.strokes[0] +=
            near(rises, |later| falls >> later) + near(falls, |later| rises >> later);
        let later =
            |kind: usize| move |rows: u32| down.get(y + rows as usize).map_or(0, |row| row[kind]);
        features.strokes[1] += near(down[y][0], later(1)) + near(down[y][1], later(0));
    }
    add_coarse(luma, real, &mut features);
    features
}

/// How many of `strong` differences are followed by one of the other sign.
#[inline(always)]
fn near(strong: u32, other: impl Fn(u32) -> u32) -> u32 {
    (strong & (1..=STROKE_MAX).fold(0, |any, later| any | other(later))).count_ones()
}

/// Strong rises and falls, a bit each.
#[inline(always)]
fn strong(differences: &[i16; SIDE]) -> [u32; 2] {
    let strong = i16::from(STRONG);
    let mut bits = [0; 2];
    for (x, difference) in differences.iter().enumerate() {
        bits[0] |= u32::from(strong <= *difference) << x;
        bits[1] |= u32::from(*difference <= -strong) << x;
    }
    bits
}

#[inline(always)]
fn add_coarse(luma: &Luma, real: Real, features: &mut TileFeatures) {
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
