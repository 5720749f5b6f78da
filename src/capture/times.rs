//! Capture time of a frame, from the timestamps that the pipeline gives it.

use foveate_core::frame::CaptureClock;
use foveate_source::discipline::ClockSample;

/// A reference time older than this comes from a clock that is not set.
pub(crate) const REFERENCE_MAX_AGE_NS: u64 = 60_000_000_000;

/// A reference time may lie this far in the future: two clocks kept by NTP do not agree better.
pub(crate) const REFERENCE_MAX_LEAD_NS: u64 = 1_000_000_000;

/// Seconds from the NTP epoch, 1900, to the Unix epoch, 1970 (RFC 868).
const UNIX_FROM_NTP_S: u64 = 2_208_988_800;

/// Timestamps that a pipeline gives a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PipelineTimes {
    /// The reference timestamp, in nanoseconds since 1970.
    pub(crate) reference_unix_ns: Option<u64>,
    /// Base time plus running time, on CLOCK_MONOTONIC, in nanoseconds.
    pub(crate) running_ns: Option<u64>,
}

/// Capture time of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CaptureTime {
    /// Never after the arrival.
    pub(crate) time: ClockSample,
    /// Source of the time.
    pub(crate) clock: CaptureClock,
    /// The pipeline gave a time after the arrival, and the arrival replaces it.
    pub(crate) is_clamped: bool,
}

/// The capture time of a frame that arrived at `arrival`: its reference time if plausible, else its running time, else the
/// arrival.
pub(crate) fn capture_time(times: PipelineTimes, arrival: ClockSample) -> CaptureTime {
    let (time, clock) = pipeline_time(times, arrival);
    let is_clamped = arrival.monotonic_ns < time.monotonic_ns;
    CaptureTime { time: if is_clamped { arrival } else { time }, clock, is_clamped }
}

fn pipeline_time(times: PipelineTimes, arrival: ClockSample) -> (ClockSample, CaptureClock) {
    let oldest = arrival.unix_ns.saturating_sub(REFERENCE_MAX_AGE_NS);
    let newest = arrival.unix_ns.saturating_add(REFERENCE_MAX_LEAD_NS);
    let reference = times.reference_unix_ns.filter(|ns| (oldest..=newest).contains(ns));
    if let Some(time) = reference.and_then(|ns| arrival.shifted(arrival.unix_ns, ns)) {
        return (time, CaptureClock::Reference);
    }
    if let Some(time) = times.running_ns.and_then(|ns| arrival.shifted(arrival.monotonic_ns, ns)) {
        return (time, CaptureClock::RunningTime);
    }
    (arrival, CaptureClock::Unknown)
}

/// A reference timestamp in nanoseconds since 1970, by the name of its caps; `None` for clocks without a known epoch.
pub(crate) fn unix_ns_from_reference(caps_name: &str, ns: u64) -> Option<u64> {
    match caps_name {
        "timestamp/x-unix" => Some(ns),
        "timestamp/x-ntp" => ns.checked_sub(UNIX_FROM_NTP_S * 1_000_000_000),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
