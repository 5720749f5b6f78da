//! Every message survives the way, and no bytes are worse than refused.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use foveate_core::color::{ColorMatrix, ColorRange, Colorimetry, Transfer};
use foveate_core::depth::DepthFormat;
use foveate_core::frame::{CaptureClock, PixelFormat};
use foveate_core::geometry::extent::Extent;
use foveate_core::gray::{GrayRange, GrayScaling};
use foveate_core::mask::Mask;
use foveate_core::pixel::PixelAspect;
use foveate_core::source::{
    Content, CorruptedFrames, Isolation, Orientation, Pace, SourceChoice, SourceLimits, SourceSpec,
    Tls,
};
use foveate_stats::LossReason;
use proptest::prelude::*;

use super::*;

fn color() -> impl Strategy<Value = Colorimetry> {
    let matrix = prop::option::of(prop::sample::select(ColorMatrix::ALL.to_vec()));
    let transfer = prop::option::of(prop::sample::select(Transfer::ALL.to_vec()));
    let range = prop::sample::select(ColorRange::ALL.to_vec());
    (matrix, range, transfer, any::<bool>(), any::<bool>()).prop_map(
        |(matrix, range, transfer, is_matrix_assumed, is_range_assumed)| Colorimetry {
            matrix,
            range,
            transfer,
            is_matrix_assumed,
            is_range_assumed,
        },
    )
}

fn samples() -> impl Strategy<Value = SampleFormat> {
    prop_oneof![
        (prop::sample::select(PixelFormat::ALL.to_vec()), color())
            .prop_map(|(format, color)| SampleFormat::Picture(format, color)),
        prop::sample::select(DepthFormat::ALL.to_vec()).prop_map(SampleFormat::Depth),
    ]
}

fn frame() -> impl Strategy<Value = FrameReady> {
    let layout = (
        samples(),
        any::<[u32; 2]>(),
        [1..9_u32, 1..9],
        any::<[(u32, u32); 3]>(),
        any::<[u16; 2]>(),
    );
    let times = (any::<Option<u64>>(), any::<[u64; 5]>());
    let clock = prop::sample::select(CaptureClock::ALL.to_vec());
    (any::<u8>(), layout, times, clock, any::<[bool; 2]>(), any::<[u32; 9]>()).prop_map(
        |(buffer, layout, (pts_ns, numbers), capture_clock, [is_live, is_exact], counts)| {
            let (samples, [width, height], aspect, planes, [low, high]) = layout;
            let gray_range = GrayRange::new(low, high);
            let planes = planes.map(|(offset, stride)| PlaneLayout {
                offset: offset as usize,
                stride: stride as usize,
            });
            let pixel_aspect = PixelAspect { width: aspect[0], height: aspect[1] };
            let extent = Extent::new(width, height);
            let [number, capture_ns, capture_unix_ns, arrival_ns, mask_revision] = numbers;
            FrameReady {
                buffer,
                layout: FrameLayout { samples, extent, pixel_aspect, gray_range, planes },
                stamp: SourceStamp {
                    number,
                    pts_ns,
                    capture_ns,
                    capture_unix_ns,
                    capture_clock,
                    arrival_ns,
                },
                mask_revision,
                is_live,
                is_exact,
                counts: FrameCounts::of(counts),
            }
        },
    )
}

fn failure() -> impl Strategy<Value = Failure> {
    let reason = prop::sample::select(LossReason::ALL.to_vec());
    ("\\PC{0,200}", reason, any::<[bool; 3]>()).prop_map(|(text, reason, flags)| {
        let [is_transient, is_configuration, is_every_frame_live] = flags;
        Failure { text, reason, is_transient, is_configuration, is_every_frame_live }
    })
}

fn message() -> impl Strategy<Value = FromSource> {
    prop_oneof![
        any::<u8>().prop_map(FromSource::Buffer),
        any::<u8>().prop_map(FromSource::Gone),
        frame().prop_map(FromSource::Frame),
        any::<[u32; 9]>().prop_map(|counts| FromSource::Counts(FrameCounts::of(counts))),
        Just(FromSource::Ended),
        failure().prop_map(FromSource::Failed),
    ]
}

proptest! {
    #[test]
    fn messages_survive_the_way(message in message()) {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        prop_assert!(bytes.len() <= FROM_SOURCE_BYTES_MAX);
        prop_assert_eq!(FromSource::decode(&bytes), Ok(message));
    }

    /// One byte changed, or the end cut off: refused, or another message that means itself.
    #[test]
    fn damaged_messages_are_refused_or_mean_something_else(
        message in message(), at in any::<prop::sample::Index>(), value in any::<u8>(), cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        let at = at.index(bytes.len());
        bytes[at] = value;
        means_itself(&bytes);
        means_itself(&bytes[..cut.index(bytes.len())]);
    }

    #[test]
    fn no_bytes_are_worse_than_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..300), kind in 16..22_u8) {
        means_itself(&bytes);
        let _ = ToSource::decode(&bytes);
        bytes.splice(0..0, [VERSION, kind]);
        means_itself(&bytes);
    }
}

/// A message that is read can be written, and is the same again.
fn means_itself(bytes: &[u8]) {
    let Ok(message) = FromSource::decode(bytes) else { return };
    let mut again = Vec::new();
    message.encode(&mut again);
    assert_eq!(FromSource::decode(&again), Ok(message));
}

#[test]
fn a_source_is_described_in_full() {
    let spec = SourceSpec {
        stream: "front".to_owned(),
        source: SourceChoice::Pipeline("a ! b name=\"c\"".to_owned()),
        isolation: Isolation::None,
        limits: SourceLimits { memory_mib: 65, nice: 3 },
        content: Content::Depth,
        parameters: [("a".to_owned(), "b c".to_owned())].into(),
        pace: Pace::EveryFrame,
        looped: true,
        latency_ms: 7,
        tls: Tls::CaFile("/a/ca.pem".into()),
        follow_addresses: true,
        caps_timeout: Duration::from_millis(1234),
        orientation: Orientation::Degrees90,
        corrupted: CorruptedFrames::Show,
        live: Some(true),
        track: Some(2),
        scale_pictures: true,
        max_pixels: 1000,
        background: [1, 2, 3],
        square_pixels: true,
        interlaced: true,
        range: Some(ColorRange::Full),
        matrix: Some(ColorMatrix::Bt2020),
        gray_range: Some(GrayScaling::Auto),
        max_fps: Some(30.0),
        restart: false,
        restart_timeout: None,
        masks: vec![Mask::rectangle("door", [0.1, 0.2, 0.3, 1.0 / 3.0])],
    };
    let kinds = [
        SourceChoice::Shorthand("test".to_owned()),
        SourceChoice::Shorthand("relative/clip.mp4".to_owned()),
        SourceChoice::PipelineFile("/a/b".into()),
    ];
    let specs = kinds.map(|source| SourceSpec { source, ..spec.clone() });
    for spec in [spec].into_iter().chain(specs) {
        let start = Start {
            spec,
            mask_revision: 3,
            only_checks: true,
            is_restart: true,
            has_delivered: false,
            pool: PoolLimits { buffers_max: 64, bytes_max: 1 << 30, buffer_bytes_max: 1 << 29 },
            frames_max: 4,
            data_bytes_max: 1 << 29,
        };
        let mut bytes = Vec::new();
        let start = ToSource::Start(Box::new(start));
        start.encode(&mut bytes);
        assert_eq!(ToSource::decode(&bytes), Ok(start));
    }
}

#[test]
fn long_errors_are_cut_at_a_character() {
    let failure = Failure {
        text: "é".repeat(TEXT_BYTES_MAX),
        reason: LossReason::Failed,
        is_transient: true,
        is_configuration: false,
        is_every_frame_live: false,
    };
    let mut bytes = Vec::new();
    FromSource::Failed(failure).encode(&mut bytes);
    let Ok(FromSource::Failed(read)) = FromSource::decode(&bytes) else { panic!("refused") };
    assert_eq!(read.text, "é".repeat(TEXT_BYTES_MAX / 2));
}

#[test]
fn another_version_is_refused() {
    assert_eq!(FromSource::decode(&[VERSION + 1, ENDED]), Err(WireError::Version(VERSION + 1)));
    assert_eq!(FromSource::decode(&[VERSION, ENDED]), Ok(FromSource::Ended));
    assert_eq!(FromSource::decode(&[VERSION, ENDED, 0]), Err(WireError::Length(3)));
    assert_eq!(FromSource::decode(&[]), Err(WireError::Length(0)));
}
