//! The status of all streams in one line.

use foveate_control::{StreamListing, StreamState};

/// Names listed for one state.
const NAMES_MAX: usize = 5;

/// The status of all streams in one line, such as "2 streams, 1 stalled: front (no frame for 2 s)". `awaited` are the streams that
/// the daemon is not ready without.
pub(super) fn status_text(streams: &[StreamListing], awaited: &[String]) -> String {
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

#[cfg(test)]
mod tests {
    use foveate_control::{StreamListing, StreamState};

    use super::status_text;

    #[test]
    fn the_status_is_one_line_in_plain_words() {
        let listed = |states: &[(&str, StreamState, &str)]| -> Vec<StreamListing> {
            states.iter().map(|(name, state, reason)| listing(name, *state, reason)).collect()
        };
        use StreamState::{Ended, Live, Stalled, Starting};
        let stalled = [("front", Stalled, "no frame for 12 s"), ("rear", Live, "")];
        let all =
            [("a", Starting, ""), ("b", Live, ""), ("c", Ended, "end of\nfile"), ("d", Live, "")];
        for (streams, awaited, expected) in [
            (&[("a", Live, "")][..], vec![], "1 stream, live"),
            (&[("a", Live, ""), ("b", Live, "")], vec![], "2 streams, all live"),
            (&stalled, vec![], "2 streams, 1 stalled: front (no frame for 12 s)"),
            (&all, vec![], "4 streams, 1 starting: a, 1 ended: c (end of file)"),
            (
                &[("a", Starting, "")],
                vec!["a".to_owned()],
                "1 stream, 1 starting: a; waiting for a",
            ),
            (
                &["a", "b", "c", "d", "e", "f", "g"].map(|name| (name, Starting, "")),
                vec![],
                "7 streams, 7 starting: a, b, c, d, e and 2 more",
            ),
        ] {
            assert_eq!(status_text(&listed(streams), &awaited), expected);
        }
    }

    fn listing(name: &str, state: StreamState, reason: &str) -> StreamListing {
        let text = serde_json::json!({
            "name": name, "state": state, "reason": reason, "source": "test", "frames_captured": 0, "frames_dropped": 0,
            "frames_published": 0, "frames_refused": 0, "stamps_clamped": 0, "tiles_dirty": 0, "backend_fallbacks": 0, "views": [],
        });
        serde_json::from_value(text).expect("a listing")
    }
}
