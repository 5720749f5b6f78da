//! A reader that robs the others of their wakes.
#![allow(unsafe_code, reason = "a futex in memory of another process")]
use std::mem::offset_of;
use std::os::fd::OwnedFd;
use std::ptr;
use std::sync::atomic::AtomicU32;

use foveate_ring::abi::{HEADER_BYTES, LIVE_OFFSET, LiveBlock};
use rustix::mm::{MapFlags, ProtFlags, mmap};
use rustix::thread::futex;

pub struct Thief {
    /// The futex word of the segment, in a read-only mapping.
    futex: &'static AtomicU32,
    elsewhere: AtomicU32,
}

impl Thief {
    /// Robs the readers of a segment, by a descriptor such as theirs.
    pub fn new(segment: OwnedFd) -> Self {
        let access = ProtFlags::READ;
        // SAFETY: the kernel chooses the place of the mapping, which stays for good.
        let base =
            unsafe { mmap(ptr::null_mut(), HEADER_BYTES, access, MapFlags::SHARED, segment, 0) };
        let word = base.unwrap().wrapping_byte_add(LIVE_OFFSET + offset_of!(LiveBlock, futex));
        // SAFETY: the word is in the mapping, aligned, and only ever accessed as an atomic.
        Self { futex: unsafe { &*word.cast() }, elsewhere: AtomicU32::new(0) }
    }

    /// Moves all waiters for a frame to a futex that nobody wakes.
    pub fn steal(&self) {
        let most = u32::try_from(i32::MAX).unwrap();
        futex::requeue(self.futex, futex::Flags::empty(), 0, most, &self.elsewhere).unwrap();
    }
}
