//! The resident pyramid of one stream, and the sampling of tokens from it.
//!
//! [`Retina`] has two implementations that agree bit for bit, with the same file names: [`cpu`], which is also
//! the oracle of the other's tests, and `vulkan`. Either keeps to one rule: every texel of every level is the
//! exactly rounded mean of the source pixels it covers.

use foveate_core::clock::Span;
use foveate_core::frame::{FrameKind, FrameView};
use foveate_core::geometry::coarse::CoarseLevel;
use foveate_core::geometry::plan::{Token, TokenPlan};
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_core::geometry::rule::IngestRule;
use foveate_core::geometry::tile::TileSet;
use foveate_core::token::TokenFormat;

pub mod backend;
pub mod cpu;
#[cfg(feature = "vulkan")]
mod devices;
mod view;
#[cfg(feature = "vulkan")]
pub mod vulkan;

pub use self::view::{Refusal, RefusedView, ViewMaker, ViewPass};

/// Most views that a retina may come to have while it runs: it has room for so many from the beginning.
pub const MOST_VIEWS: usize = foveate_config::VIEWS_MAX;

/// What a view asks of a retina when it is built, so that nothing is allocated later.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ViewSpec {
    /// What the view's tokens look like in memory.
    pub format: TokenFormat,
    /// Most tokens that any of its plans will hold.
    pub capacity: usize,
}

/// One view's part of a frame: what to sample, and where the bytes go. Kept from frame to frame, so that tokens under
/// which nothing was ingested stay as they are.
#[derive(Clone, Debug)]
pub struct ViewSample {
    format: TokenFormat,
    plan: TokenPlan,
    pixels: Vec<u8>,
    /// Updates so far.
    update: u64,
    /// For each token, the update in which it was last sampled; 0 for never.
    versions: Vec<u64>,
    /// Indices of the tokens that this update samples, ascending.
    stale: Vec<u32>,
    is_resting: bool,
}

impl ViewSample {
    /// Room for `capacity` tokens of `format`; the plan is empty.
    pub fn new(format: TokenFormat, capacity: usize) -> Self {
        Self {
            format,
            plan: TokenPlan { patch_side: format.patch_side, tokens: Vec::new() },
            pixels: Vec::with_capacity(capacity * format.token_bytes()),
            update: 0,
            versions: Vec::with_capacity(capacity),
            stale: Vec::with_capacity(capacity),
            is_resting: false,
        }
    }

    /// Whether updates sample no token from now on. Tokens that change meanwhile are sampled by the first update that does.
    pub fn set_resting(&mut self, is_resting: bool) {
        self.is_resting = is_resting;
    }

    /// Whether updates sample no token.
    pub fn is_resting(&self) -> bool {
        self.is_resting
    }

    /// Samples `plan` from the next frame on.
    pub fn set_plan(&mut self, plan: TokenPlan) {
        assert_eq!(
            plan.patch_side, self.format.patch_side,
            "patch side of the plan and of the view"
        );
        self.pixels.resize(plan.tokens.len() * self.format.token_bytes(), 0);
        self.versions.clear();
        self.versions.resize(plan.tokens.len(), 0);
        self.plan = plan;
    }

    /// Has every token sampled by the next update, also where nothing changes under it: by a retina that has none of them.
    pub fn sample_anew(&mut self) {
        self.versions.fill(0);
    }

    /// What the view's tokens look like in memory.
    pub fn format(&self) -> TokenFormat {
        self.format
    }

    /// What is sampled.
    pub fn plan(&self) -> &TokenPlan {
        &self.plan
    }

    /// The tokens of the newest frame, one after the other: `[N, 3, P, P]`.
    pub fn pixels(&self) -> &[u8] {
        &self.pixels
    }

    /// For each token, a number that grows whenever its pixels, or what it is, may have changed.
    pub fn versions(&self) -> &[u64] {
        &self.versions
    }

    /// Indices of the tokens that the newest update sampled, ascending; the others are as they were.
    pub fn stale(&self) -> &[u32] {
        &self.stale
    }

    /// Whether none of its tokens was sampled yet.
    #[cfg(feature = "vulkan")]
    fn is_new(&self) -> bool {
        // An update samples all tokens of a new plan.
        self.versions.first() == Some(&0)
    }

    /// Begins an update: finds the tokens that were never sampled or lie over a tile of `dirty`.
    fn find_stale(&mut self, dirty: &TileSet, shape: PyramidShape) {
        self.update += 1;
        self.stale.clear();
        if self.is_resting {
            // All at once, which is less to do than to find out which.
            if 0 < dirty.count() {
                self.versions.fill(0);
            }
            return;
        }
        for ((index, token), version) in (0..).zip(&self.plan.tokens).zip(&mut self.versions) {
            let region = || token.pixel_box(shape, self.plan.patch_side);
            if *version == 0 || dirty.reaches(region()) {
                *version = self.update;
                self.stale.push(index);
            }
        }
    }

    /// The stale tokens in ascending order, each with where its pixels go, in at most `part_count` parts.
    fn stale_tokens(
        &mut self,
        part_count: usize,
    ) -> impl Iterator<Item = impl Iterator<Item = (Token, &mut [u8])>> {
        let Self { plan, stale, pixels, .. } = self;
        let tokens = plan.tokens.as_slice();
        let token_bytes = self.format.token_bytes();
        let mut rest = pixels.as_mut_slice();
        let mut first = 0;
        stale.chunks(stale.len().div_ceil(part_count).max(1)).map(move |stale| {
            let end = stale[stale.len() - 1] as usize + 1;
            let (part, behind) =
                std::mem::take(&mut rest).split_at_mut((end - first) * token_bytes);
            let part_first = first;
            (rest, first) = (behind, end);
            stale_pixels(stale, part, part_first, token_bytes)
                .map(move |(index, pixels)| (tokens[index], pixels))
        })
    }
}

/// Of the pixels of the tokens from `first` on, those of the tokens `stale`, ascending, each with its index.
fn stale_pixels<'a>(
    stale: &'a [u32],
    pixels: &'a mut [u8],
    first: usize,
    token_bytes: usize,
) -> impl Iterator<Item = (usize, &'a mut [u8])> {
    let tokens = pixels.chunks_exact_mut(token_bytes).enumerate();
    let mut stale = stale.iter().map(|&index| index as usize).peekable();
    tokens.filter_map(move |(index, pixels)| {
        stale.next_if_eq(&(first + index)).map(|index| (index, pixels))
    })
}

/// When the parts of one update ran. A part that did not run has no span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UpdateTimes {
    /// The CPU hands samples to the device: those of the dirty tiles, or the whole frame where the device finds them.
    pub upload: Span,
    /// The device finds the dirty tiles.
    pub detect: Span,
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

/// Keeps the pyramid of one stream up to date and samples tokens from it.
pub trait Retina: Send {
    /// Brings the pyramid up to date with `frame` in the tiles of `dirty`, then samples for every view the tokens that
    /// this may have changed.
    ///
    /// `frame` is all that the pyramid is built from, the newest samples in the dirty tiles and those of earlier
    /// frames in the others; of the kind that the retina was built for. The first update must mark all tiles.
    /// `samples` follow the order of the views, those that the retina was built with and then those that were
    /// [added](Self::add_view), and are the same from update to update. Returns when the bytes are there, and says when its parts ran.
    ///
    /// # Errors
    ///
    /// If the device is lost or refuses. The pyramid is then undefined, and the retina must be dropped.
    fn update(
        &mut self,
        frame: &FrameView<'_>,
        dirty: &TileSet,
        samples: &mut [ViewSample],
    ) -> Result<UpdateTimes, RetinaError>;

    /// What makes views for this retina, on any thread.
    fn view_maker(&self) -> ViewMaker;

    /// Takes in one more view, behind the others: the next update must come with a new [`ViewSample`] for it, in the last
    /// place, all of whose tokens are then sampled. Nothing is built for it, and no memory allocated.
    ///
    /// # Errors
    ///
    /// If the view was made for another retina, or there are [`MOST_VIEWS`]. The view comes back, and nothing has changed.
    fn add_view(&mut self, view: ViewPass) -> Result<(), RefusedView>;

    /// Takes view `index` out, for another thread to drop; those behind it move up. The next update must come without its
    /// [`ViewSample`].
    ///
    /// # Panics
    ///
    /// If there is no such view.
    fn remove_view(&mut self, index: usize) -> ViewPass;

    /// Says whether the coarse level will be read after most updates from now on; at first it will not. Reading it is then
    /// quick: a device copies it whenever an update changes it. What is read does not depend on it.
    fn keep_coarse(&mut self, wanted: bool);

    /// Copies the coarse level out, without allocating memory. `frame` is that of the last update.
    ///
    /// # Errors
    ///
    /// If the device is lost or refuses.
    ///
    /// # Panics
    ///
    /// If `target` is the coarse level of a pyramid of another shape.
    fn read_coarse(
        &mut self,
        frame: &FrameView<'_>,
        target: &mut CoarseLevel,
    ) -> Result<(), RetinaError>;

    /// Copies one level of the pyramid out: R, G, B interleaved, row by row. `frame` is that of the last update. For
    /// pictures and tests; not fast.
    ///
    /// # Errors
    ///
    /// If the device is lost or refuses.
    fn read_level(&mut self, frame: &FrameView<'_>, level: u32) -> Result<Vec<u8>, RetinaError>;

    /// The shape of the pyramid.
    fn shape(&self) -> PyramidShape;
}

/// Keeps the pyramid of one stream up to date like a [`Retina`], and the resident copy too: it finds the tiles to ingest
/// itself, so that the CPU need not look at the samples of a frame.
///
/// For each frame: [`detect`](Self::detect), then [`collect`](Self::collect).
pub trait DetectingRetina: Send {
    /// Compares `frame` with the resident copy, takes the tiles that `rule` names over into the copy and the pyramid, and
    /// samples for every view the tokens that this may have changed.
    ///
    /// `frame` is of the kind that the retina was built for, and the first one that a rule
    /// [says is the first](IngestRule::is_first). `samples` are as for [`Retina::update`]. Returns by how much a sample
    /// of each tile differed from the copy at most, row by row; of the first frame that means nothing.
    ///
    /// # Errors
    ///
    /// If the device is lost or refuses. The pyramid is then undefined, and the retina must be dropped.
    fn detect(
        &mut self,
        frame: &FrameView<'_>,
        rule: &IngestRule,
        samples: &[ViewSample],
    ) -> Result<&[u8], RetinaError>;

    /// Ends the update that `detect` began: copies the tokens that it sampled into `samples`. `ingested` are the tiles
    /// that its rule names for the differences that it returned. Says when the parts ran.
    fn collect(&mut self, ingested: &TileSet, samples: &mut [ViewSample]) -> UpdateTimes;

    /// [`Retina::view_maker`].
    fn view_maker(&self) -> ViewMaker;

    /// [`Retina::add_view`]. Only once an update has ended.
    ///
    /// # Errors
    ///
    /// If the view was made for another retina, or there are [`MOST_VIEWS`]. The view comes back, and nothing has changed.
    fn add_view(&mut self, view: ViewPass) -> Result<(), RefusedView>;

    /// [`Retina::remove_view`]. Only once an update has ended.
    ///
    /// # Panics
    ///
    /// If there is no such view.
    fn remove_view(&mut self, index: usize) -> ViewPass;

    /// [`Retina::keep_coarse`].
    fn keep_coarse(&mut self, wanted: bool);

    /// [`Retina::read_coarse`]. Only once an update has ended.
    ///
    /// # Errors
    ///
    /// If the device is lost or refuses.
    ///
    /// # Panics
    ///
    /// If `target` is the coarse level of a pyramid of another shape.
    fn read_coarse(&mut self, target: &mut CoarseLevel) -> Result<(), RetinaError>;

    /// [`Retina::read_level`].
    ///
    /// # Errors
    ///
    /// If the device is lost or refuses.
    fn read_level(&mut self, level: u32) -> Result<Vec<u8>, RetinaError>;

    /// The shape of the pyramid.
    fn shape(&self) -> PyramidShape;
}

/// For how many views a retina that is built with so many has room.
fn view_room(built_with: usize) -> usize {
    built_with.max(MOST_VIEWS)
}

/// Makes a list of the views of `specs`, with room for all that may come.
#[cfg(feature = "vulkan")]
fn views_of<T, E>(
    specs: &[ViewSpec],
    make: impl Fn(ViewSpec) -> Result<T, E>,
) -> Result<Vec<T>, E> {
    let mut views = Vec::with_capacity(view_room(specs.len()));
    for spec in specs {
        views.push(make(*spec)?);
    }
    Ok(views)
}

/// Panics unless `frame` and `samples` are what a retina for frames of `kind` with views of `formats` expects.
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
