//! The daemon's side of a source process: what was handed over, and the laws that every message of the process has to keep.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use foveate_core::frame::{CaptureClock, FrameError, FrameStamp};
use foveate_core::geometry::extent::Extent;
use foveate_socket::send;
use rustix::net::SendFlags;

use crate::discipline::{ClockQuality, Reading, WallClock};
use crate::frame::FrameLayout;
use crate::memory::{MapError, ReadableMemory};
use crate::pool::PoolLimits;
use crate::wire::{FrameCounts, FrameReady, SourceStamp, WireError, free_message};

/// Most of each count in a message: far more than there are between two.
pub const COUNT_MAX: u32 = 1 << 20;

/// Times in nanoseconds are below it, so that they can be added to and subtracted.
const TIME_MAX_NS: u64 = i64::MAX.cast_unsigned();

/// A breach of the protocol by a source process.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// The process sent a datagram that is not a message.
    #[error("it sent {0}")]
    Wire(#[from] WireError),
    /// A buffer that the process may not have.
    #[error("it has no buffer {0}")]
    NoBuffer(u8),
    /// A buffer that the daemon still holds.
    #[error("it used buffer {0}, which had not been freed")]
    Held(u8),
    /// A buffer without memory.
    #[error("it sent buffer {0} without a descriptor")]
    NoDescriptor(u8),
    /// A buffer whose memory is not as agreed.
    #[error("it sent a buffer, but {0}")]
    Memory(#[from] MapError),
    /// A frame that does not fit its buffer.
    #[error("it sent a frame that does not fit its buffer: {0}")]
    Frame(FrameError),
    /// A frame of more pixels than the process may send.
    #[error(
        "it sent a frame of {extent} pixels (expected at most {pixels_max} in all, `max_pixels`)"
    )]
    Pixels {
        /// Extent of the frame.
        extent: Extent,
        /// Most pixels of a frame.
        pixels_max: u32,
    },
    /// Depth in place of a picture, or a picture in place of depth.
    #[error("it sent depth in place of pictures, or pictures in place of depth")]
    Content,
    /// Impossible counts.
    #[error("it counted {0} frames since its last message")]
    Counts(u32),
    /// A number that is not next.
    #[error("it sent frame {number} after frame {last} of {captured}")]
    Number {
        /// Number of the frame.
        number: u64,
        /// Number of the last frame.
        last: u64,
        /// Frames captured so far.
        captured: u64,
    },
    /// A time that cannot be.
    #[error("it sent a frame with an invalid {0}")]
    Time(&'static str),
    /// Masks that it was not given, or older ones than before.
    #[error("it applied change {0} of the masks, which it was not given")]
    Masks(u64),
}

/// A buffer of a process.
#[derive(Debug)]
struct Buffer {
    memory: ReadableMemory,
    /// Whether the daemon has the buffer.
    is_held: AtomicBool,
}

impl Buffer {
    fn bytes(&self) -> u64 {
        self.memory.bytes().len() as u64
    }
}

/// A buffer that is the daemon's. Dropping it frees it, and tells the process.
#[derive(Debug)]
pub struct HeldBuffer {
    buffer: Arc<Buffer>,
    number: u8,
    socket: Arc<OwnedFd>,
}

impl HeldBuffer {
    /// Bytes of the buffer.
    pub fn bytes(&self) -> &[u8] {
        self.buffer.memory.bytes()
    }
}

impl Drop for HeldBuffer {
    fn drop(&mut self) {
        // Before the message, after which the process may use the buffer. SYNC(held): pairs with the swap in `hold`.
        self.buffer.is_held.store(false, Ordering::Release);
        // A process that does not read its messages gets no buffer back: it is about to be ended.
        let _ = send(&self.socket, &free_message(self.number), None, SendFlags::DONTWAIT);
    }
}

/// A frame that keeps the laws.
#[derive(Debug)]
pub struct AcceptedFrame {
    /// Buffer of the frame, which the daemon has until this is dropped.
    pub buffer: HeldBuffer,
    /// Layout of the samples, which lie wholly in the buffer.
    pub layout: FrameLayout,
    /// Number and times.
    pub stamp: FrameStamp,
    /// Revision of the masks that fill the frame, as the process says.
    pub mask_revision: u64,
}

/// The daemon's record of a source process, by which messages are checked.
#[derive(Debug)]
pub struct Ledger {
    socket: Arc<OwnedFd>,
    buffers: Vec<Option<Arc<Buffer>>>,
    limits: PoolLimits,
    /// `frame_seq` of the frame before the first.
    base: u64,
    captured: u64,
    last_number: u64,
}

impl Ledger {
    /// The ledger of a process at the other end of `socket`, whose buffers are within `limits`, and whose first frame is the one after
    /// `base`.
    pub fn new(socket: Arc<OwnedFd>, limits: PoolLimits, base: u64) -> Self {
        let buffers = (0..limits.buffers_max).map(|_| None).collect();
        Self { socket, buffers, limits, base, captured: 0, last_number: 0 }
    }

    /// Bytes of the buffers that are known.
    pub fn bytes(&self) -> u64 {
        self.buffers.iter().flatten().map(|buffer| buffer.bytes()).sum()
    }

    /// Takes the memory of buffer `number`, and returns its bytes.
    ///
    /// # Errors
    ///
    /// If there can be no such buffer, the daemon has it, or its memory is not as agreed.
    pub fn add(&mut self, number: u8, file: Option<BorrowedFd<'_>>) -> Result<u64, Violation> {
        let file = file.ok_or(Violation::NoDescriptor(number))?;
        let before = self.buffers.get(usize::from(number)).and_then(Option::as_ref);
        let used = self.bytes() - before.map_or(0, |buffer| buffer.bytes());
        let left = self.limits.bytes_max.saturating_sub(used);
        let place = self.buffers.get_mut(usize::from(number)).ok_or(Violation::NoBuffer(number))?;
        if place.as_ref().is_some_and(|buffer| buffer.is_held.load(Ordering::Relaxed)) {
            return Err(Violation::Held(number));
        }
        let memory = ReadableMemory::map(file, left.min(self.limits.buffer_bytes_max))?;
        let buffer = Buffer { memory, is_held: AtomicBool::new(false) };
        let bytes = buffer.bytes();
        *place = Some(Arc::new(buffer));
        Ok(bytes)
    }

    /// Buffers that are known.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.buffers.iter().flatten().count()
    }

    /// Forgets buffer `number`.
    ///
    /// # Errors
    ///
    /// If there is no such buffer, or the daemon has it.
    pub fn remove(&mut self, number: u8) -> Result<(), Violation> {
        let place = self.buffers.get_mut(usize::from(number)).ok_or(Violation::NoBuffer(number))?;
        let buffer = place.take_if(|buffer| !buffer.is_held.load(Ordering::Acquire));
        match (buffer, place) {
            (Some(_), _) => Ok(()),
            (None, Some(_)) => Err(Violation::Held(number)),
            (None, None) => Err(Violation::NoBuffer(number)),
        }
    }

    /// Checks and takes what was counted.
    ///
    /// # Errors
    ///
    /// If that cannot be.
    pub fn count(&mut self, counts: &FrameCounts) -> Result<(), Violation> {
        match counts.all().into_iter().find(|count| COUNT_MAX < *count) {
            Some(count) => Err(Violation::Counts(count)),
            None => {
                self.captured += u64::from(counts.captured);
                Ok(())
            }
        }
    }

    /// Takes a frame at `now_ns` on CLOCK_MONOTONIC. Its counts must have been [taken](Self::count).
    ///
    /// # Errors
    ///
    /// If it breaks a law. Its buffer stays with the process then.
    pub fn accept(&mut self, frame: &FrameReady, now_ns: u64) -> Result<AcceptedFrame, Violation> {
        let number = frame.buffer;
        let buffer = self.buffers.get(usize::from(number)).and_then(Option::as_ref);
        let buffer = buffer.ok_or(Violation::NoBuffer(number))?;
        // SYNC(held): pairs with the store in `drop`.
        if buffer.is_held.load(Ordering::Acquire) {
            return Err(Violation::Held(number));
        }
        frame.layout.check(buffer.memory.bytes()).map_err(Violation::Frame)?;
        let stamp = self.checked_stamp(&frame.stamp, now_ns)?;
        buffer.is_held.store(true, Ordering::Relaxed);
        let (buffer, socket) = (Arc::clone(buffer), Arc::clone(&self.socket));
        self.last_number = frame.stamp.number;
        Ok(AcceptedFrame {
            buffer: HeldBuffer { buffer, number, socket },
            layout: frame.layout,
            stamp,
            mask_revision: frame.mask_revision,
        })
    }

    fn checked_stamp(&self, stamp: &SourceStamp, now_ns: u64) -> Result<FrameStamp, Violation> {
        let SourceStamp { number, pts_ns, capture_ns, capture_unix_ns, capture_clock, arrival_ns } =
            *stamp;
        let (last, captured) = (self.last_number, self.captured);
        if number <= last || captured < number {
            return Err(Violation::Number { number, last, captured });
        }
        if pts_ns.is_some_and(|pts_ns| TIME_MAX_NS < pts_ns) {
            return Err(Violation::Time("presentation time"));
        }
        if now_ns < arrival_ns {
            return Err(Violation::Time("time of arrival"));
        }
        if arrival_ns < capture_ns || TIME_MAX_NS < capture_unix_ns {
            return Err(Violation::Time("capture time"));
        }
        let ClockQuality { error_ns, steps } =
            WallClock::of_process().quality(now_ns, Reading::now);
        Ok(FrameStamp {
            frame_seq: self.base + number,
            pts_ns,
            capture_ns,
            capture_unix_ns,
            capture_clock,
            // The bound is that of CLOCK_REALTIME: reference times come from another clock, and an arrival is later than the capture.
            capture_error_ns: if capture_clock == CaptureClock::RunningTime { error_ns } else { 0 },
            clock_steps: steps,
            arrival_ns,
        })
    }
}

#[cfg(test)]
mod tests;
