//! What containers and codecs say, and what they hide: colour, tracks, orientation, time.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use foveate_capture::reconnecting::{ReconnectingSource, SourceEvent};
use foveate_capture::{
    CaptureError, End, Masks, Pace, Source, SourceChoice, SourceSpec, TakeResult,
};
use foveate_core::backoff::Backoff;
use foveate_core::color::{ColorMatrix, ColorRange};
use foveate_core::frame::{FrameStamp, PixelFormat};
use foveate_core::gray::{GrayRange, GrayScaling};
use foveate_core::mask::Mask;
use testkit::film::{encode, rest_of, run};
use testkit::naive::{OwnedFrame, picture};
use testkit::wait::HANG;

use crate::specs::pipeline;

/// H.264 of full range by the box `colr` and by the codec, whose colour is (192, 48, 32). GStreamer's demuxer keeps the range for itself.
#[test]
fn full_range_in_mp4_stays_full() {
    let clip = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/full_range.mp4");
    let mut source = Source::open(&shorthand(&clip), &Arc::default()).unwrap();
    let (frames, end) = rest_of(&mut source);
    assert_eq!((frames.len(), end), (5, End::Eos));
    let color = frames[0].facts().color.unwrap();
    assert_eq!((color.matrix, color.range), (Some(ColorMatrix::Bt709), ColorRange::Full));
    assert!(!color.is_matrix_assumed && !color.is_range_assumed);
    let pixels = picture(&OwnedFrame::copied(&frames[0].view().unwrap()));
    for pixel in &pixels.texels {
        for (found, expected) in pixel.iter().zip([192_u8, 48, 32]) {
            assert!(found.abs_diff(expected) <= 2, "{pixel:?}");
        }
    }
}

/// MPEG-4 says nothing of its range, and neither does the caps of the demuxer.
#[test]
fn a_range_that_only_the_container_says_is_assumed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("clip.mp4");
    encode(
        &path,
        "videotestsrc num-buffers=3 ! video/x-raw,format=I420,width=64,height=48,colorimetry=bt709 ! avenc_mpeg4 ! qtmux",
    );
    let mut source = Source::open(&shorthand(&path), &Arc::default()).unwrap();
    let (frames, _) = rest_of(&mut source);
    let color = frames[0].facts().color.unwrap();
    assert!(color.is_range_assumed, "{color}");
}

/// The demuxer has read all of such a clip before its caps are refused, and reports nothing any more.
#[test]
fn a_short_clip_that_needs_a_converter_plays_every_time() {
    let folder = tempfile::tempdir().unwrap();
    for (name, encoder) in
        [("clip.webm", "vp9enc deadline=1 ! webmmux"), ("clip.mkv", "avenc_ffv1 ! matroskamux")]
    {
        let path = folder.path().join(name);
        encode(
            &path,
            &format!(
                "videotestsrc num-buffers=5 ! video/x-raw,format=Y444,width=64,height=48,framerate=10/1 ! {encoder}"
            ),
        );
        for attempt in 0..20 {
            let mut source = Source::open(&shorthand(&path), &Arc::default())
                .unwrap_or_else(|error| panic!("{name}, attempt {attempt}: {error}"));
            let (frames, end) = rest_of(&mut source);
            assert_eq!((frames.len(), end), (5, End::Eos), "{name}, attempt {attempt}");
        }
    }
}

/// GStreamer takes such a track for a preview.
#[test]
fn a_video_shorter_than_a_fifth_of_its_sound_plays() {
    let folder = tempfile::tempdir().unwrap();
    for (muxer, ending) in [("qtmux", "mov"), ("mp4mux", "mp4")] {
        let path = folder.path().join(format!("short.{ending}"));
        run(&format!(
            "{muxer} name=mux ! filesink location={} \
             videotestsrc num-buffers=10 ! video/x-raw,width=64,height=48,framerate=10/1 ! avenc_mpeg4 ! queue ! mux. \
             audiotestsrc num-buffers=100 samplesperbuffer=800 ! audio/x-raw,rate=8000,channels=1 ! avenc_aac ! queue ! mux.",
            path.display()
        ));
        let mut source = Source::open(&shorthand(&path), &Arc::default())
            .unwrap_or_else(|error| panic!("{muxer}: {error}"));
        let (frames, end) = rest_of(&mut source);
        assert_eq!((frames.len(), end), (10, End::Eos), "{muxer}");
    }
}

#[test]
fn an_orientation_of_32_bits_turns_the_picture() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("photo.jpg");
    encode(&path, "videotestsrc num-buffers=1 ! video/x-raw,width=64,height=48 ! jpegenc");
    let jpeg = fs::read(&path).unwrap();
    for (kind, value_bytes) in [(3_u16, 2), (4, 4)] {
        for is_big_endian in [false, true] {
            fs::write(&path, with_exif(&jpeg, kind, value_bytes, is_big_endian)).unwrap();
            let mut source = Source::open(&shorthand(&path), &Arc::default()).unwrap();
            let TakeResult::Frame(frame) = source.next_frame(HANG) else { panic!("no frame") };
            let extent = frame.view().unwrap().extent();
            assert_eq!((extent.width, extent.height), (48, 64), "type {kind}, {is_big_endian}");
        }
    }
}

/// A JPEG with the orientation 6, of `value_bytes` bytes and this EXIF type.
fn with_exif(jpeg: &[u8], kind: u16, value_bytes: usize, is_big_endian: bool) -> Vec<u8> {
    let number = |value: u32, bytes: usize| {
        if is_big_endian {
            value.to_be_bytes()[4 - bytes..].to_vec()
        } else {
            value.to_le_bytes()[..bytes].to_vec()
        }
    };
    let mut tiff = if is_big_endian { b"MM".to_vec() } else { b"II".to_vec() };
    for (value, bytes) in [(42, 2), (8, 4), (1, 2), (0x112, 2), (kind.into(), 2), (1, 4)] {
        tiff.extend(number(value, bytes));
    }
    let mut value = number(6, value_bytes);
    value.resize(4, 0);
    tiff.extend(value);
    tiff.extend([0; 4]);
    let exif = [b"Exif\0\0", &tiff[..]].concat();
    let length = u16::try_from(exif.len() + 2).unwrap().to_be_bytes();
    [&jpeg[..2], &[0xFF, 0xE1], &length, &exif, &jpeg[2..]].concat()
}

#[test]
fn bayer_is_told_its_own_converter() {
    let text = "videotestsrc num-buffers=3 ! video/x-bayer,format=rggb,width=64,height=48 ! appsink name=frames";
    let spec = pipeline(text);
    let error = Source::open(&spec, &Arc::default()).unwrap_err();
    assert!(matches!(error, CaptureError::NotRawVideo { .. }), "{error:?}");
    assert!(error.to_string().contains("`bayer2rgb`"), "{error}");
    assert!(!error.to_string().contains("decodebin"), "{error}");
}

/// Pictures in an AVI of an unknown kind, as raw ones of `yuv410p` are.
#[test]
fn an_installed_package_is_not_advised() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("clip.avi");
    encode(
        &path,
        "videotestsrc num-buffers=3 ! video/x-raw,format=I420,width=64,height=48 ! avimux",
    );
    let bytes = fs::read(&path).unwrap();
    let unknown: Vec<u8> = replaced(&bytes, b"I420", b"YUV9");
    fs::write(&path, unknown).unwrap();
    let error = Source::open(&shorthand(&path), &Arc::default()).unwrap_err();
    assert!(matches!(error, CaptureError::MissingDecoder { .. }), "{error:?}");
    let error = error.to_string();
    assert!(!error.contains("install the Debian package"), "{error}");
    assert!(error.contains("convert"), "{error}");
}

fn replaced(bytes: &[u8], from: &[u8; 4], to: &[u8; 4]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let places: Vec<_> = (0..bytes.len() - 3).filter(|&at| &bytes[at..at + 4] == from).collect();
    assert!(!places.is_empty());
    for at in places {
        bytes[at..at + 4].copy_from_slice(to);
    }
    bytes
}

/// A frame of the test pattern is drawn once the one before was delivered, however slow the machine is.
#[test]
fn a_test_pattern_is_never_older_than_the_frame_before() {
    let interval_ns = 1_000_000;
    let text = "videotestsrc is-live=true pattern=snow num-buffers=30 \
                ! video/x-raw,format=RGBA,width=1920,height=1080,framerate=1000/1 ! appsink name=frames";
    let mut spec = pipeline(text);
    spec.restart = false;
    let mut source = Source::open(&spec, &Arc::default()).unwrap();
    let (mut before, mut count): (Option<FrameStamp>, _) = (None, 0);
    while let TakeResult::Frame(frame) = source.next_frame(HANG) {
        let stamp = frame.stamp();
        if let Some(before) = before {
            assert!(before.arrival_ns <= stamp.capture_ns + interval_ns, "{before:?} {stamp:?}");
            assert!(before.capture_ns <= stamp.capture_ns);
        }
        (before, count) = (Some(stamp), count + 1);
    }
    assert!(1 < count);
}

/// As of a thermal camera: 401 samples in the middle of 16 bits, left to right, in both orders of bytes, and padded rows.
#[test]
fn sixteen_bit_gray_keeps_its_levels_in_a_range() {
    let folder = tempfile::tempdir().unwrap();
    let (width, height, low) = (403, 6, 29_000_u16);
    for format in ["GRAY16_LE", "GRAY16_BE"] {
        let sample = |x: u16| low + (x % 401);
        let mut raw = Vec::new();
        for _ in 0..height {
            for x in 0..width {
                let sample = sample(x);
                raw.extend(if format.ends_with("LE") {
                    sample.to_le_bytes()
                } else {
                    sample.to_be_bytes()
                });
            }
            // A row of the caps' layout is a multiple of four bytes.
            raw.extend([0; 2]);
        }
        let path = folder.path().join(format);
        fs::write(&path, &raw).unwrap();
        let text = format!(
            "filesrc location={} blocksize={} ! capsfilter caps=video/x-raw,format={format},width={width},height={height},framerate=10/1 \
             ! appsink name=frames",
            path.display(),
            raw.len()
        );
        let range = |low, high| GrayRange::new(low, high).unwrap();
        for (scaling, expected) in [
            (None, GrayRange::FULL),
            (Some(GrayScaling::Fixed(range(29_000, 29_400))), range(29_000, 29_400)),
            (Some(GrayScaling::Fixed(range(29_100, 29_101))), range(29_100, 29_101)),
            // Of 2418 samples two are left out at either end.
            (Some(GrayScaling::Auto), range(29_000, 29_400)),
        ] {
            let source = SourceChoice::Pipeline(text.clone());
            let spec = SourceSpec {
                gray_range: scaling,
                pace: Pace::EveryFrame,
                ..SourceSpec::new("gray", source)
            };
            let mut source = Source::open(&spec, &Arc::default()).unwrap();
            let TakeResult::Frame(frame) = source.next_frame(HANG) else { panic!("no frame") };
            assert_eq!(frame.facts().gray_range, Some(expected), "{format} {scaling:?}");
            let view = frame.view().unwrap();
            assert_eq!(view.format(), PixelFormat::Gray8);
            assert_eq!(frame.facts().color.unwrap().range, ColorRange::Full);
            let [low, high] = expected.bounds().map(f64::from);
            for y in 0..height {
                for (x, level) in (0..width).zip(view.row(0, y)) {
                    let exact = (f64::from(sample(x)) - low) * 255.0 / (high - low);
                    let rounded = (exact + 0.5).floor().clamp(0.0, 255.0);
                    assert_eq!(f64::from(*level), rounded, "{format} {scaling:?} {x}");
                }
            }
        }
    }
}

#[test]
fn sixteen_bit_gray_is_masked() {
    let text = "videotestsrc num-buffers=2 pattern=white ! video/x-raw,format=GRAY16_LE,width=64,height=64 ! appsink name=frames";
    let corners = [[0.0, 0.0], [1.0, 0.0], [1.0, 0.5], [0.0, 0.5]];
    let mask = Mask { name: "top".to_owned(), points: corners.to_vec() };
    let mut spec = SourceSpec::new("gray", SourceChoice::Pipeline(text.to_owned()));
    (spec.pace, spec.masks) = (Pace::EveryFrame, vec![mask]);
    let mut source = Source::open(&spec, &Arc::default()).unwrap();
    let (frames, end) = rest_of(&mut source);
    assert_eq!((frames.len(), end), (2, End::Eos));
    let view = frames[1].view().unwrap();
    assert!(view.row(0, 8).iter().all(|level| *level == 0));
    assert!(view.row(0, 60).iter().all(|level| 230 < *level));
}

/// A restart of a camera must not change what its samples mean.
#[test]
fn an_automatic_range_outlives_its_pipeline() {
    let text = "videotestsrc is-live=true num-buffers=2 pattern=gradient ! video/x-raw,format=GRAY16_LE,width=64,height=64,framerate=100/1 \
                ! appsink name=frames";
    let mut spec = SourceSpec::new("gray", SourceChoice::Pipeline(text.to_owned()));
    spec.gray_range = Some(GrayScaling::Auto);
    let no_pauses = Backoff::new(Duration::ZERO, Duration::ZERO, 1);
    let mut source = ReconnectingSource::with_pauses(
        &spec,
        &Arc::new(Masks::default()),
        &Arc::default(),
        no_pauses,
    );
    let mut ranges = Vec::new();
    while ranges.len() < 5 {
        match source.next_event(HANG) {
            SourceEvent::Frame(frame) => ranges.push(frame.facts().gray_range.unwrap()),
            SourceEvent::Ended(end) => panic!("{end:?}"),
            _ => {}
        }
    }
    assert!(
        ranges.iter().all(|range| *range == ranges[0] && *range != GrayRange::FULL),
        "{ranges:?}"
    );
}

/// In a format that is read, and in one that is converted before.
#[test]
fn range_and_matrix_of_the_configuration_replace_those_of_the_source() {
    for format in ["I420", "Y444", "P010_10LE"] {
        for colorimetry in ["", ",colorimetry=bt601", ",colorimetry=1:3:5:1"] {
            let text = format!(
                "videotestsrc num-buffers=1 pattern=solid-color foreground-color=0xffc03020 \
                 ! video/x-raw,format={format},width=64,height=48,colorimetry=2:3:5:1 \
                 ! capssetter replace=true caps=video/x-raw,format={format},width=64,height=48,framerate=30/1{colorimetry} \
                 ! appsink name=frames"
            );
            let spec = SourceSpec {
                range: Some(ColorRange::Limited),
                matrix: Some(ColorMatrix::Bt709),
                pace: Pace::EveryFrame,
                ..pipeline(&text)
            };
            let mut source = Source::open(&spec, &Arc::default()).unwrap();
            let TakeResult::Frame(frame) = source.next_frame(HANG) else { panic!("no frame") };
            let color = frame.facts().color.unwrap();
            assert!(
                !color.is_matrix_assumed && !color.is_range_assumed,
                "{format}{colorimetry}: {color}"
            );
            let pixels = picture(&OwnedFrame::copied(&frame.view().unwrap()));
            let middle = pixels.texels[pixels.texels.len() / 2];
            for (found, expected) in middle.iter().zip([192_u8, 48, 32]) {
                assert!(found.abs_diff(expected) <= 3, "{format}{colorimetry}: {middle:?}");
            }
        }
    }
}

/// A converter names a colour, whether anything has said it or not.
#[test]
fn what_is_assumed_for_a_converter_is_told() {
    let text = "fakesrc num-buffers=1 sizetype=fixed sizemax=1000000 filltype=zero ! capsfilter caps=video/x-raw,format=Y444,width=64,\
                height=48,framerate=30/1 ! appsink name=frames";
    let spec = SourceSpec { pace: Pace::EveryFrame, ..pipeline(text) };
    let mut source = Source::open(&spec, &Arc::default()).unwrap();
    let TakeResult::Frame(frame) = source.next_frame(HANG) else { panic!("no frame") };
    let color = frame.facts().color.unwrap();
    assert!(color.is_matrix_assumed && color.is_range_assumed, "{color}");
}

/// Fields of white and of black rows, in a clip that says it is progressive.
#[test]
fn pictures_may_be_called_interlaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows");
    let rows: Vec<u8> = (0..48).flat_map(|y| [if y % 2 == 0 { 235_u8 } else { 16 }; 64]).collect();
    let picture = [rows, vec![128; 64 * 48 / 2]].concat();
    fs::write(&path, picture.repeat(8)).unwrap();
    let text = format!(
        "filesrc location={} blocksize={} ! capsfilter caps=video/x-raw,format=I420,width=64,height=48,framerate=25/1,\
         interlace-mode=progressive ! appsink name=frames",
        path.display(),
        picture.len()
    );
    let source = SourceChoice::Pipeline(text);
    let spec = SourceSpec { pace: Pace::EveryFrame, ..SourceSpec::new("test", source) };
    for interlaced in [false, true] {
        let spec = SourceSpec { interlaced, ..spec.clone() };
        let mut source = Source::open(&spec, &Arc::default()).unwrap();
        let (frames, _) = rest_of(&mut source);
        let view = frames[1].view().unwrap();
        let is_combed = (4..40).any(|y| view.row(0, y)[32].abs_diff(view.row(0, y + 1)[32]) > 100);
        assert_eq!(is_combed, !interlaced);
    }
}

fn shorthand(path: &Path) -> SourceSpec {
    let source = SourceChoice::Shorthand(path.to_str().unwrap().to_owned());
    SourceSpec { pace: Pace::EveryFrame, ..SourceSpec::new("test", source) }
}
