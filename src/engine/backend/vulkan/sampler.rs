//! The passes of one view: built and run once while the backend takes frames.

use std::sync::Arc;

use super::pyramid::GpuPyramid;
use super::sample::SamplePass;
use super::stale::StalePass;
use crate::planes::{Planes, Sampler, SamplerSpec};
use foveate_core::clock::Span;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_core::geometry::tile::TILE_SIDE;
use foveate_gpu::{Buffer, BufferKind, Gpu, GpuError, Lane, Recorder};

/// Bytes of the bits of a few tiles.
const BITS_BYTES: usize = 4;

/// The passes that sample one view.
pub(super) struct ViewPasses {
    sample: SamplePass,
    /// `Some` if the device finds the stale tokens.
    stale: Option<StalePass>,
}

impl ViewPasses {
    /// Builds the passes of a view and runs them once.
    pub(super) fn warm(
        gpu: &Arc<Gpu>,
        shape: PyramidShape,
        spec: SamplerSpec,
        finds_stale: bool,
    ) -> Result<Sampler, GpuError> {
        let mut sample = SamplePass::new(gpu, shape, spec)?;
        let mut stale = None;
        if finds_stale {
            stale.insert(StalePass::new(gpu, shape, spec)?).prepare_warm(&mut sample);
        } else {
            sample.prepare_warm();
        }
        let passes = Self { sample, stale };
        // A lane of its own does not wait for other work. This lane needs no timestamps.
        let mut lane = Lane::new(gpu, "view being built", 0)?;
        let pyramid = small_pyramid(gpu, shape)?;
        let bits = Buffer::new(gpu, "ingested tiles", BufferKind::HostWritten, BITS_BYTES)?;
        lane.run(|recorder| {
            passes.record_stale(recorder, &bits);
            passes.record_sample(recorder, &pyramid);
        })?;
        Ok(Sampler::new(passes))
    }

    /// Uploads the stale tokens of `view` that the CPU found.
    pub(super) fn upload(view: &mut Planes, gpu: &Arc<Gpu>) {
        // Borrowed apart, because the sampler is a part of the view.
        let Planes { sampler, plan, stale, items, reuse, is_resting, .. } = view;
        let Self { sample, .. } = sampler.get_mut();
        sample.upload(plan, stale);
        sample.prepare_comparisons(reuse);
        // The target of a resting view is a published slot, which must not change.
        if !*is_resting {
            sample.target().aim(gpu, items, plan.tokens.len());
        }
    }

    /// Has the device find the stale tokens of `view`.
    pub(super) fn prepare_stale(view: &mut Planes, gpu: &Arc<Gpu>) {
        let must_sample_all = view.must_sample_all();
        let Self { sample, stale } = view.sampler.get_mut();
        if let Some(stale) = stale {
            stale.prepare(&view.plan, must_sample_all, view.is_resting, sample);
        }
        if !view.is_resting {
            sample.prepare_comparisons(&view.reuse);
            sample.target().aim(gpu, &view.items, view.plan.tokens.len());
        }
    }

    /// Reads the stale tokens that the device found.
    pub(super) fn take_stale(view: &mut Planes, ingests: bool) {
        let mut found = std::mem::take(&mut view.stale);
        found.clear();
        if let Self { stale: Some(stale), .. } = view.sampler.get_mut() {
            stale.collect(&mut found);
        }
        view.take_stale(found, ingests);
    }

    /// Brings the sampled tokens to their places. Returns how many bytes were copied.
    pub(super) fn collect(view: &mut Planes) -> u64 {
        // Borrowed apart, because the sampler is a part of the view.
        let Planes { sampler, items, stale, reuse, .. } = view;
        let Self { sample, .. } = sampler.get_mut();
        sample.collect_comparisons(stale, reuse);
        sample.target().collect(items, stale)
    }

    /// Lists the tokens over tiles that are in `ingested`.
    pub(super) fn record_stale<'a>(&'a self, recorder: &mut Recorder<'a>, ingested: &'a Buffer) {
        if let Some(stale) = &self.stale {
            stale.record(recorder, ingested, &self.sample);
        }
    }

    /// Samples the stale tokens.
    pub(super) fn record_sample<'a>(
        &'a self,
        recorder: &mut Recorder<'a>,
        pyramid: &'a GpuPyramid,
    ) {
        self.sample.record(recorder, pyramid);
    }

    /// When the passes ran in the newest submission of `lane`.
    pub(super) fn span(&self, lane: &Lane) -> Span {
        let stale = self.stale.as_ref().map_or(Span::NONE, |stale| stale.span(lane));
        stale.through(self.sample.span(lane))
    }
}

/// A small pyramid for which drivers compile the same code as for one of `shape`: llvmpipe specialises on which sides
/// of an image are powers of two, and only when the pass first runs.
fn small_pyramid(gpu: &Arc<Gpu>, shape: PyramidShape) -> Result<GpuPyramid, GpuError> {
    let grid = shape.extent().in_cells(TILE_SIDE);
    let [width, height] = [grid.width, grid.height].map(|tiles| {
        let spread = if tiles.is_power_of_two() { 1 } else { 3 };
        spread * TILE_SIDE
    });
    GpuPyramid::new(gpu, PyramidShape::new(Extent::new(width, height)), 1)
}
