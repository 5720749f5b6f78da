//! What moves, and what differs from its surroundings, stands out; what always moves does not; and what was looked at
//! makes room for a while, and no longer.

use foveate_core::geometry::coarse::CoarseLevel;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_gaze::inhibition::Inhibition;
use foveate_gaze::saliency::Saliency;
use proptest::prelude::*;

/// Its coarse level, level 3, has 96 x 72 texels.
const EXTENT: Extent = Extent::new(768, 576);
const WIDTH: u32 = 96;
const HEIGHT: u32 = 72;
const FRAME_S: f32 = 0.1;
const MS: u64 = 1_000_000;

proptest! {
    #[test]
    fn what_moves_stands_out_most(x in 4..88u32, y in 4..60u32, bright in any::<bool>()) {
        let mut saliency = Saliency::new(EXTENT, 0.3);
        let ground = checkered();
        for _ in 0..10 {
            saliency.absorb(&ground, FRAME_S);
        }
        let mut walker = ground.clone();
        paint(&mut walker, x, y, if bright { 250 } else { 10 });
        saliency.weigh(&walker);
        let (column, row) = greatest(saliency.map());
        prop_assert!((x..x + 4).contains(&column) && (y..y + 8).contains(&row), "{column} {row}");
    }

    #[test]
    fn what_differs_from_its_surroundings_stands_out(
        x in 12..80u32, y in 12..56u32, color in prop_oneof![Just([200, 60, 60]), Just([60, 60, 200]), Just([230; 3])],
    ) {
        let mut saliency = Saliency::new(EXTENT, 0.0);
        let mut picture = grey();
        for row in y..y + 3 {
            for column in x..x + 3 {
                picture.texels[(row * WIDTH + column) as usize] = color;
            }
        }
        saliency.weigh(&picture);
        let (column, row) = greatest(saliency.map());
        prop_assert!((x..x + 3).contains(&column) && (y..y + 3).contains(&row), "{column} {row}");
    }

    /// It fades all the time, and five times the time of decay after it was left there is nothing: not a little, nothing.
    #[test]
    fn inhibition_decays_to_nothing(
        strength in 0.0..=1.0f64, decay_ms in 1..60_000u32, radius in 1.0..20.0f64,
        x in 0.0..96.0f64, y in 0.0..72.0f64,
    ) {
        let mut inhibition = Inhibition::new(strength, decay_ms, 1);
        inhibition.look(x, y, false, radius, 7 * MS);
        let decay_ns = u64::from(decay_ms) * MS;
        let kept = |inhibition: &Inhibition, now_ns| inhibition.kept(x, y, radius, now_ns);
        prop_assert!((kept(&inhibition, 7 * MS) - (1.0 - strength)).abs() < 1e-9);
        let mut last = 0.0;
        for fifths in 0..25 {
            let now = kept(&inhibition, 7 * MS + decay_ns * fifths / 5);
            prop_assert!(last < now || strength == 0.0);
            last = now;
        }
        let end_ns = 7 * MS + 5 * decay_ns;
        prop_assert_eq!(kept(&inhibition, end_ns), 1.0);
        let mut cells = vec![0.5; 96 * 72];
        inhibition.inhibit(&mut cells, 96, radius, end_ns);
        prop_assert!(cells.iter().all(|cell| *cell == 0.5));
        inhibition.forget(end_ns);
        prop_assert!(inhibition.traces_mut().is_empty());
    }

    /// Every place loses something, none gains; and all of it agrees with the definition.
    #[test]
    fn inhibition_takes_what_it_says(
        traces in prop::collection::vec((0.0..96.0f64, 0.0..72.0f64), 1..40), radius in 1.0..20.0f64,
    ) {
        let mut inhibition = Inhibition::new(0.9, 1000, 1);
        for (index, (x, y)) in traces.iter().enumerate() {
            inhibition.look(*x, *y, false, radius, index as u64 * 20 * MS);
        }
        let now_ns = 900 * MS;
        let mut cells = vec![1.0; 96 * 72];
        inhibition.inhibit(&mut cells, 96, radius, now_ns);
        for (index, cell) in cells.iter().enumerate() {
            let (column, row) = ((index % 96) as f64 + 0.5, (index / 96) as f64 + 0.5);
            let kept = inhibition.kept(column, row, radius, now_ns);
            // Beyond three radii a trace is cut off, each at 1.2 % or less.
            let slack = 0.011 * inhibition.traces_mut().len() as f64 + 1e-5;
            prop_assert!((f64::from(*cell) - kept).abs() <= slack, "{cell} is not {kept}");
        }
    }
}

/// A screen that flickers for ten seconds, and then somebody who walks in.
#[test]
fn a_place_that_always_changes_makes_room_for_what_is_new() {
    let mut saliency = Saliency::new(EXTENT, 0.3);
    let flicker = |index: u32| {
        let mut picture = checkered();
        for offset in 0..4 {
            paint(
                &mut picture,
                20 + 4 * offset,
                20,
                if index.is_multiple_of(2) { 20 } else { 240 },
            );
        }
        picture
    };
    for index in 0..3 {
        saliency.absorb(&flicker(index), FRAME_S);
    }
    saliency.weigh(&flicker(3));
    let (column, row) = greatest(saliency.map());
    assert!(
        (20..36).contains(&column) && (20..28).contains(&row),
        "a flicker is new too: {column} {row}"
    );
    for index in 0..101 {
        saliency.absorb(&flicker(index), FRAME_S);
    }
    let mut picture = flicker(101);
    paint(&mut picture, 70, 50, 145);
    saliency.weigh(&picture);
    let (column, row) = greatest(saliency.map());
    assert!((70..74).contains(&column) && (50..58).contains(&row), "{column} {row}");
}

#[test]
fn another_scene_is_no_change() {
    let mut saliency = Saliency::new(EXTENT, 0.3);
    for _ in 0..10 {
        saliency.absorb(&grey(), FRAME_S);
    }
    let mut scene = checkered();
    for texel in &mut scene.texels {
        *texel = texel.map(|sample| 255 - sample / 3);
    }
    saliency.weigh(&scene);
    assert!(saliency.change().iter().all(|change| *change == 0.0));
    saliency.absorb(&scene, FRAME_S);
    saliency.weigh(&scene);
    assert!(saliency.change().iter().all(|change| *change == 0.0));
}

#[test]
fn the_middle_counts_a_little_more() {
    let mut saliency = Saliency::new(EXTENT, 0.3);
    saliency.absorb(&grey(), FRAME_S);
    let mut picture = grey();
    for (x, y) in [(4, 32), (46, 32), (88, 32)] {
        paint(&mut picture, x, y, 230);
    }
    saliency.weigh(&picture);
    let (column, _) = greatest(saliency.map());
    assert!((46..50).contains(&column), "{column}");
}

#[test]
fn where_nothing_differs_nothing_stands_out() {
    let mut saliency = Saliency::new(EXTENT, 0.3);
    for _ in 0..3 {
        saliency.weigh(&grey());
        saliency.absorb(&grey(), FRAME_S);
    }
    assert!(saliency.map().iter().all(|weight| *weight == 0.0));
}

fn grey() -> CoarseLevel {
    let mut picture = CoarseLevel::new(PyramidShape::new(EXTENT));
    assert_eq!(picture.extent(), Extent::new(WIDTH, HEIGHT));
    picture.texels.fill([100; 3]);
    picture
}

fn checkered() -> CoarseLevel {
    let mut picture = grey();
    for (index, texel) in (0u32..).zip(&mut picture.texels) {
        let (column, row) = (index % WIDTH, index / WIDTH);
        *texel = if (column / 6 + row / 6) % 2 == 0 { [80; 3] } else { [120; 3] };
    }
    picture
}

/// Somebody of 4 x 8 texels.
fn paint(picture: &mut CoarseLevel, x: u32, y: u32, value: u8) {
    for row in y..y + 8 {
        for column in x..x + 4 {
            picture.texels[(row * WIDTH + column) as usize] = [value; 3];
        }
    }
}

fn greatest(map: &[f32]) -> (u32, u32) {
    let index = (0..map.len()).max_by(|a, b| map[*a].total_cmp(&map[*b])).unwrap();
    let index = u32::try_from(index).unwrap();
    (index % WIDTH, index / WIDTH)
}
