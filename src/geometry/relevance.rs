//! How much each part of the image matters, beside its distance from the fixation.

use super::extent::Extent;
use super::plan::PixelBox;

/// Weights over the whole image on a coarse grid of cells, each in [`RelevanceMap::MIN`]..=[`RelevanceMap::MAX`].
///
/// Cell (column, row) of a grid of C x R covers `[column * W / C, (column + 1) * W / C)` of the image's width W,
/// and likewise of its height.
#[derive(Clone, Debug, PartialEq)]
pub struct RelevanceMap {
    grid: Extent,
    weights: Vec<f64>,
}

/// A relevance map, and the frame that it was made from.
#[derive(Clone, Debug, PartialEq)]
pub struct Relevance {
    /// The weights.
    pub map: RelevanceMap,
    /// `frame_seq` of the frame that it was made from.
    pub frame_seq: u64,
}

impl RelevanceMap {
    /// The least weight: such a part is looked at as if it were 16 times farther away.
    pub const MIN: f64 = 1.0 / 16.0;
    /// The greatest weight.
    pub const MAX: f64 = 16.0;

    /// A map of `grid` cells, row by row; weights outside the bounds are clamped, NaN counts as the least.
    pub fn new(grid: Extent, weights: impl IntoIterator<Item = f64>) -> Self {
        let bounded = |weight: f64| {
            if weight.is_nan() { Self::MIN } else { weight.clamp(Self::MIN, Self::MAX) }
        };
        let weights: Vec<f64> = weights.into_iter().map(bounded).collect();
        assert!(0 < grid.area(), "a relevance map has cells");
        assert_eq!(weights.len(), grid.area(), "weights of a relevance map of {grid}");
        Self { grid, weights }
    }

    /// The greatest weight of the cells that touch `region` of an image of `image` pixels.
    pub fn greatest(&self, image: Extent, region: PixelBox) -> f64 {
        let columns = cells(region.x0, region.x1, image.width, self.grid.width);
        let rows = cells(region.y0, region.y1, image.height, self.grid.height);
        let row = |row: usize| &self.weights[row * self.grid.width as usize..][columns.clone()];
        rows.flat_map(row).copied().fold(Self::MIN, f64::max)
    }
}

/// The cells of `count` over `side` pixels that `[start, end)` touches.
#[expect(clippy::cast_possible_truncation, reason = "a cell index is below a u32 count")]
fn cells(start: u32, end: u32, side: u32, count: u32) -> std::ops::Range<usize> {
    let scaled = |pixel: u32| u64::from(pixel) * u64::from(count);
    let first = scaled(start) / u64::from(side);
    let past = scaled(end).div_ceil(u64::from(side)).min(u64::from(count));
    first as usize..past as usize
}
