//! One level everywhere: the baseline that foveation is compared with.

use crate::geometry::patch::{Patch, PatchGrids};
use crate::geometry::pyramid::PyramidShape;

/// Every patch of the finest level that has at most `budget` of them.
pub fn leaves(shape: PyramidShape, patch_side: u32, budget: usize) -> Vec<Patch> {
    let grids = PatchGrids::new(shape, patch_side);
    grids.patches(grids.finest_level_within(budget)).collect()
}
