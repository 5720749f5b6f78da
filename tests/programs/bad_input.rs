//! Whatever is wrong with what it is given, a program ends by itself with the documented exit code and one clear
//! message: the cause and the way out.

use std::fs;
use std::os::unix::net::UnixListener;

use rustix::process::Signal;

use crate::daemon::{Outcome, Place};
use crate::film::encode;
use crate::naive::Random;
use crate::wait::until;

/// A password that must not be seen.
const MARKER: &str = "MARKER-hunter2";

#[test]
fn a_pipeline_that_cannot_work_is_wrong_configuration() {
    for (pipeline, parts) in [
        (
            "videotestsrc ! ! appsink name=frames",
            &["the pipeline is not valid", "gst-launch-1.0"][..],
        ),
        ("videotestsrc nonesuch=1 ! appsink name=frames", &["nonesuch", "gst-launch-1.0"]),
        (
            "videotestsrc ! x264enc ! appsink name=frames",
            &["there is no GStreamer element \"x264enc\"", "gstreamer1.0-plugins-ugly"],
        ),
        (
            "videotestsrc ! nosuchelement ! appsink name=frames",
            &["\"nosuchelement\"", "gst-inspect-1.0"],
        ),
        ("videotestsrc ! fakesink", &["no `appsink name=frames`", "`fakesink", "end it in"]),
        ("videotestsrc ! jpegenc ! appsink name=frames", &["image/jpeg", "decodebin"]),
        ("${place} ! appsink name=frames", &["\"place\" has no value", "`parameters`"]),
    ] {
        let pipeline = pipeline.replace("${", "$${");
        assert_daemon_fails(&format!("pipeline = '{pipeline}'"), 78, parts);
    }
    let place = Place::new();
    let missing = place.path("none.gst");
    let source = format!("pipeline_file = '{}'", missing.display());
    assert_daemon_fails(&source, 78, &["pipeline file", "none.gst", "No such file"]);
}

#[test]
fn a_group_that_is_not_there_is_wrong_configuration() {
    let place = Place::new();
    let config = place.write(
        "c.toml",
        "[daemon]\nsocket_group = 'nobody-has-this'\n[[stream]]\nname = 'a'\nsource = 'test'\n",
    );
    let outcome = place.foveated(&["--config", config.to_str().unwrap()], &[]).finish();
    outcome.assert_clean_exit(78);
    for part in ["socket_group", "nobody-has-this", "add it"] {
        assert!(outcome.message().contains(part), "{outcome:#?}");
    }
}

#[test]
fn a_live_pipeline_cannot_be_made_to_wait() {
    let source =
        "pipeline = 'videotestsrc is-live=true ! appsink name=frames'\npace = 'every-frame'";
    assert_daemon_fails(source, 78, &["\"every-frame\"", "this source is live", "\"realtime\""]);
}

#[test]
fn a_source_that_is_not_there_is_unavailable() {
    assert_daemon_fails(
        "source = '/no/such/clip.mp4'",
        69,
        &["\"/no/such/clip.mp4\" does not exist", "check the path"],
    );
    assert_daemon_fails("source = 'clip.avi'", 69, &["clip.avi\" does not exist"]);
    assert_daemon_fails(
        "source = '/dev/video987'\nrestart = false",
        69,
        &["there is no camera \"/dev/video987\"", "plug it in"],
    );
    assert_daemon_fails(
        "source = 'rtsp://127.0.0.1:1/x'\nrestart = false",
        69,
        &["cannot be opened", "Check the address"],
    );
}

#[test]
fn caps_that_never_come_are_waited_for_no_longer_than_asked() {
    let source = "pipeline = 'appsrc ! appsink name=frames'\ncaps_timeout_ms = 300";
    assert_daemon_fails(source, 69, &["no frame within", "`caps_timeout_ms`"]);
}

#[test]
fn a_file_that_is_no_video_is_refused() {
    let place = Place::new();
    let mut random = Random(1);
    let damaged: Vec<u8> = (0..50_000).map(|_| random.byte()).collect();
    place.write("noise.mp4", damaged);
    place.write("text.mp4", "This is no video, however long one looks at it.\n".repeat(100));
    place.write("empty.mp4", "");
    encode(&format!(
        "audiotestsrc num-buffers=20 ! wavenc ! filesink location={}",
        place.path("sound.wav").display()
    ));
    fs::create_dir(place.path("folder.mp4")).unwrap();
    for (name, code, part, extracted) in [
        ("noise.mp4", 69, "is damaged, or not a video", "is damaged, or not a video"),
        ("text.mp4", 69, "text file", "text file"),
        ("empty.mp4", 69, "no data", "no data"),
        ("sound.wav", 78, "there is no video in", "there is no video in"),
        ("folder.mp4", 78, "a folder without pictures", "has no pictures"),
    ] {
        let path = place.path(name).display().to_string();
        assert_daemon_fails(&format!("source = '{path}'"), code, &[part]);
        let out = place.path("out").display().to_string();
        let outcome = place.foveate(&["extract", &path, "--out", &out]).finish();
        assert_is_refusal(&outcome, &[code], &[extracted], name);
    }
}

#[test]
fn a_clip_that_breaks_off_is_extracted_up_to_there() {
    let place = Place::new();
    let clip = place.path("clip.avi");
    encode(&format!(
        "videotestsrc num-buffers=30 ! video/x-raw,format=I420,width=64,height=48 ! jpegenc ! avimux ! \
         filesink location={}",
        clip.display()
    ));
    let whole = fs::read(&clip).unwrap();
    fs::write(&clip, &whole[..whole.len() / 2]).unwrap();
    let out = place.path("out").display().to_string();
    let outcome = place.foveate(&["extract", clip.to_str().unwrap(), "--out", &out]).finish();
    assert!(outcome.stdout.contains("/main: "), "{outcome:#?}");
    match outcome.code {
        Some(0) => outcome.assert_clean_exit(0),
        _ => assert_is_refusal(&outcome, &[69], &[], "a clip that breaks off"),
    }
}

#[test]
fn a_frame_of_an_absurd_size_is_refused() {
    for (width, height) in [(20_000, 16), (16, 20_000)] {
        let source = format!(
            "pipeline = 'videotestsrc ! video/x-raw,format=GRAY8,width={width},height={height} ! appsink name=frames'"
        );
        let size = format!("{width}x{height}");
        assert_daemon_fails(&source, 69, &[&size, "between 1 and 16384", "videoscale"]);
    }
    let nothing = "pipeline = 'fakesrc num-buffers=2 ! capsfilter \
         caps=video/x-raw,format=GRAY8,width=0,height=0,framerate=30/1 ! appsink name=frames'";
    assert_daemon_fails(nothing, 69, &["0x0", "between 1 and 16384"]);
}

#[test]
fn one_broken_stream_leaves_the_others_alone() {
    let place = Place::new();
    let daemon = place.daemon(
        "[[stream]]\nname = 'broken'\nsource = '/no/such/clip.mp4'\n\
         [[stream]]\nname = 'insists'\nsource = 'test'\nbackend = 'vulkan'\ndevice = 'no such device'\n\
         [[stream]]\nname = 'camera'\nsource = 'test'\nbackend = 'cpu'\n",
    );
    daemon.subscribe("camera/main").next_frame();
    for (name, reason) in [("broken", "does not exist"), ("insists", "no such device")] {
        assert!(daemon.subscribe(&format!("{name}/main")).end().contains(reason), "{name}");
        assert!(daemon.listing(name).reason.contains(reason), "{:?}", daemon.listing(name));
    }
    daemon.stop();
}

#[test]
fn a_configuration_that_cannot_be_used_is_refused_by_daemon_check_and_extract() {
    let place = Place::new();
    let missing = place.path("none.toml").display().to_string();
    let unreadable = place.path("folder.toml").display().to_string();
    fs::create_dir(&unreadable).unwrap();
    let binary = place.write("binary.toml", [0xFF, 0xFE, 0x00]).display().to_string();
    let stream = "[[stream]]\nname = 'camera'\nsource = 'test'\n";
    let key = place.write("key.toml", format!("{stream}bugdet = 4\n")).display().to_string();
    let value = place.write("value.toml", format!("{stream}pace = 'fast'\n")).display().to_string();
    let syntax = place.write("syntax.toml", format!("{stream}pace = \n")).display().to_string();
    for (file, parts) in [
        (&missing, &["cannot read the configuration", "none.toml", "No such file"][..]),
        (&unreadable, &["cannot read the configuration", "folder.toml", "directory"]),
        (&binary, &["cannot read the configuration", "binary.toml", "UTF-8"]),
        (&key, &["key.toml:4:1: stream.bugdet", "unknown key `bugdet`", "`source`", "`backend`"]),
        (&value, &["value.toml:4:8: stream.pace", "\"realtime\"", "\"every-frame\""]),
        (&syntax, &["syntax.toml:4:"]),
    ] {
        for arguments in [&["--config", file][..], &["--check", "--config", file]] {
            let outcome = place.foveated(arguments, &[]).finish();
            assert_is_refusal(&outcome, &[78], parts, file);
        }
        let extract = ["extract", "clip.avi", "--out", "out", "--config", file];
        assert_is_refusal(&place.foveate(&extract).finish(), &[78], parts, file);
    }
    assert!(!place.socket().exists());
}

#[test]
fn what_a_configuration_holds_cannot_steer_the_terminal_that_shows_it() {
    let place = Place::new();
    let path = place.write("escape.toml", "\"\\u001b[2Jgone\" = 1\n");
    let outcome = place.foveated(&["--check", "--config", path.to_str().unwrap()], &[]).finish();
    outcome.assert_clean_exit(78);
    assert!(outcome.stderr.contains("gone") && !outcome.stderr.contains('\u{1b}'), "{outcome:?}");
}

#[test]
fn a_gaze_log_that_cannot_be_replayed_is_refused_by_daemon_check_and_extract() {
    let place = Place::new();
    let header = r#"{"foveate_gaze_log":2,"view":"camera/main","extent":[64,48]}"#;
    place.write("empty.log", format!("{header}\n"));
    place.write("other.log", "time,x,y\n");
    place.write("newer.log", header.replace(":2,", ":6,"));
    place.write("broken.log", format!("{header}\n{{\"frame\":1,\"id\":\n"));
    for (log, parts) in [
        ("none.log", &["cannot read the gaze log", "none.log", "No such file"][..]),
        ("empty.log", &["cannot replay", "empty.log", "no entries"]),
        ("other.log", &["other.log", "not a gaze log", "`foveate record`"]),
        ("newer.log", &["newer.log", "version 6", "versions 2 to 5"]),
        ("broken.log", &["broken.log", "line 2 is broken"]),
    ] {
        let gaze = format!("gaze = {{ policy = 'replay', log = '{log}' }}");
        let stream =
            "[[stream]]\nname = 'camera'\nsource = 'test'\n[[stream.view]]\nname = 'main'\n";
        let file = place.write("replay.toml", format!("{stream}{gaze}\n")).display().to_string();
        for arguments in [&["--config", &file][..], &["--check", "--config", &file]] {
            assert_is_refusal(&place.foveated(arguments, &[]).finish(), &[78], parts, log);
        }
        let extract = ["extract", "clip.avi", "--out", "out", "--config", &file];
        assert_is_refusal(&place.foveate(&extract).finish(), &[78], parts, log);
    }
}

#[test]
fn a_calibration_that_cannot_be_used_is_refused_by_daemon_check_and_extract() {
    let place = Place::new();
    let fine = "image_width: 64\nimage_height: 48\ncamera_matrix: {data: [50, 0, 32, 0, 50, 24, 0, 0, 1]}\n\
                distortion_coefficients: {data: []}\n";
    place.write("fine.yaml", fine);
    place.write("text.yaml", "hello");
    for (camera, parts) in [
        (
            "calibration = 'none.yaml'",
            &["cannot read the calibration", "none.yaml", "No such file"][..],
        ),
        ("calibration = 'text.yaml'", &["text.yaml is not a calibration", "`image_width`"]),
        ("calibration = 'fine.yaml'\ncrop = [0, 0, 65, 48]", &["`crop`", "64x48", "fine.yaml"]),
    ] {
        let stream = "[[stream]]\nname = 'camera'\nsource = 'test'\n[stream.camera]\n";
        let file = place.write("camera.toml", format!("{stream}{camera}\n")).display().to_string();
        for arguments in [&["--config", &file][..], &["--check", "--config", &file]] {
            assert_is_refusal(&place.foveated(arguments, &[]).finish(), &[78], parts, camera);
        }
        let extract = ["extract", "clip.avi", "--out", "out", "--config", &file];
        assert_is_refusal(&place.foveate(&extract).finish(), &[78], parts, camera);
    }
}

#[test]
fn check_reports_missing_files_beside_other_mistakes() {
    let place = Place::new();
    let config = "[[stream]]\nname = 'a'\nsource = 'no/clip.avi'\npace = 'fast'\n\
                  [[stream.view]]\nname = 'v'\ngaze = { policy = 'replay', log = 'no.log' }\n\
                  [[stream.view]]\nname = 'w'\ngaze = { policy = 'replay', log = 'no.other' }\n\
                  [[stream]]\nname = 'b'\npipeline = 'nosuchelement ! appsink name=frames'\n\
                  [[stream]]\nname = 'c'\nsource = '${NOT_SET}/${NOR_THIS}'\n";
    let file = place.write("many.toml", config).display().to_string();
    let further = place.path("conf.d");
    fs::create_dir(&further).unwrap();
    fs::write(further.join("d.toml"), "[[stream]]\nname = 'd'\nsource = 'test'\nlop = 1\n")
        .unwrap();
    let directory = further.display().to_string();
    let arguments = ["--check", "--config", &file, "--config-dir", &directory];
    let outcome = place.foveated(&arguments, &[]).finish();
    assert_eq!(outcome.code, Some(78), "{outcome:#?}");
    for part in [
        "stream.pace",
        "NOT_SET",
        "NOR_THIS",
        "lop",
        "no/clip.avi",
        "no.log",
        "no.other",
        "nosuchelement",
    ] {
        assert!(outcome.stderr.contains(part), "{part} is missing in {}", outcome.stderr);
    }
    assert_eq!(
        outcome.stderr.matches("NOT_SET").count(),
        2,
        "once, with the remedy: {}",
        outcome.stderr
    );
}

#[test]
fn check_says_that_a_configuration_is_fine_and_starts_nothing() {
    let place = Place::new();
    let outcome = place.foveated(&["--check"], &[]).finish();
    outcome.assert_clean_exit(0);
    assert_eq!(outcome.stdout, "the configuration is valid\n");
    let config = place.write("a.toml", "[[stream]]\nname = 'camera'\nsource = '/dev/video987'\n");
    let outcome = place.foveated(&["--check", "--config", config.to_str().unwrap()], &[]).finish();
    outcome.assert_clean_exit(0);
    assert!(!place.socket().exists());
    let pipeline =
        "[[stream]]\nname = 'camera'\npipeline = 'nosuchelement ! appsink name=frames'\n";
    let config = place.write("a.toml", pipeline);
    let outcome = place.foveated(&["--check", "--config", config.to_str().unwrap()], &[]).finish();
    assert_is_refusal(&outcome, &[78], &["nosuchelement", "camera"], pipeline);
}

#[test]
fn the_socket_of_a_living_daemon_is_refused_and_the_living_one_goes_on() {
    let place = Place::new();
    let first = place.daemon("[[stream]]\nname = 'camera'\nsource = 'test'\n");
    let mut follower = first.subscribe("camera/main");
    follower.next_frame();
    let outcome = place.foveated(&[], &[]).finish();
    let process = format!("(process {})", first.process.id());
    let socket = place.socket().display().to_string();
    assert_is_refusal(
        &outcome,
        &[69],
        &[&socket, "in use by a running daemon", &process, "--socket"],
        "a socket in use",
    );
    let seen = follower.next_frame().head.stamp.frame_seq;
    while follower.next_frame().head.stamp.frame_seq <= seen {}
    first.stop();
}

#[test]
fn what_lies_at_the_place_of_the_socket_is_taken_over_only_if_it_is_dead() {
    let place = Place::new();
    place.write("foveate.sock", "somebody's letter");
    let outcome = place.foveated(&[], &[]).finish();
    assert_is_refusal(&outcome, &[69], &["exists and is not a socket", "--socket"], "a file");
    assert_eq!(fs::read(place.socket()).unwrap(), b"somebody's letter");
    fs::remove_file(place.socket()).unwrap();

    // Closing a listener leaves its socket.
    drop(UnixListener::bind(place.socket()).unwrap());
    let daemon = place.daemon("[[stream]]\nname = 'camera'\nsource = 'test'\n");
    daemon.subscribe("camera/main").next_frame();
    daemon.stop();
}

#[test]
fn a_socket_that_cannot_be_made_is_unavailable() {
    let place = Place::new();
    let long = format!("/tmp/{}/foveate.sock", "x".repeat(120));
    let config = format!("[daemon]\nsocket = '{long}'\n[[stream]]\nname = 'a'\nsource = 'test'\n");
    let config = place.write("long.toml", config);
    let outcome = Place::foveated_alone(&["--config", config.to_str().unwrap()]).finish();
    assert_is_refusal(&outcome, &[69], &["too long for a socket", "--socket"], "a long path");
}

#[test]
fn vulkan_without_such_a_device_is_unavailable() {
    assert_daemon_fails(
        "source = 'test'\nbackend = 'vulkan'\ndevice = 'no such device'",
        69,
        &["\"no such device\"; found: ", "Name one of them with `device`", "CPU backend"],
    );
    let place = Place::new();
    let config = place.write(
        "a.toml",
        "[[stream]]\nname = 'a'\nsource = 'test'\nbackend = 'vulkan'\ndevice = 'no such device'\n",
    );
    let config = config.to_str().unwrap();
    let outcome = place.foveate(&["extract", "x.avi", "--out", "out", "--config", config]).finish();
    assert_is_refusal(&outcome, &[69], &["no such device"], "extract");
}

#[test]
fn wrong_usage_is_told_with_the_right_one() {
    let place = Place::new();
    for arguments in [&["--bogus"][..], &["--config"], &["configs/a.toml"]] {
        let outcome = place.foveated(arguments, &[]).finish();
        outcome.assert_clean_exit(2);
        assert!(outcome.stderr.contains("try '--help'"), "{outcome:?}");
    }
    for arguments in [&[][..], &["jump"], &["extract"], &["snap", "camera/main"], &["look", "a/b"]]
    {
        let outcome = place.foveate(arguments).finish();
        outcome.assert_clean_exit(2);
        assert!(outcome.stderr.contains("Usage: foveate "), "{outcome:?}");
    }
    for help in [place.foveated(&["--help"], &[]).finish(), place.foveate(&["--help"]).finish()] {
        help.assert_clean_exit(0);
        assert!(help.stdout.contains("Exit codes: 0 "), "{help:?}");
    }
}

#[test]
fn without_a_daemon_or_a_view_the_tool_says_so() {
    let place = Place::new();
    let out = place.path("out").display().to_string();
    let commands =
        [&["ls"][..], &["watch"], &["look", "a/b", "1", "2"], &["snap", "a/b", "--out", &out]];
    for arguments in commands {
        let outcome = place.foveate(arguments).finish();
        let parts = ["no daemon listens on", "start `foveated`"];
        assert_is_refusal(&outcome, &[69], &parts, &format!("{arguments:?}"));
    }
    let daemon = place.daemon("[[stream]]\nname = 'camera'\nsource = 'test'\n");
    for arguments in &commands[2..] {
        let outcome = place.foveate(arguments).finish();
        let parts = ["there is no view `a/b`", "camera/main"];
        assert_is_refusal(&outcome, &[69], &parts, &format!("{arguments:?}"));
    }
    daemon.stop();
}

#[test]
fn pictures_and_arrays_that_cannot_be_written_fail() {
    let place = Place::new();
    let clip = place.path("clip.avi");
    encode(&format!(
        "videotestsrc num-buffers=3 ! video/x-raw,format=I420,width=64,height=48 ! avimux ! filesink location={}",
        clip.display()
    ));
    let file = place.write("file", "in the way").display().to_string();
    let daemon = place.daemon("[[stream]]\nname = 'camera'\nsource = 'test'\n");
    daemon.subscribe("camera/main").next_frame();
    for arguments in [
        &["extract", clip.to_str().unwrap(), "--out", &file][..],
        &["snap", "camera/main", "--out", &file],
    ] {
        let outcome = place.foveate(arguments).finish();
        assert_is_refusal(&outcome, &[1], &["cannot write", &file], &format!("{arguments:?}"));
    }
    assert_eq!(fs::read(&file).unwrap(), b"in the way");
    daemon.stop();
}

#[test]
fn a_password_never_leaves_the_daemon() {
    let uri = format!("rtsp://user:{MARKER}@127.0.0.1:1/x");
    let place = Place::new();
    place.write("camera.gst", "rtspsrc location=${location} ! decodebin ! appsink name=frames\n");
    let streams = [
        format!("source = '{uri}'"),
        "source = '${CAMERA}'".to_owned(),
        format!("pipeline = 'rtspsrc location={uri} ! decodebin ! appsink name=frames'"),
        format!("pipeline = 'rtspsrc user-pw={MARKER} ! ! appsink name=frames'"),
        "pipeline_file = 'camera.gst'\nparameters = { location = '${CAMERA}' }".to_owned(),
        format!("pipeline_file = 'camera.gst'\nparameters = {{ location = '{uri}' }}"),
    ];
    // A stream that continues keeps the daemon running.
    let mut config = "[[stream]]\nname = 'lasting'\nsource = 'test'\n".to_owned();
    for (index, source) in streams.iter().enumerate() {
        config.push_str(&format!("[[stream]]\nname = 's{index}'\n{source}\nrestart = false\n"));
    }
    config.push_str(&format!("[[stream]]\nname = 'again'\nsource = '{uri}'\n"));
    let environment = [("CAMERA", uri.as_str()), ("RUST_LOG", "debug")];
    let process = {
        let path = place.write("password.toml", config);
        place.foveated(&["--config", path.to_str().unwrap()], &environment)
    };
    process.stderr.wait_for(" serving ");
    for index in 0..streams.len() {
        let view = format!("s{index}/main");
        let watched = place.foveate(&["watch", &view]).finish();
        assert!(!format!("{watched:?}").contains(MARKER), "{watched:#?}");
    }
    until("the camera is looked for again", || {
        place.foveate(&["ls"]).finish().stdout.contains("trying again in ")
    });
    for arguments in [&["ls"][..], &["ls", "--json"], &["doctor"]] {
        let outcome = place.foveate(arguments).finish();
        assert!(!format!("{outcome:?}").contains(MARKER), "{outcome:#?}");
    }
    process.signal(Signal::TERM);
    let outcome = process.finish();
    outcome.assert_clean_exit(0);
    assert!(!format!("{outcome:?}").contains(MARKER), "{}", outcome.stderr);

    let out = place.path("out").display().to_string();
    let outcome = place.foveate(&["extract", &uri, "--out", &out]).finish();
    assert!(!format!("{outcome:?}").contains(MARKER), "{outcome:#?}");
    let line = format!("[[stream]]\nname = 'a'\nsource = '{uri}'\nsauce = 1\n");
    let path = place.write("refused.toml", line);
    let outcome = place.foveated(&["--config", path.to_str().unwrap()], &[]).finish();
    outcome.assert_clean_exit(78);
    assert!(!format!("{outcome:?}").contains(MARKER), "{outcome:#?}");
}

/// A daemon whose only stream has `source` ends with `code` and a message that holds all of `parts`.
fn assert_daemon_fails(source: &str, code: i32, parts: &[&str]) {
    assert_is_refusal(&failed_daemon(source), &[code], parts, source);
}

fn failed_daemon(source: &str) -> Outcome {
    let place = Place::new();
    let config = place.write("foveate.toml", format!("[[stream]]\nname = 'camera'\n{source}\n"));
    let outcome = place.foveated(&["--config", config.to_str().unwrap()], &[]).finish();
    assert!(!place.socket().exists(), "{outcome:#?}");
    outcome
}

/// It failed with one of `codes`, and its last line says why, once, in words that hold all of `parts`.
fn assert_is_refusal(outcome: &Outcome, codes: &[i32], parts: &[&str], what: &str) {
    let code = outcome.code.unwrap_or(-1);
    assert!(codes.contains(&code), "{what}: {outcome:#?}");
    outcome.assert_clean_exit(code);
    let message = outcome.message();
    assert!(
        message.starts_with("foveate: ") || message.starts_with("foveated: "),
        "{what}: {message}"
    );
    for part in parts {
        assert!(message.contains(part), "{what}: {part:?} is not in {message:?}");
    }
    let told = outcome.stderr.lines().filter(|line| line.starts_with("foveate")).count();
    assert_eq!(told, 1, "{what}: {outcome:#?}");
}
