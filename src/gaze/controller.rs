//! From a policy and the commands of clients to a fixation.

use crate::geometry::extent::Extent;
use crate::geometry::fixation::{Fixation, FixationReason, snapped};

/// What a view looks at when no client tells it otherwise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Policy {
    /// One point.
    Fixed {
        /// Share of the width, 0..=1.
        x: f64,
        /// Share of the height, 0..=1.
        y: f64,
    },
}

/// Decides where one view looks.
#[derive(Clone, Debug)]
pub struct Controller {
    extent: Extent,
    fixation: Fixation,
}

impl Controller {
    /// Starts at the point that `policy` names, in a source of `extent` whose first frame is `frame_seq`.
    pub fn new(policy: Policy, extent: Extent, frame_seq: u64) -> Self {
        let Policy::Fixed { x, y } = policy;
        let (x, y) = snapped(extent, x * f64::from(extent.width), y * f64::from(extent.height));
        let reason = FixationReason::Policy;
        Self { extent, fixation: Fixation { id: 1, x, y, since_frame: frame_seq, reason } }
    }

    /// Where the view looks.
    pub fn fixation(&self) -> Fixation {
        self.fixation
    }

    /// Looks at (`x`, `y`) in pixels from frame `frame_seq` on, or at the nearest point in the image.
    pub fn look(&mut self, x: f64, y: f64, frame_seq: u64) {
        let (x, y) = snapped(self.extent, x, y);
        self.saccade(x, y, FixationReason::Look, frame_seq);
    }

    /// Keeps looking at the same part of the picture after the source changed its size.
    pub fn resize(&mut self, extent: Extent, frame_seq: u64) {
        let scaled = |value: f64, from: u32, to: u32| value / f64::from(from) * f64::from(to);
        let x = scaled(self.fixation.x, self.extent.width, extent.width);
        let y = scaled(self.fixation.y, self.extent.height, extent.height);
        self.extent = extent;
        let (x, y) = snapped(extent, x, y);
        self.saccade(x, y, self.fixation.reason, frame_seq);
    }

    fn saccade(&mut self, x: f64, y: f64, reason: FixationReason, since_frame: u64) {
        if (x, y, reason) != (self.fixation.x, self.fixation.y, self.fixation.reason) {
            self.fixation = Fixation { id: self.fixation.id + 1, x, y, since_frame, reason };
        }
    }
}
