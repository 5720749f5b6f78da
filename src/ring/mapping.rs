//! A shared mapping as atomic words. All `unsafe` code of the ring is here, except for the plain-data promises of [`abi`](super::abi).
//!
//! Other processes read these bytes while the writer changes them, so they are accessed only as atomics: plain access would be a
//! data race, even though readers discard torn copies.
#![allow(unsafe_code, reason = "memory shared with other processes is beyond what Rust can check")]

#[cfg(feature = "writer")]
use std::cell::UnsafeCell;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::error::{RingError, SystemResultExt};

pub(super) const WORD_BYTES: usize = size_of::<AtomicU64>();

/// A mapping of a memfd.
///
/// The file must be sealed against shrinking: touching a page beyond its end is fatal.
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

    /// Maps the first `bytes` of `file` for reading. Its words may only be loaded, and only relaxed: std guarantees no other atomic
    /// access to read-only memory.
    pub(super) fn read_only(file: BorrowedFd<'_>, bytes: usize) -> Result<Self, RingError> {
        Self::new(file, bytes, ProtFlags::READ)
    }

    /// Pages are populated at once, so that the first frames cause no page faults.
    fn new(file: BorrowedFd<'_>, bytes: usize, protection: ProtFlags) -> Result<Self, RingError> {
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a new mapping at an address of the kernel's choice overlaps no existing memory.
        let address = unsafe { mmap(ptr::null_mut(), bytes, protection, flags, file, 0) };
        let base = NonNull::new(address.during("mmap")?.cast());
        Ok(Self { base: base.expect("mmap returns no null without MAP_FIXED"), bytes })
    }

    /// The words of `bytes` bytes from `offset`, rounded up to whole words.
    pub(super) fn words(&self, offset: usize, bytes: usize) -> &[AtomicU64] {
        let word_count = bytes.div_ceil(WORD_BYTES);
        let start = self.start::<AtomicU64>(offset, word_count);
        // SAFETY: `start` checked size and alignment; any bits are a valid atomic, shared access is
        // what atomics are for, and the mapping lives as long as `self`.
        unsafe { slice::from_raw_parts(start.as_ptr(), word_count) }
    }

    /// The whole mapping, for access by others than this process's threads.
    #[cfg(feature = "writer")]
    pub(super) fn memory(&self) -> &[UnsafeCell<u64>] {
        let word_count = self.bytes / WORD_BYTES;
        let start = self.start::<UnsafeCell<u64>>(0, word_count);
        // SAFETY: as in `words`; creating a cell does not access the memory.
        unsafe { slice::from_raw_parts(start.as_ptr(), word_count) }
    }

    /// The word at `offset`.
    pub(super) fn word(&self, offset: usize) -> &AtomicU64 {
        let start = self.start::<AtomicU64>(offset, 1);
        // SAFETY: as in `words`.
        unsafe { start.as_ref() }
    }

    /// The 32-bit word at `offset`, which must not be part of a word accessed whole.
    pub(super) fn half_word(&self, offset: usize) -> &AtomicU32 {
        let start = self.start::<AtomicU32>(offset, 1);
        // SAFETY: as in `words`.
        unsafe { start.as_ref() }
    }

    /// The address of `count` aligned atomics at `offset`, all inside the mapping.
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
        debug_assert!(unmapped.is_ok(), "munmap of a mapping of our own: {unmapped:?}");
    }
}

/// Stores `source` in `target`, word by word, relaxed. The last word is padded with 0.
pub(super) fn store_bytes(target: &[AtomicU64], source: &[u8]) {
    assert!(source.len() <= target.len() * WORD_BYTES, "{} bytes", source.len());
    let (chunks, rest) = source.as_chunks();
    store_words(target, chunks);
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
    load_words(chunks, source);
    if !rest.is_empty() {
        let chunk = source[chunks.len()].load(Ordering::Relaxed).to_ne_bytes();
        rest.copy_from_slice(&chunk[..rest.len()]);
    }
}

/// Stores `source` at byte `start` of `target`, relaxed. The other bytes of words that are stored in part must be stored by no
/// other thread meanwhile.
pub(super) fn store_part(target: &[AtomicU64], start: usize, source: &[u8]) {
    let (first, skipped) = (start / WORD_BYTES, start % WORD_BYTES);
    let (head, rest) = source.split_at(((WORD_BYTES - skipped) % WORD_BYTES).min(source.len()));
    let (chunks, tail) = rest.as_chunks();
    merge(&target[first..], skipped, head);
    let whole = &target[first + usize::from(0 < skipped)..];
    store_words(&whole[..chunks.len()], chunks);
    merge(&whole[chunks.len()..], 0, tail);
}

/// Replaces some bytes of the first word of `target`.
fn merge(target: &[AtomicU64], start: usize, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    let mut word = target[0].load(Ordering::Relaxed).to_ne_bytes();
    word[start..start + bytes.len()].copy_from_slice(bytes);
    target[0].store(u64::from_ne_bytes(word), Ordering::Relaxed);
}

/// Fills `target` from byte `start` of `source`, relaxed.
pub(super) fn load_part(target: &mut [u8], source: &[AtomicU64], start: usize) {
    let (first, skipped) = (start / WORD_BYTES, start % WORD_BYTES);
    let (head, rest) = target.split_at_mut(((WORD_BYTES - skipped) % WORD_BYTES).min(target.len()));
    if !head.is_empty() {
        let word = source[first].load(Ordering::Relaxed).to_ne_bytes();
        head.copy_from_slice(&word[skipped..][..head.len()]);
    }
    load_bytes(rest, &source[first + usize::from(0 < skipped)..]);
}

/// Stores `source` in `target`, which is at least as long.
fn store_words(target: &[AtomicU64], source: &[[u8; WORD_BYTES]]) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if string::WORDS_MIN <= source.len() {
        return string::store(&target[..source.len()], source);
    }
    for (word, bytes) in target.iter().zip(source) {
        word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
    }
}

/// Fills `target` from `source`, which is at least as long.
fn load_words(target: &mut [[u8; WORD_BYTES]], source: &[AtomicU64]) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if string::WORDS_MIN <= target.len() {
        return string::load(target, &source[..target.len()]);
    }
    for (bytes, word) in target.iter_mut().zip(source) {
        *bytes = word.load(Ordering::Relaxed).to_ne_bytes();
    }
}

/// Copies `source` to `target`, which is as long, word by word, relaxed.
pub(super) fn copy_words(target: &[AtomicU64], source: &[AtomicU64]) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if string::WORDS_MIN <= target.len() {
        return string::copy_words(target, source);
    }
    for (word, other) in target.iter().zip(source) {
        word.store(other.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// The loops above as one instruction, which takes half the time: compilers do not merge atomic accesses, and the instruction
/// need not fetch the cache lines that it overwrites.
///
/// To the protocol it is the same copy: relaxed accesses to different words are unordered in a loop, too, so loom covers every
/// order that the instruction may use, and a third word adds no race that two do not have.
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod string {
    use std::arch::asm;
    use std::sync::atomic::AtomicU64;

    use super::WORD_BYTES;

    /// Below this the loop is faster than the instruction's startup.
    pub(super) const WORDS_MIN: usize = 64;

    pub(super) fn store(target: &[AtomicU64], source: &[[u8; WORD_BYTES]]) {
        assert_eq!(target.len(), source.len(), "words to be stored");
        // SAFETY: both have this many words, and atomics may be changed through a shared borrow.
        unsafe { copy(source.as_ptr().cast(), target.as_ptr().cast_mut().cast(), source.len()) }
    }

    pub(super) fn load(target: &mut [[u8; WORD_BYTES]], source: &[AtomicU64]) {
        assert_eq!(target.len(), source.len(), "words to be loaded");
        // SAFETY: both have this many words, and the borrow of the target is exclusive.
        unsafe { copy(source.as_ptr().cast(), target.as_mut_ptr().cast(), source.len()) }
    }

    pub(super) fn copy_words(target: &[AtomicU64], source: &[AtomicU64]) {
        assert_eq!(target.len(), source.len(), "words to be copied");
        // SAFETY: both have this many words, of two places of a segment, and atomics may be changed through a shared borrow.
        unsafe { copy(source.as_ptr().cast(), target.as_ptr().cast_mut().cast(), source.len()) }
    }

    /// Copies `count` words: to Rust, relaxed loads or stores of aligned words of the ring, in any order among themselves. The
    /// fences around it apply to string instructions, too: "string operations are not reordered with other store operations", and
    /// their loads are ordered like all loads (Intel SDM volume 3, "Fast-String Operation and Out-of-Order Stores"; AMD's manual,
    /// volume 2, "Memory System", has no exception for them in write-back memory either).
    ///
    /// # Safety
    ///
    /// `source` must be readable and `target` writable for `count` words, and they must not overlap.
    unsafe fn copy(source: *const u64, target: *mut u64, count: usize) {
        // SAFETY: the caller vouches for the memory; the ABI keeps the direction flag clear.
        unsafe {
            asm!(
                "rep movsq",
                inout("rsi") source => _,
                inout("rdi") target => _,
                inout("rcx") count => _,
                options(nostack, preserves_flags),
            );
        }
    }
}
