//! Where frame loops post stages and helpers find them. Nobody takes a lock, and nothing is allocated.
//!
//! A stage lies on the stack of the thread that posted it. Helpers reach it through a place of the board, and only while
//! they are counted in there; the thread that posted it closes the place, waits for the count to fall to 0, and only
//! then returns. So a helper that leaves touches the place alone: the stage may be gone.
//!
//! Both ends of an order carry its name: `SYNC(name)`. `tests/pool_loom.rs` compiles this very file with the atomics of loom.

#![allow(unsafe_code, reason = "helpers borrow from the stack of the thread that they help")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use super::sync::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering, wait, wake, watch};

/// Of [`Place::state`]: somebody posts here. The lowest bits count helpers.
const TAKEN: u32 = 1 << 31;
/// Of [`Place::state`]: helpers may join.
const OPEN: u32 = 1 << 30;
/// Of [`Place::state`]: who posted sleeps until the last helper has left.
const AWAITED: u32 = 1 << 29;
/// Of [`Place::state`]: the number of helpers.
const HELPERS: u32 = AWAITED - 1;

/// Of [`Board::news`]: a helper sleeps, or is about to.
const ASLEEP: u32 = 1;
/// Of [`Board::news`]: helpers are to end.
const DISMISSED: u32 = 2;
/// By what [`Board::news`] grows with each stage.
const STAGE: u32 = 4;

/// Where helpers look for work.
#[derive(Debug)]
pub(super) struct Board {
    places: Box<[Place]>,
    /// Another number after each stage that was posted; what helpers sleep on.
    news: AtomicU32,
}

/// Room for a stage: on a line of its own, as all who work on the stage write to it.
#[derive(Debug)]
#[repr(align(64))]
struct Place {
    /// 0 while it is free.
    state: AtomicU32,
    /// Good for as long as a helper is counted in.
    stage: AtomicPtr<Stage<'static>>,
    part_count: AtomicUsize,
    /// The next part that nobody has taken. Changed only by who posted, and by helpers that are counted in.
    next_part: AtomicUsize,
}

/// What is to be done for one stage of one frame.
struct Stage<'a> {
    work: &'a (dyn Fn(usize) + Sync),
    /// Of a helper.
    has_panicked: AtomicBool,
}

impl Board {
    /// Room for `place_count` stages at the same time. A thread that finds none works alone.
    pub(super) fn new(place_count: usize) -> Self {
        let place = |_| Place {
            state: AtomicU32::new(0),
            stage: AtomicPtr::new(ptr::null_mut()),
            part_count: AtomicUsize::new(0),
            next_part: AtomicUsize::new(0),
        };
        Self { places: (0..place_count).map(place).collect(), news: AtomicU32::new(0) }
    }

    /// Calls `work` once for each of `0..part_count`, here and on helpers, and returns when all calls have.
    ///
    /// # Panics
    ///
    /// If a call does.
    pub(super) fn run(&self, part_count: usize, work: &(dyn Fn(usize) + Sync)) {
        let stage = Stage { work, has_panicked: AtomicBool::new(false) };
        let Some(place) = self.places.iter().find(|place| place.take()) else {
            return (0..part_count).for_each(work);
        };
        let posted = Posted::new(place, &stage, part_count);
        self.tell();
        place.do_parts(work);
        drop(posted);
        assert!(!stage.has_panicked.load(Ordering::Relaxed), "a helper panicked");
    }

    /// The life of a helper, until it is dismissed.
    pub(super) fn help(&self) {
        loop {
            // SYNC(told): pairs with the addition in `tell`. A helper that knows of a stage finds it.
            let news = self.news.load(Ordering::Acquire) & !ASLEEP;
            if news & DISMISSED != 0 {
                return;
            }
            if self.help_once() {
                continue;
            }
            let has_news = || self.news.load(Ordering::Relaxed) & !ASLEEP != news;
            watch(&has_news);
            if !has_news() {
                self.news.fetch_or(ASLEEP, Ordering::Relaxed);
                wait(&self.news, news | ASLEEP);
            }
        }
    }

    /// Does what is left to do of all stages; false if that is nothing.
    pub(super) fn help_once(&self) -> bool {
        self.places.iter().filter(|place| place.help()).count() != 0
    }

    /// Has every helper end once it has nothing to do.
    pub(super) fn dismiss(&self) {
        self.news.fetch_or(DISMISSED, Ordering::Relaxed);
        wake(&self.news);
    }

    /// Tells helpers of a stage that was posted.
    fn tell(&self) {
        let next = |news: u32| Some((news & !ASLEEP).wrapping_add(STAGE));
        // SYNC(told): pairs with the load in `help`.
        let told = self.news.fetch_update(Ordering::Release, Ordering::Relaxed, next);
        if told.is_ok_and(|before| before & ASLEEP != 0) {
            wake(&self.news);
        }
    }
}

/// A stage that helpers can find. Once this is dropped, none of them knows it any more.
struct Posted<'a>(&'a Place);

impl<'a> Posted<'a> {
    fn new(place: &'a Place, stage: &'a Stage<'a>, part_count: usize) -> Self {
        place.stage.store(ptr::from_ref(stage).cast_mut().cast(), Ordering::Relaxed);
        place.part_count.store(part_count, Ordering::Relaxed);
        place.next_part.store(0, Ordering::Relaxed);
        // SYNC(open): pairs with `Place::join`. Who joins sees the lines above.
        place.state.store(TAKEN | OPEN, Ordering::Release);
        Self(place)
    }
}

impl Drop for Posted<'_> {
    fn drop(&mut self) {
        let Self(Place { state, .. }) = self;
        state.fetch_and(!OPEN, Ordering::Relaxed);
        // SYNC(left): pairs with `Place::leave`. What helpers did is seen by who posted.
        let is_left = || state.load(Ordering::Acquire) & HELPERS == 0;
        watch(&is_left);
        while !is_left() {
            let seen = state.fetch_or(AWAITED, Ordering::Relaxed) | AWAITED;
            if seen & HELPERS != 0 {
                wait(state, seen);
            }
        }
        // SYNC(free): pairs with `Place::take`. Whoever posts here next does so after all that was done here.
        state.store(0, Ordering::Release);
    }
}

impl Place {
    /// Takes the place, if it is free.
    fn take(&self) -> bool {
        // SYNC(free): pairs with the store in `Posted::drop`.
        self.state.compare_exchange(0, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Does what is left to do here; false if that is nothing.
    fn help(&self) -> bool {
        // Only a hint: the stage may be over before this helper is counted in, and another one begun.
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

    /// Counts a helper in, if somebody wants one.
    fn join(&self) -> bool {
        let joined = |state: u32| (state & OPEN != 0).then_some(state + 1);
        // SYNC(open): pairs with the store in `Posted::new`.
        self.state.fetch_update(Ordering::Acquire, Ordering::Relaxed, joined).is_ok()
    }

    /// The part of a helper, which is counted in. No reference to the stage outlives this.
    fn do_parts_of_stage(&self) {
        let stage = self.stage.load(Ordering::Relaxed);
        // SAFETY: `join` counted this helper in, and who posted the stage keeps it until `leave` counts it out.
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
        // SYNC(left): pairs with `Posted::drop`.
        let before = self.state.fetch_sub(1, Ordering::Release);
        if before & AWAITED != 0 && before & HELPERS == 1 {
            wake(&self.state);
        }
    }
}

impl std::fmt::Debug for Stage<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stage").finish_non_exhaustive()
    }
}
