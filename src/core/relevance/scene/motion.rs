//! Motion of cells since the frame before.

#![expect(clippy::cast_possible_truncation, reason = "blocks of a grid, shares of a cell")]

use crate::geometry::extent::Extent;
use crate::motion::Motion;
use crate::relevance::channel::Computed;

/// Fills the channels of motion, in cells a frame: for each cell the mean of the blocks under it by their confidence; 0 where nothing
/// is known.
#[expect(clippy::needless_range_loop, reason = "the index of a cell in several channels")]
pub(super) fn fill(channels: &mut [Vec<f32>], grid: Extent, cell_px: u32, motion: Option<&Motion>) {
    let cell_px = f64::from(cell_px);
    let columns = grid.width as usize;
    for index in 0..grid.area() {
        let (dx, dy) = motion
            .map_or((0.0, 0.0), |motion| mean(motion, index % columns, index / columns, cell_px));
        channels[Computed::MotionX as usize][index] = (dx / cell_px).clamp(-1.0, 1.0) as f32;
        channels[Computed::MotionY as usize][index] = (dy / cell_px).clamp(-1.0, 1.0) as f32;
    }
}

fn mean(motion: &Motion, column: usize, row: usize, cell_px: f64) -> (f64, f64) {
    // A block that is larger than a cell has several in it.
    let under = |cell: usize, count: u32| {
        let first = (cell as f64 * cell_px / motion.block_px()) as usize;
        let past = ((cell + 1) as f64 * cell_px / motion.block_px()) as usize;
        first..past.max(first + 1).min(count as usize)
    };
    let (mut sum, mut sum_x, mut sum_y) = (0.0, 0.0, 0.0);
    for y in under(row, motion.grid().height) {
        for x in under(column, motion.grid().width) {
            let block = motion.blocks()[y * motion.grid().width as usize + x];
            let confidence = f64::from(block.confidence);
            sum += confidence;
            sum_x += confidence * f64::from(block.dx);
            sum_y += confidence * f64::from(block.dy);
        }
    }
    if 0.0 < sum { (sum_x / sum, sum_y / sum) } else { (0.0, 0.0) }
}
