//! Motion of cells since the frame before.

#![expect(clippy::cast_possible_truncation, reason = "blocks of a grid, shares of a cell")]

use std::ops::Range;

use arrayvec::ArrayVec;

use crate::motion::Motion;
use foveate_core::channel::{CELLS_MAX, Computed};
use foveate_core::geometry::extent::Extent;

/// Fills the channels of motion, in cells a frame: for each cell the mean of the blocks under it by their confidence; 0 where nothing
/// is known.
pub(super) fn fill(channels: &mut [Vec<f32>], grid: Extent, cell_px: u32, motion: Option<&Motion>) {
    let Some(motion) = motion else {
        channels[Computed::MotionX as usize].fill(0.0);
        return channels[Computed::MotionY as usize].fill(0.0);
    };
    let cell_px = f64::from(cell_px);
    let columns: Under =
        (0..grid.width).map(|column| under(motion, cell_px, column, motion.grid().width)).collect();
    for row in 0..grid.height {
        let rows = under(motion, cell_px, row, motion.grid().height);
        for (index, columns) in (row * grid.width..).zip(&columns) {
            let (dx, dy) = mean(motion, columns, &rows);
            let share = |shift: f64| (shift / cell_px).clamp(-1.0, 1.0) as f32;
            channels[Computed::MotionX as usize][index as usize] = share(dx);
            channels[Computed::MotionY as usize][index as usize] = share(dy);
        }
    }
}

/// The blocks under each cell along an axis.
type Under = ArrayVec<Range<usize>, { CELLS_MAX as usize }>;

/// The blocks, of `count` along an axis, that are under a cell. A block that is larger than a cell is under several.
fn under(motion: &Motion, cell_px: f64, cell: u32, count: u32) -> Range<usize> {
    let first = (f64::from(cell) * cell_px / motion.block_px()) as usize;
    let past = (f64::from(cell + 1) * cell_px / motion.block_px()) as usize;
    let past = past.max(first + 1).min(count as usize);
    first.min(past)..past
}

fn mean(motion: &Motion, columns: &Range<usize>, rows: &Range<usize>) -> (f64, f64) {
    let width = motion.grid().width as usize;
    let (mut sum, mut sum_x, mut sum_y) = (0.0, 0.0, 0.0);
    for y in rows.clone() {
        for block in &motion.blocks()[y * width..][columns.clone()] {
            let confidence = f64::from(block.confidence);
            sum += confidence;
            sum_x += confidence * f64::from(block.dx);
            sum_y += confidence * f64::from(block.dy);
        }
    }
    // Most blocks stand still, and dividing takes time.
    if sum == 0.0 || (sum_x, sum_y) == (0.0, 0.0) {
        return (0.0, 0.0);
    }
    (sum_x / sum, sum_y / sum)
}
