//! Pictures as the layers of one image: uploaded, reduced and sampled in one submission.
//!
//! Twin of `src/engine/backend/cpu/batch.rs`.

use std::fmt;
use std::sync::Arc;

use super::ingest::{IngestPass, TileRecords};
use super::pyramid::GpuPyramid;
use super::reduce::ReducePass;
use super::sample::{SamplePass, count};
use super::staging::TileStaging;
use crate::backend::BackendError;
use crate::batch::picture::{PictureTokens, planned_for};
use crate::planes::SamplerSpec;
use crate::pool::Pool;
use foveate_core::frame::{FrameKind, FrameView};
use foveate_core::geometry::fixation::Gaze;
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_gaze::view::ViewSpec;
use foveate_gpu::{Gpu, GpuError, Lane};

/// The pyramids of as many pictures as there are layers.
pub(crate) struct VulkanBatch {
    kind: FrameKind,
    staging: TileStaging,
    ingest: IngestPass,
    reduce: ReducePass,
    sample: SamplePass,
    pyramid: GpuPyramid,
    lane: Lane,
    pool: Arc<Pool>,
}

impl VulkanBatch {
    /// A batch for pictures of `kind`, at most `layer_count` at a time. If the device has too little memory, or does not allow buffers of
    /// this size, it takes half as many, and so on.
    ///
    /// # Errors
    ///
    /// If a picture is too large for the device, or the device is lost or a call fails.
    pub(crate) fn new(
        gpu: &Arc<Gpu>,
        kind: FrameKind,
        spec: &ViewSpec,
        layer_count: usize,
        pool: &Arc<Pool>,
    ) -> Result<Self, BackendError> {
        let mut layers = layer_count.max(1);
        loop {
            match Self::of_layers(gpu, kind, spec, layers, pool) {
                Err(GpuError::OutOfMemory { .. } | GpuError::TooLarge { .. }) if 1 < layers => {
                    layers /= 2;
                }
                built => return Ok(built?),
            }
        }
    }

    fn of_layers(
        gpu: &Arc<Gpu>,
        kind: FrameKind,
        spec: &ViewSpec,
        layers: usize,
        pool: &Arc<Pool>,
    ) -> Result<Self, GpuError> {
        let shape = PyramidShape::new(kind.extent);
        let one = SamplerSpec::of(spec);
        let tokens = SamplerSpec { capacity: one.capacity * layers, ..one };
        Ok(Self {
            kind,
            staging: TileStaging::new(gpu, kind, layers)?,
            ingest: IngestPass::new(gpu, kind, TileRecords::Listed)?,
            reduce: ReducePass::new(gpu, shape)?,
            sample: SamplePass::new(gpu, shape, tokens)?,
            pyramid: GpuPyramid::new(gpu, shape, count(layers))?,
            lane: Lane::new(gpu, "batch", 0)?,
            pool: Arc::clone(pool),
        })
    }

    /// The tokens of each picture.
    pub(crate) fn sample(
        &mut self,
        spec: &ViewSpec,
        pictures: &[(FrameView<'_>, &Gaze)],
    ) -> Result<Vec<PictureTokens>, BackendError> {
        let mut sampled = Vec::with_capacity(pictures.len());
        for pictures in pictures.chunks(self.pyramid.layer_count() as usize) {
            let plans: Vec<_> =
                pictures.iter().map(|(frame, gaze)| planned_for(spec, gaze, frame)).collect();
            let frames = pictures.iter().map(|(frame, _)| *frame);
            self.staging.upload_layers(&self.pool, frames);
            self.sample.upload_layers(plans.iter().map(|(plan, _)| plan));
            let Self { staging, ingest, reduce, sample, pyramid, lane, .. } = self;
            lane.run(|recorder| {
                ingest.record(recorder, staging.records(), staging.tiles(), pyramid);
                reduce.record(recorder, staging.tiles(), pyramid);
                sample.record(recorder, pyramid);
            })?;
            let mut tokens = sample.target().tokens();
            sampled.extend(plans.into_iter().map(|(plan, records)| {
                let tokens = tokens.by_ref().take(plan.tokens.len());
                PictureTokens { pixels: tokens.flatten().copied().collect(), records }
            }));
        }
        Ok(sampled)
    }
}

impl fmt::Debug for VulkanBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VulkanBatch").field("kind", &self.kind).finish_non_exhaustive()
    }
}
