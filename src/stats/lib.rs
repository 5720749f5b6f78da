//! Counters and gauges that the daemon's threads write and any thread may read.
//!
//! A write is one or two atomic operations: no lock and no allocation, so no frame waits.

use std::sync::atomic::{AtomicU64, Ordering};

use foveate_core::event::{Event, EventKind, Phase};
use serde::{Deserialize, Serialize};

use self::durations::StreamDurations;
use self::metric::{Metric, MetricKind, counters};
use self::stages::Stages;

pub mod durations;
pub mod metric;
pub mod process;
pub mod stages;

/// A count that any thread may change.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `amount`.
    pub fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    /// Removes `amount`, which must have been added.
    pub fn remove(&self, amount: u64) {
        self.0.fetch_sub(amount, Ordering::Relaxed);
    }

    /// Increments, and returns the new value, which no other caller gets.
    pub fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Sets the value, for a count kept elsewhere.
    pub fn set(&self, count: u64) {
        self.0.store(count, Ordering::Relaxed);
    }

    /// The value now.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A value below 2^64 - 1 that goes up and down, or is unknown.
#[derive(Debug)]
pub struct Gauge(AtomicU64);

/// Represents an unknown value.
const UNKNOWN: u64 = u64::MAX;

impl Gauge {
    /// Sets the value.
    pub fn set(&self, value: Option<u64>) {
        self.0.store(value.unwrap_or(UNKNOWN), Ordering::Relaxed);
    }

    /// The value now.
    pub fn get(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|value| *value != UNKNOWN)
    }
}

impl Default for Gauge {
    fn default() -> Self {
        Self(AtomicU64::new(UNKNOWN))
    }
}

/// Counts of the notices sent to a view's subscribers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoticeCounts {
    /// Notices accepted by a subscriber's socket.
    pub sent: u64,
    /// Notices dropped because a subscriber's socket was full: it hangs or is too slow.
    pub skipped: u64,
    /// Subscribers that hung up or died.
    pub subscribers_gone: u64,
}

/// The thresholds and bounds of change detection now; unknown before the first frame.
#[derive(Debug, Default)]
pub struct ChangeGauges {
    /// Threshold of the newest frame, in steps of 8 bits.
    pub threshold: Gauge,
    /// Upper limit of the threshold; known only if it follows the noise.
    pub threshold_limit: Gauge,
    /// Standard deviation of a sample's noise, in thousandths of a step of 8 bits; known only if the threshold follows
    /// it, after enough frames.
    pub noise_thousandths: Gauge,
    /// The most by which a channel of a texel differs from the one made of the newest frame, in steps of 8 bits.
    pub rgb_bound: Gauge,
    /// Tiles ingested for the newest frame.
    pub tiles_dirty: Gauge,
    /// Tiles of a frame.
    pub tile_count: Gauge,
}

/// Why a stream had to start a new pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LossReason {
    /// A camera or server is absent, does not answer, or denies access.
    Unreachable,
    /// A live source ended, or ended before its first frame.
    Ended,
    /// No frame came for too long.
    Silent,
    /// The data was damaged or in an unsupported format.
    Unreadable,
    /// An element reported another error.
    Failed,
    /// Earlier pipelines do not stop, or a source process does not answer.
    Stuck,
    /// A source process was ended by a signal, or broke the protocol.
    Crashed,
    /// A source process reached the limit of its memory.
    OutOfMemory,
    /// A reason that this version does not know.
    Other,
}

foveate_core::names!(LossReason {
    Unreachable = "unreachable", Ended = "ended", Silent = "silent", Unreadable = "unreadable",
    Failed = "failed", Stuck = "stuck", Crashed = "crashed", OutOfMemory = "out-of-memory",
} else Other = "other");

/// New pipelines of a stream, by reason.
#[derive(Debug, Default)]
pub struct Restarts([Counter; LossReason::ALL.len()]);

impl Restarts {
    /// Counts one for `reason`.
    pub fn add(&self, reason: LossReason) {
        if let Some(counter) = self.0.get(reason as usize) {
            counter.add(1);
        }
    }

    /// The total over all reasons.
    pub fn total(&self) -> u64 {
        self.0.iter().map(Counter::get).sum()
    }

    /// The counts of all reasons, zeros included.
    pub fn by_reason(&self) -> impl Iterator<Item = (LossReason, u64)> {
        LossReason::ALL.into_iter().zip(self.0.iter().map(Counter::get))
    }
}

/// Events of a stream, by kind.
#[derive(Debug, Default)]
pub struct EventCounters {
    reported: [Counter; EventKind::ALL.len()],
    now: [Counter; EventKind::ALL.len()],
    watched: Counter,
}

impl EventCounters {
    /// Records that the stream detects events.
    pub fn watch(&self) {
        self.watched.set(1);
    }

    /// Whether the stream detects events.
    pub fn is_watched(&self) -> bool {
        0 < self.watched.get()
    }

    /// Counts `event`, once for its beginning and its end.
    pub fn add(&self, event: &Event) {
        let kind = event.kind as usize;
        match (self.reported.get(kind), event.phase) {
            (Some(count), Phase::Once | Phase::Began) => count.add(1),
            (None, _) | (_, Phase::Ended) => {}
        }
        if let Some(now) = self.now.get(kind) {
            now.set(u64::from(event.phase == Phase::Began));
        }
    }

    /// The counts of all kinds, zeros included; empty if the stream does not look for events.
    pub fn by_kind(&self) -> impl Iterator<Item = (EventKind, u64)> {
        let kinds = EventKind::ALL.iter().zip(&self.reported).filter(|_| self.is_watched());
        kinds.map(|(kind, count)| (*kind, count.get()))
    }

    /// The states that hold now.
    pub fn holding(&self) -> impl Iterator<Item = EventKind> {
        let kinds = EventKind::ALL.iter().zip(&self.now);
        kinds.filter(|(_, now)| 0 < now.get()).map(|(kind, _)| *kind)
    }
}

counters! {
    /// Counters of one stream since it started. `frames_captured` is the `frame_seq` of the newest frame.
    StreamCounters => StreamCounts {
        frames_captured: Counter, "foveate_frames_captured_total",
            "Frames that the pipeline delivered";
        frames_dropped: Counter, "foveate_frames_dropped_total",
            "Frames that a newer one replaced before they were taken";
        frames_published: Counter, "foveate_frames_published_total",
            "Frames whose tokens were published";
        frames_refused: Counter, "foveate_frames_refused_total",
            "Frames that could not be read";
        frames_corrupted: Counter, "foveate_frames_corrupted_total",
            "Damaged frames that were dropped: without their keyframe, or cut short";
        frames_skipped: Counter, "foveate_frames_skipped_total",
            "Frames skipped because of max_fps; they are not counted as captured";
        frames_rested: Counter, "foveate_frames_rested_total",
            "Frames that no view took, for lack of readers or because of max_fps";
        frames_masked: Counter, "foveate_frames_masked_total",
            "Frames of which privacy masks filled a part";
        frames_copied_to_mask: Counter, "foveate_frames_copied_to_mask_total",
            "Frames that were copied for privacy masks, because others hold their memory";
        frames_copied_to_send: Counter, "foveate_frames_copied_to_send_total",
            "Frames that a source process copied for the daemon, because an element insists on memory of its own";
        stamps_clamped: Counter, "foveate_stamps_clamped_total",
            "Frames whose capture time was in the future and was replaced by the time of arrival";
        tiles_dirty: Counter, "foveate_dirty_tiles_total",
            "Tiles ingested: changed ones, and those due for a refresh";
        bytes_uploaded: Counter, "foveate_uploaded_bytes_total",
            "Bytes of samples that crossed to a device";
        bytes_collected: Counter, "foveate_collected_bytes_total",
            "Bytes of tokens that were copied from a device, where it could not write them into the ring";
        backend_fallbacks: Counter, "foveate_backend_fallbacks_total",
            "Times the stream moved to the CPU because its GPU was lost or refused";
        backend_attempts: Counter, "foveate_backend_attempts_total",
            "Attempts of the stream to move back to its GPU";
        backend_returns: Counter, "foveate_backend_returns_total",
            "Times the stream moved back to its GPU";
        depth_captured: Counter, "foveate_depth_captured_total",
            "Depth pictures that the depth pipeline delivered";
        depth_paired: Counter, "foveate_depth_paired_total",
            "Frames that have a depth picture";
        depth_unpaired: Counter, "foveate_depth_unpaired_total",
            "Frames of a stream with depth that have no depth picture, because none was near enough in time";
        depth_late: Counter, "foveate_depth_late_total",
            "Depth pictures that came after the frame that they belong to";
        depth_dropped: Counter, "foveate_depth_dropped_total",
            "Depth pictures that no frame took, or that could not be read";
        depth_lost: Counter, "foveate_depth_lost_total",
            "Times that the depth pipeline failed, ended or fell silent";
    } {
        /// Pipelines started after one was lost.
        restarts: Restarts,
        /// ID of the source process; unknown without one.
        source_process: Gauge,
        /// ID of the depth source process; unknown without one.
        depth_process: Gauge,
        /// Events in the picture.
        events: EventCounters,
        /// Activity of its threads.
        stages: Stages,
        /// Change detection now.
        change: ChangeGauges,
        /// Thousandths of pixels a second that the middle of the picture moves by.
        picture_speed: Gauge,
        /// Durations of its frames.
        durations: StreamDurations,
        /// Capture time of the newest frame that was published or that no view took, CLOCK_MONOTONIC in nanoseconds.
        newest_capture_ns: Gauge,
        /// Time from the capture of the frame of `newest_capture_ns` until it arrived, in nanoseconds.
        newest_delay_ns: Gauge,
    }
}

counters! {
    /// Counters of one view since it was created.
    ViewCounters => ViewCounts {
        subscribers: Gauge, "foveate_subscribers",
            "Connections subscribed to the view";
        frames_published: Counter, "foveate_view_frames_published_total",
            "Frames that the view published";
        frames_skipped: Counter, "foveate_view_frames_skipped_total",
            "Frames that the view skipped because of its max_fps";
        frames_unread: Counter, "foveate_view_frames_unread_total",
            "Frames that the view skipped for lack of readers";
        frames_shed: Counter, "foveate_view_frames_shed_total",
            "Frames that the view, opened by a client, skipped because the next frame was waiting already";
        tokens_published: Counter, "foveate_tokens_total",
            "Tokens that the view published";
        tokens_kept: Counter, "foveate_tokens_kept_total",
            "Tokens that were in the frame before too, at the same place and with the same bytes";
        tokens_in_place: Counter, "foveate_tokens_in_place_total",
            "Tokens at places where the frame before had one, whatever their bytes";
        saccades: Counter, "foveate_saccades_total",
            "Moves of the view to a new fixation";
        feedback_accepted: Counter, "foveate_feedback_accepted_total",
            "Messages of feedback that were accepted";
        injections_accepted: Counter, "foveate_injections_accepted_total",
            "Maps of channels that were accepted";
        injections_late: Counter, "foveate_injections_late_total",
            "Maps of channels that were accepted and dropped, because their time was over before a frame took them";
        notices_sent: Counter, "foveate_notices_sent_total",
            "Notices accepted by a subscriber's socket";
        notices_skipped: Counter, "foveate_notices_skipped_total",
            "Notices dropped because a subscriber's socket was full";
        events_lost: Counter, "foveate_events_lost_total",
            "Events that subscribers of the view missed, because too many came at once";
    } {
        /// Subscribers that hung up or died.
        subscribers_gone: Counter,
    }
}

counters! {
    /// Counters of the control server since it started.
    ServerCounters => ServerCounts {
        clients: Gauge, "foveate_control_clients",
            "Connections to the control socket";
        clients_accepted: Counter, "foveate_control_clients_accepted_total",
            "Connections to the control socket that were accepted";
        clients_dropped: Counter, "foveate_control_clients_dropped_total",
            "Connections that were dropped because the client did not read its messages";
        clients_evicted: Counter, "foveate_control_clients_evicted_total",
            "Connections without a request that were closed to make room for others";
        opened_bytes: Gauge, "foveate_opened_view_bytes",
            "Bytes of the rings of views that clients opened, with those of closed ones that somebody still has";
        requests: Counter, "foveate_control_requests_total",
            "Requests that were answered, refusals included";
    }
}
