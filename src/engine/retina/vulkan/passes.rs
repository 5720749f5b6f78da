//! The passes behind the list of dirty tiles, and the pyramid that they keep.

use std::sync::Arc;

use super::coarse::CoarseCopy;
use super::ingest::{IngestPass, Records};
use super::pyramid::Pyramid;
use super::reduce::ReducePass;
use super::sample::SamplePass;
use super::tiles::TileList;
use crate::retina::{UpdateTimes, ViewSample, ViewSpec, check_update, views_of};
use foveate_core::clock::Span;
use foveate_core::frame::{FrameKind, FrameView};
use foveate_core::geometry::coarse::CoarseLevel;
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_gpu::{Buffer, Gpu, GpuError, Lane, Recorder};

/// What both retinas of this folder are made of.
#[derive(Debug)]
pub(super) struct PyramidPasses {
    shape: PyramidShape,
    kind: FrameKind,
    ingest: IngestPass,
    reduce: ReducePass,
    /// One per view, in the views' order.
    #[expect(clippy::vec_box, reason = "they come and go as they are, and no memory with them")]
    pub(super) samples: Vec<Box<SamplePass>>,
    pyramid: Pyramid,
    pub(super) coarse: CoarseCopy,
    gpu: Arc<Gpu>,
}

impl PyramidPasses {
    /// Passes of a submission, for `view_count` views.
    pub(super) fn count(view_count: usize) -> usize {
        2 + view_count
    }

    /// The passes for frames of `kind`.
    ///
    /// # Panics
    ///
    /// If the extent is not supported.
    pub(super) fn new(
        gpu: &Arc<Gpu>,
        kind: FrameKind,
        views: &[ViewSpec],
        records: Records,
    ) -> Result<Self, GpuError> {
        let shape = PyramidShape::new(kind.extent);
        let make_sample = |view| SamplePass::new(gpu, shape, view).map(Box::new);
        Ok(Self {
            shape,
            kind,
            ingest: IngestPass::new(gpu, kind, records)?,
            reduce: ReducePass::new(gpu, shape)?,
            samples: views_of(views, make_sample)?,
            pyramid: Pyramid::new(gpu, shape)?,
            coarse: CoarseCopy::new(gpu, shape)?,
            gpu: Arc::clone(gpu),
        })
    }

    /// What the frames have in common.
    pub(super) fn kind(&self) -> FrameKind {
        self.kind
    }

    /// The shape of the pyramid.
    pub(super) fn shape(&self) -> PyramidShape {
        self.shape
    }

    /// Panics unless `frame` and `samples` are what this was built for.
    pub(super) fn check(&self, frame: &FrameView<'_>, samples: &[ViewSample]) {
        let formats = self.samples.iter().map(|pass| pass.view().format);
        check_update(self.kind, formats, frame, samples);
    }

    /// Brings the pyramid up to date with the `records` of `tiles`.
    pub(super) fn record_tiles<'a>(
        &'a self,
        recorder: &mut Recorder<'a>,
        records: &'a Buffer,
        tiles: &'a TileList,
    ) {
        self.ingest.record(recorder, records, tiles, &self.pyramid);
        self.reduce.record(recorder, tiles, &self.pyramid);
    }

    /// Samples the tokens of all views.
    pub(super) fn record_tokens<'a>(&'a self, recorder: &mut Recorder<'a>) {
        for sample in &self.samples {
            sample.record(recorder, &self.pyramid);
        }
    }

    /// Copies the coarse level for the CPU, if that is due.
    pub(super) fn record_coarse<'a>(&'a self, recorder: &mut Recorder<'a>) {
        self.coarse.record(recorder, &self.pyramid);
    }

    /// Copies the tokens that were sampled to their places.
    pub(super) fn collect(&mut self, samples: &mut [ViewSample]) {
        for (pass, sample) in self.samples.iter_mut().zip(samples) {
            pass.collect(sample);
        }
    }

    /// When the passes of the newest submission of `lane` ran.
    pub(super) fn times(&self, lane: &Lane) -> UpdateTimes {
        let samples = self.samples.iter().map(|sample| sample.span(lane));
        UpdateTimes {
            ingest: self.ingest.span(lane),
            reduce: self.reduce.span(lane),
            sample: samples.fold(Span::NONE, Span::through),
            ..UpdateTimes::default()
        }
    }

    /// Copies the coarse level out.
    pub(super) fn read_coarse(
        &mut self,
        lane: &mut Lane,
        target: &mut CoarseLevel,
    ) -> Result<(), GpuError> {
        if self.coarse.prepare_alone() {
            lane.run(|recorder| self.record_coarse(recorder))?;
        }
        self.coarse.read(target);
        Ok(())
    }

    /// Copies a level out: R, G, B interleaved, row by row.
    pub(super) fn read_level(&self, lane: &mut Lane, level: u32) -> Result<Vec<u8>, GpuError> {
        self.pyramid.read_level(&self.gpu, lane, level)
    }
}
