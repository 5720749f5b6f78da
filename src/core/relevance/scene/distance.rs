//! Distance to the nearest marked cell: two passes over the grid (Borgefors, "Distance transformations in digital images",
//! Computer Vision, Graphics, and Image Processing 34, 1986).

use crate::geometry::extent::Extent;

/// Cells at which the channel is 1.
const FAR: f32 = 16.0;

/// Fills `cells` with distances, as shares of [`FAR`]; 1 where no cell is marked.
pub(super) fn fill(cells: &mut [f32], grid: Extent, marked: &[bool]) {
    let (width, height) = (grid.width as usize, grid.height as usize);
    for (cell, is_marked) in cells.iter_mut().zip(marked) {
        *cell = if *is_marked { 0.0 } else { FAR };
    }
    let diagonal = std::f32::consts::SQRT_2;
    let mut relax = |x: usize, y: usize, dx: isize, dy: isize, step: f32| {
        let (Some(from_x), Some(from_y)) = (x.checked_add_signed(dx), y.checked_add_signed(dy))
        else {
            return;
        };
        if from_x < width && from_y < height {
            let through = cells[from_y * width + from_x] + step;
            let cell = &mut cells[y * width + x];
            *cell = cell.min(through);
        }
    };
    for y in 0..height {
        for x in 0..width {
            relax(x, y, -1, 0, 1.0);
            relax(x, y, 0, -1, 1.0);
            relax(x, y, -1, -1, diagonal);
            relax(x, y, 1, -1, diagonal);
        }
    }
    for y in (0..height).rev() {
        for x in (0..width).rev() {
            relax(x, y, 1, 0, 1.0);
            relax(x, y, 0, 1, 1.0);
            relax(x, y, 1, 1, diagonal);
            relax(x, y, -1, 1, diagonal);
        }
    }
    cells.iter_mut().for_each(|cell| *cell /= FAR);
}
