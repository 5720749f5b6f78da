//! After masks have changed, nothing of an earlier frame is left in what a stream keeps and publishes: not below a threshold, and
//! not in a ring that rests.

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

use foveate_core::change::{ChangeConfig, Threshold};
use foveate_core::channel::CHANNELS;
use foveate_core::color::ColorTransform;
use foveate_core::frame::{FrameStamp, PixelFormat};
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::Fixation;
use foveate_core::geometry::tile::TileSet;
use foveate_core::mask::{Mask, MaskFill};
use foveate_daemon::stream::{ServedView, StepOutcome, Stream, StreamBackend, ViewPace};
use foveate_gaze::GazeParameters;
use foveate_gaze::controller::Policy;
use foveate_gaze::feedback::Feedback;
use foveate_gaze::layout::Layout;
use foveate_gaze::view::ViewSpec;
use foveate_ring::FrameHead;
use foveate_server::channel::ClientChannel;
use testkit::naive::{self, OwnedFrame, Random};
use testkit::stream::{channel, on_every_backend, read_newest, reader, served, spec};

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
            assert_eq!(step(&mut stream, &before, 1), StepOutcome::PublishedInNewSegments);
            step(&mut stream, &masked, 2);
            assert!(pixels(&stream) == fresh(backend(), &before), "the threshold holds");
            stream.masks_changed(None, 3);
            step(&mut stream, &masked, 3);
            assert!(pixels(&stream) == fresh(backend(), &masked), "{}", format.name());
            // Later frames are compared with that one, by the threshold again.
            step(&mut stream, &before, 4);
            assert!(pixels(&stream) == fresh(backend(), &masked), "{}", format.name());
        }
    });
}

#[test]
fn a_new_mask_flushes_the_ring_of_resting_views() {
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
            assert_eq!(step(&mut stream, &gray(100), 2), StepOutcome::Unpublished);
            assert!(holds(&stream, [200; 64]), "it is in the ring");
            stream.masks_changed(None, 3);
            for frame_seq in 3..3 + SLOTS as u64 {
                assert_eq!(step(&mut stream, &gray(100), frame_seq), StepOutcome::Published);
            }
            assert!(!holds(&stream, [200; 64]), "{pace:?}");
            assert!(holds(&stream, [100; 64]));
            assert_eq!(step(&mut stream, &gray(100), 9), StepOutcome::Unpublished);
        }
    });
}

/// Two streams whose pictures differ only in what the second change of masks covers publish the same from then on, however that change
/// lies between two decisions.
#[test]
fn nothing_tells_what_masks_that_change_twice_cover() {
    on_every_backend(|backend| {
        let (picture, other) = pictures();
        for (first, second) in [(21, 31), (25, 31), (30, 31), (31, 32), (31, 36), (36, 41)] {
            let masks = |frame_seq: u64| -> Vec<Mask> {
                let changes = [(first, CORNER), (second, SECRET)];
                let set = changes.into_iter().filter(|(since, _)| *since <= frame_seq);
                set.map(|(_, sides)| mask(sides)).collect()
            };
            let [shown, of_other] =
                [&picture, &other].map(|picture| play(backend(), |_| picture, masks));
            let secret = usize::try_from(second - 1).unwrap();
            assert!(shown[secret - 1] != of_other[secret - 1], "they differ before");
            assert_alike(&shown[secret..], &of_other[secret..], second);
        }
    });
}

/// In each frame the masks have moved, as boxes of a detector do. What one frame shows where the masks of the next one are is in none that
/// follows.
#[test]
fn nothing_tells_what_masks_that_change_in_every_frame_cover() {
    on_every_backend(|backend| {
        let (picture, other) = pictures();
        let masks = |frame_seq: u64| {
            let x = 0.02 * (frame_seq % 11) as f64;
            vec![mask([0.3 + x, 0.3, 0.5 + x, 0.7])]
        };
        let shown = play(backend(), |_| &picture, masks);
        for frame_seq in 28..43 {
            let kind = picture.kind();
            let mut differing = picture.clone();
            // The other picture where the next masks are.
            for (x, y) in covered(&masks(frame_seq + 1), kind.extent) {
                differing.copy_pixel(&other, x, y);
            }
            let pictures = |at: u64| if at == frame_seq { &differing } else { &picture };
            let of_other = play(backend(), pictures, masks);
            let next = usize::try_from(frame_seq).unwrap();
            assert_alike(&shown[next..], &of_other[next..], frame_seq + 1);
        }
        let decided = shown[27..43].iter().filter(|frame| frame.channels_frame != 0);
        assert_eq!(decided.count(), 16, "channels are computed with each change");
    });
}

#[test]
fn gaze_behind_a_new_mask_is_decided_anew() {
    on_every_backend(|backend| {
        for policy in [
            Policy::Saliency,
            Policy::Relevance { scorer: None, weights: BTreeMap::new(), passes: 1 },
        ] {
            let layout = Layout::Foveal { e0_px: None, foveae: 1, coarsest: None };
            let spec = ViewSpec { policy, layout, budget: 10, ..relevance() };
            let (mut stream, _client) = stream_of(backend(), ViewPace::default(), spec);
            let color = naive::transforms(PixelFormat::Nv12)[0];
            let mut frame = OwnedFrame::uniform(PixelFormat::Nv12, EXTENT, color, 100);
            frame.scramble(96, 48, 16, &mut Random(13));
            let mut frames = 1..=60;
            let sides = [0.65, 0.55, 1.0, 1.0];
            let is_behind = |stream: &Stream| {
                let Fixation { x, y, .. } = stream.gaze(0).unwrap().first();
                let share = [x / f64::from(EXTENT.width), y / f64::from(EXTENT.height)];
                sides[0] <= share[0]
                    && share[0] <= sides[2]
                    && sides[1] <= share[1]
                    && share[1] <= sides[3]
            };
            let looked_at = frames.find(|frame_seq| {
                step(&mut stream, &frame, *frame_seq);
                is_behind(&stream)
            });
            let masked = 1 + looked_at.expect("it looks at the only thing that there is");
            let texels = fill(&mut frame, &[mask(sides)]);
            stream.masks_changed(Some(&texels), masked);
            step(&mut stream, &frame, masked);
            assert_eq!(stream.gaze(0).unwrap().first().since_frame, masked);
        }
    });
}

/// Sides of masks, as shares of the picture.
const CORNER: [f64; 4] = [0.0, 0.0, 0.2, 0.2];
const SECRET: [f64; 4] = [0.42, 0.35, 0.71, 0.66];

fn mask(sides: [f64; 4]) -> Mask {
    Mask::rectangle("mask", sides)
}

/// Two pictures that differ where the secret is.
fn pictures() -> (OwnedFrame, OwnedFrame) {
    let mut random = Random(12);
    let color = naive::transforms(PixelFormat::Nv12)[0];
    let picture = OwnedFrame::random(PixelFormat::Nv12, EXTENT, color, &mut random);
    let noise = OwnedFrame::random(PixelFormat::Nv12, EXTENT, color, &mut random);
    let mut other = picture.clone();
    for (x, y) in covered(&[mask(SECRET)], EXTENT) {
        other.copy_pixel(&noise, x, y);
    }
    (picture, other)
}

/// The pixels that masks fill, by what they do to a white frame.
fn covered(masks: &[Mask], extent: Extent) -> Vec<(u32, u32)> {
    let color = naive::transforms(PixelFormat::Nv12)[0];
    let mut white = OwnedFrame::uniform(PixelFormat::Nv12, extent, color, 255);
    fill(&mut white, masks);
    let pixels = (0..extent.height).flat_map(|y| (0..extent.width).map(move |x| (x, y)));
    pixels.filter(|(x, y)| white.samples(*x, *y)[0] != 255).collect()
}

/// Fills what masks cover, and returns the texels of the coarse level that they do.
fn fill(frame: &mut OwnedFrame, masks: &[Mask]) -> TileSet {
    let fill = MaskFill::new(masks, frame.kind());
    for index in 0..frame.format.plane_count() {
        let (plane, stride) = frame.plane_mut(index);
        fill.fill(index, plane, stride);
    }
    fill.coarse_texels()
}

/// What a frame publishes that is made from pixels.
#[derive(Debug, PartialEq)]
struct ViewFrame {
    fixations: String,
    motion: String,
    channels_frame: u64,
    numbers: [u64; 5],
    records: Vec<u8>,
    planes: Vec<Vec<u8>>,
}

/// Publishes 60 frames of a view that scores all channels, at which a client looks, with the masks of each frame.
fn play<'a>(
    backend: StreamBackend,
    picture: impl Fn(u64) -> &'a OwnedFrame,
    masks: impl Fn(u64) -> Vec<Mask>,
) -> Vec<ViewFrame> {
    let names = CHANNELS.iter().map(|channel| channel.name.to_owned());
    let spec = ViewSpec { channels: names.collect(), ..relevance() };
    let (mut stream, client) = stream_of(backend, ViewPace::default(), spec);
    let mut before = Vec::new();
    let frames = (1..=60).map(|frame_seq| {
        let mut frame = picture(frame_seq).clone();
        let masks = masks(frame_seq);
        let texels = fill(&mut frame, &masks);
        if std::mem::replace(&mut before, masks.clone()) != masks {
            stream.masks_changed(Some(&texels), frame_seq);
        }
        step(&mut stream, &frame, frame_seq);
        if frame_seq == 1 {
            client.send_feedback(Feedback::look_at(20.0, 60.0, None), EXTENT, 1, false).unwrap();
        }
        let shown = read_newest(&mut reader(&stream, 0));
        let FrameHead { sample_bound, rgb_bound, dirty_tiles, tile_count, .. } = shown.head;
        let bounds = [sample_bound, rgb_bound, dirty_tiles, tile_count].map(u64::from);
        ViewFrame {
            fixations: format!("{:?}", shown.head.fixations),
            motion: format!("{:?}", shown.head.motion),
            channels_frame: shown.head.channels_frame,
            numbers: [bounds[0], bounds[1], bounds[2], bounds[3], shown.head.relevance_frame],
            records: bytemuck::cast_slice(&shown.records).to_vec(),
            planes: [vec![shown.pixels], shown.planes].concat(),
        }
    });
    frames.collect()
}

fn assert_alike(shown: &[ViewFrame], of_other: &[ViewFrame], since: u64) {
    for ((frame, one), other) in (since..).zip(shown).zip(of_other) {
        let ViewFrame { planes, records, .. } = one;
        assert_eq!(one.fixations, other.fixations, "frame {frame}, masked since {since}");
        assert_eq!(one.motion, other.motion, "frame {frame}, masked since {since}");
        assert_eq!(one.numbers, other.numbers, "frame {frame}, masked since {since}");
        assert!(*records == other.records, "records of frame {frame}, masked since {since}");
        for (index, (plane, of_other)) in planes.iter().zip(&other.planes).enumerate() {
            assert!(plane == of_other, "plane {index} of frame {frame}, masked since {since}");
        }
        assert!(one == other, "frame {frame}, masked since {since}");
    }
}

/// Decides in each tenth frame, 11, 21, and so on, about the frame before.
fn relevance() -> ViewSpec {
    ViewSpec {
        policy: Policy::Relevance { scorer: None, weights: BTreeMap::new(), passes: 1 },
        parameters: GazeParameters { saccade_hz: 10.0, ..GazeParameters::default() },
        ..uniform()
    }
}

/// The texels of the newest frame.
fn pixels(stream: &Stream) -> Vec<u8> {
    read_newest(&mut reader(stream, 0)).pixels
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

fn step(stream: &mut Stream, frame: &OwnedFrame, frame_seq: u64) -> StepOutcome {
    let pts_ns = Some(frame_seq * 10_000_000);
    let stamp = FrameStamp { pts_ns, ..FrameStamp::numbered(frame_seq) };
    stream.step(&frame.view(), &stamp).unwrap()
}

fn stream(backend: StreamBackend, pace: ViewPace) -> (Stream, ClientChannel) {
    stream_of(backend, pace, uniform())
}

fn uniform() -> ViewSpec {
    spec(Layout::Uniform, 40)
}

fn stream_of(backend: StreamBackend, pace: ViewPace, spec: ViewSpec) -> (Stream, ClientChannel) {
    let plan = ServedView { slot_count: SLOTS, pace, ..served("main", spec) };
    let change = ChangeConfig { threshold: Threshold::Fixed(8), refresh_frames: None };
    let (channel, client) = channel();
    (Stream::new("camera", backend, change, [(plan, channel)], Arc::default()), client)
}
