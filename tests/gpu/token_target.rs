//! Tokens that a device writes straight into the slot of a ring are those that it hands over, and those of the CPU.

#![allow(clippy::cast_possible_truncation, reason = "of numbers below a bound")]

use std::cell::UnsafeCell;
use std::sync::Arc;

use foveate_core::backend::{BackendInfo, BackendKind, ChangeSite};
use foveate_core::change::ChangeConfig;
use foveate_core::frame::{FrameStamp, FrameTime, PixelFormat};
use foveate_core::geometry::extent::Extent;
use foveate_core::token::{DType, Normalisation, TokenFormat};
use foveate_engine::backend::cpu::CpuBackend;
use foveate_engine::backend::vulkan::VulkanBackend;
use foveate_engine::segment::segment_of;
use foveate_engine::{Engine, Memory, Sink, View};
use foveate_gaze::controller::Policy;
use foveate_gaze::feedback::Feedback;
use foveate_gaze::layout::Layout;
use foveate_gaze::view::ViewSpec;
use foveate_gpu::{DeviceKind, HostTarget};
use foveate_ring::{ReadOutcome, Reader, SegmentSpec, TokenFrameBuf, Writer};
use testkit::backends::pool;
use testkit::device::with_gpu;
use testkit::history::move_on;
use testkit::left_out::leave_part_out;
use testkit::naive::{self, OwnedFrame, Random};

const EXTENT: Extent = Extent::new(233, 141);

/// Several times the slots of a ring, before and after it gives way to another.
const FRAMES: u64 = 24;

#[test]
fn a_ring_holds_what_memory_holds_wherever_tokens_are_sampled() {
    with_gpu(|gpu| {
        let mut random = Random(1);
        let sites = [ChangeSite::Cpu, ChangeSite::Gpu].into_iter().cycle();
        for (format, site) in formats().into_iter().zip(sites) {
            let mut frame = picture(&mut random);
            let spec = spec(format, 60);
            let on_gpu = || VulkanBackend::new(gpu, frame.kind(), site, pool()).unwrap();
            let mut ring = Side::new(engine(on_gpu()), &spec, writer(&spec, &frame, 3));
            let mut memory = Side::new(engine(on_gpu()), &spec, Memory::default());
            let mut on_cpu =
                Side::new(engine(CpuBackend::new(frame.kind(), pool())), &spec, Memory::default());
            let mut reader = reader(&ring);
            let mut read = TokenFrameBuf::default();
            for frame_seq in 1..=FRAMES {
                if frame_seq == FRAMES / 2 {
                    ring.view.sink = writer(&spec, &frame, 2);
                    reader = self::reader(&ring);
                    // The new ring holds no token of the frame before.
                    ring.view.forget_plan();
                }
                let look = (random.below(3) == 0).then(|| look(&mut random));
                let copied = ring.step(&frame, frame_seq, look.as_ref());
                let handed_over = memory.step(&frame, frame_seq, look.as_ref());
                on_cpu.step(&frame, frame_seq, look.as_ref());

                assert_eq!(
                    reader.read_newest(&mut read).unwrap(),
                    ReadOutcome::Frame { missed: 0 }
                );
                let context = format!("frame {frame_seq} of {format:?}, compared on {site:?}");
                let expected = on_cpu.view.sink.frame();
                for found in [&read, memory.view.sink.frame()] {
                    assert_eq!(found.records, expected.records, "{context}");
                    assert!(found.pixels == expected.pixels, "{context}");
                }
                let stale = memory.view.planes().stale().len() * format.token_bytes();
                assert_eq!(handed_over, stale as u64, "{context}");
                // Other drivers may refuse these pages.
                if gpu.summary().kind == DeviceKind::Software {
                    assert_eq!(copied, 0, "{context}");
                } else if 0 < copied {
                    leave_part_out(&format!("{} does not write into a ring", gpu.summary().name));
                }
                move_on(&mut frame, random.below(6), frame_seq, &mut random);
            }
        }
    });
}

/// More memory than this device allows for a buffer.
#[test]
fn tokens_are_copied_into_rings_beyond_device_limits() {
    with_gpu(|gpu| {
        let mut random = Random(2);
        let frame = picture(&mut random);
        let spec = ViewSpec { layout: Layout::default(), ..spec(formats()[0], 4096) };
        let backend = VulkanBackend::new(gpu, frame.kind(), ChangeSite::Cpu, pool()).unwrap();
        let mut side = Side::new(engine(backend), &spec, writer(&spec, &frame, 32));
        let mut reader = reader(&side);
        let mut on_cpu =
            Side::new(engine(CpuBackend::new(frame.kind(), pool())), &spec, Memory::default());
        let copied = side.step(&frame, 1, None);
        on_cpu.step(&frame, 1, None);
        let mut read = TokenFrameBuf::default();
        assert_eq!(reader.read_newest(&mut read).unwrap(), ReadOutcome::Frame { missed: 0 });
        assert!(read.pixels == on_cpu.view.sink.frame().pixels);
        if gpu.summary().kind == DeviceKind::Software {
            assert_eq!(copied, read.pixels.len() as u64);
        }
    });
}

/// The rest of a page is somebody else's.
#[test]
#[expect(clippy::arc_with_non_send_sync, reason = "all on one thread")]
fn only_memory_that_begins_with_a_page_is_imported() {
    with_gpu(|gpu| {
        let page = rustix::param::page_size() / size_of::<u64>();
        let words: Box<[UnsafeCell<u64>]> = (0..3 * page as u64).map(UnsafeCell::new).collect();
        let first = words.as_ptr().align_offset(page * size_of::<u64>());
        let words = Arc::new(words);
        let import = |from: usize, count: usize| {
            let part = Arc::new(Part { words: Arc::clone(&words), from, count });
            HostTarget::import(gpu, "words", part).map(|target| target.buffer().size())
        };
        assert_eq!(import(first + 1, 8), None);
        assert_eq!(import(first, 0), None);
        if gpu.summary().kind == DeviceKind::Software {
            assert_eq!(import(first, 8), Some(64));
            assert_eq!(import(first, 2 * page), Some(2 * page * size_of::<u64>()));
        }
    });
}

/// Some of the words.
#[derive(Debug)]
struct Part {
    words: Arc<Box<[UnsafeCell<u64>]>>,
    from: usize,
    count: usize,
}

impl AsRef<[UnsafeCell<u64>]> for Part {
    fn as_ref(&self) -> &[UnsafeCell<u64>] {
        &self.words[self.from..][..self.count]
    }
}

/// An engine with one view.
struct Side<S> {
    engine: Engine,
    view: View<S>,
}

impl<S: Sink> Side<S> {
    fn new(engine: Engine, spec: &ViewSpec, sink: S) -> Self {
        let view = engine.view(spec.clone(), sink).unwrap();
        Self { engine, view }
    }

    /// Publishes a frame, and returns how many bytes of tokens the CPU copied for it.
    fn step(&mut self, frame: &OwnedFrame, frame_seq: u64, look: Option<&Feedback>) -> u64 {
        let capture_ns = frame_seq * 50_000_000;
        let stamp = FrameStamp { capture_ns, ..FrameStamp::numbered(frame_seq) };
        if let Some(look) = look {
            self.view.take_feedback(look, FrameTime::of(&stamp), 1);
        }
        let views = std::slice::from_mut(&mut self.view);
        self.engine.step(&frame.view(), &stamp, views).unwrap();
        self.engine.times().update.collected_bytes
    }
}

/// Tokens of whole and of broken words of a ring, in all number formats.
fn formats() -> [TokenFormat; 6] {
    [
        TokenFormat::new(16, DType::F16, Normalisation::UNIT),
        TokenFormat::new(14, DType::U8, Normalisation::NONE),
        TokenFormat::new(14, DType::U8, Normalisation::NONE),
        TokenFormat::new(8, DType::F32, Normalisation::IMAGENET),
        TokenFormat::new(10, DType::U8, Normalisation::NONE),
        TokenFormat::new(8, DType::F16, Normalisation::UNIT),
    ]
}

fn spec(format: TokenFormat, budget: usize) -> ViewSpec {
    // One that follows the detail of a frame keeps what the plan before had, which a ring of a later frame does not know.
    let layout = Layout::Foveal { e0_px: None, foveae: 1, coarsest: None };
    ViewSpec { budget, format, layout, policy: Policy::Feedback, ..ViewSpec::default() }
}

fn look(random: &mut Random) -> Feedback {
    let [x, y] = [EXTENT.width, EXTENT.height].map(|side| f64::from(random.below(side)));
    Feedback::look_at(x, y, None)
}

fn picture(random: &mut Random) -> OwnedFrame {
    let format = PixelFormat::Nv12;
    OwnedFrame::random(format, EXTENT, naive::transforms(format)[0], random)
}

fn engine(backend: impl foveate_engine::backend::Backend + 'static) -> Engine {
    Engine::new(Box::new(backend), ChangeConfig::default(), 1)
}

fn writer(spec: &ViewSpec, frame: &OwnedFrame, slot_count: usize) -> Writer {
    let (kind, change_on) = (BackendKind::Vulkan, ChangeSite::Cpu);
    let backend = BackendInfo { kind, change_on, device: String::new(), reason: String::new() };
    let segment = segment_of(spec, "camera", "main", frame.kind(), &backend);
    Writer::create(&SegmentSpec { slot_count, ..segment }).unwrap()
}

fn reader(side: &Side<Writer>) -> Reader {
    Reader::from_fd(side.view.sink.reader_fd().unwrap()).unwrap()
}
