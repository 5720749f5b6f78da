//! Logs when a stage of a stream is stuck, and when it recovers.

use std::collections::BTreeMap;

use foveate_server::directory::Directory;
use foveate_stats::stages::{STUCK_AFTER, Stage};

/// Logs what has changed since the last call. `logged` is the stage that was last logged as stuck, by stream.
pub(super) fn log_stuck(logged: &mut BTreeMap<String, Stage>, directory: &Directory) {
    let stuck = directory.stuck(STUCK_AFTER);
    logged.retain(|stream, stage| {
        let is_stuck = stuck.iter().any(|(stuck, ..)| stuck == stream);
        if !is_stuck {
            tracing::info!(stream, %stage, "the stage progresses again");
        }
        is_stuck
    });
    for (stream, stage, stalled_for) in stuck {
        if logged.insert(stream.clone(), stage) != Some(stage) {
            let seconds = stalled_for.as_secs();
            tracing::warn!(stream, %stage, seconds, "the stage has stalled");
        }
    }
}
