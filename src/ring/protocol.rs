//! Memory ordering between the writer and the readers of a segment. No other file of the ring orders memory.
//!
//! Both ends of a pair carry its name: `SYNC(name)`. Readers only load, and only relaxed, because std guarantees no other atomic
//! access to memory mapped read-only; so each of their ends is a fence. Since they store nothing, the writer needs no order
//! against them, and readers cannot disturb each other.
//!
//! `tests/ring_laws.rs` states what follows from this. `tests/ring_loom.rs` compiles this very file with the
//! atomics of loom, runs small rings through all their executions, and makes sure that a law breaks wherever one of the
//! orders below is relaxed. `tests/ring_order.rs` compiles it for threads, for Miri and for ThreadSanitizer.
//!
//! The models are of C11's memory, so they hold for ARM as for x86-64. They assume of a copy that its words are loaded or stored
//! one by one, relaxed, in any order: the least that the string instruction guarantees which copies 64 words and more on x86-64
//! (`mapping.rs` cites the manuals). `tests/ring/ring_processes.rs` checks longer frames on a real processor. qemu-user cannot show a
//! missing fence, because it executes ARM's loads and stores in x86-64's order; nothing was run on a real ARM processor.

use super::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};

/// Attempts to copy a state before a reader gives up: some milliseconds. Even a state that changes continuously is at rest during
/// one of every few attempts.
pub(super) const STATE_TRIES_MAX: u32 = 1 << 16;

/// Words of a segment that announce changes to readers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Live<'a> {
    /// Ring sequence of the newest complete frame; 0 before the first.
    pub(super) newest: &'a AtomicU64,
    /// The futex word; changes with each publish and each change of the state.
    pub(super) futex: &'a AtomicU32,
    /// Counts the changes of the state.
    pub(super) state_sequence: &'a AtomicU32,
}

/// The first word of a slot: 2n while the slot holds frame n, 2n - 1 while frame n is being written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lock<'a>(pub(super) &'a AtomicU64);

/// The writer's side.
impl Live<'_> {
    /// Publishes frame `sequence`, the successor of the last one, in the slot of `lock`. `fill` stores the rest of the slot,
    /// relaxed.
    pub(super) fn publish(self, lock: Lock<'_>, sequence: u64, fill: impl FnOnce()) {
        lock.write(sequence, fill);
        // SYNC(published): pairs with the fence in `Live::newest`. A reader that sees this sequence also sees the
        // slot with its lock.
        self.newest.store(sequence, Ordering::Release);
        self.bump();
    }

    /// Changes the state. `fill` stores the state with the given number, relaxed, in the place of the one before the current
    /// state.
    pub(super) fn change_state(self, fill: impl FnOnce(u32)) {
        let next = self.state_sequence.load(Ordering::Relaxed).wrapping_add(1);
        // SYNC(state-torn): pairs with the second fence in `Live::read_state`. A reader that saw any word below also
        // sees that the state before, which lies elsewhere, is not the newest any more.
        fence(Ordering::Release);
        fill(next);
        // SYNC(state-filled): pairs with the first fence in `Live::read_state`.
        self.state_sequence.store(next, Ordering::Release);
        self.bump();
    }

    /// Changes the futex word, so that no waiter sleeps through this change.
    fn bump(self) {
        // SYNC(bumped): pairs with the fence in `Live::look`. A reader that sees this word also sees the change it announces.
        self.futex.fetch_add(1, Ordering::Release);
    }
}

/// The readers' side.
impl Live<'_> {
    /// Looks for news. Returns the ring sequence of the newest frame, whose slot holds it or a later one, and the futex word before the
    /// look: while it is unchanged, there is nothing newer.
    pub(super) fn look(self) -> (u64, u32) {
        let seen = self.futex.load(Ordering::Relaxed);
        // SYNC(bumped): pairs with the addition in `Live::bump`. A caller of `has_news` before FUTEX_WAIT could do without it,
        // thanks to the fence in `newest`; readers in other languages need not call that.
        fence(Ordering::Acquire);
        (self.newest(), seen)
    }

    /// Ring sequence of the newest frame, whose slot holds it or a later one.
    pub(super) fn newest(self) -> u64 {
        let newest = self.newest.load(Ordering::Relaxed);
        // SYNC(published): pairs with the store in `Live::publish`.
        fence(Ordering::Acquire);
        newest
    }

    /// Whether there may be news for a reader whose last frame was `last` and whose last look saw the futex word `seen`. Orders
    /// nothing: after news, the caller must look again.
    pub(super) fn has_news(self, last: u64, seen: u32) -> bool {
        last < self.newest.load(Ordering::Relaxed) || seen != self.futex.load(Ordering::Relaxed)
    }

    /// The state; `None` if the writer never leaves it at rest. `load` loads the state with the given number, relaxed, and is called
    /// again if that changed meanwhile.
    pub(super) fn read_state<T>(self, mut load: impl FnMut(u32) -> T) -> Option<T> {
        (0..STATE_TRIES_MAX).find_map(|_| {
            let before = self.state_sequence.load(Ordering::Relaxed);
            // SYNC(state-filled): pairs with the store in `Live::change_state`.
            fence(Ordering::Acquire);
            let state = load(before);
            // SYNC(state-torn): pairs with the fence in `Live::change_state`.
            fence(Ordering::Acquire);
            (self.state_sequence.load(Ordering::Relaxed) == before).then_some(state)
        })
    }
}

impl Lock<'_> {
    /// Writer: marks the slot as being written for frame `sequence`. What the caller stores in it afterwards, before it publishes the
    /// frame, counts as stored by `fill`; so does what other threads store that are synchronised with it before and after, and that
    /// [join](join_writing), and what a device writes in a submission that the caller makes and waits for.
    pub(super) fn begin(self, sequence: u64) {
        self.0.store(being_written(sequence), Ordering::Relaxed);
        // SYNC(torn): pairs with the fence in `Lock::still_holds`. A reader that saw any word below also sees that
        // the slot is being written.
        fence(Ordering::Release);
    }

    /// Writer: replaces the slot's content by frame `sequence`.
    fn write(self, sequence: u64, fill: impl FnOnce()) {
        self.begin(sequence);
        fill();
        // SYNC(filled): pairs with the fence in `Lock::holds`. A reader that sees this lock also sees every word above, however
        // it learned of the frame; one that saw it published would see them anyway.
        self.0.store(written(sequence), Ordering::Release);
    }

    /// Reader: what `load` loads, relaxed, if all of it belongs to frame `sequence`.
    pub(super) fn read<T>(self, sequence: u64, load: impl FnOnce() -> T) -> Option<T> {
        if !self.holds(sequence) {
            return None;
        }
        let loaded = load();
        self.still_holds(sequence).then_some(loaded)
    }

    /// Whether the slot holds frame `sequence`, complete. Loads after this see that frame or a later one.
    fn holds(self, sequence: u64) -> bool {
        let lock = self.0.load(Ordering::Relaxed);
        // SYNC(filled): pairs with the last store in `Lock::write`.
        fence(Ordering::Acquire);
        lock == written(sequence)
    }

    /// Whether the slot still holds frame `sequence`. Loads before this saw that frame.
    pub(super) fn still_holds(self, sequence: u64) -> bool {
        // SYNC(torn): pairs with the fence in `Lock::write`.
        fence(Ordering::Acquire);
        self.0.load(Ordering::Relaxed) == written(sequence)
    }
}

/// Precedes what another thread than the writer's stores in a slot.
pub(super) fn join_writing() {
    // SYNC(torn): pairs with the fence in `Lock::still_holds`, as that of `Lock::begin` does for the writer's own stores.
    fence(Ordering::Release);
}

/// Leaves the wake for what was published to the waker thread, whose flag is `pending`.
pub(super) fn hand_over(pending: &AtomicBool) {
    // SYNC(pending): pairs with the swap in `take_over`. The thread then sees what was published.
    pending.store(true, Ordering::Release);
}

/// Takes over a wake that was left to the waker thread, if there is one.
pub(super) fn take_over(pending: &AtomicBool) -> bool {
    // SYNC(pending): pairs with the store in `hand_over`.
    pending.swap(false, Ordering::Acquire)
}

/// The lock of a slot that holds frame `sequence`.
fn written(sequence: u64) -> u64 {
    sequence.wrapping_mul(2)
}

/// The lock of a slot while frame `sequence` is written to it.
fn being_written(sequence: u64) -> u64 {
    written(sequence).wrapping_sub(1)
}
