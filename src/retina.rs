//! The resident pyramid of one stream, and the sampling of tokens from it.
//!
//! [`Retina`] has two implementations that agree bit for bit, with the same file names: [`cpu`], which is also
//! the oracle of the other's tests, and `vulkan`. Either keeps to one rule: every texel of every level is the
//! exactly rounded mean of the source pixels it covers.

use crate::frame::{FrameKind, FrameView};
use crate::geometry::plan::TokenPlan;
use crate::geometry::pyramid::PyramidShape;
use crate::geometry::tile::TileSet;
use crate::token::TokenFormat;

pub mod backend;
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

/// One view's part of a frame: what to sample, and where the bytes go. Kept from frame to frame.
#[derive(Clone, Debug)]
pub struct ViewSample {
    format: TokenFormat,
    plan: TokenPlan,
    pixels: Vec<u8>,
}

impl ViewSample {
    /// Room for `capacity` tokens of `format`; the plan is empty.
    pub fn new(format: TokenFormat, capacity: usize) -> Self {
        let plan = TokenPlan { patch_side: format.patch_side, tokens: Vec::new() };
        Self { format, plan, pixels: Vec::with_capacity(capacity * format.token_bytes()) }
    }

    /// Samples `plan` from the next frame on.
    pub fn set_plan(&mut self, plan: TokenPlan) {
        assert_eq!(
            plan.patch_side, self.format.patch_side,
            "patch side of the plan and of the view"
        );
        self.pixels.resize(plan.tokens.len() * self.format.token_bytes(), 0);
        self.plan = plan;
    }

    /// What the view's tokens look like in memory.
    pub fn format(&self) -> TokenFormat {
        self.format
    }

    /// The plan, and the bytes that its tokens go to.
    pub fn split(&mut self) -> (&TokenPlan, &mut [u8]) {
        (&self.plan, &mut self.pixels)
    }

    /// What is sampled.
    pub fn plan(&self) -> &TokenPlan {
        &self.plan
    }

    /// Where the tokens of a frame go.
    pub fn pixels_mut(&mut self) -> &mut [u8] {
        &mut self.pixels
    }

    /// The tokens of the newest frame, one after the other: `[N, 3, P, P]`.
    pub fn pixels(&self) -> &[u8] {
        &self.pixels
    }
}

/// Keeps the pyramid of one stream up to date and samples tokens from it.
pub trait Retina: Send {
    /// Brings the pyramid up to date with `frame` in the tiles of `dirty`, then samples for every view.
    ///
    /// Texels outside the dirty tiles are those of the frames before; the first frame must mark all tiles.
    /// `samples` follow the order of the views that the retina was built with. Returns when the bytes are
    /// there. `frame` is of the kind that the retina was built for.
    ///
    /// # Errors
    ///
    /// If the device is lost or refuses. The pyramid is then undefined, and the retina must be dropped.
    fn update(
        &mut self,
        frame: &FrameView<'_>,
        dirty: &TileSet,
        samples: &mut [ViewSample],
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

/// Panics unless `frame` and `samples` are what a retina for frames of `kind` and views of `formats` was built for.
fn check_update(
    kind: FrameKind,
    formats: impl Iterator<Item = TokenFormat>,
    frame: &FrameView<'_>,
    samples: &[ViewSample],
) {
    assert_eq!(frame.kind(), kind, "a frame unlike those that the retina was built for");
    assert!(samples.iter().map(ViewSample::format).eq(formats), "samples unlike the views");
}

/// Why a retina failed. Anything else is a bug and panics.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RetinaError {
    /// The GPU refused or is gone.
    #[cfg(feature = "vulkan")]
    #[error(transparent)]
    Gpu(#[from] crate::gpu::GpuError),
    /// Vulkan was asked for, and this build has none.
    #[error(
        "this build has no Vulkan backend: build with the feature `vulkan`, or set backend = \"cpu\""
    )]
    BuiltWithoutVulkan,
}
