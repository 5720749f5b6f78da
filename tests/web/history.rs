//! The last minute of a view: moments equal the frames that were live, memory is bounded, recordings open.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use foveate_core::geometry::plan::Token;
use foveate_ring::{TokenFrameBuf, TokenRecord, Writer};
use foveate_tool::recording::playback::{Playback, PlaybackItem};
use serde_json::{Value, json};
use testkit::control::{EXTENT, Stage, publish};
use testkit::daemon::Place;
use testkit::layouts;
use testkit::tool::foveate;
use testkit::wait::until;
use testkit::web_server::{Packet, Page, Web};

use crate::web::publish_tokens;
use crate::web_browser::{BALL, STILL, config};

const VIEW: &str = "camera/main";

#[test]
fn a_moment_shows_the_frame_that_was_live() {
    let stage = Stage::open();
    let (_port, mut writer) = stage.live_stream("camera", &["main"]);
    let web = Web::start(&stage.path, &[]);
    let mut page = web.page();
    page.watch(VIEW);
    let mut live = BTreeMap::new();
    for frame_seq in 1..=40 {
        publish_some(&mut writer, frame_seq);
        let packet = page.frame_of(frame_seq);
        live.insert(frame_seq, page.texels(&packet));
    }
    let mut shown = None;
    let (newest, texels) = page.moment(&json!({ "op": "seek" }), &mut shown);
    assert_eq!((&newest["index"], &newest["frames"]), (&json!(39), &json!(40)), "{newest}");
    assert_eq!(texels, live[&40]);
    // New frames change nothing while the page is paused.
    publish_some(&mut writer, 41);
    let mut times = BTreeMap::new();
    for by in [-1, -1, -1, 2, -10, -1, 5, -100, 1, 1, 30, -7] {
        let (moment, texels) = page.moment(&json!({ "op": "step", "by": by }), &mut shown);
        let frame_seq = moment["frame_seq"].as_u64().unwrap();
        assert_eq!(texels, live[&frame_seq], "{moment}");
        assert_eq!(moment["index"].as_u64(), Some(frame_seq - 1));
        times.insert(frame_seq, moment["at_ms"].clone());
    }
    for (frame_seq, at) in times {
        let (moment, texels) = page.moment(&json!({ "op": "seek", "at": at }), &mut shown);
        assert_eq!((moment["frame_seq"].as_u64(), &texels), (Some(frame_seq), &live[&frame_seq]));
    }
    // Beyond its end, a paused page goes on to what has come since.
    for (at, frame_seq) in [(0.0, 1), (-1e300, 1), (f64::MAX, 41)] {
        let (moment, _) = page.moment(&json!({ "op": "seek", "at": at }), &mut shown);
        assert_eq!(moment["frame_seq"], frame_seq);
    }
    page.say(&json!({ "op": "live" }));
    page.message("resumed", |_| true);
    assert_eq!(page.frame_of(41).frame_seq, 41);
}

#[test]
fn a_small_picture_is_the_frame_of_its_time() {
    let stage = Stage::open();
    let (_port, mut writer) = stage.live_stream("camera", &["main"]);
    let web = Web::start(&stage.path, &[]);
    let mut page = web.page();
    page.watch(VIEW);
    for frame_seq in 1..=3 {
        publish(&mut writer, frame_seq, u8::try_from(10 * frame_seq).unwrap());
        page.frame_of(frame_seq);
    }
    let mut shown = None;
    let (moment, _) = page.moment(&json!({ "op": "step", "by": -1 }), &mut shown);
    page.say(&json!({ "op": "thumbnail", "at": moment["at_ms"] }));
    assert_eq!(page.message("thumbnail", |_| true)["is_kept"], true);
    let packet = page.frame();
    assert_eq!((packet.pane, packet.is_whole, packet.frame_seq), (2, true, 2));
    assert!(packet.texels.iter().all(|texel| *texel == 20));
    page.say(&json!({ "op": "thumbnail", "at": 5000.0 }));
    assert_eq!(page.message("thumbnail", |_| true)["is_kept"], false);
}

#[test]
fn memory_stays_below_its_bound() {
    let stage = Stage::open();
    let (_port, mut writer) = stage.live_stream("camera", &["main", "wide"]);
    let bound = 256 << 10;
    let web = Web::start(&stage.path, &["--history", "256KiB"]);
    let [mut page, mut paused] = [web.page(), web.page()];
    for page in [&mut page, &mut paused] {
        page.watch(VIEW);
    }
    let (mut shown, mut frame_seq) = (None, 0);
    for round in 0..3 {
        for _ in 0..250 {
            frame_seq += 1;
            // Each has other bytes: 1176, and as much again for records and so on.
            publish(&mut writer, frame_seq, u8::try_from(frame_seq % 251).unwrap());
            page.frame_of(frame_seq);
        }
        let history = page.message("history", |_| true);
        assert_eq!(history["bytes_max"], bound);
        // A frame is added before older ones give way.
        let bytes = history["bytes"].as_u64().unwrap();
        assert!(bytes <= bound, "{history}");
        // Others can still pause.
        assert!(history["extent"]["frames"].as_u64().is_some_and(|frames| 0 < frames), "{history}");
        if round == 0 {
            let left_out = history["extent"]["left_out"].as_u64();
            assert!(bound / 2 < bytes && left_out.is_some_and(|count| 0 < count), "{history}");
            // What a paused page holds counts.
            paused.moment(&json!({ "op": "seek" }), &mut shown);
        }
    }
    let (moment, _) = paused.moment(&json!({ "op": "step", "by": 0 }), &mut shown);
    assert_eq!(moment["frame_seq"], 250, "{moment}");
    let [from, whole_from] = ["from_ms", "whole_from_ms"].map(|key| moment[key].as_f64().unwrap());
    assert!(from < whole_from, "{moment}");
    paused.say(&json!({ "op": "live" }));
    paused.message("resumed", |_| true);
    publish(&mut writer, frame_seq + 1, 1);
    page.frame_of(frame_seq + 1);
    until("the rest is kept again", || {
        let history = page.message("history", |_| true);
        history["extent"]["frames"].as_u64().is_some_and(|frames| 0 < frames)
    });
}

#[test]
fn a_full_memory_leaves_out_frames_between_others() {
    let stage = Stage::open();
    let (_port, mut writer) = stage.live_stream("camera", &["main"]);
    let web = Web::start(&stage.path, &["--history", "256KiB"]);
    let mut page = web.page();
    page.watch(VIEW);
    let mut publish_until = |page: &mut Page, frames: std::ops::RangeInclusive<u64>| {
        for frame_seq in frames {
            publish(&mut writer, frame_seq, u8::try_from(frame_seq % 251).unwrap());
            page.frame_of(frame_seq);
        }
    };
    publish_until(&mut page, 1..=400);
    let newest = page.message("history", |history| {
        let extent = &history["extent"];
        extent["frames"]
            .as_u64()
            .zip(extent["left_out"].as_u64())
            .is_some_and(|(kept, left_out)| kept + left_out == 400)
    });
    // A recording is whole, though the memory is full.
    page.say(&json!({ "op": "record", "after": newest["extent"]["to_ms"] }));
    publish_until(&mut page, 401..=450);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("saved.mcap");
    let saved = |page: &mut Page, request| {
        fs::write(&path, page.save_as(&request)).unwrap();
        let frames = recorded(&path);
        frames.iter().map(|frame| frame.head.stamp.frame_seq).collect::<Vec<_>>()
    };
    let after = &newest["extent"]["to_ms"];
    let recorded = saved(&mut page, json!({ "op": "save", "after": after }));
    assert_eq!(recorded, (401..=450).collect::<Vec<_>>());
    let all = saved(&mut page, json!({ "op": "save" }));
    assert!(all.len() < 200 && all.is_sorted_by(|one, other| one < other), "{all:?}");
    assert_eq!((all.first(), all.last()), (Some(&1), Some(&450)));
    // Steps go from kept frame to kept frame, and say what lies between.
    let mut shown = None;
    let (mut moment, _) = page.moment(&json!({ "op": "seek", "at": 0.0 }), &mut shown);
    for pair in all.windows(2) {
        assert_eq!(moment["frame_seq"], pair[0]);
        (moment, _) = page.moment(&json!({ "op": "step", "by": 1 }), &mut shown);
        let between = (&json!(pair[1] - pair[0] - 1), &json!(0));
        assert_eq!((&moment["left_out"], &moment["missed"]), between, "{moment}");
    }
}

#[test]
fn a_still_view_takes_little_memory() {
    let stage = Stage::open();
    let (_port, mut writer) = stage.live_stream("camera", &["main"]);
    let web = Web::start(&stage.path, &[]);
    let mut page = web.page();
    page.watch(VIEW);
    let records = records(|_| 1);
    let pixels = pixels_of(&records);
    let history = |page: &mut Page, frames: u64| {
        page.message("history", |history| history["extent"]["frames"] == frames)["bytes"]
            .as_u64()
            .unwrap()
    };
    publish_tokens(&mut writer, 1, &records, &pixels);
    page.frame_of(1);
    let first = history(&mut page, 1);
    for frame_seq in 2..=101 {
        publish_tokens(&mut writer, frame_seq, &records, &pixels);
        page.frame_of(frame_seq);
    }
    // The head of a frame, and 8 bytes a token.
    let each = (history(&mut page, 101) - first) / 100;
    assert!(each < 2500, "{each} bytes a frame, the first one {first}");
    assert!(pixels.len() as u64 <= first, "{first}");
}

#[test]
fn nothing_is_kept_with_history_0() {
    let stage = Stage::open();
    let (_port, mut writer) = stage.live_stream("camera", &["main"]);
    let web = Web::start(&stage.path, &["--history", "0"]);
    let mut page = web.page();
    page.watch(VIEW);
    publish(&mut writer, 1, 1);
    page.frame_of(1);
    for request in [json!({ "op": "seek" }), json!({ "op": "save" })] {
        page.say(&request);
        page.message("history_error", |_| true);
    }
    let history = page.message("history", |_| true);
    assert_eq!((&history["extent"], &history["bytes"]), (&json!(null), &json!(0)));
}

#[test]
fn new_masks_revoke_what_is_in_memory() {
    let place = Place::new();
    let daemon = place.daemon(&config(STILL, ""));
    let web = Web::start(&place.socket(), &[]);
    let [mut page, mut paused] = [web.page(), web.page()];
    page.watch(VIEW);
    paused.watch(VIEW);
    let before = page.message("history", |history| !history["extent"].is_null());
    paused.moment(&json!({ "op": "seek" }), &mut None);
    place
        .foveate(&["mask", "camera", "face", "--box", "0.5,0.5,1,1"])
        .finish()
        .assert_clean_exit(0);
    paused.message("resumed", |_| true);
    let error = paused.message("history_error", |_| true);
    assert!(error["error"].as_str().unwrap().contains("privacy masks"), "{error}");
    let newest = before["extent"]["to_ms"].as_f64().unwrap();
    page.message("history", |history| {
        history["extent"].is_null() || newest < history["extent"]["from_ms"].as_f64().unwrap()
    });
    daemon.stop();
}

#[test]
fn compare_on_a_paused_page_shows_no_newer_picture() {
    let place = Place::new();
    let daemon = place.daemon(&config(BALL, ""));
    let web = Web::start(&place.socket(), &[]);
    let [mut page, mut other] = [web.page(), web.page()];
    page.watch(VIEW);
    other.watch(VIEW);
    other.message("history", |history| !history["extent"].is_null());
    page.moment(&json!({ "op": "seek" }), &mut None);
    page.say(&json!({ "op": "watch", "view": VIEW, "compare": true }));
    let state = page.message("state", |state| state["pane"] == 1);
    assert!(state["reason"].as_str().unwrap().contains("in memory"), "{state}");
    // Both go on together.
    page.say(&json!({ "op": "live" }));
    page.message("state", |state| state["pane"] == 1 && state["state"] == "live");
    daemon.stop();
}

#[test]
fn the_timeline_tells_states_and_fixations() {
    let stage = Stage::open();
    let (port, mut writer) = stage.live_stream("camera", &["main"]);
    let web = Web::start(&stage.path, &[]);
    let mut page = web.page();
    page.watch(VIEW);
    publish(&mut writer, 1, 1);
    page.frame_of(1);
    writer.set_state(foveate_ring::State::Stalled, "the cable is loose");
    page.message("state", |state| state["state"] == "stalled");
    writer.set_state(foveate_ring::State::Live, "");
    publish(&mut writer, 2, 2);
    page.frame_of(2);
    for _ in 0..2 {
        page.message("report", |_| true);
    }
    port.counters().frames_dropped.add(7);
    until("the drops are an entry", || {
        let told = page.message("timeline", |_| true);
        told["entries"].as_array().unwrap().iter().any(|entry| entry["band"] == "drops")
    });
    // Another page gets all of it.
    let mut other = web.page();
    other.watch(VIEW);
    let told = other.message("timeline", |_| true);
    assert_eq!(told["is_whole"], true);
    let entries = told["entries"].as_array().unwrap();
    let of = |band: &'static str| entries.iter().filter(move |entry| entry["band"] == band);
    let states: Vec<_> = of("state").map(|entry| entry["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["starting", "live", "stalled", "live"].split_at(4 - states.len()).1);
    assert_eq!(of("state").rev().nth(1).unwrap()["reason"], "the cable is loose");
    assert_eq!(of("fixation").count(), 1);
    assert_eq!(of("fixation").next().unwrap()["reason"], "policy");
    assert_eq!(of("drops").map(|entry| entry["count"].as_u64().unwrap()).sum::<u64>(), 7);
}

#[test]
fn views_that_do_not_exist_keep_no_timeline_out() {
    let stage = Stage::open();
    let (_port, mut writer) = stage.live_stream("camera", &["main"]);
    let web = Web::start(&stage.path, &[]);
    let [mut page, mut other] = [web.page(), web.page()];
    page.watch(VIEW);
    publish(&mut writer, 1, 1);
    page.frame_of(1);
    // More names than there are timelines.
    for index in 0..70 {
        other.watch(&format!("camera/other-{index}"));
        other.message("state", |state| !state["reason"].as_str().unwrap().is_empty());
    }
    other.watch(VIEW);
    let is_live = |entry: &Value| entry["state"] == "live";
    other.message("timeline", |told| told["entries"].as_array().unwrap().iter().any(is_live));
}

#[test]
fn what_is_saved_has_the_same_bytes_and_opens() {
    for shown in layouts::each() {
        let stage = Stage::open();
        let (_port, mut writer) = shown.serve(&stage);
        let web = Web::start(&stage.path, &[]);
        let mut page = web.page();
        page.watch(VIEW);
        let mut live = BTreeMap::new();
        let packet = page.frame();
        page.acknowledge(&packet);
        live.insert(packet.frame_seq, page.texels(&packet));
        let has_first = |history: &Value| history["extent"]["frames"] == 1;
        let began = page.message("history", has_first)["extent"]["to_ms"].clone();
        shown.moved().publish(&mut writer, 2);
        let packet = page.frame_of(2);
        live.insert(2, page.texels(&packet));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("saved.mcap");
        fs::write(&path, page.save()).unwrap();

        let frames = recorded(&path);
        assert_eq!(frames.len(), 2, "{:?}", shown.view.layout);
        for (frame, shown) in frames.iter().zip([&shown, &shown.moved()]) {
            assert_eq!(frame.records.len(), shown.records.len());
            assert_eq!(frame.records, shown.records);
        }
        opens(&path, &live);

        // Recorded from after the first frame, the second one is whole.
        fs::write(&path, page.save_as(&json!({ "op": "save", "after": began }))).unwrap();
        live.remove(&1);
        let frames = recorded(&path);
        assert_eq!(frames.iter().map(|frame| frame.head.stamp.frame_seq).collect::<Vec<_>>(), [2]);
        opens(&path, &live);
        page.say(&json!({ "op": "save", "after": f64::MAX }));
        page.message("history_error", |message| {
            message["error"].as_str().unwrap().contains("since")
        });
    }
}

#[test]
fn a_recording_of_a_daemon_opens() {
    let place = Place::new();
    let daemon = place.daemon(&config(BALL, "[stream.view.gaze]\npolicy = 'saliency'"));
    let (first, second) = (place.path("run.mcap"), place.path("run-0001.mcap"));
    let names = [&first, &second].map(|path| path.to_str().unwrap());
    let rotate = ["--seconds", "5", "--rotate-seconds", "3"];
    let arguments = [&["record", VIEW, "--mcap", names[0]][..], &rotate].concat();
    place.foveate(&arguments).finish().assert_clean_exit(0);
    daemon.stop();
    let mut frames = recorded(&first);
    frames.extend(recorded(&second));
    let web = Web::start(Path::new("/nowhere/foveate.sock"), &names);
    let mut page = web.page();
    let hello = page.message("hello", |_| true);
    assert_eq!((&hello["view"], &hello["can_save"]), (&json!(VIEW), &json!(false)));
    let report = page.message("report", |_| true);
    assert_eq!(report["streams"][0]["views"][0]["name"], VIEW);
    page.watch(VIEW);
    page.message("moment", |_| true);
    let mut shown = None;
    let (count, last) = (frames.len(), frames.len() - 1);
    for index in [0, 1, last, count / 2, count / 3, 2, last] {
        let present = shown_index(&mut page, &mut shown);
        let by = i64::try_from(index).unwrap() - present;
        let (moment, texels) = page.moment(&json!({ "op": "step", "by": by }), &mut shown);
        assert_eq!((&moment["index"], &moment["frames"]), (&json!(index), &json!(count)));
        let frame: &mut TokenFrameBuf = &mut frames[index];
        assert_eq!(moment["frame_seq"], frame.head.stamp.frame_seq);
        assert_eq!(texels, frame.pixels, "frame {index}");
    }
    for refused in [json!({ "op": "look", "points": [[1.0, 1.0]] }), json!({ "op": "save" })] {
        page.say(&refused);
        page.message(if refused["op"] == "save" { "history_error" } else { "refused" }, |_| true);
    }
}

#[test]
fn what_is_no_recording_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("text.mcap"), "no recording").unwrap();
    let nowhere = Path::new("/nowhere/foveate.sock");
    let (text, missing) = (path("text.mcap"), path("missing.mcap"));
    for (arguments, code, words) in [
        (&["web", &text][..], 1, "cannot read"),
        (&["web", &missing], 69, "missing.mcap"),
        (&["web", VIEW, &text], 2, "expected one view"),
        (&["web", VIEW, "camera/other"], 2, "expected one view"),
        (&["web", "camera"], 2, "camera"),
        (&["web", "--history", "64MB"], 2, "64MiB"),
    ] {
        let output = foveate(nowhere, arguments);
        assert_eq!(output.code, Some(code), "{arguments:?}: {}", output.stderr);
        assert!(output.stderr.contains(words), "{arguments:?}: {}", output.stderr);
    }
}

/// Asserts that a page of the recording at `path` shows the texels of `live`, by the number of their frame.
fn opens(path: &Path, live: &BTreeMap<u64, Vec<u8>>) {
    let web = Web::start(Path::new("/nowhere/foveate.sock"), &[path.to_str().unwrap()]);
    let mut page = web.page();
    page.watch(VIEW);
    page.message("moment", |_| true);
    let mut shown = None;
    for by in [0, 1, -1, 1] {
        let (moment, texels) = page.moment(&json!({ "op": "step", "by": by }), &mut shown);
        assert_eq!(texels, live[&moment["frame_seq"].as_u64().unwrap()]);
    }
}

/// The index of the frame on the screen.
fn shown_index(page: &mut Page, shown: &mut Option<Packet>) -> i64 {
    let (moment, _) = page.moment(&json!({ "op": "step", "by": 0 }), shown);
    moment["index"].as_i64().unwrap()
}

/// The frames of a recording.
fn recorded(path: &Path) -> Vec<TokenFrameBuf> {
    let mut playback = Playback::new([path.to_owned()]);
    let mut frames = Vec::new();
    while let Some(item) = playback.advance(&|| false).unwrap() {
        if let PlaybackItem::Frame { frame, .. } = item {
            frames.push(*frame);
        }
    }
    frames
}

/// Publishes tokens of which some stay, some change and some move.
fn publish_some(writer: &mut Writer, frame_seq: u64) {
    let records = records(|index| frame_seq / (1 + index) * (1 + index));
    let pixels = pixels_of(&records);
    publish_tokens(writer, frame_seq, &records, &pixels);
}

fn records(changed: impl Fn(u64) -> u64) -> Vec<TokenRecord> {
    let at = [(0, 0, 0), (0, 14, 0), (1, 28, 0)];
    let record = |(index, (level, x, y)): (usize, (u32, u32, u32))| {
        let changed = changed(index as u64).max(1);
        let x = if index == 1 && changed % 4 == 2 { x + 14 } else { x };
        TokenRecord::new(Token::of_level(level, x, y), EXTENT, 14, changed, 1.0)
    };
    at.into_iter().enumerate().map(record).collect()
}

/// Texels that differ from place to place and from change to change.
fn pixels_of(records: &[TokenRecord]) -> Vec<u8> {
    let texels = |record: &TokenRecord| {
        let seed = 31 * u64::from(record.x0) + 101 * record.changed_frame;
        (0..3 * 14 * 14).map(move |at| u8::try_from((seed + at * seed) % 251).unwrap())
    };
    records.iter().flat_map(texels).collect()
}
