//! Readers of the real `foveated` that are stopped or killed hold up nothing and leave nothing behind; and where the
//! daemon is killed, every reader learns of it, and continues with the next daemon if it reconnects.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use foveate::ControlError;
use foveate::client::{Client, Next, Subscription, SubscriptionError};
use foveate::messages::ViewName;
use foveate_control::ClientExt as _;
use foveate_core::frame::PixelFormat;
use foveate_core::geometry::extent::Extent;
use foveate_ring::{Reader, TokenFrameBuf};
use foveate_stats::NoticeCounts;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::Signal;
use testkit::daemon::{Follower, Place, Process, ProcessResources};
use testkit::is_long;
use testkit::naive::Random;
use testkit::players::{Line, Player, plays};
use testkit::scene::{FedStream, PATTERN, bt601, random_film, view};
use testkit::wait::{HANG, until};

const EXTENT: Extent = Extent::new(96, 64);

/// What readers do until they are killed: each ends at another place.
const PARTS: [&str; 6] = ["opening", "listing", "reading", "waiting", "notified", "borrowing"];

/// Readers at a time that wait to be killed.
const DOOMED: usize = 8;

/// Frames between two readers that are killed.
const FRAMES_BETWEEN: u32 = 4;

/// As many as a daemon serves beside the neighbour and the one that asks for listings.
const CROWD: usize = 62;

/// More notices than a socket has room for.
const SOCKET_HOLDS: u64 = 5_000;

/// Twice the slots of a ring.
const ROUND_TWICE: u64 = 16;

/// Debian's own, for which its NumPy is.
const PYTHON: &str = "/usr/bin/python3";

#[test]
fn killed_readers_disturb_no_other_reader() {
    if plays(read_until_killed) {
        return;
    }
    let place = Place::new();
    let mut scene = scene(&place);
    let before = ProcessResources::of(scene.daemon.process.id());
    let mut random = Random(3);
    let mut doomed: Vec<_> = (0..DOOMED).map(|_| random_part(&place, &mut random)).collect();
    for _ in 0..if is_long() { 1_000 } else { 100 } {
        let next = random_part(&place, &mut random);
        let mut victim = std::mem::replace(&mut doomed[index_below(&mut random, DOOMED)], next);
        // Half of them are at work when their end comes, the others wherever they have come to.
        if random.below(2) == 0 {
            assert_eq!(victim.hear(), "begun");
        }
        scene.show(u64::from(random.below(FRAMES_BETWEEN)));
        victim.kill();
    }
    doomed.into_iter().for_each(Player::kill);
    scene.belongings_at_rest(&before);
    // A frame is counted a moment after readers have it.
    until("every frame is counted", || {
        scene.daemon.listing("camera").counts.frames_published == scene.sent
    });
    let listing = scene.daemon.listing("camera");
    assert_eq!((listing.counts.frames_dropped, listing.counts.frames_refused), (0, 0));
    assert!(0 < notices(&mut scene).subscribers_gone, "{:?}", notices(&mut scene));
    scene.end();
}

#[test]
fn stopped_readers_delay_no_frame() {
    if plays(read_until_killed) {
        return;
    }
    let place = Place::new();
    let mut scene = scene(&place);
    let before = ProcessResources::of(scene.daemon.process.id());
    for count in [0, 1, 16, CROWD] {
        // The first is one with notices, whose socket fills up.
        let parts = ["notified", "borrowing", "waiting", "reading"].iter().cycle().take(count);
        let mut readers: Vec<_> = parts.map(|part| start(part, &place)).collect();
        for reader in &mut readers {
            assert_eq!(reader.hear(), "begun");
            reader.stop();
        }
        let skipped = notices(&mut scene).skipped;
        scene.show(ROUND_TWICE);
        let last = scene.sent + SOCKET_HOLDS;
        while 0 < count && notices(&mut scene).skipped < skipped + 3 {
            assert!(scene.sent < last, "a full socket is not counted: {:?}", notices(&mut scene));
            scene.show(50);
        }
        assert!(0 < count || notices(&mut scene).skipped == skipped);

        // Some are killed while stopped, the others continue.
        let (killed, woken): (Vec<_>, Vec<_>) =
            readers.into_iter().enumerate().partition(|(index, _)| index % 3 == 2);
        killed.into_iter().for_each(|(_, reader)| reader.kill());
        for (index, mut reader) in woken {
            reader.signal(Signal::CONT);
            reader.line.say("go on");
            scene.show(1);
            // It reads the newest frame, and one that it had borrowed is known to be gone.
            let expected = if index % 4 == 1 { "lapped" } else { "read" };
            assert_eq!(reader.hear(), expected);
            reader.kill();
        }
        scene.belongings_at_rest(&before);
    }
    scene.end();
}

#[test]
fn every_reader_notices_a_killed_daemon() {
    if plays(read_until_killed) {
        return;
    }
    let place = Place::new();
    let daemon = place.daemon(PATTERN);
    let mut follower = daemon.subscribe("camera/main");
    let mut readers = ["waiting", "notified", "reading"].map(|part| start(part, &place));
    let watch = place.foveate(&["watch", "camera/main", "--json"]);
    let c = place.c_program("print", &["camera/main"]);
    let python = python_reader(&place, false);
    follower.next_frame();
    for reader in &mut readers {
        assert_eq!(reader.hear(), "begun");
    }
    watch.stdout.wait_for("\n");
    c.stdout.wait_for("tokens around");
    python.stdout.wait_for("\n");
    daemon.process.signal(Signal::KILL);
    assert_eq!(daemon.process.finish().signal, Some(9));

    until_lost(&mut follower);
    for mut reader in readers {
        assert_eq!(reader.hear(), "the daemon is gone");
        reader.finish();
    }
    let outcome = watch.finish();
    outcome.assert_clean_exit(69);
    assert!(outcome.message().starts_with("foveate: the daemon is gone"), "{outcome:?}");
    let outcome = c.finish();
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    assert!(outcome.message().contains("the daemon is gone"), "{outcome:?}");
    let outcome = python.finish();
    outcome.assert_clean_exit(0);
    assert!(outcome.stdout.ends_with("hung up\n"), "{outcome:?}");
}

#[test]
fn reconnecting_readers_follow_the_restarted_daemon() {
    let place = Place::new();
    let mut daemon = place.daemon(PATTERN);
    let mut follower = daemon.subscribe("camera/main");
    let watch = place.foveate(&["watch", "camera/main", "--json", "--reconnect"]);
    let c = place.c_program("control_loop", &["camera/main", "0"]);
    let python = python_reader(&place, true);
    let mut c_said = 0;
    let rounds = if is_long() { 20 } else { 3 };
    for round in 0..=rounds {
        follower.next_frame();
        let epoch = format!("{:016x}", follower.segment().epoch);
        watch.stdout.wait_for(&epoch);
        python.stdout.wait_for(&epoch);
        until("the control loop sees again", || {
            let news = &c.stdout.so_far()[c_said..];
            let reopened = if round == 0 { Some(0) } else { news.rfind("reopened\n") };
            reopened.is_some_and(|at| news[at..].contains("sees\n"))
        });
        c_said = c.stdout.so_far().len();
        if round == rounds {
            break;
        }
        // Killed, and once in a while asked to end.
        let signal = if round == 1 { Signal::TERM } else { Signal::KILL };
        daemon.process.signal(signal);
        daemon.process.finish();
        until_lost(&mut follower);
        daemon = place.daemon(PATTERN);
        follower.subscription.reconnect().unwrap();
    }
    for reader in [watch, c] {
        reader.signal(Signal::TERM);
        reader.finish().assert_clean_exit(0);
    }
    let log = daemon.stop().stderr;
    assert!(log.contains("taking over the socket of a daemon that has ended"), "{log}");
}

#[test]
fn every_documented_failure_names_existing_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let document = fs::read_to_string(root.join("tests/FAILURES.md")).unwrap();
    let rows = document.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| ---"));
    let mut count = 0;
    for row in rows.filter(|row| !row.ends_with("| Test |")) {
        let proof = row.trim_end_matches(" |").rsplit(" | ").next().unwrap();
        let mut quoted: Vec<_> = proof.split('`').skip(1).step_by(2).collect();
        assert!(2 <= quoted.len(), "{row}");
        // Names, and behind them the file that they are in.
        while let Some(at) = quoted.iter().position(|name| name.contains('/')) {
            let text = fs::read_to_string(root.join(quoted[at])).unwrap();
            for name in &quoted[..at] {
                let is_there = [format!(" {name}("), format!("LAW({name})")];
                assert!(
                    is_there.iter().any(|name| text.contains(name)),
                    "no {name} in {}",
                    quoted[at]
                );
            }
            quoted.drain(..=at);
        }
        assert!(quoted.is_empty(), "{quoted:?} are in no file");
        count += 1;
    }
    assert!(20 <= count, "{count} rows");
}

/// A stream whose frames a test sends one by one, and a neighbour that reads every one of them.
fn scene(place: &Place) -> FedStream<'_> {
    let film = random_film(PixelFormat::Gray8, EXTENT, bt601(), 20);
    let settings = format!("backend = 'cpu'\n{}", view("main", "budget = 20"));
    let mut scene = FedStream::open(place, film, &settings, "camera/main");
    scene.show(2);
    scene
}

/// Counts of notices.
fn notices(scene: &mut FedStream<'_>) -> NoticeCounts {
    scene.client.list().unwrap()[0].views[0].notices
}

/// The part of a reader, which ends with the daemon or is killed: it says that it has begun, and after the word to go
/// on what it came to.
fn read_until_killed(part: &str, line: &Line) {
    let (part, socket) = part.split_once(' ').unwrap();
    let socket = Path::new(socket);
    match part {
        "opening" => open_again_and_again(socket, line),
        "listing" => list_again_and_again(socket, line),
        "borrowing" => borrow_again_and_again(socket, line),
        _ => read_again_and_again(part, socket, line),
    }
}

fn open_again_and_again(socket: &Path, line: &Line) {
    let mut frame = TokenFrameBuf::default();
    for number in 0.. {
        let mut subscription = subscribed(socket, number % 2 == 0);
        while subscription.next_frame(&mut frame, HANG).unwrap() != Next::NewSegment {}
        if number == 0 {
            line.say("begun");
        }
    }
}

fn list_again_and_again(socket: &Path, line: &Line) {
    let mut is_first = true;
    loop {
        match Client::connect(socket).unwrap().list() {
            Err(ControlError::Refused(refusal)) => panic!("{refusal}"),
            answer => assert!(!answer.unwrap().is_empty()),
        }
        if std::mem::take(&mut is_first) {
            line.say("begun");
        }
    }
}

/// Holds every frame for as long as the one who started it wants.
fn borrow_again_and_again(socket: &Path, line: &Line) {
    let connection = Line(connected(socket));
    connection.say(r#"{"op":"subscribe","view":"camera/main"}"#);
    assert!(connection.hear().starts_with(r#"{"ok":true"#));
    let (_, descriptor) = connection.receive();
    let mut reader = Reader::from_fd(descriptor.unwrap()).unwrap();
    loop {
        let Some(borrowed) = reader.borrow_newest().unwrap() else {
            reader.wait(HANG);
            continue;
        };
        line.say("begun");
        line.hear();
        line.say(if borrowed.finish().is_err() { "lapped" } else { "read" });
    }
}

fn read_again_and_again(part: &str, socket: &Path, line: &Line) {
    let mut subscription = subscribed(socket, part == "notified");
    let mut frame = TokenFrameBuf::default();
    let mut is_first = true;
    loop {
        if part == "notified" {
            poll(&mut [PollFd::new(&subscription, PollFlags::IN)], None).unwrap();
        }
        let timeout = if part == "waiting" { HANG } else { Duration::ZERO };
        match subscription.next_frame(&mut frame, timeout) {
            Ok(Next::Frame { .. }) if std::mem::take(&mut is_first) => line.say("begun"),
            Ok(Next::Frame { .. }) if line.has_words(Duration::ZERO) => {
                line.hear();
                line.say("read");
            }
            Ok(_) => thread::yield_now(),
            Err(SubscriptionError::Disconnected) => return line.say("the daemon is gone"),
            Err(error) => panic!("{error}"),
        }
    }
}

fn subscribed(socket: &Path, notify: bool) -> Subscription {
    let view: ViewName = "camera/main".parse().unwrap();
    Client::connect(socket).unwrap().subscribe(&view, notify).unwrap()
}

fn connected(path: &Path) -> OwnedFd {
    let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
    let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None).unwrap();
    rustix::net::connect(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
    socket
}

fn start(part: &str, place: &Place) -> Player {
    Player::start(&format!("{part} {}", place.socket().display()))
}

fn random_part(place: &Place, random: &mut Random) -> Player {
    start(PARTS[index_below(random, PARTS.len())], place)
}

fn index_below(random: &mut Random, count: usize) -> usize {
    random.below(u32::try_from(count).unwrap()) as usize
}

/// The daemon is gone, and every frame was read.
fn until_lost(follower: &mut Follower) {
    loop {
        match follower.subscription.next_in_order(&mut follower.frame, HANG) {
            Ok(Next::Frame { .. } | Next::NewSegment) => {}
            Ok(Next::Ended(reason)) => return assert_eq!(reason, "daemon_stopped"),
            Err(SubscriptionError::Disconnected) => return,
            other => panic!("{other:?}"),
        }
    }
}

/// Prints the epoch of each frame, and at the end how it came.
fn python_reader(place: &Place, reconnect: bool) -> Process {
    let reconnect = if reconnect { "True" } else { "False" };
    let script = format!(
        "import foveate\n\
         view = foveate.open('camera/main', reconnect={reconnect})\n\
         try:\n    \
             while True:\n        \
                 print(format(view.read(timeout=None).epoch, '016x'), flush=True)\n\
         except foveate.Ended as ended:\n    \
             print('hung up' if ended.hung_up else ended.reason)\n"
    );
    let mut command = Command::new(PYTHON);
    command.args(["-B", "-c", &script]);
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("python");
    command.env("PYTHONPATH", package);
    Process::start(command, &[("FOVEATE_SOCKET", place.socket().to_str().unwrap())])
}
