//! The passes of an attention.
//!
//! Device side: `glsl/*.comp`    Twins: `keys.rs`, `block.rs`

use std::sync::Arc;

use foveate_gpu::{
    Binding, BindingKind, Buffer, BufferKind, ComputePass, ComputePassDesc, Gpu, GpuError,
    Recorder, Shader,
};

use super::records::{AttendPush, MeansPush, PlanRecords, WORD, count};
use super::shaders;
use crate::plan::AttentionPlan;

/// `local_size_x` of all shaders.
const GROUP_INVOCATIONS: usize = 64;

/// Queries that a workgroup of `score` takes.
const SCORED_QUERIES: usize = 8;

/// Queries that a workgroup of `blend` takes.
const BLENDED_QUERIES: usize = 4;

/// Compiled once, for all shapes.
#[derive(Debug)]
pub(super) struct AttentionPasses {
    mean_keys: ComputePass,
    mean_values: ComputePass,
    score: ComputePass,
    open: ComputePass,
    blend: ComputePass,
}

/// What a call works on.
#[derive(Debug)]
pub(super) struct AttentionBuffers {
    pub(super) plan: Buffer,
    pub(super) keys: Buffer,
    pub(super) values: Buffer,
    pub(super) queries: Buffer,
    pub(super) results: Buffer,
    /// Means of all levels.
    mean_keys: Buffer,
    mean_values: Buffer,
    /// A row for each query.
    rows: Buffer,
}

impl AttentionPasses {
    pub(super) fn new(gpu: &Arc<Gpu>) -> Result<Self, GpuError> {
        let means = |name, by_cell| {
            let constants = [u32::from(by_cell)];
            make::<MeansPush>(gpu, name, shaders::MEANS, 3, &constants)
        };
        let attend = |name, shader| make::<AttendPush>(gpu, name, shader, 4, &[]);
        Ok(Self {
            mean_keys: means("means of keys", false)?,
            mean_values: means("means of values", true)?,
            score: attend("score", shaders::SCORE)?,
            open: attend("open", shaders::OPEN)?,
            blend: attend("blend", shaders::BLEND)?,
        })
    }

    /// Makes the means of the keys and values of `heads` heads.
    pub(super) fn record_means<'a>(
        &'a self,
        recorder: &mut Recorder<'a>,
        buffers: &'a AttentionBuffers,
        plan: &AttentionPlan,
        records: &PlanRecords,
        heads: usize,
    ) {
        for (pass, source, target, width) in [
            (&self.mean_keys, &buffers.keys, &buffers.mean_keys, plan.shape.width),
            (&self.mean_values, &buffers.values, &buffers.mean_values, plan.shape.value_width),
        ] {
            let bindings =
                [Binding::Read(source), Binding::Read(&buffers.plan), Binding::Write(target)];
            let words = heads * records.cells * width.div_ceil(WORD);
            let groups = count(words.div_ceil(GROUP_INVOCATIONS));
            recorder.dispatch(pass, &bindings, &records.means(heads, width), groups);
        }
    }

    /// Computes the results of `queries` queries of each of `heads` heads.
    pub(super) fn record_piece<'a>(
        &'a self,
        recorder: &mut Recorder<'a>,
        buffers: &'a AttentionBuffers,
        plan: &AttentionPlan,
        records: &PlanRecords,
        [heads, queries]: [usize; 2],
    ) {
        let AttentionBuffers { plan: levels, queries: vectors, results, .. } = buffers;
        let AttentionBuffers { mean_keys, mean_values, rows, .. } = buffers;
        let push = records.piece(plan, heads, queries);
        let inputs = [Binding::Read(vectors), Binding::Read(mean_keys), Binding::Read(levels)];
        let [vectors, keys, levels] = inputs;

        let cell_blocks = plan.coarsest().count().div_ceil(GROUP_INVOCATIONS);
        let groups = count(heads * queries.div_ceil(SCORED_QUERIES) * cell_blocks);
        let bindings = [vectors, keys, levels, Binding::Write(rows)];
        recorder.dispatch(&self.score, &bindings, &push, groups);

        let bindings = [vectors, keys, levels, Binding::Update(rows)];
        recorder.dispatch(&self.open, &bindings, &push, count(heads * queries));

        let groups = count(heads * queries.div_ceil(BLENDED_QUERIES));
        let bindings =
            [Binding::Read(mean_values), levels, Binding::Read(rows), Binding::Write(results)];
        recorder.dispatch(&self.blend, &bindings, &push, groups);
    }
}

impl AttentionBuffers {
    /// Room for the keys and values of `heads` heads, and for `queries` queries of each.
    pub(super) fn new(
        gpu: &Arc<Gpu>,
        plan: &AttentionPlan,
        records: &PlanRecords,
        [heads, queries]: [usize; 2],
    ) -> Result<Self, GpuError> {
        use BufferKind::{DeviceOnly, HostWritten, Readback};
        let shape = plan.shape;
        let [width, value_width] =
            [shape.width, shape.value_width].map(|width| width.next_multiple_of(WORD));
        let make = |name: &str, kind, numbers: usize| {
            Buffer::new(gpu, name, kind, numbers * size_of::<f32>())
        };
        let of_keys = heads * shape.keys();
        let of_cells = heads * records.cells;
        let of_queries = heads * queries;
        let mut levels = Buffer::new(
            gpu,
            "plan",
            HostWritten,
            records.bytes().iter().map(|part| part.len()).sum(),
        )?;
        let mut target = levels.mapped::<u8>();
        for part in records.bytes() {
            let (start, rest) = target.split_at_mut(part.len());
            start.copy_from_slice(part);
            target = rest;
        }
        Ok(Self {
            plan: levels,
            keys: make("keys", HostWritten, of_keys * shape.width)?,
            values: make("values", HostWritten, of_keys * shape.value_width)?,
            mean_keys: make("means of keys", DeviceOnly, of_cells * width)?,
            mean_values: make("means of values", DeviceOnly, of_cells * value_width)?,
            queries: make("queries", HostWritten, of_queries * width)?,
            rows: make("scores", DeviceOnly, of_queries * records.row_words)?,
            results: make("results", Readback, of_queries * shape.value_width)?,
        })
    }
}

fn make<Push>(
    gpu: &Arc<Gpu>,
    name: &str,
    shader: Shader,
    binding_count: usize,
    constants: &[u32],
) -> Result<ComputePass, GpuError> {
    let bindings = &[BindingKind::Buffer; 4][..binding_count];
    let push_bytes = size_of::<Push>();
    ComputePass::new(gpu, &ComputePassDesc { name, shader, bindings, constants, push_bytes })
}
