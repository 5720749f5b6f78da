//! A daemon that runs, and how its streams are.

use std::path::Path;

use super::{Finding, Mark};
use crate::on_one_line;
use foveate::ControlError;
use foveate::client::Client;
use foveate_control::{ClientExt as _, Stats, StreamState, StreamStats};

/// Drops in a hundred frames from which a machine is too small for its streams.
const DROPPED_PERCENT_MAX: u64 = 10;

/// What the daemon at `socket` says, if there is one.
pub fn findings(socket: &Path) -> Vec<Finding> {
    let subject = "daemon";
    match Client::connect(socket).and_then(|mut client| client.stats()) {
        Ok(stats) => {
            let streams = stats.streams.iter().map(stream);
            std::iter::once(daemon(&stats, socket)).chain(streams).collect()
        }
        Err(ControlError::NoDaemon { .. }) => {
            vec![Finding::ok(subject, format!("none listens on {}", socket.display()))]
        }
        Err(error @ ControlError::Permission { .. }) => vec![Finding::bad(
            Mark::Warn,
            subject,
            error.to_string(),
            "sudo usermod -aG GROUP $USER with the group of the socket, then log in again",
        )],
        Err(error) => vec![Finding::bad(
            Mark::Warn,
            subject,
            error.to_string(),
            "look at its log (journalctl -u foveated), and start it again",
        )],
    }
}

fn daemon(stats: &Stats, socket: &Path) -> Finding {
    let running = stats.daemon.as_ref().map_or("", |daemon| &daemon.version);
    let ours = env!("CARGO_PKG_VERSION");
    let count = stats.streams.len();
    let detail = format!("version {running} with {count} streams on {}", socket.display());
    if running == ours {
        return Finding::ok("daemon", detail);
    }
    let remedy = format!("this tool is version {ours}: start the daemon again after an update");
    Finding::bad(Mark::Warn, "daemon", detail, remedy)
}

fn stream(stream: &StreamStats) -> Finding {
    let subject = format!("stream {}", stream.name);
    let StreamStats { state, frames_captured, frames_dropped, .. } = stream;
    let mut detail = format!("{state}, {frames_captured} frames, {frames_dropped} dropped");
    if let Some(backend) = &stream.backend {
        detail.push_str(&format!(", on {} ({})", backend.kind, on_one_line(&backend.device)));
    }
    if !stream.reason.is_empty() {
        detail.push_str(&format!(": {}", on_one_line(&stream.reason)));
    }
    match remedy(stream) {
        None => Finding::ok(&subject, detail),
        Some(remedy) => Finding::bad(Mark::Warn, &subject, detail, remedy),
    }
}

/// What to do about a stream, if it is not well.
fn remedy(stream: &StreamStats) -> Option<&'static str> {
    let is_flooded = stream.frames_captured * DROPPED_PERCENT_MAX < stream.frames_dropped * 100;
    match stream.state {
        StreamState::Live if is_flooded => {
            Some("the machine is too small for it: fewer or smaller frames, a GPU, or fewer views")
        }
        StreamState::Live => None,
        StreamState::Starting => {
            Some("no frame has come: is the camera on, and its address in the configuration right?")
        }
        StreamState::Stalled => {
            Some("frames stay away: look at the camera, its cable and its network")
        }
        StreamState::Ended => Some("mend what the reason says, and start the daemon again"),
    }
}
