//! What the threads of this process are doing.

use std::fs;

/// Whether a thread of this process, named by its number as in `/proc/self/task`, sleeps or is gone.
pub fn is_asleep(thread: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, state)| state.starts_with('S'))
}
