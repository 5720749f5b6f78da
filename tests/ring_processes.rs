//! A writer and readers in processes of their own: whatever a reader accepts is whole, what it lost is counted, and what a
//! killed writer has published stays readable.
//!
//! Every word of a frame follows from its number, so a single word of another shows.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/players.rs"]
mod players;
#[path = "support/ring.rs"]
mod support;

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use foveate::ring::{
    Borrowed, FrameHead, ReadOutcome, Reader, RingError, SegmentSpec, State, TokenFrameBuf, Waker,
    Writer,
};
use foveate::token::{DType, Normalisation, TokenFormat};
use rustix::net::{SendFlags, send};
use rustix::process::Signal;

use players::{Line, Player, plays};
use support::{as_token_frame, frame, spec};

/// Longer than anything takes.
const HANG: Duration = Duration::from_secs(60);

/// Frames that every reader takes before the writer ends; of those that it holds it is lapped by a tenth as many.
const TAKEN: u64 = 100;

/// Frames between two signals that stop a reader or let it go on.
const STOP_EVERY: u64 = 500;

/// How readers read, one process each.
const HABITS: [&str; 6] = ["newest", "newest-waiting", "in-order", "stopped", "borrow", "hold"];

/// What the writer says of itself now and then.
const STATES: [(State, &str); 2] = [(State::Live, ""), (State::Stalled, "no frame for a while")];

#[test]
fn small_frames_are_whole_in_every_process_however_it_reads() {
    if plays(read) {
        return;
    }
    run(&spec(3), if is_long() { 1_000_000 } else { 30_000 });
}

#[test]
fn frames_of_420_kb_are_whole_in_every_process_however_it_reads() {
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
        for _ in 0..=numbers.below(300) {
            until_read(&mut witness, &mut frame);
        }
        writing.kill();

        let mut heir = Reader::from_fd(descriptor).unwrap();
        heir.rewind();
        let (mut taken, mut last) = (0, 0);
        while let ReadOutcome::Frame { missed } = heir.read_next(&mut frame).unwrap() {
            check(&frame, 3);
            assert!(
                taken == 0 || missed == 0,
                "{missed} frames are missing before {:?}",
                frame.head
            );
            last += missed + 1;
            assert_eq!(frame.head.ring_sequence, last);
            taken += 1;
        }
        // All but the one that the writer may have begun to replace.
        assert!(7 <= taken || taken == last, "{taken} of {last} frames are left");
        let (state, reason) = heir.state();
        assert!(STATES.contains(&(state, reason.as_str())), "{state:?}, {reason}");
        assert!(!heir.wait(Duration::ZERO), "a dead writer has no news");
    }
}

/// Prints how long publishing takes beside readers, up to the release store, and apart from that how long waking them takes. All
/// in turn in one run, because one run is not as quick as another.
#[test]
#[ignore = "a measurement that means something on a quiet machine alone: --release -- --ignored --nocapture publish_time"]
fn publish_time_beside_readers() {
    if plays(watch) {
        return;
    }
    let mut bench = Bench::new();
    let mut times: [[Vec<u64>; 2]; AUDIENCES.len()] = Default::default();
    for round in 0..ROUNDS {
        for turn in 0..AUDIENCES.len() {
            let audience = (round + turn) % AUDIENCES.len();
            bench.measure(AUDIENCES[audience], &mut times[audience]);
        }
    }
    println!("{} frames of 420 kB each, us", ROUNDS * FRAMES);
    println!("| Readers | Publish p50 | p99 | p50 to none | p99 to none | Waking p50 | p99 |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: |");
    let [none_p50, none_p99] = percentiles(&mut times[0][0]);
    for (audience, [publish, wake]) in AUDIENCES.iter().zip(&mut times) {
        let ([p50, p99], [wake_p50, wake_p99]) = (percentiles(publish), percentiles(wake));
        println!(
            "| {audience:?} | {p50:.1} | {p99:.1} | {:.2} | {:.2} | {wake_p50:.1} | {wake_p99:.1} |",
            p50 / none_p50,
            p99 / none_p99
        );
    }
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
        println!("{habit}: {taken} taken, {missed} missed, {lapped} lapped");
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

/// What a try to read led to; with the frames that were passed over.
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
        self.frame.head = *borrowed.head();
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
fn copy_rest(borrowed: &Borrowed<'_>, records: usize, frame: &mut TokenFrameBuf) {
    let rest = (records..borrowed.token_count()).map(|index| borrowed.record(index));
    frame.records.extend(rest);
    frame.pixels.clear();
    let words = borrowed.pixel_words().iter().map(|word| word.load(Ordering::Relaxed));
    frame.pixels.extend(words.flat_map(u64::to_le_bytes));
    frame.pixels.truncate(borrowed.pixel_bytes());
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

/// Turns of each audience, and frames of a turn.
const ROUNDS: usize = 10;
const FRAMES: usize = 200;

/// Time between two frames of a measurement.
const PACE: Duration = Duration::from_millis(2);

/// Who reads while publishing is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Audience {
    None,
    One,
    Sixteen,
    SixtyFour,
    /// Sixteen that stand still, and sixteen full sockets.
    SixteenStopped,
    /// Sixteen, one of which is killed every few frames.
    SixteenKilled,
}

const AUDIENCES: [Audience; 6] = [
    Audience::None,
    Audience::One,
    Audience::Sixteen,
    Audience::SixtyFour,
    Audience::SixteenStopped,
    Audience::SixteenKilled,
];

/// A writer, and readers that watch when they are told.
struct Bench {
    spec: SegmentSpec,
    writer: Writer,
    watchers: Vec<Player>,
    number: u64,
}

impl Bench {
    fn new() -> Self {
        let spec = large();
        let writer = Writer::create(&spec).unwrap();
        let mut bench = Self { spec, writer, watchers: Vec::new(), number: 0 };
        bench.watchers = (0..64).map(|_| bench.watcher()).collect();
        bench
    }

    /// A reader that rests.
    fn watcher(&self) -> Player {
        let mut watcher = Player::start("watcher");
        watcher.line.send("segment", Some(self.writer.reader_fd().unwrap().as_fd()));
        assert_eq!(watcher.hear(), "rests");
        watcher
    }

    /// Adds to `times` how many nanoseconds it takes to publish and to wake.
    fn measure(&mut self, audience: Audience, times: &mut [Vec<u64>; 2]) {
        let count = match audience {
            Audience::None => 0,
            Audience::One => 1,
            Audience::SixtyFour => 64,
            _ => 16,
        };
        let (sender, arrivals) = crossbeam_channel::unbounded();
        let waker = Waker::new(&self.writer, arrivals).unwrap();
        self.watchers[..count].iter_mut().for_each(begin);
        let mut full_sockets = Vec::new();
        if audience == Audience::SixteenStopped {
            self.watchers[..count].iter().for_each(Player::stop);
            for _ in 0..count {
                let (ours, theirs) = full_socket();
                sender.send(ours).unwrap();
                full_sockets.push(theirs);
            }
        }
        let mut frame = TokenFrameBuf::default();
        for turn in 0..FRAMES {
            if audience == Audience::SixteenKilled && turn % 10 == 0 {
                let mut next = self.watcher();
                begin(&mut next);
                std::mem::replace(&mut self.watchers[turn / 10 % count], next).kill();
            }
            self.number += 1;
            fill(&mut frame, self.number, &self.spec);
            thread::sleep(PACE);
            let begun = Instant::now();
            self.writer.publish(&as_token_frame(&frame));
            let published = Instant::now();
            waker.wake();
            let woken = published.elapsed();
            for (times, time) in times.iter_mut().zip([published - begun, woken]) {
                times.push(u64::try_from(time.as_nanos()).unwrap());
            }
        }
        for watcher in &self.watchers[..count] {
            watcher.signal(Signal::CONT);
            watcher.line.say("rest");
        }
        self.writer.set_state(State::Live, "");
        waker.wake();
        for watcher in &mut self.watchers[..count] {
            assert_eq!(watcher.hear(), "rests");
        }
    }
}

/// The part of a reader: reads what is published while it is told to watch.
fn watch(_: &str, line: &Line) {
    let mut reader = Reader::from_fd(line.receive().1.unwrap()).unwrap();
    let mut frame = TokenFrameBuf::default();
    loop {
        line.say("rests");
        line.hear();
        line.say("watches");
        while !line.has_words(Duration::ZERO) {
            match reader.read_newest(&mut frame) {
                Ok(ReadOutcome::Nothing) => drop(reader.wait(Duration::from_millis(100))),
                Ok(ReadOutcome::Frame { .. }) | Err(RingError::Overtaken { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        line.hear();
    }
}

fn begin(watcher: &mut Player) {
    watcher.line.say("watch");
    assert_eq!(watcher.hear(), "watches");
}

/// A socket without room, and its other end.
fn full_socket() -> (OwnedFd, OwnedFd) {
    let (ours, theirs) = players::line();
    while send(&ours, &[0; 16], SendFlags::DONTWAIT).is_ok() {}
    (ours, theirs)
}

/// p50 and p99, in microseconds.
fn percentiles(times_ns: &mut [u64]) -> [f64; 2] {
    times_ns.sort_unstable();
    [50, 99].map(|percent| times_ns[times_ns.len() * percent / 100] as f64 / 1e3)
}

/// The part of a writer: publishes small frames at full speed until it is killed.
fn write(_: &str, line: &Line) {
    let spec = spec(3);
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
            Ok(ReadOutcome::Frame { .. }) => return check(frame, 3),
            Ok(ReadOutcome::Nothing) | Err(RingError::Overtaken { .. }) => thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
}

/// A segment for frames of 273 tokens of 16x16 in f16, the defaults of a view: 420 kB.
fn large() -> SegmentSpec {
    let format =
        TokenFormat { patch_side: 16, dtype: DType::F16, normalisation: Normalisation::NONE };
    SegmentSpec { format, ..spec(273) }
}

/// Makes `frame` number `number` of a segment of `spec`.
fn fill(frame: &mut TokenFrameBuf, number: u64, spec: &SegmentSpec) {
    let token_count = token_count_of(number, spec.capacity);
    frame.head = head_of(number);
    frame.records.resize(token_count, bytemuck::Zeroable::zeroed());
    frame.pixels.resize(token_count * spec.format.token_bytes(), 0);
    fill_words(bytemuck::cast_slice_mut(&mut frame.records), number);
    fill_words(&mut frame.pixels, !number);
}

fn head_of(number: u64) -> FrameHead {
    frame(number, 0, spec(1).format).head
}

/// Most frames are full, some are short.
fn token_count_of(number: u64, capacity: usize) -> usize {
    if number.is_multiple_of(7) { capacity / 2 } else { capacity }
}

/// `frame` is what its number says, in every word.
fn check(frame: &TokenFrameBuf, capacity: usize) {
    let FrameHead { ring_sequence: number, publish_ns, .. } = frame.head;
    assert_eq!(frame.head, FrameHead { publish_ns, ..head_of(number) });
    assert_eq!(frame.records.len(), token_count_of(number, capacity), "frame {number}");
    assert!(has_words(bytemuck::cast_slice(&frame.records), number), "records of frame {number}");
    assert!(has_words(&frame.pixels, !number), "texels of frame {number}");
}

fn fill_words(bytes: &mut [u8], seed: u64) {
    for (index, word) in bytes.chunks_mut(8).enumerate() {
        word.copy_from_slice(&word_of(seed, index).to_le_bytes()[..word.len()]);
    }
}

fn has_words(bytes: &[u8], seed: u64) -> bool {
    let mut words = bytes.chunks(8).enumerate();
    words.all(|(index, word)| *word == word_of(seed, index).to_le_bytes()[..word.len()])
}

/// Differs in every byte from that of neighbouring seeds and indices.
fn word_of(seed: u64, index: usize) -> u64 {
    seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (index as u64).wrapping_mul(0x0101_0101_0101_0101)
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

fn is_long() -> bool {
    std::env::var_os("FOVEATE_LONG").is_some()
}
