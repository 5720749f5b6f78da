//! Whatever is wrong with what it is given, a program ends with the documented exit code and one clear
//! message: the cause and the way out.

use std::fs;

use testkit::daemon::{Outcome, Place};
use testkit::film::encode;
use testkit::naive::Random;

#[test]
fn a_pipeline_that_cannot_work_is_wrong_configuration() {
    let pipeline = "pipeline = 'videotestsrc ! x264enc ! appsink name=frames'";
    let parts = ["missing GStreamer element \"x264enc\"", "gstreamer1.0-plugins-ugly"];
    assert_daemon_fails(pipeline, 78, &parts);
    let place = Place::new();
    let missing = place.path("none.gst");
    let source = format!("pipeline_file = '{}'", missing.display());
    assert_daemon_fails(&source, 78, &["pipeline file", "none.gst", "No such file"]);
}

#[test]
fn a_group_that_is_not_there_is_wrong_configuration() {
    let place = Place::new();
    let config =
        "[daemon]\nsocket_group = 'nobody-has-this'\n[[stream]]\nname = 'a'\nsource = 'test'\n";
    let outcome = place.ended_daemon(config, &[]);
    outcome.assert_clean_exit(78);
    for part in ["socket_group", "nobody-has-this", "add it"] {
        assert!(outcome.message().contains(part), "{outcome:#?}");
    }
}

#[test]
fn a_file_that_is_no_video_is_refused() {
    let place = Place::new();
    let mut random = Random(1);
    let damaged: Vec<u8> = (0..50_000).map(|_| random.byte()).collect();
    place.write("noise.mp4", damaged);
    encode(&place.path("sound.wav"), "audiotestsrc num-buffers=20 ! wavenc");
    fs::create_dir(place.path("folder.mp4")).unwrap();
    assert_daemon_fails("source = '/dev/zero'", 78, &["\"/dev/zero\" is not a V4L2 device"]);
    for (name, code, part, extracted) in [
        ("noise.mp4", 69, "is damaged, or not a video", "is damaged, or not a video"),
        ("sound.wav", 78, "no video in", "no video in"),
        ("folder.mp4", 78, "no pictures in the folder", "no pictures in"),
    ] {
        let path = place.path(name).display().to_string();
        assert_daemon_fails(&format!("source = '{path}'"), code, &[part]);
        assert_is_refusal(&place.extract(&path, &[]), &[code], &[extracted], name);
    }
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
fn an_unusable_configuration_is_refused_by_all_programs() {
    let place = Place::new();
    let missing = place.path("none.toml").display().to_string();
    let unreadable = place.path("folder.toml").display().to_string();
    fs::create_dir(&unreadable).unwrap();
    let binary = place.write("binary.toml", [0xFF, 0xFE, 0x00]).display().to_string();
    let stream = "[[stream]]\nname = 'camera'\nsource = 'test'\n";
    let camera = format!("{stream}camera.calibration = 'none.yaml'\n");
    let camera = place.write("camera.toml", camera).display().to_string();
    let view = "[[stream.view]]\nname = 'main'\ngaze = { policy = 'replay', log = 'none.log' }\n";
    let gaze = place.write("gaze.toml", format!("{stream}{view}")).display().to_string();
    let key = place.write("key.toml", format!("{stream}bugdet = 4\n")).display().to_string();
    let value = place.write("value.toml", format!("{stream}pace = 'fast'\n")).display().to_string();
    let syntax = place.write("syntax.toml", format!("{stream}pace = \n")).display().to_string();
    for (file, parts) in [
        (&missing, &["cannot read the configuration", "none.toml", "No such file"][..]),
        (&unreadable, &["cannot read the configuration", "folder.toml", "directory"]),
        (&binary, &["cannot read the configuration", "binary.toml", "UTF-8"]),
        (&camera, &["cannot read the calibration", "none.yaml", "No such file"]),
        (&gaze, &["cannot read the gaze log", "none.log", "No such file"]),
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
    let outcome = place.check("\"\\u001b[2Jgone\" = 1\n");
    outcome.assert_clean_exit(78);
    assert!(outcome.stderr.contains("gone") && !outcome.stderr.contains('\u{1b}'), "{outcome:?}");
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
    assert_eq!(outcome.stdout, "no --config: the built-in test scene is valid\n");
    let outcome = place.check("[[stream]]\nname = 'camera'\nsource = '/dev/video987'\n");
    outcome.assert_clean_exit(0);
    assert!(outcome.stdout.ends_with("foveate.toml: valid; 1 stream\n"), "{outcome:?}");
    assert!(!place.socket().exists());
    let pipeline =
        "[[stream]]\nname = 'camera'\npipeline = 'nosuchelement ! appsink name=frames'\n";
    assert_is_refusal(&place.check(pipeline), &[78], &["nosuchelement", "camera"], pipeline);
}

#[test]
fn a_second_daemon_is_refused_and_the_first_continues() {
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
    let outcome = place.extract("x.avi", &["--config", config]);
    assert_is_refusal(&outcome, &[69], &["no such device"], "extract");
}

#[test]
fn wrong_usage_of_the_daemon_is_refused() {
    let place = Place::new();
    for arguments in [&["--bogus"][..], &["--config"], &["configs/a.toml"]] {
        let outcome = place.foveated(arguments, &[]).finish();
        outcome.assert_clean_exit(2);
        assert!(outcome.stderr.contains("try '--help'"), "{outcome:?}");
    }
    for help in [place.foveated(&["--help"], &[]).finish(), place.foveate(&["--help"]).finish()] {
        help.assert_clean_exit(0);
        assert!(help.stdout.contains("Exit codes: 0 "), "{help:?}");
    }
}

#[test]
fn a_missing_view_is_named_with_those_that_exist() {
    let place = Place::new();
    let out = place.path("out").display().to_string();
    let daemon = place.daemon("[[stream]]\nname = 'camera'\nsource = 'test'\n");
    for arguments in [&["look", "a/b", "1", "2"][..], &["snap", "a/b", "--out", &out]] {
        let outcome = place.foveate(arguments).finish();
        let parts = ["unknown view `a/b`", "camera/main"];
        assert_is_refusal(&outcome, &[69], &parts, &format!("{arguments:?}"));
    }
    daemon.stop();
}

#[test]
fn pictures_and_arrays_that_cannot_be_written_fail() {
    let place = Place::new();
    let clip = place.path("clip.avi");
    encode(
        &clip,
        "videotestsrc num-buffers=3 ! video/x-raw,format=I420,width=64,height=48 ! avimux",
    );
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

/// A daemon whose only stream has `source` ends with `code` and a message that holds all of `parts`.
fn assert_daemon_fails(source: &str, code: i32, parts: &[&str]) {
    assert_is_refusal(&failed_daemon(source), &[code], parts, source);
}

fn failed_daemon(source: &str) -> Outcome {
    let place = Place::new();
    let outcome = place.ended_daemon(&format!("[[stream]]\nname = 'camera'\n{source}\n"), &[]);
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
