//! What was found, for programs and for people.

use std::io::{self, Write};

use serde::Serialize;

use super::Waiting;
use super::reader::Seen;
use crate::list::write_columns;

/// One way of waiting; one line of `--json`.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    how: Waiting,
    readers: u16,
    stopped: u16,
    payload_bytes: usize,
    /// Frames that were published and count.
    frames: usize,
    /// Frames that all readers together read.
    read: usize,
    /// Frames that they did not, because a newer one was there already.
    missed: u64,
    /// From the beginning of a publication to its release store.
    publish: Tail,
    /// From there to when everybody was woken, or the waker thread told to.
    wake: Tail,
    /// From right before the release store to a reader's whole copy.
    read_done: Tail,
    /// From the beginning of a publication to a reader's whole copy.
    total: Tail,
}

/// What half, 99 of 100 and 999 of 1000 stay within, in microseconds; all 0 where there was nothing.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Tail {
    p50_us: f64,
    p99_us: f64,
    p99_9_us: f64,
}

impl Tail {
    /// Of some nanoseconds.
    fn of(mut ns: Vec<u64>) -> Self {
        ns.sort_unstable();
        let rank = |per_mille: usize| {
            let rank = (ns.len() * per_mille).div_ceil(1000);
            rank.checked_sub(1).map_or(0.0, |index| ns[index] as f64 / 1e3)
        };
        Self { p50_us: rank(500), p99_us: rank(990), p99_9_us: rank(999) }
    }

    fn row(self, name: &str, meaning: &str) -> [String; 5] {
        let Self { p50_us, p99_us, p99_9_us } = self;
        let figure = |us: f64| format!("{us:>8.1}");
        [name.to_owned(), figure(p50_us), figure(p99_us), figure(p99_9_us), meaning.to_owned()]
    }
}

impl Report {
    /// Of readers that wait in one way, of frames of so many bytes.
    pub(super) fn new(how: Waiting, readers: u16, stopped: u16, payload_bytes: usize) -> Self {
        Self {
            how,
            readers,
            stopped,
            payload_bytes,
            frames: 0,
            read: 0,
            missed: 0,
            publish: Tail::default(),
            wake: Tail::default(),
            read_done: Tail::default(),
            total: Tail::default(),
        }
    }

    /// Takes in how long the writer took, in nanoseconds.
    pub(super) fn add_writing(&mut self, publish_ns: Vec<u64>, wake_ns: Vec<u64>) {
        self.frames = publish_ns.len();
        self.publish = Tail::of(publish_ns);
        self.wake = Tail::of(wake_ns);
    }

    /// Takes in what the readers saw of the frames from `first_seq` on.
    pub(super) fn add_reading(&mut self, readers: &[Seen], first_seq: u64) {
        let frames = || readers.iter().flat_map(|reader| &reader.frames);
        let counted = || frames().filter(|frame| first_seq <= frame.frame_seq);
        self.read = counted().count();
        // Of those before the first that counts nobody asks.
        self.missed = counted().map(|frame| frame.missed.min(frame.frame_seq - first_seq)).sum();
        self.read_done = Tail::of(counted().map(|frame| frame.read_ns).collect());
        self.total = Tail::of(counted().map(|frame| frame.total_ns).collect());
    }

    /// Writes one line for programs.
    pub(super) fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        serde_json::to_writer(&mut *out, self)?;
        writeln!(out)
    }

    /// Writes a table for people.
    pub(super) fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { how, readers, stopped, payload_bytes, frames, read, missed, .. } = self;
        let how = format!("{how:?}").to_lowercase();
        writeln!(
            out,
            "{how}: {readers} readers, {stopped} stopped; {frames} frames of {payload_bytes} bytes"
        )?;
        writeln!(out, "  {read} copies, {missed} passed over for newer ones")?;
        let heading = ["", "  P50 US", "  P99 US", "P99.9 US", ""].map(str::to_owned);
        let rows = [
            ("publish", self.publish, "from its beginning to the release store"),
            ("wake", self.wake, "from there until everybody is woken, or the thread that does it"),
            ("read", self.read_done, "from the release store until a reader has its copy"),
            ("total", self.total, "from the beginning until a reader has its copy"),
        ];
        let rows = rows.map(|(name, tail, meaning)| tail.row(name, meaning));
        write_columns(out, &std::iter::once(heading).chain(rows).collect::<Vec<_>>())
    }
}
