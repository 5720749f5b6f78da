//! However a picture drifts, trembles, flickers or cuts, in whatever format and size: the tiles that are taken over are
//! those with a sample beyond the threshold and those whose turn it is, so the resident copy is never further from the
//! frame than the published bounds, and what is built from it step by step is what a rebuild gives.

#![allow(clippy::cast_possible_truncation, reason = "of numbers below a bound")]

use std::num::NonZeroU32;

use foveate_core::change::{ChangeConfig, Threshold};
use foveate_core::frame::{FrameView, PixelFormat, Plane};
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::region::PixelBox;
use foveate_core::geometry::tile::TileSet;
use foveate_engine::backend::cpu::CpuBackend;
use foveate_engine::simd::Instructions;
use proptest::prelude::*;
use testkit::backends::{Player, pool, pool_limited_to};
use testkit::follow::Follower;
use testkit::history::move_on;
use testkit::is_long;
use testkit::naive::{self, OwnedFrame, Picture, Random};

/// Long enough for a few rounds of refreshing, and for a drift of one step a frame to leave small thresholds behind.
const FRAMES: u64 = 14;

/// Long enough for a threshold that follows the noise to rise, and to fall.
const FRAMES_OF_AUTO: u64 = 50;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn ingested_tiles_are_those_beyond_the_threshold_and_those_refreshed(setup in setups()) {
        let tiles = TileSet::none(setup.extent()).grid().area();
        setup.for_each_frame(|step| {
            let dirty = step.tiles_beyond(step.bound);
            let refreshed = step.ingested.indices().filter(|tile| !dirty.contains(tile)).count();
            let turn = setup.refresh_frames.map_or(0, |frames| tiles.div_ceil(frames as usize));
            assert!(dirty.iter().all(|tile| step.ingested.indices().any(|other| other == *tile)));
            assert!(refreshed <= turn, "{refreshed} tiles are neither dirty nor due, of {turn}");
        });
    }

    #[test]
    fn the_resident_copy_takes_over_what_is_ingested_and_nothing_else(setup in setups()) {
        setup.for_each_frame(|step| {
            for (x, y) in pixels(setup.extent()) {
                let taken = step.ingested.contains(x / 32, y / 32);
                let source = if taken { step.frame } else { step.before };
                assert_eq!(step.resident.samples(x, y), source.samples(x, y), "({x}, {y})");
            }
        });
    }

    #[test]
    fn errors_stay_within_the_published_bounds(setup in setups()) {
        setup.for_each_frame(|step| {
            for (x, y) in pixels(setup.extent()) {
                let difference = largest_difference(step.resident.samples(x, y), step.frame.samples(x, y));
                assert!(difference <= step.bound, "({x}, {y}) is off by {difference}");
            }
            let bound = step.frame.color.rgb_bound(step.bound);
            let (shown, true_levels) = (levels(step.resident), levels(step.frame));
            for (level, (shown, exact)) in shown.iter().zip(&true_levels).enumerate() {
                for (&shown, &exact) in shown.texels.iter().zip(&exact.texels) {
                    let difference = u32::from(largest_difference(shown, exact));
                    assert!(difference <= bound, "level {level}: {difference} of {bound}");
                }
            }
        });
    }

    #[test]
    fn no_tile_is_older_than_a_round_of_refreshing(setup in setups()) {
        let Some(round) = setup.refresh_frames else { return Ok(()) };
        let mut ingested_in = vec![0; TileSet::none(setup.extent()).grid().area()];
        setup.for_each_frame(|step| {
            for tile in step.ingested.indices() {
                ingested_in[tile] = step.frame_seq;
            }
            let oldest = ingested_in.iter().min().unwrap();
            assert!(step.frame_seq - oldest < u64::from(round), "a tile of frame {oldest}");
        });
    }

    #[test]
    fn changed_frame_is_the_last_frame_that_changed_a_resident_sample(setup in setups()) {
        let extent = setup.extent();
        let grid = TileSet::none(extent).grid();
        let mut changed_frame = vec![1; grid.area()];
        let mut random = Random(setup.seed);
        setup.for_each_frame(|step| {
            for (x, y) in pixels(extent) {
                if step.resident.samples(x, y) != step.before.samples(x, y) {
                    changed_frame[tile_of(grid, x, y)] = step.frame_seq;
                }
            }
            let (x0, y0) = (random.below(extent.width), random.below(extent.height));
            let x1 = x0 + 1 + random.below(extent.width - x0);
            let y1 = y0 + 1 + random.below(extent.height - y0);
            let newest = tiles_under(grid, x0, y0, x1, y1).map(|tile| changed_frame[tile]).max();
            assert_eq!(Some(step.detector.tracker().changed_frame(PixelBox { x0, y0, x1, y1 })), newest);
        });
    }

    #[test]
    fn updating_a_pyramid_equals_rebuilding_it_from_the_resident_copy(setup in setups()) {
        let mut updated = None;
        setup.for_each_frame(|step| {
            let make = || Player::new(CpuBackend::new(step.frame.kind(), pool()));
            let updated = updated.get_or_insert_with(make);
            let resident = step.detector.resident();
            updated.update(&resident, step.ingested, &mut []);
            let mut rebuilt = make();
            rebuilt.update(&resident, &TileSet::all(setup.extent()), &mut []);
            for level in 0..rebuilt.backend.shape().level_count() {
                assert!(updated.read_level(level) == rebuilt.read_level(level));
            }
        });
    }

    #[test]
    fn refreshing_is_spread_evenly_and_moves_no_changed_frame(
        width in 1..400u32, height in 1..300u32, round in 1..200u32, format in 0..8usize,
    ) {
        let (extent, format) = (Extent::new(width, height), PixelFormat::ALL[format]);
        let color = naive::transforms(format)[0];
        let frame = OwnedFrame::uniform(format, extent, color, 90);
        let mut detector = Follower::new(&frame.view(), change(Threshold::Fixed(3), Some(round)));
        detector.detect(&frame.view(), 1);
        let tiles = TileSet::none(extent).grid().area();
        let mut turns = vec![0; tiles];
        for frame_seq in 2..2 + u64::from(round) {
            detector.detect(&frame.view(), frame_seq);
            let refreshed = detector.ingested();
            let (fewest, most) = (tiles / round as usize, tiles.div_ceil(round as usize));
            prop_assert!((fewest..=most).contains(&refreshed.count()), "{}", refreshed.count());
            refreshed.indices().for_each(|tile| turns[tile] += 1);
        }
        prop_assert_eq!(turns, vec![1; tiles]);
        let everywhere = PixelBox { x0: 0, y0: 0, x1: width, y1: height };
        prop_assert_eq!(detector.tracker().changed_frame(everywhere), 1);
    }
}

#[test]
fn tiles_that_differ_from_the_frame_before_are_counted() {
    let mut random = Random(2);
    let (format, color) = (PixelFormat::Nv12, naive::transforms(PixelFormat::Nv12)[0]);
    // The larger one has more tiles than a byte counts.
    for extent in [Extent::new(67, 35), Extent::new(600, 500)] {
        let mut frame = OwnedFrame::random(format, extent, color, &mut random);
        let config = change(Threshold::Fixed(0), None);
        let mut detector = Follower::new(&frame.view(), config);
        for frame_seq in 1..30 {
            let mut tiles = TileSet::none(extent);
            if frame_seq == 1 {
                tiles = TileSet::all(extent);
            } else if frame_seq % 3 == 0 {
                // All of them; otherwise none, or a few.
                for (x, y) in pixels(extent).filter(|(x, y)| x % 32 == 0 && y % 32 == 0) {
                    flip(&mut frame, x, y, 0, 1);
                    tiles.insert(x / 32, y / 32);
                }
            } else {
                for _ in 0..random.below(4) {
                    let (x, y) = (random.below(extent.width), random.below(extent.height));
                    let is_new = !tiles.contains(x / 32, y / 32);
                    if is_new {
                        flip(&mut frame, x, y, 0, 1);
                        tiles.insert(x / 32, y / 32);
                    }
                }
            }
            detector.detect(&frame.view(), frame_seq);
            assert_eq!(detector.tracker().differing(), tiles.count(), "frame {frame_seq}");
        }
    }
}

#[test]
fn any_changed_sample_makes_its_tile_dirty() {
    let mut random = Random(1);
    for format in PixelFormat::ALL {
        for instructions in Instructions::available() {
            for (extent, is_flat) in [
                (Extent::new(67, 35), false),
                (Extent::new(67, 35), true),
                (Extent::new(333, 1041), false),
            ] {
                let color = naive::transforms(format)[0];
                let mut frame = OwnedFrame::random(format, extent, color, &mut random);
                if is_flat {
                    // What lies between two rows looks like samples.
                    (0..format.plane_count()).for_each(|plane| frame.plane_mut(plane).0.fill(100));
                }
                let config = change(Threshold::Fixed(4), None);
                let pool = pool_limited_to(instructions);
                let mut detector = Follower::on(&pool, &frame.view(), config);
                detector.detect(&frame.view(), 1);
                for frame_seq in 2..40 {
                    let (x, y) = (random.below(extent.width), random.below(extent.height));
                    let component = random.below(3);
                    let step = if frame_seq % 2 == 0 { 4 } else { 8 };
                    flip(&mut frame, x, y, component, step);
                    detector.detect(&frame.view(), frame_seq);
                    let mut expected = TileSet::none(extent);
                    if step == 8 {
                        expected.insert(x / 32, y / 32);
                    } else {
                        flip(&mut frame, x, y, component, step);
                    }
                    let what = (format, instructions, extent, x, y, component);
                    assert_eq!(detector.ingested(), &expected, "{what:?}");
                }
            }
        }
    }
}

#[test]
fn a_drift_of_one_step_a_frame_cannot_hide() {
    for format in PixelFormat::ALL {
        let (extent, color) = (Extent::new(65, 33), naive::transforms(format)[0]);
        let mut detector = None;
        for value in 0..=255_u8 {
            let frame = OwnedFrame::uniform(format, extent, color, value);
            let detector = detector.get_or_insert_with(|| {
                Follower::new(&frame.view(), change(Threshold::Fixed(4), None))
            });
            detector.detect(&frame.view(), u64::from(value) + 1);
            let ingested = detector.ingested().clone();
            let expected =
                if value.is_multiple_of(5) { TileSet::all(extent) } else { TileSet::none(extent) };
            assert_eq!(ingested, expected, "{format:?} at {value}");
        }
    }
}

#[test]
fn bytes_that_are_no_samples_do_not_count() {
    for (format, width, unused) in naive::BYTES_WITHOUT_SAMPLES {
        let extent = Extent::new(width, 1);
        let mut bytes = vec![7; format.plane_shape(0, extent).row_bytes as usize];
        let color = naive::transforms(format)[0];
        let mut detectors = None;
        for (frame_seq, value) in [(1, 7), (2, 9)] {
            bytes[unused] = value;
            let plane = Plane { bytes: &bytes, stride: bytes.len() };
            let frame = FrameView::new(format, extent, color, &[plane]).unwrap();
            let [exact, refreshed] = detectors.get_or_insert_with(|| {
                [None, Some(1)]
                    .map(|round| Follower::new(&frame, change(Threshold::Fixed(0), round)))
            });
            exact.detect(&frame, frame_seq);
            let ingested = exact.ingested();
            assert_eq!(ingested.is_empty(), 1 < frame_seq, "{format:?} {width}");
            refreshed.detect(&frame, frame_seq);
            let ingested = refreshed.ingested();
            assert_eq!(ingested, &TileSet::all(extent), "{format:?} {width}");
            let everywhere = PixelBox { x0: 0, y0: 0, x1: width, y1: 1 };
            assert_eq!(refreshed.tracker().changed_frame(everywhere), 1, "{format:?} {width}");
        }
    }
}

#[test]
fn the_last_real_sample_of_a_yuy2_row_counts() {
    let extent = Extent::new(63, 1);
    let color = naive::transforms(PixelFormat::Yuy2)[0];
    for sample in [4 * 31, 4 * 31 + 1, 4 * 31 + 3] {
        let mut bytes = vec![7; 128];
        let frame = |bytes: &[u8], seq: u64, detector: &mut Option<Follower>| {
            let frame =
                FrameView::new(PixelFormat::Yuy2, extent, color, &[Plane { bytes, stride: 128 }])
                    .unwrap();
            let detector =
                detector.get_or_insert_with(|| Follower::new(&frame, ChangeConfig::default()));
            detector.detect(&frame, seq);
            detector.ingested().count()
        };
        let mut detector = None;
        frame(&bytes, 1, &mut detector);
        bytes[sample] = 8;
        assert_eq!(frame(&bytes, 2, &mut detector), 1, "sample {sample}");
    }
}

/// A stream of frames, and how its changes are followed.
#[derive(Clone, Debug)]
struct Setup {
    seed: u64,
    width: u32,
    height: u32,
    format: PixelFormat,
    threshold: Threshold,
    refresh_frames: Option<u32>,
}

fn setups() -> impl Strategy<Value = Setup> {
    let fixed = prop_oneof![2 => Just(0), 6 => 1..=12_u8, 2 => 13..=254_u8, 1 => Just(255)];
    let thresholds = prop_oneof![
        2 => fixed.prop_map(Threshold::Fixed),
        1 => (1..=40_u8).prop_map(|limit| Threshold::Auto { limit }),
    ];
    let rounds = prop::option::of(1..10_u32);
    (any::<u64>(), sizes(), prop::sample::select(&PixelFormat::ALL[..]), thresholds, rounds)
        .prop_map(|(seed, (width, height), format, threshold, refresh_frames)| Setup {
            seed,
            width,
            height,
            format,
            threshold,
            refresh_frames,
        })
}

/// Small ones; some that are shared out among threads, a row of tiles to each part, or more.
fn sizes() -> impl Strategy<Value = (u32, u32)> {
    prop_oneof![
        12 => (1..150_u32, 1..120_u32),
        1 => (640..700_u32, 480..512_u32),
        1 => (300..330_u32, 1_000..1_100_u32),
    ]
}

/// The effect of one frame.
struct Step<'a> {
    frame_seq: u64,
    frame: &'a OwnedFrame,
    /// The resident copy before the frame; the frame itself where it is the first.
    before: &'a OwnedFrame,
    /// The resident copy after it.
    resident: &'a OwnedFrame,
    ingested: &'a TileSet,
    detector: &'a Follower,
    /// The published bound of the samples.
    bound: u8,
}

impl Setup {
    fn extent(&self) -> Extent {
        Extent::new(self.width, self.height)
    }

    fn frame_count(&self) -> u64 {
        match self.threshold {
            Threshold::Fixed(_) => FRAMES,
            Threshold::Auto { .. } | Threshold::BySource { .. } => FRAMES_OF_AUTO,
        }
    }

    /// The published bound, which is what the configuration promises.
    fn checked_bound(&self, detector: &Follower) -> u8 {
        let bound = detector.tracker().sample_bound();
        match self.threshold {
            Threshold::Fixed(threshold) => assert_eq!(bound, threshold),
            Threshold::Auto { limit } | Threshold::BySource { limit } => {
                assert!(bound <= limit, "{bound} above {limit}");
            }
        }
        bound
    }

    /// Plays a history and calls `law` after each frame.
    fn for_each_frame(&self, mut law: impl FnMut(&Step<'_>)) {
        let mut random = Random(self.seed);
        let colors = naive::transforms(self.format);
        let color = colors[random.below(colors.len() as u32) as usize];
        let mut frame = OwnedFrame::random(self.format, self.extent(), color, &mut random);
        let config = change(self.threshold, self.refresh_frames);
        let sets = Instructions::available();
        let instructions = sets[random.below(sets.len() as u32) as usize];
        let mut detector = Follower::on(&pool_limited_to(instructions), &frame.view(), config);
        let mut before = frame.clone();
        let habit = random.below(6);
        for frame_seq in 1..=self.frame_count() {
            if 1 < frame_seq {
                let kind = if random.below(3) == 0 { random.below(6) } else { habit };
                move_on(&mut frame, kind, frame_seq, &mut random);
            }
            detector.detect(&frame.view(), frame_seq);
            let ingested = detector.ingested().clone();
            let resident = OwnedFrame::copied(&detector.resident());
            law(&Step {
                frame_seq,
                frame: &frame,
                before: &before,
                resident: &resident,
                ingested: &ingested,
                detector: &detector,
                bound: self.checked_bound(&detector),
            });
            before = resident;
        }
    }
}

/// Makes one sample of a pixel larger or smaller by `step`, a power of two; a second time undoes it.
fn flip(frame: &mut OwnedFrame, x: u32, y: u32, component: u32, step: u8) {
    let mut turn = 0..3;
    frame.adjust(
        x,
        y,
        1,
        |sample| {
            if turn.next() == Some(component) { sample ^ step } else { sample }
        },
    );
}

impl Step<'_> {
    /// The tiles with a sample that is further than `threshold` from what the resident copy was; at first all.
    fn tiles_beyond(&self, threshold: u8) -> Vec<usize> {
        let grid = self.ingested.grid();
        let mut beyond = vec![self.frame_seq == 1; grid.area()];
        for (x, y) in pixels(self.frame.extent) {
            let difference =
                largest_difference(self.before.samples(x, y), self.frame.samples(x, y));
            beyond[tile_of(grid, x, y)] |= threshold < difference;
        }
        (0..grid.area()).filter(|tile| beyond[*tile]).collect()
    }
}

/// Histories that each law is held to: more with `FOVEATE_LONG=1`.
fn cases() -> u32 {
    if is_long() { 1_000 } else { 64 }
}

fn change(threshold: Threshold, refresh_frames: Option<u32>) -> ChangeConfig {
    ChangeConfig { threshold, refresh_frames: refresh_frames.and_then(NonZeroU32::new) }
}

fn levels(frame: &OwnedFrame) -> Vec<Picture> {
    naive::pyramid(&naive::picture(frame))
}

fn largest_difference(a: [u8; 3], b: [u8; 3]) -> u8 {
    a.into_iter().zip(b).map(|(a, b)| a.abs_diff(b)).max().unwrap()
}

fn pixels(extent: Extent) -> impl Iterator<Item = (u32, u32)> {
    (0..extent.height).flat_map(move |y| (0..extent.width).map(move |x| (x, y)))
}

fn tile_of(grid: Extent, x: u32, y: u32) -> usize {
    (y / 32 * grid.width + x / 32) as usize
}

fn tiles_under(grid: Extent, x0: u32, y0: u32, x1: u32, y1: u32) -> impl Iterator<Item = usize> {
    let rows = y0 / 32..=(y1 - 1) / 32;
    rows.flat_map(move |row| {
        (x0 / 32..=(x1 - 1) / 32).map(move |column| (row * grid.width + column) as usize)
    })
}
