//! The status of all streams in one line.

use foveate_control::{StreamListing, StreamState};

/// Names listed for one state.
const NAMES_MAX: usize = 5;

/// The status of all streams in one line, such as "2 streams, 1 stalled: front (no frame for 2 s)". `awaited` are the streams that
/// the daemon is not ready without.
pub fn status_text(streams: &[StreamListing], awaited: &[String]) -> String {
    let count = streams.len();
    let mut text = format!("{count} stream{}", if count == 1 { "" } else { "s" });
    if streams.iter().all(|stream| stream.state == StreamState::Live) {
        text.push_str(match count {
            0 => "",
            1 => ", live",
            _ => ", all live",
        });
    }
    for state in [StreamState::Starting, StreamState::Stalled, StreamState::Ended] {
        let names: Vec<_> =
            streams.iter().filter(|stream| stream.state == state).map(described).collect();
        if !names.is_empty() {
            text.push_str(&format!(", {} {state}: {}", names.len(), listed(&names)));
        }
    }
    if !awaited.is_empty() {
        text.push_str(&format!("; waiting for {}", listed(awaited)));
    }
    // The protocol ends a value at a newline.
    text.replace(char::is_control, " ")
}

fn described(stream: &StreamListing) -> String {
    let StreamListing { name, reason, .. } = stream;
    if reason.is_empty() { name.clone() } else { format!("{name} ({reason})") }
}

fn listed(names: &[String]) -> String {
    let shown = names[..names.len().min(NAMES_MAX)].join(", ");
    match names.len().saturating_sub(NAMES_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
