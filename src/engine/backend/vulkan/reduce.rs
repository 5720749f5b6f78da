//! Reduces the sums of the tiles to the tail of the pyramid, level 6 and up.
//!
//! Device side: `glsl/reduce.comp`    Twin: `src/engine/backend/cpu/reduce.rs`

use std::sync::Arc;

use bytemuck::{Pod, Zeroable};

use super::pyramid::{GpuPyramid, layer_sums};
use super::sample::count;
use super::shaders;
use super::tiles::TileList;
use foveate_core::clock::Span;
use foveate_core::geometry::pyramid::{PyramidShape, TILE_LEVEL_COUNT};
use foveate_core::geometry::tile::TILE_SIDE;
use foveate_gpu::{
    Binding, BindingKind, ComputePass, ComputePassDesc, Gpu, GpuError, Lane, Recorder,
};

/// Push constants of the pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct ReducePush {
    /// Columns and rows of the tile grid.
    pub(super) grid: [u32; 2],
    /// Levels above the tiles; 0 for sources of up to 256 x 256 pixels.
    pub(super) tail_level_count: u32,
    /// Sums of a layer of the pyramid.
    pub(super) layer_sums: u32,
}

/// Brings the tail up to date above the dirty tiles.
#[derive(Debug)]
pub(super) struct ReducePass {
    pass: ComputePass,
    push: ReducePush,
}

impl ReducePass {
    /// The pass for a source.
    ///
    /// # Errors
    ///
    /// If the device refuses.
    pub(super) fn new(gpu: &Arc<Gpu>, shape: PyramidShape) -> Result<Self, GpuError> {
        let desc = ComputePassDesc {
            name: "reduce",
            shader: shaders::REDUCE,
            bindings: &[BindingKind::Buffer, BindingKind::Buffer, BindingKind::Buffer],
            constants: &[],
            push_bytes: size_of::<ReducePush>(),
        };
        let grid = shape.extent().in_cells(TILE_SIDE);
        let push = ReducePush {
            grid: [grid.width, grid.height],
            tail_level_count: shape.level_count().saturating_sub(TILE_LEVEL_COUNT),
            layer_sums: count(layer_sums(shape)),
        };
        Ok(Self { pass: ComputePass::new(gpu, &desc)?, push })
    }

    /// When the pass ran in the newest submission of `lane`.
    pub(super) fn span(&self, lane: &Lane) -> Span {
        lane.span(&self.pass)
    }

    /// Brings the tail, if the pyramid has one, up to date above `tiles`.
    pub(super) fn record<'a>(
        &'a self,
        recorder: &mut Recorder<'a>,
        tiles: &'a TileList,
        pyramid: &'a GpuPyramid,
    ) {
        if self.push.tail_level_count != 0 {
            let bindings = [
                Binding::Update(&pyramid.sums),
                Binding::Write(&pyramid.tail),
                Binding::Read(tiles.buffer()),
            ];
            recorder.dispatch(&self.pass, &bindings, &self.push, pyramid.layer_count());
        }
    }
}
