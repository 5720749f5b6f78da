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

fn now_ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanoseconds = u64::try_from(now.tv_nsec).unwrap_or(0);
    seconds * 1_000_000_000 + nanoseconds
}
