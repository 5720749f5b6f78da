//! The retina in compute shaders.
//!
//! A frame is one submission: `ingest` turns the camera's samples of the dirty tiles into levels 0 to 5, `reduce`
//! brings the levels above those tiles up to date from the sums of the tiles, `sample` gathers the tokens of each view.
//! All arithmetic is in integers, so every device gives the same bytes.

use std::fmt;
use std::sync::Arc;

use self::ingest::IngestPass;
use self::pyramid::Pyramid;
use self::reduce::ReducePass;
use self::sample::SamplePass;
use self::staging::TileStaging;
use super::{Retina, RetinaError, UpdateTimes, ViewSample, ViewSpec, check_update};
use crate::clock::{Span, monotonic_ns};
use crate::frame::{FrameKind, FrameView};
use crate::geometry::pyramid::PyramidShape;
use crate::geometry::tile::TileSet;
use crate::gpu::{Gpu, Lane};

pub mod ingest;
pub mod pyramid;
pub mod reduce;
pub mod sample;
mod staging;
pub mod tiles;

/// The SPIR-V that the build script made of `glsl/NAME.comp`.
macro_rules! shader {
    ($name:literal) => {
        include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".spv"))
    };
}
use shader;

/// Ingest and reduce. Beside them there is a pass for each view.
const TILE_PASSES: usize = 2;

/// One stream's pyramid on a GPU.
pub struct VulkanRetina {
    shape: PyramidShape,
    kind: FrameKind,
    staging: TileStaging,
    ingest: IngestPass,
    reduce: ReducePass,
    /// One per view, in the views' order.
    samples: Vec<SamplePass>,
    pyramid: Pyramid,
    lane: Lane,
    gpu: Arc<Gpu>,
}

impl VulkanRetina {
    /// Builds the pyramid of a source, and runs every pass once, as some drivers compile only then.
    ///
    /// # Errors
    ///
    /// If the source is too large for the device, or the device is lost or refuses.
    ///
    /// # Panics
    ///
    /// If the extent is not [supported](crate::geometry::extent::Extent::is_supported).
    pub fn new(gpu: &Arc<Gpu>, kind: FrameKind, views: &[ViewSpec]) -> Result<Self, RetinaError> {
        let shape = PyramidShape::new(kind.extent);
        let make_sample = |view: &ViewSpec| SamplePass::new(gpu, shape, *view);
        let mut retina = Self {
            shape,
            kind,
            staging: TileStaging::new(gpu, kind)?,
            ingest: IngestPass::new(gpu, kind)?,
            reduce: ReducePass::new(gpu, shape)?,
            samples: views.iter().map(make_sample).collect::<Result<_, _>>()?,
            pyramid: Pyramid::new(gpu, shape)?,
            lane: Lane::new(gpu, "retina", TILE_PASSES + views.len())?,
            gpu: Arc::clone(gpu),
        };
        retina.warm()?;
        Ok(retina)
    }

    /// Runs every pass on whatever the memory holds. The pyramid means nothing until the first frame anyway.
    fn warm(&mut self) -> Result<(), RetinaError> {
        self.staging.prepare_warm();
        for sample in &mut self.samples {
            sample.prepare_warm();
        }
        self.run()
    }

    /// When the passes of the newest submission ran, and what was uploaded for them.
    fn device_times(&self) -> UpdateTimes {
        if self.is_idle() {
            return UpdateTimes::default();
        }
        let spans = self.samples.iter().map(|sample| sample.span(&self.lane));
        UpdateTimes {
            ingest: self.ingest.span(&self.lane),
            reduce: self.reduce.span(&self.lane),
            sample: spans.fold(Span::NONE, Span::through),
            uploaded_bytes: self.staging.uploaded_bytes(),
            ..UpdateTimes::default()
        }
    }

    /// Whether nothing has been uploaded.
    fn is_idle(&self) -> bool {
        self.staging.tiles().tile_count() == 0
            && self.samples.iter().all(|sample| sample.token_count() == 0)
    }

    /// Submits what has been uploaded, if anything, and waits for it.
    fn run(&mut self) -> Result<(), RetinaError> {
        if self.is_idle() {
            return Ok(());
        }
        let Self { staging, ingest, reduce, samples, pyramid, lane, .. } = self;
        lane.run(|recorder| {
            if staging.tiles().tile_count() != 0 {
                ingest.record(recorder, staging, pyramid);
                reduce.record(recorder, staging.tiles(), pyramid);
            }
            for sample in &*samples {
                sample.record(recorder, pyramid);
            }
        })?;
        Ok(())
    }
}

impl Retina for VulkanRetina {
    fn update(
        &mut self,
        frame: &FrameView<'_>,
        dirty: &TileSet,
        samples: &mut [ViewSample],
    ) -> Result<UpdateTimes, RetinaError> {
        check_update(self.kind, self.samples.iter().map(SamplePass::format), frame, samples);
        let start_ns = monotonic_ns();
        self.staging.upload(frame, dirty);
        for (pass, sample) in self.samples.iter_mut().zip(&mut *samples) {
            sample.find_stale(dirty, self.shape);
            pass.upload(sample);
        }
        let upload = Span::since(start_ns);
        self.run()?;
        let ran_ns = monotonic_ns();
        for (pass, sample) in self.samples.iter_mut().zip(samples) {
            pass.collect(sample);
        }
        Ok(UpdateTimes { upload, collect: Span::since(ran_ns), ..self.device_times() })
    }

    fn read_level(&mut self, _frame: &FrameView<'_>, level: u32) -> Result<Vec<u8>, RetinaError> {
        Ok(self.pyramid.read_level(&self.gpu, &mut self.lane, level)?)
    }

    fn shape(&self) -> PyramidShape {
        self.shape
    }
}

impl fmt::Debug for VulkanRetina {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VulkanRetina").field("kind", &self.kind).finish_non_exhaustive()
    }
}
