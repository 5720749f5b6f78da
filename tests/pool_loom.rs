//! The laws of the pool's board hold in every execution of a few threads.
//!
//! Runs only under `--cfg loom`, as in `scripts/test.sh`. loom compares every access to a part with every other one, so it
//! sees a stage that is touched before or after it may be; and it says where all threads sleep.
#![cfg(loom)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use loom::cell::UnsafeCell;
use loom::model::Builder;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use board::Board;

#[path = "../src/engine/pool/board.rs"]
mod board;

/// The second stage reuses the slot of the first, where a late helper may still be.
#[test]
fn each_part_of_each_stage_is_done_once_and_seen() {
    check(|| {
        let board = Arc::new(Board::new(1));
        let helper = passer_by(&board);
        (0..2).for_each(|_| post(&board));
        helper.join().unwrap();
    });
}

/// A thread that finds the slot taken works alone; one that finds it free comes after everyone who used it.
#[test]
fn concurrent_posts_do_not_interfere() {
    check(|| {
        let board = Arc::new(Board::new(1));
        let helper = passer_by(&board);
        let other = thread::spawn({
            let board = Arc::clone(&board);
            move || post(&board)
        });
        post(&board);
        other.join().unwrap();
        helper.join().unwrap();
    });
}

#[test]
fn helpers_do_not_disturb_each_other() {
    check(|| {
        let board = Arc::new(Board::new(1));
        let helpers = [passer_by(&board), passer_by(&board)];
        post(&board);
        helpers.into_iter().for_each(|helper| helper.join().unwrap());
    });
}

/// Each part waits until the other has begun, so the test hangs if the helper sleeps through the stage.
#[test]
fn no_helper_sleeps_over_a_stage() {
    check(|| {
        let board = Arc::new(Board::new(1));
        let helper = thread::spawn({
            let board = Arc::clone(&board);
            move || board.help()
        });
        let (begun, both) = (Mutex::new(0), Condvar::new());
        board.run(2, &|_| {
            let mut begun = begun.lock().unwrap();
            *begun += 1;
            both.notify_one();
            while *begun < 2 {
                begun = both.wait(begun).unwrap();
            }
        });
        board.dismiss();
        helper.join().unwrap();
    });
}

/// A helper that looks for work once.
fn passer_by(board: &Arc<Board>) -> thread::JoinHandle<()> {
    let board = Arc::clone(board);
    thread::spawn(move || {
        board.help_once();
    })
}

/// Posts a stage of two parts, whose results lie on the stack, as those of a frame loop do.
fn post(board: &Board) {
    let parts = Parts([(); 2].map(|()| UnsafeCell::new(0)));
    board.run(2, &|part| parts.count(part));
    for done in &parts.0 {
        assert_eq!(done.with(|done| read(done)), 1);
    }
}

/// Number of times that each part was done.
struct Parts([UnsafeCell<u32>; 2]);

mod unsafety {
    #![allow(unsafe_code, reason = "cells whose accesses loom compares")]

    use super::Parts;

    // SAFETY: loom panics before two threads are at one cell.
    unsafe impl Sync for Parts {}

    impl Parts {
        pub(super) fn count(&self, part: usize) {
            self.0[part].with_mut(|done| {
                // SAFETY: loom has just checked that no other thread accesses it.
                unsafe { *done += 1 }
            });
        }
    }

    pub(super) fn read(done: *const u32) -> u32 {
        // SAFETY: as above.
        unsafe { *done }
    }
}
use unsafety::read;

/// Runs `law` in all executions with at most two preemptions.
fn check(law: fn()) {
    let mut model = Builder::new();
    model.preemption_bound = Some(2);
    model.check(law);
}

/// The board's primitives, for loom. Nothing spins: threads go to sleep at once.
mod sync {
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering};
    use loom::sync::{Condvar, Mutex};

    loom::lazy_static! {
        /// The kernel's: one queue for all words.
        static ref QUEUE: Mutex<()> = Mutex::new(());
        static ref WOKEN: Condvar = Condvar::new();
    }

    pub(crate) fn spin_until(_is_done: &dyn Fn() -> bool) {}

    pub(crate) fn wait(word: &AtomicU32, seen: u32) {
        let queue = QUEUE.lock().unwrap();
        if word.load(Ordering::Relaxed) == seen {
            drop(WOKEN.wait(queue).unwrap());
        }
    }

    pub(crate) fn wake(_word: &AtomicU32) {
        let _queue = QUEUE.lock().unwrap();
        WOKEN.notify_all();
    }
}
