//! The capture time is the best that the pipeline tells, and both clocks mean the same moment.

use foveate_core::frame::{CaptureClock, FrameStamp, FrameTime};
use proptest::prelude::*;

use super::{
    CaptureTime, ClockSample, PipelineTimes, REFERENCE_MAX_AGE_NS, REFERENCE_MAX_LEAD_NS,
    capture_time, unix_ns_from_reference,
};

/// A day after boot, in 2026.
const ARRIVAL: ClockSample =
    ClockSample { monotonic_ns: 86_400_000_000_000, unix_ns: 1_795_000_000_000_000_000 };

proptest! {
    #[test]
    fn both_clocks_mean_the_same_moment(
        reference in prop::option::of(0..2_000_000_000_000_000_000_u64),
        running in prop::option::of(0..100_000_000_000_000_u64),
    ) {
        let times = PipelineTimes { reference_unix_ns: reference, running_ns: running };
        let capture = capture_time(times, ARRIVAL).time;
        let offset = ARRIVAL.unix_ns - ARRIVAL.monotonic_ns;
        prop_assert_eq!(capture.unix_ns - capture.monotonic_ns, offset);
        prop_assert!(capture.monotonic_ns <= ARRIVAL.monotonic_ns, "nothing is taken after it arrived");
    }

    #[test]
    fn a_believable_reference_is_taken(age in 0..=REFERENCE_MAX_AGE_NS, running in any::<Option<u64>>()) {
        let times = PipelineTimes { reference_unix_ns: Some(ARRIVAL.unix_ns - age), running_ns: running };
        let CaptureTime { time, clock, is_clamped } = capture_time(times, ARRIVAL);
        prop_assert_eq!((clock, is_clamped), (CaptureClock::Reference, false));
        prop_assert_eq!(time.monotonic_ns, ARRIVAL.monotonic_ns - age);
    }
}

#[test]
fn an_unset_reference_clock_yields_to_running_time() {
    let running_ns = Some(ARRIVAL.monotonic_ns - 5);
    for reference in [
        0,
        ARRIVAL.unix_ns - REFERENCE_MAX_AGE_NS - 1,
        ARRIVAL.unix_ns + REFERENCE_MAX_LEAD_NS + 1,
        u64::MAX,
    ] {
        let times = PipelineTimes { reference_unix_ns: Some(reference), running_ns };
        let CaptureTime { time, clock, .. } = capture_time(times, ARRIVAL);
        assert_eq!(clock, CaptureClock::RunningTime, "{reference}");
        assert_eq!(time.monotonic_ns, ARRIVAL.monotonic_ns - 5);
    }
}

#[test]
fn a_future_capture_time_becomes_the_arrival() {
    let (unix_ns, monotonic_ns) = (ARRIVAL.unix_ns, ARRIVAL.monotonic_ns);
    for (reference_unix_ns, running_ns, clock) in [
        (Some(unix_ns + 1), None, CaptureClock::Reference),
        (Some(unix_ns + REFERENCE_MAX_LEAD_NS), None, CaptureClock::Reference),
        (None, Some(monotonic_ns + 1), CaptureClock::RunningTime),
        (None, Some(monotonic_ns + 3_600_000_000_000), CaptureClock::RunningTime),
    ] {
        let times = PipelineTimes { reference_unix_ns, running_ns };
        let expected = CaptureTime { time: ARRIVAL, clock, is_clamped: true };
        assert_eq!(capture_time(times, ARRIVAL), expected, "{times:?}");
    }
}

#[test]
fn where_nothing_is_told_the_arrival_stands_in() {
    let expected = CaptureTime { time: ARRIVAL, clock: CaptureClock::Unknown, is_clamped: false };
    assert_eq!(capture_time(PipelineTimes::default(), ARRIVAL), expected);
}

#[test]
fn references_count_from_1970() {
    assert_eq!(unix_ns_from_reference("timestamp/x-unix", 7), Some(7));
    // RFC 868: 1970-01-01 is second 2208988800 of the era that began in 1900.
    assert_eq!(
        unix_ns_from_reference("timestamp/x-ntp", 2_208_988_801_000_000_000),
        Some(1_000_000_000)
    );
    assert_eq!(unix_ns_from_reference("timestamp/x-ntp", 5), None);
    assert_eq!(unix_ns_from_reference("timestamp/x-ptp", 7), None);
}

/// Frame after frame, the clock is set in between: what frames are matched by goes on.
#[test]
fn a_jump_moves_no_frame() {
    let mut before = None;
    for index in 0..20_u64 {
        let at_ns = index * 33_000_000;
        let offset = if index < 10 { 0 } else { -7200 * 1_000_000_000 };
        let arrival = clocks(at_ns + 5_000_000, offset);
        let running_ns = Some(ARRIVAL.monotonic_ns + at_ns);
        for pts_ns in [Some(at_ns), None] {
            let captured =
                capture_time(PipelineTimes { reference_unix_ns: None, running_ns }, arrival);
            assert_eq!(captured.clock, CaptureClock::RunningTime);
            let stamp = FrameStamp {
                pts_ns,
                capture_ns: captured.time.monotonic_ns,
                capture_unix_ns: captured.time.unix_ns,
                ..FrameStamp::numbered(index + 1)
            };
            let base = if pts_ns.is_some() { 0 } else { ARRIVAL.monotonic_ns };
            assert_eq!(FrameTime::of(&stamp).time_ns, base + at_ns);
            assert_eq!(stamp.capture_unix_ns, clocks(at_ns, offset).unix_ns);
            before = before.max(Some(stamp.capture_ns));
            assert_eq!(before, Some(stamp.capture_ns), "never back");
        }
    }
}

/// Both clocks `after_ns` later, with CLOCK_REALTIME set by `offset_ns`.
fn clocks(after_ns: u64, offset_ns: i64) -> ClockSample {
    let unix_ns = (ARRIVAL.unix_ns + after_ns).checked_add_signed(offset_ns).unwrap();
    ClockSample { monotonic_ns: ARRIVAL.monotonic_ns + after_ns, unix_ns }
}
