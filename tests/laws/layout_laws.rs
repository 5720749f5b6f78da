//! Whatever the image, the budget, the fixation and the relevance: leaves cover the image once, stay within the
//! budget, come in the published order, and none is large for its eccentricity.

use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::patch::{Patch, PatchGrids};
use foveate_core::geometry::plan::{Token, TokenPlan};
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_core::geometry::relevance::RelevanceMap;
use foveate_core::layout::Layout;
use foveate_core::layout::foveal::{Priority, default_e0_px};
use proptest::prelude::*;

const FOVEAL: Layout = Layout::Foveal { e0_px: None };

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn leaves_cover_every_pixel_exactly_once(case in case(400), is_foveal: bool) {
        let layout = if is_foveal { FOVEAL } else { Layout::Uniform };
        let plan = case.plan(layout);
        let extent = case.shape.extent();
        let mut covered = vec![0u8; extent.area()];
        for token in &plan.tokens {
            let region = token.pixel_box(case.shape, plan.patch_side);
            for y in region.y0..region.y1 {
                for x in region.x0..region.x1 {
                    covered[(y * extent.width + x) as usize] += 1;
                }
            }
        }
        prop_assert!(covered.iter().all(|&count| count == 1));
    }

    #[test]
    fn plans_keep_to_the_budget_and_the_order(case in case(16_384), is_foveal: bool) {
        let plan = case.plan(if is_foveal { FOVEAL } else { Layout::Uniform });
        prop_assert!(!plan.tokens.is_empty() && plan.tokens.len() <= case.budget);
        prop_assert!(plan.tokens.is_sorted_by_key(|&token| key(token, plan.patch_side)));
        for token in &plan.tokens {
            prop_assert!(case.shape.level_extent(token.level).contains(token.x, token.y));
            prop_assert!(0 < token.real_extent(case.shape, plan.patch_side).area());
        }
    }

    #[test]
    fn areas_add_up_to_the_image_at_any_size(case in case(16_384)) {
        let plan = case.plan(FOVEAL);
        let areas = plan.tokens.iter().map(|token| {
            let region = token.pixel_box(case.shape, plan.patch_side);
            u64::from(region.x1 - region.x0) * u64::from(region.y1 - region.y0)
        });
        prop_assert_eq!(areas.sum::<u64>(), case.shape.extent().area() as u64);
    }

    #[test]
    fn no_leaf_above_level_0_outranks_a_split_patch(case in case(16_384)) {
        let plan = case.plan(FOVEAL);
        let leaves = case.leaves(&plan);
        let least_split = case.split_patches(&leaves).map(|patch| case.priority(patch)).fold(f64::MAX, f64::min);
        for leaf in leaves.iter().filter(|leaf| 0 < leaf.level) {
            prop_assert!(case.priority(*leaf) <= least_split);
        }
    }

    #[test]
    fn the_budget_is_spent_up_to_the_split_that_does_not_fit(case in case(16_384)) {
        let plan = case.plan(FOVEAL);
        let grids = PatchGrids::new(case.shape, plan.patch_side);
        let greatest = case.leaves(&plan).into_iter().filter(|leaf| 0 < leaf.level).max_by(|a, b| {
            case.priority(*a).total_cmp(&case.priority(*b))
        });
        if let Some(leaf) = greatest {
            // Of the leaves with the highest priority, the one that was tried is not told; a split adds at most 3.
            let at_most = plan.tokens.len() + leaf.children(grids).count().max(4) - 1;
            prop_assert!(case.budget < at_most);
        }
    }

    #[test]
    fn a_fixation_outside_the_image_counts_as_the_nearest_inside(case in case(4_096), far in 1.0..1e9f64) {
        let Extent { width, height } = case.shape.extent();
        let plan = |fixation| FOVEAL.plan(case.shape, case.patch_side, case.budget, fixation, None);
        prop_assert_eq!(plan((-far, -far)), plan((0.0, 0.0)));
        let corner = (f64::from(width), f64::from(height));
        prop_assert_eq!(plan((corner.0 + far, corner.1 + far)), plan(corner));
    }
}

#[test]
fn the_fovea_has_full_resolution_and_the_corners_do_not() {
    let shape = PyramidShape::new(Extent::new(1920, 1080));
    let plan = FOVEAL.plan(shape, 16, 273, (960.0, 540.0), None);
    let level_at = |x: u32, y: u32| {
        let inside = |token: &&Token| {
            let region = token.pixel_box(shape, 16);
            (region.x0..region.x1).contains(&x) && (region.y0..region.y1).contains(&y)
        };
        plan.tokens.iter().find(inside).expect("every pixel is covered").level
    };
    assert_eq!(level_at(960, 540), 0);
    assert!(3 <= level_at(0, 0) && 3 <= level_at(1919, 1079));
    assert!(270 < plan.tokens.len());
}

#[test]
fn relevance_draws_tokens_to_what_matters() {
    let shape = PyramidShape::new(Extent::new(1920, 1080));
    let finest_in_last_cell = |relevance: Option<&RelevanceMap>| {
        let plan = FOVEAL.plan(shape, 16, 273, (100.0, 100.0), relevance);
        let in_cell = |token: &&Token| {
            let region = token.pixel_box(shape, 16);
            1680 <= region.x0 && 810 <= region.y0
        };
        plan.tokens.iter().filter(in_cell).map(|token| token.level).min()
    };
    let grid = Extent::new(8, 4);
    let map =
        RelevanceMap::new(grid, (0..grid.area()).map(|cell| if cell == 31 { 16.0 } else { 1.0 }));
    assert!(finest_in_last_cell(Some(&map)) < finest_in_last_cell(None));
}

/// One call of a layout.
#[derive(Debug)]
struct Case {
    shape: PyramidShape,
    patch_side: u32,
    budget: usize,
    fixation: (f64, f64),
    relevance: Option<RelevanceMap>,
}

impl Case {
    fn plan(&self, layout: Layout) -> TokenPlan {
        layout.plan(
            self.shape,
            self.patch_side,
            self.budget,
            self.fixation,
            self.relevance.as_ref(),
        )
    }

    fn priority(&self, patch: Patch) -> f64 {
        let e0_px = default_e0_px(self.shape.extent(), self.patch_side);
        let priority =
            Priority { fixation: self.fixation, e0_px, relevance: self.relevance.as_ref() };
        priority.of(patch, self.shape, self.patch_side)
    }

    fn leaves(&self, plan: &TokenPlan) -> Vec<Patch> {
        plan.tokens.iter().map(|&token| patch(token, self.patch_side)).collect()
    }

    /// The ancestors of the leaves, up to the level that the quadtree starts from.
    fn split_patches<'a>(&self, leaves: &'a [Patch]) -> impl Iterator<Item = Patch> + use<'a> {
        let grids = PatchGrids::new(self.shape, self.patch_side);
        let start = grids.finest_level_within(self.budget.min(16));
        leaves.iter().flat_map(move |leaf| {
            (leaf.level + 1..=start).map(|level| {
                let up = level - leaf.level;
                Patch { level, i: leaf.i >> up, j: leaf.j >> up }
            })
        })
    }
}

fn case(longest_side: u32) -> impl Strategy<Value = Case> {
    let relevance = (1..12u32, 1..12u32).prop_flat_map(|(width, height)| {
        let cells = (width * height) as usize;
        prop::collection::vec(0.0..20.0f64, cells)
            .prop_map(move |weights| RelevanceMap::new(Extent::new(width, height), weights))
    });
    let side = || prop_oneof![1..40u32, 1..=longest_side];
    let budget = prop_oneof![1..20usize, Just(273), 1..=5000usize];
    let fixation = (-0.2..1.2f64, -0.2..1.2f64);
    (side(), side(), prop_oneof![Just(14), Just(16)], budget, fixation, prop::option::of(relevance))
        .prop_map(|(width, height, patch_side, budget, (x, y), relevance)| Case {
            shape: PyramidShape::new(Extent::new(width, height)),
            patch_side,
            budget,
            fixation: (x * f64::from(width), y * f64::from(height)),
            relevance,
        })
}

fn patch(token: Token, patch_side: u32) -> Patch {
    Patch { level: token.level, i: token.x / patch_side, j: token.y / patch_side }
}

fn key(token: Token, patch_side: u32) -> (u32, u64) {
    (token.level, patch(token, patch_side).morton())
}

/// Cases of each law: more with `FOVEATE_LONG=1`.
fn cases() -> u32 {
    if std::env::var_os("FOVEATE_LONG").is_some_and(|value| value == "1") { 4_000 } else { 200 }
}
