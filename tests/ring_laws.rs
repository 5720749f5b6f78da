//! What the order of the shared words is for, as races between one writer and its readers that end in a law.
//!
//! The including file provides what they run on: `super::protocol`, compiled from `src/ring/protocol.rs`, its
//! `super::atomic`, a `super::thread`, `super::{store_bytes, load_bytes}`, and how much is done: a frame has
//! `super::FRAME_BYTES`, and each reader reads `super::READS` times.
//!
//! What a frame holds follows from its number, so a reader knows whether it has what it believes to have.

use std::array;
use std::sync::Arc;

use super::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use super::protocol::{Live, Lock, STATE_TRIES_MAX, hand_over, join_writing, take_over};
use super::{FRAME_BYTES, READS, load_bytes, store_bytes, thread};

/// Makes a test of each law that takes one reader, which hands it to `check`, and a table `LAWS` of them.
macro_rules! test_laws {
    () => {
        test_laws! {
            nobody_sleeps_over_a_frame
            nobody_sleeps_over_a_change_of_the_state
            who_takes_a_wake_over_sees_what_it_is_for
            a_slot_that_holds_a_frame_holds_all_of_it
            the_newest_frame_is_in_its_slot
            a_notice_is_of_the_frame_that_it_names
            a_state_has_the_reason_that_was_given_with_it
            a_state_is_followed_by_no_former_one
            a_copy_of_the_newest_frame_is_of_that_frame
            a_valid_borrowed_frame_is_unchanged
            a_copy_of_an_older_frame_is_of_that_frame
            what_another_thread_stores_belongs_to_its_frame
        }
    };
    ($($name:ident)*) => {
        #[allow(dead_code, reason = "not everybody needs the table")]
        const LAWS: &[(&str, fn())] = &[$((stringify!($name), ring_laws::$name)),*];

        $(
            #[test]
            fn $name() {
                check(ring_laws::$name);
            }
        )*
    };
}
pub(crate) use test_laws;

/// The fewest that a ring may have, so that slots are used again soonest.
const SLOT_COUNT: usize = 2;

const FRAME_WORDS: usize = FRAME_BYTES.div_ceil(8);

type Frame = [u8; FRAME_BYTES];

/// The third frame replaces the first.
pub(crate) fn a_copy_of_the_newest_frame_is_of_that_frame() {
    let read = |ring: &Ring| {
        let (newest, _) = ring.live().look();
        ring.check_copy(newest);
    };
    race(|ring| (1..=3).for_each(|sequence| ring.publish(sequence)), [read]);
}

/// As in `read_next`: of the frames that may be there, the older one.
pub(crate) fn a_copy_of_an_older_frame_is_of_that_frame() {
    let read = |ring: &Ring| {
        let newest = ring.live().newest();
        ring.check_copy(newest.saturating_sub(1));
    };
    race(|ring| (1..=3).for_each(|sequence| ring.publish(sequence)), [read]);
}

/// The third frame, which replaces the first, is stored by another thread. None is the second.
pub(crate) fn what_another_thread_stores_belongs_to_its_frame() {
    let write = |ring: &Arc<Ring>| {
        ring.publish(1);
        ring.lock(3).begin(3);
        let shared = Arc::clone(ring);
        let helper = thread::spawn(move || {
            join_writing();
            store_bytes(shared.words(3), &contents(3));
        });
        helper.join().expect("it only stores");
        ring.live().publish(ring.lock(3), 3, || {});
    };
    let read = |ring: &Ring| {
        ring.check_copy(ring.live().newest());
    };
    race(write, [read]);
}

/// Read in place, in two parts, of which the second may come too late.
pub(crate) fn a_valid_borrowed_frame_is_unchanged() {
    let read = |ring: &Ring| {
        let (newest, _) = ring.live().look();
        let lock = ring.lock(newest);
        let mut frame = [0; FRAME_BYTES];
        let (first, second) = frame.split_at_mut(8);
        let words = ring.words(newest);
        if newest == 0 || lock.read(newest, || load_bytes(first, &words[..1])).is_none() {
            return;
        }
        load_bytes(second, &words[1..]);
        if lock.still_holds(newest) {
            assert_eq!(frame, contents(newest), "borrowed as frame {newest}");
        }
    };
    race(|ring| (1..=3).for_each(|sequence| ring.publish(sequence)), [read]);
}

/// No frame is replaced during this test, so each must be found.
pub(crate) fn the_newest_frame_is_in_its_slot() {
    let read = |ring: &Ring| {
        let (newest, _) = ring.live().look();
        let is_there = ring.check_copy(newest);
        assert!(is_there || newest == 0, "frame {newest} is not there");
    };
    race(|ring| (1..=2).for_each(|sequence| ring.publish(sequence)), [read]);
}

/// A reader need not have seen it to be the newest.
pub(crate) fn a_slot_that_holds_a_frame_holds_all_of_it() {
    let read = |ring: &Ring| {
        ring.check_copy(1);
    };
    race(|ring| ring.publish(1), [read]);
}

/// As in `Segment::newest_publish`, which does not ask beforehand whether the slot holds the frame.
pub(crate) fn a_notice_is_of_the_frame_that_it_names() {
    let read = |ring: &Ring| {
        let newest = ring.live().newest();
        let frame = ring.load(newest);
        if ring.lock(newest).still_holds(newest) {
            assert_eq!(frame, contents(newest), "the notice of frame {newest}");
        }
    };
    race(|ring| (1..=3).for_each(|sequence| ring.publish(sequence)), [read]);
}

/// Not even one that calls FUTEX_WAIT right after its look, which sleeps if the word is the one that was seen.
pub(crate) fn nobody_sleeps_over_a_frame() {
    let look = |ring: &Ring| ring.live().look();
    let (ring, looks) = race(|ring| (1..=2).for_each(|sequence| ring.publish(sequence)), [look]);
    for (newest, seen) in looks.into_iter().flatten() {
        let stays_asleep = ring.futex.load(Ordering::Relaxed) == seen;
        assert!(!stays_asleep || newest == 2, "after frame {newest} of 2, on word {seen}");
        assert_ne!(ring.live().has_news(newest, seen), stays_asleep, "on word {seen}");
    }
}

pub(crate) fn nobody_sleeps_over_a_change_of_the_state() {
    let read = |ring: &Ring| (ring.live().look().1, ring.read_state());
    let (ring, looks) = race(|ring| (1..=2).for_each(|_| ring.change_state()), [read]);
    for (seen, state) in looks.into_iter().flatten() {
        let stays_asleep = ring.futex.load(Ordering::Relaxed) == seen;
        assert!(!stays_asleep || state == contents(2), "in a former state, on word {seen}");
    }
}

/// The second change goes where the state lay at first.
pub(crate) fn a_state_has_the_reason_that_was_given_with_it() {
    let read = |ring: &Ring| {
        let state = ring.read_state();
        assert!((0..=2).any(|number| state == contents(number)), "{state:?}");
    };
    race(|ring| (1..=2).for_each(|_| ring.change_state()), [read]);
}

pub(crate) fn a_state_is_followed_by_no_former_one() {
    let read = |ring: &Ring| {
        let states = [ring.read_state(), ring.read_state()];
        let numbers = states.map(|state| (0..=2).find(|number| state == contents(*number)));
        assert!(numbers.is_sorted(), "{numbers:?}");
    };
    race(|ring| (1..=2).for_each(|_| ring.change_state()), [read]);
}

/// The only one that takes two readers, and so many executions more.
pub(crate) fn readers_do_not_disturb_each_other() {
    let read = |ring: &Ring| ring.check_copy(ring.live().newest());
    race(|ring| (1..=3).for_each(|sequence| ring.publish(sequence)), [read, read]);
}

pub(crate) fn who_takes_a_wake_over_sees_what_it_is_for() {
    let wake = |ring: &Ring| {
        if take_over(&ring.pending) {
            assert_ne!(ring.live().newest(), 0, "woken for nothing");
        }
    };
    let publish = |ring: &Arc<Ring>| {
        ring.publish(1);
        hand_over(&ring.pending);
    };
    race(publish, [wake]);
}

/// Lets `write` run against each of `read`, which is done [`READS`] times in a thread of its own. Returns the ring and
/// what the threads read.
fn race<T: Send + 'static, const READERS: usize>(
    write: impl FnOnce(&Arc<Ring>),
    read: [fn(&Ring) -> T; READERS],
) -> (Arc<Ring>, [[T; READS]; READERS]) {
    let ring = Arc::new(Ring::new());
    let readers = read.map(|read| {
        let ring = Arc::clone(&ring);
        thread::spawn(move || array::from_fn(|_| read(&ring)))
    });
    write(&ring);
    let seen = readers.map(|reader| reader.join().expect("a reader panics on a broken law"));
    (ring, seen)
}

/// Reads a state that changes during every copy. Returns whether there was one to take, and how many copies that took.
#[allow(dead_code, reason = "too long for loom, and no matter of order")]
pub(crate) fn read_a_restless_state() -> (bool, u32) {
    let (ring, mut copies) = (Ring::new(), 0);
    let state = ring.live().read_state(|_| {
        copies += 1;
        assert!(copies <= STATE_TRIES_MAX, "copy {copies}");
        ring.change_state();
    });
    (state.is_some(), copies)
}

/// A segment, as far as its words are shared and change. Frame 0 and state 0 are there from the start.
struct Ring {
    newest: AtomicU64,
    futex: AtomicU32,
    state_sequence: AtomicU32,
    locks: [AtomicU64; SLOT_COUNT],
    frames: [[AtomicU64; FRAME_WORDS]; SLOT_COUNT],
    states: [[AtomicU64; FRAME_WORDS]; 2],
    pending: AtomicBool,
}

impl Ring {
    fn new() -> Self {
        let zeros = || array::from_fn(|_| array::from_fn(|_| AtomicU64::new(0)));
        Self {
            newest: AtomicU64::new(0),
            futex: AtomicU32::new(0),
            state_sequence: AtomicU32::new(0),
            locks: array::from_fn(|_| AtomicU64::new(0)),
            frames: zeros(),
            states: zeros(),
            pending: AtomicBool::new(false),
        }
    }

    fn live(&self) -> Live<'_> {
        let Self { newest, futex, state_sequence, .. } = self;
        Live { newest, futex, state_sequence }
    }

    fn lock(&self, sequence: u64) -> Lock<'_> {
        Lock(&self.locks[place_of(sequence)])
    }

    fn words(&self, sequence: u64) -> &[AtomicU64] {
        &self.frames[place_of(sequence)]
    }

    fn publish(&self, sequence: u64) {
        let fill = || store_bytes(self.words(sequence), &contents(sequence));
        self.live().publish(self.lock(sequence), sequence, fill);
    }

    fn load(&self, sequence: u64) -> Frame {
        let mut frame = [0; FRAME_BYTES];
        load_bytes(&mut frame, self.words(sequence));
        frame
    }

    /// Copies frame `sequence`, if it is there, and makes sure that it is that. Returns whether it was there; frame 0
    /// is none that a reader copies.
    fn check_copy(&self, sequence: u64) -> bool {
        if sequence == 0 {
            return false;
        }
        let copy = self.lock(sequence).read(sequence, || self.load(sequence));
        if let Some(frame) = copy {
            assert_eq!(frame, contents(sequence), "copied as frame {sequence}");
        }
        copy.is_some()
    }

    fn change_state(&self) {
        self.live().change_state(|number| {
            store_bytes(&self.states[place_of(number.into())], &contents(number.into()));
        });
    }

    fn read_state(&self) -> Frame {
        self.live()
            .read_state(|number| {
                let mut state = [0; FRAME_BYTES];
                load_bytes(&mut state, &self.states[place_of(number.into())]);
                state
            })
            .expect("the writer changes it twice")
    }
}

/// Which of two places a frame or a state has.
fn place_of(number: u64) -> usize {
    usize::from(!number.is_multiple_of(2))
}

/// What frame or state `number` holds; all 0 for number 0. No word of it is in another.
fn contents(number: u64) -> Frame {
    array::from_fn(|index| {
        let word = number.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(index as u64 / 8);
        if number == 0 { 0 } else { word.to_le_bytes()[index % 8] }
    })
}
