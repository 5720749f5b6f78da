//! From a policy and the feedback of clients to where a view looks.

use std::sync::Arc;

use super::log::GazeLog;
use crate::config::GazeParameters;
use crate::frame::FrameStamp;
use crate::geometry::coarse::CoarseLevel;
use crate::geometry::extent::Extent;
use crate::geometry::feedback::Feedback;
use crate::geometry::fixation::{Fixation, FixationReason, Gaze, snapped};

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

/// A moment of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Which frame.
    pub frame_seq: u64,
    /// Its time in the stream, in nanoseconds: its presentation time, or, where it has none, when it was taken. It may jump, also
    /// back, where a file begins again.
    pub time_ns: u64,
}

impl Moment {
    /// The moment of the frame of `stamp`.
    pub fn of(stamp: &FrameStamp) -> Self {
        let time_ns = stamp.pts_ns.unwrap_or(stamp.capture_ns);
        Self { frame_seq: stamp.frame_seq, time_ns }
    }
}

/// Decides where one view looks.
#[derive(Clone, Debug)]
pub struct Controller {
    extent: Extent,
    gaze: Gaze,
}

impl Controller {
    /// Starts to look at a source of `extent`, of which nothing has been seen yet.
    pub fn new(policy: Policy, parameters: GazeParameters, extent: Extent, at: Moment) -> Self {
        let _ = parameters;
        let (x, y) = if let Policy::Fixed { x, y } = policy { (x, y) } else { (0.5, 0.5) };
        let (x, y) = snapped(extent, x * f64::from(extent.width), y * f64::from(extent.height));
        let reason = FixationReason::Policy;
        let fixation = Fixation { id: 1, x, y, since_frame: at.frame_seq, reason };
        Self { extent, gaze: Gaze { fixation, relevance: None } }
    }

    /// Where the view looks.
    pub fn gaze(&self) -> &Gaze {
        &self.gaze
    }

    /// Whether the newest feedback has been decided on.
    pub fn is_settled(&self) -> bool {
        true
    }

    /// Whether [`step`](Self::step) wants to see the coarse level.
    pub fn wants_coarse(&self) -> bool {
        false
    }

    /// Takes what clients said before the frame of `at`, the newest of it.
    pub fn take(&mut self, feedback: &Feedback, at: Moment) {
        if let Feedback::Look { x, y, .. } = *feedback {
            let (x, y) = snapped(self.extent, x, y);
            self.saccade(x, y, FixationReason::Look, at.frame_seq);
        }
    }

    /// Decides, if it is time to, where the frame of `at` is looked at. `seen` is the coarse level of the frame before and that
    /// frame's number, if it is [wanted](Self::wants_coarse) and there was one.
    pub fn step(&mut self, at: Moment, seen: Option<(&CoarseLevel, u64)>) {
        let _ = (at, seen);
    }

    /// Keeps looking at the same part of the picture after the source changed its size.
    pub fn resize(&mut self, extent: Extent, at: Moment) {
        let scaled = |value: f64, from: u32, to: u32| value / f64::from(from) * f64::from(to);
        let fixation = self.gaze.fixation;
        let x = scaled(fixation.x, self.extent.width, extent.width);
        let y = scaled(fixation.y, self.extent.height, extent.height);
        self.extent = extent;
        let (x, y) = snapped(extent, x, y);
        self.saccade(x, y, fixation.reason, at.frame_seq);
    }

    fn saccade(&mut self, x: f64, y: f64, reason: FixationReason, since_frame: u64) {
        let fixation = &mut self.gaze.fixation;
        if (x, y, reason) != (fixation.x, fixation.y, fixation.reason) {
            *fixation = Fixation { id: fixation.id + 1, x, y, since_frame, reason };
        }
    }
}
