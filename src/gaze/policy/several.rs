//! Policies in a list: foveae of different policies in one view.

use arrayvec::ArrayVec;

use super::FixationPolicy;
use crate::controller::FoveaPolicy;
use crate::feedback::Feedback;
use crate::need::Need;
use crate::relevance::scene::Scene;
use crate::relevance::seen::{FrameParts, Seen};
use foveate_core::frame::FrameTime;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::{FOVEAE_MAX, Fixation, Gaze, Points};
use foveate_core::geometry::tile::TileSet;

/// Foveae that share a policy.
#[derive(Debug)]
pub struct PolicyGroup {
    /// Policy of the group's foveae.
    pub policy: Box<dyn FixationPolicy>,
    /// Name of the policy in configurations.
    pub name: FoveaPolicy,
}

/// Each policy moves its own foveae. A policy that chooses places itself avoids the places where the other policies look.
///
/// The gaze has the fixations of the first policy, then those of the next, numbered in one sequence. Of two fixations at the same
/// place, the first is kept. Relevance is that of the first policy that has any.
#[derive(Debug)]
pub struct PolicyGroups {
    groups: Vec<PolicyGroup>,
    gaze: Gaze,
    /// Foveae of the gaze.
    foveae: Foveae,
    /// Foveae of the gaze in the frame before.
    before: Foveae,
    /// The greatest id of a fixation up to the frame before.
    last_id: u64,
    at: FrameTime,
}

/// A fixation of the gaze, and where it comes from.
#[derive(Clone, Copy, Debug)]
struct Fovea {
    /// Index of its group, and the id of the fixation in that group.
    own: (usize, u64),
    fixation: Fixation,
}

type Foveae = ArrayVec<Fovea, FOVEAE_MAX>;

impl PolicyGroups {
    /// Joins policies that begin with the frame of `at` and together have at most [`FOVEAE_MAX`] foveae.
    pub fn new(groups: Vec<PolicyGroup>, at: FrameTime) -> Self {
        let gaze = Gaze::clone(groups[0].policy.gaze());
        let (foveae, before) = (Foveae::new(), Foveae::new());
        let mut several = Self { groups, gaze, foveae, before, last_id: 0, at };
        several.join();
        several
    }

    /// Makes the gazes of all one gaze. A fixation that goes on, or that another was before, keeps its id and weight; others get the next
    /// ids.
    fn join(&mut self) {
        let mut foveae = Foveae::new();
        for (group, PolicyGroup { policy, .. }) in self.groups.iter().enumerate() {
            for fixation in &policy.gaze().fixations {
                let is_taken = |other: &Fovea| place(&other.fixation) == place(fixation);
                if !foveae.iter().any(is_taken) {
                    foveae.push(Fovea { own: (group, fixation.id), fixation: *fixation });
                }
            }
        }
        let goes_on = |before: &Fovea| foveae.iter().any(|fovea| fovea.own == before.own);
        let ended: Foveae = self.before.iter().filter(|fovea| !goes_on(fovea)).copied().collect();
        let aim = |fovea: &Fovea| (place(&fovea.fixation), fovea.fixation.reason);
        let mut id = self.last_id;
        for fovea in &mut foveae {
            let same = self.before.iter().find(|before| before.own == fovea.own);
            let same = same.or_else(|| ended.iter().find(|before| aim(before) == aim(fovea)));
            let (known, since_frame, weight) = match same {
                Some(Fovea { fixation, .. }) => {
                    (fixation.id, fixation.since_frame, fixation.weight)
                }
                None => {
                    id += 1;
                    (id, self.at.frame_seq, fovea.fixation.weight)
                }
            };
            fovea.fixation = Fixation { id: known, since_frame, weight, ..fovea.fixation };
        }
        self.gaze.fixations = foveae.iter().map(|fovea| fovea.fixation).collect();
        self.gaze.relevance =
            self.groups.iter().find_map(|group| group.policy.gaze().relevance.clone());
        self.foveae = foveae;
    }

    /// Where the foveae of the groups other than `index` look.
    fn places_but(&self, index: usize) -> Points {
        let others = self.groups.iter().enumerate().filter(|(other, _)| *other != index);
        others.flat_map(|(_, group)| group.policy.gaze().points()).collect()
    }
}

fn place(fixation: &Fixation) -> (f64, f64) {
    (fixation.x, fixation.y)
}

impl FixationPolicy for PolicyGroups {
    fn gaze(&self) -> &Gaze {
        &self.gaze
    }

    fn is_settled(&self) -> bool {
        self.groups.iter().all(|group| group.policy.is_settled())
    }

    fn scene(&self) -> Option<&Scene> {
        self.groups.iter().find_map(|group| group.policy.scene())
    }

    fn apply_mask(&mut self, texels: &TileSet, frame_seq: u64) {
        self.groups.iter_mut().for_each(|group| group.policy.apply_mask(texels, frame_seq));
    }

    fn accept_feedback(&mut self, feedback: &Feedback, at: FrameTime) {
        self.at = at;
        let wanted: fn(FoveaPolicy) -> bool = match feedback {
            Feedback::Look { .. } | Feedback::Attend { .. } => FoveaPolicy::is_feedback,
            Feedback::Inject(_) | Feedback::Withdraw(_) | Feedback::Weigh(_) => {
                FoveaPolicy::is_relevance
            }
            // It takes the weights of channels back, too.
            Feedback::Release => {
                |policy: FoveaPolicy| policy.is_feedback() || policy.is_relevance()
            }
        };
        for group in self.groups.iter_mut().filter(|group| wanted(group.name)) {
            group.policy.accept_feedback(feedback, at);
        }
        self.join();
    }

    fn reads(&self, most: FrameParts) -> FrameParts {
        let groups = self.groups.iter().map(|group| group.policy.reads(most));
        groups.fold(FrameParts::default(), FrameParts::and)
    }

    fn arrive(&mut self, at: FrameTime, seen: Option<Seen<'_>>) {
        self.at = at;
        self.groups.iter_mut().for_each(|group| group.policy.arrive(at, seen));
        self.join();
        self.before.clone_from(&self.foveae);
        self.last_id = self.last_id.max(self.gaze.newest().id);
    }

    fn decide(&mut self, seen: Option<Seen<'_>>, need: &Need, changed_frame: &[u64]) {
        for index in 0..self.groups.len() {
            let others = self.places_but(index);
            let policy = &mut self.groups[index].policy;
            policy.avoid(&others);
            policy.decide(seen, need, changed_frame);
        }
    }

    fn resize(&mut self, extent: Extent, at: FrameTime) {
        self.at = at;
        for group in &mut self.groups {
            group.policy.resize(extent, at);
        }
        self.join();
    }
}
