//! One eye: where it looks, since when, and when it may move.

use std::sync::Arc;

use super::moment::Moment;
use crate::gaze::parameters::GazeParameters;
use crate::geometry::extent::Extent;
use crate::geometry::fixation::{Fixation, FixationReason, Gaze, snapped};
use crate::geometry::relevance::Relevance;

/// The middle of an image, in shares of its sides.
pub(super) const CENTRE: (f64, f64) = (0.5, 0.5);

/// How long a `look` holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    /// Until it is released.
    Forever,
    /// Until so much time has passed, in nanoseconds of the eye's time.
    Until(u64),
    /// The same, but newer attention ends it too.
    UntilNewerOr(u64),
}

/// An eye. Its time is the stream's, but stands still where that jumps back.
#[derive(Debug)]
pub(super) struct Eye {
    parameters: GazeParameters,
    extent: Extent,
    gaze: Gaze,
    /// Where it looked in the frame before: who moves twice in a frame has moved once.
    before: Fixation,
    /// The moment that it went on to last.
    at: Moment,
    elapsed_ns: u64,
    /// When it last moved; `None` if it never has.
    moved_ns: Option<u64>,
    /// The last decision, counted in intervals since the start; `None` if the next frame decides.
    decided: Option<u64>,
    hold: Option<Hold>,
}

impl Eye {
    /// An eye that looks at `share` of the sides of a source of `extent`, because its policy says so.
    pub(super) fn new(
        parameters: GazeParameters,
        extent: Extent,
        share: (f64, f64),
        at: Moment,
    ) -> Self {
        let (x, y) = pixel_from_share(extent, share);
        let (x, y) = snapped(extent, x, y);
        let reason = FixationReason::Policy;
        let fixation = Fixation { id: 1, x, y, since_frame: at.frame_seq, reason };
        Self {
            parameters,
            extent,
            gaze: Gaze { fixation, relevance: None },
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

    /// Its time in nanoseconds, 0 at the start.
    pub(super) fn elapsed_ns(&self) -> u64 {
        self.elapsed_ns
    }

    pub(super) fn pixel_from_share(&self, share: (f64, f64)) -> (f64, f64) {
        pixel_from_share(self.extent, share)
    }

    /// Goes on to a moment; again to the same one, nothing happens. A stream that begins again is decided on at once.
    pub(super) fn advance(&mut self, at: Moment) {
        if at == self.at {
            return;
        }
        if at.time_ns < self.at.time_ns {
            self.decide_now();
        }
        let passed_ns = at.time_ns.saturating_sub(self.at.time_ns);
        self.elapsed_ns = self.elapsed_ns.saturating_add(passed_ns);
        self.at = at;
        self.before = self.gaze.fixation;
        if let Some(Hold::Until(end_ns) | Hold::UntilNewerOr(end_ns)) = self.hold
            && end_ns <= self.elapsed_ns
        {
            self.release();
        }
    }

    /// Whether an interval has begun of which nothing has been decided yet; if so, that it now is.
    pub(super) fn is_due(&mut self) -> bool {
        let now = interval(self.elapsed_ns, self.parameters.saccade_hz);
        self.decided.replace(now) != Some(now)
    }

    /// The next frame decides, whenever the last decision was.
    pub(super) fn decide_now(&mut self) {
        self.decided = None;
    }

    /// Whether a map may move it: no client holds it, and it has dwelt for long enough.
    pub(super) fn may_move(&self) -> bool {
        let dwell_ns = u64::from(self.parameters.dwell_min_ms) * 1_000_000;
        let has_dwelt = |moved_ns: u64| moved_ns.saturating_add(dwell_ns) <= self.elapsed_ns;
        !self.is_held() && self.moved_ns.is_none_or(has_dwelt)
    }

    pub(super) fn is_held(&self) -> bool {
        self.hold.is_some()
    }

    /// A hold of so many nanoseconds from now.
    pub(super) fn hold_for(&self, hold_ns: u64) -> Hold {
        Hold::Until(self.elapsed_ns.saturating_add(hold_ns))
    }

    /// A hold of so many nanoseconds, or without them for as long as a client's word counts.
    pub(super) fn hold_for_or_until_silence(&self, hold_ns: Option<u64>) -> Hold {
        let silence_ns = u64::from(self.parameters.silence_ms) * 1_000_000;
        let until_silence = || Hold::UntilNewerOr(self.elapsed_ns.saturating_add(silence_ns));
        hold_ns.map_or_else(until_silence, |hold_ns| self.hold_for(hold_ns))
    }

    /// Looks at a point in pixels because a client says so. What is no point is not looked at.
    pub(super) fn look(&mut self, x: f64, y: f64, hold: Hold) {
        if !x.is_nan() && !y.is_nan() {
            self.hold = Some(hold);
            self.saccade(x, y, FixationReason::Look);
        }
    }

    /// Ends a hold.
    pub(super) fn release(&mut self) {
        self.hold = None;
    }

    /// Whether it looks where a client made it look.
    pub(super) fn obeys(&self) -> bool {
        matches!(self.gaze.fixation.reason, FixationReason::Look | FixationReason::Attend)
    }

    /// Attention came: ends a hold that yields to it.
    pub(super) fn yield_to_newer(&mut self) {
        self.hold.take_if(|hold| matches!(hold, Hold::UntilNewerOr(_)));
    }

    /// Looks at a point in pixels.
    pub(super) fn saccade(&mut self, x: f64, y: f64, reason: FixationReason) {
        if self.turn(x, y, reason) {
            self.moved_ns = Some(self.elapsed_ns);
        }
    }

    /// What matters beside the fixation, from now on.
    pub(super) fn set_relevance(&mut self, relevance: Option<Arc<Relevance>>) {
        self.gaze.relevance = relevance;
    }

    /// Keeps looking at the same part of the picture. That is no saccade: the picture grew or shrank around the eye.
    pub(super) fn resize(&mut self, extent: Extent, at: Moment) {
        self.advance(at);
        let Fixation { x, y, reason, .. } = self.gaze.fixation;
        let scaled = |value: f64, from: u32, to: u32| value / f64::from(from) * f64::from(to);
        let x = scaled(x, self.extent.width, extent.width);
        let y = scaled(y, self.extent.height, extent.height);
        self.extent = extent;
        self.turn(x, y, reason);
    }

    /// Points at a place; says whether that is another fixation than the one in the frame before.
    fn turn(&mut self, x: f64, y: f64, reason: FixationReason) -> bool {
        let (x, y) = snapped(self.extent, x, y);
        let Fixation { id, x: before_x, y: before_y, reason: before_reason, .. } = self.before;
        let is_new = (x, y, reason) != (before_x, before_y, before_reason);
        let since_frame = self.at.frame_seq;
        let other = Fixation { id: id + 1, x, y, since_frame, reason };
        self.gaze.fixation = if is_new { other } else { self.before };
        is_new
    }
}

fn pixel_from_share(extent: Extent, (x, y): (f64, f64)) -> (f64, f64) {
    (x * f64::from(extent.width), y * f64::from(extent.height))
}

/// Which interval of a rhythm of `hz` a time lies in.
#[expect(clippy::cast_possible_truncation, reason = "2^64 ns are 2 * 10^13 intervals of 1 ms")]
fn interval(time_ns: u64, hz: f64) -> u64 {
    (time_ns as f64 * 1e-9 * hz) as u64
}
