//! Wherever a stream finds its changes, it publishes the same bytes; where it cannot, it reports an error.

#![allow(clippy::cast_possible_truncation, reason = "of numbers below a bound")]

use std::num::NonZeroU32;
use std::sync::Arc;

use foveate_config::ViewConfig;
use foveate_core::backend::{BackendChoice, ChangeOn};
use foveate_core::backend::{BackendKind, ChangeSite};
use foveate_core::change::{ChangeConfig, Threshold};
use foveate_core::frame::{FrameStamp, PixelFormat};
use foveate_core::geometry::extent::Extent;
use foveate_core::token::{DType, Normalisation, TokenFormat};
use foveate_daemon::stream::{Backends, ServedView, StepOutcome, Stream, StreamBackend, ViewPace};
use foveate_gaze::GazeParameters;
use foveate_gaze::controller::Policy;
use foveate_gaze::feedback::Feedback;
use foveate_gaze::layout::Layout;
use foveate_gaze::view::ViewSpec;
use foveate_ring::{ReadOutcome, Reader, TokenFrameBuf};
use foveate_server::channel::{ClientChannel, EventFd, ViewChannel, view_channel};
use foveate_stats::StreamCounters;
use testkit::device::with_gpu;
use testkit::history::move_on;
use testkit::naive::{self, OwnedFrame, Random};

use crate::child::in_child;

const FRAMES: u64 = 12;

#[test]
fn a_stream_publishes_the_same_bytes_wherever_it_finds_changes() {
    with_gpu(|gpu| {
        let device = gpu.summary().name.as_str();
        let mut random = Random(1);
        for (index, format) in PixelFormat::ALL.into_iter().enumerate() {
            let threshold = match index % 3 {
                0 => Threshold::Fixed(0),
                1 => Threshold::Fixed(6),
                _ => Threshold::Auto { limit: 9 },
            };
            let refresh_frames = NonZeroU32::new(index as u32 % 4 * 3);
            let config = ChangeConfig { threshold, refresh_frames };
            let mut streams = [ChangeOn::Cpu, ChangeOn::Gpu]
                .map(|on| PlayedStream::new(on_device(device, on), config));
            let [_, on_gpu] = &streams;
            assert_eq!(on_gpu.stream.backend().change_on, ChangeSite::Gpu);
            // Frames of another size, half way.
            for sides in [(233, 141), (95, 310)] {
                play(&mut streams, format, Extent::new(sides.0, sides.1), &mut random);
            }
            let fallbacks = streams.map(|played| played.counters.backend_fallbacks.get());
            assert_eq!(fallbacks, [0, 0], "{format:?}");
        }
    });
}

#[test]
fn a_stream_survives_device_loss_without_losing_a_frame() {
    // One submission warms the passes of the pyramid, one those of each of two views, and each of two frames has two: what follows the
    // detail of the frame is sampled later.
    in_child(&[("FOVEATE_INJECT_DEVICE_LOSS", "7")], || {
        with_gpu(|gpu| {
            let mut random = Random(2);
            let (format, extent) = (PixelFormat::Nv12, Extent::new(233, 141));
            let color = naive::transforms(format)[0];
            let mut frame = OwnedFrame::random(format, extent, color, &mut random);
            let on_gpu = on_device(&gpu.summary().name, ChangeOn::Gpu);
            let mut lost = PlayedStream::new(on_gpu, ChangeConfig::default());
            let mut whole = PlayedStream::new(on_cpu(), ChangeConfig::default());
            let mut epochs = Vec::new();
            for frame_seq in 1..=6 {
                let tiles = lost.stream.ingested().map(|tiles| tiles.grid().area() as u32);
                let found = lost.step(&frame, frame_seq);
                for (found, expected) in found.iter().zip(whole.step(&frame, frame_seq)) {
                    assert!(found.pixels == expected.pixels, "frame {frame_seq}");
                    assert_eq!(found.head.sample_bound, 0);
                    let dirty =
                        if frame_seq == 3 { tiles.unwrap() } else { expected.head.dirty_tiles };
                    assert_eq!(found.head.dirty_tiles, dirty, "frame {frame_seq}");
                    for (found, expected) in found.records.iter().zip(&expected.records) {
                        let after_loss = if 3 <= frame_seq { 3 } else { 0 };
                        let changed_frame = expected.changed_frame.max(after_loss);
                        assert_eq!(found.changed_frame, changed_frame, "frame {frame_seq}");
                    }
                }
                epochs.push(lost.stream.segment(0).unwrap().unwrap().1);
                let backend = lost.stream.backend();
                let lived = (BackendKind::Vulkan, ChangeSite::Gpu);
                let expected =
                    if frame_seq < 3 { lived } else { (BackendKind::Cpu, ChangeSite::Cpu) };
                assert_eq!((backend.kind, backend.change_on), expected, "frame {frame_seq}");
                move_on(&mut frame, 4, frame_seq, &mut random);
            }
            assert!(epochs.iter().all(|epoch| *epoch == epochs[0]));
            assert_eq!(lost.counters.backend_fallbacks.get(), 1);
        });
    });
}

#[test]
fn a_stream_that_gave_way_to_the_cpu_finds_changes_there() {
    let backend = Backends::default().choose(BackendChoice::Auto, Some("no such device")).unwrap();
    let backend = backend.with_change_on(ChangeOn::Gpu).unwrap();
    assert_eq!(backend.info().kind, BackendKind::Cpu);
    assert_eq!(backend.info().change_on, ChangeSite::Cpu);
    let mut played = PlayedStream::new(backend, ChangeConfig::default());
    let color = naive::transforms(PixelFormat::Gray8)[0];
    let frame = OwnedFrame::uniform(PixelFormat::Gray8, Extent::new(40, 40), color, 8);
    assert!(!played.step(&frame, 1).is_empty());
}

/// Plays a history to all streams, which move their eyes now and then, and compares what they publish.
fn play(streams: &mut [PlayedStream; 2], format: PixelFormat, extent: Extent, random: &mut Random) {
    let color = naive::transforms(format)[0];
    let mut frame = OwnedFrame::random(format, extent, color, random);
    for step in 0..FRAMES {
        let frame_seq = streams[0].newest_seq + 1;
        let kind = random.below(6);
        if 0 < step {
            move_on(&mut frame, kind, frame_seq, random);
        }
        if random.below(4) == 0 {
            let (x, y) = (random.below(extent.width), random.below(extent.height));
            for played in streams.iter_mut() {
                let feedback = Feedback::look_at(x.into(), y.into(), None);
                played.client.send_feedback(feedback, extent, 1, false).unwrap();
            }
        }
        let [expected, found] = streams.each_mut().map(|played| played.step(&frame, frame_seq));
        for (found, expected) in found.iter().zip(&expected) {
            let context = format!("frame {frame_seq} of {format:?} {extent}");
            let head = |frame: &TokenFrameBuf| {
                let head = &frame.head;
                let bounds = (head.sample_bound, head.rgb_bound);
                (bounds, head.dirty_tiles, head.tile_count, head.fixation())
            };
            assert_eq!(head(found), head(expected), "{context}");
            assert_eq!(found.records, expected.records, "{context}");
            assert!(found.pixels == expected.pixels, "{context}");
        }
    }
}

/// A stream and the readers of its views.
struct PlayedStream {
    stream: Stream,
    counters: Arc<StreamCounters>,
    readers: Vec<Reader>,
    /// Steers the first view.
    client: ClientChannel,
    newest_seq: u64,
}

impl PlayedStream {
    fn new(backend: StreamBackend, change: ChangeConfig) -> Self {
        let float = (16, DType::F16, Normalisation::IMAGENET);
        let views =
            [(Layout::default(), float), (Layout::Uniform, (14, DType::U8, Normalisation::NONE))];
        let wakeup = Arc::new(EventFd::new().unwrap());
        let (channel, client) = view_channel(&wakeup, "camera", ViewConfig::default(), None);
        let mut channels = [Some(channel), Some(ViewChannel::unconnected())];
        let plans = views.into_iter().enumerate().map(|(index, (layout, format))| {
            let (patch_side, dtype, normalisation) = format;
            let plan = ServedView {
                name: format!("view{index}"),
                slot_count: 2,
                pace: ViewPace::default(),
                spec: ViewSpec {
                    layout,
                    budget: 60,
                    format: TokenFormat::new(patch_side, dtype, normalisation),
                    policy: Policy::Fixed { x: 0.3, y: 0.6 },
                    parameters: GazeParameters::default(),
                    ..ViewSpec::default()
                },
            };
            (plan, channels[index].take().unwrap())
        });
        let counters = Arc::<StreamCounters>::default();
        let stream = Stream::new("camera", backend, change, plans, Arc::clone(&counters));
        Self { stream, counters, readers: Vec::new(), client, newest_seq: 0 }
    }

    /// Feeds a frame. Returns the token frames of all views.
    fn step(&mut self, frame: &OwnedFrame, frame_seq: u64) -> Vec<TokenFrameBuf> {
        self.newest_seq = frame_seq;
        if self.stream.step(&frame.view(), &FrameStamp::numbered(frame_seq)).unwrap()
            == StepOutcome::PublishedInNewSegments
        {
            let segment = |index| self.stream.segment(index).unwrap().unwrap().0;
            self.readers = [0, 1].map(|index| Reader::from_fd(segment(index)).unwrap()).into();
        }
        let newest = |reader: &mut Reader| {
            let mut frame = TokenFrameBuf::default();
            assert_eq!(reader.read_newest(&mut frame).unwrap(), ReadOutcome::Frame { missed: 0 });
            frame
        };
        self.readers.iter_mut().map(newest).collect()
    }
}

fn on_device(device: &str, on: ChangeOn) -> StreamBackend {
    let backend = Backends::default().choose(BackendChoice::Vulkan, Some(device)).unwrap();
    backend.with_change_on(on).unwrap()
}

fn on_cpu() -> StreamBackend {
    Backends::default().choose(BackendChoice::Cpu, None).unwrap()
}
