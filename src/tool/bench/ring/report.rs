//! Report of a ring measurement, as JSON or text.

use std::io::{self, Write};

use serde::Serialize;

use super::reader::SeenFrame;
use super::{RingBenchArguments, WaitMethod};
use crate::list::write_columns;
use crate::meter::quantile;

/// Result for one way of waiting; a line of `--json`.
#[derive(Debug, Serialize)]
pub(super) struct RingReport {
    how: WaitMethod,
    readers: u16,
    stopped: u16,
    payload_bytes: usize,
    /// Bytes that a reader copies: the texels, the records and the header.
    frame_bytes: usize,
    /// Frames measured.
    frames: usize,
    /// Frames read, by all readers together.
    read: usize,
    /// Frames skipped because a newer one was there already, by all readers together.
    missed: u64,
    /// Time from the start of a publication to its release store.
    publish: LatencyQuantiles,
    /// Time from the release store until all readers were woken, or the waker thread was notified.
    wake: LatencyQuantiles,
    /// Time from just before the release store to a reader's complete copy.
    read_done: LatencyQuantiles,
    /// Time from the start of a publication to a reader's complete copy.
    total: LatencyQuantiles,
}

/// Quantiles of durations in microseconds; 0 without any.
#[derive(Clone, Copy, Debug, Serialize)]
struct LatencyQuantiles {
    p50_us: f64,
    p99_us: f64,
    p99_9_us: f64,
}

impl LatencyQuantiles {
    fn of(mut ns: Vec<u64>) -> Self {
        ns.sort_unstable();
        let [p50_us, p99_us, p99_9_us] =
            [500, 990, 999].map(|per_mille| quantile(&ns, per_mille) as f64 / 1e3);
        Self { p50_us, p99_us, p99_9_us }
    }

    fn row(self, name: &str, meaning: &str) -> [String; 5] {
        let Self { p50_us, p99_us, p99_9_us } = self;
        let figure = |us: f64| format!("{us:>8.1}");
        [name.to_owned(), figure(p50_us), figure(p99_us), figure(p99_9_us), meaning.to_owned()]
    }
}

impl RingReport {
    /// Reports the bytes of a frame's texels and of the whole frame, the durations of all publications and wake-ups, and what readers saw
    /// of the frames from `first_seq` on.
    pub(super) fn new(
        how: WaitMethod,
        arguments: &RingBenchArguments,
        [payload_bytes, frame_bytes]: [usize; 2],
        [publish_ns, wake_ns]: [Vec<u64>; 2],
        readers: &[Vec<SeenFrame>],
        first_seq: u64,
    ) -> Self {
        let seen = || readers.iter().flatten().filter(|frame| first_seq <= frame.frame_seq);
        // Frames skipped before the first one measured do not count.
        let missed = |frame: &SeenFrame| frame.missed.min(frame.frame_seq - first_seq);
        Self {
            how,
            readers: arguments.readers,
            stopped: arguments.stopped,
            payload_bytes,
            frame_bytes,
            frames: publish_ns.len(),
            read: seen().count(),
            missed: seen().map(missed).sum(),
            publish: LatencyQuantiles::of(publish_ns),
            wake: LatencyQuantiles::of(wake_ns),
            read_done: LatencyQuantiles::of(seen().map(|frame| frame.read_ns).collect()),
            total: LatencyQuantiles::of(seen().map(|frame| frame.total_ns).collect()),
        }
    }

    pub(super) fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { how, readers, stopped, payload_bytes, frames, read, missed, .. } = self;
        let how = format!("{how:?}").to_lowercase();
        writeln!(
            out,
            "{how}: {readers} readers, {stopped} stopped; {frames} frames of {payload_bytes} bytes"
        )?;
        writeln!(out, "  {read} copies, {missed} skipped for newer ones")?;
        let heading = ["", "  P50 US", "  P99 US", "P99.9 US", ""].map(str::to_owned);
        let rows = [
            ("publish", self.publish, "from its start to the release store"),
            ("wake", self.wake, "from there until all readers, or the waker thread, are woken"),
            ("read", self.read_done, "from the release store to a reader's complete copy"),
            ("total", self.total, "from the start to a reader's complete copy"),
        ];
        let rows = rows.map(|(name, tail, meaning)| tail.row(name, meaning));
        write_columns(out, &std::iter::once(heading).chain(rows).collect::<Vec<_>>())
    }
}
