//! The threads of a pool touch a stage while it is there, and each part alone.
//!
//! `tests/engine/pool_laws.rs` says what a pool does, and `tests/pool_loom.rs` proves the order of its memory. This is for tools
//! that follow every access: `scripts/test.sh --long` runs it under Miri, which knows what each reference may still be used
//! for, and under ThreadSanitizer.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use foveate_engine::pool::Pool;

const ROUNDS: usize = if cfg!(miri) { 5 } else { 2_000 };

#[test]
fn each_part_is_given_to_one_call_alone() {
    let pool = Pool::new(2);
    for round in 0..ROUNDS {
        share_boxes(&pool, round % 7);
    }
}

#[test]
fn threads_that_are_helped_at_the_same_time_keep_their_parts() {
    let pool = &Pool::new(2);
    thread::scope(|scope| {
        for parts in 2..5 {
            scope.spawn(move || (0..ROUNDS).for_each(|_| share_boxes(pool, parts)));
        }
    });
}

#[test]
fn a_panicking_stage_is_left_before_it_ends() {
    let pool = Pool::new(2);
    for bad in (0..4).cycle().take(ROUNDS.min(40)) {
        let mut parts: Vec<_> = (0..4).map(Box::new).collect();
        let result = catch_unwind(AssertUnwindSafe(|| {
            pool.for_each(&mut parts, &|part| assert_ne!(**part, bad, "on purpose"));
        }));
        assert!(result.is_err(), "part {bad}");
    }
}

/// Runs `count` parts, each in memory of its own that is freed afterwards.
fn share_boxes(pool: &Pool, count: usize) {
    let mut parts: Vec<_> = (0..count).map(Box::new).collect();
    let added = Box::new(1000);
    pool.for_each(&mut parts, &|part| **part += *added);
    let expected = (0..count).map(|part| part + 1000);
    assert!(parts.into_iter().map(|part| *part).eq(expected));
}
