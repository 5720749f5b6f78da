//! No more frames are taken than were asked for, evenly, and no fewer than there are.

use std::sync::Arc;
use std::time::Duration;

use foveate_capture::{End, Pace, Source, SourceSpec};
use foveate_core::rate::RateLimit;
use foveate_stats::StreamCounters;
use proptest::prelude::*;
use testkit::film::rest_of;

use crate::specs::pipeline;

const MS: u64 = 1_000_000;

proptest! {
    #[test]
    fn the_rate_is_the_smaller_of_the_two(interval_ms in 1..200_u64, frame_ms in 1..200_u64) {
        let taken = taken(interval_ms, (0..1000).map(|frame| frame * frame_ms * MS));
        let span_ms = 999 * frame_ms;
        let most = 1000.min(span_ms / interval_ms + 1);
        prop_assert!(taken.len() as u64 <= most, "{} of at most {most}", taken.len());
        // Less by the frames that a source loses that is just as fast, or a little faster.
        let least = 1000.min(span_ms / interval_ms.max(frame_ms)) - 1;
        prop_assert!(least <= taken.len() as u64, "{} of at least {least}", taken.len());
        // Evenly: between two frames there is neither much more nor much less than an interval.
        for pair in taken.windows(2) {
            let apart_ms = (pair[1] - pair[0]) / MS;
            prop_assert!(apart_ms < interval_ms + frame_ms, "{apart_ms}");
            prop_assert!(interval_ms < apart_ms + frame_ms, "{apart_ms}");
        }
    }

    /// A camera that gives just as many as are asked for is not quite regular.
    #[test]
    fn jitter_costs_a_frame_and_no_more(jitter in prop::collection::vec(0..10_u64, 500)) {
        let times = jitter.iter().zip(0..).map(|(jitter, frame)| (frame * 33 + jitter) * MS);
        prop_assert!(499 <= taken(33, times).len());
    }

    /// A stream that restarts or pauses is taken up at once.
    #[test]
    fn after_a_jump_the_next_frame_is_taken(jump_ms in prop_oneof![Just(0_u64), 10_000..100_000_u64]) {
        let mut limit = RateLimit::new(Duration::from_millis(100));
        for frame in 0..50 {
            limit.takes((5_000 + 33 * frame) * MS);
        }
        prop_assert!(limit.takes(jump_ms * MS));
        prop_assert!(!limit.takes((jump_ms + 33) * MS));
    }
}

#[test]
fn frames_that_are_skipped_get_no_number_and_are_counted_apart() {
    let text = "videotestsrc num-buffers=100 ! video/x-raw,format=GRAY8,width=16,height=16,framerate=100/1 ! \
                appsink name=frames";
    let spec = SourceSpec { pace: Pace::EveryFrame, max_fps: Some(20.0), ..pipeline(text) };
    let counters = Arc::<StreamCounters>::default();
    let mut source = Source::open(&spec, &counters).unwrap();
    let (frames, end) = rest_of(&mut source);
    let seen: Vec<_> = frames
        .iter()
        .map(|frame| (frame.stamp().frame_seq, frame.stamp().pts_ns.unwrap() / MS))
        .collect();
    assert_eq!(end, End::Eos);
    assert_eq!(seen, (0..20).map(|frame| (frame + 1, frame * 50)).collect::<Vec<_>>());
    assert_eq!((counters.frames_captured.get(), counters.frames_skipped.get()), (20, 80));
}

/// The times of the frames that are taken of those at `times`.
fn taken(interval_ms: u64, times: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut limit = RateLimit::new(Duration::from_millis(interval_ms));
    times.filter(|time_ns| limit.takes(*time_ns)).collect()
}
