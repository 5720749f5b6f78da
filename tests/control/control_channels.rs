//! Clients give a view channels by name, each its own, and say what they count.

use std::sync::Arc;

use foveate::client::Client;
use foveate::messages::{
    Inject, Look, NumberFormat, RefusalReason, TTL_MS_DEFAULT, ViewName, Weigh,
};
use foveate_config::ViewConfig;
use foveate_control::{ChannelListing, ClientExt as _};
use foveate_core::channel::CHANNELS;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::region::Region;
use foveate_gaze::controller::Policy;
use foveate_gaze::feedback::{CHANNEL_WEIGHTS_MAX, ChannelWeight, Feedback};
use foveate_gaze::relevance::injection::{INJECTED_MAX, Injection};
use foveate_server::channel::{FEEDBACK_PENDING_MAX, ViewChannel};
use testkit::control::{
    EXTENT, RawClient, Stage, attend, inject, main_view, start, view_with, weigh,
};
use testkit::stream::channel;
use testkit::wait::until;

use crate::control_feedback::{Scene, fixation, reason, refusal};

const MINUTE_MS: u32 = 60_000;

#[test]
fn a_channel_arrives_as_it_was_sent_in_every_number_format() {
    let mut scene = scene();
    let mut client = scene.client();
    let values = [(0.0, 0), (-0.5, 127), (0.25, 63), (0.0, 0), (1.0, 255), (-65504.0, 0)];
    let bytes = |dtype: NumberFormat| -> Vec<u8> {
        let encode = |&(value, byte): &(f32, u8)| match dtype {
            NumberFormat::F32 => value.to_le_bytes().to_vec(),
            NumberFormat::F16 => half::f16::from_f32(value).to_le_bytes().to_vec(),
            NumberFormat::U8 => vec![byte],
        };
        values.iter().flat_map(encode).collect()
    };
    let region = Region { x0: 0.0, y0: -8.0, x1: 64.0, y1: 56.0 };
    for dtype in [NumberFormat::F32, NumberFormat::F16, NumberFormat::U8] {
        let inject = Inject { shape: [2, 3], dtype, ..inject("depth") };
        client.inject(Inject { region: Some(region), ..inject.clone() }, &bytes(dtype)).unwrap();
        client.inject(inject, &bytes(dtype)).unwrap();
        for expected in [region, Region::of(EXTENT)] {
            let injection = heard(&mut scene);
            assert_eq!((injection.name(), injection.region()), ("depth", expected));
            assert_eq!((injection.grid().width, injection.grid().height), (3, 2));
            assert_eq!((injection.frame_seq(), injection.ttl_ms()), (5, TTL_MS_DEFAULT));
            let sent = |&(value, byte)| {
                if dtype == NumberFormat::U8 { f32::from(byte) } else { value }
            };
            let sent: Vec<f32> = values.iter().map(sent).collect();
            assert_eq!(injection.values(), sent);
        }
    }
    scene.show(9, None, fixation(2, 1.0), true);
    client.inject(Inject { frame: Some(7), ttl_ms: Some(250), ..inject("depth") }, &[1]).unwrap();
    let injection = heard(&mut scene);
    assert_eq!((injection.frame_seq(), injection.ttl_ms()), (7, 250));
}

#[test]
fn invalid_channels_are_refused_and_counted() {
    let mut scene = scene();
    let mut client = scene.client();
    let f32s = |values: &[f32]| -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    };
    let square = || Inject { shape: [2, 2], dtype: NumberFormat::F32, ..inject("depth") };
    let flat = Region { x0: 5.0, y0: 5.0, x1: 5.0, y1: 9.0 };
    let beside = Region { x0: -9.0, y0: 0.0, x1: -1.0, y1: 9.0 };
    let shaped = |shape| Inject { shape, dtype: NumberFormat::U8, ..square() };
    let named = |name: &str| Inject { name: name.to_owned(), ..square() };
    let one = f32s(&[1.0; 4]);
    let long = "a".repeat(32);
    let mut cases = vec![
        (square(), f32s(&[1.0, f32::NAN, 0.0, 0.0]), RefusalReason::NotFinite, "value 1: NaN"),
        (square(), f32s(&[1.0, 0.0, f32::INFINITY, 0.0]), RefusalReason::NotFinite, "value 2"),
        (square(), f32s(&[1.0, 0.0, 0.0, 65505.0]), RefusalReason::BadRequest, "65504"),
        (square(), one[..15].to_vec(), RefusalReason::WrongCount, "15 bytes"),
        (square(), one[..12].to_vec(), RefusalReason::WrongCount, "3 values (expected 4)"),
        (square(), f32s(&[1.0; 5]), RefusalReason::WrongCount, "5 values (expected 4)"),
        (shaped([1, 129]), vec![1; 129], RefusalReason::MapTooLarge, "1 to 128"),
        (shaped([0, 4]), Vec::new(), RefusalReason::MapTooLarge, "1 to 128"),
        (Inject { region: Some(flat), ..square() }, one.clone(), RefusalReason::BadBox, "x0 < x1"),
        (
            Inject { region: Some(beside), ..square() },
            one.clone(),
            RefusalReason::BadBox,
            "outside",
        ),
        (Inject { frame: Some(6), ..square() }, one.clone(), RefusalReason::UnknownFrame, "is 5"),
        (Inject { ttl_ms: Some(0), ..square() }, one.clone(), RefusalReason::BadRequest, "60000"),
        (
            Inject { ttl_ms: Some(60001), ..square() },
            one.clone(),
            RefusalReason::BadRequest,
            "60001",
        ),
    ];
    for name in ["", "Depth", "a b", "a\"b", &long] {
        cases.push((named(name), one.clone(), RefusalReason::BadRequest, "1 to 31 of a-z"));
    }
    for channel in CHANNELS {
        cases.push((
            named(channel.name),
            one.clone(),
            RefusalReason::BadRequest,
            "Foveate computes",
        ));
    }
    for (request, numbers, expected, part) in &cases {
        let refused = refusal(client.inject(request.clone(), numbers));
        assert_eq!(refused.reason, *expected, "{request:?}: {refused}");
        assert!(refused.error.contains(part), "{part} is not in: {refused}");
    }
    scene.show(100, None, fixation(1, 1.0), true);
    scene.channel.set_oldest_frame(37);
    let old = Inject { frame: Some(36), strict: true, ..square() };
    assert_eq!(reason(client.inject(old, &one)), RefusalReason::FrameTooOld);
    assert_eq!(scene.heard(), None, "nothing of it reached the frame loop");
    let listed = client.list().unwrap()[0].views[0].clone();
    assert_eq!(listed.channels, [], "and nothing has a name");
    let refused: u64 = listed.steering.refused.values().sum();
    assert_eq!((listed.steering.accepted, refused), (0, cases.len() as u64 + 1));
    let counts = client.stats().unwrap().streams[0].views[0].counts;
    assert_eq!((counts.injections_accepted, counts.injections_late), (0, 0));

    client.inject(Inject { frame: Some(37), ..square() }, &one).unwrap();
    assert_eq!(client.stats().unwrap().streams[0].views[0].counts.injections_accepted, 1);
}

#[test]
fn channels_are_refused_where_no_policy_would_look_at_them() {
    let stage = Stage::open();
    let log = "gaze.log".into();
    let policies = [
        Policy::Fixed { x: 0.5, y: 0.5 },
        Policy::Feedback,
        Policy::Saliency,
        Policy::Replay { log },
    ];
    let views = policies.map(|policy| view_with(policy.name(), policy.clone()));
    let port = stage.stream_of("camera", views.to_vec());
    let _writer = start(&port);
    let mut client = Client::connect(&stage.path).unwrap();
    for policy in ["fixed", "feedback", "saliency", "replay"] {
        let view: ViewName = format!("camera/{policy}").parse().unwrap();
        let wanted = if policy == "replay" { "feedback" } else { "relevance" };
        let inject = Inject { view: view.clone(), ..inject("depth") };
        let weighed = Weigh { view, ..weigh("depth", 1.0) };
        for refused in [refusal(client.inject(inject, &[1])), refusal(client.weigh(weighed))] {
            assert_eq!(refused.reason, RefusalReason::Policy);
            for part in [format!("policy \"{policy}\""), format!("with the policy \"{wanted}\"")] {
                assert!(refused.error.contains(&part), "{part} is not in: {refused}");
            }
        }
    }
}

#[test]
fn maps_and_channels_need_a_fitting_view() {
    let mut scene = scene();
    let mut client = scene.client();
    let map = attend([1, 1], NumberFormat::U8);
    assert_eq!(reason(client.attend(map, &[1])), RefusalReason::Policy);
    assert_eq!(scene.heard(), None);

    let stage = Stage::open();
    let port = stage.stream_of("camera", vec![relevance_view()]);
    let mut client = Client::connect(&stage.path).unwrap();
    assert_eq!(reason(client.inject(inject("depth"), &[1])), RefusalReason::NotStarted);
    let _writer = start(&port);
    let refused = refusal(client.inject(inject("depth"), &[1]));
    assert_eq!(refused.reason, RefusalReason::NotStarted, "the view has no frame to refer to");
}

#[test]
fn a_name_is_its_clients_and_the_others_learn_who() {
    let mut scene = scene();
    let (mut first, mut second) = (scene.client(), scene.client());
    let minute = |name: &str| Inject { ttl_ms: Some(MINUTE_MS), ..inject(name) };
    first.inject(minute("depth"), &[1]).unwrap();
    second.inject(minute("flow"), &[2]).unwrap();
    first.inject(minute("depth"), &[3]).unwrap();
    let own = format!("process {}", std::process::id());
    let held = refusal(second.inject(minute("depth"), &[4]));
    assert_eq!(held.reason, RefusalReason::Held);
    assert!(held.holder.clone().unwrap().starts_with(&own), "{held:?}");
    assert!(held.error.contains(&own) && held.error.contains("another name"), "{held}");
    assert_eq!(reason(first.inject(minute("flow"), &[4])), RefusalReason::Held);
    let heard: Vec<_> = (0..3).map(|_| heard(&mut scene)).collect();
    let heard: Vec<_> = heard.iter().map(|map| (map.name(), map.values()[0])).collect();
    assert_eq!(heard, [("depth", 1.0), ("flow", 2.0), ("depth", 3.0)]);
    assert_eq!(scene.heard(), None);

    // The lease has nothing to do with it.
    first.look(Look::at(&main_view(), 1.0, 1.0)).unwrap();
    assert_eq!(reason(second.look(Look::at(&main_view(), 1.0, 1.0))), RefusalReason::Held);
    second.inject(minute("flow"), &[2]).unwrap();
}

#[test]
fn maps_of_a_client_end_with_its_connection() {
    let mut scene = scene();
    let (mut first, mut second) = (scene.client(), scene.client());
    let minute = |name: &str| Inject { ttl_ms: Some(MINUTE_MS), ..inject(name) };
    first.inject(minute("depth"), &[1]).unwrap();
    second.inject(minute("flow"), &[2]).unwrap();
    second.inject(minute("query"), &[3]).unwrap();
    // However many messages are waiting.
    for _ in 3..FEEDBACK_PENDING_MAX {
        first.inject(minute("depth"), &[4]).unwrap();
    }
    drop(second);
    until("the names are free", || names(&mut first) == ["depth"]);
    for _ in 0..FEEDBACK_PENDING_MAX {
        heard(&mut scene);
    }
    let gone = ["flow".to_owned(), "query".to_owned()];
    assert_eq!(scene.heard(), Some(Feedback::Withdraw(Arc::new(gone))));
    assert_eq!(scene.heard(), None);
    first.inject(minute("flow"), &[5]).unwrap();
    assert_eq!(names(&mut first), ["depth", "flow"]);
}

#[test]
fn a_channel_name_is_free_once_its_map_expires() {
    let scene = scene();
    let (mut first, mut second) = (scene.client(), scene.client());
    first.inject(Inject { ttl_ms: Some(1), ..inject("depth") }, &[1]).unwrap();
    until("its time is over", || second.inject(inject("depth"), &[1]).is_ok());
    assert_eq!(reason(first.inject(inject("depth"), &[1])), RefusalReason::Held);
}

#[test]
fn a_view_that_an_operator_changes_has_lost_its_channels() {
    let scene = scene();
    let [mut one, mut other] = [scene.client(), scene.client()];
    one.inject(inject("depth"), &[1]).unwrap();
    assert_eq!(refusal(other.inject(inject("depth"), &[1])).reason, RefusalReason::Held);
    scene.channel.set_config(relevance_view());
    assert_eq!(names(&mut one), [""; 0]);
    other.inject(inject("depth"), &[1]).unwrap();
    assert_eq!(names(&mut one), ["depth"]);
}

#[test]
fn so_many_channels_and_no_more() {
    let mut scene = scene();
    let (mut first, mut second) = (scene.client(), scene.client());
    let named = |number: usize| Inject { ttl_ms: Some(MINUTE_MS), ..inject(&format!("c{number}")) };
    for number in 0..INJECTED_MAX {
        let client = if number % 2 == 0 { &mut first } else { &mut second };
        client.inject(named(number), &[1]).unwrap();
        assert!(scene.heard().is_some());
    }
    for client in [&mut first, &mut second] {
        let refused = refusal(client.inject(named(INJECTED_MAX), &[1]));
        assert_eq!(refused.reason, RefusalReason::TooManyChannels);
        assert!(refused.error.contains("has 32 (expected at most 32,"), "{refused}");
    }
    first.inject(named(0), &[1]).unwrap();
    assert_eq!(names(&mut first).len(), INJECTED_MAX);
    drop(second);
    until("its maps are gone", || names(&mut first).len() == INJECTED_MAX / 2);
    first.inject(named(INJECTED_MAX), &[1]).unwrap();
}

#[test]
fn a_listing_has_the_channels_with_their_age() {
    let scene = scene();
    let mut client = scene.client();
    let depth = Inject { shape: [2, 3], ttl_ms: Some(MINUTE_MS), ..inject("depth") };
    client.inject(depth, &[1; 6]).unwrap();
    client.inject(Inject { ttl_ms: Some(1), ..inject("brief") }, &[1]).unwrap();
    until("the other is over", || names(&mut client) == ["depth"]);
    until("it has an age", || 5 < channels(&mut client)[0].age_ms);
    let [channel] = &channels(&mut client)[..] else { panic!("one is left") };
    assert_eq!((channel.shape, channel.frame, channel.ttl_ms), ([2, 3], 5, MINUTE_MS));
    assert!(channel.age_ms < u64::from(MINUTE_MS));
    let own = format!("process {}", std::process::id());
    assert!(channel.owner.starts_with(&own), "{channel:?}");
}

#[test]
fn weights_need_the_lease_and_arrive_together() {
    let mut scene = scene();
    let (mut first, mut second) = (scene.client(), scene.client());
    let weights = [("depth", 64.0_f32), ("edges", -0.25), ("not-there_yet", 0.0)];
    let sent = weights.map(|(name, weight)| (name.to_owned(), f64::from(weight)));
    first.weigh(Weigh { view: main_view(), weights: sent.into() }).unwrap();
    let expected = weights.map(|(name, weight)| ChannelWeight { name: name.to_owned(), weight });
    assert_eq!(scene.heard(), Some(Feedback::Weigh(Arc::new(expected))));
    let held = refusal(second.weigh(weigh("depth", 1.0)));
    assert_eq!(held.reason, RefusalReason::Held);
    assert!(held.holder.unwrap().starts_with("process "));
    first.release(&main_view()).unwrap();
    assert_eq!(scene.heard(), Some(Feedback::Release));
    second.weigh(weigh("depth", 1.0)).unwrap();
    assert_eq!(reason(first.look(Look::at(&main_view(), 1.0, 1.0))), RefusalReason::Held);
}

#[test]
fn each_thing_that_is_no_weight_is_refused() {
    let mut scene = scene();
    let mut client = scene.client();
    let many = |range: std::ops::Range<usize>| Weigh {
        view: main_view(),
        weights: range.map(|number| (format!("c{number}"), 1.0)).collect(),
    };
    for (weigh, part) in [
        (weigh("Depth", 1.0), "1 to 31 of a-z"),
        (weigh("depth", 64.01), "64.01 (expected a number within 64"),
        (weigh("depth", -1e308), "within 64"),
        (many(0..0), "invalid number of weights: 0 (expected 1 to 64)"),
        (many(0..65), "invalid number of weights: 65 (expected 1 to 64)"),
    ] {
        let refused = refusal(client.weigh(weigh));
        assert_eq!(refused.reason, RefusalReason::BadRequest, "{refused}");
        assert!(refused.error.contains(part), "{part} is not in: {refused}");
    }
    let raw = RawClient::connect(&scene.stage.path);
    for weights in [r#"{"depth":1e999}"#, r#"{"depth":null}"#, r#"{"depth":"1"}"#, "[1]"] {
        let answer = raw.ask(
            format!(r#"{{"op":"weigh","view":"camera/main","weights":{weights}}}"#).as_bytes(),
        );
        assert_eq!(answer["reason"], "bad-request", "{answer}");
    }
    assert_eq!(scene.heard(), None);

    // Those of earlier messages count, until they are taken back.
    client.weigh(many(0..CHANNEL_WEIGHTS_MAX)).unwrap();
    client.weigh(many(0..1)).unwrap();
    let refused = refusal(client.weigh(many(64..65)));
    assert_eq!(refused.reason, RefusalReason::TooManyChannels);
    for part in ["65 channels", "at most 64 of the 64", "`release`"] {
        assert!(refused.error.contains(part), "{refused}");
    }
    let weights = [("c0".to_owned(), 0.0), ("c64".to_owned(), 1.0)].into();
    client.weigh(Weigh { view: main_view(), weights }).unwrap();
    client.release(&main_view()).unwrap();
    client.weigh(many(100..100 + CHANNEL_WEIGHTS_MAX)).unwrap();
}

#[test]
fn more_than_the_queue_holds_is_refused_and_has_no_name() {
    let mut scene = scene();
    let mut client = scene.client();
    for _ in 0..FEEDBACK_PENDING_MAX {
        client.inject(inject("depth"), &[1]).unwrap();
    }
    assert_eq!(reason(client.inject(inject("flow"), &[1])), RefusalReason::Busy);
    assert_eq!(reason(client.weigh(weigh("flow", 1.0))), RefusalReason::Busy);
    assert!(names(&mut client).iter().all(|name| name == "depth"));
    let heard = std::iter::from_fn(|| scene.heard()).count();
    assert_eq!(heard, FEEDBACK_PENDING_MAX);
    client.inject(inject("flow"), &[1]).unwrap();
}

#[test]
fn channels_and_weights_queue_and_looks_replace() {
    let (mut channel, client) = channel();
    let look = |x| Feedback::look_at(x, 0.0, None);
    let map = |name: &str| {
        let area = (Extent::new(1, 1), Region::of(EXTENT));
        Feedback::Inject(Arc::new(Injection::new(name, area, EXTENT, vec![1.0], 1, 1).unwrap()))
    };
    let weights = |name: &str| {
        Feedback::Weigh(Arc::new([ChannelWeight { name: name.to_owned(), weight: 1.0 }]))
    };
    for (sent, expected) in [
        (vec![], vec![]),
        (vec![look(1.0), look(2.0)], vec![look(2.0)]),
        (vec![map("a"), map("c"), map("a")], vec![map("a"), map("c"), map("a")]),
        (
            vec![look(1.0), map("a"), look(2.0), weights("a"), look(3.0), map("c")],
            vec![map("a"), weights("a"), look(3.0), map("c")],
        ),
        (vec![look(1.0), weights("a"), Feedback::Release], vec![weights("a"), Feedback::Release]),
        // A look says nothing of weights, so what takes them back is not lost.
        (
            vec![weights("a"), look(1.0), Feedback::Release, map("a"), look(2.0)],
            vec![weights("a"), Feedback::Release, map("a"), look(2.0)],
        ),
    ] {
        let newest =
            sent.into_iter().map(|said| client.send_feedback(said, EXTENT, 1, false)).last();
        let taken: Vec<_> = taken(&mut channel).collect();
        assert_eq!(taken.iter().map(|(_, said)| said.clone()).collect::<Vec<_>>(), expected);
        assert!(taken.is_sorted_by_key(|(ticket, _)| *ticket));
        assert_eq!(taken.last().map(|(ticket, _)| *ticket), newest.flatten());
    }
}

fn taken(channel: &mut ViewChannel) -> impl Iterator<Item = (u64, Feedback)> {
    std::iter::from_fn(|| channel.next_feedback()).map(|next| (next.ticket, next.feedback))
}

pub(crate) fn relevance_view() -> ViewConfig {
    let policy = Policy::Relevance { scorer: None, weights: Default::default(), passes: 1 };
    let mut view = view_with("main", policy);
    view.gaze.parameters.lease_ms = 3_600_000;
    view
}

fn scene() -> Scene {
    Scene::of(relevance_view())
}

fn heard(scene: &mut Scene) -> Arc<Injection> {
    match scene.heard() {
        Some(Feedback::Inject(injection)) => injection,
        other => panic!("{other:?} is not a map"),
    }
}

fn channels(client: &mut Client) -> Vec<ChannelListing> {
    client.list().unwrap()[0].views[0].channels.clone()
}

fn names(client: &mut Client) -> Vec<String> {
    channels(client).into_iter().map(|channel| channel.name).collect()
}
