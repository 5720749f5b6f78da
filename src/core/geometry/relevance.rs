//! Relevance maps: how much each part of the image matters, apart from its distance to the fixation.

use super::extent::Extent;
use super::region::PixelBox;

/// Weights over the whole image on a coarse grid of cells, each in [`RelevanceMap::MIN`]..=[`RelevanceMap::MAX`].
///
/// Cell (column, row) of a grid of C x R covers `[column * W / C, (column + 1) * W / C)` of the image's width W,
/// and likewise of its height.
#[derive(Clone, Debug, PartialEq)]
pub struct RelevanceMap {
    grid: Extent,
    weights: Vec<f64>,
}

/// A relevance map and its frame.
#[derive(Clone, Debug, PartialEq)]
pub struct Relevance {
    /// The weights.
    pub map: RelevanceMap,
    /// `frame_seq` of the frame that the map was made from.
    pub frame_seq: u64,
}

impl RelevanceMap {
    /// Least weight, of a part that is treated as if it were 16 times farther from the fixation.
    pub const MIN: f64 = 1.0 / 16.0;
    /// Greatest weight.
    pub const MAX: f64 = 16.0;

    /// A map of `grid` cells, row by row. Weights are clamped to the bounds; NaN becomes the least.
    pub fn new(grid: Extent, weights: impl IntoIterator<Item = f64>) -> Self {
        let bounded = |weight: f64| {
            if weight.is_nan() { Self::MIN } else { weight.clamp(Self::MIN, Self::MAX) }
        };
        let weights: Vec<f64> = weights.into_iter().map(bounded).collect();
        assert!(0 < grid.area(), "a relevance map has cells");
        assert_eq!(weights.len(), grid.area(), "weights of a relevance map of {grid}");
        Self { grid, weights }
    }

    /// The weights (value / mean) ^ `gain` of non-negative `values`, so that the mean has weight 1. `None` where they are uniform:
    /// all values are 0, or `gain` is.
    ///
    /// Rounded to [codes](Self::codes), so that a log keeps them exactly.
    pub fn from_values(grid: Extent, values: &[f32], gain: f64) -> Option<Self> {
        let sum: f64 = values.iter().map(|value| f64::from(*value)).sum();
        let mean = sum / values.len() as f64;
        if !(0.0 < mean && 0.0 < gain) {
            return None;
        }
        #[expect(clippy::cast_possible_truncation, reason = "clamped")]
        let code = |value: f32| {
            let octaves = gain * (f64::from(value) / mean).log2();
            (128.0 + 32.0 * octaves).round().clamp(0.0, 255.0) as u8
        };
        // Logarithms take most of the time, and neighbours are often equal.
        let (mut newest, mut newest_code) = (values[0], code(values[0]));
        let code = |value: &f32| {
            if *value != newest {
                (newest, newest_code) = (*value, code(*value));
            }
            newest_code
        };
        let codes: Vec<u8> = values.iter().map(code).collect();
        Some(Self::from_codes(grid, &codes))
    }

    /// The map with these codes, row by row: code c is weight 2^((c - 128) / 32), a step of 2 %.
    pub fn from_codes(grid: Extent, codes: &[u8]) -> Self {
        let table = code_table();
        Self::new(grid, codes.iter().map(|code| table[usize::from(*code)]))
    }

    /// The weights, row by row.
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// The codes nearest to the weights, row by row; exact for a map made from codes.
    pub fn codes(&self) -> Vec<u8> {
        let table = code_table();
        self.weights.iter().map(|weight| nearest_code(&table, *weight)).collect()
    }

    /// Columns and rows.
    pub fn grid(&self) -> Extent {
        self.grid
    }

    /// Largest factor between the weights of any cell in both maps; infinite for different grids.
    pub fn factor_to(&self, other: &Self) -> f64 {
        if self.grid != other.grid {
            return f64::INFINITY;
        }
        let factor = |(a, b): (&f64, &f64)| (a / b).max(b / a);
        self.weights.iter().zip(&other.weights).map(factor).fold(1.0, f64::max)
    }

    /// Greatest weight of the cells that touch `region` of an image of `image` pixels.
    pub fn greatest(&self, image: Extent, region: PixelBox) -> f64 {
        let columns = cells(region.x0, region.x1, image.width, self.grid.width);
        let rows = cells(region.y0, region.y1, image.height, self.grid.height);
        let row = |row: usize| &self.weights[row * self.grid.width as usize..][columns.clone()];
        rows.flat_map(row).copied().fold(Self::MIN, f64::max)
    }

    /// Sums of the squared differences between neighbouring cells along x, and along y, of the cells that touch `region` of an
    /// image of `image` pixels and those around them.
    pub fn structure(&self, image: Extent, region: PixelBox) -> [f64; 2] {
        let widened = |cells: std::ops::Range<usize>, count: u32| {
            cells.start.saturating_sub(1)..(cells.end + 1).min(count as usize)
        };
        let columns =
            widened(cells(region.x0, region.x1, image.width, self.grid.width), self.grid.width);
        let rows =
            widened(cells(region.y0, region.y1, image.height, self.grid.height), self.grid.height);
        let weight =
            |column: usize, row: usize| self.weights[row * self.grid.width as usize + column];
        let mut sums = [0.0; 2];
        for row in rows.clone() {
            for column in columns.clone() {
                if column + 1 < columns.end {
                    sums[0] += (weight(column + 1, row) - weight(column, row)).powi(2);
                }
                if row + 1 < rows.end {
                    sums[1] += (weight(column, row + 1) - weight(column, row)).powi(2);
                }
            }
        }
        sums
    }
}

/// The cells, of `count` over `side` pixels, that `[start, end)` touches.
#[expect(clippy::cast_possible_truncation, reason = "a cell index is below a u32 count")]
fn cells(start: u32, end: u32, side: u32, count: u32) -> std::ops::Range<usize> {
    let scaled = |pixel: u32| u64::from(pixel) * u64::from(count);
    let first = scaled(start) / u64::from(side);
    let past = scaled(end).div_ceil(u64::from(side)).min(u64::from(count));
    first as usize..past as usize
}

/// Weights of all codes. Computed by square roots and products alone, which every machine rounds in the same way, so that a gaze log leads
/// to the same plans everywhere.
fn code_table() -> [f64; 256] {
    let step = 2f64.sqrt().sqrt().sqrt().sqrt().sqrt();
    let mut table = [0.0; 256];
    for (code, weight) in table.iter_mut().enumerate() {
        let (octave, part) = (code / 32, code % 32);
        let octave = [0.0625, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0][octave];
        *weight = (0..part).fold(octave, |weight, _| weight * step);
    }
    table
}

/// The code with the nearest weight, by factor.
fn nearest_code(table: &[f64; 256], weight: f64) -> u8 {
    // The boundary between two codes is their geometric mean.
    let above = table.partition_point(|bound| *bound < weight);
    let code = match above {
        0 => 0,
        256 => 255,
        _ if weight * weight < table[above - 1] * table[above] => above - 1,
        _ => above,
    };
    u8::try_from(code).unwrap_or(u8::MAX)
}
