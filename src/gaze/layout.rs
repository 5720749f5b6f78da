//! Where the tokens of a frame lie: pure functions from extent, patch side, budget, fixations, relevance and demand to a
//! [`TokenPlan`].

use arrayvec::ArrayVec;

use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::{FOVEAE_MAX, Fixation, Focus, Gaze};
use foveate_core::geometry::patch::PatchGrids;
use foveate_core::geometry::plan::TokenPlan;
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_core::geometry::region::Region;
use foveate_core::geometry::relevance::RelevanceMap;
use foveate_core::json::Named;
use foveate_core::value::{Keys, one_of, path, pixels, whole};

pub mod adaptive;
mod directional;
pub mod foveal;
pub mod inset;
pub mod rings;
pub mod samples;
mod uniform;
mod windows;

use self::adaptive::demand::{ConsumerMemory, Demand};
use self::inset::Inset;
use self::rings::Rings;
use self::samples::Samples;

/// How a view spends its budget of tokens.
#[derive(Clone, Debug, PartialEq)]
pub enum Layout {
    /// Finest where the picture loses most to a coarser step.
    Adaptive {
        /// What the consumer keeps between frames.
        memory: ConsumerMemory,
    },
    /// Full resolution at the fixations, coarser with eccentricity.
    Foveal {
        /// The eccentricity in pixels at which magnification has halved; `None` is
        /// [`foveal::default_e0_px`].
        e0_px: Option<f64>,
        /// Fixations at a time, 1 to [`FOVEAE_MAX`].
        foveae: u32,
        /// Highest level of a token, as far as the budget allows; `None` for no limit.
        coarsest: Option<u32>,
    },
    /// A uniform grid over the picture, and blocks of finer squares over what is looked at.
    Inset(Inset),
    /// Tokens of one step everywhere, row by row.
    Uniform,
    /// As [`Foveal`](Self::Foveal), with boxes that may be halved along one axis.
    Directional {
        /// Eccentricity at which magnification has halved, as in the layout `foveal`.
        e0_px: Option<f64>,
    },
    /// Nested blocks of patches around the fixation.
    Rings(Rings),
    /// Tokens at the points of a table.
    Samples(Samples),
    /// Squares around the fixation, each twice as wide as the one before, the last over the whole picture.
    Windows,
}

impl Default for Layout {
    fn default() -> Self {
        Self::Adaptive { memory: ConsumerMemory::None }
    }
}

/// Input of a token plan.
#[derive(Clone, Copy, Debug)]
pub struct PlanRequest<'a> {
    /// The pyramid.
    pub shape: PyramidShape,
    /// P: side of a token in texels.
    pub patch_side: u32,
    /// Most tokens, at least 1.
    pub budget: usize,
    /// Where the view looks, at least one place.
    pub fixations: &'a [Focus],
    /// How much each part of the image matters; `None` where all of it matters equally.
    pub relevance: Option<&'a RelevanceMap>,
    /// The plan of the frame before, of the same layout over the same picture; a foveal plan keeps a part of it.
    pub before: Option<&'a TokenPlan>,
    /// What the view needs of each part of the picture, for [`Layout::Adaptive`]; `None` where all of it matters equally.
    pub demand: Option<&'a Demand>,
}

impl Named for Layout {
    /// Each layout, with the defaults of its keys.
    fn all() -> Vec<Self> {
        vec![
            Self::default(),
            Self::Foveal { e0_px: None, foveae: 1, coarsest: None },
            Self::Inset(Inset::default()),
            Self::Uniform,
            Self::Directional { e0_px: None },
            Self::Rings(Rings::default()),
            Self::Samples(Samples::default()),
            Self::Windows,
        ]
    }

    fn name(&self) -> &'static str {
        self.name()
    }
}

impl Layout {
    /// The key of the layout, and its own beside it.
    pub fn keys(&mut self, keys: &mut dyn Keys) {
        let all = Self::all().into_iter().map(|layout| (layout.name(), layout));
        keys.variant("layout", self, one_of, all, |layout, keys| match layout {
            Self::Adaptive { memory } => keys.key("memory", memory, one_of),
            Self::Foveal { e0_px, foveae, coarsest } => {
                keys.optional("e0", e0_px, pixels);
                keys.key("foveae", foveae, whole(1..=8));
                keys.optional("coarsest", coarsest, whole(0..=11));
            }
            Self::Inset(inset) => inset.keys(keys),
            Self::Directional { e0_px } => keys.optional("e0", e0_px, pixels),
            Self::Rings(rings) => rings.keys(keys),
            Self::Samples(samples) => keys.key("table", &mut samples.file, path),
            Self::Uniform | Self::Windows => {}
        });
    }

    /// Name of the layout in configurations and rings.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Adaptive { .. } => "adaptive",
            Self::Foveal { .. } => "foveal",
            Self::Inset(_) => "inset",
            Self::Uniform => "uniform",
            Self::Directional { .. } => "directional",
            Self::Rings(_) => "rings",
            Self::Samples(_) => "samples",
            Self::Windows => "windows",
        }
    }

    /// Most fixations that a plan takes into account.
    pub const fn foveae(&self) -> usize {
        match self {
            Self::Foveal { foveae, .. } => *foveae as usize,
            Self::Inset(inset) => inset.blocks as usize,
            Self::Adaptive { .. } => FOVEAE_MAX,
            _ => 1,
        }
    }

    /// Whether plans of the layout follow the detail of the picture itself.
    pub const fn follows_detail(&self) -> bool {
        matches!(self, Self::Adaptive { .. })
    }

    /// Most tokens of a plan over any source, at most `budget`.
    pub fn capacity(&self, patch_side: u32, budget: usize) -> usize {
        let largest = Extent::new(Extent::SIDE_MAX, Extent::SIDE_MAX);
        match self {
            Self::Adaptive { .. }
            | Self::Foveal { .. }
            | Self::Directional { .. }
            | Self::Inset(_)
            | Self::Uniform => budget,
            Self::Rings(rings) => rings.token_count().min(budget),
            Self::Samples(samples) => samples.rows.len().min(budget),
            Self::Windows => windows::steps(largest, patch_side, budget).count(),
        }
    }

    /// Columns and rows of its tokens, if they form a grid over the picture, row by row.
    pub fn grid(&self, shape: PyramidShape, patch_side: u32, budget: usize) -> Option<Extent> {
        matches!(self, Self::Uniform).then(|| uniform::grid(shape.extent(), patch_side, budget))
    }

    /// The plan of at most as many tokens as the budget, without requested points.
    pub fn plan(&self, request: &PlanRequest<'_>) -> TokenPlan {
        self.plan_around(request, &[])
    }

    /// The plan for a gaze, whose fixations the request has: sharp at what somebody asked for.
    pub(crate) fn plan_for(&self, gaze: &Gaze, request: &PlanRequest<'_>) -> TokenPlan {
        let target = |fixation: &Fixation| fixation.is_asked().then(|| fixation.target());
        let mut asked: ArrayVec<_, FOVEAE_MAX> = gaze.fixations.iter().map(target).collect();
        if asked.iter().all(Option::is_none) {
            asked.clear();
        }
        self.plan_around(request, &asked)
    }

    /// The plan. `asked` has for each fixation, in order, the box or the point that a client asked for; it is empty if no client asked
    /// for any.
    fn plan_around(&self, request: &PlanRequest<'_>, asked: &[Option<Region>]) -> TokenPlan {
        let PlanRequest { shape, patch_side, budget, fixations, relevance, before, demand } =
            *request;
        assert!(0 < budget, "a plan has at least one token");
        let points: Vec<_> = fixations.iter().map(|focus| (focus.x, focus.y)).collect();
        let first = points.first().copied().expect("a view looks somewhere");
        let grids = || PatchGrids::new(shape, patch_side);
        let or_default = |e0_px: &Option<f64>| {
            e0_px.unwrap_or_else(|| foveal::default_e0_px(shape.extent(), patch_side))
        };
        let priority =
            |e0_px: f64| foveal::Priority { fixations: &points, e0_px, relevance, asked };
        let tokens = match self {
            Self::Adaptive { .. } => adaptive::tokens(grids(), budget, demand, fixations, before),
            Self::Foveal { e0_px, coarsest, .. } => {
                let priority = priority(or_default(e0_px));
                foveal::tokens(grids(), budget, *coarsest, &priority, before)
            }
            Self::Inset(inset) => inset::tokens(inset, request),
            Self::Uniform => uniform::tokens(shape.extent(), patch_side, budget),
            Self::Directional { e0_px } => {
                let asked = asked.first().copied().flatten();
                directional::tokens(request, or_default(e0_px), asked)
            }
            Self::Rings(rings) => rings.tokens(shape.extent(), patch_side, budget, first),
            Self::Samples(samples) => samples.tokens(shape.extent(), patch_side, budget, first),
            Self::Windows => windows::tokens(shape.extent(), patch_side, budget, first),
        };
        TokenPlan { patch_side, tokens }
    }
}

/// A priority, which is not negative, as part of the key of a heap: such numbers are ordered as their bits are.
fn heap_key(priority: f64) -> u64 {
    priority.to_bits()
}
