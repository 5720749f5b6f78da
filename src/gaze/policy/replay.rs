//! Policy `replay`: replays a recorded gaze log.

use std::sync::Arc;

use super::FixationPolicy;
use crate::feedback::Feedback;
use crate::log::{GazeLog, LogEntry};
use crate::relevance::seen::Seen;
use foveate_core::frame::FrameTime;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::{Fixation, FixationReason, Gaze, snapped};
use foveate_core::geometry::region::Region;

/// Looks where a log says, frame by frame, whatever clients say: at the first places of it, where it has more than the view has
/// foveae. Before the first entry it looks where that does.
///
/// Over a source of another size than the recorded one it looks at the same part of the picture.
#[derive(Debug)]
pub struct Replay {
    log: Arc<GazeLog>,
    extent: Extent,
    /// Most fixations at a time.
    foveae: usize,
    /// Pixels of this source from pixels of the recorded one.
    scale: (f64, f64),
    /// The entry of `gaze`, and whether its frame has come.
    index: usize,
    has_begun: bool,
    gaze: Gaze,
    /// Whether this frame has an entry that was planned afresh.
    is_planned_afresh: bool,
}

impl Replay {
    /// Looks where `log` says of the frame of `at`; at the middle, if it says nothing at all.
    pub fn new(log: Arc<GazeLog>, extent: Extent, foveae: usize, at: FrameTime) -> Self {
        let ratio = |from: u32, to: u32| f64::from(to) / f64::from(from.max(1));
        let scale =
            (ratio(log.extent.width, extent.width), ratio(log.extent.height, extent.height));
        let (x, y) = (f64::from(extent.width) / 2.0, f64::from(extent.height) / 2.0);
        let (x, y) = snapped(extent, x, y);
        let reason = FixationReason::Policy;
        let since_frame = at.frame_seq;
        let fixation = Fixation { id: 1, since_frame, ..Fixation::at((x, y), reason) };
        let gaze = Gaze::at(fixation, None);
        let (index, has_begun, is_planned_afresh) = (usize::MAX, false, false);
        let mut replay =
            Self { log, extent, foveae, scale, index, has_begun, gaze, is_planned_afresh };
        replay.turn_to(at.frame_seq);
        replay
    }

    fn turn_to(&mut self, frame_seq: u64) {
        let past = self.log.entries.partition_point(|entry| entry.frame <= frame_seq);
        let index = past.saturating_sub(1);
        let begins = past != 0 && !std::mem::replace(&mut self.has_begun, past != 0);
        self.is_planned_afresh = false;
        if (begins || index != self.index) && index < self.log.entries.len() {
            self.index = index;
            self.load();
            self.is_planned_afresh = self.has_begun && self.log.entries[index].is_planned_afresh;
        }
    }

    fn load(&mut self) {
        let Some(LogEntry { gaze, .. }) = self.log.entries.get(self.index) else { return };
        self.gaze = Gaze::clone(gaze);
        self.gaze.fixations.truncate(self.foveae);
        for fixation in &mut self.gaze.fixations {
            let (x, y) = (fixation.x * self.scale.0, fixation.y * self.scale.1);
            (fixation.x, fixation.y) = snapped(self.extent, x, y);
            let scaled = |region: Region| region.scaled(self.scale).pixels(self.extent).into();
            fixation.region = fixation.region.map(scaled);
        }
    }
}

impl FixationPolicy for Replay {
    fn gaze(&self) -> &Gaze {
        &self.gaze
    }

    fn plans_afresh(&self) -> bool {
        self.is_planned_afresh
    }

    fn accept_feedback(&mut self, _feedback: &Feedback, _at: FrameTime) {}

    fn arrive(&mut self, at: FrameTime, _seen: Option<Seen<'_>>) {
        self.turn_to(at.frame_seq);
    }

    fn resize(&mut self, extent: Extent, at: FrameTime) {
        self.extent = extent;
        self.turn_to(at.frame_seq);
        self.load();
        if self.log.entries.is_empty() {
            let fixation = &mut self.gaze.fixations[0];
            (fixation.x, fixation.y) = snapped(extent, fixation.x, fixation.y);
        }
    }
}
