//! Resource usage of this process and of source processes, from the kernel.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::param::{clock_ticks_per_second, page_size};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// Resource usage of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessUse {
    /// Resident memory in bytes, shared memory included.
    pub resident_bytes: u64,
    /// Open descriptors.
    pub open_descriptors: u64,
    /// Threads.
    pub threads: u64,
    /// CPU time in seconds.
    pub cpu_seconds: f64,
}

/// The usage now. Values that the system does not provide are 0.
pub fn process_use() -> ProcessUse {
    let cpu = clock_gettime(ClockId::ProcessCPUTime);
    ProcessUse {
        resident_bytes: resident_pages() * page_size() as u64,
        // The descriptor of the directory itself does not count.
        open_descriptors: entries(Path::new("/proc/self/fd")).saturating_sub(1),
        threads: entries(Path::new("/proc/self/task")),
        cpu_seconds: cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9,
    }
}

/// The second number of `statm`.
fn resident_pages() -> u64 {
    pages(Path::new("/proc/self")).map_or(0, |[_, resident, _]| resident)
}

/// Pages of the process of `folder` below `/proc`: of its addresses, in RAM, and in RAM and of files or shared memory.
fn pages(folder: &Path) -> Option<[u64; 3]> {
    let pages = fs::read_to_string(folder.join("statm")).ok()?;
    let pages: Vec<_> = pages.split(' ').map_while(|count| count.parse().ok()).collect();
    pages.first_chunk().copied()
}

/// Resource usage of the process of a source.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SourceProcessUse {
    /// Process ID.
    pub pid: u32,
    /// Memory of the process alone in RAM, in bytes: heap and stacks, without libraries, which processes share, and without frames, which the
    /// daemon maps, too.
    pub private_bytes: u64,
    /// CPU time in seconds.
    pub cpu_seconds: f64,
}

impl SourceProcessUse {
    /// The usage of process `pid` now; `None` if it has ended.
    pub fn of(pid: u32) -> Option<Self> {
        let folder = PathBuf::from(format!("/proc/{pid}"));
        let [_, resident, shared] = pages(&folder)?;
        let stat = fs::read_to_string(folder.join("stat")).ok()?;
        // The name of a program may have spaces and parentheses.
        let (_, fields) = stat.rsplit_once(')')?;
        // `utime` and `stime`, the 14th and the 15th field.
        let ticks = fields.split_whitespace().skip(11).take(2);
        let ticks: u64 = ticks.filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
        Some(Self {
            pid,
            private_bytes: resident.saturating_sub(shared) * page_size() as u64,
            cpu_seconds: ticks as f64 / clock_ticks_per_second() as f64,
        })
    }
}

/// Memory of a process in RAM, without what it maps of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResidentMemory {
    /// Heap and stacks, in bytes.
    pub anonymous: u64,
    /// Mapped shared memory in bytes, including memfds, whether or not another process has it.
    pub shared: u64,
}

impl ResidentMemory {
    /// Memory of process `pid` now; `None` if it has ended.
    pub fn of(pid: u32) -> Option<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let bytes = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib << 10)
        };
        Some(Self { anonymous: bytes("RssAnon:")?, shared: bytes("RssShmem:")? })
    }
}

fn entries(folder: &Path) -> u64 {
    fs::read_dir(folder).map_or(0, |entries| entries.count() as u64)
}
