//! `foveate watch` without a view: a live table of all streams and views.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::termios::tcgetwinsize;
use serde::Serialize;

use super::list::write_columns;
use super::{StopCondition, ToolError, on_one_line, write_json_line};
use foveate::ControlError;
use foveate::client::Client;
use foveate::messages::ViewName;
use foveate_control::{
    ClientExt as _, Stats, StreamRates, StreamState, StreamStats, ViewStats, per_second,
};
use foveate_core::backend::BackendKind;
use foveate_stats::ViewCounts;

/// Polling interval.
const INTERVAL: Duration = Duration::from_secs(1);

/// Columns of the table.
const HEADING: [&str; 10] = [
    "STREAM",
    "STATE",
    "FPS",
    "DROPPED/S",
    "AGE P50",
    "P99",
    "CHANGED",
    "READERS",
    "SACCADES/S",
    "BACKEND",
];

/// Shows all streams and views until a signal or for `limit`: with `json` one object per second, otherwise a table, redrawn
/// in place on a terminal. If the daemon goes away, waits for it to return.
///
/// # Errors
///
/// If no daemon is there at the start, or the output cannot be written.
pub(super) fn run(
    json: bool,
    limit: Option<Duration>,
    socket: &Path,
    out: &mut dyn Write,
) -> Result<(), ToolError> {
    let until = StopCondition::new(limit)?;
    let mut post = StatsConnection::connect(socket)?;
    let mut screen = Screen { is_terminal: io::stdout().is_terminal(), lines_drawn: 0 };
    loop {
        let glance = post.look();
        let written = if json { write_json_line(out, &glance) } else { screen.draw(&glance, out) };
        written.map_err(ToolError::Output)?;
        if !rest(&until) {
            return Ok(());
        }
    }
}

/// Waits for the next round; false to stop.
fn rest(until: &StopCondition) -> bool {
    let next = Instant::now() + INTERVAL;
    while !until.is_over() {
        let left = next.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        thread::sleep(left.min(until.slice()));
    }
    false
}

/// A connection to the daemon, and its last statistics.
struct StatsConnection<'a> {
    socket: &'a Path,
    /// `None` while the daemon is away.
    client: Option<Client>,
    /// The last statistics, and their time.
    before: Option<(Instant, Stats)>,
}

impl<'a> StatsConnection<'a> {
    fn connect(socket: &'a Path) -> Result<Self, ControlError> {
        Ok(Self { socket, client: Some(Client::connect(socket)?), before: None })
    }

    /// The state now.
    fn look(&mut self) -> Overview {
        match self.stats() {
            Ok(stats) => {
                let now = Instant::now();
                let before = self.before.take();
                let streams = rows(&stats, before.as_ref(), now);
                self.before = Some((now, stats));
                Overview { streams, daemon: None }
            }
            Err(error) => {
                self.client = None;
                Overview { streams: Vec::new(), daemon: Some(error.to_string()) }
            }
        }
    }

    fn stats(&mut self) -> Result<Stats, ControlError> {
        let client = match &mut self.client {
            Some(client) => client,
            None => self.client.insert(Client::connect(self.socket)?),
        };
        client.stats()
    }
}

/// The state of all streams at one moment.
#[derive(Debug, Serialize)]
struct Overview {
    streams: Vec<StreamRow>,
    /// Why the daemon does not answer; absent if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    daemon: Option<String>,
}

/// One stream. Rates are since the previous round, and absent in the first.
#[derive(Debug, Serialize)]
struct StreamRow {
    name: String,
    state: StreamState,
    reason: String,
    backend: Option<BackendKind>,
    #[serde(flatten)]
    rates: StreamRates,
    /// Age of the newest frame.
    newest_age_ms: Option<f64>,
    views: Vec<ViewRow>,
}

/// One view.
#[derive(Debug, Serialize)]
struct ViewRow {
    name: ViewName,
    /// Frames published per second.
    fps: Option<f64>,
    /// Subscribers.
    subscribers: u64,
    saccades_per_s: Option<f64>,
}

fn rows(stats: &Stats, before: Option<&(Instant, Stats)>, now: Instant) -> Vec<StreamRow> {
    let row = |stream: &StreamStats| {
        let earlier = before.and_then(|(at, stats)| {
            Some((now.duration_since(*at).as_secs_f64(), stats.earlier(stream)?))
        });
        stream_row(stream, earlier)
    };
    stats.streams.iter().map(row).collect()
}

/// The row of a stream, with rates since its earlier statistics.
fn stream_row(stream: &StreamStats, earlier: Option<(f64, &StreamStats)>) -> StreamRow {
    let view_row = |view: &ViewStats| {
        let earlier = earlier.and_then(|(seconds, stream)| {
            let earlier = stream.views.iter().find(|other| other.name == view.name)?;
            Some((seconds, &earlier.counts))
        });
        let rate = |count: fn(&ViewCounts) -> u64| {
            earlier
                .map(|(seconds, earlier)| per_second(count(earlier), count(&view.counts), seconds))
        };
        ViewRow {
            name: view.name.clone(),
            fps: rate(|counts| counts.frames_published),
            subscribers: view.counts.subscribers,
            saccades_per_s: rate(|counts| counts.saccades),
        }
    };
    let rates = earlier.map(|(seconds, earlier)| stream.rates_since(earlier, seconds));
    StreamRow {
        name: stream.name.clone(),
        state: stream.state,
        reason: stream.reason.clone(),
        backend: stream.backend.as_ref().map(|backend| backend.kind),
        rates: rates.unwrap_or_default(),
        newest_age_ms: stream.detail.newest_age_ns.map(|age_ns| age_ns as f64 / 1e6),
        views: stream.views.iter().map(view_row).collect(),
    }
}

/// Draws tables in place.
struct Screen {
    is_terminal: bool,
    /// Lines of the table on the terminal.
    lines_drawn: usize,
}

impl Screen {
    fn draw(&mut self, glance: &Overview, out: &mut dyn Write) -> io::Result<()> {
        let table = table(glance)?;
        if !self.is_terminal {
            out.write_all(table.as_bytes())?;
            return out.flush();
        }
        let (columns, rows) = terminal_size();
        if 0 < self.lines_drawn {
            write!(out, "\x1b[{}A", self.lines_drawn)?;
        }
        self.lines_drawn = 0;
        // One line stays free for the cursor, and none may wrap, so that the table can be redrawn in place.
        for line in table.lines().take(rows.saturating_sub(1)) {
            let line = line.chars().take(columns).collect::<String>();
            writeln!(out, "\x1b[2K{line}")?;
            self.lines_drawn += 1;
        }
        write!(out, "\x1b[J")?;
        out.flush()
    }
}

/// Columns and rows of the terminal on standard output, if it reports them.
fn terminal_size() -> (usize, usize) {
    let size = tcgetwinsize(io::stdout());
    let (columns, rows) = size.map_or((0, 0), |size| (size.ws_col.into(), size.ws_row.into()));
    (if columns == 0 { 80 } else { columns }, if rows == 0 { 24 } else { rows })
}

fn table(glance: &Overview) -> io::Result<String> {
    let mut out = Vec::new();
    if let Some(reason) = &glance.daemon {
        writeln!(out, "waiting for the daemon: {}", on_one_line(reason))?;
    } else {
        let mut lines = vec![HEADING.map(str::to_owned)];
        for stream in &glance.streams {
            lines.push(stream_line(stream));
            lines.extend(stream.views.iter().map(view_line));
        }
        write_columns(&mut out, &lines)?;
        for stream in glance.streams.iter().filter(|stream| !stream.reason.is_empty()) {
            writeln!(out, "  {}: {}", stream.name, on_one_line(&stream.reason))?;
        }
    }
    Ok(String::from_utf8_lossy(&out).into_owned())
}

fn stream_line(row: &StreamRow) -> [String; 10] {
    let rate = |rate: Option<f64>| rate.map(|rate| format!("{rate:.1}"));
    let age = |age: Option<f64>| age.map(|ms| format!("{ms:.2} ms"));
    let readers: u64 = row.views.iter().map(|view| view.subscribers).sum();
    [
        Some(row.name.clone()),
        Some(row.state.to_string()),
        rate(row.rates.fps),
        rate(row.rates.dropped_per_s),
        age(row.rates.age_p50_ms),
        age(row.rates.age_p99_ms),
        row.rates.dirty_share.map(|share| format!("{:.1} %", 100.0 * share)),
        Some(readers.to_string()),
        None,
        row.backend.map(|backend| backend.to_string()),
    ]
    .map(|cell| cell.unwrap_or_else(|| "-".to_owned()))
}

fn view_line(row: &ViewRow) -> [String; 10] {
    let mut cells = [const { String::new() }; 10];
    cells[0] = format!("  {}", row.name.view());
    cells[2] = row.fps.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.1}"));
    cells[7] = row.subscribers.to_string();
    cells[8] = row.saccades_per_s.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.1}"));
    cells
}
