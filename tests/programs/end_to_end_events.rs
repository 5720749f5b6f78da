//! Events in the picture reach all subscribers, and only these.

use std::fs;
use std::time::Duration;

use foveate::client::{SubscribeOptions, Subscription};
use foveate::messages::{Look, SceneEvent};
use foveate_control::{ClientExt as _, StreamState};
use foveate_core::event::{EventKind, Phase};
use foveate_core::geometry::region::Region;
use foveate_ring::TokenFrameBuf;
use foveate_tool::recording::messages::SceneMessage as Recorded;
use prost::Message;
use serde_json::Value;
use testkit::daemon::{Daemon, Place};
use testkit::wait::until;

use crate::scrape::{metrics_address, scrape};

/// A camera with its cap on, and one that is not looked at.
const CONFIG: &str = "
[daemon]
metrics = '127.0.0.1:0'

[[stream]]
name = 'dark'
pipeline = 'videotestsrc is-live=true pattern=black ! video/x-raw,format=NV12,width=320,height=240,framerate=30/1 ! appsink name=frames'
backend = 'cpu'
events = true
[[stream.view]]
name = 'main'
publish = 'when-read'
gaze = { policy = 'feedback' }

[[stream]]
name = 'other'
pipeline = 'videotestsrc is-live=true pattern=black ! video/x-raw,format=NV12,width=320,height=240,framerate=30/1 ! appsink name=frames'
backend = 'cpu'
[[stream.view]]
name = 'main'
";

#[test]
fn a_covered_camera_is_told_by_every_way() {
    let place = Place::new();
    let daemon = place.daemon(CONFIG);
    let address = metrics_address(&daemon);
    let series = "foveate_event_holds{stream=\"dark\",kind=\"covered\"}";
    // Nobody reads the view, and still its stream is looked at.
    until("it is noticed", || scrape(address).get(series) == Some(&1.0));
    let samples = scrape(address);
    assert_eq!(samples["foveate_events_total{stream=\"dark\",kind=\"covered\"}"], 1.0);
    assert_eq!(samples["foveate_events_total{stream=\"dark\",kind=\"cut\"}"], 0.0);
    assert_eq!(samples["foveate_event_holds{stream=\"dark\",kind=\"frozen\"}"], 0.0);
    let is_of_other = |key: &String| {
        key.contains("\"other\"") && (key.contains("_events_total") || key.contains("_event_holds"))
    };
    assert!(!samples.keys().any(is_of_other), "nobody asked for events of it");

    let listing = daemon.listing("dark");
    assert_eq!(listing.holding, [EventKind::Covered]);
    assert_eq!(listing.events.into_iter().collect::<Vec<_>>(), [(EventKind::Covered, 1)]);
    let listed = place.foveate(&["ls", "-v"]).finish();
    assert!(listed.stdout.contains("1 covered") && listed.stdout.contains("now      covered"));

    let first = first_event(&mut follow(&daemon, "dark/main"));
    let scene = first.scene;
    assert_eq!((scene.kind, scene.phase), (EventKind::Covered, Phase::Began));
    assert!(scene.since_frame < scene.frame && 0 < first.capture_ns && 0 < first.capture_unix_ns);
    // A later one knows it as the same.
    let again = first_event(&mut follow(&daemon, "dark/main")).scene;
    assert_eq!((again.kind, again.since_frame), (scene.kind, scene.since_frame));

    let told = place.foveate(&["events", "dark", "--seconds", "2"]).finish();
    told.assert_clean_exit(0);
    let line = format!("dark/main: covered since frame {}", scene.since_frame);
    let told = told.stdout.lines().find(|told| told.contains(&line)).expect(&line);
    // Such as 2026-11-26T12:10:38.776Z.
    let time = told.split(' ').next().unwrap();
    assert!(time.len() == 24 && time.starts_with("20") && time.ends_with('Z'), "{told}");
    let told = place.foveate(&["events", "dark/main", "--json", "--seconds", "2"]).finish();
    let message: Value = serde_json::from_str(told.stdout.lines().next().unwrap()).unwrap();
    assert_eq!(message["scene"]["kind"], "covered");
    assert_eq!(told.stderr, "");
    until("the other is live", || daemon.listing("other").state == StreamState::Live);
    let told = place.foveate(&["events", "other", "--seconds", "1"]).finish();
    told.assert_clean_exit(0);
    assert!(told.stderr.contains("`events = true`"), "{told:?}");
    let none = place.foveate(&["events", "none", "--seconds", "1"]).finish();
    none.assert_clean_exit(2);
    assert!(none.message().contains("dark, other"), "{}", none.message());

    let path = place.path("run.mcap");
    let recorder =
        place.foveate(&["record", "dark/main", "--mcap", path.to_str().unwrap(), "--seconds", "2"]);
    recorder.finish().assert_clean_exit(0);
    let recorded = recorded(&fs::read(&path).unwrap());
    assert_eq!(recorded.len(), 1, "{recorded:?}");
    let Recorded { kind, phase, since_frame, .. } = &recorded[0];
    assert_eq!((&kind[..], &phase[..], *since_frame), ("covered", "began", scene.since_frame));
    daemon.stop();
}

/// Subscribers of a view are informed of a fixation that a client asks for; without `events` they get no events.
#[test]
fn a_requested_fixation_is_reported_as_an_event() {
    let place = Place::new();
    let daemon = place.daemon(CONFIG);
    let mut subscription = follow(&daemon, "dark/main");
    let mut plain = daemon.client().subscribe(&"dark/main".parse().unwrap(), false).unwrap();
    let mut frame = TokenFrameBuf::default();
    let mut client = daemon.client();
    until("frames arrive", || {
        plain.next_frame(&mut frame, Duration::from_millis(100)).unwrap();
        frame.head.stamp.frame_seq != 0
    });
    client.look(Look::at(&"dark/main".parse().unwrap(), 100.0, 80.0)).unwrap();
    let is_reached = |told: &SceneEvent| told.scene.kind == EventKind::Reached;
    let mut told = Vec::new();
    until("it is reached", || {
        subscription.next_frame(&mut frame, Duration::from_millis(100)).unwrap();
        told.extend(subscription.take_events());
        told.iter().any(is_reached)
    });
    // Nothing more comes of it, and nothing to those who did not ask.
    for _ in 0..10 {
        subscription.next_frame(&mut frame, Duration::from_millis(100)).unwrap();
        told.extend(subscription.take_events());
        plain.next_frame(&mut frame, Duration::from_millis(100)).unwrap();
    }
    let reached: Vec<_> = told.iter().filter(|told| is_reached(told)).collect();
    let at = Region { x0: 100.0, y0: 80.0, x1: 100.0, y1: 80.0 };
    assert_eq!((reached.len(), reached[0].scene.region), (1, Some(at)));
    assert!(plain.take_events().is_empty());
    daemon.stop();
}

/// How exact the clock is, is what the kernel says of it: the same in metrics, statistics and frames.
#[test]
fn the_quality_of_the_clock_is_the_same_everywhere() {
    let place = Place::new();
    let daemon = place.daemon(CONFIG);
    let address = metrics_address(&daemon);
    let mut follower = daemon.subscribe("other/main");
    let stamp = follower.next_frame().head.stamp;
    let stats = daemon.client().stats().unwrap().daemon.unwrap();
    assert_eq!(stats.clock_error_ns.is_some(), stamp.capture_error_ns != 0);
    let samples = scrape(address);
    assert_eq!(samples.contains_key("foveate_clock_error_seconds"), stamp.capture_error_ns != 0);
    assert_eq!(samples["foveate_clock_steps_total"], 0.0);
    assert_eq!((stamp.clock_steps, stats.clock_steps), (0, 0));
    daemon.stop();
}

fn follow(daemon: &Daemon<'_>, view: &str) -> Subscription {
    let options = SubscribeOptions { events: true, ..SubscribeOptions::default() };
    daemon.client().subscribe_to(&view.parse().unwrap(), options).unwrap()
}

fn first_event(subscription: &mut Subscription) -> SceneEvent {
    let (mut frame, mut events) = (TokenFrameBuf::default(), Vec::new());
    until("an event arrives", || {
        subscription.next_frame(&mut frame, Duration::from_millis(100)).unwrap();
        events.extend(subscription.take_events());
        !events.is_empty()
    });
    events.remove(0)
}

fn recorded(bytes: &[u8]) -> Vec<Recorded> {
    let messages = mcap::MessageStream::new(bytes).unwrap().map(Result::unwrap);
    let scenes = messages.filter(|message| message.channel.topic == "/dark/main/events");
    scenes.map(|message| Recorded::decode(&message.data[..]).unwrap()).collect()
}
