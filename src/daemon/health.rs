//! Logs when a stage of a stream is stuck, and when it recovers.

use std::collections::BTreeMap;

use crate::control::directory::{Directory, StuckStage};
use foveate_stats::stages::{STUCK_AFTER, Stage};

#[derive(Debug, Default)]
pub(super) struct HealthLog {
    /// The stage last logged as stuck, by stream.
    logged: BTreeMap<String, Stage>,
}

impl HealthLog {
    /// Logs what has changed since the last call.
    pub(super) fn log(&mut self, directory: &Directory) {
        let stuck = directory.stuck(STUCK_AFTER);
        self.logged.retain(|stream, stage| {
            let is_stuck = stuck.iter().any(|stuck| stuck.stream == *stream);
            if !is_stuck {
                tracing::info!(stream, %stage, "the stage progresses again");
            }
            is_stuck
        });
        for StuckStage { stream, stage, stalled_for } in stuck {
            if self.logged.insert(stream.clone(), stage) != Some(stage) {
                let seconds = stalled_for.as_secs();
                tracing::warn!(stream, %stage, seconds, "the stage has stalled");
            }
        }
    }
}
