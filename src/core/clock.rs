//! The system's clocks, in nanoseconds, and spans of time.

use rustix::time::{ClockId, clock_gettime};

/// CLOCK_MONOTONIC now.
pub fn monotonic_ns() -> u64 {
    now_ns(ClockId::Monotonic)
}

/// CLOCK_REALTIME now, since 1970.
pub fn unix_ns() -> u64 {
    now_ns(ClockId::Realtime)
}

/// Processor time that all threads of this process have taken.
pub fn processor_ns() -> u64 {
    now_ns(ClockId::ProcessCPUTime)
}

/// An interval on CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Start in nanoseconds.
    pub start_ns: u64,
    /// End in nanoseconds.
    pub end_ns: u64,
}

impl Span {
    /// The span of something that did not happen.
    pub const NONE: Self = Self { start_ns: 0, end_ns: 0 };

    /// The span from `start_ns` until now.
    pub fn since(start_ns: u64) -> Self {
        Self { start_ns, end_ns: monotonic_ns() }
    }

    /// The span from the end of this one until now.
    pub fn next(self) -> Self {
        Self::since(self.end_ns)
    }

    /// The span from the start of this one to the end of a later one; if either is [`NONE`](Self::NONE), the other one.
    pub fn through(self, later: Self) -> Self {
        match (self, later) {
            (Self::NONE, span) | (span, Self::NONE) => span,
            _ => Self { start_ns: self.start_ns, end_ns: later.end_ns },
        }
    }

    /// The first `share` of the span, 0 to 1, and the rest.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of the span"
    )]
    pub fn split(self, share: f64) -> (Self, Self) {
        let middle_ns = self.start_ns + (self.ns() as f64 * share) as u64;
        (Self { end_ns: middle_ns, ..self }, Self { start_ns: middle_ns, ..self })
    }

    /// Length in nanoseconds.
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
