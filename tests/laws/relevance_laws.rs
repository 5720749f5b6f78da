//! Channels have the values that their formulas give, scorers do what their layers say, and no file or map breaks either.

#![allow(clippy::cast_possible_truncation, reason = "numbers of a test")]

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use foveate_core::channel::{CELLS_MAX, CHANNELS};
use foveate_core::frame::FrameTime;
use foveate_core::geometry::coarse::CoarseLevel;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::plan::{Token, TokenPlan};
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_core::geometry::region::Region;
use foveate_core::geometry::tile::{TILE_SIDE, TileSet};
use foveate_gaze::motion::Motions;
use foveate_gaze::relevance::features::{BINS, TileFeatures};
use foveate_gaze::relevance::injection::{Injection, InjectionError};
use foveate_gaze::relevance::scene::Scene;
use foveate_gaze::relevance::scorer::Scorer;
use foveate_gaze::relevance::seen::{Seen, SeenTiles};
use proptest::prelude::*;
use safetensors::tensor::{Dtype, TensorView};

const EXTENT: Extent = Extent::new(1024, 1024);
const SECOND_NS: u64 = 1_000_000_000;

#[test]
fn the_cell_grid_follows_the_picture_size() {
    assert_eq!(Scene::new(EXTENT).grid(), Extent::new(32, 32));
    assert_eq!(Scene::new(Extent::new(1920, 1080)).grid(), Extent::new(60, 34));
    for side in [1, 31, 33, 4096, 4097, 7680, 9000, 16384] {
        let scene = Scene::new(Extent::new(side, side));
        assert!(scene.grid().longer_side() <= CELLS_MAX, "{side}: {}", scene.grid());
        let covered = scene.grid().width * scene.cell_px();
        assert!((side..side + scene.cell_px()).contains(&covered), "{side}");
    }
}

#[test]
fn features_become_the_channels_of_their_formulas() {
    let whole = TileFeatures { count: 1024, differences: [992; 2], ..TileFeatures::default() };
    let flat = TileFeatures {
        luma: 1024 * 126,
        luma_squared: 1024 * 126 * 126,
        histogram: std::array::from_fn(|bin| if bin == 7 { 1024 } else { 0 }),
        ..whole
    };
    // Half of it black, half white; a vertical edge between each two columns.
    let stripes = TileFeatures {
        luma: 512 * 16 + 512 * 235,
        luma_squared: 512 * 16 * 16 + 512 * 235 * 235,
        gradient: [992 * 219, 0],
        gradient_squared: [992 * 219 * 219, 0],
        coarse_differences: 112,
        strokes: [960, 0],
        histogram: std::array::from_fn(|bin| if bin == 1 || bin == 14 { 512 } else { 0 }),
        ..whole
    };
    let even = TileFeatures { histogram: [1024 / BINS as u32; BINS], ..flat };
    let scene = scene_of(&[flat, stripes, even]);
    let row = |name: &str| scene.channel(name).unwrap()[..3].to_vec();
    assert_eq!(row("mean"), [110.0 / 219.0, 109.5 / 219.0, 110.0 / 219.0]);
    assert_eq!(row("variance"), [0.0, 1.0, 0.0]);
    assert_eq!(row("entropy"), [0.0, 0.25, 1.0]);
    assert_eq!(row("dx"), [0.0, 1.0, 0.0]);
    assert_eq!(row("dy"), [0.0; 3]);
    assert_eq!(row("edges"), [0.0, 0.5f32.sqrt(), 0.0]);
    assert_eq!(row("high_pass"), row("edges"));
    assert_eq!(row("low_pass"), [0.0; 3]);
    assert_eq!(row("strokes"), [0.0, 1.0, 0.0]);
    assert_eq!(row("orientation_cos"), [0.0, 1.0, 0.0]);
    assert_eq!(row("orientation_sin"), [0.0; 3]);
    assert_eq!(row("coherence"), [0.0, 1.0, 0.0]);
}

#[test]
fn orientation_is_that_of_the_gradient() {
    // An edge from the lower left to the upper right: dx = -dy.
    let diagonal = TileFeatures {
        count: 1024,
        differences: [992; 2],
        gradient_squared: [99_200; 2],
        gradient_product: -99_200,
        ..TileFeatures::default()
    };
    let scene = scene_of(&[diagonal]);
    let value = |name: &str| scene.channel(name).unwrap()[0];
    let found = [value("orientation_cos"), value("orientation_sin"), value("coherence")];
    assert_eq!(found, [0.0, -1.0, 1.0]);
}

#[test]
fn an_unchanged_cell_keeps_its_channels_and_ages() {
    let mut features = vec![TileFeatures { count: 1024, ..TileFeatures::default() }; 1024];
    let mut scene = Scene::new(EXTENT);
    let coarse = CoarseLevel::new(PyramidShape::new(EXTENT));
    absorb(&mut scene, &coarse, 1, &features, &[1; 1024], 0);
    let mut changed = [1; 1024];
    changed[5] = 2;
    for tile in &mut features {
        (tile.luma, tile.luma_squared) = (1024 * 235, 1024 * 235 * 235);
    }
    absorb(&mut scene, &coarse, 2, &features, &changed, SECOND_NS);
    decide(&mut scene, 2 * SECOND_NS);
    let mean = scene.channel("mean").unwrap();
    assert_eq!((mean[4], mean[5], mean[6]), (0.0, 1.0, 0.0));
    let age = scene.channel("age").unwrap();
    assert_eq!((age[4], age[5]), (2.0 / 3.0, 0.5));
}

#[test]
fn sampled_cells_become_unseen_after_a_while() {
    let mut scene = Scene::new(EXTENT);
    let coarse = CoarseLevel::new(PyramidShape::new(EXTENT));
    let token = |x, y, step| Token { x, y, sx: step, sy: step, ..Token::default() };
    let tokens = vec![token(0, 0, 1), token(32, 0, 2), token(96, 0, 1)];
    let plan = TokenPlan { patch_side: 32, tokens };
    for (frame_seq, now_ns) in [(1, 0), (2, SECOND_NS)] {
        let seen = Seen { plan: Some(&plan), ..Seen::coarsely(&coarse, frame_seq) };
        scene.absorb(&seen, now_ns);
    }
    decide(&mut scene, SECOND_NS);
    assert_eq!(scene.channel("unseen").unwrap()[..5], [0.0, 1.0, 1.0, 0.0, 1.0]);
    assert_eq!(scene.channel("attention").unwrap()[..5], [0.5, 0.25, 0.25, 0.5, 0.0]);
    decide(&mut scene, 3 * SECOND_NS);
    assert_eq!(scene.channel("unseen").unwrap()[0], 0.5);
}

/// A step of 1.5 is as good as full resolution; a coarser one counts where the plan has none that is finer.
#[test]
fn finest_tokens_of_a_plan_count_as_seen() {
    let coarse = CoarseLevel::new(PyramidShape::new(EXTENT));
    let token = |x, step, extra| {
        let (sx, extra_width) = (step, extra);
        Token { x, y: 0, sx, sy: sx, extra_width, extra_height: extra, ..Token::default() }
    };
    for (tokens, unseen) in [
        (vec![token(0, 1, 16), token(64, 2, 0)], [0.0, 1.0, 1.0, 1.0]),
        (vec![token(0, 2, 0), token(64, 4, 0)], [0.0, 0.0, 1.0, 1.0]),
    ] {
        let mut scene = Scene::new(EXTENT);
        let plan = TokenPlan { patch_side: 32, tokens };
        for (frame_seq, now_ns) in [(1, 0), (2, SECOND_NS)] {
            let seen = Seen { plan: Some(&plan), ..Seen::coarsely(&coarse, frame_seq) };
            scene.absorb(&seen, now_ns);
        }
        decide(&mut scene, SECOND_NS);
        assert_eq!(scene.channel("unseen").unwrap()[..4], unseen);
    }
}

/// Not even the plan of the last frame before the mask, which is taken in after it.
#[test]
fn a_mask_hides_whether_somebody_looked_there() {
    let coarse = CoarseLevel::new(PyramidShape::new(EXTENT));
    let mut scene = Scene::new(EXTENT);
    // Patches of 32 pixels, which are cells, in the left half.
    let token = |index: i32| Token {
        x: index % 16 * 32,
        y: index / 16 * 32,
        sx: 1,
        sy: 1,
        ..Token::default()
    };
    let plan = TokenPlan { patch_side: 32, tokens: (0..512).map(token).collect() };
    let mut texels = TileSet::none_of(coarse.extent());
    let side = coarse.extent().width / 32;
    for (column, row) in (0..8 * side).flat_map(|row| (0..8 * side).map(move |at| (at, row))) {
        texels.insert(column, row);
    }
    let look = |scene: &mut Scene, frame_seq: u64| {
        let now_ns = frame_seq * SECOND_NS / 10;
        let seen = Seen { plan: Some(&plan), ..Seen::coarsely(&coarse, frame_seq) };
        scene.absorb(&seen, now_ns);
        decide(scene, now_ns);
        let at = |name: &str, cell: usize| scene.channel(name).unwrap()[cell];
        // Under the mask, and beside it.
        [0, 12].map(|cell| (at("attention", cell), at("unseen", cell)))
    };
    for frame_seq in 1..20 {
        let [masked, beside] = look(&mut scene, frame_seq);
        assert_eq!(masked, beside);
        assert!(0.0 < masked.0 && masked.1 == 0.0);
    }
    scene.apply_mask(&texels, 21);
    assert_eq!(scene.channel("attention").unwrap()[0], 0.0);
    let [masked, beside] = look(&mut scene, 20);
    assert_eq!(masked, (0.0, 1.0), "as if nobody had looked");
    assert!(0.5 < beside.0 && beside.1 == 0.0);
    let [masked, _] = look(&mut scene, 21);
    assert!(0.0 < masked.0 && masked.1 == 0.0, "what is black may be looked at");
}

/// A sphere of radius 1 whose centre is 4 before the camera, which sees it under half its radius.
#[test]
fn the_normals_of_a_sphere_point_away_from_its_centre() {
    let (grid, distance) = (Extent::new(32, 32), 4.0f64);
    // Depth along the ray (x, y, 1) to the nearer side.
    let depth = |x: f64, y: f64| {
        let a = x * x + y * y + 1.0;
        let root = distance * distance - a * (distance * distance - 1.0);
        (0.0 <= root).then(|| (distance - root.sqrt()) / a)
    };
    let ray = |cell: usize| ((cell as f64 + 0.5) * 32.0 - 512.0) / 1024.0;
    let places = (0..32).flat_map(|row| (0..32).map(move |column| (ray(column), ray(row))));
    let values = places.clone().map(|(x, y)| depth(x, y).unwrap_or(0.0) as f32).collect();
    let mut scene = Scene::new(EXTENT);
    inject(&mut scene, "depth", grid, Region::of(EXTENT), values);
    let channel = |name: &str| scene.channel(name).unwrap().to_vec();
    let normals = [channel("normal_x"), channel("normal_y"), channel("normal_z")];
    let mut count = 0;
    for (index, (x, y)) in places.enumerate() {
        // Neighbours of the silhouette lack a side.
        if 0.15 < x.hypot(y) {
            continue;
        }
        let z = depth(x, y).unwrap();
        let wanted = [x * z, y * z, distance - z];
        for (part, wanted) in normals.iter().zip(wanted) {
            assert!(
                (f64::from(part[index]) - wanted).abs() < 0.03,
                "{x} {y}: {normals:?}",
                normals = part[index]
            );
        }
        count += 1;
    }
    assert!(60 < count);
    assert!(normals[2][0] == 0.0, "nothing is known there");
}

#[test]
fn a_depth_step_is_an_occlusion_edge() {
    let grid = Extent::new(32, 32);
    let of = |depth: fn(usize) -> f32| {
        let mut scene = Scene::new(EXTENT);
        let values = (0..1024).map(|index| depth(index % 32)).collect();
        inject(&mut scene, "depth", grid, Region::of(EXTENT), values);
        scene.channel("occlusion").unwrap()[..32].to_vec()
    };
    let step = of(|column| if column < 16 { 2.0 } else { 3.0 });
    assert_eq!((step[14], step[15], step[17]), (0.0, 0.5, 0.0));
    assert!((step[16] - 1.0 / 3.0).abs() < 1e-6);
    let slope = of(|column| 1.0 + column as f32 * 0.25);
    assert!(slope.iter().all(|value| *value == 0.0), "{slope:?}");
}

#[test]
fn injected_maps_lie_where_their_box_says() {
    let mut scene = Scene::new(EXTENT);
    // Four cells over the upper left quarter: each over 8 x 8 cells of the scene.
    let quarter = Region { x0: 0.0, y0: 0.0, x1: 512.0, y1: 512.0 };
    inject(&mut scene, "coarse", Extent::new(2, 2), quarter, vec![1.0, 2.0, 3.0, -4.0]);
    let at = |scene: &Scene, name: &str, column: usize, row: usize| {
        scene.channel(name).unwrap()[row * 32 + column]
    };
    let found = [(0, 0), (7, 7), (8, 0), (0, 8), (15, 15), (16, 0), (31, 31)];
    let found = found.map(|(column, row)| at(&scene, "coarse", column, row));
    assert_eq!(found, [1.0, 1.0, 2.0, 3.0, -4.0, 0.0, 0.0]);
    // Cells finer than those of the scene are averaged.
    let values = (0..128 * 128).map(|index| (index % 128 % 4) as f32).collect();
    inject(&mut scene, "fine", Extent::new(128, 128), Region::of(EXTENT), values);
    assert!(scene.channel("fine").unwrap().iter().all(|value| *value == 1.5));
    // A part of a cell counts by its share, and what is outside the box as 0.
    let part = Region { x0: 16.0, y0: 0.0, x1: 72.0, y1: 8.0 };
    inject(&mut scene, "part", Extent::new(7, 1), part, vec![1.0, 1.0, 4.0, 4.0, 4.0, 4.0, 8.0]);
    let found = [0, 1, 2, 3].map(|column| at(&scene, "part", column, 0));
    assert_eq!(found, [0.125, 1.0, 0.5, 0.0]);
    // A box that hangs over, as of letterboxed input.
    let wide = Region { x0: -1024.0, y0: 0.0, x1: 2048.0, y1: 1024.0 };
    inject(&mut scene, "wide", Extent::new(3, 1), wide, vec![5.0, 6.0, 7.0]);
    assert!(scene.channel("wide").unwrap().iter().all(|value| *value == 6.0));
}

#[test]
fn a_withdrawn_map_is_forgotten_with_what_was_made_of_it() {
    let mut scene = Scene::new(EXTENT);
    for name in ["depth", "query"] {
        inject(&mut scene, name, Extent::new(1, 2), Region::of(EXTENT), vec![1.0, 5.0]);
    }
    let occlusion = |scene: &Scene| scene.channel("occlusion").unwrap().to_vec();
    assert!(occlusion(&scene).iter().any(|step| *step != 0.0));
    scene.withdraw(&["depth".to_owned(), "another".to_owned()]);
    assert_eq!((scene.channel("depth"), scene.channel("query").is_some()), (None, true));
    assert!(occlusion(&scene).iter().all(|step| *step == 0.0));
}

#[test]
fn an_injected_map_is_forgotten_when_its_time_is_over() {
    let mut scene = Scene::new(EXTENT);
    inject(&mut scene, "depth", Extent::new(1, 2), Region::of(EXTENT), vec![1.0, 5.0]);
    scene.forget(SECOND_NS - 1);
    assert!(scene.channel("depth").is_some());
    scene.forget(SECOND_NS);
    assert_eq!(scene.channel("depth"), None);
    assert!(scene.channel("occlusion").unwrap().iter().all(|value| *value == 0.0));
}

#[test]
fn what_is_no_map_is_refused_with_the_reason() {
    let region = Region::of(EXTENT);
    let given = |name: &str, grid: Extent, region: Region, values: Vec<f32>, ttl_ms: u32| {
        Injection::new(name, (grid, region), EXTENT, values, 1, ttl_ms).unwrap_err()
    };
    let (grid, values) = (Extent::new(2, 1), vec![0.0, 1.0]);
    let empty = Region { x1: 0.0, ..region };
    let outside = Region { x0: 1024.0, x1: 1030.0, ..region };
    let cases = [
        (given("", grid, region, values.clone(), 1), InjectionError::Name(String::new())),
        (given("Depth", grid, region, values.clone(), 1), InjectionError::Name("Depth".to_owned())),
        (
            given("edges", grid, region, values.clone(), 1),
            InjectionError::Computed("edges".to_owned()),
        ),
        (given("a", grid, region, vec![1.0], 1), InjectionError::Count { given: 1, wanted: 2 }),
        (
            given("a", Extent::new(129, 1), region, values.clone(), 1),
            InjectionError::Grid(Extent::new(129, 1)),
        ),
        (given("a", grid, empty, values.clone(), 1), InjectionError::EmptyRegion),
        (given("a", grid, outside, values.clone(), 1), InjectionError::Outside(EXTENT)),
        (
            given("a", grid, region, vec![0.0, f32::INFINITY], 1),
            InjectionError::Value { index: 1, value: f32::INFINITY },
        ),
        (given("a", grid, region, values.clone(), 0), InjectionError::Ttl(0)),
        (given("a", grid, region, values, 60_001), InjectionError::Ttl(60_001)),
    ];
    for (found, wanted) in cases {
        assert_eq!(found, wanted);
        assert!(!found.to_string().is_empty());
    }
    let nan = given("a", grid, region, vec![f32::NAN, 0.0], 1);
    assert!(matches!(nan, InjectionError::Value { index: 0, .. }), "{nan}");
}

/// Shifts by a whole cell, and by parts of one.
#[test]
fn a_known_shift_of_a_real_picture_is_found() {
    let file = std::fs::File::open(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/images/boxes.png"));
    let mut reader = png::Decoder::new(std::io::BufReader::new(file.unwrap())).read_info().unwrap();
    let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut bytes).unwrap();
    let (width, channels) = (info.width as usize, info.color_type.samples());
    // A texel of the coarse level for each of its pixels from (100, 100) on: 128 x 128 of them, 4 to a cell.
    let shifted = |dx: i32, dy: i32| {
        let mut coarse = CoarseLevel::new(PyramidShape::new(EXTENT));
        for (index, texel) in coarse.texels.iter_mut().enumerate() {
            let (x, y) = (100 + index as i32 % 128 - dx, 100 + index as i32 / 128 - dy);
            let at = (y as usize * width + x as usize) * channels;
            *texel = [bytes[at], bytes[at + 1], bytes[at + 2]];
        }
        coarse
    };
    for (dx, dy) in [(4, 0), (0, -4), (-4, 4), (2, 3)] {
        let mut scene = Scene::new(EXTENT);
        let mut motions = Motions::new(PyramidShape::new(EXTENT));
        let mut see = |coarse: &CoarseLevel, frame_seq: u64| {
            motions.follow(coarse, FrameTime { frame_seq, time_ns: frame_seq * SECOND_NS });
            let seen = Seen { motion: Some(&motions), ..Seen::coarsely(coarse, frame_seq) };
            scene.absorb(&seen, frame_seq * SECOND_NS);
            let channel = |name: &str| scene.channel(name).unwrap().to_vec();
            std::iter::zip(channel("motion_x"), channel("motion_y")).collect::<Vec<_>>()
        };
        see(&shifted(0, 0), 1);
        let found = see(&shifted(dx, dy), 2);
        let wanted = (dx as f32 / 4.0, dy as f32 / 4.0);
        let is_right = |motion: &&(f32, f32)| {
            (motion.0 - wanted.0).abs().max((motion.1 - wanted.1).abs()) < 0.05
        };
        let moving = found.iter().filter(|motion| **motion != (0.0, 0.0)).count();
        let right = found.iter().filter(is_right).count();
        assert!(512 < moving && 90 * moving <= 100 * right, "{right} of {moving} for {wanted:?}");
        // Nothing moves where the picture stays.
        let found = see(&shifted(dx, dy), 3);
        assert!(found.iter().all(|motion| *motion == (0.0, 0.0)));
    }
}

#[test]
fn the_document_has_the_table_of_channels() {
    let document = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/docs/reference/relevance.md"
    ));
    let document = document.unwrap();
    let rows: Vec<&str> = document.lines().filter(|line| line.starts_with("| `")).collect();
    let wanted = CHANNELS.iter().map(|channel| {
        let (least, greatest) = channel.range;
        // A bar would end the cell.
        let formula = channel.formula.replace('|', "\\|");
        format!("| `{}` | {least} to {greatest} | {} | {formula} |", channel.name, channel.unit)
    });
    let wanted: Vec<String> = wanted.collect();
    for row in &wanted {
        assert!(
            rows.contains(&row.as_str()),
            "docs/reference/relevance.md lacks\n{}",
            wanted.join("\n")
        );
    }
    assert_eq!(CHANNELS.len(), 36);
}

/// The document's table of weights is the scorer that needs no training.
#[test]
fn the_document_has_the_weights_of_the_default_scorer() {
    let document = include_str!("../../docs/reference/relevance.md");
    let cells = |start: &str| -> Vec<&str> {
        let row = document.lines().find(|line| line.starts_with(start)).unwrap();
        row.split('|').map(str::trim).filter(|cell| !cell.is_empty()).skip(1).collect()
    };
    let columns = cells("| Channel | `entropy`").into_iter().zip(cells("| Weight |"));
    let weights = columns.flat_map(|(names, weight)| {
        let weight: f32 = weight.parse().unwrap();
        names.split(", ").map(move |name| (name.trim_matches('`').to_owned(), weight))
    });
    assert_eq!(Scorer::weighted(weights), Scorer::untrained());
}

/// Two layers of 3 x 3, against a sum that is written as the definition says.
#[test]
#[expect(clippy::too_many_lines, reason = "a definition beside what it defines")]
fn a_scorer_is_its_two_convolutions() {
    let grid = Extent::new(5, 4);
    let number = |seed: usize| ((seed * 37 + 11) % 19) as f32 / 8.0 - 1.0;
    let planes: HashMap<&str, Vec<f32>> = [("a", 3), ("b", 5)]
        .map(|(name, seed)| (name, (0..20).map(|cell| number(cell * seed)).collect()))
        .into();
    let (mean, std) = ([0.5f32, -0.25], [2.0f32, 0.5]);
    let first: Vec<f32> = (0..3 * 2 * 9).map(number).collect();
    let second: Vec<f32> = (0..3 * 9).map(|index| number(index + 5)).collect();
    let (first_bias, second_bias) = ([0.25f32, -0.5, 0.125], [0.375f32]);
    let scorer = Scorer::from_bytes(&file(
        Some("a, b"),
        &[
            ("mean", &[2], &mean),
            ("std", &[2], &std),
            ("conv1.weight", &[3, 2, 3, 3], &first),
            ("conv1.bias", &[3], &first_bias),
            ("conv2.weight", &[1, 3, 3, 3], &second),
            ("conv2.bias", &[1], &second_bias),
        ],
    ))
    .unwrap();
    let convolved = |inputs: &[Vec<f32>], weights: &[f32], bias: &[f32]| -> Vec<Vec<f32>> {
        let output = |output: usize| {
            let cell = |at: usize| {
                let (x, y) = (at as i32 % 5, at as i32 / 5);
                let mut sum = f64::from(bias[output]);
                for (input, plane) in inputs.iter().enumerate() {
                    for (row, column) in (0..9).map(|tap| (tap / 3, tap % 3)) {
                        let (x, y) = (x + column - 1, y + row - 1);
                        if (0..5).contains(&x) && (0..4).contains(&y) {
                            let weight = weights[((output * inputs.len() + input) * 9)
                                + (row * 3 + column) as usize];
                            sum += f64::from(weight) * f64::from(plane[(y * 5 + x) as usize]);
                        }
                    }
                }
                sum as f32
            };
            (0..20).map(cell).collect()
        };
        (0..bias.len()).map(output).collect()
    };
    let normalised: Vec<Vec<f32>> = ["a", "b"]
        .iter()
        .enumerate()
        .map(|(index, name)| {
            planes[name].iter().map(|value| (value - mean[index]) / std[index]).collect()
        })
        .collect();
    let mut hidden = convolved(&normalised, &first, &first_bias);
    hidden.iter_mut().flatten().for_each(|value| *value = value.max(0.0));
    let wanted = &convolved(&hidden, &second, &second_bias)[0];
    let given = |name: &str| planes.get(name).map(Vec::as_slice);
    let found = scorer.score(grid, given, &BTreeMap::new());
    // The mean cell has 0, and none more than 4 octaves: more of the greatest scales all.
    let settled = |sums: &[f32]| -> Vec<f32> {
        let mean = sums.iter().sum::<f32>() / sums.len() as f32;
        let beyond = sums.iter().map(|sum| sum - mean).fold(4.0, f32::max) / 4.0;
        sums.iter().map(|sum| ((sum - mean) / beyond).max(-4.0)).collect()
    };
    let check = |found: &[f32], sums: &[f32]| {
        for (found, wanted) in found.iter().zip(settled(sums)) {
            assert!((found - wanted).abs() < 1e-4, "{found} is not {wanted}");
        }
    };
    check(&found, wanted);
    // Weights add their channels to that; one that is not there adds nothing.
    for weight in [0.5, 20.0] {
        let weights = BTreeMap::from([("a".to_owned(), weight), ("absent".to_owned(), 3.0)]);
        let sum = |(score, value): (&f32, &f32)| score + weight * value;
        let sums: Vec<f32> = found.iter().zip(&planes["a"]).map(sum).collect();
        check(&scorer.score(grid, given, &weights), &sums);
    }
    // A channel that is missing counts as its mean.
    let all_b_at_mean =
        |name: &str| if name == "a" { planes.get("a").map(Vec::as_slice) } else { None };
    let mean_b = [mean[1]; 20];
    let as_mean = |name: &str| {
        if name == "a" { planes.get("a").map(Vec::as_slice) } else { Some(&mean_b[..]) }
    };
    let none = BTreeMap::new();
    assert_eq!(scorer.score(grid, all_b_at_mean, &none), scorer.score(grid, as_mean, &none));
}

#[test]
fn a_file_that_is_no_scorer_is_refused_with_the_reason() {
    let (two, wide) = ([1.0f32, 1.0], [0.5f32; 18]);
    let whole: [Tensor<'_>; 4] = [
        ("mean", &[2], &two),
        ("std", &[2], &two),
        ("conv1.weight", &[1, 2, 3, 3], &wide),
        ("conv1.bias", &[1], &[0.0]),
    ];
    assert!(Scorer::from_bytes(&file(Some("strokes,depth"), &whole)).is_ok());
    let with = |index: usize, tensor: Tensor<'static>| {
        let mut tensors = whole.to_vec();
        tensors[index] = tensor;
        refusal(Some("strokes,depth"), &tensors)
    };
    for (refused, words) in [
        (refusal(None, &whole), "`channels`"),
        (refusal(Some("strokes"), &whole), "invalid shape of `mean`: [2] (expected [1])"),
        (refusal(Some("strokes,strokes"), &whole), "duplicate channel `strokes`"),
        (refusal(Some("strokes,Depth"), &whole), "invalid channel name `Depth`"),
        (with(0, ("mean", &[2], &[f32::NAN, 0.0])), "value 0 of `mean`: NaN"),
        (with(1, ("std", &[2], &[1.0, 0.0])), "`std` of the channel `depth`: 0"),
        (with(1, ("std", &[1], &[1.0])), "invalid shape of `std`: [1]"),
        (with(2, ("conv1.weight", &[1, 2, 3, 1], &[0.0; 6])), "[1, 2, 3, 1]"),
        (with(2, ("conv1.weight", &[1, 3, 1, 1], &[0.0; 3])), "[1, 3, 1, 1]"),
        (
            with(2, ("conv1.weight", &[2, 2, 1, 1], &[0.0; 4])),
            "invalid shape of `conv1.bias`: [1] (expected [2])",
        ),
        (with(2, ("conv1.weight", &[1, 2, 1, 1], &[1e9, 0.0])), "value 0 of `conv1.weight`"),
        (with(3, ("bias", &[1], &[0.0])), "missing tensor `conv1.bias`"),
    ] {
        assert!(refused.contains(words), "{refused:?} does not say {words:?}");
    }
    let mut more = whole.to_vec();
    more.push(("extra", &[1], &[0.0]));
    assert!(refusal(Some("strokes,depth"), &more).contains("unexpected tensor `extra`"));
    let mut tall = whole.to_vec();
    tall[2] = ("conv1.weight", &[2, 2, 1, 1], &[0.0; 4]);
    tall[3] = ("conv1.bias", &[2], &[0.0; 2]);
    assert!(refusal(Some("strokes,depth"), &tall).contains("or `conv2.weight`"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Bytes of a scorer with some of them changed, added or cut off.
    #[test]
    fn no_file_breaks_the_reader(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..20),
        length in any::<prop::sample::Index>(),
        cuts in any::<bool>(),
    ) {
        let (one, weight) = ([0.5f32; 2], [0.25f32; 2]);
        let mut bytes = file(
            Some("strokes,depth"),
            &[
                ("mean", &[2], &one),
                ("std", &[2], &one),
                ("conv1.weight", &[1, 2, 1, 1], &weight),
                ("conv1.bias", &[1], &[0.0]),
            ],
        );
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if cuts {
            bytes.truncate(length.index(bytes.len()));
        }
        if let Ok(scorer) = Scorer::from_bytes(&bytes) {
            let cells = vec![1.0; 4];
            let score = scorer.score(Extent::new(2, 2), |_| Some(&cells), &BTreeMap::new());
            prop_assert!(score.iter().all(|octaves| octaves.abs() <= 4.0), "{score:?}");
        }
    }
}

/// Name, shape and numbers of a tensor.
type Tensor<'a> = (&'a str, &'a [usize], &'a [f32]);

fn refusal(channels: Option<&str>, tensors: &[Tensor<'_>]) -> String {
    Scorer::from_bytes(&file(channels, tensors)).unwrap_err().to_string()
}

fn file(channels: Option<&str>, tensors: &[Tensor<'_>]) -> Vec<u8> {
    let bytes: Vec<(String, Vec<usize>, Vec<u8>)> = tensors
        .iter()
        .map(|(name, shape, numbers)| {
            let bytes = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
            ((*name).to_owned(), shape.to_vec(), bytes)
        })
        .collect();
    let views = bytes.iter().map(|(name, shape, bytes)| {
        (name.clone(), TensorView::new(Dtype::F32, shape.clone(), bytes).unwrap())
    });
    let metadata =
        channels.map(|names| [("channels".to_owned(), names.to_owned())].into_iter().collect());
    safetensors::serialize(views, metadata).unwrap()
}

/// A scene whose first tiles look like that.
fn scene_of(first: &[TileFeatures]) -> Scene {
    let mut features = vec![TileFeatures::default(); 1024];
    features[..first.len()].copy_from_slice(first);
    let mut scene = Scene::new(EXTENT);
    let coarse = CoarseLevel::new(PyramidShape::new(EXTENT));
    absorb(&mut scene, &coarse, 1, &features, &[1; 1024], 0);
    scene
}

fn absorb(
    scene: &mut Scene,
    coarse: &CoarseLevel,
    frame_seq: u64,
    features: &[TileFeatures],
    changed_frame: &[u64],
    now_ns: u64,
) {
    assert_eq!(features.len(), EXTENT.in_cells(TILE_SIDE).area());
    let tiles = SeenTiles { features, changed_frame, black: 16 };
    scene.absorb(&Seen { tiles: Some(tiles), ..Seen::coarsely(coarse, frame_seq) }, now_ns);
}

fn decide(scene: &mut Scene, now_ns: u64) {
    let saliency = foveate_gaze::saliency::Saliency::new(EXTENT, 0.0);
    scene.decide(&saliency, &[], now_ns);
}

/// Injects a map for a second.
fn inject(scene: &mut Scene, name: &str, grid: Extent, region: Region, values: Vec<f32>) {
    let given = Injection::new(name, (grid, region), EXTENT, values, 1, 1000).unwrap();
    scene.inject(&Arc::new(given), SECOND_NS);
}
