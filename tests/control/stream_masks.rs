//! After masks have changed, nothing of an earlier frame is left in what a stream keeps and publishes: not below a threshold, and
//! not in a ring that rests.

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

use foveate_core::backend::BackendChoice;
#[cfg(feature = "vulkan")]
use foveate_core::backend::ChangeOn;
use foveate_core::change::{ChangeConfig, Threshold};
use foveate_core::color::ColorTransform;
use foveate_core::frame::{FrameStamp, PixelFormat};
use foveate_core::gaze::GazeParameters;
use foveate_core::gaze::controller::Policy;
use foveate_core::geometry::extent::Extent;
use foveate_core::layout::Layout;
use foveate_core::plane::CHANNELS;
use foveate_core::token::{DType, Normalisation, TokenFormat};
use foveate_core::view::ViewSpec;
use foveate_daemon::channel::{ClientChannel, EventFd, view_channel};
use foveate_daemon::stream::{Backends, ServedView, Stepped, Stream, StreamBackend, ViewPace};
use foveate_ring::{Reader, TokenFrameBuf};

#[cfg(feature = "vulkan")]
use crate::device;
use crate::naive::{self, OwnedFrame, Random};

const EXTENT: Extent = Extent::new(131, 77);

const SLOTS: usize = 3;

/// A threshold would otherwise leave samples of the earlier frame that are nearly black.
#[test]
fn no_difference_below_the_threshold_is_left() {
    on_every_backend(|backend| {
        for format in [PixelFormat::Nv12, PixelFormat::Rgb] {
            let color = naive::transforms(format)[0];
            let mut random = Random(11);
            let before = OwnedFrame::random(format, EXTENT, color, &mut random);
            let mut masked = before.clone();
            // All within the threshold, even chroma, which four pixels share: no tile counts as changed.
            masked.adjust(30, 20, 40, |sample| sample.saturating_add(2));
            let (mut stream, _client) = stream(backend(), ViewPace::default());
            assert_eq!(step(&mut stream, &before, 1), Stepped::PublishedInNewSegments);
            step(&mut stream, &masked, 2);
            assert!(pixels(&stream) == fresh(backend(), &before), "the threshold holds");
            stream.masks_changed(3);
            step(&mut stream, &masked, 3);
            assert!(pixels(&stream) == fresh(backend(), &masked), "{}", format.name());
            // Later frames are compared with that one, by the threshold again.
            step(&mut stream, &before, 4);
            assert!(pixels(&stream) == fresh(backend(), &masked), "{}", format.name());
        }
    });
}

#[test]
fn a_view_that_rests_publishes_until_its_ring_holds_no_earlier_frame() {
    let rests = [
        ViewPace { interval: None, when_read: true },
        ViewPace { interval: Some(Duration::from_secs(3600)), when_read: false },
    ];
    on_every_backend(|backend| {
        for pace in rests {
            let gray = |value: u8| {
                // Its texels are its samples.
                OwnedFrame::uniform(PixelFormat::Gray8, EXTENT, ColorTransform::IDENTITY, value)
            };
            let (mut stream, _client) = stream(backend(), pace);
            step(&mut stream, &gray(200), 1);
            assert_eq!(step(&mut stream, &gray(100), 2), Stepped::Rested);
            assert!(holds(&stream, [200; 64]), "it is in the ring");
            stream.masks_changed(3);
            for frame_seq in 3..3 + SLOTS as u64 {
                assert_eq!(step(&mut stream, &gray(100), frame_seq), Stepped::Published);
            }
            assert!(!holds(&stream, [200; 64]), "{pace:?}");
            assert!(holds(&stream, [100; 64]));
            assert_eq!(step(&mut stream, &gray(100), 9), Stepped::Rested);
        }
    });
}

/// Channels are means and contrasts of tiles: pixels, too. After masks have changed, nothing in those that are of one frame says which of
/// two pictures there was before.
#[test]
fn no_channel_tells_of_an_earlier_frame() {
    const OF_ONE_FRAME: [&str; 5] = ["mean", "variance", "edges", "edge_distance", "intensity"];
    on_every_backend(|backend| {
        let mut random = Random(12);
        let color = naive::transforms(PixelFormat::Nv12)[0];
        let mut picture = || OwnedFrame::random(PixelFormat::Nv12, EXTENT, color, &mut random);
        let (one, other, masked) = (picture(), picture(), picture());
        let relevance =
            ViewSpec { channels: OF_ONE_FRAME.map(str::to_owned).to_vec(), ..relevance() };
        // Masks change in frame 41, and as is asked for in each after it.
        let play = |before: &OwnedFrame, changes: std::ops::Range<u64>| {
            let (mut stream, _client) =
                stream_of(backend(), ViewPace::default(), relevance.clone());
            for frame_seq in 1..=40 {
                step(&mut stream, before, frame_seq);
            }
            let shown = channels(&stream);
            let after = (41..=75).map(|frame_seq| {
                if changes.contains(&frame_seq) {
                    stream.masks_changed(frame_seq);
                }
                step(&mut stream, &masked, frame_seq);
                channels(&stream)
            });
            (shown, after.collect::<Vec<_>>())
        };
        let [(shown, after), (shown_of_other, after_other)] =
            [&one, &other].map(|before| play(before, 41..42));
        assert!(shown.0 != 0 && shown != shown_of_other, "they are shown before");
        assert!(after == after_other, "channels tell of what was there before");
        let frames: Vec<u64> = after.iter().map(|(frame, _)| *frame).collect();
        // The decision in frame 41 is about the one before.
        assert_eq!(frames, [vec![0; 10], vec![50; 10], vec![60; 10], vec![70; 5]].concat());
        assert!(play(&one, 0..0).1 != play(&other, 0..0).1, "without a change of masks they may");

        let frames = play(&one, 41..76).1.into_iter().map(|(frame, _)| frame);
        let shown: Vec<u64> = frames.filter(|frame| *frame != 0).collect();
        assert_eq!(shown, [50, 60, 70], "each decision once where masks change in every frame");
    });
}

/// Decides in each tenth frame, 11, 21, and so on, about the frame before.
fn relevance() -> ViewSpec {
    ViewSpec {
        policy: Policy::Relevance { scorer: None, weights: BTreeMap::new(), passes: 1 },
        parameters: GazeParameters { saccade_hz: 10.0, ..GazeParameters::default() },
        ..spec()
    }
}

/// The frame of the newest channels, and their numbers.
fn channels(stream: &Stream) -> (u64, Vec<u8>) {
    let mut reader = Reader::from_fd(stream.segment(0).unwrap().unwrap().0).unwrap();
    let plane = reader.header().plane_index(CHANNELS).unwrap();
    let mut frame = TokenFrameBuf::default();
    reader.read_newest(&mut frame).unwrap();
    (frame.head.channels_frame, frame.plane(plane).to_vec())
}

/// The texels of the newest frame.
fn pixels(stream: &Stream) -> Vec<u8> {
    let mut reader = Reader::from_fd(stream.segment(0).unwrap().unwrap().0).unwrap();
    let mut frame = TokenFrameBuf::default();
    reader.read_newest(&mut frame).unwrap();
    frame.pixels
}

/// The texels of a stream that has seen only `frame`.
fn fresh(backend: StreamBackend, frame: &OwnedFrame) -> Vec<u8> {
    let (mut stream, _client) = stream(backend, ViewPace::default());
    step(&mut stream, frame, 1);
    pixels(&stream)
}

/// Whether these bytes are anywhere in the segment.
fn holds(stream: &Stream, bytes: [u8; 64]) -> bool {
    let segment = std::fs::File::from(stream.segment(0).unwrap().unwrap().0);
    let mut all = vec![0; usize::try_from(segment.metadata().unwrap().len()).unwrap()];
    segment.read_exact_at(&mut all, 0).unwrap();
    all.windows(bytes.len()).any(|window| window == bytes)
}

fn step(stream: &mut Stream, frame: &OwnedFrame, frame_seq: u64) -> Stepped {
    let pts_ns = Some(frame_seq * 10_000_000);
    let stamp = FrameStamp { pts_ns, ..FrameStamp::numbered(frame_seq) };
    stream.step(&frame.view(), &stamp).unwrap()
}

fn stream(backend: StreamBackend, pace: ViewPace) -> (Stream, ClientChannel) {
    stream_of(backend, pace, spec())
}

fn spec() -> ViewSpec {
    ViewSpec {
        layout: Layout::Uniform,
        budget: 40,
        format: TokenFormat::new(16, DType::U8, Normalisation::NONE),
        policy: Policy::Fixed { x: 0.5, y: 0.5 },
        parameters: GazeParameters::default(),
        ..ViewSpec::default()
    }
}

fn stream_of(backend: StreamBackend, pace: ViewPace, spec: ViewSpec) -> (Stream, ClientChannel) {
    let plan = ServedView { name: "main".to_owned(), slot_count: SLOTS, pace, spec };
    let change = ChangeConfig { threshold: Threshold::Fixed(8), refresh_frames: None };
    let (channel, client) = view_channel(&Arc::new(EventFd::new().unwrap()), false);
    (Stream::new("camera", backend, change, [(plan, channel)], Arc::default()), client)
}

/// Tries the CPU, and where there is a device that, too, told the changes and finding them.
fn on_every_backend(test: impl Fn(&dyn Fn() -> StreamBackend)) {
    test(&|| Backends::default().choose(BackendChoice::Cpu, None).unwrap());
    #[cfg(feature = "vulkan")]
    device::with_gpu(|gpu| {
        for on in [ChangeOn::Cpu, ChangeOn::Gpu] {
            test(&|| {
                let device = gpu.summary().name.as_str();
                let backend = Backends::default().choose(BackendChoice::Vulkan, Some(device));
                backend.unwrap().with_change_on(on).unwrap()
            });
        }
    });
}
