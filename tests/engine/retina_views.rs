//! Views that come and go while a retina runs get what they would get had they been there from the beginning: on every
//! backend, in any order. What is not made for a retina is refused by it, and comes back.

#![allow(clippy::cast_possible_truncation, reason = "of small numbers")]

use std::thread;

use foveate_core::frame::{FrameKind, PixelFormat};
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::plan::TokenPlan;
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_core::geometry::tile::{TILE_SIDE, TileSet};
use foveate_core::token::{DType, Normalisation, TokenFormat};
use foveate_engine::retina::cpu::CpuRetina;
use foveate_engine::retina::{MOST_VIEWS, Refusal, UpdateTimes, ViewPass, ViewSample, ViewSpec};

use crate::allocations::allocations_in;
#[cfg(feature = "vulkan")]
use crate::device;
use crate::eye::Eye;
use crate::naive::{self, OwnedFrame, Random};

/// Makes the retina that is held to the laws.
type Make<'a> = &'a dyn Fn(FrameKind, &[ViewSpec]) -> Eye;

/// Makes one test of each law for each retina.
macro_rules! laws {
    ($($law:ident)*) => {
        mod cpu {
            $(#[test]
            fn $law() {
                super::$law(&super::on_cpu);
            })*
        }

        #[cfg(feature = "vulkan")]
        mod vulkan {
            $(#[test]
            fn $law() {
                super::device::with_gpu(|gpu| super::$law(&super::told_on(gpu)));
            })*
        }

        #[cfg(feature = "vulkan")]
        mod detecting {
            $(#[test]
            fn $law() {
                super::device::with_gpu(|gpu| super::$law(&super::detecting_on(gpu)));
            })*
        }
    };
}

laws! {
    views_that_come_and_go_get_what_they_would_from_the_beginning
    a_view_that_comes_samples_all_its_tokens_first
    a_view_that_went_may_come_again
    views_are_made_on_other_threads_while_frames_are_taken
    there_is_room_for_so_many_views_and_no_more
    coming_and_going_takes_no_memory
    a_view_that_is_not_there_does_not_go
    frames_of_another_format_and_the_same_extent_need_no_other_views
}

/// A random sequence of what may happen. Two retinas see it: one that has all views from the beginning, and one to which
/// they come.
fn views_that_come_and_go_get_what_they_would_from_the_beginning(make: Make<'_>) {
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
    let maker = &course.eye.view_maker();
    thread::scope(|scope| {
        // Gone if a check fails, so that no maker waits for it.
        let views = views;
        for half in specs().chunks(specs().len() / 2) {
            let (made, half) = (made.clone(), half.to_vec());
            scope.spawn(move || {
                for spec in half {
                    made.send((maker.make(spec).unwrap(), spec)).unwrap();
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

fn there_is_room_for_so_many_views_and_no_more(make: Make<'_>) {
    let mut random = Random(5);
    // With a tail, so that every pass runs.
    let frame = random_frame(PixelFormat::Gray8, Extent::new(300, 60), &mut random);
    let mut course = Course::new(make, &frame, &[], &mut random);
    let spec = |index: usize| specs()[index % specs().len()];
    for index in 0..MOST_VIEWS {
        course.open(spec(index), random_plan(&frame, spec(index), &mut random));
    }
    let all = TileSet::all(frame.extent);
    for (column, row) in all.iter() {
        course.frame.scramble(column * TILE_SIDE, row * TILE_SIDE, TILE_SIDE, &mut random);
    }
    let times = course.update(&all);
    assert_ne!(times.sample.ns(), 0, "the passes of views that came are timed too");
    course.check();

    let one_more = course.eye.view_maker().make(spec(0)).unwrap();
    let refused = course.eye.add_view(one_more).unwrap_err();
    assert_eq!(refused.refusal(), Refusal::Full);
    assert!(refused.to_string().contains(&MOST_VIEWS.to_string()), "{refused}");
    drop(course.close(7));
    course.put_in(refused.into_pass(), spec(0), random_plan(&frame, spec(0), &mut random));
    course.update(&TileSet::none(frame.extent));
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
    let maker = course.eye.view_maker();
    let mut made = Vec::with_capacity(MOST_VIEWS);
    course.samples.reserve(MOST_VIEWS);
    let mut samples = Vec::with_capacity(MOST_VIEWS);
    for spec in specs().into_iter().cycle().take(MOST_VIEWS) {
        made.push(maker.make(spec).unwrap());
        let mut sample = ViewSample::new(spec.format, spec.capacity);
        sample.set_plan(random_plan(&frame, spec, &mut random));
        samples.push(sample);
        course.specs.push(spec);
    }
    samples.reverse();
    made.reverse();
    let Course { eye, samples: present, .. } = &mut course;
    let allocations = allocations_in(|| {
        while let (Some(pass), Some(sample)) = (made.pop(), samples.pop()) {
            eye.add_view(pass).unwrap();
            present.push(sample);
            eye.update(&view, &none, false, present);
        }
        eye.update(&view, &all, false, present);
    });
    assert_eq!(allocations, 0, "for views that come");
    course.check();
    let Course { eye, samples: present, .. } = &mut course;
    let allocations = allocations_in(|| {
        while let Some(place) = present.len().checked_sub(1) {
            made.push(eye.remove_view(place / 2));
            samples.push(present.remove(place / 2));
            eye.update(&view, &all, false, present);
        }
    });
    assert_eq!((allocations, made.len()), (0, MOST_VIEWS), "for views that go");
}

fn a_view_that_is_not_there_does_not_go(make: Make<'_>) {
    let mut random = Random(7);
    let frame = random_frame(PixelFormat::Gray8, Extent::new(64, 64), &mut random);
    for views in 0..2 {
        let mut course = Course::new(make, &frame, &specs()[..views], &mut random);
        let close = std::panic::AssertUnwindSafe(|| course.eye.remove_view(views));
        std::panic::catch_unwind(close).unwrap_err();
    }
}

fn frames_of_another_format_and_the_same_extent_need_no_other_views(make: Make<'_>) {
    let mut random = Random(8);
    let extent = Extent::new(120, 90);
    let [before, now] = [PixelFormat::Nv12, PixelFormat::Rgbx]
        .map(|format| random_frame(format, extent, &mut random));
    let maker = make(before.kind(), &[]).view_maker();
    let mut course = Course::new(make, &now, &specs()[..1], &mut random);
    let spec = specs()[2];
    course.put_in(maker.make(spec).unwrap(), spec, random_plan(&now, spec, &mut random));
    course.update(&TileSet::none(extent));
    course.check();
}

/// What makes a view must be at home on any thread, and the view must be able to move.
#[test]
fn makers_are_shared_and_views_are_sent() {
    fn check<Maker: Send + Sync + Clone, View: Send>(
        _: impl Fn(&Maker, ViewSpec) -> Result<View, foveate_engine::retina::RetinaError>,
    ) {
    }
    check(foveate_engine::retina::ViewMaker::make);
}

#[test]
fn views_of_another_shape_are_refused_on_the_cpu() {
    let mut random = Random(9);
    let [own, other] = [(100, 50), (50, 100)].map(|(width, height)| {
        random_frame(PixelFormat::Gray8, Extent::new(width, height), &mut random)
    });
    refuse_each_other(vec![(&on_cpu, own), (&on_cpu, other)]);
}

#[cfg(feature = "vulkan")]
#[test]
fn views_of_another_shape_backend_or_device_are_refused() {
    device::with_own_gpu(|first| {
        device::with_own_gpu(|second| {
            let mut random = Random(10);
            let mut frame = |width, height| {
                random_frame(PixelFormat::Nv12, Extent::new(width, height), &mut random)
            };
            let (told, detecting) = (told_on(first), detecting_on(first));
            let (other_told, other_detecting) = (told_on(second), detecting_on(second));
            refuse_each_other(vec![
                (&on_cpu, frame(100, 70)),
                (&told, frame(100, 70)),
                (&told, frame(70, 100)),
                (&detecting, frame(100, 70)),
                (&detecting, frame(101, 70)),
                (&other_told, frame(100, 70)),
                (&other_detecting, frame(100, 70)),
            ]);
        });
    });
}

#[cfg(feature = "vulkan")]
#[test]
fn what_the_device_refuses_the_maker_says() {
    use foveate_engine::retina::RetinaError;
    use foveate_gpu::GpuError;

    device::with_own_gpu(|gpu| {
        let kind = random_frame(PixelFormat::Gray8, Extent::new(64, 64), &mut Random(11)).kind();
        let makers =
            [told_on(gpu)(kind, &[]).view_maker(), detecting_on(gpu)(kind, &[]).view_maker()];
        for maker in &makers {
            let error = maker.make(ViewSpec { capacity: 1 << 24, ..specs()[0] }).unwrap_err();
            let RetinaError::Gpu(GpuError::TooLarge { resource, .. }) = &error else {
                panic!("{error}")
            };
            assert_eq!(resource, "tokens");
        }
        gpu.inject_device_loss();
        for maker in &makers {
            let error = maker.make(specs()[0]).unwrap_err();
            let is_lost = matches!(error, RetinaError::Gpu(GpuError::DeviceLost { .. }));
            assert!(is_lost, "{error}");
        }
    });
}

/// Each retina takes its own views alone; the others come back as they were.
fn refuse_each_other(retinas: Vec<(Make<'_>, OwnedFrame)>) {
    let mut random = Random(12);
    let spec = specs()[0];
    let mut courses: Vec<_> = retinas
        .iter()
        .map(|(make, frame)| Course::new(*make, frame, &specs()[..1], &mut random))
        .collect();
    for own in 0..courses.len() {
        let mut view = courses[own].eye.view_maker().make(spec).unwrap();
        for other in (0..courses.len()).filter(|&other| other != own) {
            let refused = courses[other].eye.add_view(view).unwrap_err();
            assert_eq!(refused.refusal(), Refusal::OtherRetina, "{own} in {other}");
            assert!(refused.to_string().contains("another pyramid"), "{refused}");
            view = refused.into_pass();
            courses[other].update(&TileSet::none(retinas[other].1.extent));
        }
        courses[own].put_in(view, spec, random_plan(&retinas[own].1, spec, &mut random));
        courses[own].update(&TileSet::none(retinas[own].1.extent));
        courses[own].check();
    }
}

fn on_cpu(kind: FrameKind, views: &[ViewSpec]) -> Eye {
    Eye::told(CpuRetina::new(kind, views))
}

#[cfg(feature = "vulkan")]
fn told_on(gpu: &std::sync::Arc<foveate_gpu::Gpu>) -> impl Fn(FrameKind, &[ViewSpec]) -> Eye + '_ {
    use foveate_engine::retina::vulkan::VulkanRetina;
    |kind, views| Eye::told(VulkanRetina::new(gpu, kind, views).unwrap())
}

/// Frames are copied: the loan of their pages takes memory.
#[cfg(feature = "vulkan")]
fn detecting_on(
    gpu: &std::sync::Arc<foveate_gpu::Gpu>,
) -> impl Fn(FrameKind, &[ViewSpec]) -> Eye + '_ {
    use foveate_engine::retina::vulkan::detecting::VulkanDetectingRetina;
    |kind, views| {
        let retina = VulkanDetectingRetina::new(gpu, kind, views).unwrap();
        Eye::detecting(retina.copying_frames(), kind)
    }
}

/// A retina, its views and what it has seen.
struct Course {
    eye: Eye,
    frame: OwnedFrame,
    specs: Vec<ViewSpec>,
    samples: Vec<ViewSample>,
}

impl Course {
    /// One that has seen its first frame, with views that look somewhere.
    fn new(make: Make<'_>, frame: &OwnedFrame, specs: &[ViewSpec], random: &mut Random) -> Self {
        let sample = |spec: &ViewSpec| ViewSample::new(spec.format, spec.capacity);
        let mut course = Self {
            eye: make(frame.kind(), specs),
            frame: frame.clone(),
            specs: specs.to_vec(),
            samples: specs.iter().map(sample).collect(),
        };
        course.look_elsewhere(random);
        let Self { eye, frame, samples, .. } = &mut course;
        eye.update(&frame.view(), &TileSet::all(frame.extent), true, samples);
        course.check();
        course
    }

    /// A view joins, which looks where `plan` says.
    fn open(&mut self, spec: ViewSpec, plan: TokenPlan) {
        let view = self.eye.view_maker().make(spec).unwrap();
        self.put_in(view, spec, plan);
    }

    fn put_in(&mut self, view: ViewPass, spec: ViewSpec, plan: TokenPlan) {
        self.eye.add_view(view).unwrap();
        let mut sample = ViewSample::new(spec.format, spec.capacity);
        sample.set_plan(plan);
        self.samples.push(sample);
        self.specs.push(spec);
    }

    /// A view leaves.
    fn close(&mut self, place: usize) -> ViewPass {
        self.samples.remove(place);
        self.specs.remove(place);
        self.eye.remove_view(place)
    }

    fn look_elsewhere(&mut self, random: &mut Random) {
        for (sample, spec) in self.samples.iter_mut().zip(&self.specs) {
            sample.set_plan(random_plan(&self.frame, *spec, random));
        }
    }

    /// Each view looks where that one of `other` does.
    fn look_where(&mut self, other: &Self, which: &[usize]) {
        for (sample, &index) in self.samples.iter_mut().zip(which) {
            sample.set_plan(other.samples[index].plan().clone());
        }
    }

    fn update(&mut self, dirty: &TileSet) -> UpdateTimes {
        self.eye.update(&self.frame.view(), dirty, false, &mut self.samples)
    }

    /// Changes some tiles of the frame; the retina has not seen that yet.
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
        let levels = naive::pyramid(&naive::picture(&self.frame));
        for (index, sample) in self.samples.iter().enumerate() {
            let expected = naive::tokens(&levels, sample.plan(), sample.format());
            assert!(sample.pixels() == expected, "view {index} of {}", self.frame.extent);
        }
    }
}

/// Views of every kind of token, small and larger than what a workgroup looks at.
fn specs() -> Vec<ViewSpec> {
    let spec = |patch_side, dtype, normalisation, capacity| ViewSpec {
        format: TokenFormat { patch_side, dtype, normalisation },
        capacity,
    };
    vec![
        spec(16, DType::F16, Normalisation::IMAGENET, 30),
        spec(14, DType::U8, Normalisation::NONE, 300),
        spec(16, DType::F32, Normalisation::UNIT, 10),
        spec(14, DType::Bf16, Normalisation::CLIP, 1),
        spec(16, DType::F16, Normalisation::SIGLIP, 60),
        spec(14, DType::F16, Normalisation::IMAGENET, 17),
    ]
}

fn random_frame(format: PixelFormat, extent: Extent, random: &mut Random) -> OwnedFrame {
    OwnedFrame::random(format, extent, naive::transforms(format)[0], random)
}

/// Anywhere in the pyramid, and as many tokens as there is room for, or somewhat fewer.
fn random_plan(frame: &OwnedFrame, spec: ViewSpec, random: &mut Random) -> TokenPlan {
    let shape = PyramidShape::new(frame.extent);
    let extents: Vec<_> = (0..shape.level_count()).map(|level| shape.level_extent(level)).collect();
    let count = spec.capacity - random.below(spec.capacity.min(5) as u32) as usize;
    naive::random_plan_of(&extents, spec.format.patch_side, count, random)
}

fn is_all(stale: &[u32], sample: &ViewSample) -> bool {
    stale.iter().map(|&index| index as usize).eq(0..sample.plan().tokens.len())
}

fn is_long() -> bool {
    std::env::var_os("FOVEATE_LONG").is_some_and(|value| value == "1")
}
