//! Ingests dirty tiles: makes of the camera's samples levels 0 to 5, and one sum per tile.
//!
//! Device side: `glsl/ingest.comp`    Twin: `src/engine/backend/cpu/ingest.rs`

use std::sync::Arc;

use bytemuck::{Pod, Zeroable};

use super::pyramid::{GpuPyramid, layer_sums};
use super::sample::count;
use super::shaders;
use super::tiles::TileList;
use foveate_core::clock::Span;
use foveate_core::color::{ColorTransform, FRACTION_BITS};
use foveate_core::frame::{FrameKind, PixelFormat};
use foveate_core::geometry::pyramid::{PyramidShape, TILE_LEVEL_COUNT};
use foveate_core::geometry::tile::TILE_SIDE;
use foveate_gpu::{
    Binding, BindingKind, Buffer, ComputePass, ComputePassDesc, Gpu, GpuError, Lane, Recorder,
};

/// The shader is written for these: a tile is one workgroup of (32 / 4)^2 invocations.
const _: () = assert!(TILE_SIDE == 32 && TILE_LEVEL_COUNT == 6);

/// Push constants of the pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct IngestPush {
    /// Width and height of the source in pixels.
    pub(super) extent: [u32; 2],
    /// Conversion from samples to RGB.
    pub(super) color: ColorTransform,
    /// Sums of a layer of the pyramid.
    pub(super) layer_sums: u32,
}

/// The tiles that have records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TileRecords {
    /// Listed tiles, in list order.
    Listed,
    /// All tiles, row by row: the resident copy.
    Resident,
}

/// Reads each sample of the dirty tiles once.
#[derive(Debug)]
pub(super) struct IngestPass {
    pass: ComputePass,
    push: IngestPush,
}

impl IngestPass {
    /// The pass for a source.
    ///
    /// # Errors
    ///
    /// If the source is too large for the device, or the device refuses.
    pub(super) fn new(
        gpu: &Arc<Gpu>,
        kind: FrameKind,
        records: TileRecords,
    ) -> Result<Self, GpuError> {
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
            shader: shaders::INGEST,
            bindings: &bindings,
            constants: &[
                TILE_SIDE,
                sampling(format),
                FRACTION_BITS,
                u32::from(records == TileRecords::Resident),
            ],
            push_bytes: size_of::<IngestPush>(),
        };
        let layer_sums = count(layer_sums(PyramidShape::new(extent)));
        let push = IngestPush { extent: [extent.width, extent.height], color, layer_sums };
        Ok(Self { pass: ComputePass::new(gpu, &desc)?, push })
    }

    /// When the pass ran in the newest submission of `lane`.
    pub(super) fn span(&self, lane: &Lane) -> Span {
        lane.span(&self.pass)
    }

    /// Writes levels 0 to 5 and the sums of `tiles` from their `records`.
    pub(super) fn record<'a>(
        &'a self,
        recorder: &mut Recorder<'a>,
        records: &'a Buffer,
        tiles: &'a TileList,
        pyramid: &'a GpuPyramid,
    ) {
        let [level_0, level_1, level_2, level_3, level_4, level_5] =
            [0, 1, 2, 3, 4, 5].map(|level| pyramid.level(level));
        let bindings = [
            Binding::Read(records),
            Binding::Read(tiles.buffer()),
            level_0,
            level_1,
            level_2,
            level_3,
            level_4,
            level_5,
            Binding::Write(&pyramid.sums),
        ];
        recorder.dispatch(&self.pass, &bindings, &self.push, tiles.groups(|count| count));
    }
}

/// The specialization constant `SAMPLING` for a format.
pub(super) fn sampling(format: PixelFormat) -> u32 {
    match format {
        PixelFormat::Nv12 => 0,
        PixelFormat::I420 => 1,
        PixelFormat::Yuy2 => 2,
        PixelFormat::Rgbx | PixelFormat::Rgba => 3,
        PixelFormat::Bgrx | PixelFormat::Bgra => 4,
        PixelFormat::Gray8 => 5,
        PixelFormat::Rgb => 6,
        PixelFormat::Bgr => 7,
    }
}
