//! Resource usage of this process, from the kernel.

use std::fs;
use std::path::Path;

use rustix::param::page_size;
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
        // Not counting the descriptor of the directory itself.
        open_descriptors: entries(Path::new("/proc/self/fd")).saturating_sub(1),
        threads: entries(Path::new("/proc/self/task")),
        cpu_seconds: cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9,
    }
}

/// The second number of `statm`.
fn resident_pages() -> u64 {
    let pages = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    pages.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0)
}

fn entries(folder: &Path) -> u64 {
    fs::read_dir(folder).map_or(0, |entries| entries.count() as u64)
}
