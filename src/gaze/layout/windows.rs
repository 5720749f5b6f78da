//! Square crops around the fixation, for models that take pictures.
//!
//! Texel for texel they lie on the pyramid's grid, so each is read from a level and costs no more than its own texels.

use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation;
use foveate_core::geometry::plan::{STEP_MAX, Token};

/// Source pixels per texel of each window: 1, 2, 4 and so on, until one covers the picture. If there are more than `budget`, those
/// just before the last are left out.
pub(super) fn steps(extent: Extent, patch_side: u32, budget: usize) -> impl Iterator<Item = u16> {
    let needed = extent.longer_side().div_ceil(patch_side).next_power_of_two();
    let last = needed.min(STEP_MAX.into()).ilog2() as usize;
    let count = budget.min(last + 1);
    (1..=count).map(move |number| 1 << if number == count { last } else { number - 1 })
}

/// The windows, the finest first.
pub(super) fn tokens(
    extent: Extent,
    patch_side: u32,
    budget: usize,
    fixation: (f64, f64),
) -> Vec<Token> {
    let (x, y) = fixation::snapped(extent, fixation.0, fixation.1);
    let window = |(group, step): (u16, u16)| Token {
        x: origin(x, extent.width, patch_side, step),
        y: origin(y, extent.height, patch_side, step),
        sx: step,
        sy: step,
        group,
        ..Token::default()
    };
    (0..).zip(steps(extent, patch_side, budget)).map(window).collect()
}

/// Where a window of `texels` begins along an axis of `length` pixels: around `centre`, moved inside if it fits, else at 0; a multiple
/// of `step`.
#[expect(clippy::cast_possible_truncation, reason = "within a source")]
fn origin(centre: f64, length: u32, texels: u32, step: u16) -> i32 {
    let beyond = (length / u32::from(step)).saturating_sub(texels);
    let texel = (centre / f64::from(step) - f64::from(texels) / 2.0).round();
    texel.clamp(0.0, beyond.into()) as i32 * i32::from(step)
}
