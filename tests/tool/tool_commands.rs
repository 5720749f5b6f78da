//! `foveate` as a user runs it, against a daemon in miniature: what it prints and what it exits with.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use foveate::client::Client;
use foveate_control::{ClientExt as _, StreamState};
use foveate_gaze::feedback::Feedback;
use foveate_ring::{State, TokenRecord, Writer};
use foveate_server::server::ServerLimits;
use foveate_stats::NoticeCounts;
use rustix::process::Signal;
use serde_json::Value;
use testkit::control::{Stage, main_view, publish, writer};
use testkit::layouts::{self, LayoutFrame, PICTURE};
use testkit::tool::{foveate, spawned};
use testkit::wait::{RaisedAtLast, until};

#[test]
fn every_command_exits_with_69_without_a_daemon() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("foveate.sock");
    for arguments in [
        &["ls"][..],
        &["watch"],
        &["watch", "camera/main"],
        &["health"],
        &["look", "camera/main", "1", "2"],
    ] {
        let output = foveate(&path, arguments);
        assert_eq!(output.code, Some(69), "{arguments:?}");
        let error = output.stderr;
        assert!(error.starts_with("foveate: no daemon listens on "), "{error}");
        assert!(error.contains("start `foveated`") && error.contains("--socket"), "{error}");
    }
}

#[test]
fn wrong_usage_exits_with_2() {
    let path = Path::new("/nowhere/foveate.sock");
    for arguments in [
        &["jump"][..],
        &["look", "camera", "1", "2"],
        &["look", "camera/main", "nan", "2"],
        &["look", "camera/main", "1", "2", "--rotation", "0,0,0,1"],
        &["look", "camera/main", "1", "2", "--frame", "1", "--rotation", "0,0,0"],
        &["look", "camera/main", "1", "2", "--frame", "1", "--homography", "1,0,0,0,1,0,0,0,nan"],
        &["watch", "--frames", "3"],
        &["watch", "camera/main", "--frames", "0"],
        &["wait", "camera"],
        &["wait", "camera/main", "--timeout", "0"],
        &["health", "--max-age", "soon"],
        &["watch", "--seconds", "-1"],
    ] {
        let output = foveate(path, arguments);
        assert_eq!(output.code, Some(2), "{arguments:?}: {}", output.stderr);
    }
}

#[cfg(feature = "gst")]
#[test]
fn a_clip_takes_no_pipeline_parameters() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("camera.toml");
    let stream = "[[stream]]\nname = \"camera\"\npipeline_file = \"rtsp.gst\"";
    std::fs::write(&config, format!("{stream}\nparameters = {{ location = \"rtsp://x\" }}\n"))
        .unwrap();
    let (config, out) = (config.to_str().unwrap(), folder.path().to_str().unwrap());
    let output = foveate(folder.path(), &["extract", "test", "--config", config, "--out", out]);
    output.assert_clean_exit(69);
    assert!(output.stderr.contains("/test\" does not exist"), "{}", output.stderr);
}

#[test]
fn ls_shows_every_stream_and_view() {
    let stage = Stage::open();
    let (port, _writer) = stage.live_stream("camera", &["main", "wide"]);
    port.update(|status| status.reason = "fine\nso far".to_owned());
    let gauges = &port.counters().change;
    for (gauge, value) in
        [(&gauges.threshold, 3), (&gauges.tiles_dirty, 5), (&gauges.tile_count, 6)]
    {
        gauge.set(Some(value));
    }
    let _starting = stage.stream("attic", &["main"]);
    let output = foveate(&stage.path, &["ls", "-v"]);
    output.assert_clean_exit(0);
    let table = output.stdout;
    for part in [
        "attic  starting\n",
        "camera  live: fine so far\n",
        "  source   test pattern of camera\n",
        "  frames   NV12 64x48\n",
        "  backend  cpu on a processor: asked for\n",
        "  change   found on the cpu, threshold 3, 5 of 6 tiles in the newest frame\n",
        "  counted  0 captured, 0 dropped, 0 published\n",
        "  camera/wide  adaptive  4 of 14x14  u8     fixed   -\n",
    ] {
        assert!(table.contains(part), "{part:?} is missing in\n{table}");
    }

    let output = foveate(&stage.path, &["ls", "--json"]);
    let listing: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(listing["streams"][1]["views"][1]["name"], "camera/wide");
    assert_eq!(listing["version"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn ls_shows_only_what_is_named() {
    let stage = Stage::open();
    let (_port, _writer) = stage.live_stream("camera", &["main", "wide"]);
    let _starting = stage.stream("attic", &["main"]);
    let listed = |arguments: &[&str]| {
        let output = foveate(&stage.path, &[&["ls"], arguments].concat());
        output.assert_clean_exit(0);
        output.stdout
    };
    assert_eq!(listed(&["--names"]), "attic\nattic/main\ncamera\ncamera/main\ncamera/wide\n");
    assert_eq!(listed(&["camera/wide", "--names"]), "camera\ncamera/wide\n");
    let camera = listed(&["camera"]);
    assert!(camera.contains("camera/main") && !camera.contains("attic"), "{camera}");
    let wide = listed(&["camera/wide"]);
    assert!(wide.contains("camera/wide") && !wide.contains("camera/main"), "{wide}");
    let listing: Value = serde_json::from_str(&listed(&["camera", "--json"])).unwrap();
    assert_eq!(listing["streams"].as_array().unwrap().len(), 1);
    for (name, reason) in [
        ("cellar", "no stream `cellar`; expected one of: attic, camera"),
        ("camera/far", "no view `camera/far`; expected one of: camera/main, camera/wide"),
    ] {
        let output = foveate(&stage.path, &["ls", name]);
        output.assert_clean_exit(2);
        assert!(output.stderr.contains(reason), "{}", output.stderr);
    }
}

#[test]
fn ls_has_a_row_for_each_stream_and_each_reason_once() {
    let stage = Stage::open();
    let names: Vec<_> = (1..=12).map(|number| format!("camera-{number:02}")).collect();
    let ports: Vec<_> =
        names.iter().map(|name| stage.live_stream(name, &["main", "wide"])).collect();
    for (port, _) in &ports[..9] {
        port.update(|status| {
            status.state = StreamState::Stalled;
            status.reason = "no frame for 2 s".to_owned();
        });
    }
    ports[11].0.update(|status| {
        status.reason = "another\nreason".to_owned();
        status.source = "x".repeat(300);
    });
    ports[11].0.counters().frames_captured.add(7);
    let output = foveate(&stage.path, &["ls"]);
    output.assert_clean_exit(0);
    let lines: Vec<_> = output.stdout.lines().collect();
    let [heading, rows @ .., "", stalled, other] = &lines[..] else { panic!("{lines:#?}") };
    assert!(heading.trim_start().starts_with("STREAM "), "{heading}");
    assert_eq!(rows.len(), names.len(), "{rows:#?}");
    for (name, row) in names.iter().zip(rows) {
        assert!(row.trim_start().starts_with(&format!("{name} ")), "{row}");
        assert!(row.contains("NV12 64x48 ") && row.contains(" main, wide "), "{row}");
    }
    let words: Vec<_> = rows[11].split_whitespace().collect();
    let [_, "live", "NV12", "64x48", "7", "0", "cpu", "main,", "wide", source] = words[..] else {
        panic!("{words:?}")
    };
    assert!(source.starts_with("xxx") && source.ends_with('…') && source.len() < 70, "{source}");
    let names = names[..6].join(", ");
    assert_eq!(*stalled, format!("  {names} and 3 more: no frame for 2 s"));
    assert_eq!(*other, "  camera-12: another reason");
}

#[test]
fn events_tell_when_the_camera_is_lost_and_back() {
    let stage = Stage::open();
    let (_port, mut writer) = stage.live_stream("camera", &["main"]);
    publish(&mut writer, 1, 0);
    for (arguments, has_json) in
        [(&["events", "camera"][..], false), (&["events", "camera", "--json"], true)]
    {
        let process = spawned(&stage.path, arguments);
        let is_told = AtomicBool::new(false);
        thread::scope(|scope| {
            // The camera comes and goes until that was seen: nobody knows when the tool looks first.
            scope.spawn(|| {
                while !is_told.load(Ordering::Relaxed) {
                    for (state, reason) in
                        [(State::Live, ""), (State::Stalled, "the camera is gone")]
                    {
                        writer.set_state(state, reason);
                        thread::sleep(Duration::from_millis(500));
                    }
                }
            });
            let _end = RaisedAtLast(&is_told);
            until("both lines are printed", || 2 <= process.stdout.so_far().matches('\n').count());
        });
        let told = process.stdout.so_far();
        let mut lines = told.lines();
        let (lost, back) = (lines.next().unwrap(), lines.next().unwrap());
        if has_json {
            let lost: Value = serde_json::from_str(lost).unwrap();
            assert_eq!(
                (&lost["state"], &lost["reason"]),
                (&"stalled".into(), &"the camera is gone".into())
            );
            assert!(lost["unix_ns"].is_u64() && lost["view"] == "camera/main", "{lost}");
        } else {
            assert!(
                lost.starts_with("20")
                    && lost.ends_with("Z camera/main: stalled: the camera is gone"),
                "{lost}"
            );
            assert!(back.ends_with("Z camera/main: live"), "{back}");
        }
    }
}

/// Also those that only a steered view of a live stream has.
#[test]
fn the_document_names_every_field_of_a_listing_and_of_statistics() {
    let document = include_str!("../../docs/reference/control.md");
    let section =
        |title: &str| document.split("\n## ").find(|section| section.starts_with(title)).unwrap();
    let listings = section("Listings\n").to_owned();
    let stage = Stage::open();
    let (port, mut writer) = stage.live_stream("camera", &["main"]);
    publish(&mut writer, 1, 0);
    port.views[0].set_notices(NoticeCounts { sent: 7, skipped: 1, subscribers_gone: 2 });
    port.counters().change.tile_count.set(Some(2040));
    let output = foveate(&stage.path, &["ls", "--json"]);
    let listing: Value = serde_json::from_str(&output.stdout).unwrap();
    let stats = Client::connect(&stage.path).unwrap().stats().unwrap();
    let mut stats = serde_json::to_value(stats).unwrap();
    for by_name in ["restarts", "stages"] {
        assert!(stats["streams"][0][by_name].take().is_object(), "names of reasons and stages");
    }
    // What both have is described once.
    let both = listings.clone() + section("Statistics\n");
    for (answer, described) in [(&listing, &listings), (&stats, &both)] {
        let mut fields = Vec::new();
        names_of(answer, &mut fields);
        assert!(40 < fields.len(), "{fields:?}");
        for field in fields {
            let names = [format!("`{field}`"), format!("\"{field}\"")];
            assert!(names.iter().any(|name| described.contains(name)), "{field} is not documented");
        }
    }
}

/// The names of all fields in `value`.
fn names_of(value: &Value, names: &mut Vec<String>) {
    match value {
        Value::Object(object) => object.iter().for_each(|(name, value)| {
            names.push(name.clone());
            names_of(value, names);
        }),
        Value::Array(items) => items.iter().for_each(|item| names_of(item, names)),
        _ => {}
    }
}

#[test]
fn ls_shows_the_change_threshold() {
    let stage = Stage::open();
    let (port, _writer) = stage.live_stream("camera", &["main"]);
    let listed = || foveate(&stage.path, &["ls", "-v"]).stdout;
    assert!(!listed().contains("  change   "), "nothing is known before the first frame");

    let change = &port.counters().change;
    change.tile_count.set(Some(2040));
    for (threshold, limit, noise_thousandths, tiles_dirty, line) in [
        (
            0,
            None,
            None,
            2040,
            "found on the cpu, threshold 0, 2040 of 2040 tiles in the newest frame",
        ),
        (4, None, None, 0, "found on the cpu, threshold 4, 0 of 2040 tiles in the newest frame"),
        (
            0,
            Some(16),
            None,
            7,
            "found on the cpu, threshold 0 (auto, noise not known yet, limit 16), 7 of 2040 tiles in the newest frame",
        ),
        (
            9,
            Some(16),
            Some(1346),
            31,
            "found on the cpu, threshold 9 (auto, noise 1.35, limit 16), 31 of 2040 tiles in the newest frame",
        ),
    ] {
        change.threshold.set(Some(threshold));
        change.threshold_limit.set(limit);
        change.noise_thousandths.set(noise_thousandths);
        change.tiles_dirty.set(Some(tiles_dirty));
        let table = listed();
        assert!(
            table.contains(&format!("\n  change   {line}\n")),
            "{line:?} is missing in\n{table}"
        );
    }

    let output = foveate(&stage.path, &["ls", "--json"]);
    let listing: Value = serde_json::from_str(&output.stdout).unwrap();
    let change = serde_json::json!({
        "threshold": 9, "threshold_limit": 16, "noise": 1.346, "tiles_dirty": 31, "tile_count": 2040,
    });
    assert_eq!(listing["streams"][0]["change"], change);
}

#[test]
fn ls_and_doctor_warn_where_nearly_every_tile_changes() {
    let stage = Stage::open();
    let (port, _writer) = stage.live_stream("camera", &["main"]);
    let (counters, change) = (port.counters(), &port.counters().change);
    for (gauge, value) in
        [(&change.threshold, 0), (&change.tiles_dirty, 95), (&change.tile_count, 100)]
    {
        gauge.set(Some(value));
    }
    let warned = || {
        let listed = foveate(&stage.path, &["ls", "-v"]).stdout;
        let diagnosed = foveate(&stage.path, &["doctor"]).stdout;
        let parts = ["95 % of the tiles change in each frame", "threshold = \"auto\""];
        let warns = |text: &str| parts.iter().all(|part| text.contains(part));
        assert_eq!(warns(&listed), warns(&diagnosed), "{listed}\n{diagnosed}");
        warns(&listed)
    };
    counters.frames_captured.add(29);
    counters.frames_published.add(29);
    counters.tiles_dirty.add(29 * 95);
    assert!(!warned(), "the first frames are not judged");
    counters.frames_published.add(1);
    counters.tiles_dirty.add(95);
    assert!(warned());
    change.threshold_limit.set(Some(16));
    assert!(foveate(&stage.path, &["ls"]).stdout.contains("raise `threshold_limit`"));
    change.threshold_limit.set(None);
    counters.frames_published.add(3);
    assert!(!warned(), "86 of 100");
}

#[test]
fn ls_tells_of_notices_that_found_no_room() {
    let stage = Stage::open();
    let (port, _writer) = stage.live_stream("camera", &["main"]);
    let channel = &port.views[0];
    channel.set_notices(NoticeCounts { sent: 7, skipped: 0, subscribers_gone: 2 });
    let listed = || foveate(&stage.path, &["ls", "-v"]).stdout;
    assert!(!listed().contains("notices"), "nothing was lost");

    channel.set_notices(NoticeCounts { sent: 8, skipped: 5, subscribers_gone: 2 });
    let line = "  camera/main sent 8 notices and skipped 5 of readers that stand still\n";
    assert!(listed().contains(line), "{}", listed());
    let output = foveate(&stage.path, &["ls", "--json"]);
    let listing: Value = serde_json::from_str(&output.stdout).unwrap();
    let notices = serde_json::json!({"sent": 8, "skipped": 5, "subscribers_gone": 2});
    assert_eq!(listing["streams"][0]["views"][0]["notices"], notices);
}

#[cfg(feature = "gst")]
#[test]
fn doctor_tries_addresses_and_prints_tables_of_those_that_work() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("none.mp4");
    let missing = missing.to_str().unwrap();
    let output = foveate(folder.path(), &["doctor", "test", missing, "192.0.2.1/main"]);
    output.assert_clean_exit(69);
    let lines: Vec<_> = output.stdout.lines().collect();
    let found = |start: &str| {
        let line = lines.iter().position(|line| line.starts_with(start));
        line.unwrap_or_else(|| panic!("{start} is not in {lines:#?}"))
    };
    assert!(lines[found("ok    test ")].contains(" frames a second"), "{lines:#?}");
    assert!(lines[found(&format!("FAIL  {missing} "))].contains("does not exist"), "{lines:#?}");
    let without_scheme = lines[found("FAIL  192.0.2.1/main ")];
    assert!(without_scheme.contains("\"rtsp://192.0.2.1/main\""), "{without_scheme}");
    let (_, tables) = output.stdout.split_once("--config FILE`:\n").unwrap();
    let config = foveate_config::Config::parse(tables, Path::new("foveate.toml")).unwrap();
    let sources: Vec<_> =
        config.streams.iter().map(|stream| stream.capture.source.text()).collect();
    assert_eq!(sources, ["test"]);
}

#[test]
fn snap_takes_any_time_to_wait() {
    let stage = Stage::open();
    let (_port, writer) = stage.live_stream("camera", &["main"]);
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let output = publishing(writer, || {
        foveate(&stage.path, &["snap", "camera/main", "--out", out, "--timeout", "1e19"])
    });
    output.assert_clean_exit(0);
}

#[test]
fn watch_prints_a_line_with_every_field_for_each_frame() {
    let stage = Stage::open();
    let (_port, writer) = stage.live_stream("camera", &["main"]);
    let epoch = format!("{:016x}", writer.epoch());
    let output = publishing(writer, || {
        foveate(&stage.path, &["watch", "camera/main", "--json", "--frames", "3"])
    });
    output.assert_clean_exit(0);
    let lines = output.stdout;
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let lines = lines.collect::<Vec<_>>();
    assert_eq!(lines.len(), 3);
    let segment = serde_json::json!({
        "abi": [1, 0], "stream": "camera", "view": "main", "layout": "foveal", "patch_side": 14, "dtype": "u8",
        "outside": "edge", "rounding": "half-up", "grid": null, "foveae": 1,
        "mean": [0.0, 0.0, 0.0], "std": [1.0 / 255.0, 1.0 / 255.0, 1.0 / 255.0], "capacity": 4, "source_width": 64,
        "source_height": 48, "pixel_format": "NV12", "pixel_aspect": [1, 1],
        "color": null, "backend": "cpu", "device": "a processor", "slot_count": 8,
        "total_bytes": 36_864, "planes": [{
            "name": "pixels", "order": "NCHW", "dtype": "u8", "shape": [4, 3, 14, 14], "offset": 768,
            "token_stride": 588, "bytes": 2352,
        }],
        "channels": null,
    });
    for line in &lines {
        assert_eq!(line["view"], "camera/main");
        assert_eq!(line["epoch"], epoch);
        assert_eq!(line["frame_seq"], line["ring_sequence"]);
        assert_eq!(line["pts_ns"], 40);
        assert_eq!(line["capture_clock"], "running-time");
        let fixation = serde_json::json!({
            "id": 3, "x": 32.0, "y": 24.5, "since_frame": 1, "reason": "policy", "weight": 1.0,
        });
        assert_eq!(line["fixations"], serde_json::json!([fixation]));
        assert_eq!((&line["sample_bound"], &line["rgb_bound"]), (&1.into(), &2.into()));
        assert_eq!((&line["dirty_tiles"], &line["tile_count"]), (&1.into(), &4.into()));
        assert_eq!((&line["asked_ns"], &line["relevance_frame"]), (&0.into(), &0.into()));
        assert_eq!((&line["motion"], &line["motion_frame"]), (&Value::Null, &0.into()));
        assert_eq!(line["token_count"], 2);
        assert_eq!(line["tokens_per_group"], serde_json::json!([1, 1]));
        for time in ["capture_ns", "capture_unix_ns", "arrival_ns", "publish_ns", "age_ns"] {
            assert!(line[time].as_u64().is_some_and(|time| 0 < time), "{time}: {line}");
        }
        assert!(line["lapped"].is_u64());
        assert_eq!(line["state"], "live");
        assert_eq!(line["segment"], segment);
    }
    let summary = output.stderr;
    assert!(summary.starts_with("camera/main: 3 frames, "), "{summary}");
}

#[test]
fn a_picture_of_every_layout_is_that_of_its_finest_tokens() {
    for shown in layouts::each() {
        let stage = Stage::open();
        let (_port, _writer) = shown.serve(&stage);
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().to_str().unwrap();
        let output = foveate(&stage.path, &["snap", "camera/main", "--out", out]);
        output.assert_clean_exit(0);

        let rebuilt = decoded(&folder.path().join("rebuilt.png"));
        let density = decoded(&folder.path().join("density.png"));
        let boxes = decoded(&folder.path().join("boxes.png"));
        let mut heats = BTreeSet::new();
        for ((x, y), at) in layouts::pixels().zip(0..) {
            let what = format!("{:?} at {x}, {y}", shown.view.layout);
            let Some((token, column, row)) = shown.at(x, y) else {
                assert_eq!(rebuilt[at], [0; 3], "{what}");
                continue;
            };
            let record = &shown.records[token];
            let texel = shown.texel(token, column, row);
            // Smooth, but exact at full resolution.
            let is_full =
                (record.sx, record.sy, record.extra_width, record.extra_height) == (1, 1, 0, 0);
            assert!(rebuilt[at] == texel || !is_full, "{what}");
            // A picture without its lines has each texel as a block, a third darker.
            let is_dimmed = boxes[at] == texel.map(|value| value - value / 3);
            assert!(is_dimmed || is_on_a_line(&shown, x, y), "{what}");
            // A line and a cross aside.
            if !is_near_a_fixation(&shown, x, y) {
                let area = u32::from(record.sx) * u32::from(record.sy);
                heats.insert((area.ilog2() / 2, density[at]));
                assert!((x, y) != (record.x0, record.y0) || !is_dimmed, "{what}: no line");
            }
        }
        let octaves: BTreeSet<_> = heats.iter().map(|(octave, _)| octave).collect();
        assert_eq!(octaves.len(), heats.len(), "{:?}: a colour for each", shown.view.layout);
    }
}

/// Whether a line of a box, or a cross, may pass through a pixel.
fn is_on_a_line(shown: &LayoutFrame, x: u32, y: u32) -> bool {
    let is_edge = |record: &TokenRecord| {
        let is_beside =
            (record.x0..=record.x1).contains(&x) && (record.y0..=record.y1).contains(&y);
        is_beside && ([record.x0, record.x1].contains(&x) || [record.y0, record.y1].contains(&y))
    };
    shown.records.iter().any(is_edge) || is_near_a_fixation(shown, x, y)
}

fn is_near_a_fixation(shown: &LayoutFrame, x: u32, y: u32) -> bool {
    shown
        .fixations
        .iter()
        .any(|at| (at.x - f64::from(x)).abs().max((at.y - f64::from(y)).abs()) < 10.0)
}

/// The RGB pixels of a PNG file.
fn decoded(path: &Path) -> Vec<[u8; 3]> {
    let decoder = png::Decoder::new(BufReader::new(std::fs::File::open(path).unwrap()));
    let mut reader = decoder.read_info().unwrap();
    let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
    reader.next_frame(&mut bytes).unwrap();
    assert_eq!(bytes.len(), 3 * PICTURE.area());
    bytes.as_chunks().0.to_vec()
}

#[test]
fn watch_counts_the_tokens_of_each_group_and_names_every_fixation() {
    for shown in layouts::each() {
        let stage = Stage::open();
        let (_port, _writer) = shown.serve(&stage);
        let arguments = ["watch", "camera/main", "--json", "--frames", "1"];
        let output = foveate(&stage.path, &arguments);
        output.assert_clean_exit(0);
        let line: Value = serde_json::from_str(&output.stdout).unwrap();
        let groups = shown.records.iter().map(|record| usize::from(record.group));
        let mut counts = vec![0; groups.clone().max().unwrap() + 1];
        groups.for_each(|group| counts[group] += 1);
        assert_eq!(line["tokens_per_group"], serde_json::json!(counts), "{:?}", shown.view.layout);
        let motion = serde_json::json!([[1.0, 0.5, -3.25], [-0.5, 1.0, 40.0]]);
        assert_eq!((&line["motion"], &line["motion_frame"]), (&motion, &7.into()));
        let points = line["fixations"]
            .as_array()
            .unwrap()
            .iter()
            .map(|at| (at["x"].as_f64().unwrap(), at["y"].as_f64().unwrap()));
        assert!(points.eq(shown.fixations.iter().map(|at| (at.x, at.y))), "{line}");
        assert_eq!(line["segment"]["layout"], shown.view.layout.name());
    }
}

#[test]
fn views_of_every_layout_can_be_opened() {
    let stage = Stage::open();
    let (_port, _writer) = stage.live_stream("camera", &["main"]);
    let open = |keys: &Value| {
        let mut client = foveate::client::Client::connect(&stage.path).unwrap();
        client.open_view("camera", keys.as_object().unwrap().clone())
    };
    for keys in [
        serde_json::json!({"layout": "foveal", "foveae": 3}),
        serde_json::json!({"layout": "uniform", "patch": 28, "dtype": "bf16", "outside": "mean"}),
        serde_json::json!({"layout": "inset", "share": 0.3, "blocks": 2, "min_step": 1.5, "aspect": 2}),
        serde_json::json!({"layout": "directional", "e0": 90, "budget": 96}),
        serde_json::json!({"layout": "rings", "preset": "stt172", "rounding": "half-up"}),
        serde_json::json!({"layout": "rings", "preset": "giava20"}),
        serde_json::json!({"layout": "rings", "strides": [1, 3], "grids": [3, 3], "patch": 8}),
        serde_json::json!({"layout": "windows", "patch": 448, "budget": 3}),
        serde_json::json!({"layout": "windows", "patch": 1024, "budget": 2, "dtype": "u8"}),
    ] {
        open(&keys).unwrap_or_else(|error| panic!("{keys}: {error}"));
    }
}

#[test]
fn watch_stops_after_the_seconds_given() {
    let stage = Stage::open();
    let (_port, writer) = stage.live_stream("camera", &["main", "wide"]);
    let arguments = ["watch", "camera/main", "--seconds", "0.3"];
    let output = publishing(writer, || foveate(&stage.path, &arguments));
    output.assert_clean_exit(0);
    let summary = output.stdout;
    assert!(
        summary.starts_with("camera/main: ") && summary.contains(" fps, age p50 "),
        "{summary}"
    );
}

#[test]
fn watch_fails_if_no_frame_came() {
    let stage = Stage::open();
    let (_port, _writer) = stage.live_stream("camera", &["main"]);
    let output = foveate(&stage.path, &["watch", "camera/main", "--seconds", "0.3"]);
    output.assert_clean_exit(69);
    assert!(output.stdout.contains("0 frames, 0.0 fps, age p50 - p99 -,"));
    assert!(output.stderr.contains("no frame arrived"));
}

#[test]
fn watch_ends_well_with_its_stream() {
    let stage = Stage::open();
    let (port, mut writer) = stage.live_stream("camera", &["main"]);
    publish(&mut writer, 1, 0);
    port.ended("end of the file");
    let output = foveate(&stage.path, &["watch", "camera/main"]);
    output.assert_clean_exit(0);
    let summary = output.stdout;
    assert!(summary.starts_with("camera/main: 1 frames"), "{summary}");
    assert!(summary.ends_with("the stream ended: end of the file\n"), "{summary}");
}

#[test]
fn watch_says_when_the_daemon_is_gone_and_still_sums_up() {
    let mut stage = Stage::open();
    let (_port, mut writer) = stage.live_stream("camera", &["main"]);
    publish(&mut writer, 1, 0);
    let watch = spawned(&stage.path, &["watch", "camera/main", "--json"]);
    watch.stdout.wait_for("\n");
    drop(stage.server.take());

    let output = watch.finish();
    output.assert_clean_exit(69);
    let errors = output.stderr;
    assert!(errors.starts_with("camera/main: 1 frames"), "{errors}");
    assert!(errors.contains("foveate: the daemon is gone"), "{errors}");
}

#[test]
fn watch_reconnects_on_request() {
    let mut stage = Stage::open();
    let (port, mut old) = stage.live_stream("camera", &["main"]);
    publish(&mut old, 1, 0);
    let arguments = ["watch", "camera/main", "--json", "--reconnect", "--frames", "2"];
    let watch = spawned(&stage.path, &arguments);
    watch.stdout.wait_for(&format!("{:016x}", old.epoch()));
    drop(stage.server.take());
    let mut new = writer(&main_view());
    port.views[0].set_segment(new.reader_fd().unwrap(), new.epoch());
    publish(&mut new, 1, 0);
    stage.serve(ServerLimits::default());
    let output = watch.finish();
    output.assert_clean_exit(0);
    assert!(output.stdout.contains(&format!("{:016x}", new.epoch())), "{}", output.stdout);
    let summary = output.stderr;
    assert!(summary.starts_with("camera/main: 2 frames"), "{summary}");
    assert!(summary.ends_with("dropped 0, lapped 0\n"), "{summary}");
}

#[test]
fn watch_sums_up_when_it_is_told_to_stop() {
    let stage = Stage::open();
    let (_port, mut writer) = stage.live_stream("camera", &["main"]);
    publish(&mut writer, 1, 0);
    let watch = spawned(&stage.path, &["watch", "camera/main", "--json"]);
    watch.stdout.wait_for("\n");
    watch.signal(Signal::INT);
    let output = watch.finish();
    output.assert_clean_exit(0);
    assert!(output.stderr.starts_with("camera/main: 1 frames"));
}

#[test]
fn an_output_that_nobody_reads_ends_watch_without_a_complaint() {
    let stage = Stage::open();
    let (_port, writer) = stage.live_stream("camera", &["main"]);
    let (status, errors) = publishing(writer, || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_foveate"));
        command.arg("--socket").arg(&stage.path).args(["watch", "camera/main", "--json"]);
        command.env_remove("RUST_LOG").stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        lines.read_line(&mut String::new()).unwrap();
        drop(lines);
        let mut errors = String::new();
        child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        (child.wait().unwrap(), errors)
    });
    assert_eq!(status.code(), Some(0), "{errors}");
    assert!(!errors.contains("panicked") && !errors.contains("foveate: "), "{errors}");
}

#[test]
fn look_prints_where_it_led_to() {
    let stage = Stage::open();
    let (mut port, _writer) = stage.live_stream("camera", &["main"]);
    let output = foveate(&stage.path, &["look", "camera/main", "10.5", "20"]);
    assert_eq!(output.stdout, "camera/main looks at 10.5, 20\n");
    let output = foveate(&stage.path, &["look", "camera/main", "-4", "999"]);
    assert_eq!(output.stdout, "camera/main looks at 0, 48 (the nearest point of the picture)\n");
    let post = port.views[0].next_feedback().unwrap();
    assert_eq!(post.feedback, Feedback::look_at(0.0, 48.0, None));

    let boxed = ["look", "camera/main", "--box", "8,4,40,20", "--share", "0.5"];
    let output = foveate(&stage.path, &boxed);
    assert_eq!(output.stdout, "camera/main looks at 24, 12\n", "{output:?}");
    let output = foveate(&stage.path, &["look", "camera/main", "--box", "8,4,8,20"]);
    let error = output.stderr;
    assert!(error.contains("invalid `box` [8, 4, 8, 20]"), "{error}");

    let output = foveate(&stage.path, &["look", "camera/none", "1", "1"]);
    output.assert_clean_exit(69);
    let error = output.stderr;
    assert!(
        error.contains("unknown view `camera/none` (expected one of: `camera/main`)"),
        "{error}"
    );
}

/// Runs `watching` while frames are published one after the other.
fn publishing<T>(mut writer: Writer, watching: impl FnOnce() -> T) -> T {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for frame_seq in 1.. {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                publish(&mut writer, frame_seq, 0);
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        });
        let result = watching();
        done.store(true, Ordering::Relaxed);
        result
    })
}
