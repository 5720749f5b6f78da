//! The system's allocator, which calls a function at each allocation.

#![allow(unsafe_code, reason = "an allocator")]

use std::alloc::{GlobalAlloc, Layout, System};

/// The system's allocator for `#[global_allocator]`, which calls `on_allocation` before each allocation. The function must not
/// allocate.
#[derive(Debug)]
pub struct CountingAllocator {
    pub on_allocation: fn(),
}

// SAFETY: every call is passed on to the system's allocator.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        (self.on_allocation)();
        // SAFETY: the caller keeps to the same contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        (self.on_allocation)();
        // SAFETY: the caller keeps to the same contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        (self.on_allocation)();
        // SAFETY: the caller keeps to the same contract.
        unsafe { System.realloc(at, layout, bytes) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps to the same contract.
        unsafe { System.dealloc(at, layout) }
    }
}
