//! Detects frozen cameras: a live source repeats its newest frame, although sensor noise made all frames differ before.

use super::FrameFacts;
use super::state::Hysteresis;
use foveate_core::event::{Event, EventKind};
use foveate_core::frame::FrameTime;

/// Share of tiles that must differ for a frame to show a sensor's noise, and not only what moves before a still ground.
const NOISY_TILES: f64 = 0.25;

/// Time constant in seconds of the share of frames with noise, and the share from which on a source counts as noisy.
const MEMORY_S: f64 = 10.0;
const NOISY_FRAMES: f64 = 0.8;

/// Equal frames for this long, and for [`LONGER`] times the longest time before, are a frozen picture. The second is for network
/// cameras, which send equal frames between two of their key frames when nothing happens.
const FROZEN_MS: u32 = 5000;
const LONGER: u64 = 4;

/// Milliseconds that a beginning and an end must hold: none, because one different frame ends the event.
const LEAST_MS: [u32; 2] = [0, 0];

#[derive(Clone, Debug)]
pub(super) struct Frozen {
    state: Hysteresis,
    /// The newest frame that differed from the one before; `None` before the first frame.
    changed: Option<FrameTime>,
    newest: FrameTime,
    /// Frames with noise, 0 to 1.
    noisy: f64,
    /// The longest time without a change, while it was not a frozen picture, in nanoseconds.
    longest_ns: u64,
}

impl Frozen {
    pub(super) fn new() -> Self {
        Self {
            state: Hysteresis::new(EventKind::Frozen, LEAST_MS),
            changed: None,
            newest: FrameTime::default(),
            noisy: 0.0,
            longest_ns: 0,
        }
    }

    pub(super) fn state(&self) -> &Hysteresis {
        &self.state
    }

    pub(super) fn detect(&mut self, now: FrameTime, facts: &FrameFacts) -> Option<Event> {
        let before = std::mem::replace(&mut self.newest, now);
        let Some(changed) = self.changed.filter(|_| facts.is_live) else {
            self.changed = Some(now);
            return self.state.update(now, Some(false), 0.0);
        };
        let equal_ns = now.time_ns - changed.time_ns;
        if 0 < facts.tiles_differing {
            if !self.state.is_on() {
                self.longest_ns = self.longest_ns.max(before.time_ns - changed.time_ns);
            }
            self.changed = Some(now);
            let share = facts.tiles_differing as f64 / facts.tile_count as f64;
            self.remember(now.seconds_since(before), NOISY_TILES <= share);
            return self.state.update(now, Some(false), equal_ns as f64 / 1e9);
        }
        let least_ns = (u64::from(FROZEN_MS) * 1_000_000).max(LONGER * self.longest_ns);
        let is_frozen = least_ns <= equal_ns && NOISY_FRAMES <= self.noisy;
        let begins = is_frozen && !self.state.is_on();
        begins.then(|| self.state.begin(now, changed, equal_ns as f64 / 1e9))
    }

    /// Equal frames are not counted: a frozen picture must not make a source a noiseless one.
    fn remember(&mut self, elapsed_s: f64, is_noisy: bool) {
        let share = elapsed_s / (elapsed_s + MEMORY_S);
        self.noisy += share * (f64::from(u8::from(is_noisy)) - self.noisy);
    }
}
