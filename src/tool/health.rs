//! `foveate wait` and `foveate health`: for units and containers that depend on a view.

use std::io::Write;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::{ToolError, on_one_line, write_json_line};
use foveate::client::Client;
use foveate::messages::ViewName;
use foveate_control::{ClientExt as _, StreamState, StreamStats};

/// Delay between capture and arrival above which a stream is late.
const LATE_AFTER: Duration = Duration::from_secs(2);

/// Polling interval.
const INTERVAL: Duration = Duration::from_millis(100);

/// The answer with `--json`.
#[derive(Serialize)]
struct Health<'a> {
    healthy: bool,
    streams: Vec<StreamHealth<'a>>,
}

#[derive(Serialize)]
struct StreamHealth<'a> {
    name: &'a str,
    healthy: bool,
    state: StreamState,
    /// `null` before the first frame.
    newest_age_s: Option<f64>,
    /// The complaint; `null` if the stream is healthy.
    complaint: Option<String>,
}

/// Returns once the view publishes frames; fails with the last reason seen if it does not in time.
pub(super) fn wait(view: &ViewName, timeout: Duration, socket: &Path) -> Result<(), ToolError> {
    let deadline = Instant::now().checked_add(timeout);
    loop {
        let Some(reason) = why_not_live(view, socket) else { return Ok(()) };
        let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            let (view, seconds) = (view.clone(), timeout.as_secs_f64());
            return Err(ToolError::NotLive { view, seconds, reason });
        }
        thread::sleep(left.map_or(INTERVAL, |left| left.min(INTERVAL)));
    }
}

/// The reason why the view publishes no frames; `None` if it publishes.
fn why_not_live(name: &ViewName, socket: &Path) -> Option<String> {
    let streams = match Client::connect(socket).and_then(|mut client| client.list()) {
        Ok(streams) => streams,
        Err(error) => return Some(error.to_string()),
    };
    let Some(stream) = streams.iter().find(|stream| stream.name == name.stream()) else {
        return Some(format!("unknown stream `{}`", name.stream()));
    };
    let Some(view) = stream.views.iter().find(|view| view.name == *name) else {
        return Some(format!("unknown view `{name}`"));
    };
    match stream.state {
        StreamState::Live if view.epoch.is_some() => None,
        state => Some(with_reason(format!("the stream is {state}"), &stream.reason)),
    }
}

/// Fails if a stream is not live and fresh, after a line for each that is not, or one JSON object of all.
pub(super) fn check(
    max_age: Option<Duration>,
    json: bool,
    socket: &Path,
    out: &mut dyn Write,
) -> Result<(), ToolError> {
    let streams = Client::connect(socket)?.stats()?.streams;
    let checked: Vec<_> = streams.iter().map(|stream| health_of(stream, max_age)).collect();
    let sick = checked.iter().filter(|stream| !stream.healthy).count();
    let written = if json {
        write_json_line(out, &Health { healthy: sick == 0, streams: checked })
    } else {
        checked.iter().try_for_each(|StreamHealth { name, complaint, .. }| match complaint {
            Some(complaint) => writeln!(out, "{name}: {complaint}"),
            None => Ok(()),
        })
    };
    written.map_err(ToolError::Output)?;
    match sick {
        0 => Ok(()),
        sick => Err(ToolError::Unhealthy { sick, total: streams.len() }),
    }
}

fn health_of(stream: &StreamStats, max_age: Option<Duration>) -> StreamHealth<'_> {
    let complaint = complaint(stream, max_age);
    StreamHealth {
        name: &stream.name,
        healthy: complaint.is_none(),
        state: stream.state,
        newest_age_s: stream.detail.newest_age_ns.map(|ns| ns as f64 / 1e9),
        complaint,
    }
}

fn complaint(stream: &StreamStats, max_age: Option<Duration>) -> Option<String> {
    if stream.state != StreamState::Live {
        return Some(with_reason(stream.state.to_string(), &stream.reason));
    }
    let Some(max_age) = max_age else { return late(stream) };
    let age = Duration::from_nanos(stream.detail.newest_age_ns?);
    (max_age < age).then(|| {
        let (age, max_age) = (age.as_secs_f64(), max_age.as_secs_f64());
        format!("the newest frame is {age:.3} s old, more than {max_age} s")
    })
}

/// How late the frames of a stream arrive, if that is too late.
pub(super) fn late(stream: &StreamStats) -> Option<String> {
    let delay = Duration::from_nanos(stream.detail.newest_delay_ns?);
    (LATE_AFTER < delay)
        .then(|| format!("late: frames arrive {:.3} s after their capture", delay.as_secs_f64()))
}

fn with_reason(text: String, reason: &str) -> String {
    if reason.is_empty() { text } else { format!("{text}: {}", on_one_line(reason)) }
}
