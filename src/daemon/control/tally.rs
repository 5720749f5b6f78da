//! Everything that the daemon counts, put together at one moment: the source of metrics and of `stats`.

use std::sync::Arc;

use super::directory::Directory;
use super::server::ServerCounters;
use foveate_control::{DaemonStats, Stats};
use foveate_stats::process::process_use;

/// Reads what the daemon counts, from any thread. No frame loop waits for it.
#[derive(Clone, Debug)]
pub struct Tally {
    directory: Arc<Directory>,
    server: Arc<ServerCounters>,
}

impl Tally {
    /// Of what `directory` serves and what its `server` does.
    pub(super) fn new(directory: Arc<Directory>, server: Arc<ServerCounters>) -> Self {
        Self { directory, server }
    }

    /// Everything there is now.
    pub fn all(&self) -> Stats {
        self.page(None, usize::MAX)
    }

    /// The streams behind that called `after`, as many as fit about `bytes_max` of JSON and at least one; the first page with
    /// what concerns the daemon as a whole.
    pub(super) fn page(&self, after: Option<&str>, bytes_max: usize) -> Stats {
        let daemon = after.is_none().then(|| self.daemon());
        let mut page = Stats { daemon, streams: Vec::new(), next: None };
        let mut bytes = 0;
        for stream in self.directory.streams_after(after) {
            let stats = stream.stats();
            bytes += serde_json::to_vec(&stats).map_or(0, |json| json.len());
            if bytes_max < bytes
                && let Some(last) = page.streams.last()
            {
                page.next = Some(last.name.clone());
                break;
            }
            page.streams.push(stats);
        }
        page
    }

    fn daemon(&self) -> DaemonStats {
        DaemonStats {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            process: process_use(),
            gpu_memory_bytes: self.directory.device_memory(),
            server: self.server.listing(),
        }
    }
}
