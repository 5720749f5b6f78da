//! What this process takes of the machine, as the kernel counts it.

use std::fs;
use std::path::Path;

use rustix::param::page_size;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// What a process takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessUse {
    /// Memory that it has in RAM, shared memory included, in bytes.
    pub resident_bytes: u64,
    /// Descriptors that it has open.
    pub open_descriptors: u64,
    /// Its threads.
    pub threads: u64,
    /// Processor time that it has taken, in seconds.
    pub cpu_seconds: f64,
}

/// What this process takes now. A number that the system does not tell is 0.
pub fn process_use() -> ProcessUse {
    let cpu = clock_gettime(ClockId::ProcessCPUTime);
    ProcessUse {
        resident_bytes: resident_pages() * page_size() as u64,
        // Without the one that lists them.
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
