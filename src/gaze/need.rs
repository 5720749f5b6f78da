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

/// What a view needs of each tile of the picture, in units of lost detail.
#[derive(Clone, Debug)]
pub struct Need {
    extent: Extent,
    /// Columns and rows of tiles.
    grid: Extent,
    /// Need of each tile, row by row.
    tiles: Vec<f32>,
}

impl Need {
    /// No need in a picture of `extent`.
    pub fn none(extent: Extent) -> Self {
        let grid = extent.in_cells(TILE_SIDE);
        Self { extent, grid, tiles: vec![0.0; grid.area()] }
    }

    /// Sums up what a view needs of each block of 16x16 source pixels, row by row.
    pub fn fill(&mut self, blocks: impl Iterator<Item = f32>) {
        self.tiles.fill(0.0);
        let columns = self.extent.in_cells(BLOCK_SIDE).width;
        let (mut column, mut row) = (0, 0);
        for need in blocks {
            let tile = row / TILE_BLOCKS * self.grid.width + column / TILE_BLOCKS;
            self.tiles[tile as usize] += need;
            column += 1;
            if column == columns {
                (column, row) = (0, row + 1);
            }
        }
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
        let mut tiles = self.tiles.clone();
        let side = f64::from(TILE_SIDE);
        let radius = peak_radius_px(self.extent) / side;
        for (x, y) in avoided {
            let place = (x / side, y / side);
            darken(&mut tiles, self.grid.width as usize, place, 1.0, (radius, radius));
        }
        let weights = Weights { grid: self.grid, region: self.region(), cells: &tiles };
        state.go_to_peaks(&weights, |x, y| {
            let changed_frame = changed_frame[self.tile_at(x, y)];
            if decided_frame.is_some_and(|decided_frame| decided_frame < changed_frame) {
                FixationReason::Changed
            } else {
                FixationReason::Unseen
            }
        });
    }

    /// The tile of a place in the picture, in pixels.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "cut at the sides")]
    fn tile_at(&self, x: f64, y: f64) -> usize {
        let tile = |place: f64, count: u32| (place as u32 / TILE_SIDE).min(count - 1);
        (tile(y, self.grid.height) * self.grid.width + tile(x, self.grid.width)) as usize
    }

    /// The box that the tiles cover, in source pixels.
    fn region(&self) -> Region {
        let side = |tiles: u32| f64::from(tiles * TILE_SIDE);
        Region { x0: 0.0, y0: 0.0, x1: side(self.grid.width), y1: side(self.grid.height) }
    }
}
