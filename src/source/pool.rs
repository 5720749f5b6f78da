//! The memory of a source process that the daemon can read: elements of the pipeline write frames into it, or frames are copied there.
//!
//! The pool numbers what it gives, and knows it again by its address, whatever was wrapped around it. Its descriptor is sent at once, so
//! that the daemon knows what of the memory of the process is for frames; then the process needs none.

use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use foveate_socket::send;
use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::net::SendFlags;
use serde::{Deserialize, Serialize};

use crate::memory::WritableMemory;
use crate::wire::FromSource;

/// Limits of the buffers of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolLimits {
    /// Most buffers.
    pub buffers_max: u8,
    /// Most bytes of all buffers.
    pub bytes_max: u64,
    /// Most bytes of a buffer.
    pub buffer_bytes_max: u64,
}

/// The buffers of a process.
#[derive(Debug)]
pub struct Pool {
    socket: Arc<OwnedFd>,
    /// Most buffers of elements; the others are for copies.
    lent_max: usize,
    limits: PoolLimits,
    state: Mutex<PoolState>,
}

#[derive(Debug)]
struct PoolState {
    /// Addresses of each buffer in this process, by number.
    buffers: Vec<Option<Range<usize>>>,
    /// Bytes of all buffers.
    bytes: u64,
    /// Whether it was logged that elements have as many buffers as they may.
    is_exhausted: bool,
}

/// The use of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// An element of the pipeline writes to it.
    Element,
    /// Frames are copied to it.
    Copy,
}

/// A buffer of a [`Pool`], which it leaves when it is dropped.
#[derive(Debug)]
pub struct PooledMemory {
    memory: WritableMemory,
    number: u8,
    pool: Arc<Pool>,
}

impl Pool {
    /// Buffers within `limits`, for the daemon at the other end of `socket`. `copies_max` of them and half of the bytes are kept for
    /// copies, so that elements never prevent one.
    pub fn new(socket: Arc<OwnedFd>, limits: PoolLimits, copies_max: u8) -> Arc<Self> {
        let buffers = (0..limits.buffers_max).map(|_| None).collect();
        let state = Mutex::new(PoolState { buffers, bytes: 0, is_exhausted: false });
        let lent_max = usize::from(limits.buffers_max.saturating_sub(copies_max));
        Arc::new(Self { socket, lent_max, limits, state })
    }

    /// A buffer of `bytes` bytes, which is sent to the daemon.
    ///
    /// # Errors
    ///
    /// If there is not so much memory, there would be too many buffers or bytes, or the daemon has hung up.
    pub fn allocate(
        self: &Arc<Self>,
        bytes: usize,
        purpose: Purpose,
    ) -> Result<PooledMemory, Errno> {
        let PoolLimits { bytes_max, buffer_bytes_max, .. } = self.limits;
        if buffer_bytes_max < bytes as u64 {
            return Err(Errno::NOMEM);
        }
        // Locked until it is sent, as in `drop`.
        let mut state = self.state.lock();
        let (bytes_max, places) = match purpose {
            Purpose::Element => (bytes_max / 2, &state.buffers[..self.lent_max]),
            Purpose::Copy => (bytes_max, &state.buffers[..]),
        };
        let place = places.iter().rposition(Option::is_none);
        let place = place.filter(|_| state.bytes.saturating_add(bytes as u64) <= bytes_max);
        let Some(place) = place else {
            if purpose == Purpose::Element && !std::mem::replace(&mut state.is_exhausted, true) {
                tracing::warn!(
                    buffers = self.lent_max,
                    mebibytes = bytes_max >> 20,
                    "the pipeline holds more frames than can be shared with the daemon; copying the others"
                );
            }
            return Err(Errno::NOMEM);
        };
        let number = u8::try_from(place).expect("as many as a u8 counts");
        let (memory, file) = WritableMemory::new(bytes)?;
        self.send(&FromSource::Buffer(number), Some(&file))?;
        state.buffers[place] = Some(memory.addresses());
        state.bytes += bytes as u64;
        Ok(PooledMemory { memory, number, pool: Arc::clone(self) })
    }

    /// The buffer that holds `bytes`, and where they begin there; `None` for other memory.
    pub(crate) fn place_of(&self, bytes: &[u8]) -> Option<(u8, usize)> {
        let Range { start, end } = bytes.as_ptr_range();
        let (start, end) = (start.addr(), end.addr());
        let state = self.state.lock();
        state.buffers.iter().zip(0..).find_map(|(buffer, number)| {
            let Range { start: first, end: past } = buffer.as_ref()?;
            (*first <= start && end <= *past).then(|| (number, start - *first))
        })
    }

    /// Buffers that exist.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.state.lock().buffers.iter().flatten().count()
    }

    fn send(&self, message: &FromSource, file: Option<&OwnedFd>) -> Result<(), Errno> {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        send(&self.socket, &bytes, file.map(AsFd::as_fd), SendFlags::empty())
    }
}

impl PooledMemory {
    /// Number of the buffer.
    pub fn number(&self) -> u8 {
        self.number
    }

    /// Length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.memory.len()
    }
}

impl AsMut<[u8]> for PooledMemory {
    fn as_mut(&mut self) -> &mut [u8] {
        self.memory.bytes_mut()
    }
}

impl Drop for PooledMemory {
    /// Removes the buffer from the pool. This comes before its memory is unmapped, because another buffer may get the address then.
    fn drop(&mut self) {
        let mut state = self.pool.state.lock();
        state.bytes -= self.memory.len() as u64;
        state.buffers[usize::from(self.number)] = None;
        // The pool is locked until the message is sent, because the next buffer may have the same number. Sending fails if the daemon has
        // hung up.
        let _ = self.pool.send(&FromSource::Gone(self.number), None);
    }
}
