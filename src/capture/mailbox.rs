//! From the streaming thread to the frame loop: one slot in which the newest frame wins.
//!
//! Three places hold at most one value each: one belongs to the producer, one to the consumer, and the one in the middle
//! changes hands by an atomic swap. So the producer waits for nobody, and learns at once that it replaced a
//! value that nobody took. With [`Pace::EveryFrame`] it waits instead until the value in the middle was taken, the
//! stream ended or the consumer is gone; then nothing is ever replaced.
//!
//! The places are mutexes only because that needs no `unsafe`: the swap gives each side its own, so no lock
//! ever waits.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::thread::futex;

use super::{End, Pace};

/// Set in [`Shared::middle`] while the place in the middle holds a value that nobody took.
const FRESH: u8 = 0b100;

/// The bits of [`Shared::middle`] that say which place is in the middle.
const PLACE: u8 = 0b011;

/// The longest single wait; a wait that was not woken looks again.
const MAX_WAIT: Duration = Duration::from_millis(100);

/// What became of a posted value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Posted {
    /// It lies in the mailbox; the one before it was taken.
    Delivered,
    /// It lies in the mailbox; the one before it was replaced and is gone.
    Replaced,
    /// It is gone, because the consumer is, or because the stream ended.
    Closed,
}

/// What the consumer gets.
#[derive(Debug)]
pub enum Taken<T> {
    /// The newest value.
    Frame(T),
    /// The last value was taken before, and no other will come. Every later call says so again.
    Ended(End),
    /// Nothing came in time.
    TimedOut,
}

#[derive(Debug)]
struct Shared<T> {
    places: [Mutex<Option<T>>; 3],
    middle: AtomicU8,
    /// Counts values and the end; the consumer sleeps on it.
    posted: Signal,
    /// Counts takings; the producer sleeps on it.
    taken: Signal,
    end: OnceLock<End>,
    consumer_gone: AtomicBool,
}

/// The producer's side; there is one.
#[derive(Debug)]
pub struct Producer<T> {
    shared: Arc<Shared<T>>,
    pace: Pace,
    /// Which place is the producer's; always empty between calls.
    place: u8,
}

/// The consumer's side; there is one. Dropping it releases a producer that waits.
#[derive(Debug)]
pub struct Consumer<T> {
    shared: Arc<Shared<T>>,
    /// Which place is the consumer's; always empty between calls.
    place: u8,
}

/// Ends the stream from beside the producer, which may be waiting.
#[derive(Debug)]
pub struct Ender<T> {
    shared: Arc<Shared<T>>,
}

/// An empty mailbox.
pub fn mailbox<T>(pace: Pace) -> (Producer<T>, Consumer<T>) {
    let shared = Arc::new(Shared {
        places: [const { Mutex::new(None) }; 3],
        middle: AtomicU8::new(1),
        posted: Signal::default(),
        taken: Signal::default(),
        end: OnceLock::new(),
        consumer_gone: AtomicBool::new(false),
    });
    (Producer { shared: Arc::clone(&shared), pace, place: 0 }, Consumer { shared, place: 2 })
}

impl<T> Shared<T> {
    fn is_over(&self) -> bool {
        self.consumer_gone.load(Ordering::Acquire) || self.end.get().is_some()
    }

    fn has_fresh(&self) -> bool {
        self.middle.load(Ordering::Acquire) & FRESH != 0
    }
}

impl<T> Producer<T> {
    /// Puts `value` into the mailbox. With [`Pace::EveryFrame`] it first waits until the value before was taken.
    pub fn post(&mut self, value: T) -> Posted {
        if self.pace == Pace::EveryFrame {
            self.wait_until_taken();
        }
        let shared = &self.shared;
        if shared.is_over() {
            return Posted::Closed;
        }
        *shared.places[usize::from(self.place)].lock() = Some(value);
        // SYNC(handed): pairs with the swap in `try_take`. Each side's writes to the place that it gives away
        // happen before the other side's use of it.
        let before = shared.middle.swap(self.place | FRESH, Ordering::AcqRel);
        self.place = before & PLACE;
        let replaced = shared.places[usize::from(self.place)].lock().take().is_some();
        shared.posted.notify();
        if replaced { Posted::Replaced } else { Posted::Delivered }
    }

    /// A handle that ends the stream.
    pub fn ender(&self) -> Ender<T> {
        Ender { shared: Arc::clone(&self.shared) }
    }

    fn wait_until_taken(&self) {
        let shared = &self.shared;
        loop {
            let seen = shared.taken.count();
            if shared.is_over() || !shared.has_fresh() {
                return;
            }
            shared.taken.wait(seen, MAX_WAIT);
        }
    }
}

impl<T> Ender<T> {
    /// Says that no value will follow, and why, and releases a producer that waits. The first reason counts.
    pub fn end(&self, end: End) {
        // A later reason is a consequence of the first.
        let _ = self.shared.end.set(end);
        self.shared.posted.notify();
        self.shared.taken.notify();
    }
}

impl<T> Consumer<T> {
    /// The newest value, waiting up to `timeout` for one.
    pub fn take(&mut self, timeout: Duration) -> Taken<T> {
        let start = Instant::now();
        loop {
            let seen = self.shared.posted.count();
            // Before the value, because the end is set after the last one.
            let end = self.shared.end.get().cloned();
            if let Some(value) = self.try_take() {
                return Taken::Frame(value);
            }
            if let Some(end) = end {
                return Taken::Ended(end);
            }
            let left = timeout.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Taken::TimedOut;
            }
            self.shared.posted.wait(seen, left.min(MAX_WAIT));
        }
    }

    fn try_take(&mut self) -> Option<T> {
        let shared = &self.shared;
        if !shared.has_fresh() {
            return None;
        }
        // SYNC(handed): pairs with the swap in `post`.
        let before = shared.middle.swap(self.place, Ordering::AcqRel);
        self.place = before & PLACE;
        let value = shared.places[usize::from(self.place)].lock().take();
        shared.taken.notify();
        value
    }
}

impl<T> Drop for Consumer<T> {
    fn drop(&mut self) {
        self.shared.consumer_gone.store(true, Ordering::Release);
        // A value that nobody will take must not keep a buffer of the camera's pool.
        drop(self.try_take());
        self.shared.taken.notify();
    }
}

/// A count to sleep on. A change between looking and sleeping is never missed, as the kernel compares the count.
#[derive(Debug, Default)]
struct Signal(AtomicU32);

impl Signal {
    fn count(&self) -> u32 {
        // SYNC(signalled): pairs with `notify`; who sees the count sees what was done before it.
        self.0.load(Ordering::Acquire)
    }

    fn notify(&self) {
        // SYNC(signalled): pairs with `count`.
        self.0.fetch_add(1, Ordering::Release);
        // Waking fails only for addresses that are none.
        let _ = futex::wake(&self.0, futex::Flags::PRIVATE, 1);
    }

    /// Sleeps until the count is no longer `seen`, or `timeout` is over, or for no reason.
    fn wait(&self, seen: u32, timeout: Duration) {
        let timeout = futex::Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        // Every outcome means the same to the caller: look again.
        let _ = futex::wait(&self.0, futex::Flags::PRIVATE, seen, Some(&timeout));
    }
}
