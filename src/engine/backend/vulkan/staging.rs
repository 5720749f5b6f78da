//! Upload of the samples of dirty tiles.

use std::sync::Arc;

use super::sample::count;
use super::tiles::{TileList, TileRecord, tile_list};
use crate::pool::Pool;
use bytemuck::Zeroable;
use foveate_core::frame::{FrameKind, FrameView, PixelFormat, PlaneShape, copy_row};
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::tile::{TILE_SIDE, TileSet};
use foveate_gpu::{Buffer, BufferKind, Gpu, GpuError};

/// The extent of a record.
pub(super) const TILE_EXTENT: Extent = Extent::new(TILE_SIDE, TILE_SIDE);

/// Packed samples of tiles, with room for all tiles of each layer of a pyramid.
#[derive(Debug)]
pub(super) struct TileStaging {
    /// Samples tile after tile, in the order of `tiles`.
    records: Buffer,
    /// Locations of the tiles.
    tiles: TileList,
    grid: Extent,
    record_bytes: usize,
}

impl TileStaging {
    /// Room for the tiles of `layer_count` frames of `kind`.
    pub(super) fn new(
        gpu: &Arc<Gpu>,
        kind: FrameKind,
        layer_count: usize,
    ) -> Result<Self, GpuError> {
        let (grid, record_bytes) = (kind.extent.in_cells(TILE_SIDE), record_bytes(kind.format));
        let size = grid.area() * record_bytes * layer_count;
        let records = Buffer::new(gpu, "staging", BufferKind::HostWritten, size)?;
        let tiles = tile_list(gpu, kind.extent, layer_count)?;
        Ok(Self { records, tiles, grid, record_bytes })
    }

    /// Packs the samples of the dirty tiles of a frame, the only layer.
    pub(super) fn upload(&mut self, frame: &FrameView<'_>, dirty: &TileSet) {
        let records = self.records.mapped::<u8>().chunks_exact_mut(self.record_bytes);
        let tiles = records.zip(dirty.iter()).map(|(record, (column, row))| {
            let tile = TileRecord { column, row, layer: 0 };
            pack_tile(frame, tile, record);
            tile
        });
        self.tiles.fill(tiles);
    }

    /// Packs all samples of a picture for each layer; the threads of `pool` share the pictures.
    pub(super) fn upload_layers<'a>(
        &mut self,
        pool: &Pool,
        frames: impl ExactSizeIterator<Item = FrameView<'a>>,
    ) {
        let Self { grid, record_bytes, .. } = *self;
        let layer_count = count(frames.len());
        let layers = self.records.mapped::<u8>().chunks_exact_mut(grid.area() * record_bytes);
        let mut parts: Vec<_> = layers.zip(frames).collect();
        pool.for_each(&mut parts, &|(records, frame)| {
            for (record, tile) in records.chunks_exact_mut(record_bytes).zip(tiles_of(grid, 0)) {
                pack_tile(frame, tile, record);
            }
        });
        self.tiles.fill((0..layer_count).flat_map(|layer| tiles_of(grid, layer)));
    }

    /// Makes the next passes run on one tile of undefined samples.
    pub(super) fn prepare_warm(&mut self) {
        self.tiles.fill(std::iter::once(TileRecord::zeroed()));
    }

    /// The samples that were uploaded.
    pub(super) fn records(&self) -> &Buffer {
        &self.records
    }

    /// The tiles that were uploaded.
    pub(super) fn tiles(&self) -> &TileList {
        &self.tiles
    }

    /// Tiles that were uploaded.
    pub(super) fn tile_count(&self) -> u32 {
        self.tiles.count().expect("the CPU fills the list")
    }

    /// Bytes of the samples that were uploaded.
    pub(super) fn uploaded_bytes(&self) -> u64 {
        u64::from(self.tile_count()) * self.record_bytes as u64
    }
}

/// All tiles of a layer, row by row.
fn tiles_of(grid: Extent, layer: u32) -> impl Iterator<Item = TileRecord> {
    let Extent { width, height } = grid;
    (0..height).flat_map(move |row| (0..width).map(move |column| TileRecord { column, row, layer }))
}

/// Bytes of a record: those of a frame as large as a tile, plane after plane, without padding.
pub(super) fn record_bytes(format: PixelFormat) -> usize {
    (0..format.plane_count()).map(|index| plane_bytes(format.plane_shape(index, TILE_EXTENT))).sum()
}

fn plane_bytes(shape: PlaneShape) -> usize {
    shape.row_bytes as usize * shape.rows as usize
}

/// Copies the samples of a tile. Those outside the frame keep their old bytes, which the shader ignores.
fn pack_tile(frame: &FrameView<'_>, tile: TileRecord, mut record: &mut [u8]) {
    for index in 0..frame.format().plane_count() {
        let target_shape = frame.format().plane_shape(index, TILE_EXTENT);
        let (target, rest) = record.split_at_mut(plane_bytes(target_shape));
        record = rest;

        let source_shape = frame.format().plane_shape(index, frame.extent());
        let first_byte = tile.column * target_shape.row_bytes;
        let first_row = tile.row * target_shape.rows;
        let row_bytes = target_shape.row_bytes.min(source_shape.row_bytes - first_byte) as usize;
        let rows = target_shape.rows.min(source_shape.rows - first_row);
        let source = frame.plane(index);
        let targets = target.chunks_exact_mut(target_shape.row_bytes as usize);
        for (y, target) in (first_row..first_row + rows).zip(targets) {
            let start = y as usize * source.stride + first_byte as usize;
            copy_row(&mut target[..row_bytes], &source.bytes[start..start + row_bytes]);
        }
    }
}
