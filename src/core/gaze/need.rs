//! What a view needs to see most: where policies look that no client steers.

use super::fixation_state::FixationState;
use super::peaks::{Peaks, darken, peak_radius_px};
use crate::detail::BLOCK_SIDE;
use crate::geometry::extent::Extent;
use crate::geometry::fixation::{FixationReason, Points};
use crate::geometry::region::Region;
use crate::geometry::weights::Weights;

/// Blocks along a side of a cell.
const CELL_BLOCKS: u32 = 4;

/// Side of a cell in source pixels.
const CELL_SIDE: u32 = CELL_BLOCKS * BLOCK_SIDE;

/// How much of its weight a place loses that is known. Below all of it, so that what is clearly better is looked at again, as 20 % of
/// people's fixations are returns: Wilming, Harst, Schmidt and König, PLoS Computational Biology 9 (2013).
const KNOWN_LOSS: f32 = 0.9;

/// What a view needs of each cell of the picture, in units of lost detail.
#[derive(Clone, Debug)]
pub struct Need {
    extent: Extent,
    /// Columns and rows of cells.
    grid: Extent,
    /// Row by row.
    cells: Vec<f32>,
    /// What of the weight of each cell counts, 0 to 1: little of what is known.
    open: Vec<f32>,
}

impl Need {
    /// None of a picture of `extent`.
    pub fn none(extent: Extent) -> Self {
        let grid = extent.in_cells(CELL_SIDE);
        Self { extent, grid, cells: vec![0.0; grid.area()], open: vec![1.0; grid.area()] }
    }

    /// Sums up blocks of 16x16 source pixels, row by row: what there is to see in each, and how much of it is known, 0 to 1.
    pub fn fill(&mut self, blocks: impl Iterator<Item = (f32, f32)>) {
        self.cells.fill(0.0);
        self.open.fill(0.0);
        let blocks_across = self.extent.in_cells(BLOCK_SIDE);
        let (mut column, mut row) = (0, 0);
        for (loss, known) in blocks {
            let cell = (row / CELL_BLOCKS * self.grid.width + column / CELL_BLOCKS) as usize;
            let open = 1.0 - KNOWN_LOSS * known;
            self.cells[cell] += loss * open;
            self.open[cell] = self.open[cell].max(open);
            column += 1;
            if column == blocks_across.width {
                (column, row) = (0, row + 1);
            }
        }
    }

    /// Moves to what is needed most, or to the greatest of `weights`, as far as it is not known; not to what foveae of other policies
    /// look at: `avoided`, in pixels.
    pub(super) fn choose(
        &self,
        weights: Option<Weights<'_>>,
        avoided: &Points,
        state: &mut FixationState,
        reason: FixationReason,
    ) {
        if !state.may_move() {
            return;
        }
        let own = Weights { grid: self.grid, region: self.region(), cells: &self.cells };
        let Weights { grid, region, cells } = weights.unwrap_or(own);
        let side = (region.x1 - region.x0) / f64::from(grid.width);
        let mut cells = cells.to_vec();
        if weights.is_some() {
            for (index, cell) in (0..).zip(&mut cells) {
                let middle = |at: u32| (f64::from(at) + 0.5) * side;
                *cell *= self.open_at(middle(index % grid.width), middle(index / grid.width));
            }
        }
        let radius_px = peak_radius_px(self.extent);
        let radius = (radius_px / side).max(1.0);
        for (x, y) in avoided {
            let place = (x / side, y / side);
            darken(&mut cells, grid.width as usize, place, (radius, radius));
        }
        let weights = Weights { grid, region, cells: &cells };
        let peaks = Peaks::of(&weights, self.extent, state.foveae_max(), radius_px);
        if peaks.as_slice().is_empty() {
            state.go_to_middle_unless(reason);
        } else {
            state.follow(&weights, &peaks, reason, None);
        }
    }

    /// What of the weight of a place in pixels counts.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "cells of a grid")]
    fn open_at(&self, x: f64, y: f64) -> f32 {
        let cell = |at: f64, count: u32| ((at / f64::from(CELL_SIDE)) as u32).min(count - 1);
        let (column, row) = (cell(x, self.grid.width), cell(y, self.grid.height));
        self.open[(row * self.grid.width + column) as usize]
    }

    /// The box that the cells cover, in source pixels.
    fn region(&self) -> Region {
        let side = |cells: u32| f64::from(cells * CELL_SIDE);
        Region { x0: 0.0, y0: 0.0, x1: side(self.grid.width), y1: side(self.grid.height) }
    }
}
