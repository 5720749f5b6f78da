//! Fixations of a view: places, dwell times, hold and saccade rhythm.

use std::sync::Arc;

use arrayvec::ArrayVec;

use super::peaks::Peaks;
use crate::frame::FrameTime;
use crate::gaze::GazeParameters;
use crate::geometry::extent::Extent;
use crate::geometry::fixation::{FOVEAE_MAX, Fixation, FixationReason, Gaze, Points, snapped};
use crate::geometry::relevance::Relevance;
use crate::geometry::weights::{Peak, Weights};

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

/// A fixation, and when a saccade led there; `None` where none did.
#[derive(Clone, Copy, Debug)]
struct Fovea {
    fixation: Fixation,
    moved_ns: Option<u64>,
}

type Foveae = ArrayVec<Fovea, FOVEAE_MAX>;

/// Fixation state of one view. Its time follows the stream's, and stands still where that jumps back.
#[derive(Debug)]
pub(super) struct FixationState {
    parameters: GazeParameters,
    extent: Extent,
    /// Most fixations at a time.
    foveae_max: usize,
    /// Never empty, and no two at the same place.
    foveae: Foveae,
    /// `foveae` and relevance.
    gaze: Gaze,
    /// Those of the previous frame: two moves within one frame count as one.
    before: Foveae,
    /// The greatest id of a fixation up to the previous frame.
    last_id: u64,
    at: FrameTime,
    elapsed_ns: u64,
    /// Interval of the last decision, counted from the start; `None` makes the next frame due.
    decided: Option<u64>,
    hold: Option<Hold>,
}

impl FixationState {
    /// Starts at `share` of the sides of a source of `extent`, for a view of at most `foveae_max` fixations.
    pub(super) fn new(
        parameters: GazeParameters,
        extent: Extent,
        foveae_max: usize,
        share: (f64, f64),
        at: FrameTime,
    ) -> Self {
        let (x, y) = pixel_from_share(extent, share);
        let (x, y) = snapped(extent, x, y);
        let reason = FixationReason::Policy;
        let fixation = Fixation { id: 1, x, y, since_frame: at.frame_seq, reason, weight: 1.0 };
        let foveae = Foveae::from_iter([Fovea { fixation, moved_ns: None }]);
        Self {
            parameters,
            extent,
            foveae_max: foveae_max.min(FOVEAE_MAX),
            gaze: Gaze::at(fixation, None),
            before: foveae.clone(),
            foveae,
            last_id: 1,
            at,
            elapsed_ns: 0,
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
        self.before.clone_from(&self.foveae);
        self.last_id = self.last_id.max(self.gaze.newest().id);
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

    /// Whether a map may change any fixation: no hold is active, and a dwell time is over or there is room for one more.
    pub(super) fn may_move(&self) -> bool {
        let has_room = self.foveae.len() < self.foveae_max;
        !self.is_held() && (has_room || self.foveae.iter().any(|fovea| self.has_dwelt(fovea)))
    }

    fn has_dwelt(&self, fovea: &Fovea) -> bool {
        let dwell_ns = u64::from(self.parameters.dwell_min_ms) * 1_000_000;
        fovea.moved_ns.is_none_or(|moved_ns| moved_ns.saturating_add(dwell_ns) <= self.elapsed_ns)
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

    /// Moves to points in pixels at a client's request, and to nothing else; NaN is ignored.
    pub(super) fn look(&mut self, points: &[(f64, f64)], hold: Hold) {
        let points = points.iter().filter(|(x, y)| !x.is_nan() && !y.is_nan());
        let fovea = |&(x, y): &(f64, f64)| self.arriving(x, y, FixationReason::Look, 1.0);
        let foveae: Foveae = points.map(fovea).take(self.foveae_max).collect();
        if !foveae.is_empty() {
            self.hold = Some(hold);
            self.fixate(&foveae);
        }
    }

    pub(super) fn release(&mut self) {
        self.hold = None;
    }

    /// Whether a client chose a current fixation.
    pub(super) fn is_client_driven(&self) -> bool {
        let reasons = [FixationReason::Look, FixationReason::Attend];
        self.gaze.fixations.iter().any(|fixation| reasons.contains(&fixation.reason))
    }

    /// Ends a hold that yields to newer attention.
    pub(super) fn yield_to_newer(&mut self) {
        self.hold.take_if(|hold| matches!(hold, Hold::UntilNewerOr(_)));
    }

    /// Moves to a point in pixels, and to nothing else; a new fixation restarts the dwell time.
    pub(super) fn saccade(&mut self, x: f64, y: f64, reason: FixationReason) {
        self.fixate(&[self.arriving(x, y, reason, 1.0)]);
    }

    /// Goes to the middle, once every fovea has dwelt, unless one is where it is for `reason`.
    pub(super) fn go_to_middle_unless(&mut self, reason: FixationReason) {
        let is_own = |fovea: &Fovea| fovea.fixation.reason == reason;
        if self.foveae.iter().all(|fovea| self.has_dwelt(fovea) && !is_own(fovea)) {
            let (x, y) = self.pixel_from_share(CENTRE);
            self.saccade(x, y, FixationReason::Policy);
        }
    }

    /// Moves foveae to the peaks of `map`, of which there is at least one, for `reason`. Returns where saccades led.
    ///
    /// Each goes for a peak near it, and stays until it has dwelt and that peak is worth more than its place by the hysteresis.
    /// Peaks that are left get a new fovea; foveae that are left end where their place is not worth one.
    pub(super) fn follow(
        &mut self,
        map: &Weights<'_>,
        peaks: &Peaks,
        reason: FixationReason,
    ) -> Points {
        let goals = peaks.goals(&self.gaze.fixations);
        let (mut foveae, mut reached) = (Foveae::new(), Points::new());
        for (fovea, goal) in self.foveae.iter().zip(goals) {
            let Fixation { x, y, .. } = fovea.fixation;
            let here = peaks.worth(map.at(x, y), (x, y), goal);
            let is_beaten = self.parameters.hysteresis * here < peaks.worth_of(goal);
            if !self.has_dwelt(fovea) || (fovea.fixation.reason == reason && !is_beaten) {
                foveae.push(*fovea);
            } else if let Some(goal) = goal {
                let Peak { x, y, .. } = peaks.as_slice()[goal];
                foveae.push(self.arriving(x, y, reason, peaks.share(goal)));
                reached.push((x, y));
            }
        }
        for (index, Peak { x, y, .. }) in peaks.as_slice().iter().enumerate() {
            if !goals.contains(&Some(index)) {
                foveae.push(self.arriving(*x, *y, reason, peaks.share(index)));
                reached.push((*x, *y));
            }
        }
        self.fixate(&foveae);
        reached
    }

    pub(super) fn set_relevance(&mut self, relevance: Option<Arc<Relevance>>) {
        self.gaze.relevance = relevance;
    }

    /// Scales the fixations to a new source size. No saccade: the dwell times go on.
    pub(super) fn resize(&mut self, extent: Extent, at: FrameTime) {
        self.advance(at);
        let scaled = |value: f64, from: u32, to: u32| value / f64::from(from) * f64::from(to);
        let before = std::mem::replace(&mut self.extent, extent);
        let mut foveae = self.foveae.clone();
        for Fovea { fixation: Fixation { x, y, .. }, .. } in &mut foveae {
            let across = scaled(*x, before.width, extent.width);
            let down = scaled(*y, before.height, extent.height);
            (*x, *y) = snapped(extent, across, down);
        }
        self.fixate(&foveae);
    }

    /// A fovea that a saccade leads to a point now.
    fn arriving(&self, x: f64, y: f64, reason: FixationReason, weight: f32) -> Fovea {
        let (x, y) = snapped(self.extent, x, y);
        let fixation = Fixation { id: 0, x, y, since_frame: self.at.frame_seq, reason, weight };
        Fovea { fixation, moved_ns: Some(self.elapsed_ns) }
    }

    /// Makes these the foveae, the first of those at the same place. What the previous frame fixated for the same reason stays the
    /// fixation that it was; others get the next ids, in order.
    fn fixate(&mut self, foveae: &[Fovea]) {
        let place = |fovea: &Fovea| (fovea.fixation.x, fovea.fixation.y);
        let aim = |fovea: &Fovea| (place(fovea), fovea.fixation.reason);
        self.foveae.clear();
        let mut id = self.last_id;
        for fovea in foveae {
            if self.foveae.iter().any(|other| place(other) == place(fovea)) {
                continue;
            }
            let same = self.before.iter().find(|before| aim(before) == aim(fovea)).copied();
            self.foveae.push(same.unwrap_or_else(|| {
                id += 1;
                let since_frame = self.at.frame_seq;
                Fovea { fixation: Fixation { id, since_frame, ..fovea.fixation }, ..*fovea }
            }));
        }
        self.gaze.fixations = self.foveae.iter().map(|fovea| fovea.fixation).collect();
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
