//! Each frame says by how much its tokens may be off, and how many tiles it brought up to date; tokens that say that
//! nothing changed are the same bytes.

use std::num::NonZeroU32;
use std::sync::Arc;

use foveate_core::backend::BackendChoice;
use foveate_core::change::{ChangeConfig, Threshold};
use foveate_core::color::{ColorMatrix, ColorRange, ColorTransform};
use foveate_core::frame::{FrameStamp, FrameView, PixelFormat, Plane};
use foveate_core::geometry::extent::Extent;
use foveate_core::token::{DType, Normalisation, TokenFormat};
use foveate_daemon::stream::{Backends, ServedView, Stream, ViewPace};
use foveate_gaze::GazeParameters;
use foveate_gaze::controller::Policy;
use foveate_gaze::layout::Layout;
use foveate_gaze::view::ViewSpec;
use foveate_ring::{ReadOutcome, Reader, TokenFrameBuf};
use foveate_server::channel::ViewChannel;

/// Six tiles of 32 x 32 pixels, two of them cut.
const EXTENT: Extent = Extent::new(96, 40);
const TILES: u32 = 6;

#[test]
fn threshold_0_takes_every_change() {
    let frames = played(ChangeConfig::default(), &[100, 101, 101]);
    for (frame, value, dirty_tiles, changed_frame) in
        [(&frames[0], 100, TILES, 1), (&frames[1], 101, TILES, 2), (&frames[2], 101, 0, 2)]
    {
        assert_eq!((frame.head.sample_bound, frame.head.rgb_bound), (0, 0));
        assert_shows(frame, value, dirty_tiles, changed_frame);
    }
}

#[test]
fn within_the_threshold_tokens_stay_and_the_bounds_say_so() {
    let config = ChangeConfig { threshold: Threshold::Fixed(4), refresh_frames: None };
    let frames = played(config, &[100, 104, 105, 101, 100]);
    for (frame, (value, dirty_tiles, changed_frame)) in frames.iter().zip([
        (100, TILES, 1),
        (100, 0, 1),
        (105, TILES, 3),
        (105, 0, 3),
        (100, TILES, 5),
    ]) {
        // That of the tiles, and that of the texels.
        let rgb_bound = color().rgb_bound(4) + 4;
        assert_eq!((frame.head.sample_bound, frame.head.rgb_bound), (4, rgb_bound));
        assert_shows(frame, value, dirty_tiles, changed_frame);
    }
}

#[test]
fn an_unchanged_refresh_counts_as_ingested_only() {
    let config =
        ChangeConfig { threshold: Threshold::Fixed(4), refresh_frames: NonZeroU32::new(1) };
    let frames = played(config, &[100, 100, 103]);
    for (frame, (value, changed_frame)) in frames.iter().zip([(100, 1), (100, 1), (103, 3)]) {
        assert_shows(frame, value, TILES, changed_frame);
    }
}

#[track_caller]
fn assert_shows(frame: &TokenFrameBuf, value: u8, dirty_tiles: u32, changed_frame: u64) {
    assert_eq!((frame.head.dirty_tiles, frame.head.tile_count), (dirty_tiles, TILES));
    assert!(!frame.records.is_empty());
    assert!(frame.records.iter().all(|record| record.changed_frame == changed_frame));
    assert!(frame.pixels.iter().all(|pixel| *pixel == color().channel(value)));
}

/// What a stream publishes of frames that are gray all over.
fn played(change: ChangeConfig, values: &[u8]) -> Vec<TokenFrameBuf> {
    let plan = ServedView {
        name: "main".to_owned(),
        slot_count: 2,
        pace: ViewPace::default(),
        spec: ViewSpec {
            layout: Layout::Uniform,
            budget: 20,
            format: TokenFormat::new(16, DType::U8, Normalisation::NONE),
            policy: Policy::Fixed { x: 0.5, y: 0.5 },
            parameters: GazeParameters::default(),
            ..ViewSpec::default()
        },
    };
    let backend = Backends::default().choose(BackendChoice::Cpu, None).unwrap();
    let views = [(plan, ViewChannel::unconnected())];
    let mut stream = Stream::new("camera", backend, change, views, Arc::default());
    let mut reader = None;
    let mut frame_seq = 0;
    let mut published = |value: &u8| {
        frame_seq += 1;
        step(&mut stream, *value, frame_seq);
        let reader = reader.get_or_insert_with(|| {
            let (segment, _) = stream.segment(0).unwrap().unwrap();
            Reader::from_fd(segment).unwrap()
        });
        let mut frame = TokenFrameBuf::default();
        assert_eq!(reader.read_newest(&mut frame).unwrap(), ReadOutcome::Frame { missed: 0 });
        frame
    };
    values.iter().map(&mut published).collect()
}

fn step(stream: &mut Stream, value: u8, frame_seq: u64) {
    let luma = vec![value; EXTENT.area()];
    let chroma = vec![128; EXTENT.area() / 2];
    let stride = EXTENT.width as usize;
    let planes = [Plane { bytes: &luma, stride }, Plane { bytes: &chroma, stride }];
    let frame = FrameView::new(PixelFormat::Nv12, EXTENT, color(), &planes).unwrap();
    stream.step(&frame, &FrameStamp::numbered(frame_seq)).unwrap();
}

fn color() -> ColorTransform {
    ColorTransform::from_ycbcr(ColorMatrix::Bt709, ColorRange::Limited)
}
