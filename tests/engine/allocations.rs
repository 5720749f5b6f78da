//! Counts how often a thread allocates memory.

#![allow(unreachable_pub, reason = "a module of several programs")]

use std::cell::Cell;

use testkit::allocations::CountingAllocator;

/// How often this thread allocates memory in `work`. Other threads, and so other tests, do not count.
pub fn allocations_in(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

#[global_allocator]
static ALLOCATOR: CountingAllocator =
    CountingAllocator { on_allocation: || ALLOCATIONS.set(ALLOCATIONS.get() + 1) };
