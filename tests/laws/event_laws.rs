//! Whatever pictures come, and at whatever times: events are the same each time, begin before they end, and lie in the picture.

use std::collections::BTreeMap;

use foveate_core::event::{Event, EventKind, Phase};
use foveate_core::frame::FrameTime;
use foveate_core::geometry::coarse::CoarseLevel;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_core::geometry::region::Region;
use foveate_core::geometry::tile::TileSet;
use foveate_gaze::events::{Detectors, FrameFacts};
use proptest::prelude::*;

/// One scene of a random film.
#[derive(Clone, Copy, Debug)]
struct Scene {
    frames: u32,
    /// How far apart, in ms; the first of a scene may go back in time.
    step_ms: i64,
    picture: ScenePicture,
    tiles_differing: usize,
}

#[derive(Clone, Copy, Debug)]
enum ScenePicture {
    Flat(u8),
    Texture(u64),
    /// Another texture in each frame.
    Restless,
    /// Bright and dark in turns of so many frames.
    Pulse(u32),
    /// A texture that moves by so many texels a frame.
    Moving(u64, u32),
}

fn scene() -> impl Strategy<Value = Scene> {
    let picture = prop_oneof![
        any::<u8>().prop_map(ScenePicture::Flat),
        any::<u64>().prop_map(ScenePicture::Texture),
        Just(ScenePicture::Restless),
        (1..5_u32).prop_map(ScenePicture::Pulse),
        (any::<u64>(), 0..12_u32).prop_map(|(seed, by)| ScenePicture::Moving(seed, by)),
    ];
    let step_ms = prop_oneof![Just(-5000), Just(0), 1..200_i64, Just(60_000)];
    (1..90_u32, step_ms, picture, prop_oneof![Just(0), Just(1), Just(300)]).prop_map(
        |(frames, step_ms, picture, tiles_differing)| Scene {
            frames,
            step_ms,
            picture,
            tiles_differing,
        },
    )
}

fn extent() -> impl Strategy<Value = Extent> {
    prop_oneof![
        Just(Extent::new(1, 1)),
        Just(Extent::new(1, 200)),
        Just(Extent::new(16_384, 3)),
        (1..400_u32, 1..400_u32).prop_map(|(width, height)| Extent::new(width, height)),
        Just(Extent::new(768, 576)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn events_are_a_function_of_frames(extent in extent(), scenes in prop::collection::vec(scene(), 1..5)) {
        let film = played(extent, &scenes);
        prop_assert_eq!(&film, &played(extent, &scenes));
        let mut holding = BTreeMap::<EventKind, u64>::new();
        for event in &film {
            let Event { kind, phase, frame, since_frame, region, value } = *event;
            prop_assert!(since_frame <= frame && value.is_finite(), "{:?}", event);
            match phase {
                Phase::Once => prop_assert!(!kind.is_state(), "{:?}", event),
                Phase::Began => prop_assert_eq!(holding.insert(kind, since_frame), None, "{:?}", event),
                Phase::Ended => prop_assert_eq!(holding.remove(&kind), Some(since_frame), "{:?}", event),
            }
            let inside = |Region { x0, y0, x1, y1 }: Region| {
                0.0 <= x0 && x0 < x1 && x1 <= extent.width.into()
                    && 0.0 <= y0 && y0 < y1 && y1 <= extent.height.into()
            };
            prop_assert!(region.is_none_or(inside), "{:?}", event);
        }
        // The film ends with another size of the picture, which ends all states.
        prop_assert!(holding.is_empty(), "{:?}", holding);
    }
}

/// Late subscribers get the states that hold, and none that have ended.
#[test]
fn who_comes_later_is_told_what_holds() {
    let extent = Extent::new(640, 480);
    let mut detectors = Detectors::new(extent);
    let mut events = Vec::new();
    for index in 0..80 {
        let shown = if index < 40 { ScenePicture::Flat(0) } else { ScenePicture::Texture(7) };
        events.extend(detectors.detect(&picture(extent, shown, index), &facts(index, 100, 300)));
        let holds = events.last().is_some_and(|event: &Event| event.phase == Phase::Began);
        assert_eq!(detectors.holds(EventKind::Covered), holds);
        let present: Vec<_> = detectors.present().collect();
        assert_eq!(present.len(), usize::from(holds));
        if let [again] = present[..] {
            let began = events[events.len() - 1];
            assert_eq!(again, Event { frame: u64::from(index) + 1, ..began });
        }
    }
    let phases: Vec<_> = events.iter().map(|event| (event.kind, event.phase)).collect();
    let covered = EventKind::Covered;
    assert_eq!(phases, [(covered, Phase::Began), (covered, Phase::Ended)]);
}

/// Something is there when a mask covers it, and the mask is black before what was light.
#[test]
fn a_mask_is_no_event_and_ends_what_it_covers() {
    let extent = Extent::new(1024, 1024);
    for is_there in [false, true] {
        let mut detectors = Detectors::new(extent);
        let mut events = Vec::new();
        let is_masked = |x: u32, y: u32| (40..70).contains(&x) && (40..70).contains(&y);
        for index in 0..170_u32 {
            if index == 107 {
                let mut texels = TileSet::none_of(detectors.grid());
                let all = (0..128).flat_map(|y| (0..128).map(move |x| (x, y)));
                all.filter(|(x, y)| is_masked(*x, *y)).for_each(|(x, y)| texels.insert(x, y));
                detectors.apply_mask(&texels);
            }
            let film = drawn(extent, |x, y| {
                let is_thing =
                    is_there && 100 <= index && (50..60).contains(&x) && (50..60).contains(&y);
                match (107 <= index && is_masked(x, y), is_thing) {
                    (true, _) => 0,
                    (false, true) => 250,
                    (false, false) => 60 + (texture(5, x, y) >> 2),
                }
            });
            events.extend(detectors.detect(&film, &facts(index, 50, 300)));
        }
        assert_eq!(events, [], "{is_there}");
    }
}

/// A van arrives and is reported; people who get out of it later are not new.
#[test]
fn what_splits_off_something_known_is_not_told() {
    let extent = Extent::new(1024, 1024);
    let mut detectors = Detectors::new(extent);
    let mut events = Vec::new();
    for index in 0..170_u32 {
        // Frames are 50 ms apart. It comes after 5 s, and splits 1.7 s later, long after it was reported.
        let apart = index.saturating_sub(132) / 2;
        let film = drawn(extent, |x, y| {
            let is_there = 100 <= index && (50..62).contains(&y);
            let halves = [30..40, 40 + apart..50 + apart];
            if is_there && halves.iter().any(|half| half.contains(&x)) { 250 } else { 60 }
        });
        events.extend(detectors.detect(&film, &facts(index, 50, 300)));
    }
    let appeared: Vec<_> =
        events.iter().filter(|event| event.kind == EventKind::Appeared).collect();
    let [event] = appeared[..] else { panic!("{appeared:?}") };
    let Region { x0, x1, .. } = event.region.unwrap();
    assert!(event.frame < 134 && x0 < 30.0 * 8.0 + 1.0 && 50.0 * 8.0 - 1.0 < x1, "{event:?}");
}

/// However large: where the camera moves, so does every quarter of the picture.
#[test]
fn a_thing_that_moves_is_no_camera() {
    let extent = Extent::new(1024, 1024);
    let told_where_moves = |moves: fn(u32, u32) -> bool| {
        let mut detectors = Detectors::new(extent);
        let events = (0..60_u32).flat_map(|index| {
            let film = drawn(extent, |x, y| texture(5, x + if moves(x, y) { index } else { 0 }, y));
            detectors.detect(&film, &facts(index, 100, 300)).to_vec()
        });
        events.filter(|event| event.kind == EventKind::CameraMoved).count()
    };
    assert_eq!(told_where_moves(|_, _| true), 1);
    assert_eq!(told_where_moves(|x, y| 64 <= x || 64 <= y), 0);
}

fn played(extent: Extent, scenes: &[Scene]) -> Vec<Event> {
    let mut detectors = Detectors::new(extent);
    let (mut events, mut frame_seq, mut time_ms) = (Vec::new(), 0, 100_000_i64);
    for scene in scenes {
        for index in 0..scene.frames {
            frame_seq += 1;
            time_ms += if index == 0 { scene.step_ms } else { scene.step_ms.max(0) };
            let time_ns = u64::try_from(time_ms.max(0)).unwrap() * 1_000_000;
            let facts = FrameFacts {
                at: FrameTime { frame_seq, time_ns },
                is_live: true,
                tiles_differing: scene.tiles_differing,
                tile_count: 300,
            };
            events.extend(detectors.detect(&picture(extent, scene.picture, index), &facts));
        }
    }
    events.extend(detectors.restart(Extent::new(9, 9)));
    assert!(EventKind::ALL.into_iter().all(|kind| !detectors.holds(kind)));
    events
}

fn facts(index: u32, step_ms: u64, tiles_differing: usize) -> FrameFacts {
    let frame_seq = u64::from(index) + 1;
    let time_ns = frame_seq * step_ms * 1_000_000;
    let at = FrameTime { frame_seq, time_ns };
    FrameFacts { at, is_live: true, tiles_differing, tile_count: 300 }
}

fn picture(extent: Extent, shown: ScenePicture, index: u32) -> CoarseLevel {
    drawn(extent, |x, y| match shown {
        ScenePicture::Flat(value) => value,
        ScenePicture::Texture(seed) => texture(seed, x, y),
        ScenePicture::Restless => texture(u64::from(index) << 20, x, y),
        ScenePicture::Pulse(frames) => {
            if (index / frames).is_multiple_of(2) {
                240
            } else {
                30
            }
        }
        ScenePicture::Moving(seed, by) => texture(seed, x + by * index, y),
    })
}

fn texture(seed: u64, x: u32, y: u32) -> u8 {
    let mixed = (seed ^ u64::from(x / 3 * 77 + y / 3 * 1291)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 56) as u8
}

/// A grey value for each texel.
fn drawn(extent: Extent, grey: impl Fn(u32, u32) -> u8) -> CoarseLevel {
    let mut coarse = CoarseLevel::new(PyramidShape::new(extent));
    let width = coarse.extent().width;
    for (texel, place) in coarse.texels.iter_mut().zip(0..) {
        *texel = [grey(place % width, place / width); 3];
    }
    coarse
}
