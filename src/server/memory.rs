//! Memory of segments, which lives as long as anybody has it: open, by `O_PATH` too, mapped, or in a message on its way.

use std::collections::BTreeSet;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{fstat, inotify};

/// Tells of the end of memory.
#[derive(Debug)]
pub struct MemoryWatch(OwnedFd);

/// The memory of a segment.
#[derive(Debug)]
pub(crate) struct WatchedMemory {
    /// Number of its watch.
    pub(crate) number: i32,
    pub(crate) bytes: usize,
}

impl MemoryWatch {
    /// Watches nothing yet.
    ///
    /// # Errors
    ///
    /// If the system has no inotify instance left for this user.
    pub fn new() -> io::Result<Self> {
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        Ok(Self(inotify::init(flags)?))
    }

    /// Watches the memory behind a descriptor of a segment.
    pub(crate) fn watch(&self, segment: impl AsFd) -> io::Result<WatchedMemory> {
        let segment = segment.as_fd();
        let path = format!("/proc/self/fd/{}", segment.as_raw_fd());
        // The kernel deletes a memfd with its last descriptor and mapping.
        let number = inotify::add_watch(&self.0, path, inotify::WatchFlags::DELETE_SELF)?;
        let bytes = usize::try_from(fstat(segment)?.st_size).unwrap_or(0);
        Ok(WatchedMemory { number, bytes })
    }

    /// The numbers of the memory that was freed since the last call.
    pub(crate) fn gone(&self) -> BTreeSet<i32> {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(&self.0, &mut buffer);
        let mut gone = BTreeSet::new();
        while let Ok(event) = events.next() {
            gone.insert(event.wd());
        }
        gone
    }
}
