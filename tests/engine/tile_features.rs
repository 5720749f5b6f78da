//! The features of tiles that a backend hands to the CPU are those that the naive definition says, on every backend, whatever
//! came before and whenever they were asked for.

use foveate_core::color::ColorTransform;
use foveate_core::frame::PixelFormat;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::tile::{TILE_SIDE, TileSet};
use foveate_engine::backend::cpu::CpuBackend;
use foveate_engine::simd::Instructions;
use testkit::backends::{Player, pool_limited_to};
use testkit::naive::{self, OwnedFrame, Random, transforms};

use crate::allocations::allocations_in;
use crate::each_backend::Make;

/// Whole tiles, and tiles that are cut off to every width and height that matters: below a block, a pixel, an odd one.
const EXTENTS: [(u32, u32); 10] = [
    (64, 64),
    (1, 1),
    (5, 3),
    (33, 34),
    (40, 47),
    (95, 63),
    (100, 7),
    (3, 130),
    (256, 96),
    (321, 243),
];

laws! {
    they_are_those_of_the_definition_after_any_history
    of_every_format_and_range
    asking_for_them_late_gives_those_of_all_tiles
    keeping_them_takes_no_memory
}

fn they_are_those_of_the_definition_after_any_history(make: Make<'_>) {
    let mut random = Random(21);
    for (index, (width, height)) in EXTENTS.into_iter().enumerate() {
        let format = PixelFormat::ALL[index % PixelFormat::ALL.len()];
        let mut course = Course::new(make, format, Extent::new(width, height), &mut random);
        course.player.backend.keep_features(true);
        for _ in 0..10 {
            let change_count = random.below(4);
            course.step(change_count, &mut random);
            course.check();
        }
    }
}

fn of_every_format_and_range(make: Make<'_>) {
    let mut random = Random(22);
    for format in PixelFormat::ALL {
        for color in transforms(format) {
            let frame = OwnedFrame::random(format, Extent::new(70, 45), color, &mut random);
            let mut course = Course { player: make(frame.kind()), frame };
            course.player.backend.keep_features(true);
            course.step(0, &mut random);
            course.check();
        }
    }
}

fn asking_for_them_late_gives_those_of_all_tiles(make: Make<'_>) {
    let mut random = Random(23);
    for changes in [0, 3] {
        let mut course = Course::new(make, PixelFormat::Nv12, Extent::new(333, 222), &mut random);
        course.step(3, &mut random);
        assert_eq!(course.player.backend.features(), None);
        course.player.backend.keep_features(true);
        assert_eq!(course.player.backend.features(), None, "not made yet");
        course.step(changes, &mut random);
        course.check();
        course.player.backend.keep_features(false);
        course.step(2, &mut random);
        assert_eq!(course.player.backend.features(), None);
        course.player.backend.keep_features(true);
        course.step(changes, &mut random);
        course.check();
    }
}

fn keeping_them_takes_no_memory(make: Make<'_>) {
    let mut random = Random(24);
    let mut course = Course::new(make, PixelFormat::I420, Extent::new(950, 530), &mut random);
    course.player.backend.keep_features(true);
    course.step(1, &mut random);
    let dirty = course.change(5, &mut random);
    let allocations = allocations_in(|| {
        course.player.update(&course.frame.view(), &dirty, &mut []);
    });
    let mut without = Course::new(make, PixelFormat::I420, Extent::new(950, 530), &mut random);
    without.step(1, &mut random);
    let dirty = without.change(5, &mut random);
    let usual = allocations_in(|| {
        without.player.update(&without.frame.view(), &dirty, &mut []);
    });
    assert_eq!(allocations, usual);
    course.check();
}

#[test]
fn every_instruction_set_gives_the_same() {
    let mut random = Random(25);
    for format in PixelFormat::ALL {
        let extent = Extent::new(333, 150);
        let frame = OwnedFrame::random(format, extent, ColorTransform::IDENTITY, &mut random);
        for instructions in Instructions::available() {
            let backend = CpuBackend::new(frame.kind(), &pool_limited_to(instructions));
            let mut course = Course { player: Player::new(backend), frame: frame.clone() };
            course.player.backend.keep_features(true);
            course.step(0, &mut random);
            course.check();
        }
    }
}

/// The greatest sums that a tile can have.
#[test]
fn no_sum_overflows() {
    let extent = Extent::new(TILE_SIDE, TILE_SIDE);
    let mut frame = OwnedFrame::uniform(PixelFormat::Gray8, extent, ColorTransform::IDENTITY, 255);
    let mut player = testkit::backends::on_cpu(frame.kind());
    player.backend.keep_features(true);
    player.update(&frame.view(), &TileSet::all(extent), &mut []);
    assert_eq!(player.backend.features().unwrap(), naive::features(&frame));
    let mut index = 0;
    frame.adjust(0, 0, TILE_SIDE, |_| {
        index += 1;
        if (index + index / TILE_SIDE).is_multiple_of(2) { 0 } else { 255 }
    });
    player.update(&frame.view(), &TileSet::all(extent), &mut []);
    assert_eq!(player.backend.features().unwrap(), naive::features(&frame));
}

/// A player and its newest frame.
struct Course {
    player: Player,
    frame: OwnedFrame,
}

impl Course {
    fn new(make: Make<'_>, format: PixelFormat, extent: Extent, random: &mut Random) -> Self {
        let color = transforms(format)[0];
        let frame = OwnedFrame::random(format, extent, color, random);
        Self { player: make(frame.kind()), frame }
    }

    /// Changes so many boxes of the frame; returns the tiles under them.
    fn change(&mut self, changes: u32, random: &mut Random) -> TileSet {
        let Extent { width, height } = self.frame.extent;
        let mut dirty = TileSet::none(self.frame.extent);
        for _ in 0..changes {
            let (x, y, side) = (random.below(width), random.below(height), 1 + random.below(40));
            self.frame.scramble(x, y, side, random);
            for row in y.saturating_sub(1) / TILE_SIDE..=(y + side).min(height - 1) / TILE_SIDE {
                for column in
                    x.saturating_sub(1) / TILE_SIDE..=(x + side).min(width - 1) / TILE_SIDE
                {
                    dirty.insert(column, row);
                }
            }
        }
        dirty
    }

    fn step(&mut self, changes: u32, random: &mut Random) {
        let dirty = self.change(changes, random);
        self.player.update(&self.frame.view(), &dirty, &mut []);
    }

    fn check(&self) {
        let found = self.player.backend.features().unwrap();
        let wanted = naive::features(&self.frame);
        assert_eq!(found.len(), wanted.len());
        for (tile, (found, wanted)) in found.iter().zip(&wanted).enumerate() {
            assert_eq!(found, wanted, "tile {tile} of {}", self.frame.extent);
        }
    }
}
