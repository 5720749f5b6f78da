//! The board on which frame loops post stages and helpers find them, without locks or allocation.
//!
//! A stage lies on the stack of the thread that posted it. Helpers reach it through a slot of the board, and only while
//! they are counted in there; that thread, the *poster*, closes the slot, waits for the count to fall to 0, and only
//! then returns. So a helper that leaves touches only the slot: the stage may be gone.
//!
//! Both ends of an order carry its name: `SYNC(name)`. `tests/pool_loom.rs` compiles this very file with the atomics of loom.

#![allow(unsafe_code, reason = "helpers borrow from the stack of the thread that they help")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use super::sync::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering, spin_until, wait, wake,
};

/// Bit of [`StageSlot::state`]: the slot is in use. The lowest bits count helpers.
const TAKEN: u32 = 1 << 31;
/// Bit of [`StageSlot::state`]: helpers may join.
const OPEN: u32 = 1 << 30;
/// Bit of [`StageSlot::state`]: the poster sleeps until the last helper has left.
const AWAITED: u32 = 1 << 29;
/// Bits of [`StageSlot::state`] that count the helpers.
const HELPERS: u32 = AWAITED - 1;

/// Bit of [`Board::signal`]: a helper sleeps, or is about to.
const ASLEEP: u32 = 1;
/// Bit of [`Board::signal`]: helpers end.
const ENDING: u32 = 2;
/// [`Board::signal`] grows by this with each stage.
const STAGE: u32 = 4;

/// The board on which threads post work for helpers.
#[derive(Debug)]
pub(super) struct Board {
    slots: Box<[StageSlot]>,
    /// Changes with each posted stage; the futex that helpers sleep on.
    signal: AtomicU32,
}

/// Room for a stage, on a cache line of its own, as all threads that work on the stage write to it.
#[derive(Debug)]
#[repr(align(64))]
struct StageSlot {
    /// 0 while it is free.
    state: AtomicU32,
    /// Valid while a helper is counted in.
    stage: AtomicPtr<PostedWork<'static>>,
    part_count: AtomicUsize,
    /// The next part to take. Changed only by the poster and by helpers that are counted in.
    next_part: AtomicUsize,
}

/// The work of one stage of one frame.
struct PostedWork<'a> {
    work: &'a (dyn Fn(usize) + Sync),
    /// Whether a call on a helper panicked.
    has_panicked: AtomicBool,
}

impl Board {
    /// Room for `slot_count` stages at the same time. A thread that finds no free slot works alone.
    pub(super) fn new(slot_count: usize) -> Self {
        let slot = |_| StageSlot {
            state: AtomicU32::new(0),
            stage: AtomicPtr::new(ptr::null_mut()),
            part_count: AtomicUsize::new(0),
            next_part: AtomicUsize::new(0),
        };
        Self { slots: (0..slot_count).map(slot).collect(), signal: AtomicU32::new(0) }
    }

    /// Calls `work` once for each of `0..part_count`, here and on helpers, and returns when all calls have.
    ///
    /// # Panics
    ///
    /// If a call does.
    pub(super) fn run(&self, part_count: usize, work: &(dyn Fn(usize) + Sync)) {
        let stage = PostedWork { work, has_panicked: AtomicBool::new(false) };
        let Some(slot) = self.slots.iter().find(|slot| slot.try_acquire()) else {
            return (0..part_count).for_each(work);
        };
        let posted = StageGuard::new(slot, &stage, part_count);
        self.notify();
        slot.do_parts(work);
        drop(posted);
        assert!(!stage.has_panicked.load(Ordering::Relaxed), "a helper panicked");
    }

    /// Runs a helper until it is dismissed.
    pub(super) fn help(&self) {
        loop {
            // SYNC(notified): pairs with the addition in `notify`. A helper that sees the new number finds the stage.
            let signal = self.signal.load(Ordering::Acquire) & !ASLEEP;
            if signal & ENDING != 0 {
                return;
            }
            if self.help_once() {
                continue;
            }
            let is_signalled = || self.signal.load(Ordering::Relaxed) & !ASLEEP != signal;
            spin_until(&is_signalled);
            if !is_signalled() {
                self.signal.fetch_or(ASLEEP, Ordering::Relaxed);
                wait(&self.signal, signal | ASLEEP);
            }
        }
    }

    /// Takes part in every open stage; false if there was nothing to do.
    pub(super) fn help_once(&self) -> bool {
        self.slots.iter().filter(|slot| slot.help()).count() != 0
    }

    /// Tells every helper to end after its current work.
    pub(super) fn dismiss(&self) {
        self.signal.fetch_or(ENDING, Ordering::Relaxed);
        wake(&self.signal);
    }

    /// Signals a posted stage to the helpers, or one that will be.
    pub(super) fn notify(&self) {
        let next = |signal: u32| Some((signal & !ASLEEP).wrapping_add(STAGE));
        // SYNC(notified): pairs with the load in `help`.
        let notified = self.signal.fetch_update(Ordering::Release, Ordering::Relaxed, next);
        if notified.is_ok_and(|before| before & ASLEEP != 0) {
            wake(&self.signal);
        }
    }
}

/// A stage that helpers can find. Once the guard is dropped, no helper refers to the stage.
struct StageGuard<'a>(&'a StageSlot);

impl<'a> StageGuard<'a> {
    fn new(slot: &'a StageSlot, stage: &'a PostedWork<'a>, part_count: usize) -> Self {
        slot.stage.store(ptr::from_ref(stage).cast_mut().cast(), Ordering::Relaxed);
        slot.part_count.store(part_count, Ordering::Relaxed);
        slot.next_part.store(0, Ordering::Relaxed);
        // SYNC(open): pairs with `StageSlot::join`. A helper that joins sees the stores above.
        slot.state.store(TAKEN | OPEN, Ordering::Release);
        Self(slot)
    }
}

impl Drop for StageGuard<'_> {
    fn drop(&mut self) {
        let Self(StageSlot { state, .. }) = self;
        state.fetch_and(!OPEN, Ordering::Relaxed);
        // SYNC(left): pairs with `StageSlot::leave`. The poster sees what the helpers wrote.
        let is_left = || state.load(Ordering::Acquire) & HELPERS == 0;
        spin_until(&is_left);
        while !is_left() {
            let seen = state.fetch_or(AWAITED, Ordering::Relaxed) | AWAITED;
            if seen & HELPERS != 0 {
                wait(state, seen);
            }
        }
        // SYNC(free): pairs with `StageSlot::try_acquire`. The next poster of this slot sees all that was done here.
        state.store(0, Ordering::Release);
    }
}

impl StageSlot {
    /// Takes the slot if it is free.
    fn try_acquire(&self) -> bool {
        // SYNC(free): pairs with the store in `StageGuard::drop`.
        self.state.compare_exchange(0, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Takes part in the stage posted here; false if there was nothing to do.
    fn help(&self) -> bool {
        // Only a hint: before this helper is counted in, the stage may end and another begin.
        if !self.has_parts() || !self.join() {
            return false;
        }
        self.do_parts_of_stage();
        self.leave();
        true
    }

    fn has_parts(&self) -> bool {
        self.next_part.load(Ordering::Relaxed) < self.part_count.load(Ordering::Relaxed)
    }

    /// Counts a helper in, if the slot is open.
    fn join(&self) -> bool {
        let joined = |state: u32| (state & OPEN != 0).then_some(state + 1);
        // SYNC(open): pairs with the store in `StageGuard::new`.
        self.state.fetch_update(Ordering::Acquire, Ordering::Relaxed, joined).is_ok()
    }

    /// Works as a helper that is counted in. No reference to the stage outlives this.
    fn do_parts_of_stage(&self) {
        let stage = self.stage.load(Ordering::Relaxed);
        // SAFETY: `join` counted this helper in, and the poster keeps the stage until `leave` counts it out.
        let stage = unsafe { &*stage };
        if catch_unwind(AssertUnwindSafe(|| self.do_parts(stage.work))).is_err() {
            stage.has_panicked.store(true, Ordering::Relaxed);
        }
    }

    /// Works until every part is taken.
    fn do_parts(&self, work: &(dyn Fn(usize) + Sync)) {
        let part_count = self.part_count.load(Ordering::Relaxed);
        loop {
            let part = self.next_part.fetch_add(1, Ordering::Relaxed);
            if part_count <= part {
                return;
            }
            work(part);
        }
    }

    /// Counts a helper out.
    fn leave(&self) {
        // SYNC(left): pairs with `StageGuard::drop`.
        let before = self.state.fetch_sub(1, Ordering::Release);
        if before & AWAITED != 0 && before & HELPERS == 1 {
            wake(&self.state);
        }
    }
}

impl std::fmt::Debug for PostedWork<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stage").finish_non_exhaustive()
    }
}
