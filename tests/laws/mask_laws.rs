//! A mask fills every pixel that it covers a part of, and no other but those that share a sample of chroma with one.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "places within a picture"
)]

use std::collections::BTreeSet;

use foveate_core::color::{ColorMatrix, ColorRange, ColorTransform};
use foveate_core::frame::PixelFormat;
use foveate_core::geometry::coarse::CoarseLevel;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_core::mask::{CORNERS_MAX, Mask, MaskFill, check_corners};
use proptest::prelude::*;
use testkit::naive::{OwnedFrame, Random};

proptest! {
    #[test]
    fn what_a_mask_covers_becomes_black_and_nothing_else_changes(
        format in prop::sample::select(PixelFormat::ALL.to_vec()),
        width in 1..25_u32,
        height in 1..25_u32,
        is_limited in any::<bool>(),
        polygons in prop::collection::vec(corners(), 0..3),
        seed in any::<u64>(),
    ) {
        let extent = Extent::new(width, height);
        let range = if is_limited { ColorRange::Limited } else { ColorRange::Full };
        let color = match format.is_rgb() {
            true => ColorTransform::from_rgb(range),
            false => ColorTransform::from_ycbcr(ColorMatrix::Bt709, range),
        };
        let before = OwnedFrame::random(format, extent, color, &mut Random(seed));
        let masks: Vec<_> =
            polygons.into_iter().map(|points| Mask { name: "mask".to_owned(), points }).collect();
        let fill = MaskFill::new(&masks, before.kind());
        let mut after = before.clone();
        for index in 0..format.plane_count() {
            let (plane, stride) = after.plane_mut(index);
            fill.fill(index, plane, stride);
        }

        let (block_width, block_height) = match format {
            PixelFormat::Nv12 | PixelFormat::I420 => (2, 2),
            PixelFormat::Yuy2 => (2, 1),
            _ => (1, 1),
        };
        let block = |x: u32, y: u32| (x / block_width, y / block_height);
        let blocks = |found: Vec<(u32, u32)>| -> BTreeSet<_> {
            found.into_iter().map(|(x, y)| block(x, y)).collect()
        };
        let covered = blocks(masks.iter().flat_map(|mask| covered(mask, extent)).collect());
        let touched = blocks(masks.iter().flat_map(|mask| touched(mask, extent)).collect());
        let dark = u8::try_from(color.y_offset).unwrap();
        let has_chroma = !format.is_rgb() && format != PixelFormat::Gray8;
        let black = if has_chroma { [dark, 128, 128] } else { [dark; 3] };
        let mut filled = 0;
        for (x, y) in pixels(extent) {
            let is_covered = covered.contains(&block(x, y));
            if !is_covered && after.samples(x, y) == before.samples(x, y) {
                continue;
            }
            let (rgb, is_touched) = (after.rgb(x, y), touched.contains(&block(x, y)));
            prop_assert_eq!(rgb, [0; 3], "({}, {}) of {}, {}", x, y, extent, format.name());
            prop_assert_eq!(after.samples(x, y), black, "black as the range says");
            prop_assert!(is_covered || is_touched, "({x}, {y}) of {extent}");
            filled += 1;
        }
        // What was black before cannot be told from what was filled.
        prop_assert!(filled <= fill.pixel_count());
    }
}

/// Random corners, of which some lie on pixels' edges.
fn corners() -> impl Strategy<Value = Vec<[f64; 2]>> {
    let share = prop_oneof![(0..=8_u32).prop_map(|part| f64::from(part) / 8.0), 0.0..=1.0];
    let corner = (share.clone(), share).prop_map(|(x, y)| [x, y]);
    prop::collection::vec(corner, 3..8)
        .prop_filter("corners", |corners| check_corners(corners).is_ok())
}

fn pixels(extent: Extent) -> impl Iterator<Item = (u32, u32)> {
    (0..extent.height).flat_map(move |y| (0..extent.width).map(move |x| (x, y)))
}

/// The pixels of which one of 4 x 4 points is inside.
fn covered(mask: &Mask, extent: Extent) -> Vec<(u32, u32)> {
    let place = |at: u32, step: u32| f64::from(at) + (f64::from(step) + 0.5) / 4.0;
    let holds_one = |&(x, y): &(u32, u32)| {
        (0..16).any(|step| is_inside(mask, extent, place(x, step % 4), place(y, step / 4)))
    };
    pixels(extent).filter(holds_one).collect()
}

/// The pixels whose centre is inside, and those that a side goes through, or past at a twentieth of a pixel.
fn touched(mask: &Mask, extent: Extent) -> Vec<(u32, u32)> {
    const STEPS: u32 = 1000;
    let is_around =
        |&(x, y): &(u32, u32)| is_inside(mask, extent, f64::from(x) + 0.5, f64::from(y) + 0.5);
    let mut touched: Vec<_> = pixels(extent).filter(is_around).collect();
    for (from, to) in sides(mask, extent) {
        for part in (0..=STEPS).map(|step| f64::from(step) / f64::from(STEPS)) {
            let [x, y] = [0, 1].map(|axis| from[axis] + (to[axis] - from[axis]) * part);
            // A side may cut less from the corner of a pixel than lies between two steps.
            for (left, up) in [(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0)] {
                let near = [x + (left - 0.5) * 0.1, y + (up - 0.5) * 0.1];
                let [x, y] = near.map(|at| at.max(0.0) as u32);
                touched.push((x, y));
            }
        }
    }
    touched
}

/// The sum of the angles under which the sides are seen is not 0.
fn is_inside(mask: &Mask, extent: Extent, x: f64, y: f64) -> bool {
    let turns: f64 = sides(mask, extent)
        .map(|(from, to)| {
            let [one, other] = [from, to].map(|[px, py]| (py - y).atan2(px - x));
            let turn = other - one;
            turn - (turn / std::f64::consts::TAU).round() * std::f64::consts::TAU
        })
        .sum();
    1.0 < turns.abs()
}

fn sides(mask: &Mask, extent: Extent) -> impl Iterator<Item = ([f64; 2], [f64; 2])> {
    let scale = move |[x, y]: [f64; 2]| [x * f64::from(extent.width), y * f64::from(extent.height)];
    let points = &mask.points;
    (0..points.len()).map(move |at| (scale(points[at]), scale(points[(at + 1) % points.len()])))
}

#[test]
fn a_pixel_aligned_rectangle_fills_exactly_its_pixels() {
    let frame =
        OwnedFrame::uniform(PixelFormat::Gray8, Extent::new(8, 8), ColorTransform::IDENTITY, 255);
    let count =
        |sides: [f64; 4]| MaskFill::new(&[Mask::rectangle("m", sides)], frame.kind()).pixel_count();
    assert_eq!(count([0.25, 0.25, 0.75, 0.75]), 16);
    assert_eq!(count([0.0, 0.0, 1.0, 1.0]), 64);
    // A little beyond an edge, it has a part of the pixels behind.
    assert_eq!(count([0.25, 0.25, 0.751, 0.75]), 20);
    assert_eq!(count([0.3, 0.3, 0.31, 0.31]), 1);
}

/// Whatever rounding makes of the corner's share of the picture.
#[test]
fn a_corner_on_the_edge_of_a_pixel_fills_nothing_beyond() {
    for (width, height) in [(131, 77), (1366, 49), (1920, 23), (4093, 7)] {
        let extent = Extent::new(width, height);
        let frame = OwnedFrame::uniform(PixelFormat::Bgrx, extent, ColorTransform::IDENTITY, 255);
        for right in 1..width {
            let (left, bottom) = (right / 2, 1 + right % (height - 1));
            let share = |at: u32, length: u32| f64::from(at) / f64::from(length);
            let sides = [share(left, width), 0.0, share(right, width), share(bottom, height)];
            let fill = MaskFill::new(&[Mask::rectangle("m", sides)], frame.kind());
            let wanted = u64::from((right - left) * bottom);
            assert_eq!(fill.pixel_count(), wanted, "to ({right}, {bottom}) of {extent}");
        }
    }
}

#[test]
fn coarse_texels_are_those_over_filled_pixels() {
    let extent = Extent::new(531, 203);
    let level = CoarseLevel::level_of(PyramidShape::new(extent));
    let points = vec![[0.1, 0.2], [0.97, 0.31], [0.6, 0.93], [1.0, 1.0], [0.3, 0.77]];
    for format in PixelFormat::ALL {
        let mut frame = OwnedFrame::uniform(format, extent, ColorTransform::IDENTITY, 255);
        let fill =
            MaskFill::new(&[Mask { name: "m".to_owned(), points: points.clone() }], frame.kind());
        for index in 0..format.plane_count() {
            let (plane, stride) = frame.plane_mut(index);
            fill.fill(index, plane, stride);
        }
        let filled = pixels(extent).filter(|(x, y)| frame.samples(*x, *y)[0] != 255);
        let wanted: BTreeSet<_> = filled.map(|(x, y)| (x >> level, y >> level)).collect();
        let found: BTreeSet<_> = fill.coarse_texels().iter().collect();
        assert_eq!(found, wanted, "{}", format.name());
    }
}

/// It counts once where masks lie over each other.
#[test]
fn a_pixel_under_two_masks_is_filled_once() {
    let frame =
        OwnedFrame::uniform(PixelFormat::Nv12, Extent::new(64, 48), ColorTransform::IDENTITY, 255);
    let masks = [
        Mask::rectangle("one", [0.0, 0.0, 0.5, 0.5]),
        Mask::rectangle("other", [0.25, 0.25, 0.75, 0.5]),
    ];
    assert_eq!(MaskFill::new(&masks, frame.kind()).pixel_count(), 32 * 24 + 16 * 12);
}

#[test]
fn mask_corners_are_validated() {
    let ring = |count: usize| -> Vec<_> {
        (0..count)
            .map(|at| at as f64 / count as f64 * std::f64::consts::TAU)
            .map(|angle| [0.5 + 0.4 * angle.cos(), 0.5 + 0.4 * angle.sin()])
            .collect()
    };
    for count in [3, CORNERS_MAX] {
        assert_eq!(check_corners(&ring(count)), Ok(()));
    }
    for count in [0, 2, CORNERS_MAX + 1] {
        let refused = check_corners(&ring(count)).unwrap_err();
        assert!(refused.contains(&format!("{count} corners")), "{refused}");
    }
    for wrong in [-0.01, 1.01, f64::NAN, f64::INFINITY] {
        let refused = check_corners(&[[0.0, 0.0], [wrong, 0.5], [0.0, 1.0]]).unwrap_err();
        assert!(refused.contains(&format!("corner {wrong},0.5 is outside")), "{refused}");
    }
    for line in [
        [[0.1, 0.0], [0.1, 0.5], [0.1, 1.0], [0.1, 0.2]],
        [[0.1, 0.3], [0.5, 0.3], [0.9, 0.3], [0.1, 0.3]],
        [[0.1, 0.1], [0.3, 0.3], [0.7, 0.7], [0.2, 0.2]],
    ] {
        assert!(check_corners(&line).unwrap_err().contains("on one line"), "{line:?}");
    }
}
