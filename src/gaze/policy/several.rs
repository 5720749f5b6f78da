//! Policies in a list: foveae of different policies in one view.

use arrayvec::ArrayVec;

use super::FixationPolicy;
use crate::controller::FoveaPolicy;
use crate::feedback::Feedback;
use crate::need::Need;
use crate::relevance::scene::Scene;
use crate::relevance::seen::{Seen, SeenParts};
use foveate_core::frame::FrameTime;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::{FOVEAE_MAX, Fixation, Gaze, Points};
use foveate_core::geometry::tile::TileSet;

/// Foveae that share a policy.
#[derive(Debug)]
pub struct PolicyGroup {
    /// Where they look.
    pub policy: Box<dyn FixationPolicy>,
    /// Its name in configurations.
    pub name: FoveaPolicy,
}

/// Each policy moves its own foveae, and those that look around by themselves keep away from what the others look at.
///
/// Its fixations are those of the first policy, then those of the next, numbered in one sequence. Where two are at the same place,
/// the first is looked at. Relevance is that of the first policy that has any.
#[derive(Debug)]
pub struct PolicyGroups {
    parties: Vec<PolicyGroup>,
    gaze: Gaze,
    /// Those of the gaze.
    foveae: Foveae,
    /// Those of the frame before.
    before: Foveae,
    /// The greatest id up to the frame before.
    last_id: u64,
    at: FrameTime,
}

/// A fixation, and the party that it is of with its id there.
#[derive(Clone, Copy, Debug)]
struct Fovea {
    own: (usize, u64),
    fixation: Fixation,
}

type Foveae = ArrayVec<Fovea, FOVEAE_MAX>;

impl PolicyGroups {
    /// From policies that begin with the frame of `at`, together of at most [`FOVEAE_MAX`] foveae.
    pub fn new(parties: Vec<PolicyGroup>, at: FrameTime) -> Self {
        let gaze = Gaze::clone(parties[0].policy.gaze());
        let (foveae, before) = (Foveae::new(), Foveae::new());
        let mut several = Self { parties, gaze, foveae, before, last_id: 0, at };
        several.join();
        several
    }

    /// Makes the gazes of all one gaze. A fixation that goes on, or that another was before, keeps its id and weight; others get the next
    /// ids.
    fn join(&mut self) {
        let mut foveae = Foveae::new();
        for (party, PolicyGroup { policy, .. }) in self.parties.iter().enumerate() {
            for fixation in &policy.gaze().fixations {
                let is_taken = |other: &Fovea| place(&other.fixation) == place(fixation);
                if !foveae.iter().any(is_taken) {
                    foveae.push(Fovea { own: (party, fixation.id), fixation: *fixation });
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
            self.parties.iter().find_map(|party| party.policy.gaze().relevance.clone());
        self.foveae = foveae;
    }

    /// What the foveae of the other policies look at.
    fn places_but(&self, index: usize) -> Points {
        let others = self.parties.iter().enumerate().filter(|(other, _)| *other != index);
        others.flat_map(|(_, party)| party.policy.gaze().points()).collect()
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
        self.parties.iter().all(|party| party.policy.is_settled())
    }

    fn scene(&self) -> Option<&Scene> {
        self.parties.iter().find_map(|party| party.policy.scene())
    }

    fn hide(&mut self, texels: &TileSet, frame_seq: u64) {
        self.parties.iter_mut().for_each(|party| party.policy.hide(texels, frame_seq));
    }

    fn take(&mut self, feedback: &Feedback, at: FrameTime) {
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
        for party in self.parties.iter_mut().filter(|party| wanted(party.name)) {
            party.policy.take(feedback, at);
        }
        self.join();
    }

    fn reads(&self, most: SeenParts) -> SeenParts {
        let parties = self.parties.iter().map(|party| party.policy.reads(most));
        parties.fold(SeenParts::default(), SeenParts::and)
    }

    fn arrive(&mut self, at: FrameTime, seen: Option<Seen<'_>>) {
        self.at = at;
        self.parties.iter_mut().for_each(|party| party.policy.arrive(at, seen));
        self.join();
        self.before.clone_from(&self.foveae);
        self.last_id = self.last_id.max(self.gaze.newest().id);
    }

    fn decide(&mut self, seen: Option<Seen<'_>>, need: &Need, changed_frame: &[u64]) {
        for index in 0..self.parties.len() {
            let others = self.places_but(index);
            let policy = &mut self.parties[index].policy;
            policy.avoid(&others);
            policy.decide(seen, need, changed_frame);
        }
    }

    fn resize(&mut self, extent: Extent, at: FrameTime) {
        self.at = at;
        for party in &mut self.parties {
            party.policy.resize(extent, at);
        }
        self.join();
    }
}
