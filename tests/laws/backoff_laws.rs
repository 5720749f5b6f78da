//! Pauses double up to the longest, differ between sources, and restart after a success.

use std::time::Duration;

use foveate_core::backoff::Backoff;
use proptest::prelude::*;

const FIRST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(30);

proptest! {
    #[test]
    fn pauses_double_up_to_the_longest_within_a_quarter(seed: u64) {
        let mut backoff = Backoff::new(FIRST, LONGEST, seed);
        for failures in 0..100 {
            prop_assert_eq!(backoff.failures(), failures);
            let middle = (FIRST * 2_u32.pow(failures.min(10))).min(LONGEST);
            let pause = backoff.after_failure();
            prop_assert!(middle * 3 / 4 <= pause && pause <= middle * 5 / 4, "{pause:?} after {failures}");
        }
    }

    #[test]
    fn a_success_brings_back_the_first_pause(seed: u64, failures in 1..50_u32) {
        let mut backoff = Backoff::new(FIRST, LONGEST, seed);
        for _ in 0..failures {
            backoff.after_failure();
        }
        backoff.succeeded();
        prop_assert_eq!(backoff.failures(), 0);
        prop_assert!(backoff.after_failure() <= FIRST * 5 / 4);
    }

    /// Sources that failed together are not retried together.
    #[test]
    fn other_seeds_pause_for_other_times(seed: u64, other: u64) {
        prop_assume!(seed != other);
        let pauses = |seed| {
            let mut backoff = Backoff::new(FIRST, LONGEST, seed);
            [(); 8].map(|()| backoff.after_failure())
        };
        prop_assert_ne!(pauses(seed), pauses(other));
    }
}

/// The quarters are used up: pauses are spread over all of them.
#[test]
fn pauses_are_spread_evenly() {
    let mut counts = [0; 4];
    let mut backoff = Backoff::new(LONGEST, LONGEST, 1);
    for _ in 0..4_000 {
        let share = backoff.after_failure().div_duration_f64(LONGEST);
        counts[if share < 0.875 {
            0
        } else if share < 1.0 {
            1
        } else if share < 1.125 {
            2
        } else {
            3
        }] += 1;
    }
    assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
}
