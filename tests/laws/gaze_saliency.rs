//! What moves, and what differs from its surroundings, stands out; what always moves does not.

use foveate_core::gaze::saliency::Saliency;
use foveate_core::geometry::coarse::CoarseLevel;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::pyramid::PyramidShape;
use proptest::prelude::*;

/// Its coarse level, level 3, has 96 x 72 texels.
const EXTENT: Extent = Extent::new(768, 576);
const WIDTH: u32 = 96;
const HEIGHT: u32 = 72;
const FRAME_S: f32 = 0.1;

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
