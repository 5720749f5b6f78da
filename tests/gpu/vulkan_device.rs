//! One device serves several streams at once, its loss is an error and never a crash, and what cannot be had is
//! refused with the reason.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use foveate_core::backend::BackendChoice;
use foveate_core::backend::BackendKind;
use foveate_core::frame::{FrameKind, PixelFormat};
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::tile::TileSet;
use foveate_engine::backend::choice::{Backends, StreamBackend};
use foveate_engine::backend::{Backend, BackendError};
use foveate_engine::planes::SamplerSpec;
use foveate_gpu::{Buffer, BufferKind, DeviceKind, Gpu, GpuError, devices};
use testkit::backends::{host_diff_on, try_host_diff_on};
use testkit::device::{self, with_gpu, with_own_gpu};
use testkit::naive::{self, OwnedFrame, Random};

use crate::child::in_child;
use crate::vulkan::{FORMAT, frame};

#[test]
fn streams_on_their_own_threads_do_not_disturb_each_other() {
    with_gpu(|gpu| {
        thread::scope(|scope| {
            for (seed, format) in (0..).zip(PixelFormat::ALL.into_iter().take(4)) {
                scope.spawn(move || follow_a_stream(gpu, format, seed));
            }
        });
    });
}

#[test]
fn a_backend_moves_between_threads() {
    with_gpu(|gpu| {
        let frame = frame(Extent::new(64, 64), 1);
        let mut player = host_diff_on(gpu, frame.kind());
        let dirty = TileSet::all(frame.extent);
        let (tiles, view) = (&dirty, frame.view());
        let mut player = thread::scope(|scope| {
            let update = move || {
                player.update(&view, tiles, &mut []);
                player
            };
            scope.spawn(update).join().unwrap()
        });
        assert_eq!(player.read_level(0), naive::picture(&frame).bytes());
    });
}

#[test]
fn a_lost_device_fails_every_stream_for_good() {
    with_own_gpu(|gpu| {
        let frame = frame(Extent::new(100, 50), 2);
        let dirty = TileSet::all(frame.extent);
        let mut players = [host_diff_on(gpu, frame.kind()), host_diff_on(gpu, frame.kind())];
        players[0].update(&frame.view(), &dirty, &mut []);
        gpu.inject_device_loss();
        for player in &mut players {
            for _ in 0..2 {
                let result = player.try_update(&frame.view(), &dirty, &mut []);
                assert!(is_device_lost(&result), "{result:?}");
            }
        }
        let result = try_host_diff_on(gpu, frame.kind()).map(drop);
        assert!(is_device_lost(&result), "{result:?}");
    });
}

/// The Vulkan loader 1.4 crashes where an object is named while another thread looks for devices, or destroys one.
#[test]
fn devices_come_and_go_while_objects_are_named() {
    with_gpu(|gpu| {
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            for open in [Gpu::open, Gpu::open_validated] {
                let is_over = &is_over;
                scope.spawn(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        let opened = open(Some(&device::name())).unwrap();
                        assert_eq!(opened.summary().name, gpu.summary().name);
                        drop(opened);
                        // Leaves no instance if no device is open.
                        open(Some("no such device")).unwrap_err();
                    }
                });
            }
            thread::scope(|scope| {
                let name_objects = || {
                    for _ in 0..30_000 {
                        Buffer::new(gpu, "named", BufferKind::DeviceOnly, 4).unwrap();
                    }
                };
                scope.spawn(name_objects);
                scope.spawn(name_objects);
            });
            is_over.store(true, Ordering::Relaxed);
        });
    });
}

#[test]
fn nothing_outlives_the_device() {
    with_own_gpu(|gpu| follow_a_stream(gpu, PixelFormat::Yuy2, 3));
}

#[test]
fn the_environment_can_lose_the_device() {
    in_child(&[("FOVEATE_INJECT_DEVICE_LOSS", "3")], || {
        with_own_gpu(|gpu| {
            let frame = frame(Extent::new(40, 40), 4);
            let dirty = TileSet::all(frame.extent);
            // The first submission warms the passes.
            let mut player = host_diff_on(gpu, frame.kind());
            player.update(&frame.view(), &dirty, &mut []);
            player.update(&frame.view(), &dirty, &mut []);
            assert!(is_device_lost(&player.try_update(&frame.view(), &dirty, &mut [])));
        });
    });
}

#[test]
fn streams_that_name_one_device_differently_share_it() {
    in_child(&[("FOVEATE_INJECT_DEVICE_LOSS", "1")], || {
        with_gpu(|gpu| {
            let backends = Backends::default();
            let device = &gpu.summary().name;
            let choose = |name: &str| backends.choose(BackendChoice::Vulkan, Some(name)).unwrap();
            let [mut first, mut second] = [choose(device), choose(&device.to_uppercase())];
            build(&mut first).unwrap();
            let result = build(&mut second).map(drop);
            assert!(is_device_lost(&result), "the first stream lost it for both: {result:?}");
        });
    });
}

#[test]
fn a_required_device_may_be_lost_once_the_stream_has_started() {
    in_child(&[("FOVEATE_INJECT_DEVICE_LOSS", "1")], || {
        with_gpu(|gpu| {
            let device = &gpu.summary().name;
            let choice = Backends::default().choose(BackendChoice::Vulkan, Some(device));
            let mut backend = choice.unwrap();
            for kind in [BackendKind::Vulkan, BackendKind::Cpu] {
                build(&mut backend).unwrap();
                assert_eq!(backend.info().kind, kind);
            }
        });
    });
}

#[test]
fn a_missing_driver_is_named() {
    let nowhere = [("VK_DRIVER_FILES", "/nowhere"), ("VK_ICD_FILENAMES", "/nowhere")];
    in_child(&nowhere, || {
        let error = devices().unwrap_err();
        let is_typed = matches!(error, GpuError::DriverMissing | GpuError::LoaderMissing { .. });
        assert!(is_typed, "{error:?}");
        assert!(error.to_string().contains("mesa-vulkan-drivers"), "{error}");
    });
}

#[test]
fn a_missing_validation_layer_is_named() {
    in_child(&[("VK_LAYER_PATH", "/nowhere")], || {
        let error = Gpu::open_validated(Some(&device::name())).unwrap_err();
        let packages = match error {
            GpuError::ValidationLayerMissing => "vulkan-validationlayers",
            _ => "libvulkan1",
        };
        assert!(error.to_string().contains(packages), "{error}");
    });
}

#[test]
fn a_source_beyond_the_devices_limits_is_refused_by_name() {
    with_gpu(|gpu| {
        let kind = frame(Extent::new(64, 64), 5).kind();
        let view = SamplerSpec { format: FORMAT, capacity: 1 << 24, keeps_unchanged: false };
        let result = host_diff_on(gpu, kind).backend.samplers()(view).map(drop);
        let Err(BackendError::Gpu(GpuError::TooLarge { resource, .. })) = result else {
            panic!("a view of 2^24 tokens on {:?}", gpu.summary());
        };
        assert_eq!(resource, "tokens");
    });
}

#[test]
fn the_open_device_is_one_of_those_listed() {
    with_gpu(|gpu| {
        assert!(devices().unwrap().contains(gpu.summary()));
        assert_eq!(gpu.summary().unusable, None);
    });
}

#[test]
fn an_unknown_device_is_refused_with_a_list() {
    with_gpu(|gpu| {
        let error = Gpu::open(Some("no such device")).unwrap_err();
        assert!(matches!(error, GpuError::NoDevice { .. }));
        let message = error.to_string();
        assert!(message.contains("no such device"), "{message}");
        assert!(message.contains(&gpu.summary().name), "{message}");
    });
}

#[test]
fn a_name_is_found_in_any_case() {
    with_gpu(|gpu| {
        let found = Gpu::open(Some(&gpu.summary().name.to_uppercase())).unwrap();
        assert_eq!(found.summary(), gpu.summary());
    });
}

#[test]
fn auto_never_takes_software() {
    with_gpu(|_| match Gpu::open(None) {
        Ok(gpu) => assert_ne!(gpu.summary().kind, DeviceKind::Software),
        Err(error) => assert!(matches!(error, GpuError::NoDevice { .. }), "{error}"),
    });
}

/// Random frames, all compared.
fn follow_a_stream(gpu: &Arc<Gpu>, format: PixelFormat, seed: u64) {
    let mut random = Random(seed);
    let extent = Extent::new(90 + random.below(40), 70);
    let color = naive::transforms(format)[0];
    let mut player = host_diff_on(gpu, FrameKind { format, extent, color });
    let mut views =
        [player.planes(SamplerSpec { format: FORMAT, capacity: 20, keeps_unchanged: false })];
    for _ in 0..10 {
        let frame = OwnedFrame::random(format, extent, color, &mut random);
        let picture = naive::picture(&frame);
        let plan = naive::random_plan(extent, FORMAT.patch_side, 20, &mut random);
        views[0].set_plan(plan, extent);
        player.update(&frame.view(), &TileSet::all(extent), &mut views);
        let expected = naive::tokens(&picture, views[0].plan(), FORMAT);
        assert!(views[0].pixels() == expected, "{}", format.name());
    }
}

fn build(chosen: &mut StreamBackend) -> Result<Box<dyn Backend>, BackendError> {
    chosen.build(frame(Extent::new(40, 40), 6).kind())
}

fn is_device_lost<T>(result: &Result<T, BackendError>) -> bool {
    matches!(result, Err(BackendError::Gpu(GpuError::DeviceLost { .. })))
}
