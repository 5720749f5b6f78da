//! A jump of CLOCK_REALTIME is counted. The clocks are the test's own: nobody can give a process a CLOCK_REALTIME of its own.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::prelude::*;

use super::{ClockQuality, ClockSample, INTERVAL_NS, Reading, STEP_MIN_NS, WallClock};

const SECOND_NS: u64 = 1_000_000_000;

/// A day after boot, in 2026.
const START: ClockSample =
    ClockSample { monotonic_ns: 86_400 * SECOND_NS, unix_ns: 1_795_000_000 * SECOND_NS };

fn reading(after_ns: u64, offset_ns: i64) -> Reading {
    let unix_ns = (START.unix_ns + after_ns).checked_add_signed(offset_ns).unwrap();
    let clocks = ClockSample { monotonic_ns: START.monotonic_ns + after_ns, unix_ns };
    Reading { clocks, took_ns: 0, error_ns: Some(1000) }
}

/// The clock's state after all `readings`.
fn known(readings: &[Reading]) -> ClockQuality {
    let clock = WallClock::default();
    let mut quality = clock.known();
    for reading in readings {
        quality = clock.quality(reading.clocks.monotonic_ns, || *reading);
    }
    assert_eq!(quality, clock.known());
    quality
}

#[test]
fn each_step_of_the_clock_is_counted_once() {
    let offset = |second: u64| match second {
        0..10 => 0,
        10..20 => 3_600 * 1_000_000_000,
        20..30 => -5_000_000,
        _ => 0,
    };
    let readings: Vec<_> =
        (0..40).map(|second| reading(second * SECOND_NS, offset(second))).collect();
    assert_eq!(known(&readings).steps, 3);
    assert_eq!(known(&readings[..10]).steps, 0);
}

proptest! {
    /// Slewing changes the pace of both clocks, and a reading takes its time.
    #[test]
    fn slewing_and_slow_readings_are_no_steps(
        paces in prop::collection::vec((0..1000_u64, 0..20_000_000_u64), 2..50),
    ) {
        let mut after_ns = 0;
        let readings: Vec<_> = paces.iter().map(|(slew, took_ns)| {
            after_ns += SECOND_NS + slew * 1000;
            let late = i64::try_from(*took_ns).unwrap();
            Reading { took_ns: *took_ns, ..reading(after_ns, late) }
        }).collect();
        prop_assert_eq!(known(&readings).steps, 0);
    }

    #[test]
    fn a_step_is_counted_wherever_it_comes(
        before in 1..20_usize, after in 1..20_usize, ms in prop_oneof![-100_000_i64..-4, 4..100_000_i64],
    ) {
        let offset = |index: usize| if index < before { 0 } else { ms * 1_000_000 };
        let readings: Vec<_> = (0..before + after)
            .map(|index| reading(index as u64 * SECOND_NS, offset(index)))
            .collect();
        prop_assert!(i64::try_from(STEP_MIN_NS).unwrap() < 4_000_000);
        prop_assert_eq!(known(&readings).steps, 1);
    }
}

#[test]
fn the_clock_is_read_once_a_second() {
    let clock = WallClock::default();
    let mut read = 0;
    for after_ns in (0..10 * SECOND_NS).step_by(30_000_000) {
        let reading = reading(after_ns, 0);
        clock.quality(reading.clocks.monotonic_ns, || {
            read += 1;
            reading
        });
    }
    let most = 10 * SECOND_NS / INTERVAL_NS;
    assert!((most - 1..=most).contains(&read), "{read}");
}

#[test]
fn the_bound_is_the_newest_and_unknown_is_zero() {
    let with = |error_ns| Reading { error_ns, ..reading(0, 0) };
    let later = |second: u64, error_ns| Reading { error_ns, ..reading(second * SECOND_NS, 0) };
    assert_eq!(known(&[with(Some(7))]).error_ns, 7);
    assert_eq!(known(&[with(Some(7)), later(1, None)]).error_ns, 0);
    assert_eq!(known(&[with(None), later(1, Some(9))]).error_ns, 9);
    assert_eq!(WallClock::default().known(), ClockQuality::default());
}
