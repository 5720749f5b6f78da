//! The two clocks of the system, in nanoseconds.

use rustix::time::{ClockId, clock_gettime};

/// CLOCK_MONOTONIC now.
pub fn monotonic_ns() -> u64 {
    now_ns(ClockId::Monotonic)
}

/// CLOCK_REALTIME now, since 1970.
pub fn unix_ns() -> u64 {
    now_ns(ClockId::Realtime)
}

/// A stretch of time on CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// When it began, in nanoseconds.
    pub start_ns: u64,
    /// When it was over, in nanoseconds.
    pub end_ns: u64,
}

impl Span {
    /// No time at all: what the span of something is that did not happen.
    pub const NONE: Self = Self { start_ns: 0, end_ns: 0 };

    /// From `start_ns` until now.
    pub fn since(start_ns: u64) -> Self {
        Self { start_ns, end_ns: monotonic_ns() }
    }

    /// From where this one ends until now: what came next.
    pub fn next(self) -> Self {
        Self::since(self.end_ns)
    }

    /// From where this one begins to where a later one ends; the other one where one of them is none.
    pub fn through(self, later: Self) -> Self {
        match (self, later) {
            (Self::NONE, span) | (span, Self::NONE) => span,
            _ => Self { start_ns: self.start_ns, end_ns: later.end_ns },
        }
    }

    /// Its length in nanoseconds.
    pub fn ns(self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

fn now_ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanoseconds = u64::try_from(now.tv_nsec).unwrap_or(0);
    seconds * 1_000_000_000 + nanoseconds
}
