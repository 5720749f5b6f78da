//! Finds the stale tokens of one view: those over ingested tiles.
//!
//! Device side: `glsl/stale.comp`    Twin: `Planes::find_stale` in `src/engine/planes.rs`

use std::sync::Arc;

use bytemuck::{Pod, Zeroable};

use super::sample::{GROUP_INVOCATIONS, SamplePass, TokenSource, channel_words, count};
use super::shaders;
use crate::planes::SamplerSpec;
use foveate_core::clock::Span;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::plan::{Token, TokenPlan};
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_core::geometry::tile::{TILE_SIDE, tiles_under};
use foveate_gpu::{
    Binding, BindingKind, Buffer, BufferKind, ComputePass, ComputePassDesc, GROUPS_PER_ROW, Gpu,
    GpuError, Lane, Recorder,
};

/// A token of a plan, and the tiles under it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct TokenEntry {
    /// Record for the sampling pass.
    pub(super) token: TokenSource,
    /// Column and row of the first tile.
    pub(super) first_tile: [u32; 2],
    /// Column and row after the last tile.
    pub(super) end_tile: [u32; 2],
}

/// Push constants of the pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct StalePush {
    /// Tokens of the plan.
    pub(super) token_count: u32,
    /// Columns of the tile grid.
    pub(super) grid_width: u32,
    /// 1 if no token of the plan has been sampled yet, so that all are stale.
    pub(super) is_new: u32,
}

/// Finds the stale tokens of one view.
#[derive(Debug)]
pub(super) struct StalePass {
    pass: ComputePass,
    /// The tokens of the view's plan.
    plan: Buffer,
    /// The stale tokens: their count, then their indices.
    found: Buffer,
    shape: PyramidShape,
    patch_side: u32,
    push: StalePush,
    is_resting: bool,
}

impl StalePass {
    /// The pass for one view of a source.
    ///
    /// # Errors
    ///
    /// If the view is too large for the device, or the device refuses.
    pub(super) fn new(
        gpu: &Arc<Gpu>,
        shape: PyramidShape,
        spec: SamplerSpec,
    ) -> Result<Self, GpuError> {
        let SamplerSpec { format, capacity, .. } = spec;
        let desc = ComputePassDesc {
            name: "stale",
            shader: shaders::STALE,
            bindings: &[BindingKind::Buffer; 4],
            constants: &[channel_words(format), GROUP_INVOCATIONS, GROUPS_PER_ROW],
            push_bytes: size_of::<StalePush>(),
        };
        // Buffers must not be empty.
        let most = capacity.max(1);
        let (plan_size, found_size) =
            (most * size_of::<TokenEntry>(), (1 + most) * size_of::<u32>());
        let grid_width = shape.extent().in_cells(TILE_SIDE).width;
        Ok(Self {
            pass: ComputePass::new(gpu, &desc)?,
            plan: Buffer::new(gpu, "token plan", BufferKind::HostWritten, plan_size)?,
            found: Buffer::new(gpu, "stale tokens found", BufferKind::Readback, found_size)?,
            shape,
            patch_side: format.patch_side,
            push: StalePush { token_count: 0, grid_width, is_new: 0 },
            is_resting: false,
        })
    }

    /// Uploads `plan` if it is new, and makes `pass` sample the tokens found; does nothing if the view rests.
    pub(super) fn prepare(
        &mut self,
        plan: &TokenPlan,
        is_new: bool,
        is_resting: bool,
        pass: &mut SamplePass,
    ) {
        self.is_resting = is_resting;
        if is_resting {
            return pass.sample_nothing();
        }
        self.push.token_count = count(plan.tokens.len());
        self.push.is_new = u32::from(is_new);
        if is_new {
            let (extent, patch_side) = (self.shape.extent(), self.patch_side);
            let entries = self.plan.mapped::<TokenEntry>().iter_mut();
            for ((entry, token), index) in entries.zip(&plan.tokens).zip(0..) {
                *entry = token_entry(*token, pass.token_source(*token, index), extent, patch_side);
            }
        }
        pass.leave_to_device();
    }

    /// Makes the next `record` find a single token.
    pub(super) fn prepare_warm(&mut self, pass: &mut SamplePass) {
        self.plan.mapped::<TokenEntry>()[0] = TokenEntry::zeroed();
        (self.push.token_count, self.push.is_new) = (1, 1);
        self.is_resting = false;
        pass.leave_to_device();
    }

    /// Lists for `pass` the tokens over tiles in `ingested`, or all tokens of a new plan.
    pub(super) fn record<'a>(
        &'a self,
        recorder: &mut Recorder<'a>,
        ingested: &'a Buffer,
        pass: &'a SamplePass,
    ) {
        if self.is_resting {
            return;
        }
        let bindings = [
            Binding::Read(&self.plan),
            Binding::Read(ingested),
            Binding::Write(pass.stale().buffer()),
            Binding::Write(&self.found),
        ];
        recorder.dispatch(&self.pass, &bindings, &self.push, 1);
    }

    /// Appends the indices of the tokens found, ascending; none if the view rests.
    pub(super) fn collect(&mut self, indices: &mut Vec<u32>) {
        if self.is_resting {
            return;
        }
        let [count, found @ ..] = &*self.found.mapped::<u32>() else { return };
        indices.extend_from_slice(&found[..*count as usize]);
    }

    /// When the pass ran in the newest submission of `lane`.
    pub(super) fn span(&self, lane: &Lane) -> Span {
        lane.span(&self.pass)
    }
}

fn token_entry(token: Token, record: TokenSource, extent: Extent, patch_side: u32) -> TokenEntry {
    let region = token.read_box(extent, patch_side);
    let (columns, rows) = (tiles_under(region.x0, region.x1), tiles_under(region.y0, region.y1));
    TokenEntry {
        token: record,
        first_tile: [columns.start, rows.start],
        end_tile: [columns.end, rows.end],
    }
}
