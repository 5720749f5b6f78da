//! Weighers: saliency, or a score of channels. They weigh on where a view looks, and on its plan, besides what the view needs.

use std::sync::Arc;

use self::channels::ChannelWeigher;
use self::saliency::SaliencyWeigher;
use super::fixation_state::FixationState;
use super::need::Need;
use crate::relevance::seen::{FrameParts, Seen};
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::{FixationReason, Points};
use foveate_core::geometry::relevance::{Relevance, RelevanceMap};
use foveate_core::geometry::tile::TileSet;
use foveate_core::geometry::weights::Weights;

pub(super) mod channels;
pub(super) mod saliency;

/// Longest side of a relevance map made by a view.
const RELEVANCE_SIDE_MAX: u32 = 64;

/// Values below this share of a map's peak count as this share: in saliency they are noise, which moves no token then; and what a
/// consumer's map leaves out does not stay coarse for good.
const RELEVANCE_FLOOR: f32 = 0.05;

/// A relevance map made of pictures is kept until some weight differs from it by this factor, so that flicker makes no new plan.
const RELEVANCE_STEP: f64 = 1.19;

/// Weights of one view, from its pictures.
#[derive(Debug)]
pub(super) enum Weigher {
    /// Weights of what stands out or moves.
    Saliency(Box<SaliencyWeigher>),
    /// A score of channels.
    Channels(Box<ChannelWeigher>),
}

impl Weigher {
    /// The weights of the newest picture; `None` where all of it weighs the same.
    pub(super) fn relevance(&self) -> Option<Arc<Relevance>> {
        match self {
            Self::Saliency(weigher) => weigher.relevance(),
            Self::Channels(weigher) => weigher.relevance(),
        }
    }

    /// Moves to what weighs most, or to what is needed most where nothing weighs; not to what foveae of other policies look at: `avoided`, in
    /// pixels.
    pub(super) fn choose(
        &mut self,
        need: &Need,
        changed_frame: &[u64],
        avoided: &Points,
        state: &mut FixationState,
    ) {
        match self {
            Self::Saliency(weigher) => weigher.choose(avoided, state, FixationReason::Saliency),
            Self::Channels(weigher) => {
                if !weigher.choose(avoided, state, FixationReason::Relevance) {
                    need.choose(changed_frame, avoided, state);
                }
            }
        }
    }

    /// The parts of a picture that it reads.
    pub(super) fn reads(&self) -> FrameParts {
        match self {
            Self::Saliency(_) => FrameParts { coarse: true, tiles: false },
            Self::Channels(weigher) => {
                let is_active = weigher.is_active();
                FrameParts { coarse: is_active, tiles: is_active }
            }
        }
    }

    /// Masks cover `texels` of the coarse level from frame `frame_seq`, the next one, on: forgets what was seen there.
    pub(super) fn apply_mask(&mut self, texels: &TileSet, frame_seq: u64) {
        match self {
            Self::Saliency(weigher) => weigher.apply_mask(texels),
            Self::Channels(weigher) => weigher.apply_mask(texels, frame_seq),
        }
    }

    /// Starts over for a source of another extent.
    pub(super) fn resize(&mut self, extent: Extent) {
        match self {
            Self::Saliency(weigher) => weigher.resize(extent),
            Self::Channels(weigher) => weigher.resize(extent),
        }
    }
}

/// A picture of a source whose coarse level has `grid` texels, not of one before.
pub(super) fn fitting(seen: Option<Seen<'_>>, grid: Extent) -> Option<Seen<'_>> {
    seen.filter(|seen| seen.coarse.extent() == grid)
}

/// The relevance that follows from weights over an image; `None` if it is the same everywhere.
pub(super) fn relevance_of(
    weights: &Weights<'_>,
    image: Extent,
    gain: f64,
) -> Option<RelevanceMap> {
    let grid = image.in_cells(image.longer_side().div_ceil(RELEVANCE_SIDE_MAX));
    let mut values = weights.pooled(image, grid);
    let least = RELEVANCE_FLOOR * values.iter().copied().fold(0.0, f32::max);
    values.iter_mut().for_each(|value| *value = value.max(least));
    RelevanceMap::from_values(grid, &values, gain)
}

/// Replaces `relevance` by what was made of frame `frame_seq`, unless that is hardly any other.
fn settle(relevance: &mut Option<Arc<Relevance>>, made: Option<RelevanceMap>, frame_seq: u64) {
    let is_near = |old: &Relevance, new: &RelevanceMap| old.map.factor_to(new) <= RELEVANCE_STEP;
    let keeps = matches!((&*relevance, &made), (Some(old), Some(new)) if is_near(old, new));
    if !keeps {
        *relevance = made.map(|map| Arc::new(Relevance { map, frame_seq }));
    }
}
