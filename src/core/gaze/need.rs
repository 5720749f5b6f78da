//! What a view needs to see most: where policies look that no client steers.

use super::fixation_state::FixationState;
use super::inhibition::darken;
use super::peaks::peak_radius_px;
use crate::detail::BLOCK_SIDE;
use crate::geometry::extent::Extent;
use crate::geometry::fixation::{FixationReason, Points};
use crate::geometry::region::Region;
use crate::geometry::weights::Weights;

/// Blocks along a side of a cell.
const CELL_BLOCKS: u32 = 2;

/// Side of a cell in source pixels.
const CELL_SIDE: u32 = CELL_BLOCKS * BLOCK_SIDE;

/// What a view needs of each cell of the picture, in units of lost detail.
#[derive(Clone, Debug)]
pub struct Need {
    extent: Extent,
    /// Columns and rows of cells.
    grid: Extent,
    /// Row by row.
    cells: Vec<f32>,
}

impl Need {
    /// None of a picture of `extent`.
    pub fn none(extent: Extent) -> Self {
        let grid = extent.in_cells(CELL_SIDE);
        Self { extent, grid, cells: vec![0.0; grid.area()] }
    }

    /// Sums up what a view needs of each block of 16x16 source pixels, row by row.
    pub fn fill(&mut self, blocks: impl Iterator<Item = f32>) {
        self.cells.fill(0.0);
        let columns = self.extent.in_cells(BLOCK_SIDE).width;
        let (mut column, mut row) = (0, 0);
        for need in blocks {
            let cell = row / CELL_BLOCKS * self.grid.width + column / CELL_BLOCKS;
            self.cells[cell as usize] += need;
            column += 1;
            if column == columns {
                (column, row) = (0, row + 1);
            }
        }
    }

    /// Moves to what is needed most, and not to what foveae of other policies look at: `avoided`, in pixels.
    pub(super) fn choose(
        &self,
        avoided: &Points,
        state: &mut FixationState,
        reason: FixationReason,
    ) {
        if !state.may_move() {
            return;
        }
        let mut cells = self.cells.clone();
        let side = f64::from(CELL_SIDE);
        let radius = peak_radius_px(self.extent) / side;
        for (x, y) in avoided {
            let place = (x / side, y / side);
            darken(&mut cells, self.grid.width as usize, place, 1.0, (radius, radius));
        }
        let weights = Weights { grid: self.grid, region: self.region(), cells: &cells };
        state.go_to_peaks(&weights, reason);
    }

    /// The box that the cells cover, in source pixels.
    fn region(&self) -> Region {
        let side = |cells: u32| f64::from(cells * CELL_SIDE);
        Region { x0: 0.0, y0: 0.0, x1: side(self.grid.width), y1: side(self.grid.height) }
    }
}
