//! The shift of a picture is found to a fraction of a texel, moving objects do not affect it, and a still picture has no motion.

#![allow(clippy::cast_possible_truncation, reason = "shades of a test")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use foveate_core::ego::{EgoMotion, EgoTransform};
use foveate_core::frame::FrameTime;
use foveate_core::geometry::affine::Affine;
use foveate_core::geometry::attention::AttentionMap;
use foveate_core::geometry::coarse::CoarseLevel;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::Points;
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_core::geometry::region::Region;
use foveate_gaze::GazeParameters;
use foveate_gaze::compensation::carried_points;
use foveate_gaze::controller::{Controller, Policy};
use foveate_gaze::feedback::Feedback;
use foveate_gaze::motion::{Motion, Motions};
use foveate_gaze::relevance::seen::Seen;
use foveate_gaze::saliency::Saliency;

/// Its coarse level has 96 x 72 texels of 8 pixels.
const EXTENT: Extent = Extent::new(768, 576);
const TEXEL_PX: f64 = 8.0;

/// Pixels by which the motion of a picture may be off; and of a thing in it in one case of five, for it has few texels.
const PICTURE_PX: f64 = 0.5;
const THING_PX: f64 = 4.0;

/// Any shift up to a fifth of the picture, beside a thing that moves otherwise.
#[test]
fn a_shift_of_the_picture_is_found() {
    for (x, y) in shifts(24, (150.0, 110.0)) {
        let motions = followed(&[scene((0.0, 0.0), (400.0, 300.0)), scene((x, y), (400.0, 300.0))]);
        let newest = motions.newest().unwrap();
        let (dx, dy) = shift_at(newest, (384.0, 288.0));
        assert!((dx - x).hypot(dy - y) < PICTURE_PX, "{dx} {dy} for {x} {y}");
        // What leaves and what comes in at the edges does not turn the rest.
        let corner = shift_at(newest, (768.0, 576.0));
        assert!((corner.0 - x).hypot(corner.1 - y) < 4.0 * PICTURE_PX, "{corner:?} for {x} {y}");
    }
}

/// A model of the scene may lie beyond an edge by more than a texel in a corner, before it is resampled.
#[test]
fn a_camera_that_turns_and_zooms_leaves_change_within_bounds() {
    let mut saliency = Saliency::new(EXTENT, 0.2);
    let pictures = [picture(texture), scene((3.0, 2.0), (700.0, 500.0))];
    for (index, (x, y)) in shifts(120, (1.0, 1.0)).into_iter().enumerate() {
        let seen = &pictures[index % 2];
        saliency.weigh(seen);
        saliency.absorb(seen, 0.05);
        assert!(saliency.change().iter().all(|change| (0.0..=1.0).contains(change)), "{index}");
        let (turn, zoom) = (0.008 * x, 1.0 + 0.008 * y);
        saliency.follow(Some(Affine([zoom, -turn, 0.7 * x, turn, zoom, 0.7 * y])));
    }
}

#[test]
fn motion_does_not_depend_on_threads() {
    let pictures = [scene((0.0, 0.0), (400.0, 300.0)), scene((33.0, -14.0), (420.0, 310.0))];
    let alone = followed(&pictures);
    let mut shared = Motions::new(PyramidShape::new(EXTENT));
    let parts_of_all = AtomicUsize::new(0);
    for (frame_seq, picture) in (1..).zip(&pictures) {
        shared.follow_shared(picture, at(frame_seq), &|parts, work| {
            parts_of_all.fetch_add(parts.len(), Ordering::Relaxed);
            std::thread::scope(|scope| {
                parts.iter_mut().for_each(|part| drop(scope.spawn(move || work(part))));
            });
        });
    }
    assert!(8 < parts_of_all.into_inner(), "nearly all blocks have changed");
    let [alone, shared] = [&alone, &shared].map(|motions| motions.newest().unwrap());
    assert_eq!(alone.blocks(), shared.blocks());
    assert_eq!(alone.global(), shared.global());
}

#[test]
fn a_thing_that_moves_is_no_motion_of_the_picture() {
    let at = (400.0, 300.0);
    let mut right = [0; 2];
    let shifts: Vec<_> =
        shifts(40, (20.0, 20.0)).into_iter().filter(|(x, y)| 4.0 < x.hypot(*y)).collect();
    for (x, y) in &shifts {
        let to = (at.0 + x, at.1 + y);
        let motions = followed(&[scene((0.0, 0.0), at), scene((0.0, 0.0), to)]);
        let newest = motions.newest().unwrap();
        assert_eq!(newest.global(), Some(Affine::IDENTITY));
        for (right, found) in
            right.iter_mut().zip([newest.around(to, 24.0), newest.onward(at, 24.0)])
        {
            let is_near = (found.dx - x).hypot(found.dy - y) < THING_PX;
            *right += usize::from(found.is_own && is_near);
        }
        let far = newest.around((100.0, 100.0), 24.0);
        assert!(!far.is_own && (far.dx, far.dy) == (0.0, 0.0), "{far:?}");
    }
    assert!(
        right.iter().all(|right| 8 * shifts.len() <= 10 * right),
        "{right:?} of {}",
        shifts.len()
    );
}

/// On a moving camera what counts is the motion against the background.
#[test]
fn an_object_moving_with_the_picture_counts_as_still() {
    let at = (400.0, 300.0);
    let (mut with, mut against) = (0, 0);
    for (x, y) in shifts(40, (30.0, 30.0)) {
        let onward = |dx: f64| {
            let to = (at.0 + x + dx, at.1 + y);
            let motions = followed(&[scene((0.0, 0.0), at), scene((x, y), to)]);
            motions.newest().unwrap().onward(at, 24.0)
        };
        let found = onward(0.0);
        with += usize::from(!found.is_own && (found.dx - x).hypot(found.dy - y) < PICTURE_PX);
        let found = onward(14.0);
        let off = (found.dx - x - 14.0).hypot(found.dy - y);
        against += usize::from(found.is_own && off < THING_PX);
    }
    assert!(30 <= with && 30 <= against, "{with} and {against} of 40");
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
            picture(texture),
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
    let motions = followed(&[picture(texture), picture(|x, y| texture(y + 5000.0, x - 9000.0))]);
    assert_eq!(motions.newest().unwrap().global(), None);
    assert_eq!(motions.carried(1, (100.0, 100.0), 24.0), None);
    assert_eq!(motions.global_since(1), None);
    assert_eq!(motions.carried(2, (100.0, 100.0), 24.0), Some((100.0, 100.0)));
}

/// What was before a cut is nowhere after it: a place of then is not moved by what moves now.
#[test]
fn nothing_is_carried_over_a_cut() {
    let other = |shift: f64| picture(move |x, y| texture(y + 5000.0, x - shift - 9000.0));
    let motions =
        followed(&[picture(texture), picture(texture), other(0.0), other(9.0), other(18.0)]);
    let points = Points::from_iter([(300.0, 200.0)]);
    for before in [1, 2] {
        assert_eq!(carried_points(&points, before, &motions, 24.0), points);
    }
    let [(x, y)] = carried_points(&points, 4, &motions, 24.0)[..] else { panic!("a point") };
    assert!((x - 318.0).abs() < 4.0 && (y - 200.0).abs() < 4.0, "and after it: {x}, {y}");
}

/// Picture by picture, as far back as is kept.
#[test]
fn a_place_is_carried_along_with_what_is_there() {
    let shape = PyramidShape::new(EXTENT);
    let mut motions = Motions::new(shape);
    let camera = |frame: u64| (3.0 * frame as f64, -1.5 * frame as f64);
    let thing = |frame: u64| (120.0 + 7.0 * frame as f64, 380.0 - 3.5 * frame as f64);
    for frame in 1..=70 {
        motions.follow(&scene(camera(frame), thing(frame)), at(frame));
    }
    assert_eq!(motions.since(0).map(<[Motion]>::len), None);
    // The first five pictures have one motion together.
    assert_eq!(motions.since(1).map(<[Motion]>::len), Some(66));
    assert_eq!(motions.since(5).map(<[Motion]>::len), Some(65));
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
    motions.follow(&scene(camera(9), thing(9)), at(70));
    motions.follow(&CoarseLevel::new(PyramidShape::new(Extent::new(64, 64))), at(71));
    assert_eq!(motions.newest().unwrap().frames(), (69, 70));
}

/// A camera that sways, at any rate: a language model answers late.
#[test]
fn motion_of_ten_seconds_is_known() {
    for rate in [5, 30, 100] {
        let camera = |frame: u64| {
            let turn = std::f64::consts::TAU * frame as f64 / (8 * rate) as f64;
            (60.0 * turn.sin(), 24.0 * turn.cos())
        };
        let mut motions = Motions::new(PyramidShape::new(EXTENT));
        let newest = 12 * rate;
        for frame_seq in 1..=newest {
            let time_ns = frame_seq * 1_000_000_000 / rate;
            let shown = picture(|x, y| texture(x - camera(frame_seq).0, y - camera(frame_seq).1));
            motions.follow(&shown, FrameTime { frame_seq, time_ns });
        }
        let (now_x, now_y) = camera(newest);
        for seconds in [1, 2, 5, 9, 10] {
            let from = newest - seconds * rate;
            let (then_x, then_y) = camera(from);
            let case = format!("{seconds} s ago at {rate} frames a second");
            let (x, y) = motions.global_since(from).expect(&case).at((384.0, 288.0));
            let off = (x - 384.0 - now_x + then_x).hypot(y - 288.0 - now_y + then_y);
            assert!(off < 8.0, "{off} px of the picture, {case}");
            let (x, y) = motions.carried(from, (384.0, 288.0), 24.0).expect(&case);
            let off = (x - 384.0 - now_x + then_x).hypot(y - 288.0 - now_y + then_y);
            assert!(off < 16.0, "{off} px of a place, {case}");
        }
        assert_eq!(motions.since(1).is_none(), rate == 100, "memory is bounded");
    }
}

/// Also over the frame that has not been seen yet.
#[test]
fn points_are_carried_to_the_next_frame() {
    let mut motions = Motions::new(PyramidShape::new(EXTENT));
    let camera = |frame: u64| (4.0 * frame as f64, -2.0 * frame as f64);
    let thing = |frame: u64| (160.0 + 18.0 * frame as f64, 380.0 - 9.0 * frame as f64);
    for frame in 1..=10 {
        motions.follow(&scene(camera(frame), thing(frame)), at(frame));
    }
    let points = Points::from_iter([thing(6), (600.0, 120.0)]);
    let found = carried_points(&points, 6, &motions, 24.0);
    let off = |found: (f64, f64), right: (f64, f64)| (found.0 - right.0).hypot(found.1 - right.1);
    assert!(off(found[0], thing(11)) < 16.0, "{found:?}, {:?}", thing(11));
    assert!(off(found[1], (620.0, 110.0)) < 2.0, "{found:?}");
    assert_eq!(carried_points(&points, 11, &Motions::new(PyramidShape::new(EXTENT)), 24.0), points);
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
            motions.follow(&coarse, at(frame.into()));
        }
        let newest = motions.newest().unwrap();
        let finite = newest.blocks().iter().all(|block| (block.dx + block.dy).is_finite());
        assert!(finite && newest.blocks().len() == newest.grid().area(), "{width}x{height}");
    }
}

/// The camera goes on by a texel and a half a frame, and something goes the other way.
#[test]
fn what_moves_against_a_moving_background_stands_out() {
    let camera = |frame: u64| (-12.0 * frame as f64, 5.0 * frame as f64);
    let thing = |frame: u64| (120.0 + 8.0 * frame as f64, 440.0 - 4.0 * frame as f64);
    let mut motions = Motions::new(PyramidShape::new(EXTENT));
    let [mut along, mut fixed] = [(); 2].map(|()| Saliency::new(EXTENT, 0.0));
    for frame in 1..=30 {
        let picture = scene(camera(frame), thing(frame));
        motions.follow(&picture, at(frame));
        if let Some(newest) = motions.newest() {
            let map = newest.before_from_now().unwrap().in_units_of(TEXEL_PX);
            along.follow(Some(map));
        }
        along.weigh(&picture);
        fixed.weigh(&picture);
        along.absorb(&picture, 0.1);
        fixed.absorb(&picture, 0.1);
    }
    let on_thing = |saliency: &Saliency| {
        let (columns, place) = (saliency.grid().width as usize, thing(30));
        let middle = |cell: usize| (cell as f64 + 0.5) * TEXEL_PX;
        let is_on = |index: usize| {
            let (x, y) = (middle(index % columns), middle(index / columns));
            (x - place.0).abs() < 64.0 && (y - place.1).abs() < 80.0
        };
        let change = saliency.change().iter().enumerate();
        let (on, all) = change.fold((0.0, 0.0), |(on, all), (index, change)| {
            (on + if is_on(index) { *change } else { 0.0 }, all + change)
        });
        on / all
    };
    let (with, without) = (on_thing(&along), on_thing(&fixed));
    assert!(0.5 < with && without < 0.2, "{with} of the change is on it, {without} without");
}

/// A picture of the clip, over which a camera pans by up to 120 pixels a second, at 20 frames a second. A client says of each frame
/// where a place of the scene was in it, so much later.
#[test]
fn a_late_map_is_moved_along_with_the_camera() {
    let ground = Ground::open();
    let mut said = String::new();
    for (late, least) in [(2, 2.0), (5, 2.0), (10, 2.0)] {
        let [without, with] =
            [Known::Nothing, Known::Measured].map(|known| late_by(&ground, late, known, 1));
        said += &format!("{} ms late: {without:.1} px without, {with:.1} px with\n", 50 * late);
        assert!(with < without / least, "{said}");
        assert!(5 < late || with < HALF_FOVEA, "{said}");
    }
    let _ = std::io::Write::write_all(&mut std::io::stderr(), said.as_bytes());
}

/// The same client knows from its odometry how the camera moved until its map arrives. Where it speaks in every fourth frame alone, what
/// is measured carries the map on from there.
#[test]
fn a_late_map_is_where_the_clients_own_ego_motion_says() {
    let ground = Ground::open();
    let mut said = String::new();
    for late in [5, 10] {
        let without = late_by(&ground, late, Known::Nothing, 1);
        let [told, off] =
            [Known::Told, Known::ToldAndOff].map(|known| late_by(&ground, late, known, 1));
        let [held, pursued, unmeasured] = [Known::Told, Known::ToldInPursuit, Known::ToldAndOff]
            .map(|known| late_by(&ground, late, known, 4));
        said += &format!(
            "{} ms late: {without:.1} px without, {told:.1} px told, {off:.1} px without compensation; every 200 ms {held:.1} px, \
             {pursued:.1} px in pursuit, {unmeasured:.1} px without compensation\n",
            50 * late
        );
        let all_told = [told, off, held, pursued];
        assert!(all_told.iter().all(|distance| *distance < HALF_FOVEA), "{said}");
        // Half a fovea is passed by without it, and by what is held for 0.2 s and not carried on.
        assert!(HALF_FOVEA < without && told < without / 2.0 && held < unmeasured, "{said}");
    }
    let _ = std::io::Write::write_all(&mut std::io::stderr(), said.as_bytes());
}

/// Where a `look` and a map are that a client has moved to the frame to come, nothing moves them there a second time.
#[test]
fn a_map_of_the_next_frame_is_carried_onward() {
    let shift = |frame: u64| (12.0 * frame as f64, -5.0 * frame as f64);
    let pictures: Vec<_> = (1..=3).map(|frame| scene(shift(frame), (2000.0, 0.0))).collect();
    let motions = followed(&pictures);
    let points = Points::from_iter([(400.0, 300.0)]);
    let carried = |frame_seq: u64| carried_points(&points, frame_seq, &motions, 20.0)[0];
    assert_eq!(carried(4), (400.0, 300.0), "frame 4 is the one to come");
    for frame_seq in [2, 3] {
        let (steps, (x, y)) = (f64::from(4 - frame_seq as u32), carried(frame_seq));
        let (dx, dy) = (x - 400.0 - 12.0 * steps, y - 300.0 + 5.0 * steps);
        assert!(dx.hypot(dy) < 2.0 * PICTURE_PX, "{x} {y} of frame {frame_seq}");
    }
}

/// e0 is 3 % of the longer side.
const HALF_FOVEA: f64 = 0.5 * 0.03 * Ground::VIEW.width as f64;

/// Motion by which a late map is compensated.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Known {
    /// No motion.
    Nothing,
    /// The measurement.
    Measured,
    /// The client's ego motion, and the measured motion of later frames.
    Told,
    /// The client's ego motion with `pursuit = true`, and the measured motion of later frames.
    ToldInPursuit,
    /// The client's ego motion alone, with `compensation = false`.
    ToldAndOff,
}

/// Mean distance in pixels of the fixation from the place that a client attends to, by maps that are `late` frames late, one every
/// `every` frames.
fn late_by(ground: &Ground, late: u64, known: Known, every: u64) -> f64 {
    let parameters = GazeParameters {
        compensation: !matches!(known, Known::Nothing | Known::ToldAndOff),
        pursuit: known == Known::ToldInPursuit,
        saccade_hz: 1000.0,
        dwell_min_ms: 0,
        hysteresis: 1.0,
        ..GazeParameters::default()
    };
    let mut controller =
        Controller::new(Policy::Feedback, parameters, false, Ground::VIEW, 1, at(1));
    let mut motions = Motions::new(PyramidShape::new(Ground::VIEW));
    let camera = |frame: u64| {
        let time = 0.05 * frame as f64;
        ((128.0 + 120.0 * time.sin()).round(), (96.0 + 90.0 * (0.74 * time).cos()).round())
    };
    let place = |frame: u64| {
        let (left, top) = camera(frame);
        (384.0 - left, 288.0 - top)
    };
    let (mut seen, mut sum, mut count) = (None::<CoarseLevel>, 0.0, 0);
    for frame in 1..=160 {
        if late < frame && frame % every == 0 {
            let (then, now) = (camera(frame - late), camera(frame));
            let map = bump(Ground::VIEW, place(frame - late));
            let (dx, dy) = (then.0 - now.0, then.1 - now.1);
            let shift = EgoMotion::Homography([1.0, 0.0, dx, 0.0, 1.0, dy, 0.0, 0.0, 1.0]);
            let transform = EgoTransform::of(shift, Ground::VIEW, None).unwrap();
            let is_told = !matches!(known, Known::Nothing | Known::Measured);
            let (map, lies_in) =
                if is_told { (transform.map_now(&map).unwrap(), Some(frame)) } else { (map, None) };
            let map = Arc::new(map);
            let attend = Feedback::Attend { map, frame_seq: frame - late, lies_in };
            controller.accept_feedback(&attend, at(frame));
        }
        let before = seen
            .as_ref()
            .map(|coarse| Seen { motion: Some(&motions), ..Seen::coarsely(coarse, frame - 1) });
        controller.arrive(at(frame), before);
        if 2 * late < frame {
            let (fixation, right) = (controller.gaze().first(), place(frame));
            sum += (fixation.x - right.0).hypot(fixation.y - right.1);
            count += 1;
        }
        let coarse = ground.seen_from(camera(frame));
        motions.follow(&coarse, at(frame));
        seen = Some(coarse);
    }
    sum / f64::from(count)
}

/// A map with one bump of 32 pixels.
fn bump(image: Extent, (x, y): (f64, f64)) -> AttentionMap {
    let grid = image.in_cells(16);
    let weight = |cell: usize| {
        let middle = |cell: usize| 16.0 * (cell as f64 + 0.5);
        let (column, row) = (cell % grid.width as usize, cell / grid.width as usize);
        let (dx, dy) = ((middle(column) - x) / 16.0, (middle(row) - y) / 16.0);
        (-0.5 * (dx * dx + dy * dy)).exp() as f32
    };
    let weights = (0..grid.area()).map(weight).collect();
    AttentionMap::new(grid, Region::of(image), image, weights).unwrap()
}

/// Nothing is moved where nothing moves: what is decided is the same to the bit.
#[test]
fn a_map_of_a_still_scene_stays_where_it_is() {
    let still = scene((0.0, 0.0), (400.0, 300.0));
    let gaze_of = |compensation: bool| {
        let parameters = GazeParameters { compensation, ..GazeParameters::default() };
        let mut controller = Controller::new(Policy::Feedback, parameters, false, EXTENT, 2, at(1));
        let mut motions = Motions::new(PyramidShape::new(EXTENT));
        let mut gazes = Vec::new();
        for frame in 1..=40 {
            if frame % 7 == 3 {
                let map = Arc::new(bump(EXTENT, (17.0 * frame as f64, 400.0)));
                controller.accept_feedback(
                    &Feedback::Attend { map, frame_seq: frame - 2, lies_in: None },
                    at(frame),
                );
            }
            let seen = Seen { motion: Some(&motions), ..Seen::coarsely(&still, frame - 1) };
            controller.arrive(at(frame), (1 < frame).then_some(seen));
            gazes.push(controller.gaze().clone());
            motions.follow(&still, at(frame));
        }
        gazes
    };
    assert_eq!(gaze_of(true), gaze_of(false));
}

/// What the camera sees of a picture that is larger.
struct Ground {
    width: usize,
    shades: Vec<[u8; 3]>,
}

impl Ground {
    const VIEW: Extent = Extent::new(512, 384);

    fn open() -> Self {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/images/boxes.png");
        let file = std::io::BufReader::new(std::fs::File::open(path).unwrap());
        let mut decoder = png::Decoder::new(file);
        decoder.set_transformations(png::Transformations::EXPAND);
        let mut reader = decoder.read_info().unwrap();
        let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut bytes).unwrap();
        let channels = info.color_type.samples();
        let shades = bytes.chunks_exact(channels).map(|pixel| [pixel[0], pixel[1], pixel[2]]);
        Self { width: info.width as usize, shades: shades.collect() }
    }

    /// The coarse level of the part whose top left corner is at whole pixels.
    fn seen_from(&self, (left, top): (f64, f64)) -> CoarseLevel {
        let mut coarse = CoarseLevel::new(PyramidShape::new(Self::VIEW));
        let (columns, side) = (coarse.extent().width as usize, 1 << coarse.level());
        for (index, texel) in coarse.texels.iter_mut().enumerate() {
            let x = left as usize + index % columns * side;
            let y = top as usize + index / columns * side;
            let mut sums = [0u32; 3];
            for row in y..y + side {
                for pixel in &self.shades[row * self.width + x..][..side] {
                    sums.iter_mut().zip(pixel).for_each(|(sum, part)| *sum += u32::from(*part));
                }
            }
            *texel = sums.map(|sum| (sum / (side * side) as u32) as u8);
        }
        coarse
    }
}

fn followed(pictures: &[CoarseLevel]) -> Motions {
    let mut motions = Motions::new(PyramidShape::new(EXTENT));
    for (index, picture) in pictures.iter().enumerate() {
        motions.follow(picture, at(index as u64 + 1));
    }
    motions
}

/// So many shifts in pixels, up to `reach` along each axis: always the same.
fn shifts(count: usize, reach: (f64, f64)) -> Vec<(f64, f64)> {
    let share = |index: usize, step: f64| 2.0 * (index as f64 * step).fract() - 1.0;
    // Steps by which shares are spread evenly: powers of the inverse of the plastic number.
    let shift =
        |index| (reach.0 * share(index, 0.754_877_666), reach.1 * share(index, 0.569_840_291));
    (1..=count).map(shift).collect()
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

/// Time of a frame at 20 frames a second.
fn at(frame_seq: u64) -> FrameTime {
    FrameTime { frame_seq, time_ns: frame_seq * 50_000_000 }
}
