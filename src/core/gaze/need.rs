//! What a view needs to see most: where policies look that no client steers.

use super::fixation_state::FixationState;
use super::peaks::{Peaks, darken, peak_radius_px};
use crate::detail::BLOCK_SIDE;
use crate::geometry::extent::Extent;
use crate::geometry::fixation::{FixationReason, Points};
use crate::geometry::region::{PixelBox, Region};
use crate::geometry::relevance::RelevanceMap;
use crate::geometry::weights::Weights;

/// Blocks along a side of a cell.
const CELL_BLOCKS: u32 = 4;

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

    /// Moves to what is needed most, `weighed` by a map, and not to what foveae of other policies look at: `avoided`, in pixels.
    pub(super) fn choose(
        &self,
        weighed: Option<&RelevanceMap>,
        avoided: &Points,
        state: &mut FixationState,
        reason: FixationReason,
    ) {
        if !state.may_move() {
            return;
        }
        let mut cells = self.cells.clone();
        if let Some(map) = weighed {
            for (index, cell) in (0..).zip(&mut cells) {
                let (column, row) = (index % self.grid.width, index / self.grid.width);
                let [x, y] = [column, row].map(|index| index * CELL_SIDE..(index + 1) * CELL_SIDE);
                *cell *= map.greatest(self.extent, PixelBox::of(x, y)) as f32;
            }
        }
        let radius_px = peak_radius_px(self.extent);
        let radius = radius_px / f64::from(CELL_SIDE);
        for (x, y) in avoided {
            let place = (x / f64::from(CELL_SIDE), y / f64::from(CELL_SIDE));
            darken(&mut cells, self.grid.width as usize, place, (radius, radius));
        }
        let weights = Weights { grid: self.grid, region: self.region(), cells: &cells };
        let peaks = Peaks::of(&weights, self.extent, state.foveae_max(), radius_px);
        if peaks.as_slice().is_empty() {
            state.go_to_middle_unless(reason);
        } else {
            state.follow(&weights, &peaks, reason, None);
        }
    }

    /// The box that the cells cover, in source pixels.
    fn region(&self) -> Region {
        let side = |cells: u32| f64::from(cells * CELL_SIDE);
        Region { x0: 0.0, y0: 0.0, x1: side(self.grid.width), y1: side(self.grid.height) }
    }
}
