//! Snapshots of all counters and states: the source of metrics, `stats` and `list`.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::Serialize;

use super::directory::Directory;
use foveate::messages::{RefusalReason, ViewName};
use foveate_control::{DaemonStats, Listing, ServerListing, Stats};
use foveate_core::clock::monotonic_ns;
use foveate_source::discipline::{ClockQuality, Reading, WallClock};
use foveate_stats::ServerCounters;
use foveate_stats::process::process_use;

/// Takes snapshots, on any thread. No frame loop waits for it.
#[derive(Debug)]
pub struct StatsSource {
    directory: Arc<Directory>,
    /// Counters of the control server.
    counters: ServerCounters,
    /// Requests that the control server refused, by reason.
    refused: Mutex<BTreeMap<RefusalReason, u64>>,
}

impl StatsSource {
    /// A source for the streams of `directory`, and for a server that has just started.
    pub(super) fn new(directory: Arc<Directory>) -> Self {
        Self { directory, counters: ServerCounters::default(), refused: Mutex::default() }
    }

    /// Counters of the server.
    pub(super) fn counters(&self) -> &ServerCounters {
        &self.counters
    }

    /// Counts a request or a connection that the server refused.
    pub(super) fn count_refusal(&self, reason: RefusalReason) {
        *self.refused.lock().entry(reason).or_default() += 1;
    }

    /// A snapshot of everything.
    pub fn snapshot(&self) -> Stats {
        self.stats_page(None, usize::MAX)
    }

    /// The streams after the one called `after`, at least one and as many as fit about `bytes_max` of JSON; the first page
    /// also has the daemon as a whole.
    pub(super) fn stats_page(&self, after: Option<&str>, bytes_max: usize) -> Stats {
        let daemon = after.is_none().then(|| self.daemon());
        let mut page = Stats { daemon, streams: Vec::new(), next: None };
        let mut bytes = 0;
        let first = after.map_or(Bound::Unbounded, Bound::Excluded);
        for stream in self.directory.streams_from(first) {
            let stats = stream.stats();
            bytes += json_len(&stats);
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

    /// The views after `after` with their streams, at least one and as many as fit about `bytes_max` of JSON; the first page
    /// also has the state of the server.
    pub(super) fn listing_page(&self, after: Option<&ViewName>, bytes_max: usize) -> Listing {
        let version = after.is_none().then(|| env!("CARGO_PKG_VERSION").to_owned());
        let server = after.is_none().then(|| self.server());
        let mut page = Listing { version, streams: Vec::new(), server, next: None };
        let mut bytes = 0;
        let mut last = None;
        let first = after.map_or(Bound::Unbounded, |view| Bound::Included(view.stream()));
        'page: for stream in self.directory.streams_from(first) {
            let mut listing = stream.listing();
            bytes += json_len(&listing);
            for view in stream.views_after(after) {
                let view = view.listing();
                bytes += json_len(&view);
                if bytes_max < bytes && last.is_some() {
                    page.next = last;
                    page.streams.push(listing);
                    break 'page;
                }
                last = Some(view.name.clone());
                listing.views.push(view);
            }
            page.streams.push(listing);
        }
        // Without views if the last page ended with the stream's last view, or this page had room for the stream only.
        page.streams.retain(|stream| !stream.views.is_empty());
        page
    }

    fn daemon(&self) -> DaemonStats {
        let ClockQuality { error_ns, steps } =
            WallClock::of_process().quality(monotonic_ns(), Reading::now);
        DaemonStats {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            process: process_use(),
            log_lines_dropped: foveate_log::dropped(),
            clock_error_ns: Some(error_ns).filter(|error_ns| *error_ns != 0),
            clock_steps: steps,
            gpu_memory_bytes: self.directory.device_memory(),
            server: self.server(),
        }
    }

    fn server(&self) -> ServerListing {
        ServerListing { counts: self.counters.snapshot(), refused: self.refused.lock().clone() }
    }
}

fn json_len(value: &impl Serialize) -> usize {
    serde_json::to_vec(value).map_or(0, |json| json.len())
}
