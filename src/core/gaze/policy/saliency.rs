//! What stands out or moves.

use super::FixationPolicy;
use crate::frame::FrameTime;
use crate::gaze::GazeParameters;
use crate::gaze::fixation_state::{CENTRE, FixationState};
use crate::gaze::scan::Scan;
use crate::geometry::extent::Extent;
use crate::geometry::feedback::Feedback;
use crate::geometry::fixation::Gaze;
use crate::geometry::tile::TileSet;
use crate::relevance::seen::Seen;

/// Looks around by itself. A `look` holds for its time, or for `silence_ms`.
#[derive(Debug)]
pub struct Salient {
    state: FixationState,
    scan: Scan,
    /// Whether masks have changed since relevance was computed.
    is_outdated: bool,
}

impl Salient {
    /// Looks at the middle, until something is seen.
    pub fn new(parameters: GazeParameters, extent: Extent, foveae: usize, at: FrameTime) -> Self {
        let state = FixationState::new(parameters, extent, foveae, CENTRE, at);
        Self { state, scan: Scan::new(parameters, extent, foveae), is_outdated: false }
    }
}

impl FixationPolicy for Salient {
    fn gaze(&self) -> &Gaze {
        self.state.gaze()
    }

    fn wants_coarse(&self) -> bool {
        true
    }

    fn avoid(&mut self, places: &[(f64, f64)]) {
        self.scan.avoid(places);
    }

    fn hide(&mut self, texels: &TileSet, _frame_seq: u64) {
        self.scan.hide(texels);
        self.state.hide(texels);
        self.is_outdated = true;
    }

    fn take(&mut self, feedback: &Feedback, at: FrameTime) {
        self.state.advance(at);
        match feedback {
            Feedback::Look { points, hold_ns, frame_seq } => {
                let hold = self.state.hold_for_or_until_silence(*hold_ns);
                self.state.look(points, hold, *frame_seq);
            }
            Feedback::Attend { .. } | Feedback::Inject(_) | Feedback::Weigh(_) => {}
            Feedback::Release => {
                self.state.release();
                if self.state.is_client_driven() {
                    self.state.decide_now();
                }
            }
        }
    }

    fn step(&mut self, at: FrameTime, seen: Option<Seen<'_>>) {
        self.state.advance(at);
        let is_due = self.state.is_due();
        if std::mem::take(&mut self.is_outdated) || is_due {
            self.scan.weigh(seen);
            self.state.set_relevance(self.scan.relevance());
        }
        if is_due {
            self.scan.choose(&mut self.state);
        }
        self.state.pursue(seen);
        self.scan.absorb(seen, self.state.elapsed_ns());
    }

    fn resize(&mut self, extent: Extent, at: FrameTime) {
        self.state.resize(extent, at);
        self.scan.resize(extent);
    }
}
