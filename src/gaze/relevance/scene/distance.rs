//! Distance to the nearest marked cell: two passes over the grid (Borgefors, "Distance transformations in digital images",
//! Computer Vision, Graphics, and Image Processing 34, 1986).

use foveate_core::geometry::extent::Extent;

/// Cells at which the channel is 1.
const FAR: f32 = 16.0;

/// Fills `cells` with distances, as shares of [`FAR`]; 1 where no cell is marked.
pub(super) fn fill(cells: &mut [f32], grid: Extent, marked: &[bool]) {
    let (width, height) = (grid.width as usize, grid.height as usize);
    for (cell, is_marked) in cells.iter_mut().zip(marked) {
        *cell = if *is_marked { 0.0 } else { FAR };
    }
    for y in 0..height {
        let (above, rest) = cells.split_at_mut(y * width);
        let row = &mut rest[..width];
        if 0 < y {
            relax_from(row, &above[(y - 1) * width..]);
        }
        relax_along(row.iter_mut());
    }
    for y in (0..height).rev() {
        let (row, below) = cells[y * width..].split_at_mut(width);
        if !below.is_empty() {
            relax_from(row, &below[..width]);
        }
        relax_along(row.iter_mut().rev());
    }
    cells.iter_mut().for_each(|cell| *cell /= FAR);
}

/// Bounds the distances of a row by those of the next one.
fn relax_from(row: &mut [f32], next: &[f32]) {
    let diagonal = std::f32::consts::SQRT_2;
    for (cell, straight) in row.iter_mut().zip(next) {
        *cell = cell.min(straight + 1.0);
    }
    for (cell, before) in row[1..].iter_mut().zip(next) {
        *cell = cell.min(before + diagonal);
    }
    for (cell, after) in row.iter_mut().zip(&next[1..]) {
        *cell = cell.min(after + diagonal);
    }
}

/// Bounds the distance of each cell by that of the one before.
fn relax_along<'a>(row: impl Iterator<Item = &'a mut f32>) {
    let mut before = f32::INFINITY;
    for cell in row {
        *cell = cell.min(before + 1.0);
        before = *cell;
    }
}
