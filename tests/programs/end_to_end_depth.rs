//! Depth beside pictures, from two pipelines to a reader: paired, late, lost and of the wrong kind, each reported.

use std::fmt::Write as _;

use foveate::client::Next;
use foveate_control::StreamState;
use foveate_core::depth::DepthStamp;
use foveate_core::plane::{BOXES, DEPTH};
use foveate_ring::TokenFrameBuf;
use testkit::daemon::{Daemon, Follower, Place};
use testkit::film::encode;
use testkit::wait::HANG;

/// Pictures of the clip.
const PICTURES: u64 = 10;
/// Pictures of depth, twenty for each picture of the clip, and none for its last three: many more than wait at a time.
const DEPTHS: u64 = 120;
/// Pictures of depth for each picture of the clip.
const RATE: u64 = 20;

const CALIBRATION: &str = "image_width: 64\nimage_height: 48\ncamera_matrix:\n  data: [60.0, 0.0, 31.5, 0.0, 60.0, 23.5, 0.0, 0.0, 1.0]\n\
                           distortion_model: plumb_bob\ndistortion_coefficients:\n  data: [0.0, 0.0, 0.0, 0.0, 0.0]\n";

/// The depth of picture `number`, from 1, in millimetres.
fn depth_mm(number: u64) -> u16 {
    u16::try_from(500 + 10 * number).unwrap()
}

/// Two files are paired in the same way in every run, however fast each is decoded; the end of one does not end the other.
#[test]
#[expect(clippy::too_many_lines, reason = "two clips, and every property of each of their frames")]
#[expect(clippy::cast_possible_truncation, reason = "a few pictures; depths as published")]
fn files_are_paired_picture_by_picture() {
    let place = Place::new();
    place.write("front.yaml", CALIBRATION);
    place.write("color.raw", vec![120_u8; (64 * 48 * PICTURES) as usize]);
    let depths = (1..=DEPTHS).flat_map(|number| {
        // The left half is known, in half the size of the pictures.
        (0..24 * 32)
            .flat_map(move |at| (if at % 32 < 16 { depth_mm(number) } else { 0 }).to_le_bytes())
    });
    place.write("depth.raw", depths.collect::<Vec<u8>>());
    for (color_ms, depth_ms) in [(60, 0), (20, 4)] {
        let mut config = String::new();
        write!(
            config,
            "[[stream]]\nname = 'front'\nbackend = 'cpu'\npace = 'every-frame'\n\
             pipeline = 'filesrc location={folder}/color.raw ! rawvideoparse format=gray8 width=64 height=48 framerate=10/1 \
             ! identity sleep-time={color_ms}000 ! appsink name=frames'\n\
             [stream.camera]\ncalibration = 'front.yaml'\n\
             [stream.depth]\nscale_m = 0.001\n\
             pipeline = 'filesrc location={folder}/depth.raw ! rawvideoparse format=gray16-le width=32 height=24 framerate=200/1 \
             ! identity sleep-time={depth_ms}000 ! appsink name=frames'\n\
             [[stream.view]]\nname = 'main'\nlayout = 'uniform'\nbudget = 12\nslots = 32\ndepth = true\nboxes = true\n\
             [[stream]]\nname = 'other'\nsource = 'test'\nbackend = 'cpu'\n",
            folder = place.path("").display(),
        )
        .unwrap();
        let daemon = place.daemon(&config);
        let mut follower = daemon.subscribe("front/main");
        let mut number = 0;
        while number < PICTURES {
            let frame = follower.next_frame().clone();
            // A busy machine may be late for the first ones, which are counted below.
            assert!(
                number == 0 || frame.head.stamp.frame_seq == number + 1,
                "{:?}",
                frame.head.stamp
            );
            number = frame.head.stamp.frame_seq;
            // Of the same time: the clip has 10 pictures a second, and its depth 200.
            let mut expected = RATE * (number - 1) + 1;
            if expected == DEPTHS + 1 {
                // 5 ms before the frame.
                expected = DEPTHS;
            }
            let numbers = plane(&follower, &frame, DEPTH);
            let boxes = plane(&follower, &frame, BOXES);
            assert_eq!(frame.records.len(), 12, "4 x 3 tokens of 16 pixels");
            if DEPTHS < expected {
                assert_eq!(frame.head.depth, DepthStamp::default());
                assert!(
                    numbers
                        .chunks(3)
                        .all(|item| item[0].is_nan() && item[1].is_nan() && item[2] == 0.0)
                );
                assert!(boxes.iter().all(|number| number.is_nan()));
                continue;
            }
            assert_eq!(frame.head.depth.frame_seq, expected);
            assert!(0 < frame.head.depth.capture_ns);
            let metres = (f64::from(depth_mm(expected)) * 0.001) as f32;
            for (token, record) in frame.records.iter().enumerate() {
                let (item, space) = (&numbers[3 * token..][..3], &boxes[6 * token..][..6]);
                if record.x0 < 32 {
                    assert_eq!(item, [metres, metres, 1.0]);
                    let x = f64::from(metres) * (f64::from(record.x0) - 32.0) / 60.0;
                    assert!((f64::from(space[0]) - x).abs() < 1e-6, "{space:?} of {record:?}");
                    assert!((space[2] - metres).abs() < 1e-6 && (space[5] - metres).abs() < 1e-6);
                } else {
                    assert!(item[0].is_nan() && item[2] == 0.0);
                    assert!(space.iter().all(|number| number.is_nan()));
                }
            }
        }
        let listing = daemon.listing("front");
        let counts = listing.counts;
        assert_eq!((counts.depth_paired, counts.depth_unpaired), (7, 3), "{counts:?}");
        assert_eq!((counts.depth_captured, counts.depth_late, counts.depth_lost), (DEPTHS, 0, 1));
        assert_eq!(counts.depth_dropped, DEPTHS - 7, "{counts:?}");
        let depth = listing.detail.depth.unwrap();
        assert_eq!((depth.state, depth.reason.as_str()), (StreamState::Ended, "end of file"));
        let listed = place.foveate(&["ls", "-v"]).finish();
        assert!(listed.stdout.contains("is ended: end of file"), "{listed:#?}");
        assert!(listed.stdout.contains("7 frames with depth, 3 without"), "{listed:#?}");
        daemon.stop();
    }
}

/// Two clips of different lengths stay together in real time, however often they start over.
#[test]
fn looped_clips_do_not_drift_apart() {
    let place = Place::new();
    let clip = |name: &str, format: &str, count: u32| {
        encode(
            &place.path(name),
            &format!(
                "videotestsrc num-buffers={count} pattern=white ! video/x-raw,format={format},width=64,height=48,framerate=50/1 \
             ! avenc_ffv1 ! matroskamux"
            ),
        );
    };
    clip("color.mkv", "I420", 10);
    clip("depth.mkv", "GRAY16_LE", 9);
    let pipeline = format!(
        "pipeline = 'filesrc location={} ! decodebin ! appsink name=frames'",
        place.path("depth.mkv").display()
    );
    for source in ["source = 'depth.mkv'", &pipeline] {
        assert_together(&place, source);
    }
}

/// Two clips, ten and nine pictures long, fifty a second.
fn assert_together(place: &Place, depth: &str) {
    let daemon = place.daemon(&looped("bound_ms = 5", depth));
    let mut follower = daemon.subscribe("front/main");
    loop {
        let head = follower.next_frame().head.clone();
        let index = (head.stamp.pts_ns.unwrap() + 10_000_000) / 20_000_000;
        let depth = head.depth.frame_seq;
        match index {
            0..9 => assert_eq!((depth.wrapping_sub(1) % 9, depth != 0), (index, true), "{head:?}"),
            _ => assert_eq!(depth, 0, "the shorter one has none: {head:?}"),
        }
        // Twelve rounds: a picture of drift in each would be more than wait at a time.
        if 9 * 12 < depth {
            break;
        }
    }
    daemon.stop();
}

/// A clip that starts over, with depth.
fn looped(keys: &str, depth: &str) -> String {
    format!(
        "[[stream]]\nname = 'front'\nbackend = 'cpu'\nloop = true\nsource = 'color.mkv'\n\
         [stream.depth]\nscale_m = 0.001\n{keys}\n{depth}\n\
         [[stream.view]]\nname = 'main'\nbudget = 12\ndepth = true\ngaze = {{ policy = 'fixed' }}\n"
    )
}

/// Live depth cannot wait for the clip, and does not need to.
#[test]
fn depth_that_is_live_goes_with_a_looped_clip_too() {
    let place = Place::new();
    encode(
        &place.path("color.mkv"),
        "videotestsrc num-buffers=10 ! video/x-raw,format=I420,width=64,height=48,framerate=20/1 ! avenc_ffv1 ! matroskamux",
    );
    let depth = format!(
        "pipeline = 'videotestsrc is-live=true pattern=white ! {GRAY16} ! appsink name=frames'"
    );
    let daemon = place.daemon(&looped("bound_ms = 60", &depth));
    follow(&daemon, |frame, _| 40 < frame.head.depth.frame_seq);
    let depth = daemon.listing("front").detail.depth.unwrap();
    assert_eq!((depth.state, depth.reason.as_str()), (StreamState::Live, ""));
    daemon.stop();
}

/// Masked areas of the stream have no depth either, from the configuration and at run time.
#[test]
fn depth_under_a_mask_is_unknown() {
    let place = Place::new();
    let depth = format!("videotestsrc is-live=true pattern=white ! {GRAY16}");
    // The left half, up to the middle of a row of tokens of 16 pixels.
    let mask = "[[stream.mask]]\nname = 'left'\npoints = [[0.0, 0.0], [0.5, 0.0], [0.5, 1.0], [0.0, 1.0]]\n";
    let daemon =
        place.daemon(&live(&depth).replace("[[stream.view]]", &format!("{mask}[[stream.view]]")));
    let known =
        |frame: &TokenFrameBuf, follower: &Follower, is_masked: &dyn Fn(f64, f64) -> bool| {
            let (numbers, mut known) = (plane(follower, frame, DEPTH), 0);
            let texels = 16 * 16;
            for (token, record) in frame.records.iter().enumerate() {
                for index in 0..texels {
                    let at = |first: i32, step: u16, texel: usize| {
                        f64::from(first) + f64::from(step) * (texel as f64 + 0.5)
                    };
                    let (x, y) =
                        (at(record.x, record.sx, index % 16), at(record.y, record.sy, index / 16));
                    let nearest = numbers[token * 3 * texels + index];
                    if !((0.0..64.0).contains(&x) && (0.0..48.0).contains(&y)) {
                        continue;
                    }
                    assert_eq!(nearest.is_nan(), is_masked(x, y), "{x}, {y}: {nearest}");
                    known += usize::from(!nearest.is_nan());
                }
            }
            assert_ne!(known, 0);
        };
    let mut follower = daemon.subscribe("front/main");
    let next_with_depth = |follower: &mut Follower| loop {
        let frame = follower.next_frame().clone();
        if frame.head.depth != DepthStamp::default() {
            return frame;
        }
    };
    let frame = next_with_depth(&mut follower);
    known(&frame, &follower, &|x, _| x < 32.0);
    let set = place.foveate_in(&["mask", "front", "top", "--box", "0,0,1,0.5"], &[]).finish();
    set.assert_clean_exit(0);
    let newest = daemon.listing("front").counts.frames_captured;
    let frame = loop {
        let frame = next_with_depth(&mut follower);
        if newest < frame.head.stamp.frame_seq {
            break frame;
        }
    };
    known(&frame, &follower, &|x, y| x < 32.0 || y < 24.0);
    daemon.stop();
}

/// A camera of pictures beside each `depth` that is not as it should be.
fn live(depth: &str) -> String {
    format!(
        "[[stream]]\nname = 'front'\nbackend = 'cpu'\nstall_timeout_ms = 500\n\
         pipeline = 'videotestsrc is-live=true ! video/x-raw,format=GRAY8,width=64,height=48,framerate=20/1 ! appsink name=frames'\n\
         [stream.depth]\nscale_m = 0.001\npipeline = '{depth} ! appsink name=frames'\n\
         [[stream.view]]\nname = 'main'\nbudget = 12\ndepth = 'texels'\ngaze = {{ policy = 'fixed' }}\n"
    )
}

const GRAY16: &str = "video/x-raw,format=GRAY16_LE,width=64,height=48,framerate=20/1";

/// Reads frames until `is_enough`, none of which has a depth that it should not have.
fn follow(daemon: &Daemon<'_>, is_enough: impl Fn(&TokenFrameBuf, &Daemon<'_>) -> bool) {
    let mut follower = daemon.subscribe("front/main");
    loop {
        let frame = follower.next_frame().clone();
        let numbers = plane(&follower, &frame, DEPTH);
        let is_known = numbers.iter().any(|number| *number != 0.0 && !number.is_nan());
        assert_eq!(is_known, frame.head.depth != DepthStamp::default());
        if is_enough(&frame, daemon) {
            return;
        }
    }
}

#[test]
fn live_depth_is_paired_by_capture_time() {
    let place = Place::new();
    let daemon = place.daemon(
        &live(&format!("videotestsrc is-live=true ! {GRAY16}"))
            .replace("scale_m", "bound_ms = 60\nscale_m"),
    );
    follow(&daemon, |frame, _| {
        let apart = frame.head.depth.capture_ns.abs_diff(frame.head.stamp.capture_ns);
        assert!(frame.head.depth == DepthStamp::default() || apart <= 60_000_000, "{apart}");
        frame.head.depth.frame_seq > 10
    });
    let listing = daemon.listing("front");
    assert_eq!(listing.detail.depth.unwrap().state, StreamState::Live);
    assert!(0 < listing.counts.depth_paired && listing.counts.depth_lost == 0);
    daemon.stop();
}

#[test]
fn depth_that_comes_late_is_counted_and_frames_do_without() {
    let place = Place::new();
    let late = format!("videotestsrc is-live=true ! {GRAY16} ! queue min-threshold-time=200000000");
    let daemon = place.daemon(&live(&late).replace("scale_m", "bound_ms = 30\nscale_m"));
    follow(&daemon, |frame, daemon| {
        assert_eq!(frame.head.depth, DepthStamp::default());
        let listing = daemon.listing("front");
        let depth = listing.detail.depth.unwrap();
        let is_said = depth.reason.contains("no depth picture within `bound_ms`");
        3 < listing.counts.depth_late && is_said && depth.state == StreamState::Live
    });
    let counts = daemon.listing("front").counts;
    assert_eq!(counts.depth_paired, 0, "{counts:?}");
    assert!(3 < counts.depth_unpaired && 0 < counts.depth_captured, "{counts:?}");
    daemon.stop();
}

/// It is opened again, as the pictures' source is.
#[test]
fn depth_that_is_lost_is_said_and_comes_back() {
    let place = Place::new();
    let lost = format!("videotestsrc is-live=true num-buffers=12 ! {GRAY16}");
    let daemon = place.daemon(&live(&lost).replace("scale_m", "bound_ms = 60\nscale_m"));
    follow(&daemon, |frame, _| frame.head.depth.frame_seq > 2);
    follow(&daemon, |_, daemon| {
        let depth = daemon.listing("front").detail.depth.unwrap();
        depth.state == StreamState::Stalled && depth.reason.contains("the live source ended")
    });
    follow(&daemon, |frame, _| frame.head.depth.frame_seq > 14);
    let counts = daemon.listing("front").counts;
    assert!(0 < counts.depth_lost && 0 < counts.depth_unpaired, "{counts:?}");
    daemon.stop();
}

#[test]
fn invalid_depth_is_refused_and_the_stream_continues() {
    let place = Place::new();
    let daemon = place.daemon(&live("videotestsrc is-live=true ! video/x-raw,format=RGB"));
    follow(&daemon, |_, daemon| {
        let depth = daemon.listing("front").detail.depth.unwrap();
        depth.state == StreamState::Ended && depth.reason.contains("GRAY16_LE")
    });
    follow(&daemon, |frame, _| {
        assert_eq!(frame.head.depth, DepthStamp::default());
        true
    });
    assert_eq!(daemon.listing("front").counts.depth_lost, 1);
    daemon.stop();
}

/// A view that a client opens is refused what its stream does not have.
#[test]
fn an_opened_view_without_depth_or_rays_is_told_so() {
    let place = Place::new();
    let daemon = place.daemon(&format!(
        "{}[[stream]]\nname = 'plain'\nsource = 'test'\nbackend = 'cpu'\n",
        live(&format!("videotestsrc is-live=true ! {GRAY16}"))
    ));
    daemon.subscribe("front/main").next_frame();
    daemon.subscribe("plain/main").next_frame();
    for (stream, key, part) in [
        ("plain", "depth", "need [stream.depth]"),
        ("plain", "boxes", "need [stream.depth]"),
        ("front", "boxes", "add [stream.camera]"),
    ] {
        let mut view = serde_json::Map::new();
        view.insert("name".to_owned(), format!("{stream}-{key}").into());
        view.insert(key.to_owned(), true.into());
        let mut client = daemon.client();
        let name = client.open_view(stream, view).unwrap();
        let mut subscription = match client.subscribe(&name, false) {
            Ok(subscription) => subscription,
            Err(error) => {
                assert!(error.to_string().contains(part), "{error}");
                continue;
            }
        };
        match subscription.next_in_order(&mut TokenFrameBuf::default(), HANG).unwrap() {
            Next::Ended(reason) => assert!(reason.contains(part), "{reason}"),
            other => panic!("{other:?} of a view that cannot be"),
        }
    }
    daemon.stop();
}

/// What cannot be is refused to an operator before there is a frame, too, and the stream goes on to wait for its camera.
#[test]
fn a_view_cannot_demand_missing_depth() {
    let place = Place::new();
    let daemon =
        place.daemon("[[stream]]\nname = 'front'\nsource = '/dev/video987'\nbackend = 'cpu'\n");
    for (set, part) in [("depth=true", "[stream.depth]"), ("boxes=true", "[stream.depth]")] {
        let outcome = place.foveate(&["set", "front/main", set]).finish();
        assert!(outcome.message().contains(part), "{outcome:#?}");
        outcome.assert_clean_exit(2);
    }
    let state = daemon.listing("front").state;
    assert!(matches!(state, StreamState::Starting | StreamState::Stalled), "{state}");
    daemon.stop();
}

/// The numbers of a plane; those of texels are in binary16.
fn plane(follower: &Follower, frame: &TokenFrameBuf, name: &str) -> Vec<f32> {
    let segment = follower.segment();
    let index = segment.plane_index(name).unwrap();
    let bytes = frame.plane(index);
    match segment.planes[index].dtype.bytes() {
        2 => bytes
            .as_chunks::<2>()
            .0
            .iter()
            .map(|bytes| half::f16::from_le_bytes(*bytes).to_f32())
            .collect(),
        _ => bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect(),
    }
}
