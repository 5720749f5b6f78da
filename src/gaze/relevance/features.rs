//! Features of a tile: integer sums of its colours, gradients and texture.

use std::ops::AddAssign;

/// Bins of the histogram of luma.
pub const BINS: usize = 16;

/// A difference of neighbouring samples of at least this much is strong.
pub const STRONG: u8 = 20;

/// A stroke is at most so many samples wide.
pub const STROKE_MAX: u32 = 4;

/// Sums over the real pixels of one tile, or of several.
///
/// Luma is the camera's own sample, where it has one; of RGB it is (54 R + 183 G + 19 B + 128) / 256, rounded down: the weights
/// of BT.709. dx is the luma right of a pixel less its own, dy that below; a difference counts where both pixels are in the same
/// tile and real. All sums of one tile fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "bytemuck", derive(bytemuck::Pod, bytemuck::Zeroable))]
#[repr(C)]
pub struct TileFeatures {
    /// Pixels.
    pub count: u32,
    /// Sum of luma.
    pub luma: u32,
    /// Sum of its squares.
    pub luma_squared: u32,
    /// Number of dx, and of dy.
    pub differences: [u32; 2],
    /// Sums of |dx| and |dy|.
    pub gradient: [u32; 2],
    /// Sums of dx^2 and dy^2.
    pub gradient_squared: [u32; 2],
    /// Sum of dx dy, where there are both.
    pub gradient_product: i32,
    /// Number of differences between neighbouring blocks of 4 x 4 pixels, right and below, whose pixels are all real.
    pub coarse_differences: u32,
    /// Sum of their squares: of the blocks' means, (sum + 8) / 16, rounded down.
    pub coarse_squared: u32,
    /// Strokes along rows and along columns: strong differences that one of the other sign follows, 1 to [`STROKE_MAX`]
    /// differences later, also strong.
    pub strokes: [u32; 2],
    /// Pixels by luma / 16.
    pub histogram: [u32; BINS],
    /// Sums of R, G and B.
    pub color: [u32; 3],
}

impl AddAssign for TileFeatures {
    fn add_assign(&mut self, other: Self) {
        let pair = |mine: &mut [u32; 2], other: [u32; 2]| {
            mine[0] += other[0];
            mine[1] += other[1];
        };
        self.count += other.count;
        self.luma += other.luma;
        self.luma_squared += other.luma_squared;
        pair(&mut self.differences, other.differences);
        pair(&mut self.gradient, other.gradient);
        pair(&mut self.gradient_squared, other.gradient_squared);
        self.gradient_product += other.gradient_product;
        self.coarse_differences += other.coarse_differences;
        self.coarse_squared += other.coarse_squared;
        pair(&mut self.strokes, other.strokes);
        for (mine, other) in self.histogram.iter_mut().zip(other.histogram) {
            *mine += other;
        }
        for (mine, other) in self.color.iter_mut().zip(other.color) {
            *mine += other;
        }
    }
}
