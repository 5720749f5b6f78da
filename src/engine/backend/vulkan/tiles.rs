//! The list of tiles to ingest, as the passes read it.
//!
//! Device side: `glsl/shared/tiles.glsl`

use std::sync::Arc;

use bytemuck::{Pod, Zeroable};

use super::work::WorkList;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::tile::TILE_SIDE;
use foveate_gpu::{Gpu, GpuError};

/// Location of a tile in the tile grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct TileRecord {
    /// Column of the grid.
    pub(super) column: u32,
    /// Row of the grid.
    pub(super) row: u32,
    /// Layer of the pyramid.
    pub(super) layer: u32,
}

/// A list of tiles on the device.
pub(super) type TileList = WorkList<TileRecord>;

/// An empty list of tiles of `layer_count` sources of `extent` pixels, with room for all of them.
pub(super) fn tile_list(
    gpu: &Arc<Gpu>,
    extent: Extent,
    layer_count: usize,
) -> Result<TileList, GpuError> {
    TileList::new(gpu, "dirty tiles", extent.in_cells(TILE_SIDE).area() * layer_count)
}
