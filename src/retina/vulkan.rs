//! The retina in compute shaders.
//!
//! A frame is one submission: `ingest` turns the camera's samples of the dirty tiles into levels 0 to 5, `reduce`
//! builds the levels above from the sums of the tiles, `sample` gathers the tokens of each view. All arithmetic is in
//! integers, so every device gives the same bytes.

use std::fmt;
use std::sync::Arc;

use self::ingest::IngestPass;
use self::pyramid::Pyramid;
use self::reduce::ReducePass;
use self::sample::SamplePass;
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

/// The SPIR-V that the build script made of `glsl/NAME.comp`.
macro_rules! shader {
    ($name:literal) => {
        include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".spv"))
    };
}
use shader;

/// One stream's pyramid on a GPU.
pub struct VulkanRetina {
    shape: PyramidShape,
    kind: FrameKind,
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
            ingest: IngestPass::new(gpu, kind)?,
            reduce: ReducePass::new(gpu, shape)?,
            samples: views.iter().map(make_sample).collect::<Result<_, _>>()?,
            pyramid: Pyramid::new(gpu, shape)?,
            lane: Lane::new(gpu, "retina")?,
            gpu: Arc::clone(gpu),
        };
        retina.warm()?;
        Ok(retina)
    }

    /// Runs every pass on whatever the memory holds. The pyramid means nothing until the first frame anyway.
    fn warm(&mut self) -> Result<(), RetinaError> {
        self.ingest.prepare_warm();
        for sample in &mut self.samples {
            sample.prepare_warm();
        }
        self.run()
    }

    /// Submits what has been uploaded, and waits for it.
    fn run(&mut self) -> Result<(), RetinaError> {
        let Self { ingest, reduce, samples, pyramid, lane, .. } = self;
        let is_dirty = ingest.tile_count() != 0;
        let is_sampled = samples.iter().any(|sample| sample.token_count() != 0);
        if !is_dirty && !is_sampled {
            return Ok(());
        }
        lane.run(|recorder| {
            if is_dirty {
                ingest.record(recorder, pyramid);
                reduce.record(recorder, pyramid);
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
        self.ingest.upload(frame, dirty);
        for (pass, sample) in self.samples.iter_mut().zip(&mut *samples) {
            sample.find_stale(dirty, self.shape);
            pass.upload(sample);
        }
        let upload = Span::since(start_ns);
        self.run()?;
        let run = upload.next();
        for (pass, sample) in self.samples.iter_mut().zip(samples) {
            pass.collect(sample);
        }
        Ok(UpdateTimes { upload, ingest: run, collect: run.next(), ..UpdateTimes::default() })
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
