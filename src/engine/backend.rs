//! The resident pyramid of one stream, the copy that it was built from, and the sampling of tokens.
//!
//! [`Backend`] has two implementations that agree bit for bit, with the same file names: [`cpu`], which is also the
//! oracle in the other's tests, and `vulkan`. Both keep one rule: every texel of every level is the exactly rounded
//! mean of the source pixels it covers.

use std::fmt;
use std::sync::Arc;

use foveate_core::clock::Span;
use foveate_core::frame::{FrameKind, FrameView};
use foveate_core::geometry::coarse::CoarseLevel;
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_core::geometry::rule::IngestRule;
use foveate_core::geometry::tile::TileSet;
use foveate_gaze::relevance::features::TileFeatures;

use crate::planes::{Planes, Sampler, SamplerSpec};
use crate::pool::Pool;

pub mod choice;
pub mod cpu;
#[cfg(feature = "vulkan")]
mod devices;
#[cfg(feature = "vulkan")]
pub mod vulkan;

/// When the parts of one update ran. A part that did not run has no span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UpdateTimes {
    /// Finds the tiles that differ, and copies their samples into the resident copy. On the CPU its end, and where ingesting
    /// begins, is computed from the threads' time for each: they take turns.
    pub change: Span,
    /// The CPU hands samples to the device: those of the ingested tiles, or the whole frame if the device compares.
    pub upload: Span,
    /// Conversion of the camera's samples to the levels that depend on one tile.
    pub ingest: Span,
    /// Computes the features of the ingested tiles.
    pub features: Span,
    /// The levels above.
    pub reduce: Span,
    /// Samples tokens from the pyramid.
    pub sample: Span,
    /// The CPU copies the tokens that the device could not write to their places.
    pub collect: Span,
    /// Bytes of samples copied to the device.
    pub uploaded_bytes: u64,
    /// Bytes of tokens copied from the device.
    pub collected_bytes: u64,
}

/// Keeps the pyramid of one stream up to date, owns the resident copy that it was built from, and samples tokens.
///
/// For each frame: [`begin_update`](Self::begin_update), then [`end_update`](Self::end_update), then [`sample`](Self::sample) for each
/// view that waits for the others. After an error of one, the pyramid is undefined and the backend must be dropped; the resident copy is
/// as the rule says.
///
/// An update has two halves because the caller learns from the first which tiles are ingested. Each backend does the work where it is
/// quickest:
///
/// | Backend | `begin_update` | `end_update` |
/// | --- | --- | --- |
/// | CPU | compares, and ingests tiles while their samples are in the caches | reduces, samples |
/// | Vulkan, compared on the CPU | compares | uploads, ingests, reduces and samples in one submission |
/// | Vulkan, compared on the device | compares, ingests, reduces and samples in one submission | copies tokens that the device could not write to their places |
///
/// Between the two, pyramid and tokens are undefined.
pub trait Backend: fmt::Debug + Send {
    /// Compares `frame` with the resident copy and copies the tiles that `rule` selects into it. Returns the largest
    /// difference of a sample for each tile, row by row; undefined for the [first](IngestRule::is_first) frame.
    ///
    /// `frame` is of the kind that the backend was built for. `views`, at most [`VIEWS_MAX`](foveate_gaze::view::VIEWS_MAX), each have
    /// a sampler from [`samplers`](Self::samplers), and have been given the memory for their tokens.
    ///
    /// # Errors
    ///
    /// If the device is lost or a call fails.
    fn begin_update(
        &mut self,
        frame: &FrameView<'_>,
        rule: &IngestRule,
        views: &mut [&mut Planes],
    ) -> Result<&[u8], BackendError>;

    /// Ends the update: brings the pyramid up to date in `ingested`, the tiles that the rule selects for the differences that
    /// `begin_update` returned, and samples the stale tokens of each of the same `views` that is not resting to the memory that the view
    /// has been given. Blocks until all of it is there, and returns when the parts of the update ran. Called alone, with no tiles, it makes
    /// features that are wanted and were never made.
    ///
    /// # Errors
    ///
    /// If the device is lost or a call fails.
    fn end_update(
        &mut self,
        ingested: &TileSet,
        views: &mut [&mut Planes],
    ) -> Result<UpdateTimes, BackendError>;

    /// Samples the stale tokens of one more view from the pyramid as the newest update, of `ingested`, left it, to the memory
    /// that the view has been given. Blocks until the tokens are there. Returns the bytes that were copied from the device.
    ///
    /// # Errors
    ///
    /// If the device is lost or a call fails.
    fn sample(&mut self, ingested: &TileSet, view: &mut Planes) -> Result<u64, BackendError>;

    /// The resident copy; `None` if the device keeps it.
    fn resident(&self) -> Option<FrameView<'_>>;

    /// Makes samplers for views, on any thread, while the backend takes frames.
    fn samplers(&self) -> SamplerMaker;

    /// A hint whether the coarse level will be read after most updates; at first it is not. A device then copies the
    /// level whenever an update changes it, so that reading it is quick. The result does not depend on the hint.
    fn keep_coarse(&mut self, wanted: bool);

    /// Copies the coarse level out, without allocating memory.
    ///
    /// # Errors
    ///
    /// If the device is lost or a call fails.
    ///
    /// # Panics
    ///
    /// If `target` is the coarse level of a pyramid of another shape.
    fn read_coarse(&mut self, target: &mut CoarseLevel) -> Result<(), BackendError>;

    /// A hint whether the features of tiles will be read; at first they are not. Once they are wanted, the next update makes those of
    /// all tiles.
    fn keep_features(&mut self, wanted: bool);

    /// Brings the features of the tiles that the newest update `ingested` up to date, if they are wanted and it did not, as a device
    /// does. Nobody needs them before the frame is published. Returns when it did so.
    fn note_features(&mut self, _ingested: &TileSet) -> Span {
        Span::NONE
    }

    /// The threads that help with what is done on the CPU, if there are any.
    fn pool(&self) -> Option<&Pool> {
        None
    }

    /// The features of each tile as of the newest update, row by row; `None` while they are not kept.
    fn features(&self) -> Option<&[TileFeatures]>;

    /// Copies one level of the pyramid out: R, G, B interleaved, row by row. For pictures and tests; slow.
    ///
    /// # Errors
    ///
    /// If the device is lost or a call fails.
    fn read_level(&mut self, level: u32) -> Result<Vec<u8>, BackendError>;

    /// Format, colour and extent that all frames share.
    fn kind(&self) -> FrameKind;

    /// The shape of the pyramid.
    fn shape(&self) -> PyramidShape {
        PyramidShape::new(self.kind().extent)
    }
}

/// Makes samplers for one backend. It runs each once, as some drivers compile only then. Frames on the same device wait
/// for that run; it is long only with drivers such as llvmpipe.
///
/// Fails if the view is too large for the device, or the device is lost or a call fails.
pub type SamplerMaker = Arc<dyn Fn(SamplerSpec) -> Result<Sampler, BackendError> + Send + Sync>;

/// Why a backend failed. Anything else is a bug and panics.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackendError {
    /// The GPU refused or is gone.
    #[cfg(feature = "vulkan")]
    #[error(transparent)]
    Gpu(#[from] foveate_gpu::GpuError),
    /// Change detection on a device that does not share the CPU's memory.
    #[error(
        "cannot find changes on {device}, a {kind} that may not share the CPU's memory: set `on` in [stream.change] to \"auto\" or \"cpu\""
    )]
    ChangeOnOwnMemory {
        /// Name of the device.
        device: String,
        /// Kind of the device, such as a discrete GPU.
        kind: String,
    },
    /// The driver may hang: another thread is still waiting for it to open a device.
    #[cfg(feature = "vulkan")]
    #[error(
        "the Vulkan driver has been opening a device for another stream for more than {seconds} s: restart the daemon if it hangs, or set backend = \"cpu\""
    )]
    DriverBusy {
        /// Seconds that this stream waited for the driver.
        seconds: u64,
    },
    /// Vulkan is configured, and this build has no Vulkan backend.
    #[error(
        "this build has no Vulkan backend: build with the feature `vulkan`, or set backend = \"cpu\""
    )]
    BuiltWithoutVulkan,
}
