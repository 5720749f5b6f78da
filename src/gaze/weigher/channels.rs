//! A score of channels as a weight.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::saliency::SaliencyWeigher;
use super::settle;
use crate::GazeParameters;
use crate::feedback::ChannelWeight;
use crate::fixation_state::FixationState;
use crate::relevance::injection::Injection;
use crate::relevance::scene::Scene;
use crate::relevance::scorer::{Scorer, relevance_of};
use crate::relevance::seen::Seen;
use foveate_core::frame::{FrameTime, FrameTimes};
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::{Fixation, FixationReason, Points};
use foveate_core::geometry::relevance::Relevance;
use foveate_core::geometry::tile::TileSet;

/// Scorer and weights of a view.
#[derive(Clone, Debug)]
pub(crate) struct Scoring {
    /// Computes a score from the channels; `None` if only channels count to which clients gave weights.
    pub(crate) scorer: Option<Arc<Scorer>>,
    /// Weights of channels, which add to the scorer's result.
    pub(crate) weights: BTreeMap<String, f32>,
    /// 2 to give the scorer its own first score.
    pub(crate) passes: u32,
}

/// Channels of a source, and their score.
#[derive(Debug)]
pub(crate) struct ChannelWeigher {
    parameters: GazeParameters,
    scene: Scene,
    saliency: SaliencyWeigher,
    scoring: Scoring,
    /// Whether somebody reads the channels, whatever weighs.
    publishes: bool,
    /// Weights set by clients, or else by the configuration.
    weights: BTreeMap<String, f32>,
    /// The newest score, in octaves, and what follows from it; empty before any.
    score: Vec<f32>,
    values: Vec<f32>,
    relevance: Option<Arc<Relevance>>,
    /// The newest frames, with the time since the start.
    frames: FrameTimes,
}

impl ChannelWeigher {
    /// A weigher for a source of `extent`, before its first picture.
    pub(crate) fn new(
        scoring: Scoring,
        publishes: bool,
        parameters: GazeParameters,
        extent: Extent,
        foveae: usize,
    ) -> Self {
        Self {
            parameters,
            scene: Scene::new(extent),
            saliency: SaliencyWeigher::new(parameters, extent, foveae),
            weights: scoring.weights.clone(),
            scoring,
            publishes,
            score: Vec::new(),
            values: Vec::new(),
            relevance: None,
            frames: FrameTimes::default(),
        }
    }

    /// The channels.
    pub(crate) fn scene(&self) -> &Scene {
        &self.scene
    }

    pub(super) fn relevance(&self) -> Option<Arc<Relevance>> {
        self.relevance.clone()
    }

    /// Moves to the greatest scores that were not looked at just now. Returns whether there are any.
    pub(super) fn choose(
        &mut self,
        avoided: &Points,
        state: &mut FixationState,
        reason: FixationReason,
    ) -> bool {
        let weighs = self.weighs() && !self.values.is_empty();
        if weighs {
            let weights = self.scene.weights(&self.values);
            self.saliency.choose_by(&weights, avoided, state, reason);
        }
        weighs
    }

    /// Whether channels count, or somebody reads them.
    pub(crate) fn is_active(&self) -> bool {
        self.publishes || self.weighs()
    }

    /// Whether channels count.
    pub(crate) fn weighs(&self) -> bool {
        self.scoring.scorer.is_some() || !self.weights.is_empty()
    }

    /// Keeps a map for its time, counted from its frame; not one whose time is over.
    pub(crate) fn inject(&mut self, given: &Arc<Injection>, now_ns: u64) {
        let named_ns = self.frames.time_ns(given.frame_seq());
        let from_ns = named_ns.or_else(|| self.frames.is_empty().then_some(now_ns));
        let ttl_ns = u64::from(given.ttl_ms()) * 1_000_000;
        let until_ns = from_ns.map_or(0, |from_ns| from_ns.saturating_add(ttl_ns));
        if now_ns < until_ns {
            self.scene.inject(given, until_ns);
        }
    }

    /// Forgets the injected channels of these names.
    pub(crate) fn withdraw(&mut self, names: &[String]) {
        self.scene.withdraw(names);
    }

    /// Takes the weights that a client gives channels, 0 for none.
    pub(crate) fn weigh(&mut self, weights: &[ChannelWeight]) {
        for given in weights {
            self.weights.insert(given.name.clone(), given.weight);
        }
        self.weights.retain(|_, weight| *weight != 0.0);
    }

    /// Restores the configured weights.
    pub(crate) fn release(&mut self) {
        self.weights.clone_from(&self.scoring.weights);
    }

    /// Notes when a frame arrived, by the time since the start.
    pub(crate) fn note(&mut self, at: FrameTime) {
        self.frames.push(at);
    }

    /// Takes in a picture, once; `now_ns` is its time. If it `is_due`, and if channels count or somebody reads them, they become those of
    /// this picture, looked at at `fixations`.
    pub(crate) fn see(
        &mut self,
        seen: Option<Seen<'_>>,
        is_due: bool,
        fixations: &[Fixation],
        now_ns: u64,
    ) {
        // Drop expired channels before the decision.
        self.scene.forget(now_ns);
        if !self.is_active() {
            self.relevance = None;
            return;
        }
        self.saliency.see(seen, is_due, now_ns);
        if let Some(seen) = super::fitting(seen, self.saliency.saliency().grid()) {
            self.scene.absorb(&seen, now_ns);
        }
        if !is_due || self.scene.frame_seq() == 0 {
            return;
        }
        self.scene.decide(self.saliency.saliency(), fixations, now_ns);
        if !self.weighs() {
            self.relevance = None;
            return;
        }
        let grid = self.scene.grid();
        let clients = Scorer::weighted([]);
        let scorer = self.scoring.scorer.as_deref().unwrap_or(&clients);
        for _ in 0..self.scoring.passes {
            self.scene.set_score(&self.score);
            let channel = |name: &str| self.scene.channel(name);
            self.score = scorer.score(grid, channel, &self.weights);
        }
        self.values = relevance_of(&self.score);
        let map = self.scene.map(&self.values, self.parameters.relevance_gain);
        settle(&mut self.relevance, map, self.scene.frame_seq());
    }

    pub(super) fn apply_mask(&mut self, texels: &TileSet, frame_seq: u64) {
        self.saliency.apply_mask(texels);
        self.scene.apply_mask(texels, frame_seq);
        self.score.clear();
        self.values.clear();
        self.relevance = None;
    }

    pub(super) fn resize(&mut self, extent: Extent) {
        self.saliency.resize(extent);
        self.scene = Scene::new(extent);
        self.score.clear();
        self.values.clear();
        self.relevance = None;
    }
}
