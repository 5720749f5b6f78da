//! The coarse level that a backend hands to the CPU is the level that the naive definition says, on every backend, whatever
//! came before and whether or not it was kept; and handing it over takes no memory.

use foveate_core::frame::PixelFormat;
use foveate_core::geometry::coarse::{COARSE_SIDE_MAX, CoarseLevel};
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_core::geometry::tile::{TILE_SIDE, TileSet};
use foveate_core::token::{DType, Normalisation, TokenFormat};
use foveate_engine::planes::Planes;
use foveate_engine::planes::SamplerSpec;
#[cfg(feature = "vulkan")]
use testkit::backends;
use testkit::backends::Player;
#[cfg(feature = "vulkan")]
use testkit::device;
use testkit::naive::{self, OwnedFrame, Random};

use crate::allocations::allocations_in;
use crate::each_backend::Make;

/// Of every level that a coarse one can be, image and tail; the smallest, widest and highest sources; odd sides.
const EXTENTS: [(u32, u32); 16] = [
    (1, 1),
    (5, 3),
    (128, 128),
    (129, 40),
    (37, 255),
    (500, 300),
    (640, 480),
    (1000, 33),
    (1920, 1080),
    (67, 2049),
    (4096, 31),
    (8192, 64),
    (8193, 1),
    (Extent::SIDE_MAX, 1),
    (3, Extent::SIDE_MAX),
    (Extent::SIDE_MAX, 40),
];

/// Format of all tokens.
const FORMAT: TokenFormat = TokenFormat::new(14, DType::U8, Normalisation::NONE);

laws! {
    it_is_exact_at_every_extent_and_after_any_history
    a_still_frame_keeps_a_current_coarse_level
    an_outdated_coarse_level_is_not_returned
    handing_it_over_takes_no_memory
    the_coarse_level_of_another_pyramid_is_a_bug
}

#[test]
fn the_sources_have_every_coarse_level_that_there_is() {
    let level_of = |(width, height)| {
        let shape = PyramidShape::new(Extent::new(width, height));
        let level = CoarseLevel::level_of(shape);
        assert!(shape.level_extent(level).longer_side() <= COARSE_SIDE_MAX);
        assert!(level == 0 || COARSE_SIDE_MAX < shape.level_extent(level - 1).longer_side());
        level
    };
    let mut levels = EXTENTS.map(level_of).to_vec();
    levels.sort_unstable();
    levels.dedup();
    assert_eq!(levels, [0, 1, 2, 3, 4, 5, 6, 7]);
}

/// A lost device takes no submission.
#[cfg(feature = "vulkan")]
#[test]
fn only_a_level_that_is_kept_is_there_without_another_submission() {
    use foveate_engine::backend::BackendError;
    use foveate_gpu::GpuError;

    let mut random = Random(6);
    for (is_kept, compares) in [(false, false), (true, false), (false, true), (true, true)] {
        device::with_own_gpu(|gpu| {
            let make = |kind| {
                let make = if compares { backends::device_diff_on } else { backends::host_diff_on };
                make(gpu, kind)
            };
            let extent = Extent::new(333, 222);
            let mut course = Course::new(&make, PixelFormat::Nv12, extent, &mut random);
            course.player.backend.keep_coarse(is_kept);
            course.step(3, &mut random);
            gpu.inject_device_loss();
            let read = course.player.backend.read_coarse(&mut course.coarse);
            if is_kept {
                let level = naive::level(&naive::picture(&course.frame), course.coarse.level());
                assert!(read.is_ok() && course.coarse.texels == level.texels);
            } else {
                let is_lost = matches!(read, Err(BackendError::Gpu(GpuError::DeviceLost { .. })));
                assert!(is_lost, "{read:?}");
            }
        });
    }
}

fn it_is_exact_at_every_extent_and_after_any_history(make: Make<'_>) {
    let mut random = Random(1);
    for (index, (width, height)) in EXTENTS.into_iter().enumerate() {
        let format = PixelFormat::ALL[index % PixelFormat::ALL.len()];
        let mut course = Course::new(make, format, Extent::new(width, height), &mut random);
        course.check();
        for _ in 0..12 {
            match random.below(5) {
                0 => course.player.backend.keep_coarse(false),
                1 | 2 => course.player.backend.keep_coarse(true),
                _ => {}
            }
            if random.below(3) == 0 {
                course.look_elsewhere(&mut random);
            }
            let change_count = random.below(4);
            course.step(change_count, &mut random);
            // Not every frame is read, and some are read twice.
            for _ in 0..random.below(3) {
                course.check();
            }
        }
    }
}

fn a_still_frame_keeps_a_current_coarse_level(make: Make<'_>) {
    let mut random = Random(2);
    for looks_elsewhere in [false, true] {
        let mut course = Course::new(make, PixelFormat::Nv12, Extent::new(333, 222), &mut random);
        course.step(3, &mut random);
        course.player.backend.keep_coarse(true);
        if looks_elsewhere {
            // The update has something to submit, but for the pyramid.
            course.look_elsewhere(&mut random);
        }
        course.step(0, &mut random);
        course.check();
        course.step(0, &mut random);
        course.check();
    }
}

fn an_outdated_coarse_level_is_not_returned(make: Make<'_>) {
    let mut random = Random(3);
    for kept_again in [false, true] {
        let mut course = Course::new(make, PixelFormat::Gray8, Extent::new(700, 90), &mut random);
        course.player.backend.keep_coarse(true);
        course.step(2, &mut random);
        course.check();
        course.player.backend.keep_coarse(false);
        course.step(5, &mut random);
        course.player.backend.keep_coarse(kept_again);
        course.check();
        course.step(0, &mut random);
        course.check();
    }
}

fn handing_it_over_takes_no_memory(make: Make<'_>) {
    let mut random = Random(4);
    for (width, height) in [(100, 60), (950, 530), (8192, 64)] {
        let extent = Extent::new(width, height);
        let mut course = Course::new(make, PixelFormat::I420, extent, &mut random);
        for is_kept in [true, false, true] {
            course.step(1, &mut random);
            let allocations = allocations_in(|| {
                course.player.backend.keep_coarse(is_kept);
                course.player.read_coarse(&mut course.coarse);
            });
            assert_eq!(allocations, 0, "{extent}, kept: {is_kept}");
        }
    }
}

fn the_coarse_level_of_another_pyramid_is_a_bug(make: Make<'_>) {
    let mut random = Random(5);
    // Of the same level, and of the same extent.
    for (own, other) in [((200, 100), (200, 98)), ((100, 50), (200, 100)), ((200, 100), (100, 50))]
    {
        let [own, other] = [own, other].map(|(width, height)| Extent::new(width, height));
        let mut course = Course::new(make, PixelFormat::Gray8, own, &mut random);
        course.coarse = CoarseLevel::new(PyramidShape::new(other));
        let read = std::panic::AssertUnwindSafe(|| {
            course.player.read_coarse(&mut course.coarse);
        });
        std::panic::catch_unwind(read).unwrap_err();
    }
}

const CAPACITY: usize = 8;

/// One view, so that a frame in which nothing changes may yet have something to do.
const VIEW: SamplerSpec =
    SamplerSpec { format: FORMAT, capacity: CAPACITY, keeps_unchanged: false };

/// A backend, and what it has seen.
struct Course {
    player: Player,
    frame: OwnedFrame,
    views: [Planes; 1],
    coarse: CoarseLevel,
}

impl Course {
    /// A course after its first frame.
    fn new(make: Make<'_>, format: PixelFormat, extent: Extent, random: &mut Random) -> Self {
        let color = naive::transforms(format)[0];
        let frame = OwnedFrame::random(format, extent, color, random);
        let player = make(frame.kind());
        let views = [player.planes(VIEW)];
        let coarse = CoarseLevel::new(PyramidShape::new(extent));
        let mut course = Self { player, coarse, frame, views };
        course.look_elsewhere(random);
        let Self { player, frame, views, .. } = &mut course;
        player.update(&frame.view(), &TileSet::all(extent), views);
        course
    }

    /// Other tokens are sampled from the next frame on.
    fn look_elsewhere(&mut self, random: &mut Random) {
        let extent = self.frame.extent;
        let plan = naive::random_plan(extent, FORMAT.patch_side, CAPACITY, random);
        self.views[0].set_plan(plan, extent);
    }

    /// A frame of which so many tiles changed.
    fn step(&mut self, change_count: u32, random: &mut Random) {
        let mut dirty = TileSet::none(self.frame.extent);
        let grid = dirty.grid();
        for _ in 0..change_count {
            let (column, row) = (random.below(grid.width), random.below(grid.height));
            dirty.insert(column, row);
            self.frame.scramble(column * TILE_SIDE, row * TILE_SIDE, TILE_SIDE, random);
        }
        self.player.update(&self.frame.view(), &dirty, &mut self.views);
    }

    /// Compares the coarse level with the definition, and with the level as it is read for pictures.
    fn check(&mut self) {
        self.coarse.texels.fill([1, 2, 3]);
        self.player.read_coarse(&mut self.coarse);
        let level = self.coarse.level();
        let expected = naive::level(&naive::picture(&self.frame), level);
        assert_eq!(self.coarse.extent(), expected.extent);
        assert!(self.coarse.texels == expected.texels, "level {level} of {}", self.frame.extent);
        assert!(self.player.read_level(level) == expected.bytes(), "level {level}");
    }
}
