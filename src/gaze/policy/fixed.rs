//! Policy `fixed`: one point, until a client moves it.

use super::FixationPolicy;
use crate::GazeParameters;
use crate::feedback::Feedback;
use crate::fixation_state::{FixationState, Hold};
use crate::relevance::seen::Seen;
use foveate_core::frame::FrameTime;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::{FixationReason, Gaze};

/// Looks at one point. A `look` without a time moves it permanently, one with a time for that long, and `release`
/// undoes both.
#[derive(Debug)]
pub struct Fixed {
    state: FixationState,
    /// Shares of the width and of the height.
    home: (f64, f64),
}

impl Fixed {
    /// Looks at `home`, in shares of the sides, each 0..=1.
    pub fn new(
        home: (f64, f64),
        parameters: GazeParameters,
        extent: Extent,
        foveae: usize,
        at: FrameTime,
    ) -> Self {
        Self { state: FixationState::new(parameters, extent, foveae, home, at), home }
    }

    fn go_home(&mut self) {
        let (x, y) = self.state.pixel_from_share(self.home);
        self.state.saccade(x, y, FixationReason::Policy);
    }
}

impl FixationPolicy for Fixed {
    fn gaze(&self) -> &Gaze {
        self.state.gaze()
    }

    fn accept_feedback(&mut self, feedback: &Feedback, at: FrameTime) {
        self.state.advance(at);
        match feedback {
            Feedback::Look { points, hold_ns, frame_seq, area } => {
                let hold = hold_ns.map_or(Hold::Forever, |hold_ns| self.state.hold_for(hold_ns));
                self.state.look(points, *area, hold, *frame_seq);
            }
            Feedback::Attend { .. }
            | Feedback::Inject(_)
            | Feedback::Withdraw(_)
            | Feedback::Weigh(_) => {}
            Feedback::Release => {
                self.state.release();
                self.go_home();
            }
        }
    }

    fn arrive(&mut self, at: FrameTime, seen: Option<Seen<'_>>) {
        self.state.advance(at);
        if !self.state.is_held() {
            self.go_home();
        }
        self.state.arrive(seen);
    }

    fn resize(&mut self, extent: Extent, at: FrameTime) {
        self.state.resize(extent, at);
    }
}
