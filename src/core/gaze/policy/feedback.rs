//! The attention that clients send, and saliency where they are silent.

use std::sync::Arc;

use super::FixationPolicy;
use crate::frame::FrameTime;
use crate::gaze::GazeParameters;
use crate::gaze::fixation_state::{CENTRE, FixationState, SentMap};
use crate::gaze::peaks::Peaks;
use crate::gaze::scan::Scan;
use crate::geometry::attention::AttentionMap;
use crate::geometry::extent::Extent;
use crate::geometry::feedback::Feedback;
use crate::geometry::fixation::{FixationReason, Gaze};
use crate::geometry::relevance::Relevance;
use crate::relevance::seen::Seen;

/// Looks where the newest map has its peaks. Nothing is inhibited: who sends the same map again wants to go on looking at
/// the same thing.
#[derive(Debug)]
pub struct Feedbacked {
    state: FixationState,
    scan: Scan,
    parameters: GazeParameters,
    /// What the client attends to, until it is silent for too long.
    consumer: Option<Consumer>,
    /// Maps that clients sent so far.
    maps_taken: u64,
}

#[derive(Debug)]
struct Consumer {
    /// `None` since the image that it lay over has another size.
    map: Option<Arc<AttentionMap>>,
    /// Of the newest map; `None` until a decision made it, or where the map says nothing.
    relevance: Option<Arc<Relevance>>,
    /// Of the newest map; `None` until a decision found them.
    peaks: Option<Peaks>,
    /// The frame that the map was made from.
    frame_seq: u64,
    received_ns: u64,
    is_new: bool,
}

impl Feedbacked {
    /// Looks around by itself, until a client says something.
    pub fn new(parameters: GazeParameters, extent: Extent, foveae: usize, at: FrameTime) -> Self {
        let state = FixationState::new(parameters, extent, foveae, CENTRE, at);
        Self {
            state,
            scan: Scan::new(parameters, extent, foveae),
            parameters,
            consumer: None,
            maps_taken: 0,
        }
    }

    fn attend(&mut self, map: &Arc<AttentionMap>, frame_seq: u64) {
        let relevance = self.consumer.take().and_then(|consumer| consumer.relevance);
        let map = Some(Arc::clone(map));
        let received_ns = self.state.elapsed_ns();
        let (peaks, is_new) = (None, true);
        self.consumer = Some(Consumer { map, relevance, peaks, frame_seq, received_ns, is_new });
        self.maps_taken += 1;
        self.state.yield_to_newer();
    }

    /// Forgets a client that has been silent for too long.
    fn listen(&mut self) {
        let silence_ns = u64::from(self.parameters.silence_ms) * 1_000_000;
        let heard = |consumer: &mut Consumer| {
            self.state.elapsed_ns() < consumer.received_ns.saturating_add(silence_ns)
        };
        self.consumer.take_if(|consumer| !heard(consumer));
    }

    fn decide(&mut self, seen: Option<Seen<'_>>) {
        let Some(consumer) = &mut self.consumer else {
            self.scan.weigh(seen);
            self.state.set_relevance(self.scan.relevance());
            self.scan.choose(&mut self.state);
            return;
        };
        let Some(map) = consumer.map.clone() else { return };
        if std::mem::take(&mut consumer.is_new) {
            consumer.relevance =
                self.scan.relevance_of(&map, consumer.frame_seq, consumer.relevance.take());
        }
        self.state.set_relevance(consumer.relevance.clone());
        if self.state.may_move() {
            let weights = map.as_weights();
            let peaks = consumer.peaks.get_or_insert_with(|| self.scan.peaks_of(&weights));
            let now_ns = self.state.elapsed_ns();
            let sent = SentMap { number: self.maps_taken, frame_seq: consumer.frame_seq };
            let reason = FixationReason::Attend;
            for place in self.state.follow(&weights, peaks, reason, Some(sent)) {
                self.scan.leave_trace(place, now_ns);
            }
        }
    }
}

impl FixationPolicy for Feedbacked {
    fn gaze(&self) -> &Gaze {
        self.state.gaze()
    }

    fn is_settled(&self) -> bool {
        self.consumer.as_ref().is_none_or(|consumer| !consumer.is_new)
    }

    fn wants_coarse(&self) -> bool {
        true
    }

    fn avoid(&mut self, places: &[(f64, f64)]) {
        self.scan.avoid(places);
    }

    fn take(&mut self, feedback: &Feedback, at: FrameTime) {
        self.state.advance(at);
        match feedback {
            Feedback::Look { points, hold_ns } => {
                let hold = self.state.hold_for_or_until_silence(*hold_ns);
                self.state.look(points, hold);
            }
            Feedback::Attend { map, frame_seq } => self.attend(map, *frame_seq),
            Feedback::Inject(_) | Feedback::Weigh(_) => {}
            Feedback::Release => {
                self.state.release();
                if self.consumer.take().is_some() || self.state.is_client_driven() {
                    self.state.decide_now();
                }
            }
        }
    }

    fn step(&mut self, at: FrameTime, seen: Option<Seen<'_>>) {
        self.state.advance(at);
        self.listen();
        if self.state.is_due() {
            self.decide(seen);
        }
        self.state.pursue(seen);
        self.scan.absorb(seen, self.state.elapsed_ns());
    }

    fn resize(&mut self, extent: Extent, at: FrameTime) {
        self.state.resize(extent, at);
        self.scan.resize(extent);
        if let Some(consumer) = &mut self.consumer {
            consumer.map = None;
            // Nothing is left of it to decide.
            consumer.is_new = false;
        }
    }
}
