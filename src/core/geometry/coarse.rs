//! One small level of the pyramid, which the CPU looks at to decide where to look.

use super::extent::Extent;
use super::pyramid::PyramidShape;

/// Neither side of a coarse level is longer.
pub const COARSE_SIDE_MAX: u32 = 128;

/// The finest level whose sides are both at most [`COARSE_SIDE_MAX`], in R, G and B: exact, so the same on every backend.
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

    /// Which level of a pyramid of `shape` it is.
    pub fn level_of(shape: PyramidShape) -> u32 {
        let longer_side = |level: &u32| shape.level_extent(*level).longer_side();
        let mut levels = 0..shape.level_count();
        levels
            .find(|level| longer_side(level) <= COARSE_SIDE_MAX)
            .unwrap_or(shape.level_count() - 1)
    }

    /// Level of the pyramid.
    pub fn level(&self) -> u32 {
        self.level
    }

    /// Columns and rows.
    pub fn extent(&self) -> Extent {
        self.extent
    }
}
