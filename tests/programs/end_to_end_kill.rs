//! Readers of the real `foveated` that are stopped or killed hold up nothing and leave nothing behind; and where the
//! daemon is killed, every reader learns of it, and continues with the next daemon if it reconnects.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use foveate::ControlError;
use foveate::client::{Client, Next, Subscription, SubscriptionError};
use foveate::messages::ViewName;
use foveate_control::ClientExt as _;
use foveate_core::color::{ColorMatrix, ColorRange, ColorTransform};
use foveate_core::frame::PixelFormat;
use foveate_core::geometry::extent::Extent;
use foveate_ring::{Reader, TokenFrameBuf};
use foveate_stats::NoticeCounts;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::Signal;
use testkit::daemon::{Belongings, Daemon, Feed, Follower, Place, Process};
use testkit::film::{Film, raw_bytes, raw_pipeline};
use testkit::is_long;
use testkit::naive::{OwnedFrame, Random};
use testkit::players::{Line, Player, plays};
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

/// A live stream that never ends.
const PATTERN: &str = "[[stream]]\nname = 'camera'\nbackend = 'cpu'\npipeline = 'videotestsrc is-live=true ! \
     video/x-raw,format=GRAY8,width=64,height=48,framerate=50/1 ! appsink name=frames'\n";

/// Debian's own, for which its NumPy is.
const PYTHON: &str = "/usr/bin/python3";

#[test]
fn killed_readers_disturb_no_other_reader() {
    if plays(read_until_killed) {
        return;
    }
    let (place, film) = (Place::new(), random_film());
    let mut feed = Feed::open(&place.path("camera"));
    let daemon = place.daemon(&config(&place));
    let mut scene = Scene::new(&daemon, &film, &mut feed);
    let before = Belongings::of(daemon.process.id());
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
    scene.assert_at_rest(&before);
    // A frame is counted a moment after readers have it.
    until("every frame is counted", || {
        daemon.listing("camera").counts.frames_published == scene.frame_seq
    });
    let listing = daemon.listing("camera");
    assert_eq!((listing.counts.frames_dropped, listing.counts.frames_refused), (0, 0));
    assert!(0 < scene.notices().subscribers_gone, "{:?}", scene.notices());
    drop(scene);
    daemon.stop();
}

#[test]
fn stopped_readers_delay_no_frame() {
    if plays(read_until_killed) {
        return;
    }
    let (place, film) = (Place::new(), random_film());
    let mut feed = Feed::open(&place.path("camera"));
    let daemon = place.daemon(&config(&place));
    let mut scene = Scene::new(&daemon, &film, &mut feed);
    let before = Belongings::of(daemon.process.id());
    for count in [0, 1, 16, CROWD] {
        // The first is one with notices, whose socket fills up.
        let parts = ["notified", "borrowing", "waiting", "reading"].iter().cycle().take(count);
        let mut readers: Vec<_> = parts.map(|part| start(part, &place)).collect();
        for reader in &mut readers {
            assert_eq!(reader.hear(), "begun");
            reader.stop();
        }
        let skipped = scene.notices().skipped;
        scene.show(ROUND_TWICE);
        let last = scene.frame_seq + SOCKET_HOLDS;
        while 0 < count && scene.notices().skipped < skipped + 3 {
            assert!(scene.frame_seq < last, "a full socket is not counted: {:?}", scene.notices());
            scene.show(50);
        }
        assert!(0 < count || scene.notices().skipped == skipped);

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
        scene.assert_at_rest(&before);
    }
    drop(scene);
    daemon.stop();
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
    let c = c_program(&place, "print").start(&["camera/main"]);
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
    let c = c_program(&place, "control_loop").start(&["camera/main", "0"]);
    let python = python_reader(&place, true);
    let mut c_said = 0;
    let rounds = if is_long() { 20 } else { 3 };
    for round in 0..=rounds {
        follower.next_frame();
        let epoch = format!("{:016x}", follower.subscription.reader().unwrap().header().epoch);
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
    daemon.stop();
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
        while let Some(at) = quoted.iter().position(|name| name.contains("tests/")) {
            let text = fs::read_to_string(root.join(quoted[at])).unwrap();
            for name in &quoted[..at] {
                assert!(text.contains(&format!(" {name}(")), "no {name} in {}", quoted[at]);
            }
            quoted.drain(..=at);
        }
        assert!(quoted.is_empty(), "{quoted:?} are in no file");
        count += 1;
    }
    assert!(20 <= count, "{count} rows");
}

/// A stream whose frames a test sends one by one, and a neighbour that reads every one of them.
struct Scene<'a> {
    daemon: &'a Daemon<'a>,
    film: &'a Film,
    feed: &'a mut Feed,
    neighbour: Follower,
    client: Client,
    frame_seq: u64,
}

impl<'a> Scene<'a> {
    /// With the first frames shown.
    fn new(daemon: &'a Daemon<'a>, film: &'a Film, feed: &'a mut Feed) -> Self {
        let (neighbour, client) = (daemon.subscribe("camera/main"), daemon.client());
        let mut scene = Self { daemon, film, feed, neighbour, client, frame_seq: 0 };
        scene.show(2);
        scene
    }

    /// Sends `count` frames; each is published, and as it is.
    fn show(&mut self, count: u64) {
        for _ in 0..count {
            self.frame_seq += 1;
            self.feed.send(&raw_bytes(self.film.frame(self.frame_seq)));
            loop {
                match self.neighbour.next() {
                    Next::NewSegment => {}
                    Next::Frame { missed: 0 } => break,
                    other => panic!("{other:?} instead of frame {}", self.frame_seq),
                }
            }
            let frame = &self.neighbour.frame;
            assert_eq!(frame.head.stamp.frame_seq, self.frame_seq);
            let segment = self.neighbour.subscription.reader().unwrap().header();
            self.film.assert_shows(self.daemon.plan("camera/main"), segment, frame);
        }
    }

    /// Counts of notices.
    fn notices(&mut self) -> NoticeCounts {
        self.client.list().unwrap()[0].views[0].notices
    }

    /// Once all others have left, the daemon has no more descriptors and threads than `before`.
    fn assert_at_rest(&mut self, before: &Belongings) {
        until("only the neighbour and the client are there", || {
            self.client.listing().unwrap().server.unwrap().counts.clients == 2
        });
        until("all threads and descriptors are given back", || {
            // The frame loop lets go of those that it notified with the next frames.
            self.show(1);
            Belongings::of(self.daemon.process.id()).is_no_more_than(before)
        });
    }
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

/// A program of `tests/c`, compiled.
struct Program<'a> {
    place: &'a Place,
    path: PathBuf,
}

fn c_program<'a>(place: &'a Place, name: &str) -> Program<'a> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = place.path(name);
    let status = Command::new("cc")
        .args(["-std=c11", "-O2", "-I"])
        .arg(root.join("include"))
        .arg(root.join("tests/c").join(name).with_extension("c"))
        .arg("-o")
        .arg(&path)
        .status();
    assert!(status.unwrap().success(), "{name}.c compiles");
    Program { place, path }
}

impl Program<'_> {
    fn start(&self, arguments: &[&str]) -> Process {
        let mut command = Command::new(&self.path);
        command.args(arguments);
        Process::start(command, &[("FOVEATE_SOCKET", self.place.socket().to_str().unwrap())])
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

fn config(place: &Place) -> String {
    let source = raw_pipeline(&place.path("camera"), PixelFormat::Gray8, EXTENT, "");
    format!(
        "[[stream]]\nname = 'camera'\npipeline = '{source}'\npace = 'every-frame'\nbackend = 'cpu'\n\
         [[stream.view]]\nname = 'main'\nbudget = 20\ngaze = {{ policy = 'fixed' }}\n"
    )
}

fn random_film() -> Film {
    let mut random = Random(7);
    let color = ColorTransform::from_ycbcr(ColorMatrix::Bt601, ColorRange::Full);
    let first = OwnedFrame::random(PixelFormat::Gray8, EXTENT, color, &mut random);
    Film::random(first, 20, &mut random)
}
