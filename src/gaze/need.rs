//! What a view needs to see most. Policies look there while no client steers.

use super::fixation_state::FixationState;
use super::inhibition::darken;
use super::peaks::peak_radius_px;
use crate::detail::{BLOCK_SIDE, TILE_BLOCKS};
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::{FixationReason, Points};
use foveate_core::geometry::region::Region;
use foveate_core::geometry::tile::TILE_SIDE;
use foveate_core::geometry::weights::Weights;

/// What a view needs of each part of the picture, in units of lost detail.
#[derive(Clone, Debug)]
pub struct Need {
    extent: Extent,
    /// Of each block of 16x16 source pixels, row by row.
    blocks: Vec<f32>,
}

impl Need {
    /// No need in a picture of `extent`.
    pub fn none(extent: Extent) -> Self {
        Self { extent, blocks: vec![0.0; extent.in_cells(BLOCK_SIDE).area()] }
    }

    /// Sets what a view needs of each block of 16x16 source pixels, row by row.
    pub fn fill(&mut self, blocks: impl Iterator<Item = f32>) {
        self.blocks.iter_mut().zip(blocks).for_each(|(target, need)| *target = need);
    }

    /// Sets what it needs of the blocks of a row.
    pub(super) fn fill_row(&mut self, row: usize, blocks: &[u32]) {
        let targets = self.blocks[row * blocks.len()..].iter_mut().zip(blocks);
        targets.for_each(|(target, need)| *target = *need as f32);
    }

    /// What it needs of each tile, row by row.
    fn tiles(&self, grid: Extent) -> Vec<f32> {
        let mut tiles = vec![0.0; grid.area()];
        let columns = self.extent.in_cells(BLOCK_SIDE).width as usize;
        for (row, blocks) in self.blocks.chunks(columns).enumerate() {
            let tiles = &mut tiles[row / TILE_BLOCKS as usize * grid.width as usize..];
            for (blocks, tile) in blocks.chunks(TILE_BLOCKS as usize).zip(tiles) {
                blocks.iter().for_each(|need| *tile += need);
            }
        }
        tiles
    }

    /// Moves to what is needed most, and not to what foveae of other policies look at: `avoided`, in pixels. Of each tile, row by row,
    /// `changed_frame` is the newest frame that changed it.
    pub(super) fn choose(
        &self,
        changed_frame: &[u64],
        avoided: &Points,
        state: &mut FixationState,
    ) {
        let decided_frame = state.note_decision();
        if !state.may_move() {
            return;
        }
        let grid = self.extent.in_cells(TILE_SIDE);
        let mut tiles = self.tiles(grid);
        let side = f64::from(TILE_SIDE);
        let radius = peak_radius_px(self.extent) / side;
        for (x, y) in avoided {
            let place = (x / side, y / side);
            darken(&mut tiles, grid.width as usize, place, 1.0, (radius, radius));
        }
        let [x1, y1] = [grid.width, grid.height].map(|tiles| f64::from(tiles * TILE_SIDE));
        let region = Region { x0: 0.0, y0: 0.0, x1, y1 };
        let weights = Weights { grid, region, cells: &tiles };
        state.go_to_peaks(&weights, |x, y| {
            let changed_frame = changed_frame[tile_at(grid, x, y)];
            if decided_frame.is_some_and(|decided_frame| decided_frame < changed_frame) {
                FixationReason::Changed
            } else {
                FixationReason::Unseen
            }
        });
    }
}

/// The tile of a place in the picture, in pixels.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "cut at the sides")]
fn tile_at(grid: Extent, x: f64, y: f64) -> usize {
    let tile = |place: f64, count: u32| (place as u32 / TILE_SIDE).min(count - 1);
    (tile(y, grid.height) * grid.width + tile(x, grid.width)) as usize
}
