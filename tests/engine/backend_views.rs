//! Views that come and go while a backend runs get what they would get had they been there from the beginning: on every
//! backend, in any order.

#![allow(clippy::cast_possible_truncation, reason = "of small numbers")]

use std::thread;

use foveate_core::frame::PixelFormat;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::plan::TokenPlan;
use foveate_core::geometry::tile::{TILE_SIDE, TileSet};
use foveate_core::token::{DType, Normalisation, SAMPLE_SIDE, TokenFormat};
use foveate_engine::backend::UpdateTimes;
use foveate_engine::planes::Planes;
use foveate_engine::planes::SamplerSpec;
use foveate_gaze::view::VIEWS_MAX;
#[cfg(feature = "vulkan")]
use testkit::backends;
use testkit::backends::Player;
#[cfg(feature = "vulkan")]
use testkit::device;
use testkit::is_long;
use testkit::naive::{self, OwnedFrame, Random};

use crate::allocations::allocations_in;
use crate::each_backend::Make;

laws! {
    late_views_equal_views_from_the_start
    a_view_that_comes_samples_all_its_tokens_first
    a_view_that_went_may_come_again
    views_are_made_on_other_threads_while_frames_are_taken
    there_is_room_for_so_many_views
    coming_and_going_takes_no_memory
}

/// A random sequence of what may happen. Two retinas see it: one that has all views from the beginning, and one to which
/// they come.
fn late_views_equal_views_from_the_start(make: Make<'_>) {
    let mut random = Random(1);
    let specs = specs();
    for round in 0..if is_long() { 60 } else { 5 } {
        let format = PixelFormat::ALL[round % PixelFormat::ALL.len()];
        let extent = Extent::new(1 + random.below(400), 1 + random.below(300));
        let frame = random_frame(format, extent, &mut random);
        let mut all = Course::new(make, &frame, &specs, &mut random);
        let built_with = [specs[1], specs[3]];
        let mut some = Course::new(make, &frame, &built_with, &mut random);
        // For each view of `some`, which one it is.
        let mut present = vec![1, 3];
        all.look_elsewhere(&mut random);
        some.look_where(&all, &present);
        for step in 0..30 {
            let mut came = Vec::new();
            for _ in 0..random.below(3) {
                let index = random.below(specs.len() as u32) as usize;
                if let Some(place) = present.iter().position(|&one| one == index) {
                    present.remove(place);
                    drop(some.close(place));
                } else {
                    present.push(index);
                    came.push(index);
                    some.open(specs[index], all.samples[index].plan().clone());
                }
            }
            if random.below(3) == 0 {
                all.look_elsewhere(&mut random);
                some.look_where(&all, &present);
            }
            let dirty = all.change_some_tiles(&mut random);
            some.frame = all.frame.clone();
            all.update(&dirty);
            some.update(&dirty);
            for (sample, &index) in some.samples.iter().zip(&present) {
                let context = format!("view {index} in step {step} of {extent}");
                assert_eq!(sample.plan(), all.samples[index].plan(), "{context}");
                assert!(sample.pixels() == all.samples[index].pixels(), "{context}");
                if came.contains(&index) {
                    assert!(is_all(sample.stale(), sample), "{context}");
                } else {
                    assert_eq!(sample.stale(), all.samples[index].stale(), "{context}");
                }
            }
            all.check();
        }
    }
}

fn a_view_that_comes_samples_all_its_tokens_first(make: Make<'_>) {
    let mut random = Random(2);
    let frame = random_frame(PixelFormat::Nv12, Extent::new(333, 222), &mut random);
    for built_with in [0, 2] {
        let mut course = Course::new(make, &frame, &specs()[..built_with], &mut random);
        let none = TileSet::none(frame.extent);
        course.update(&none);
        for spec in specs() {
            course.open(spec, random_plan(&frame, spec, &mut random));
            course.update(&none);
            let (last, others) = course.samples.split_last().unwrap();
            assert!(is_all(last.stale(), last));
            assert!(others.iter().all(|sample| sample.stale().is_empty()));
            course.check();
        }
    }
}

fn a_view_that_went_may_come_again(make: Make<'_>) {
    let mut random = Random(3);
    let frame = random_frame(PixelFormat::Yuy2, Extent::new(200, 300), &mut random);
    let mut course = Course::new(make, &frame, &specs()[..3], &mut random);
    for place in [1, 0, 0, 2, 1] {
        let spec = course.specs[place];
        let view = course.close(place);
        let dirty = course.change_some_tiles(&mut random);
        course.update(&dirty);
        course.check();
        course.put_in(view, spec, random_plan(&frame, spec, &mut random));
        course.update(&TileSet::none(frame.extent));
        course.check();
    }
}

/// The validation layer, which Vulkan tests run under, would report what two threads use at once.
fn views_are_made_on_other_threads_while_frames_are_taken(make: Make<'_>) {
    let mut random = Random(4);
    let frame = random_frame(PixelFormat::I420, Extent::new(300, 200), &mut random);
    let mut course = Course::new(make, &frame, &specs()[..1], &mut random);
    let (made, views) = crossbeam_channel::bounded(0);
    let maker = &course.player.backend.samplers();
    thread::scope(|scope| {
        // Gone if a check fails, so that no maker waits for it.
        let views = views;
        for half in specs().chunks(specs().len() / 2) {
            let (made, half) = (made.clone(), half.to_vec());
            scope.spawn(move || {
                for spec in half {
                    made.send((Planes::new(spec, maker(spec).unwrap()), spec)).unwrap();
                }
            });
        }
        drop(made);
        while course.samples.len() < 1 + specs().len() {
            if let Ok((view, spec)) = views.try_recv() {
                course.put_in(view, spec, random_plan(&frame, spec, &mut random));
            }
            let dirty = course.change_some_tiles(&mut random);
            course.update(&dirty);
            course.check();
        }
    });
}

fn there_is_room_for_so_many_views(make: Make<'_>) {
    let mut random = Random(5);
    // With a tail, so that every pass runs.
    let frame = random_frame(PixelFormat::Gray8, Extent::new(300, 60), &mut random);
    let mut course = Course::new(make, &frame, &[], &mut random);
    let spec = |index: usize| specs()[index % specs().len()];
    for index in 0..VIEWS_MAX {
        course.open(spec(index), random_plan(&frame, spec(index), &mut random));
    }
    let all = TileSet::all(frame.extent);
    for (column, row) in all.iter() {
        course.frame.scramble(column * TILE_SIDE, row * TILE_SIDE, TILE_SIDE, &mut random);
    }
    let times = course.update(&all);
    assert_ne!(times.sample.ns(), 0, "the passes of views that came are timed too");
    course.check();
}

/// Nor is any Vulkan object made: whatever holds one takes memory. Helpers of the CPU are counted elsewhere.
fn coming_and_going_takes_no_memory(make: Make<'_>) {
    let mut random = Random(6);
    let frame = random_frame(PixelFormat::Bgrx, Extent::new(640, 480), &mut random);
    let view = frame.view();
    let mut course = Course::new(make, &frame, &[], &mut random);
    let (all, none) = (TileSet::all(frame.extent), TileSet::none(frame.extent));
    course.update(&none);
    let mut waiting = Vec::with_capacity(VIEWS_MAX);
    course.samples.reserve(VIEWS_MAX);
    for spec in specs().into_iter().cycle().take(VIEWS_MAX) {
        let mut sample = course.player.planes(spec);
        sample.set_plan(random_plan(&frame, spec, &mut random), frame.extent);
        waiting.push(sample);
        course.specs.push(spec);
    }
    waiting.reverse();
    let Course { player, samples: present, .. } = &mut course;
    let allocations = allocations_in(|| {
        while let Some(sample) = waiting.pop() {
            present.push(sample);
            player.update(&view, &none, present);
        }
        player.update(&view, &all, present);
    });
    assert_eq!(allocations, 0, "for views that come");
    course.check();
    let Course { player, samples: present, .. } = &mut course;
    let allocations = allocations_in(|| {
        while let Some(place) = present.len().checked_sub(1) {
            waiting.push(present.remove(place / 2));
            player.update(&view, &all, present);
        }
    });
    assert_eq!((allocations, waiting.len()), (0, VIEWS_MAX), "for views that go");
}

/// What makes samplers must be at home on any thread, and views must be able to move.
#[test]
fn makers_are_shared_and_views_are_sent() {
    fn check<Maker: Send + Sync + Clone, View: Send>() {}
    check::<foveate_engine::ViewBuilder, foveate_engine::View<foveate_engine::Memory>>();
    check::<foveate_engine::backend::SamplerMaker, Planes>();
}

#[cfg(feature = "vulkan")]
#[test]
fn what_the_device_refuses_the_maker_says() {
    use foveate_engine::backend::BackendError;
    use foveate_gpu::GpuError;

    device::with_own_gpu(|gpu| {
        let kind = random_frame(PixelFormat::Gray8, Extent::new(64, 64), &mut Random(11)).kind();
        let makers = [backends::host_diff_on(gpu, kind), backends::device_diff_on(gpu, kind)]
            .map(|player| player.backend.samplers());
        for maker in &makers {
            let error = maker(SamplerSpec { capacity: 1 << 24, ..specs()[0] }).unwrap_err();
            let BackendError::Gpu(GpuError::TooLarge { resource, .. }) = &error else {
                panic!("{error}")
            };
            assert_eq!(resource, "tokens");
        }
        gpu.inject_device_loss();
        for maker in &makers {
            let error = maker(specs()[0]).unwrap_err();
            let is_lost = matches!(error, BackendError::Gpu(GpuError::DeviceLost { .. }));
            assert!(is_lost, "{error}");
        }
    });
}

/// A backend, its views and what it has seen.
struct Course {
    player: Player,
    frame: OwnedFrame,
    specs: Vec<SamplerSpec>,
    samples: Vec<Planes>,
}

impl Course {
    /// One that has seen its first frame, with views that look somewhere.
    fn new(make: Make<'_>, frame: &OwnedFrame, specs: &[SamplerSpec], random: &mut Random) -> Self {
        let player = make(frame.kind());
        let samples = specs.iter().map(|spec| player.planes(*spec)).collect();
        let mut course = Self { player, frame: frame.clone(), specs: specs.to_vec(), samples };
        course.look_elsewhere(random);
        let Self { player, frame, samples, .. } = &mut course;
        player.update(&frame.view(), &TileSet::all(frame.extent), samples);
        course.check();
        course
    }

    /// A view joins, which looks where `plan` says.
    fn open(&mut self, spec: SamplerSpec, plan: TokenPlan) {
        let view = self.player.planes(spec);
        self.put_in(view, spec, plan);
    }

    fn put_in(&mut self, mut view: Planes, spec: SamplerSpec, plan: TokenPlan) {
        view.set_plan(plan, self.frame.extent);
        self.samples.push(view);
        self.specs.push(spec);
    }

    /// A view leaves.
    fn close(&mut self, place: usize) -> Planes {
        self.specs.remove(place);
        self.samples.remove(place)
    }

    fn look_elsewhere(&mut self, random: &mut Random) {
        for (sample, spec) in self.samples.iter_mut().zip(&self.specs) {
            sample.set_plan(random_plan(&self.frame, *spec, random), self.frame.extent);
        }
    }

    /// Each view looks where that one of `other` does.
    fn look_where(&mut self, other: &Self, which: &[usize]) {
        for (sample, &index) in self.samples.iter_mut().zip(which) {
            sample.set_plan(other.samples[index].plan().clone(), self.frame.extent);
        }
    }

    fn update(&mut self, dirty: &TileSet) -> UpdateTimes {
        self.player.update(&self.frame.view(), dirty, &mut self.samples)
    }

    /// Changes some tiles of the frame; the backend has not seen that yet.
    fn change_some_tiles(&mut self, random: &mut Random) -> TileSet {
        let mut dirty = TileSet::none(self.frame.extent);
        let grid = dirty.grid();
        for _ in 0..random.below(5) {
            let (column, row) = (random.below(grid.width), random.below(grid.height));
            dirty.insert(column, row);
            self.frame.scramble(column * TILE_SIDE, row * TILE_SIDE, TILE_SIDE, random);
        }
        dirty
    }

    /// Compares all tokens with the definition.
    fn check(&self) {
        let picture = naive::picture(&self.frame);
        for (index, sample) in self.samples.iter().enumerate() {
            let expected = naive::tokens(&picture, sample.plan(), sample.spec().format);
            assert!(sample.pixels() == expected, "view {index} of {}", self.frame.extent);
        }
    }
}

/// Views of every kind of token, small and larger than what a workgroup looks at.
fn specs() -> Vec<SamplerSpec> {
    let spec = |patch_side, dtype, normalisation, capacity| SamplerSpec {
        format: TokenFormat::new(patch_side, dtype, normalisation),
        capacity,
        keeps_unchanged: false,
    };
    vec![
        spec(16, DType::F16, Normalisation::IMAGENET, 30),
        spec(14, DType::U8, Normalisation::NONE, 300),
        spec(16, DType::F32, Normalisation::UNIT, 10),
        spec(14, DType::Bf16, Normalisation::CLIP, 1),
        spec(16, DType::F16, Normalisation::SIGLIP, 60),
        spec(14, DType::F16, Normalisation::IMAGENET, 17),
        spec(SAMPLE_SIDE, DType::F32, Normalisation::IMAGENET, 200),
    ]
}

fn random_frame(format: PixelFormat, extent: Extent, random: &mut Random) -> OwnedFrame {
    OwnedFrame::random(format, extent, naive::transforms(format)[0], random)
}

/// Anywhere in the pyramid, and as many tokens as there is room for, or somewhat fewer.
fn random_plan(frame: &OwnedFrame, spec: SamplerSpec, random: &mut Random) -> TokenPlan {
    let count = spec.capacity - random.below(spec.capacity.min(5) as u32) as usize;
    naive::random_plan(frame.extent, spec.format.patch_side, count, random)
}

fn is_all(stale: &[u32], sample: &Planes) -> bool {
    stale.iter().map(|&index| index as usize).eq(0..sample.plan().tokens.len())
}
