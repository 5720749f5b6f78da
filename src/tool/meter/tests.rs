//! What `foveate watch` tells of rate, age and losses is what the frames say.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::prelude::*;

use super::{FrameRates, Meter, Observation};

proptest! {
    #[test]
    fn every_frame_is_read_lapped_or_dropped(fates in prop::collection::vec(0..3_u8, 1..200)) {
        let mut meter = Meter::default();
        let (mut read, mut lapped, mut dropped) = (0, 0, 0);
        let mut pending = (0, 0);
        for (frame_seq, fate) in (1..).zip(&fates) {
            match fate {
                0 => pending.0 += 1,
                1 => pending.1 += 1,
                _ => {
                    meter.observe(Observation { publish_ns: frame_seq, read_ns: frame_seq, age_ns: 0, frame_seq, lapped: pending.0 });
                    // Frames before the first one read are lost only if the ring says so.
                    if 0 < read {
                        dropped += pending.1;
                    }
                    lapped += pending.0;
                    read += 1;
                    pending = (0, 0);
                }
            }
        }
        prop_assert_eq!([meter.frames(), meter.lapped(), meter.dropped()], [read, lapped, dropped]);
    }
}

#[test]
fn rates_are_over_all_frames_and_over_the_last_two_seconds() {
    let mut meter = Meter::default();
    let nothing = FrameRates { fps: 0.0, age_p50_ns: None, age_p99_ns: None };
    assert_eq!(meter.overall(), nothing);
    assert_eq!(meter.recent(0), nothing);

    // Ten seconds at 10 a second and an age of 5, then ten seconds at 20 a second and an age of 7.
    let slow = (0..100).map(|index| (index * 100_000_000, 5));
    let fast = (0..200).map(|index| (10_000_000_000 + index * 50_000_000, 7));
    let mut last_ns = 0;
    for (frame_seq, (read_ns, age_ns)) in (1..).zip(slow.chain(fast)) {
        meter.observe(Observation { publish_ns: read_ns, read_ns, age_ns, frame_seq, lapped: 0 });
        last_ns = read_ns;
    }
    let FrameRates { fps, age_p50_ns, age_p99_ns } = meter.recent(last_ns);
    assert!((fps - 20.0).abs() < 1e-9, "{fps}");
    assert_eq!((age_p50_ns, age_p99_ns), (Some(7), Some(7)));
    let FrameRates { fps, age_p50_ns, .. } = meter.overall();
    assert!((fps - 299.0 / 19.95).abs() < 1e-9, "{fps}");
    assert_eq!(age_p50_ns, Some(7));
    assert_eq!(meter.recent(last_ns + 2_000_000_001).fps, 0.0, "a stream that stalls has no rate");
}

#[test]
fn rates_follow_arrival_times_of_frames() {
    let mut meter = Meter::default();
    for frame_seq in 1..=2 {
        let (publish_ns, read_ns) = (frame_seq * 50_000_000, 1_000_000_000 + frame_seq * 46_000);
        meter.observe(Observation { publish_ns, read_ns, age_ns: 0, frame_seq, lapped: 0 });
    }
    for rates in [meter.overall(), meter.recent(1_000_092_000)] {
        assert!((rates.fps - 20.0).abs() < 1e-9, "{}", rates.fps);
    }
}

#[test]
fn percentiles_are_ages_that_were_seen() {
    let mut meter = Meter::default();
    for index in 1..=200 {
        let (frame_seq, age_ns) = (index, 201 - index);
        meter.observe(Observation {
            publish_ns: index,
            read_ns: index,
            age_ns,
            frame_seq,
            lapped: 0,
        });
    }
    let FrameRates { age_p50_ns, age_p99_ns, .. } = meter.overall();
    assert_eq!((age_p50_ns, age_p99_ns), (Some(100), Some(198)));
}

#[test]
fn a_stream_that_counts_anew_lost_nothing() {
    let mut meter = Meter::default();
    meter.observe(Observation { publish_ns: 1, read_ns: 1, age_ns: 0, frame_seq: 90, lapped: 0 });
    meter.observe(Observation { publish_ns: 2, read_ns: 2, age_ns: 0, frame_seq: 1, lapped: 0 });
    assert_eq!(meter.dropped(), 0);
}
