//! What stands out or moves.

use super::FixationPolicy;
use crate::gaze::eye::{CENTRE, Eye};
use crate::gaze::moment::Moment;
use crate::gaze::parameters::GazeParameters;
use crate::gaze::scan::Scan;
use crate::geometry::coarse::CoarseLevel;
use crate::geometry::extent::Extent;
use crate::geometry::feedback::Feedback;
use crate::geometry::fixation::Gaze;

/// Looks around by itself. A `look` holds for its time, or for `silence_ms`.
#[derive(Debug)]
pub struct Salient {
    eye: Eye,
    scan: Scan,
}

impl Salient {
    /// Looks at the middle, until something is seen.
    pub fn new(parameters: GazeParameters, extent: Extent, at: Moment) -> Self {
        let eye = Eye::new(parameters, extent, CENTRE, at);
        Self { eye, scan: Scan::new(parameters, extent) }
    }
}

impl FixationPolicy for Salient {
    fn gaze(&self) -> &Gaze {
        self.eye.gaze()
    }

    fn wants_coarse(&self) -> bool {
        true
    }

    fn take(&mut self, feedback: &Feedback, at: Moment) {
        self.eye.advance(at);
        match *feedback {
            Feedback::Look { x, y, hold_ns } => {
                let hold = self.eye.hold_for_or_until_silence(hold_ns);
                self.eye.look(x, y, hold);
            }
            Feedback::Attend { .. } => {}
            Feedback::Release => {
                self.eye.release();
                if self.eye.obeys() {
                    self.eye.decide_now();
                }
            }
        }
    }

    fn step(&mut self, at: Moment, seen: Option<(&CoarseLevel, u64)>) {
        self.eye.advance(at);
        if self.eye.is_due() {
            self.scan.weigh(seen);
            self.eye.set_relevance(self.scan.relevance());
            self.scan.choose(&mut self.eye);
        }
        self.scan.absorb(seen, self.eye.elapsed_ns());
    }

    fn resize(&mut self, extent: Extent, at: Moment) {
        self.eye.resize(extent, at);
        self.scan.resize(extent);
    }
}
