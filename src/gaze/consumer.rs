//! The attention of a consumer (points or a map), until its lease or hold time is over.

use std::sync::Arc;

use super::compensation::{Placed, placed};
use super::fixation_state::{FixationState, SentMap};
use super::peaks::{Peaks, peak_radius_px};
use super::weigher::relevance_of;
use crate::GazeParameters;
use crate::motion::Motions;
use crate::relevance::seen::Seen;
use foveate_core::geometry::attention::AttentionMap;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::FixationReason;
use foveate_core::geometry::relevance::Relevance;

/// Looks where the newest map of a consumer has its peaks. Who sends the same map again wants to go on looking at the same thing.
#[derive(Debug)]
pub(super) struct Attention {
    parameters: GazeParameters,
    extent: Extent,
    /// `None` before the first map, and after the consumer has been silent for too long.
    consumer: Option<Consumer>,
    /// Maps that clients sent so far.
    maps_taken: u64,
}

#[derive(Debug)]
struct Consumer {
    /// The newest map; `None` after the image under the map has changed its size.
    map: Option<Arc<AttentionMap>>,
    /// The map moved to where its content is now, and the frame after which that holds; `None` until a decision moved it. The map is
    /// `None` if all of its content has left the picture.
    placed: Option<(Option<Arc<AttentionMap>>, u64)>,
    /// Relevance by the newest map; `None` until a decision made it, or if the map weighs all places equally.
    relevance: Option<Arc<Relevance>>,
    /// Peaks of the newest map; `None` until a decision finds them.
    peaks: Option<Peaks>,
    /// The frame that the map was made from.
    frame_seq: u64,
    /// The frame over which the map lies.
    lies_in: u64,
    received_ns: u64,
    is_new: bool,
}

impl Attention {
    /// Attention to a source of `extent` before any map.
    pub(super) fn new(parameters: GazeParameters, extent: Extent) -> Self {
        Self { parameters, extent, consumer: None, maps_taken: 0 }
    }

    /// Takes a map that was made from frame `frame_seq` and lies over frame `lies_in`.
    pub(super) fn attend(
        &mut self,
        map: &Arc<AttentionMap>,
        (frame_seq, lies_in): (u64, u64),
        state: &mut FixationState,
    ) {
        let relevance = self.consumer.take().and_then(|consumer| consumer.relevance);
        let map = Some(Arc::clone(map));
        let received_ns = state.elapsed_ns();
        let (peaks, placed, is_new) = (None, None, true);
        let consumer =
            Consumer { map, placed, relevance, peaks, frame_seq, lies_in, received_ns, is_new };
        self.consumer = Some(consumer);
        self.maps_taken += 1;
        state.yield_to_newer();
    }

    /// Forgets a consumer that has been silent for too long.
    pub(super) fn listen(&mut self, now_ns: u64) {
        let silence_ns = u64::from(self.parameters.silence_ms) * 1_000_000;
        let is_silent =
            |consumer: &mut Consumer| consumer.received_ns.saturating_add(silence_ns) <= now_ns;
        self.consumer.take_if(is_silent);
    }

    /// Whether a consumer decides.
    pub(super) fn is_held(&self) -> bool {
        self.consumer.is_some()
    }

    /// Forgets the consumer.
    pub(super) fn release(&mut self) {
        self.consumer = None;
    }

    /// Whether the newest map has been decided on.
    pub(super) fn is_settled(&self) -> bool {
        self.consumer.as_ref().is_none_or(|consumer| !consumer.is_new)
    }

    /// The source has another size: forgets the map, which lay over the image before; the consumer still decides.
    pub(super) fn resize(&mut self, extent: Extent) {
        self.extent = extent;
        if let Some(consumer) = &mut self.consumer {
            (consumer.map, consumer.placed) = (None, None);
            // Nothing is left of it to decide.
            consumer.is_new = false;
        }
    }

    /// Decides by the newest map, if there is one.
    pub(super) fn decide(&mut self, seen: Option<Seen<'_>>, state: &mut FixationState) {
        let Self { parameters, extent, maps_taken, .. } = *self;
        let Some(consumer) = &mut self.consumer else { return };
        let motions = seen.and_then(|seen| seen.motion).filter(|_| parameters.compensation);
        let Some(map) = consumer.place(motions, extent) else { return };
        if std::mem::take(&mut consumer.is_new) {
            let made = relevance_of(&map.as_weights(), extent, parameters.relevance_gain);
            let is_same =
                |known: &Arc<Relevance>| made.as_ref().is_some_and(|made| known.map == *made);
            if !consumer.relevance.as_ref().is_some_and(is_same) {
                let frame_seq = consumer.frame_seq;
                consumer.relevance = made.map(|map| Arc::new(Relevance { map, frame_seq }));
            }
        }
        state.set_relevance(consumer.relevance.clone());
        if state.may_move() {
            // Pursuit finds where the peaks of the client's map have moved.
            let sent = consumer.map.clone().filter(|_| parameters.pursuit);
            let map = sent.unwrap_or(map);
            let weights = map.as_weights();
            let peaks = consumer.peaks.get_or_insert_with(|| {
                Peaks::of(&weights, extent, state.foveae_max(), peak_radius_px(extent))
            });
            let sent = SentMap { number: maps_taken, frame_seq: consumer.lies_in };
            state.follow(&weights, peaks, |_, _| FixationReason::Attend, Some(sent));
        }
    }
}

impl Consumer {
    /// Moves the map to where it lies in the frame to come, once a frame, and returns it. What was made of it before counts no longer
    /// then.
    fn place(&mut self, motions: Option<&Motions>, extent: Extent) -> Option<Arc<AttentionMap>> {
        let given = self.map.as_ref()?;
        let after = motions.and_then(Motions::newest).map_or(0, |newest| newest.frames().1);
        if self.placed.as_ref().is_none_or(|(_, placed_after)| *placed_after != after) {
            let placed = motions.map_or(Placed::AsItIs, |motions| {
                placed(given, self.lies_in, motions, extent, peak_radius_px(extent))
            });
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
