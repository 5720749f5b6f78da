//! The ego motion that a client knows takes places of then to where they are now: as a camera does that turns, through any lens.

#![allow(clippy::cast_possible_truncation, reason = "weights of a test")]

use foveate_core::camera::Edit;
use foveate_core::camera::rays::Rays;
use foveate_core::ego::{EgoMotion, EgoMotionError, EgoTransform};
use foveate_core::geometry::attention::AttentionMap;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::region::Region;
use proptest::prelude::*;

use crate::depth_rays::{K, LENSES, bent, rays};

const IMAGE: Extent = Extent::new(640, 480);
const MIDDLE: (f64, f64) = (K[2] + 0.5, K[5] + 0.5);

proptest! {
    /// Two directions, before and after a turn, each through the lens by the formulas of OpenCV's documentation.
    #[test]
    fn a_turn_takes_a_pixel_to_where_its_light_arrives_then(
        x in -0.45..0.45_f64, y in -0.35..0.35_f64,
        axis in prop::array::uniform3(-1.0..1.0_f64), angle in -0.6..0.6_f64, length in 0.99..1.01_f64,
    ) {
        prop_assume!(0.1 < norm(axis));
        for (distortion, coefficients) in LENSES {
            let pixel = |[x, y]: [f64; 2]| {
                let [x, y] = bent(distortion, coefficients, [x, y]);
                (K[0] * x + MIDDLE.0, K[4] * y + MIDDLE.1)
            };
            let direction = rodrigues(axis, angle, [x, y, 1.0]);
            let turned = [direction[0] / direction[2], direction[1] / direction[2]];
            let lens = rays(distortion, coefficients, Edit::default(), IMAGE);
            let quaternion = quaternion(axis, angle).map(|part| part * length);
            let transform = EgoTransform::of(EgoMotion::Rotation(quaternion), IMAGE, Some(lens)).unwrap();
            let (then, now) = (pixel([x, y]), transform.now(pixel([x, y])));
            // Where these lenses still tell rays apart.
            let is_seen = 0.1 < direction[2] && turned[0].abs() < 0.5 && turned[1].abs() < 0.4;
            let expected = pixel(turned);
            if is_seen && inside(expected) {
                let now = now.expect("it is in the picture");
                prop_assert!(distance(now, expected) < 0.01, "{distortion}: {now:?} for {expected:?}");
                let back = transform.then(now).expect("it was in the picture");
                prop_assert!(distance(back, then) < 0.02, "{distortion}: {back:?} for {then:?}");
            } else if let Some(now) = now {
                prop_assert!(inside(now) && 0.0 < direction[2], "{now:?}");
            }
        }
    }

    /// The homography K R K^-1 is the turn of a pinhole camera; with any factor it is the same.
    #[test]
    fn a_turn_without_a_lens_is_a_homography(
        axis in prop::array::uniform3(-1.0..1.0_f64), angle in -3.1..3.1_f64,
        place in (0.0..640.0_f64, 0.0..480.0_f64), factor in prop_oneof![-1e6..-1e-6_f64, 1e-6..1e6_f64],
    ) {
        prop_assume!(0.1 < norm(axis));
        let columns = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]].map(|unit| {
            let [x, y, z] = unit;
            let ray = [(x - MIDDLE.0 * z) / K[0], (y - MIDDLE.1 * z) / K[4], z];
            let [x, y, z] = rodrigues(axis, angle, ray);
            [K[0] * x + MIDDLE.0 * z, K[4] * y + MIDDLE.1 * z, z]
        });
        let cells = std::array::from_fn(|cell| factor * columns[cell % 3][cell / 3]);
        let lens = rays("", &[], Edit::default(), IMAGE);
        let turn = EgoTransform::of(EgoMotion::Rotation(quaternion(axis, angle)), IMAGE, Some(lens)).unwrap();
        let homography = EgoTransform::of(EgoMotion::Homography(cells), IMAGE, None).unwrap();
        for (one, other) in [(turn.now(place), homography.now(place)), (turn.then(place), homography.then(place))] {
            match (one, other) {
                (Some(one), Some(other)) => prop_assert!(distance(one, other) < 1e-3, "{one:?} {other:?}"),
                // At the very edge one of them may be beside the picture.
                (Some(at), None) | (None, Some(at)) => prop_assert!(!well_inside(at), "{at:?}"),
                (None, None) => {}
            }
        }
    }

    /// A general homography, as of a plane before a camera that goes somewhere: back and forth.
    #[test]
    fn a_homography_goes_back_where_it_came_from(
        parts in prop::array::uniform9(-0.2..0.2_f64), place in (0.0..640.0_f64, 0.0..480.0_f64),
    ) {
        let [a, b, c, d, e, f, g, h, i] = parts;
        let cells = [1.0 + a, b, 640.0 * c, d, 1.0 + e, 640.0 * f, g / 640.0, h / 640.0, 1.0 + i];
        let transform = EgoTransform::of(EgoMotion::Homography(cells), IMAGE, None).unwrap();
        let w = cells[6] * place.0 + cells[7] * place.1 + cells[8];
        let expected = (
            (cells[0] * place.0 + cells[1] * place.1 + cells[2]) / w,
            (cells[3] * place.0 + cells[4] * place.1 + cells[5]) / w,
        );
        match transform.now(place) {
            Some(now) => {
                prop_assert!(distance(now, expected) < 1e-6, "{now:?} {expected:?}");
                let back = transform.then(now).unwrap_or(place);
                prop_assert!(distance(back, place) < 1e-6, "{back:?} {place:?}");
            }
            None => prop_assert!(!well_inside(expected), "{expected:?}"),
        }
    }

    /// Whatever the numbers, and wherever the map lies: what comes out of it is a map, with a peak in the picture.
    #[test]
    fn of_any_numbers_comes_a_map_or_none(
        cells in prop::array::uniform9(prop_oneof![prop::num::f64::ANY, -2.0..2.0_f64]),
        corner in (-1e4..600.0_f64, -1e4..400.0_f64), size in (1e-6..1e6_f64, 1e-6..1e6_f64),
        weights in prop::collection::vec(0.0..=f32::MAX, 12), place in (prop::num::f64::ANY, prop::num::f64::ANY),
    ) {
        let region = Region { x0: corner.0, y0: corner.1, x1: corner.0 + size.0, y1: corner.1 + size.1 };
        let map = AttentionMap::new(Extent::new(4, 3), region, IMAGE, weights);
        if let Ok(transform) = EgoTransform::of(EgoMotion::Homography(cells), IMAGE, None) {
            prop_assert!(transform.now(place).is_none_or(inside) && transform.then(place).is_none_or(inside));
            if let Some(moved) = map.ok().and_then(|map| transform.map_now(&map)) {
                let peak = moved.peak();
                prop_assert!(inside((peak.x, peak.y)) && 0.0 < peak.weight, "{moved:?}");
                prop_assert!(moved.weights().iter().all(|weight| weight.is_finite() && 0.0 <= *weight));
            }
        }
    }

    /// A map of one cell leads to where that cell is now, to within two of its cells; and so does a map over a part of the picture that
    /// moves beyond what it covered.
    #[test]
    fn a_map_moves_as_its_places_do(
        column in 0..24_usize, row in 0..18_usize, angle in -0.3..0.3_f64, roll in -0.3..0.3_f64, part in any::<bool>(),
    ) {
        let region = if part { Region { x0: 200.0, y0: 150.0, x1: 440.0, y1: 330.0 } } else { Region::of(IMAGE) };
        let grid = Extent::new(24, 18);
        let mut weights = vec![0.0; grid.area()];
        weights[row * 24 + column] = 1.0;
        let map = AttentionMap::new(grid, region, IMAGE, weights).unwrap();
        let cell = ((region.x1 - region.x0) / 24.0, (region.y1 - region.y0) / 18.0);
        let then = (region.x0 + (column as f64 + 0.5) * cell.0, region.y0 + (row as f64 + 0.5) * cell.1);
        let lens = rays(LENSES[1].0, LENSES[1].1, Edit::default(), IMAGE);
        let turn = EgoMotion::Rotation(quaternion([0.0, angle, roll], norm([0.0, angle, roll])));
        let transform = EgoTransform::of(turn, IMAGE, Some(lens)).unwrap();
        let cells = 2.0 * cell.0.max(cell.1);
        let moved = transform.map_now(&map);
        if let Some(now) = transform.now(then).filter(|now| well_inside(*now)) {
            let peak = moved.as_ref().expect("it is in the picture").peak();
            prop_assert!(distance((peak.x, peak.y), now) < cells, "{peak:?} for {now:?}");
        }
        // A corner of the cell may be there without its middle.
        if let Some(moved) = moved {
            let origin = transform.then((moved.peak().x, moved.peak().y)).expect("it was in the picture");
            prop_assert!(distance(origin, then) < cells, "{origin:?} for {then:?}");
        }
    }
}

/// A map that says of each place how far right it is says of each place of now how far right it was then; beside the edges, where some of
/// it was not in the picture.
#[test]
fn a_map_moves_as_exactly_as_its_places() {
    let grid = Extent::new(128, 128);
    let right = |cell: usize| ((cell % 128) as f32 + 0.5) * 5.0;
    let weights = (0..grid.area()).map(right).collect();
    let map = AttentionMap::new(grid, Region::of(IMAGE), IMAGE, weights).unwrap();
    for (name, coefficients) in LENSES {
        let lens = rays(name, coefficients, Edit::default(), IMAGE);
        let turn = EgoMotion::Rotation(quaternion([0.3, 1.0, 0.5], 0.2));
        let transform = EgoTransform::of(turn, IMAGE, Some(lens)).unwrap();
        let moved = transform.map_now(&map).unwrap();
        let Region { x0, y0, x1, y1 } = moved.region();
        let mut compared = 0;
        for (cell, weight) in moved.weights().iter().enumerate() {
            let x = x0 + (x1 - x0) * ((cell % 128) as f64 + 0.5) / 128.0;
            let y = y0 + (y1 - y0) * ((cell / 128) as f64 + 0.5) / 128.0;
            let Some((then, _)) = transform.then((x, y)) else { continue };
            if (5.0..635.0).contains(&then) && *weight != 0.0 {
                assert!((f64::from(*weight) - then).abs() < 0.5, "{name}: {weight} for {then}");
                compared += 1;
            }
        }
        assert!(6000 < compared, "{name}: {compared}");
    }
}

/// The camera turns to its right by 10 degrees, so what was ahead is to its left: p_now = R p_then.
#[test]
fn turning_right_moves_the_scene_left() {
    let half = (-10.0_f64).to_radians() / 2.0;
    let turn = EgoMotion::Rotation([0.0, half.sin(), 0.0, half.cos()]);
    let lens = rays("", &[], Edit::default(), IMAGE);
    let (x, y) = EgoTransform::of(turn, IMAGE, Some(lens)).unwrap().now(MIDDLE).unwrap();
    let expected = MIDDLE.0 - K[0] * 10.0_f64.to_radians().tan();
    assert!((x - expected).abs() < 1e-9 && (y - MIDDLE.1).abs() < 1e-9, "{x} {y}");
}

#[test]
fn a_still_camera_leaves_feedback_unchanged() {
    let map = hump(Region::of(IMAGE));
    for lens in LENSES {
        let lens = rays(lens.0, lens.1, Edit::default(), IMAGE);
        let turn = EgoTransform::of(EgoMotion::Rotation([0.0, 0.0, 0.0, -1.0]), IMAGE, Some(lens));
        let (x, y) = turn.unwrap().now((500.0, 100.0)).unwrap();
        assert!((x - 500.0).abs() < 0.01 && (y - 100.0).abs() < 0.01, "{x} {y}");
    }
    let identity = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0].map(|cell| 7.0 * cell);
    let same = EgoTransform::of(EgoMotion::Homography(identity), IMAGE, None).unwrap();
    assert_eq!(same.now((17.25, 480.0)), Some((17.25, 480.0)));
    assert_eq!(same.map_now(&map), Some(map));
}

/// What a lens cannot show is not in the picture again, though its polynomial turns back there.
#[test]
fn a_place_that_leaves_the_lens_does_not_come_back() {
    let lens = rays("plumb_bob", &[-0.31, 0.0, 0.0, 0.0, 0.0], Edit::default(), IMAGE);
    // From a slope of 0.5 to one of 1.75; beyond 1.04 the derivative, 1 - 0.93 r^2, is below 0.
    let then = lens.pixel_from([-0.5, 0.0, 1.0]).unwrap();
    let half = (-33.7_f64).to_radians() / 2.0;
    let turn = EgoMotion::Rotation([0.0, half.sin(), 0.0, half.cos()]);
    let folded = bent("plumb_bob", &[-0.31], [slope(-0.5, -33.7), 0.0]);
    let folded = K[0] * folded[0] + MIDDLE.0;
    assert!((0.0..640.0).contains(&folded), "the polynomial alone has it at {folded}");
    assert_eq!(EgoTransform::of(turn, IMAGE, Some(lens)).unwrap().now(then), None);
}

/// The slope of a ray of slope `slope` after a turn about the axis that points down.
fn slope(slope: f64, degrees: f64) -> f64 {
    let [x, _, z] = rodrigues([0.0, 1.0, 0.0], degrees.to_radians(), [slope, 0.0, 1.0]);
    x / z
}

#[test]
fn places_behind_or_beside_the_picture_vanish() {
    let lens = rays("", &[], Edit::default(), IMAGE);
    let half_turn = EgoMotion::Rotation([0.0, 1.0, 0.0, 0.0]);
    let behind = EgoTransform::of(half_turn, IMAGE, Some(lens)).unwrap();
    let beside = [1.0, 0.0, 641.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0];
    let mirrored = [-1.0, 0.0, 640.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0];
    let homography = |cells| EgoTransform::of(EgoMotion::Homography(cells), IMAGE, None).unwrap();
    for transform in [behind, homography(beside), homography(mirrored)] {
        assert!(transform.points_now(&[(320.0, 240.0), (1.0, 1.0)]).is_empty());
        assert_eq!(transform.map_now(&hump(Region::of(IMAGE))), None);
    }
    // One of two points, and the bars above and below a letterboxed picture.
    let left = homography([1.0, 0.0, -100.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]);
    assert_eq!(left.points_now(&[(90.0, 5.0), (110.0, 5.0)]).as_slice(), [(10.0, 5.0)]);
    let down = homography([1.0, 0.0, 0.0, 0.0, 1.0, 100.0, 0.0, 0.0, 1.0]);
    let barred = Region { x0: 0.0, y0: -80.0, x1: 640.0, y1: 560.0 };
    let mut weights = vec![0.0; 64];
    (weights[0], weights[27]) = (9.0, 1.0);
    let map = AttentionMap::new(Extent::new(8, 8), barred, IMAGE, weights).unwrap();
    let peak = down.map_now(&map).unwrap().peak();
    assert!(distance((peak.x, peak.y), (280.0, 300.0)) < 80.0, "{peak:?}");
}

#[test]
fn numbers_that_are_no_ego_motion_are_refused() {
    let lens = || Some(rays("", &[], Edit::default(), IMAGE));
    let refused = |motion, lens: Option<Rays>| EgoTransform::of(motion, IMAGE, lens).unwrap_err();
    let homography = |cells| refused(EgoMotion::Homography(cells), None);
    assert_eq!(homography([0.0; 9]), EgoMotionError::Singular);
    assert_eq!(homography([1e300; 9]), EgoMotionError::Singular);
    let line = [1.0, 2.0, 300.0, 2.0, 4.0, 600.0, 0.0, 0.0, 1.0];
    assert_eq!(homography(line), EgoMotionError::Singular);
    for wrong in [f64::NAN, f64::INFINITY] {
        let cells = [1.0, 0.0, wrong, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0];
        assert_eq!(homography(cells), EgoMotionError::NotFinite);
        assert_eq!(
            refused(EgoMotion::Rotation([0.0, wrong, 0.0, 1.0]), lens()),
            EgoMotionError::NotFinite
        );
    }
    for wrong in [[0.0; 4], [0.0, 0.0, 0.0, 1.1], [1e200, 0.0, 0.0, 1.0]] {
        let error = refused(EgoMotion::Rotation(wrong), lens());
        assert!(matches!(error, EgoMotionError::NotUnit { .. }), "{error:?}");
    }
    assert_eq!(refused(EgoMotion::Rotation([0.0, 0.0, 0.0, 1.0]), None), EgoMotionError::NoRays);
}

fn hump(region: Region) -> AttentionMap {
    let weights = (0..64 * 48).map(|cell| (cell % 64 * (cell / 64)) as f32).collect();
    AttentionMap::new(Extent::new(64, 48), region, IMAGE, weights).unwrap()
}

/// A vector turned about an axis: Rodrigues' formula.
fn rodrigues(axis: [f64; 3], angle: f64, v: [f64; 3]) -> [f64; 3] {
    let length = norm(axis);
    let [x, y, z] = axis.map(|part| part / length);
    let cross = [y * v[2] - z * v[1], z * v[0] - x * v[2], x * v[1] - y * v[0]];
    let along = (x * v[0] + y * v[1] + z * v[2]) * (1.0 - angle.cos());
    let axis = [x, y, z];
    std::array::from_fn(|part| {
        v[part] * angle.cos() + cross[part] * angle.sin() + axis[part] * along
    })
}

fn quaternion(axis: [f64; 3], angle: f64) -> [f64; 4] {
    let length = norm(axis).max(1e-12);
    let [x, y, z] = axis.map(|part| part / length * (angle / 2.0).sin());
    let w = (angle / 2.0).cos();
    let norm = (x * x + y * y + z * z + w * w).sqrt();
    [x, y, z, w].map(|part| part / norm)
}

fn norm([x, y, z]: [f64; 3]) -> f64 {
    (x * x + y * y + z * z).sqrt()
}

fn distance(one: (f64, f64), other: (f64, f64)) -> f64 {
    (one.0 - other.0).hypot(one.1 - other.1)
}

fn inside((x, y): (f64, f64)) -> bool {
    (0.0..=640.0).contains(&x) && (0.0..=480.0).contains(&y)
}

fn well_inside((x, y): (f64, f64)) -> bool {
    (0.01..=639.99).contains(&x) && (0.01..=479.99).contains(&y)
}
