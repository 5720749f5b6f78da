//! The resident pyramid of one stream, and the sampling of tokens from it.
//!
//! [`Retina`] has two implementations that agree bit for bit, with the same file names: [`cpu`], which is also
//! the oracle of the other's tests, and `vulkan`. Either keeps to one rule: every texel of every level is the
//! exactly rounded mean of the source pixels it covers.

use std::fmt;

use crate::frame::FrameView;
use crate::geometry::plan::TokenPlan;
use crate::geometry::pyramid::PyramidShape;
use crate::geometry::tile::TileSet;
use crate::token::TokenFormat;

pub mod cpu;
#[cfg(feature = "vulkan")]
pub mod vulkan;

/// What a view asks of a retina when it is built, so that nothing is allocated later.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ViewSpec {
    /// What the view's tokens look like in memory.
    pub format: TokenFormat,
    /// Most tokens that any of its plans will hold.
    pub capacity: usize,
}

/// One view's part of a frame.
#[derive(Debug)]
pub struct SampleRequest<'a> {
    /// What to sample; at most the view's capacity.
    pub plan: &'a TokenPlan,
    /// Where to: one token after the other, exactly [`TokenFormat::token_bytes`] for each token of the plan.
    pub pixels: &'a mut [u8],
}

/// Keeps the pyramid of one stream up to date and samples tokens from it.
pub trait Retina: Send {
    /// Brings the pyramid up to date with `frame` in the tiles of `dirty`, then samples for every view.
    ///
    /// Texels outside the dirty tiles are those of the frames before; the first frame must mark all tiles.
    /// `requests` follow the order of the views that the retina was built with. Returns when the bytes are
    /// there. `frame` has the format, extent and colour transform that the retina was built with.
    ///
    /// # Errors
    ///
    /// If the device is lost or refuses. The pyramid is then undefined, and the retina must be dropped.
    fn update(
        &mut self,
        frame: &FrameView<'_>,
        dirty: &TileSet,
        requests: &mut [SampleRequest<'_>],
    ) -> Result<(), RetinaError>;

    /// Copies one level of the pyramid out: R, G, B interleaved, row by row. For pictures and tests; not fast.
    ///
    /// # Errors
    ///
    /// If the device is lost or refuses.
    fn read_level(&mut self, level: u32) -> Result<Vec<u8>, RetinaError>;

    /// The shape of the pyramid.
    fn shape(&self) -> PyramidShape;
}

/// Why a retina failed. Anything else is a bug and panics.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RetinaError {
    /// The GPU refused or is gone.
    #[cfg(feature = "vulkan")]
    #[error("the GPU failed")]
    Gpu(#[from] crate::gpu::GpuError),
}

/// Which implementation a stream runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BackendKind {
    /// Compute shaders.
    Vulkan,
    /// Threads of this process.
    Cpu,
}

impl fmt::Display for BackendKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Vulkan => "vulkan",
            Self::Cpu => "cpu",
        })
    }
}

/// The backend in use, and why.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Backend {
    /// Which implementation.
    pub kind: BackendKind,
    /// Name of the device, as its driver gives it.
    pub device: String,
    /// Why this one, in words.
    pub reason: String,
}
