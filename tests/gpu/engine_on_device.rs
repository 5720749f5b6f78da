//! An engine publishes the same bytes on a device as on the CPU: with every layout, after masks change, and after the device is lost.

use std::sync::Arc;

use foveate_config::ViewConfig;
use foveate_core::backend::ChangeSite;
use foveate_core::change::ChangeConfig;
use foveate_core::frame::{FrameStamp, PixelFormat};
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::tile::TileSet;
use foveate_engine::backend::Backend;
use foveate_engine::backend::cpu::CpuBackend;
use foveate_engine::backend::vulkan::VulkanBackend;
use foveate_engine::{Engine, Memory, View};
use foveate_gaze::view::ViewSpec;
use foveate_gpu::Gpu;
use testkit::backends::pool;
use testkit::device::{with_gpu, with_own_gpu};
use testkit::history::move_on;
use testkit::naive::{self, OwnedFrame, Random};

const EXTENT: Extent = Extent::new(315, 235);

const SITES: [ChangeSite; 2] = [ChangeSite::Cpu, ChangeSite::Gpu];

/// Keys of views.
const VIEWS: [&str; 13] = [
    "layout = 'foveal'\nbudget = 80\ngaze = { policy = 'saliency' }",
    "layout = 'foveal'\nbudget = 80\nfoveae = 3\ngaze = { policy = 'saliency' }",
    "layout = 'inset'\nbudget = 80\nblocks = 2\nmin_step = 1.3\ngaze = { policy = 'saliency' }",
    "layout = 'inset'\nbudget = 60\nshare = 0.4\ngaze = { policy = 'fixed', x = 0.3, y = 0.6 }",
    "layout = 'uniform'\nbudget = 100\npatch = 10\ndtype = 'u8'\nnormalisation = 'none'",
    "layout = 'directional'\nbudget = 60\ngaze = { policy = 'saliency' }",
    "layout = 'adaptive'\nbudget = 60\ngaze = { policy = 'relevance' }",
    "layout = 'adaptive'\nmemory = 'canvas'\nbudget = 60",
    "layout = 'rings'\npreset = 'stt172'\ngaze = { policy = 'fixed', x = 0.1, y = 0.9 }",
    "layout = 'rings'\npreset = 'giava20'\ngaze = { policy = 'fixed', x = 0.9, y = 0.2 }",
    "layout = 'samples'\ntable = 'tests/data/table.npy'\ngaze = { policy = 'fixed', x = 0.9, y = 0.3 }",
    "layout = 'samples'\ntable = 'tests/data/table.npy'\npatch = 8\ngaze = { policy = 'saliency' }",
    "layout = 'windows'\npatch = 224\ngaze = { policy = 'fixed', x = 0.4, y = 0.1 }",
];

#[test]
fn every_layout_publishes_the_bytes_of_the_cpu() {
    with_gpu(|gpu| {
        for site in SITES {
            let mut random = Random(1);
            let (mut frame, mut on_cpu, mut on_gpu) = sides(gpu, site, &mut random);
            for frame_seq in 1..=8 {
                on_cpu.step(&frame, frame_seq);
                on_gpu.step(&frame, frame_seq);
                assert_equal(&on_gpu, &on_cpu, &format!("frame {frame_seq}, compared on {site:?}"));
                move_on(&mut frame, random.below(6), frame_seq, &mut random);
            }
        }
    });
}

#[test]
fn masks_hide_the_same_on_a_device() {
    with_gpu(|gpu| {
        for site in SITES {
            let mut random = Random(2);
            let (mut frame, mut on_cpu, mut on_gpu) = sides(gpu, site, &mut random);
            for frame_seq in 1..=8 {
                if frame_seq == 4 {
                    let mut texels = TileSet::none_of(on_cpu.engine.coarse_extent());
                    (2..9).for_each(|column| texels.insert(column, 3));
                    for side in [&mut on_cpu, &mut on_gpu] {
                        side.engine.apply_mask(&texels, frame_seq, &mut side.views);
                    }
                    frame.adjust(0, 0, 90, |_| 16);
                }
                on_cpu.step(&frame, frame_seq);
                on_gpu.step(&frame, frame_seq);
                assert_equal(&on_gpu, &on_cpu, &format!("frame {frame_seq}, compared on {site:?}"));
                move_on(&mut frame, 4 + random.below(2), frame_seq, &mut random);
            }
        }
    });
}

#[test]
fn a_lost_device_changes_no_pixel() {
    for site in SITES {
        with_own_gpu(|gpu| {
            let mut random = Random(3);
            let (mut frame, mut on_cpu, mut on_gpu) = sides(gpu, site, &mut random);
            for frame_seq in 1..=6 {
                on_cpu.step(&frame, frame_seq);
                if frame_seq == 3 {
                    gpu.inject_device_loss();
                    on_gpu.recover(&frame, frame_seq);
                } else {
                    on_gpu.step(&frame, frame_seq);
                }
                let pairs = on_gpu.views.iter().zip(&on_cpu.views).zip(VIEWS);
                // What changed when is lost with a device that finds changes, and so moves a gaze elsewhere.
                for ((found, expected), keys) in pairs.filter(|(_, keys)| is_fixed(keys)) {
                    let [found, expected] = [found, expected].map(|view| &view.sink.frame().pixels);
                    assert!(found == expected, "frame {frame_seq}, compared on {site:?}, {keys}");
                }
                move_on(&mut frame, random.below(6), frame_seq, &mut random);
            }
        });
    }
}

/// An engine with all views.
struct Side {
    engine: Engine,
    views: Vec<View<Memory>>,
}

impl Side {
    fn new(backend: impl Backend + 'static) -> Self {
        let engine = Engine::new(Box::new(backend), ChangeConfig::default(), 1);
        let view = |keys: &&str| {
            let config = ViewConfig::parse(&format!("name = 'main'\n{keys}")).unwrap();
            engine.view(ViewSpec::try_from(&config).unwrap(), Memory::default()).unwrap()
        };
        let views = VIEWS.iter().map(view).collect();
        Self { engine, views }
    }

    fn step(&mut self, frame: &OwnedFrame, frame_seq: u64) {
        self.engine.step(&frame.view(), &stamp(frame_seq), &mut self.views).unwrap();
    }

    /// Publishes the frame in which the device is lost.
    fn recover(&mut self, frame: &OwnedFrame, frame_seq: u64) {
        let (view, stamp) = (frame.view(), stamp(frame_seq));
        let lost = self.engine.step(&view, &stamp, &mut self.views);
        assert!(lost.is_err(), "the device is lost");
        let backend = Box::new(CpuBackend::new(frame.kind(), pool()));
        self.engine.recover(backend, &view, &stamp, &mut self.views).unwrap();
    }
}

/// A frame, and an engine for such frames on either backend.
fn sides(gpu: &Arc<Gpu>, site: ChangeSite, random: &mut Random) -> (OwnedFrame, Side, Side) {
    let format = PixelFormat::Nv12;
    let frame = OwnedFrame::random(format, EXTENT, naive::transforms(format)[0], random);
    let on_cpu = Side::new(CpuBackend::new(frame.kind(), pool()));
    let on_gpu = Side::new(VulkanBackend::new(gpu, frame.kind(), site, pool()).unwrap());
    (frame, on_cpu, on_gpu)
}

fn assert_equal(found: &Side, expected: &Side, context: &str) {
    for ((found, expected), keys) in found.views.iter().zip(&expected.views).zip(VIEWS) {
        let [found, expected] = [found, expected].map(|view| view.sink.frame());
        assert_eq!(found.records, expected.records, "{context}, {keys}");
        assert!(found.pixels == expected.pixels, "{context}, {keys}");
    }
}

/// Whether the plan of a view stays.
fn is_fixed(keys: &str) -> bool {
    keys.contains("'fixed'") || keys.contains("'uniform'")
}

fn stamp(frame_seq: u64) -> FrameStamp {
    FrameStamp { capture_ns: frame_seq * 50_000_000, ..FrameStamp::numbered(frame_seq) }
}
