//! Centre-surround contrast in brightness and two opponent colours, over two scales.

use super::singularity;
use crate::geometry::extent::Extent;

/// Radii in texels of the boxes that are compared: centre and surround of each scale.
const SCALES: [(usize, usize); 2] = [(1, 5), (2, 10)];

/// Brightness, red against green, blue against yellow, and nothing, which makes four.
type Features = [i32; 4];

/// How many features there are.
const FEATURES: usize = 3;

/// A contrast, in levels of 256, below which a map counts for less: noise is no peak.
const FAINT: f32 = 24.0;

/// A contrast, in levels of 256, that is none.
const NOISE: f32 = 1.0;

/// What it takes to find the contrast of pictures of one extent.
#[derive(Clone, Debug)]
pub(super) struct Contrast {
    width: usize,
    height: usize,
    /// (column, row): sums over all texels left of and above it; one column and row more than texels.
    sums: Vec<Features>,
    /// Of each feature the contrast of each texel.
    maps: [Vec<f32>; FEATURES],
}

impl Contrast {
    pub(super) fn new(grid: Extent) -> Self {
        let (width, height) = (grid.width as usize, grid.height as usize);
        let zeros = || vec![0.0; width * height];
        let sums = vec![[0; 4]; (width + 1) * (height + 1)];
        Self { width, height, sums, maps: [zeros(), zeros(), zeros()] }
    }

    /// Adds the contrast of a picture to a map: at most `weight`, where all features have their only peak.
    pub(super) fn add_to(&mut self, texels: &[[u8; 3]], weight: f32, map: &mut [f32]) {
        self.sum_up(texels);
        self.compare();
        for feature in &self.maps {
            let greatest = feature.iter().copied().fold(0.0, f32::max);
            let share =
                weight / FEATURES as f32 * singularity(feature, FAINT) / greatest.max(FAINT);
            for (target, contrast) in map.iter_mut().zip(feature) {
                *target += share * contrast;
            }
        }
    }

    fn sum_up(&mut self, texels: &[[u8; 3]]) {
        let stride = self.width + 1;
        for (row, texels) in texels.chunks_exact(self.width).enumerate() {
            let (above, below) = self.sums.split_at_mut((row + 1) * stride);
            let above = &above[row * stride..];
            let mut sum = [0; 4];
            for (column, texel) in texels.iter().enumerate() {
                let features = features(*texel);
                for index in 0..4 {
                    sum[index] += features[index];
                    below[column + 1][index] = above[column + 1][index] + sum[index];
                }
            }
        }
    }

    fn compare(&mut self) {
        for row in 0..self.height {
            for column in 0..self.width {
                let mut contrast = [0.0; 4];
                for (centre, surround) in SCALES {
                    let centre = self.mean(column, row, centre);
                    let surround = self.mean(column, row, surround);
                    for index in 0..4 {
                        contrast[index] += (centre[index] - surround[index]).abs();
                    }
                }
                for (map, contrast) in self.maps.iter_mut().zip(contrast) {
                    map[row * self.width + column] =
                        (contrast / SCALES.len() as f32 - NOISE).max(0.0);
                }
            }
        }
    }

    /// The mean features of the texels at most `radius` away along each axis.
    fn mean(&self, column: usize, row: usize, radius: usize) -> [f32; 4] {
        let (left, right) = (column.saturating_sub(radius), (column + radius + 1).min(self.width));
        let (top, bottom) = (row.saturating_sub(radius), (row + radius + 1).min(self.height));
        let stride = self.width + 1;
        let [a, b] = [left, right].map(|x| self.sums[top * stride + x]);
        let [c, d] = [left, right].map(|x| self.sums[bottom * stride + x]);
        let scale = 1.0 / ((right - left) * (bottom - top)) as f32;
        std::array::from_fn(|index| (a[index] - b[index] - c[index] + d[index]) as f32 * scale)
    }
}

/// Each spans 256 levels or 512; none needs more bits than a sum over 128 x 128 texels leaves.
fn features([r, g, b]: [u8; 3]) -> Features {
    let [r, g, b] = [r, g, b].map(i32::from);
    [(r + g + b) / 3, r - g, b - (r + g) / 2, 0]
}
