//! Evicts the CPU caches, to measure frames as if other work had run in between.

use std::fs;
use std::hint::black_box;

/// Words per cache line.
const LINE_WORDS: usize = 8;

/// Assumed if the kernel does not report cache sizes.
const UNKNOWN_CACHE_BYTES: usize = 64 << 20;

/// A buffer of twice the size of the last-level cache.
#[derive(Debug)]
pub(super) struct Evictor(Vec<u64>);

impl Evictor {
    pub(super) fn new() -> Self {
        let bytes = 2 * largest_cache_bytes().unwrap_or(UNKNOWN_CACHE_BYTES);
        Self(vec![1; bytes / size_of::<u64>()])
    }

    /// Writes to every cache line of the buffer.
    pub(super) fn evict(&mut self) {
        for word in self.0.iter_mut().step_by(LINE_WORDS) {
            *word = word.wrapping_add(1);
        }
        black_box(&mut self.0);
    }
}

/// The size of the largest cache of the first CPU.
fn largest_cache_bytes() -> Option<usize> {
    let caches = fs::read_dir("/sys/devices/system/cpu/cpu0/cache").ok()?;
    let sizes = caches.filter_map(|cache| fs::read_to_string(cache.ok()?.path().join("size")).ok());
    sizes.filter_map(|size| bytes_of(size.trim())).max()
}

/// Parses a size of sysfs, such as `32768K`.
fn bytes_of(size: &str) -> Option<usize> {
    let digits = size.trim_end_matches(|unit: char| unit.is_ascii_alphabetic());
    let shift = match size.get(digits.len()..)? {
        "" => 0,
        "K" => 10,
        "M" => 20,
        _ => return None,
    };
    digits.parse::<usize>().ok().map(|number| number << shift)
}
