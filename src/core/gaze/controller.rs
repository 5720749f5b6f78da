//! From a policy and the feedback of clients to where a view looks.

use std::sync::Arc;

use super::log::GazeLog;
use super::policy::FixationPolicy;
use super::policy::feedback::Feedbacked;
use super::policy::fixed::Fixed;
use super::policy::replay::Replay;
use super::policy::saliency::Salient;
use crate::frame::FrameTime;
use crate::gaze::parameters::GazeParameters;
use crate::geometry::coarse::CoarseLevel;
use crate::geometry::extent::Extent;
use crate::geometry::feedback::Feedback;
use crate::geometry::fixation::Gaze;

/// What a view looks at when no client tells it otherwise.
#[derive(Clone, Debug, PartialEq)]
pub enum Policy {
    /// One point.
    Fixed {
        /// Share of the width, 0..=1.
        x: f64,
        /// Share of the height, 0..=1.
        y: f64,
    },
    /// The attention that clients send, and saliency where they are silent.
    Feedback,
    /// What stands out or moves.
    Saliency,
    /// What was recorded.
    Replay(Arc<GazeLog>),
}

/// Decides where one view looks.
///
/// Of each frame it is told first what clients said, by [`take`](Self::take), and then to decide, by [`step`](Self::step). The
/// same calls lead to the same gaze.
#[derive(Debug)]
pub struct Controller {
    policy: Box<dyn FixationPolicy>,
}

impl Controller {
    /// Starts to look at a source of `extent`, of which nothing has been seen yet.
    pub fn new(policy: Policy, parameters: GazeParameters, extent: Extent, at: FrameTime) -> Self {
        let policy: Box<dyn FixationPolicy> = match policy {
            Policy::Fixed { x, y } => Box::new(Fixed::new((x, y), parameters, extent, at)),
            Policy::Feedback => Box::new(Feedbacked::new(parameters, extent, at)),
            Policy::Saliency => Box::new(Salient::new(parameters, extent, at)),
            Policy::Replay(log) => Box::new(Replay::new(log, extent, at)),
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
