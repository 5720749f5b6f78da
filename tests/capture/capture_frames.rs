//! What comes out of a source is what the pipeline delivered: every byte, every number, every end.

use std::os::unix::fs::FileExt;
use std::sync::Arc;

use foveate_capture::{
    CaptureError, CapturedFrame, End, Orientation, Pace, Source, SourceChoice, SourceSpec,
    TakeResult,
};
use foveate_core::color::{ColorMatrix, ColorRange, ColorTransform, Transfer};
use foveate_core::frame::{CaptureClock, FrameView, PixelFormat};
use foveate_core::geometry::extent::Extent;
use foveate_core::pixel::PixelAspect;
use foveate_stats::StreamCounters;
use gstreamer as gst;
use gstreamer::prelude::*;
use gstreamer_video as gst_video;
use testkit::film::{encode, rest_of, run};
use testkit::naive::{OwnedFrame, picture};
use testkit::wait::HANG;

#[test]
fn every_format_at_odd_sizes_arrives_byte_for_byte() {
    for format in PixelFormat::ALL {
        for (width, height) in [(1, 1), (2, 3), (17, 13), (176, 144), (1918, 7)] {
            let extent = Extent::new(width, height);
            let clip = Clip::new(format, extent, 3, &[]);
            let (frames, end) = play(&clip.pipeline(""), Pace::EveryFrame);
            assert_eq!(end, End::Eos);
            assert_eq!(frames.len(), 3, "{} {extent}", format.name());
            for (index, frame) in frames.iter().enumerate() {
                let view = frame.view().unwrap();
                assert_eq!((view.format(), view.extent()), (format, extent));
                clip.assert_holds(index, &view);
            }
        }
    }
}

#[test]
fn a_width_that_is_no_multiple_of_four_has_padded_rows() {
    let clip = Clip::new(PixelFormat::Nv12, Extent::new(1918, 16), 1, &[]);
    let (frames, _) = play(&clip.pipeline(""), Pace::EveryFrame);
    assert_eq!(frames[0].view().unwrap().plane(0).stride, 1920);
}

#[test]
fn buffer_strides_override_caps_strides() {
    for (format, strides) in [
        (PixelFormat::Nv12, &[64, 48][..]),
        (PixelFormat::I420, &[40, 24, 32]),
        (PixelFormat::Yuy2, &[100]),
        (PixelFormat::Bgrx, &[128]),
        (PixelFormat::Gray8, &[33]),
    ] {
        let clip = Clip::new(format, Extent::new(17, 13), 2, strides);
        let (frames, end) = play(&clip.pipeline(""), Pace::EveryFrame);
        assert_eq!((frames.len(), end), (2, End::Eos), "{}", format.name());
        for (index, frame) in frames.iter().enumerate() {
            clip.assert_holds(index, &frame.view().unwrap());
        }
        let stride = frames[0].view().unwrap().plane(0).stride;
        assert_eq!(stride, strides[0], "{}: the buffer was not copied on its way", format.name());
    }
}

#[test]
fn matrix_and_range_follow_the_caps() {
    let of = ColorTransform::from_ycbcr;
    let (limited, full) = (ColorRange::Limited, ColorRange::Full);
    for (format, size, colorimetry, expected) in [
        ("NV12", (64, 48), "bt601", of(ColorMatrix::Bt601, limited)),
        ("NV12", (64, 48), "bt709", of(ColorMatrix::Bt709, limited)),
        ("I420", (64, 48), "bt2020", of(ColorMatrix::Bt2020, limited)),
        ("I420", (64, 48), "1:4:0:0", of(ColorMatrix::Bt601, full)),
        ("YUY2", (64, 48), "1:3:5:1", of(ColorMatrix::Bt709, full)),
        ("YUY2", (64, 48), "smpte240m", of(ColorMatrix::Smpte240m, limited)),
        ("NV12", (64, 48), "2:2:0:0", of(ColorMatrix::Fcc, limited)),
        ("NV12", (64, 576), "", of(ColorMatrix::Bt601, limited)),
        ("NV12", (64, 720), "", of(ColorMatrix::Bt709, limited)),
        ("NV12", (64, 720), "0:0:0:0", of(ColorMatrix::Bt709, limited)),
        ("I420", (64, 256), "1:0:0:0", of(ColorMatrix::Bt601, full)),
        ("NV12", (64, 720), "1:0:5:1", of(ColorMatrix::Bt709, full)),
        ("NV12", (64, 48), "2:0:0:0", of(ColorMatrix::Bt601, limited)),
        ("RGB", (64, 48), "", ColorTransform::IDENTITY),
        ("RGBx", (64, 48), "", ColorTransform::IDENTITY),
        ("BGRA", (64, 48), "sRGB", ColorTransform::IDENTITY),
        ("RGBA", (64, 48), "2:1:0:0", ColorTransform::from_rgb(limited)),
    ] {
        let (width, height) = size;
        let field = if colorimetry.is_empty() {
            String::new()
        } else {
            format!(",colorimetry={colorimetry}")
        };
        let text = format!(
            "fakesrc num-buffers=1 sizetype=fixed sizemax=1000000 ! capsfilter caps=video/x-raw,format={format},\
             width={width},height={height},framerate=30/1{field} ! appsink name=frames"
        );
        let (frames, _) = play(&text, Pace::EveryFrame);
        assert_eq!(
            frames[0].view().unwrap().color(),
            expected,
            "{format} {size:?} {colorimetry:?}"
        );
    }
}

#[test]
fn transfer_function_and_pixel_aspect_follow_the_caps() {
    let aspect = |width, height| PixelAspect { width, height };
    for (fields, transfer, pixel_aspect) in [
        (",colorimetry=bt2100-pq", Some(Transfer::Smpte2084), PixelAspect::SQUARE),
        (",colorimetry=bt2100-hlg", Some(Transfer::AribStdB67), PixelAspect::SQUARE),
        (",colorimetry=bt709,pixel-aspect-ratio=64/45", Some(Transfer::Bt709), aspect(64, 45)),
        (",colorimetry=1:4:0:0,pixel-aspect-ratio=16/12", None, aspect(4, 3)),
        ("", None, PixelAspect::SQUARE),
    ] {
        // Ten bits, as of HDR, are converted; colour and aspect stay.
        for format in ["NV12", "P010_10LE"] {
            let text = format!(
                "fakesrc num-buffers=1 sizetype=fixed sizemax=1000000 filltype=zero ! capsfilter caps=video/x-raw,format={format},\
                 width=64,height=48,framerate=30/1{fields} ! appsink name=frames"
            );
            let (frames, _) = play(&text, Pace::EveryFrame);
            let facts = frames[0].facts();
            assert_eq!(facts.pixel_aspect, pixel_aspect, "{format}{fields}");
            let found = facts.color.unwrap().transfer;
            // A converter names what it has to assume.
            assert!(
                found == transfer || (format != "NV12" && transfer.is_none()),
                "{format}{fields}: {found:?}"
            );
        }
    }
}

#[test]
fn square_pixels_are_scaled_to_and_circles_stay_round() {
    let text = "videotestsrc num-buffers=1 ! video/x-raw,format=GRAY8,width=720,height=576,pixel-aspect-ratio=64/45 ! appsink name=frames";
    let stored = Source::open(&spec(text, Pace::EveryFrame), &Arc::default());
    assert_eq!(next(&mut stored.unwrap()).view().unwrap().extent(), Extent::new(720, 576));
    let square = SourceSpec { square_pixels: true, ..spec(text, Pace::EveryFrame) };
    let mut source = Source::open(&square, &Arc::default()).unwrap();
    let frame = next(&mut source);
    assert_eq!(frame.view().unwrap().extent(), Extent::new(1024, 576));
    assert_eq!(frame.facts().pixel_aspect, PixelAspect::SQUARE);
    // Square pixels stay as they are.
    let clip = Clip::new(PixelFormat::Nv12, Extent::new(18, 14), 1, &[]);
    let square = SourceSpec { square_pixels: true, ..spec(&clip.pipeline(""), Pace::EveryFrame) };
    let mut source = Source::open(&square, &Arc::default()).unwrap();
    clip.assert_holds(0, &next(&mut source).view().unwrap());
}

#[test]
fn every_frame_gives_every_frame_in_order() {
    let text = "videotestsrc num-buffers=200 ! video/x-raw,format=GRAY8,width=32,height=32 ! appsink name=frames";
    let (frames, end) = play(text, Pace::EveryFrame);
    assert_eq!(end, End::Eos);
    let numbers: Vec<_> = frames.iter().map(|frame| frame.stamp().frame_seq).collect();
    assert_eq!(numbers, (1..=200).collect::<Vec<_>>());
}

/// Except that a quarter turn moves the colour of YUY2, whose chroma has all rows and half the columns.
#[test]
fn a_turned_picture_has_every_pixel_of_the_stored_one() {
    for format in PixelFormat::ALL {
        let clip = Clip::new(format, Extent::new(36, 22), 1, &[]);
        let turned = |orientation| {
            let spec = SourceSpec { orientation, ..spec(&clip.pipeline(""), Pace::EveryFrame) };
            let mut source = Source::open(&spec, &Arc::default()).unwrap();
            picture(&OwnedFrame::copied(&next(&mut source).view().unwrap()))
        };
        let (stored, right) = (turned(Orientation::Degrees0), turned(Orientation::Degrees90));
        let (around, left) = (turned(Orientation::Degrees180), turned(Orientation::Degrees270));
        let Extent { width, height } = stored.extent;
        assert_eq!((around.extent, right.extent), (stored.extent, Extent::new(height, width)));
        for (x, y) in (0..height).flat_map(|y| (0..width).map(move |x| (x, y))) {
            let pixel = stored.nearest(x, y);
            let (far_x, far_y) = (width - 1 - x, height - 1 - y);
            let name = format.name();
            assert_eq!(around.nearest(far_x, far_y), pixel, "{name} {x} {y}");
            if format != PixelFormat::Yuy2 {
                assert_eq!(right.nearest(far_y, x), pixel, "{name} {x} {y}");
                assert_eq!(left.nearest(y, far_x), pixel, "{name} {x} {y}");
            }
        }
    }
}

/// Cameras often fill the fourth byte of a pixel with anything.
#[test]
fn alpha_is_composited_unless_the_source_is_live() {
    for format in ["RGBA", "BGRA"] {
        for (is_live, pixel) in [(false, [1, 2, 3, 255]), (true, [255, 255, 255, 0])] {
            let text = format!(
                "videotestsrc is-live={is_live} num-buffers=3 pattern=solid-color foreground-color=0x00ffffff ! \
                 video/x-raw,format={format},width=16,height=16 ! appsink name=frames"
            );
            let background = if format == "RGBA" { [1, 2, 3] } else { [3, 2, 1] };
            let spec = SourceSpec { background, ..spec(&text, Pace::Realtime) };
            let mut source = Source::open(&spec, &Arc::default()).unwrap();
            let frame = next(&mut source);
            assert_eq!(frame.view().unwrap().row(0, 0)[..4], pixel, "{text}");
        }
    }
}

#[test]
fn realtime_frames_are_taken_or_counted_as_dropped() {
    let counters = Arc::new(StreamCounters::default());
    let text = "videotestsrc num-buffers=60 ! video/x-raw,format=GRAY8,width=32,height=32,framerate=300/1 \
                ! appsink name=frames";
    let mut source = Source::open(&spec(text, Pace::Realtime), &counters).unwrap();
    // Nothing is taken until all have come: only the last may be left.
    while counters.frames_captured.get() < 60 {
        std::thread::yield_now();
    }
    let (frames, end) = rest_of(&mut source);
    assert_eq!(end, End::Eos);
    let numbers: Vec<_> = frames.iter().map(|frame| frame.stamp().frame_seq).collect();
    assert_eq!(numbers.last(), Some(&60));
    assert_eq!(counters.frames_captured.get(), 60);
    assert_eq!(counters.frames_dropped.get() + frames.len() as u64, 60);
}

#[test]
fn a_loop_goes_on_counting() {
    let clip = Clip::new(PixelFormat::Nv12, Extent::new(16, 16), 4, &[]);
    let spec = SourceSpec { looped: true, ..spec(&clip.pipeline(""), Pace::EveryFrame) };
    let mut source = Source::open(&spec, &Arc::default()).unwrap();
    for expected in 1..=10 {
        let frame = next(&mut source);
        assert_eq!(frame.stamp().frame_seq, expected as u64);
        clip.assert_holds((expected - 1) % 4, &frame.view().unwrap());
    }
}

#[test]
fn caps_may_change_in_mid_stream() {
    let text = "concat name=c ! appsink name=frames \
         videotestsrc num-buffers=3 ! video/x-raw,format=NV12,width=64,height=48 ! c. \
         videotestsrc num-buffers=3 ! video/x-raw,format=RGBA,width=33,height=21 ! c.";
    let (frames, end) = play(text, Pace::EveryFrame);
    assert_eq!(end, End::Eos);
    let seen: Vec<_> = frames
        .iter()
        .map(|frame| frame.view().unwrap())
        .map(|view| (view.format(), view.extent().width, view.extent().height))
        .collect();
    let (first, second) = ((PixelFormat::Nv12, 64, 48), (PixelFormat::Rgba, 33, 21));
    assert_eq!(seen, [first, first, first, second, second, second]);
}

#[test]
fn only_unreadable_formats_are_converted() {
    for (format, expected) in
        [("Y42B", None), ("GBR", None), ("RGB16", None), ("YUY2", Some(PixelFormat::Yuy2))]
    {
        let text = format!(
            "videotestsrc num-buffers=2 pattern=white ! video/x-raw,format={format},width=17,height=13 ! appsink name=frames"
        );
        let (frames, end) = play(&text, Pace::EveryFrame);
        assert_eq!((frames.len(), end), (2, End::Eos), "{format}");
        let view = frames[0].view().unwrap();
        assert!(expected.is_none_or(|expected| view.format() == expected));
        assert_eq!(view.extent(), Extent::new(17, 13));
    }
}

#[test]
fn a_converter_is_inserted_behind_a_late_decoder_pad() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("still.png");
    encode(
        &path,
        "videotestsrc num-buffers=1 ! video/x-raw,format=RGB,width=65,height=48 ! pngenc",
    );
    let path = path.display();
    for tail in ["! decodebin ! appsink name=frames", "! decodebin ! queue ! appsink name=frames"] {
        let (frames, end) = play(&format!("filesrc location={path} {tail}"), Pace::EveryFrame);
        assert_eq!((frames.len(), end), (1, End::Eos), "{tail}");
        assert_eq!(frames[0].view().unwrap().extent(), Extent::new(65, 48));
    }
}

#[test]
fn a_decoder_is_told_that_its_strides_are_respected() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("clip.avi");
    encode(
        &path,
        "videotestsrc num-buffers=2 ! video/x-raw,format=I420,width=70,height=48 ! avenc_mpeg4 ! avimux",
    );
    let path = path.display();
    let text = format!("filesrc location={path} ! avidemux ! avdec_mpeg4 ! appsink name=frames");
    let (frames, _) = play(&text, Pace::EveryFrame);
    // Rows of the caps' layout would take 72 bytes, and a copy; libav pads its own to whole macroblocks.
    assert!(80 <= frames[0].view().unwrap().plane(0).stride);
}

#[test]
fn interlaced_frames_are_deinterlaced_at_one_frame_for_two_fields() {
    for (format, mode) in [("I420", "interleaved"), ("I420", "mixed"), ("v210", "interleaved")] {
        let text = format!(
            "videotestsrc num-buffers=8 ! video/x-raw,format={format},width=64,height=48,framerate=30/1 \
             ! capssetter caps=video/x-raw,interlace-mode={mode} ! appsink name=frames"
        );
        let (frames, end) = play(&text, Pace::EveryFrame);
        assert_eq!(end, End::Eos, "{format} {mode}");
        assert!((6..=8).contains(&frames.len()), "{format} {mode}: {} frames", frames.len());
    }
}

#[test]
fn a_clip_with_sound_gives_its_pictures() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("it's a ! clip \"of\" \\ (mine).avi");
    let plain = directory.path().join("plain.avi");
    run(&format!(
        "avimux name=mux ! filesink location={} audiotestsrc num-buffers=10 ! mux. \
         videotestsrc num-buffers=10 ! video/x-raw,width=64,height=48 ! avenc_mpeg4 ! mux.",
        plain.display()
    ));
    std::fs::rename(plain, &path).unwrap();
    let source = SourceChoice::Shorthand(path.display().to_string());
    let spec = SourceSpec { pace: Pace::EveryFrame, ..SourceSpec::new("clip", source) };
    let mut source = Source::open(&spec, &Arc::default()).unwrap();
    let (frames, end) = rest_of(&mut source);
    assert_eq!((frames.len(), end), (10, End::Eos));
    assert_eq!(frames[0].view().unwrap().extent(), Extent::new(64, 48));
}

#[test]
fn live_capture_times_agree_on_both_clocks() {
    let spec = SourceSpec::new("live", SourceChoice::Shorthand("test".to_owned()));
    let mut source = Source::open(&spec, &Arc::default()).unwrap();
    for _ in 0..3 {
        let stamp = next(&mut source).stamp();
        assert_eq!(stamp.capture_clock, CaptureClock::RunningTime);
        assert!(stamp.capture_ns <= stamp.arrival_ns, "{stamp:?}");
        assert!(u128::from(stamp.arrival_ns - stamp.capture_ns) < HANG.as_nanos(), "{stamp:?}");
        assert!(stamp.arrival_ns <= foveate_core::clock::monotonic_ns());
        let offset = foveate_core::clock::unix_ns() - foveate_core::clock::monotonic_ns();
        let told = stamp.capture_unix_ns - stamp.capture_ns;
        assert!(offset.abs_diff(told) < 1_000_000_000, "{offset} is not {told}");
    }
}

#[test]
fn capture_times_of_files_depend_on_pace() {
    let clip = Clip::new(PixelFormat::Gray8, Extent::new(16, 16), 2, &[]);
    for (pace, clock) in
        [(Pace::Realtime, CaptureClock::RunningTime), (Pace::EveryFrame, CaptureClock::Unknown)]
    {
        let mut source = Source::open(&spec(&clip.pipeline(""), pace), &Arc::default()).unwrap();
        let stamp = next(&mut source).stamp();
        assert_eq!(stamp.capture_clock, clock);
        assert!(stamp.pts_ns.is_some());
        assert!(stamp.capture_ns <= stamp.arrival_ns);
    }
}

#[test]
fn a_live_source_that_ends_is_lost() {
    let text = "videotestsrc is-live=true num-buffers=3 ! video/x-raw,framerate=100/1 ! appsink name=frames";
    let (_, end) = play(text, Pace::Realtime);
    assert_eq!(end, End::Failed(CaptureError::LiveEnded));
}

/// Another process keeps the memory in which `shmsrc` finds its frames, and may write whenever it wants.
#[test]
fn a_producer_that_goes_on_writing_changes_no_frame() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("frames");
    let socket = socket.display();
    let caps = "video/x-raw,format=GRAY8,width=64,height=48,framerate=30/1";
    let producer = playing(&format!(
        "videotestsrc is-live=true pattern=white ! {caps} ! shmsink socket-path={socket}"
    ));
    let text = format!("shmsrc socket-path={socket} is-live=true ! {caps} ! appsink name=frames");
    let mut source = Source::open(&spec(&text, Pace::Realtime), &Arc::default()).unwrap();
    let frame = next(&mut source);

    // All that it has; where the frame was, too.
    let prefix = format!("shmpipe.{:5}.", std::process::id());
    let areas = std::fs::read_dir("/dev/shm").unwrap().map(|entry| entry.unwrap());
    let areas = areas.filter(|entry| entry.file_name().to_str().unwrap().starts_with(&prefix));
    let overwritten = areas.map(|area| {
        let mut bytes = std::fs::read(area.path()).unwrap();
        bytes.fill(0x11);
        let area = std::fs::File::options().write(true).open(area.path()).unwrap();
        area.write_all_at(&bytes, 0).unwrap();
    });
    assert_eq!(overwritten.count(), 1);
    let view = frame.view().unwrap();
    assert!((0..48).all(|y| view.row(0, y) == [235; 64]), "{:?}", view.row(0, 0));
    drop(source);
    producer.set_state(gst::State::Null).unwrap();
}

#[test]
fn a_source_with_a_blocked_decoder_can_be_dropped() {
    for looped in [false, true] {
        let text = "videotestsrc num-buffers=1000 ! video/x-raw,width=32,height=32 ! queue ! appsink name=frames";
        let spec = SourceSpec { looped, ..spec(text, Pace::EveryFrame) };
        let counters = Arc::new(StreamCounters::default());
        let mut source = Source::open(&spec, &counters).unwrap();
        let kept = next(&mut source);
        // The second frame lies in the mailbox and the third one waits.
        while counters.frames_captured.get() < 3 {
            std::thread::yield_now();
        }
        drop(source);
        assert!(Arc::strong_count(&counters) == 1, "the pipeline is gone when `drop` returns");
        assert_eq!(
            kept.view().unwrap().extent(),
            Extent::new(32, 32),
            "a frame outlives its source"
        );
    }
}

#[test]
fn a_source_that_is_let_go_while_it_opens_stops() {
    let text = "appsrc ! video/x-raw,width=32,height=32 ! appsink name=frames";
    let patient = SourceSpec { caps_timeout: 30 * HANG, ..spec(text, Pace::Realtime) };
    let stopping = Source::start(&patient, &Arc::default()).unwrap().detach();
    assert!(stopping.stops_within(HANG));
}

/// A raw clip whose bytes are known, in a file.
struct Clip {
    file: tempfile::NamedTempFile,
    format: PixelFormat,
    extent: Extent,
    frame_bytes: usize,
    offsets: Vec<usize>,
    strides: Vec<usize>,
}

impl Clip {
    /// `count` frames, laid out as GStreamer does, or with `strides`.
    fn new(format: PixelFormat, extent: Extent, count: usize, strides: &[usize]) -> Self {
        gst::init().unwrap();
        let name = format.name().parse::<gst_video::VideoFormat>().unwrap();
        let info =
            gst_video::VideoInfo::builder(name, extent.width, extent.height).build().unwrap();
        let planes = format.plane_count();
        let mut clip = Self {
            file: tempfile::NamedTempFile::new().unwrap(),
            format,
            extent,
            frame_bytes: info.size(),
            offsets: info.offset()[..planes].to_vec(),
            strides: info.stride()[..planes].iter().map(|stride| *stride as usize).collect(),
        };
        if !strides.is_empty() {
            clip.strides = strides.to_vec();
            clip.frame_bytes = 5;
            for (plane, stride) in strides.iter().enumerate() {
                clip.offsets[plane] = clip.frame_bytes;
                clip.frame_bytes += stride * format.plane_shape(plane, extent).rows as usize + 3;
            }
        }
        let bytes: Vec<_> = (0..count).flat_map(|index| clip.frame(index)).collect();
        std::fs::write(clip.file.path(), bytes).unwrap();
        clip
    }

    fn frame(&self, index: usize) -> Vec<u8> {
        let mut bytes = vec![0xEE; self.frame_bytes];
        for plane in 0..self.format.plane_count() {
            let shape = self.format.plane_shape(plane, self.extent);
            for y in 0..shape.rows as usize {
                let start = self.offsets[plane] + y * self.strides[plane];
                for x in 0..shape.row_bytes as usize {
                    bytes[start + x] = self.sample(index, plane, x, y);
                }
            }
        }
        bytes
    }

    /// A description that plays it; `extra` stands before the appsink.
    fn pipeline(&self, extra: &str) -> String {
        let list = |values: &[usize]| {
            let values: Vec<_> = values.iter().map(|value| format!("(int){value}")).collect();
            format!("\"<{}>\"", values.join(","))
        };
        format!(
            "filesrc location={} ! rawvideoparse format={} width={} height={} framerate=100/1 frame-size={} \
             plane-strides={} plane-offsets={} {extra} ! appsink name=frames",
            self.file.path().display(),
            self.format.name().to_ascii_lowercase(),
            self.extent.width,
            self.extent.height,
            self.frame_bytes,
            list(&self.strides),
            list(&self.offsets),
        )
    }

    /// A byte that differs between neighbours in every direction; all pixels are opaque.
    fn sample(&self, index: usize, plane: usize, x: usize, y: usize) -> u8 {
        if self.format.has_alpha() && x % 4 == 3 {
            return 255;
        }
        u8::try_from((index * 101 + plane * 53 + x * 7 + y * 31) % 251).unwrap()
    }

    fn assert_holds(&self, index: usize, view: &FrameView<'_>) {
        for plane in 0..self.format.plane_count() {
            let shape = self.format.plane_shape(plane, self.extent);
            for y in 0..shape.rows as usize {
                let expected: Vec<_> = (0..shape.row_bytes as usize)
                    .map(|x| self.sample(index, plane, x, y))
                    .collect();
                let found = view.row(plane, y);
                assert_eq!(
                    found,
                    expected,
                    "{} {} frame {index} plane {plane} row {y}",
                    self.format.name(),
                    self.extent
                );
            }
        }
    }
}

fn spec(text: &str, pace: Pace) -> SourceSpec {
    let source = SourceChoice::Pipeline(text.to_owned());
    SourceSpec { pace, caps_timeout: HANG, ..SourceSpec::new("test", source) }
}

fn next(source: &mut Source) -> CapturedFrame {
    match source.next_frame(HANG) {
        TakeResult::Frame(frame) => frame,
        other => panic!("{other:?} instead of a frame"),
    }
}

/// All frames of a description, and its end.
fn play(text: &str, pace: Pace) -> (Vec<CapturedFrame>, End) {
    let mut source = Source::open(&spec(text, pace), &Arc::default())
        .unwrap_or_else(|error| panic!("{text}: {error}"));
    rest_of(&mut source)
}

/// Starts a description.
fn playing(text: &str) -> gst::Element {
    gst::init().unwrap();
    let pipeline = gst::parse::launch(text).unwrap();
    pipeline.set_state(gst::State::Playing).unwrap();
    pipeline
}
