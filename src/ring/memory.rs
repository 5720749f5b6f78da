//! The memory of segments: how much there is, its reservation and seals.

use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{
    FallocateFlags, FlockOperation, MemfdFlags, Mode, OFlags, SealFlags, fallocate, fchmod,
    fcntl_add_seals, flock, memfd_create, open,
};
use rustix::io::{Errno, retry_on_intr};

use super::error::{RingError, SystemResultExt};
use super::segment::{REQUIRED_SEALS, SegmentLayout, SegmentSpec};

/// Checks that segments for all of `specs` fit into memory together, before any is reserved: reserving some of too many takes
/// long and starves other processes. An eighth of the available memory stays free.
///
/// # Errors
///
/// If they do not fit, or a spec does not fit a segment.
pub fn check_memory<'a>(specs: impl IntoIterator<Item = &'a SegmentSpec>) -> Result<(), RingError> {
    let mut bytes = 0_u64;
    for spec in specs {
        bytes = bytes.saturating_add(SegmentLayout::new(spec)?.total_bytes as u64);
    }
    check_available(bytes)
}

/// Reserving more than is available would invoke the OOM killer instead of failing.
fn check_available(bytes: u64) -> Result<(), RingError> {
    match available_memory_bytes(Path::new("/")) {
        Some(available) if available - available / 8 < bytes => Err(RingError::OutOfMemory {
            bytes,
            reason: format!("{available} are available, and an eighth of them stays free"),
        }),
        _ => Ok(()),
    }
}

/// A memfd of `bytes` bytes, all reserved, so that writing cannot fail for lack of memory.
pub(super) fn reserved_memory(name: &str, bytes: usize) -> Result<OwnedFd, RingError> {
    let bytes = bytes as u64;
    check_available(bytes)?;
    let file = new_memory_file(name)?;
    // Readers get descriptors, so no one needs to open the file. The owner's lock keeps others from locking it.
    fchmod(&file, Mode::RUSR).during("fchmod")?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).during("flock")?;
    match retry_on_intr(|| fallocate(&file, FallocateFlags::empty(), 0, bytes)) {
        Ok(()) => Ok(file),
        Err(Errno::FBIG) => Err(RingError::OutOfMemory {
            bytes,
            reason: "more than the limit on file sizes (`ulimit -f`)".to_owned(),
        }),
        Err(errno @ (Errno::NOMEM | Errno::NOSPC)) => {
            Err(RingError::OutOfMemory { bytes, reason: errno.to_string() })
        }
        Err(errno) => Err(errno).during("fallocate"),
    }
}

/// An empty sealable memfd. `MFD_NOEXEC_SEAL` requires Linux 6.3.
fn new_memory_file(name: &str) -> Result<OwnedFd, RingError> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    match memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => memfd_create(name, flags),
        result => result,
    }
    .during("memfd_create")
}

/// Seals `file` permanently. Existing mappings stay writable; no new ones can be.
pub(super) fn seal(file: BorrowedFd<'_>) -> Result<(), RingError> {
    fcntl_add_seals(file.as_fd(), REQUIRED_SEALS | SealFlags::SEAL).during("fcntl(F_ADD_SEALS)")
}

/// Opens the file of `file` again, read-only.
pub(super) fn reopened(file: BorrowedFd<'_>) -> rustix::io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    retry_on_intr(|| open(&path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()))
}

/// Bytes that can be had without swapping: what the kernel estimates for the machine, or less where a control group has a limit. `None`
/// if neither is known. `root` is `/`, except in tests.
fn available_memory_bytes(root: &Path) -> Option<u64> {
    let machine = || {
        let text = fs::read_to_string(root.join("proc/meminfo")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
        let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kibibytes * 1024)
    };
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let in_groups = groups.lines().filter_map(|line| {
        let (_, line) = line.split_once(':')?;
        let (controllers, path) = line.split_once(':')?;
        let group = Path::new(path.strip_prefix('/')?);
        if controllers.is_empty() {
            // Version 2, alone or beside version 1.
            let roots = ["sys/fs/cgroup", "sys/fs/cgroup/unified"];
            roots.iter().filter_map(|mount| VERSION_2.left(&root.join(mount), group)).min()
        } else if controllers.split(',').any(|controller| controller == "memory") {
            VERSION_1.left(&root.join("sys/fs/cgroup/memory"), group)
        } else {
            None
        }
    });
    machine().into_iter().chain(in_groups).min()
}

/// Files of a control group's memory controller.
struct GroupFiles {
    limits: &'static [&'static str],
    usage: &'static str,
    /// The line of `memory.stat` with the bytes of files that were not used lately, which the kernel gives up first.
    reclaimable: &'static str,
}

const VERSION_1: GroupFiles = GroupFiles {
    limits: &["memory.limit_in_bytes"],
    usage: "memory.usage_in_bytes",
    reclaimable: "total_inactive_file ",
};

const VERSION_2: GroupFiles = GroupFiles {
    limits: &["memory.max", "memory.high"],
    usage: "memory.current",
    reclaimable: "inactive_file ",
};

impl GroupFiles {
    /// Bytes that the limits of `group` and of the groups around it leave. Groups that cannot be seen, as in a container, do not count.
    fn left(&self, mount: &Path, group: &Path) -> Option<u64> {
        group.ancestors().filter_map(|group| self.left_in(&mount.join(group))).min()
    }

    fn left_in(&self, folder: &Path) -> Option<u64> {
        let number = |name: &&str| -> Option<u64> {
            fs::read_to_string(folder.join(name)).ok()?.trim().parse().ok()
        };
        let limit = self.limits.iter().filter_map(number).min()?;
        let statistics = fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
        let reclaimable = statistics.lines().find_map(|line| line.strip_prefix(self.reclaimable));
        let reclaimable = reclaimable.and_then(|bytes| bytes.parse().ok()).unwrap_or(0);
        let used = number(&self.usage)?.saturating_sub(reclaimable);
        Some(limit.saturating_sub(used))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::available_memory_bytes;

    const MIB: u64 = 1 << 20;

    #[test]
    fn the_tightest_limit_of_a_control_group_bounds_what_is_available() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let available = || available_memory_bytes(root.path()).map(|bytes| bytes / MIB);
        assert_eq!(available(), None);
        write("proc/meminfo", "MemTotal: 8388608 kB\nMemAvailable:    4194304 kB\n");
        assert_eq!(available(), Some(4096));

        write("proc/self/cgroup", "0::/system.slice/foveated.service\n");
        assert_eq!(available(), Some(4096), "no limits can be seen");
        let group = |name: &str, limit: &str, text: &str| {
            write(&format!("sys/fs/cgroup/{name}/{limit}"), text);
            write(&format!("sys/fs/cgroup/{name}/memory.current"), &format!("{}\n", 300 * MIB));
            let statistics = format!("anon 1\ninactive_file {}\nactive_file 5\n", 50 * MIB);
            write(&format!("sys/fs/cgroup/{name}/memory.stat"), &statistics);
        };
        group("system.slice/foveated.service", "memory.max", "max\n");
        assert_eq!(available(), Some(4096));
        group("system.slice/foveated.service", "memory.max", &format!("{}\n", 800 * MIB));
        assert_eq!(available(), Some(550));
        group("system.slice", "memory.high", &format!("{}\n", 400 * MIB));
        assert_eq!(available(), Some(150));
        group("system.slice", "memory.high", &format!("{}\n", 100 * MIB));
        assert_eq!(available(), Some(0));
    }

    #[test]
    fn a_control_group_of_version_1_bounds_it_too() {
        let root = tempfile::tempdir().unwrap();
        let memory = root.path().join("sys/fs/cgroup/memory/here");
        fs::create_dir_all(&memory).unwrap();
        fs::create_dir_all(root.path().join("proc/self")).unwrap();
        let groups = "4:cpu,memory:/here\n1:name=systemd:/there\n0::/\n";
        fs::write(root.path().join("proc/self/cgroup"), groups).unwrap();
        fs::write(memory.join("memory.limit_in_bytes"), (500 * MIB).to_string()).unwrap();
        fs::write(memory.join("memory.usage_in_bytes"), (200 * MIB).to_string()).unwrap();
        fs::write(memory.join("memory.stat"), "inactive_file 9\ntotal_inactive_file 1048576\n")
            .unwrap();
        assert_eq!(available_memory_bytes(root.path()), Some(301 * MIB));
    }
}
