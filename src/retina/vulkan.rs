//! The retina in compute shaders.
//!
//! A frame is one submission: `ingest` turns the camera's samples of the dirty tiles into levels 0 to 5, `reduce`
//! brings the levels above those tiles up to date from the sums of the tiles, `sample` gathers the tokens of each view.
//! Where the device also [finds the dirty tiles](detecting), `detect` comes first and `stale` before `sample`.
//! All arithmetic is in integers, so every device gives the same bytes.

use std::fmt;
use std::sync::Arc;

use self::ingest::Records;
use self::passes::PyramidPasses;
use self::staging::TileStaging;
use super::{
    RefusedView, Retina, RetinaError, UpdateTimes, ViewMaker, ViewPass, ViewSample, ViewSpec,
    view_room,
};
use crate::clock::{Span, monotonic_ns};
use crate::frame::{FrameKind, FrameView};
use crate::geometry::coarse::CoarseLevel;
use crate::geometry::pyramid::PyramidShape;
use crate::geometry::tile::TileSet;
use crate::gpu::{Gpu, Lane};

mod coarse;
pub mod detect;
pub mod detecting;
mod frame;
pub mod ingest;
mod passes;
pub mod pyramid;
pub mod reduce;
pub mod sample;
mod shaders;
mod staging;
pub mod stale;
pub mod tiles;
pub(super) mod view;
pub mod work;

/// One stream's pyramid on a GPU.
pub struct VulkanRetina {
    staging: TileStaging,
    passes: PyramidPasses,
    /// What makes the passes of views that come later.
    maker: ViewMaker,
    lane: Lane,
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
        let mut retina = Self {
            staging: TileStaging::new(gpu, kind)?,
            passes: PyramidPasses::new(gpu, kind, views, Records::Listed)?,
            maker: ViewMaker::told_on(gpu, PyramidShape::new(kind.extent)),
            lane: Lane::new(gpu, "retina", PyramidPasses::count(view_room(views.len())))?,
        };
        retina.warm()?;
        Ok(retina)
    }

    /// Runs every pass on whatever the memory holds. The pyramid means nothing until the first frame anyway.
    fn warm(&mut self) -> Result<(), RetinaError> {
        self.staging.prepare_warm();
        for sample in &mut self.passes.samples {
            sample.prepare_warm();
        }
        self.run()
    }

    /// When the passes of the newest submission ran, and what was uploaded for them.
    fn device_times(&self) -> UpdateTimes {
        if self.is_idle() {
            return UpdateTimes::default();
        }
        let uploaded_bytes = self.staging.uploaded_bytes();
        UpdateTimes { uploaded_bytes, ..self.passes.times(&self.lane) }
    }

    /// Whether nothing has been uploaded.
    fn is_idle(&self) -> bool {
        self.staging.tile_count() == 0
            && self.passes.samples.iter().all(|sample| sample.stale().count() == Some(0))
    }

    /// Submits what has been uploaded, if anything, and waits for it.
    fn run(&mut self) -> Result<(), RetinaError> {
        if self.is_idle() {
            return Ok(());
        }
        let Self { staging, passes, lane, .. } = self;
        let ingests = staging.tile_count() != 0;
        passes.coarse.prepare(ingests);
        lane.run(|recorder| {
            if ingests {
                passes.record_tiles(recorder, staging.records(), staging.tiles());
            }
            passes.record_tokens(recorder);
            passes.record_coarse(recorder);
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
        self.passes.check(frame, samples);
        let start_ns = monotonic_ns();
        self.staging.upload(frame, dirty);
        let shape = self.passes.shape();
        for (pass, sample) in self.passes.samples.iter_mut().zip(&mut *samples) {
            sample.find_stale(dirty, shape);
            pass.upload(sample);
        }
        let upload = Span::since(start_ns);
        self.run()?;
        let ran_ns = monotonic_ns();
        self.passes.collect(samples);
        Ok(UpdateTimes { upload, collect: Span::since(ran_ns), ..self.device_times() })
    }

    fn view_maker(&self) -> ViewMaker {
        self.maker.clone()
    }

    fn add_view(&mut self, view: ViewPass) -> Result<(), RefusedView> {
        let samples = &mut self.passes.samples;
        samples.push(view.into_told(&self.maker, samples.len())?);
        Ok(())
    }

    fn remove_view(&mut self, index: usize) -> ViewPass {
        ViewPass::of_told(&self.maker, self.passes.samples.remove(index))
    }

    fn keep_coarse(&mut self, wanted: bool) {
        self.passes.coarse.keep(wanted);
    }

    fn read_coarse(
        &mut self,
        _frame: &FrameView<'_>,
        target: &mut CoarseLevel,
    ) -> Result<(), RetinaError> {
        Ok(self.passes.read_coarse(&mut self.lane, target)?)
    }

    fn read_level(&mut self, _frame: &FrameView<'_>, level: u32) -> Result<Vec<u8>, RetinaError> {
        Ok(self.passes.read_level(&mut self.lane, level)?)
    }

    fn shape(&self) -> PyramidShape {
        self.passes.shape()
    }
}

impl fmt::Debug for VulkanRetina {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VulkanRetina").field("kind", &self.passes.kind()).finish_non_exhaustive()
    }
}
