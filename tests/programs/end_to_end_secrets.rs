//! A password that stands anywhere in a configuration is nowhere in what the programs write, show or serve.

use std::fs;
use std::os::unix::net::UnixDatagram;

use foveate_control::ClientExt as _;
use rustix::process::Signal;
use testkit::daemon::{Daemon, Outcome, Place};
use testkit::wait::until;

use crate::scrape::{metrics_address, scrape_text};

/// The secret to search for. Nothing else holds it, in any spelling.
const MARKER: &str = "MARKERs3cr3t";

/// A password in the environment, with what URIs, pipelines and TOML have their own spelling for.
const PASSWORD: (&str, &str) = ("CAMERA_PASSWORD", "MARKERs3cr3t:@ &%x");

/// Everything that is asked of the log, GStreamer's included.
const LOUD: [(&str, &str); 5] = [
    PASSWORD,
    // A word without blanks and signs: parts that a pipeline splits at them would not be recognised as the secret.
    ("CAMERA_WORD", "MARKERs3cr3t-word"),
    ("RUST_LOG", "trace"),
    ("GST_DEBUG", "*:5,rtsp*:7,uri*:9,GST_PIPELINE:9"),
    ("GST_DEBUG_NO_COLOR", "1"),
];

/// Where pipelines run, and what is asked of GStreamer's log there: of a source process few lines are kept.
const PLACES: [(&str, (&str, &str)); 2] =
    [("none", LOUD[3]), ("process", ("GST_DEBUG", "rtspsrc:5,GST_PIPELINE:5"))];

/// Streams whose camera or server is not there, and waited for, each with a password in another field. Port 1 of this machine
/// refuses connections.
const AWAITED: [&str; 8] = [
    "pipeline = 'souphttpsrc location=http://127.0.0.1:1/x extra-headers=\"h,Cookie=(string)\\\"a=MARKERs3cr3t\\\",X-Any=(string)MARKERs3cr3t\" ! decodebin ! appsink name=frames'",
    "pipeline = 'rtspsrc location=user:MARKERs3cr3t@127.0.0.1:1/x ! decodebin ! appsink name=frames'",
    "source = '/dev/${CAMERA_PASSWORD}'",
    "source = 'rtsp://user:${CAMERA_PASSWORD}@127.0.0.1:1/main'",
    "source = 'rtsp://user:MARKERs3cr3t@127.0.0.1:1/main'",
    "pipeline = 'rtspsrc location=rtsp://127.0.0.1:1/x user-id=user user-pw=MARKERs3cr3t ! decodebin ! appsink name=frames'",
    "pipeline = 'rtspsrc location=rtsp://user:MARKERs3cr3t@127.0.0.1:1/x ! decodebin ! appsink name=frames'",
    "pipeline_file = 'rtsp.gst'\nparameters = { location = 'rtsp://user:${CAMERA_PASSWORD}@127.0.0.1:1/x' }",
];

/// Streams that cannot be, each with a password in another field.
const IMPOSSIBLE: [&str; 11] = [
    "pipeline = 'souphttpsrc location=http://127.0.0.1:1/x cookies=\"<a=MARKERs3cr3t>\" ! decodebin ! appsink name=frames'",
    "source = 'file:///nowhere/${CAMERA_PASSWORD}.mp4'",
    "source = '${CAMERA_PASSWORD}'",
    "pipeline = '${CAMERA_WORD} ! appsink name=frames'",
    "pipeline = 'rtspsrc location=rtsp://127.0.0.1:1/x user-pww=MARKERs3cr3t ! decodebin ! appsink name=frames'",
    "source = 'user:MARKERs3cr3t@127.0.0.1:1/x'",
    "pipeline_file = '${CAMERA_PASSWORD}.gst'",
    "source = 'test'\nbackend = 'vulkan'\ndevice = '${CAMERA_PASSWORD}'",
    "source = 'test'\ncamera = { calibration = '${CAMERA_PASSWORD}.yaml' }",
    "source = 'test'\nview = [{ name = 'v', gaze = { policy = 'replay', log = '${CAMERA_PASSWORD}.jsonl' } }]",
    "source = 'test'\nlatency_ms = '${CAMERA_PASSWORD}'",
];

/// The log of a missing source.
const LOST: &str = "the stream has lost its source";

#[test]
fn no_field_shows_its_password_when_the_stream_fails() {
    let place = Place::new();
    let pipeline = "rtspsrc location=${location} ! decodebin ! videoconvert ! appsink name=frames";
    place.write("rtsp.gst", pipeline);
    let fields = AWAITED.iter().chain(&IMPOSSIBLE);
    for (field, (isolation, gst_debug)) in
        fields.flat_map(|field| PLACES.map(|place| (field, place)))
    {
        let environment = [&LOUD[..], &[gst_debug]].concat();
        let config = format!("[[stream]]\nname = 'camera'\nisolation = '{isolation}'\n{field}\n");
        let path = place.write("foveate.toml", config);
        let config = ["--config", path.to_str().unwrap()];
        let checked = place.foveated(&[&config[..], &["--check"]].concat(), &environment).finish();
        assert_shows_nothing(&checked, field);
        let process = place.foveated(&config, &environment);
        if AWAITED.contains(field) {
            process.stderr.wait_for(LOST);
            process.signal(Signal::TERM);
        }
        assert_shows_nothing(&process.finish(), field);
    }
    let (uri, out) = ("rtsp://user:MARKERs3cr3t@127.0.0.1:1/x", place.path("out"));
    let extracted = place.foveate(&["extract", uri, "--out", out.to_str().unwrap()]).finish();
    assert_shows_nothing(&extracted, uri);
}

#[test]
fn no_field_of_the_daemon_shows_its_password() {
    let place = Place::new();
    let stream = "[[stream]]\nname = 'camera'\nsource = 'test'\n";
    for field in [
        "socket_group = '${CAMERA_PASSWORD}'",
        "socket_mode = '${CAMERA_PASSWORD}'",
        "metrics = '${CAMERA_PASSWORD}'",
        "socket = '${CAMERA_PASSWORD}'",
    ] {
        let outcome = place.ended_daemon(&format!("[daemon]\n{field}\n{stream}"), &LOUD);
        assert_shows_nothing(&outcome, field);
        assert_ne!(outcome.code, Some(0), "{field} cannot work");
    }
    for names in [
        "[[stream]]\nname = '${CAMERA_PASSWORD}'\nsource = 'test'\n".to_owned(),
        format!("{stream}[[stream.view]]\nname = '${{CAMERA_PASSWORD}}'\n"),
    ] {
        let outcome = place.ended_daemon(&names, &LOUD);
        assert_shows_nothing(&outcome, &names);
        outcome.assert_clean_exit(78);
    }
}

/// Two streams whose sources have a password wait for their servers, and a third one runs.
#[test]
fn a_daemon_that_runs_shows_no_password_to_anybody() {
    for (isolation, gst_debug) in PLACES {
        assert_shows_nobody(isolation, gst_debug);
    }
}

fn assert_shows_nobody(isolation: &str, gst_debug: (&str, &str)) {
    let place = Place::new();
    let config = "[daemon]\nmetrics = '127.0.0.1:0'\n\
         [[stream]]\nname = 'a'\nsource = 'rtsp://user:${CAMERA_PASSWORD}@127.0.0.1:1/main'\n\
         [[stream]]\nname = 'b'\nsource = 'rtsp://user:MARKERs3cr3t@127.0.0.1:1/main'\n\
         [[stream]]\nname = 'c'\nbackend = 'cpu'\npipeline = 'videotestsrc is-live=true ! taginject tags=\"comment=(string)\\\"${CAMERA_PASSWORD}\\\"\" \
         ! video/x-raw,width=64,height=48,format=NV12 ! appsink name=frames'\n";
    let config =
        &config.replace("[[stream]]\n", &format!("[[stream]]\nisolation = '{isolation}'\n"));
    let path = place.write("foveate.toml", config);
    let notices = UnixDatagram::bind(place.path("notify")).unwrap();
    let notified = place.path("notify");
    let socket = ("NOTIFY_SOCKET", notified.to_str().unwrap());
    let environment = [&LOUD[..], &[gst_debug, socket]].concat();
    let process = place.foveated(&["--config", path.to_str().unwrap()], &environment);
    process.stderr.wait_for(" publishing ");
    process.stderr.wait_for(LOST);
    let daemon = Daemon::running(&place, process);
    let address = metrics_address(&daemon);
    until("c publishes", || 1 < daemon.listing("c").counts.frames_published);
    let mut shown = vec![scrape_text(address)];
    shown.push(serde_json::to_string(&daemon.client().stats().unwrap()).unwrap());
    for arguments in [
        &["ls"][..],
        &["ls", "-v"],
        &["ls", "--json"],
        &["watch", "--json", "--seconds", "0.1"],
        &["watch", "--seconds", "0.1"],
        &["watch", "c/main", "--json", "--frames", "1"],
        &["health"],
        &["wait", "a/main", "--timeout", "0.1"],
        &["doctor"],
    ] {
        let outcome = place.foveate(arguments).finish();
        shown.extend([outcome.stdout, outcome.stderr]);
    }
    let told = all_of(&notices);
    assert!(told.contains("STATUS=") && told.contains("READY=1"), "{told}");
    shown.push(told);
    shown.extend(operated(&place, &notices));
    let id = daemon.process.id();
    shown.push(fs::read_to_string(format!("/proc/{id}/cmdline")).unwrap());
    for thread in fs::read_dir(format!("/proc/{id}/task")).unwrap() {
        shown.push(fs::read_to_string(thread.unwrap().path().join("comm")).unwrap_or_default());
    }
    for text in shown {
        assert!(!text.contains(MARKER), "{text}");
    }
    daemon.process.signal(Signal::TERM);
    let outcome = daemon.process.finish();
    assert_eq!(outcome.code, Some(0));
    assert_shows_nothing(&outcome, config);
    assert!(outcome.stderr.contains("rtspsrc"), "GStreamer was loud");
}

/// Sources whose credentials no pattern finds in a text: with blanks and quotes, under any name, and of three bytes.
#[test]
fn sources_are_shown_without_what_is_secret_in_them() {
    let place = Place::new();
    let config = r#"
        [[stream]]
        name = "a"
        source = 'rtsp://u:a MARKERs3cr3t@127.0.0.1:1/x'
        [[stream]]
        name = "b"
        source = 'rtsp://u:a"MARKERs3cr3t@127.0.0.1:1/x?pass=MARKERs3cr3t&anything=MARKERs3cr3t'
        [[stream]]
        name = "c"
        source = 'rtsp://127.0.0.1:1/${SHORT}'
        [[stream]]
        name = "d"
        source = '/dev/${SHORT}'
        [[stream]]
        name = "e"
        pipeline = 'rtspsrc location=rtsp://127.0.0.1:1/x user-id=u user-pw=${SHORT} ! decodebin ! appsink name=frames'
    "#;
    let path = place.write("foveate.toml", config);
    let environment = [("SHORT", "q7~"), ("RUST_LOG", "trace")];
    let process = place.foveated(&["--config", path.to_str().unwrap()], &environment);
    process.stderr.wait_for(LOST);
    let daemon = Daemon::running(&place, process);
    until("all wait for their sources", || {
        "abcde".chars().all(|name| !daemon.listing(&name.to_string()).restarts.is_empty())
    });
    let listed = place.foveate(&["ls", "-v"]).finish().stdout;
    for source in [
        "rtsp://***@127.0.0.1:1/x\n",
        "rtsp://***@127.0.0.1:1/x?***\n",
        "rtsp://127.0.0.1:1/${SHORT}\n",
        "/dev/${SHORT}\n",
        "user-pw=*** ",
    ] {
        assert!(listed.contains(source), "{source} is not in {listed}");
    }
    let log = daemon.stop().stderr;
    for text in [listed, log] {
        assert!(!text.contains(MARKER) && !text.contains("q7~"), "{text}");
    }
}

/// A field is cut at 4 KiB: of a password that is cut in two nothing would be recognised.
#[test]
fn a_password_is_masked_before_log_truncation() {
    let place = Place::new();
    let source = "source = 'rtsp://u:MARKERs3cr3t@127.0.0.1:1/x'";
    let config =
        format!("[[stream]]\nname = 'a'\n{source}\n[[stream]]\nname = 'b'\nsource = 'test'\n");
    let daemon = place.daemon(&config);
    for padding in 4060..4100 {
        let log = format!("gaze.log=/{}MARKERs3cr3t", "x".repeat(padding));
        let outcome = place.foveate(&["set", "b/main", "gaze.policy=replay", &log]).finish();
        assert!(!outcome.stderr.contains("MARKER"), "{}", outcome.stderr);
    }
    let log = daemon.stop().stderr;
    assert!(log.contains("an operator sets a view") && log.contains(" ..."), "{log}");
    assert!(!log.contains("MARKER"), "{log}");
}

#[test]
fn a_password_is_forgotten_with_the_last_stream_that_has_it() {
    let place = Place::new();
    let config = |names: &[&str]| {
        let source = "source = 'rtsp://u:OnlyOfThese@127.0.0.1:1/x'";
        let streams = names.iter().map(|name| format!("[[stream]]\nname = '{name}'\n{source}\n"));
        format!("[[stream]]\nname = 'own'\nsource = 'test'\n{}", streams.collect::<String>())
    };
    let daemon = place.daemon(&config(&["a", "b"]));
    let logged = |mark: &str| {
        let log = format!("gaze.log=/OnlyOfThese/{mark}");
        place.foveate(&["set", "own/main", "gaze.policy=replay", &log]).finish();
        daemon.process.stderr.wait_for(mark);
        let text = daemon.process.stderr.so_far();
        text.lines().find(|line| line.contains(mark)).unwrap().to_owned()
    };
    assert!(!logged("first").contains("OnlyOfThese"));
    place.write("foveate.toml", config(&["b"]));
    place.foveate(&["reload"]).finish().assert_clean_exit(0);
    assert!(!logged("second").contains("OnlyOfThese"));
    place.write("foveate.toml", config(&[]));
    place.foveate(&["reload"]).finish().assert_clean_exit(0);
    assert!(logged("third").contains("OnlyOfThese"));
}

/// What operators see who add streams, and set views, with passwords, and the messages to the service manager meanwhile.
fn operated(place: &Place, notices: &UnixDatagram) -> Vec<String> {
    let bring = |name: &str, field: &str| {
        let text = format!("[[stream]]\nname = '{name}'\n{field}\n");
        let file = place.write("added.toml", text);
        place.foveate(&["add-stream", file.to_str().unwrap()]).finish()
    };
    let (mut outcomes, mut told) = (Vec::new(), Vec::new());
    for (index, field) in AWAITED.iter().chain(&IMPOSSIBLE).enumerate() {
        outcomes.push(bring(&format!("added{index}"), field));
        // There is one already, or there is none.
        outcomes.push(bring("a", field));
        // The daemon waits where nobody reads what it tells the service manager.
        told.push(all_of(notices));
    }
    outcomes.push(place.foveate(&["ls", "-v"]).finish());
    outcomes.push(place.foveate(&["reload"]).finish());
    told.push(all_of(notices));
    let seen = outcomes.into_iter().flat_map(|outcome| [outcome.stdout, outcome.stderr]);
    seen.chain(told).collect()
}

/// Everything received so far.
fn all_of(socket: &UnixDatagram) -> String {
    socket.set_nonblocking(true).unwrap();
    let mut buffer = [0; 4096];
    let mut text = String::new();
    while let Ok(len) = socket.recv(&mut buffer) {
        text += &String::from_utf8_lossy(&buffer[..len]);
        text.push('\n');
    }
    text
}

fn assert_shows_nothing(outcome: &Outcome, about: &str) {
    for text in [&outcome.stdout, &outcome.stderr] {
        let leaks = text.lines().filter(|line| line.contains(MARKER)).take(5).collect::<Vec<_>>();
        assert!(leaks.is_empty(), "{about}\n{leaks:#?}");
    }
}
