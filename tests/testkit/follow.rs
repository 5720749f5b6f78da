//! Change detection on the CPU alone: which tiles differ, and the resident copy.

use std::sync::Arc;

use foveate_core::change::ChangeConfig;
use foveate_core::frame::FrameView;
use foveate_core::geometry::tile::TileSet;
use foveate_engine::change::detect::Detector;
use foveate_engine::change::tracker::ChangeTracker;
use foveate_engine::pool::Pool;

use crate::backends::pool;

/// Follows the changes of frames of one kind.
pub struct Follower {
    tracker: ChangeTracker,
    detector: Detector,
}

impl Follower {
    /// Follows frames of the kind of `frame`, before the first one.
    pub fn new(frame: &FrameView<'_>, config: ChangeConfig) -> Self {
        Self::on(pool(), frame, config)
    }

    /// Like [`new`](Self::new), on the threads of `pool` with its instructions.
    pub fn on(pool: &Arc<Pool>, frame: &FrameView<'_>, config: ChangeConfig) -> Self {
        let kind = frame.kind();
        let detector = Detector::new(kind, pool);
        Self { tracker: ChangeTracker::new(kind, config), detector }
    }

    pub fn detect(&mut self, frame: &FrameView<'_>, frame_seq: u64) {
        let rule = self.tracker.rule();
        let largest = self.detector.compare(frame, &rule);
        self.tracker.note(frame, frame_seq, &rule, largest);
    }

    pub fn tracker(&self) -> &ChangeTracker {
        &self.tracker
    }

    pub fn ingested(&self) -> &TileSet {
        self.tracker.ingested()
    }

    pub fn resident(&self) -> FrameView<'_> {
        self.detector.resident()
    }
}
