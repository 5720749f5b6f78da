//! The laws of the ring's memory order hold between threads, with the copies that the ring makes.
//!
//! `tests/ring_loom.rs` proves the order. This is the same code over plain memory of one process, for tools that follow
//! every access: `scripts/test.sh --long` runs it under Miri, which makes weakly ordered memory up and has many
//! schedules, and under ThreadSanitizer, which finds any access that is not atomic.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{env, thread};

use foveate_ring::RingError;
use mapping::{load_bytes, store_bytes};
use ring_laws::test_laws;

#[allow(dead_code, reason = "plain memory is not mapped")]
#[path = "../src/ring/mapping.rs"]
mod mapping;
#[path = "../src/ring/protocol.rs"]
mod protocol;
#[path = "support/ring_laws.rs"]
mod ring_laws;

mod atomic {
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
}

/// Not a whole number of words, as the texels of a frame need not be, and so few that `mapping` copies them with atomics:
/// the tools do not look into the instruction that it has for more.
const FRAME_BYTES: usize = 19;

/// So many that the writer comes in between, whoever begins.
const READS: usize = if cfg!(miri) { 8 } else { 32 };

test_laws!();

#[test]
fn readers_do_not_disturb_each_other() {
    check(ring_laws::readers_do_not_disturb_each_other);
}

/// Runs `law` again and again. Under Miri once for each of many seeds.
fn check(law: fn()) {
    let long = env::var_os("FOVEATE_LONG").is_some();
    let runs = match (cfg!(miri), long) {
        (true, _) => 1,
        (false, false) => 1_000,
        (false, true) => 20_000,
    };
    (0..runs).for_each(|_| law());
}

/// What `mapping` names the failed call by.
trait SystemResultExt<T> {
    fn during(self, call: &'static str) -> Result<T, RingError>;
}

impl<T> SystemResultExt<T> for rustix::io::Result<T> {
    fn during(self, call: &'static str) -> Result<T, RingError> {
        self.map_err(|errno| RingError::System { call, source: errno.into() })
    }
}
