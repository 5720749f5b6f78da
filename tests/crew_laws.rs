//! A crew does each part once and leaves nobody behind, whoever helps, and whatever panics.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;

use foveate::crew::Crew;

#[test]
fn every_part_is_done_once_by_the_time_it_returns() {
    for helpers in [0, 1, 3] {
        let crew = Crew::new(helpers);
        for round in 0..500 {
            let done: Vec<AtomicUsize> = (0..round % 40).map(|_| AtomicUsize::new(0)).collect();
            crew.share_out(done.len(), &|part| {
                done[part].fetch_add(1, Ordering::Relaxed);
            });
            assert!(done.iter().all(|count| count.load(Ordering::Relaxed) == 1), "round {round}");
        }
    }
}

#[test]
fn many_threads_are_helped_at_the_same_time_each_with_its_own_parts() {
    let crew = Arc::new(Crew::new(2));
    let streams: Vec<_> = (0..6)
        .map(|stream| {
            let crew = Arc::clone(&crew);
            thread::spawn(move || {
                for round in 0..300 {
                    let sum = AtomicUsize::new(0);
                    crew.share_out(16, &|part| {
                        sum.fetch_add(stream * 1000 + round + part, Ordering::Relaxed);
                    });
                    assert_eq!(sum.into_inner(), 16 * (stream * 1000 + round) + 120);
                }
            })
        })
        .collect();
    streams.into_iter().for_each(|stream| stream.join().unwrap());
}

#[test]
fn helpers_do_help() {
    let crew = Crew::new(1);
    // Each part waits for the other, so one thread alone would never come back.
    let both = Barrier::new(2);
    crew.share_out(2, &|_| {
        both.wait();
    });
}

#[test]
fn a_panic_reaches_who_asked_and_the_crew_goes_on() {
    let crew = Crew::new(2);
    for bad in [0, 7, 15] {
        let result = catch_unwind(AssertUnwindSafe(|| {
            crew.share_out(16, &|part| assert_ne!(part, bad, "on purpose"));
        }));
        assert!(result.is_err());
        let done = AtomicUsize::new(0);
        crew.share_out(16, &|_| {
            done.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(done.into_inner(), 16);
    }
}
