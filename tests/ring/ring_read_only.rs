//! No reader can change a segment, whatever it does with the descriptor that it was given.
#![allow(unsafe_code, reason = "mapping memory is what is tried")]

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;

use foveate_ring::{TokenFrameBuf, Writer};
use rustix::fs::{
    FallocateFlags, FlockOperation, Mode, OFlags, SealFlags, fallocate, fcntl_add_seals,
    fcntl_getfl, flock, fstat, ftruncate, open,
};
use rustix::io::{Errno, pwrite};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap, mprotect, munmap};
use testkit::ring::{bytes_of, frame, publish, reader_of, spec};

const PAGE_BYTES: usize = 4096;

#[test]
fn the_descriptor_of_a_reader_is_open_for_reading_only() {
    let writer = Writer::create(&spec(1)).unwrap();
    let flags = fcntl_getfl(writer.reader_fd().unwrap()).unwrap();
    assert_eq!(flags & OFlags::RWMODE, OFlags::RDONLY);
}

#[test]
fn nothing_can_be_written_through_the_descriptor_of_a_reader() {
    assert_nothing_works(|writer| writer.reader_fd().unwrap());
}

/// Root may open it for writing again, whatever its mode; the seals make that worthless.
#[test]
fn nothing_can_be_written_after_opening_it_again() {
    assert_nothing_works(|writer| {
        let reader_fd = writer.reader_fd().unwrap();
        let path = format!("/proc/self/fd/{}", reader_fd.as_raw_fd());
        match open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) {
            Ok(reopened) => reopened,
            Err(errno) => {
                assert_eq!(errno, Errno::ACCESS);
                reader_fd
            }
        }
    });
}

#[test]
fn a_segment_has_mode_0400_and_its_writers_lock() {
    let writer = Writer::create(&spec(1)).unwrap();
    let file = writer.reader_fd().unwrap();
    assert_eq!(fstat(&file).unwrap().st_mode & 0o7777, 0o400);
    for operation in
        [FlockOperation::NonBlockingLockExclusive, FlockOperation::NonBlockingLockShared]
    {
        assert_eq!(flock(&file, operation), Err(Errno::WOULDBLOCK));
    }
}

#[test]
fn a_mapping_of_a_reader_cannot_become_writable() {
    let writer = Writer::create(&spec(1)).unwrap();
    let file = writer.reader_fd().unwrap();
    let address = map(file.as_fd(), ProtFlags::READ).unwrap();
    let access = MprotectFlags::READ | MprotectFlags::WRITE;
    // SAFETY: nothing else uses this mapping.
    let changed = unsafe { mprotect(address, PAGE_BYTES, access) };
    assert_eq!(changed, Err(Errno::ACCESS));
    // SAFETY: it is no longer used.
    unsafe { munmap(address, PAGE_BYTES) }.unwrap();
}

/// Tries to change a segment through the descriptor that `descriptor_of` gets hold of.
fn assert_nothing_works(descriptor_of: impl Fn(&Writer) -> OwnedFd) {
    let spec = spec(1);
    let mut writer = Writer::create(&spec).unwrap();
    publish(&mut writer, 1, 1, spec.format);
    let before = bytes_of(&writer);
    let file = descriptor_of(&writer);

    assert!(map(file.as_fd(), ProtFlags::READ | ProtFlags::WRITE).is_err(), "mmap");
    assert!(pwrite(&file, b"overwritten", 0).is_err(), "pwrite");
    assert!(ftruncate(&file, 0).is_err(), "ftruncate to nothing");
    assert!(ftruncate(&file, before.len() as u64 * 2).is_err(), "ftruncate to twice the size");
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    assert!(fallocate(&file, hole, 0, PAGE_BYTES as u64).is_err(), "fallocate");
    assert!(fcntl_add_seals(&file, SealFlags::WRITE).is_err(), "fcntl(F_ADD_SEALS)");

    assert!(bytes_of(&writer) == before, "the bytes are as they were");
    let (mut reader, mut read) = (reader_of(&writer), TokenFrameBuf::default());
    publish(&mut writer, 2, 1, spec.format);
    reader.read_newest(&mut read).unwrap();
    reader.read_newest(&mut read).unwrap();
    assert_eq!(read.pixels, frame(2, 1, spec.format).pixels, "the writer still can");
}

fn map(file: BorrowedFd<'_>, access: ProtFlags) -> rustix::io::Result<*mut std::ffi::c_void> {
    // SAFETY: a new mapping at an address of the kernel's choice overlaps no existing memory.
    unsafe { mmap(ptr::null_mut(), PAGE_BYTES, access, MapFlags::SHARED, file, 0) }
}
