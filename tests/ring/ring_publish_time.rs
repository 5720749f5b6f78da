//! How long publishing takes with and without readers. A measurement and no law: what it prints means something on a
//! quiet machine, where somebody looks at it.

use std::os::fd::{AsFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use foveate_ring::{
    ReadOutcome, Reader, RingError, SegmentSpec, State, TokenFrameBuf, Waker, Writer,
};
use rustix::net::{SendFlags, send};
use rustix::process::Signal;

use crate::numbered::{fill, large};
use crate::players::{self, Line, Player, plays};
use crate::ring::as_token_frame;

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
    /// Sixteen stopped readers, and sixteen full sockets.
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

/// Prints how long publishing takes beside readers, up to the release store, and apart from that how long waking them
/// takes. All in turn in one run, because one run is not as quick as another.
#[test]
#[ignore = "a measurement that means something on a quiet machine: -- --ignored --nocapture"]
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

/// A writer, and readers that watch on request.
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

/// The reader process: reads every frame while it is asked to watch.
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
