//! Saliency as a weight.

use std::sync::Arc;

use super::{fitting, relevance_of, settle};
use crate::gaze::GazeParameters;
use crate::gaze::saliency::Saliency;
use crate::geometry::affine::Affine;
use crate::geometry::coarse::CoarseLevel;
use crate::geometry::extent::Extent;
use crate::geometry::pyramid::PyramidShape;
use crate::geometry::region::Region;
use crate::geometry::relevance::Relevance;
use crate::geometry::tile::TileSet;
use crate::geometry::weights::Weights;
use crate::motion::Unknown;
use crate::relevance::seen::Seen;

/// Longest time between two pictures that counts, in seconds.
const LONGEST_GAP_S: f32 = 1.0;

/// Saliency of a source.
#[derive(Debug)]
pub(in crate::gaze) struct SaliencyWeigher {
    parameters: GazeParameters,
    extent: Extent,
    /// Side of a texel of the coarse level in pixels.
    texel_px: f64,
    saliency: Saliency,
    relevance: Option<Arc<Relevance>>,
    /// `frame_seq` and time of the newest picture.
    absorbed: Option<(u64, u64)>,
}

impl SaliencyWeigher {
    /// Before the first picture of a source of `extent`.
    pub(in crate::gaze) fn new(parameters: GazeParameters, extent: Extent) -> Self {
        let level = CoarseLevel::level_of(PyramidShape::new(extent));
        Self {
            parameters,
            extent,
            texel_px: f64::from(1u32 << level),
            saliency: Saliency::new(extent, parameters.centre_prior),
            relevance: None,
            absorbed: None,
        }
    }

    pub(super) fn relevance(&self) -> Option<Arc<Relevance>> {
        self.relevance.clone()
    }

    /// Saliency as of the newest picture that was weighed.
    pub(in crate::gaze) fn saliency(&self) -> &Saliency {
        &self.saliency
    }

    /// Takes in a picture, once; `now_ns` is its time. If `weighs`, saliency becomes that of this picture.
    pub(in crate::gaze) fn see(&mut self, seen: Option<Seen<'_>>, weighs: bool, now_ns: u64) {
        let Some(seen) = fitting(seen, self.saliency.grid()) else { return };
        let Seen { coarse, frame_seq, .. } = seen;
        let (last, last_ns) = self.absorbed.unwrap_or((frame_seq.wrapping_sub(1), now_ns));
        if last != frame_seq {
            self.align(&seen, last);
        }
        if weighs {
            self.saliency.weigh(coarse);
            let weights = self.weights(self.saliency.map());
            let made = relevance_of(&weights, self.extent, self.parameters.relevance_gain);
            settle(&mut self.relevance, made, frame_seq);
        }
        if last != frame_seq {
            let elapsed_s = now_ns.saturating_sub(last_ns) as f32 * 1e-9;
            self.saliency.absorb(coarse, elapsed_s.min(LONGEST_GAP_S));
            self.absorbed = Some((frame_seq, now_ns));
        }
    }

    /// Moves the model of the scene along with the picture in `seen` from that of frame `last`.
    fn align(&mut self, seen: &Seen<'_>, last: u64) {
        if self.absorbed.is_none() {
            return;
        }
        let steps = seen.motion.and_then(|motions| motions.since(last)).unwrap_or_default();
        for step in steps.iter().filter(|step| step.frames().1 <= seen.frame_seq) {
            let before_from_now = match step.before_from_now() {
                Ok(map) => Some(map.in_units_of(self.texel_px)),
                // Nothing is known of how it moved, so it counts as still.
                Err(Unknown::NoTexture) => Some(Affine::IDENTITY),
                Err(Unknown::Cut) => None,
            };
            self.saliency.follow(before_from_now);
        }
    }

    pub(super) fn hide(&mut self, texels: &TileSet) {
        self.saliency.hide(texels);
        self.relevance = None;
    }

    pub(super) fn resize(&mut self, extent: Extent) {
        *self = Self::new(self.parameters, extent);
    }

    /// Saliency of the newest picture that was weighed, where anything stands out.
    pub(super) fn gaze_weights(&self) -> Option<Weights<'_>> {
        let map = self.saliency.map();
        map.iter().any(|salient| 0.0 < *salient).then(|| self.weights(map))
    }

    fn weights<'a>(&self, texels: &'a [f32]) -> Weights<'a> {
        let grid = self.saliency.grid();
        let side = |texels: u32| f64::from(texels) * self.texel_px;
        let region = Region { x0: 0.0, y0: 0.0, x1: side(grid.width), y1: side(grid.height) };
        Weights { grid, region, cells: texels }
    }
}
