//! Waiting readers are woken, and the writer never waits: neither for a full socket nor for a dead one.
#![allow(unsafe_code, reason = "a thief maps memory on its own")]

use std::fs;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Sender, bounded, unbounded};
use foveate_ring::{ReadOutcome, Reader, State, TokenFrameBuf, Waker, Writer};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socketpair};
use rustix::thread::gettid;
use testkit::ring::{publish, reader_of, spec};
use testkit::thief::Thief;
use testkit::wait::{HANG, until};

/// As many subscribers as are woken without the waker's thread.
const INLINE_LIMIT: usize = 4;

#[test]
fn a_sleeping_reader_is_woken_by_a_frame() {
    let mut view = View::new();
    let sleeper = Sleeper::new(&view.writer);
    view.publish(1);
    view.waker.wake();
    sleeper.assert_woken();
}

#[test]
fn a_sleeping_reader_is_woken_by_a_change_of_the_state() {
    let mut view = View::new();
    let sleeper = Sleeper::new(&view.writer);
    view.writer.set_state(State::Ended, "the file is at its end");
    view.waker.wake();
    let reader = sleeper.assert_woken();
    assert_eq!(reader.state(), (State::Ended, "the file is at its end".to_owned()));
}

#[test]
fn a_wake_without_news_does_not_end_the_waiting() {
    let mut view = View::new();
    let sleeper = Sleeper::new(&view.writer);
    // Such as one that was late.
    view.waker.wake();
    sleeper.until_asleep();
    view.publish(1);
    view.waker.wake();
    sleeper.assert_woken();
}

#[test]
fn a_subscriber_gets_a_notice_of_each_frame() {
    let mut view = View::new();
    let subscriber = view.subscriber();
    view.waker.wake();
    assert_eq!(next_notice(&subscriber), (0, 0), "no frame yet");
    for number in 1..=20 {
        view.publish(number);
        view.waker.wake();
        let mut frame = TokenFrameBuf::default();
        reader_of(&view.writer).read_newest(&mut frame).unwrap();
        assert_eq!(next_notice(&subscriber), (number, frame.head.publish_ns));
    }
    assert_eq!(view.waker.counters().notices_sent.get(), 21);
    assert_eq!(view.waker.counters().handed_over.get(), 0, "one is few");
}

#[test]
fn a_subscriber_that_never_reads_is_kept_and_not_waited_for() {
    let mut view = View::new();
    let (full, other) = (view.subscriber(), view.subscriber());
    let mut number = 0;
    while view.waker.counters().notices_skipped.get() < 3 {
        number += 1;
        view.publish(number);
        view.waker.wake();
        assert_eq!(next_notice(&other).0, number);
    }
    assert_eq!(view.waker.counters().subscribers_dropped.get(), 0);

    // Once it reads, it gets notices again.
    while readable(&full, Duration::ZERO) {
        next_notice(&full);
    }
    view.publish(number + 1);
    view.waker.wake();
    assert_eq!(next_notice(&full).0, number + 1);
}

#[test]
fn a_subscriber_that_is_gone_is_dropped() {
    let mut view = View::new();
    let (gone, other) = (view.subscriber(), view.subscriber());
    drop(gone);
    for number in 1..=2 {
        view.publish(number);
        view.waker.wake();
        assert_eq!(next_notice(&other).0, number);
    }
    assert_eq!(view.waker.counters().subscribers_dropped.get(), 1);
}

#[test]
fn many_readers_are_woken_by_a_thread() {
    let mut view = View::new();
    let mut subscribers: Vec<_> = (0..=INLINE_LIMIT).map(|_| view.subscriber()).collect();
    let handed_over = |view: &View| view.waker.counters().handed_over.get();
    // The first wake finds out that they are many.
    for number in 1..=10 {
        view.publish(number);
        view.waker.wake();
        for subscriber in &subscribers {
            // The thread may have been late for a frame, never for the last one.
            while next_notice(subscriber).0 < number {}
        }
    }
    assert_eq!(handed_over(&view), 9);

    // It stays the thread's until that has found few for a while.
    subscribers.truncate(1);
    view.publish(11);
    view.waker.wake();
    while next_notice(&subscribers[0]).0 < 11 {}
    let mut number = 11;
    let started = Instant::now();
    let mut before = u64::MAX;
    while handed_over(&view) != before {
        assert!(started.elapsed() < HANG, "the thread keeps the work");
        before = handed_over(&view);
        number += 1;
        view.publish(number);
        view.waker.wake();
        while next_notice(&subscribers[0]).0 < number {}
    }
}

#[test]
fn dropping_the_waker_delivers_pending_wakes() {
    let mut view = View::new();
    let subscribers: Vec<_> = (0..=INLINE_LIMIT).map(|_| view.subscriber()).collect();
    view.waker.wake();
    view.publish(1);
    view.waker.wake();
    drop(view);
    for subscriber in subscribers {
        while next_notice(&subscriber).0 < 1 {}
    }
}

#[test]
fn replacing_a_segment_wakes_waiters_and_keeps_subscribers() {
    let mut view = View::new();
    let subscriber = view.subscriber();
    view.publish(1);
    view.waker.wake();
    assert_eq!(next_notice(&subscriber).0, 1);

    let sleeper = Sleeper::new(&view.writer);
    let mut next = Writer::create(&spec(1)).unwrap();
    publish(&mut next, 1, 0, spec(1).format);
    publish(&mut next, 2, 0, spec(1).format);
    view.writer.set_state(State::Ended, "the camera's caps changed");
    view.waker.replace_segment(&next);
    sleeper.assert_woken();
    view.waker.wake();
    assert_eq!(next_notice(&subscriber).0, 2);
}

#[test]
fn wakes_from_a_frame_loop_at_full_speed_lose_no_reader() {
    let mut view = View::new();
    let last = 5000;
    thread::scope(|scope| {
        for _ in 0..INLINE_LIMIT + 2 {
            let reader = reader_of(&view.writer);
            scope.spawn(move || read_until(reader, last));
        }
        for number in 1..=last {
            view.publish(number);
            view.waker.wake();
        }
    });
}

/// FUTEX_REQUEUE works on a read-only mapping, so any reader can move the others' waits to a futex that nobody wakes. Where a
/// stolen wake cost 100 ms, these frames took ten seconds.
#[test]
fn a_reader_whose_wakes_are_stolen_finds_each_frame_by_itself() {
    const FRAMES: u64 = 100;
    let mut view = View::new();
    let thief = Thief::new(view.writer.reader_fd().unwrap());
    let is_over = AtomicBool::new(false);
    let read = AtomicU64::new(0);
    let started = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                thief.steal();
                thread::sleep(Duration::from_micros(100));
            }
        });
        let mut reader = reader_of(&view.writer);
        let read = &read;
        let honest = scope.spawn(move || {
            let mut frame = TokenFrameBuf::default();
            for number in 1..=FRAMES {
                while reader.read_next(&mut frame).unwrap() == ReadOutcome::Nothing {
                    reader.wait(reader.patience());
                }
                assert_eq!(frame.head.ring_sequence, number, "no frame is missed");
                read.store(number, Ordering::Release);
            }
        });
        for number in 1..=FRAMES {
            // Time to fall asleep, and to be robbed.
            thread::sleep(Duration::from_millis(5));
            view.publish(number);
            view.waker.wake();
            while read.load(Ordering::Acquire) < number && !honest.is_finished() {
                thread::yield_now();
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
}

#[test]
fn a_still_view_is_polled_ten_times_a_second() {
    let mut view = View::new();
    let mut reader = reader_of(&view.writer);
    assert_eq!(reader.patience(), Duration::from_millis(100));
    view.publish(1);
    view.publish(2);
    while reader.read_next(&mut TokenFrameBuf::default()).unwrap() != ReadOutcome::Nothing {}
    let (started, mut looks) = (Instant::now(), 0);
    while reader.patience() < Duration::from_millis(100) {
        assert!(started.elapsed() < HANG);
        reader.wait(reader.patience());
        looks += 1;
    }
    assert!(looks < 20, "{looks} looks at what does not change");
}

/// A view with its waker, as a frame loop has them.
struct View {
    writer: Writer,
    waker: Waker,
    arrivals: Sender<OwnedFd>,
}

impl View {
    fn new() -> Self {
        let writer = Writer::create(&spec(1)).unwrap();
        let (arrivals, receiver) = unbounded();
        let waker = Waker::new(&writer, receiver).unwrap();
        Self { writer, waker, arrivals }
    }

    fn publish(&mut self, number: u64) {
        assert_eq!(publish(&mut self.writer, number, 1, spec(1).format), number);
    }

    /// The client's end of a subscription.
    fn subscriber(&self) -> OwnedFd {
        let (server, client) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .unwrap();
        self.arrivals.send(server).unwrap();
        client
    }
}

/// A thread that sleeps in [`Reader::wait`].
struct Sleeper {
    thread: JoinHandle<(Reader, bool, Duration)>,
    /// Path of the thread's status in /proc.
    status: String,
}

impl Sleeper {
    /// A thread that has read all of `writer`'s frames and fallen asleep.
    fn new(writer: &Writer) -> Self {
        let mut reader = reader_of(writer);
        reader.read_newest(&mut TokenFrameBuf::default()).unwrap();
        let (sender, receiver) = bounded(1);
        let thread = thread::spawn(move || {
            sender.send(format!("/proc/self/task/{}/stat", gettid())).unwrap();
            let started = Instant::now();
            let has_news = reader.wait(HANG);
            (reader, has_news, started.elapsed())
        });
        let sleeper = Self { thread, status: receiver.recv().unwrap() };
        sleeper.until_asleep();
        sleeper
    }

    /// Comes back once the kernel has put the thread to sleep; the futex is all that it sleeps on.
    fn until_asleep(&self) {
        until("the reader sleeps", || fs::read_to_string(&self.status).unwrap().contains(") S "));
    }

    /// That the thread was woken for news, and not by its time-out.
    fn assert_woken(self) -> Reader {
        let (reader, has_news, elapsed) = self.thread.join().unwrap();
        assert!(has_news && elapsed < HANG, "nobody woke the reader");
        reader
    }
}

fn read_until(mut reader: Reader, last: u64) {
    let mut frame = TokenFrameBuf::default();
    while frame.head.ring_sequence < last {
        if reader.read_newest(&mut frame).unwrap() == ReadOutcome::Nothing {
            let started = Instant::now();
            assert!(reader.wait(HANG) && started.elapsed() < HANG, "nobody woke the reader");
        }
    }
}

/// The next notice: ring sequence and publish time.
fn next_notice(subscriber: &OwnedFd) -> (u64, u64) {
    assert!(readable(subscriber, HANG), "no notice came");
    let mut notice = [0; 32];
    let (_, bytes) = recv(subscriber, &mut notice[..], RecvFlags::DONTWAIT).unwrap();
    assert_eq!(bytes, 16);
    let word = |at: usize| u64::from_le_bytes(notice[at..at + 8].try_into().unwrap());
    (word(0), word(8))
}

fn readable(socket: &OwnedFd, timeout: Duration) -> bool {
    let timeout = Timespec::try_from(timeout).unwrap();
    let mut poll_fd = [PollFd::new(socket, PollFlags::IN)];
    poll(&mut poll_fd, Some(&timeout)).unwrap();
    poll_fd[0].revents().contains(PollFlags::IN)
}
