//! Counters that a stream's threads write and anybody may read.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `amount`.
    pub fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    /// The value now.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What one stream has done since it started.
#[derive(Debug, Default)]
pub struct StreamCounters {
    /// Frames that the pipeline delivered.
    pub frames_captured: Counter,
    /// Frames that a newer one replaced before the frame loop took them.
    pub frames_dropped: Counter,
    /// Frames whose tokens were published.
    pub frames_published: Counter,
    /// Frames that could not be read: a buffer that does not map, or is too short for its caps.
    pub frames_refused: Counter,
    /// Tiles that were ingested: those that changed, and those whose turn to be refreshed it was.
    pub tiles_dirty: Counter,
    /// Times the stream went on on the CPU because its GPU was lost or refused.
    pub backend_fallbacks: Counter,
}
