//! The attention that clients send, and saliency where they are silent.

use std::sync::Arc;

use super::FixationPolicy;
use crate::frame::FrameTime;
use crate::gaze::GazeParameters;
use crate::gaze::compensation::Placed;
use crate::gaze::fixation_state::{CENTRE, FixationState, SentMap};
use crate::gaze::peaks::Peaks;
use crate::gaze::scan::Scan;
use crate::geometry::attention::AttentionMap;
use crate::geometry::extent::Extent;
use crate::geometry::feedback::Feedback;
use crate::geometry::fixation::{FixationReason, Gaze};
use crate::geometry::relevance::Relevance;
use crate::geometry::tile::TileSet;
use crate::motion::Motions;
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
    /// Whether masks have changed since relevance was computed.
    is_outdated: bool,
}

#[derive(Debug)]
struct Consumer {
    /// `None` since the image that it lay over has another size.
    map: Option<Arc<AttentionMap>>,
    /// The map where it lies now, and the frame after which that is; `None` until a decision moved it. Without a map if all of it has
    /// left the picture.
    placed: Option<(Option<Arc<AttentionMap>>, u64)>,
    /// Of the newest map; `None` until a decision made it, or where the map says nothing.
    relevance: Option<Arc<Relevance>>,
    /// Of the newest map; `None` until a decision found them.
    peaks: Option<Peaks>,
    /// The frame that the map was made from.
    frame_seq: u64,
    /// The frame over which it lies.
    lies_in: u64,
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
            is_outdated: false,
        }
    }

    fn attend(&mut self, map: &Arc<AttentionMap>, frame_seq: u64, lies_in: u64) {
        let relevance = self.consumer.take().and_then(|consumer| consumer.relevance);
        let map = Some(Arc::clone(map));
        let received_ns = self.state.elapsed_ns();
        let (peaks, placed, is_new) = (None, None, true);
        let consumer =
            Consumer { map, placed, relevance, peaks, frame_seq, lies_in, received_ns, is_new };
        self.consumer = Some(consumer);
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
        let motions = seen.and_then(|seen| seen.motion).filter(|_| self.parameters.compensation);
        let Some(map) = consumer.place(motions, &self.scan) else { return };
        if std::mem::take(&mut consumer.is_new) {
            consumer.relevance =
                self.scan.relevance_of(&map, consumer.frame_seq, consumer.relevance.take());
        }
        self.state.set_relevance(consumer.relevance.clone());
        if self.state.may_move() {
            // Pursuit finds by itself where the peaks of the map that was sent have gone.
            let sent = consumer.map.clone().filter(|_| self.parameters.pursuit);
            let map = sent.unwrap_or(map);
            let weights = map.as_weights();
            let peaks = consumer.peaks.get_or_insert_with(|| self.scan.peaks_of(&weights));
            let now_ns = self.state.elapsed_ns();
            let sent = SentMap { number: self.maps_taken, frame_seq: consumer.lies_in };
            let reason = FixationReason::Attend;
            for place in self.state.follow(&weights, peaks, reason, Some(sent)) {
                self.scan.leave_trace(place, now_ns);
            }
        }
    }
}

impl Consumer {
    /// Moves the map to where it lies in the frame to come, once a frame, and returns it. What was made of it before counts no longer
    /// then.
    fn place(&mut self, motions: Option<&Motions>, scan: &Scan) -> Option<Arc<AttentionMap>> {
        let given = self.map.as_ref()?;
        let after = motions.and_then(Motions::newest).map_or(0, |newest| newest.frames().1);
        if self.placed.as_ref().is_none_or(|(_, placed_after)| *placed_after != after) {
            let placed =
                motions.map_or(Placed::AsItIs, |motions| scan.placed(given, self.lies_in, motions));
            let map = match placed {
                Placed::AsItIs => Some(Arc::clone(given)),
                Placed::At(map) => Some(Arc::new(map)),
                Placed::Nowhere => None,
            };
            let before = self.placed.replace((map, after)).and_then(|(map, _)| map);
            let is_same = match (&before, self.placed.as_ref().and_then(|(map, _)| map.as_ref())) {
                (Some(before), Some(now)) => Arc::ptr_eq(before, now),
                _ => false,
            };
            if !is_same {
                self.peaks = None;
                self.is_new = true;
            }
        }
        let placed = self.placed.as_ref().and_then(|(map, _)| map.clone());
        // Nothing is left of it to decide.
        self.is_new &= placed.is_some();
        placed
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
            Feedback::Attend { map, frame_seq, lies_in } => {
                self.attend(map, *frame_seq, lies_in.unwrap_or(*frame_seq));
            }
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
        let is_outdated = std::mem::take(&mut self.is_outdated);
        if self.state.is_due() {
            self.decide(seen);
        } else if is_outdated && self.consumer.is_none() {
            self.scan.weigh(seen);
            self.state.set_relevance(self.scan.relevance());
        }
        self.state.pursue(seen);
        self.scan.absorb(seen, self.state.elapsed_ns());
    }

    fn resize(&mut self, extent: Extent, at: FrameTime) {
        self.state.resize(extent, at);
        self.scan.resize(extent);
        if let Some(consumer) = &mut self.consumer {
            (consumer.map, consumer.placed) = (None, None);
            // Nothing is left of it to decide.
            consumer.is_new = false;
        }
    }
}
