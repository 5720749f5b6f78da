//! Wakes readers after a publish or a change of state, without waiting for any of them.
//!
//! A few are woken from the frame thread, which has the lowest latency. Waking many takes longer than publishing, so above
//! [`INLINE_LIMIT`] a separate thread does it, until they are few again.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use crossbeam_channel::Receiver;
use parking_lot::Mutex;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{SendFlags, send};
use rustix::thread::futex;

use super::abi::NOTICE_BYTES;
use super::error::RingError;
use super::protocol::{hand_over, take_over};
use super::segment::Segment;
use super::writer::Writer;
use foveate_stats::Counter;

/// Most waiters and subscribers woken by the frame thread. FUTEX_WAKE takes 3 us for one, ten times that for 16.
const INLINE_LIMIT: usize = 4;

/// Consecutive wakes that must find few before the frame thread takes over again. Busy readers do not sleep, so one wake says
/// little.
const CALM_WAKES: u32 = 64;

/// FUTEX_WAKE takes a signed count.
const ALL_WAITERS: u32 = i32::MAX as u32;

/// Counters of a waker.
#[derive(Debug, Default)]
pub struct WakerCounters {
    /// Notices sent to subscribers.
    pub notices_sent: Counter,
    /// Notices for which a socket had no room. It already holds older ones, with the same meaning: look at the ring.
    pub notices_skipped: Counter,
    /// Subscribers that hung up or failed.
    pub subscribers_dropped: Counter,
    /// Wakes left to the thread.
    pub handed_over: Counter,
}

/// Wakes the readers of one view.
#[derive(Debug)]
pub struct Waker {
    shared: Arc<WakerState>,
    /// `Some` until `drop`.
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct WakerState {
    /// Locked while waking; the frame thread only tries to.
    targets: Mutex<Targets>,
    /// Whether one of the last [`CALM_WAKES`] wakes found more readers than [`INLINE_LIMIT`].
    is_crowded: AtomicBool,
    /// Whether a wake was left to the thread.
    is_pending: AtomicBool,
    is_stopping: AtomicBool,
    counters: WakerCounters,
}

/// Readers to wake.
#[derive(Debug)]
struct Targets {
    segment: Arc<Segment>,
    arrivals: Receiver<OwnedFd>,
    subscribers: Vec<OwnedFd>,
    /// Wakes since the last one that found more readers than [`INLINE_LIMIT`].
    calm_wakes: u32,
}

impl Waker {
    /// A waker of the readers of `writer`'s segment, and of subscribers received from `arrivals`: connected sockets, to which each
    /// wake sends a notice of [`NOTICE_BYTES`].
    ///
    /// A socket is dropped when sending to it fails; to remove a subscriber, its owner must shut the socket down.
    ///
    /// # Errors
    ///
    /// If the thread cannot be started.
    pub fn new(writer: &Writer, arrivals: Receiver<OwnedFd>) -> Result<Self, RingError> {
        let segment = Arc::clone(writer.segment());
        let shared = Arc::new(WakerState {
            targets: Mutex::new(Targets {
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

    /// Wakes all waiters and subscribers, or leaves it to the thread. Never waits.
    pub fn wake(&self) {
        if !self.shared.is_crowded.load(Ordering::Relaxed)
            && let Some(mut targets) = self.shared.targets.try_lock()
        {
            self.shared.wake_from(&mut targets);
            return;
        }
        self.shared.counters.handed_over.add(1);
        hand_over(&self.shared.is_pending);
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }

    /// Wakes the readers that sleep on the futex word, which have read every frame, and returns how many they are. Readers that are
    /// busy, or that wait for notices, are not among them. May wait for the waker's thread.
    pub fn waiting(&self) -> usize {
        self.shared.targets.lock().wake_waiters()
    }

    /// Switches to the segment of `writer`, after the caps changed. Subscribers stay; waiters on the old segment are woken once more,
    /// to see its end.
    pub fn replace_segment(&mut self, writer: &Writer) {
        let mut targets = self.shared.targets.lock();
        targets.wake_waiters();
        targets.segment = Arc::clone(writer.segment());
    }

    /// The counters.
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

impl WakerState {
    fn run(&self) {
        loop {
            if take_over(&self.is_pending) {
                self.wake_from(&mut self.targets.lock());
            } else if self.is_stopping.load(Ordering::Relaxed) {
                break;
            } else {
                thread::park();
            }
        }
    }

    fn wake_from(&self, targets: &mut Targets) {
        let woken_count = targets.wake_waiters() + targets.notify_subscribers(&self.counters);
        let is_calm = woken_count <= INLINE_LIMIT;
        targets.calm_wakes = if is_calm { targets.calm_wakes.saturating_add(1) } else { 0 };
        self.is_crowded.store(targets.calm_wakes < CALM_WAKES, Ordering::Relaxed);
    }
}

impl Targets {
    /// Wakes the waiters on the futex word, and returns their number.
    fn wake_waiters(&self) -> usize {
        // Not private: waiters are in other processes.
        futex::wake(self.segment.futex(), futex::Flags::empty(), ALL_WAITERS).unwrap_or_else(
            |error| {
                tracing::error!(%error, "FUTEX_WAKE failed on a mapped word");
                0
            },
        )
    }

    /// Sends each subscriber a notice, and returns the number that remain.
    fn notify_subscribers(&mut self, counters: &WakerCounters) -> usize {
        self.subscribers.extend(self.arrivals.try_iter());
        // If a concurrent publish prevents the notice, that publish brings its own wake.
        if !self.subscribers.is_empty()
            && let Some(notice) = notice(&self.segment)
        {
            self.subscribers.retain(|socket| notify(socket, &notice, counters));
        }
        self.subscribers.len()
    }
}

/// Sends a notice, and returns whether the subscriber stays.
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
