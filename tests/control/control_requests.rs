//! Every datagram is answered or its sender closed, with a reason, and one client is no other's trouble.

use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use foveate::ControlError;
use foveate::client::Client;
use foveate::messages::{
    DAEMON_STOPPED, DATAGRAM_BYTES_MAX, JSON_BYTES_MAX, Look, RefusalReason, STREAM_RESTARTED,
};
use foveate_control::ClientExt as _;
use foveate_gaze::feedback::Feedback;
use foveate_server::server::ServerLimits;
use rustix::io::Errno;
use serde_json::Value;
use testkit::control::{self, RawClient, Stage, UNLIMITED, main_view};
use testkit::left_out::leave_out;
use testkit::wait::{HANG, until};

#[test]
fn malformed_requests_are_refused_with_what_is_allowed() {
    let stage = Stage::open();
    let _streams = [stage.live_stream("camera", &["main"]), stage.live_stream("door", &["wide"])];
    let client = RawClient::connect(&stage.path);
    for (request, reason, part) in [
        (&b"hello"[..], "bad-request", "expected value"),
        (b"\xff\xfe", "bad-request", ""),
        (b"{", "bad-request", "EOF"),
        (b"[]", "bad-request", ""),
        (b"{}", "bad-request", "op"),
        (b"\n", "bad-request", "EOF"),
        (
            br#"{"op":"jump"}"#,
            "bad-request",
            "expected one of `subscribe`, `list`, `stats`, `look`",
        ),
        (br#"{"op":"list","limit":3}"#, "bad-request", "unknown field `limit`"),
        (br#"{"op":"subscribe"}"#, "bad-request", "view"),
        (br#"{"op":"subscribe","view":"camera"}"#, "bad-request", "STREAM/VIEW"),
        (br#"{"op":"subscribe","view":"camera/Main"}"#, "bad-request", "a-z, 0-9, `_` and `-`"),
        (br#"{"op":"subscribe","view":"a/b"}"#, "unknown-view", "`camera/main`, `door/wide`"),
        (br#"{"op":"look","view":"camera/main","points":[[null,1]]}"#, "bad-request", "null"),
        (br#"{"op":"look","view":"camera/main","points":[[1e999,1]]}"#, "bad-request", "range"),
        (b"{\"op\":\"list\"}\nraw", "bad-request", "3 raw bytes"),
    ] {
        let answer = client.ask(request);
        let request = String::from_utf8_lossy(request);
        assert_eq!(answer["ok"], false, "{request}");
        assert_eq!(answer["reason"], reason, "{request}");
        let error = answer["error"].as_str().unwrap();
        assert!(error.contains(part), "{request}: {error:?} does not say {part:?}");
    }
    assert_eq!(client.ask(b"{\"op\":\"list\"}\n")["ok"], true, "the connection still serves");
    let counted = stage.server().stats().snapshot().daemon.unwrap().server.refused;
    assert_eq!(counted.values().sum::<u64>(), 15);
}

#[test]
fn a_datagram_is_refused_exactly_above_the_limit() {
    let stage = Stage::open();
    let client = RawClient::connect(&stage.path);
    let mut request = br#"{"op":"list"}"#.to_vec();
    request.resize(JSON_BYTES_MAX, b' ');
    assert_eq!(client.ask(&request)["ok"], true);
    request.push(b' ');
    assert_eq!(client.ask(&request)["reason"], "too-large");

    *request.last_mut().unwrap() = b'\n';
    request.resize(DATAGRAM_BYTES_MAX, 0);
    let answer = client.ask(&request);
    assert!(answer["error"].as_str().unwrap().contains("raw bytes"), "{answer}");
    request.push(0);
    let answer = client.ask(&request);
    assert_eq!(answer["reason"], "too-large");
    assert!(answer["error"].as_str().unwrap().contains("131073"), "{answer}");
    assert_eq!(client.ask(br#"{"op":"list"}"#)["ok"], true, "the connection still serves");
}

#[test]
fn a_request_with_descriptors_is_refused_and_they_are_discarded() {
    let (_stage, client) = Stage::with_waiting(UNLIMITED, RawClient::connect);
    let (mut kept, sent) = UnixStream::pair().unwrap();
    client.send_descriptors(br#"{"op":"list"}"#, &[sent.as_fd(); 3]).unwrap();
    drop(sent);

    let answer: serde_json::Value = serde_json::from_slice(&client.receive()).unwrap();
    assert_eq!(answer["reason"], "bad-request", "{answer}");
    assert!(client.receive().is_empty(), "the client is closed");
    // The stream ends once its other side is closed everywhere, also in the server.
    kept.set_read_timeout(Some(HANG)).unwrap();
    assert_eq!(kept.read_to_end(&mut Vec::new()).unwrap(), 0);
}

#[test]
fn where_the_kernel_can_refuse_descriptors_none_is_sent() {
    let stage = Stage::open();
    let client = RawClient::connect(&stage.path);
    let (_, sent) = UnixStream::pair().unwrap();
    if client.send_descriptors(br#"{"op":"list"}"#, &[sent.as_fd()]).is_ok() {
        assert!(kernel_release() < (6, 16), "it knows SO_PASSRIGHTS");
        return leave_out("this kernel knows no SO_PASSRIGHTS");
    }
    assert_eq!(client.ask(br#"{"op":"list"}"#)["ok"], true, "the connection still serves");
}

fn kernel_release() -> (u32, u32) {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map(|number| number.parse().unwrap());
    (numbers.next().unwrap(), numbers.next().unwrap())
}

#[test]
fn requests_above_the_rate_are_refused_and_the_client_closed() {
    let stage =
        Stage::open_limited(ServerLimits { clients: 4, requests_per_second: 5, ..UNLIMITED });
    let client = RawClient::connect(&stage.path);
    let mut answers = Vec::new();
    for _ in 0..1000 {
        if client.send(br#"{"op":"list"}"#).is_err() {
            break;
        }
        let answer = client.receive();
        if answer.is_empty() {
            break;
        }
        answers.push(String::from_utf8(answer).unwrap());
    }
    let (last, others) = answers.split_last().unwrap();
    assert!(5 <= others.len(), "five requests at once are allowed: {answers:?}");
    assert!(others.iter().all(|answer| answer.contains("\"ok\":true")), "{others:?}");
    assert!(last.contains("rate-limit") && last.contains("at most 5 a second"), "{last}");
    assert!(client.receive().is_empty(), "the client is closed");
}

#[test]
fn long_requests_count_for_more() {
    let stage = Stage::open_limited(ServerLimits { requests_per_second: 20, ..UNLIMITED });
    let client = RawClient::connect(&stage.path);
    let mut request = br#"{"op":"list"}"#.to_vec();
    request.resize(JSON_BYTES_MAX, b' ');
    let answers = [(); 3].map(|()| client.ask(&request)["reason"].clone());
    assert_eq!(answers, [Value::Null, Value::Null, "rate-limit".into()], "8 + 8 + 8 are above 20");
}

#[test]
fn a_client_that_floods_still_learns_why_it_was_closed() {
    let stage =
        Stage::open_limited(ServerLimits { clients: 4, requests_per_second: 5, ..UNLIMITED });
    let client = RawClient::connect(&stage.path);
    // Sent at once, so that some are unread on the server's side when it closes.
    for _ in 0..12 {
        let _ = client.send(br#"{"op":"list"}"#);
    }
    let answers =
        std::iter::repeat_with(|| client.receive()).take_while(|answer| !answer.is_empty());
    let last = String::from_utf8(answers.last().unwrap()).unwrap();
    assert!(last.contains("rate-limit"), "{last}");
}

#[test]
fn clients_above_the_limit_are_told_so_until_one_leaves() {
    let stage = Stage::open_limited(ServerLimits { clients: 2, ..UNLIMITED });
    let mut first = Client::connect(&stage.path).unwrap();
    let mut second = Client::connect(&stage.path).unwrap();
    first.list().unwrap();
    second.list().unwrap();

    let mut third = Client::connect(&stage.path).unwrap();
    let error = third.list().unwrap_err();
    let ControlError::Refused(refusal) = error else { panic!("{error}") };
    assert_eq!(refusal.reason, RefusalReason::TooManyClients);
    assert_eq!(refusal.error, "too many clients: 2 are connected; try again later");

    drop(first);
    until("a place is free", || Client::connect(&stage.path).unwrap().list().is_ok());
    second.list().unwrap();
}

#[test]
fn a_client_that_never_reads_is_dropped_and_delays_nobody() {
    let stage = Stage::open();
    let _stream = stage.live_stream("camera", &["main"]);
    let mut other = Client::connect(&stage.path).unwrap();
    let deaf = RawClient::connect(&stage.path);
    let error = (0..1_000_000).find_map(|_| deaf.send(br#"{"op":"list"}"#).err());
    assert_eq!(error, Some(Errno::PIPE), "it is hung up on, not waited for");
    assert_eq!(other.list().unwrap().len(), 1);
    assert_eq!(stage.server().counters().clients_dropped.get(), 1);
}

#[test]
fn the_newest_look_reaches_the_frame_loop() {
    let stage = Stage::open();
    let (mut port, _writer) = stage.live_stream("camera", &["main", "other"]);
    let mut client = Client::connect(&stage.path).unwrap();
    let [channel, other] = &mut port.views[..] else { panic!("two views") };
    assert_eq!(channel.next_feedback(), None);

    client.look(Look::at(&main_view(), 5.0, 5.0)).unwrap();
    let looking = client.look(Look::at(&main_view(), -3.0, 1000.03)).unwrap();
    assert_eq!(looking.points, [(0.0, 48.0)]);
    let post = channel.next_feedback().unwrap();
    assert_eq!(post.feedback, Feedback::look_at(0.0, 48.0, None));
    assert_eq!(channel.next_feedback(), None, "a look is taken once");
    assert_eq!(other.next_feedback(), None, "and by its own view");

    let looking = client.look(Look::at(&main_view(), 10.04, 20.0)).unwrap();
    assert_eq!(looking.points, [(10.0625, 20.0)], "rounded to 1/16");
}

#[test]
fn looks_that_cannot_be_obeyed_are_refused() {
    let stage = Stage::open();
    let port = stage.stream("camera", &["main"]);
    let mut client = Client::connect(&stage.path).unwrap();
    let mut reason = || match client.look(Look::at(&main_view(), 1.0, 1.0)) {
        Err(ControlError::Refused(refusal)) => Some(refusal.reason),
        Ok(_) => None,
        Err(error) => panic!("{error}"),
    };
    assert_eq!(reason(), Some(RefusalReason::NotStarted));

    let _writer = control::start(&port);
    let taken = (0..1000).take_while(|_| reason().is_none()).count();
    assert_eq!(taken, 64, "looks that a stalled frame loop leaves untaken");
    assert_eq!(reason(), Some(RefusalReason::Busy));

    port.ended("end of the file");
    assert_eq!(reason(), Some(RefusalReason::Ended));
}

#[test]
fn steering_a_view_that_restarts_is_transient() {
    for ending in [DAEMON_STOPPED, STREAM_RESTARTED] {
        let stage = Stage::open();
        let (port, _writer) = stage.live_stream("camera", &["main"]);
        port.ended(ending);
        let mut client = Client::connect(&stage.path).unwrap();
        let error = client.look(Look::at(&main_view(), 1.0, 1.0)).unwrap_err();
        assert!(error.is_transient(), "{ending}: {error}");
    }
}

#[test]
fn a_connection_subscribes_once() {
    let stage = Stage::open();
    let _port = stage.stream("camera", &["main"]);
    let client = RawClient::connect(&stage.path);
    let request = br#"{"op":"subscribe","view":"camera/main"}"#;
    assert_eq!(client.ask(request)["ok"], true);
    assert_eq!(client.ask(request)["reason"], "already-subscribed");
}

#[test]
fn stopping_hangs_up_on_everybody() {
    let mut stage = Stage::open();
    let client = RawClient::connect(&stage.path);
    client.ask(br#"{"op":"list"}"#);
    stage.server.take().unwrap().stop();
    assert!(client.receive().is_empty());
    assert!(matches!(Client::connect(&stage.path), Err(ControlError::NoDaemon { .. })));
}

#[test]
fn a_listing_holds_everything_that_is_known() {
    let stage = Stage::open();
    let (port, writer) = stage.live_stream("camera", &["main", "other"]);
    let _starting = stage.stream("attic", &["main"]);
    port.counters().frames_captured.add(7);
    port.counters().frames_dropped.add(2);
    let streams = Client::connect(&stage.path).unwrap().list().unwrap();
    let streams = serde_json::to_value(streams).unwrap();

    let names = [&streams[0]["name"], &streams[1]["name"]];
    assert_eq!(names, ["attic", "camera"], "in the order of their names");
    assert_eq!(streams[0]["state"], "starting");
    assert!(streams[0]["extent"].is_null() && streams[0]["views"][0]["epoch"].is_null());

    let camera = &streams[1];
    assert_eq!(camera["state"], "live");
    assert_eq!(camera["source"], "test pattern of camera");
    assert_eq!(camera["format"], "NV12");
    assert_eq!(camera["extent"], serde_json::json!([64, 48]));
    assert_eq!(camera["backend"]["kind"], "cpu");
    assert_eq!(camera["frames_captured"], 7);
    assert_eq!(camera["frames_dropped"], 2);
    assert_eq!(camera["views"][0]["name"], "camera/main");
    assert_eq!(camera["views"][0]["epoch"], format!("{:016x}", writer.epoch()));
    assert_eq!(camera["views"][1]["name"], "camera/other");
    assert_eq!(camera["views"][1]["dtype"], "u8");
}

#[test]
fn stats_of_many_streams_come_in_pages_that_miss_nothing() {
    let stage = Stage::open();
    let names = (0..80).map(|index| format!("camera-{index:02}")).collect::<Vec<_>>();
    let ports = names.iter().map(|name| stage.stream(name, &["main", "wide"])).collect::<Vec<_>>();
    for (count, port) in (1..).zip(&ports) {
        port.counters().frames_published.add(count);
        port.update(|status| status.reason = "\u{1}".repeat(100_000));
    }
    let before = stage.server().counters().requests.get();
    let stats = Client::connect(&stage.path).unwrap().stats().unwrap();
    assert!(2 < stage.server().counters().requests.get() - before, "it took several pages");
    let counted =
        stats.streams.iter().map(|stream| (stream.name.as_str(), stream.counts.frames_published));
    assert!(counted.eq(names.iter().map(String::as_str).zip(1..)), "every stream once, in order");
    assert!(stats.streams.iter().all(|stream| stream.views.len() == 2));
    let daemon = stats.daemon.unwrap();
    assert_eq!((daemon.server.counts.clients, stats.next), (1, None));
    assert!(0 < daemon.process.resident_bytes && 0 < daemon.process.open_descriptors);
}

#[test]
fn a_long_listing_comes_in_pages_that_miss_nothing() {
    let stage = Stage::open();
    let views = (0..300).map(|index| format!("view-{index}-{}", "v".repeat(50)));
    let views = views.collect::<Vec<_>>();
    let views = views.iter().map(String::as_str).collect::<Vec<_>>();
    // One stream that fills pages alone, and many that fill one together.
    let mut ports = vec![stage.stream("middle", &views)];
    for index in 0..100 {
        ports.push(stage.stream(&format!("a{index}"), &["main", "wide"]));
        ports.push(stage.stream(&format!("z{index}"), &["main"]));
    }
    for port in &ports {
        port.update(|status| status.source = "\u{1}".repeat(100_000));
    }
    let streams = Client::connect(&stage.path).unwrap().list().unwrap();
    let mut expected = ports.iter().collect::<Vec<_>>();
    expected.sort_by_key(|port| port.views[0].name().stream().to_owned());
    let expected = expected.iter().flat_map(|port| &port.views).map(|view| view.name());
    let listed = streams.iter().flat_map(|stream| &stream.views).map(|view| &view.name);
    assert!(listed.eq(expected), "every view once, in order");
    assert_eq!(streams.len(), ports.len());
    assert!(2 < stage.server().counters().requests.get(), "it took several pages");
}
