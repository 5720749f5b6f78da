//! `foveate wait` and `foveate health`: for units and containers that depend on a view.

use std::io::Write;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::watch::seconds;
use super::{ToolError, on_one_line};
use foveate::client::Client;
use foveate::messages::ViewName;
use foveate_control::{ClientExt as _, StreamState, StreamStats};

/// Delay between capture and arrival above which a stream is late.
const LATE_AFTER: Duration = Duration::from_secs(2);

/// Polling interval.
const INTERVAL: Duration = Duration::from_millis(100);

#[derive(Debug, clap::Args)]
pub(super) struct WaitArguments {
    /// The view
    #[arg(value_name = "STREAM/VIEW")]
    view: ViewName,
    /// Longest wait, for the daemon as well
    #[arg(long, value_name = "S", default_value = "30", value_parser = seconds)]
    timeout: Duration,
}

#[derive(Debug, clap::Args)]
pub(super) struct HealthArguments {
    /// Largest age of a stream's newest frame, in seconds [default: none while the daemon calls the stream live, and its frames
    /// arrive within 2 s of their capture]
    #[arg(long, value_name = "S", value_parser = seconds)]
    max_age: Option<Duration>,
}

/// Returns once the view publishes frames; fails with the last reason seen if it does not in time.
pub(super) fn wait(arguments: &WaitArguments, socket: &Path) -> Result<(), ToolError> {
    let WaitArguments { view, timeout } = arguments;
    let deadline = Instant::now().checked_add(*timeout);
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

/// Why the view publishes no frames; `None` if it does.
fn why_not_live(name: &ViewName, socket: &Path) -> Option<String> {
    let streams = match Client::connect(socket).and_then(|mut client| client.list()) {
        Ok(streams) => streams,
        Err(error) => return Some(error.to_string()),
    };
    let Some(stream) = streams.iter().find(|stream| stream.name == name.stream()) else {
        return Some(format!("there is no stream `{}`", name.stream()));
    };
    let Some(view) = stream.views.iter().find(|view| view.name == *name) else {
        return Some(format!("there is no view `{name}`"));
    };
    match stream.state {
        StreamState::Live if view.epoch.is_some() => None,
        state => Some(with_reason(format!("the stream is {state}"), &stream.reason)),
    }
}

/// Fails if a stream is not live and fresh, after a line for each that is not.
pub(super) fn check(
    arguments: &HealthArguments,
    socket: &Path,
    out: &mut dyn Write,
) -> Result<(), ToolError> {
    let streams = Client::connect(socket)?.stats()?.streams;
    let mut sick = 0;
    for stream in &streams {
        if let Some(complaint) = complaint(stream, arguments.max_age) {
            sick += 1;
            writeln!(out, "{}: {complaint}", stream.name).map_err(ToolError::Output)?;
        }
    }
    match sick {
        0 => Ok(()),
        sick => Err(ToolError::Unhealthy { sick, total: streams.len() }),
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
