//! Masks cover their area in every frame that leaves a source, even if others hold the memory of the frame; the rest stays unchanged.

use std::sync::Arc;

use foveate_capture::{
    CaptureError, CapturedFrame, End, MaskChange, MaskRefusal, Masks, Pace, Source, SourceChoice,
    SourceSpec, TakeResult,
};
use foveate_core::frame::PixelFormat;
use foveate_core::geometry::extent::Extent;
use foveate_core::mask::{MASKS_MAX, Mask, MaskFill};
use foveate_stats::StreamCounters;
use testkit::film::{encode, raw_bytes, raw_pipeline, rest_of, take_all};
use testkit::naive::{OwnedFrame, Random};
use testkit::wait::HANG;

/// Corners off the grid of chroma.
fn masks() -> Vec<Mask> {
    vec![
        Mask::rectangle("box", [0.05, 0.1, 0.41, 0.37]),
        Mask { name: "corner".to_owned(), points: vec![[1.0, 0.4], [1.0, 1.0], [0.45, 1.0]] },
    ]
}

/// Whether the memory is the pipeline's alone or a branch beside has it too.
#[test]
fn every_format_at_odd_sizes_is_filled_where_the_masks_are() {
    let directory = tempfile::tempdir().unwrap();
    for format in PixelFormat::ALL {
        for extent in [Extent::new(1, 1), Extent::new(17, 13), Extent::new(70, 43)] {
            let mut random = Random(7);
            let films: Vec<_> = (0..3)
                .map(|_| {
                    let color = foveate_core::color::ColorTransform::IDENTITY;
                    OwnedFrame::random(format, extent, color, &mut random).opaque()
                })
                .collect();
            let path = directory.path().join(format!("{}-{extent}.raw", format.name()));
            std::fs::write(&path, films.iter().flat_map(raw_bytes).collect::<Vec<_>>()).unwrap();
            let text = raw_pipeline(&path, format, extent, "");
            // While the first branch has it, the tee has it for the second one.
            let beside = "! tee name=t t. ! appsink name=frames t. ! fakesink async=false";
            let beside = text.replace("! appsink name=frames", beside);
            for (text, is_shared) in [(&text, false), (&beside, true)] {
                let counters = Arc::<StreamCounters>::default();
                let frames = play(&spec(text, masks()), &counters);
                assert_eq!(frames.len(), films.len(), "{text}");
                for (frame, film) in frames.iter().zip(&films) {
                    let found = OwnedFrame::copied(&frame.view().unwrap());
                    assert_same(&found, &filled(film, &masks(), &found));
                }
                let count = films.len() as u64;
                assert_eq!(counters.frames_masked.get(), count, "{text}");
                if is_shared {
                    assert_eq!(counters.frames_copied_to_mask.get(), count, "{text}");
                }
            }
        }
    }
}

/// Where nobody else has the memory, it is filled in place.
#[test]
fn a_buffer_that_is_ours_alone_is_not_copied() {
    let text = "videotestsrc num-buffers=5 pattern=ball ! video/x-raw,format=NV12,width=64,height=48 ! appsink name=frames";
    let counters = Arc::<StreamCounters>::default();
    assert_eq!(play(&spec(text, masks()), &counters).len(), 5);
    assert_eq!(counters.frames_masked.get(), 5);
    assert_eq!(counters.frames_copied_to_mask.get(), 0);
}

/// A decoder predicts frames from those before, which it has given out: what is masked of one must not move into others.
#[test]
fn a_decoder_that_predicts_from_its_frames_is_not_misled() {
    let directory = tempfile::tempdir().unwrap();
    let clip = directory.path().join("clip.avi");
    encode(
        &clip,
        "videotestsrc num-buffers=12 pattern=ball ! video/x-raw,format=I420,width=160,height=120 ! avenc_mpeg4 ! avimux",
    );
    let text = format!(
        "filesrc location={} ! avidemux ! avdec_mpeg4 ! appsink name=frames",
        clip.display()
    );
    let decoded = play(&spec(&text, Vec::new()), &Arc::default());
    let counters = Arc::<StreamCounters>::default();
    let masked = play(&spec(&text, masks()), &counters);
    assert_eq!((decoded.len(), masked.len()), (12, 12));
    assert!(0 < counters.frames_copied_to_mask.get(), "the decoder keeps its frames");
    for (masked, decoded) in masked.iter().zip(&decoded) {
        let found = OwnedFrame::copied(&masked.view().unwrap());
        let decoded = OwnedFrame::copied(&decoded.view().unwrap());
        assert_same(&found, &filled(&decoded, &masks(), &found));
    }
}

#[test]
fn frames_of_another_kind_in_mid_stream_are_filled_too() {
    let text = "concat name=c ! appsink name=frames \
         videotestsrc pattern=white num-buffers=3 ! video/x-raw,format=NV12,width=64,height=48 ! c. \
         videotestsrc pattern=white num-buffers=3 ! video/x-raw,format=RGBA,width=33,height=21 ! c.";
    let frames = play(&spec(text, masks()), &Arc::default());
    assert_eq!(frames.len(), 6);
    for frame in &frames {
        let found = OwnedFrame::copied(&frame.view().unwrap());
        let mut white = found.clone();
        for plane in 0..found.format.plane_count() {
            let value = match (found.format, plane) {
                (PixelFormat::Nv12, 0) => 235,
                (PixelFormat::Nv12, _) => 128,
                _ => 255,
            };
            white.plane_mut(plane).0.fill(value);
        }
        assert_same(&found, &filled(&white, &masks(), &found));
    }
}

/// Each frame says which change of the masks it was filled by.
#[test]
fn masks_change_from_one_frame_to_the_next() {
    let text = "videotestsrc is-live=true pattern=white ! video/x-raw,format=GRAY8,width=64,height=48,framerate=50/1 \
                ! appsink name=frames";
    let spec = SourceSpec { pace: Pace::Realtime, ..spec(text, Vec::new()) };
    let masks = Arc::<Masks>::default();
    let mut source = Source::start_behind(&masks, &spec, &Arc::default()).unwrap();
    let mut seen_until = |revision: u64| loop {
        match source.next_frame(HANG) {
            TakeResult::Frame(frame) if frame.mask_revision() < revision => {}
            TakeResult::Frame(frame) => return OwnedFrame::copied(&frame.view().unwrap()),
            other => panic!("{other:?} instead of a frame"),
        }
    };
    let set = |mask: Mask| MaskChange { set: vec![mask], ..MaskChange::default() };
    let white = seen_until(1);
    let steps: [&[Mask]; 4] = [
        &[Mask::rectangle("a", [0.0, 0.0, 0.5, 0.5])],
        &[Mask::rectangle("a", [0.5, 0.5, 1.0, 1.0])],
        &[Mask::rectangle("a", [0.5, 0.5, 1.0, 1.0]), Mask::rectangle("b", [0.0, 0.0, 0.1, 0.1])],
        &[],
    ];
    for present in steps {
        let change = match present.last() {
            Some(mask) => set(mask.clone()),
            None => MaskChange { clears_all: true, ..MaskChange::default() },
        };
        let revision = masks.change(change).unwrap();
        let found = seen_until(revision);
        assert_same(&found, &filled(&white, present, &found));
    }
}

#[test]
fn a_change_that_is_refused_changes_nothing() {
    let masks = Masks::new(vec![Mask::rectangle("door", [0.0, 0.0, 0.5, 0.5])]);
    let one = |name: &str| Mask::rectangle(name, [0.0, 0.0, 0.1, 0.1]);
    let set = |masks: Vec<Mask>| MaskChange { set: masks, ..MaskChange::default() };
    masks.change(set(vec![one("face")])).unwrap();
    let before = masks.present();

    let configured = MaskRefusal::Configured { name: "door".to_owned() };
    assert_eq!(masks.change(set(vec![one("new"), one("door")])), Err(configured.clone()));
    let clear = |name: &str| MaskChange { cleared: vec![name.to_owned()], ..MaskChange::default() };
    assert_eq!(masks.change(clear("door")), Err(configured));
    let unknown = MaskRefusal::Unknown { name: "nobody".to_owned() };
    assert_eq!(masks.change(clear("nobody")), Err(unknown));
    let many = (0..MASKS_MAX).map(|index| one(&format!("m{index}"))).collect();
    let refused = masks.change(set(many));
    assert_eq!(refused, Err(MaskRefusal::TooMany { count: MASKS_MAX + 1 }));
    assert_eq!(masks.present(), before);

    masks.change(MaskChange { clears_all: true, ..MaskChange::default() }).unwrap();
    assert_eq!(masks.present(), (before.0, Vec::new()), "those of the configuration stay");
}

/// A mask that was added stays what it is when the configuration gets one of its name.
#[test]
fn an_added_mask_outlives_a_configured_namesake() {
    let face = |side: f64| Mask::rectangle("face", [0.0, 0.0, side, side]);
    let set = MaskChange { set: vec![face(0.5)], ..MaskChange::default() };
    let clear = MaskChange { cleared: vec!["face".to_owned()], ..MaskChange::default() };
    let masks = Masks::new(Vec::new());
    masks.change(set.clone()).unwrap();
    masks.configure(vec![face(0.2)]);
    let configured = MaskRefusal::Configured { name: "face".to_owned() };
    assert_eq!(masks.change(set), Err(configured.clone()));
    masks.change(clear.clone()).unwrap();
    assert_eq!(masks.present(), (vec![face(0.2)], Vec::new()));
    assert_eq!(masks.change(clear), Err(configured));
}

/// A buffer that ends before its last row is one: it is refused as without a mask, and others are shown.
#[test]
fn unmaskable_frames_are_refused_and_end_the_source() {
    let caps = "capsfilter caps=video/x-raw,format=GRAY8,width=64,height=48,framerate=30/1";
    let bytes = |count: u32, bytes: u32| {
        format!("fakesrc num-buffers={count} sizetype=fixed sizemax={bytes} ! all.")
    };
    let play = |parts: &[String]| {
        let text = format!("concat name=all ! {caps} ! appsink name=frames {}", parts.join(" "));
        let counters = Arc::<StreamCounters>::default();
        let mut spec = spec(&text, masks());
        spec.pace = Pace::EveryFrame;
        let mut source = Source::start(&spec, &counters).unwrap();
        let mut frames = 0;
        let end = take_all(&mut source, |_| frames += 1);
        (end, frames, counters.frames_captured.get(), counters.frames_refused.get())
    };
    let (whole, part) = (bytes(2, 64 * 48), bytes(7, 1000));
    let parts = [&part, &whole, &part, &whole].map(String::clone);
    assert_eq!(play(&parts), (End::Eos, 4, 18, 14));
    match play(&[whole, part, bytes(2, 1000)]) {
        (End::Failed(error @ CaptureError::NotMasked { .. }), 2, 10, 8) => {
            assert!(error.to_string().contains("cannot apply a privacy mask"), "{error}");
        }
        other => panic!("{other:?}"),
    }
}

fn spec(text: &str, masks: Vec<Mask>) -> SourceSpec {
    let source = SourceChoice::Pipeline(text.to_owned());
    SourceSpec {
        pace: Pace::EveryFrame,
        caps_timeout: HANG,
        masks,
        ..SourceSpec::new("test", source)
    }
}

fn play(spec: &SourceSpec, counters: &Arc<StreamCounters>) -> Vec<CapturedFrame> {
    let mut source = Source::open(spec, counters).unwrap_or_else(|error| panic!("{error}"));
    let (frames, end) = rest_of(&mut source);
    assert_eq!(end, End::Eos);
    frames
}

/// `frame` with the masks filled, in the colours of `like`.
fn filled(frame: &OwnedFrame, masks: &[Mask], like: &OwnedFrame) -> OwnedFrame {
    let fill = MaskFill::new(masks, like.kind());
    let mut filled = frame.clone();
    filled.color = like.color;
    for index in 0..frame.format.plane_count() {
        let (plane, stride) = filled.plane_mut(index);
        fill.fill(index, plane, stride);
    }
    filled
}

fn assert_same(found: &OwnedFrame, expected: &OwnedFrame) {
    let (found, expected) = (found.view(), expected.view());
    assert_eq!(found.kind(), expected.kind());
    for plane in 0..found.format().plane_count() {
        for y in 0..found.kind().rows(plane) {
            let (found, expected) = (found.row(plane, y), expected.row(plane, y));
            assert_eq!(found, expected, "plane {plane}, row {y}");
        }
    }
}
