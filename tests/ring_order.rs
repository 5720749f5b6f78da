//! The laws of the ring's memory order hold between threads, with the copies that the ring makes.
//!
//! `tests/ring_loom.rs` proves the order. This is the same code over plain memory of one process, for tools that follow
//! every access: `scripts/test.sh --long` runs it under Miri, which makes weakly ordered memory up and has many
//! schedules, and under ThreadSanitizer, which finds any access that is not atomic.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::{env, thread};

use foveate_ring::{Text, abi};
use mapping::{load_bytes, store_bytes};

#[allow(
    dead_code,
    unreachable_pub,
    reason = "plain memory is not mapped; it is a module of the crate"
)]
#[path = "../src/ring/error.rs"]
mod error;
#[allow(dead_code, reason = "plain memory is not mapped")]
#[path = "../src/ring/mapping.rs"]
mod mapping;
#[path = "../src/ring/protocol.rs"]
mod protocol;

mod atomic {
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
}

/// Reads of each side, so that both interleave.
const READS: usize = if cfg!(miri) { 8 } else { 32 };

/// The laws of frames of so many bytes.
macro_rules! laws_of_frames {
    ($name:ident, $bytes:literal) => {
        #[path = "."]
        mod $name {
            use ring_laws::test_laws;

            use super::{READS, atomic, check, load_bytes, protocol, store_bytes, thread};

            #[allow(clippy::duplicate_mod, reason = "once for each length")]
            #[path = "ring_laws.rs"]
            pub(super) mod ring_laws;

            const FRAME_BYTES: usize = $bytes;

            test_laws!();

            #[test]
            fn readers_do_not_disturb_each_other() {
                check(ring_laws::readers_do_not_disturb_each_other);
            }
        }
    };
}

// Not a whole number of words, as the texels of a frame need not be, and so few that `mapping` copies them with atomics.
laws_of_frames!(short_frames, 19);

// So many that `mapping` copies them, and all but the first word of them, with one instruction, into which no tool looks.
// To Miri it would be the same loop once more.
#[cfg(not(miri))]
laws_of_frames!(long_frames, 523);

/// From the one copy to the other, with and without a started word. Nothing else is touched.
#[test]
fn a_copy_has_the_same_words_whichever_way_it_is_made() {
    for length in (0..=67 * 8_usize).filter(|length| *length < 24 || 61 * 8 < *length) {
        let source: Vec<u8> = (1..=251).cycle().take(length).collect();
        let words: Vec<_> = (0..70).map(|_| AtomicU64::new(u64::MAX)).collect();
        store_bytes(&words, &source);
        let stored = words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes());
        let rest = length.next_multiple_of(8) - length;
        let expected = source.iter().copied().chain(std::iter::repeat_n(0, rest));
        assert!(stored.eq(expected.chain([u8::MAX; 70 * 8]).take(70 * 8)), "{length} bytes stored");

        let mut target = vec![0; length];
        load_bytes(&mut target, &words);
        assert_eq!(target, source, "{length} bytes loaded");
    }
}

#[test]
#[cfg(not(miri))]
fn a_writer_that_never_stops_keeps_no_reader() {
    let (is_at_rest, copies) = short_frames::ring_laws::read_a_restless_state();
    assert!(!is_at_rest && copies == protocol::STATE_TRIES_MAX, "{copies} copies");
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
