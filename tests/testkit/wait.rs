//! Waiting for what comes, and not for what never does.

use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Far above what anything takes: a test that waits this long has failed.
pub const HANG: Duration = Duration::from_secs(120);

/// The pause between two looks. A client of the daemon may ask 200 times a second.
const PAUSE: Duration = Duration::from_millis(5);

/// Returns once `condition` holds.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < HANG, "timed out waiting until {what}");
        thread::sleep(PAUSE);
    }
}

/// Returns once `value` gives what is `expected`.
pub fn until_equal<T: PartialEq + Debug>(what: &str, expected: &T, mut value: impl FnMut() -> T) {
    let started = Instant::now();
    loop {
        let present = value();
        if present == *expected {
            return;
        }
        let waited = started.elapsed();
        assert!(waited < HANG, "timed out waiting until {what}: {present:#?}, not {expected:#?}");
        thread::sleep(PAUSE);
    }
}

/// A flag that is raised however the test ends, so that its threads end.
pub struct RaisedAtLast<'a>(pub &'a AtomicBool);

impl Drop for RaisedAtLast<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
