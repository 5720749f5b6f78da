//! One level everywhere, row by row: what models with a grid take, and the baseline that foveation is compared with.

use crate::geometry::extent::Extent;
use crate::geometry::patch::PatchGrids;
use crate::geometry::plan::Token;
use crate::geometry::pyramid::PyramidShape;

/// Columns and rows of the tokens. The last column and the last row may hang over the picture.
pub fn grid(shape: PyramidShape, patch_side: u32, budget: usize) -> Extent {
    let grids = PatchGrids::new(shape, patch_side);
    grids.level(grids.finest_level_within(budget))
}

/// Every patch of the finest level that has at most `budget` of them, row by row.
pub fn tokens(shape: PyramidShape, patch_side: u32, budget: usize) -> Vec<Token> {
    let grids = PatchGrids::new(shape, patch_side);
    let patches = grids.patches(grids.finest_level_within(budget));
    patches.map(|patch| Token::from_patch(patch, patch_side)).collect()
}
