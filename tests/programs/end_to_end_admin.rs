//! A daemon changes its streams while it runs: what is untouched runs on, and what cannot be used changes nothing.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use foveate::ControlError;
use foveate::client::Next;
use foveate::messages::{RefusalReason, STREAM_RESTARTED};
use foveate_control::{AdminRequest, ClientExt as _, StreamState, ViewListing, admin_path, order};
use rustix::process::Signal;
use serde_json::Map;
use testkit::control::RawClient;
use testkit::daemon::{Daemon, Place};
use testkit::naive::Random;
use testkit::wait::until;

#[test]
fn streams_can_be_added_and_removed_at_runtime() {
    let place = Place::new();
    let daemon = operated(&place, &stream("first", 50));
    let file = place.write("second.toml", stream("second", 20));
    let added = place.foveate(&["add-stream", file.to_str().unwrap()]).finish();
    added.assert_clean_exit(0);
    assert_eq!(added.stdout, "second is added: see `foveate ls`\n");
    let mut follower = daemon.subscribe("second/main");
    assert!(follower.next_frame().records.len() <= 20);

    let again = place.foveate(&["add-stream", file.to_str().unwrap()]).finish();
    again.assert_clean_exit(69);
    assert!(again.message().contains("stream second exists already"), "{again:#?}");

    place.foveate(&["remove-stream", "second"]).finish().assert_clean_exit(0);
    assert_eq!(follower.end(), "the stream was removed");
    let names: Vec<_> = listed(&daemon).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["first"]);
    let gone = place.foveate(&["remove-stream", "second"]).finish();
    gone.assert_clean_exit(69);
    assert!(gone.message().contains("unknown stream \"second\""), "{gone:#?}");
    daemon.stop().assert_clean_exit(0);
}

#[test]
fn a_daemon_whose_last_stream_was_removed_waits_for_another() {
    let place = Place::new();
    let daemon = operated(&place, &stream("camera", 50));
    let mut follower = daemon.subscribe("camera/main");
    follower.next_frame();
    place.foveate(&["remove-stream", "camera"]).finish().assert_clean_exit(0);
    follower.end();
    let file = place.write("camera.toml", stream("camera", 20));
    place.foveate(&["add-stream", file.to_str().unwrap()]).finish().assert_clean_exit(0);
    assert!(daemon.subscribe("camera/main").next_frame().records.len() <= 20);
    daemon.stop().assert_clean_exit(0);
}

#[test]
fn what_concerns_the_daemon_as_a_whole_is_no_stream() {
    let place = Place::new();
    let daemon = operated(&place, &stream("camera", 50));
    let text = format!("[daemon]\nsocket_mode = '0600'\n{}", stream("second", 20));
    let file = place.write("second.toml", text);
    let refused = place.foveate(&["add-stream", file.to_str().unwrap()]).finish();
    refused.assert_clean_exit(78);
    assert!(refused.message().contains("unexpected [daemon]"), "{refused:#?}");
    let names: Vec<_> = listed(&daemon).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["camera"], "it is not added");
    daemon.stop().assert_clean_exit(0);
}

#[test]
fn a_reload_changes_what_the_file_changed_and_nothing_else() {
    for by_signal in [false, true] {
        let place = Place::new();
        let streams = [stream("kept", 50), stream("changed", 50), stream("gone", 50)];
        let daemon = operated(&place, &streams.concat());
        let mut kept = daemon.subscribe("kept/main");
        let [mut changed, mut gone] =
            ["changed/main", "gone/main"].map(|view| daemon.subscribe(view));
        let before = kept.next_frame().head.clone();
        changed.next_frame();
        gone.next_frame();

        let changed_text = stream("changed", 30).replace("width=160", "width=192");
        let streams = [stream("kept", 50), changed_text, stream("new", 50)];
        place.write("foveate.toml", streams.concat());
        if by_signal {
            daemon.process.signal(Signal::HUP);
        } else {
            let reloaded = place.foveate(&["reload"]).finish();
            reloaded.assert_clean_exit(0);
            let lines = ["added    new", "removed  gone", "changed  changed", "kept     kept"];
            assert_eq!(reloaded.stdout.lines().collect::<Vec<_>>(), lines);
        }
        assert_eq!(changed.end(), STREAM_RESTARTED);
        assert_eq!(gone.end(), "the stream was removed");
        let after = kept.next_frame().head.clone();
        assert!(before.ring_sequence < after.ring_sequence, "the same segment");
        until("all that is configured is live", || {
            let live = |name: &str| (name.to_owned(), StreamState::Live);
            listed(&daemon) == ["changed", "kept", "new"].map(live)
        });
        assert!(daemon.subscribe("changed/main").next_frame().records.len() <= 30);
        daemon.stop().assert_clean_exit(0);
    }
}

#[test]
fn replacing_a_view_disturbs_no_other_reader() {
    let place = Place::new();
    let daemon = operated(
        &place,
        &(stream("camera", 50) + "[[stream.view]]\nname = 'other'\ngaze = { policy = 'fixed' }\n"),
    );
    let [mut main, mut other] = ["camera/main", "camera/other"].map(|view| daemon.subscribe(view));
    main.next_frame();
    let before = other.next_frame().head.clone();

    let set = place.foveate(&["set", "camera/main", "budget=20", "gaze.policy=saliency"]).finish();
    set.assert_clean_exit(0);
    assert_eq!(set.stdout, "camera/main: budget = 20, gaze.policy = saliency\n");
    main.await_new_segment();
    assert!(main.next_frame().records.len() <= 20);
    let view = listed_view(&daemon, "camera/main");
    assert_eq!((view.budget, view.policy.as_str()), (20, "saliency"));
    assert!(before.ring_sequence < other.next_frame().head.ring_sequence, "the same segment");

    // The choice of published frames changes without a new segment.
    let before = main.next_frame().head.clone();
    place
        .foveate(&["set", "camera/main", "max_fps=10", "publish=when-read"])
        .finish()
        .assert_clean_exit(0);
    until("it is listed", || listed_view(&daemon, "camera/main").max_fps == Some(10.0));
    assert!(before.ring_sequence < main.next_frame().head.ring_sequence, "the same segment");
    // Frames are a fiftieth of a second apart, and one in five is published, behind those that are in the ring.
    let mut last = before.stamp.frame_seq;
    let apart = (0..20).map(|_| {
        let next = main.next_frame().head.stamp.frame_seq;
        next - std::mem::replace(&mut last, next)
    });
    assert!(apart.filter(|apart| 4 <= *apart).count() >= 10);
    drop(main);
    until("nobody reads it", || {
        let streams = daemon.client().stats().unwrap().streams;
        0 < streams[0].views[0].counts.frames_unread
    });
    place.foveate(&["set", "camera/main", "max_fps=default"]).finish().assert_clean_exit(0);
    until("it is listed", || listed_view(&daemon, "camera/main").max_fps.is_none());

    for (key, part) in [
        ("budget=0", "stream.view.budget"),
        ("budgte=3", "unknown key `budgte`"),
        ("name=third", "a view cannot be renamed"),
        ("gaze.x=0.5", "policy \"fixed\""),
        ("gaze.policy=replay", "`log`"),
        ("layout=spiral", "\"foveal\", \"inset\""),
    ] {
        let refused = place.foveate(&["set", "camera/main", key]).finish();
        refused.assert_clean_exit(2);
        let part = part.strip_prefix("stream.view.").unwrap_or(part);
        assert!(refused.message().contains(part), "{refused:#?}");
    }
    let nobody = place.foveate(&["set", "camera/nobody", "budget=3"]).finish();
    nobody.assert_clean_exit(69);
    assert!(
        nobody.message().contains("the configuration has no view `camera/nobody`"),
        "{nobody:#?}"
    );
    place.foveate(&["set", "camera/main", "budget"]).finish().assert_clean_exit(2);
    daemon.stop();
}

#[test]
fn a_reload_that_changes_views_alone_keeps_the_stream_running() {
    let place = Place::new();
    let daemon = operated(&place, &stream("camera", 50));
    let mut follower = daemon.subscribe("camera/main");
    let before = follower.next_frame().head.stamp.frame_seq;
    place.write("foveate.toml", stream("camera", 20));
    let reloaded = place.foveate(&["reload"]).finish();
    reloaded.assert_clean_exit(0);
    assert_eq!(reloaded.stdout, "adjusted camera\n");
    follower.await_new_segment();
    let frame = follower.next_frame();
    assert!(frame.records.len() <= 20);
    assert!(before < frame.head.stamp.frame_seq, "frames are counted on");
    // What an operator set is what the file is compared with.
    place.foveate(&["set", "camera/main", "budget=30"]).finish().assert_clean_exit(0);
    let reloaded = place.foveate(&["reload"]).finish();
    assert_eq!(reloaded.stdout, "adjusted camera\n");
    daemon.stop();
}

#[test]
fn a_reload_adds_and_removes_views_without_a_restart() {
    let place = Place::new();
    let view = |name: &str| {
        format!("[[stream.view]]\nname = '{name}'\nbudget = 9\ngaze = {{ policy = 'fixed' }}\n")
    };
    let daemon = operated(&place, &(stream("camera", 50) + &view("gone") + &view("moved")));
    let [mut main, mut gone, mut moved] =
        ["main", "gone", "moved"].map(|view| daemon.subscribe(&format!("camera/{view}")));
    let before = main.next_frame().head.clone();
    gone.next_frame();
    moved.next_frame();
    let reload = |views: &[String]| {
        place.write("foveate.toml", stream("camera", 50) + &views.concat());
        let reloaded = place.foveate(&["reload"]).finish();
        reloaded.assert_clean_exit(0);
        assert_eq!(reloaded.stdout, "adjusted camera\n");
    };
    reload(&[view("new"), view("moved")]);
    assert_eq!(gone.end(), "the view was removed");
    let mut new = daemon.subscribe("camera/new");
    assert!(new.next_frame().records.len() <= 9);
    let names = || daemon.listing("camera").views.into_iter().map(|view| view.name.to_string());
    assert!(names().eq(["camera/main", "camera/new", "camera/moved"]));

    // A view of the same name is another one; one that a client opened stays.
    let mut client = daemon.client();
    client.open_view("camera", Map::new()).unwrap();
    reload(&[]);
    assert_eq!(new.end(), "the view was removed");
    reload(&[view("new"), view("moved")]);
    daemon.subscribe("camera/new").next_frame();
    assert_eq!(names().len(), 4);

    // The segment is the same, and has every frame that was taken.
    let Next::Frame { .. } = main.next() else { panic!("the segment is another one") };
    let after = main.frame.head;
    let listing = daemon.listing("camera");
    let frames = after.stamp.frame_seq - before.stamp.frame_seq;
    let published = after.ring_sequence - before.ring_sequence;
    assert!(frames <= published + listing.counts.frames_dropped, "{published} of {frames}");
    assert!(listing.restarts.is_empty() && listing.state == StreamState::Live);
    daemon.stop().assert_clean_exit(0);
}

#[test]
fn a_configuration_that_cannot_be_used_changes_nothing() {
    let place = Place::new();
    let daemon = operated(&place, &stream("camera", 50));
    let mut follower = daemon.subscribe("camera/main");
    let before = follower.next_frame().head.clone();
    for (text, parts, code) in [
        (
            "[[stream]]\nname = 'a'\nsource = 'test'\nbudget = 3\n",
            &["foveate.toml:4", "budget"][..],
            78,
        ),
        ("", &["no [[stream]]"], 78),
        (
            "[[stream]]\nname = 'a'\nsource = 'test'\n[stream.camera]\ncalibration = 'none.yaml'\n",
            &["none.yaml", "No such file"],
            78,
        ),
        (
            "[[stream]]\nname = 'camera'\npipeline = 'videotestsrc ! nosuchelement ! appsink name=frames'\n",
            &["stream camera", "nosuchelement"],
            78,
        ),
        (
            "[[stream]]\nname = 'camera'\npipeline = 'videotestsrc ! fakesink'\n",
            &["stream camera", "appsink name=frames"],
            78,
        ),
        (
            "[[stream]]\nname = 'camera'\nsource = 'test'\nbackend = 'vulkan'\ndevice = 'no such device'\n",
            &["stream camera", "no such device"],
            69,
        ),
        (
            "[[stream]]\nname = 'a'\nsource = 'no-such-file.mp4'\n",
            &["no-such-file.mp4", "does not exist"],
            69,
        ),
    ] {
        place.write("foveate.toml", text);
        let refused = place.foveate(&["reload"]).finish();
        refused.assert_clean_exit(code);
        for part in parts {
            assert!(refused.message().contains(part), "{refused:#?}");
        }
    }
    let bad = place.write(
        "bad.toml",
        "[[stream]]\nname = 'bad'\npipeline = 'nosuchelement ! appsink name=frames'\n",
    );
    let refused = place.foveate(&["add-stream", bad.to_str().unwrap()]).finish();
    refused.assert_clean_exit(78);
    assert!(refused.message().contains("nosuchelement"), "{refused:#?}");
    daemon.process.signal(Signal::HUP);
    daemon.process.stderr.wait_for("the old one stays in force");
    assert_eq!(listed(&daemon), [("camera".to_owned(), StreamState::Live)]);
    assert!(before.ring_sequence < follower.next_frame().head.ring_sequence, "the same segment");
    daemon.stop().assert_clean_exit(0);
}

#[test]
fn only_the_daemons_user_is_an_operator() {
    let place = Place::new();
    let daemon = operated(&place, &stream("camera", 50));
    let path = admin_path(&place.socket());
    assert_eq!(path.file_name().unwrap(), "admin.sock");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
    daemon.stop().assert_clean_exit(0);
    assert!(!path.exists());
    let nobody = order(&place.socket(), &AdminRequest::Reload).unwrap_err();
    assert!(matches!(nobody, ControlError::NoDaemon { .. }), "{nobody}");
}

/// Each gets an answer or a hang-up, and nothing of it hurts the daemon.
#[test]
fn whatever_is_said_to_the_admin_socket_is_answered() {
    let place = Place::new();
    let daemon = operated(&place, &stream("camera", 50));
    let sane = [
        serde_json::to_string(&AdminRequest::Reload).unwrap(),
        serde_json::json!({"op": "remove_stream", "stream": "nobody"}).to_string(),
        serde_json::json!({"op": "set", "view": "camera/main", "directory": "/", "keys": {"max_fps": "9"}}).to_string(),
        serde_json::json!({"op": "add_stream", "config": stream("b", 9), "file": "/x"}).to_string(),
    ];
    let mut random = Random(6);
    let count = 5000;
    let mut answers = 0;
    for _ in 0..count {
        let mut bytes = sane[random.below(4) as usize].clone().into_bytes();
        for _ in 0..1 + random.below(4) {
            let at = random.below(u32::try_from(bytes.len()).unwrap()) as usize;
            match random.below(3) {
                0 => bytes[at] = random.next().to_le_bytes()[0],
                // An empty datagram is a hang-up.
                1 if 1 < bytes.len() => drop(bytes.remove(at)),
                _ => bytes.truncate(at.max(1)),
            }
        }
        let answer = RawClient::connect(&admin_path(&place.socket())).ask(&bytes);
        assert!(answer["ok"].is_boolean(), "{answer}");
        answers += 1;
    }
    assert_eq!(answers, count);
    let refusal = order(&place.socket(), &AdminRequest::RemoveStream { stream: "no".to_owned() });
    let Err(ControlError::Refused(refusal)) = refusal else { panic!("{refusal:?}") };
    assert_eq!(refusal.reason, RefusalReason::UnknownStream);
    daemon.subscribe("camera/main").next_frame();
    daemon.stop().assert_clean_exit(0);
}

/// A daemon to which operators may connect.
fn operated<'a>(place: &'a Place, config: &str) -> Daemon<'a> {
    let daemon = place.daemon(config);
    daemon.process.stderr.wait_for("serving operators");
    daemon
}

/// A live stream with one view of at most so many tokens.
fn stream(name: &str, budget: u32) -> String {
    format!(
        "[[stream]]\nname = '{name}'\nbackend = 'cpu'\npipeline = 'videotestsrc is-live=true ! \
         video/x-raw,format=GRAY8,width=160,height=120,framerate=50/1 ! appsink name=frames'\n\
         [[stream.view]]\nname = 'main'\nbudget = {budget}\ngaze = {{ policy = 'fixed' }}\n"
    )
}

fn listed_view(daemon: &Daemon<'_>, name: &str) -> ViewListing {
    let streams = daemon.client().list().unwrap();
    let mut views = streams.into_iter().flat_map(|stream| stream.views);
    views.find(|view| view.name.to_string() == name).unwrap()
}

/// The streams and what they are doing.
fn listed(daemon: &Daemon<'_>) -> Vec<(String, StreamState)> {
    let streams = daemon.client().list().unwrap();
    streams.into_iter().map(|stream| (stream.name, stream.state)).collect()
}

#[test]
fn an_operator_is_told_that_the_answer_takes_long() {
    let place = Place::new();
    let daemon = operated(&place, &stream("camera", 50));
    daemon.process.signal(Signal::STOP);
    let set = place.foveate(&["set", "camera/main", "budget=20"]);
    set.stderr.wait_for("the daemon has not answered yet");
    daemon.process.signal(Signal::CONT);
    set.finish().assert_clean_exit(0);
    daemon.stop();
}
