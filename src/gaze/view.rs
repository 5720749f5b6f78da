//! Specification of a view: gaze policy, layout, token format, channels and depth.

use crate::GazeParameters;
use crate::controller::Policy;
use crate::layout::adaptive::{
    self,
    demand::{ConsumerMemory, Demand},
};
use crate::layout::{Layout, PlanRequest};
use crate::relevance::injection::check_channel_name;
use crate::relevance::seen::FrameParts;
use crate::sight::Sight;
use foveate_core::channel::cells_of;
use foveate_core::channel::{CHANNELS, PUBLISHED_MAX};
use foveate_core::depth::DepthDetail;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::Gaze;
use foveate_core::geometry::patch::PatchGrids;
use foveate_core::geometry::plan::TokenPlan;
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_core::plane::PlaneSpec;
use foveate_core::token::{DType, TokenFormat};
use foveate_core::value::ConfigValue;

/// Most views of a stream: it has room for so many from the beginning, so that more can be opened while it runs.
pub const VIEWS_MAX: usize = 32;

/// Default budget of a view, in tokens.
pub const DEFAULT_BUDGET: u32 = 273;

/// Fewest and most slots of a ring by default: one is written, one is read, and one is the newest; and beyond 8 frames a reader is
/// not slow but stopped.
const DEFAULT_SLOTS: [usize; 2] = [3, 8];

/// Bytes of a ring that stays in the cache of one core between two rounds: most have 1 or 2 MiB of their own.
const CACHED_RING_BYTES: usize = 1 << 20;

/// Default slots of a ring whose frames have so many bytes: 3 to 8, as many as a cache holds.
///
/// The writer comes back to a slot after as many frames. With few, it writes to lines that are still cached, and the reader finds
/// them there; with many, a slow reader has more time: `slots - 1` frames until what it reads is overwritten.
pub fn default_slot_count(frame_bytes: usize) -> usize {
    let [fewest, most] = DEFAULT_SLOTS;
    (CACHED_RING_BYTES / frame_bytes.max(1)).clamp(fewest, most)
}

/// Specification of a view.
#[derive(Clone, Debug, PartialEq)]
pub struct ViewSpec {
    /// Layout, which spends the budget.
    pub layout: Layout,
    /// Most tokens of a frame, at least 1.
    pub budget: usize,
    /// Number format of a token.
    pub format: TokenFormat,
    /// Policy that chooses where the view looks.
    pub policy: Policy,
    /// Timing of its gaze.
    pub parameters: GazeParameters,
    /// The channels that are published, by name; of the policy [`Policy::Relevance`], at most 63.
    pub channels: Vec<String>,
    /// The published depth.
    pub depth: DepthDetail,
    /// Whether the boxes of tokens in space are published.
    pub boxes: bool,
}

/// What a view needs of the detail of the pictures.
#[derive(Clone, Debug)]
pub enum Needs {
    /// Neither plans nor fixations follow the detail.
    Nothing,
    /// The fixations follow the detail.
    Fixations(Sight),
    /// The plans and the fixations follow the detail.
    Plan(Box<Demand>),
}

impl Needs {
    /// Forgets what the consumer has been shown.
    pub fn reset(&mut self) {
        match self {
            Self::Nothing => {}
            Self::Fixations(sight) => sight.reset(),
            Self::Plan(demand) => demand.reset(),
        }
    }

    /// Levels of detail that the view follows, 0 where a picture fits the budget; `None` if it does not follow the detail.
    pub fn levels(&self) -> Option<u32> {
        match self {
            Self::Nothing => None,
            Self::Fixations(sight) => Some(sight.base()),
            Self::Plan(demand) => Some(demand.base()),
        }
    }
}

impl ViewSpec {
    /// Most tokens of a frame of any source.
    pub fn capacity(&self) -> usize {
        self.layout.capacity(self.format.patch_side, self.budget)
    }

    /// The tokens of a frame for a gaze; `before` is the plan of the frame before, if something of it is kept.
    pub fn plan(&self, gaze: &Gaze, shape: PyramidShape, before: Option<&TokenPlan>) -> TokenPlan {
        self.plan_by(gaze, shape, before, None)
    }

    /// The tokens of a frame for a gaze, as [`plan`](Self::plan), and for the demand of a view whose layout follows the detail.
    pub fn plan_by(
        &self,
        gaze: &Gaze,
        shape: PyramidShape,
        before: Option<&TokenPlan>,
        demand: Option<&Demand>,
    ) -> TokenPlan {
        let Self { layout, budget, format, .. } = self;
        let request = PlanRequest {
            shape,
            patch_side: format.patch_side,
            budget: *budget,
            fixations: &gaze.foci(),
            relevance: gaze.relevance.as_ref().map(|relevance| &relevance.map),
            before,
            demand,
        };
        layout.plan_for(gaze, &request)
    }

    /// What the view needs of the detail of pictures of `shape`, before the first picture.
    pub fn needs(&self, shape: PyramidShape) -> Needs {
        let grids = PatchGrids::new(shape, self.format.patch_side);
        let base = adaptive::base_level(grids, self.budget);
        match self.layout {
            Layout::Adaptive { memory } => Needs::Plan(Box::new(Demand::new(memory, grids, base))),
            _ if self.policy.is_need() => Needs::Fixations(Sight::new(shape.extent(), base)),
            _ => Needs::Nothing,
        }
    }

    /// The planes that the view publishes of a source of `extent`.
    #[expect(clippy::cast_possible_truncation, reason = "at most 63 channels")]
    pub fn planes(&self, extent: Extent) -> Vec<PlaneSpec> {
        let mut planes = vec![PlaneSpec::pixels(self.format), PlaneSpec::relevance()];
        if !self.channels.is_empty() {
            let (grid, count) = (cells_of(extent).0, self.channels.len() as u32);
            planes.push(PlaneSpec::channels(self.channel_dtype(), count, grid));
        }
        match self.depth {
            DepthDetail::None => {}
            DepthDetail::Tokens => planes.push(PlaneSpec::depth_of_tokens()),
            DepthDetail::Texels => {
                let side = self.format.patch_side;
                planes.push(PlaneSpec::depth_of_texels(self.channel_dtype(), side));
            }
        }
        if self.boxes {
            planes.push(PlaneSpec::boxes());
        }
        if self.publishes_tiles() {
            planes.push(PlaneSpec::tiles(extent));
        }
        planes
    }

    /// Whether the view publishes when each tile last changed, for consumers that keep a canvas.
    pub fn publishes_tiles(&self) -> bool {
        matches!(self.layout, Layout::Adaptive { memory: ConsumerMemory::Canvas })
    }

    /// The most that decisions of the policy read of each frame.
    pub fn reads(&self) -> FrameParts {
        self.policy.reads(self.parameters.pursuit)
    }

    /// Whether the view publishes depth.
    pub fn wants_depth(&self) -> bool {
        self.depth != DepthDetail::None || self.boxes
    }

    /// Number format of published channels, and of the depth of texels: binary32 beside texels of it, otherwise binary16.
    pub fn channel_dtype(&self) -> DType {
        if self.format.dtype == DType::F32 { DType::F32 } else { DType::F16 }
    }
}

impl Default for ViewSpec {
    /// A view of the default layout and policy, with [`DEFAULT_BUDGET`] tokens of the default format.
    fn default() -> Self {
        Self {
            layout: Layout::default(),
            budget: DEFAULT_BUDGET as usize,
            format: TokenFormat::default(),
            policy: Policy::default(),
            parameters: GazeParameters::default(),
            channels: Vec::new(),
            depth: DepthDetail::None,
            boxes: false,
        }
    }
}

/// Names of different channels; `"all"` stands for those that are computed.
///
/// # Errors
///
/// If the value is not allowed.
pub fn channel_names(given: &ConfigValue) -> Result<Vec<String>, String> {
    let names = match given.text() {
        Some("all") => Some(CHANNELS.iter().map(|channel| channel.name.to_owned()).collect()),
        _ => given.list(|given| given.text().map(str::to_owned)),
    };
    let fits = |names: &Vec<String>| {
        let is_new = |index: usize| !names[..index].contains(&names[index]);
        let are_allowed = names.iter().all(|name| check_channel_name(name).is_ok());
        are_allowed && names.len() <= PUBLISHED_MAX && (0..names.len()).all(is_new)
    };
    let allowed = format_args!(
        "\"all\", or a list of at most {PUBLISHED_MAX} different names of channels, such as [\"strokes\", \"change\"]"
    );
    given.expect(names.filter(fits), allowed)
}
