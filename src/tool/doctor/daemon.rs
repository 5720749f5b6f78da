//! Checks of the running daemon and its streams.

use std::path::Path;

use super::{Finding, Mark};
use crate::health::late;
use crate::on_one_line;
use foveate::ControlError;
use foveate::client::Client;
use foveate_control::{ClientExt as _, Stats, StreamState, StreamStats};
use foveate_stats::StreamCounts;

/// Percentage of dropped frames above which a machine is too slow for its streams.
const DROPPED_PERCENT_MAX: u64 = 10;

/// Findings about the daemon at `socket`, if one is running.
pub(super) fn findings(socket: &Path) -> Vec<Finding> {
    let subject = "daemon";
    match Client::connect(socket).and_then(|mut client| client.stats()) {
        Ok(stats) => {
            let streams = stats.streams.iter().map(stream);
            std::iter::once(daemon(&stats, socket)).chain(streams).collect()
        }
        Err(ControlError::NoDaemon { .. }) => {
            vec![Finding::ok(subject, format!("none is listening on {}", socket.display()))]
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
            "check its log (journalctl -u foveated), and restart it",
        )],
    }
}

fn daemon(stats: &Stats, socket: &Path) -> Finding {
    let running = stats.daemon.as_ref().map_or("", |daemon| &daemon.version);
    let ours = env!("CARGO_PKG_VERSION");
    let count = stats.streams.len();
    let noun = if count == 1 { "stream" } else { "streams" };
    let detail = format!("version {running} with {count} {noun} on {}", socket.display());
    if running == ours {
        return Finding::ok("daemon", detail);
    }
    let remedy = format!("this tool is version {ours}: restart the daemon after an update");
    Finding::bad(Mark::Warn, "daemon", detail, remedy)
}

fn stream(stream: &StreamStats) -> Finding {
    let subject = format!("stream {}", stream.name);
    let StreamCounts { frames_captured, frames_dropped, .. } = stream.counts;
    let mut detail =
        format!("{}, {frames_captured} frames, {frames_dropped} dropped", stream.state);
    if let Some(backend) = &stream.backend {
        detail.push_str(&format!(", on {} ({})", backend.kind, on_one_line(&backend.device)));
    }
    if !stream.reason.is_empty() {
        detail.push_str(&format!(": {}", on_one_line(&stream.reason)));
    }
    if let Some(late) = late(stream) {
        detail.push_str(&format!(", {late}"));
    }
    let reuse = stream.change.and_then(|change| change.reuse_remedy(&stream.counts));
    if let Some((share, _)) = reuse {
        detail.push_str(&format!(", {:.0} % of the tiles change in each frame", 100.0 * share));
    }
    match remedy(stream).or(reuse.map(|(_, remedy)| remedy)) {
        None => Finding::ok(&subject, detail),
        Some(remedy) => Finding::bad(Mark::Warn, &subject, detail, remedy),
    }
}

fn remedy(stream: &StreamStats) -> Option<&'static str> {
    let StreamCounts { frames_captured, frames_dropped, .. } = stream.counts;
    let is_flooded = frames_captured * DROPPED_PERCENT_MAX < frames_dropped * 100;
    match stream.state {
        StreamState::Live if is_flooded => Some(
            "the machine is too slow for it: use fewer or smaller frames, a GPU, or fewer views",
        ),
        StreamState::Live if late(stream).is_some() => {
            Some("shorten the queues of its pipeline, or `latency_ms`")
        }
        StreamState::Live => None,
        StreamState::Starting => Some(
            "no frame has arrived: check that the camera is on and its address in the configuration correct",
        ),
        StreamState::Stalled => {
            Some("frames have stopped: check the camera, its cable and its network")
        }
        StreamState::Ended => Some("fix the cause, and restart the daemon"),
    }
}
