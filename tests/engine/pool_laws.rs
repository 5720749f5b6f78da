//! A pool does each part once and leaves no thread behind, with any number of helpers, and if parts panic.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Barrier, Mutex};
use std::thread;

use foveate_engine::pool::Pool;
use rustix::thread::{CpuSet, Pid, gettid, sched_getaffinity, sched_setaffinity};
use testkit::threads::is_asleep;
use testkit::wait::HANG;

#[test]
fn every_part_is_done_once_by_the_time_it_returns() {
    run_in_time(|| {
        for helpers in [0, 1, 3] {
            let pool = Pool::new(helpers);
            for round in 0..500 {
                let done: Vec<AtomicUsize> = (0..round % 40).map(|_| AtomicUsize::new(0)).collect();
                pool.run(done.len(), &|part| {
                    done[part].fetch_add(1, Ordering::Relaxed);
                });
                let is_done_once = |count: &AtomicUsize| count.load(Ordering::Relaxed) == 1;
                assert!(done.iter().all(is_done_once), "round {round}");
            }
        }
    });
}

#[test]
fn threads_are_helped_at_the_same_time() {
    run_in_time(|| {
        let pool = Pool::new(2);
        thread::scope(|scope| {
            for stream in 0..6 {
                let pool = &pool;
                scope.spawn(move || {
                    for round in 0..300 {
                        let sum = AtomicUsize::new(0);
                        pool.run(16, &|part| {
                            sum.fetch_add(stream * 1000 + round + part, Ordering::Relaxed);
                        });
                        assert_eq!(sum.into_inner(), 16 * (stream * 1000 + round) + 120);
                    }
                });
            }
        });
    });
}

#[test]
fn helpers_do_help_and_are_woken_to_do_so() {
    run_in_time(|| {
        for helpers in [1, 3] {
            let pool = Pool::new(helpers);
            for _ in 0..20 {
                let found = all_at_once(&pool);
                assert_eq!(found.len(), helpers, "every helper takes a part");
                for helper in found {
                    while !is_asleep(&helper.as_raw_nonzero().to_string()) {
                        thread::yield_now();
                    }
                }
            }
        }
    });
}

#[test]
fn helpers_are_kept_off_the_processor_of_who_asks() {
    run_in_time(|| {
        let allowed = sched_getaffinity(None).unwrap();
        let processors: Vec<usize> =
            (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).collect();
        let pool = Pool::new(2);
        for processor in processors.iter().cycle().take(3 * processors.len()) {
            let mut only = CpuSet::new();
            only.set(*processor);
            sched_setaffinity(None, &only).unwrap();
            let others: Vec<usize> =
                processors.iter().copied().filter(|other| other != processor).collect();
            // A single processor is shared.
            let expected = if others.is_empty() { &processors } else { &others };
            // They are not driven to and fro: it takes a moment.
            while !all_at_once(&pool).into_iter().all(|helper| {
                let places = sched_getaffinity(Some(helper)).unwrap();
                processors.iter().filter(|cpu| places.is_set(**cpu)).eq(expected)
            }) {}
        }
    });
}

#[test]
fn a_panic_reaches_who_asked_and_the_pool_goes_on() {
    run_in_time(|| {
        let pool = Pool::new(2);
        for bad in [0, 7, 15] {
            let result = catch_unwind(AssertUnwindSafe(|| {
                pool.run(16, &|part| assert_ne!(part, bad, "on purpose"));
            }));
            assert!(result.is_err());
            all_at_once(&pool);
        }
    });
}

#[test]
fn a_helpers_panic_reaches_the_caller() {
    run_in_time(|| {
        let pool = Pool::new(1);
        let asked = gettid();
        for _ in 0..10 {
            let both = Barrier::new(2);
            let result = catch_unwind(AssertUnwindSafe(|| {
                pool.run(2, &|_| {
                    both.wait();
                    assert_eq!(gettid(), asked, "on purpose");
                });
            }));
            assert!(result.is_err());
            all_at_once(&pool);
        }
    });
}

#[test]
fn a_panic_of_who_asked_waits_for_the_helpers() {
    run_in_time(|| {
        let pool = Pool::new(1);
        let asked = gettid();
        for _ in 0..10 {
            let (both, is_done) = (Barrier::new(2), AtomicBool::new(false));
            let result = catch_unwind(AssertUnwindSafe(|| {
                pool.run(2, &|_| {
                    both.wait();
                    assert_ne!(gettid(), asked, "on purpose");
                    // Long enough for the other thread to be gone if it did not wait.
                    (0..1_000).for_each(|_| thread::yield_now());
                    is_done.store(true, Ordering::Relaxed);
                });
            }));
            assert!(result.is_err() && is_done.into_inner());
        }
    });
}

/// Has every thread of a pool do a part at the same time, and returns the helpers.
fn all_at_once(pool: &Pool) -> Vec<Pid> {
    let (everybody, helpers) = (Barrier::new(pool.thread_count()), Mutex::new(Vec::new()));
    let asked = gettid();
    pool.run(pool.thread_count(), &|_| {
        everybody.wait();
        if gettid() != asked {
            helpers.lock().unwrap().push(gettid());
        }
    });
    helpers.into_inner().unwrap()
}

/// Runs a test on another thread, so that one that hangs fails.
fn run_in_time(test: impl FnOnce() + Send + 'static) {
    let (ended, end) = channel();
    thread::spawn(move || {
        let result = catch_unwind(AssertUnwindSafe(test));
        // Fails if the test was given up.
        let _ = ended.send(result);
    });
    if let Err(panic) = end.recv_timeout(HANG).expect("it hangs") {
        resume_unwind(panic);
    }
}
