//! Output tokens of a batch.

use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::Gaze;
use foveate_core::geometry::plan::{Token, TokenPlan};
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_core::geometry::relevance::RelevanceMap;
use foveate_core::view::ViewSpec;
use foveate_ring::TokenRecord;

use crate::planes::weight_of;

/// The tokens of a picture.
#[derive(Debug)]
pub struct Sampled {
    /// The plane [`pixels`](foveate_core::plane::PIXELS), `[N, 3, P, P]`.
    pub pixels: Vec<u8>,
    /// Where each token lies; their `changed_frame` is 1.
    pub records: Vec<TokenRecord>,
}

/// The plan of a picture, and its records.
pub fn planned(spec: &ViewSpec, gaze: &Gaze, extent: Extent) -> (TokenPlan, Vec<TokenRecord>) {
    let plan = spec.plan(gaze, PyramidShape::new(extent), None);
    let relevance = gaze.relevance.as_ref().map(|relevance| &relevance.map);
    let records = records_of(&plan, extent, relevance);
    (plan, records)
}

fn records_of(
    plan: &TokenPlan,
    extent: Extent,
    relevance: Option<&RelevanceMap>,
) -> Vec<TokenRecord> {
    let side = plan.patch_side;
    let record = |token: &Token| {
        let weight = weight_of(relevance, extent, token.read_box(extent, side));
        TokenRecord::new(*token, extent, side, 1, weight)
    };
    plan.tokens.iter().map(record).collect()
}
