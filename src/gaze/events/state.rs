//! Hysteresis of lasting events: reports the start once a signal has held long enough, and the end once it has been over long enough.

use foveate_core::event::{Event, EventKind, Phase};
use foveate_core::frame::FrameTime;

/// A state that begins and ends only after its signal has held for some time.
#[derive(Clone, Debug)]
pub(super) struct Hysteresis {
    kind: EventKind,
    /// How long a signal must hold until a beginning and until an end are reported, in the time of the stream.
    least_ms: [u32; 2],
    /// Start of the state; `None` while it does not hold.
    since: Option<FrameTime>,
    /// The strength of the signal when the event was reported.
    value: f64,
    /// The frame since which the signal has been opposite to the state; `None` while it agrees.
    turning_since: Option<FrameTime>,
}

impl Hysteresis {
    pub(super) fn new(kind: EventKind, least_ms: [u32; 2]) -> Self {
        Self { kind, least_ms, since: None, value: 0.0, turning_since: None }
    }

    pub(super) fn kind(&self) -> EventKind {
        self.kind
    }

    pub(super) fn is_on(&self) -> bool {
        self.since.is_some()
    }

    /// Takes the signal of a frame: that it holds, that it does not, or neither, which changes nothing.
    pub(super) fn update(
        &mut self,
        now: FrameTime,
        signal: Option<bool>,
        value: f64,
    ) -> Option<Event> {
        if signal != Some(!self.is_on()) {
            self.turning_since = None;
            return None;
        }
        let since = *self.turning_since.get_or_insert(now);
        let least_ms = self.least_ms[usize::from(self.is_on())];
        if now.time_ns - since.time_ns < u64::from(least_ms) * 1_000_000 {
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

    /// Begins the state, which has held since `since`, and returns its event.
    pub(super) fn begin(&mut self, now: FrameTime, since: FrameTime, value: f64) -> Event {
        (self.since, self.value, self.turning_since) = (Some(since), value, None);
        self.event(Phase::Began, now, since)
    }

    /// The event of the state's beginning, reported once more, if the state holds.
    pub(super) fn present(&self, now: FrameTime) -> Option<Event> {
        Some(self.event(Phase::Began, now, self.since?))
    }

    /// The event of the state's end, if the state holds.
    pub(super) fn ended(&self, now: FrameTime) -> Option<Event> {
        Some(self.event(Phase::Ended, now, self.since?))
    }

    fn event(&self, phase: Phase, now: FrameTime, since: FrameTime) -> Event {
        let Self { kind, value, .. } = *self;
        let (frame, since_frame) = (now.frame_seq, since.frame_seq);
        Event { kind, phase, frame, since_frame, region: None, value }
    }
}
