//! Fixation of a view: place, dwell time, hold and saccade rhythm.

use std::sync::Arc;

use crate::frame::FrameTime;
use crate::gaze::GazeParameters;
use crate::geometry::extent::Extent;
use crate::geometry::fixation::{Fixation, FixationReason, Gaze, snapped};
use crate::geometry::relevance::Relevance;

/// Centre of an image, as fractions of its sides.
pub(super) const CENTRE: (f64, f64) = (0.5, 0.5);

/// How long a `look` holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    /// Until it is released.
    Forever,
    /// Until [`FixationState::elapsed_ns`] reaches this.
    Until(u64),
    /// The same, unless newer attention arrives first.
    UntilNewerOr(u64),
}

/// Fixation state of one view. Its time follows the stream's, and stands still where that jumps back.
#[derive(Debug)]
pub(super) struct FixationState {
    parameters: GazeParameters,
    extent: Extent,
    gaze: Gaze,
    /// Fixation of the previous frame: two moves within one frame count as one.
    before: Fixation,
    at: FrameTime,
    elapsed_ns: u64,
    /// When the last saccade was.
    moved_ns: Option<u64>,
    /// Interval of the last decision, counted from the start; `None` makes the next frame due.
    decided: Option<u64>,
    hold: Option<Hold>,
}

impl FixationState {
    /// Starts at `share` of the sides of a source of `extent`.
    pub(super) fn new(
        parameters: GazeParameters,
        extent: Extent,
        share: (f64, f64),
        at: FrameTime,
    ) -> Self {
        let (x, y) = pixel_from_share(extent, share);
        let (x, y) = snapped(extent, x, y);
        let reason = FixationReason::Policy;
        let fixation = Fixation { id: 1, x, y, since_frame: at.frame_seq, reason, weight: 1.0 };
        Self {
            parameters,
            extent,
            gaze: Gaze::at(fixation, None),
            before: fixation,
            at,
            elapsed_ns: 0,
            moved_ns: None,
            decided: None,
            hold: None,
        }
    }

    pub(super) fn gaze(&self) -> &Gaze {
        &self.gaze
    }

    /// Time since the start.
    pub(super) fn elapsed_ns(&self) -> u64 {
        self.elapsed_ns
    }

    pub(super) fn pixel_from_share(&self, share: (f64, f64)) -> (f64, f64) {
        pixel_from_share(self.extent, share)
    }

    /// Advances to a frame; idempotent. Where stream time jumps back, a decision is due at once.
    pub(super) fn advance(&mut self, at: FrameTime) {
        if at == self.at {
            return;
        }
        if at.time_ns < self.at.time_ns {
            self.decide_now();
        }
        let passed_ns = at.time_ns.saturating_sub(self.at.time_ns);
        self.elapsed_ns = self.elapsed_ns.saturating_add(passed_ns);
        self.at = at;
        self.before = self.gaze.first();
        if let Some(Hold::Until(end_ns) | Hold::UntilNewerOr(end_ns)) = self.hold
            && end_ns <= self.elapsed_ns
        {
            self.release();
        }
    }

    /// Whether the current interval has had no decision yet; marks it as decided.
    pub(super) fn is_due(&mut self) -> bool {
        let now = interval(self.elapsed_ns, self.parameters.saccade_hz);
        self.decided.replace(now) != Some(now)
    }

    /// Makes the next frame due.
    pub(super) fn decide_now(&mut self) {
        self.decided = None;
    }

    /// Whether a map may move the fixation: no hold is active and the dwell time is over.
    pub(super) fn may_move(&self) -> bool {
        let dwell_ns = u64::from(self.parameters.dwell_min_ms) * 1_000_000;
        let has_dwelt = |moved_ns: u64| moved_ns.saturating_add(dwell_ns) <= self.elapsed_ns;
        !self.is_held() && self.moved_ns.is_none_or(has_dwelt)
    }

    pub(super) fn is_held(&self) -> bool {
        self.hold.is_some()
    }

    pub(super) fn hold_for(&self, hold_ns: u64) -> Hold {
        Hold::Until(self.elapsed_ns.saturating_add(hold_ns))
    }

    /// A hold of `hold_ns`; without a duration, until newer attention or `silence_ms`.
    pub(super) fn hold_for_or_until_silence(&self, hold_ns: Option<u64>) -> Hold {
        let silence_ns = u64::from(self.parameters.silence_ms) * 1_000_000;
        let until_silence = || Hold::UntilNewerOr(self.elapsed_ns.saturating_add(silence_ns));
        hold_ns.map_or_else(until_silence, |hold_ns| self.hold_for(hold_ns))
    }

    /// Moves to a point in pixels at a client's request; NaN is ignored.
    pub(super) fn look(&mut self, x: f64, y: f64, hold: Hold) {
        if !x.is_nan() && !y.is_nan() {
            self.hold = Some(hold);
            self.saccade(x, y, FixationReason::Look);
        }
    }

    pub(super) fn release(&mut self) {
        self.hold = None;
    }

    /// Whether a client chose the current fixation.
    pub(super) fn is_client_driven(&self) -> bool {
        matches!(self.gaze.first().reason, FixationReason::Look | FixationReason::Attend)
    }

    /// Ends a hold that yields to newer attention.
    pub(super) fn yield_to_newer(&mut self) {
        self.hold.take_if(|hold| matches!(hold, Hold::UntilNewerOr(_)));
    }

    /// Moves to a point in pixels; a new fixation restarts the dwell time.
    pub(super) fn saccade(&mut self, x: f64, y: f64, reason: FixationReason) {
        if self.fixate(x, y, reason) {
            self.moved_ns = Some(self.elapsed_ns);
        }
    }

    pub(super) fn set_relevance(&mut self, relevance: Option<Arc<Relevance>>) {
        self.gaze.relevance = relevance;
    }

    /// Scales the fixation to a new source size. No saccade: the dwell time goes on.
    pub(super) fn resize(&mut self, extent: Extent, at: FrameTime) {
        self.advance(at);
        let Fixation { x, y, reason, .. } = self.gaze.first();
        let scaled = |value: f64, from: u32, to: u32| value / f64::from(from) * f64::from(to);
        let x = scaled(x, self.extent.width, extent.width);
        let y = scaled(y, self.extent.height, extent.height);
        self.extent = extent;
        self.fixate(x, y, reason);
    }

    /// Returns whether this differs from the fixation of the previous frame.
    fn fixate(&mut self, x: f64, y: f64, reason: FixationReason) -> bool {
        let (x, y) = snapped(self.extent, x, y);
        let Fixation { id, x: before_x, y: before_y, reason: before_reason, .. } = self.before;
        let is_new = (x, y, reason) != (before_x, before_y, before_reason);
        let since_frame = self.at.frame_seq;
        let other = Fixation { id: id + 1, x, y, since_frame, reason, weight: 1.0 };
        self.gaze.fixations[0] = if is_new { other } else { self.before };
        is_new
    }
}

fn pixel_from_share(extent: Extent, (x, y): (f64, f64)) -> (f64, f64) {
    (x * f64::from(extent.width), y * f64::from(extent.height))
}

/// Index of the interval of 1 / `hz` that contains `time_ns`.
#[expect(clippy::cast_possible_truncation, reason = "2^64 ns are 2 * 10^13 intervals of 1 ms")]
fn interval(time_ns: u64, hz: f64) -> u64 {
    (time_ns as f64 * 1e-9 * hz) as u64
}
