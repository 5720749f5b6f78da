//! The coarse level: one small pyramid level, read back by the CPU for gaze control.

use super::extent::Extent;
use super::pyramid::PyramidShape;
use super::tile::TileSet;

/// Longest side of a coarse level.
pub const COARSE_SIDE_MAX: u32 = 128;

/// The finest level with both sides at most [`COARSE_SIDE_MAX`], as R, G, B: exact, hence equal on all backends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoarseLevel {
    level: u32,
    extent: Extent,
    /// Row by row.
    pub texels: Vec<[u8; 3]>,
}

impl CoarseLevel {
    /// The coarse level of a pyramid of `shape`, all black.
    pub fn new(shape: PyramidShape) -> Self {
        let level = Self::level_of(shape);
        let extent = shape.level_extent(level);
        Self { level, extent, texels: vec![[0; 3]; extent.area()] }
    }

    /// Index of the coarse level in a pyramid of `shape`.
    pub fn level_of(shape: PyramidShape) -> u32 {
        let longer_side = |level: &u32| shape.level_extent(*level).longer_side();
        let mut levels = 0..shape.level_count();
        levels
            .find(|level| longer_side(level) <= COARSE_SIDE_MAX)
            .unwrap_or(shape.level_count() - 1)
    }

    /// Makes `texels` black.
    pub fn apply_mask(&mut self, texels: &TileSet) {
        texels.indices().for_each(|index| self.texels[index] = [0; 3]);
    }

    /// Index in the pyramid.
    pub fn level(&self) -> u32 {
        self.level
    }

    /// Columns and rows.
    pub fn extent(&self) -> Extent {
        self.extent
    }
}
