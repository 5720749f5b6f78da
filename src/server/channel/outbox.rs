//! A bounded queue from a frame loop to the clients that want its news: what does not fit is dropped and counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use ringbuf::traits::{Consumer, Producer, Split};
use ringbuf::{HeapCons, HeapProd, HeapRb};

/// Shared by both ends.
#[derive(Debug, Default)]
struct OutboxState {
    /// Whether a client wants the news.
    is_wanted: AtomicBool,
    /// Whether a client has come that does not know the present state.
    is_new: AtomicBool,
    lost: AtomicU64,
}

/// The two ends of a queue of `capacity` items.
pub(super) fn outbox<T>(capacity: usize) -> (Outbox<T>, Inbox<T>) {
    let (state, (sender, receiver)) =
        (Arc::<OutboxState>::default(), HeapRb::new(capacity).split());
    let outbox = Outbox { state: Arc::clone(&state), queue: sender };
    (outbox, Inbox { state, queue: Mutex::new(receiver) })
}

/// The frame loop's end.
pub(super) struct Outbox<T> {
    state: Arc<OutboxState>,
    queue: HeapProd<T>,
}

impl<T> Outbox<T> {
    /// Whether a client wants the news.
    pub(super) fn is_wanted(&self) -> bool {
        self.state.is_wanted.load(Ordering::Relaxed)
    }

    /// Whether a client has come since the last call; the present state is new to it.
    pub(super) fn has_new_client(&self) -> bool {
        // SYNC(new-client): pairs with `Inbox::set_wanted`; what is sent after this call is wanted.
        self.state.is_new.swap(false, Ordering::Acquire)
    }

    /// Sends `item`, or drops and counts it; false if it was dropped. Never waits.
    pub(super) fn send(&mut self, item: T) -> bool {
        let is_sent = self.queue.try_push(item).is_ok();
        self.state.lost.fetch_add((!is_sent).into(), Ordering::Relaxed);
        is_sent
    }
}

/// The server's end. Only the server's thread takes the lock.
pub struct Inbox<T> {
    state: Arc<OutboxState>,
    queue: Mutex<HeapCons<T>>,
}

impl<T> Inbox<T> {
    /// Sets whether any client wants items. The first client gets the present state first, and no older items. A further client may get
    /// items that were queued for the others.
    pub fn set_wanted(&self, is_wanted: bool) {
        if is_wanted && !self.state.is_wanted.load(Ordering::Relaxed) {
            // Items that were queued for earlier clients are from before a gap.
            self.queue.lock().clear();
        }
        self.state.is_wanted.store(is_wanted, Ordering::Relaxed);
        // SYNC(new-client): pairs with `Outbox::has_new_client`.
        self.state.is_new.store(is_wanted, Ordering::Release);
    }

    /// The items since the last call.
    pub fn drain(&self) -> Vec<T> {
        self.queue.lock().pop_iter().collect()
    }

    /// Items dropped so far because the queue was full.
    pub fn lost(&self) -> u64 {
        self.state.lost.load(Ordering::Relaxed)
    }
}
