//! Sources of depth: what is read as it is, and what is refused, because nothing can be converted to depth.

use std::sync::Arc;

use foveate_capture::{
    CaptureError, CapturedFrame, Content, End, Pace, Source, SourceChoice, SourceSpec, TakeResult,
};
use foveate_core::depth::{DepthFormat, DepthScale};
use foveate_core::frame::FrameError;
use foveate_core::geometry::extent::Extent;
use testkit::film::rest_of;
use testkit::wait::HANG;

const EXTENT: Extent = Extent::new(7, 3);

const SCALE: DepthScale = DepthScale { unit_m: 1.0, min_m: 0.0, max_m: f64::INFINITY };

/// A sample that differs from every other one of a few pictures.
fn sample(picture: usize, x: usize, y: usize) -> u16 {
    u16::try_from(1 + picture * 1000 + y * 258 + x).unwrap()
}

/// Every sample, in the order of the rows.
fn samples(picture: usize) -> impl Iterator<Item = u16> {
    (0..3).flat_map(move |y| (0..7).map(move |x| sample(picture, x, y)))
}

#[test]
fn sixteen_bits_of_either_order_arrive_sample_for_sample() {
    for (name, format, bytes_of) in [
        ("gray16-le", DepthFormat::Gray16Le, u16::to_le_bytes as fn(u16) -> [u8; 2]),
        ("gray16-be", DepthFormat::Gray16Be, u16::to_be_bytes),
    ] {
        // GStreamer pads the rows of this width, to 16 bytes.
        let picture = |index: usize| -> Vec<u8> {
            let bytes: Vec<u8> = samples(index).flat_map(bytes_of).collect();
            bytes.chunks(14).flat_map(|row| row.iter().copied().chain([0xee; 2])).collect()
        };
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), (0..3).flat_map(picture).collect::<Vec<u8>>()).unwrap();
        let text = format!(
            "filesrc location={} ! rawvideoparse format={name} width=7 height=3 framerate=10/1 ! appsink name=frames",
            file.path().display()
        );
        assert_pictures(&text, format, 1);
    }
}

/// GStreamer's video has no format of floats, so they come as NNStreamer's tensors do.
#[test]
fn tensors_of_floats_arrive_sample_for_sample() {
    let folder = tempfile::tempdir().unwrap();
    for index in 0..3 {
        let bytes: Vec<u8> =
            samples(index).flat_map(|sample| f32::from(sample).to_le_bytes()).collect();
        std::fs::write(folder.path().join(format!("{index}.f32")), bytes).unwrap();
    }
    for dimensions in ["1:7:3", "1:7:3:1"] {
        let text = format!(
            "multifilesrc location={}/%d.f32 stop-index=2 caps=\"other/tensors,format=(string)static,num_tensors=(int)1,\
             types=(string)float32,dimensions=(string){dimensions},framerate=(fraction)10/1\" ! appsink name=frames",
            folder.path().display()
        );
        assert_pictures(&text, DepthFormat::Float32Le, 65536);
    }
    let text = format!(
        "multifilesrc location={}/%d.f32 stop-index=2 caps=\"other/tensors,format=(string)static,num_tensors=(int)1,\
         types=(string)float32,dimensions=(string)3:7:1,framerate=(fraction)10/1\" ! appsink name=frames",
        folder.path().display()
    );
    assert!(matches!(refusal(&text), CaptureError::NotDepth { .. }));
}

fn assert_pictures(text: &str, format: DepthFormat, steps_per_unit: u32) {
    let (frames, end) = play(text);
    assert_eq!(end, End::Eos, "{text}");
    assert_eq!(frames.len(), 3, "{text}");
    for (index, frame) in frames.iter().enumerate() {
        assert_eq!(frame.view().unwrap_err(), FrameError::other_content());
        let depth = frame.depth().unwrap();
        assert_eq!((depth.format(), depth.extent()), (format, EXTENT));
        let mut found = Vec::new();
        for y in 0..3 {
            let mut row = [0; 7];
            SCALE.read_row(&depth, y, &mut row);
            found.extend(row);
        }
        let expected: Vec<u32> =
            samples(index).map(|sample| u32::from(sample) * steps_per_unit).collect();
        assert_eq!(found, expected, "picture {index} of {text}");
        assert_eq!(frame.stamp().pts_ns, Some(100_000_000 * index as u64));
    }
}

/// A picture of colours, or of 8 bits, holds no depth, whatever it is converted to.
#[test]
fn what_is_no_depth_is_refused_and_told_what_is() {
    for text in [
        "videotestsrc num-buffers=3 ! video/x-raw,format=RGB ! appsink name=frames",
        "videotestsrc num-buffers=3 ! video/x-raw,format=GRAY8 ! appsink name=frames",
        "videotestsrc num-buffers=3 ! jpegenc ! appsink name=frames",
        "audiotestsrc num-buffers=3 ! appsink name=frames",
    ] {
        let error = refusal(text);
        assert!(matches!(error, CaptureError::NotDepth { .. }), "{text}: {error:?}");
        assert_eq!(error.exit_code(), 78);
        let said = error.to_string();
        for part in ["GRAY16_LE", "GRAY16_BE", "other/tensors", "which is not depth (expected"] {
            assert!(said.contains(part), "{text}: {said}");
        }
    }
    // Pictures are not read as depth either, nor depth as pictures without a conversion.
    let source =
        SourceChoice::Pipeline("videotestsrc num-buffers=1 ! appsink name=frames".to_owned());
    let mut source = Source::open(&SourceSpec::new("test", source), &Arc::default()).unwrap();
    match source.next_frame(HANG) {
        TakeResult::Frame(frame) => {
            assert_eq!(frame.depth().unwrap_err(), FrameError::other_content())
        }
        other => panic!("{other:?} instead of a frame"),
    }
}

fn spec(text: &str) -> SourceSpec {
    let source = SourceChoice::Pipeline(text.to_owned());
    let (content, pace) = (Content::Depth, Pace::EveryFrame);
    SourceSpec { content, pace, caps_timeout: HANG, ..SourceSpec::new("test", source) }
}

fn refusal(text: &str) -> CaptureError {
    match Source::open(&spec(text), &Arc::default()) {
        Err(error) => error,
        Ok(_) => panic!("{text} is read as depth"),
    }
}

fn play(text: &str) -> (Vec<CapturedFrame>, End) {
    let source = Source::open(&spec(text), &Arc::default());
    rest_of(&mut source.unwrap_or_else(|error| panic!("{text}: {error}")))
}
