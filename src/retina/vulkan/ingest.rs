//! From the camera's samples of the dirty tiles to levels 0 to 5, and to one sum per tile.
//!
//! Device side: `glsl/ingest.comp`    Twin: `src/retina/cpu/ingest.rs`

use std::sync::Arc;

use bytemuck::{Pod, Zeroable};

use super::pyramid::Pyramid;
use super::shader;
use crate::clock::Span;
use crate::color::{ColorTransform, FRACTION_BITS};
use crate::frame::{FrameKind, FrameView, PixelFormat, PlaneShape};
use crate::geometry::extent::Extent;
use crate::geometry::pyramid::TILE_LEVEL_COUNT;
use crate::geometry::tile::{TILE_SIDE, TileSet};
use crate::gpu::{
    Binding, BindingKind, Buffer, BufferKind, ComputePass, ComputePassDesc, Gpu, GpuError, Lane,
    Recorder,
};

/// The shader climbs in this many steps, and shares a tile out to (32 / 4)^2 invocations.
const _: () = assert!(TILE_SIDE == 32 && TILE_LEVEL_COUNT == 6);

const TILE_EXTENT: Extent = Extent::new(TILE_SIDE, TILE_SIDE);

/// Where a tile lies in the tile grid. Public, like all that is shared with shaders, for the test that compares layouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct TileRecord {
    /// Column of the grid.
    pub column: u32,
    /// Row of the grid.
    pub row: u32,
}

/// Push constants of the pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct IngestPush {
    /// Width and height of the source in pixels.
    pub extent: [u32; 2],
    /// How samples become RGB.
    pub color: ColorTransform,
    /// Dirty tiles.
    pub tile_count: u32,
}

/// Reads each sample of the dirty tiles once.
#[derive(Debug)]
pub struct IngestPass {
    pass: ComputePass,
    /// The samples of the dirty tiles, tile after tile; room for all.
    staging: Buffer,
    /// Where the dirty tiles lie.
    tiles: Buffer,
    extent: Extent,
    color: ColorTransform,
    tile_count: usize,
    /// Bytes of the samples of a tile.
    record_bytes: usize,
}

impl IngestPass {
    /// The pass for a source.
    ///
    /// # Errors
    ///
    /// If the source is too large for the device, or the device refuses.
    pub fn new(gpu: &Arc<Gpu>, kind: FrameKind) -> Result<Self, GpuError> {
        let FrameKind { format, extent, color } = kind;
        let bindings = [
            BindingKind::Buffer,
            BindingKind::Buffer,
            BindingKind::StorageLevel,
            BindingKind::StorageLevel,
            BindingKind::StorageLevel,
            BindingKind::StorageLevel,
            BindingKind::StorageLevel,
            BindingKind::StorageLevel,
            BindingKind::Buffer,
        ];
        let desc = ComputePassDesc {
            name: "ingest",
            spirv: shader!("ingest"),
            bindings: &bindings,
            constants: &[TILE_SIDE, sampling(format), FRACTION_BITS],
            push_bytes: size_of::<IngestPush>(),
        };
        let most = extent.in_cells(TILE_SIDE).area();
        let tiles_size = most * size_of::<TileRecord>();
        let staging_size = most * record_bytes(format);
        Ok(Self {
            pass: ComputePass::new(gpu, &desc)?,
            staging: Buffer::new(gpu, "staging", BufferKind::HostWritten, staging_size)?,
            tiles: Buffer::new(gpu, "dirty tiles", BufferKind::HostWritten, tiles_size)?,
            extent,
            color,
            tile_count: 0,
            record_bytes: record_bytes(format),
        })
    }

    /// Packs the samples of the dirty tiles for the device.
    pub(super) fn upload(&mut self, frame: &FrameView<'_>, dirty: &TileSet) {
        let records = self.staging.mapped::<u8>().chunks_exact_mut(record_bytes(frame.format()));
        let tiles = self.tiles.mapped::<TileRecord>();
        self.tile_count = 0;
        for ((record, tile), (column, row)) in records.zip(tiles).zip(dirty.iter()) {
            // Not read back from the buffer, whose memory may be uncached.
            let place = TileRecord { column, row };
            *tile = place;
            pack_tile(frame, place, record);
            self.tile_count += 1;
        }
    }

    /// Makes the next `record` run on one tile, whatever its samples.
    pub(super) fn prepare_warm(&mut self) {
        self.tiles.mapped::<TileRecord>()[0] = TileRecord { column: 0, row: 0 };
        self.tile_count = 1;
    }

    /// Dirty tiles that were uploaded.
    pub(super) fn tile_count(&self) -> usize {
        self.tile_count
    }

    /// When the pass ran in the newest submission of `lane`.
    pub(super) fn span(&self, lane: &Lane) -> Span {
        lane.span(&self.pass)
    }

    /// Bytes of the samples that were uploaded.
    pub(super) fn uploaded_bytes(&self) -> u64 {
        (self.tile_count * self.record_bytes) as u64
    }

    /// Writes levels 0 to 5 and the sums of the tiles that were uploaded.
    pub(super) fn record<'a>(&'a self, recorder: &mut Recorder<'a>, pyramid: &'a Pyramid) {
        let [level_0, level_1, level_2, level_3, level_4, level_5] =
            [0, 1, 2, 3, 4, 5].map(|level| pyramid.level(level));
        let bindings = [
            Binding::Read(&self.staging),
            Binding::Read(&self.tiles),
            level_0,
            level_1,
            level_2,
            level_3,
            level_4,
            level_5,
            Binding::Write(&pyramid.sums),
        ];
        let tile_count = count(self.tile_count);
        let extent = [self.extent.width, self.extent.height];
        let push = IngestPush { extent, color: self.color, tile_count };
        recorder.dispatch(&self.pass, &bindings, &push, tile_count);
    }
}

/// What the specialization constant `SAMPLING` says of a format.
fn sampling(format: PixelFormat) -> u32 {
    match format {
        PixelFormat::Nv12 => 0,
        PixelFormat::I420 => 1,
        PixelFormat::Yuy2 => 2,
        PixelFormat::Rgbx | PixelFormat::Rgba => 3,
        PixelFormat::Bgrx | PixelFormat::Bgra => 4,
        PixelFormat::Gray8 => 5,
    }
}

/// The samples of a tile take the bytes of a whole frame of its extent, plane after plane, without padding.
fn record_bytes(format: PixelFormat) -> usize {
    (0..format.plane_count()).map(|index| plane_bytes(format.plane_shape(index, TILE_EXTENT))).sum()
}

fn plane_bytes(shape: PlaneShape) -> usize {
    shape.row_bytes as usize * shape.rows as usize
}

/// Copies the samples of a tile. What hangs over the frame's edge keeps its old bytes, which the shader ignores.
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

/// Copies one row; those of a whole tile without a call, as their lengths are known here.
fn copy_row(target: &mut [u8], source: &[u8]) {
    fn copy<const BYTES: usize>(target: &mut [u8], source: &[u8]) {
        target[..BYTES].copy_from_slice(&source[..BYTES]);
    }
    match target.len() {
        16 => copy::<16>(target, source),
        32 => copy::<32>(target, source),
        64 => copy::<64>(target, source),
        128 => copy::<128>(target, source),
        _ => target.copy_from_slice(source),
    }
}

/// A number of tiles, of which a source of the largest extent has 512 x 512.
#[expect(clippy::cast_possible_truncation, reason = "at most 2^18")]
fn count(tiles: usize) -> u32 {
    tiles as u32
}
