//! Tells the log where a stream is stuck, and when it goes on.

use std::collections::BTreeMap;

use crate::control::directory::{Directory, Stuck};
use foveate_stats::stages::{STUCK_AFTER, Stage};

/// What was said of streams that are stuck.
#[derive(Debug, Default)]
pub(super) struct HealthLog {
    said: BTreeMap<String, Stage>,
}

impl HealthLog {
    /// Says what is new since the last time.
    pub(super) fn look(&mut self, directory: &Directory) {
        let stuck = directory.stuck(STUCK_AFTER);
        self.said.retain(|stream, stage| {
            let is_stuck = stuck.iter().any(|stuck| stuck.stream == *stream);
            if !is_stuck {
                tracing::info!(stream, %stage, "the stage goes on");
            }
            is_stuck
        });
        for Stuck { stream, stage, since } in stuck {
            if self.said.insert(stream.clone(), stage) != Some(stage) {
                let seconds = since.as_secs();
                tracing::warn!(stream, %stage, seconds, "the stage makes no progress");
            }
        }
    }
}
