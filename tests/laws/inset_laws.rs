//! The layout `inset`: its base covers the picture and stays, its blocks are fine and lie where they should, and the budget is used.

#![allow(clippy::cast_possible_truncation, reason = "places in pictures")]

use std::collections::HashSet;

use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::Focus;
use foveate_core::geometry::plan::{Token, TokenPlan};
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_core::geometry::region::{PixelBox, Region};
use foveate_gaze::layout::inset::Inset;
use foveate_gaze::layout::{Layout, PlanRequest};
use proptest::prelude::*;

use crate::layout_laws::{Case, case, cases, full_hd, may_be_square};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn base_and_blocks_cover_every_pixel(case in case(400), inset in inset(), foci in foci()) {
        let (plan, extent) = (plan(&case, inset, &foci), case.shape.extent());
        let mut covered = vec![false; extent.area()];
        for region in plan.tokens.iter().map(|token| token.pixel_box(extent, case.patch_side)) {
            prop_assert!(!region.is_empty());
            for y in region.y0..region.y1 {
                let row = (y * extent.width) as usize;
                covered[row + region.x0 as usize..row + region.x1 as usize].fill(true);
            }
        }
        prop_assert!(covered.iter().all(|is_covered| *is_covered));
    }

    #[test]
    fn only_base_tokens_under_a_block_are_left_out(case in case(16_384), inset in inset(), foci in foci()) {
        let case = Case { fixations: case.fixations[..1].to_vec(), ..case };
        let (plan, extent) = (plan(&case, inset, &foci), case.shape.extent());
        let (base, blocks) = parts(&plan);
        prop_assume!(!base.is_empty());
        let side = base[0].width(case.patch_side);
        let grid = extent.in_cells(side);
        let kept: HashSet<_> = base.iter().map(|token| (token.x, token.y)).collect();
        let lies: Vec<_> = blocks.iter().map(|block| box_of(block, extent, case.patch_side)).collect();
        for (column, row) in (0..grid.height).flat_map(|row| (0..grid.width).map(move |at| (at, row))) {
            let token = Token::square((column * side).cast_signed(), (row * side).cast_signed(), side, case.patch_side);
            let region = token.pixel_box(extent, case.patch_side);
            let is_under = lies.iter().any(|block| contains(*block, region));
            prop_assert!(kept.contains(&(token.x, token.y)) || is_under, "{:?}", region);
        }
        prop_assert!(kept.len() <= grid.area());
        prop_assert!(base.iter().all(|token| token.x % side.cast_signed() == 0 && token.y % side.cast_signed() == 0));
    }

    /// A new gaze changes only tokens in and under the blocks.
    #[test]
    fn the_base_stays_wherever_the_view_looks(case in case(4_096), inset in inset(), other in (0.0..1.0f64, 0.0..1.0f64)) {
        let Extent { width, height } = case.shape.extent();
        let moved = (other.0 * f64::from(width), other.1 * f64::from(height));
        let one = |at: (f64, f64)| Case { fixations: vec![at], ..case.clone() }.plan(&Layout::Inset(inset));
        let (here, there) = (one(case.fixations[0]), one(moved));
        let (base, _) = parts(&here);
        let (base_there, blocks_there) = parts(&there);
        let places: HashSet<_> = base_there.iter().map(|token| (token.x, token.y, token.width(case.patch_side))).collect();
        let lies: Vec<_> = blocks_there.iter().map(|block| box_of(block, case.shape.extent(), case.patch_side)).collect();
        for token in base {
            let is_under = lies.iter().any(|block| contains(*block, token.pixel_box(case.shape.extent(), case.patch_side)));
            prop_assert!(is_under || places.contains(&(token.x, token.y, token.width(case.patch_side))));
        }
    }

    #[test]
    fn blocks_are_grids_of_squares_after_the_base(case in case(16_384), inset in inset(), foci in foci()) {
        let plan = plan(&case, inset, &foci);
        prop_assert!(plan.tokens.is_sorted_by_key(|token| (token.group, token.y, token.x)));
        let (base, blocks) = parts(&plan);
        for (index, squares) in std::iter::once(&base).chain(&blocks).enumerate().filter(|(_, squares)| !squares.is_empty()) {
            let side = squares[0].width(case.patch_side);
            prop_assert!(may_be_square(side, case.patch_side));
            let whole = side.cast_signed();
            for token in squares {
                prop_assert_eq!((token.width(case.patch_side), token.height(case.patch_side)), (side, side));
                prop_assert!(0 <= token.x && 0 <= token.y);
                prop_assert_eq!((token.x - squares[0].x) % whole, 0);
                prop_assert_eq!((token.y - squares[0].y) % whole, 0);
                prop_assert!(index == 0 || token.fovea + 1 == token.group);
            }
            // What can be read from a level is.
            let step = whole / i32::try_from(case.patch_side).unwrap();
            let is_whole = whole % i32::try_from(case.patch_side).unwrap() == 0;
            prop_assert!(!is_whole || (squares[0].x % step == 0 && squares[0].y % step == 0));
            // Blocks are finer than the base.
            prop_assert!(index == 0 || base.is_empty() || side < base[0].width(case.patch_side));
        }
    }

    #[test]
    fn a_fixation_without_a_region_is_at_the_least_step(case in case(4_096), inset in inset()) {
        let case = Case { fixations: case.fixations[..1].to_vec(), ..case };
        let plan = case.plan(&Layout::Inset(inset));
        let (base, blocks) = parts(&plan);
        prop_assume!(!blocks[0].is_empty());
        let side = blocks[0][0].width(case.patch_side);
        let least = f64::from(case.patch_side) * inset.min_step;
        prop_assert!(least <= f64::from(side));
        let between = (least.ceil() as u32)..side;
        prop_assert!(between.into_iter().all(|side| !may_be_square(side, case.patch_side)));
        let extent = case.shape.extent();
        let pixel = |at: f64, length: u32| (((at * 16.0).round() / 16.0).max(0.0) as u32).min(length - 1);
        let (x, y) = case.fixations[0];
        let (x, y) = (pixel(x, extent.width), pixel(y, extent.height));
        let is_over = |token: &&Token| {
            let PixelBox { x0, y0, x1, y1 } = token.pixel_box(extent, case.patch_side);
            (x0..x1).contains(&x) && (y0..y1).contains(&y)
        };
        prop_assert!(blocks[0].iter().any(|token| is_over(&token)), "{x} {y}");
        prop_assert!(base.is_empty() || side < base[0].width(case.patch_side));
    }

    #[test]
    fn a_region_is_covered_by_its_block_at_the_least_step(case in case(4_096), inset in inset(), region in share_region(), share in 0.05..0.9f64, is_asked: bool) {
        let extent = case.shape.extent();
        let region = region_in(extent, region);
        let focus =
            Focus { region: Some(region), share: Some(share), own_share: is_asked.then_some(0.8), ..Focus::at(0.0, 0.0) };
        let plan = planned(&case, inset, &[focus]);
        let (_, blocks) = parts(&plan);
        prop_assume!(!blocks[0].is_empty());
        let lies = box_of(&blocks[0], extent, case.patch_side);
        let inner = pixels(region, extent);
        prop_assert!(contains(lies, inner), "{lies:?} {inner:?}");
        // One pixel less, and the squares would be too few.
        let side = blocks[0][0].width(case.patch_side);
        let at_least = f64::from(case.patch_side) * if is_asked { 1.0 } else { inset.min_step };
        let shorter = (at_least.ceil() as u32..side).rev().find(|side| may_be_square(*side, case.patch_side));
        if let Some(shorter) = shorter {
            // With margin, and wherever a level's texels begin.
            let needed = |length: u32| (length + shorter / 2 + shorter / case.patch_side).div_ceil(shorter) as usize;
            let most = needed(inner.x1 - inner.x0) * needed(inner.y1 - inner.y0);
            prop_assert!(share * (case.budget as f64) < most as f64 + 0.5, "{most}");
        }
    }

    #[test]
    fn a_fixation_gets_the_share_that_it_carries(case in case(4_096), share in 0.0..1.0f64) {
        let inset = Inset::default();
        let focus = |share| Focus { share, ..Focus::at(case.fixations[0].0, case.fixations[0].1) };
        let own = planned(&case, inset, &[focus(Some(share))]);
        let same = planned(&case, Inset { share, ..inset }, &[focus(None)]);
        prop_assert_eq!(own, same);
    }

    #[test]
    fn a_plan_of_no_block_is_uniform(case in case(16_384)) {
        let none = Inset { share: 0.0, ..Inset::default() };
        let case = Case { fixations: vec![(0.0, 0.0)], ..case };
        let places = |plan: TokenPlan| plan.tokens.into_iter().map(|token| Token { group: 0, ..token }).collect::<Vec<_>>();
        prop_assert_eq!(places(case.plan(&Layout::Inset(none))), places(case.plan(&Layout::Uniform)));
    }
}

/// 1080p with the default budget: what the layout is for.
#[test]
fn a_full_hd_plan_has_a_fine_base_and_finer_blocks() {
    let points = vec![(960.0, 540.0), (200.0, 200.0), (1700.0, 900.0), (960.0, 200.0)];
    let plan = full_hd(points).plan(&Layout::Inset(Inset::default()));
    let (base, blocks) = parts(&plan);
    assert_eq!(base[0].width(16), 97);
    for block in &blocks[..4] {
        assert_eq!(block[0].width(16), 24);
        assert!((6..=9).contains(&block.len()), "{}", block.len());
    }
    assert!(270 <= plan.tokens.len(), "{}", plan.tokens.len());
}

#[test]
fn point_that_is_asked_for_gets_most_of_the_budget() {
    let focus = Focus { own_share: Some(0.8), ..Focus::at(960.0, 540.0) };
    let plan = planned(&full_hd(Vec::new()), Inset::default(), &[focus]);
    let lies = box_of(&parts(&plan).1[0], Extent::new(1920, 1080), 16);
    let (columns, rows) = ((lies.x1 - lies.x0) / 16, (lies.y1 - lies.y0) / 16);
    assert!((200..=240).contains(&(columns * rows)), "{columns} x {rows}");
    assert!((3 * rows..=5 * rows).contains(&(2 * columns)), "{columns} x {rows}");
    assert_eq!(parts(&plan).1[0][0].width(16), 16);
}

/// However many the view chose, and beside something small that is asked for.
#[test]
fn base_is_the_same_for_any_count_of_blocks() {
    let points = [(960.0, 540.0), (200.0, 200.0), (1700.0, 900.0), (960.0, 200.0)];
    let points = points.map(|(x, y)| Focus::at(x, y));
    let region = Region { x0: 400.0, y0: 800.0, x1: 440.0, y1: 830.0 };
    let small = Focus { region: Some(region), own_share: Some(0.8), ..Focus::at(420.0, 815.0) };
    let base_side = |foci: &[Focus]| {
        parts(&planned(&full_hd(Vec::new()), Inset::default(), foci)).0[0].width(16)
    };
    for count in 1..=4 {
        assert_eq!(base_side(&points[..count]), 97, "{count} blocks");
        let beside = [&[small], &points[..count - 1]].concat();
        assert_eq!(base_side(&beside), 97, "{} blocks beside a small one", count - 1);
    }
}

/// A requested region is at full resolution where most of the budget suffices, and takes no more than that.
#[test]
fn region_that_is_asked_for_gets_what_it_needs() {
    let case = full_hd(Vec::new());
    for (width, side, most) in [(84.0, 16, 40), (600.0, 16, 160), (1900.0, 28, 240)] {
        let region = Region { x0: 10.0, y0: 400.0, x1: 10.0 + width, y1: 444.0 };
        let focus = Focus { region: Some(region), own_share: Some(0.8), ..Focus::at(50.0, 420.0) };
        let plan = planned(&case, Inset::default(), &[focus]);
        let (_, blocks) = parts(&plan);
        assert!(contains(
            box_of(&blocks[0], case.shape.extent(), 16),
            pixels(region, case.shape.extent())
        ));
        assert!(blocks[0][0].width(16) <= side, "{width}: {}", blocks[0][0].width(16));
        assert!(blocks[0].len() <= most, "{width}: {}", blocks[0].len());
    }
}

#[test]
fn a_line_of_text_gets_a_wide_block() {
    let case = full_hd(Vec::new());
    let region = Region { x0: 600.0, y0: 400.0, x1: 1300.0, y1: 430.0 };
    let focus = Focus { region: Some(region), ..Focus::at(950.0, 415.0) };
    let inset = Inset { share: 0.2, blocks: 1, min_step: 1.0, aspect: 1.0 };
    let plan = planned(&case, inset, &[focus]);
    let (_, blocks) = parts(&plan);
    let lies = box_of(&blocks[0], case.shape.extent(), 16);
    assert!(contains(lies, pixels(region, case.shape.extent())), "{lies:?}");
    let side = blocks[0][0].width(16);
    assert!(side <= 26, "{side}");
}

#[test]
fn a_small_picture_is_at_full_resolution_without_blocks() {
    let extent = Extent::new(256, 256);
    let case = Case { shape: PyramidShape::new(extent), ..full_hd(vec![(10.0, 10.0)]) };
    let plan = case.plan(&Layout::Inset(Inset::default()));
    assert_eq!(plan, TokenPlan { patch_side: 16, tokens: case.plan(&Layout::Uniform).tokens });
    assert_eq!(plan.tokens.len(), 256);
}

#[test]
fn several_fixations_share_the_blocks() {
    let points = vec![(200.0, 200.0), (1700.0, 900.0), (960.0, 300.0)];
    let inset = Inset { share: 0.2, blocks: 3, min_step: 1.0, aspect: 1.0 };
    let plan = full_hd(points).plan(&Layout::Inset(inset));
    let (_, blocks) = parts(&plan);
    for block in &blocks[..3] {
        assert!((16..=25).contains(&block.len()), "{}", block.len());
        assert_eq!(block[0].width(16), 16);
    }
}

/// Tokens of the base, and of each block.
fn parts(plan: &TokenPlan) -> (Vec<Token>, Vec<Vec<Token>>) {
    let of =
        |group: u16| plan.tokens.iter().filter(|token| token.group == group).copied().collect();
    (of(0), (1..=8).map(of).collect())
}

/// The real pixels under the grid that these squares are of.
fn box_of(squares: &[Token], extent: Extent, patch_side: u32) -> PixelBox {
    let boxes = squares.iter().map(|token| token.pixel_box(extent, patch_side));
    let outer = boxes.reduce(|a, b| PixelBox {
        x0: a.x0.min(b.x0),
        y0: a.y0.min(b.y0),
        x1: a.x1.max(b.x1),
        y1: a.y1.max(b.y1),
    });
    outer.unwrap_or(PixelBox { x0: 0, y0: 0, x1: 0, y1: 0 })
}

fn contains(outer: PixelBox, inner: PixelBox) -> bool {
    outer.x0 <= inner.x0 && inner.x1 <= outer.x1 && outer.y0 <= inner.y0 && inner.y1 <= outer.y1
}

/// The whole pixels under a region.
fn pixels(region: Region, extent: Extent) -> PixelBox {
    let along = |start: f64, end: f64, length: u32| {
        let length = f64::from(length);
        (start.floor().clamp(0.0, length) as u32)..(end.ceil().clamp(0.0, length) as u32)
    };
    PixelBox::of(
        along(region.x0, region.x1, extent.width),
        along(region.y0, region.y1, extent.height),
    )
}

fn plan(case: &Case, inset: Inset, foci: &[(f64, [f64; 4])]) -> TokenPlan {
    let extent = case.shape.extent();
    let foci = foci.iter().zip(&case.fixations).map(|(&(kind, region), &(x, y))| {
        let own_share = ((20.0 * kind) as u32).is_multiple_of(2).then_some(0.8);
        let region = (kind < 0.5).then(|| region_in(extent, region));
        Focus { region, share: (0.9 < kind).then_some(kind - 0.5), own_share, ..Focus::at(x, y) }
    });
    planned(case, inset, &foci.collect::<Vec<_>>())
}

fn planned(case: &Case, inset: Inset, fixations: &[Focus]) -> TokenPlan {
    Layout::Inset(inset).plan(&PlanRequest {
        shape: case.shape,
        patch_side: case.patch_side,
        budget: case.budget,
        fixations,
        relevance: None,
        before: None,
        demand: None,
    })
}

/// A region from shares of the picture: place, and sides.
fn region_in(extent: Extent, [x, y, width, height]: [f64; 4]) -> Region {
    let (x0, y0) = (x * f64::from(extent.width), y * f64::from(extent.height));
    let (x1, y1) =
        (x0 + width * f64::from(extent.width) + 0.1, y0 + height * f64::from(extent.height) + 0.1);
    Region { x0, y0, x1, y1 }
}

fn share_region() -> impl Strategy<Value = [f64; 4]> {
    [-0.1..0.99f64, -0.1..0.99f64, 0.11..0.6f64, 0.11..0.6f64]
}

fn foci() -> impl Strategy<Value = Vec<(f64, [f64; 4])>> {
    prop::collection::vec((0.0..1.0f64, share_region()), 8)
}

pub(crate) fn inset() -> impl Strategy<Value = Inset> {
    let min_step = prop_oneof![Just(1.0), 1.0..8.0f64];
    (0.0..0.95f64, 1..=8u32, min_step, 0.1..10.0f64)
        .prop_map(|(share, blocks, min_step, aspect)| Inset { share, blocks, min_step, aspect })
}
