//! The source processes of this daemon. They run as the daemon's user, but must not connect to it as clients or operators.

use std::collections::BTreeSet;

use parking_lot::Mutex;

static RUNNING: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// A source process that counts as running until this value is dropped.
#[derive(Debug)]
pub struct RunningProcess(u32);

impl RunningProcess {
    /// Counts process `pid` as running, a child that has not been waited for.
    pub fn new(pid: u32) -> Self {
        RUNNING.lock().insert(pid);
        Self(pid)
    }
}

impl Drop for RunningProcess {
    fn drop(&mut self) {
        RUNNING.lock().remove(&self.0);
    }
}

/// Whether `pid` is a source process.
pub fn is_running(pid: u32) -> bool {
    RUNNING.lock().contains(&pid)
}
