//! Token plans: what a layout decides to sample.

use super::extent::Extent;
use super::patch::Patch;
use super::pyramid::PyramidShape;
use super::region::PixelBox;

/// A square patch of P x P texels at any position of one pyramid level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token {
    /// Pyramid level.
    pub level: u32,
    /// Leftmost column, in texels of the level.
    pub x: u32,
    /// Topmost row, in texels of the level.
    pub y: u32,
}

impl Token {
    /// The token that covers `patch`.
    pub fn from_patch(patch: Patch, patch_side: u32) -> Self {
        Self { level: patch.level, x: patch.i * patch_side, y: patch.j * patch_side }
    }

    /// Its columns and rows inside the level; texels beyond repeat the nearest one inside.
    pub fn real_extent(self, shape: PyramidShape, patch_side: u32) -> Extent {
        let level = shape.level_extent(self.level);
        Extent::new((level.width - self.x).min(patch_side), (level.height - self.y).min(patch_side))
    }

    /// The source pixels that it covers, clipped to the source.
    pub fn pixel_box(self, shape: PyramidShape, patch_side: u32) -> PixelBox {
        let source = shape.extent();
        PixelBox {
            x0: self.x << self.level,
            y0: self.y << self.level,
            x1: ((self.x + patch_side) << self.level).min(source.width),
            y1: ((self.y + patch_side) << self.level).min(source.height),
        }
    }
}

/// The tokens of one frame of one view, sorted by level, then Morton order.
///
/// Every token has its first texel inside its level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenPlan {
    /// P: side of a token in texels.
    pub patch_side: u32,
    /// The tokens in order of publication.
    pub tokens: Vec<Token>,
}
