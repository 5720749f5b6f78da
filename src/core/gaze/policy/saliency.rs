//! Policies `saliency` and `feedback`: fixate what stands out or moves, or what a consumer attends to.

use super::FixationPolicy;
use crate::frame::FrameTime;
use crate::gaze::GazeParameters;
use crate::gaze::consumer::Attention;
use crate::gaze::fixation_state::{CENTRE, FixationState};
use crate::gaze::scan::Scan;
use crate::geometry::extent::Extent;
use crate::geometry::feedback::Feedback;
use crate::geometry::fixation::Gaze;
use crate::geometry::tile::TileSet;
use crate::layout::adaptive::demand::Demand;
use crate::relevance::seen::Seen;

/// Looks around on its own; with the policy `feedback`, where no consumer attends to anything. A `look` holds for its time, or for
/// `silence_ms`.
#[derive(Debug)]
pub struct Salient {
    state: FixationState,
    scan: Scan,
    /// `None` where consumers do not decide.
    attention: Option<Attention>,
    /// Whether masks have changed since relevance was computed.
    is_outdated: bool,
    /// State, and that, before the newest decision.
    before: (FixationState, bool),
}

impl Salient {
    /// Looks at the middle, until something is seen.
    pub fn new(parameters: GazeParameters, extent: Extent, foveae: usize, at: FrameTime) -> Self {
        let state = FixationState::new(parameters, extent, foveae, CENTRE, at);
        let scan = Scan::new(parameters, extent, foveae);
        let before = (state.clone(), false);
        Self { state, scan, attention: None, is_outdated: false, before }
    }

    /// The same, for as long as no consumer sends maps.
    pub fn attending(
        parameters: GazeParameters,
        extent: Extent,
        foveae: usize,
        at: FrameTime,
    ) -> Self {
        let attention = Some(Attention::new(parameters));
        Self { attention, ..Self::new(parameters, extent, foveae, at) }
    }

    fn look_around(&mut self, seen: Option<Seen<'_>>, is_due: bool) {
        if std::mem::take(&mut self.is_outdated) || is_due {
            self.scan.weigh(seen);
            self.state.set_relevance(self.scan.relevance());
        }
        if is_due {
            self.scan.choose(&mut self.state);
        }
    }
}

impl FixationPolicy for Salient {
    fn gaze(&self) -> &Gaze {
        self.state.gaze()
    }

    fn is_settled(&self) -> bool {
        self.attention.as_ref().is_none_or(Attention::is_settled)
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
            Feedback::Look { points, hold_ns, frame_seq, area } => {
                let hold = self.state.hold_for_or_until_silence(*hold_ns);
                self.state.look(points, *area, hold, *frame_seq);
            }
            Feedback::Attend { map, frame_seq, lies_in } => {
                if let Some(attention) = &mut self.attention {
                    let frames = (*frame_seq, lies_in.unwrap_or(*frame_seq));
                    attention.attend(map, frames, &mut self.state);
                }
            }
            Feedback::Inject(_) | Feedback::Withdraw(_) | Feedback::Weigh(_) => {}
            Feedback::Release => {
                self.state.release();
                let was_held = self.attention.as_mut().is_some_and(Attention::release);
                if was_held || self.state.is_client_driven() {
                    self.state.decide_now();
                }
            }
        }
    }

    fn decide(&mut self, at: FrameTime, seen: Option<Seen<'_>>, _demand: Option<&Demand>) {
        self.scan.begin_decision(seen);
        self.before = (self.state.clone(), self.is_outdated);
        self.state.advance(at);
        let (now_ns, is_due) = (self.state.elapsed_ns(), self.state.is_due());
        // Whoever decides, so that it does not matter whether a decision that was taken back looked around.
        if self.is_outdated || is_due {
            self.scan.weigh_saliency(seen);
        }
        if let Some(attention) = &mut self.attention {
            attention.listen(now_ns);
        }
        match &mut self.attention {
            Some(attention) if attention.is_held() => {
                self.is_outdated = false;
                if is_due {
                    attention.decide(seen, &mut self.scan, &mut self.state);
                }
            }
            _ => self.look_around(seen, is_due),
        }
    }

    fn looks_ahead(&self) -> bool {
        self.attention.as_ref().is_none_or(|attention| !attention.is_held())
    }

    fn take_back(&mut self) {
        self.scan.take_back();
        (self.state, self.is_outdated) = self.before.clone();
    }

    fn arrive(&mut self, at: FrameTime, seen: Option<Seen<'_>>) {
        self.state.advance(at);
        self.state.arrive(seen);
    }

    fn absorb(&mut self, seen: Option<Seen<'_>>) {
        self.scan.absorb(seen, self.state.elapsed_ns());
    }

    fn resize(&mut self, extent: Extent, at: FrameTime) {
        self.state.resize(extent, at);
        self.scan.resize(extent);
        if let Some(attention) = &mut self.attention {
            attention.forget_map();
        }
    }
}
