//! Gaze policies: each chooses fixations, and for how long they hold.

use std::fmt::Debug;

use crate::feedback::Feedback;
use crate::need::Need;
use crate::relevance::scene::Scene;
use crate::relevance::seen::{FrameParts, Seen};
use foveate_core::frame::FrameTime;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::Gaze;
use foveate_core::geometry::tile::TileSet;

pub mod fixed;
pub mod need;
pub mod replay;
pub mod several;

/// A way to choose where a view looks.
///
/// Its fixations lie in the image, on the grid of [`snapped`](foveate_core::geometry::fixation::snapped), no two at the same place, and
/// are never more than the view has foveae. One gets a new id, the next number, exactly when its place or its reason changes other than in
/// pursuit, and says in which frame that was. Fixations move at most `saccade_hz` times a second, and none before it has dwelt for
/// `dwell_min_ms`; a `look` moves them always. It is a function of the calls alone.
pub trait FixationPolicy: Debug + Send {
    /// Gaze of the view.
    fn gaze(&self) -> &Gaze;

    /// Whether all that clients said has been decided on.
    fn is_settled(&self) -> bool {
        true
    }

    /// Whether the token plan of this frame did not depend on the plan before when it was recorded.
    fn plans_afresh(&self) -> bool {
        false
    }

    /// The channels, if it has them.
    fn scene(&self) -> Option<&Scene> {
        None
    }

    /// Takes the places, in pixels, where foveae of other policies look from now on: this policy avoids them.
    fn avoid(&mut self, _places: &[(f64, f64)]) {}

    /// Masks cover `texels` of the coarse level from frame `frame_seq`, the next one, on. What is made afterwards must not tell what was
    /// seen there before; what was seen last has black in its place when that frame arrives.
    fn apply_mask(&mut self, _texels: &TileSet, _frame_seq: u64) {}

    /// Takes what clients said before the frame of `at`.
    fn accept_feedback(&mut self, feedback: &Feedback, at: FrameTime);

    /// The parts of a frame that the next decisions read: some of `most`, the parts that policies of this name ever read.
    fn reads(&self, most: FrameParts) -> FrameParts {
        most
    }

    /// Goes on to the frame of `at`, which has arrived and is looked at now. Applies what is known of this frame alone: what clients sent, places that move
    /// with what is in the picture, and entries of a log. `seen` is an earlier frame.
    fn arrive(&mut self, at: FrameTime, seen: Option<Seen<'_>>);

    /// Decides, if it is time to, where the next frame is looked at, by what was `seen` of the newest one, which has arrived, and by what
    /// the view needs after it. Of each tile, row by row, `changed_frame` is the newest frame that changed it.
    fn decide(&mut self, _seen: Option<Seen<'_>>, _need: &Need, _changed_frame: &[u64]) {}

    /// The source has another extent from the frame of `at` on.
    fn resize(&mut self, extent: Extent, at: FrameTime);
}
