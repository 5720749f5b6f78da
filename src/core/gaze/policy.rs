//! Gaze policies: each chooses fixations, and for how long they hold.

use std::fmt::Debug;

use crate::frame::FrameTime;
use crate::geometry::extent::Extent;
use crate::geometry::feedback::Feedback;
use crate::geometry::fixation::Gaze;
use crate::geometry::tile::TileSet;
use crate::layout::adaptive::demand::Demand;
use crate::relevance::scene::Scene;
use crate::relevance::seen::{Seen, SeenParts};

pub mod fixed;
pub mod relevance;
pub mod replay;
pub mod saliency;
pub mod several;

/// A way to choose where a view looks.
///
/// Its fixations lie in the image, on the grid of [`snapped`](crate::geometry::fixation::snapped), no two at the same place, and
/// are never more than the view has foveae. One gets a new id, the next number, exactly when its place or its reason changes other than in
/// pursuit, and says in which frame that was. Maps move fixations at most `saccade_hz` times a second, and none before it has dwelt for
/// `dwell_min_ms`; a `look` always, and those of policies with channels also when something appears or was seen for the first time. It is a
/// function of the calls alone.
pub trait FixationPolicy: Debug + Send {
    /// Where the view looks.
    fn gaze(&self) -> &Gaze;

    /// Whether all that clients said has been decided on.
    fn is_settled(&self) -> bool {
        true
    }

    /// Whether the plan of this frame was made without the one before when it was recorded.
    fn plans_afresh(&self) -> bool {
        false
    }

    /// The channels, if it has them.
    fn scene(&self) -> Option<&Scene> {
        None
    }

    /// From now on foveae of other policies look at these places, in pixels: this policy does not choose them.
    fn avoid(&mut self, _places: &[(f64, f64)]) {}

    /// Masks cover `texels` of the coarse level from frame `frame_seq`, the next one, on. What is made afterwards must not tell what was
    /// seen there before; the step for that frame gets what was seen last with black in its place.
    fn hide(&mut self, _texels: &TileSet, _frame_seq: u64) {}

    /// Takes what clients said before the frame of `at`.
    fn take(&mut self, feedback: &Feedback, at: FrameTime);

    /// What its next decisions read, of `most`, which is what policies of its name may read.
    fn reads(&self, most: SeenParts) -> SeenParts {
        most
    }

    /// Decides, if it is time to, where the frame of `at` is looked at; `seen` is an earlier one. If it is not there yet, `at` is what is
    /// expected of it. `demand` is what the view still needs of the frame before, if its layout follows that.
    fn decide(&mut self, _at: FrameTime, _seen: Option<Seen<'_>>, _demand: Option<&Demand>) {}

    /// Whether the next frame can be decided on before it is there. Not while a consumer's map decides: a newer one may come with it.
    fn looks_ahead(&self) -> bool {
        true
    }

    /// Takes the newest decision back, for a frame that is not there yet: a client or a mask has come since, or the view rests.
    fn take_back(&mut self) {}

    /// The frame of `at` is there, and is looked at now. Applies what is known of this frame alone: places that move with what is in the
    /// picture, and entries of a log.
    fn arrive(&mut self, at: FrameTime, seen: Option<Seen<'_>>);

    /// Takes what [`decide`](Self::decide) has seen into the model of the scene, for later frames.
    fn absorb(&mut self, _seen: Option<Seen<'_>>) {}

    /// The source has another extent from the frame of `at` on.
    fn resize(&mut self, extent: Extent, at: FrameTime);
}
