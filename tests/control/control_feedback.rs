//! What clients say about where to look is taken from one at a time, checked, counted, and answered with where it led.

use std::sync::Arc;

use foveate::ControlError;
use foveate::client::{Client, Next, SubscribeOptions};
use foveate::messages::{
    Attend, AttendTokens, Inject, Look, Looking, NumberFormat, Refusal, RefusalReason, ViewName,
    Weigh,
};
use foveate_config::{GazeConfig, ViewConfig};
use foveate_control::ClientExt as _;
use foveate_core::camera::{Calibration, Camera, Edit};
use foveate_core::geometry::fixation::{Fixation, FixationReason, Fixations, Gaze, Points};
use foveate_core::geometry::plan::{Token, TokenPlan};
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_core::geometry::region::Region;
use foveate_core::geometry::relevance::{Relevance, RelevanceMap};
use foveate_gaze::GazeParameters;
use foveate_gaze::controller::Policy;
use foveate_gaze::feedback::{Feedback, LookArea};
use foveate_gaze::layout::Layout;
use foveate_gaze::layout::adaptive::demand::{ConsumerMemory, REFRESH_PAUSE_NS};
use foveate_ring::{TokenFrameBuf, Writer};
use foveate_server::channel::{ViewChannel, ViewUpdate};
use foveate_server::directory::StreamPort;
use foveate_server::server::ServerLimits;
use serde_json::{Value, json};
use testkit::control::{
    EXTENT, RawClient, Stage, UNLIMITED, attend, attend_tokens, inject, main_view, start,
    view_config, view_with,
};
use testkit::wait::{HANG, until};

#[test]
fn a_look_may_use_shares_and_a_duration() {
    let mut scene = Scene::open();
    let mut client = scene.client();
    let look = Look { normalised: true, for_ms: Some(250), ..Look::at(&main_view(), 0.5, 1.0) };
    let looking = client.look(look).unwrap();
    assert_eq!(looking.points, [(32.0, 48.0)]);
    let hold_ns = Some(250_000_000);
    assert_eq!(scene.heard(), Some(Feedback::look_at(32.0, 48.0, hold_ns)));
}

#[test]
fn shares_beyond_the_picture_are_refused() {
    let mut scene = Scene::open();
    // The client in Rust would refuse them.
    let raw = RawClient::connect(&scene.stage.path);
    for place in [
        r#""points":[[0.5,1.5]]"#,
        r#""points":[[-0.01,0.5]]"#,
        r#""points":[[0.5,0.5],[1.5,0.5]]"#,
        r#""box":[0.5,0.5,1.5,0.75]"#,
    ] {
        let look = format!(r#"{{"op":"look","view":"camera/main",{place},"normalised":true}}"#);
        let answer = raw.ask(look.as_bytes());
        assert_eq!(answer["reason"], "bad-request", "{place}: {answer}");
        assert!(answer["error"].as_str().unwrap().contains("0 to 1"), "{answer}");
    }
    assert_eq!(scene.heard(), None);
}

#[test]
fn looking_at_several_points_answers_with_all_fixations() {
    let mut scene = Scene::of(ViewConfig { layout: with_foveae(3), ..view_config("main") });
    let client = RawClient::connect(&scene.stage.path);
    let points = "[[9,8],[-5,40.03],[30,20]]";
    let look = format!(r#"{{"op":"look","view":"camera/main","points":{points},"wait":true}}"#);
    client.send(look.as_bytes()).unwrap();
    let places = [(9.0, 8.0), (0.0, 40.0), (30.0, 20.0)];
    let mut heard = None;
    until("the look has arrived", || {
        heard = scene.heard();
        heard.is_some()
    });
    let expected = Feedback::Look {
        points: Points::from_iter(places),
        hold_ns: None,
        frame_seq: None,
        area: LookArea::default(),
    };
    assert_eq!(heard, Some(expected), "moved into the picture");
    scene.show_gaze(6, None, &both(fixation(2, 9.0), fixation(3, 0.0)), true);
    let looking: Value = serde_json::from_slice(&client.receive()).unwrap();
    assert_eq!(looking["points"], json!([[9.0, 8.0], [0.0, 40.0], [30.0, 20.0]]));
    assert_eq!([0, 1].map(|index| &looking["fixations"][index]["id"]), [&json!(2), &json!(3)]);

    let listed = scene.client().list().unwrap()[0].views[0].clone();
    let ids = |fixations: &[Fixation]| fixations.iter().map(|at| at.id).collect::<Vec<_>>();
    assert_eq!((ids(&listed.fixations), ids(&listed.scanpath)), (vec![2, 3], vec![1, 2, 3]));
    scene.show_gaze(7, None, &both(fixation(4, 5.0), fixation(3, 0.0)), true);
    let listed = scene.client().list().unwrap()[0].views[0].clone();
    assert_eq!((ids(&listed.fixations), ids(&listed.scanpath)), (vec![4, 3], vec![1, 2, 3, 4]));
}

#[test]
fn a_look_at_a_box_is_answered_with_its_middle() {
    let mut scene = Scene::open();
    let mut client = scene.client();
    let look = Look::over(&main_view(), Region::from([8.0, 4.0, 40.0, 20.0]));
    let looking = client.look(Look { share: Some(0.5), ..look.clone() }).unwrap();
    assert_eq!(looking.points, [(24.0, 12.0)]);
    let over = |point, size, share| Feedback::Look {
        points: Points::from_iter([point]),
        hold_ns: None,
        frame_seq: None,
        area: LookArea { size: Some(size), share },
    };
    assert_eq!(scene.heard(), Some(over((24.0, 12.0), (32.0, 16.0), Some(0.5))));

    // Cut to the picture of 64 x 48.
    let cut = json!({ "op": "look", "view": main_view(), "box": [32, 24, 96, 36] });
    let looking: Looking = client.request(&cut, &[]).unwrap();
    assert_eq!(looking.points, [(48.0, 30.0)]);
    assert_eq!(scene.heard(), Some(over((48.0, 30.0), (32.0, 12.0), None)));

    // By an ego motion it moves as its middle.
    let homography = Some([1.0, 0.0, 10.0, 0.0, 1.0, -4.0, 0.0, 0.0, 1.0]);
    client.look(Look { frame: Some(5), homography, ..look }).unwrap();
    assert_eq!(scene.heard(), Some(over((34.0, 8.0), (32.0, 16.0), None)));
}

#[test]
fn what_is_no_box_and_no_share_is_refused() {
    let mut scene = Scene::open();
    let mut client = scene.client();
    for (fields, expected, part) in [
        (json!({ "box": [9, 4, 9, 20] }), RefusalReason::BadBox, "[9, 4, 9, 20]"),
        (json!({ "box": [9, 20, 40, 4] }), RefusalReason::BadBox, "x0 < x1 and y0 < y1"),
        (json!({ "box": [64, 4, 80, 20] }), RefusalReason::BadBox, "outside the image of 64x48"),
        (json!({ "box": [1, 2, 3] }), RefusalReason::BadRequest, "length 3"),
        (
            json!({ "box": [1, 2, 3, 4], "points": [[1, 2]] }),
            RefusalReason::BadRequest,
            "`points` or `box`",
        ),
        (json!({ "points": [[1, 2]], "share": 0 }), RefusalReason::BadRequest, "`share`: 0"),
        (json!({ "box": [1, 2, 3, 4], "share": 1.25 }), RefusalReason::BadRequest, "`share`: 1.25"),
    ] {
        let mut look = json!({ "op": "look", "view": main_view() });
        look.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let refused = refusal(client.request::<Looking>(&look, &[]));
        assert_eq!(refused.reason, expected, "{refused}");
        assert!(refused.error.contains(part), "{part} is missing in: {refused}");
    }
    let infinite = Look::over(&main_view(), Region::from([0.0, 0.0, f64::INFINITY, 9.0]));
    assert_eq!(reason(client.look(infinite)), RefusalReason::BadBox);
    assert_eq!(scene.heard(), None);
}

#[test]
fn more_points_than_foveae_are_refused_with_both_numbers() {
    for (layout, foveae) in [(with_foveae(1), 1), (with_foveae(2), 2), (Layout::Uniform, 1)] {
        let mut scene = Scene::of(ViewConfig { layout, ..view_config("main") });
        let mut client = scene.client();
        let refused = refusal(client.look(Look::at_points(&main_view(), &[(1.0, 2.0); 3])));
        assert_eq!(refused.reason, RefusalReason::WrongCount);
        for part in [&format!("for the {foveae} fovea"), "too many points: 3", "which has up to 8"]
        {
            assert!(refused.error.contains(part), "{part} is missing in: {refused}");
        }
        assert_eq!(scene.heard(), None);
        client.look(Look::at_points(&main_view(), &vec![(1.0, 2.0); foveae])).unwrap();
        for count in [0, 9] {
            let look = Look::at_points(&main_view(), &vec![(1.0, 2.0); count]);
            assert_eq!(reason(client.look(look)), RefusalReason::BadRequest, "{count} points");
        }
    }
}

#[test]
fn a_map_arrives_as_it_was_sent_in_every_number_format() {
    let mut scene = Scene::open();
    let mut client = scene.client();
    // As numbers with a point, and as bytes.
    let values = [(0.0, 0), (0.5, 127), (0.25, 63), (0.0, 0), (1.0, 255), (0.0, 0)];
    let bytes = |dtype: NumberFormat| -> Vec<u8> {
        let encode = |&(value, byte): &(f32, u8)| match dtype {
            NumberFormat::F32 => value.to_le_bytes().to_vec(),
            NumberFormat::F16 => half::f16::from_f32(value).to_le_bytes().to_vec(),
            NumberFormat::U8 => vec![byte],
        };
        values.iter().flat_map(encode).collect()
    };
    for dtype in [NumberFormat::F32, NumberFormat::F16, NumberFormat::U8] {
        let looking = client.attend(attend([2, 3], dtype), &bytes(dtype)).unwrap();
        // The second row, the second of three columns: the cell from (21.3, 24) to (42.7, 48).
        assert!(
            (21.0..43.0).contains(&looking.points[0].0)
                && (24.0..=48.0).contains(&looking.points[0].1)
        );
        let Some(Feedback::Attend { map, frame_seq, lies_in: None }) = scene.heard() else {
            panic!("no map")
        };
        assert_eq!((map.grid().width, map.grid().height, frame_seq), (3, 2, 5));
        let scale = if dtype == NumberFormat::U8 { 255.0 } else { 1.0 };
        for (found, (sent, _)) in map.weights().iter().zip(values) {
            assert!((found / scale - sent).abs() < 0.005, "{dtype:?}: {found} for {sent}");
        }
    }
}

#[test]
fn a_box_may_reach_beyond_the_picture() {
    let mut scene = Scene::open();
    let mut client = scene.client();
    // 64x48 in a square of 64x64: bars of 8 above and below.
    let region = Some(Region { x0: 0.0, y0: -8.0, x1: 64.0, y1: 56.0 });
    let mut map = vec![0u8; 8 * 8];
    map[5 * 8 + 2] = 9;
    let looking =
        client.attend(Attend { region, ..attend([8, 8], NumberFormat::U8) }, &map).unwrap();
    assert!(
        (looking.points[0].0 - 20.0).abs() <= 4.0 && (looking.points[0].1 - 36.0).abs() <= 4.0,
        "{looking:?}"
    );
    assert!(matches!(scene.heard(), Some(Feedback::Attend { .. })));
}

#[test]
fn scores_are_placed_by_the_plan_of_their_frame() {
    let mut scene = Scene::open();
    let mut client = scene.client();
    let scores = |scores: &[f32]| -> Vec<u8> {
        scores.iter().flat_map(|score| score.to_le_bytes()).collect()
    };
    let ask = |frame| attend_tokens(frame, NumberFormat::F32);
    // Frame 5 has four tokens; the second lies at (28, 14) in steps of 14 pixels.
    let looking = client.attend_tokens(ask(5), &scores(&[0.1, 3.0, 0.2, 0.0, 9.0, 9.0])).unwrap();
    assert!(
        (14.0..=28.0).contains(&looking.points[0].0) && (0.0..=14.0).contains(&looking.points[0].1),
        "{looking:?}"
    );
    assert!(matches!(scene.heard(), Some(Feedback::Attend { frame_seq: 5, .. })));

    // Another plan from frame 6 on: the same scores lead elsewhere, and those of frame 5 where they did.
    scene.show(6, Some(plan(&[(0, 28, 14), (0, 0, 14)])), fixation(2, 1.0), true);
    let moved = client.attend_tokens(ask(6), &scores(&[3.0, 0.1])).unwrap();
    let (x, y) = moved.points[0];
    assert!((28.0..=42.0).contains(&x) && (14.0..=28.0).contains(&y), "{moved:?}");
    let again = client.attend_tokens(ask(5), &scores(&[0.1, 3.0, 0.2, 0.0])).unwrap();
    assert_eq!(again.points, looking.points);

    let refused = client.attend_tokens(ask(6), &scores(&[1.0]));
    assert_eq!(reason(refused), RefusalReason::WrongCount);
    // A plan is known for as long as a frame that it made is among the last 64, and those whose motion is known.
    scene.channel.set_oldest_frame(1000);
    scene.show(6 + 63, Some(plan(&[(1, 0, 0)])), fixation(2, 1.0), true);
    assert!(client.attend_tokens(ask(5), &scores(&[0.1, 3.0, 0.2, 0.0])).is_err());
    assert!(client.attend_tokens(ask(6), &scores(&[3.0, 0.1])).is_ok());
    scene.channel.set_oldest_frame(7);
    scene.show(6 + 64 + 63, Some(plan(&[(1, 0, 14)])), fixation(2, 1.0), true);
    let known = client.attend_tokens(ask(7), &scores(&[3.0, 0.1])).unwrap();
    assert_eq!((known.points, known.taken_for), (moved.points, None));
    scene.channel.set_oldest_frame(6 + 63);
    scene.show(6 + 64 + 64, Some(plan(&[(1, 0, 0)])), fixation(2, 1.0), true);
    let refused = refusal(client.attend_tokens(ask(7), &scores(&[3.0, 0.1])));
    assert_eq!(refused.reason, RefusalReason::FrameTooOld);
    assert!(refused.error.contains("tokens of frame 7 are not known any more"), "{refused}");
}

/// A language model answers when the frame that it saw is long gone.
#[test]
fn late_feedback_counts_for_the_newest_frame() {
    let mut scene = Scene::of(view_with("main", Policy::Auto));
    let mut client = scene.client();
    scene.show(400, None, fixation(1, 1.0), true);
    scene.channel.set_oldest_frame(100);
    let look =
        |frame, strict| Look { frame: Some(frame), strict, ..Look::at(&main_view(), 9.0, 8.0) };
    let map =
        |frame, strict| Attend { frame: Some(frame), strict, ..attend([2, 2], NumberFormat::U8) };
    let channel = |frame, strict| Inject { frame: Some(frame), strict, ..inject("query") };
    let heard = |scene: &mut Scene| match scene.heard() {
        Some(Feedback::Look { frame_seq, .. }) => frame_seq,
        Some(Feedback::Attend { frame_seq, .. }) => Some(frame_seq),
        Some(Feedback::Inject(given)) => Some(given.frame_seq()),
        other => panic!("{other:?}"),
    };
    for (frame, strict, expected) in
        [(100, false, None), (100, true, None), (99, false, Some(400)), (6, false, Some(400))]
    {
        let taken_for = client.look(look(frame, strict)).unwrap().taken_for;
        assert_eq!((taken_for, heard(&mut scene)), (expected, expected.or(Some(frame))));
        let taken_for = client.attend(map(frame, strict), &[1; 4]).unwrap().taken_for;
        assert_eq!((taken_for, heard(&mut scene)), (expected, expected.or(Some(frame))));
        let taken_for = client.inject(channel(frame, strict), &[1]).unwrap().taken_for;
        assert_eq!((taken_for, heard(&mut scene)), (expected, expected.or(Some(frame))));
    }
    let answers = [
        refusal(client.look(look(99, true))),
        refusal(client.attend(map(99, true), &[1; 4])),
        refusal(client.inject(channel(99, true), &[1])),
    ];
    for refused in answers {
        assert_eq!(refused.reason, RefusalReason::FrameTooOld);
        assert!(refused.error.contains("expected 100 to 400"), "{refused}");
    }
    assert_eq!(scene.heard(), None, "nothing of it reached the frame loop");
    // What the client's own motion has moved is where it is now.
    let identity = Some([1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]);
    let moved = Look { homography: identity, ..look(6, true) };
    assert_eq!(client.look(moved).unwrap().taken_for, None);
    assert_eq!(heard(&mut scene), None);
}

#[test]
fn invalid_attention_is_refused_and_counted() {
    let mut scene = Scene::open();
    let mut client = scene.client();
    let f32s = |values: [f32; 4]| -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    };
    let square = || attend([2, 2], NumberFormat::F32);
    let flat = Region { x0: 5.0, y0: 5.0, x1: 5.0, y1: 9.0 };
    let beside = Region { x0: -9.0, y0: 0.0, x1: -1.0, y1: 9.0 };
    let cases = [
        (square(), f32s([1.0, f32::NAN, 0.0, 0.0]), RefusalReason::NotFinite),
        (square(), f32s([1.0, f32::INFINITY, 0.0, 0.0]), RefusalReason::NotFinite),
        (square(), f32s([1.0, -0.5, 0.0, 0.0]), RefusalReason::Negative),
        (square(), f32s([0.0; 4]), RefusalReason::AllZero),
        (square(), f32s([1.0; 4])[..15].to_vec(), RefusalReason::WrongCount),
        (square(), f32s([1.0; 4])[..12].to_vec(), RefusalReason::WrongCount),
        (attend([1, 129], NumberFormat::U8), vec![1; 129], RefusalReason::MapTooLarge),
        (attend([0, 4], NumberFormat::U8), Vec::new(), RefusalReason::MapTooLarge),
        (Attend { region: Some(flat), ..square() }, f32s([1.0; 4]), RefusalReason::BadBox),
        (Attend { region: Some(beside), ..square() }, f32s([1.0; 4]), RefusalReason::BadBox),
        (Attend { frame: Some(6), ..square() }, f32s([1.0; 4]), RefusalReason::UnknownFrame),
        (Attend { frame: Some(u64::MAX), ..square() }, f32s([1.0; 4]), RefusalReason::UnknownFrame),
    ];
    for (request, numbers, expected) in &cases {
        let refused = client.attend(request.clone(), numbers);
        assert_eq!(reason(refused), *expected, "{request:?} {numbers:?}");
    }
    scene.show(100, None, fixation(1, 1.0), true);
    scene.channel.set_oldest_frame(37);
    let old = Attend { frame: Some(36), strict: true, ..square() };
    assert_eq!(reason(client.attend(old, &f32s([1.0; 4]))), RefusalReason::FrameTooOld);
    assert_eq!(scene.heard(), None, "nothing of it reached the frame loop");

    let listing = client.listing().unwrap();
    let steering = &listing.streams[0].views[0].steering;
    let refused: u64 = steering.refused.values().sum();
    assert_eq!((steering.accepted, refused), (0, cases.len() as u64 + 1));
    assert_eq!(steering.refused[&RefusalReason::NotFinite], 2);
    assert_eq!(listing.server.unwrap().refused, steering.refused);
}

#[test]
fn maps_are_refused_where_the_policy_would_not_look_at_them() {
    let stage = Stage::open();
    let log = "gaze.log".into();
    let policies = [Policy::Fixed { x: 0.5, y: 0.5 }, Policy::Saliency, Policy::Replay { log }];
    let views = policies.map(|policy| view_with(policy.name(), policy.clone()));
    let port = stage.stream_of("camera", views.to_vec());
    let _writer = start(&port);
    let mut client = Client::connect(&stage.path).unwrap();
    for (policy, takes_look) in [("fixed", true), ("saliency", true), ("replay", false)] {
        let view: ViewName = format!("camera/{policy}").parse().unwrap();
        let map = Attend { view: view.clone(), frame: None, ..attend([1, 1], NumberFormat::U8) };
        let refusal = refusal(client.attend(map, &[1]));
        assert_eq!(refusal.reason, RefusalReason::Policy);
        assert!(refusal.error.contains("\"feedback\""), "{refusal}: it says what would do");
        assert_eq!(client.look(Look::at(&view, 1.0, 1.0)).is_ok(), takes_look, "{policy}");
    }
}

/// A client steers the foveae whose policy is `feedback`, and the refusal says how many there are.
#[test]
fn of_several_policies_a_client_steers_the_foveae_of_feedback_alone() {
    let view = |policies: &str| {
        ViewConfig::parse(&format!("name = 'main'\ngaze.policy = {policies}")).unwrap()
    };
    let mut scene = Scene::of(view("['feedback', 'saliency', 'saliency']"));
    let mut client = scene.client();
    assert_eq!(client.list().unwrap()[0].views[0].policy, "feedback, saliency, saliency");
    let two = Look { points: vec![(1.0, 1.0), (2.0, 2.0)], ..Look::at(&main_view(), 1.0, 1.0) };
    let refused = refusal(client.look(two));
    assert_eq!(refused.reason, RefusalReason::WrongCount);
    assert!(refused.error.contains("for the 1 fovea of the policy \"feedback\""), "{refused}");
    assert_eq!(scene.heard(), None);
    client.look(Look::at(&main_view(), 1.0, 1.0)).unwrap();
    assert!(matches!(scene.heard(), Some(Feedback::Look { .. })));
    client.attend(attend([1, 1], NumberFormat::U8), &[1]).unwrap();
    assert!(matches!(scene.heard(), Some(Feedback::Attend { .. })));

    let mut scene = Scene::of(view("['fixed', 'saliency', 'relevance']"));
    let mut client = scene.client();
    for refused in [
        refusal(client.look(Look::at(&main_view(), 1.0, 1.0))),
        refusal(client.attend(attend([1, 1], NumberFormat::U8), &[1])),
    ] {
        assert_eq!(refused.reason, RefusalReason::Policy);
        assert!(refused.error.contains("use one with the policy \"feedback\""), "{refused}");
    }
    assert_eq!(scene.heard(), None);
    let weights = [("strokes".to_owned(), 1.0)].into();
    client.weigh(Weigh { view: main_view(), weights }).unwrap();
    assert!(matches!(scene.heard(), Some(Feedback::Weigh(_))), "it has channels");
}

#[test]
fn one_client_at_a_time_steers_a_view() {
    let scene = Scene::with(|gaze| gaze.lease_ms = 3_600_000, UNLIMITED);
    let (mut first, mut second) = (scene.client(), scene.client());
    let look = || Look::at(&main_view(), 1.0, 1.0);
    first.look(look()).unwrap();
    let held = refusal(second.look(look()));
    assert_eq!(held.reason, RefusalReason::Held);
    let own = format!("process {}", std::process::id());
    assert!(held.holder.clone().unwrap().starts_with(&own), "{held:?}");
    assert!(held.error.contains(&own), "{held}");
    assert_eq!(refusal(second.release(&main_view())).reason, RefusalReason::Held);
    first.look(look()).unwrap();
    let listed = second.list().unwrap()[0].views[0].steering.clone();
    assert!(listed.holder.unwrap().starts_with(&own));

    // Who lets go, and who is gone, holds nothing.
    first.release(&main_view()).unwrap();
    second.look(look()).unwrap();
    assert_eq!(refusal(first.look(look())).reason, RefusalReason::Held);
    drop(second);
    until("the lease of a client that is gone has ended", || {
        first.list().unwrap()[0].views[0].steering.holder.is_none()
    });
    first.look(look()).unwrap();
}

#[test]
fn readers_share_refreshes_at_most_one_a_second() {
    let layout = Layout::Adaptive { memory: ConsumerMemory::Canvas };
    let gaze = GazeConfig { policy: Policy::Feedback, ..GazeConfig::default() };
    let mut scene = Scene::of(ViewConfig { layout, gaze, ..view_config("main") });
    let (mut first, mut second) = (scene.client(), scene.client());
    let start_ns = 5;
    assert!(!scene.channel.takes_refresh(start_ns), "nobody asked for one");
    first.look(Look::at(&main_view(), 1.0, 1.0)).unwrap();
    first.refresh(&main_view()).unwrap();
    second.refresh(&main_view()).unwrap();
    assert!(scene.channel.takes_refresh(start_ns), "also from a client without the lease");
    assert!(!scene.channel.takes_refresh(start_ns + REFRESH_PAUSE_NS), "both were one");

    second.refresh(&main_view()).unwrap();
    assert!(!scene.channel.takes_refresh(start_ns + REFRESH_PAUSE_NS - 1), "too early");
    assert!(scene.channel.takes_refresh(start_ns + REFRESH_PAUSE_NS), "later");
    let steering = first.list().unwrap()[0].views[0].steering.clone();
    assert_eq!(steering.accepted, 4);
}

#[test]
fn a_view_without_memory_refuses_a_refresh() {
    let scene = Scene::open();
    let refused = refusal(scene.client().refresh(&main_view()));
    assert_eq!(refused.reason, RefusalReason::Policy);
    assert!(refused.error.contains("memory = \"canvas\""), "{refused}");
}

#[test]
fn a_lease_ends_with_silence() {
    let scene = Scene::with(|gaze| gaze.lease_ms = 1, UNLIMITED);
    let (mut first, mut second) = (scene.client(), scene.client());
    first.look(Look::at(&main_view(), 1.0, 1.0)).unwrap();
    until("the lease has ended", || second.look(Look::at(&main_view(), 2.0, 2.0)).is_ok());
}

#[test]
fn feedback_above_the_rate_is_refused_and_the_client_kept() {
    let scene = Scene::with(|_| {}, ServerLimits { feedback_per_second: 3, ..UNLIMITED });
    let mut client = scene.client();
    let mut looks = (0..1000).map(|_| client.look(Look::at(&main_view(), 1.0, 1.0)));
    let refused = looks.find_map(|look| look.err()).unwrap();
    let ControlError::Refused(refusal) = refused else { panic!("{refused}") };
    assert_eq!(refusal.reason, RefusalReason::RateLimit);
    assert!(refusal.error.contains("expected at most 3 messages a second"), "{refusal}");
    assert_eq!(client.list().unwrap().len(), 1, "the connection still serves");
}

#[test]
fn who_waits_is_answered_with_the_fixation_that_it_led_to() {
    let mut scene = Scene::open();
    let client = RawClient::connect(&scene.stage.path);
    client.send(br#"{"op":"look","view":"camera/main","points":[[9,8]],"wait":true}"#).unwrap();
    // Sent while it waits: it is heard after the answer.
    client.send(br#"{"op":"list"}"#).unwrap();
    until("the look has arrived", || scene.heard().is_some());
    scene.show(6, None, fixation(2, 9.0), false);
    scene.show(7, None, fixation(3, 9.0), true);
    let looking: Value = serde_json::from_slice(&client.receive()).unwrap();
    assert_eq!(
        looking["fixations"][0]["id"], 3,
        "not the fixation before it was decided: {looking}"
    );
    let listing: Value = serde_json::from_slice(&client.receive()).unwrap();
    assert!(listing["streams"].is_array(), "{listing}");
}

#[test]
fn waiting_on_a_still_stream_answers_without_fixation() {
    let scene = Scene::open();
    let mut client = scene.client();
    let looking = client.look(Look { wait: true, ..Look::at(&main_view(), 9.0, 8.0) }).unwrap();
    assert_eq!((looking.points, looking.fixations), (vec![(9.0, 8.0)], Vec::new()));
}

#[test]
fn a_gaze_recorder_starts_with_the_present_gaze() {
    let mut scene = Scene::open();
    let options = SubscribeOptions { gaze: true, ..SubscribeOptions::default() };
    let mut recorder = scene.client().subscribe_to(&main_view(), options).unwrap();
    let mut frame = TokenFrameBuf::default();
    assert_eq!(recorder.next_frame(&mut frame, HANG).unwrap(), Next::NewSegment);
    let grid = foveate_core::geometry::extent::Extent::new(2, 1);
    let map = RelevanceMap::from_codes(grid, &[7, 200]);
    let relevance = Some(Arc::new(Relevance { map, frame_seq: 6 }));
    let gazes = [
        Gaze::at(fixation(1, 5.0), None),
        Gaze::at(fixation(1, 5.0), relevance.clone()),
        Gaze { relevance, ..both(fixation(2, 6.0), fixation(3, 7.0)) },
    ];
    for (frame_seq, gaze) in [(6, &gazes[0]), (7, &gazes[0]), (8, &gazes[1]), (9, &gazes[2])] {
        scene.show_gaze(frame_seq, None, gaze, true);
    }
    let mut told = Vec::new();
    while told.len() < 3 {
        let timeout = std::time::Duration::from_millis(1);
        assert_eq!(recorder.next_frame(&mut frame, timeout).unwrap(), Next::TimedOut);
        told.extend(recorder.take_gazes());
    }
    let told: Vec<(u64, Gaze)> =
        told.iter().map(|event| (event.entry.frame, event.entry.gaze().unwrap())).collect();
    let [first, second, third] = gazes;
    assert_eq!(told, [(6, first), (8, second), (9, third)]);
}

#[test]
fn the_scanpath_holds_the_newest_fixations() {
    let mut scene = Scene::open();
    for number in 2..40 {
        scene.show(number + 5, None, fixation(number, 1.0), true);
    }
    let view = scene.client().list().unwrap()[0].views[0].clone();
    let ids: Vec<u64> = view.scanpath.iter().map(|fixation| fixation.id).collect();
    assert_eq!(ids, (24..40).collect::<Vec<_>>());
    assert_eq!(view.fixations, view.scanpath[15..]);
}

#[test]
fn feedback_is_compensated_by_ego_motion() {
    let mut scene =
        Scene::of(ViewConfig { layout: with_foveae(2), ..view_with("main", Policy::Feedback) });
    let mut client = scene.client();
    // To the right by 10 pixels and up by 4.
    let homography = Some([2.0, 0.0, 20.0, 0.0, 2.0, -8.0, 0.0, 0.0, 2.0]);
    let frame = Some(5);
    let points = Look::at_points(&main_view(), &[(20.0, 20.0), (60.0, 20.0)]);
    let looking = client.look(Look { frame, homography, ..points }).unwrap();
    assert_eq!(looking.points, [(30.0, 16.0)], "one has left");
    let heard = scene.channel.next_feedback().unwrap();
    assert_eq!((heard.is_moved, heard.feedback), (true, Feedback::look_at(30.0, 16.0, None)));

    let mut map = vec![0; 16 * 12];
    map[6 * 16 + 5] = 255;
    let ask = Attend { frame, homography, ..attend([12, 16], NumberFormat::U8) };
    let looking = client.attend(ask, &map).unwrap();
    assert!(
        (looking.points[0].0 - 32.0).abs() < 2.0 && (looking.points[0].1 - 22.0).abs() < 2.0,
        "{looking:?}"
    );
    let heard = scene.channel.next_feedback().unwrap();
    let Feedback::Attend { map, frame_seq: 5, lies_in: None } = heard.feedback else {
        panic!("no map of frame 5")
    };
    assert_eq!((heard.is_moved, map.peak().x), (true, looking.points[0].0));

    let ask = AttendTokens { homography, ..attend_tokens(5, NumberFormat::F32) };
    let scores: Vec<u8> =
        [0.0, 1.0, 0.0, 0.0_f32].iter().flat_map(|score| score.to_le_bytes()).collect();
    let looking = client.attend_tokens(ask, &scores).unwrap();
    assert!(
        (24.0..=38.0).contains(&looking.points[0].0) && looking.points[0].1 < 14.0,
        "{looking:?}"
    );
    assert!(scene.channel.next_feedback().unwrap().is_moved);

    // A quarter of a turn about the axis, of a camera whose middle is that of the picture.
    scene.port.update(|status| status.camera = Some(Arc::new(camera("plumb_bob"))));
    let half = 0.5_f64.sqrt();
    let look = Look {
        frame,
        rotation: Some([0.0, 0.0, half, half]),
        ..Look::at(&main_view(), 42.0, 24.0)
    };
    let looking = client.look(look).unwrap();
    assert_eq!(looking.points, [(32.0, 34.0)], "x is down now");
    // As before, without one.
    client.look(Look { frame, ..Look::at(&main_view(), 42.0, 24.0) }).unwrap();
    scene.channel.next_feedback().unwrap();
    let heard = scene.channel.next_feedback();
    assert!(heard.is_none(), "the newest alone counts: {heard:?}");
}

#[test]
fn invalid_ego_motion_is_refused() {
    let mut scene = Scene::open();
    let client = RawClient::connect(&scene.stage.path);
    let identity = "[1,0,0,0,1,0,0,0,1]";
    let turn = r#""rotation":[0,0,0,1]"#;
    let refused = |fields: &str| {
        let ask = |op: &str, payload: &[u8]| {
            let request = format!(r#"{{"op":{op},"view":"camera/main",{fields}}}"#);
            let answer = client.ask(&[request.as_bytes(), payload].concat());
            (answer["reason"].clone(), answer["error"].as_str().unwrap_or_default().to_owned())
        };
        let look = ask(r#""look","points":[[1,1]]"#, b"");
        let attend = ask(r#""attend","shape":[1,1],"dtype":"u8""#, b"\n\x01");
        assert_eq!(look.0, attend.0, "{look:?} {attend:?}");
        look
    };
    for (fields, reason, part) in [
        (format!(r#""homography":{identity}"#), "bad-request", "`frame`"),
        (turn.to_owned(), "bad-request", "`frame`"),
        (
            format!(r#""frame":5,{turn},"homography":{identity}"#),
            "bad-request",
            "exclude each other",
        ),
        (r#""frame":5,"homography":[1,0,0,0,1,0,0,0]"#.to_owned(), "bad-request", "length 8"),
        (r#""frame":5,"homography":[0,0,0,0,0,0,0,0,0]"#.to_owned(), "bad-request", "to a line"),
        (r#""frame":5,"homography":[1,0,null,0,1,0,0,0,1]"#.to_owned(), "bad-request", "null"),
        (r#""frame":5,"homography":[1,0,1e999,0,1,0,0,0,1]"#.to_owned(), "bad-request", "range"),
        (
            r#""frame":5,"homography":[1,0,64.5,0,1,0,0,0,1]"#.to_owned(),
            "out-of-picture",
            "outside the picture",
        ),
        (r#""frame":5,"homography":[-1,0,64,0,1,0,0,0,1]"#.to_owned(), "out-of-picture", "behind"),
        (format!(r#""frame":5,{turn}"#), "no-camera", "[stream.camera]"),
        (format!(r#""frame":9,{turn}"#), "unknown-frame", "9"),
    ] {
        let (given, error) = refused(&fields);
        assert!(given == reason && error.contains(part), "{fields}: {given} {error}");
    }
    scene.port.update(|status| status.camera = Some(Arc::new(camera("double_sphere"))));
    let (reason, error) = refused(&format!(r#""frame":5,{turn}"#));
    assert!(reason == "no-camera" && error.contains("double_sphere"), "{reason} {error}");
    scene.port.update(|status| status.camera = Some(Arc::new(camera("plumb_bob"))));
    for (rotation, reason, part) in [
        ("[0,0,0,0.9]", "bad-request", "length 0.9"),
        ("[0,1,0,0]", "out-of-picture", "behind the camera"),
    ] {
        let (given, error) = refused(&format!(r#""frame":5,"rotation":{rotation}"#));
        assert!(given == reason && error.contains(part), "{rotation}: {given} {error}");
    }
    assert_eq!(scene.heard(), None, "nothing of it arrives");
    // The Rust client refuses a number that JSON cannot express.
    let wrong = Some([1.0, 0.0, f64::NAN, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]);
    let look = Look { frame: Some(5), homography: wrong, ..Look::at(&main_view(), 1.0, 1.0) };
    let refused = refusal(scene.client().look(look));
    assert!(refused.error.contains("finite"), "{refused}");
}

/// A camera of pictures of [`EXTENT`] whose axis is their middle, with a distortion of 0.1 unless it is of `plumb_bob`.
fn camera(distortion: &str) -> Camera {
    let coefficients = if distortion == "plumb_bob" { Vec::new() } else { vec![0.1] };
    let k = [50.0, 0.0, 31.5, 0.0, 50.0, 23.5, 0.0, 0.0, 1.0];
    let calibration =
        Calibration { extent: EXTENT, k, distortion: distortion.to_owned(), coefficients };
    let edit = Edit::default();
    Camera { calibration, optical_frame: "optical".to_owned(), mount: None, edit }
}

#[test]
fn an_opened_view_belongs_to_its_client() {
    let scene = Scene::open();
    let mut owner = scene.client();
    let table = table(json!({"name": "left", "budget": 9, "gaze": {"policy": "feedback"}}));
    let view = owner.open_view("camera", table.clone()).unwrap();
    assert_eq!(view.to_string(), "camera/left");
    let unnamed = owner.open_view("camera", serde_json::Map::new()).unwrap();

    let mut other = scene.client();
    let views = other.list().unwrap()[0].views.clone();
    let names: Vec<String> = views.iter().map(|view| view.name.to_string()).collect();
    assert_eq!(names, ["camera/main".to_owned(), "camera/left".to_owned(), unnamed.to_string()]);
    assert!(views[1].opened_by.as_ref().unwrap().starts_with("process "));
    assert_eq!((views[1].budget, views[1].policy.as_str()), (9, "feedback"));
    assert_eq!(reason(other.open_view("camera", table)), RefusalReason::NameTaken);

    // Those who follow it learn that it has ended.
    let mut follower = other.subscribe(&view, false).unwrap();
    drop(owner);
    let end = follower.next_frame(&mut TokenFrameBuf::default(), HANG).unwrap();
    assert_eq!(end, Next::Ended("the client that opened the view is gone".to_owned()));
    until("only the view of the configuration is left", || {
        scene.client().list().unwrap()[0].views.len() == 1
    });
}

#[test]
fn an_invalid_or_too_large_view_is_refused() {
    let limits = ServerLimits {
        views_per_client: 2,
        views_opened: 3,
        opened_tokens: 4998,
        opened_frame_cost: 8_000_000,
        opened_bytes: 9_000_000,
        ..UNLIMITED
    };
    let scene = Scene::with(|_| {}, limits);
    let mut client = scene.client();
    for (view, part) in [
        (json!({"budget": 0}), "1 to 5000"),
        (json!({"layout": "spiral"}), "\"foveal\", \"inset\""),
        (json!({"name": "Left"}), "a-z, 0-9"),
        (json!({"colour": "red"}), "unknown key `colour`"),
        (json!({"gaze": {"policy": "replay", "log": "/etc/passwd"}}), "\"fixed\", \"feedback\""),
        (json!({"gaze": {"policy": "relevance", "scorer": "/etc/passwd"}}), "without `scorer`"),
        (
            json!({"layout": "samples", "table": "/etc/passwd"}),
            "[[stream.view]] of the configuration",
        ),
        (json!({"table": "/etc/passwd"}), "[[stream.view]] of the configuration"),
        (json!({"name": null}), ""),
    ] {
        let refusal = refusal(client.open_view("camera", table(view.clone())));
        assert_eq!(refusal.reason, RefusalReason::BadRequest, "{view}");
        assert!(refusal.error.contains(part), "{view}: {refusal}");
    }
    let nowhere = refusal(client.open_view("door", serde_json::Map::new()));
    assert_eq!(nowhere.reason, RefusalReason::UnknownStream);
    assert!(nowhere.error.contains("`camera`"), "{nowhere}");

    // 2 slots of 100 tokens of 1,536 bytes.
    let small = || table(json!({"budget": 100, "slots": 2}));
    for (vast, part) in [
        (json!({"budget": 4000}), "bytes"),
        (json!({"budget": 4999, "slots": 2}), "tokens"),
        (
            json!({"budget": 1, "slots": 2, "layout": "windows", "patch": 1024, "dtype": "f32"}),
            "frames too large: 12582912 bytes",
        ),
        (
            json!({"budget": 1, "slots": 2, "layout": "windows", "patch": 1024, "dtype": "u8", "depth": "texels"}),
            "frames too large: 45088768 bytes",
        ),
        // Less than its share in bytes, 3,840 a token, but not in time.
        (json!({"budget": 1000, "slots": 2, "dtype": "u8", "depth": "texels"}), "time for depth"),
        (json!({"budget": 2000, "slots": 2, "dtype": "u8", "boxes": true}), "time for depth"),
    ] {
        let refusal = refusal(client.open_view("camera", table(vast)));
        assert_eq!(refusal.reason, RefusalReason::TooManyViews);
        assert!(refusal.error.contains(part), "{refusal}");
    }
    client.open_view("camera", small()).unwrap();
    client.open_view("camera", small()).unwrap();
    assert_eq!(reason(client.open_view("camera", small())), RefusalReason::TooManyViews);
    let mut other = scene.client();
    other.open_view("camera", small()).unwrap();
    assert_eq!(reason(other.open_view("camera", small())), RefusalReason::TooManyViews);
    drop(client);
    until("there is room again", || {
        scene.port.commands.try_iter().for_each(drop);
        scene.client().open_view("camera", small()).is_ok()
    });
}

/// A stream with one view whose frame loop a test plays: it has shown frame 5, whose plan has four tokens.
pub(crate) struct Scene {
    pub(crate) stage: Stage,
    pub(crate) port: StreamPort,
    pub(crate) channel: ViewChannel,
    shown: (u64, TokenPlan),
    _writer: Writer,
}

impl Scene {
    pub(crate) fn open() -> Self {
        Self::with(|_| {}, UNLIMITED)
    }

    fn with(change: impl FnOnce(&mut GazeParameters), limits: ServerLimits) -> Self {
        let mut gaze = GazeConfig { policy: Policy::Feedback, ..GazeConfig::default() };
        change(&mut gaze.parameters);
        Self::limited(ViewConfig { gaze, ..view_config("main") }, limits)
    }

    pub(crate) fn of(view: ViewConfig) -> Self {
        Self::limited(view, UNLIMITED)
    }

    fn limited(view: ViewConfig, limits: ServerLimits) -> Self {
        let stage = Stage::open_limited(limits);
        let mut port = stage.stream_of("camera", vec![view]);
        let writer = start(&port);
        let channel = port.views.remove(0);
        let plan = plan(&[(0, 0, 0), (0, 14, 0), (0, 28, 0), (1, 0, 14)]);
        let mut scene = Self { stage, port, channel, shown: (5, plan), _writer: writer };
        scene.show(5, None, fixation(1, 32.0), true);
        scene
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(&self.stage.path).unwrap()
    }

    pub(crate) fn heard(&mut self) -> Option<Feedback> {
        self.channel.next_feedback().map(|post| post.feedback)
    }

    pub(crate) fn show(
        &mut self,
        frame_seq: u64,
        plan: Option<TokenPlan>,
        fixation: Fixation,
        is_settled: bool,
    ) {
        self.show_gaze(frame_seq, plan, &Gaze::at(fixation, None), is_settled);
    }

    fn show_gaze(
        &mut self,
        frame_seq: u64,
        plan: Option<TokenPlan>,
        gaze: &Gaze,
        is_settled: bool,
    ) {
        if let Some(plan) = plan {
            self.shown = (frame_seq, plan);
        }
        let (plan_since, plan) = &self.shown;
        self.channel.update(&ViewUpdate {
            frame_seq,
            shape: PyramidShape::new(EXTENT),
            gaze,
            plan,
            plan_since: *plan_since,
            is_planned_afresh: false,
            is_settled,
        });
    }
}

fn plan(tokens: &[(u16, i32, i32)]) -> TokenPlan {
    let token = |&(level, x, y): &(u16, i32, i32)| Token {
        x,
        y,
        sx: 1 << level,
        sy: 1 << level,
        group: level,
        ..Token::default()
    };
    let tokens = tokens.iter().map(token);
    TokenPlan { patch_side: 14, tokens: tokens.collect() }
}

fn with_foveae(foveae: u32) -> Layout {
    Layout::Foveal { e0_px: None, foveae, coarsest: None }
}

/// A gaze at two places.
fn both(one: Fixation, other: Fixation) -> Gaze {
    Gaze::new(Fixations::from_iter([one, other]), None)
}

pub(crate) fn fixation(id: u64, x: f64) -> Fixation {
    let reason = FixationReason::Attend;
    Fixation { id, since_frame: id, ..Fixation::at((x, 24.0), reason) }
}

fn table(value: Value) -> serde_json::Map<String, Value> {
    value.as_object().unwrap().clone()
}

pub(crate) fn refusal<T: std::fmt::Debug>(answer: Result<T, ControlError>) -> Refusal {
    match answer {
        Err(ControlError::Refused(refusal)) => refusal,
        other => panic!("{other:?} is not a refusal"),
    }
}

pub(crate) fn reason<T: std::fmt::Debug>(answer: Result<T, ControlError>) -> RefusalReason {
    refusal(answer).reason
}
