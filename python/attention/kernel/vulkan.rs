//! The attention in compute shaders.
//!
//! `means` makes the means of keys and values over the cells of all levels, `score` scores the cells of the coarsest level for all
//! queries, `open` opens the best level by level and turns scores into weights, `blend` adds the values. All scores of a query
//! are held meanwhile, so heads, or the queries of a head, are taken in pieces that fit: each is one submission.
//!
//! Sums are made in single precision and in a fixed order. They agree with the CPU's to rounding: where two scores are equal but
//! for rounding, it may decide which cell is opened.

use std::fmt;
use std::sync::Arc;

use foveate_gpu::{Gpu, GpuError, Lane};

use self::passes::{AttentionBuffers, AttentionPasses};
use self::records::{PlanRecords, WORD};
use crate::element::Element;
use crate::plan::AttentionPlan;
use crate::run::Tensors;

mod passes;
pub mod records;
pub mod shaders;

/// Largest buffers, where heads and queries can be taken in pieces: half of what every device allows, and little enough for
/// a submission to end soon.
const BUFFER_BYTES: usize = 64 << 20;

/// Attention on a device.
pub struct VulkanAttention {
    passes: AttentionPasses,
    lane: Lane,
    /// No buffer is larger, unless a single head or query needs it.
    buffer_bytes: usize,
    gpu: Arc<Gpu>,
}

impl VulkanAttention {
    /// Compiles the passes.
    ///
    /// # Errors
    ///
    /// If the driver refuses.
    pub fn new(gpu: &Arc<Gpu>) -> Result<Self, GpuError> {
        Ok(Self {
            passes: AttentionPasses::new(gpu)?,
            lane: Lane::new(gpu, "attention", 0)?,
            buffer_bytes: BUFFER_BYTES,
            gpu: Arc::clone(gpu),
        })
    }

    /// With other largest buffers. The results are the same. For tests.
    #[must_use]
    pub fn with_buffers_of(mut self, bytes: usize) -> Self {
        self.buffer_bytes = bytes;
        self
    }

    /// The device.
    pub fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// Computes the attention, as [`AttentionPlan::run`] does on the CPU. The same arrays give the same results in every run on a
    /// device.
    ///
    /// # Errors
    ///
    /// If the keys, values or means of one head, or the scores of one query, exceed the device's limit for a buffer; if
    /// there is no memory; if the device is lost or a call fails. The results are undefined then.
    ///
    /// # Panics
    ///
    /// If an array is not as long as the plan's shape says.
    pub fn run<T: Element>(
        &mut self,
        plan: &AttentionPlan,
        tensors: Tensors<'_, T>,
    ) -> Result<(), GpuError> {
        plan.check(&tensors);
        if tensors.results.is_empty() {
            return Ok(());
        }
        let records = PlanRecords::new(plan);
        let [heads, queries] = piece(plan, &records, self.buffer_bytes);
        let mut buffers = AttentionBuffers::new(&self.gpu, plan, &records, [heads, queries])?;
        let shape = plan.shape;
        let keys = tensors.keys.chunks(heads * shape.keys() * shape.width);
        let values = tensors.values.chunks(heads * shape.keys() * shape.value_width);
        let of_heads = tensors.queries.chunks(heads * shape.queries * shape.width);
        let results = tensors.results.chunks_mut(heads * shape.queries * shape.value_width);
        for (((keys, values), vectors), results) in keys.zip(values).zip(of_heads).zip(results) {
            T::widen(keys, &mut buffers.keys.mapped()[..keys.len()]);
            T::widen(values, &mut buffers.values.mapped()[..values.len()]);
            let heads = keys.len() / (shape.keys() * shape.width);
            let pieces = vectors.chunks(heads * queries * shape.width);
            let targets = results.chunks_mut(heads * queries * shape.value_width);
            for (place, (vectors, target)) in pieces.zip(targets).enumerate() {
                fill_rows(vectors, shape.width, buffers.queries.mapped());
                let queries = vectors.len() / (heads * shape.width);
                let (passes, read) = (&self.passes, &buffers);
                self.lane.run(|recorder| {
                    if place == 0 {
                        passes.record_means(recorder, read, plan, &records, heads);
                    }
                    passes.record_piece(recorder, read, plan, &records, [heads, queries]);
                })?;
                T::narrow(&buffers.results.mapped()[..target.len()], target);
            }
        }
        Ok(())
    }
}

impl fmt::Debug for VulkanAttention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VulkanAttention").field("gpu", &self.gpu).finish_non_exhaustive()
    }
}

/// Heads at a time whose buffers take `bytes` at most, and queries of each: all of them, or some of a single head.
fn piece(plan: &AttentionPlan, records: &PlanRecords, bytes: usize) -> [usize; 2] {
    let shape = plan.shape;
    let [width, value_width] =
        [shape.width, shape.value_width].map(|width| width.next_multiple_of(WORD));
    let of_query = records.row_words.max(width).max(value_width);
    let of_head = (records.cells * width.max(value_width)).max(shape.queries * of_query);
    let fitting = |numbers: usize| (bytes / size_of::<f32>() / numbers).max(1);
    [fitting(of_head).min(shape.heads), fitting(of_query).min(shape.queries)]
}

/// Copies vectors, each filled up with zeros to whole words.
fn fill_rows<T: Element>(vectors: &[T], width: usize, target: &mut [f32]) {
    let rows = target.chunks_exact_mut(width.next_multiple_of(WORD));
    for (source, row) in vectors.chunks_exact(width).zip(rows) {
        let (numbers, rest) = row.split_at_mut(width);
        T::widen(source, numbers);
        rest.fill(0.0);
    }
}
