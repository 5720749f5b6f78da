//! One step everywhere, row by row: what models with a grid take, and the baseline that foveation is compared with.

use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::plan::{REAL_SIDE_MAX, Token, is_side};

/// Side of the smallest squares, in source pixels, of which at most `budget` cover the picture.
pub(super) fn base_side(extent: Extent, patch_side: u32, budget: usize) -> u32 {
    let fits = |side: u32| extent.in_cells(side).area() <= budget;
    let (mut too_small, mut fitting) = (patch_side - 1, patch_side.max(extent.longer_side()));
    while too_small + 1 < fitting {
        let middle = too_small.midpoint(fitting);
        if fits(middle) {
            fitting = middle;
        } else {
            too_small = middle;
        }
    }
    next_side(fitting, patch_side)
}

/// The shortest side from `side` on that [a token may have](is_side).
pub(super) fn next_side(side: u32, patch_side: u32) -> u32 {
    let of_level = patch_side * side.div_ceil(patch_side).next_power_of_two();
    (side..of_level.min(REAL_SIDE_MAX + 1))
        .find(|side| is_side(*side, patch_side))
        .unwrap_or(of_level)
}

/// Columns and rows of the tokens. The last column and the last row may hang over the picture.
pub(super) fn grid(extent: Extent, patch_side: u32, budget: usize) -> Extent {
    extent.in_cells(base_side(extent, patch_side, budget))
}

/// The smallest squares of which at most `budget` cover the picture, row by row. Their group is log2 of the step, rounded down: the
/// level, where they are read from one.
pub(super) fn tokens(extent: Extent, patch_side: u32, budget: usize) -> Vec<Token> {
    let side = base_side(extent, patch_side, budget);
    let grid = extent.in_cells(side);
    let place = |index: u32| (index * side).cast_signed();
    let squares = (0..grid.height).flat_map(|row| (0..grid.width).map(move |column| (column, row)));
    squares
        .map(|(column, row)| {
            let token = Token::square(place(column), place(row), side, patch_side);
            #[expect(clippy::cast_possible_truncation, reason = "below 16")]
            let group = token.sx.ilog2() as u16;
            Token { group, ..token }
        })
        .collect()
}
