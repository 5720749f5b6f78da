//! Policy `relevance`: fixates the peaks of a scorer's map, or of a consumer's map.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrayvec::ArrayVec;

use super::FixationPolicy;
use crate::frame::{FrameTime, FrameTimes};
use crate::gaze::GazeParameters;
use crate::gaze::consumer::Attention;
use crate::gaze::fixation_state::{CENTRE, FixationState};
use crate::gaze::scan::{Scan, settle};
use crate::geometry::extent::Extent;
use crate::geometry::feedback::Feedback;
use crate::geometry::fixation::Gaze;
use crate::geometry::relevance::Relevance;
use crate::geometry::tile::TileSet;
use crate::layout::adaptive::demand::Demand;
use crate::relevance::injection::Injection;
use crate::relevance::scene::Scene;
use crate::relevance::scorer::{Scorer, relevance_of};
use crate::relevance::seen::{Seen, SeenParts};

/// What a view with this policy scores by.
#[derive(Clone, Debug)]
pub struct Scoring {
    /// What makes a score of the channels.
    pub scorer: Arc<Scorer>,
    /// What channels add to it.
    pub weights: BTreeMap<String, f32>,
    /// 2 to give the scorer its own first score.
    pub passes: u32,
}

/// Looks where the score is greatest and what was looked at is not inhibited, with the policy `auto` where no consumer attends to
/// anything. A `look` holds for its time, or for `silence_ms`.
#[derive(Debug)]
pub struct Relevant {
    state: FixationState,
    scan: Scan,
    /// `None` where consumers do not decide.
    attention: Option<Attention>,
    scene: Scene,
    parameters: GazeParameters,
    scoring: Scoring,
    /// The weights that clients set, or those of the configuration.
    weights: BTreeMap<String, f32>,
    extent: Extent,
    /// The newest score, in octaves; empty before any.
    score: Vec<f32>,
    relevance: Option<Arc<Relevance>>,
    /// The newest frames, with the time since the start.
    frames: FrameTimes,
    /// Whether masks have changed since the score was computed.
    is_outdated: bool,
    /// Whether the layout follows what the view needs of the picture.
    has_demand: bool,
    before: Undecided,
}

/// What a policy was before its newest decision.
#[derive(Debug)]
struct Undecided {
    state: FixationState,
    score: Vec<f32>,
    relevance: Option<Arc<Relevance>>,
    is_outdated: bool,
}

impl Default for Scoring {
    /// That which needs no training.
    fn default() -> Self {
        Self { scorer: Arc::new(Scorer::untrained()), weights: BTreeMap::new(), passes: 1 }
    }
}

impl Relevant {
    /// Looks at the middle, until something is seen.
    pub fn new(
        scoring: Scoring,
        parameters: GazeParameters,
        extent: Extent,
        foveae: usize,
        at: FrameTime,
    ) -> Self {
        let state = FixationState::new(parameters, extent, foveae, CENTRE, at);
        Self {
            before: Undecided {
                state: state.clone(),
                score: Vec::new(),
                relevance: None,
                is_outdated: false,
            },
            state,
            scan: Scan::new(parameters, extent, foveae),
            attention: None,
            scene: Scene::new(extent),
            parameters,
            weights: scoring.weights.clone(),
            scoring,
            extent,
            score: Vec::new(),
            relevance: None,
            frames: FrameTimes::default(),
            is_outdated: false,
            has_demand: false,
        }
    }

    /// The same with the default scorer, for as long as no consumer sends maps.
    pub fn attending(
        parameters: GazeParameters,
        extent: Extent,
        foveae: usize,
        at: FrameTime,
    ) -> Self {
        let attention = Some(Attention::new(parameters));
        Self { attention, ..Self::new(Scoring::default(), parameters, extent, foveae, at) }
    }

    /// Whether no client has weighed channels: what appears does not lead away from what somebody asked for.
    fn is_free(&self) -> bool {
        self.weights == self.scoring.weights
    }

    /// Whether the view's demand decides, and no channel: the layout follows it, and nobody has weighed or injected a channel.
    fn is_led_by_demand(&self) -> bool {
        let has_channels = !self.is_free() || self.scene.has_injected();
        self.has_demand && self.attention.is_some() && !has_channels
    }

    /// Looks at what the view needs most, unless a consumer attends to something.
    fn decide_by_demand(&mut self, at: FrameTime, seen: Option<Seen<'_>>, demand: &Demand) {
        self.state.advance(at);
        if let Some(attention) = &mut self.attention {
            attention.listen(self.state.elapsed_ns());
        }
        if !self.state.is_due() {
            return;
        }
        match &mut self.attention {
            Some(attention) if attention.is_held() => {
                attention.decide(seen, &mut self.scan, &mut self.state);
            }
            _ => {
                self.state.set_relevance(None);
                self.scan.choose_needed(demand, &mut self.state);
            }
        }
    }

    fn look_around(&mut self, seen: Option<Seen<'_>>, is_due: bool) {
        if std::mem::take(&mut self.is_outdated) || is_due {
            let values = self.score(seen);
            if !is_due {
                return;
            }
            let now_ns = self.state.elapsed_ns();
            // New objects that stand still can be read. Sharpness where something moves would cost the rest of the picture, and in a
            // crowd something always does.
            let at_rest = self.scene.onset_at_rest(now_ns);
            let regions = match at_rest {
                Some(region) => ArrayVec::from_iter([region]),
                None => self.scene.onsets(now_ns),
            };
            let is_sharp = at_rest.is_some();
            if self.is_free() && self.state.look_over(&regions, is_sharp) {
                let places = regions.iter().map(|region| region.middle());
                places.for_each(|place| self.scan.leave_trace(place, now_ns));
            } else {
                self.scan.choose_by(&self.scene.weights(&values), &mut self.state);
            }
        }
    }

    /// Keeps a map for its time, counted from its frame; not one whose time is over.
    fn inject(&mut self, given: &Arc<Injection>) {
        let now_ns = self.state.elapsed_ns();
        let named_ns = self.frames.time_ns(given.frame_seq());
        let from_ns = named_ns.or_else(|| self.frames.is_empty().then_some(now_ns));
        let ttl_ns = u64::from(given.ttl_ms()) * 1_000_000;
        let until_ns = from_ns.map_or(0, |from_ns| from_ns.saturating_add(ttl_ns));
        if now_ns < until_ns {
            self.scene.inject(given, until_ns);
        }
    }

    /// Makes the score and relevance of what was seen; returns the relevance of each cell, 0 where nothing was seen yet.
    fn score(&mut self, seen: Option<Seen<'_>>) -> Vec<f32> {
        let now_ns = self.state.elapsed_ns();
        if self.scene.frame_seq() == 0 {
            return vec![0.0; self.scene.grid().area()];
        }
        self.scene.decide(self.scan.saliency(), &self.state.gaze().fixations, now_ns);
        let grid = self.scene.grid();
        for _ in 0..self.scoring.passes {
            self.scene.set_score(&self.score);
            let channel = |name: &str| self.scene.channel(name);
            self.score = self.scoring.scorer.score(grid, channel, &self.weights);
        }
        if self.is_free() {
            self.scene.raise_onsets(&mut self.score, now_ns);
        }
        let values = relevance_of(&self.score);
        let frame_seq = seen.map_or(0, |seen| seen.frame_seq);
        let map = self.scene.map(&values, self.parameters.relevance_gain);
        let made = map.map(|map| Arc::new(Relevance { map, frame_seq }));
        settle(&mut self.relevance, made);
        self.state.set_relevance(self.relevance.clone());
        values
    }
}

impl FixationPolicy for Relevant {
    fn gaze(&self) -> &Gaze {
        self.state.gaze()
    }

    fn is_settled(&self) -> bool {
        self.attention.as_ref().is_none_or(Attention::is_settled)
    }

    fn scene(&self) -> Option<&Scene> {
        Some(&self.scene)
    }

    fn avoid(&mut self, places: &[(f64, f64)]) {
        self.scan.avoid(places);
    }

    fn hide(&mut self, texels: &TileSet, frame_seq: u64) {
        self.scan.hide(texels);
        self.scene.hide(texels, frame_seq);
        self.state.hide(texels);
        self.score.clear();
        self.relevance = None;
        self.is_outdated = true;
    }

    fn take(&mut self, feedback: &Feedback, at: FrameTime) {
        self.state.advance(at);
        match feedback {
            Feedback::Look { points, hold_ns, frame_seq, area } => {
                let hold = self.state.hold_for_or_until_silence(*hold_ns);
                self.state.look(points, *area, hold, *frame_seq);
            }
            Feedback::Attend { map, frame_seq, lies_in } => {
                if let Some(attention) = &mut self.attention {
                    let frames = (*frame_seq, lies_in.unwrap_or(*frame_seq));
                    attention.attend(map, frames, &mut self.state);
                }
            }
            Feedback::Inject(given) => self.inject(given),
            Feedback::Withdraw(names) => self.scene.withdraw(names),
            Feedback::Weigh(weights) => {
                for given in weights.iter() {
                    self.weights.insert(given.name.clone(), given.weight);
                }
                self.weights.retain(|_, weight| *weight != 0.0);
                self.state.decide_now();
            }
            Feedback::Release => {
                self.weights.clone_from(&self.scoring.weights);
                self.attention.as_mut().map(Attention::release);
                self.state.release();
                self.state.decide_now();
            }
        }
    }

    fn reads(&self, most: SeenParts) -> SeenParts {
        if !self.is_led_by_demand() {
            return most;
        }
        // What clients say is moved along with what has moved since.
        let is_asked = self.state.is_client_driven()
            || self.attention.as_ref().is_some_and(Attention::is_held);
        SeenParts { coarse: most.coarse && is_asked, tiles: false }
    }

    fn decide(&mut self, at: FrameTime, seen: Option<Seen<'_>>, demand: Option<&Demand>) {
        self.has_demand = demand.is_some();
        if let Some(demand) = demand {
            // So that a channel whose time is over decides no more.
            self.scene.forget(self.state.elapsed_ns());
            if self.is_led_by_demand() {
                self.decide_by_demand(at, seen, demand);
                return;
            }
        }
        self.scan.begin_decision(seen);
        self.before.state.clone_from(&self.state);
        self.before.score.clone_from(&self.score);
        self.before.relevance.clone_from(&self.relevance);
        self.before.is_outdated = self.is_outdated;
        self.state.advance(at);
        let now_ns = self.state.elapsed_ns();
        self.scene.forget(now_ns);
        if let Some(seen) = self.scan.fitting(seen) {
            self.scene.absorb(&seen, now_ns);
        }
        if self.is_free() && self.scene.has_onset(now_ns) {
            self.state.interrupt();
        }
        if self.is_free() && self.scene.onset_at_rest(now_ns).is_some() {
            self.state.interrupt_now();
        }
        if self.is_free() && self.scene.has_first_sight(now_ns) {
            self.state.continue_scan();
        }
        let is_due = self.state.is_due();
        // Whoever decides, so that it does not matter whether a decision that was taken back looked around.
        if self.is_outdated || is_due {
            self.scan.weigh_saliency(seen);
        }
        if let Some(attention) = &mut self.attention {
            attention.listen(now_ns);
        }
        match &mut self.attention {
            Some(attention) if attention.is_held() => {
                if is_due {
                    attention.decide(seen, &mut self.scan, &mut self.state);
                }
            }
            _ => self.look_around(seen, is_due),
        }
    }

    fn looks_ahead(&self) -> bool {
        !self.is_led_by_demand()
            && self.attention.as_ref().is_none_or(|attention| !attention.is_held())
    }

    fn take_back(&mut self) {
        self.scan.take_back();
        self.state.clone_from(&self.before.state);
        self.score.clone_from(&self.before.score);
        self.relevance.clone_from(&self.before.relevance);
        self.is_outdated = self.before.is_outdated;
    }

    fn arrive(&mut self, at: FrameTime, seen: Option<Seen<'_>>) {
        self.state.advance(at);
        self.frames.push(FrameTime { time_ns: self.state.elapsed_ns(), ..at });
        self.state.arrive(seen);
    }

    fn absorb(&mut self, seen: Option<Seen<'_>>) {
        self.scan.absorb(seen, self.state.elapsed_ns());
    }

    fn resize(&mut self, extent: Extent, at: FrameTime) {
        self.state.resize(extent, at);
        self.scan.resize(extent);
        self.scene = Scene::new(extent);
        self.score.clear();
        self.extent = extent;
        if let Some(attention) = &mut self.attention {
            attention.forget_map();
        }
    }
}
