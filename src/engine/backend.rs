//! The resident pyramid of one stream, the copy that it was built from, and the sampling of tokens.
//!
//! [`Backend`] has two implementations that agree bit for bit, with the same file names: [`cpu`], which is also the oracle of
//! the other's tests, and `vulkan`. Either keeps to one rule: every texel of every level is the exactly rounded mean of the
//! source pixels it covers.

use std::sync::Arc;

use foveate_core::clock::Span;
use foveate_core::frame::{FrameKind, FrameView};
use foveate_core::geometry::coarse::CoarseLevel;
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_core::geometry::rule::IngestRule;
use foveate_core::geometry::tile::TileSet;

use crate::planes::{Planes, Sampler, SamplerSpec};

pub mod choice;
pub mod cpu;
#[cfg(feature = "vulkan")]
mod devices;
#[cfg(feature = "vulkan")]
pub mod vulkan;

/// When the parts of one update ran. A part that did not run has no span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UpdateTimes {
    /// Finding the tiles that differ, and taking their samples over into the resident copy.
    pub change: Span,
    /// The CPU hands samples to the device: those of the ingested tiles, or the whole frame where the device finds them.
    pub upload: Span,
    /// From the camera's samples to the levels that depend on one tile.
    pub ingest: Span,
    /// The levels above.
    pub reduce: Span,
    /// From the pyramid to tokens.
    pub sample: Span,
    /// The CPU takes the tokens from the device.
    pub collect: Span,
    /// Bytes of samples that crossed to the device.
    pub uploaded_bytes: u64,
}

/// Keeps the pyramid of one stream up to date, owns the resident copy that it was built from, and samples tokens.
///
/// For each frame: [`compare`](Self::compare), then [`update`](Self::update). After an error of either the pyramid is undefined,
/// and the backend is to be dropped; the resident copy is as the rule says.
pub trait Backend: Send {
    /// Compares `frame` with the resident copy and takes the tiles that `rule` names over into it. Returns by how much a sample
    /// of each tile differed from the copy at most, row by row; of the [first](IngestRule::is_first) frame that means nothing.
    ///
    /// `frame` is of the kind that the backend was built for. Where a device compares, it also updates the pyramid and samples
    /// `views` at once.
    ///
    /// # Errors
    ///
    /// If the device is lost or refuses.
    fn compare(
        &mut self,
        frame: &FrameView<'_>,
        rule: &IngestRule,
        views: &mut [&mut Planes],
    ) -> Result<&[u8], BackendError>;

    /// Brings the pyramid up to date in `ingested`, the tiles that the rule names for the differences that `compare` returned,
    /// and samples for every one of `views` that is not resting the tokens that this may have changed. Returns when the bytes
    /// are there, and says when its parts ran.
    ///
    /// `views` are those that `compare` was given, at most [`VIEWS_MAX`](foveate_core::view::VIEWS_MAX), each with a sampler of
    /// [`samplers`](Self::samplers).
    ///
    /// # Errors
    ///
    /// If the device is lost or refuses.
    fn update(
        &mut self,
        ingested: &TileSet,
        views: &mut [&mut Planes],
    ) -> Result<UpdateTimes, BackendError>;

    /// What the pyramid is built from; `None` where the device keeps it.
    fn resident(&self) -> Option<FrameView<'_>>;

    /// Makes what samples a view, on any thread, while the backend takes frames.
    fn samplers(&self) -> SamplerMaker;

    /// Says whether the coarse level will be read after most updates from now on; at first it will not. Reading it is then
    /// quick: a device copies it whenever an update changes it. What is read does not depend on it.
    fn keep_coarse(&mut self, wanted: bool);

    /// Copies the coarse level out, without allocating memory.
    ///
    /// # Errors
    ///
    /// If the device is lost or refuses.
    ///
    /// # Panics
    ///
    /// If `target` is the coarse level of a pyramid of another shape.
    fn read_coarse(&mut self, target: &mut CoarseLevel) -> Result<(), BackendError>;

    /// Copies one level of the pyramid out: R, G, B interleaved, row by row. For pictures and tests; not fast.
    ///
    /// # Errors
    ///
    /// If the device is lost or refuses.
    fn read_level(&mut self, level: u32) -> Result<Vec<u8>, BackendError>;

    /// What the frames have in common.
    fn kind(&self) -> FrameKind;

    /// The shape of the pyramid.
    fn shape(&self) -> PyramidShape {
        PyramidShape::new(self.kind().extent)
    }
}

/// Makes samplers of one backend. It runs each once, as some drivers compile only
/// then; on a device frames wait for that one run, which is long only where the driver compiles then, as llvmpipe does.
///
/// It fails if the view is too large for the device, or the device is lost or refuses.
pub type SamplerMaker = Arc<dyn Fn(SamplerSpec) -> Result<Sampler, BackendError> + Send + Sync>;

/// Why a backend failed. Anything else is a bug and panics.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackendError {
    /// The GPU refused or is gone.
    #[cfg(feature = "vulkan")]
    #[error(transparent)]
    Gpu(#[from] foveate_gpu::GpuError),
    /// Changes were to be found on a device to which every frame would first have to cross.
    #[error(
        "changes cannot be found on {device}, a {kind} that is not known to share the memory of the CPU: every frame would have to cross to it first; set `on` in [stream.change] to \"auto\" or \"cpu\""
    )]
    ChangeOnOwnMemory {
        /// Name of the device.
        device: String,
        /// What it is made of.
        kind: String,
    },
    /// The driver may hang: another thread has been asking it for a device all the time.
    #[cfg(feature = "vulkan")]
    #[error(
        "the Vulkan driver has been opening a device for another stream for more than {seconds} s: restart the daemon if it hangs, or set backend = \"cpu\""
    )]
    DriverBusy {
        /// How long it was waited for.
        seconds: u64,
    },
    /// Vulkan was asked for, and this build has none.
    #[error(
        "this build has no Vulkan backend: build with the feature `vulkan`, or set backend = \"cpu\""
    )]
    BuiltWithoutVulkan,
}
