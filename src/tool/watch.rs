//! `foveate watch VIEW`: reads a view's token frames and shows rates, ages and losses. Without a view, see `overview`.

use std::io::{self, IsTerminal, Write};
use std::num::NonZeroU64;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::termios::tcgetwinsize;
use serde::Serialize;

use super::meter::{FrameRates, Meter, Observation};
use super::segment::SegmentFacts;
use super::{StopCondition, ToolError, on_one_line, overview, write_json_line};
use foveate::client::{Client, Next, Subscription, SubscriptionError};
use foveate::messages::{Epoch, ViewName, end_text};
use foveate_core::clock::monotonic_ns;
use foveate_core::frame::CaptureClock;
use foveate_core::geometry::fixation::Fixation;
use foveate_ring::{SegmentSpec, State, TokenFrameBuf};

/// Interval of redraws on a terminal.
const TABLE_INTERVAL: Duration = Duration::from_millis(250);

/// Interval of lines if the output is not a terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(1);

/// Lines of a table are cut at this or the terminal's width: none may wrap, so that the table can be redrawn in place.
const TABLE_COLUMNS: usize = 79;

/// Arguments of `foveate watch`.
#[derive(Debug, clap::Args)]
pub(super) struct WatchArguments {
    /// The view [default: a table of all streams and views, which waits if the daemon goes away]
    #[arg(value_name = "STREAM/VIEW")]
    view: Option<ViewName>,
    /// Stop after this many token frames
    #[arg(long, value_name = "N", requires = "view")]
    frames: Option<NonZeroU64>,
    /// Stop after this many seconds
    #[arg(long, value_name = "S", value_parser = seconds)]
    seconds: Option<Duration>,
    /// Print one JSON object on a line for each token frame, or without a view every second; a summary goes to standard
    /// error
    #[arg(long)]
    json: bool,
    /// Wait for the daemon if it is not running or stops, then continue
    #[arg(long, requires = "view")]
    reconnect: bool,
}

/// Follows the view until it ends, the daemon is gone (without `--reconnect`), a signal arrives, or a limit of the
/// arguments is reached. Always prints a summary. Without a frame only a signal is a good end.
pub(super) fn run(
    arguments: &WatchArguments,
    socket: &Path,
    out: &mut dyn Write,
) -> Result<(), ToolError> {
    let Some(view) = &arguments.view else {
        return overview::run(arguments.json, arguments.seconds, socket, out);
    };
    let until = StopCondition::new(arguments.seconds)?;
    let subscription = if arguments.reconnect {
        Subscription::reconnecting(socket, view, false)?
    } else {
        Client::connect(socket)?.subscribe(view, false)?
    };
    let display = match (arguments.json, io::stdout().is_terminal()) {
        (true, _) => DisplayMode::Json,
        (false, true) => DisplayMode::Table,
        (false, false) => DisplayMode::Lines,
    };
    let mut watch = ViewWatcher::new(subscription, display);
    let end = watch.run(arguments.frames, &until, out).and_then(|()| watch.check(&until));
    let summary = watch.summary();
    let written = match display {
        DisplayMode::Json => writeln!(io::stderr(), "{summary}"),
        DisplayMode::Lines | DisplayMode::Table => writeln!(out, "{summary}"),
    };
    end.and(written.map_err(ToolError::Output))
}

/// Form in which frames are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DisplayMode {
    /// An object for each frame.
    Json,
    /// A line per second.
    Lines,
    /// A table, redrawn in place.
    Table,
}

struct ViewWatcher {
    subscription: Subscription,
    display: DisplayMode,
    meter: Meter,
    frame: TokenFrameBuf,
    /// Facts of the current segment; `None` before the first.
    segment: Option<SegmentFacts>,
    /// Tokens of the newest frame on each level.
    tokens_per_group: Vec<u32>,
    ended: Option<String>,
    /// Lines of the table on the terminal.
    lines_drawn: usize,
}

impl ViewWatcher {
    fn new(subscription: Subscription, display: DisplayMode) -> Self {
        Self {
            subscription,
            display,
            meter: Meter::default(),
            frame: TokenFrameBuf::default(),
            segment: None,
            tokens_per_group: Vec::new(),
            ended: None,
            lines_drawn: 0,
        }
    }

    fn run(
        &mut self,
        most: Option<NonZeroU64>,
        until: &StopCondition,
        out: &mut dyn Write,
    ) -> Result<(), ToolError> {
        let interval =
            if self.display == DisplayMode::Table { TABLE_INTERVAL } else { LINE_INTERVAL };
        // So that a limit of a second shows a line.
        let mut drawn_at = until.begun;
        while !until.is_over()
            && self.ended.is_none()
            && most.is_none_or(|most| self.meter.frames() < most.get())
        {
            self.show_next(until.slice(), out)?;
            if self.display != DisplayMode::Json && interval <= drawn_at.elapsed() {
                drawn_at = Instant::now();
                self.draw(out).map_err(ToolError::Output)?;
            }
        }
        match self.display {
            DisplayMode::Table => self.draw(out).map_err(ToolError::Output),
            DisplayMode::Json | DisplayMode::Lines => Ok(()),
        }
    }

    /// Fails if the view ended before its first frame.
    fn check(&self, until: &StopCondition) -> Result<(), ToolError> {
        let is_bare = self.meter.frames() == 0 && !until.is_stopped();
        if is_bare { Err(ToolError::NoFrame) } else { Ok(()) }
    }

    /// Waits for a frame and counts it.
    fn show_next(&mut self, timeout: Duration, out: &mut dyn Write) -> Result<(), ToolError> {
        match self.subscription.next_in_order(&mut self.frame, timeout) {
            Ok(Next::Frame { missed }) => return self.observe(missed, out),
            Ok(Next::TimedOut) => {}
            Ok(Next::NewSegment) => {
                let reader = self.subscription.reader();
                self.segment = reader.map(|reader| SegmentFacts::from(reader.header()));
            }
            Err(SubscriptionError::Disconnected) if self.subscription.is_disconnected() => {}
            Ok(Next::Ended(reason)) => self.ended = Some(reason),
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Counts the frame that was read, and prints it as JSON if wanted.
    fn observe(&mut self, lapped: u64, out: &mut dyn Write) -> Result<(), ToolError> {
        let read_ns = monotonic_ns();
        let stamp = self.frame.head.stamp;
        let age_ns = read_ns.saturating_sub(stamp.capture_ns);
        let frame_seq = stamp.frame_seq;
        let publish_ns = self.frame.head.publish_ns;
        self.meter.observe(Observation { publish_ns, read_ns, age_ns, frame_seq, lapped });
        count_per_group(&self.frame, &mut self.tokens_per_group);
        match self.display {
            DisplayMode::Json => self.write_json(age_ns, lapped, out),
            DisplayMode::Lines | DisplayMode::Table => Ok(()),
        }
    }

    fn write_json(&self, age_ns: u64, lapped: u64, out: &mut dyn Write) -> Result<(), ToolError> {
        let (Some(reader), Some(segment)) = (self.subscription.reader(), &self.segment) else {
            return Ok(());
        };
        let head = &self.frame.head;
        let line = FrameLine {
            view: self.subscription.view(),
            epoch: Epoch(reader.header().epoch),
            ring_sequence: head.ring_sequence,
            lapped,
            frame_seq: head.stamp.frame_seq,
            pts_ns: head.stamp.pts_ns,
            capture_ns: head.stamp.capture_ns,
            capture_unix_ns: head.stamp.capture_unix_ns,
            capture_clock: head.stamp.capture_clock,
            arrival_ns: head.stamp.arrival_ns,
            publish_ns: head.publish_ns,
            age_ns,
            fixations: &head.fixations,
            asked_ns: head.asked_ns,
            relevance_frame: head.relevance_frame,
            motion: head.motion.map(|motion| {
                let [a, b, c, d, e, f] = motion.now_from_before;
                [[a, b, c], [d, e, f]]
            }),
            motion_frame: head.motion.map_or(0, |motion| motion.frame_seq),
            sample_bound: head.sample_bound,
            rgb_bound: head.rgb_bound,
            dirty_tiles: head.dirty_tiles,
            tile_count: head.tile_count,
            token_count: self.frame.records.len(),
            tokens_per_group: &self.tokens_per_group,
            state: reader.state().0,
            segment,
        };
        write_json_line(out, &line).map_err(ToolError::Output)
    }

    fn draw(&mut self, out: &mut dyn Write) -> io::Result<()> {
        match self.display {
            DisplayMode::Json => Ok(()),
            DisplayMode::Lines => {
                writeln!(out, "{}", self.rows().join("  "))?;
                out.flush()
            }
            DisplayMode::Table => {
                let (rows, columns) = (self.rows(), table_columns());
                if 0 < self.lines_drawn {
                    write!(out, "\x1b[{}A", self.lines_drawn)?;
                }
                for row in &rows {
                    let row = row.chars().take(columns).collect::<String>();
                    writeln!(out, "\x1b[2K{row}")?;
                }
                self.lines_drawn = rows.len();
                out.flush()
            }
        }
    }

    /// The rows of the table, or the parts of a line.
    fn rows(&self) -> [String; 6] {
        let head = &self.frame.head;
        let FrameRates { fps, age_p50_ns, age_p99_ns } = self.meter.recent(monotonic_ns());
        let groups = self.tokens_per_group.iter().enumerate();
        let groups = groups.map(|(group, count)| format!("{group}: {count}")).collect::<Vec<_>>();
        let changed = 100.0 * f64::from(head.dirty_tiles) / f64::from(head.tile_count.max(1));
        let look = |fixation: &Fixation| {
            format!("{:.1}, {:.1} (#{})", fixation.x, fixation.y, fixation.id)
        };
        let looks: Vec<_> = head.fixations.iter().map(look).collect();
        [
            self.title(),
            format!(
                "frame {}  {fps:.1} fps  age p50 {} p99 {}",
                head.stamp.frame_seq,
                milliseconds(age_p50_ns),
                milliseconds(age_p99_ns)
            ),
            format!("tokens {} ({})", self.frame.records.len(), groups.join(", ")),
            format!("changed {changed:.1} % of {} tiles", head.tile_count),
            format!("dropped {}  lapped {}", self.meter.dropped(), self.meter.lapped()),
            format!("looks at {}", looks.join("; ")),
        ]
    }

    fn title(&self) -> String {
        let view = self.subscription.view();
        if self.subscription.is_disconnected() {
            return format!("{view}: waiting for the daemon");
        }
        let Some(reader) = self.subscription.reader() else {
            return format!("{view}: waiting for the first frame");
        };
        let SegmentSpec { extent, pixel_format, backend, device, .. } = &reader.header().spec;
        let (pixel_format, device) = (on_one_line(pixel_format), on_one_line(device));
        let (state, reason) = reader.state();
        let state = match (state, on_one_line(&reason)) {
            (State::Live, _) => String::new(),
            (state, reason) => format!("  {}: {reason}", format!("{state:?}").to_lowercase()),
        };
        format!("{view}  {pixel_format} {extent}  {backend} ({device}){state}")
    }

    fn summary(&self) -> String {
        let FrameRates { fps, age_p50_ns, age_p99_ns } = self.meter.overall();
        let end = match &self.ended {
            Some(reason) => format!("; the stream ended: {}", on_one_line(end_text(reason))),
            None => String::new(),
        };
        format!(
            "{}: {} frames, {fps:.1} fps, age p50 {} p99 {}, dropped {}, lapped {}{end}",
            self.subscription.view(),
            self.meter.frames(),
            milliseconds(age_p50_ns),
            milliseconds(age_p99_ns),
            self.meter.dropped(),
            self.meter.lapped(),
        )
    }
}

/// Width of a table on the terminal.
fn table_columns() -> usize {
    let columns = tcgetwinsize(io::stdout()).map_or(0, |size| usize::from(size.ws_col));
    // Some terminals do not report it.
    if columns == 0 { TABLE_COLUMNS } else { columns.min(TABLE_COLUMNS) }
}

/// Nanoseconds as milliseconds; no age is `-`.
fn milliseconds(ns: Option<u64>) -> String {
    ns.map_or_else(|| "-".to_owned(), |ns| format!("{:.2} ms", ns as f64 / 1e6))
}

/// One line of `watch --json`: the segment and a token frame, without tokens.
#[derive(Debug, Serialize)]
struct FrameLine<'a> {
    view: &'a ViewName,
    epoch: Epoch,
    ring_sequence: u64,
    /// Frames overwritten unread since the previous line.
    lapped: u64,
    frame_seq: u64,
    pts_ns: Option<u64>,
    capture_ns: u64,
    capture_unix_ns: u64,
    capture_clock: CaptureClock,
    arrival_ns: u64,
    publish_ns: u64,
    /// Time from capture to the read, in nanoseconds.
    age_ns: u64,
    /// The most important first.
    fixations: &'a [Fixation],
    /// Arrival of the message that caused the fixation; 0 if none did.
    asked_ns: u64,
    /// The frame of the relevance map; 0 without one.
    relevance_frame: u64,
    /// How the picture moved up to `motion_frame`: rows of a matrix for (x, y, 1).
    motion: Option<[[f32; 3]; 2]>,
    /// 0 without a motion.
    motion_frame: u64,
    sample_bound: u32,
    rgb_bound: u32,
    dirty_tiles: u32,
    tile_count: u32,
    token_count: usize,
    /// Tokens of each group: pyramid level, ring or window.
    tokens_per_group: &'a [u32],
    /// State of the view.
    state: State,
    /// Constant within an epoch.
    segment: &'a SegmentFacts,
}

/// Counts the tokens of each group, from 0 to the last that has one.
fn count_per_group(frame: &TokenFrameBuf, counts: &mut Vec<u32>) {
    counts.clear();
    for record in &frame.records {
        let group = usize::from(record.group);
        if counts.len() <= group {
            counts.resize(group + 1, 0);
        }
        counts[group] += 1;
    }
}

pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds
        .filter(|seconds| !seconds.is_zero())
        .ok_or_else(|| "expected a number of seconds above 0, such as 20 or 0.5".to_owned())
}
