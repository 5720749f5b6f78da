//! Limits of the system and of files: a program reports them, and neither hangs nor dies of a signal.

use std::fs;
use std::path::Path;
use std::process::Command;

use foveate::client::{Client, Next};
use foveate_control::ClientExt as _;
use foveate_ring::TokenFrameBuf;
use rustix::fs::{CWD, FileType, mknodat};
use rustix::process::Signal;
use serde_json::json;
use testkit::daemon::{Daemon, Place, Process};
use testkit::wait::{HANG, until};

/// A live stream with a small ring.
const CAMERA: &str = "[[stream]]\nname = 'camera'\nbackend = 'cpu'\npipeline = 'videotestsrc is-live=true pattern=snow ! \
     video/x-raw,format=GRAY8,width=320,height=240,framerate=30/1 ! appsink name=frames'\n\
     [[stream.view]]\nname = 'main'\nbudget = 16\nslots = 2\ndtype = 'u8'\n";

/// A program with a limit, as `ulimit` takes it: `-f` counts KiB.
///
/// It has no other files than the standard ones: what the tests were given, such as the log of who
/// runs them, would count against its limit.
fn limited(limit: &str, program: &str) -> Command {
    let script = format!(
        "for file in /proc/$$/fd/*; do\n\
         file=${{file##*/}}\n\
         if ((2 < file)); then exec {{file}}>&-; fi\n\
         done\n\
         ulimit {limit}\n\
         exec \"$@\""
    );
    let mut command = Command::new("bash");
    command.args(["-c", &script, "bash", program]);
    command
}

#[test]
fn view_beyond_the_file_size_limit_is_refused() {
    let place = Place::new();
    let config = place.write("foveate.toml", CAMERA);
    let mut command = limited("-f 128", env!("CARGO_BIN_EXE_foveated"));
    command.arg("--config").arg(config).arg("--socket").arg(place.socket());
    let daemon = Daemon::running(&place, Process::start(command, &[]));
    until("it publishes", || is_published(&place.socket()));

    let mut client = daemon.client();
    let table = json!({"budget": 1024, "slots": 8, "dtype": "f32"});
    let view = client.open_view("camera", table.as_object().unwrap().clone()).unwrap();
    let mut follower = daemon.client().subscribe(&view, false).unwrap();
    let end = follower.next_frame(&mut TokenFrameBuf::default(), HANG);
    let Ok(Next::Ended(reason)) = end else { panic!("{end:?}") };
    assert!(reason.contains("ulimit -f"), "{reason}");
    daemon.subscribe("camera/main").next_frame();
    daemon.stop();
}

/// The connection is its last descriptor.
#[test]
fn a_reader_without_a_descriptor_is_told_the_way_out() {
    let place = Place::new();
    let daemon = place.daemon(CAMERA);
    let mut command = limited("-n 4", env!("CARGO_BIN_EXE_foveate"));
    command.arg("--socket").arg(place.socket()).args(["watch", "camera/main", "--frames", "1"]);
    let outcome = Process::start(command, &[]).finish();
    outcome.assert_clean_exit(1);
    let told = "cannot receive from camera/main (close some files, or raise ulimit -n): Too many";
    assert!(outcome.stderr.contains(told), "{outcome:#?}");
    daemon.stop();
}

#[test]
fn recording_at_the_file_size_limit_is_complete() {
    let place = Place::new();
    let daemon = place.daemon(CAMERA);
    let file = place.path("run.mcap");
    let mut command = limited("-f 1024", env!("CARGO_BIN_EXE_foveate"));
    command
        .arg("--socket")
        .arg(place.socket())
        .args(["record", "camera/main", "--mcap"])
        .arg(&file);
    let outcome = Process::start(command, &[]).finish();
    outcome.assert_clean_exit(1);
    assert!(outcome.stderr.contains("the file is complete"), "{}", outcome.stderr);
    let bytes = fs::read(&file).unwrap();
    assert!(bytes.len() <= 1024 * 1024);
    let summary = mcap::Summary::read(&bytes).unwrap().unwrap();
    assert!(10 < summary.stats.unwrap().message_count);
    daemon.stop();
}

#[test]
fn extract_at_the_file_size_limit_says_so() {
    let place = Place::new();
    let clip = place.path("clip.mjpeg.avi");
    testkit::film::encode(
        &clip,
        "videotestsrc pattern=snow num-buffers=60 ! video/x-raw,format=I420,width=64,height=48 ! jpegenc ! avimux",
    );
    let mut command = limited("-f 32", env!("CARGO_BIN_EXE_foveate"));
    command.arg("extract").arg(&clip).arg("--out").arg(place.path("out"));
    let outcome = Process::start(command, &[]).finish();
    outcome.assert_clean_exit(1);
    assert!(outcome.stderr.contains("File too large"), "{}", outcome.stderr);
}

/// The queue holds hundreds of frames, and a picture of each would take many seconds.
#[test]
fn recording_ends_without_its_last_pictures() {
    let place = Place::new();
    let daemon = place.daemon(
        "[[stream]]\nname = 'camera'\nbackend = 'cpu'\npipeline = 'videotestsrc is-live=true pattern=snow ! \
         video/x-raw,format=GRAY8,width=1920,height=1080,framerate=30/1 ! appsink name=frames'\n\
         [[stream.view]]\nname = 'main'\nbudget = 64\nslots = 64\ndtype = 'u8'\n",
    );
    let file = place.path("run.mcap");
    let arguments =
        ["record", "camera/main", "--mcap", file.to_str().unwrap(), "--pictures-hz", "1000"];
    let recorder = place.foveate(&arguments);
    let published = || {
        let streams = daemon.client().list().unwrap();
        streams[0].counts.frames_published
    };
    until("the recorder is connected", || {
        1 < daemon.client().listing().unwrap().server.unwrap().counts.clients
    });
    let first = published();
    until("there are frames enough", || first + 60 < published());
    recorder.signal(Signal::TERM);
    let outcome = recorder.finish();
    outcome.assert_clean_exit(0);
    assert!(outcome.stderr.contains("pictures of the last frames to end in time"), "{outcome:#?}");
    daemon.stop();
}

#[test]
fn special_files_of_a_configuration_are_refused() {
    let place = Place::new();
    let fifo = place.path("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, 0o600.into(), 0).unwrap();
    let uses: [fn(&str) -> String; 4] = [
        |file| format!("{CAMERA}gaze = {{ policy = 'replay', log = '{file}' }}\n"),
        |file| format!("{CAMERA}gaze = {{ policy = 'relevance', scorer = '{file}' }}\n"),
        |file| format!("{CAMERA}[stream.camera]\ncalibration = '{file}'\n"),
        |file| format!("[[stream]]\nname = 'camera'\nbackend = 'cpu'\npipeline_file = '{file}'\n"),
    ];
    for (index, config) in uses.iter().enumerate() {
        for file in [fifo.to_str().unwrap(), "/dev/zero"] {
            let config = place.write("special.toml", config(file));
            let arguments = ["--check", "--config", config.to_str().unwrap()];
            let outcome = Process::start(foveated(&arguments), &[]).finish();
            outcome.assert_clean_exit(78);
            let is_named = outcome.stderr.contains("not a regular file");
            assert!(is_named, "use {index} of {file}: {}", outcome.stderr);
        }
    }
}

#[test]
fn reload_of_a_fifo_is_refused_and_sigterm_works() {
    let place = Place::new();
    let folder = place.path("conf.d");
    fs::create_dir(&folder).unwrap();
    let config = place.write("foveate.toml", CAMERA);
    let (config, folder_text) = (config.to_str().unwrap(), folder.to_str().unwrap());
    let arguments = ["--config", config, "--config-dir", folder_text];
    let daemon = Daemon::running(&place, place.foveated(&arguments, &[]));
    until("it publishes", || is_published(&place.socket()));
    mknodat(CWD, folder.join("more.toml"), FileType::Fifo, 0o600.into(), 0).unwrap();
    let reload = place.foveate(&["reload"]).finish();
    assert!(reload.stderr.contains("not a regular file"), "{reload:#?}");
    fs::remove_file(folder.join("more.toml")).unwrap();
    fs::remove_file(config).unwrap();
    mknodat(CWD, config, FileType::Fifo, 0o600.into(), 0).unwrap();
    let reload = place.foveate(&["reload"]).finish();
    assert!(reload.stderr.contains("not a regular file"), "{reload:#?}");
    daemon.stop();
}

/// A shell's `<(...)` is a pipe.
#[test]
fn configuration_may_come_from_a_pipe() {
    let place = Place::new();
    let config = place.write("foveate.toml", CAMERA);
    let mut command = Command::new("sh");
    let script = "cat \"$1\" | \"$2\" --check --config /dev/stdin";
    command.args(["-c", script, "sh", config.to_str().unwrap(), env!("CARGO_BIN_EXE_foveated")]);
    Process::start(command, &[]).finish().assert_clean_exit(0);
}

fn foveated(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_foveated"));
    command.args(arguments);
    command
}

fn is_published(socket: &Path) -> bool {
    let streams = Client::connect(socket).and_then(|mut client| client.list());
    streams.is_ok_and(|streams| streams.iter().any(|stream| 0 < stream.counts.frames_published))
}
