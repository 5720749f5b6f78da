//! A shared mapping as atomic words. All `unsafe` of the ring is here.
//!
//! Other processes look at these bytes while the writer changes them, so they are only ever touched as atomics:
//! with plain memory that would be a data race even though a reader throws a torn copy away.
#![allow(unsafe_code, reason = "memory that other processes share is outside of what Rust can see")]

use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::{RingError, SystemResultExt};

pub(super) const WORD_BYTES: usize = size_of::<AtomicU64>();

/// Bytes of a memfd, mapped for as long as this lives.
///
/// Whoever maps must have made sure that the file cannot shrink: touching a page beyond its end is fatal.
#[derive(Debug)]
pub(super) struct Mapping {
    /// Start of the mapping, aligned to a page.
    base: NonNull<u8>,
    /// A multiple of a word.
    bytes: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and all access is atomic.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `bytes` of `file` for reading and writing.
    pub(super) fn writable(file: BorrowedFd<'_>, bytes: usize) -> Result<Self, RingError> {
        Self::new(file, bytes, ProtFlags::READ | ProtFlags::WRITE)
    }

    /// Maps the first `bytes` of `file` for reading. Its words may only be loaded, and only relaxed: std
    /// promises no other atomic access to read-only memory.
    pub(super) fn read_only(file: BorrowedFd<'_>, bytes: usize) -> Result<Self, RingError> {
        Self::new(file, bytes, ProtFlags::READ)
    }

    /// Pages are mapped at once, so that the first frames cause no page faults.
    fn new(file: BorrowedFd<'_>, bytes: usize, protection: ProtFlags) -> Result<Self, RingError> {
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let address = unsafe { mmap(ptr::null_mut(), bytes, protection, flags, file, 0) };
        let base = NonNull::new(address.during("mmap")?.cast());
        Ok(Self { base: base.expect("mmap returns no null without MAP_FIXED"), bytes })
    }

    /// The words of `bytes` bytes from `offset` on; a started word counts as a whole one.
    pub(super) fn words(&self, offset: usize, bytes: usize) -> &[AtomicU64] {
        let word_count = bytes.div_ceil(WORD_BYTES);
        let start = self.start::<AtomicU64>(offset, word_count);
        // SAFETY: `start` checked size and alignment; any bits are a valid atomic, shared access is
        // what atomics are for, and the mapping lives as long as `self`.
        unsafe { slice::from_raw_parts(start.as_ptr(), word_count) }
    }

    /// The word at `offset`.
    pub(super) fn word(&self, offset: usize) -> &AtomicU64 {
        let start = self.start::<AtomicU64>(offset, 1);
        // SAFETY: as in `words`.
        unsafe { start.as_ref() }
    }

    /// The 32-bit word at `offset`, which must not lie in a word that is used whole.
    pub(super) fn half_word(&self, offset: usize) -> &AtomicU32 {
        let start = self.start::<AtomicU32>(offset, 1);
        // SAFETY: as in `words`.
        unsafe { start.as_ref() }
    }

    /// The address of `count` atomics at `offset`, all inside the mapping and aligned.
    fn start<T>(&self, offset: usize, count: usize) -> NonNull<T> {
        let end = count.checked_mul(size_of::<T>()).and_then(|bytes| bytes.checked_add(offset));
        assert!(end.is_some_and(|end| end <= self.bytes), "{count} at {offset} of {}", self.bytes);
        // SAFETY: `offset` was just found to lie inside the mapping.
        let start = unsafe { self.base.add(offset) }.cast::<T>();
        assert!(start.is_aligned(), "offset {offset}");
        start
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this address and size, and all borrows of it have ended.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
        if let Err(error) = unmapped {
            // A destructor has nobody to return an error to.
            tracing::error!(%error, "unmapping a segment failed");
        }
    }
}

/// Stores `source` in `target`, word by word, relaxed. The rest of a started word becomes 0.
pub(super) fn store_bytes(target: &[AtomicU64], source: &[u8]) {
    assert!(source.len() <= target.len() * WORD_BYTES, "{} bytes", source.len());
    let (chunks, rest) = source.as_chunks();
    for (word, chunk) in target.iter().zip(chunks) {
        word.store(u64::from_ne_bytes(*chunk), Ordering::Relaxed);
    }
    if !rest.is_empty() {
        let mut chunk = [0; WORD_BYTES];
        chunk[..rest.len()].copy_from_slice(rest);
        target[chunks.len()].store(u64::from_ne_bytes(chunk), Ordering::Relaxed);
    }
}

/// Fills `target` from `source`, word by word, relaxed.
pub(super) fn load_bytes(target: &mut [u8], source: &[AtomicU64]) {
    assert!(target.len() <= source.len() * WORD_BYTES, "{} bytes", target.len());
    let (chunks, rest) = target.as_chunks_mut();
    for (chunk, word) in chunks.iter_mut().zip(source) {
        *chunk = word.load(Ordering::Relaxed).to_ne_bytes();
    }
    if !rest.is_empty() {
        let chunk = source[chunks.len()].load(Ordering::Relaxed).to_ne_bytes();
        rest.copy_from_slice(&chunk[..rest.len()]);
    }
}
