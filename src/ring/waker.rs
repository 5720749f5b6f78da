//! Wakes readers after a publish or a change of the state, without ever waiting for one.
//!
//! A few are woken from the frame thread, which is the shortest way. Waking many takes longer than publishing, so
//! above [`INLINE_LIMIT`] a thread of its own does it, until they are few again.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use crossbeam_channel::Receiver;
use parking_lot::Mutex;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{SendFlags, send};
use rustix::thread::futex;

use super::RingError;
use super::abi::NOTICE_BYTES;
use super::protocol::{hand_over, take_over};
use super::segment::Segment;
use super::writer::Writer;
use foveate_stats::Counter;

/// Waiters and subscribers that the frame thread wakes itself. FUTEX_WAKE of one takes 3 us, of 16 ten times that.
pub const INLINE_LIMIT: usize = 4;

/// Wakes in a row that must find few before the frame thread wakes again itself. Readers at work are not asleep, so one wake
/// says little.
const CALM_WAKES: u32 = 64;

/// FUTEX_WAKE takes a signed count.
const ALL_WAITERS: u32 = i32::MAX as u32;

/// What waking has done.
#[derive(Debug, Default)]
pub struct WakerCounters {
    /// Notices that a subscriber's socket took.
    pub notices_sent: Counter,
    /// Notices that it had no room for. It holds older ones, which say the same: look at the ring.
    pub notices_skipped: Counter,
    /// Subscribers that hung up or failed.
    pub subscribers_dropped: Counter,
    /// Wakes that were left to the thread.
    pub handed_over: Counter,
}

/// Wakes the readers of one view.
#[derive(Debug)]
pub struct Waker {
    shared: Arc<Shared>,
    /// `Some` until `drop`.
    thread: Option<JoinHandle<()>>,
}

/// What the frame thread and the waker thread share.
#[derive(Debug)]
struct Shared {
    /// Locked by whoever wakes; the frame thread only tries.
    desk: Mutex<Desk>,
    /// One of the last [`CALM_WAKES`] wakes found more than [`INLINE_LIMIT`].
    is_crowded: AtomicBool,
    /// There is something to wake for that the thread has not begun.
    is_pending: AtomicBool,
    is_stopping: AtomicBool,
    counters: WakerCounters,
}

/// What it takes to wake.
#[derive(Debug)]
struct Desk {
    segment: Arc<Segment>,
    arrivals: Receiver<OwnedFd>,
    subscribers: Vec<OwnedFd>,
    /// Wakes since the last one that found more than [`INLINE_LIMIT`].
    calm_wakes: u32,
}

impl Waker {
    /// A waker of the readers of `writer`'s segment, and of the subscribers that come out of `arrivals`: connected
    /// sockets, to which each wake sends a notice of [`NOTICE_BYTES`].
    ///
    /// A socket is dropped when sending to it fails, so one that the owner wants gone must be shut down.
    ///
    /// # Errors
    ///
    /// If the thread cannot be started.
    pub fn new(writer: &Writer, arrivals: Receiver<OwnedFd>) -> Result<Self, RingError> {
        let segment = Arc::clone(writer.segment());
        let shared = Arc::new(Shared {
            desk: Mutex::new(Desk {
                segment,
                arrivals,
                subscribers: Vec::new(),
                calm_wakes: CALM_WAKES,
            }),
            is_crowded: AtomicBool::new(false),
            is_pending: AtomicBool::new(false),
            is_stopping: AtomicBool::new(false),
            counters: WakerCounters::default(),
        });
        let thread = thread::Builder::new()
            .name("foveate-waker".to_owned())
            .spawn({
                let shared = Arc::clone(&shared);
                move || shared.run()
            })
            .map_err(|source| RingError::System { call: "pthread_create", source })?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Wakes everybody who waits, or has the thread do it. Never waits.
    pub fn wake(&self) {
        if !self.shared.is_crowded.load(Ordering::Relaxed)
            && let Some(mut desk) = self.shared.desk.try_lock()
        {
            self.shared.wake_from(&mut desk);
            return;
        }
        self.shared.counters.handed_over.add(1);
        hand_over(&self.shared.is_pending);
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }

    /// Goes on with the segment of `writer`, after the caps changed. The subscribers stay; who waits for the old
    /// segment is woken once more, to see its end.
    pub fn replace_segment(&mut self, writer: &Writer) {
        let mut desk = self.shared.desk.lock();
        desk.wake_waiters();
        desk.segment = Arc::clone(writer.segment());
    }

    /// What waking has done so far.
    pub fn counters(&self) -> &WakerCounters {
        &self.shared.counters
    }
}

impl Drop for Waker {
    fn drop(&mut self) {
        self.shared.is_stopping.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            if thread.join().is_err() {
                tracing::error!("the waker thread panicked");
            }
        }
    }
}

impl Shared {
    /// The thread: parked until it is needed.
    fn run(&self) {
        loop {
            if take_over(&self.is_pending) {
                self.wake_from(&mut self.desk.lock());
            } else if self.is_stopping.load(Ordering::Relaxed) {
                break;
            } else {
                thread::park();
            }
        }
    }

    fn wake_from(&self, desk: &mut Desk) {
        let woken_count = desk.wake_waiters() + desk.notify_subscribers(&self.counters);
        let is_calm = woken_count <= INLINE_LIMIT;
        desk.calm_wakes = if is_calm { desk.calm_wakes.saturating_add(1) } else { 0 };
        self.is_crowded.store(desk.calm_wakes < CALM_WAKES, Ordering::Relaxed);
    }
}

impl Desk {
    /// Wakes the waiters of the futex word, and returns how many there were.
    fn wake_waiters(&self) -> usize {
        // Shared, not private: they are other processes.
        futex::wake(self.segment.futex(), futex::Flags::empty(), ALL_WAITERS).unwrap_or_else(
            |error| {
                tracing::error!(%error, "FUTEX_WAKE failed on a mapped word");
                0
            },
        )
    }

    /// Sends each subscriber a notice, and returns how many are left.
    fn notify_subscribers(&mut self, counters: &WakerCounters) -> usize {
        self.subscribers.extend(self.arrivals.try_iter());
        // The frames that keep one from being read bring a wake of their own.
        if !self.subscribers.is_empty()
            && let Some(notice) = notice(&self.segment)
        {
            self.subscribers.retain(|socket| notify(socket, &notice, counters));
        }
        self.subscribers.len()
    }
}

/// Sends one notice. Returns whether the subscriber stays.
fn notify(socket: &OwnedFd, notice: &[u8; NOTICE_BYTES], counters: &WakerCounters) -> bool {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    match retry_on_intr(|| send(socket, notice, flags)) {
        Ok(_) => counters.notices_sent.add(1),
        Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM) => counters.notices_skipped.add(1),
        Err(error) => {
            tracing::debug!(%error, "a subscriber is gone");
            counters.subscribers_dropped.add(1);
            return false;
        }
    }
    true
}

/// The newest ring sequence and its publish time; zeros before the first frame.
fn notice(segment: &Segment) -> Option<[u8; NOTICE_BYTES]> {
    let (sequence, publish_ns) = segment.newest_publish()?;
    let mut notice = [0; NOTICE_BYTES];
    notice[..8].copy_from_slice(&sequence.to_le_bytes());
    notice[8..].copy_from_slice(&publish_ns.to_le_bytes());
    Some(notice)
}
