//! Frames that a decoder could only guess at are dropped and counted, and a source that sends nothing else is not silent.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use foveate_capture::reconnecting::{ReconnectingSource, SourceEvent};
use foveate_capture::{CaptureError, CorruptedFrames, End, Pace, Source, SourceSpec};
use foveate_stats::{StreamCounters, StreamCounts};
use gstreamer as gst;
use gstreamer::prelude::*;
use testkit::film::take_all;
use testkit::wait::HANG;

use crate::specs::pipeline;

/// Each with the decoder of its streams. A keyframe is every 20th frame.
const ENCODERS: [(&str, &str); 4] = [
    (
        "openh264enc gop-size=20 ! h264parse ! video/x-h264,stream-format=avc,alignment=au",
        "avdec_h264",
    ),
    (
        "openh264enc gop-size=20 ! h264parse config-interval=-1 ! video/x-h264,stream-format=byte-stream,alignment=au",
        "openh264dec",
    ),
    (
        "x265enc key-int-max=20 speed-preset=ultrafast tune=zerolatency option-string=scenecut=0 ! h265parse \
         ! video/x-h265,stream-format=hvc1,alignment=au",
        "avdec_h265",
    ),
    ("vp8enc keyframe-max-dist=20 deadline=1", "vp8dec"),
];

#[test]
fn frames_before_the_first_keyframe_are_dropped() {
    for (encoder, decoder) in ENCODERS {
        let counts = played(&joined(encoder, 5), decoder, CorruptedFrames::Drop).unwrap();
        assert_eq!(counts, counted(35, 15), "{encoder} {decoder}");
    }
}

#[test]
fn frames_before_the_first_keyframe_are_shown_on_demand() {
    let (encoder, decoder) = ENCODERS[0];
    let counts = played(&joined(encoder, 5), decoder, CorruptedFrames::Show).unwrap();
    assert_eq!(counts, counted(35, 0));
}

#[test]
fn after_a_loss_frames_are_dropped_until_the_next_keyframe() {
    for (encoder, decoder) in ENCODERS {
        let mut buffers = encoded(encoder, 40);
        buffers.drain(5..8);
        let after_loss = buffers[5].0.make_mut();
        after_loss.set_flags(after_loss.flags() | gst::BufferFlags::DISCONT);
        let counts = played(&buffers, decoder, CorruptedFrames::Drop).unwrap();
        assert_eq!(counts, counted(37, 12), "{encoder} {decoder}");
    }
}

/// Nothing parses this stream before the decoder.
#[test]
fn frames_that_a_decoder_marks_are_dropped() {
    let (encoder, decoder) = ENCODERS[0];
    let mut buffers = joined(encoder, 5);
    for (buffer, _) in &mut buffers {
        buffer.make_mut().unset_flags(gst::BufferFlags::DELTA_UNIT);
    }
    let counts = played(&buffers, decoder, CorruptedFrames::Drop).unwrap();
    assert_eq!(counts, counted(35, 15));
}

#[test]
fn a_jpeg_frame_without_its_end_is_dropped() {
    let mut buffers = encoded("jpegenc", 5);
    let cut = |buffer: &gst::Buffer, bytes| {
        let mut cut = buffer.copy_region(gst::BufferCopyFlags::all(), ..bytes).unwrap();
        cut.make_mut().set_pts(buffer.pts());
        cut
    };
    for (at, share) in [(1, 0.5), (3, 0.99)] {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share")]
        let bytes = (buffers[at].0.size() as f64 * share) as usize;
        buffers[at].0 = cut(&buffers[at].0, bytes);
    }
    // As drivers pad a frame to the size of their buffers.
    buffers[4].0.make_mut().append_memory(gst::Memory::from_slice([0; 5000]));
    let counts = played(&buffers, "jpegdec", CorruptedFrames::Drop).unwrap();
    assert_eq!(counts, counted(5, 2));
    let counts = played(&buffers, "jpegdec", CorruptedFrames::Show).unwrap();
    assert_eq!(counts, counted(5, 0));
}

#[test]
fn a_clip_without_a_whole_frame_names_the_key() {
    let (encoder, decoder) = ENCODERS[0];
    let mut buffers = joined(encoder, 5);
    buffers.truncate(15);
    let error = played(&buffers, decoder, CorruptedFrames::Drop).unwrap_err();
    assert!(matches!(error, CaptureError::Corrupt { .. }), "{error:?}");
    assert!(error.to_string().contains("all 15 frames"), "{error}");
    assert!(error.to_string().contains("`corrupted = \"show\"`"), "{error}");
}

/// The keyframe never comes.
#[test]
fn a_source_of_damaged_frames_is_not_silent() {
    let text = "videotestsrc is-live=true ! video/x-raw,width=64,height=48,framerate=25/1 ! openh264enc gop-size=100000 \
        ! h264parse ! video/x-h264,alignment=au ! identity drop-buffer-flags=header ! avdec_h264 ! appsink name=frames";
    let limit = Duration::from_secs(1);
    let spec = SourceSpec { caps_timeout: limit, restart_timeout: Some(limit), ..pipeline(text) };
    let counters = Arc::<StreamCounters>::default();
    let mut source = ReconnectingSource::new(&spec, &Arc::default(), &counters);
    let (started, mut damaged) = (Instant::now(), 0);
    while started.elapsed() < 5 * limit || damaged < 10 {
        match source.next_event(Duration::from_millis(20)) {
            SourceEvent::Corrupted => damaged += 1,
            SourceEvent::Nothing => {}
            other => panic!("{other:?} after {damaged} times of damaged frames"),
        }
        assert!(started.elapsed() < HANG, "damaged frames came {damaged} times");
    }
    assert_eq!(counters.frames_captured.get(), counters.frames_corrupted.get());
}

type Buffers = Vec<(gst::Buffer, gst::Caps)>;

/// 40 frames without the first `missing`, as somebody gets them who joins between two keyframes.
fn joined(encoder: &str, missing: usize) -> Buffers {
    encoded(encoder, 40).split_off(missing)
}

/// Encodes `count` frames by `encoder`.
fn encoded(encoder: &str, count: usize) -> Buffers {
    gst::init().unwrap();
    let text = format!(
        "videotestsrc num-buffers={count} ! video/x-raw,format=I420,width=64,height=48,framerate=25/1 ! {encoder} \
         ! appsink name=out sync=false"
    );
    let pipeline = gst::parse::launch(&text).unwrap().downcast::<gst::Pipeline>().unwrap();
    let sink = pipeline.by_name("out").unwrap();
    pipeline.set_state(gst::State::Playing).unwrap();
    let mut buffers = Buffers::new();
    while let Some(sample) = sink.emit_by_name::<Option<gst::Sample>>("pull-sample", &[]) {
        buffers.push((sample.buffer_owned().unwrap(), sample.caps_owned().unwrap()));
    }
    pipeline.set_state(gst::State::Null).unwrap();
    assert_eq!(buffers.len(), count, "{encoder}");
    buffers
}

/// Stores `buffers` at `path` with their flags.
fn store(buffers: &Buffers, path: &Path) {
    let text =
        format!("appsrc name=in format=time ! gdppay ! filesink location={}", path.display());
    let pipeline = gst::parse::launch(&text).unwrap().downcast::<gst::Pipeline>().unwrap();
    let source = pipeline.by_name("in").unwrap();
    source.set_property("caps", &buffers[0].1);
    pipeline.set_state(gst::State::Playing).unwrap();
    for (buffer, _) in buffers {
        let pushed = source.emit_by_name::<gst::FlowReturn>("push-buffer", &[buffer]);
        assert_eq!(pushed, gst::FlowReturn::Ok);
    }
    let _ = source.emit_by_name::<gst::FlowReturn>("end-of-stream", &[]);
    let kinds = [gst::MessageType::Eos, gst::MessageType::Error];
    let message =
        pipeline.bus().unwrap().timed_pop_filtered(gst::ClockTime::from_seconds(60), &kinds);
    assert_eq!(message.unwrap().type_(), gst::MessageType::Eos);
    pipeline.set_state(gst::State::Null).unwrap();
}

/// What was counted when `decoder` had played all of `buffers`. Each frame is taken, or counted as damaged.
fn played(
    buffers: &Buffers,
    decoder: &str,
    corrupted: CorruptedFrames,
) -> Result<StreamCounts, CaptureError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stored");
    store(buffers, &path);
    let text =
        format!("filesrc location={} ! gdpdepay ! {decoder} ! appsink name=frames", path.display());
    let counters = Arc::<StreamCounters>::default();
    let spec = SourceSpec { pace: Pace::EveryFrame, corrupted, ..pipeline(&text) };
    let mut source = Source::open(&spec, &counters)?;
    let (mut taken, mut newest) = (0, 0);
    let end = take_all(&mut source, |frame| {
        let seq = frame.stamp().frame_seq;
        assert!(newest < seq, "frame {seq} after frame {newest}");
        (taken, newest) = (taken + 1, seq);
    });
    assert_eq!(end, End::Eos);
    let counts = counters.snapshot();
    assert_eq!(counts.frames_captured, taken + counts.frames_corrupted, "{decoder}");
    Ok(counts)
}

fn counted(frames_captured: u64, frames_corrupted: u64) -> StreamCounts {
    StreamCounts { frames_captured, frames_corrupted, ..StreamCounts::default() }
}
