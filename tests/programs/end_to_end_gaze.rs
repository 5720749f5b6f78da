//! Where the real `foveated` looks: as its clients say, when they say it, and again where it looked before.

use std::fs;

use foveate::client::{Client, Subscription};
use foveate::messages::{Attend, Inject, Look, NumberFormat};
use foveate_config::ViewConfig;
use foveate_control::ClientExt as _;
use foveate_core::frame::{FrameView, PixelFormat, Plane};
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::{Fixation, FixationReason};
use foveate_daemon::stream::ServedView;
use foveate_ring::{TokenFrameBuf, TokenRecord};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::control::{attend, attend_tokens, inject, main_view, weigh};
use testkit::daemon::{Follower, Place, ProcessResources};
use testkit::film::Film;
use testkit::naive::OwnedFrame;
use testkit::scene::{FedStream, bt601, random_film, view, with_vulkan};
use testkit::wait::until;

use crate::end_to_end_sources::make_fifo;

/// 100 frames a second, so a decision every fifth frame.
const GAZE: &str = "gaze = { policy = 'feedback', saccade_hz = 20, dwell_min_ms = 0, silence_ms = 200, compensation = false }";

/// Frames from one decision to the next.
const FRAMES_PER_DECISION: u64 = 5;

const EXTENT: Extent = Extent::new(160, 120);

#[test]
fn a_look_is_obeyed_by_the_next_frame() {
    let place = Place::new();
    let mut stage = open(&place, "backend = 'cpu'", GAZE, 40);
    for frame_seq in 1..=40 {
        let frame = stage.next_frame().clone();
        if 1 < frame_seq {
            let (x, y) = point_of(frame_seq - 1);
            let head = frame.head;
            assert_eq!((head.fixation().x, head.fixation().y), (x, y), "frame {frame_seq}");
            assert_eq!(head.fixation().reason, FixationReason::Look);
            assert!(0 < head.asked_ns && head.asked_ns <= head.publish_ns);
        }
        let (x, y) = point_of(frame_seq);
        stage.client.look(Look { frame: Some(frame_seq), ..Look::at(&main_view(), x, y) }).unwrap();
    }
}

#[test]
fn a_map_takes_effect_at_the_next_decision() {
    let place = Place::new();
    let mut stage = open(&place, "backend = 'cpu'", GAZE, 60);
    let mut asked: Option<(u64, (f64, f64))> = None;
    let mut obeyed = 0;
    for frame_seq in 1..=60u64 {
        let head = &stage.next_frame().head;
        if let Some((since, (x, y))) = asked {
            let is_after_decision =
                frame_seq.div_ceil(FRAMES_PER_DECISION) != since.div_ceil(FRAMES_PER_DECISION);
            let is_there = (head.fixation().x, head.fixation().y) == (x, y);
            assert!(is_there || !is_after_decision, "frame {frame_seq}, asked after {since}");
            if is_there {
                assert_eq!(head.fixation().reason, FixationReason::Attend);
                assert!(0 < head.asked_ns && head.asked_ns <= head.publish_ns);
                asked = None;
                obeyed += 1;
            }
        }
        if asked.is_none() {
            let map = map_around(obeyed);
            let looking = stage.client.attend(map_of(frame_seq), &map).unwrap();
            asked = Some((frame_seq, (snapped(looking.points[0].0), snapped(looking.points[0].1))));
        }
    }
    assert!(5 < obeyed, "{obeyed}");
}

#[test]
fn scores_lead_the_view_to_the_highest_token() {
    let place = Place::new();
    let gaze = format!("{GAZE}\nlayout = 'foveal'");
    let mut stage = open(&place, "backend = 'cpu'", &gaze, 30);
    for frame_seq in 1..=30 {
        let frame = stage.next_frame().clone();
        // Always the last token of the coarsest level: the view looks there, and it is not coarse any more.
        let best = frame.records.len() - 1;
        let mut scores = vec![0.125f32; frame.records.len()];
        scores[best] = 1.0;
        // Padded, as arrays for compiled graphs are.
        scores.resize(100, f32::NAN);
        let bytes: Vec<u8> = scores.iter().flat_map(|score| score.to_le_bytes()).collect();
        let ask = attend_tokens(frame_seq, NumberFormat::F32);
        let looking = stage.client.attend_tokens(ask, &bytes).unwrap();
        let target = frame.records[best];
        assert!(
            holds(&target, looking.points[0].0, looking.points[0].1),
            "{looking:?} is not in {target:?}"
        );

        let before = frame.head.fixation();
        if before.reason == FixationReason::Attend {
            let looked_at = frame.records.iter().find(|record| holds(record, before.x, before.y));
            let looked_at = looked_at.unwrap();
            let heaviest = frame.records.iter().map(|record| record.relevance);
            assert_eq!(looked_at.relevance, heaviest.fold(0.0, f32::max), "{looked_at:?}");
            assert!(0 < frame.head.relevance_frame && frame.head.relevance_frame < frame_seq);
        }
    }
}

/// The same frames and the same words between them: the same bytes, on each backend; and a recorded log leads a view that
/// hears nothing to the same bytes again. All of that with several foveae.
#[test]
fn a_recorded_gaze_replays_alike_on_every_backend() {
    let recorded = record_and_replay(GAZE, || noise(12));
    let counts: Vec<_> = recorded.iter().map(|frame| frame.head.fixations.len()).collect();
    assert!([1, 2, 3].iter().all(|count| counts.contains(count)), "{counts:?}");
}

/// A recording with pursuit, and with foveae of two policies.
#[test]
fn a_recorded_pursuit_replays_alike_on_every_backend() {
    let policies = "['feedback', 'feedback', 'saliency']";
    let pursuit = ", pursuit = true, pursuit_speed_max = 10 }";
    let gaze = GAZE.replace("'feedback'", policies).replace(" }", pursuit);
    let recorded = record_and_replay(&gaze, panned_film);
    let moves = recorded.windows(2).filter(|pair| {
        let [before, after] = [&pair[0], &pair[1]].map(|frame| &frame.head.fixations);
        let moved = |at: &Fixation| before.iter().any(|old| old.id == at.id && old != at);
        after.iter().any(moved)
    });
    assert!(5 <= moves.count(), "something is pursued");
    let is_salient = |at: &Fixation| at.reason == FixationReason::Saliency;
    let both = recorded.iter().filter(|frame| {
        let fixations = &frame.head.fixations;
        fixations[0].reason == FixationReason::Attend && fixations.last().is_some_and(is_salient)
    });
    assert!(10 <= both.count(), "both policies look at something");
}

/// Records a view of a film with three foveae and `gaze`, plays the same again, and replays the log. Returns what was recorded.
fn record_and_replay(gaze: &str, film: fn() -> Film) -> Vec<TokenFrameBuf> {
    const FRAMES: u64 = 60;
    let heard = |backend: &str, log: Option<&Place>| {
        let place = Place::new();
        let gaze = format!("{gaze}\nlayout = 'foveal'\nfoveae = 3");
        let mut stage = showing(&place, film(), backend, &gaze);
        let recorder = log.map(|log| {
            let path = log.path("gaze.log");
            let out = ["record", "camera/main", "--out", path.to_str().unwrap()];
            let recorder = place.foveate(&out);
            until_heard(&mut stage);
            recorder
        });
        let mut frames = Vec::new();
        for frame_seq in 1..=FRAMES {
            frames.push(stage.next_frame().clone());
            say_something(&mut stage.client, frame_seq);
        }
        stage.end();
        if let Some(recorder) = recorder {
            recorder.finish().assert_clean_exit(0);
        }
        frames
    };
    let log = Place::new();
    let recorded = heard("backend = 'cpu'", Some(&log));
    let reasons: Vec<_> = recorded.iter().map(|frame| frame.head.fixation().reason).collect();
    for reason in [FixationReason::Look, FixationReason::Attend, FixationReason::Saliency] {
        assert!(reasons.contains(&reason), "{reason} is part of the history: {reasons:?}");
    }
    assert_alike(&recorded, &heard("backend = 'cpu'", None), 1);

    let text = fs::read_to_string(log.path("gaze.log")).unwrap();
    let first: Value = serde_json::from_str(text.lines().nth(1).unwrap()).unwrap();
    let first = first["frame"].as_u64().unwrap();
    assert!(first <= 3, "recording began with frame {first}");
    let gaze = format!(
        "gaze = {{ policy = 'replay', log = '{}' }}\nlayout = 'foveal'\nfoveae = 3",
        log.path("gaze.log").display()
    );
    let replayed = |backend: &str| {
        let place = Place::new();
        let mut stage = showing(&place, film(), backend, &gaze);
        (1..=FRAMES).map(|_| stage.next_frame().clone()).collect::<Vec<_>>()
    };
    assert_alike(&recorded, &replayed("backend = 'cpu'"), first);
    with_vulkan(|vulkan| {
        assert_alike(&recorded, &heard(vulkan, None), 1);
        assert_alike(&recorded, &replayed(vulkan), first);
        let detecting = format!("{vulkan}\nchange = {{ on = 'gpu' }}");
        assert_alike(&recorded, &heard(&detecting, None), 1);
    });
    recorded
}

fn noise(count: usize) -> Film {
    random_film(PixelFormat::Nv12, EXTENT, bt601(), count)
}

/// A pattern that goes to the right by 4 pixels a frame, and is the same again after 12.
fn panned_film() -> Film {
    let frame = |number: usize| {
        let luma = |index: usize| {
            let turns = |pixels: f64| std::f64::consts::TAU * pixels / 48.0;
            let x = turns((index % EXTENT.width as usize) as f64 - 4.0 * number as f64);
            let y = turns((index / EXTENT.width as usize) as f64);
            let wave = 50.0 * (x + (0.7 * y).sin()).sin() + 30.0 * (2.0 * x + 1.3 * y).cos();
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a shade")]
            let shade = (120.0 + wave) as u8;
            shade
        };
        let luma: Vec<u8> = (0..EXTENT.area()).map(luma).collect();
        let chroma = vec![128; EXTENT.area() / 2];
        let stride = EXTENT.width as usize;
        let planes = [&luma, &chroma].map(|bytes| Plane { bytes, stride });
        let view = FrameView::new(PixelFormat::Nv12, EXTENT, bt601(), &planes).unwrap();
        OwnedFrame::copied(&view)
    };
    Film::new((0..12).map(frame).collect())
}

#[test]
fn two_clients_steer_their_own_views() {
    with_vulkan(|vulkan| {
        for backend in ["backend = 'cpu'".to_owned(), vulkan.to_owned()] {
            assert_opened_views_are_right(&backend);
        }
    });
}

fn assert_opened_views_are_right(backend: &str) {
    let place = Place::new();
    let mut stage = open(&place, backend, "", 1000);
    stage.next_frame();
    let before = ProcessResources::of(stage.daemon.process.id());
    for round in 0..3 {
        let tables = [
            json!({"name": "left", "budget": 20, "gaze": {"policy": "fixed", "x": 0.0, "y": 0.5}}),
            json!({"name": "right", "budget": 30, "dtype": "u8", "gaze": {"policy": "fixed", "x": 1.0, "y": 0.5}}),
        ];
        let mut owners: Vec<(Client, Follower, ServedView)> = Vec::new();
        for table in tables {
            let config = toml::to_string(&table).unwrap();
            let plan = ServedView::try_from(&ViewConfig::parse(&config).unwrap()).unwrap();
            let mut owner = stage.daemon.client();
            let view = owner.open_view("camera", table.as_object().unwrap().clone()).unwrap();
            owners.push((owner, stage.daemon.subscribe(&view.to_string()), plan));
        }
        // Frames continue while views are built; each publishes from some frame on, without gaps.
        let mut newest = [0; 2];
        let mut shown = [0; 2];
        while shown.iter().any(|count| *count < 5) {
            let frame_seq = stage.next_frame().head.stamp.frame_seq;
            for (index, (_, follower, plan)) in owners.iter_mut().enumerate() {
                let has_begun = newest[index] != 0 || is_readable(&follower.subscription);
                while has_begun && newest[index] != frame_seq {
                    follower.next_frame();
                    let seq = follower.frame.head.stamp.frame_seq;
                    assert!(newest[index] == 0 || seq == newest[index] + 1, "round {round}");
                    newest[index] = seq;
                    shown[index] += 1;
                    let segment = follower.segment();
                    stage.film.assert_shows(plan, segment, &follower.frame);
                    let x = [0.0, f64::from(EXTENT.width)][index];
                    assert_eq!(follower.frame.head.fixation().x, x);
                }
            }
        }
        drop(owners);
        until("the views are closed", || stage.daemon.listing("camera").views.len() == 1);
    }
    stage.belongings_at_rest(&before);
}

#[test]
fn attend_takes_arrays_and_pictures() {
    let place = Place::new();
    let gaze = "gaze = { policy = 'feedback', compensation = false }";
    let mut stage = open(&place, "backend = 'cpu'", gaze, 1000);
    // The trace begins after the first fixations did, which follow on the first frame.
    for _ in 0..3 {
        stage.next_frame();
    }
    let csv = place.path("gaze.csv");
    let trace = place.foveate(&["trace", "camera/main", "--out", csv.to_str().unwrap()]);
    until_heard(&mut stage);

    let array = place.write("map.npy", npy("<f4", "(3, 4)", &map_bytes(3, 4, 5)));
    let output = place.foveate(&["attend", "camera/main", array.to_str().unwrap()]).finish();
    output.assert_clean_exit(0);
    // The second row of three, the second column of four.
    assert_eq!(output.stdout, "camera/main is asked to look at 60.00, 60.00\n");
    until_fixated(&mut stage, (60.0, 60.0));

    let picture = place.path("map.png");
    fs::write(&picture, png(4, 3, 9)).unwrap();
    let waiting =
        ["attend", "camera/main", picture.to_str().unwrap(), "--box", "0,0,80,60", "--wait"];
    let waiting = place.foveate(&waiting);
    until_fixated(&mut stage, (30.0, 50.0));
    let output = waiting.finish();
    output.assert_clean_exit(0);
    assert!(output.stdout.contains("asked to look at 30.00, 50.00"), "{}", output.stdout);
    assert!(output.stdout.contains(", by attend"), "{}", output.stdout);

    let output = place.foveate(&["release", "camera/main"]).finish();
    output.assert_clean_exit(0);
    stage.end();
    trace.finish().assert_clean_exit(0);
    let table = fs::read_to_string(csv).unwrap();
    let mut rows = table.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let heading = ["time_s", "x", "y", "reason", "latency_ms", "frame_seq", "fixation_id"];
    assert_eq!(rows.next().unwrap(), heading);
    let rows: Vec<_> = rows.collect();
    let begins_with = rows[0][5];
    for row in &rows {
        let (latency, frame_seq) = (row[4], row[5]);
        let is_before = frame_seq == begins_with;
        assert_eq!(latency.is_empty(), is_before, "it began before the trace:\n{table}");
        assert!(is_before || latency.parse::<f64>().is_ok(), "{table}");
    }
    let places: Vec<_> =
        rows.iter().map(|row| format!("{},{},{}", row[1], row[2], row[3])).collect();
    for place in ["60,60,attend", "30,50,attend"] {
        assert!(places.contains(&place.to_owned()), "{place} is not in\n{table}");
    }
}

/// Several clients, each with channels of its own; the frames go on meanwhile, and what is too late is counted.
#[test]
fn clients_inject_channels_and_weigh_them() {
    let gaze = "gaze = { policy = 'relevance', lease_ms = 60000 }";
    let place = Place::new();
    let mut stage = open(&place, "backend = 'cpu'", gaze, 1000);
    stage.next_frame();
    let mut clients = [(); 2].map(|()| stage.daemon.client());
    // Few enough for the limit of messages a second.
    for frame in 1..=15 {
        for (index, client) in clients.iter_mut().enumerate() {
            let named = |name: &str| Inject { frame: Some(frame), ..minute(name) };
            client.inject(named(["depth", "flow"][index]), &[1; 4]).unwrap();
            client.inject(named(["text", "hand"][index]), &[2; 4]).unwrap();
        }
        clients[0].weigh(weigh("depth", frame as f64 / 8.0)).unwrap();
        stage.next_frame();
    }
    let refused = clients[1].inject(minute("depth"), &[1; 4]).unwrap_err().to_string();
    assert!(refused.contains(" injects `depth`"), "{refused}");
    let refused = clients[1].weigh(weigh("flow", 1.0)).unwrap_err().to_string();
    assert!(refused.contains("steers this view"), "{refused}");
    let counts =
        |stage: &mut FedStream<'_>| stage.client.stats().unwrap().streams[0].views[0].counts;
    let now = counts(&mut stage);
    let accepted = 4 * 15;
    assert_eq!((now.injections_accepted, now.injections_late), (accepted, 0));

    // 100 frames a second: 10 ms after its frame the next one finds it too old.
    let brief = Inject { ttl_ms: Some(10), frame: Some(16), ..minute("depth") };
    clients[0].inject(brief, &[1; 4]).unwrap();
    stage.next_frame();
    until("it is counted", || counts(&mut stage).injections_late == 1);

    let array = place.write("map.npy", npy("<f4", "(3, 4)", &map_bytes(3, 4, 5)));
    let file = array.to_str().unwrap();
    let foveate = |arguments: &[&str]| place.foveate(arguments).finish();
    let held = foveate(&["inject", "camera/main", "hand", file]);
    held.assert_clean_exit(69);
    assert!(held.message().contains("take another name"), "{}", held.message());
    let lies_in = ["--box", "0,0,80,60", "--frame", "15", "--ttl-ms", "60000"];
    let inject = [&["inject", "camera/main", "door", file], &lies_in[..]].concat();
    let injecting = place.foveate(&inject);
    injecting.stdout.wait_for("camera/main has the channel door for 60000 ms\n");
    assert!(foveate(&["weigh", "camera/main", "door=1"]).message().contains("steers this view"));
    clients[0].release(&main_view()).unwrap();
    let output = foveate(&["weigh", "camera/main", "door=-1.5", "edges=0.25"]);
    output.assert_clean_exit(0);
    assert_eq!(output.stdout, "camera/main weighs door by -1.5, edges by 0.25\n");
    for (weight, code, part) in
        [("door", 2, "depth=1.5"), ("door=x", 2, "depth=1.5"), ("door=65", 2, "within 64")]
    {
        let output = foveate(&["weigh", "camera/main", weight]);
        output.assert_clean_exit(code);
        assert!(output.stderr.contains(part), "{}", output.stderr);
    }

    let list = || foveate(&["ls", "-v"]).stdout;
    let listing = list();
    assert!(listing.contains("channel door of 3 x 4 from frame 15, "), "{listing}");
    let own = format!("by process {}", std::process::id());
    let is_hand = |line: &&str| line.contains("channel hand of 2 x 2 from frame 15");
    let hand = listing.lines().find(is_hand).unwrap_or_else(|| panic!("no hand in:\n{listing}"));
    assert!(hand.contains(" ms old of 60000, ") && hand.contains(&own), "{hand}");
    // What the tool has injected ends with it, before its time.
    injecting.signal(Signal::INT);
    injecting.finish().assert_clean_exit(0);
    until("the map is gone", || !list().contains("channel door"));
    let output = foveate(&["inject", "camera/main", "door", file, "--ttl-ms", "10"]);
    output.assert_clean_exit(0);
    stage.next_frame();
    stage.end();
}

#[test]
fn files_that_are_no_map_are_refused_with_the_way_out() {
    let place = Place::new();
    let file = |name: &str, bytes: &[u8]| place.write(name, bytes).to_str().unwrap().to_owned();
    for (path, code, part) in [
        (place.path("none.npy").to_str().unwrap().to_owned(), 69, "cannot read"),
        (file("text.npy", b"hello"), 1, "cannot read"),
        (file("text.png", b"hello"), 1, "cannot read"),
        (file("complex.npy", &npy("<c8", "(1, 1)", &[0; 8])), 1, "(expected float16, float32"),
        (file("huge.npy", &npy("<f4", "(100000, 100000)", &[])), 1, "pool the map first"),
        (file("header.npy", b"\x93NUMPY\x02\x00\xff\xff\xff\xff{"), 1, "damaged header"),
        (file("huge.png", &png_of(65_535, 65_535)), 1, "pool the map first"),
        ("/dev/zero".to_owned(), 1, "not a regular file"),
        (sparse(&place, "large.npy", 2 << 20), 1, "too large (expected at most"),
        (make_fifo(&place, "map.fifo").to_str().unwrap().to_owned(), 1, "not a regular file"),
        (file("nested.npy", &npy("<f4", &"[".repeat(64), &[])), 1, "damaged header"),
        (
            file("short.npy", &npy("<f4", "(3, 4)", &[0; 47])),
            1,
            "47 bytes of numbers (expected 48 for the shape [3, 4])",
        ),
        (file("big.npy", &npy(">f4", "(3, 4)", &[0; 48])), 1, "save array.astype('<f4')"),
        (file("axes.npy", &npy("<f4", &format!("({})", "1,".repeat(33)), &[0; 4])), 1, "32 axes"),
    ] {
        for command in [&["attend", "camera/main"][..], &["inject", "camera/main", "depth"]] {
            let output = place.foveate(&[command, &[path.as_str()]].concat()).finish();
            output.assert_clean_exit(code);
            assert!(output.message().contains(part), "{path}: {}", output.message());
        }
    }
}

/// Commands that read a file never wait for the writer of a FIFO.
#[test]
fn a_fifo_in_place_of_a_file_is_refused_at_once() {
    let place = Place::new();
    let fifo = make_fifo(&place, "input.nv12");
    let fifo = fifo.to_str().unwrap();
    for command in [
        &["add-stream", fifo][..],
        &["replay", fifo],
        &["bench", "--clip", fifo, "--size", "64x64"],
    ] {
        let output = place.foveate(command).finish();
        output.assert_clean_exit(1);
        assert!(output.message().contains("not a regular file"), "{}", output.message());
    }
}

/// A file of so many zeros.
fn sparse(place: &Place, name: &str, bytes: u64) -> String {
    let path = place.write(name, "");
    std::fs::File::options().write(true).open(&path).unwrap().set_len(bytes).unwrap();
    path.to_str().unwrap().to_owned()
}

/// The first bytes of a picture of this size.
fn png_of(width: u32, height: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgba);
    encoder.set_depth(png::BitDepth::Sixteen);
    let writer = encoder.write_header().unwrap();
    // Without the pixels that it announces.
    std::mem::forget(writer);
    bytes.extend(*b"\0\0\0\x04IDAT\0\0\0\0\0\0\0\0");
    bytes
}

/// A view of a random film, whose frames a test sends.
fn open<'a>(place: &'a Place, backend: &str, gaze: &str, frames: usize) -> FedStream<'a> {
    showing(place, noise(frames.min(12)), backend, gaze)
}

fn showing<'a>(place: &'a Place, film: Film, backend: &str, gaze: &str) -> FedStream<'a> {
    let settings = format!("{backend}\n{}", view("main", &format!("budget = 40\n{gaze}")));
    FedStream::open(place, film, &settings, "camera/main")
}

/// Sends frames until one is fixated there; the client may not have sent its request yet.
fn until_fixated(stage: &mut FedStream<'_>, point: (f64, f64)) {
    until("the view looks there", || {
        let fixation = stage.next_frame().head.fixation();
        (fixation.x, fixation.y) == point
    });
}

/// One thing or another, always the same after the same frame; at times nothing for long.
fn say_something(client: &mut Client, frame_seq: u64) {
    match frame_seq % 40 {
        3 => {
            let points = [frame_seq, frame_seq + 1].map(point_of);
            let look = Look { for_ms: Some(40), ..Look::at_points(&main_view(), &points) };
            client.look(look).unwrap();
        }
        11 | 14 | 17 => drop(client.attend(map_of(frame_seq), &map_around(frame_seq)).unwrap()),
        20 => client.release(&main_view()).unwrap(),
        _ => {}
    }
}

/// Waits until the tool listens beside the client and the follower.
fn until_heard(stage: &mut FedStream<'_>) {
    until("it is heard", || 3 <= stage.client.listing().unwrap().server.unwrap().counts.clients);
}

/// Whether the daemon has told something: that the view has a segment.
fn is_readable(subscription: &Subscription) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(subscription, PollFlags::IN)], Some(&now)).unwrap() == 1
}

/// From frame `first` on, both hold the same, but for when it was.
fn assert_alike(one: &[TokenFrameBuf], other: &[TokenFrameBuf], first: u64) {
    assert_eq!(one.len(), other.len());
    for (one, other) in one.iter().zip(other).skip(usize::try_from(first).unwrap() - 1) {
        let frame_seq = one.head.stamp.frame_seq;
        assert_eq!(one.head.fixations, other.head.fixations, "frame {frame_seq}");
        assert_eq!(one.head.relevance_frame, other.head.relevance_frame, "frame {frame_seq}");
        assert_eq!(one.records, other.records, "frame {frame_seq}");
        assert!(one.pixels == other.pixels, "frame {frame_seq}");
    }
}

fn holds(record: &TokenRecord, x: f64, y: f64) -> bool {
    let within = |value: f64, start: u32, end: u32| (start.into()..=end.into()).contains(&value);
    within(x, record.x0, record.x1) && within(y, record.y0, record.y1)
}

/// A different point for every frame.
fn point_of(frame_seq: u64) -> (f64, f64) {
    (((37 * frame_seq) % 160) as f64, ((53 * frame_seq) % 120) as f64)
}

fn snapped(value: f64) -> f64 {
    (16.0 * value).round() / 16.0
}

/// A map of 3 rows of 4, made from a frame.
fn map_of(frame: u64) -> Attend {
    Attend { frame: Some(frame), ..attend([3, 4], NumberFormat::F32) }
}

/// A channel of 2 rows of 2, for a minute.
fn minute(name: &str) -> Inject {
    Inject { shape: [2, 2], ttl_ms: Some(60_000), ..inject(name) }
}

/// A map of 3 rows of 4 with one peak, another one for every number up to 12.
fn map_around(number: u64) -> Vec<u8> {
    map_bytes(3, 4, usize::try_from(5 * number % 12).unwrap())
}

fn map_bytes(rows: usize, columns: usize, peak: usize) -> Vec<u8> {
    let value = |index: usize| if index == peak { 1.0f32 } else { 0.0 };
    (0..rows * columns).flat_map(|index| value(index).to_le_bytes()).collect()
}

/// A `.npy` file: NumPy's format, version 1.0.
fn npy(dtype: &str, shape: &str, bytes: &[u8]) -> Vec<u8> {
    let mut header = format!("{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}");
    while !(10 + header.len() + 1).is_multiple_of(64) {
        header.push(' ');
    }
    header.push('\n');
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend(u16::try_from(header.len()).unwrap().to_le_bytes());
    file.extend(header.as_bytes());
    file.extend(bytes);
    file
}

/// A black picture with one white pixel.
fn png(width: u32, height: u32, white: usize) -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.set_depth(png::BitDepth::Eight);
    let mut texels = vec![0; (width * height) as usize];
    texels[white] = 255;
    encoder.write_header().unwrap().write_image_data(&texels).unwrap();
    file
}
