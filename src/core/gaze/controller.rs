//! From a policy and the feedback of clients to where a view looks.

use std::path::PathBuf;
use std::sync::Arc;

use super::log::{GazeLog, GazeLogError};
use super::policy::FixationPolicy;
use super::policy::feedback::Feedbacked;
use super::policy::fixed::Fixed;
use super::policy::replay::Replay;
use super::policy::saliency::Salient;
use crate::frame::FrameTime;
use crate::gaze::GazeParameters;
use crate::geometry::coarse::CoarseLevel;
use crate::geometry::extent::Extent;
use crate::geometry::feedback::Feedback;
use crate::geometry::fixation::{FOVEAE_MAX, Gaze};
#[cfg(feature = "serde")]
use crate::value::{Real, checked};

/// What a view looks at when no client tells it otherwise. `Log` is the log that is replayed, or the path of one.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Policy<Log = Arc<GazeLog>> {
    /// One point, until a client moves the view to others.
    Fixed {
        /// From 0 at the left edge of the source to 1 at the right one.
        #[cfg_attr(feature = "serde", serde(default = "middle"))]
        #[cfg_attr(feature = "serde", serde(deserialize_with = "checked::<Real<0, 100>, _, _>"))]
        x: f64,
        /// From 0 at the top edge of the source to 1 at the bottom one.
        #[cfg_attr(feature = "serde", serde(default = "middle"))]
        #[cfg_attr(feature = "serde", serde(deserialize_with = "checked::<Real<0, 100>, _, _>"))]
        y: f64,
    },
    /// The attention that clients send, and saliency where they are silent.
    Feedback,
    /// What stands out or moves.
    Saliency,
    /// What was recorded.
    Replay {
        /// By `foveate record`.
        #[cfg_attr(feature = "serde", serde(default))]
        log: Log,
    },
}

fn middle() -> f64 {
    0.5
}

impl<Log> Default for Policy<Log> {
    fn default() -> Self {
        Self::Fixed { x: middle(), y: middle() }
    }
}

impl<Log> Policy<Log> {
    /// Its name in configurations.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Fixed { .. } => "fixed",
            Self::Feedback => "feedback",
            Self::Saliency => "saliency",
            Self::Replay { .. } => "replay",
        }
    }

    /// Whether the attention of clients decides.
    pub const fn is_feedback(&self) -> bool {
        matches!(self, Self::Feedback)
    }
}

impl Policy<PathBuf> {
    /// The policy, with its log.
    ///
    /// # Errors
    ///
    /// If the log cannot be read, or is none.
    pub fn load(&self) -> Result<Policy, GazeLogError> {
        Ok(match self {
            Self::Fixed { x, y } => Policy::Fixed { x: *x, y: *y },
            Self::Feedback => Policy::Feedback,
            Self::Saliency => Policy::Saliency,
            Self::Replay { log } => Policy::Replay { log: Arc::new(GazeLog::load(log)?) },
        })
    }
}

/// Decides where one view looks.
///
/// For each frame, first pass it the feedback with [`take`](Self::take), then let it decide with [`step`](Self::step).
/// The same calls lead to the same gaze.
#[derive(Debug)]
pub struct Controller {
    policy: Box<dyn FixationPolicy>,
}

impl Controller {
    /// Starts to look at a source of `extent`, of which nothing has been seen yet, with at most `foveae` fixations at a time, 1 to
    /// [`FOVEAE_MAX`].
    pub fn new(
        policy: Policy,
        parameters: GazeParameters,
        extent: Extent,
        foveae: usize,
        at: FrameTime,
    ) -> Self {
        assert!((1..=FOVEAE_MAX).contains(&foveae), "1 to 8 foveae");
        let policy: Box<dyn FixationPolicy> = match policy {
            Policy::Fixed { x, y } => Box::new(Fixed::new((x, y), parameters, extent, foveae, at)),
            Policy::Feedback => Box::new(Feedbacked::new(parameters, extent, foveae, at)),
            Policy::Saliency => Box::new(Salient::new(parameters, extent, foveae, at)),
            Policy::Replay { log } => Box::new(Replay::new(log, extent, foveae, at)),
        };
        Self { policy }
    }

    /// Where the view looks.
    pub fn gaze(&self) -> &Gaze {
        self.policy.gaze()
    }

    /// Whether the newest feedback has been decided on.
    pub fn is_settled(&self) -> bool {
        self.policy.is_settled()
    }

    /// Whether the plan of this frame must not depend on the one before, as it did not when it was recorded.
    pub fn plans_afresh(&self) -> bool {
        self.policy.plans_afresh()
    }

    /// Whether [`step`](Self::step) wants to see the coarse level.
    pub fn wants_coarse(&self) -> bool {
        self.policy.wants_coarse()
    }

    /// Takes what clients said before the frame of `at`, the newest of it.
    pub fn take(&mut self, feedback: &Feedback, at: FrameTime) {
        self.policy.take(feedback, at);
    }

    /// Decides, if it is time to, where the frame of `at` is looked at. `seen` is the coarse level of the frame before and that
    /// frame's number, if it is [wanted](Self::wants_coarse) and there was one.
    pub fn step(&mut self, at: FrameTime, seen: Option<(&CoarseLevel, u64)>) {
        self.policy.step(at, seen);
    }

    /// Keeps looking at the same part of the picture after the source changed its size.
    pub fn resize(&mut self, extent: Extent, at: FrameTime) {
        self.policy.resize(extent, at);
    }
}
