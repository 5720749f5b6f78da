//! The memory of a source process that the daemon can read: elements of the pipeline write frames into it, or frames are copied there.
//!
//! The pool numbers what it gives, and knows it again by its address, whatever was wrapped around it. Its descriptor is sent with the first
//! frame; then the process needs none.

use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use foveate_socket::send;
use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::net::SendFlags;

use crate::memory::WritableMemory;
use crate::wire::FromSource;

/// The buffers of a process.
#[derive(Debug)]
pub struct Pool {
    socket: Arc<OwnedFd>,
    /// Most buffers of elements; the others are for copies.
    lent_max: usize,
    bytes_max: u64,
    state: Mutex<PoolState>,
}

#[derive(Debug)]
struct PoolState {
    /// By number.
    buffers: Vec<Option<Buffer>>,
    /// Of all buffers.
    bytes: u64,
    /// Whether it was logged that elements have all that they may.
    is_exhausted: bool,
}

#[derive(Debug)]
struct Buffer {
    addresses: Range<usize>,
    /// `None` once the daemon has it.
    file: Option<OwnedFd>,
}

/// What a buffer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// An element of the pipeline writes to it.
    Element,
    /// Frames are copied there.
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
    /// At most `buffers_max` buffers of `bytes_max` bytes in all, for the daemon at the other end of `socket`. `copies_max` of them and
    /// half of the bytes are kept for copies, so that elements never prevent one.
    pub fn new(socket: Arc<OwnedFd>, buffers_max: u8, copies_max: u8, bytes_max: u64) -> Arc<Self> {
        let buffers = (0..buffers_max).map(|_| None).collect();
        let state = Mutex::new(PoolState { buffers, bytes: 0, is_exhausted: false });
        let lent_max = usize::from(buffers_max.saturating_sub(copies_max));
        Arc::new(Self { socket, lent_max, bytes_max, state })
    }

    /// A buffer of `bytes` bytes.
    ///
    /// # Errors
    ///
    /// If there is not so much memory, or there would be too many buffers or bytes.
    pub fn allocate(
        self: &Arc<Self>,
        bytes: usize,
        purpose: Purpose,
    ) -> Result<PooledMemory, Errno> {
        let mut state = self.state.lock();
        let (bytes_max, places) = match purpose {
            Purpose::Element => (self.bytes_max / 2, &state.buffers[..self.lent_max]),
            Purpose::Copy => (self.bytes_max, &state.buffers[..]),
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
        let (memory, file) = WritableMemory::new(bytes)?;
        state.buffers[place] = Some(Buffer { addresses: memory.addresses(), file: Some(file) });
        state.bytes += bytes as u64;
        let number = u8::try_from(place).expect("as many as a u8 counts");
        Ok(PooledMemory { memory, number, pool: Arc::clone(self) })
    }

    /// The buffer that holds `bytes`, and where they begin there; `None` for other memory.
    pub(crate) fn place_of(&self, bytes: &[u8]) -> Option<(u8, usize)> {
        let Range { start, end } = bytes.as_ptr_range();
        let (start, end) = (start.addr(), end.addr());
        let state = self.state.lock();
        state.buffers.iter().zip(0..).find_map(|(buffer, number)| {
            let Range { start: first, end: past } = buffer.as_ref()?.addresses;
            (first <= start && end <= past).then(|| (number, start - first))
        })
    }

    /// Buffers that exist.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.state.lock().buffers.iter().flatten().count()
    }

    /// Sends the descriptor of buffer `number`, unless the daemon has it.
    pub(crate) fn announce(&self, number: u8) -> Result<(), Errno> {
        let mut state = self.state.lock();
        let buffer = state.buffers[usize::from(number)].as_mut();
        let Some(file) = buffer.and_then(|buffer| buffer.file.take()) else { return Ok(()) };
        let mut message = Vec::new();
        FromSource::Buffer(number).encode(&mut message);
        send(&self.socket, &message, Some(file.as_fd()), SendFlags::empty())
    }
}

impl PooledMemory {
    /// Its number.
    pub fn number(&self) -> u8 {
        self.number
    }

    /// Its size.
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
    /// Before its memory is unmapped, whose address others get then.
    fn drop(&mut self) {
        let mut state = self.pool.state.lock();
        state.bytes -= self.memory.len() as u64;
        let buffer = state.buffers[usize::from(self.number)].take();
        if buffer.is_some_and(|buffer| buffer.file.is_none()) {
            let mut message = Vec::new();
            FromSource::Gone(self.number).encode(&mut message);
            // Locked until it is sent: the next buffer may have the number. It fails if the daemon has hung up.
            let _ = send(&self.pool.socket, &message, None, SendFlags::empty());
        }
    }
}
