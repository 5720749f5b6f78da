//! Samples the tokens of a view from the pyramid. A token keeps the texels that it was last published with while they hardly change.
//!
//! Device side: `glsl/compare.comp` and `glsl/settle.comp`    Twin: `src/engine/backend/cpu/sent.rs`

use std::sync::Arc;

use bytemuck::{Pod, Zeroable};

use super::pyramid::GpuPyramid;
use super::shaders;
use crate::reuse::Reuse;
use foveate_core::clock::Span;
use foveate_core::geometry::extent::Extent;
use foveate_gpu::{
    Binding, BindingKind, Buffer, BufferKind, ComputePass, ComputePassDesc, Gpu, GpuError, Groups,
    Lane, Recorder,
};

/// The row of a token whose texels are forgotten.
const NO_ROW: u32 = u32::MAX;

/// Push constants of the pass that compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct ComparePush {
    /// Width and height of the source in pixels.
    pub(super) extent: [u32; 2],
}

/// Push constants of the pass that chooses texels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct SettlePush {
    /// Word at which the first item begins.
    pub(super) first_word: u32,
    /// The row of the plan's first token.
    pub(super) first_row: u32,
    /// The most by which a texel of a kept token may have moved.
    pub(super) threshold: u32,
}

/// Samples one view, and remembers its texels.
#[derive(Debug)]
pub(super) struct KeepPasses {
    compare: ComputePass,
    settle: ComputePass,
    /// For each token, the row that it is compared with.
    rows: Buffer,
    /// Two rows for each token: the texels that it was last published with.
    sent: Buffer,
    /// The newly sampled texels.
    found: Buffer,
    /// For each token, the most by which one of its texels has moved.
    moved: Buffer,
    first_row: u32,
    threshold: u32,
}

impl KeepPasses {
    /// The passes for at most `capacity` tokens of `texel_count` texels; `constants` are those of the pass that samples without them.
    pub(super) fn new(
        gpu: &Arc<Gpu>,
        constants: &[u32],
        capacity: usize,
        texel_count: usize,
    ) -> Result<Self, GpuError> {
        let mut bindings = [BindingKind::Buffer; 7];
        bindings[0] = BindingKind::FetchedImage;
        let settle = ComputePassDesc {
            name: "settle",
            shader: shaders::SETTLE,
            bindings: &[BindingKind::Buffer; 7],
            constants,
            push_bytes: size_of::<SettlePush>(),
        };
        let compare = ComputePassDesc {
            name: "compare",
            shader: shaders::COMPARE,
            bindings: &bindings,
            constants,
            push_bytes: size_of::<ComparePush>(),
        };
        let row_bytes = texel_count * size_of::<u32>();
        let buffer = |name, kind, size| Buffer::new(gpu, name, kind, size);
        let mut passes = Self {
            sent: buffer("published texels", BufferKind::DeviceOnly, 2 * capacity * row_bytes)?,
            found: buffer("sampled texels", BufferKind::DeviceOnly, capacity * row_bytes)?,
            rows: buffer("rows", BufferKind::HostWritten, capacity * size_of::<u32>())?,
            moved: buffer("moved", BufferKind::Readback, capacity * size_of::<u32>())?,
            compare: ComputePass::new(gpu, &compare)?,
            settle: ComputePass::new(gpu, &settle)?,
            first_row: 0,
            threshold: 0,
        };
        passes.rows.mapped().fill(NO_ROW);
        passes.moved.mapped::<u32>().fill(0);
        Ok(passes)
    }

    /// Uploads how tokens are compared.
    pub(super) fn prepare(&mut self, reuse: &Reuse) {
        (self.first_row, self.threshold) = (reuse.first_row(), reuse.threshold().into());
        let rows = reuse.rows();
        for (target, row) in self.rows.mapped().iter_mut().zip(rows) {
            *target = row.unwrap_or(NO_ROW);
        }
        self.moved.mapped::<u32>()[..rows.len()].fill(0);
    }

    /// Samples the tokens of the list `stale` over a source of `extent`, and compares them.
    pub(super) fn record_compare<'a>(
        &'a self,
        recorder: &mut Recorder<'a>,
        pyramid: &'a GpuPyramid,
        extent: Extent,
        stale: &'a Buffer,
        groups: Groups<'a>,
    ) {
        let bindings = [
            pyramid.levels(),
            Binding::Read(&pyramid.tail),
            Binding::Read(stale),
            Binding::Read(&self.rows),
            Binding::Read(&self.sent),
            Binding::Write(&self.found),
            Binding::Update(&self.moved),
        ];
        let push = ComparePush { extent: [extent.width, extent.height] };
        recorder.dispatch(&self.compare, &bindings, &push, groups);
    }

    /// Records the choice of texels, kept or new, for the tokens of `stale`. The items, encoded by `table`, go to `items` from word
    /// `first_word` on.
    pub(super) fn record_settle<'a>(
        &'a self,
        recorder: &mut Recorder<'a>,
        stale: &'a Buffer,
        table: &'a Buffer,
        (items, first_word): (&'a Buffer, u32),
        groups: Groups<'a>,
    ) {
        let bindings = [
            Binding::Read(stale),
            Binding::Read(table),
            Binding::Read(&self.rows),
            Binding::Read(&self.found),
            Binding::Read(&self.moved),
            Binding::Update(&self.sent),
            Binding::Write(items),
        ];
        let push = SettlePush { first_word, first_row: self.first_row, threshold: self.threshold };
        recorder.dispatch(&self.settle, &bindings, &push, groups);
    }

    /// Reads by how much the tokens `stale` have moved.
    #[expect(clippy::cast_possible_truncation, reason = "the difference of two texels of 8 bits")]
    pub(super) fn collect(&mut self, stale: &[u32], moved: &mut [u8]) {
        let found = self.moved.mapped::<u32>();
        for index in stale.iter().map(|&index| index as usize) {
            moved[index] = found[index] as u8;
        }
    }

    /// When the passes ran in the newest submission of `lane`.
    pub(super) fn span(&self, lane: &Lane) -> Span {
        lane.span(&self.compare).through(lane.span(&self.settle))
    }
}
