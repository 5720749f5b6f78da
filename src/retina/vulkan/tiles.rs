//! The tiles that a frame brings up to date, as the passes read them.
//!
//! Device side: `glsl/shared/tiles.glsl`

use std::sync::Arc;

use bytemuck::{Pod, Zeroable};

use crate::geometry::extent::Extent;
use crate::geometry::tile::TILE_SIDE;
use crate::gpu::{Buffer, BufferKind, Gpu, GpuError};

/// Where a tile lies in the tile grid. Public, like all that is shared with shaders, for the tests that compare layouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct TileRecord {
    /// Column of the grid.
    pub column: u32,
    /// Row of the grid.
    pub row: u32,
}

/// What a list begins with; as many records follow as there are tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct TileListHead {
    /// Tiles in the list.
    pub tile_count: u32,
}

/// A list of tiles on the device, with room for all of a source.
#[derive(Debug)]
pub(super) struct TileList {
    buffer: Buffer,
    tile_count: u32,
}

impl TileList {
    /// An empty list of tiles of a source of `extent` pixels.
    pub(super) fn new(gpu: &Arc<Gpu>, extent: Extent) -> Result<Self, GpuError> {
        let most = extent.in_cells(TILE_SIDE).area();
        let size = size_of::<TileListHead>() + most * size_of::<TileRecord>();
        let buffer = Buffer::new(gpu, "dirty tiles", BufferKind::HostWritten, size)?;
        Ok(Self { buffer, tile_count: 0 })
    }

    /// Fills the list with `tiles`.
    pub(super) fn set(&mut self, tiles: impl Iterator<Item = TileRecord>) {
        // Nothing is read back from the buffer, whose memory may be uncached.
        let (head, rest) = self.buffer.mapped::<u8>().split_at_mut(size_of::<TileListHead>());
        let records: &mut [TileRecord] = bytemuck::cast_slice_mut(rest);
        self.tile_count = 0;
        for (record, tile) in records.iter_mut().zip(tiles) {
            *record = tile;
            self.tile_count += 1;
        }
        head.copy_from_slice(bytemuck::bytes_of(&TileListHead { tile_count: self.tile_count }));
    }

    /// Tiles in the list.
    pub(super) fn tile_count(&self) -> u32 {
        self.tile_count
    }

    /// The list as passes bind it.
    pub(super) fn buffer(&self) -> &Buffer {
        &self.buffer
    }
}
