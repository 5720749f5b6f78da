//! Whatever the image, the budget, the fixations and the relevance: what each layout covers how often, that it stays within the
//! budget, in which order its tokens come, and that none is large for its eccentricity.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::{Fixation, FixationReason, Focus, Gaze};
use foveate_core::geometry::patch::{Patch, PatchGrids};
use foveate_core::geometry::plan::{Token, TokenPlan};
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_core::geometry::region::{PixelBox, Region};
use foveate_core::geometry::relevance::{Relevance, RelevanceMap};
use foveate_core::token::Rounding;
use foveate_gaze::layout::adaptive::demand::ConsumerMemory;
use foveate_gaze::layout::foveal::{KEEPING, Priority, default_e0_px, root_level};
use foveate_gaze::layout::rings::{PRESETS, Preset, Rings};
use foveate_gaze::layout::samples::{OFFSET_MAX, ROWS_MAX, Samples};
use foveate_gaze::layout::{Layout, PlanRequest};
use foveate_gaze::view::ViewSpec;
use proptest::prelude::*;
use safetensors::tensor::{Dtype, TensorView};
use testkit::is_long;

use crate::inset_laws::inset;

const FOVEAL: Layout = Layout::Foveal { e0_px: None, foveae: 8, coarsest: None };
const DIRECTIONAL: Layout = Layout::Directional { e0_px: None };

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn trees_and_grids_cover_every_pixel_exactly_once(case in case(400), layout in tree_or_grid()) {
        let plan = case.plan(&layout);
        let extent = case.shape.extent();
        let mut covered = vec![0u8; extent.area()];
        for token in &plan.tokens {
            let region = token.pixel_box(extent, plan.patch_side);
            for y in region.y0..region.y1 {
                for x in region.x0..region.x1 {
                    covered[(y * extent.width + x) as usize] += 1;
                }
            }
        }
        prop_assert!(covered.iter().all(|&count| count == 1));
    }

    #[test]
    fn areas_add_up_to_the_image_at_any_size(case in case(16_384), layout in tree_or_grid()) {
        let plan = case.plan(&layout);
        let areas = plan.tokens.iter().map(|token| area(token.pixel_box(case.shape.extent(), plan.patch_side)));
        prop_assert_eq!(areas.sum::<u64>(), case.shape.extent().area() as u64);
    }

    #[test]
    fn plans_are_deterministic_and_within_budget(
        case in case(16_384),
        layout in any_layout(),
    ) {
        let plan = case.plan(&layout);
        let capacity = layout.capacity(case.patch_side, case.budget);
        prop_assert!(!plan.tokens.is_empty() && plan.tokens.len() <= capacity && capacity <= case.budget);
        prop_assert!(plan == case.plan(&layout));
        for token in &plan.tokens {
            let read = token.read_box(case.shape.extent(), plan.patch_side);
            prop_assert!(!read.is_empty());
            let Extent { width, height } = case.shape.extent();
            prop_assert!(read.x1 <= width && read.y1 <= height, "{:?}", read);
            prop_assert!(usize::from(token.fovea) < case.fixations.len());
        }
    }

    #[test]
    fn leaves_come_level_by_level_along_the_morton_curve(case in case(16_384)) {
        let plan = case.plan(&FOVEAL);
        prop_assert!(plan.tokens.is_sorted_by_key(|&token| key(token, plan.patch_side)));
        for token in &plan.tokens {
            prop_assert_eq!(token.level(case.shape, Rounding::HalfUp), Some(token.group.into()));
        }
    }

    #[test]
    fn no_leaf_above_level_0_outranks_a_split_patch(case in case(16_384), coarsest in coarsest()) {
        let plan = case.plan(&bounded(coarsest));
        let leaves = case.leaves(&plan);
        let start = root_level(case.grids(), case.budget, coarsest);
        let least_split = split_patches(&leaves, start).map(|patch| case.priority(patch)).fold(f64::MAX, f64::min);
        for leaf in leaves.iter().filter(|leaf| 0 < leaf.level) {
            let factor = if case.looked_at.is_some() { KEEPING } else { 1.0 };
            prop_assert!(case.priority(*leaf) <= factor * least_split);
        }
    }

    /// Tokens move only when an input changed.
    #[test]
    fn a_plan_after_itself_is_itself(case in case(16_384)) {
        let plan = case.plan_after(&FOVEAL, None);
        prop_assert!(case.plan_after(&FOVEAL, Some(&plan)) == plan);
    }

    #[test]
    fn leaves_stay_within_the_coarsest_level(
        case in case(16_384),
        coarsest in 0..=11u32,
    ) {
        let plan = case.plan(&bounded(Some(coarsest)));
        let highest = case.leaves(&plan).iter().map(|leaf| leaf.level).max().unwrap_or(0);
        let last = case.shape.level_count() - 1;
        let fits = case.grids().level(coarsest.min(last)).area() <= case.budget;
        prop_assert!(highest <= coarsest || !fits);
        // Where they do not fit, one more level down would not, either.
        prop_assert!(highest <= coarsest || case.budget < case.grids().level(highest - 1).area());
    }

    #[test]
    fn the_budget_is_spent_until_a_split_exceeds_it(case in case(16_384)) {
        let plan = case.plan(&FOVEAL);
        let grids = case.grids();
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
    fn a_leaf_belongs_to_the_nearest_fixation(case in case(4_096)) {
        let extent = case.shape.extent();
        for token in &case.plan(&FOVEAL).tokens {
            let side = f64::from(case.patch_side * u32::from(token.sx));
            let distance = |&(x, y): &(f64, f64)| {
                let off = |at: f64, start: i32, length: u32| {
                    let at = ((at * 16.0).round() / 16.0).clamp(0.0, length.into());
                    (f64::from(start) - at).max(at - f64::from(start) - side).max(0.0)
                };
                off(x, token.x, extent.width).hypot(off(y, token.y, extent.height))
            };
            let distances: Vec<_> = case.fixations.iter().map(distance).collect();
            let least = distances.iter().copied().fold(f64::MAX, f64::min);
            let own = distances[usize::from(token.fovea)];
            prop_assert!(own <= least + 1e-9, "{own} {distances:?}");
        }
    }

    #[test]
    fn a_fixation_outside_the_image_counts_as_the_nearest_inside(
        case in case(4_096),
        far in 1.0..1e9f64,
        layout in any_layout(),
    ) {
        let Extent { width, height } = case.shape.extent();
        let plan = |fixation| Case { fixations: vec![fixation], ..case.clone() }.plan(&layout);
        prop_assert!(plan((-far, -far)) == plan((0.0, 0.0)));
        let corner = (f64::from(width), f64::from(height));
        prop_assert!(plan((corner.0 + far, corner.1 + far)) == plan(corner));
    }

    #[test]
    fn a_uniform_layout_is_of_the_smallest_squares_that_fit(case in case(16_384)) {
        let (plan, side) = (case.plan(&Layout::Uniform), case.patch_side);
        let grid = Layout::Uniform.grid(case.shape, side, case.budget).expect("it has one");
        prop_assert_eq!(plan.tokens.len(), grid.area());
        let width = plan.tokens[0].width(side);
        for (index, token) in (0..).zip(&plan.tokens) {
            let (column, row) = (index % grid.width, index / grid.width);
            prop_assert_eq!((token.x, token.y), ((column * width).cast_signed(), (row * width).cast_signed()));
            prop_assert_eq!((token.width(side), token.height(side)), (width, width));
            prop_assert_eq!(u32::from(token.group), (width / side).ilog2());
        }
        // Shorter ones that a token may have would not.
        let shorter = (side..width).rev().find(|shorter| may_be_square(*shorter, side));
        let needed = |side: u32| case.shape.extent().in_cells(side).area();
        prop_assert!(may_be_square(width, side));
        prop_assert!(shorter.is_none_or(|shorter| case.budget < needed(shorter)));
    }

    #[test]
    fn directional_steps_differ_by_4_at_most(case in case(16_384)) {
        let plan = case.plan(&DIRECTIONAL);
        for token in &plan.tokens {
            prop_assert!(token.sx.is_power_of_two() && token.sy.is_power_of_two());
            prop_assert!(token.sx <= 4 * token.sy && token.sy <= 4 * token.sx);
            let octaves = (u32::from(token.sx) * u32::from(token.sy)).ilog2();
            prop_assert_eq!(u32::from(token.group), octaves);
        }
        prop_assert!(plan.tokens.is_sorted_by_key(|token| (token.group, token.y, token.x)));
    }

    #[test]
    fn rings_cover_their_outermost_block_exactly_once(case in case(4_096), rings in rings()) {
        let (strides, grids) = rings;
        let rings = Rings::new(&strides, &grids).expect("made to nest");
        let case = Case { budget: rings.token_count(), ..case };
        let tokens = case.plan(&Layout::Rings(rings.clone())).tokens;
        prop_assert_eq!(tokens.len(), rings.token_count());
        let width = i64::from(rings.width_px(case.patch_side));
        let corner = |centre: f64, length: u32| {
            let centre = ((centre * 16.0).round() / 16.0).clamp(0.0, length.into());
            #[expect(clippy::cast_possible_truncation, reason = "within the image")]
            let corner = (centre - width as f64 / 2.0).floor() as i64;
            corner
        };
        let Extent { width: columns, height: rows } = case.shape.extent();
        let (x, y) = case.fixations[0];
        let (left, top) = (corner(x, columns), corner(y, rows));
        // In cells of P pixels, so that a texel of the innermost ring is what counts.
        let side = i64::from(case.patch_side);
        let cells = usize::try_from(width / side).unwrap();
        let mut covered = vec![0u8; cells * cells];
        for token in &tokens {
            let (x, y) = (i64::from(token.x) - left, i64::from(token.y) - top);
            prop_assert!(x % side == 0 && y % side == 0);
            for row in 0..i64::from(token.sy) {
                for column in 0..i64::from(token.sx) {
                    let at = (y / side + row) * (width / side) + x / side + column;
                    covered[usize::try_from(at).unwrap()] += 1;
                }
            }
        }
        prop_assert!(covered.iter().all(|&count| count == 1));
        prop_assert!(tokens.is_sorted_by_key(|token| token.group));
        for (group, stride) in (0..).zip(&strides) {
            let ring: Vec<_> = tokens.iter().filter(|token| token.group == group).collect();
            prop_assert!(ring.iter().all(|token| u32::from(token.sx) == *stride && token.sx == token.sy));
            prop_assert!(ring.is_sorted_by_key(|token| (token.y, token.x)), "full rows, then left and right parts");
        }
    }

    #[test]
    fn a_smaller_budget_keeps_the_first_tokens_of_rings(case in case(4_096), rings in rings()) {
        let rings = Layout::Rings(Rings::new(&rings.0, &rings.1).expect("made to nest"));
        let whole = Case { budget: 5_000, ..case.clone() }.plan(&rings).tokens;
        let part = case.plan(&rings).tokens;
        prop_assert!(part[..] == whole[..case.budget.min(whole.len())]);
    }

    #[test]
    fn samples_lie_around_their_points_in_the_order_of_the_table(
        case in case(16_384),
        side in prop_oneof![Just(1u32), Just(16), Just(8)],
        rows in rows(),
    ) {
        let case = Case { patch_side: side, ..case };
        let tokens = case.plan(&Layout::Samples(Samples::new(&rows).expect("rows"))).tokens;
        prop_assert_eq!(tokens.len(), rows.len().min(case.budget));
        let Extent { width, height } = case.shape.extent();
        let snapped = |at: f64, length: u32| ((at * 16.0).round() / 16.0).clamp(0.0, length.into());
        let (x, y) = case.fixations[0];
        let (x, y) = (snapped(x, width), snapped(y, height));
        for (token, [right, down, step]) in tokens.iter().zip(&rows) {
            prop_assert_eq!((f64::from(token.sx), f64::from(token.sy)), (*step, *step));
            prop_assert_eq!(u32::from(token.group), token.sx.ilog2());
            for (origin, point) in [(token.x, x + right), (token.y, y + down)] {
                let half = f64::from(token.width(side)) / 2.0;
                let beside = f64::from(origin) + half - point;
                prop_assert!(-0.5 < beside && beside <= 0.5, "{beside}");
                if side == 1 && *step == 1.0 {
                    prop_assert_eq!(f64::from(origin), point.floor(), "the pixel that has the point");
                }
            }
        }
    }

    #[test]
    fn damaged_tables_are_refused_without_a_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        cut in any::<prop::sample::Index>(),
        place in any::<prop::sample::Index>(),
    ) {
        prop_assert!(Samples::from_bytes(&bytes).is_err());
        let mut table = npy("'<f4'", "(4, 3)", &[1.0f32; 12].map(f32::to_le_bytes).concat());
        prop_assert!(Samples::from_bytes(&table[..cut.index(table.len())]).is_err());
        table[place.index(80)] ^= bytes.first().copied().unwrap_or(1);
        let _: Result<_, _> = Samples::from_bytes(&table);
    }

    #[test]
    fn windows_double_lie_inside_and_end_with_the_whole_picture(
        case in case(16_384),
        side in prop_oneof![Just(224u32), Just(448), (112..=512u32).prop_map(|half| 2 * half)],
    ) {
        let case = Case { patch_side: side, ..case };
        let extent = case.shape.extent();
        let tokens = case.plan(&Layout::Windows).tokens;
        let (last, others) = tokens.split_last().expect("at least one");
        let all = last.pixel_box(extent, side);
        prop_assert_eq!(all, PixelBox::of(0..extent.width, 0..extent.height));
        for (step, token) in (0..).map(|index| 1u16 << index).zip(others) {
            prop_assert_eq!((token.sx, token.sy), (step, step));
        }
        let (x, y) = case.fixations[0];
        for token in &tokens {
            prop_assert!(token.level(case.shape, Rounding::HalfUp).is_some(), "read from a level");
            let axes = [(token.x, x, extent.width), (token.y, y, extent.height)];
            for (origin, centre, length) in axes {
                let step = i64::from(token.sx);
                let (origin, window) = (i64::from(origin), step * i64::from(side));
                let length = i64::from(length);
                let fits = window <= length;
                let is_inside = 0 <= origin && origin + window <= length;
                prop_assert!(if fits { is_inside } else { origin == 0 }, "{origin} {window} {length}");
                // The rest of the picture beyond the last whole texel is in the last window.
                let centre = centre.clamp(0.0, (length - length % step).max(window) as f64);
                let inside = origin as f64 <= centre && centre <= (origin + window) as f64;
                prop_assert!(inside, "{origin} {window} {centre}");
            }
        }
    }

    /// What the layout `adaptive` promises: at most three times as coarse as the picture shrunk to as many tokens, where squares of the
    /// base fit the picture; else by as much more as the squares that its edges cut.
    #[test]
    fn adaptive_is_nowhere_much_coarser_than_the_shrunk_picture(case in case(16_384)) {
        let plan = case.plan_after(&Layout::Adaptive { memory: ConsumerMemory::None }, None);
        let Extent { width, height } = case.shape.extent();
        let [width, height] = [width, height].map(f64::from);
        let shrunk = (width * height / case.budget as f64).sqrt() / f64::from(case.patch_side);
        let coarsest = plan.tokens.iter().map(|token| f64::from(token.sx)).fold(0.0, f64::max);
        let half = (coarsest * f64::from(case.patch_side) / 2.0).max(1.0);
        let padded = |length: f64| (length / half).ceil() * half / length;
        let most = 3.0 * (padded(width) * padded(height)).sqrt();
        prop_assert!(coarsest <= (most * shrunk).max(1.0), "{coarsest} for {shrunk}, at most {most}");
    }

    /// The law of an axis with real steps, by counting parts of pixels.
    #[test]
    fn real_steps_divide_a_token_into_equal_parts(
        origin in -300..300i32,
        step in 1..9u16,
        side in (4..=32u32).prop_map(|half| 2 * half),
        extra in 1..8u8,
        length in 1..200u32,
    ) {
        let token = Token { x: origin, sx: step, sy: 1, extra_width: extra, ..Token::default() };
        let texels = token.columns(Extent::new(length, 1), side);
        let width = token.width(side);
        prop_assert_eq!((texels.unit(), width), (side, side * u32::from(step) + u32::from(extra)));
        let start = |texel: u32| i64::from(origin) * i64::from(side) + i64::from(texel * width);
        let parts = |texel: u32| -> Vec<u32> {
            let inside = |at: i64| u32::try_from(at).ok().filter(|at| *at < length * side);
            (start(texel)..start(texel + 1)).filter_map(inside).collect()
        };
        let real: Vec<_> = (0..side).filter(|texel| !parts(*texel).is_empty()).collect();
        prop_assert_eq!(texels.real().collect::<Vec<_>>(), real.clone());
        let centres: Vec<_> = real.iter().flat_map(|texel| texels.centres(*texel)).collect();
        prop_assert_eq!(centres, texels.covered().collect::<Vec<_>>());
        for texel in real {
            let parts = parts(texel);
            prop_assert_eq!(texels.parts(texel).collect::<Vec<_>>(), parts.clone());
            let mut pixels: Vec<_> = parts.iter().map(|part| part / side).collect();
            pixels.dedup();
            prop_assert_eq!(texels.pixels(texel).collect::<Vec<_>>(), pixels);
            // The part right of a centre decides.
            let middles = parts.iter().filter(|part| **part % side == side / 2).map(|part| part / side);
            prop_assert_eq!(texels.centres(texel).collect::<Vec<_>>(), middles.collect::<Vec<_>>());
        }
    }

    #[test]
    fn texels_count_their_real_pixels(
        origin in -300..300i32,
        step in 1..40u16,
        side in 1..33u32,
        length in 1..200u32,
    ) {
        let token = Token { x: origin, sx: step, sy: 1, ..Token::default() };
        let texels = token.columns(Extent::new(length, 1), 2 * side);
        let pixels = |texel: u32| -> Vec<u32> {
            let start = origin + i32::from(step) * texel.cast_signed();
            (start..start + i32::from(step)).filter_map(|at| u32::try_from(at).ok()).filter(|at| *at < length).collect()
        };
        let real: Vec<_> = (0..2 * side).filter(|texel| !pixels(*texel).is_empty()).collect();
        let found: Vec<_> = texels.real().collect();
        prop_assert_eq!(&found, &real);
        for &texel in &real {
            prop_assert_eq!(texels.pixels(texel).collect::<Vec<_>>(), pixels(texel));
        }
        let covered: Vec<_> = real.iter().flat_map(|texel| pixels(*texel)).collect();
        prop_assert_eq!(texels.covered().collect::<Vec<_>>(), covered);
        prop_assert!(!texels.read().is_empty() && texels.read().end <= length);
    }
}

#[test]
fn the_fovea_has_full_resolution_and_the_corners_do_not() {
    let case = full_hd(vec![(960.0, 540.0)]);
    let plan = case.plan(&FOVEAL);
    assert_eq!(case.step_at(&plan, 960, 540), 1);
    assert!(8 <= case.step_at(&plan, 0, 0) && 8 <= case.step_at(&plan, 1919, 1079));
    assert!(270 < plan.tokens.len());
}

#[test]
fn each_of_several_foveae_has_full_resolution() {
    let points = vec![(100.0, 100.0), (1800.0, 1000.0), (960.0, 300.0)];
    let case = full_hd(points.clone());
    let plan = case.plan(&FOVEAL);
    for (fovea, &(x, y)) in (0..).zip(&points) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "of points inside"
        )]
        let (x, y) = (x as u32, y as u32);
        assert_eq!(case.step_at(&plan, x, y), 1);
        let is_fine_and_own = |token: &&Token| token.fovea == fovea && token.sx == 1;
        let fine = plan.tokens.iter().filter(is_fine_and_own).count();
        assert!(4 <= fine, "{fine} tokens of full resolution in fovea {fovea}");
    }
}

#[test]
fn a_fixation_is_sharp_however_wide_the_fovea_is() {
    for layout in [
        Layout::Foveal { e0_px: Some(4000.0), foveae: 1, coarsest: None },
        Layout::Directional { e0_px: Some(4000.0) },
    ] {
        let case = full_hd(vec![(960.0, 540.0)]);
        let plan = case.plan(&layout);
        assert_eq!(case.step_at(&plan, 960, 540), 1, "{layout:?}");
    }
}

/// Tokens far from both fixations stay; the new fovea is sharp at once.
#[test]
fn a_saccade_is_obeyed_and_moves_no_more_than_it_must() {
    let looked_at = Some((500.0, 400.0));
    let moved = full_hd(vec![(1300.0, 700.0)]);
    let before = full_hd(vec![(500.0, 400.0)]).plan(&FOVEAL);
    let kept = Case { looked_at, ..moved.clone() }.plan(&FOVEAL);
    let fresh = moved.plan(&FOVEAL);
    assert_eq!((moved.step_at(&kept, 1300, 700), moved.step_at(&fresh, 1300, 700)), (1, 1));
    let place = |token: &Token| (token.x, token.y, token.sx);
    let places: HashSet<_> = before.tokens.iter().map(place).collect();
    let shared = |plan: &TokenPlan| {
        plan.tokens.iter().filter(|token| places.contains(&place(token))).count()
    };
    assert!(shared(&fresh) + 10 < shared(&kept), "{} {}", shared(&fresh), shared(&kept));
}

#[test]
fn relevance_draws_tokens_to_what_matters() {
    let case = full_hd(vec![(100.0, 100.0)]);
    let finest_in_last_cell = |relevance: Option<&RelevanceMap>| {
        let plan = Case { relevance: relevance.cloned(), ..case.clone() }.plan(&FOVEAL);
        let in_cell = |token: &&Token| {
            let region = token.pixel_box(case.shape.extent(), 16);
            1680 <= region.x0 && 810 <= region.y0
        };
        plan.tokens.iter().filter(in_cell).map(|token| token.sx).min()
    };
    let grid = Extent::new(8, 4);
    let map =
        RelevanceMap::new(grid, (0..grid.area()).map(|cell| if cell == 31 { 16.0 } else { 1.0 }));
    assert!(finest_in_last_cell(Some(&map)) < finest_in_last_cell(None));
}

/// A map along a line of text keeps the columns under it and gives up rows.
#[test]
fn a_directional_layout_follows_the_structure_of_the_map() {
    let grid = Extent::new(64, 36);
    let line = (0..grid.area()).map(|cell| if cell / 64 == 18 { 16.0 } else { 0.0625 });
    let case =
        Case { relevance: Some(RelevanceMap::new(grid, line)), ..full_hd(vec![(960.0, 555.0)]) };
    let plan = case.plan(&DIRECTIONAL);
    let on_line = |token: &&Token| {
        let region = token.pixel_box(case.shape.extent(), 16);
        (region.y0..region.y1).contains(&555)
    };
    let on_line: Vec<_> = plan.tokens.iter().filter(on_line).collect();
    assert!(on_line.iter().all(|token| token.sx <= token.sy), "{on_line:?}");
    assert!(on_line.iter().any(|token| token.sx < token.sy), "{on_line:?}");
}

/// As published: tokens of each ring, their order, and where the corner lies.
#[test]
fn the_presets_are_the_published_ones() {
    let case = Case { fixations: vec![(700.4, 333.7)], ..full_hd(Vec::new()) };
    for (name, width, counts) in
        [("stt172", 1280, &[16, 12, 32, 48, 64][..]), ("giava20", 288, &[4, 8, 8])]
    {
        let preset = Preset::named(name).expect("a preset");
        assert_eq!((preset.patch_side, preset.rings().width_px(16)), (16, width));
        let plan = case.plan(&Layout::Rings(preset.rings()));
        for (group, count) in (0..).zip(counts) {
            let ring: Vec<_> = plan.tokens.iter().filter(|token| token.group == group).collect();
            assert_eq!(ring.len(), *count, "{name}");
            let block = ring.iter().map(|token| token.x).min().unwrap();
            let side = 16 * i32::from(ring[0].sx);
            let columns = (ring.iter().map(|token| token.x).max().unwrap() - block) / side + 1;
            assert_eq!(block, 700 - columns * side / 2, "the floor of centre less half");
        }
        assert_eq!(
            plan.tokens.iter().map(|token| usize::from(token.group)).max(),
            Some(counts.len() - 1)
        );
    }
    let stt = case.plan(&Layout::Rings(Preset::named("stt172").unwrap().rings()));
    // The second ring: a full row of 4, two rows with one on the left and one on the right, a full row.
    let columns: Vec<_> = stt.tokens[16..28].iter().map(|token| (token.x - 636) / 32).collect();
    assert_eq!(columns, [0, 1, 2, 3, 0, 3, 0, 3, 0, 1, 2, 3]);
    let rows: Vec<_> = stt.tokens[16..28].iter().map(|token| (token.y - 269) / 32).collect();
    assert_eq!(rows, [0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 3, 3]);
}

/// A table can say what rings say.
#[test]
fn the_presets_are_tables_too() {
    for preset in PRESETS {
        let rings = Layout::Rings(preset.rings());
        // Corners lie at the floor of the fixation less half a block, so points lie half a pixel before the middles of tokens.
        let whole = full_hd(vec![(960.0, 540.0)]).plan(&rings).tokens;
        let row = |token: &Token| {
            let half = f64::from(token.width(16)) / 2.0 - 0.5;
            [f64::from(token.x) + half - 960.0, f64::from(token.y) + half - 540.0, token.sx.into()]
        };
        let rows: Vec<_> = whole.iter().map(row).collect();
        let table = Layout::Samples(Samples::new(&rows).unwrap());
        for fixation in [(700.4, 333.7), (0.0, 1080.0), (1919.97, 12.5)] {
            let case = full_hd(vec![fixation]);
            let place = |token: &Token| (token.x, token.y, token.sx, token.sy);
            let [rings, table] = [&rings, &table].map(|layout| case.plan(layout).tokens);
            assert!(rings.iter().map(place).eq(table.iter().map(place)), "{}", preset.name);
        }
    }
}

#[test]
fn tables_of_both_kinds_of_file_are_read() {
    let numbers = [-3.5_f32, 2.0, 1.0, 10.25, -7.0, 16.0];
    let singles = numbers.map(f32::to_le_bytes).concat();
    let doubles = numbers.map(|number| f64::from(number).to_le_bytes()).concat();
    let tensor = |dtype, bytes| {
        let view = TensorView::new(dtype, vec![2, 3], bytes).unwrap();
        safetensors::serialize([("table", view)], None).unwrap()
    };
    let expected = Samples::new(&[[-3.5, 2.0, 1.0], [10.25, -7.0, 16.0]]).unwrap();
    for bytes in [
        npy("'<f4'", "(2, 3)", &singles),
        npy("'<f8'", "(2, 3)", &doubles),
        tensor(Dtype::F32, &singles[..]),
        tensor(Dtype::F64, &doubles[..]),
    ] {
        assert_eq!(Samples::from_bytes(&bytes).unwrap(), expected);
    }
}

#[test]
fn what_is_no_table_is_refused_with_what_was_expected() {
    let refused = |bytes: &[u8], parts: &[&str]| {
        let error = Samples::from_bytes(bytes).unwrap_err();
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    };
    let rows = |row: [f64; 3]| npy("'<f8'", "(1, 3)", &row.map(f64::to_le_bytes).concat());
    refused(b"a table", &["neither .npy nor safetensors", "numpy.save"]);
    refused(&npy("'<i8'", "(1, 3)", &[0; 24]), &["\"<i8\"", "float32 or float64"]);
    refused(&npy("'<f4'", "(3,)", &[0; 12]), &["[3]", "[N, 3]"]);
    refused(&npy("'<f4'", "(1, 4)", &[0; 16]), &["[1, 4]", "x, y and step"]);
    refused(&npy("'<f4'", "(0, 3)", &[]), &["0 rows", "1 to 5000"]);
    refused(&npy("'<f4'", "(5001, 3)", &[0; 60_012]), &["5001 rows", "1 to 5000"]);
    refused(&npy("'<f4'", "(18446744073709551615, 3)", &[0; 12]), &["1 to 5000"]);
    refused(
        &npy("'<f4'", "(2, 3)", &[0; 12]),
        &["12 bytes", "expected 24", "write the file again"],
    );
    refused(&npy("[('a', '<f4')]", "(2, 3)", &[0; 24]), &["numbers of", "float32 or float64"]);
    refused(&npy_of("'<f4'", "True", "(1, 3)", &[0; 12]), &["columns first", "ascontiguousarray"]);
    refused(&rows([f64::NAN, 0.0, 1.0]), &["x = NaN", "row 1", "at most 32768"]);
    refused(&rows([0.0, 40_000.0, 1.0]), &["y = 40000", "row 1"]);
    for step in [0.0, 2.5, 2049.0, -1.0, f64::NAN, f64::INFINITY] {
        refused(&rows([0.0, 0.0, step]), &["step = ", "row 1", "whole number", "from 1 to 2048"]);
    }
    assert!(Samples::new(&vec![[0.0, 0.0, 1.0]; ROWS_MAX]).is_ok());
}

/// A file as NumPy writes it: a header that ends at a multiple of 64 bytes.
fn npy(dtype: &str, shape: &str, numbers: &[u8]) -> Vec<u8> {
    npy_of(dtype, "False", shape, numbers)
}

fn npy_of(dtype: &str, columns_first: &str, shape: &str, numbers: &[u8]) -> Vec<u8> {
    let header =
        format!("{{'descr': {dtype}, 'fortran_order': {columns_first}, 'shape': {shape}, }}");
    let length = (10 + header.len() + 1).next_multiple_of(64) - 10;
    let header = format!("{header:width$}\n", width = length - 1);
    let length = u16::try_from(length).unwrap().to_le_bytes();
    [&b"\x93NUMPY\x01\x00"[..], &length, header.as_bytes(), numbers].concat()
}

#[test]
fn rings_that_do_not_nest_are_refused_with_what_would() {
    let refused = |strides: &[u32], grids: &[u32]| Rings::new(strides, grids).unwrap_err();
    assert!(refused(&[1, 2], &[4]).contains("2 strides and 1 grids"));
    assert!(refused(&[], &[]).contains("1 to 8"));
    assert!(refused(&[1, 3], &[4, 4]).contains("1 * 4 must be a multiple of 3"));
    assert!(refused(&[1, 2], &[4, 5]).contains("stride 2 with grid 5 does not nest"));
    assert!(refused(&[1, 2], &[4, 2]).contains("at least 2"));
    assert!(refused(&[0], &[4]).contains("stride 0"));
    assert!(refused(&[4096], &[2]).contains("at most 2048"));
    assert!(refused(&[2048], &[9]).contains("16384"));
    assert!(refused(&[1; 9], &[2; 9]).contains("1 to 8"));
}

/// Whatever the map says: what was asked for is sharp, and more is spent on it than on anything else.
#[test]
fn a_point_that_was_asked_for_is_sharp() {
    let extent = Extent::new(1920, 1080);
    let asked = |relevance| Gaze::at(Fixation::at((603.0, 211.5), FixationReason::Look), relevance);
    for layout in trees() {
        for budget in [96, 160, 273] {
            let spec = ViewSpec { layout: layout.clone(), budget, ..ViewSpec::default() };
            let plan = |gaze: &Gaze| spec.plan(gaze, PyramidShape::new(extent), None);
            let plan_with_map = plan(&asked(far_map()));
            let is_sharp = |token: &&Token| (token.sx, token.sy) == (1, 1);
            let sharp = plan_with_map.tokens.iter().filter(is_sharp).count();
            assert!(3 * budget < 10 * sharp, "{sharp} of {budget} with {layout:?}");
            for place in [(603, 211), (625, 211), (581, 211), (603, 233), (603, 190)] {
                assert_eq!(step_over(&plan_with_map, extent, place), (1, 1), "{layout:?}");
            }
            assert_eq!(plan_with_map, plan(&asked(None)), "no map weighs on it");
        }
    }
}

/// A box of 24 x 4 patches, such as around a line of text, with two and a half times as many tokens.
#[test]
fn a_box_that_was_asked_for_is_sharp_all_over() {
    let extent = Extent::new(1920, 1080);
    let region = Region { x0: 512.0, y0: 640.0, x1: 896.0, y1: 704.0 };
    for layout in trees() {
        let spec = ViewSpec { layout: layout.clone(), budget: 240, ..ViewSpec::default() };
        for reason in [FixationReason::Look, FixationReason::Attend] {
            let fixation =
                Fixation { region: Some(region), ..Fixation::at(region.middle(), reason) };
            let plan = spec.plan(&Gaze::at(fixation, far_map()), PyramidShape::new(extent), None);
            let places = (512..896).step_by(16).flat_map(|x| [640, 656, 672, 703].map(|y| (x, y)));
            for place in places {
                assert_eq!(step_over(&plan, extent, place), (1, 1), "{layout:?} at {place:?}");
            }
        }
    }
}

/// The layouts that are trees.
fn trees() -> [Layout; 2] {
    [FOVEAL, DIRECTIONAL]
}

/// A map with all its weight in the bottom right corner.
fn far_map() -> Option<Arc<Relevance>> {
    let weight = |cell: u32| if cell == 16 * 9 - 1 { 16.0 } else { 1.0 / 16.0 };
    let map = RelevanceMap::new(Extent::new(16, 9), (0..16 * 9).map(weight));
    Some(Arc::new(Relevance { map, frame_seq: 1 }))
}

/// The steps of the token over a pixel.
fn step_over(plan: &TokenPlan, extent: Extent, (x, y): (u32, u32)) -> (u16, u16) {
    let is_over = |token: &&Token| {
        let region = token.pixel_box(extent, plan.patch_side);
        contains(region.x0..region.x1, x) && contains(region.y0..region.y1, y)
    };
    let token = plan.tokens.iter().find(is_over).expect("every pixel is covered");
    (token.sx, token.sy)
}

/// Whether layouts may have squares of `side` pixels: a level's, or with real steps.
pub(crate) fn may_be_square(side: u32, patch_side: u32) -> bool {
    let is_whole = side.is_multiple_of(patch_side);
    if is_whole {
        (side / patch_side).is_power_of_two()
    } else {
        patch_side < side && side <= 4_096
    }
}

/// The arguments of a layout.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) shape: PyramidShape,
    pub(crate) patch_side: u32,
    pub(crate) budget: usize,
    pub(crate) fixations: Vec<(f64, f64)>,
    pub(crate) relevance: Option<RelevanceMap>,
    /// Fixation of the foveal plan before.
    pub(crate) looked_at: Option<(f64, f64)>,
}

impl Case {
    pub(crate) fn plan(&self, layout: &Layout) -> TokenPlan {
        let before = self.looked_at.map(|point| {
            let fixations = vec![point];
            Self { fixations, looked_at: None, ..self.clone() }.plan(&FOVEAL)
        });
        self.plan_after(layout, before.as_ref())
    }

    fn plan_after(&self, layout: &Layout, before: Option<&TokenPlan>) -> TokenPlan {
        let foci: Vec<_> = self.fixations.iter().map(|&(x, y)| Focus::at(x, y)).collect();
        layout.plan(&PlanRequest {
            shape: self.shape,
            patch_side: self.patch_side,
            budget: self.budget,
            fixations: &foci,
            relevance: self.relevance.as_ref(),
            before,
            demand: None,
        })
    }

    fn grids(&self) -> PatchGrids {
        PatchGrids::new(self.shape, self.patch_side)
    }

    fn priority(&self, patch: Patch) -> f64 {
        let e0_px = default_e0_px(self.shape.extent(), self.patch_side);
        let relevance = self.relevance.as_ref();
        Priority { fixations: &self.fixations, e0_px, relevance, asked: &[] }
            .of(patch, self.grids())
    }

    fn leaves(&self, plan: &TokenPlan) -> Vec<Patch> {
        plan.tokens.iter().map(|&token| patch(token, self.patch_side)).collect()
    }

    /// The step of the token over a pixel.
    fn step_at(&self, plan: &TokenPlan, x: u32, y: u32) -> u16 {
        let inside = |token: &&Token| {
            let region = token.pixel_box(self.shape.extent(), self.patch_side);
            contains(region.x0..region.x1, x) && contains(region.y0..region.y1, y)
        };
        plan.tokens.iter().find(inside).expect("every pixel is covered").sx
    }
}

pub(crate) fn full_hd(fixations: Vec<(f64, f64)>) -> Case {
    let shape = PyramidShape::new(Extent::new(1920, 1080));
    Case { shape, patch_side: 16, budget: 273, fixations, relevance: None, looked_at: None }
}

fn contains(range: Range<u32>, at: u32) -> bool {
    range.contains(&at)
}

fn area(region: PixelBox) -> u64 {
    u64::from(region.x1 - region.x0) * u64::from(region.y1 - region.y0)
}

pub(crate) fn case(longest_side: u32) -> impl Strategy<Value = Case> {
    let relevance = (1..12u32, 1..12u32).prop_flat_map(|(width, height)| {
        let cells = (width * height) as usize;
        prop::collection::vec(0.0..20.0f64, cells)
            .prop_map(move |weights| RelevanceMap::new(Extent::new(width, height), weights))
    });
    let side = || prop_oneof![1..40u32, 1..=longest_side];
    let budget = prop_oneof![1..20usize, Just(273), 1..=5000usize];
    let fixations = prop::collection::vec((-0.2..1.2f64, -0.2..1.2f64), 1..=8);
    let patch_side = prop_oneof![Just(14), Just(16), (4..=32u32).prop_map(|half| 2 * half)];
    let looked_at = prop::option::of((-0.2..1.2f64, -0.2..1.2f64));
    let relevance = prop::option::of(relevance);
    (side(), side(), patch_side, budget, fixations, relevance, looked_at).prop_map(
        |(width, height, patch_side, budget, fixations, relevance, looked_at)| Case {
            shape: PyramidShape::new(Extent::new(width, height)),
            patch_side,
            budget,
            fixations: fixations
                .into_iter()
                .map(|(x, y)| (x * f64::from(width), y * f64::from(height)))
                .collect(),
            relevance,
            looked_at: looked_at.map(|(x, y)| (x * f64::from(width), y * f64::from(height))),
        },
    )
}

fn tree_or_grid() -> impl Strategy<Value = Layout> {
    prop_oneof![coarsest().prop_map(bounded), Just(DIRECTIONAL), Just(Layout::Uniform),]
}

fn any_layout() -> impl Strategy<Value = Layout> {
    let rings = rings().prop_map(|(strides, grids)| {
        Layout::Rings(Rings::new(&strides, &grids).expect("made to nest"))
    });
    let samples = rows().prop_map(|rows| Layout::Samples(Samples::new(&rows).expect("rows")));
    prop_oneof![
        tree_or_grid(),
        inset().prop_map(Layout::Inset),
        Just(Layout::Windows),
        rings,
        samples
    ]
}

/// Rows of a table, near the fixation and far from it.
fn rows() -> impl Strategy<Value = Vec<[f64; 3]>> {
    let offset =
        || prop_oneof![-50.0..50.0, -OFFSET_MAX..=OFFSET_MAX, (-40..40).prop_map(f64::from)];
    let row = (offset(), offset(), prop_oneof![Just(1), Just(2), 1..=2048_u16]);
    prop::collection::vec(row.prop_map(|(x, y, step)| [x, y, step.into()]), 1..60)
}

/// Strides and grids that nest, of blocks of at most 40 x 40 patches of the innermost ring.
fn rings() -> impl Strategy<Value = (Vec<u32>, Vec<u32>)> {
    let steps = prop::collection::vec((any::<prop::sample::Index>(), 1..3u32), 0..5);
    (1..4u32, 1..6u32, steps).prop_map(|(stride, grid, steps)| {
        let (mut strides, mut grids) = (vec![stride], vec![grid]);
        let mut width = stride * grid;
        for (divisor, thickness) in steps {
            let divisors: Vec<_> = (1..=width).filter(|stride| width % stride == 0).collect();
            let stride = *divisor.get(&divisors);
            let grid = width / stride + 2 * thickness;
            if 40 < stride * grid {
                break;
            }
            strides.push(stride);
            grids.push(grid);
            width = stride * grid;
        }
        (strides, grids)
    })
}

/// The ancestors of the leaves, up to the level that the quadtree starts from.
fn split_patches(leaves: &[Patch], start: u32) -> impl Iterator<Item = Patch> {
    leaves.iter().flat_map(move |leaf| {
        (leaf.level + 1..=start).map(|level| {
            let up = level - leaf.level;
            Patch { level, i: leaf.i >> up, j: leaf.j >> up }
        })
    })
}

fn bounded(coarsest: Option<u32>) -> Layout {
    Layout::Foveal { e0_px: None, foveae: 8, coarsest }
}

fn coarsest() -> impl Strategy<Value = Option<u32>> {
    prop::option::of(0..=11u32)
}

fn patch(token: Token, patch_side: u32) -> Patch {
    let index = |at: i32| at.cast_unsigned() / (patch_side * u32::from(token.sx));
    Patch { level: token.sx.ilog2(), i: index(token.x), j: index(token.y) }
}

fn key(token: Token, patch_side: u32) -> (u32, u64) {
    let patch = patch(token, patch_side);
    (patch.level, patch.morton())
}

/// Cases of each law: more with `FOVEATE_LONG=1`.
pub(crate) fn cases() -> u32 {
    if is_long() { 4_000 } else { 200 }
}
