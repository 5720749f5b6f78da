//! Histories: the last minute of frames of each view that is looked at, and what happened in the last hour.
//!
//! ```text
//!  follower --frames--> Histories (one bound in bytes) --+
//!                                                        +--> Playhead (of a page that is paused) --> page
//!  file of a recording --> RecordedView -----------------+
//!  follower, reports --> Timelines ------------------------------------------------------------> page
//! ```

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;

use super::follower::Subject;
use foveate_core::clock::{monotonic_ns, unix_ns};
use foveate_ring::TokenFrameBuf;

pub(super) mod playhead;
pub(super) mod recording;
pub(super) mod stored;
pub(super) mod timeline;

use stored::{Arrival, FrameSegment, Ledger, StoredFrame};

/// Age limit of frames.
const SPAN: Duration = Duration::from_secs(60);

/// Interval of dropping frames of views that no page shows any more.
pub(super) const PRUNE_INTERVAL: Duration = Duration::from_secs(5);

/// Bytes of all histories by default.
pub(super) const BYTES_DEFAULT: u64 = 64 << 20;

/// The frames of a view in memory.
#[derive(Clone, Debug, Serialize)]
pub(super) struct HistoryExtent {
    /// When the oldest and the newest frame arrived, in milliseconds since 1970.
    pub(super) from_ms: f64,
    pub(super) to_ms: f64,
    pub(super) frames: usize,
    /// Frames that this program was too slow to read.
    pub(super) missed: u64,
    /// Whether frames younger than a minute were dropped to stay below the limit.
    pub(super) is_cut: bool,
}

/// The histories of all views.
#[derive(Debug)]
pub(super) struct Histories {
    bytes_max: usize,
    ledger: Arc<Ledger>,
    of: Mutex<HashMap<Subject, History>>,
}

/// The last frames of a view, oldest first.
#[derive(Debug, Default)]
struct History {
    frames: VecDeque<Arc<StoredFrame>>,
    /// Sum over `frames`.
    missed: u64,
    /// When a frame was last dropped for its bytes, on CLOCK_MONOTONIC.
    cut_ns: Option<u64>,
    revocation: Revocation,
}

/// Whether frames must not be shown again, since the masks of their stream have changed.
#[derive(Clone, Debug, Default)]
pub(super) struct Revocation(Arc<AtomicBool>);

impl Revocation {
    pub(super) fn is_revoked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn revoke(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether somebody else holds such frames.
    fn is_shared(&self) -> bool {
        1 < Arc::strong_count(&self.0)
    }
}

/// Frames that a page holds while it is paused.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    pub(super) frames: Arc<[Arc<StoredFrame>]>,
    pub(super) is_cut: bool,
    pub(super) revocation: Revocation,
}

impl History {
    fn drop_at(&mut self, index: usize) {
        if let Some(frame) = self.frames.remove(index) {
            self.missed -= frame.missed;
        }
    }

    fn drop_older_than(&mut self, ns: u64) {
        while self.frames.front().is_some_and(|frame| frame.arrived_ns < ns) {
            self.drop_at(0);
        }
    }

    /// Index and arrival of the oldest frame that no paused page holds.
    fn oldest_free(&self) -> Option<(usize, u64)> {
        let is_free = |frame: &Arc<StoredFrame>| Arc::strong_count(frame) == 1;
        let index = self.frames.iter().position(is_free)?;
        Some((index, self.frames[index].arrived_ns))
    }

    /// Whether the last minute is not whole.
    fn is_cut(&self, now_ns: u64) -> bool {
        self.cut_ns.is_some_and(|cut_ns| now_ns - nanoseconds(SPAN).min(now_ns) <= cut_ns)
    }
}

impl Histories {
    /// Keeps at most `bytes_max`; 0 keeps no frames.
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, ledger: Arc::default(), of: Mutex::default() }
    }

    pub(super) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// Bytes of all stored frames, also those that only paused pages hold.
    pub(super) fn bytes(&self) -> usize {
        self.ledger.bytes()
    }

    /// Stores a frame of `subject`, after `missed` others.
    pub(super) fn push(
        &self,
        subject: &Subject,
        segment: &Arc<FrameSegment>,
        frame: &TokenFrameBuf,
        missed: u64,
    ) {
        if self.bytes_max == 0 {
            return;
        }
        let arrived_ns = monotonic_ns();
        let arrival = Arrival { at_ms: unix_ms(), arrived_ns, missed };
        // Only its follower adds frames of a subject, so the newest one stays the newest outside the lock.
        let before = self.of.lock().get(subject).and_then(|history| history.frames.back().cloned());
        let frame = StoredFrame::new(&self.ledger, segment, frame, arrival, before.as_deref());
        drop(before);
        let mut of = self.of.lock();
        let history = match of.get_mut(subject) {
            Some(history) => history,
            None => of.entry(subject.clone()).or_default(),
        };
        history.missed += missed;
        history.frames.push_back(Arc::new(frame));
        history.drop_older_than(arrived_ns.saturating_sub(nanoseconds(SPAN)));
        self.drop_beyond_bytes(&mut of, arrived_ns);
    }

    /// Drops the oldest frames of any view until the rest fits. To drop what paused pages hold would free nothing: it leaves less room.
    fn drop_beyond_bytes(&self, of: &mut HashMap<Subject, History>, now_ns: u64) {
        while self.bytes_max < self.bytes() {
            let free = of.values_mut().filter_map(|history| {
                let (index, arrived_ns) = history.oldest_free()?;
                Some((arrived_ns, index, history))
            });
            let oldest = free.min_by_key(|(arrived_ns, ..)| *arrived_ns);
            let Some((_, index, history)) = oldest else { return };
            history.drop_at(index);
            history.cut_ns = Some(now_ns);
        }
    }

    /// Drops what is older than a minute.
    pub(super) fn prune(&self) {
        let oldest = monotonic_ns().saturating_sub(nanoseconds(SPAN));
        let mut of = self.of.lock();
        of.values_mut().for_each(|history| history.drop_older_than(oldest));
        // Keep a history while a paused page holds its frames, so that they can be revoked.
        of.retain(|_, history| !history.frames.is_empty() || history.revocation.is_shared());
    }

    /// Forgets all frames of `stream`, also those that paused pages hold: its privacy masks have changed.
    pub(super) fn revoke(&self, stream: &str) {
        self.of.lock().retain(|subject, history| {
            let is_of_stream = subject.stream() == stream;
            if is_of_stream {
                history.revocation.revoke();
            }
            !is_of_stream
        });
    }

    /// The frames of `subject` as they are now; `None` without any.
    pub(super) fn snapshot(&self, subject: &Subject) -> Option<Snapshot> {
        let of = self.of.lock();
        let history = of.get(subject).filter(|history| !history.frames.is_empty())?;
        Some(Snapshot {
            frames: history.frames.iter().cloned().collect(),
            is_cut: history.is_cut(monotonic_ns()),
            revocation: history.revocation.clone(),
        })
    }

    /// Span and number of the frames of `subject`.
    pub(super) fn extent(&self, subject: &Subject) -> Option<HistoryExtent> {
        let of = self.of.lock();
        let history = of.get(subject)?;
        Some(HistoryExtent {
            from_ms: history.frames.front()?.at_ms,
            to_ms: history.frames.back()?.at_ms,
            frames: history.frames.len(),
            missed: history.missed,
            is_cut: history.is_cut(monotonic_ns()),
        })
    }
}

/// Now, in milliseconds since 1970.
pub(super) fn unix_ms() -> f64 {
    milliseconds(unix_ns())
}

pub(super) fn milliseconds(ns: u64) -> f64 {
    ns as f64 / 1e6
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
