//! The retina in compute shaders that also finds the dirty tiles, for devices that share the CPU's memory.
//!
//! The frame's pages are lent to the device, or its samples copied as they are, and the CPU compares none of them. `detect`
//! compares them with the resident copy, which lives on the device, and lists the tiles to ingest; `stale` lists the
//! tokens over them. Either list says in how many workgroups the pass over it runs, so that a frame is still one submission.

use std::fmt;
use std::sync::Arc;

use super::detect::DetectPass;
use super::frame::{FrameStaging, ReadableFrame};
use super::ingest::Records;
use super::passes::PyramidPasses;
use super::stale::StalePass;
use crate::retina::{
    DetectingRetina, RefusedView, RetinaError, UpdateTimes, ViewMaker, ViewPass, ViewSample,
    ViewSpec, view_room, views_of,
};
use foveate_core::clock::{Span, monotonic_ns};
use foveate_core::frame::{FrameKind, FrameView};
use foveate_core::geometry::coarse::CoarseLevel;
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_core::geometry::rule::IngestRule;
use foveate_core::geometry::tile::TileSet;
use foveate_gpu::{Gpu, Lane};

/// One stream's pyramid and resident copy on a GPU.
pub struct VulkanDetectingRetina {
    frame: FrameStaging,
    detect: DetectPass,
    /// One per view, in the views' order.
    #[expect(clippy::vec_box, reason = "they come and go as they are, and no memory with them")]
    stale: Vec<Box<StalePass>>,
    passes: PyramidPasses,
    /// What makes the passes of views that come later.
    maker: ViewMaker,
    lane: Lane,
    /// When the newest frame was brought before the device.
    upload: Span,
    /// Bytes that were copied for it.
    copied_bytes: u64,
}

impl VulkanDetectingRetina {
    /// Builds the pyramid of a source, and runs every pass once, as some drivers compile only then.
    ///
    /// # Errors
    ///
    /// If the source is too large for the device, or the device is lost or refuses.
    ///
    /// # Panics
    ///
    /// If the extent is not [supported](foveate_core::geometry::extent::Extent::is_supported).
    pub fn new(gpu: &Arc<Gpu>, kind: FrameKind, views: &[ViewSpec]) -> Result<Self, RetinaError> {
        let passes = PyramidPasses::new(gpu, kind, views, Records::Resident)?;
        let shape = passes.shape();
        let make_stale = |view| StalePass::new(gpu, shape, view).map(Box::new);
        let room = view_room(views.len());
        let pass_count = 1 + room + PyramidPasses::count(room);
        let mut retina = Self {
            frame: FrameStaging::new(gpu, kind)?,
            detect: DetectPass::new(gpu, kind)?,
            stale: views_of(views, make_stale)?,
            passes,
            maker: ViewMaker::detecting_on(gpu, shape),
            lane: Lane::new(gpu, "detecting retina", pass_count)?,
            upload: Span::NONE,
            copied_bytes: 0,
        };
        retina.warm()?;
        Ok(retina)
    }

    /// Copies every frame, also where its pages could be lent; what comes of it is the same.
    #[must_use]
    pub fn copying_frames(mut self) -> Self {
        self.frame.copy_all();
        self
    }

    /// Runs every pass on whatever the memory holds. Nothing means anything until the first frame anyway.
    fn warm(&mut self) -> Result<(), RetinaError> {
        let rule = IngestRule { is_first: false, threshold: u8::MAX, refreshed: 0..1 };
        self.detect.prepare(Default::default(), &rule);
        for (stale, sample) in self.stale.iter_mut().zip(&mut self.passes.samples) {
            stale.prepare_warm(sample);
        }
        self.run(&ReadableFrame::Copied)
    }

    /// Submits what has been prepared for `shown`, and waits for it.
    fn run(&mut self, shown: &ReadableFrame<'_>) -> Result<(), RetinaError> {
        let Self { frame, detect, stale, passes, lane, .. } = self;
        // Whether anything is ingested, only the device knows.
        passes.coarse.prepare(true);
        lane.run(|recorder| {
            detect.record(recorder, frame.memory(shown));
            passes.record_tiles(recorder, detect.resident(), detect.ingested());
            for (stale, sample) in stale.iter().zip(&passes.samples) {
                stale.record(recorder, detect.bits(), sample);
            }
            passes.record_tokens(recorder);
            passes.record_coarse(recorder);
        })?;
        Ok(())
    }
}

impl DetectingRetina for VulkanDetectingRetina {
    fn detect(
        &mut self,
        frame: &FrameView<'_>,
        rule: &IngestRule,
        samples: &[ViewSample],
    ) -> Result<&[u8], RetinaError> {
        self.passes.check(frame, samples);
        let start_ns = monotonic_ns();
        let (shown, planes) = self.frame.show(frame);
        self.copied_bytes = self.frame.copied_bytes(&shown);
        self.detect.prepare(planes, rule);
        let views = self.stale.iter_mut().zip(&mut self.passes.samples);
        for ((stale, pass), sample) in views.zip(samples) {
            stale.prepare(sample, pass);
        }
        self.upload = Span::since(start_ns);
        self.run(&shown)?;
        Ok(self.detect.collect())
    }

    fn collect(&mut self, ingested: &TileSet, samples: &mut [ViewSample]) -> UpdateTimes {
        let start_ns = monotonic_ns();
        for sample in &mut *samples {
            sample.find_stale(ingested, self.passes.shape());
        }
        self.passes.collect(samples);
        let collect = Span::since(start_ns);
        let times = self.passes.times(&self.lane);
        let stale = self.stale.iter().map(|stale| stale.span(&self.lane));
        UpdateTimes {
            upload: self.upload,
            detect: self.detect.span(&self.lane),
            sample: stale.fold(Span::NONE, Span::through).through(times.sample),
            collect,
            uploaded_bytes: self.copied_bytes,
            ..times
        }
    }

    fn view_maker(&self) -> ViewMaker {
        self.maker.clone()
    }

    fn add_view(&mut self, view: ViewPass) -> Result<(), RefusedView> {
        let (stale, sample) = view.into_detecting(&self.maker, self.stale.len())?;
        self.stale.push(stale);
        self.passes.samples.push(sample);
        Ok(())
    }

    fn remove_view(&mut self, index: usize) -> ViewPass {
        let (stale, sample) = (self.stale.remove(index), self.passes.samples.remove(index));
        ViewPass::of_detecting(&self.maker, stale, sample)
    }

    fn keep_coarse(&mut self, wanted: bool) {
        self.passes.coarse.keep(wanted);
    }

    fn read_coarse(&mut self, target: &mut CoarseLevel) -> Result<(), RetinaError> {
        Ok(self.passes.read_coarse(&mut self.lane, target)?)
    }

    fn read_level(&mut self, level: u32) -> Result<Vec<u8>, RetinaError> {
        Ok(self.passes.read_level(&mut self.lane, level)?)
    }

    fn shape(&self) -> PyramidShape {
        self.passes.shape()
    }
}

impl fmt::Debug for VulkanDetectingRetina {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.passes.kind();
        f.debug_struct("VulkanDetectingRetina").field("kind", &kind).finish_non_exhaustive()
    }
}
