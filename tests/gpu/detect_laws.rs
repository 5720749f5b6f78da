//! A device that finds the dirty tiles itself finds those that the CPU finds, and comes to the same bytes: in every
//! format, at odd sizes, in padded rows, with any threshold and any refreshing, whatever the picture does, and whether it
//! reads frames where they lie or in a copy.

#![allow(clippy::cast_possible_truncation, reason = "of numbers below a bound")]

use std::num::NonZeroU32;
use std::sync::Arc;

use foveate_core::backend::ChangeSite;
use foveate_core::change::{ChangeConfig, Threshold};
use foveate_core::frame::{FrameView, PixelFormat, Plane};
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::region::PixelBox;
use foveate_core::geometry::tile::TileSet;
use foveate_core::token::{DType, Normalisation, TokenFormat};
use foveate_engine::backend::cpu::CpuBackend;
use foveate_engine::backend::vulkan::VulkanBackend;
use foveate_engine::backend::{Backend, UpdateTimes};
use foveate_engine::change::tracker::ChangeTracker;
use foveate_engine::planes::Planes;
use foveate_engine::planes::SamplerSpec;
use foveate_gpu::{DeviceKind, Gpu, HostBuffer};
use testkit::backends::pool;
use testkit::device::with_gpu;
use testkit::history::move_on;
use testkit::is_long;
use testkit::naive::{self, OwnedFrame, Random};

/// Most tokens of a view: more than the pass that finds stale ones looks at in one go.
const CAPACITY: usize = 300;

#[test]
fn device_and_cpu_agree_after_any_history() {
    with_gpu(|gpu| {
        let mut random = Random(1);
        for round in 0..if is_long() { 60 } else { 4 } {
            let way = if round % 2 == 0 { PassBy::Lent } else { PassBy::Copied };
            for format in PixelFormat::ALL {
                let extent = Extent::new(1 + random.below(300), 1 + random.below(200));
                let threshold = match random.below(4) {
                    0 => Threshold::Fixed(0),
                    1 => Threshold::Fixed(random.byte()),
                    2 => Threshold::Fixed(1 + random.below(12) as u8),
                    _ => Threshold::Auto { limit: 1 + random.below(40) as u8 },
                };
                let refresh_frames = NonZeroU32::new(random.below(10));
                let config = ChangeConfig { threshold, refresh_frames };
                play(gpu, way, (format, extent), config, 8 + round % 3, &mut random);
            }
        }
    });
}

/// With tails of several levels, and rows of tiles that end within a word of the bits.
#[test]
fn sources_wider_than_a_dispatch_row_are_exact() {
    with_gpu(|gpu| {
        let mut random = Random(2);
        for (format, width, height) in
            [(PixelFormat::Gray8, 1101, 1003), (PixelFormat::Nv12, 4001, 300)]
        {
            let config =
                ChangeConfig { threshold: Threshold::Fixed(3), refresh_frames: NonZeroU32::new(7) };
            let kind = (format, Extent::new(width, height));
            play(gpu, PassBy::Lent, kind, config, 4, &mut random);
        }
    });
}

/// Away from its edges a frame is the same in all formats; at the edges some bytes are padding.
#[test]
fn every_edge_of_every_format_is_compared_as_the_cpu_does() {
    with_gpu(|gpu| {
        let mut random = Random(3);
        for (width, height) in [(1, 1), (2, 33), (33, 2), (31, 31), (34, 66), (63, 65), (67, 35)] {
            for (index, format) in PixelFormat::ALL.into_iter().enumerate() {
                let is_even = (index as u32 + height).is_multiple_of(2);
                let way = if is_even { PassBy::Lent } else { PassBy::Copied };
                let extent = Extent::new(width, height);
                let color = naive::transforms(format)[0];
                let mut frame = OwnedFrame::random(format, extent, color, &mut random);
                let mut pair = Pair::new(gpu, way, &frame, ChangeConfig::default(), &mut random);
                pair.step(&frame, 1);
                for frame_seq in 2..8 {
                    let (x, y) = match frame_seq % 3 {
                        0 => (width - 1, height - 1),
                        1 => (random.below(width), height - 1),
                        _ => (width - 1, random.below(height)),
                    };
                    frame.adjust(x, y, 1, |sample| sample ^ 1);
                    pair.step(&frame, frame_seq);
                }
            }
        }
    });
}

#[test]
fn bytes_that_are_no_samples_do_not_count() {
    with_gpu(|gpu| {
        for (format, width, unused) in naive::BYTES_WITHOUT_SAMPLES {
            let extent = Extent::new(width, 1);
            let color = naive::transforms(format)[0];
            let mut bytes = vec![7; format.plane_shape(0, extent).row_bytes as usize];
            let mut found = Vec::new();
            let mut side = None;
            for (frame_seq, at, value) in
                [(1, unused, 7), (2, unused, 9), (3, unused - 1, 9), (4, unused - 1, 9)]
            {
                bytes[at] = value;
                let plane = Plane { bytes: &bytes, stride: bytes.len() };
                let frame = FrameView::new(format, extent, color, &[plane]).unwrap();
                let side = side.get_or_insert_with(|| {
                    Side::on(gpu, PassBy::Copied, &frame, ChangeConfig::default())
                });
                side.step(&frame, frame_seq);
                found.push(side.tracker.ingested().clone());
            }
            let (all, none) = (TileSet::all(extent), TileSet::none(extent));
            let (left, right) = (found[0] == all, found[1] == none);
            assert!(left && right, "{format:?} {width}: {found:?}");
            assert!(!found[2].is_empty() && found[3] == none, "{format:?} {width}: {found:?}");
        }
    });
}

/// At every length of the rest of a row, also where the padded rows are as long as those on the device.
#[test]
fn the_padding_of_rows_does_not_count() {
    with_gpu(|gpu| {
        for (format, width) in [
            (PixelFormat::Gray8, 33),
            (PixelFormat::Gray8, 34),
            (PixelFormat::Gray8, 35),
            (PixelFormat::Nv12, 33),
            (PixelFormat::I420, 37),
        ] {
            let extent = Extent::new(width, 5);
            let color = naive::transforms(format)[0];
            for padding in [1, 2, 3, 4, 7] {
                let mut side = None;
                for (frame_seq, value) in [(1, 0), (2, 200), (3, 90)] {
                    let frame = PaddedFrame::new(format, extent, padding, value);
                    let planes = frame.planes();
                    let frame = FrameView::new(format, extent, color, &planes).unwrap();
                    let side = side.get_or_insert_with(|| {
                        Side::on(gpu, PassBy::Copied, &frame, ChangeConfig::default())
                    });
                    side.step(&frame, frame_seq);
                    let found = side.tracker.ingested();
                    assert_eq!(found.is_empty(), 1 < frame_seq, "{format:?} {width} + {padding}");
                }
            }
        }
    });
}

#[test]
fn a_difference_as_large_as_the_threshold_is_within_it() {
    with_gpu(|gpu| {
        let (format, extent) = (PixelFormat::I420, Extent::new(65, 33));
        let color = naive::transforms(format)[0];
        let config = ChangeConfig { threshold: Threshold::Fixed(4), refresh_frames: None };
        let mut side = None;
        for value in 0..=60_u8 {
            let frame = OwnedFrame::uniform(format, extent, color, value);
            let side =
                side.get_or_insert_with(|| Side::on(gpu, PassBy::Copied, &frame.view(), config));
            side.step(&frame.view(), u64::from(value) + 1);
            let expected =
                if value.is_multiple_of(5) { TileSet::all(extent) } else { TileSet::none(extent) };
            assert_eq!(side.tracker.ingested(), &expected, "at {value}");
        }
    });
}

#[test]
fn a_new_plan_is_sampled_whole_though_nothing_changed() {
    with_gpu(|gpu| {
        let mut random = Random(4);
        let (format, extent) = (PixelFormat::Nv12, Extent::new(330, 170));
        let color = naive::transforms(format)[0];
        let frame = OwnedFrame::random(format, extent, color, &mut random);
        let mut pair = Pair::new(gpu, PassBy::Copied, &frame, ChangeConfig::default(), &mut random);
        for frame_seq in 1..8 {
            if frame_seq % 2 == 0 {
                pair.replan(&frame, &mut random);
            }
            pair.step(&frame, frame_seq);
            let stale: usize = pair.side.views.iter().map(|view| view.stale().len()).sum();
            let tokens: usize = pair.side.views.iter().map(|view| view.plan().tokens.len()).sum();
            assert_eq!(stale, if frame_seq % 2 == 0 || frame_seq == 1 { tokens } else { 0 });
        }
    });
}

#[test]
fn the_device_says_when_it_compared() {
    with_gpu(|gpu| {
        let extent = Extent::new(200, 100);
        let color = naive::transforms(PixelFormat::Nv12)[0];
        let frame = OwnedFrame::uniform(PixelFormat::Nv12, extent, color, 90);
        let mut memory = Vec::new();
        for (way, uploaded_bytes) in [(PassBy::Copied, 200 * 100 * 3 / 2), (PassBy::Lent, 0)] {
            let frame = in_one_piece(&frame, &mut memory, 0);
            let mut side = Side::on(gpu, way, &frame, ChangeConfig::default());
            let times = side.step(&frame, 1);
            assert!(times.upload.end_ns <= times.change.start_ns, "{times:?}");
            assert!(times.change.end_ns <= times.ingest.start_ns, "{times:?}");
            assert!(0 < times.change.ns() && times.ingest.end_ns <= times.collect.start_ns);
            // Other drivers may refuse these pages.
            if gpu.summary().kind == DeviceKind::Software {
                assert_eq!(times.uploaded_bytes, uploaded_bytes, "{way:?}");
            }
        }
    });
}

/// Pages between the parts may be unmapped.
#[test]
fn memory_is_lent_only_where_every_page_of_it_holds_some() {
    with_gpu(|gpu| {
        let page = rustix::param::page_size();
        let memory = vec![7; 16 * page];
        let start = memory.as_ptr().addr().next_multiple_of(page) - memory.as_ptr().addr();
        let part = |first: usize, end: usize| &memory[start + first..start + end];
        let lend = |parts: &[&[u8]]| {
            let lent = HostBuffer::import(gpu, "parts", parts);
            lent.map(|lent| parts.iter().map(|part| lent.offset_of(part)).collect::<Vec<_>>())
        };
        assert_eq!(lend(&[part(page, page + 1), part(3 * page, 4 * page)]), None);
        assert_eq!(lend(&[part(3 * page, 4 * page), part(0, 10), part(page, page + 1)]), None);
        if gpu.summary().kind == DeviceKind::Software {
            assert_eq!(lend(&[part(5, page + 1)]), Some(vec![5]));
            let touching = [part(2 * page + 9, 2 * page + 10), part(page - 1, page + 1)];
            assert_eq!(lend(&touching), Some(vec![2 * page + 9, page - 1]));
        }
    });
}

/// A driver might find out with the submission only, and lose the device over it.
#[test]
fn memory_that_cannot_be_written_is_copied() {
    static READ_ONLY: [u8; 64 * 1024] = [7; 64 * 1024];
    with_gpu(|gpu| {
        assert!(HostBuffer::import(gpu, "read-only", &[&READ_ONLY]).is_none());
        let extent = Extent::new(256, 256);
        let plane = Plane { bytes: &READ_ONLY, stride: 256 };
        let color = naive::transforms(PixelFormat::Gray8)[0];
        let frame = FrameView::new(PixelFormat::Gray8, extent, color, &[plane]).unwrap();
        let mut side = Side::on(gpu, PassBy::Lent, &frame, ChangeConfig::default());
        for (frame_seq, ingested) in [(1, TileSet::all(extent)), (2, TileSet::none(extent))] {
            let times = side.step(&frame, frame_seq);
            assert_eq!(times.uploaded_bytes, 256 * 256);
            assert_eq!(side.tracker.ingested(), &ingested);
        }
        let level = side.backend.read_level(0).unwrap();
        assert!(level.iter().all(|value| *value == color.channel(7)));
    });
}

/// Plays a history to a device and to the CPU.
fn play(
    gpu: &Arc<Gpu>,
    way: PassBy,
    (format, extent): (PixelFormat, Extent),
    config: ChangeConfig,
    frames: u64,
    random: &mut Random,
) {
    let colors = naive::transforms(format);
    let color = colors[random.below(colors.len() as u32) as usize];
    let mut frame = OwnedFrame::random(format, extent, color, random);
    let mut pair = Pair::new(gpu, way, &frame, config, random);
    let habit = random.below(6);
    for frame_seq in 1..=frames {
        if 1 < frame_seq {
            let kind = if random.below(3) == 0 { random.below(6) } else { habit };
            move_on(&mut frame, kind, frame_seq, random);
        }
        if random.below(5) == 0 {
            pair.replan(&frame, random);
        }
        pair.step(&frame, frame_seq);
    }
}

/// Planes whose samples are 7 everywhere, in rows with padding of another value.
struct PaddedFrame(Vec<(Vec<u8>, usize)>);

impl PaddedFrame {
    fn new(format: PixelFormat, extent: Extent, padding: usize, value: u8) -> Self {
        let plane = |index| {
            let shape = format.plane_shape(index, extent);
            let row = [vec![7; shape.row_bytes as usize], vec![value; padding]].concat();
            (row.repeat(shape.rows as usize), row.len())
        };
        Self((0..format.plane_count()).map(plane).collect())
    }

    fn planes(&self) -> Vec<Plane<'_>> {
        self.0.iter().map(|(bytes, stride)| Plane { bytes, stride: *stride }).collect()
    }
}

/// Way of passing frames to the device.
#[derive(Clone, Copy, Debug)]
enum PassBy {
    /// By their own pages, if the driver imports them.
    Lent,
    Copied,
}

/// The frame with all its planes in one piece of memory, one after the other from byte `first` on.
fn in_one_piece<'a>(frame: &OwnedFrame, memory: &'a mut Vec<u8>, first: usize) -> FrameView<'a> {
    let view = frame.view();
    let planes = || (0..frame.format.plane_count()).map(|index| view.plane(index));
    memory.clear();
    memory.resize(first, 0);
    planes().for_each(|plane| memory.extend_from_slice(plane.bytes));
    let mut rest = &memory[first..];
    let place = |Plane { bytes, stride }: Plane<'_>| {
        let (bytes, behind) = rest.split_at(bytes.len());
        rest = behind;
        Plane { bytes, stride }
    };
    let planes: Vec<_> = planes().map(place).collect();
    FrameView::new(frame.format, frame.extent, frame.color, &planes).unwrap()
}

/// A backend, its views, and what is known of the changes.
struct Side {
    tracker: ChangeTracker,
    backend: Box<dyn Backend>,
    views: Vec<Planes>,
}

impl Side {
    fn new(backend: impl Backend + 'static, config: ChangeConfig) -> Self {
        let tracker = ChangeTracker::new(backend.kind(), config);
        Self { tracker, backend: Box::new(backend), views: Vec::new() }
    }

    /// A device that compares frames itself.
    fn on(gpu: &Arc<Gpu>, way: PassBy, frame: &FrameView<'_>, config: ChangeConfig) -> Self {
        let backend = VulkanBackend::new(gpu, frame.kind(), ChangeSite::Gpu, pool()).unwrap();
        let backend = match way {
            PassBy::Lent => backend,
            PassBy::Copied => backend.copying_frames(),
        };
        Self::new(backend, config)
    }

    fn with_views(mut self, specs: &[SamplerSpec]) -> Self {
        let make = self.backend.samplers();
        self.views = specs.iter().map(|spec| Planes::new(*spec, make(*spec).unwrap())).collect();
        self
    }

    fn step(&mut self, frame: &FrameView<'_>, frame_seq: u64) -> UpdateTimes {
        let Self { tracker, backend, views } = self;
        let mut views: Vec<_> = views.iter_mut().collect();
        let rule = tracker.rule();
        let differences = backend.begin_update(frame, &rule, &mut views).unwrap();
        tracker.note(frame, frame_seq, &rule, differences);
        backend.end_update(tracker.ingested(), &mut views).unwrap()
    }
}

/// A device and the CPU, fed with the same frames.
struct Pair {
    side: Side,
    cpu: Side,
    memory: Vec<u8>,
}

impl Pair {
    fn new(
        gpu: &Arc<Gpu>,
        way: PassBy,
        frame: &OwnedFrame,
        config: ChangeConfig,
        random: &mut Random,
    ) -> Self {
        let formats =
            [(16, DType::F16, Normalisation::IMAGENET), (14, DType::U8, Normalisation::NONE)];
        let views = formats.map(|(patch_side, dtype, normalisation)| SamplerSpec {
            format: TokenFormat::new(patch_side, dtype, normalisation),
            capacity: CAPACITY,
            keeps_unchanged: false,
        });
        let cpu = Side::new(CpuBackend::new(frame.kind(), pool()), config);
        let mut pair = Self {
            side: Side::on(gpu, way, &frame.view(), config).with_views(&views),
            cpu: cpu.with_views(&views),
            memory: Vec::new(),
        };
        pair.replan(frame, random);
        pair
    }

    /// Looks elsewhere, on both sides.
    fn replan(&mut self, frame: &OwnedFrame, random: &mut Random) {
        for (view, expected) in self.side.views.iter_mut().zip(&mut self.cpu.views) {
            let count = random.below(CAPACITY as u32 + 1) as usize;
            let patch_side = view.spec().format.patch_side;
            let plan = naive::random_plan(frame.extent, patch_side, count, random);
            view.set_plan(plan.clone(), frame.extent);
            expected.set_plan(plan, frame.extent);
        }
    }

    /// Takes a frame on both sides, and compares everything.
    fn step(&mut self, frame: &OwnedFrame, frame_seq: u64) {
        let Self { side, cpu, memory } = self;
        // Beginning at any byte of a word and of a page.
        let piece = in_one_piece(frame, memory, 13 * frame_seq as usize);
        side.step(&piece, frame_seq);
        cpu.step(&frame.view(), frame_seq);

        let context = format!("frame {frame_seq} of {:?} {}", frame.format, frame.extent);
        assert_eq!(side.tracker.ingested(), cpu.tracker.ingested(), "{context}");
        assert_eq!(side.tracker.sample_bound(), cpu.tracker.sample_bound(), "{context}");
        for (column, row) in TileSet::all(frame.extent).iter() {
            let (x0, y0) = (column * 32, row * 32);
            let tile = PixelBox { x0, y0, x1: x0 + 1, y1: y0 + 1 };
            let (found, expected) = (&side.tracker, &cpu.tracker);
            assert_eq!(found.changed_frame(tile), expected.changed_frame(tile), "{context}");
        }
        for (view, expected) in side.views.iter().zip(&cpu.views) {
            assert_eq!(view.stale(), expected.stale(), "{context}");
            assert_eq!(view.versions(), expected.versions(), "{context}");
            assert!(view.pixels() == expected.pixels(), "tokens of {context}");
        }
        for level in 0..cpu.backend.shape().level_count() {
            let found = side.backend.read_level(level).unwrap();
            assert!(found == cpu.backend.read_level(level).unwrap(), "{level} of {context}");
        }
    }
}
