//! A shift of a picture is found to a fraction of a texel, what moves by itself has no part in it, and nothing moves in a picture that
//! stands still.

#![allow(clippy::cast_possible_truncation, reason = "shades of a test")]

use foveate_core::geometry::affine::Affine;
use foveate_core::geometry::coarse::CoarseLevel;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_core::motion::{Motion, Motions};
use proptest::prelude::*;

/// Its coarse level has 96 x 72 texels of 8 pixels.
const EXTENT: Extent = Extent::new(768, 576);
const TEXEL_PX: f64 = 8.0;

/// Pixels by which the motion of a picture, and of a thing in it, may be off.
const PICTURE_PX: f64 = 0.5;
const THING_PX: f64 = 4.0;

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Any shift up to a fifth of the picture, beside a thing that moves otherwise.
    #[test]
    fn a_shift_of_the_picture_is_found(x in -150.0..150.0f64, y in -110.0..110.0f64) {
        let motions = followed(&[scene((0.0, 0.0), (400.0, 300.0)), scene((x, y), (400.0, 300.0))]);
        let newest = motions.newest().unwrap();
        let (dx, dy) = shift_at(newest, (384.0, 288.0));
        prop_assert!((dx - x).hypot(dy - y) < PICTURE_PX, "{dx} {dy} for {x} {y}");
        // What leaves and what comes in at the edges does not turn the rest.
        let corner = shift_at(newest, (768.0, 576.0));
        prop_assert!((corner.0 - x).hypot(corner.1 - y) < 4.0 * PICTURE_PX, "{corner:?} for {x} {y}");
    }

    #[test]
    fn a_thing_that_moves_is_no_motion_of_the_picture(x in -20.0..20.0f64, y in -20.0..20.0f64) {
        prop_assume!(4.0 < x.hypot(y));
        let at = (400.0, 300.0);
        let to = (at.0 + x, at.1 + y);
        let motions = followed(&[scene((0.0, 0.0), at), scene((0.0, 0.0), to)]);
        let newest = motions.newest().unwrap();
        prop_assert_eq!(newest.global(), Some(Affine::IDENTITY));
        let found = newest.around(to, 24.0);
        prop_assert!(found.is_own && (found.dx - x).hypot(found.dy - y) < THING_PX, "{found:?} for {x} {y}");
        let onward = newest.onward(at, 24.0);
        prop_assert!(onward.is_own && (onward.dx - x).hypot(onward.dy - y) < THING_PX, "{onward:?} for {x} {y}");
        let far = newest.around((100.0, 100.0), 24.0);
        prop_assert!(!far.is_own && (far.dx, far.dy) == (0.0, 0.0), "{far:?}");
    }

    /// The same on a moving camera: what counts is the motion against the background.
    #[test]
    fn a_thing_that_moves_with_the_picture_does_not_move_by_itself(x in -30.0..30.0f64, y in -30.0..30.0f64) {
        let at = (400.0, 300.0);
        let motions = followed(&[scene((0.0, 0.0), at), scene((x, y), (at.0 + x, at.1 + y))]);
        let found = motions.newest().unwrap().onward(at, 24.0);
        prop_assert!(!found.is_own && (found.dx - x).hypot(found.dy - y) < PICTURE_PX, "{found:?} for {x} {y}");
        let motions = followed(&[scene((0.0, 0.0), at), scene((x, y), (at.0 + x + 14.0, at.1 + y))]);
        let found = motions.newest().unwrap().onward(at, 24.0);
        let off = (found.dx - x - 14.0).hypot(found.dy - y);
        prop_assert!(found.is_own && off < THING_PX, "{found:?} for {x} {y}");
    }
}

#[test]
fn a_turn_and_a_zoom_are_found() {
    let middle = (384.0, 288.0);
    for (degrees, zoom) in [(2.0f64, 1.0), (-1.0, 1.02), (0.5, 0.97)] {
        let (sin, cos) = degrees.to_radians().sin_cos();
        let (a, b) = (zoom * cos, zoom * sin);
        let center = |x: f64, y: f64| (middle.0 - x, middle.1 - y);
        let (c, f) = center(a * middle.0 - b * middle.1, b * middle.0 + a * middle.1);
        let wanted = Affine([a, -b, c, b, a, f]);
        let back = wanted.inverse().unwrap();
        let motions = followed(&[
            picture(|x, y| texture(x, y)),
            picture(|x, y| {
                let (x, y) = back.at((x, y));
                texture(x, y)
            }),
        ]);
        let found = motions.newest().unwrap().global().unwrap();
        for corner in [(0.0, 0.0), (768.0, 0.0), (0.0, 576.0), (768.0, 576.0)] {
            let (right, got) = (wanted.at(corner), found.at(corner));
            let off = (right.0 - got.0).hypot(right.1 - got.1);
            assert!(off < 1.5, "{degrees} degrees, zoom {zoom}: {off} at {corner:?}");
        }
    }
}

#[test]
fn nothing_moves_in_a_picture_that_stands_still() {
    let still = scene((0.0, 0.0), (400.0, 300.0));
    // A level of noise in a texel of three.
    let mut noisy = still.clone();
    for (index, texel) in noisy.texels.iter_mut().enumerate() {
        texel[1] = texel[1].saturating_add(u8::from(index.wrapping_mul(2_654_435_761) % 3 == 0));
    }
    let flat = CoarseLevel::new(PyramidShape::new(EXTENT));
    for pictures in [[&still, &still], [&still, &noisy], [&flat, &flat]] {
        let motions = followed(&pictures.map(CoarseLevel::clone));
        assert_eq!(motions.newest().unwrap().global(), Some(Affine::IDENTITY));
        let found = motions.newest().unwrap().around((400.0, 300.0), 24.0);
        assert_eq!((found.dx, found.dy, found.is_own), (0.0, 0.0, false));
    }
}

#[test]
fn nothing_is_known_of_motion_over_a_cut() {
    let motions =
        followed(&[picture(|x, y| texture(x, y)), picture(|x, y| texture(y + 5000.0, x - 9000.0))]);
    assert_eq!(motions.newest().unwrap().global(), None);
    assert_eq!(motions.carried(1, (100.0, 100.0), 24.0), None);
    assert_eq!(motions.global_since(1), None);
    assert_eq!(motions.carried(2, (100.0, 100.0), 24.0), Some((100.0, 100.0)));
}

/// Picture by picture, as far back as is kept.
#[test]
fn a_place_is_carried_along_with_what_is_there() {
    let shape = PyramidShape::new(EXTENT);
    let mut motions = Motions::new(shape);
    let camera = |frame: u64| (3.0 * frame as f64, -1.5 * frame as f64);
    let thing = |frame: u64| (120.0 + 7.0 * frame as f64, 380.0 - 3.5 * frame as f64);
    for frame in 1..=70 {
        motions.follow(&scene(camera(frame), thing(frame)), frame);
    }
    assert_eq!(motions.since(5).map(<[Motion]>::len), None);
    assert_eq!(motions.since(6).map(<[Motion]>::len), Some(64));
    assert_eq!(motions.since(70).map(<[Motion]>::len), Some(0));
    assert!(motions.since(71).is_some_and(<[Motion]>::is_empty));
    for from in [45, 60, 67] {
        let (x, y) = motions.carried(from, thing(from), 24.0).unwrap();
        let (right, bottom) = thing(70);
        let off = (x - right).hypot(y - bottom);
        assert!(off < 1.0 + 0.8 * (70.0 - from as f64), "{off} since frame {from}");
        let (x, y) = motions.global_since(from).unwrap().at((384.0, 288.0));
        let moved = 70.0 - from as f64;
        let off = (x - 384.0 - 3.0 * moved).hypot(y - 288.0 + 1.5 * moved);
        assert!(off < 0.1 * moved + 1.0, "{off} px of the picture since frame {from}");
    }
    // A frame is followed once, and a picture of another size is not.
    motions.follow(&scene(camera(9), thing(9)), 70);
    motions.follow(&CoarseLevel::new(PyramidShape::new(Extent::new(64, 64))), 71);
    assert_eq!(motions.newest().unwrap().frames(), (69, 70));
}

#[test]
fn pictures_of_any_size_are_followed() {
    for (width, height) in [(1, 1), (3, 2), (1, 200), (17, 5), (129, 127), (4096, 16), (7680, 4320)]
    {
        let shape = PyramidShape::new(Extent::new(width, height));
        let mut motions = Motions::new(shape);
        for frame in 1..=3u8 {
            let mut coarse = CoarseLevel::new(shape);
            for (index, texel) in coarse.texels.iter_mut().enumerate() {
                *texel = [(index % 251) as u8 ^ frame; 3];
            }
            motions.follow(&coarse, frame.into());
        }
        let newest = motions.newest().unwrap();
        let finite = newest.blocks().iter().all(|block| (block.dx + block.dy).is_finite());
        assert!(finite && newest.blocks().len() == newest.grid().area(), "{width}x{height}");
    }
}

fn followed(pictures: &[CoarseLevel]) -> Motions {
    let mut motions = Motions::new(PyramidShape::new(EXTENT));
    for (index, picture) in pictures.iter().enumerate() {
        motions.follow(picture, index as u64 + 1);
    }
    motions
}

/// How far the picture moved at a place.
fn shift_at(motion: &Motion, place: (f64, f64)) -> (f64, f64) {
    let (x, y) = motion.global().unwrap().at(place);
    (x - place.0, y - place.1)
}

/// A ground that has moved by `camera`, and a thing of 64 x 96 pixels around `thing`, which has a texture of its own.
fn scene(camera: (f64, f64), thing: (f64, f64)) -> CoarseLevel {
    picture(|x, y| {
        let (dx, dy) = (x - thing.0, y - thing.1);
        if dx.abs() < 32.0 && dy.abs() < 48.0 {
            0.7 * texture(dx + 3000.0, dy) + 70.0
        } else {
            texture(x - camera.0, y - camera.1)
        }
    })
}

/// The coarse level of a picture in grey, from 4 x 4 places of each texel.
fn picture(shade: impl Fn(f64, f64) -> f64) -> CoarseLevel {
    let mut coarse = CoarseLevel::new(PyramidShape::new(EXTENT));
    let columns = coarse.extent().width as usize;
    for (index, texel) in coarse.texels.iter_mut().enumerate() {
        let (left, top) =
            ((index % columns) as f64 * TEXEL_PX, (index / columns) as f64 * TEXEL_PX);
        let mut sum = 0.0;
        for part in 0..16 {
            let (x, y) = (f64::from(part % 4) + 0.5, f64::from(part / 4) + 0.5);
            sum += shade(left + x * TEXEL_PX / 4.0, top + y * TEXEL_PX / 4.0);
        }
        *texel = [(sum / 16.0).round().clamp(0.0, 255.0) as u8; 3];
    }
    coarse
}

/// Something of every size, which nowhere repeats: random shades on three grids, smoothed between.
fn texture(x: f64, y: f64) -> f64 {
    let shade = |column: f64, row: f64, salt: u64| {
        let cell = (column as i64 as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)
            ^ (row as i64 as u64).wrapping_mul(0xC2B2_AE3D_27D4_EB4F)
            ^ salt;
        let mixed = (cell ^ (cell >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        ((mixed ^ (mixed >> 32)) % 1024) as f64 / 512.0 - 1.0
    };
    let smooth = |share: f64| share * share * (3.0 - 2.0 * share);
    let octave = |side: f64, height: f64, salt: u64| {
        let (column, row) = ((x / side).floor(), (y / side).floor());
        let (across, down) = (smooth(x / side - column), smooth(y / side - row));
        let mix = |row: f64| {
            let (left, right) = (shade(column, row, salt), shade(column + 1.0, row, salt));
            left + across * (right - left)
        };
        height * (mix(row) + down * (mix(row + 1.0) - mix(row)))
    };
    128.0 + octave(160.0, 50.0, 1) + octave(60.0, 40.0, 2) + octave(24.0, 30.0, 3)
}
