//! A network camera that dies, hangs, changes or comes late: each time its frames come back, and nothing is left of the times
//! before. The camera is a server of its own process, `tests/rtsp/server.py`.

use std::fs;
use std::net::TcpListener;
use std::process::Command;
use std::time::Instant;

use foveate_control::StreamState;
use foveate_ring::{SegmentInfo, State};
use rustix::process::Signal;
use testkit::daemon::{Daemon, Follower, Place, Process};
use testkit::is_long;
use testkit::wait::until;

/// Frames that prove that a stream is back.
const ENOUGH: u64 = 10;

#[test]
fn a_killed_camera_returns_in_the_same_segment() {
    for protocols in ["tcp", "udp"] {
        let place = Place::new();
        let camera = Camera::new("jpeg", "160x120");
        let server = camera.start();
        let daemon = place.daemon(&camera.config(protocols));
        let mut follower = daemon.subscribe("camera/main");
        let before = watched(&mut follower, ENOUGH);
        kill(server);
        wait_for_stall(&daemon, &follower);
        let server = camera.start();
        let after = watched(&mut follower, ENOUGH);
        assert_eq!(before.epoch, after.epoch, "{protocols}");
        assert_returned(&daemon);
        drop(server);
        daemon.stop();
    }
}

/// Its loss is not announced: no error and no end, only silence.
#[test]
fn a_camera_that_hangs_comes_back_when_it_goes_on() {
    let place = Place::new();
    let camera = Camera::new("h264", "160x120");
    let server = camera.start();
    let daemon = place.daemon(&camera.config("tcp"));
    let mut follower = daemon.subscribe("camera/main");
    let before = watched(&mut follower, ENOUGH);
    server.signal(Signal::STOP);
    wait_for_stall(&daemon, &follower);
    until("it is looked for", || daemon.listing("camera").reason.contains("trying again in "));
    server.signal(Signal::CONT);
    let after = watched(&mut follower, ENOUGH);
    assert_eq!(before.epoch, after.epoch);
    assert_returned(&daemon);
    daemon.stop();
}

#[test]
fn a_camera_may_return_with_another_resolution_or_codec() {
    let place = Place::new();
    let mut camera = Camera::new("jpeg", "160x120");
    let mut server = camera.start();
    let daemon = place.daemon(&camera.config("tcp"));
    let mut follower = daemon.subscribe("camera/main");
    let mut before = watched(&mut follower, ENOUGH);
    for (codec, size) in [("jpeg", "320x240"), ("h264", "320x240"), ("jpeg", "160x128")] {
        kill(server);
        wait_for_stall(&daemon, &follower);
        camera = Camera { codec, size, ..camera };
        server = camera.start();
        let after = watched(&mut follower, ENOUGH);
        assert_eq!(after.extent.to_string(), size);
        // Other codecs give other colours, and then all that was built for the old ones goes, too.
        assert!(before.extent == after.extent || before.epoch != after.epoch, "{codec} {size}");
        before = after;
    }
    assert_returned(&daemon);
    daemon.stop();
}

#[test]
fn a_camera_that_starts_late_is_waited_for() {
    let place = Place::new();
    let camera = Camera::new("jpeg", "160x120");
    let daemon = place.daemon(&camera.config("tcp"));
    until("it is looked for", || daemon.listing("camera").reason.contains("trying again in "));
    assert_eq!(daemon.listing("camera").state, StreamState::Starting);
    let mut follower = daemon.subscribe("camera/main");
    let _server = camera.start();
    watched(&mut follower, ENOUGH);
    assert_returned(&daemon);
    daemon.stop();
}

/// 10 times, or 200 with `FOVEATE_LONG=1`.
#[test]
fn nothing_is_left_of_a_camera_that_was_lost() {
    let place = Place::new();
    let camera = Camera::new("jpeg", "160x120");
    let daemon = place.daemon(&camera.config("tcp"));
    let mut follower = daemon.subscribe("camera/main");
    let mut first = None;
    for cycle in 0..if is_long() { 200 } else { 10 } {
        let server = camera.start();
        let started = Instant::now();
        watched(&mut follower, 1);
        let (waited, playing) = (started.elapsed(), Instant::now());
        watched(&mut follower, 40);
        // The backoff restarts once a source has played for as long as the pause before it.
        while playing.elapsed() < waited {
            watched(&mut follower, 1);
        }
        // The first returns fill what is allocated once.
        if cycle == 3 {
            assert_returned(&daemon);
            first = Some(ProcessResources::by(&daemon));
        }
        kill(server);
        wait_for_stall(&daemon, &follower);
    }
    let _server = camera.start();
    watched(&mut follower, 40);
    assert_returned(&daemon);
    let (first, last) = (first.unwrap(), ProcessResources::by(&daemon));
    // GLib keeps threads that it does not need for a while, and the daemon a client that has hung up for a moment.
    until(&format!("as many threads and descriptors are left as of {first:?}: {last:?}"), || {
        let last = ProcessResources::by(&daemon);
        last.threads <= first.threads && last.descriptors.len() <= first.descriptors.len()
    });
    assert!(last.rss_kb < first.rss_kb + 8 * 1024, "{first:?}, {last:?}");
    daemon.stop();
}

/// A camera at a port of its own.
#[derive(Clone, Copy)]
pub(crate) struct Camera {
    port: u16,
    codec: &'static str,
    size: &'static str,
}

impl Camera {
    pub(crate) fn new(codec: &'static str, size: &'static str) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Self { port, codec, size }
    }

    /// Starts the server, and returns when it listens.
    pub(crate) fn start(&self) -> Process {
        // The system's own: GStreamer's modules belong to that.
        let mut command = Command::new("/usr/bin/python3");
        let (width, height) = self.size.split_once('x').unwrap();
        command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/rtsp/server.py"));
        command.args([&self.port.to_string(), self.codec, width, height]);
        let server = Process::start(command, &[]);
        server.stdout.wait_for("ready");
        server
    }

    /// A stream of the camera with a short time-out.
    pub(crate) fn config(&self, protocols: &str) -> String {
        format!(
            "[[stream]]\nname = 'camera'\nbackend = 'cpu'\nsource = 'rtsp://127.0.0.1:{}/camera'\n\
             parameters = {{ protocols = '{protocols}' }}\nlatency_ms = 50\ncaps_timeout_ms = 3000\n\
             stall_timeout_ms = 500\nrestart_timeout_ms = 1500\n",
            self.port
        )
    }
}

fn kill(server: Process) {
    server.signal(Signal::KILL);
    server.finish();
}

/// Reads `count` more frames, whose numbers grow, and returns what the last one came in.
fn watched(follower: &mut Follower, count: u64) -> SegmentInfo {
    let mut newest = follower.frame.head.stamp.frame_seq;
    for _ in 0..count {
        let seq = follower.next_frame().head.stamp.frame_seq;
        assert!(newest < seq, "frame {seq} after frame {newest}");
        newest = seq;
    }
    follower.segment().clone()
}

/// Waits until segment and listing say that no frames come.
fn wait_for_stall(daemon: &Daemon<'_>, follower: &Follower) {
    until("the segment says that no frames come", || {
        follower.subscription.reader().unwrap().state().0 == State::Stalled
    });
    assert_eq!(daemon.listing("camera").state, StreamState::Stalled);
}

/// The stream is live, without a reason, and had to begin again at least once.
fn assert_returned(daemon: &Daemon<'_>) {
    let listing = daemon.listing("camera");
    assert_eq!((listing.state, listing.reason.as_str()), (StreamState::Live, ""));
    assert!(0 < listing.restarts.values().sum::<u64>(), "{listing:?}");
}

/// Resources of a process.
#[derive(Debug)]
struct ProcessResources {
    threads: usize,
    descriptors: Vec<String>,
    rss_kb: u64,
}

impl ProcessResources {
    /// Resources of `daemon`, with its clients' connections.
    fn by(daemon: &Daemon<'_>) -> Self {
        let status = fs::read_to_string(format!("/proc/{}/status", daemon.process.id())).unwrap();
        let number = |key: &str| -> u64 {
            let line = status.lines().find(|line| line.starts_with(key)).unwrap();
            line.split_whitespace().nth(1).unwrap().parse().unwrap()
        };
        let threads = usize::try_from(number("Threads:")).unwrap();
        Self { threads, descriptors: daemon.descriptors(), rss_kb: number("VmRSS:") }
    }
}
