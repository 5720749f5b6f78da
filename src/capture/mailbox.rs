//! Mailbox between the streaming thread and the frame loop: one slot, newest frame wins.
//!
//! A triple buffer: each of three places holds at most one value; one belongs to the producer, one to the consumer, and
//! the middle one changes hands by an atomic swap. The producer never waits, and learns at once whether it replaced a value that
//! was not taken. With [`Pace::EveryFrame`] it waits until the value in the middle has been taken, the stream has ended or
//! the consumer is gone, and never replaces one.
//!
//! The places are mutexes only to do without `unsafe`: the swap gives each side a place of its own, so no lock is ever
//! contended.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::thread::futex;

use super::{CapturedFrame, End, Pace};

/// Set in [`Mailbox::middle`] while the middle place holds a value that has not been taken.
const FRESH: u8 = 0b100;

/// The bits of [`Mailbox::middle`] that hold the index of the middle place.
const PLACE: u8 = 0b011;

/// Longest single futex wait.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// Result of a post.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PostResult {
    /// Posted; the previous value had been taken.
    Delivered,
    /// Posted; the previous value was dropped.
    Replaced,
    /// Dropped: the consumer is gone or the stream has ended.
    Closed,
}

/// Result of taking a frame from a source, or another value from a mailbox.
#[derive(Debug)]
pub enum TakeResult<T = CapturedFrame> {
    /// The newest value.
    Frame(T),
    /// All values have been taken, and no more will come; later calls return the same.
    Ended(End),
    /// No value in time.
    TimedOut,
}

/// State that both ends share. Any thread may end the stream.
#[derive(Debug)]
pub(crate) struct Mailbox<T> {
    places: [Mutex<Option<T>>; 3],
    middle: AtomicU8,
    /// Notified of values and the end; the consumer sleeps on it.
    posted: Signal,
    /// Notified when a value is taken; the producer sleeps on it.
    taken: Signal,
    end: OnceLock<End>,
    consumer_gone: AtomicBool,
}

/// The only producer.
#[derive(Debug)]
pub(crate) struct MailboxProducer<T> {
    mailbox: Arc<Mailbox<T>>,
    pace: Pace,
    /// Index of the producer's place, which is empty between calls.
    place: u8,
}

/// The only consumer. Dropping it releases a waiting producer.
#[derive(Debug)]
pub(crate) struct MailboxConsumer<T> {
    mailbox: Arc<Mailbox<T>>,
    /// Index of the consumer's place, which is empty between calls.
    place: u8,
}

/// Creates an empty mailbox.
pub(crate) fn mailbox<T>(pace: Pace) -> (MailboxProducer<T>, MailboxConsumer<T>) {
    let mailbox = Arc::new(Mailbox {
        places: [const { Mutex::new(None) }; 3],
        middle: AtomicU8::new(1),
        posted: Signal::default(),
        taken: Signal::default(),
        end: OnceLock::new(),
        consumer_gone: AtomicBool::new(false),
    });
    (
        MailboxProducer { mailbox: Arc::clone(&mailbox), pace, place: 0 },
        MailboxConsumer { mailbox, place: 2 },
    )
}

impl<T> Mailbox<T> {
    fn is_over(&self) -> bool {
        self.consumer_gone.load(Ordering::Acquire) || self.end.get().is_some()
    }

    fn has_fresh(&self) -> bool {
        self.middle.load(Ordering::Acquire) & FRESH != 0
    }

    /// Ends the stream with a reason, and releases a waiting producer. Only the first reason counts.
    pub(crate) fn end(&self, end: End) {
        // Later reasons are consequences of the first.
        let _ = self.end.set(end);
        self.posted.notify();
        self.taken.notify();
    }
}

impl<T> MailboxProducer<T> {
    /// Posts `value`. With [`Pace::EveryFrame`] it first waits until the previous value has been taken.
    pub(crate) fn post(&mut self, value: T) -> PostResult {
        if self.pace == Pace::EveryFrame {
            self.wait_until_taken();
        }
        let mailbox = &self.mailbox;
        if mailbox.is_over() {
            return PostResult::Closed;
        }
        *mailbox.places[usize::from(self.place)].lock() = Some(value);
        // SYNC(handed): pairs with the swap in `try_take`. Each side's writes to the place that it hands over happen before
        // the other side uses it.
        let before = mailbox.middle.swap(self.place | FRESH, Ordering::AcqRel);
        self.place = before & PLACE;
        let replaced = mailbox.places[usize::from(self.place)].lock().take().is_some();
        mailbox.posted.notify();
        if replaced { PostResult::Replaced } else { PostResult::Delivered }
    }

    /// The shared state, by which another thread can end the stream while this one may be waiting.
    pub(crate) fn mailbox(&self) -> Arc<Mailbox<T>> {
        Arc::clone(&self.mailbox)
    }

    fn wait_until_taken(&self) {
        let mailbox = &self.mailbox;
        loop {
            let seen = mailbox.taken.count();
            if mailbox.is_over() || !mailbox.has_fresh() {
                return;
            }
            mailbox.taken.wait(seen, WAIT_MAX);
        }
    }
}

impl<T> MailboxConsumer<T> {
    /// Takes the newest value, waiting up to `timeout` for one.
    pub(crate) fn take(&mut self, timeout: Duration) -> TakeResult<T> {
        let start = Instant::now();
        loop {
            let seen = self.mailbox.posted.count();
            // Read before the value, because the end is set after the last one.
            let end = self.mailbox.end.get().cloned();
            if let Some(value) = self.try_take() {
                return TakeResult::Frame(value);
            }
            if let Some(end) = end {
                return TakeResult::Ended(end);
            }
            let left = timeout.saturating_sub(start.elapsed());
            if left.is_zero() {
                return TakeResult::TimedOut;
            }
            self.mailbox.posted.wait(seen, left.min(WAIT_MAX));
        }
    }

    /// Whether a value is waiting to be taken.
    pub(crate) fn has_next(&self) -> bool {
        self.mailbox.has_fresh()
    }

    fn try_take(&mut self) -> Option<T> {
        let mailbox = &self.mailbox;
        if !mailbox.has_fresh() {
            return None;
        }
        // SYNC(handed): pairs with the swap in `post`.
        let before = mailbox.middle.swap(self.place, Ordering::AcqRel);
        self.place = before & PLACE;
        let value = mailbox.places[usize::from(self.place)].lock().take();
        mailbox.taken.notify();
        value
    }
}

impl<T> Drop for MailboxConsumer<T> {
    fn drop(&mut self) {
        self.mailbox.consumer_gone.store(true, Ordering::Release);
        // A value left behind must not hold a buffer of the camera's pool.
        drop(self.try_take());
        self.mailbox.taken.notify();
    }
}

/// A counting futex. A change between reading and sleeping is never missed: the kernel compares the count.
#[derive(Debug, Default)]
struct Signal(AtomicU32);

impl Signal {
    fn count(&self) -> u32 {
        // SYNC(signalled): pairs with `notify`; what was written before it is visible with its count.
        self.0.load(Ordering::Acquire)
    }

    fn notify(&self) {
        // SYNC(signalled): pairs with `count`.
        self.0.fetch_add(1, Ordering::Release);
        // Fails only for invalid addresses.
        let _ = futex::wake(&self.0, futex::Flags::PRIVATE, 1);
    }

    /// Sleeps until the count differs from `seen` or `timeout` has passed; may wake spuriously.
    fn wait(&self, seen: u32, timeout: Duration) {
        let timeout = futex::Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        // Whatever the outcome, the caller checks again.
        let _ = futex::wait(&self.0, futex::Flags::PRIVATE, seen, Some(&timeout));
    }
}

#[cfg(test)]
mod tests;
