//! Whatever a client does, the others are served, its resources are released, and its answers are right.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};

use foveate::client::Client;
use foveate::messages::DATAGRAM_BYTES_MAX;
use foveate_control::ClientExt as _;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::{Fixation, FixationReason, Gaze};
use foveate_core::geometry::plan::TokenPlan;
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_ring::Waker;
use foveate_server::channel::{SUBSCRIBERS_PENDING_MAX, ViewChannel, ViewUpdate};
use foveate_server::directory::{StreamPort, ViewCommand};
use foveate_server::server::ServerLimits;
use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::net::sockopt::set_socket_linger;
use serde_json::Value;
use testkit::control::{EXTENT, RawClient, Stage, UNLIMITED};
use testkit::stream::channel;
use testkit::wait::{HANG, until};

const RECORD: &[u8] = br#"{"op":"subscribe","view":"camera/main","gaze":true}"#;
const NOTIFY: &[u8] = br#"{"op":"subscribe","view":"camera/main","notify":true}"#;

#[test]
fn a_recorder_that_leaves_takes_nothing_from_another() {
    let stage = Stage::open();
    let (mut port, _writer) = stage.live_stream("camera", &["main"]);
    let mut channel = port.views.remove(0);
    let [first, second] = [(); 2].map(|()| RawClient::connect(&stage.path));
    for recorder in [&first, &second] {
        assert_eq!(recorder.ask(RECORD)["ok"], true);
        assert_eq!(json(&recorder.receive())["event"], "segment");
    }
    drop(first);
    until_clients(&stage, 1);
    show(&mut channel, EXTENT, 7, 7.0);
    assert_eq!(json(&second.receive())["entry"]["frame"], 7);
}

#[test]
fn a_new_recorder_gets_no_leftover_records() {
    let (mut channel, client) = channel();
    let frames = || client.gazes.drain().iter().map(|note| note.frame_seq).collect::<Vec<_>>();
    client.gazes.set_wanted(true);
    show(&mut channel, EXTENT, 1, 1.0);
    client.gazes.set_wanted(false);
    show(&mut channel, EXTENT, 2, 2.0);
    client.gazes.set_wanted(true);
    show(&mut channel, EXTENT, 3, 3.0);
    assert_eq!(frames(), [3]);

    show(&mut channel, EXTENT, 4, 4.0);
    client.gazes.set_wanted(true);
    show(&mut channel, EXTENT, 5, 4.0);
    assert_eq!(frames(), [4, 5], "who comes beside another takes nothing from it");
}

#[test]
fn closed_views_count_until_released() {
    let stage = Stage::open_limited(ServerLimits { views_opened: 8, ..UNLIMITED });
    let (port, _writer) = stage.live_stream("camera", &["main"]);
    let (opened, last) = open_and_leave(&stage, 100);
    assert_eq!((opened, last["reason"].as_str()), (8, Some("too-many-views")), "{last}");
    assert_eq!(views(&stage), ["camera/main"]);

    // The frame loop takes them, and there is room again.
    assert_eq!(take_ports(&port), 8);
    assert_eq!(open_and_leave(&stage, 100).0, 8);
}

#[test]
fn a_name_is_free_as_soon_as_its_view_is_closed() {
    let stage = Stage::open();
    let (port, _writer) = stage.live_stream("camera", &["main"]);
    for _ in 0..4 {
        let client = RawClient::connect(&stage.path);
        let answer = client.ask(br#"{"op":"open_view","stream":"camera","view":{"name":"mine"}}"#);
        assert_eq!(answer["view"], "camera/mine", "{answer}");
        drop(client);
        until_clients(&stage, 0);
    }
    assert_eq!(take_ports(&port), 4, "the frame loop hears of each in turn");
}

#[test]
fn a_closed_view_releases_its_segment() {
    let stage = Stage::open();
    let (port, _writer) = stage.live_stream("camera", &["main"]);
    let owner = RawClient::connect(&stage.path);
    owner.ask(br#"{"op":"open_view","stream":"camera","view":{"name":"mine"}}"#);
    let Ok(ViewCommand::Open(view)) = port.commands.recv() else { panic!("no view was opened") };
    let follower = RawClient::connect(&stage.path);
    assert_eq!(follower.ask(br#"{"op":"subscribe","view":"camera/mine"}"#)["ok"], true);

    // A socket stands for the segment: its other end tells when it is closed.
    let (mut other_end, segment) = UnixStream::pair().unwrap();
    other_end.set_nonblocking(true).unwrap();
    view.set_segment(segment.into(), 1);
    assert_eq!(json(&follower.receive())["event"], "segment");
    drop(owner);
    assert_eq!(json(&follower.receive())["event"], "ended");
    // The follower's copy went when the event was received without it.
    assert_eq!(other_end.read(&mut [0; 1]).unwrap(), 0, "nobody holds it");
}

#[test]
fn an_oversized_view_is_refused_early() {
    let stage = Stage::open();
    let _stream = stage.live_stream("camera", &["main"]);
    let client = RawClient::connect(&stage.path);
    // As TOML, which repeats the names of all tables around a table, it would be megabytes.
    let (name, tables) = ("n".repeat(5_000), "\"t\":{},".repeat(100));
    let table = format!("{{\"{name}\":{{{}}}}}", tables.trim_end_matches(','));
    let request = format!(r#"{{"op":"open_view","stream":"camera","view":{table}}}"#);
    let answer = client.ask(request.as_bytes());
    assert_eq!(answer["reason"], "bad-request");
    let error = answer["error"].as_str().unwrap();
    assert!(error.contains("expected at most 4096"), "{:.200}", error);
}

/// Parsing it would take as long as hundreds of other requests.
#[test]
fn a_request_with_too_much_json_is_refused_unparsed() {
    let stage = Stage::open();
    let client = RawClient::connect(&stage.path);
    let depth = 20_000;
    let request = format!(r#"{{"op":"list","after":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
    let answer = client.ask(request.as_bytes());
    assert_eq!(answer["reason"], "too-large");
    assert!(answer["error"].as_str().unwrap().contains("at most 8192"), "{answer}");
    assert_eq!(client.ask(br#"{"op":"list"}"#)["ok"], true);
}

#[test]
fn a_refusal_fits_a_datagram_however_long_what_it_quotes_is() {
    let stage = Stage::open();
    let _stream = stage.live_stream("camera", &["main"]);
    let client = RawClient::connect(&stage.path);
    let (long, wide) = ("x".repeat(DATAGRAM_BYTES_MAX - 60), "\u{7f}".repeat(4_000));
    for request in [
        format!(r#"{{"op":"open_view","stream":"{long}"}}"#),
        format!(r#"{{"op":"open_view","stream":"camera","view":{{"name":"{wide}"}}}}"#),
        format!(r#"{{"op":"open_view","stream":"camera","view":{{"{wide}":1}}}}"#),
        format!(r#"{{"op":"{long}"}}"#),
        format!(r#"{{"op":"look","view":"{long}","points":[[1,1]]}}"#),
    ] {
        client.send(request.as_bytes()).unwrap();
        let answer = client.receive();
        assert!(answer.len() <= DATAGRAM_BYTES_MAX, "{} bytes", answer.len());
        assert_eq!(json(&answer)["ok"], false);
    }
}

#[test]
fn clients_that_come_and_go_without_end_delay_nobody() {
    let stage = Stage::open_limited(ServerLimits { clients: 2, ..UNLIMITED });
    let client = RawClient::connect(&stage.path);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    drop(RawClient::connect(&stage.path));
                }
            });
        }
        for _ in 0..200 {
            assert_eq!(client.ask(br#"{"op":"list"}"#)["ok"], true);
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn process_names_are_shown_printable() {
    let stage = Stage::open();
    let _stream = stage.live_stream("camera", &["main"]);
    let name = std::fs::read("/proc/self/comm").unwrap();
    std::fs::write("/proc/self/comm", b"a\x1b[2J\nb").unwrap();
    let [first, second] = [(); 2].map(|()| RawClient::connect(&stage.path));
    let look = br#"{"op":"look","view":"camera/main","points":[[1,1]]}"#;
    assert_eq!(first.ask(look)["ok"], true);
    let answer = second.ask(look);
    std::fs::write("/proc/self/comm", name).unwrap();
    let holder = answer["holder"].as_str().unwrap();
    assert_eq!(holder, format!("process {} (a?[2J?b)", std::process::id()));
}

#[test]
fn gone_subscribers_free_their_place_in_still_streams() {
    let stage = Stage::open();
    let (port, _writer) = stage.live_stream("camera", &["main"]);
    let channel = &port.views[0];
    let stays = RawClient::connect(&stage.path);
    assert_eq!(stays.ask(NOTIFY)["ok"], true);
    for number in 0..2 * SUBSCRIBERS_PENDING_MAX {
        let client = RawClient::connect(&stage.path);
        assert_eq!(client.ask(NOTIFY)["ok"], true, "subscriber {number}");
        drop(client);
        until_clients(&stage, 1);
    }
    let waiting = channel.subscribers().try_iter().collect::<Vec<_>>();
    let is_open = |socket: &&std::os::fd::OwnedFd| {
        let flags = RecvFlags::DONTWAIT | RecvFlags::PEEK;
        rustix::net::recv(*socket, &mut [0; 1], flags).err() == Some(Errno::AGAIN)
    };
    assert_eq!(waiting.iter().filter(is_open).count(), 1, "who stays keeps its place");
}

#[test]
fn feedback_names_no_frame_of_another_extent() {
    let stage = Stage::open();
    let (mut port, _writer) = stage.live_stream("camera", &["main"]);
    let mut channel = port.views.remove(0);
    let client = RawClient::connect(&stage.path);
    let look = |frame: u64| {
        let request =
            format!(r#"{{"op":"look","view":"camera/main","points":[[1,1]],"frame":{frame}}}"#);
        client.ask(request.as_bytes())["reason"].clone()
    };
    show(&mut channel, EXTENT, 9, 1.0);
    assert_eq!(look(9), Value::Null);
    let other = Extent::new(32, 32);
    port.update(|status| status.extent = Some(other));
    show(&mut channel, other, 10, 1.0);
    assert_eq!((look(9), look(10)), (Value::from("frame-too-old"), Value::Null));
}

#[test]
fn a_squatted_view_name_blocks_no_unnamed_view() {
    let stage = Stage::open();
    let (_port, _writer) = stage.live_stream("camera", &["main"]);
    let [squatter, client] = [(); 2].map(|()| RawClient::connect(&stage.path));
    let squat = br#"{"op":"open_view","stream":"camera","view":{"name":"open-2-1"}}"#;
    assert_eq!(squatter.ask(squat)["ok"], true);
    assert_eq!(client.ask(br#"{"op":"open_view","stream":"camera"}"#)["view"], "camera/open-2-2");
}

#[test]
fn a_descriptor_that_takes_its_time_to_close_delays_nobody() {
    let (stage, waiting) =
        Stage::with_waiting(UNLIMITED, |path| [(); 3].map(|()| RawClient::connect(path)));
    let (port, writer) = stage.live_stream("camera", &["main", "a", "b", "c"]);
    let waker = Waker::new(&writer, port.views[0].subscribers()).unwrap();
    let other = RawClient::connect(&stage.path);
    // They are sent while the server does not listen, so that only the server holds them.
    let empty_before_them = [("a", 0), ("b", 1), ("c", 200)];
    let mut waiting = waiting.into_iter();
    let clients = empty_before_them.map(|(view, count)| {
        let client = waiting.next().unwrap();
        assert_eq!(client.ask(NOTIFY)["ok"], true);
        assert_eq!(json(&client.receive())["event"], "segment");
        until("the waker has its socket", || {
            waker.wake();
            rustix::net::recv(&client.0, &mut [0; 16], RecvFlags::DONTWAIT).is_ok()
        });
        let wait =
            format!(r#"{{"op":"look","view":"camera/{view}","points":[[1,1]],"wait":true}}"#);
        client.send(wait.as_bytes()).unwrap();
        for _ in 0..count {
            client.send(b"").unwrap();
        }
        std::mem::forget(send_lingering(&client));
        client
    });
    drop(clients);
    until_clients(&stage, 1);
    assert_eq!(other.ask(br#"{"op":"list"}"#)["ok"], true);
    // Neither does the frame loop wait, which holds copies of the sockets.
    let (sender, woken) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        waker.wake();
        sender.send(()).unwrap();
    });
    woken.recv_timeout(HANG).unwrap();
}

#[test]
fn clients_that_left_descriptors_behind_lock_nobody_out() {
    let (mut stage, mut unread) = Stage::with_waiting(ServerLimits::default(), |path| {
        (0..200).map(|_| send_lingering(&RawClient::connect(path))).collect::<Vec<_>>()
    });
    let client = RawClient::connect(&stage.path);
    assert_eq!(client.ask(br#"{"op":"list"}"#)["ok"], true);
    drop(client);
    until_clients(&stage, 0);
    let (sender, stopped) = std::sync::mpsc::channel();
    let server = stage.server.take();
    std::thread::spawn(move || {
        drop(server);
        sender.send(()).unwrap();
    });
    stopped.recv_timeout(HANG).expect("the server stops");
    // Its end comes once the daemon has closed the other side, which waits for none of those that nobody reads.
    let last = unread.last_mut().unwrap();
    last.set_read_timeout(Some(HANG)).unwrap();
    last.read_to_end(&mut Vec::new()).unwrap();
}

/// Sends a TCP socket whose last close takes three times [`HANG`], while the other side, which is returned, is not read.
fn send_lingering(client: &RawClient) -> TcpStream {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (unread, _) = listener.accept().unwrap();
    socket.set_nonblocking(true).unwrap();
    while (&socket).write(&[0; 1 << 16]).is_ok() {}
    socket.set_nonblocking(false).unwrap();
    set_socket_linger(&socket, Some(3 * HANG)).unwrap();
    client.send_descriptors(br#"{"op":"list"}"#, &[socket.as_fd()]).unwrap();
    unread
}

/// Opens views, four a client, until one is refused or there were `most`; all clients leave. Returns how many were opened and the
/// last answer.
fn open_and_leave(stage: &Stage, most: usize) -> (usize, Value) {
    let mut opened = 0;
    loop {
        let client = RawClient::connect(&stage.path);
        let mut answer = Value::Null;
        for _ in 0..4 {
            answer = client.ask(br#"{"op":"open_view","stream":"camera"}"#);
            opened += usize::from(answer["ok"] == true);
        }
        drop(client);
        until_clients(stage, 0);
        if answer["ok"] == false || most <= opened {
            return (opened, answer);
        }
    }
}

/// Takes what a frame loop would take, and returns how many views came and went.
fn take_ports(port: &StreamPort) -> usize {
    let commands = port.commands.try_iter().collect::<Vec<_>>();
    let mut open = Vec::new();
    let mut count = 0;
    for command in commands {
        match command {
            ViewCommand::Open(view) => open.push(view),
            ViewCommand::Close(name) => {
                let index = open.iter().position(|view| *view.name() == name).unwrap();
                open.remove(index);
                count += 1;
            }
            other => panic!("{other:?} is for operators"),
        }
    }
    assert!(open.is_empty(), "every view was closed");
    count
}

/// Waits until the server has `count` clients besides the one that asks.
fn until_clients(stage: &Stage, count: u64) {
    let mut client = Client::connect(&stage.path).unwrap();
    while client.listing().unwrap().server.unwrap().counts.clients != count + 1 {
        std::thread::yield_now();
    }
}

fn views(stage: &Stage) -> Vec<String> {
    let streams = Client::connect(&stage.path).unwrap().list().unwrap();
    streams.iter().flat_map(|stream| &stream.views).map(|view| view.name.to_string()).collect()
}

/// The frame loop of the view looks at (`x`, 1) of a picture of `extent` from frame `frame_seq` on.
fn show(channel: &mut ViewChannel, extent: Extent, frame_seq: u64, x: f64) {
    let at = Fixation::at((x, 1.0), FixationReason::Look);
    let fixation = Fixation { id: frame_seq, since_frame: frame_seq, ..at };
    channel.update(&ViewUpdate {
        frame_seq,
        shape: PyramidShape::new(extent),
        gaze: &Gaze::at(fixation, None),
        plan: &TokenPlan { patch_side: 14, tokens: Vec::new() },
        plan_since: frame_seq,
        is_planned_afresh: false,
        is_settled: true,
    });
}

fn json(datagram: &[u8]) -> Value {
    serde_json::from_slice(datagram).expect("the daemon speaks JSON")
}
