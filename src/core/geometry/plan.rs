//! Token plans: what a layout decides to sample.

use std::ops::Range;

use super::extent::Extent;
use super::patch::Patch;
use super::pyramid::PyramidShape;
use super::region::PixelBox;
use crate::token::{PATCH_SIDES, Rounding};

/// Most source pixels under a texel along one axis. 2048 x 2048 samples of 8 bits, plus half the count for rounding, stay below
/// 2^32.
pub const STEP_MAX: u16 = 2048;

/// Most source pixels under a token with real steps along one axis. 4096 x 4096 weighted samples of 8 bits, plus half the weight for
/// rounding, stay below 2^32.
pub const REAL_SIDE_MAX: u32 = 4096;

/// A rectangle of P x P texels, each over a box of source pixels.
///
/// The token covers whole pixels: `P * sx + extra_width` columns from `x` on, and `P * sy + extra_height` rows from `y` on. Its step
/// along an axis is a P-th of these pixels.
///
/// If both extras are 0, texel (u, v) is the mean of the real source pixels in
/// `[x + u * sx, x + (u + 1) * sx) x [y + v * sy, y + (v + 1) * sy)`, rounded once. Otherwise it is a mean of the texels of the pyramid
/// level that [`weighted_level`](Self::weighted_level) names, also rounded once; each weighs what it shares with the box of the texel,
/// which in units of 1/P pixel is `[P * x + u * width, P * x + (u + 1) * width)` along a row, cut to the source, and the same down a
/// column. A texel without a real pixel is the nearest one that has some, or nothing: see [`Outside`](crate::token::Outside).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Token {
    /// Left edge in source pixels; may lie outside the source.
    pub x: i32,
    /// Top edge in source pixels; may lie outside the source.
    pub y: i32,
    /// Whole source pixels from one texel to the next along a row, 1 to [`STEP_MAX`].
    pub sx: u16,
    /// Whole source pixels from one texel to the next down a column, 1 to [`STEP_MAX`].
    pub sy: u16,
    /// Columns of source pixels beyond `P * sx`, below P.
    pub extra_width: u8,
    /// Rows of source pixels beyond `P * sy`, below P.
    pub extra_height: u8,
    /// Group of the token in its layout: the pyramid level, the ring, the window or the block.
    pub group: u16,
    /// Index of the fixation that the token belongs to.
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
        Self { x: place(x), y: place(y), sx: step, sy: step, group, ..Self::default() }
    }

    /// The token over the square of `side` source pixels at (`x`, `y`).
    ///
    /// # Panics
    ///
    /// If [`is_side`] does not hold.
    pub fn square(x: i32, y: i32, side: u32, patch_side: u32) -> Self {
        assert!(is_side(side, patch_side), "a token of {patch_side} texels over {side} pixels");
        let (step, extra) = (side / patch_side, side % patch_side);
        #[expect(clippy::cast_possible_truncation, reason = "at most STEP_MAX, and below P")]
        let (step, extra) = (step as u16, extra as u8);
        Self {
            x,
            y,
            sx: step,
            sy: step,
            extra_width: extra,
            extra_height: extra,
            ..Self::default()
        }
    }

    /// Source pixels that it covers along a row.
    pub const fn width(self, patch_side: u32) -> u32 {
        patch_side * self.sx as u32 + self.extra_width as u32
    }

    /// Source pixels that it covers down a column.
    pub const fn height(self, patch_side: u32) -> u32 {
        patch_side * self.sy as u32 + self.extra_height as u32
    }

    /// Whether the token's texels end inside pixels.
    const fn has_real_steps(self) -> bool {
        self.extra_width != 0 || self.extra_height != 0
    }

    /// Whether its steps are ones that a token of `patch_side` texels a side may have.
    pub fn is_within_limits(self, patch_side: u32) -> bool {
        let are_steps = [self.sx, self.sy].iter().all(|step| (1..=STEP_MAX).contains(step));
        let are_extras = [self.extra_width, self.extra_height]
            .iter()
            .all(|extra| u32::from(*extra) < patch_side);
        let sides = [self.width(patch_side), self.height(patch_side)];
        let are_sides = sides.iter().all(|side| *side <= REAL_SIDE_MAX);
        are_steps && are_extras && (are_sides || !self.has_real_steps())
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
            && !self.has_real_steps()
            && self.x % step == 0
            && self.y % step == 0;
        // The levels are rounded half up; a single pixel is not rounded.
        let is_rounded_alike = level == 0 || rounding == Rounding::HalfUp;
        (is_aligned && is_rounded_alike && level < shape.level_count()).then_some(level)
    }

    /// The pyramid level that a token with real steps is averaged from; `None` for others.
    ///
    /// With s the smaller of its two steps it is floor(log2(s)) - 1, but at least 0 and at most the last level. Two to four of the
    /// level's texels then lie under a step of s, and with steps below 4 a texel is the exact mean of its pixels.
    pub fn weighted_level(self, shape: PyramidShape, patch_side: u32) -> Option<u32> {
        let least = self.width(patch_side).min(self.height(patch_side)) / patch_side;
        let level = least.max(1).ilog2().saturating_sub(1).min(shape.level_count() - 1);
        self.has_real_steps().then_some(level)
    }

    /// Columns of the token over a source of `extent`.
    pub fn columns(self, extent: Extent, patch_side: u32) -> Texels {
        let width = self.width(patch_side);
        Texels::new(self.x, width, patch_side, extent.width, self.has_real_steps())
    }

    /// Rows of the token over a source of `extent`.
    pub fn rows(self, extent: Extent, patch_side: u32) -> Texels {
        let height = self.height(patch_side);
        Texels::new(self.y, height, patch_side, extent.height, self.has_real_steps())
    }

    /// The source pixels that it covers; empty if it lies outside the source.
    #[inline]
    pub fn pixel_box(self, extent: Extent, patch_side: u32) -> PixelBox {
        let (columns, rows) = (self.columns(extent, patch_side), self.rows(extent, patch_side));
        PixelBox::of(columns.covered(), rows.covered())
    }

    /// The source pixels that its texels are read from, never empty: those that it covers, and the nearest ones along an axis on
    /// which it covers none; of a token with real steps, all under the texels of a level that it is averaged from.
    #[inline]
    pub fn read_box(self, extent: Extent, patch_side: u32) -> PixelBox {
        let (columns, rows) = (self.columns(extent, patch_side), self.rows(extent, patch_side));
        let (mut columns, mut rows) = (columns.read(), rows.read());
        if self.has_real_steps()
            && let Some(level) = self.weighted_level(PyramidShape::new(extent), patch_side)
        {
            columns = whole_texels(columns, level, extent.width);
            rows = whole_texels(rows, level, extent.height);
        }
        PixelBox::of(columns, rows)
    }
}

/// The pixels of an axis of `length` under the texels of `level` over `pixels`.
fn whole_texels(pixels: Range<u32>, level: u32, length: u32) -> Range<u32> {
    let side = 1 << level;
    pixels.start / side * side..pixels.end.next_multiple_of(side).min(length)
}

/// Whether a token of `patch_side` texels a side may be a square of `side` source pixels: those of layouts with real steps. Without
/// real steps, its texels are those of a level, wherever it is placed on their grid; whole steps between those of levels would be summed
/// from pixels.
pub fn is_side(side: u32, patch_side: u32) -> bool {
    let step = side / patch_side;
    if side.is_multiple_of(patch_side) {
        return step.is_power_of_two() && step <= STEP_MAX.into();
    }
    1 <= step && side <= REAL_SIDE_MAX && PATCH_SIDES.contains(&patch_side)
}

/// The texels of a token along one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Texels {
    /// Parts of a pixel that the fields below are counted in: 1, or P for real steps.
    unit: u32,
    /// Start of the first texel.
    origin: i64,
    /// Length of each.
    step: i64,
    /// Number of texels.
    count: u32,
    /// Length of the source.
    length: u32,
    /// The first and the last over a real pixel, if the axis went on in both directions.
    reached: [i64; 2],
}

impl Texels {
    /// The `count` texels over `side` pixels from `origin` on, of a source of `length` pixels.
    fn new(origin: i32, side: u32, count: u32, length: u32, are_real: bool) -> Self {
        let (unit, step) = if are_real { (count, side) } else { (1, side / count) };
        let (origin, step) = (i64::from(origin) * i64::from(unit), i64::from(step));
        let length = length * unit;
        let last = i64::from(length) - 1;
        let reached = [(-origin).div_euclid(step), (last - origin).div_euclid(step)];
        Self { unit, origin, step, count, length, reached }
    }

    /// Parts of a pixel that [`parts`](Self::parts) counts in.
    #[inline]
    pub fn unit(self) -> u32 {
        self.unit
    }

    /// The texels over a real pixel.
    pub fn real(self) -> Range<u32> {
        let [first, last] = self.reached;
        let bounded = |texel: i64| texel.clamp(0, self.count.into());
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
        let texel = |texel: i64| bounded(texel) as u32;
        texel(first)..texel(last + 1).max(texel(first))
    }

    /// The texels whose values the others repeat: the real ones, or the first if the token lies outside.
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

    /// The part of the source under texel `index`, or under the nearest one that has some, in [units](Self::unit) from its start.
    #[inline]
    pub fn parts(self, index: u32) -> Range<u32> {
        let start = self.origin + self.nearest(index) * self.step;
        let place = |place: i64| place.clamp(0, self.length.into());
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
        let place = |at: i64| place(at) as u32;
        place(start)..place(start + self.step)
    }

    /// Source pixels that texel `index`, or the nearest one over some, touches.
    #[inline]
    pub fn pixels(self, index: u32) -> Range<u32> {
        let Range { start, end } = self.parts(index);
        // A division takes longer than all the rest.
        if self.unit == 1 { start..end } else { start / self.unit..end.div_ceil(self.unit) }
    }

    /// Source pixels whose centres lie under texel `index`, or under the nearest one over some. Those of all real texels are the
    /// pixels that the token covers, each once.
    pub fn centres(self, index: u32) -> Range<u32> {
        let Range { start, end } = self.parts(index);
        let pixel = |place: u32| (place + (self.unit - self.unit / 2) - 1) / self.unit;
        pixel(start)..pixel(end)
    }

    /// The source pixels under all of them; empty if there are none.
    pub fn covered(self) -> Range<u32> {
        let real = self.real();
        if real.is_empty() {
            let edge = if self.origin < 0 { 0 } else { self.length / self.unit };
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
