//! Policies `auto`, `feedback`, `saliency` and `relevance`: look at what the view needs most, where clients are silent.

use super::FixationPolicy;
use crate::GazeParameters;
use crate::consumer::Attention;
use crate::feedback::Feedback;
use crate::fixation_state::{CENTRE, FixationState};
use crate::need::Need;
use crate::relevance::scene::Scene;
use crate::relevance::seen::{FrameParts, Seen};
use crate::weigher::Weigher;
use crate::weigher::channels::ChannelWeigher;
use foveate_core::frame::FrameTime;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::{Gaze, Points};
use foveate_core::geometry::tile::TileSet;

/// Looks at what the view needs most, as far as saliency or channels weigh it, where no consumer attends to anything. A `look` holds for
/// its time, or for `silence_ms`.
#[derive(Debug)]
pub struct NeedPolicy {
    parameters: GazeParameters,
    state: FixationState,
    weigher: Weigher,
    /// Attention of consumers; `None` if they do not decide.
    attention: Option<Attention>,
    /// Places where foveae of other policies look, in pixels.
    avoided: Points,
    /// Whether masks have changed since anything was weighed.
    is_outdated: bool,
}

impl NeedPolicy {
    /// Looks at the middle, until something is seen.
    pub(crate) fn new(
        weigher: Weigher,
        parameters: GazeParameters,
        extent: Extent,
        foveae: usize,
        at: FrameTime,
    ) -> Self {
        let state = FixationState::new(parameters, extent, foveae, CENTRE, at);
        let avoided = Points::new();
        Self { parameters, state, weigher, attention: None, avoided, is_outdated: false }
    }

    /// Lets the attention of consumers decide; the policy chooses while no consumer attends to anything.
    pub(crate) fn attending(self, extent: Extent) -> Self {
        Self { attention: Some(Attention::new(self.parameters, extent)), ..self }
    }

    fn channels(&mut self) -> Option<&mut ChannelWeigher> {
        match &mut self.weigher {
            Weigher::Channels(channels) => Some(channels),
            Weigher::Saliency(_) => None,
        }
    }

    /// Takes in a picture, once; if it `is_due`, weighs it.
    fn weigh(&mut self, seen: Option<Seen<'_>>, is_due: bool) {
        let now_ns = self.state.elapsed_ns();
        match &mut self.weigher {
            Weigher::Saliency(saliency) => saliency.see(seen, is_due, now_ns),
            Weigher::Channels(channels) => {
                channels.see(seen, is_due, &self.state.gaze().fixations, now_ns);
            }
        }
    }

    fn is_attending(&self) -> bool {
        self.attention.as_ref().is_some_and(Attention::is_held)
    }
}

impl FixationPolicy for NeedPolicy {
    fn gaze(&self) -> &Gaze {
        self.state.gaze()
    }

    fn is_settled(&self) -> bool {
        self.attention.as_ref().is_none_or(Attention::is_settled)
    }

    fn scene(&self) -> Option<&Scene> {
        match &self.weigher {
            Weigher::Channels(channels) => Some(channels.scene()),
            Weigher::Saliency(_) => None,
        }
    }

    fn avoid(&mut self, places: &[(f64, f64)]) {
        self.avoided = places.iter().copied().collect();
    }

    fn apply_mask(&mut self, texels: &TileSet, frame_seq: u64) {
        self.weigher.apply_mask(texels, frame_seq);
        self.state.apply_mask(texels);
        self.is_outdated = true;
    }

    fn accept_feedback(&mut self, feedback: &Feedback, at: FrameTime) {
        self.state.advance(at);
        let now_ns = self.state.elapsed_ns();
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
            Feedback::Inject(given) => {
                if let Some(channels) = self.channels() {
                    channels.inject(given, now_ns);
                }
            }
            Feedback::Withdraw(names) => {
                if let Some(channels) = self.channels() {
                    channels.withdraw(names);
                }
            }
            Feedback::Weigh(weights) => {
                if let Some(channels) = self.channels() {
                    channels.weigh(weights);
                    self.state.decide_now();
                }
            }
            Feedback::Release => {
                self.state.release();
                if let Some(attention) = &mut self.attention {
                    attention.release();
                }
                if let Some(channels) = self.channels() {
                    channels.release();
                }
                self.state.decide_now();
            }
        }
    }

    fn reads(&self, most: FrameParts) -> FrameParts {
        // Places from clients move along with the picture, whose motion the coarse level gives.
        let is_asked = self.state.is_client_driven() || self.is_attending();
        let FrameParts { coarse, tiles } = self.weigher.reads();
        FrameParts { coarse: most.coarse && (coarse || is_asked), tiles: most.tiles && tiles }
    }

    fn arrive(&mut self, at: FrameTime, seen: Option<Seen<'_>>) {
        self.state.advance(at);
        let now_ns = self.state.elapsed_ns();
        if let Some(attention) = &mut self.attention {
            attention.listen(now_ns);
            if attention.is_held() && self.state.is_due() {
                attention.decide(seen, &mut self.state);
            }
        }
        if std::mem::take(&mut self.is_outdated) {
            self.weigh(seen, true);
            if !self.is_attending() {
                self.state.set_relevance(self.weigher.relevance());
            }
        }
        self.state.arrive(seen);
        if let Some(channels) = self.channels() {
            channels.note(FrameTime { time_ns: now_ns, ..at });
        }
    }

    fn decide(&mut self, seen: Option<Seen<'_>>, need: &Need, changed_frame: &[u64]) {
        let is_due = !self.is_attending() && self.state.is_due();
        self.weigh(seen, is_due);
        if is_due {
            let relevance = self.weigher.relevance();
            self.state.set_relevance(relevance);
            self.weigher.choose(need, changed_frame, &self.avoided, &mut self.state);
        }
    }

    fn resize(&mut self, extent: Extent, at: FrameTime) {
        self.state.resize(extent, at);
        self.weigher.resize(extent);
        if let Some(attention) = &mut self.attention {
            attention.resize(extent);
        }
    }
}
