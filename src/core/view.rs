//! What a view wants of its stream.

use crate::gaze::GazeParameters;
use crate::gaze::controller::Policy;
use crate::layout::Layout;
use crate::plane::PlaneSpec;
use crate::token::TokenFormat;

/// Most views of a stream: it has room for so many from the beginning, so that more can be opened while it runs.
pub const VIEWS_MAX: usize = 32;

/// Default budget of a view, in tokens.
pub const DEFAULT_BUDGET: u32 = 273;

/// What a view wants of its stream.
#[derive(Clone, Debug, PartialEq)]
pub struct ViewSpec {
    /// How the budget is spent.
    pub layout: Layout,
    /// Most tokens of a frame, at least 1.
    pub budget: usize,
    /// What a token looks like in memory.
    pub format: TokenFormat,
    /// Who chooses where the view looks.
    pub policy: Policy,
    /// Timing and inhibition of its gaze.
    pub parameters: GazeParameters,
}

impl ViewSpec {
    /// Most tokens of a frame of any source.
    pub fn capacity(&self) -> usize {
        self.layout.capacity(self.format.patch_side, self.budget)
    }

    /// The planes that the view publishes.
    pub fn planes(&self) -> Vec<PlaneSpec> {
        vec![PlaneSpec::pixels(self.format), PlaneSpec::relevance()]
    }
}

impl Default for ViewSpec {
    /// Foveal, around the middle of the image: [`DEFAULT_BUDGET`] tokens of the default format.
    fn default() -> Self {
        Self {
            layout: Layout::default(),
            budget: DEFAULT_BUDGET as usize,
            format: TokenFormat::default(),
            policy: Policy::default(),
            parameters: GazeParameters::default(),
        }
    }
}
