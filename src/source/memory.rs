//! Memory of frames that a source process writes, and the daemon reads.
//!
//! The process makes a memfd, maps it, and seals it: its size is fixed, no page of it can be given back, and nobody can map it for
//! writing from then on. The daemon checks the seals before it maps it for reading, so that no access can fail.
#![allow(unsafe_code, reason = "memory shared with other processes is beyond what Rust can check")]

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::slice;

use rustix::fs::{
    FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, fcntl_get_seals, fstat,
    memfd_create,
};
use rustix::io::{Errno, retry_on_intr};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// Seals with which a file keeps its size and its pages, and only existing mappings can change its content.
const SEALS: SealFlags =
    SealFlags::GROW.union(SealFlags::SHRINK).union(SealFlags::FUTURE_WRITE).union(SealFlags::SEAL);

/// Bytes of a block of `stat(2)`.
const BLOCK_BYTES: u64 = 512;

/// Why the daemon does not map a descriptor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    /// The file can be resized, or mapped for writing.
    #[error("its memory is not sealed")]
    NotSealed,
    /// The file is empty, too large, or sparse.
    #[error(
        "its memory has {bytes} bytes, {present} of which exist (expected at most {max}, all of them)"
    )]
    Size {
        /// The file's size.
        bytes: u64,
        /// Bytes of its pages.
        present: u64,
        /// Most bytes that the file may have.
        max: u64,
    },
    /// The system refuses.
    #[error("its memory cannot be mapped: {0}")]
    System(Errno),
}

/// A mapping of a whole memfd.
#[derive(Debug)]
struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread.
unsafe impl Send for Mapping {}
// SAFETY: as above; what changes the bytes borrows it exclusively.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(file: BorrowedFd<'_>, bytes: usize, protection: ProtFlags) -> rustix::io::Result<Self> {
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a new mapping at an address of the kernel's choice overlaps no existing memory.
        let address = unsafe { mmap(ptr::null_mut(), bytes, protection, flags, file, 0) }?;
        let base = NonNull::new(address.cast()).expect("mmap returns no null without MAP_FIXED");
        Ok(Self { base, bytes })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this address and size, and all borrows of it have ended.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "munmap of a mapping of our own: {unmapped:?}");
    }
}

/// Memory of the process that writes it.
#[derive(Debug)]
pub struct WritableMemory(Mapping);

impl WritableMemory {
    /// Sealed memory of `bytes` bytes, and the descriptor for the daemon.
    ///
    /// # Errors
    ///
    /// If there is not so much memory.
    pub fn new(bytes: usize) -> rustix::io::Result<(Self, OwnedFd)> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        // `MFD_NOEXEC_SEAL` requires Linux 6.3.
        let file = match memfd_create("foveate-frame", flags | MemfdFlags::NOEXEC_SEAL) {
            Err(Errno::INVAL) => memfd_create("foveate-frame", flags),
            created => created,
        }?;
        retry_on_intr(|| fallocate(&file, FallocateFlags::empty(), 0, bytes as u64))?;
        let mapping = Mapping::new(file.as_fd(), bytes, ProtFlags::READ | ProtFlags::WRITE)?;
        fcntl_add_seals(&file, SEALS)?;
        Ok((Self(mapping), file))
    }

    /// The whole memory, to write.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let Mapping { base, bytes } = self.0;
        // SAFETY: all of it is mapped for as long as `self`, and this borrow is the process's only one. The daemon reads it only
        // while the process leaves it alone.
        unsafe { slice::from_raw_parts_mut(base.as_ptr(), bytes) }
    }

    /// Addresses of the memory in this process, by which the buffer of a frame is recognised.
    pub fn addresses(&self) -> Range<usize> {
        let start = self.0.base.addr().get();
        start..start + self.0.bytes
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.0.bytes
    }

    /// Whether the memory is empty, which it never is.
    pub fn is_empty(&self) -> bool {
        self.0.bytes == 0
    }
}

/// Memory of another process, mapped for reading.
#[derive(Debug)]
pub struct ReadableMemory(Mapping);

impl ReadableMemory {
    /// Maps `file`, which must be sealed and have 1 to `bytes_max` bytes.
    ///
    /// # Errors
    ///
    /// If it is not, or the system refuses.
    pub fn map(file: BorrowedFd<'_>, bytes_max: u64) -> Result<Self, MapError> {
        // Fails for everything but memfds.
        let seals = fcntl_get_seals(file).map_err(|_| MapError::NotSealed)?;
        if !seals.contains(SEALS) {
            return Err(MapError::NotSealed);
        }
        let status = fstat(file).map_err(MapError::System)?;
        let bytes = u64::try_from(status.st_size).unwrap_or(0);
        let present = u64::try_from(status.st_blocks).unwrap_or(0).saturating_mul(BLOCK_BYTES);
        let size = MapError::Size { bytes, present, max: bytes_max };
        if bytes == 0 || bytes_max < bytes || present < bytes {
            return Err(size);
        }
        let len = usize::try_from(bytes).map_err(|_| size)?;
        Mapping::new(file, len, ProtFlags::READ).map(Self).map_err(MapError::System)
    }

    /// The whole memory. An honest process does not write to it meanwhile; with a dishonest one, reading a byte twice may give two values.
    pub fn bytes(&self) -> &[u8] {
        let Mapping { base, bytes } = self.0;
        // SAFETY: all of it is mapped for as long as `self`, and its seals keep every page. Bytes are valid whatever they are. A
        // process that writes them all the same breaks what Rust assumes of a slice; frames are read as samples, which nothing is
        // indexed or measured by.
        unsafe { slice::from_raw_parts(base.as_ptr(), bytes) }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;

    use rustix::fs::{MemfdFlags, fcntl_add_seals, ftruncate, memfd_create};
    use rustix::mm::{MapFlags, ProtFlags};

    use super::{MapError, ReadableMemory, SEALS, WritableMemory};

    const MAX: u64 = 1 << 20;

    #[test]
    fn what_one_side_writes_the_other_reads() {
        let (mut memory, file) = WritableMemory::new(10_000).unwrap();
        let mapped = ReadableMemory::map(file.as_fd(), MAX).unwrap();
        for value in [1, 2] {
            memory.bytes_mut().fill(value);
            assert_eq!(mapped.bytes(), vec![value; 10_000]);
        }
    }

    #[test]
    fn nobody_can_change_the_size_or_map_it_for_writing() {
        let (_memory, file) = WritableMemory::new(4096).unwrap();
        assert!(ftruncate(&file, 0).is_err());
        assert!(ftruncate(&file, 8192).is_err());
        let punched =
            rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
        assert!(rustix::fs::fallocate(&file, punched, 0, 4096).is_err());
        let both = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, which fails.
        #[expect(unsafe_code, reason = "as above")]
        let mapped = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), 4096, both, MapFlags::SHARED, &file, 0)
        };
        assert!(mapped.is_err());
    }

    #[test]
    fn what_is_not_sealed_memory_is_refused() {
        let map = |file: &dyn AsFd| ReadableMemory::map(file.as_fd(), MAX).map(drop);
        assert_eq!(map(&File::open("/proc/self/exe").unwrap()), Err(MapError::NotSealed));
        assert_eq!(map(&File::open("/dev/zero").unwrap()), Err(MapError::NotSealed));
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = memfd_create("test", flags).unwrap();
        ftruncate(&file, 4096).unwrap();
        assert_eq!(map(&file), Err(MapError::NotSealed));
        // The file's pages do not exist yet.
        fcntl_add_seals(&file, SEALS).unwrap();
        assert_eq!(map(&file), Err(MapError::Size { bytes: 4096, present: 0, max: MAX }));
        let (_memory, file) = WritableMemory::new(8192).unwrap();
        assert!(ReadableMemory::map(file.as_fd(), 8191).is_err());
    }
}
