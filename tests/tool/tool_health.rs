//! `foveate wait`, `health`, `watch` without a view and `doctor` say how a daemon is, by what they print and exit with.

use std::cell::Cell;
use std::path::Path;

use foveate_control::StreamState;
use foveate_core::clock::monotonic_ns;
use foveate_server::directory::StreamPort;
use rustix::process::Signal;
use serde_json::Value;
use testkit::control::{Stage, UNLIMITED, start};
use testkit::daemon::Process;
use testkit::tool::{foveate, spawned};
use testkit::wait::until;

#[test]
fn wait_returns_once_the_view_is_live() {
    let stage = Stage::open();
    let port = stage.stream("camera", &["main"]);
    let mut wait = spawned(&stage.path, &["wait", "camera/main", "--timeout", "60"]);
    // It has asked, and was not told what it wants.
    until("it asks", || 1 < stage.server().counters().requests.get());
    assert!(!wait.is_over());
    let _writer = start(&port);
    wait.finish().assert_clean_exit(0);
}

#[test]
fn wait_waits_for_the_daemon_too() {
    let mut stage = Stage::open();
    drop(stage.server.take());
    let (_port, _writer) = stage.live_stream("camera", &["main"]);
    let mut wait = spawned(&stage.path, &["wait", "camera/main", "--timeout", "60"]);
    assert!(!wait.is_over());
    stage.serve(UNLIMITED);
    wait.finish().assert_clean_exit(0);
}

#[test]
fn wait_says_why_it_gave_up() {
    let stage = Stage::open();
    let _starting = stage.stream("attic", &["main"]);
    let (ended, _writer) = stage.live_stream("camera", &["main"]);
    ended.ended("end of\nfile");
    let nowhere = stage.path.with_file_name("nowhere.sock");
    for (socket, view, reason) in [
        (&stage.path, "attic/main", "the stream is starting"),
        (&stage.path, "camera/main", "the stream is ended: end of file"),
        (&stage.path, "attic/other", "unknown view `attic/other`"),
        (&stage.path, "cellar/main", "unknown stream `cellar`"),
        (&nowhere, "attic/main", "no daemon listens on "),
    ] {
        let output = foveate(socket, &["wait", view, "--timeout", "0.2"]);
        assert_eq!(output.code, Some(69), "{view}");
        let error = output.stderr;
        let expected = format!("foveate: {view} is not live after 0.2 s: {reason}");
        assert!(error.starts_with(&expected), "{error}");
    }
}

#[test]
fn health_is_that_every_stream_is_live_and_fresh() {
    let stage = Stage::open();
    let (one, _writer) = stage.live_stream("one", &["main"]);
    let (two, _other) = stage.live_stream("two", &["main"]);
    let healthy = foveate(&stage.path, &["health"]);
    healthy.assert_clean_exit(0);
    assert_eq!(healthy.stdout, "");

    // Captured an hour ago: too old with --max-age, and live without.
    let hour_ago = monotonic_ns().checked_sub(3_600_000_000_000);
    one.counters().newest_capture_ns.set(Some(hour_ago.unwrap_or(1)));
    two.counters().newest_capture_ns.set(Some(monotonic_ns()));
    foveate(&stage.path, &["health"]).assert_clean_exit(0);
    let stale = foveate(&stage.path, &["health", "--max-age", "1.5"]);
    stale.assert_clean_exit(69);
    let lines = stale.stdout;
    assert!(lines.starts_with("one: the newest frame is "), "{lines}");
    assert!(lines.ends_with(" s old, more than 1.5 s\n"), "{lines}");
    assert_eq!(lines.lines().count(), 1, "the other is well: {lines}");

    // Live, and behind a queue of eight seconds.
    one.counters().newest_delay_ns.set(Some(8_000_000_000));
    let late = foveate(&stage.path, &["health"]);
    late.assert_clean_exit(69);
    assert_eq!(late.stdout, "one: late: frames arrive 8.000 s after their capture\n");
    let found = doctor(&stage.path);
    assert!(found[1].starts_with("warn  stream one"), "{found:?}");
    assert!(found[1].contains("late: frames arrive 8.000 s"), "{found:?}");
    assert!(found[1].contains("-> "), "{found:?}");
    assert!(found[2].starts_with("ok    stream "), "{found:?}");
    one.counters().newest_delay_ns.set(Some(40_000_000));
    foveate(&stage.path, &["health"]).assert_clean_exit(0);

    stall(&two, "no frame\nfor 2 s");
    let stalled = foveate(&stage.path, &["health"]);
    stalled.assert_clean_exit(69);
    assert_eq!(stalled.stdout, "two: stalled: no frame for 2 s\n");
    assert_eq!(stalled.stderr, "foveate: 1 of 2 streams are unhealthy: see above\n");
    let stalled = foveate(&stage.path, &["health", "--json"]);
    stalled.assert_clean_exit(69);
    let told: Value = serde_json::from_str(&stalled.stdout).unwrap();
    assert_eq!((&told["healthy"], &told["streams"][0]["healthy"]), (&false.into(), &true.into()));
    let sick = &told["streams"][1];
    assert_eq!((&sick["name"], &sick["state"]), (&"two".into(), &"stalled".into()));
    assert_eq!(sick["complaint"], "stalled: no frame for 2 s");
    assert_eq!(told["streams"][0]["complaint"], Value::Null);
    assert!(told["streams"][0]["newest_age_s"].is_f64(), "{told}");
}

#[test]
fn the_overview_shows_rates_of_what_was_counted_since() {
    let stage = Stage::open();
    let (port, _writer) = stage.live_stream("camera", &["main", "wide"]);
    let _starting = stage.stream("attic", &["main"]);
    let overview = Overview::open(&stage.path);
    let first = overview.next_where(|_| true);
    assert_eq!(first["streams"][1]["fps"], Value::Null, "{first}");
    assert_eq!(first["streams"][0]["state"], "starting");

    let counters = port.counters();
    counters.frames_captured.add(50);
    counters.frames_dropped.add(20);
    counters.tiles_dirty.add(60);
    counters.change.threshold.set(Some(0));
    counters.change.tiles_dirty.set(Some(2));
    counters.change.tile_count.set(Some(4));
    for _ in 0..30 {
        counters.durations.age.observe(2_000_000);
    }
    counters.frames_published.add(30);
    let is_counted =
        |glance: &Value| glance["streams"][1]["fps"].as_f64().is_some_and(|fps| 0.0 < fps);
    let camera = overview.next_where(is_counted)["streams"][1].clone();
    let number = |name: &str| camera[name].as_f64().unwrap_or_else(|| panic!("{name}: {camera}"));
    // The interval is whatever it is; what was counted in it is not.
    let ratio = number("fps") / number("dropped_per_s");
    assert!((ratio - 1.5).abs() < 1e-9, "{camera}");
    assert!((number("dirty_share") - 0.5).abs() < 1e-9, "{camera}");
    assert!((1.0..=2.5).contains(&number("age_p50_ms")), "{camera}");
    assert!(number("age_p50_ms") <= number("age_p99_ms"), "{camera}");
    assert_eq!(camera["backend"], "cpu");
    assert_eq!(camera["views"][1]["name"], "camera/wide");
}

#[test]
fn the_overview_outlives_a_daemon() {
    let mut stage = Stage::open();
    let (_port, _writer) = stage.live_stream("camera", &["main"]);
    let overview = Overview::open(&stage.path);
    assert_eq!(overview.next_where(|_| true)["streams"][0]["name"], "camera");
    drop(stage.server.take());
    let away = overview.next_where(|glance| glance["daemon"].is_string());
    assert_eq!(away["streams"], serde_json::json!([]), "{away}");
    stage.serve(UNLIMITED);
    let back = overview.next_where(|glance| glance["daemon"].is_null());
    assert_eq!(back["streams"][0]["name"], "camera");
    overview.process.signal(Signal::TERM);
    overview.process.finish().assert_clean_exit(0);
}

#[test]
fn where_there_is_no_terminal_the_table_is_text() {
    let stage = Stage::open();
    let (port, _writer) = stage.live_stream("camera", &["main"]);
    stall(&port, "no frame\u{1b}[2J for 2 s");
    let output = foveate(&stage.path, &["watch", "--seconds", "0.1"]);
    output.assert_clean_exit(0);
    let table = output.stdout;
    assert!(!table.contains('\u{1b}'), "{table}");
    let rows: Vec<Vec<&str>> =
        table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0][..3], ["STREAM", "STATE", "FPS"]);
    assert_eq!(rows[1][..2], ["camera", "stalled"]);
    assert_eq!(rows[1].last(), Some(&"cpu"));
    assert_eq!(rows[2], ["main", "-", "0", "-"]);
    assert_eq!(rows[3].join(" "), "camera: no frame [2J for 2 s");
}

#[test]
fn the_doctor_says_how_a_daemon_is_and_what_to_do() {
    let stage = Stage::open();
    let (_live, _writer) = stage.live_stream("a", &["main"]);
    let (stalled, _other) = stage.live_stream("b", &["main"]);
    stall(&stalled, "no frame for 2 s");
    let _starting = stage.stream("c", &["main"]);
    let (flooded, _third) = stage.live_stream("d", &["main"]);
    flooded.counters().frames_captured.add(100);
    flooded.counters().frames_dropped.add(11);
    let found = doctor(&stage.path);
    let expected =
        ["ok    daemon", "ok    stream a", "warn  stream b", "warn  stream c", "warn  stream d"];
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (finding, expected) in found.iter().zip(expected) {
        assert!(finding.starts_with(expected), "{finding}");
        assert_eq!(finding.contains("-> "), expected.starts_with("warn"), "{finding}");
    }
    assert!(found[2].lines().next().unwrap().ends_with(": no frame for 2 s"), "{}", found[2]);

    let none = doctor(&stage.path.with_file_name("nowhere.sock"));
    assert!(none[0].starts_with("ok    daemon"), "none need run: {none:?}");
}

/// What the doctor finds of the daemon and its streams, each with the remedy on a line of its own.
fn doctor(socket: &Path) -> Vec<String> {
    let output = foveate(socket, &["doctor"]);
    let mut findings = Vec::<String>::new();
    for line in output.stdout.lines().take_while(|line| !line.is_empty()) {
        match findings.last_mut() {
            Some(finding) if line.starts_with(' ') => finding.extend(["\n", line]),
            _ => findings.push(line.to_owned()),
        }
    }
    findings.retain(|finding| ["daemon", "stream "].iter().any(|of| finding[6..].starts_with(of)));
    findings
}

fn stall(port: &StreamPort, reason: &str) {
    port.update(|status| {
        status.state = StreamState::Stalled;
        reason.clone_into(&mut status.reason);
    });
}

/// `foveate watch --json`, and how many of the lines that it prints were looked at.
struct Overview {
    process: Process,
    seen: Cell<usize>,
}

impl Overview {
    fn open(socket: &Path) -> Self {
        Self { process: spawned(socket, &["watch", "--json"]), seen: Cell::new(0) }
    }

    /// The next line of which `is_so` holds; a line comes every second.
    fn next_where(&self, is_so: impl Fn(&Value) -> bool) -> Value {
        let mut found = None;
        until("there is such a line", || {
            let text = self.process.stdout.so_far();
            let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
            for line in lines.skip(self.seen.get()) {
                self.seen.set(self.seen.get() + 1);
                found = Some(serde_json::from_str(line).unwrap()).filter(&is_so);
                if found.is_some() {
                    break;
                }
            }
            found.is_some()
        });
        found.unwrap()
    }
}
