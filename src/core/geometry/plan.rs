//! Token plans: what a layout decides to sample.

use std::ops::Range;

use super::extent::Extent;
use super::patch::Patch;
use super::pyramid::PyramidShape;
use super::region::PixelBox;
use crate::token::Rounding;

/// Most source pixels under a texel along one axis. 2048 x 2048 samples of 8 bits, plus half the count for rounding, stay below
/// 2^32.
pub const STEP_MAX: u16 = 2048;

/// A square of P x P texels, each a box of source pixels.
///
/// Texel (u, v) is the mean of the real source pixels in `[x + u * sx, x + (u + 1) * sx) x [y + v * sy, y + (v + 1) * sy)`, rounded
/// once. A texel without a real pixel is the nearest one that has some, or nothing: see
/// [`Outside`](crate::token::Outside).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Token {
    /// Left edge in source pixels; may lie outside the source.
    pub x: i32,
    /// Top edge in source pixels; may lie outside the source.
    pub y: i32,
    /// Source pixels from one texel to the next along a row, 1 to [`STEP_MAX`].
    pub sx: u16,
    /// Source pixels from one texel to the next down a column, 1 to [`STEP_MAX`].
    pub sy: u16,
    /// What the layout says about it: its pyramid level, its ring or its window.
    pub group: u16,
    /// Index of the fixation that it belongs to.
    pub fovea: u16,
}

impl Token {
    /// The token that covers `patch`.
    pub fn from_patch(patch: Patch, patch_side: u32) -> Self {
        Self::of_level(patch.level, patch.i * patch_side, patch.j * patch_side)
    }

    /// The token whose first texel is (`x`, `y`) of pyramid level `level`.
    ///
    /// # Panics
    ///
    /// If the place lies beyond 2^31 source pixels, or a texel of the level is wider than [`STEP_MAX`].
    pub fn of_level(level: u32, x: u32, y: u32) -> Self {
        let place =
            |texel: u32| i32::try_from(u64::from(texel) << level).expect("a place in a source");
        let step =
            1u16.checked_shl(level).filter(|step| *step <= STEP_MAX).expect("a level's step");
        #[expect(clippy::cast_possible_truncation, reason = "a level is below 16")]
        let group = level as u16;
        Self { x: place(x), y: place(y), sx: step, sy: step, group, fovea: 0 }
    }

    /// The patch that it covers, if it is one.
    pub fn patch(self, patch_side: u32) -> Patch {
        let side = patch_side * u32::from(self.sx);
        let index = |place: i32| place.cast_unsigned() / side;
        Patch { level: self.sx.trailing_zeros(), i: index(self.x), j: index(self.y) }
    }

    /// The pyramid level whose texels are this token's: same boxes, same means. `None` if there is none.
    pub fn level(self, shape: PyramidShape, rounding: Rounding) -> Option<u32> {
        let step = i32::from(self.sx);
        let level = self.sx.trailing_zeros();
        let is_aligned = self.sx == self.sy
            && self.sx.is_power_of_two()
            && self.x % step == 0
            && self.y % step == 0;
        // The levels are rounded half up; a single pixel is not rounded.
        let is_rounded_alike = level == 0 || rounding == Rounding::HalfUp;
        (is_aligned && is_rounded_alike && level < shape.level_count()).then_some(level)
    }

    /// Its columns over a source of `extent`.
    pub fn columns(self, extent: Extent, patch_side: u32) -> Texels {
        Texels::new(self.x, self.sx, patch_side, extent.width)
    }

    /// Its rows over a source of `extent`.
    pub fn rows(self, extent: Extent, patch_side: u32) -> Texels {
        Texels::new(self.y, self.sy, patch_side, extent.height)
    }

    /// The source pixels that it covers; empty if it lies outside the source.
    #[inline]
    pub fn pixel_box(self, extent: Extent, patch_side: u32) -> PixelBox {
        let (columns, rows) = (self.columns(extent, patch_side), self.rows(extent, patch_side));
        PixelBox::of(columns.covered(), rows.covered())
    }

    /// The source pixels that its texels are read from, never empty: those that it covers, and the nearest ones along an axis on
    /// which it covers none.
    #[inline]
    pub fn read_box(self, extent: Extent, patch_side: u32) -> PixelBox {
        let (columns, rows) = (self.columns(extent, patch_side), self.rows(extent, patch_side));
        PixelBox::of(columns.read(), rows.read())
    }
}

/// The texels of a token along one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Texels {
    /// Where the first begins, in source pixels.
    origin: i64,
    /// Source pixels of each.
    step: i64,
    /// How many there are.
    count: u32,
    /// Pixels of the source.
    length: u32,
    /// The first and the last over a real pixel, if the axis went on in both directions.
    reached: [i64; 2],
}

impl Texels {
    fn new(origin: i32, step: u16, count: u32, length: u32) -> Self {
        let (origin, step) = (i64::from(origin), i64::from(step));
        let last = i64::from(length) - 1;
        let reached = [(-origin).div_euclid(step), (last - origin).div_euclid(step)];
        Self { origin, step, count, length, reached }
    }

    /// Those over a real pixel.
    pub fn real(self) -> Range<u32> {
        let [first, last] = self.reached;
        let bounded = |texel: i64| texel.clamp(0, self.count.into());
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
        let texel = |texel: i64| bounded(texel) as u32;
        texel(first)..texel(last + 1).max(texel(first))
    }

    /// Those whose values the others repeat: the real ones; of a token that lies outside, the first.
    pub fn distinct(self) -> Range<u32> {
        let real = self.real();
        if real.is_empty() { 0..1 } else { real }
    }

    /// Texel `index`, or the nearest one over a real pixel if the axis went on in both directions.
    #[inline]
    pub fn nearest(self, index: u32) -> i64 {
        let [first, last] = self.reached;
        i64::from(index).clamp(first, last)
    }

    /// Source pixels under texel `index`, or under the nearest one that has some.
    #[inline]
    pub fn pixels(self, index: u32) -> Range<u32> {
        let start = self.origin + self.nearest(index) * self.step;
        let pixel = |place: i64| place.clamp(0, self.length.into());
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
        let pixel = |place: i64| pixel(place) as u32;
        pixel(start)..pixel(start + self.step)
    }

    /// The source pixels under all of them; empty if there are none.
    pub fn covered(self) -> Range<u32> {
        let real = self.real();
        if real.is_empty() {
            let edge = if self.origin < 0 { 0 } else { self.length };
            return edge..edge;
        }
        self.pixels(real.start).start..self.pixels(real.end - 1).end
    }

    /// The source pixels that their values come from.
    pub fn read(self) -> Range<u32> {
        self.pixels(0).start..self.pixels(self.count - 1).end
    }
}

/// The tokens of one frame of one view, in order of publication; each layout says which that is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenPlan {
    /// P: side of a token in texels.
    pub patch_side: u32,
    /// The tokens.
    pub tokens: Vec<Token>,
}
