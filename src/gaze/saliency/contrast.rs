//! Centre-surround contrast in brightness and two opponent colours, over two scales.

use super::{greatest_and_sum, singularity};
use foveate_core::geometry::extent::Extent;

/// Radii in texels of the centre and surround boxes of each scale.
const SCALES: [(usize, usize); 2] = [(1, 5), (2, 10)];

/// Brightness, red-green, blue-yellow, and padding to four.
type Features = [i32; 4];

const FEATURES: usize = 3;

/// Contrast, in levels of 256, below which a map's peaks count for less, as they may be noise.
const FAINT: f32 = 24.0;

/// Contrast, in levels of 256, that counts as none.
const NOISE: f32 = 1.0;

/// Contrast of pictures of one extent, with its buffers.
#[derive(Clone, Debug)]
pub(super) struct Contrast {
    width: usize,
    height: usize,
    /// The picture that the maps were made from; empty before any. In a still scene many decisions use the same picture.
    seen: Vec<[u8; 3]>,
    /// Summed-area table: at (column, row) the sums over all texels left of and above; one column and row more than texels.
    sums: Vec<Features>,
    /// Contrast of each texel, by feature.
    maps: [Vec<f32>; FEATURES],
    /// Sums over the columns of boxes, for one row.
    strip: Vec<Features>,
    /// Means of centres and of surrounds, for one row.
    means: [Vec<[f32; 4]>; 2],
    /// Contrast of one row.
    row: Vec<[f32; 4]>,
}

impl Contrast {
    pub(super) fn new(grid: Extent) -> Self {
        let (width, height) = (grid.width as usize, grid.height as usize);
        let zeros = || vec![0.0; width * height];
        let sums = vec![[0; 4]; (width + 1) * (height + 1)];
        let (strip, row) = (vec![[0; 4]; width + 1], vec![[0.0; 4]; width]);
        let maps = [zeros(), zeros(), zeros()];
        let (seen, means) = (Vec::with_capacity(width * height), [row.clone(), row.clone()]);
        Self { width, height, seen, sums, maps, strip, means, row }
    }

    /// Adds the contrast of a picture to a map: at most `weight`, reached where all features have their only peak.
    pub(super) fn add_to(&mut self, texels: &[[u8; 3]], weight: f32, map: &mut [f32]) {
        if self.seen != texels {
            self.seen.clear();
            self.seen.extend_from_slice(texels);
            self.sum_up(texels);
            self.compare();
        }
        for feature in &self.maps {
            let (greatest, _) = greatest_and_sum(feature);
            let share =
                weight / FEATURES as f32 * singularity(feature, FAINT) / greatest.max(FAINT);
            for (target, contrast) in map.iter_mut().zip(feature) {
                *target += share * contrast;
            }
        }
    }

    /// Sets all maps to 0.
    pub(super) fn clear(&mut self) {
        self.seen.clear();
        self.maps.iter_mut().for_each(|map| map.fill(0.0));
    }

    /// Contrast of each texel, by feature.
    pub(super) fn maps(&self) -> &[Vec<f32>; FEATURES] {
        &self.maps
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
        let scale = 1.0 / SCALES.len() as f32;
        for row in 0..self.height {
            self.row.fill([-NOISE; 4]);
            for (centre, surround) in SCALES {
                self.average(row, centre, 0);
                self.average(row, surround, 1);
                let [centres, surrounds] = &self.means;
                for (contrast, (centre, surround)) in
                    self.row.iter_mut().zip(centres.iter().zip(surrounds))
                {
                    for index in 0..4 {
                        contrast[index] += scale * (centre[index] - surround[index]).abs();
                    }
                }
            }
            for (index, map) in self.maps.iter_mut().enumerate() {
                let map = &mut map[row * self.width..][..self.width];
                for (target, contrast) in map.iter_mut().zip(&self.row) {
                    *target = contrast[index].max(0.0);
                }
            }
        }
    }

    /// Mean features of the box of `radius` around each texel of a row.
    fn average(&mut self, row: usize, radius: usize, target: usize) {
        let (width, stride) = (self.width, self.width + 1);
        let (top, bottom) = (row.saturating_sub(radius), (row + radius + 1).min(self.height));
        let (above, below) =
            (&self.sums[top * stride..][..stride], &self.sums[bottom * stride..][..stride]);
        for (strip, (above, below)) in self.strip.iter_mut().zip(above.iter().zip(below)) {
            for index in 0..4 {
                strip[index] = below[index] - above[index];
            }
        }
        let share_of = |columns: usize| 1.0 / (columns * (bottom - top)) as f32;
        // Of all boxes but those at the edges; dividing for each would take most of the time.
        let inner_share = share_of(2 * radius + 1);
        for (column, mean) in self.means[target].iter_mut().enumerate() {
            let (left, right) = (column.saturating_sub(radius), (column + radius + 1).min(width));
            let (before, after) = (self.strip[left], self.strip[right]);
            let is_inner = right - left == 2 * radius + 1;
            let share = if is_inner { inner_share } else { share_of(right - left) };
            for index in 0..4 {
                mean[index] = (after[index] - before[index]) as f32 * share;
            }
        }
    }
}

/// Each feature spans at most 512 levels, so that sums over 128 x 128 texels fit an `i32`.
fn features([r, g, b]: [u8; 3]) -> Features {
    let [r, g, b] = [r, g, b].map(i32::from);
    [(r + g + b) / 3, r - g, b - (r + g) / 2, 0]
}
