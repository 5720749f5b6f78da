//! A writer and readers in processes of their own: whatever a reader accepts is whole, what it lost is counted, and
//! what a killed writer has published stays readable.
//!
//! Every word of a frame follows from its number, so a single word of another shows.

use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use foveate_ring::{
    BorrowedFrame, ReadOutcome, Reader, RingError, SegmentSpec, State, TokenFrameBuf, Waker, Writer,
};
use rustix::process::Signal;
use testkit::is_long;
use testkit::players::{Line, Player, plays};
use testkit::ring::{as_token_frame, copy_items, spec};
use testkit::wait::HANG;

use crate::numbered::{check, fill, large};

/// Tokens of a small frame.
const SMALL: usize = 3;

/// Frames that every reader takes before the writer ends; of those that it holds it is lapped by a tenth as many.
const TAKEN: u64 = 100;

/// Frames between two signals that stop or continue a reader.
const STOP_EVERY: u64 = 500;

/// Ways of reading; each has a process.
const HABITS: [&str; 6] = ["newest", "newest-waiting", "in-order", "stopped", "borrow", "hold"];

/// What the writer says of itself now and then.
const STATES: [(State, &str); 2] = [(State::Live, ""), (State::Stalled, "no frame for a while")];

#[test]
fn small_frames_are_whole_in_every_process() {
    if plays(read) {
        return;
    }
    run(&spec(SMALL), if is_long() { 1_000_000 } else { 30_000 });
}

#[test]
fn large_frames_are_whole_in_every_process() {
    if plays(read) {
        return;
    }
    run(&large(), if is_long() { 100_000 } else { 5_000 });
}

#[test]
fn what_a_killed_writer_has_published_stays_whole_and_readable() {
    if plays(write) {
        return;
    }
    let mut numbers = Numbers(1);
    for _ in 0..if is_long() { 1_000 } else { 40 } {
        let writing = Player::start("writer");
        let (_, descriptor) = writing.line.receive();
        let descriptor = descriptor.unwrap();
        let mut witness = Reader::from_fd(descriptor.try_clone().unwrap()).unwrap();
        let mut frame = TokenFrameBuf::default();
        for _ in 0..=numbers.below(30) {
            until_read(&mut witness, &mut frame);
        }
        writing.kill();

        assert_whole(Reader::from_fd(descriptor).unwrap());
    }
}

/// Every frame of the ring of a dead writer is whole, but for the one that it may have begun to replace.
fn assert_whole(mut heir: Reader) {
    let mut frame = TokenFrameBuf::default();
    heir.rewind();
    let (mut taken, mut last) = (0, 0);
    while let ReadOutcome::Frame { missed } = heir.read_next(&mut frame).unwrap() {
        check(&frame, SMALL);
        assert!(taken == 0 || missed == 0, "{missed} are missing before {:?}", frame.head);
        last += missed + 1;
        assert_eq!(frame.head.ring_sequence, last);
        taken += 1;
    }
    assert!(heir.header().slot_count as u64 - 1 <= taken || taken == last, "{taken} of {last}");
    let (state, reason) = heir.state();
    assert!(STATES.contains(&(state, reason.as_str())), "{state:?}, {reason}");
    assert!(!heir.wait(Duration::ZERO), "a dead writer has no news");
}

/// Publishes at least `count` frames of `spec` at full speed, until every reader has taken as many as it wants.
fn run(spec: &SegmentSpec, count: u64) {
    let mut writer = Writer::create(spec).unwrap();
    let (_, arrivals) = crossbeam_channel::unbounded();
    let waker = Waker::new(&writer, arrivals).unwrap();
    let readers = HABITS.map(|habit| {
        let mut reader = Player::start(&format!("{habit} {}", spec.capacity));
        reader.line.send("read", Some(writer.reader_fd().unwrap().as_fd()));
        assert_eq!(reader.hear(), "ready");
        reader
    });
    let stopped = &readers[HABITS.iter().position(|habit| *habit == "stopped").unwrap()];
    let mut satisfied = readers.each_ref().map(|_| false);
    let (mut frame, mut last) = (TokenFrameBuf::default(), 0);
    while last < count || satisfied.contains(&false) {
        last += 1;
        fill(&mut frame, last, spec);
        assert_eq!(writer.publish(&as_token_frame(&frame)), last);
        waker.wake();
        match last % (2 * STOP_EVERY) {
            0 => stopped.signal(Signal::STOP),
            STOP_EVERY => stopped.signal(Signal::CONT),
            _ => {}
        }
        for (reader, satisfied) in readers.iter().zip(&mut satisfied) {
            *satisfied |= last.is_multiple_of(64) && reader.line.has_words(Duration::ZERO);
        }
    }
    stopped.signal(Signal::CONT);
    writer.set_state(State::Ended, "that was all");
    waker.wake();
    for (mut reader, habit) in readers.into_iter().zip(HABITS) {
        assert_eq!(reader.hear(), "satisfied", "{habit}");
        let told = reader.hear();
        let [taken, missed, lapped] = numbers(&told);
        assert_eq!(taken + missed + lapped, last, "{habit} of {taken} + {missed} + {lapped}");
        reader.finish();
    }
}

fn numbers(words: &str) -> [u64; 3] {
    let numbers: Vec<_> = words.split(' ').map(|word| word.parse().unwrap()).collect();
    numbers.try_into().unwrap()
}

/// The part of a reader: reads to the end, and tells what it took, what it missed and where it was lapped.
fn read(part: &str, line: &Line) {
    let (habit, capacity) = part.split_once(' ').unwrap();
    let capacity = capacity.parse().unwrap();
    let descriptor = line.receive().1.unwrap();
    let scout = Reader::from_fd(descriptor.try_clone().unwrap()).unwrap();
    let mut reader = Reader::from_fd(descriptor).unwrap();
    let mut habit = Habit { name: habit, capacity, scout, frame: TokenFrameBuf::default() };
    let (mut taken, mut missed, mut lapped) = (0, 0, 0);
    let mut is_satisfied = false;
    line.say("ready");
    loop {
        // Asked before: what was published before the end has then been read.
        let is_over = reader.state().0 == State::Ended;
        match habit.read(&mut reader) {
            Read::Frame(older) => (taken, missed) = (taken + 1, missed + older),
            Read::Lapped(older) => (lapped, missed) = (lapped + 1, missed + older),
            Read::Nothing if is_over => break,
            Read::Nothing => {}
        }
        let has_enough = TAKEN <= taken && (TAKEN / 10 <= lapped || habit.name != "hold");
        if has_enough && !std::mem::replace(&mut is_satisfied, true) {
            line.say("satisfied");
        }
    }
    line.say(&format!("{taken} {missed} {lapped}"));
}

/// The result of a read, with the number of skipped frames.
enum Read {
    Frame(u64),
    Lapped(u64),
    Nothing,
}

/// A way to read.
struct Habit<'a> {
    name: &'a str,
    /// Tokens of a whole frame.
    capacity: usize,
    /// Another reader of the segment, that looks how far the writer is.
    scout: Reader,
    frame: TokenFrameBuf,
}

impl Habit<'_> {
    fn read(&mut self, reader: &mut Reader) -> Read {
        match self.name {
            "newest" | "newest-waiting" => {
                let outcome = reader.read_newest(&mut self.frame);
                self.copied(reader, outcome)
            }
            "in-order" | "stopped" => {
                let outcome = reader.read_next(&mut self.frame);
                self.copied(reader, outcome)
            }
            _ => self.borrowed(reader),
        }
    }

    fn copied(&self, reader: &Reader, outcome: Result<ReadOutcome, RingError>) -> Read {
        match outcome {
            Ok(ReadOutcome::Frame { missed }) => {
                check(&self.frame, self.capacity);
                return Read::Frame(missed);
            }
            Ok(ReadOutcome::Nothing) if self.waits(reader) => drop(reader.wait(HANG)),
            // A writer at full speed may overrun a small ring many times in a row.
            Ok(ReadOutcome::Nothing) | Err(RingError::Overtaken { .. }) => thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
        Read::Nothing
    }

    /// Whether to wait for news: the end, once it has been seen, is none.
    fn waits(&self, reader: &Reader) -> bool {
        self.name != "newest" && reader.state().0 != State::Ended
    }

    fn borrowed(&mut self, reader: &mut Reader) -> Read {
        let borrowed = match reader.borrow_newest() {
            Ok(Some(borrowed)) => borrowed,
            Ok(None) | Err(RingError::Overtaken { .. }) => return Read::Nothing,
            Err(error) => panic!("{error}"),
        };
        let (sequence, missed) = (borrowed.head().ring_sequence, borrowed.missed());
        let middle = borrowed.token_count() / 2;
        self.frame.head.clone_from(borrowed.head());
        self.frame.records.clear();
        self.frame.records.extend((0..middle).map(|index| borrowed.record(index)));
        // Every other frame is held for as long as the writer lets it.
        let is_replaced =
            self.name == "hold" && sequence % 2 == 1 && has_gone_round(&mut self.scout, sequence);
        copy_rest(&borrowed, middle, &mut self.frame);
        match borrowed.finish() {
            Ok(()) => {
                assert!(!is_replaced, "nobody said that frame {sequence} was replaced");
                check(&self.frame, self.capacity);
                Read::Frame(missed)
            }
            Err(lapped) => {
                assert_eq!(lapped.ring_sequence, sequence);
                Read::Lapped(missed)
            }
        }
    }
}

/// Copies what is left of a frame whose first `records` records were copied.
fn copy_rest(borrowed: &BorrowedFrame<'_>, records: usize, frame: &mut TokenFrameBuf) {
    let rest = (records..borrowed.token_count()).map(|index| borrowed.record(index));
    frame.records.extend(rest);
    copy_items(borrowed, 0, &mut frame.pixels);
    frame.planes.resize_with(1, Vec::new);
    copy_items(borrowed, 1, &mut frame.planes[0]);
}

/// Waits until the writer has replaced frame `sequence`, or has ended; returns whether it has replaced it.
fn has_gone_round(scout: &mut Reader, sequence: u64) -> bool {
    let slot_count = scout.header().slot_count as u64;
    let mut newest = sequence;
    loop {
        let is_over = scout.state().0 == State::Ended;
        match scout.borrow_newest() {
            Ok(Some(borrowed)) => newest = borrowed.head().ring_sequence,
            Ok(None) if is_over => return sequence + slot_count <= newest,
            Ok(None) | Err(_) => thread::yield_now(),
        }
        if sequence + slot_count <= newest {
            return true;
        }
    }
}

/// The part of a writer: publishes small frames at full speed until it is killed.
fn write(_: &str, line: &Line) {
    let spec = spec(SMALL);
    let mut writer = Writer::create(&spec).unwrap();
    line.send("segment", Some(writer.reader_fd().unwrap().as_fd()));
    let mut frame = TokenFrameBuf::default();
    for number in 1.. {
        fill(&mut frame, number, &spec);
        writer.publish(&as_token_frame(&frame));
        let (state, reason) = STATES[usize::try_from(number % 2).unwrap()];
        writer.set_state(state, reason);
    }
}

/// Waits for the next frame, and checks it.
fn until_read(reader: &mut Reader, frame: &mut TokenFrameBuf) {
    loop {
        match reader.read_newest(frame) {
            Ok(ReadOutcome::Frame { .. }) => return check(frame, SMALL),
            Ok(ReadOutcome::Nothing) | Err(RingError::Overtaken { .. }) => thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Numbers that look random and follow from a seed: SplitMix64.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ mixed >> 31) % bound
    }
}
