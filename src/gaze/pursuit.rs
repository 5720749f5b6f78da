//! Smooth pursuit: between saccades a fixation follows what it looks at.
//!
//! An alpha-beta filter on place and velocity, with the gains that Benedict and Bordner, "Synthesis of an optimal set of radar
//! track-while-scan smoothing equations", IRE Transactions on Automatic Control 7 (1962), found best together. It measures how far
//! what is there has moved from picture to picture, and predicts where it is in the next one.

use crate::motion::{Motion, length};
use foveate_core::geometry::extent::Extent;

/// Gain on the place: how much of a measured step counts. By trial, on walkers before a camera that stands still and one that moves.
const ALPHA: f64 = 0.5;

/// Gain on the velocity.
const BETA: f64 = ALPHA * ALPHA / (2.0 - ALPHA);

/// Time without a measurement after which a track is lost, in seconds. By trial.
const BLIND_S: f64 = 0.3;

/// Radius of what is taken for one thing, as a share of the longer side. By trial.
const REACH: f64 = 0.05;

/// A pursued fixation steps when what it follows is further away than this share of a step. Above 1/2, so that noise does not move it
/// to and fro.
const SLACK: f64 = 0.75;

/// The object that a fixation follows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Track {
    /// Where the object is in the newest picture that was seen, in pixels.
    place: (f64, f64),
    /// Velocity in pixels a second; `None` before a measurement.
    velocity: Option<(f64, f64)>,
    /// `frame_seq` of the picture in which `place` lies.
    frame_seq: u64,
    /// Time without a measurement, in seconds.
    blind_s: f64,
}

impl Track {
    /// A track of what is at `place` in the picture of frame `frame_seq`.
    pub(super) fn of(place: (f64, f64), frame_seq: u64) -> Self {
        Self { place, velocity: None, frame_seq, blind_s: 0.0 }
    }

    /// `frame_seq` of the picture in which the place lies.
    pub(super) fn frame_seq(&self) -> u64 {
        self.frame_seq
    }

    /// The track of the same object, found at `place` in the picture of frame `frame_seq`.
    pub(super) fn found(self, place: (f64, f64), frame_seq: u64) -> Self {
        Self { place, frame_seq, ..self }
    }

    /// A new track at the same place, of what is there in the picture of frame `frame_seq`.
    pub(super) fn renewed(self, frame_seq: u64) -> Self {
        Self::of(self.place, frame_seq)
    }

    /// Takes what moved from its picture to the next one. Faster than `speed_max`, in pixels a second, counts as unknown.
    pub(super) fn observe(&mut self, motion: &Motion, image: Extent, speed_max: f64) {
        let elapsed_s = motion.elapsed_ns() as f64 * 1e-9;
        let reach = REACH * f64::from(image.longer_side());
        let local = motion.onward(self.place, reach);
        let step = (local.dx, local.dy);
        let is_known = local.is_own || local.background.is_some();
        self.frame_seq = motion.frames().1;
        self.go_on(
            Some(step).filter(|step| is_known && length(step.0, step.1) <= speed_max * elapsed_s),
            elapsed_s,
        );
    }

    /// Goes on by a measured step, or without one as before.
    fn go_on(&mut self, step: Option<(f64, f64)>, elapsed_s: f64) {
        let velocity = self.velocity.unwrap_or_default();
        let predicted = (velocity.0 * elapsed_s, velocity.1 * elapsed_s);
        let Some(step) = step else {
            self.blind_s += elapsed_s;
            return self.place = added(self.place, predicted);
        };
        if elapsed_s <= 0.0 {
            return self.place = added(self.place, step);
        }
        self.blind_s = 0.0;
        if self.velocity.is_none() {
            self.velocity = Some((step.0 / elapsed_s, step.1 / elapsed_s));
            return self.place = added(self.place, step);
        }
        let error = (step.0 - predicted.0, step.1 - predicted.1);
        self.place = added(self.place, added(predicted, (ALPHA * error.0, ALPHA * error.1)));
        let gain = BETA / elapsed_s;
        self.velocity = Some(added(velocity, (gain * error.0, gain * error.1)));
    }

    /// Whether the object is lost or has left the image.
    pub(super) fn is_lost(&self, image: Extent) -> bool {
        let is_out = |place: f64, side: u32| place < 0.0 || f64::from(side) < place;
        let (x, y) = self.place;
        BLIND_S < self.blind_s || is_out(x, image.width) || is_out(y, image.height)
    }

    /// Where the object will be `ahead_s` seconds after the newest picture that was seen.
    pub(super) fn ahead(&self, ahead_s: f64) -> (f64, f64) {
        let (x, y) = self.velocity.unwrap_or_default();
        let ahead_s = ahead_s.min(BLIND_S);
        added(self.place, (x * ahead_s, y * ahead_s))
    }
}

/// Where a fixation at `from` goes that pursues what is at `to`: in steps of `grid` pixels along each axis, so that the plan of a frame
/// is mostly that of the one before.
pub(super) fn stepped(from: (f64, f64), to: (f64, f64), grid: f64) -> (f64, f64) {
    let step = |from: f64, to: f64| {
        if (to - from).abs() <= SLACK * grid { from } else { (to / grid).round() * grid }
    };
    if grid == 0.0 {
        return to;
    }
    (step(from.0, to.0), step(from.1, to.1))
}

fn added(one: (f64, f64), other: (f64, f64)) -> (f64, f64) {
    (one.0 + other.0, one.1 + other.1)
}
