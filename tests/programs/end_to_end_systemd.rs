//! The service as an operator runs it: the units that are shipped, under a real user manager of systemd.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::thread;
use std::time::{Duration, Instant};

use foveate::client::{Next, Subscription, SubscriptionError};
use foveate_capture::process::Confinement;
use foveate_control::{ClientExt as _, StreamState};
use testkit::daemon::Follower;
use testkit::device::with_gpu;
use testkit::scene::PATTERN;
use testkit::wait::until;

use crate::end_to_end_rtsp::Camera;
use crate::systemd::{Entry, UserManager, with_service};

/// A signal of life each quarter of a second.
const SHORT_WATCHDOG: &str = "WatchdogSec=500ms\nTimeoutAbortSec=1";

/// Bytes of a frame of [`fed`].
const FRAME_BYTES: usize = 64 * 48;

/// A stream that reads frames from a pipe in the folder of its configuration.
fn fed(name: &str) -> String {
    format!(
        "[[stream]]\nname = '{name}'\nbackend = 'cpu'\ncaps_timeout_ms = 600000\npipeline = 'filesrc location=\"${{HOME}}/{name}\" blocksize=3072 ! \
         rawvideoparse format=gray8 width=64 height=48 framerate=25/1 ! appsink name=frames'\n"
    )
}

#[test]
fn the_service_reports_ready_status_and_stop() {
    with_service(PATTERN, "", |manager| {
        manager.expect(&["start", "foveated.service"]);
        assert_eq!(manager.property("ActiveState"), "active");
        assert_eq!(manager.client().list().unwrap()[0].name, "camera");
        manager.await_property("StatusText", "1 stream, live");
        assert_eq!(manager.property("WatchdogUSec"), "30s");

        let mut reader = reading(manager);
        reader.next_frame();
        manager.expect(&["stop", "foveated.service"]);
        assert_eq!(reader.end(), "daemon_stopped");
        assert_eq!(manager.property("Result"), "success");
        assert_eq!(manager.property("ExecMainStatus"), "0");
        assert_eq!(manager.property("NRestarts"), "0");
        assert!(manager.socket().exists(), "the socket is not the daemon's to remove");
    });
}

#[test]
fn systemd_reload_waits_for_the_streams() {
    with_service(PATTERN, "", |manager| {
        manager.expect(&["start", "foveated.service"]);
        manager.write("conf.d/more.toml", &PATTERN.replace("'camera'", "'other'"));
        manager.expect(&["reload", "foveated.service"]);
        manager.await_property("StatusText", "2 streams, all live");
        manager.write("conf.d/more.toml", "broken");
        manager.expect(&["reload", "foveated.service"]);
        let entries = || manager.journal();
        until("the refusal is logged", || {
            let message = |entry: &Entry| entry.get("MESSAGE").cloned().unwrap_or_default();
            entries().iter().any(|entry| message(entry).contains("stays in force"))
        });
        assert_eq!(manager.property("ActiveState"), "active");
        assert_eq!(manager.property("NRestarts"), "0");
        manager.await_property("StatusText", "2 streams, all live");
    });
}

#[test]
fn a_daemon_that_hangs_is_killed_and_another_takes_its_place() {
    with_service(PATTERN, SHORT_WATCHDOG, |manager| {
        manager.expect(&["start", "foveated.service"]);
        let first = manager.property("MainPID");
        manager.expect(&["kill", "--kill-whom=main", "--signal=STOP", "foveated.service"]);
        manager.await_property("NRestarts", "1");
        manager.await_property("ActiveState", "active");
        assert_ne!(manager.property("MainPID"), first);
        reading(manager).next_frame();
    });
}

#[test]
fn cameras_that_stay_away_restart_nothing() {
    let config = format!("{}{}", fed("front"), fed("rear"));
    with_service(&config, SHORT_WATCHDOG, |manager| {
        let _pipes = (manager.feed("front"), manager.feed("rear"));
        manager.expect(&["start", "foveated.service"]);
        let microseconds =
            || manager.property("WatchdogTimestampMonotonic").parse::<u64>().unwrap();
        let started = microseconds();
        until("ten watchdog periods are over", || started + 5_000_000 < microseconds());
        assert_eq!(manager.property("NRestarts"), "0");
        assert_eq!(manager.property("ActiveState"), "active");
        assert_eq!(manager.property("StatusText"), "2 streams, 2 starting: front, rear");
    });
}

#[test]
fn the_socket_outlives_the_daemon_and_clients_wait_in_it() {
    with_service(PATTERN, "", |manager| {
        manager.expect(&["start", "foveated.service"]);
        let inode = fs::metadata(manager.socket()).unwrap().ino();
        let mut reader = reading(manager);
        reader.next_frame();
        let epoch = reader.segment().epoch;
        manager.expect(&["restart", "foveated.service"]);
        assert_eq!(reader.end(), "daemon_stopped");
        reader.subscription.reconnect().unwrap();
        reader.next_frame();
        assert_ne!(reader.segment().epoch, epoch);
        assert_eq!(fs::metadata(manager.socket()).unwrap().ino(), inode);

        // No daemon is running, and a client that connects makes systemd start one.
        manager.expect(&["stop", "foveated.service"]);
        manager.await_property("ActiveState", "inactive");
        reading(manager).next_frame();
        assert_eq!(manager.property("ActiveState"), "active");
    });
}

#[test]
fn the_service_waits_for_a_camera_that_it_requires() {
    let config = format!("{PATTERN}{}required = true\n", fed("front"));
    with_service(&config, "TimeoutStartSec=1", |manager| {
        let mut pipe = manager.feed("front");
        thread::scope(|scope| {
            let start = scope.spawn(|| manager.expect(&["start", "foveated.service"]));
            let waiting = "2 streams, 1 starting: front; waiting for front";
            manager.await_property("StatusText", waiting);
            let begun = manager.property("ExecMainStartTimestampMonotonic").parse::<u64>().unwrap();
            let now = || foveate_core::clock::monotonic_ns() / 1000;
            until("the time to start is over", || begun + 3_000_000 < now());
            assert_eq!(manager.property("ActiveState"), "activating");
            assert!(!start.is_finished());
            pipe.send(&[128; FRAME_BYTES]);
        });
        assert_eq!(manager.property("ActiveState"), "active");
        assert_eq!(manager.property("NRestarts"), "0");
    });
}

#[test]
fn a_failed_required_stream_ends_the_daemon() {
    let config =
        format!("{PATTERN}[[stream]]\nname = 'clip'\nsource = 'absent.avi'\nrequired = true\n");
    with_service(&config, "Restart=no", |manager| {
        assert_ne!(manager.systemctl(&["start", "foveated.service"]).code, Some(0));
        assert_eq!(manager.property("Result"), "exit-code");
        assert_ne!(manager.property("ExecMainStatus"), "0");
    });
}

#[test]
fn a_wrong_configuration_is_not_tried_again() {
    with_service("[[stream]]\nname = 'a'\nsource = 'test'\nbudget = 1\n", "", |manager| {
        assert_ne!(manager.systemctl(&["start", "foveated.service"]).code, Some(0));
        assert_eq!(manager.property("ActiveState"), "failed");
        assert_eq!(manager.property("ExecMainStatus"), "78");
        assert_eq!(manager.property("NRestarts"), "0");
    });
}

#[test]
fn entries_in_the_journal_have_fields_and_priorities_and_no_passwords() {
    let config = "[[stream]]\nname = 'camera'\nbackend = 'cpu'\nsource = 'rtsp://admin:${PASSWORD}@127.0.0.1:1/${PASSWORD}/${WORD}'\n";
    let settings = "Environment=PASSWORD=mellon-4711 WORD=foveate.sock\nRestart=no";
    with_service(
        &format!("{PATTERN}{}", config.replace("'camera'", "'away'")),
        settings,
        |manager| {
            manager.expect(&["start", "foveated.service"]);
            let is_about = |entry: &Entry, stream: &str, message: &str| {
                let of = |name| entry.get(name).map_or("", String::as_str);
                of("STREAM") == stream && of("MESSAGE").contains(message)
            };
            let await_entry = |stream: &str, message: &str| {
                let found =
                    || manager.journal().into_iter().find(|entry| is_about(entry, stream, message));
                until("the entry is there", || found().is_some());
                found().unwrap()
            };
            // A secret that the daemon writes where it expects none.
            let path = |entry: &Entry| entry.get("PATH").cloned().unwrap_or_default();
            let hides_it = || manager.journal().iter().any(|entry| path(entry).ends_with("/***"));
            until("the path of the socket is masked", hides_it);
            let publishing = await_entry("camera", "publishing");
            assert_eq!(publishing["PRIORITY"], "6", "{publishing:?}");
            assert_eq!(publishing["SYSLOG_IDENTIFIER"], "foveated", "{publishing:?}");
            assert_eq!(publishing["FORMAT"], "GRAY8", "{publishing:?}");
            let lost = await_entry("away", "has lost its source");
            assert_eq!(lost["PRIORITY"], "4", "{lost:?}");
            assert!(!lost["REASON"].is_empty(), "{lost:?}");
            manager.expect(&["stop", "foveated.service"]);
            let entries = manager.journal();
            let status = manager.property("StatusText");
            assert!(!format!("{entries:?}").contains("mellon-4711"), "{entries:#?}");
            assert!(!status.contains("mellon-4711"), "{status}");
        },
    );
}

/// The unit's devices, system calls and address families are enough for a network camera over either protocol, and for Vulkan.
#[test]
fn the_limits_of_the_unit_leave_network_cameras_and_gpus_alone() {
    with_gpu(|gpu| {
        let vulkan = format!("'vulkan'\ndevice = '{}'", gpu.summary().name);
        let gpu = PATTERN.replace("camera", "gpu").replace("'cpu'", &vulkan);
        let process = "[[stream]]\nisolation = 'process'\n";
        let confined = PATTERN.replace("camera", "confined").replace("[[stream]]\n", process);
        for protocols in ["tcp", "udp"] {
            let camera = Camera::new("h264", "160x120");
            let _server = camera.start();
            with_service(&(camera.config(protocols) + &gpu + &confined), "", |manager| {
                manager.expect(&["start", "foveated.service"]);
                manager.await_property("StatusText", "3 streams, all live");
                reading(manager).next_frame();
                let entries = format!("{:?}", manager.journal());
                // The machine is without Landlock, if it says so elsewhere, too.
                let is_complete = Confinement::of_kernel().is_complete();
                assert_eq!(entries.contains("is not confined in full"), !is_complete, "{entries}");
            });
        }
    });
}

#[test]
fn cpu_streams_run_without_writable_executable_memory() {
    let drop_in = include_str!("../../configs/systemd/cpu-only.conf");
    let (_, settings) = drop_in.split_once("[Service]\n").unwrap();
    with_service(PATTERN, settings, |manager| {
        manager.expect(&["start", "foveated.service"]);
        assert_eq!(manager.property("MemoryDenyWriteExecute"), "yes");
        reading(manager).next_frame();
        assert_eq!(manager.client().list().unwrap()[0].state, StreamState::Live);
    });
}

/// Until systemd starts the next daemon, its socket listens and nobody accepts.
#[test]
fn a_reader_reconnects_through_a_systemd_socket() {
    with_service(PATTERN, "", |manager| {
        manager.expect(&["start", "foveated.service"]);
        let view = "camera/main".parse().unwrap();
        let subscription = Subscription::reconnecting(&manager.socket(), &view, false).unwrap();
        let mut reader = Follower::new(subscription);
        reader.next_frame();
        let epoch = reader.segment().epoch;
        manager.expect(&["kill", "--kill-whom=main", "--signal=KILL", "foveated.service"]);
        let (mut tries, mut slowest) = (0, Duration::ZERO);
        loop {
            let started = Instant::now();
            let timeout = Duration::from_millis(10);
            let next = reader.subscription.next_in_order(&mut reader.frame, timeout);
            slowest = slowest.max(started.elapsed());
            match next {
                Err(SubscriptionError::Disconnected) => tries += 1,
                Ok(Next::NewSegment) => break,
                Ok(Next::Frame { .. }) => assert_eq!(tries, 0, "it is gone"),
                Ok(Next::TimedOut) => {}
                Ok(Next::Ended(reason)) => panic!("{reason}"),
                Err(error) => panic!("{error:?}"),
            }
        }
        assert!(0 < tries && slowest < Duration::from_secs(2), "{tries} tries, {slowest:?}");
        reader.next_frame();
        assert_ne!(reader.segment().epoch, epoch);
    });
}

/// A reader of `camera/main`.
fn reading(manager: &UserManager) -> Follower {
    let client = manager.client();
    Follower::new(client.subscribe(&"camera/main".parse().unwrap(), false).unwrap())
}
