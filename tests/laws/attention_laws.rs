//! Invalid attention is refused with the reason; a peak is found to within half a cell; scores are painted back in their
//! order, where their tokens lie.

#![allow(clippy::cast_possible_truncation, reason = "weights")]

use foveate_core::geometry::attention::{ATTENTION_SIDE_MAX, AttentionError, AttentionMap};
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::Focus;
use foveate_core::geometry::plan::{Token, TokenPlan};
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_core::geometry::region::Region;
use foveate_core::geometry::relevance::RelevanceMap;
use foveate_core::geometry::weights::Peak;
use foveate_gaze::layout::{Layout, PlanRequest};
use proptest::prelude::*;

const IMAGE: Extent = Extent::new(640, 480);
const GRID: Extent = Extent::new(4, 3);

/// A layout whose tokens do not overlap.
const FOVEAL: Layout = Layout::Foveal { e0_px: None, foveae: 1, coarsest: None };

proptest! {
    /// Bumps from one cell wide to a quarter of the image, over the image, a part of it, or more than it.
    #[test]
    fn a_peak_is_found_to_within_half_a_cell(
        columns in 8..=ATTENTION_SIDE_MAX, rows in 8..=ATTENTION_SIDE_MAX, width in 1.0..8.0f64,
        share in (0.0..=1.0f64, 0.0..=1.0f64), region in region(),
    ) {
        let (cell_x, cell_y) = cell(region, columns, rows);
        let inside = |share: f64, from: f64, to: f64, side: u32| {
            let (low, high) = (from.max(0.0), to.min(f64::from(side)));
            low + share * (high - low)
        };
        let x = inside(share.0, region.x0, region.x1, IMAGE.width);
        let y = inside(share.1, region.y0, region.y1, IMAGE.height);
        let weights = weights(columns, rows, |column, row| {
            let dx = (region.x0 + (column + 0.5) * cell_x - x) / (width * cell_x);
            let dy = (region.y0 + (row + 0.5) * cell_y - y) / (width * cell_y);
            (-0.5 * (dx * dx + dy * dy)).exp()
        });
        let map = AttentionMap::new(Extent::new(columns, rows), region, IMAGE, weights).unwrap();
        let Peak { x, y, .. } = map.peak();
        let peak = (x, y);
        prop_assert!((peak.0 - x).abs() <= 0.501 * cell_x, "{peak:?} is not at {x} {y}");
        prop_assert!((peak.1 - y).abs() <= 0.501 * cell_y, "{peak:?} is not at {x} {y}");
    }

    #[test]
    fn a_peak_lies_in_the_image_whatever_the_map(
        columns in 1..20u32, rows in 1..20u32, region in region(),
        numbers in prop::collection::vec(prop_oneof![Just(0.0f32), Just(1.0), 0.0..1e30f32], 400),
    ) {
        let grid = Extent::new(columns, rows);
        let weights = numbers[..grid.area()].to_vec();
        if let Ok(map) = AttentionMap::new(grid, region, IMAGE, weights) {
            let Peak { x, y, .. } = map.peak();
            prop_assert!((0.0..=640.0).contains(&x) && (0.0..=480.0).contains(&y), "{x} {y}");
        }
    }

    /// Each cell has the score of the token that it lies under, so order is conserved everywhere.
    #[test]
    fn scores_are_painted_where_their_tokens_lie(
        width in 1..2000u32, height in 1..2000u32, budget in 1..300usize, half_side in 4..=8u32,
        fixation in (0.0..2000.0f64, 0.0..2000.0f64), seed in any::<u64>(),
    ) {
        let image = Extent::new(width, height);
        let patch_side = 2 * half_side;
        let plan = plan(&FOVEAL, image, patch_side, budget, fixation);
        let scores = scores(seed, plan.tokens.len());
        let map = AttentionMap::painted(&plan, image, &scores).unwrap();
        for (token, score) in plan.tokens.iter().zip(&scores) {
            let lies = token.pixel_box(image, patch_side);
            for x in [lies.x0, (lies.x0 + lies.x1) / 2, lies.x1 - 1] {
                for y in [lies.y0, (lies.y0 + lies.y1) / 2, lies.y1 - 1] {
                    let painted = map.as_weights().at(f64::from(x) + 0.5, f64::from(y) + 0.5);
                    prop_assert_eq!(painted, *score, "token {:?} at {} {}", token, x, y);
                }
            }
        }
    }

    #[test]
    fn the_peak_of_scores_lies_on_the_highest_token(
        width in 1..2000u32, height in 1..2000u32, budget in 1..300usize,
        fixation in (0.0..2000.0f64, 0.0..2000.0f64), seed in any::<u64>(),
    ) {
        let image = Extent::new(width, height);
        let plan = plan(&FOVEAL, image, 16, budget, fixation);
        let scores = scores(seed, plan.tokens.len());
        let best = (0..scores.len()).max_by(|a, b| scores[*a].total_cmp(&scores[*b])).unwrap();
        let lies = plan.tokens[best].pixel_box(image, 16);
        let Peak { x, y, .. } = AttentionMap::painted(&plan, image, &scores).unwrap().peak();
        prop_assert!(f64::from(lies.x0) <= x && x <= f64::from(lies.x1), "{x} is not in {lies:?}");
        prop_assert!(f64::from(lies.y0) <= y && y <= f64::from(lies.y1), "{y} is not in {lies:?}");
    }

    #[test]
    fn relevance_is_kept_by_its_codes_and_grows_with_its_values(
        values in prop::collection::vec(prop_oneof![Just(0.0f32), 0.0..1.0f32, 0.0..1e9f32], 12),
        gain in 0.0..=1.0f64,
    ) {
        let Some(map) = RelevanceMap::from_values(GRID, &values, gain) else {
            prop_assert!(gain == 0.0 || values.iter().all(|value| *value == 0.0));
            return Ok(());
        };
        let codes = map.codes();
        prop_assert_eq!(&RelevanceMap::from_codes(GRID, &codes), &map);
        for (a, code_a) in values.iter().zip(&codes) {
            for (b, code_b) in values.iter().zip(&codes) {
                prop_assert!(b <= a || code_a <= code_b, "{a} has {code_a}, {b} has {code_b}");
            }
        }
    }
}

#[test]
fn the_middle_of_a_large_token_is_its_peak() {
    let image = Extent::new(1024, 1024);
    let tokens = vec![patch(0, 0, 0), patch(4, 512, 256), patch(2, 64, 0)];
    let plan = TokenPlan { patch_side: 16, tokens };
    let map = AttentionMap::painted(&plan, image, &[0.2, 0.9, 0.5]).unwrap();
    assert_eq!((map.peak().x, map.peak().y), (640.0, 384.0));
}

/// Cells of 32 pixels each have the greater of the scores of the patches of 16 pixels that they touch.
#[test]
fn an_image_with_too_many_patches_is_painted_on_coarser_cells() {
    let image = Extent::new(16_384, 32);
    let patches = (0..2u32).flat_map(|row| (0..1024u32).map(move |column| (column, row)));
    let token = |(column, row): (u32, u32)| patch(0, 16 * column as i32, 16 * row as i32);
    let plan = TokenPlan { patch_side: 16, tokens: patches.map(token).collect() };
    let scores: Vec<f32> = (1..=2048u16).map(f32::from).collect();
    let map = AttentionMap::painted(&plan, image, &scores).unwrap();
    assert_eq!(map.grid(), Extent::new(512, 1));
    let expected: Vec<f32> = (0..512u16).map(|column| f32::from(1024 + 2 * column + 2)).collect();
    assert_eq!(map.weights(), expected);
}

#[test]
fn padded_scores_are_accepted_and_missing_ones_are_not() {
    let (image, plan) = (IMAGE, plan(&Layout::Uniform, IMAGE, 16, 30, (0.0, 0.0)));
    let count = plan.tokens.len();
    let mut scores = vec![1.0; count];
    scores.extend([f32::NAN, -1.0]);
    let padded = AttentionMap::painted(&plan, image, &scores).unwrap();
    assert_eq!(padded, AttentionMap::painted(&plan, image, &scores[..count]).unwrap());
    let missing = AttentionMap::painted(&plan, image, &scores[..count - 1]);
    assert_eq!(missing, Err(AttentionError::Count { given: count - 1, wanted: count }));
    let none = AttentionMap::painted(&plan, image, &vec![0.0; count]);
    assert_eq!(none, Err(AttentionError::AllZero));
}

#[test]
fn what_is_no_map_is_refused() {
    let image = Region::of(IMAGE);
    let refused = |grid, region, weights: &[f32]| {
        AttentionMap::new(grid, region, IMAGE, weights.to_vec()).unwrap_err()
    };
    let ones = [1.0; 12];
    let (empty, large) = (Extent::new(0, 3), Extent::new(ATTENTION_SIDE_MAX + 1, 1));
    assert_eq!(refused(empty, image, &[]), AttentionError::Grid { grid: empty });
    assert_eq!(refused(large, image, &[1.0; 129]), AttentionError::Grid { grid: large });
    assert_eq!(refused(GRID, image, &ones[1..]), AttentionError::Count { given: 11, wanted: 12 });
    let flat = Region { x1: 0.0, ..image };
    let [unbounded, unknown] = [f64::INFINITY, f64::NAN].map(|x1| Region { x1, ..image });
    let overflowing = Region { x0: f64::MIN, x1: f64::MAX, ..image };
    for region in [flat, unbounded, unknown, overflowing] {
        assert_eq!(refused(GRID, region, &ones), AttentionError::EmptyRegion, "{region:?}");
    }
    let outside = Region { x0: 640.0, x1: 700.0, ..image };
    assert_eq!(refused(GRID, outside, &ones), AttentionError::Outside { image: IMAGE });
    let with = |value| [[1.0; 7].as_slice(), &[value], &[1.0; 4]].concat();
    let infinite = refused(GRID, image, &with(f32::INFINITY));
    assert_eq!(infinite, AttentionError::NotFinite { index: 7, value: f32::INFINITY });
    let unknown = refused(GRID, image, &with(f32::NAN));
    assert!(matches!(unknown, AttentionError::NotFinite { index: 7, .. }));
    let negative = refused(GRID, image, &with(-1.0));
    assert_eq!(negative, AttentionError::Negative { index: 7, value: -1.0 });
    assert_eq!(refused(GRID, image, &[0.0; 12]), AttentionError::AllZero);
}

/// Letterboxed input: the image fills the middle row of cells, and the area beyond it is ignored.
#[test]
fn cells_beyond_the_image_are_ignored() {
    let letterbox = Region { x0: 0.0, y0: -480.0, x1: 640.0, y1: 960.0 };
    let map = |weights: [f32; 12]| AttentionMap::new(GRID, letterbox, IMAGE, weights.to_vec());
    let bars = [9.0, 9.0, 9.0, 9.0, 0.0, 0.0, 0.0, 0.0, 9.0, 9.0, 9.0, 9.0];
    assert_eq!(map(bars), Err(AttentionError::AllZero));
    let mut attends = bars;
    attends[6] = 1.0;
    let peak = map(attends).unwrap().peak();
    assert_eq!((peak.x, peak.y), (400.0, 240.0));
}

fn plan(
    layout: &Layout,
    image: Extent,
    patch_side: u32,
    budget: usize,
    at: (f64, f64),
) -> TokenPlan {
    let (shape, fixations) = (PyramidShape::new(image), &[Focus::at(at.0, at.1)]);
    layout.plan(&PlanRequest {
        shape,
        patch_side,
        budget,
        fixations,
        relevance: None,
        before: None,
        demand: None,
    })
}

/// A patch of 16 texels of a level, at a place in pixels.
fn patch(level: u16, x: i32, y: i32) -> Token {
    Token { x, y, sx: 1 << level, sy: 1 << level, group: level, ..Token::default() }
}

/// Regions that touch the image.
fn region() -> impl Strategy<Value = Region> {
    let image = Just(Region::of(IMAGE));
    let any = (-300.0..500.0f64, -300.0..400.0f64, 130.0..900.0f64, 90.0..900.0f64);
    let any = any.prop_filter_map("touches", |(x0, y0, width, height)| {
        let region = Region { x0, y0, x1: x0 + width, y1: y0 + height };
        (1.0 < region.x1 && 1.0 < region.y1).then_some(region)
    });
    prop_oneof![image, any]
}

fn cell(region: Region, columns: u32, rows: u32) -> (f64, f64) {
    ((region.x1 - region.x0) / f64::from(columns), (region.y1 - region.y0) / f64::from(rows))
}

/// A map's numbers from the column and the row of each cell.
fn weights(columns: u32, rows: u32, weight: impl Fn(f64, f64) -> f64) -> Vec<f32> {
    let cells = (0..rows).flat_map(|row| (0..columns).map(move |column| (column, row)));
    cells.map(|(column, row)| weight(f64::from(column), f64::from(row)) as f32).collect()
}

/// Different scores in a random order.
fn scores(seed: u64, count: usize) -> Vec<f32> {
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by_key(|index| (*index as u64 + 1).wrapping_mul(seed | 1).rotate_left(17) ^ seed);
    let mut scores = vec![0.0; count];
    for (rank, index) in order.into_iter().enumerate() {
        scores[index] = (rank + 1) as f32;
    }
    scores
}
