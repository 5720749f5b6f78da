//! A neighbour of another user tries everything at once against one daemon. An honest reader of a third user still gets its frames in
//! time, operators their answers, and afterwards the daemon has what it had.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::{PipeWriter, Read, Write, pipe};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use foveate::client::{Client, Next};
use foveate_control::ClientExt as _;
use foveate_ring::TokenFrameBuf;
use rustix::fs::{Mode, OFlags, fstat};
use rustix::net::RecvFlags;
use rustix::net::sockopt::set_socket_linger;
use rustix::process::{Pid, Signal, kill_process};
use testkit::connection::Connection;
use testkit::control::RawClient;
use testkit::daemon::{Place, ProcessResources};
use testkit::is_long;
use testkit::thief::Thief;
use testkit::users::{are_there, as_user, open_to_all};
use testkit::wait::{HANG, RaisedAtLast, until};
use testkit::web_server::Web;

const NEIGHBOUR: u32 = 5001;
const HONEST: u32 = 5002;

const FRAME: Duration = Duration::from_nanos(1_000_000_000 / 30);

/// What all clients may have open, and the half of it that one user may.
const OPENED_BYTES: u64 = 256 << 20;

/// What comes from the environment is secret, wherever it stands.
const SECRET: &str = "s3cret-of-the-camera";

/// Half a request.
const HALF: &[u8] = b"GET / HTTP/1.1\r\nHost: local";

/// The files and sockets that the neighbour can reach.
struct Target {
    socket: PathBuf,
    /// The live page and the metrics.
    http: [SocketAddr; 2],
    /// Whether the neighbour got memory; otherwise the test proves nothing.
    got_memory: AtomicBool,
    stole: AtomicBool,
}

#[test]
fn a_hostile_neighbour_harms_nobody() {
    if !are_there() {
        return;
    }
    let place = Place::new();
    open_to_all(place.socket().parent().unwrap());
    let metrics = free_address();
    // Nobody reads what it logs.
    let (log, stderr) = pipe().unwrap();
    let mut foveated = KillOnDrop(start(&place, metrics, stderr));
    until("frames are published", || published(&place.socket()).is_some_and(|count| 10 < count));
    let before = ProcessResources::of(foveated.0.id());
    let web = Web::start(&place.socket(), &[]);
    let target = Target {
        socket: place.socket(),
        http: [web.address, metrics],
        got_memory: AtomicBool::new(false),
        stole: AtomicBool::new(false),
    };
    let frames = if is_long() { 3_600 } else { 600 };

    let serve = || {
        thread::scope(|scope| {
            let reader = scope.spawn(|| as_user(HONEST, || ages(&target.socket, frames)));
            while !reader.is_finished() {
                in_time("foveate ls", || foveate(&place, "ls"));
                in_time("foveate reload", || foveate(&place, "reload"));
                in_time("the live page", || is_answered(web.address, "/"));
                in_time("the metrics", || is_answered(metrics, "/metrics"));
            }
            reader.join().unwrap()
        })
    };
    // The machine itself may stand still for a while, but not each time.
    let is_punctual = under_attack(&target, || {
        (0..3).any(|_| {
            let ages = serve();
            let [p50, p99] = [50, 99].map(|percent| ages[ages.len() * percent / 100]);
            println!("age: p50 {p50:?}, p99 {p99:?}, most {:?}", ages.last().unwrap());
            p99 < 2 * FRAME
        })
    });
    assert!(is_punctual, "the p99 of the age is two frame intervals or more");
    assert!(target.got_memory.load(Ordering::Relaxed) && target.stole.load(Ordering::Relaxed));

    drop(web);
    until("all that the neighbour had is given back", || {
        let now = ProcessResources::of(foveated.0.id());
        // A connection that had just been closed may have counted before.
        let is_no_more = now.descriptors <= before.descriptors && now.threads <= before.threads;
        is_no_more && shared_kb(foveated.0.id()) < 1 << 14
    });
    under_attack(&target, || {
        thread::sleep(30 * FRAME);
        kill_process(Pid::from_child(&foveated.0), Signal::TERM).unwrap();
        in_time("SIGTERM", || foveated.0.wait().unwrap().code() == Some(0));
    });
    drop(log);
}

fn start(place: &Place, metrics: SocketAddr, stderr: PipeWriter) -> Child {
    let config = format!(
        "[daemon]
         metrics = '{metrics}'
         [[stream]]
         name = 'camera'
         pipeline = 'videotestsrc is-live=true pattern=ball ! video/x-raw,format=I420,width=320,height=240,framerate=30/1 \
                     ! identity name=\"${{PASSWORD}}\" ! appsink name=frames'
         backend = 'cpu'
         [[stream.view]]
         name = 'main'
        "
    );
    let config = place.write("foveate.toml", config);
    let mut command = Command::new(env!("CARGO_BIN_EXE_foveated"));
    command.arg("--config").arg(config).arg("--socket").arg(place.socket());
    command.env("PASSWORD", SECRET).stderr(stderr).spawn().unwrap()
}

type Attack = fn(&Target, &AtomicBool);

const ATTACKS: [Attack; 8] = [
    leave_descriptors,
    hoard_rings,
    open_expensive_views,
    steal_wakes,
    flood,
    sit_idle,
    look_for_passwords,
    send_half_requests,
];

/// Does `work` while the neighbour attacks.
fn under_attack<T>(target: &Target, work: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for attack in ATTACKS {
            let is_over = &is_over;
            scope.spawn(move || as_user(NEIGHBOUR, || attack(target, is_over)));
        }
        let _end = RaisedAtLast(&is_over);
        work()
    })
}

/// 1. Sends sockets that take minutes to close.
fn leave_descriptors(target: &Target, is_over: &AtomicBool) {
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
        let request = br#"{"op":"list"}"#;
        let sent = connected(&target.socket).is_some_and(|client| {
            client.send_descriptors(request, &[socket_to_send.as_fd()]).is_ok()
        });
        if !sent {
            // The kernel refuses, or the daemon is gone. Closed here, it would linger here.
            set_socket_linger(&socket_to_send, None).unwrap();
        }
    });
}

/// 2. Opens the largest views that it may, and keeps their memory.
fn hoard_rings(target: &Target, is_over: &AtomicBool) {
    let open = br#"{"op":"open_view","stream":"camera","view":{"name":"hoard","budget":1024,"slots":8,"dtype":"f32"}}"#;
    let mut kept: Vec<OwnedFd> = Vec::new();
    repeat(is_over, || {
        let Some(client) = connected(&target.socket) else { return };
        if is_granted(&client, open) {
            // A descriptor that can do nothing else keeps it, too.
            let path = |segment: OwnedFd| {
                let path = format!("/proc/self/fd/{}", segment.as_raw_fd());
                rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap()
            };
            kept.extend(subscribed(&client, "camera/hoard").map(path));
            target.got_memory.store(!kept.is_empty(), Ordering::Relaxed);
        }
        let sizes = kept.iter().map(|segment| fstat(segment).unwrap().st_size.cast_unsigned());
        let bytes: u64 = sizes.sum();
        assert!(bytes <= OPENED_BYTES / 2, "{bytes} bytes are kept by one user");
    });
}

/// 9. Opens the views that cost most for a token, and keeps them.
fn open_expensive_views(target: &Target, is_over: &AtomicBool) {
    let open = br#"{"op":"open_view","stream":"camera","view":{"layout":"windows","patch":1024,"budget":1,"slots":2,"dtype":"u8"}}"#;
    let mut owner = None;
    repeat(is_over, || {
        if owner.is_none() {
            owner = connected(&target.socket).filter(|client| is_granted(client, open));
        }
    });
}

/// 4. Takes the wakes of all who read the honest reader's view.
fn steal_wakes(target: &Target, is_over: &AtomicBool) {
    let mut thief = None;
    repeat(is_over, || {
        let segment = || subscribed(&connected(&target.socket)?, "camera/main");
        match &thief {
            Some(thief) => {
                Thief::steal(thief);
                target.stole.store(true, Ordering::Relaxed);
            }
            None => thief = segment().map(Thief::new),
        }
    });
}

/// 3. and 5. Sends requests that are long to parse, and such as make the daemon log.
fn flood(target: &Target, is_over: &AtomicBool) {
    let nested = format!(
        r#"{{"op":"open_view","stream":"camera","view":{{"gaze":{}1{}}}}}"#,
        r#"{"a":"#.repeat(1_200),
        "}".repeat(1_200)
    );
    let long = format!(r#"{{"op":"open_view","stream":"{}"}}"#, "x".repeat(120_000));
    repeat(is_over, || {
        let Some(client) = connected(&target.socket) else { return };
        for request in [nested.as_str(), &long, r#"{"op":"open_view","stream":"camera"}"#] {
            for _ in 0..8 {
                if client.send(request.as_bytes()).is_err() {
                    return;
                }
            }
        }
    });
}

/// 7. Looks for passwords in what everybody may ask for.
fn look_for_passwords(target: &Target, is_over: &AtomicBool) {
    repeat(is_over, || {
        let Some(client) = connected(&target.socket) else { return };
        let Some(listing) = answer(&client, br#"{"op":"list"}"#) else { return };
        assert!(!listing.contains(SECRET), "{listing}");
        assert!(!listing.contains("ok\":true") || listing.contains("identity"), "{listing}");
    });
}

/// 8. Begins requests to the live page and to the metrics, and never ends one.
fn send_half_requests(target: &Target, is_over: &AtomicBool) {
    let mut halves = Vec::new();
    repeat(is_over, || {
        for address in target.http {
            let half = TcpStream::connect(address);
            halves.extend(half.and_then(|mut half| half.write_all(HALF).map(|()| half)));
        }
        if 1_000 < halves.len() {
            halves.drain(..500);
        }
    });
}

/// 6. Connects as often as it can, and asks for nothing.
fn sit_idle(target: &Target, is_over: &AtomicBool) {
    let mut idle = Vec::new();
    repeat(is_over, || {
        idle.extend(connected(&target.socket));
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
    RawClient::try_connect(socket).ok()
}

/// A descriptor of the segment that `view` publishes in.
fn subscribed(client: &RawClient, view: &str) -> Option<OwnedFd> {
    let request = format!(r#"{{"op":"subscribe","view":"{view}"}}"#);
    if !is_granted(client, request.as_bytes()) {
        return None;
    }
    foveate::socket::receive(&client.0, &mut [0; 1024], RecvFlags::empty()).ok()?.1
}

fn is_granted(client: &RawClient, request: &[u8]) -> bool {
    answer(client, request).is_some_and(|answer| answer.contains(r#""ok":true"#))
}

/// The answer; `None` if the connection was refused.
fn answer(client: &RawClient, request: &[u8]) -> Option<String> {
    let _ = client.send(request);
    let mut answer = vec![0; 1 << 17];
    let (len, _) = foveate::socket::receive(&client.0, &mut answer, RecvFlags::empty()).ok()?;
    Some(String::from_utf8_lossy(&answer[..len]).into_owned())
}

/// Asks until a GET of `path` is answered as it should: with so many others, a slow connection may make room for one of them.
fn is_answered(address: SocketAddr, path: &str) -> bool {
    until("the page is there", || {
        let answer = get(address, path);
        answer.is_ok_and(|answer| answer.starts_with("HTTP/1.1 200 "))
    });
    true
}

fn get(address: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = Connection::open(address)?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// An address of this machine where nobody listened a moment ago.
fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
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
    assert!(started.elapsed() < HANG, "{what} took {:?}", started.elapsed());
}

/// Shared memory of a process, in kB.
fn shared_kb(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssShmem:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// A process that does not outlive the test.
struct KillOnDrop(Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
