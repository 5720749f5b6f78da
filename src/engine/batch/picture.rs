//! Output tokens of a batch.

use foveate_core::frame::{FrameTime, FrameView};
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::Gaze;
use foveate_core::geometry::plan::{Token, TokenPlan};
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_core::geometry::relevance::RelevanceMap;
use foveate_core::geometry::tile::TileSet;
use foveate_gaze::detail::Detail;
use foveate_gaze::view::{Needs, ViewSpec};
use foveate_ring::TokenRecord;

use crate::backend::cpu::detail::note_detail;
use crate::planes::weight_of;

/// The tokens of a picture.
#[derive(Debug)]
pub struct PictureTokens {
    /// The plane [`pixels`](foveate_core::plane::PIXELS), `[N, 3, P, P]`.
    pub pixels: Vec<u8>,
    /// Records of the tokens, whose `changed_frame` is 1.
    pub records: Vec<TokenRecord>,
}

/// The plan of any picture of `extent`, and its records.
///
/// # Panics
///
/// If the layout follows the picture itself: see [`planned_for`].
pub fn planned(spec: &ViewSpec, gaze: &Gaze, extent: Extent) -> (TokenPlan, Vec<TokenRecord>) {
    let layout = &spec.layout;
    assert!(!layout.follows_detail(), "a plan of {} without a picture", layout.name());
    with_records(spec.plan(gaze, PyramidShape::new(extent), None), gaze, extent)
}

/// The plan of `picture`, as of the first frame of a view, and its records.
pub fn planned_for(
    spec: &ViewSpec,
    gaze: &Gaze,
    picture: &FrameView<'_>,
) -> (TokenPlan, Vec<TokenRecord>) {
    let extent = picture.extent();
    let shape = PyramidShape::new(extent);
    let Needs::Plan(mut demand) = spec.needs(shape) else { return planned(spec, gaze, extent) };
    let (mut detail, all) = (Detail::new(extent, demand.base()), TileSet::all(extent));
    note_detail(&mut detail, picture, &all, None);
    detail.update(&all, 0.0, 1);
    let at = FrameTime { frame_seq: 1, time_ns: 0 };
    demand.note(&detail, &vec![1; all.count()], at, gaze.relevance.as_ref());
    with_records(spec.plan_by(gaze, shape, None, Some(&demand)), gaze, extent)
}

fn with_records(plan: TokenPlan, gaze: &Gaze, extent: Extent) -> (TokenPlan, Vec<TokenRecord>) {
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
