//! When a frame was taken, from what the pipeline tells about it.

use foveate_core::clock;
use foveate_core::frame::CaptureClock;

/// A reference time that lies further back than this comes from a clock that is not set.
pub const REFERENCE_MAX_AGE_NS: u64 = 60_000_000_000;

/// A reference time may lie this far ahead: two clocks kept by NTP do not agree better.
pub const REFERENCE_MAX_LEAD_NS: u64 = 1_000_000_000;

/// From the epoch of NTP, 1900, to that of Unix, 1970, in seconds (RFC 868).
const UNIX_FROM_NTP_S: u64 = 2_208_988_800;

/// One moment on both clocks, read together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// On CLOCK_MONOTONIC, in nanoseconds.
    pub monotonic_ns: u64,
    /// On CLOCK_REALTIME, in nanoseconds since 1970.
    pub unix_ns: u64,
}

impl Moment {
    /// Now.
    pub fn now() -> Self {
        Self { monotonic_ns: clock::monotonic_ns(), unix_ns: clock::unix_ns() }
    }

    /// The moment `ns` earlier; `None` before either clock began.
    fn earlier(self, ns: u64) -> Option<Self> {
        let monotonic_ns = self.monotonic_ns.checked_sub(ns)?;
        Some(Self { monotonic_ns, unix_ns: self.unix_ns.checked_sub(ns)? })
    }

    /// The moment `ns` later.
    fn later(self, ns: u64) -> Option<Self> {
        let monotonic_ns = self.monotonic_ns.checked_add(ns)?;
        Some(Self { monotonic_ns, unix_ns: self.unix_ns.checked_add(ns)? })
    }

    fn at_monotonic(self, ns: u64) -> Option<Self> {
        match self.monotonic_ns.checked_sub(ns) {
            Some(age) => self.earlier(age),
            None => self.later(ns - self.monotonic_ns),
        }
    }

    fn at_unix(self, ns: u64) -> Option<Self> {
        match self.unix_ns.checked_sub(ns) {
            Some(age) => self.earlier(age),
            None => self.later(ns - self.unix_ns),
        }
    }
}

/// What a pipeline tells about the time of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// The reference timestamp, in nanoseconds since 1970.
    pub reference_unix_ns: Option<u64>,
    /// Base time plus running time, on CLOCK_MONOTONIC, in nanoseconds.
    pub running_ns: Option<u64>,
}

/// When a frame was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureTime {
    /// Never after it arrived.
    pub moment: Moment,
    /// How that is known.
    pub clock: CaptureClock,
    /// Whether the pipeline said that it was taken after it arrived, which cannot be.
    pub is_clamped: bool,
}

/// When a frame that arrived at `arrival` was taken, and how that is known: by its reference time if that is
/// believable, else by its running time, else it is not known and the arrival stands in. A time in the future becomes that
/// of the arrival.
pub fn capture_time(told: Told, arrival: Moment) -> CaptureTime {
    let (moment, clock) = told_time(told, arrival);
    let is_clamped = arrival.monotonic_ns < moment.monotonic_ns;
    CaptureTime { moment: if is_clamped { arrival } else { moment }, clock, is_clamped }
}

fn told_time(told: Told, arrival: Moment) -> (Moment, CaptureClock) {
    let oldest = arrival.unix_ns.saturating_sub(REFERENCE_MAX_AGE_NS);
    let newest = arrival.unix_ns.saturating_add(REFERENCE_MAX_LEAD_NS);
    let reference = told.reference_unix_ns.filter(|ns| (oldest..=newest).contains(ns));
    if let Some(moment) = reference.and_then(|ns| arrival.at_unix(ns)) {
        return (moment, CaptureClock::Reference);
    }
    if let Some(moment) = told.running_ns.and_then(|ns| arrival.at_monotonic(ns)) {
        return (moment, CaptureClock::RunningTime);
    }
    (arrival, CaptureClock::Unknown)
}

/// Nanoseconds since 1970 of a reference timestamp, whose caps are called `clock`; `None` for clocks that are tied
/// to nothing that we know.
pub fn unix_ns_from_reference(clock: &str, ns: u64) -> Option<u64> {
    match clock {
        "timestamp/x-unix" => Some(ns),
        "timestamp/x-ntp" => ns.checked_sub(UNIX_FROM_NTP_S * 1_000_000_000),
        _ => None,
    }
}
