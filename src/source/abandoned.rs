//! Counts of capture threads that nobody waits for any longer.

use std::sync::atomic::{AtomicUsize, Ordering};

static ABANDONED: AtomicUsize = AtomicUsize::new(0);

/// Capture threads of this process that still run although nobody waits for them: detached sources that are stopping, and calls that do
/// not return.
pub fn count() -> usize {
    ABANDONED.load(Ordering::Relaxed)
}

/// Counts a thread.
pub fn add() {
    ABANDONED.fetch_add(1, Ordering::Relaxed);
}

/// Takes back an [`add`], as the thread has finished.
pub fn remove() {
    ABANDONED.fetch_sub(1, Ordering::Relaxed);
}
