//! The backend in compute shaders.
//!
//! A frame is one submission: `ingest` turns the camera's samples of the tiles to ingest into levels 0 to 5, `reduce`
//! brings the levels above those tiles up to date from the sums of the tiles, `sample` gathers the tokens of each view.
//!
//! A device that shares the CPU's memory may also compare frames. It then imports the frame's pages, or gets a copy of
//! its samples. `detect` compares them with the resident copy, which is on the device, and lists the tiles to ingest;
//! `stale` lists the tokens over them. Each list holds the workgroup count of the pass over it (indirect dispatch), so
//! a frame is still one submission.
//!
//! All arithmetic is in integers, so every device gives the same bytes.

use std::fmt;
use std::sync::Arc;

use self::coarse::CoarseCopy;
use self::detect::DetectPass;
use self::features::FeaturesPass;
use self::frame::FrameStaging;
use self::ingest::{IngestPass, TileRecords};
use self::pyramid::GpuPyramid;
use self::reduce::ReducePass;
use self::sampler::ViewPasses;
use self::staging::TileStaging;
use super::cpu::features::features_of;
use super::{Backend, BackendError, SamplerMaker, UpdateTimes};
use crate::change::detect::Detector;
use crate::planes::Planes;
use crate::pool::Pool;
use foveate_core::backend::ChangeSite;
use foveate_core::clock::{Span, monotonic_ns};
use foveate_core::frame::{FrameKind, FrameView};
use foveate_core::geometry::coarse::CoarseLevel;
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_core::geometry::rule::IngestRule;
use foveate_core::geometry::tile::TileSet;
use foveate_gaze::relevance::features::TileFeatures;
use foveate_gaze::view::VIEWS_MAX;
use foveate_gpu::{Gpu, HostBuffer, Lane};

pub(crate) mod batch;
mod coarse;
mod detect;
mod features;
mod frame;
mod ingest;
mod keep;
#[cfg(test)]
mod layouts;
mod pyramid;
mod reduce;
mod sample;
mod sampler;
pub mod shaders;
mod staging;
mod stale;
mod target;
mod tiles;
mod work;

/// Timed passes of a submission: detect, ingest, features, reduce, and three for each view.
const TIMED_PASSES: usize = 4 + 3 * VIEWS_MAX;

/// One stream's pyramid on a GPU.
pub struct VulkanBackend {
    kind: FrameKind,
    shape: PyramidShape,
    comparison: Comparison,
    ingest: IngestPass,
    features: FeaturesPass,
    reduce: ReducePass,
    pyramid: GpuPyramid,
    coarse: CoarseCopy,
    lane: Lane,
    gpu: Arc<Gpu>,
    /// Comparison and upload of the newest frame.
    times: UpdateTimes,
}

/// Where frames are compared with the resident copy.
#[expect(clippy::large_enum_variant, reason = "there is one for each stream")]
enum Comparison {
    /// The CPU compares, and uploads the tiles to ingest.
    Host { detector: Detector, staging: TileStaging },
    /// The device compares, in the submission that updates the pyramid and samples.
    Device { frame: FrameStaging, detect: DetectPass },
}

impl VulkanBackend {
    /// Builds the pyramid of frames of `kind`, which are compared on `change_on`; the CPU's stages run on `pool`. Runs
    /// every pass once, as some drivers compile only then.
    ///
    /// # Errors
    ///
    /// If the source is too large for the device, or the device is lost or a call fails.
    ///
    /// # Panics
    ///
    /// If the extent is not [supported](foveate_core::geometry::extent::Extent::is_supported).
    pub fn new(
        gpu: &Arc<Gpu>,
        kind: FrameKind,
        change_on: ChangeSite,
        pool: &Arc<Pool>,
    ) -> Result<Self, BackendError> {
        let shape = PyramidShape::new(kind.extent);
        let (comparison, records) = match change_on {
            ChangeSite::Cpu => {
                let detector = Detector::new(kind, pool);
                let staging = TileStaging::new(gpu, kind, 1)?;
                (Comparison::Host { detector, staging }, TileRecords::Listed)
            }
            ChangeSite::Gpu => {
                let frame = FrameStaging::new(gpu, kind)?;
                let detect = DetectPass::new(gpu, kind)?;
                (Comparison::Device { frame, detect }, TileRecords::Resident)
            }
        };
        let mut backend = Self {
            kind,
            shape,
            comparison,
            ingest: IngestPass::new(gpu, kind, records)?,
            features: FeaturesPass::new(gpu, kind, records)?,
            reduce: ReducePass::new(gpu, shape)?,
            pyramid: GpuPyramid::new(gpu, shape, 1)?,
            coarse: CoarseCopy::new(gpu, shape)?,
            lane: Lane::new(gpu, "pyramid", TIMED_PASSES)?,
            gpu: Arc::clone(gpu),
            times: UpdateTimes::default(),
        };
        backend.warm()?;
        Ok(backend)
    }

    /// Copies every frame, even if its pages could be imported. The result is the same. For tests.
    #[must_use]
    pub fn copying_frames(mut self) -> Self {
        if let Comparison::Device { frame, .. } = &mut self.comparison {
            frame.copy_all();
        }
        self
    }

    /// Runs every pass once, on undefined memory; the first frame overwrites all of it.
    fn warm(&mut self) -> Result<(), BackendError> {
        match &mut self.comparison {
            Comparison::Host { staging, .. } => staging.prepare_warm(),
            Comparison::Device { detect, .. } => {
                let rule = IngestRule { is_first: false, threshold: u8::MAX, refreshed: 0..1 };
                detect.prepare(Default::default(), &rule);
            }
        }
        self.features.keep(true);
        self.run(None, &[])?;
        self.features.keep(false);
        Ok(())
    }

    /// Submits the prepared passes for `views` and waits for them. If the device compares, it reads the frame from `pages`, or from its
    /// copy.
    fn run(
        &mut self,
        pages: Option<&HostBuffer<'_>>,
        views: &[&mut Planes],
    ) -> Result<(), BackendError> {
        let Self { comparison, ingest, features, reduce, pyramid, coarse, lane, .. } = self;
        // If the device compares, only it knows whether anything is ingested.
        let ingests = match comparison {
            Comparison::Host { staging, .. } => staging.tile_count() != 0,
            Comparison::Device { .. } => true,
        };
        coarse.prepare(ingests);
        features.prepare();
        let (comparison, coarse, features) = (&*comparison, &*coarse, &*features);
        lane.run(|recorder| {
            let (records, tiles) = match comparison {
                Comparison::Host { staging, .. } => (staging.records(), staging.tiles()),
                Comparison::Device { frame, detect } => {
                    detect.record(recorder, frame.memory(pages));
                    (detect.resident(), detect.ingested())
                }
            };
            if ingests {
                ingest.record(recorder, records, tiles, pyramid);
                if features.are_wanted() {
                    features.record(recorder, records, tiles, pyramid);
                }
                reduce.record(recorder, tiles, pyramid);
            }
            let passes = || views.iter().map(|view| view.sampler.get::<ViewPasses>());
            if let Comparison::Device { detect, .. } = comparison {
                passes().for_each(|view| view.record_stale(recorder, detect.bits()));
            }
            passes().for_each(|view| view.record_sample(recorder, pyramid));
            coarse.record(recorder, pyramid);
        })?;
        Ok(())
    }

    /// When the passes of the newest submission ran.
    fn device_times(&self, views: &[&mut Planes]) -> UpdateTimes {
        let passes = views.iter().map(|view| view.sampler.get::<ViewPasses>().span(&self.lane));
        let change = match &self.comparison {
            Comparison::Host { .. } => self.times.change,
            Comparison::Device { detect, .. } => detect.span(&self.lane),
        };
        UpdateTimes {
            change,
            ingest: self.ingest.span(&self.lane),
            features: self.features.span(&self.lane),
            reduce: self.reduce.span(&self.lane),
            sample: passes.fold(Span::NONE, Span::through),
            ..self.times
        }
    }
}

impl Backend for VulkanBackend {
    fn begin_update(
        &mut self,
        frame: &FrameView<'_>,
        rule: &IngestRule,
        views: &mut [&mut Planes],
    ) -> Result<&[u8], BackendError> {
        assert_eq!(frame.kind(), self.kind, "frame of another kind than the backend was built for");
        let start_ns = monotonic_ns();
        self.times = UpdateTimes::default();
        match &mut self.comparison {
            Comparison::Host { .. } => {}
            Comparison::Device { frame: staging, detect } => {
                let (pages, planes) = staging.show(frame);
                if pages.is_none() {
                    self.times.uploaded_bytes = staging.frame_bytes();
                }
                detect.prepare(planes, rule);
                for view in &mut *views {
                    ViewPasses::prepare_stale(view, &self.gpu);
                }
                self.times.upload = Span::since(start_ns);
                self.run(pages.as_ref(), views)?;
            }
        }
        Ok(match &mut self.comparison {
            Comparison::Host { detector, .. } => {
                let differences = detector.compare(frame, rule);
                self.times.change = Span::since(start_ns);
                differences
            }
            Comparison::Device { detect, .. } => detect.collect(),
        })
    }

    fn end_update(
        &mut self,
        ingested: &TileSet,
        views: &mut [&mut Planes],
    ) -> Result<UpdateTimes, BackendError> {
        let mut has_run = true;
        if let Comparison::Host { detector, staging } = &mut self.comparison {
            if self.features.is_due() {
                // The samples of the others are not on the device.
                let resident = detector.resident();
                self.features.fill(|features| features_of(&resident, features));
            }
            let start_ns = monotonic_ns();
            staging.upload(&detector.resident(), ingested);
            for view in &mut *views {
                view.find_stale(ingested);
                ViewPasses::upload(view, &self.gpu);
            }
            self.times.upload = Span::since(start_ns);
            self.times.uploaded_bytes = staging.uploaded_bytes();
            has_run =
                staging.tile_count() != 0 || views.iter().any(|view| !view.stale().is_empty());
            if has_run {
                self.run(None, views)?;
            }
        }
        let start_ns = monotonic_ns();
        let mut collected_bytes = 0;
        for view in &mut *views {
            if let Comparison::Device { .. } = self.comparison {
                ViewPasses::take_stale(view, 0 < ingested.count());
            }
            collected_bytes += ViewPasses::collect(view);
        }
        self.features.collect(ingested);
        let collect = Span::since(start_ns);
        let times = if has_run { self.device_times(views) } else { self.times };
        Ok(UpdateTimes { collect, collected_bytes, ..times })
    }

    fn sample(&mut self, ingested: &TileSet, view: &mut Planes) -> Result<u64, BackendError> {
        let Self { comparison, pyramid, lane, gpu, .. } = self;
        let bits = match comparison {
            Comparison::Host { .. } => {
                view.find_stale(ingested);
                ViewPasses::upload(view, gpu);
                if view.stale().is_empty() {
                    return Ok(0);
                }
                None
            }
            Comparison::Device { detect, .. } => {
                ViewPasses::prepare_stale(view, gpu);
                Some(detect.bits())
            }
        };
        let passes = view.sampler.get::<ViewPasses>();
        lane.run(|recorder| {
            if let Some(bits) = bits {
                passes.record_stale(recorder, bits);
            }
            passes.record_sample(recorder, pyramid);
        })?;
        if bits.is_some() {
            ViewPasses::take_stale(view, !ingested.is_empty());
        }
        Ok(ViewPasses::collect(view))
    }

    fn resident(&self) -> Option<FrameView<'_>> {
        match &self.comparison {
            Comparison::Host { detector, .. } => Some(detector.resident()),
            Comparison::Device { .. } => None,
        }
    }

    fn samplers(&self) -> SamplerMaker {
        let (gpu, shape) = (Arc::clone(&self.gpu), self.shape);
        let finds_stale = matches!(self.comparison, Comparison::Device { .. });
        Arc::new(move |spec| Ok(ViewPasses::warm(&gpu, shape, spec, finds_stale)?))
    }

    fn keep_coarse(&mut self, wanted: bool) {
        self.coarse.keep(wanted);
    }

    fn read_coarse(&mut self, target: &mut CoarseLevel) -> Result<(), BackendError> {
        let Self { coarse, pyramid, lane, .. } = self;
        if coarse.prepare_alone() {
            lane.run(|recorder| coarse.record(recorder, pyramid))?;
        }
        coarse.read(target);
        Ok(())
    }

    fn keep_features(&mut self, wanted: bool) {
        self.features.keep(wanted);
    }

    fn features(&self) -> Option<&[TileFeatures]> {
        self.features.get()
    }

    fn read_level(&mut self, level: u32) -> Result<Vec<u8>, BackendError> {
        Ok(self.pyramid.read_level(&self.gpu, &mut self.lane, level)?)
    }

    fn kind(&self) -> FrameKind {
        self.kind
    }
}

impl fmt::Debug for VulkanBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VulkanBackend").field("kind", &self.kind).finish_non_exhaustive()
    }
}
