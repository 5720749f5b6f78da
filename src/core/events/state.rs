//! Hysteresis of lasting events: reports the start once a signal has held long enough, and the end once it has been over long enough.

use super::{Event, EventKind, Moment, Phase};

/// How long a signal must hold before it is reported, in the time of the stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Thresholds {
    pub(super) begin_ms: u32,
    pub(super) end_ms: u32,
}

/// A state with hysteresis.
#[derive(Clone, Debug)]
pub(super) struct State {
    kind: EventKind,
    thresholds: Thresholds,
    /// When it began; `None` while it does not hold.
    since: Option<Moment>,
    /// The strength of the signal when the event was reported.
    value: f64,
    /// Since when the signal has said the opposite.
    turning_since: Option<Moment>,
}

impl State {
    pub(super) fn new(kind: EventKind, thresholds: Thresholds) -> Self {
        Self { kind, thresholds, since: None, value: 0.0, turning_since: None }
    }

    pub(super) fn kind(&self) -> EventKind {
        self.kind
    }

    pub(super) fn is_on(&self) -> bool {
        self.since.is_some()
    }

    /// Takes the signal of a frame: that it holds, that it does not, or neither, which changes nothing.
    pub(super) fn step(&mut self, now: Moment, signal: Option<bool>, value: f64) -> Option<Event> {
        if signal != Some(!self.is_on()) {
            self.turning_since = None;
            return None;
        }
        let since = *self.turning_since.get_or_insert(now);
        let Thresholds { begin_ms, end_ms } = self.thresholds;
        let least_ms = if self.is_on() { end_ms } else { begin_ms };
        if now.ns - since.ns < u64::from(least_ms) * 1_000_000 {
            return None;
        }
        self.turning_since = None;
        match self.since.take() {
            Some(began) => {
                self.value = value;
                Some(self.event(Phase::Ended, now, began))
            }
            None => Some(self.begin(now, since, value)),
        }
    }

    /// Begins: it has held since `since`.
    pub(super) fn begin(&mut self, now: Moment, since: Moment, value: f64) -> Event {
        (self.since, self.value, self.turning_since) = (Some(since), value, None);
        self.event(Phase::Began, now, since)
    }

    /// Its beginning, told once more, if it holds.
    pub(super) fn present(&self, now: Moment) -> Option<Event> {
        Some(self.event(Phase::Began, now, self.since?))
    }

    /// Its end, if it holds.
    pub(super) fn ended(&self, now: Moment) -> Option<Event> {
        Some(self.event(Phase::Ended, now, self.since?))
    }

    fn event(&self, phase: Phase, now: Moment, since: Moment) -> Event {
        let Self { kind, value, .. } = *self;
        let (frame, since_frame) = (now.frame, since.frame);
        Event { kind, phase, frame, since_frame, region: None, value }
    }
}
