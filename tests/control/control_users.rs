//! What one user takes of the daemon, others still get.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use foveate_config::ViewConfig;
use foveate_gaze::feedback::CHANNEL_WEIGHTS_MAX;
use foveate_gaze::relevance::injection::INJECTED_MAX;
use foveate_gaze::view::VIEWS_MAX;
use foveate_ring::Reader;
use foveate_server::directory::{StreamPort, ViewCommand};
use foveate_server::server::ServerLimits;
use rustix::fs::{Mode, OFlags};
use rustix::net::RecvFlags;
use serde_json::Value;
use testkit::control::{self, RawClient, Stage, UNLIMITED};
use testkit::users::{are_there, as_user, open_to_all};
use testkit::wait::until;

use crate::control_channels::relevance_view;
use crate::control_feedback::Scene;

const LIST: &[u8] = br#"{"op":"list"}"#;
const OPEN: &[u8] = br#"{"op":"open_view","stream":"camera","view":{"name":"mine","budget":4}}"#;

#[test]
fn connections_are_limited_per_user_and_for_strangers() {
    if !are_there() {
        return;
    }
    let stage = stage(ServerLimits { clients: 16, ..UNLIMITED });
    let first = connect(&stage.path, 5001, 20);
    let second = connect(&stage.path, 5002, 20);
    let third = connect(&stage.path, 5003, 1);
    let own = connect(&stage.path, 0, 20);
    assert_eq!([first, second, third, own].map(|connections| connections.len()), [8, 6, 0, 2]);
}

#[test]
fn connections_without_a_request_make_room() {
    let stage = stage(ServerLimits { clients: 4, ..UNLIMITED });
    let idle = [(); 3].map(|()| RawClient::connect(&stage.path));
    let busy = RawClient::connect(&stage.path);
    assert_eq!(busy.ask(LIST)["ok"], true);
    until("an idle client makes room", || is_served(&RawClient::connect(&stage.path)));
    let [first, ..] = &idle;
    assert_eq!(json(&first.receive())["reason"], "too-many-clients");
    assert!(first.receive().is_empty(), "it is hung up on");
    assert_eq!(busy.ask(LIST)["ok"], true, "who asked stays");
    assert_eq!(stage.server().counters().clients_evicted.get(), 1);
}

#[test]
fn a_user_gets_half_of_the_opened_views() {
    if !are_there() {
        return;
    }
    let stage = stage(ServerLimits { views_opened: 8, ..UNLIMITED });
    let _stream = stage.live_stream("camera", &["main"]);
    let mut kept = Vec::new();
    let mut opened = |user| {
        let clients = as_user(user, || [(); 3].map(|()| RawClient::connect(&stage.path)));
        let open =
            || clients.iter().map(|client| client.ask(br#"{"op":"open_view","stream":"camera"}"#));
        let answers: Vec<_> = open().chain(open()).chain(open()).collect();
        kept.extend(clients);
        answers.iter().filter(|answer| answer["ok"] == true).count()
    };
    assert_eq!([5001, 5002, 5003, 0].map(&mut opened), [4, 3, 0, 1]);
}

#[test]
fn a_user_gets_half_of_the_channels_of_a_view() {
    if !are_there() {
        return;
    }
    let mut scene = scene();
    let mut kept = Vec::new();
    let taken = [5001, 5002, 5003, 0].map(|user| {
        let client = as_user(user, || RawClient::connect(&scene.stage.path));
        let inject = |number: usize| {
            client.ask(&inject_request(&format!("of-{user}-{number}")))["ok"] == true
        };
        let taken = (0..=INJECTED_MAX).take_while(|number| inject(*number)).count();
        kept.push(client);
        while scene.heard().is_some() {}
        taken
    });
    assert_eq!(taken, [16, 12, 0, 4]);

    // What a client has ends with it.
    kept.remove(0);
    let [again, other] = [5001, 5003].map(|user| {
        let client = as_user(user, || RawClient::connect(&scene.stage.path));
        let is_granted = client.ask(&inject_request(&format!("again-{user}")))["ok"] == true;
        kept.push(client);
        is_granted
    });
    assert!(again && other);
}

#[test]
fn a_user_gets_half_of_the_weights_of_a_view() {
    if !are_there() {
        return;
    }
    let mut scene = scene();
    let taken = [5001, 5002, 5003, 0].map(|user| {
        let client = as_user(user, || RawClient::connect(&scene.stage.path));
        let weigh = |number: usize| {
            let request = format!(
                r#"{{"op":"weigh","view":"camera/main","weights":{{"of-{user}-{number}":1}}}}"#
            );
            client.ask(request.as_bytes())
        };
        // The lease of the client before ends with its connection.
        until("the lease is free", || weigh(0)["reason"] != "held");
        let taken = (0..=CHANNEL_WEIGHTS_MAX).take_while(|number| weigh(*number)["ok"] == true);
        let taken = taken.map(|_| while scene.heard().is_some() {}).count();
        assert_eq!(weigh(CHANNEL_WEIGHTS_MAX)["reason"], "too-many-channels");
        taken
    });
    assert_eq!(taken, [32, 24, 0, 8]);
}

/// A client that holds the name of a view, or the last place of a stream, has no say in what an operator's reload does.
#[test]
fn opened_views_make_way_for_configured_ones() {
    let stage = stage(UNLIMITED);
    let (port, _writer) = stage.live_stream("camera", &["main"]);
    let open = || {
        let client = RawClient::connect(&stage.path);
        assert_eq!(client.ask(OPEN)["ok"], true);
        assert_eq!(client.ask(br#"{"op":"subscribe","view":"camera/mine"}"#)["ok"], true);
        client
    };
    let is_added = |name: &str| {
        let (answer, _answered) = crossbeam_channel::bounded(1);
        let config = ViewConfig { name: name.to_owned(), ..ViewConfig::default() };
        stage.directory.add_view("camera", config, answer);
        port.commands.try_iter().any(|command| match command {
            ViewCommand::Add(port, _) => port.name().view() == name,
            _ => false,
        })
    };
    let loses = |client: &RawClient, reason: &str| {
        let end = json(&client.receive());
        assert!(end["reason"].as_str().unwrap().contains(reason), "{end}");
    };
    let client = open();
    assert!(is_added("mine"));
    loses(&client, "configuration has a view of that name");
    stage.directory.remove_view(&"camera/mine".parse().unwrap(), "it makes room");

    let client = open();
    for index in 2..VIEWS_MAX {
        assert!(is_added(&format!("more{index}")));
    }
    assert!(is_added("beyond"));
    loses(&client, "needs its place");
    assert!(!is_added("too-many"));
}

/// The memory of a closed view counts for as long as a reader keeps it, and is free when it does no longer.
#[test]
fn memory_that_a_reader_keeps_counts_until_it_lets_go() {
    let one = ViewConfig { budget: 4, ..ViewConfig::default() }.ring_bytes();
    let stage = stage(ServerLimits { opened_bytes: one + one / 2, ..UNLIMITED });
    let (port, _writer) = stage.live_stream("camera", &["main"]);
    let opened_bytes = || stage.server().counters().opened_bytes.get();
    let (client, kept) = open_and_subscribe(&stage, &port);
    let mapped = Reader::from_fd(kept.try_clone().unwrap()).unwrap();
    drop(client);
    until("the view is closed", || matches!(port.commands.try_recv(), Ok(ViewCommand::Close(_))));

    let refused = RawClient::connect(&stage.path).ask(OPEN);
    assert_eq!(refused["reason"], "too-many-views", "{refused}");
    assert!(refused["error"].as_str().unwrap().contains("mapped"), "{refused}");
    let path = format!("/proc/self/fd/{}", kept.as_raw_fd());
    let path = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
    drop(kept);
    let refused = RawClient::connect(&stage.path).ask(OPEN);
    assert_eq!(refused["ok"], false, "a mapping keeps it too: {refused}");
    drop(mapped);
    let refused = RawClient::connect(&stage.path).ask(OPEN);
    assert_eq!(refused["ok"], false, "so does a descriptor that can do nothing else: {refused}");
    assert!(0 < opened_bytes());

    drop(path);
    until("the memory is free", || opened_bytes() == 0);
    assert_eq!(RawClient::connect(&stage.path).ask(OPEN)["ok"], true);
}

/// Opens a view, plays its frame loop, and returns the client and its descriptor of the segment. The frame loop's end is dropped.
fn open_and_subscribe(stage: &Stage, port: &StreamPort) -> (RawClient, OwnedFd) {
    let client = RawClient::connect(&stage.path);
    assert_eq!(client.ask(OPEN)["ok"], true);
    let Ok(ViewCommand::Open(view)) = port.commands.recv() else { panic!("no view was opened") };
    let writer = control::writer(view.name());
    view.set_segment(writer.reader_fd().unwrap(), writer.epoch());
    assert_eq!(client.ask(br#"{"op":"subscribe","view":"camera/mine"}"#)["ok"], true);
    let (_, descriptor) =
        foveate::socket::receive(&client.0, &mut [0; 1024], RecvFlags::empty()).unwrap();
    (client, descriptor.unwrap())
}

/// A stage whose socket every user may use.
fn stage(limits: ServerLimits) -> Stage {
    let stage = Stage::open_limited(limits);
    open_stage(&stage);
    stage
}

/// A view with channels, on such a stage.
fn scene() -> Scene {
    let scene = Scene::of(relevance_view());
    open_stage(&scene.stage);
    scene
}

fn open_stage(stage: &Stage) {
    for folder in stage.path.ancestors().skip(1).take(2) {
        open_to_all(folder);
    }
}

/// Injects one value for a minute.
fn inject_request(name: &str) -> Vec<u8> {
    let head = format!(
        r#"{{"op":"inject","view":"camera/main","name":"{name}","shape":[1,1],"dtype":"u8","ttl_ms":60000}}"#
    );
    [head.as_bytes(), b"\n\x01"].concat()
}

/// Connects `count` times as `user`; connections that are refused are left out.
fn connect(path: &Path, user: u32, count: usize) -> Vec<RawClient> {
    let connect = || Some(RawClient::connect(path)).filter(is_served);
    as_user(user, || (0..count).filter_map(|_| connect()).collect())
}

/// Whether a request is granted; a connection that is refused may be closed before there is one.
fn is_served(client: &RawClient) -> bool {
    let _ = client.send(LIST);
    json(&client.receive())["ok"] == true
}

fn json(datagram: &[u8]) -> Value {
    serde_json::from_slice(datagram).unwrap()
}
