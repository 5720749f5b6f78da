//! Motion of cells between two frames: blocks of the coarse level, compared at every shift (Jain and Jain, "Displacement
//! measurement and its application in interframe image coding", IEEE Transactions on Communications 29, 1981).

#![expect(
    clippy::cast_possible_truncation,
    reason = "a coarse level has at most 128 texels a side, of 8 bits"
)]

use crate::geometry::coarse::CoarseLevel;
use crate::geometry::extent::Extent;
use crate::geometry::pyramid::PyramidShape;
use crate::relevance::channel::Computed;

/// Furthest shift that is looked for, in cells.
const CELLS: i32 = 1;

/// A shift must match better than none by so much, in levels of luma a texel; noise moves nothing.
const LEAST_GAIN: u32 = 2;

/// Brightness of the coarse level of two frames.
#[derive(Debug)]
pub(super) struct Motion {
    level: u32,
    extent: Extent,
    now: Vec<u8>,
    before: Vec<u8>,
    has_both: bool,
    is_empty: bool,
}

impl Motion {
    pub(super) fn new(extent: Extent) -> Self {
        let shape = PyramidShape::new(extent);
        let level = CoarseLevel::level_of(shape);
        let extent = shape.level_extent(level);
        let none = vec![0; extent.area()];
        Self { level, extent, now: none.clone(), before: none, has_both: false, is_empty: true }
    }

    pub(super) fn absorb(&mut self, coarse: &CoarseLevel) {
        std::mem::swap(&mut self.now, &mut self.before);
        for (now, [r, g, b]) in self.now.iter_mut().zip(&coarse.texels) {
            let sum = u16::from(*r) + 2 * u16::from(*g) + u16::from(*b);
            *now = (sum / 4) as u8;
        }
        self.has_both = !std::mem::replace(&mut self.is_empty, false);
    }

    /// Fills the channels of motion, in cells a frame.
    #[expect(clippy::needless_range_loop, reason = "the index of a cell in several channels")]
    pub(super) fn fill(&self, channels: &mut [Vec<f32>], grid: Extent, cell_px: u32) {
        let texels = (cell_px >> self.level) as i32;
        let columns = grid.width as usize;
        for index in 0..grid.area() {
            let (column, row) = ((index % columns) as i32, (index / columns) as i32);
            let (dx, dy) = if self.has_both {
                self.shift(column * texels, row * texels, texels)
            } else {
                (0, 0)
            };
            channels[Computed::MotionX as usize][index] = dx as f32 / texels as f32;
            channels[Computed::MotionY as usize][index] = dy as f32 / texels as f32;
        }
    }

    /// The shift since the frame before of the cell of `side` texels at (`x`, `y`), by a block of it and the cells around it.
    fn shift(&self, x: i32, y: i32, side: i32) -> (i32, i32) {
        let margin = side.max(2);
        let (width, height) = (self.extent.width as i32, self.extent.height as i32);
        let xs = (x - margin).max(0)..(x + side + margin).min(width);
        let ys = (y - margin).max(0)..(y + side + margin).min(height);
        let count = (xs.len() * ys.len()) as u32;
        let at = |x: i32, y: i32| (y.clamp(0, height - 1) * width + x.clamp(0, width - 1)) as usize;
        let difference = |dx: i32, dy: i32, most: u32| {
            let mut sum = 0;
            for y in ys.clone() {
                for x in xs.clone() {
                    sum += u32::from(self.now[at(x, y)].abs_diff(self.before[at(x - dx, y - dy)]));
                }
                if most < sum {
                    return u32::MAX;
                }
            }
            sum
        };
        let still = difference(0, 0, u32::MAX);
        if still < LEAST_GAIN * count {
            return (0, 0);
        }
        let reach = CELLS * side;
        let (mut best, mut least) = ((0, 0), still - LEAST_GAIN * count);
        for dy in -reach..=reach {
            for dx in -reach..=reach {
                let here = difference(dx, dy, least);
                // Of equal ones the shortest.
                let is_shorter = dx * dx + dy * dy < best.0 * best.0 + best.1 * best.1;
                if here < least || (here == least && is_shorter) {
                    (best, least) = ((dx, dy), here);
                }
            }
        }
        best
    }
}
