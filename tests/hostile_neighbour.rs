//! A neighbour of another user tries everything at once against one daemon. An honest reader of a third user still gets its frames in
//! time, operators their answers, and afterwards the daemon has what it had.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::{Write, pipe};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use foveate::client::{Client, Next};
use foveate_control::ClientExt as _;
use foveate_ring::TokenFrameBuf;
use rustix::net::RecvFlags;
use rustix::net::sockopt::set_socket_linger;
use rustix::process::{Pid, Signal, kill_process};

use crate::control::RawClient;
use crate::daemon::{Belongings, Place};
use crate::users::{are_there, as_user, open_to_all};
use crate::wait::{HANG, until};

#[path = "support/control.rs"]
mod control;
#[path = "support/daemon.rs"]
mod daemon;
#[path = "support/left_out.rs"]
mod left_out;
#[path = "support/users.rs"]
mod users;
#[path = "support/wait.rs"]
mod wait;

const NEIGHBOUR: u32 = 5001;
const HONEST: u32 = 5002;

const FRAME: Duration = Duration::from_nanos(1_000_000_000 / 30);

/// How soon operators are answered.
const PATIENCE: Duration = Duration::from_secs(2);

/// What all clients may have open, and the half of it that one user may.
const OPENED_BYTES: u64 = 256 << 20;

const CONFIG: &str = "
[[stream]]
name = 'camera'
pipeline = 'videotestsrc is-live=true pattern=ball ! video/x-raw,format=I420,width=320,height=240,framerate=30/1 ! appsink name=frames'
backend = 'cpu'
[[stream.view]]
name = 'main'
";

#[test]
fn a_hostile_neighbour_harms_nobody() {
    if !are_there() {
        return;
    }
    let place = Place::new();
    open_to_all(place.socket().parent().unwrap());
    let config = place.write("foveate.toml", CONFIG);
    // Nobody reads what it logs.
    let (log, stderr) = pipe().unwrap();
    let mut foveated = Command::new(env!("CARGO_BIN_EXE_foveated"))
        .args([
            "--config".as_ref(),
            config.as_os_str(),
            "--socket".as_ref(),
            place.socket().as_os_str(),
        ])
        .stderr(stderr)
        .spawn()
        .unwrap();
    until("frames are published", || published(&place.socket()).is_some_and(|count| 10 < count));
    let before = Belongings::of(foveated.id());
    let frames = if std::env::var_os("FOVEATE_LONG").is_some() { 3_600 } else { 300 };

    let ages = under_attack(&place.socket(), || {
        thread::scope(|scope| {
            let reader = scope.spawn(|| as_user(HONEST, || ages(&place.socket(), frames)));
            while !reader.is_finished() {
                in_time("foveate ls", || foveate(&place, "ls"));
                in_time("foveate reload", || foveate(&place, "reload"));
            }
            reader.join().unwrap()
        })
    });
    let p99 = ages[ages.len() * 99 / 100];
    println!("age: p50 {:?}, p99 {p99:?}, most {:?}", ages[ages.len() / 2], ages.last().unwrap());
    assert!(p99 < 2 * FRAME, "p99 of the age: {p99:?}");

    until("all that the neighbour had is given back", || {
        Belongings::of(foveated.id()).is_no_more_than(&before) && shared_kb(foveated.id()) < 1 << 14
    });
    under_attack(&place.socket(), || {
        thread::sleep(FRAME * 30);
        kill_process(Pid::from_child(&foveated), Signal::TERM).unwrap();
        in_time("SIGTERM", || foveated.wait().unwrap().code() == Some(0));
    });
    drop(log);
}

/// Does `work` while the neighbour attacks.
fn under_attack<T>(socket: &Path, work: impl FnOnce() -> T) -> T {
    let attacks: [fn(&Path, &AtomicBool); 4] = [leave_descriptors, hoard_rings, flood, sit_idle];
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for attack in attacks {
            let is_over = &is_over;
            scope.spawn(move || as_user(NEIGHBOUR, || attack(socket, is_over)));
        }
        let _end = RaisedAtLast(&is_over);
        work()
    })
}

/// 1. Sends sockets that take minutes to close.
fn leave_descriptors(socket: &Path, is_over: &AtomicBool) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut unread = Vec::new();
    repeat(is_over, || {
        if 130 <= unread.len() {
            return;
        }
        let socket_to_send = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        unread.push(listener.accept().unwrap());
        socket_to_send.set_nonblocking(true).unwrap();
        while (&socket_to_send).write(&[0; 1 << 16]).is_ok() {}
        set_socket_linger(&socket_to_send, Some(10 * HANG)).unwrap();
        if let Some(client) = connected(socket)
            && client.send_descriptors(br#"{"op":"list"}"#, &[socket_to_send.as_fd()]).is_err()
        {
            // The kernel refuses. Closed here, it would linger here.
            set_socket_linger(&socket_to_send, None).unwrap();
        }
    });
}

/// 2. Opens the largest views that it may, and keeps their memory.
fn hoard_rings(socket: &Path, is_over: &AtomicBool) {
    let mut kept: Vec<OwnedFd> = Vec::new();
    repeat(is_over, || {
        let Some(client) = connected(socket) else { return };
        let request = br#"{"op":"open_view","stream":"camera","view":{"name":"hoard","budget":1024,"slots":8,"dtype":"f32"}}"#;
        if !is_granted(&client, request)
            || !is_granted(&client, br#"{"op":"subscribe","view":"camera/hoard"}"#)
        {
            return;
        }
        let received = foveate::socket::receive(&client.0, &mut [0; 1024], RecvFlags::empty());
        kept.extend(received.ok().and_then(|received| received.descriptor));
        let bytes: u64 =
            kept.iter().map(|kept| rustix::fs::fstat(kept).unwrap().st_size as u64).sum();
        assert!(bytes <= OPENED_BYTES / 2, "{bytes} bytes are kept by one user");
    });
    assert!(!kept.is_empty(), "it got some");
}

/// 3. and 5. Sends requests that are long to parse, and such as make the daemon log.
fn flood(socket: &Path, is_over: &AtomicBool) {
    let nested = format!(
        r#"{{"op":"open_view","stream":"camera","view":{{"gaze":{}1{}}}}}"#,
        r#"{"a":"#.repeat(1_200),
        "}".repeat(1_200)
    );
    let long = format!(r#"{{"op":"open_view","stream":"{}"}}"#, "x".repeat(120_000));
    repeat(is_over, || {
        let Some(client) = connected(socket) else { return };
        for request in [nested.as_str(), &long, r#"{"op":"open_view","stream":"camera"}"#] {
            for _ in 0..8 {
                if client.send(request.as_bytes()).is_err() {
                    return;
                }
            }
        }
    });
}

/// 6. Connects as often as it can, and asks for nothing.
fn sit_idle(socket: &Path, is_over: &AtomicBool) {
    let mut idle = Vec::new();
    repeat(is_over, || {
        idle.extend(connected(socket));
        if 64 < idle.len() {
            idle.remove(0);
        }
    });
}

fn repeat(is_over: &AtomicBool, mut attack: impl FnMut()) {
    while !is_over.load(Ordering::Relaxed) {
        attack();
        // It is the daemon that is attacked, not the processor.
        thread::sleep(Duration::from_millis(2));
    }
}

/// A connection, unless the daemon is gone.
fn connected(socket: &Path) -> Option<RawClient> {
    let client = control::seqpacket_socket();
    let address = rustix::net::SocketAddrUnix::new(socket).unwrap();
    rustix::net::connect(&client, &address).ok()?;
    Some(RawClient(client))
}

fn is_granted(client: &RawClient, request: &[u8]) -> bool {
    let _ = client.send(request);
    let mut answer = [0; 1024];
    let received = foveate::socket::receive(&client.0, &mut answer, RecvFlags::empty());
    received.is_ok() && answer.starts_with(br#"{"ok":true"#)
}

/// Ages at which an honest reader got `count` frames, in order.
fn ages(socket: &Path, count: usize) -> Vec<Duration> {
    let client = Client::connect(socket).unwrap();
    let mut subscription = client.subscribe(&"camera/main".parse().unwrap(), false).unwrap();
    let mut frame = TokenFrameBuf::default();
    let mut ages = Vec::new();
    while ages.len() < count {
        match subscription.next_frame(&mut frame, HANG).unwrap() {
            Next::Frame { .. } => ages.push(frame.head.age()),
            Next::NewSegment => {}
            other => panic!("{other:?} instead of a frame"),
        }
    }
    ages.sort();
    ages
}

fn published(socket: &Path) -> Option<u64> {
    let streams = Client::connect(socket).ok()?.list().ok()?;
    Some(streams.first()?.counts.frames_published)
}

/// Runs `foveate` with one argument; whether it succeeds.
fn foveate(place: &Place, command: &str) -> bool {
    let outcome = place.foveate(&[command]).finish();
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    true
}

fn in_time(what: &str, work: impl FnOnce() -> bool) {
    let started = Instant::now();
    assert!(work(), "{what}");
    assert!(started.elapsed() < PATIENCE, "{what} took {:?}", started.elapsed());
}

/// Shared memory of a process, in kB.
fn shared_kb(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssShmem:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// A flag that is raised however the test ends, so that its threads end.
struct RaisedAtLast<'a>(&'a AtomicBool);

impl Drop for RaisedAtLast<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
