//! How the frames of a source process reach the daemon.
//!
//! A frame whose samples an element wrote to memory of the [`Pool`] is sent as it is, and stays where it is until the daemon frees it: what
//! keeps others from writing to it meanwhile is that it is not dropped. Any other frame is copied to a buffer of the pool first.
//!
//! The thread that has a frame sends it. If the daemon has as many as it may, the newest frame waits, and is sent by the thread that hears
//! that one was freed.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use foveate_core::source::Pace;
use foveate_socket::send;
use foveate_stats::StreamCounters;
use parking_lot::{Condvar, Mutex, MutexGuard};
use rustix::io::Errno;
use rustix::net::SendFlags;

use crate::frame::FrameLayout;
use crate::ledger::COUNT_MAX;
use crate::pool::{Pool, PooledMemory, Purpose};
use crate::wire::{FrameCounts, FrameReady, FromSource, counters};

/// A frame, which holds its memory until it is dropped.
pub trait SourceFrame {
    /// Samples of the frame.
    fn bytes(&self) -> &[u8];
}

/// Result of posting a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostOutcome {
    /// The frame was sent, or waits.
    Taken,
    /// The frame was sent or waits, and replaced one that waited.
    Replaced,
    /// The frame was dropped, because the daemon has hung up.
    Closed,
}

/// The end of a source process at which frames are handed over.
#[derive(Debug)]
pub struct Handover<F> {
    socket: Arc<OwnedFd>,
    pool: Arc<Pool>,
    /// Most frames that the daemon has.
    frames_max: u8,
    pace: Pace,
    counters: Arc<StreamCounters>,
    state: Mutex<HandoverState<F>>,
    /// Notified when a frame is freed, or nothing is wanted any more.
    changed: Condvar,
}

#[derive(Debug)]
struct HandoverState<F> {
    /// Frames that the daemon holds, by the number of their buffer.
    sent: Vec<Option<SentFrame<F>>>,
    sent_count: u8,
    /// The newest frame, if the daemon has as many as it may.
    waiting: Option<(F, FrameReady)>,
    /// Buffers for copies that are not in use.
    idle: Vec<PooledMemory>,
    /// The part of the counters that was reported.
    reported: [u64; 9],
    message: Vec<u8>,
    has_sent: bool,
    has_hung_up: bool,
    /// Why a frame could not be sent.
    failure: Option<Errno>,
}

#[derive(Debug)]
enum SentFrame<F> {
    Whole(F),
    Copy(PooledMemory),
}

impl<F: SourceFrame> Handover<F> {
    /// A handover to the daemon at the other end of `socket`, which takes buffers of `pool`, and holds at most `frames_max` frames at a time.
    pub fn new(
        socket: Arc<OwnedFd>,
        pool: Arc<Pool>,
        frames_max: u8,
        pace: Pace,
        counters: Arc<StreamCounters>,
    ) -> Self {
        let state = HandoverState {
            sent: (0..=u8::MAX).map(|_| None).collect(),
            sent_count: 0,
            waiting: None,
            idle: Vec::new(),
            reported: [0; 9],
            message: Vec::new(),
            has_sent: false,
            has_hung_up: false,
            failure: None,
        };
        let (state, changed) = (Mutex::new(state), Condvar::new());
        Self { socket, pool, frames_max, pace, counters, state, changed }
    }

    /// Memory in which frames can be sent as they are.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Hands `frame` over, whose layout and stamp `ready` has; the buffer and the counts in `ready` are not used. With
    /// [`Pace::EveryFrame`] it first waits until the daemon may have another frame.
    pub fn post(&self, frame: F, ready: FrameReady) -> PostOutcome {
        let mut state = self.state.lock();
        while self.pace == Pace::EveryFrame && self.is_full(&state) && !state.is_over() {
            self.changed.wait(&mut state);
        }
        if state.is_over() {
            return PostOutcome::Closed;
        }
        if self.is_full(&state) {
            let replaced = state.waiting.replace((frame, ready));
            // Drop the frame after unlocking, as in `free`.
            drop(state);
            return if replaced.is_some() { PostOutcome::Replaced } else { PostOutcome::Taken };
        }
        self.try_send(&mut state, frame, ready);
        if state.is_over() { PostOutcome::Closed } else { PostOutcome::Taken }
    }

    /// Takes buffer `number` back from the daemon.
    pub fn free(&self, number: u8) {
        let mut state = self.state.lock();
        let Some(sent) = state.sent[usize::from(number)].take() else { return };
        state.sent_count -= 1;
        let freed = match sent {
            SentFrame::Whole(frame) => Some(frame),
            SentFrame::Copy(memory) => {
                state.idle.push(memory);
                None
            }
        };
        if let Some((frame, ready)) = state.waiting.take() {
            self.try_send(&mut state, frame, ready);
        }
        self.changed.notify_all();
        drop(state);
        // Not while it is locked: this may do anything that a pipeline does with a buffer.
        drop(freed);
    }

    /// Ends the handover: the daemon wants no more frames. Threads that wait go on.
    pub fn hang_up(&self) {
        self.state.lock().has_hung_up = true;
        self.changed.notify_all();
    }

    /// Whether the daemon wants no more frames.
    pub fn has_hung_up(&self) -> bool {
        self.state.lock().has_hung_up
    }

    /// Whether a frame was sent.
    pub fn has_sent(&self) -> bool {
        self.state.lock().has_sent
    }

    /// Why a frame could not be sent, after which none is.
    pub fn failure(&self) -> Option<Errno> {
        self.state.lock().failure
    }

    /// Sends what was counted, which also says that the process is alive.
    pub fn report_counts(&self) {
        let mut state = self.state.lock();
        let counts = self.unreported(&mut state);
        // Fails if the daemon has hung up.
        let _ = self.send(&mut state, &FromSource::Counts(counts));
    }

    /// Sends the frame that waits, what was counted, and the `last` message.
    pub fn finish(&self, last: &FromSource) {
        let mut state = self.state.lock();
        while state.waiting.is_some() && !state.is_over() {
            self.changed.wait(&mut state);
        }
        let counts = self.unreported(&mut state);
        // Fails if the daemon has hung up, and wants to know nothing more.
        let _ = self.send(&mut state, &FromSource::Counts(counts));
        let _ = self.send(&mut state, last);
    }

    fn is_full(&self, state: &HandoverState<F>) -> bool {
        self.frames_max <= state.sent_count
    }

    fn try_send(&self, state: &mut MutexGuard<'_, HandoverState<F>>, frame: F, ready: FrameReady) {
        if let Err(errno) = self.send_frame(state, frame, ready) {
            state.failure = Some(errno);
        }
    }

    fn send_frame(
        &self,
        state: &mut HandoverState<F>,
        frame: F,
        mut ready: FrameReady,
    ) -> Result<(), Errno> {
        // A buffer that the daemon still has holds the same picture again: the element repeats it, so copy it.
        let place = self.pool.place_of(frame.bytes());
        let place = place.filter(|(number, _)| state.sent[usize::from(*number)].is_none());
        let (number, sent) = match place {
            Some((number, offset)) => {
                ready.layout = ready.layout.moved(offset);
                (number, SentFrame::Whole(frame))
            }
            None => {
                let (memory, layout) = self.copied(state, frame.bytes(), &ready.layout)?;
                self.counters.frames_copied_to_send.add(1);
                ready.layout = layout;
                (memory.number(), SentFrame::Copy(memory))
            }
        };
        state.sent[usize::from(number)] = Some(sent);
        state.sent_count += 1;
        state.has_sent = true;
        (ready.buffer, ready.counts) = (number, self.unreported(state));
        self.send(state, &FromSource::Frame(ready))
    }

    /// Copies the samples in `bytes`, of `layout`, and returns the copy and its layout.
    fn copied(
        &self,
        state: &mut HandoverState<F>,
        bytes: &[u8],
        layout: &FrameLayout,
    ) -> Result<(PooledMemory, FrameLayout), Errno> {
        let FrameLayout { samples, extent, pixel_aspect, gray_range, .. } = *layout;
        let (packed, needed) = FrameLayout::packed(samples, extent, pixel_aspect);
        let packed = FrameLayout { gray_range, ..packed };
        // Buffers of another size are dropped.
        let idle = std::iter::from_fn(|| state.idle.pop()).find(|memory| memory.len() == needed);
        let mut memory = match idle {
            Some(memory) => memory,
            None => self.pool.allocate(needed, Purpose::Copy)?,
        };
        packed.copy_from(memory.as_mut(), layout, bytes);
        Ok((memory, packed))
    }

    /// Frames counted since the last message.
    fn unreported(&self, state: &mut HandoverState<F>) -> FrameCounts {
        let mut counts = [0; 9];
        let counters = counters(&self.counters).into_iter();
        for ((count, reported), counter) in counts.iter_mut().zip(&mut state.reported).zip(counters)
        {
            // The rest follows with the next message.
            *count = u32::try_from(counter.get() - *reported).unwrap_or(u32::MAX).min(COUNT_MAX);
            *reported += u64::from(*count);
        }
        FrameCounts::of(counts)
    }

    fn send(&self, state: &mut HandoverState<F>, message: &FromSource) -> Result<(), Errno> {
        message.encode(&mut state.message);
        send(&self.socket, &state.message, None, SendFlags::empty())
    }
}

impl<F> HandoverState<F> {
    fn is_over(&self) -> bool {
        self.has_hung_up || self.failure.is_some()
    }
}

#[cfg(test)]
mod tests;
