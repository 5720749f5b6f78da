//! A copy of the coarse level that the CPU can read.
//!
//! While a view needs it, each submission that changes the level also copies it, so that reading it never waits.

use std::sync::Arc;

use super::pyramid::{GpuPyramid, TEXEL_BYTES};
use foveate_core::geometry::coarse::CoarseLevel;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_gpu::{Buffer, BufferKind, Gpu, GpuError, Recorder};

/// A copy of the coarse level in mapped memory.
#[derive(Debug)]
pub(super) struct CoarseCopy {
    level: u32,
    extent: Extent,
    texels: Buffer,
    /// Whether every submission that changes the level copies it.
    is_kept: bool,
    /// Whether the next submission copies it.
    is_due: bool,
    /// Whether the copy equals the pyramid's level once the next submission has run.
    is_current: bool,
}

impl CoarseCopy {
    /// Memory for the coarse level of a pyramid of `shape`, at most 64 KiB.
    pub(super) fn new(gpu: &Arc<Gpu>, shape: PyramidShape) -> Result<Self, GpuError> {
        let level = CoarseLevel::level_of(shape);
        let extent = shape.level_extent(level);
        let size = extent.area() * TEXEL_BYTES;
        let texels = Buffer::new(gpu, "coarse level", BufferKind::Readback, size)?;
        Ok(Self { level, extent, texels, is_kept: false, is_due: false, is_current: false })
    }

    /// Sets whether every submission that changes the level copies it.
    pub(super) fn keep(&mut self, wanted: bool) {
        self.is_kept = wanted;
    }

    /// Prepares for a submission, which changes the pyramid if it `ingests`.
    pub(super) fn prepare(&mut self, ingests: bool) {
        let is_outdated = ingests || !self.is_current;
        self.is_due = self.is_kept && is_outdated;
        self.is_current = self.is_due || !is_outdated;
    }

    /// Prepares for a submission of its own, and returns whether one is needed.
    pub(super) fn prepare_alone(&mut self) -> bool {
        self.is_due = !self.is_current;
        self.is_current = true;
        self.is_due
    }

    /// Records the copy, if it is due.
    pub(super) fn record<'a>(&'a self, recorder: &mut Recorder<'a>, pyramid: &'a GpuPyramid) {
        if self.is_due {
            pyramid.record_copy(recorder, self.level, &self.texels);
        }
    }

    /// Reads the copy.
    ///
    /// # Panics
    ///
    /// If `target` is the coarse level of a pyramid of another shape.
    pub(super) fn read(&mut self, target: &mut CoarseLevel) {
        let own = (self.level, self.extent);
        assert_eq!((target.level(), target.extent()), own, "the coarse level of another pyramid");
        let texels = self.texels.mapped::<[u8; TEXEL_BYTES]>();
        for (target, &[red, green, blue, _]) in target.texels.iter_mut().zip(&*texels) {
            *target = [red, green, blue];
        }
    }
}
