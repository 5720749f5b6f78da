//! Fixations of a view: places, dwell times, hold and saccade rhythm.

use std::sync::Arc;

use arrayvec::ArrayVec;

use super::peaks::{Peaks, peak_radius_px};
use super::pursuit::{Track, stepped};
use crate::GazeParameters;
use crate::feedback::LookArea;
use crate::motion::Motions;
use crate::relevance::seen::Seen;
use foveate_core::frame::FrameTime;
use foveate_core::geometry::coarse::CoarseLevel;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::{
    FOVEAE_MAX, Fixation, FixationReason, Gaze, Points, snapped,
};
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_core::geometry::region::Region;
use foveate_core::geometry::relevance::Relevance;
use foveate_core::geometry::tile::TileSet;
use foveate_core::geometry::weights::{Peak, Weights};

/// Centre of an image, as fractions of its sides.
pub(super) const CENTRE: (f64, f64) = (0.5, 0.5);

/// The reasons of fixations that a client chose.
const ASKED: [FixationReason; 2] = [FixationReason::Look, FixationReason::Attend];

/// Duration of a `look`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    /// The look holds until it is released.
    Forever,
    /// The look holds until [`FixationState::elapsed_ns`] reaches this.
    Until(u64),
    /// The look holds until newer attention arrives, or [`FixationState::elapsed_ns`] reaches this.
    UntilNewerOr(u64),
}

/// How and when a fovea came to its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arrival {
    /// Without a saccade, or the fovea lost what it followed: it need not dwell.
    None,
    /// By a saccade with the next frame.
    Next,
    /// By a saccade at this [time](FixationState::elapsed_ns).
    At(u64),
}

/// A current fixation, with its requested box, object track and dwell start.
#[derive(Clone, Copy, Debug)]
struct Fovea {
    /// The fixation as it is published; its id is 0 until it gets one.
    fixation: Fixation,
    /// The box that somebody asked for, in pixels from the point.
    around: Option<Region>,
    arrival: Arrival,
    /// The object that it follows.
    track: Track,
    /// The last map that was free to move it, by its number; 0 for none.
    decided_by: u64,
    /// Whether the fovea lost what it followed, and no map has decided on it since.
    is_lost: bool,
}

/// A map that a client sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct SentMap {
    /// Number of the map, from 1.
    pub(super) number: u64,
    /// `frame_seq` of the picture that its peaks are in.
    pub(super) frame_seq: u64,
}

impl Fovea {
    /// The fovea after map `by` decided on it. It follows what is at `peak`, a peak of that map.
    fn decided(self, by: Option<SentMap>, peak: Option<Peak>) -> Self {
        let Some(SentMap { number, frame_seq }) = by else { return self };
        let track = peak.map_or(self.track, |peak| self.track.found((peak.x, peak.y), frame_seq));
        Self { decided_by: number, is_lost: false, track, ..self }
    }

    /// The fovea with the box of what it looks at, in pixels of the image.
    fn over(self, region: Option<Region>) -> Self {
        let point = (self.fixation.x, self.fixation.y);
        Self { around: region.map(|region| region.relative_to(point)), ..self }
    }
}

type Foveae = ArrayVec<Fovea, FOVEAE_MAX>;

/// Fixation state of one view. Its time follows the stream's, and stands still where that jumps back.
#[derive(Clone, Debug)]
pub(super) struct FixationState {
    parameters: GazeParameters,
    extent: Extent,
    /// Most fixations at a time.
    foveae_max: usize,
    /// Never empty, and no two at the same place.
    foveae: Foveae,
    /// `foveae` and relevance.
    gaze: Gaze,
    /// Foveae of the previous frame: two moves within one frame count as one.
    before: Foveae,
    /// The greatest id of a fixation up to the previous frame.
    last_id: u64,
    at: FrameTime,
    elapsed_ns: u64,
    /// The newest frame that has arrived, and its `elapsed_ns`.
    arrived: (FrameTime, u64),
    /// The newest frame that was seen.
    seen_frame: u64,
    /// Interval of the last decision, counted from the start; `None` makes the next frame due.
    decided: Option<u64>,
    /// The newest frame at the last decision by what the view needs; `None` before the first such decision.
    decided_frame: Option<u64>,
    hold: Option<Hold>,
    /// `frame_seq` of the frame of the last `look`; 0 before any.
    looked_frame: u64,
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
        let since_frame = at.frame_seq;
        let fixation = Fixation { id: 1, since_frame, ..Fixation::at((x, y), reason) };
        let track = Track::of((x, y), at.frame_seq);
        let foveae = Foveae::from_iter([Fovea {
            fixation,
            around: None,
            arrival: Arrival::None,
            track,
            decided_by: 0,
            is_lost: false,
        }]);
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
            arrived: (FrameTime { frame_seq: at.frame_seq.saturating_sub(1), ..at }, 0),
            seen_frame: at.frame_seq,
            decided: None,
            decided_frame: None,
            hold: None,
            looked_frame: 0,
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
        let (arrived, arrived_ns) = self.arrived;
        if at.time_ns < arrived.time_ns {
            self.decide_now();
        }
        let passed_ns = at.time_ns.saturating_sub(arrived.time_ns);
        self.elapsed_ns = arrived_ns.saturating_add(passed_ns);
        self.at = at;
        if let Some(Hold::Until(end_ns) | Hold::UntilNewerOr(end_ns)) = self.hold
            && end_ns <= self.elapsed_ns
        {
            self.release();
        }
    }

    /// The frame that was advanced to is there. It begins what was decided on since the one before, and fixations that pursue move on.
    pub(super) fn arrive(&mut self, seen: Option<Seen<'_>>) {
        let (arrived, _) = self.arrived;
        for Fovea { fixation, arrival, .. } in &mut self.foveae {
            if arrived.frame_seq < fixation.since_frame {
                fixation.since_frame = self.at.frame_seq;
            }
            if *arrival == Arrival::Next {
                *arrival = Arrival::At(self.elapsed_ns);
            }
        }
        self.show_foveae();
        self.pursue(seen);
        self.arrived = (self.at, self.elapsed_ns);
        self.seen_frame = self.at.frame_seq;
        self.before.clone_from(&self.foveae);
        self.last_id = self.last_id.max(self.gaze.newest().id);
    }

    /// Moves fixations that a client asked for along with what they are at, up to this frame, as far as that is known of what was seen.
    /// Those that lose it are due for a decision.
    fn pursue(&mut self, seen: Option<Seen<'_>>) {
        let Some(Seen { motion: Some(motions), frame_seq, .. }) = seen else { return };
        if !self.parameters.pursuit {
            return;
        }
        self.seen_frame = frame_seq;
        let ahead_s = motions.seen().map_or(0, |seen| self.at.time_ns.saturating_sub(seen.time_ns))
            as f64
            * 1e-9;
        let mut foveae = self.foveae.clone();
        for index in 0..foveae.len() {
            let Fovea { fixation, .. } = foveae[index];
            let is_new = fixation.since_frame == self.at.frame_seq;
            let is_look = fixation.reason == FixationReason::Look;
            let is_asked = is_look && self.looked_frame == self.at.frame_seq;
            if !ASKED.contains(&fixation.reason) || is_asked {
                continue;
            }
            let track = self.tracked(foveae[index].track, motions);
            let place = if track.frame_seq() == frame_seq {
                track.ahead(ahead_s)
            } else {
                (fixation.x, fixation.y)
            };
            let grid_px = if is_new { 0.0 } else { self.grid_px() };
            let (x, y) = stepped((fixation.x, fixation.y), place, grid_px);
            let (x, y) = snapped(self.extent, x, y);
            let is_taken = |(other, fovea): (usize, &Fovea)| {
                other != index && (fovea.fixation.x, fovea.fixation.y) == (x, y)
            };
            let is_free = !foveae.iter().enumerate().any(is_taken);
            let fovea = &mut foveae[index];
            fovea.track = track;
            if is_free {
                (fovea.fixation.x, fovea.fixation.y) = (x, y);
            }
            if track.is_lost(self.extent) {
                fovea.track = Track::of((fovea.fixation.x, fovea.fixation.y), frame_seq);
                (fovea.arrival, fovea.is_lost) = (Arrival::None, true);
                self.decided = None;
            }
        }
        self.fixate(&foveae);
    }

    /// The track after all that was seen since; a new one at the same place where that is not known.
    fn tracked(&self, mut track: Track, motions: &Motions) -> Track {
        let speed_max = self.parameters.pursuit_speed_max * f64::from(self.extent.longer_side());
        let Some(steps) = motions.since(track.frame_seq()) else {
            return track.renewed(self.seen_frame);
        };
        for motion in steps {
            track.observe(motion, self.extent, speed_max);
        }
        track
    }

    /// Side of a texel of the coarse level in pixels.
    fn grid_px(&self) -> f64 {
        f64::from(1u32 << CoarseLevel::level_of(PyramidShape::new(self.extent)))
    }

    /// Whether the current interval has had no decision yet; marks it as decided.
    pub(super) fn is_due(&mut self) -> bool {
        let now = interval(self.elapsed_ns, self.parameters.saccade_hz);
        self.decided.replace(now) != Some(now)
    }

    /// Notes that what the view needs decides after the newest frame. Returns the frame after which it did before.
    pub(super) fn note_decision(&mut self) -> Option<u64> {
        let (arrived, _) = self.arrived;
        self.decided_frame.replace(arrived.frame_seq)
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
        match fovea.arrival {
            Arrival::None => true,
            Arrival::Next => false,
            Arrival::At(moved_ns) => moved_ns.saturating_add(dwell_ns) <= self.elapsed_ns,
        }
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

    /// Moves all foveae to points in pixels that a client requested; NaN is ignored. The points refer to frame `lies_in`, or to
    /// the newest frame seen if that is later. The foveae share the area equally.
    pub(super) fn look(
        &mut self,
        points: &[(f64, f64)],
        LookArea { size, share }: LookArea,
        hold: Hold,
        lies_in: Option<u64>,
    ) {
        let points = points.iter().filter(|(x, y)| !x.is_nan() && !y.is_nan());
        let points: Points = points.copied().take(self.foveae_max).collect();
        let share = share.map(|share| share / points.len() as f64);
        let around = size.map(|(width, height)| {
            let (x, y) = (0.5 * width, 0.5 * height);
            Region { x0: -x, y0: -y, x1: x, y1: y }
        });
        let fovea = |&(x, y): &(f64, f64)| {
            let mut fovea = self.arriving(x, y, FixationReason::Look, 1.0);
            (fovea.around, fovea.fixation.share) = (around, share);
            fovea
        };
        let foveae: Foveae = points.iter().map(fovea).collect();
        if !foveae.is_empty() {
            self.hold = Some(hold);
            self.fixate(&foveae);
            self.looked_frame = self.at.frame_seq;
            let lies_in = lies_in.unwrap_or(0).max(self.seen_frame).min(self.at.frame_seq);
            for Fovea { fixation, track, .. } in &mut self.foveae {
                *track = track.found((fixation.x, fixation.y), lies_in);
            }
        }
    }

    pub(super) fn release(&mut self) {
        self.hold = None;
    }

    /// Whether a client chose a current fixation.
    pub(super) fn is_client_driven(&self) -> bool {
        self.gaze.fixations.iter().any(|fixation| ASKED.contains(&fixation.reason))
    }

    /// Most fixations at a time.
    pub(super) fn foveae_max(&self) -> usize {
        self.foveae_max
    }

    /// Ends a hold that yields to newer attention.
    pub(super) fn yield_to_newer(&mut self) {
        self.hold.take_if(|hold| matches!(hold, Hold::UntilNewerOr(_)));
    }

    /// Moves to a point in pixels, and to nothing else; a new fixation restarts the dwell time.
    pub(super) fn saccade(&mut self, x: f64, y: f64, reason: FixationReason) {
        self.fixate(&[self.arriving(x, y, reason, 1.0)]);
    }

    /// Goes to the middle, once every fovea has dwelt, unless the map that `reason` is of led one to its place.
    fn go_to_middle_unless(&mut self, reason: impl Fn(f64, f64) -> FixationReason) {
        let Fixation { x, y, .. } = self.gaze.first();
        let reason = reason(x, y);
        let is_own = |fovea: &Fovea| fovea.fixation.reason.has_map_of(reason);
        if self.foveae.iter().all(|fovea| self.has_dwelt(fovea) && !is_own(fovea)) {
            let (x, y) = self.pixel_from_share(CENTRE);
            self.saccade(x, y, FixationReason::Policy);
        }
    }

    /// Moves foveae to the peaks of a map of the picture, or to the middle if there are none. `reason` says why to a place in pixels.
    /// Returns where saccades led.
    pub(super) fn go_to_peaks(
        &mut self,
        map: &Weights<'_>,
        reason: impl Fn(f64, f64) -> FixationReason,
    ) -> Points {
        let peaks = Peaks::of(map, self.extent, self.foveae_max, peak_radius_px(self.extent));
        if peaks.as_slice().is_empty() {
            self.go_to_middle_unless(reason);
            return Points::new();
        }
        self.follow(map, &peaks, reason, None)
    }

    /// Moves foveae to the peaks of `map`, of which there is at least one. `reason` says why to a place in pixels. Returns where saccades
    /// led.
    ///
    /// Each goes for a peak near it, and stays until it has dwelt and that peak is worth more than its place by the hysteresis.
    /// Peaks that are left get a new fovea; foveae that are left end where their place is not worth one.
    ///
    /// With pursuit, a `sent` map moves each fovea at most once; the fovea then tracks the object until it loses it. A newer
    /// map corrects the tracked position.
    pub(super) fn follow(
        &mut self,
        map: &Weights<'_>,
        peaks: &Peaks,
        reason: impl Fn(f64, f64) -> FixationReason,
        sent: Option<SentMap>,
    ) -> Points {
        let goals = peaks.goals(&self.gaze.fixations);
        // A map that the view computed itself is not a request.
        let region = peaks.region().filter(|_| sent.is_some());
        let (mut foveae, mut reached) = (Foveae::new(), Points::new());
        for (fovea, goal) in self.foveae.iter().zip(goals) {
            let Fixation { x, y, .. } = fovea.fixation;
            let here = peaks.worth(map.at(x, y), (x, y), goal);
            let is_beaten = self.parameters.hysteresis * here < peaks.worth_of(goal);
            let is_decided = sent.is_some_and(|sent| sent.number == fovea.decided_by);
            let pursues = self.parameters.pursuit && is_decided && !fovea.is_lost;
            // Look for a lost object where it was last measured.
            let frame_seq =
                |sent: SentMap| if fovea.is_lost { self.seen_frame } else { sent.frame_seq };
            let sent = sent.map(|sent| SentMap { frame_seq: frame_seq(sent), ..sent });
            if !self.has_dwelt(fovea) {
                foveae.push(*fovea);
            } else if fovea.fixation.reason.has_map_of(reason(x, y)) && (pursues || !is_beaten) {
                let seen_at = goal.map(|goal| peaks.as_slice()[goal]);
                let seen_at = seen_at.filter(|peak| !is_decided && peaks.are_one((x, y), peak));
                let goes_on = fovea.decided(sent, seen_at);
                // A fovea that stays outside the requested region gets no box.
                let own = region.filter(|region| region.contains((x, y)));
                foveae.push(if pursues { goes_on } else { goes_on.over(own) });
            } else if let Some(goal) = goal {
                let Peak { x, y, .. } = peaks.as_slice()[goal];
                let fovea = self.arriving(x, y, reason(x, y), peaks.share(goal)).over(region);
                foveae.push(fovea.decided(sent, Some(peaks.as_slice()[goal])));
                reached.push((x, y));
            }
        }
        for (index, peak @ Peak { x, y, .. }) in peaks.as_slice().iter().copied().enumerate() {
            if !goals.contains(&Some(index)) {
                let fovea = self.arriving(x, y, reason(x, y), peaks.share(index)).over(region);
                foveae.push(fovea.decided(sent, Some(peak)));
                reached.push((x, y));
            }
        }
        self.fixate(&foveae);
        reached
    }

    /// Masks cover `texels` of the coarse level from now on: what no client asked for there is looked at no more.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "cells of a grid")]
    pub(super) fn apply_mask(&mut self, texels: &TileSet) {
        let grid_px = self.grid_px();
        let is_hidden = |fixation: &Fixation| {
            let texel = |place: f64, count: u32| ((place / grid_px) as u32).min(count - 1);
            let grid = texels.grid();
            let (column, row) = (texel(fixation.x, grid.width), texel(fixation.y, grid.height));
            !ASKED.contains(&fixation.reason) && texels.contains(column, row)
        };
        let mut foveae = self.foveae.clone();
        foveae.retain(|fovea| !is_hidden(&fovea.fixation));
        if foveae.is_empty() {
            let (x, y) = self.pixel_from_share(CENTRE);
            foveae.push(self.arriving(x, y, FixationReason::Policy, 1.0));
        }
        self.fixate(&foveae);
        self.decide_now();
    }

    pub(super) fn set_relevance(&mut self, relevance: Option<Arc<Relevance>>) {
        self.gaze.relevance = relevance;
    }

    /// Scales the fixations to a new source size. No saccade: the dwell times go on.
    pub(super) fn resize(&mut self, extent: Extent, at: FrameTime) {
        self.advance(at);
        let scaled = |value: f64, from: u32, to: u32| value / f64::from(from) * f64::from(to);
        let before = std::mem::replace(&mut self.extent, extent);
        let scale = (
            f64::from(extent.width) / f64::from(before.width),
            f64::from(extent.height) / f64::from(before.height),
        );
        let mut foveae = self.foveae.clone();
        for Fovea { fixation: Fixation { id, x, y, .. }, track, around, .. } in &mut foveae {
            let across = scaled(*x, before.width, extent.width);
            let down = scaled(*y, before.height, extent.height);
            (*x, *y) = snapped(extent, across, down);
            *around = around.map(|around| around.scaled(scale));
            *id = 0;
            *track = Track::of((*x, *y), at.frame_seq);
        }
        self.fixate(&foveae);
    }

    /// Whether what is decided now is for the next frame: the one that was advanced to has arrived.
    fn has_arrived(&self) -> bool {
        self.at.frame_seq == self.arrived.0.frame_seq
    }

    /// The first frame that is looked at by what is decided now.
    fn first_frame(&self) -> u64 {
        self.at.frame_seq + u64::from(self.has_arrived())
    }

    /// A fovea that a saccade leads to a point now.
    fn arriving(&self, x: f64, y: f64, reason: FixationReason, weight: f32) -> Fovea {
        let (x, y) = snapped(self.extent, x, y);
        let since_frame = self.first_frame();
        let fixation = Fixation { id: 0, since_frame, weight, ..Fixation::at((x, y), reason) };
        let track = Track::of((x, y), self.seen_frame);
        let arrival = if self.has_arrived() { Arrival::Next } else { Arrival::At(self.elapsed_ns) };
        Fovea { fixation, around: None, arrival, track, decided_by: 0, is_lost: false }
    }

    /// Sets the foveae; of several at the same place, the first. Foveae of the previous frame keep their ids wherever they are now. A
    /// place that the previous frame fixated for the same reason keeps its fixation, with the box and the share that are asked for now.
    /// Others get the next ids, in order.
    fn fixate(&mut self, foveae: &[Fovea]) {
        let place = |fovea: &Fovea| (fovea.fixation.x, fovea.fixation.y);
        let aim = |fovea: &Fovea| (place(fovea), fovea.fixation.reason);
        let goes_on = |fovea: &Fovea| (1..=self.last_id).contains(&fovea.fixation.id);
        let is_left =
            |before: &&Fovea| !foveae.iter().any(|fovea| fovea.fixation.id == before.fixation.id);
        self.foveae.clear();
        let mut id = self.last_id;
        for fovea in foveae {
            if self.foveae.iter().any(|other| place(other) == place(fovea)) {
                continue;
            }
            let mut left = self.before.iter().filter(is_left);
            let same = if goes_on(fovea) {
                Some(*fovea)
            } else {
                left.find(|before| aim(before) == aim(fovea)).copied()
            };
            let mut next = same.unwrap_or_else(|| {
                id += 1;
                let since_frame = self.first_frame();
                Fovea { fixation: Fixation { id, since_frame, ..fovea.fixation }, ..*fovea }
            });
            next.around = fovea.around;
            next.fixation.share = fovea.fixation.share;
            let pixels = |around: Region| around.moved(place(fovea)).pixels(self.extent);
            next.fixation.region = fovea.around.map(pixels).map(Region::from);
            self.foveae.push(next);
        }
        self.show_foveae();
    }

    fn show_foveae(&mut self) {
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
