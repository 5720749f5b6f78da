//! Histories: the last minute of frames of each view that is looked at, and what happened in the last hour. Beyond the bound in bytes,
//! frames are left out, the more the older they are, so that the minute stays.
//!
//! ```text
//!  follower --frames--> Histories (one bound in bytes) --+
//!                                                        +--> Playhead (of a page that is paused) --> page
//!  file of a recording --> RecordedView -----------------+
//!  follower, reports --> Timelines ------------------------------------------------------------> page
//! ```

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;

use super::decoder::DecodedFrame;
use super::follower::Subject;
use foveate_core::clock::{monotonic_ns, unix_ns};
use foveate_ring::TokenFrameBuf;

pub(super) mod playhead;
pub(super) mod recording;
pub(super) mod stored;
#[cfg(test)]
mod tests;
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
    /// From when on all frames are there that were not missed.
    pub(super) whole_from_ms: f64,
    pub(super) frames: usize,
    /// Frames between the oldest and the newest that were left out to stay below the limit.
    pub(super) left_out: u64,
    /// Frames between the oldest and the newest that this program was too slow to read.
    pub(super) missed: u64,
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
    /// Frames that have come so far, and that were missed.
    counts: (u64, u64),
    /// From when on pages record, in milliseconds since 1970.
    recorded_from: Vec<Weak<f64>>,
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
    /// From when on all frames are there that were not missed.
    pub(super) whole_from_ms: f64,
    pub(super) revocation: Revocation,
}

impl History {
    fn drop_older_than(&mut self, ns: u64) {
        while self.frames.front().is_some_and(|frame| frame.arrival.arrived_ns < ns) {
            self.frames.pop_front();
        }
    }

    /// Index and value of the frame that is needed least, among those that no paused page holds: the part of its age for which there would be
    /// no frame without it. So of older frames fewer stay, in proportion to their age. The oldest one, which the minute begins with, and
    /// those that a page records have a higher value, and the newest has the highest.
    fn least_needed(&self, now_ns: u64) -> Option<(usize, f64)> {
        let recorded_from = self.recorded_from.iter().filter_map(Weak::upgrade);
        let recorded_from_ms = recorded_from.map(|ms| *ms).fold(f64::INFINITY, f64::min);
        let last = self.frames.len().checked_sub(1)?;
        let arrived_ns = |index: usize| self.frames[index].arrival.arrived_ns;
        let mut least = None;
        for (index, frame) in self.frames.iter().enumerate() {
            let value = if index == last {
                f64::INFINITY
            } else if index == 0 || recorded_from_ms <= frame.arrival.at_ms {
                f64::MAX
            } else {
                let gap_ns = arrived_ns(index + 1) - arrived_ns(index - 1);
                gap_ns as f64 / now_ns.saturating_sub(arrived_ns(index)).max(1) as f64
            };
            let is_less = least.is_none_or(|(_, least)| value < least);
            if is_less && Arc::strong_count(frame) == 1 {
                least = Some((index, value));
            }
        }
        least
    }

    /// From when on all frames are there that were not missed; `None` without frames.
    fn whole_from_ms(&self) -> Option<f64> {
        let mut newest_first = self.frames.iter().rev().map(|frame| &frame.arrival);
        let mut first = newest_first.next()?;
        for before in newest_first {
            if 0 < first.left_out_since(before) {
                break;
            }
            first = before;
        }
        Some(first.at_ms)
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

    /// Stores a frame of `subject` and what it was decoded to, after `missed` others.
    pub(super) fn push(
        &self,
        subject: &Subject,
        segment: &Arc<FrameSegment>,
        frame: (&TokenFrameBuf, &DecodedFrame),
        missed: u64,
    ) {
        self.push_at((unix_ms(), monotonic_ns()), subject, segment, frame, missed);
    }

    fn push_at(
        &self,
        (at_ms, arrived_ns): (f64, u64),
        subject: &Subject,
        segment: &Arc<FrameSegment>,
        frame: (&TokenFrameBuf, &DecodedFrame),
        missed: u64,
    ) {
        if self.bytes_max == 0 {
            return;
        }
        // Only its follower adds frames of a subject, so the newest one stays the newest outside the lock.
        let known =
            self.of.lock().get(subject).map(|known| (known.frames.back().cloned(), known.counts));
        let (before, (serial, missed_before)) = known.unwrap_or_default();
        let arrival = Arrival { at_ms, arrived_ns, serial, missed: missed_before + missed };
        let frame = StoredFrame::new(&self.ledger, segment, frame, arrival, before.as_deref());
        drop(before);
        let mut of = self.of.lock();
        let history = match of.get_mut(subject) {
            Some(history) => history,
            None => of.entry(subject.clone()).or_default(),
        };
        history.counts = (serial + 1, arrival.missed);
        history.frames.push_back(Arc::new(frame));
        history.drop_older_than(arrived_ns.saturating_sub(nanoseconds(SPAN)));
        self.drop_beyond_bytes(&mut of, arrived_ns);
    }

    /// Leaves out frames of any view until the rest fits. To drop what paused pages hold would free nothing: it leaves less room.
    fn drop_beyond_bytes(&self, of: &mut HashMap<Subject, History>, now_ns: u64) {
        while self.bytes_max < self.bytes() {
            let free = of.values_mut().filter_map(|history| {
                let (index, value) = history.least_needed(now_ns)?;
                Some((value, index, history))
            });
            let least = free.min_by(|(one, ..), (other, ..)| one.total_cmp(other));
            let Some((_, index, history)) = least else { return };
            history.frames.remove(index);
        }
    }

    /// While the answer exists, frames of `subject` from `from_ms` on are left out after all others, and the oldest first.
    pub(super) fn record(&self, subject: &Subject, from_ms: f64) -> Option<Arc<f64>> {
        let mut of = self.of.lock();
        let recorded_from = &mut of.get_mut(subject)?.recorded_from;
        recorded_from.retain(|from_ms| 0 < from_ms.strong_count());
        let from_ms = Arc::new(from_ms);
        recorded_from.push(Arc::downgrade(&from_ms));
        Some(from_ms)
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
        let history = of.get(subject)?;
        Some(Snapshot {
            frames: history.frames.iter().cloned().collect(),
            whole_from_ms: history.whole_from_ms()?,
            revocation: history.revocation.clone(),
        })
    }

    /// Span and number of the frames of `subject`.
    pub(super) fn extent(&self, subject: &Subject) -> Option<HistoryExtent> {
        let of = self.of.lock();
        let history = of.get(subject)?;
        let frames = history.frames.len();
        let [first, last] =
            [history.frames.front()?, history.frames.back()?].map(|frame| &frame.arrival);
        Some(HistoryExtent {
            from_ms: first.at_ms,
            to_ms: last.at_ms,
            whole_from_ms: history.whole_from_ms()?,
            frames,
            left_out: last.serial - first.serial + 1 - frames as u64,
            missed: last.missed - first.missed,
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
