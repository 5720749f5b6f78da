//! `foveate bench` plays exactly the frames that it was asked for, counts what they cost, and refuses what it cannot
//! measure. No time is judged here.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use foveate_ring::TokenRecord;
use foveate_ring::abi::SlotHeader;
use serde_json::Value;
#[cfg(feature = "vulkan")]
use testkit::device;
#[cfg(feature = "vulkan")]
use testkit::left_out::is_left_out;

/// 240 tiles of 32 x 32 pixels, of which the lowest are cut.
const SIZE: &str = "640x360";

const CPU_STAGES: [&str; 10] = [
    "adapt", "change", "features", "ingest", "publish", "reduce", "rest", "sample", "see", "total",
];

#[test]
fn bench_stages_add_up_to_the_total() {
    let report =
        &reports(&["--size", SIZE, "--backend", "cpu", "--policy", "fixed", "--frames", "5"])[0];
    assert_eq!((&report["backend"], &report["driver"]), (&"cpu".into(), &Value::Null));
    assert!(report["device"].as_str().is_some_and(|device| !device.is_empty()));
    let stages = report["stages"].as_object().unwrap();
    assert_eq!(stages.keys().collect::<Vec<_>>(), CPU_STAGES);
    for (name, quantiles) in stages {
        let [p50, p99, mean] = ["p50_us", "p99_us", "mean_us"].map(|key| number(&quantiles[key]));
        assert!(0.0 <= p50 && p50 <= p99 && mean <= p99, "{name}: {quantiles}");
    }
    let mean = |name: &str| number(&stages[name]["mean_us"]);
    let parts = CPU_STAGES.iter().filter(|name| !["see", "total"].contains(name));
    let parts: f64 = parts.map(|name| mean(name)).sum();
    assert!((parts - mean("total")).abs() < 0.01, "{parts} of {}", mean("total"));
    assert!(number(&report["bandwidth"]["memcpy_gb_s"]) > 0.0);
    assert!(number(&report["processor"]["mean_us"]) > 0.0);
}

#[test]
fn exactly_the_share_of_tiles_changes_whatever_the_format() {
    for format in ["NV12", "I420", "YUY2", "RGB", "BGR", "RGBx", "BGRx", "RGBA", "BGRA", "gray8"] {
        for (share, dirty) in [("0", 0.0), ("0.1", 24.0), ("0.333", 80.0), ("1", 240.0)] {
            let arguments = ["--size", SIZE, "--format", format, "--changed", share];
            let report =
                &reports(&[&arguments[..], &["--backend", "cpu", "--frames", "3"]].concat())[0];
            assert_eq!(number(&report["tiles"]["dirty_mean"]), dirty, "{format} {share}");
            assert_eq!(report["tiles"]["count"], 240, "{format}");
        }
    }
}

#[test]
fn odd_sizes_change_exactly_as_well() {
    for format in ["NV12", "I420", "YUY2", "RGBA", "GRAY8"] {
        let arguments = ["--size", "99x67", "--format", format, "--changed", "0.5"];
        let report =
            &reports(&[&arguments[..], &["--backend", "cpu", "--frames", "3"]].concat())[0];
        assert_eq!(number(&report["tiles"]["dirty_mean"]), 6.0, "{format}");
        assert_eq!(report["tiles"]["count"], 12, "{format}");
    }
}

#[test]
fn bytes_are_those_of_the_samples_and_of_the_tokens() {
    let arguments = ["--size", SIZE, "--backend", "cpu", "--frames", "3", "--changed", "1"];
    // A plan of a moving gaze has another number of tokens.
    let arguments = [&arguments[..], &["--policy", "fixed"]].concat();
    for (format, compared) in [("NV12", 345_600), ("YUY2", 460_800), ("RGBA", 921_600)] {
        let views = ["--format", format, "--views", "3", "--budget", "40", "--dtype", "f32"];
        let report = &reports(&[&arguments[..], &views].concat())[0];
        assert_eq!(report["bytes"]["compared"], compared, "{format}");
        let count = number(&report["tokens"]["count"]);
        assert!(60.0 < count && count <= 120.0, "{count} tokens of three views");
        assert_eq!(number(&report["tokens"]["sampled_mean"]), count);
        assert_eq!(number(&report["bytes"]["sampled_mean"]), count * 3.0 * 256.0 * 4.0);
        assert_eq!(number(&report["bytes"]["uploaded_mean"]), 0.0, "nothing leaves the CPU");
    }
}

#[test]
fn sampling_follows_change_and_refresh() {
    let arguments = ["--size", SIZE, "--backend", "cpu", "--frames", "3", "--changed", "0"];
    let arguments = [&arguments[..], &["--policy", "fixed"]].concat();
    let still = &reports(&arguments)[0];
    assert_eq!(number(&still["tokens"]["sampled_mean"]), 0.0);
    let full = &reports(&[&arguments[..], &["--refresh", "1"]].concat())[0];
    assert_eq!(number(&full["tiles"]["dirty_mean"]), 240.0);
    assert_eq!(full["tokens"]["sampled_mean"].as_f64(), full["tokens"]["count"].as_f64());
    assert_eq!(full["refresh_frames"], 1);
}

#[test]
fn a_clip_plays_its_frames_forward_and_backward() {
    let folder = tempfile::tempdir().unwrap();
    let clip = folder.path().join("clip.y4m");
    // One tile of the six differs between the first two frames, all of them between the others.
    let mut corner = vec![16; 96 * 64 * 3 / 2];
    corner[0] = 17;
    fs::write(&clip, y4m(&[vec![16; 96 * 64 * 3 / 2], corner, vec![90; 96 * 64 * 3 / 2]])).unwrap();
    let report = &reports(&["--clip", path(&clip), "--backend", "cpu", "--frames", "8"])[0];
    let frames = &report["frames"];
    assert_eq!((&frames["format"], &frames["clip"]), (&"I420".into(), &"clip.y4m".into()));
    assert_eq!((&frames["width"], &frames["height"]), (&96.into(), &64.into()));
    assert_eq!((&frames["buffers"], &frames["measured"]), (&3.into(), &8.into()));
    assert_eq!(frames["changed"], Value::Null);
    // There and back again: 1, 6, 6 and 1 tiles.
    assert_eq!(number(&report["tiles"]["dirty_mean"]), 3.5);

    let report = &reports(&["--clip", path(&clip), "--backend", "cpu", "--frames", "2"])[0];
    assert_eq!(report["frames"]["buffers"], 2);
    assert_eq!(number(&report["tiles"]["dirty_mean"]), 1.0);
}

#[test]
fn the_frames_that_are_written_are_those_that_are_measured() {
    let folder = tempfile::tempdir().unwrap();
    let made = ["--size", SIZE, "--changed", "0.25", "--dtype", "u8", "--policy", "fixed"];
    run(&[&made[..], &["--dump", path(folder.path())]].concat());
    let plan: Value =
        serde_json::from_slice(&fs::read(folder.path().join("plan.json")).unwrap()).unwrap();
    assert_eq!(
        (&plan["width"], &plan["height"], &plan["patch_side"]),
        (&640.into(), &360.into(), &16.into())
    );
    assert_eq!(plan["levels"][5], serde_json::json!([20, 12]));
    let tokens = plan["views"][0].as_array().unwrap().len();
    assert_eq!(
        fs::metadata(folder.path().join("tokens-0.bin")).unwrap().len(),
        tokens as u64 * 768
    );

    let clip = folder.path().join("frames.nv12");
    let played = ["--clip", path(&clip), "--size", SIZE, "--policy", "fixed"];
    let report = &reports(&[&played[..], &["--backend", "cpu", "--frames", "4"]].concat())[0];
    assert_eq!(report["frames"]["buffers"], 2);
    assert_eq!(number(&report["tiles"]["dirty_mean"]), 60.0);
    assert_eq!(report["tokens"]["count"], tokens);
}

#[test]
fn every_layout_is_measured_and_written() {
    for (layout, count, coarsest) in [
        (&["foveal", "--foveae", "3", "--budget", "50", "--policy", "fixed"][..], 30..=50, 64),
        (&["uniform", "--budget", "100"], 91..=91, 4),
        (&["directional", "--budget", "50", "--policy", "saliency"], 45..=50, 64),
        (&["stt172"], 172..=172, 8),
        (&["giava20"], 20..=20, 6),
        (&["windows", "--patch", "224"], 3..=3, 4),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let arguments = [&["--size", SIZE, "--dtype", "u8", "--layout"], layout].concat();
        let measured = ["--backend", "cpu", "--frames", "3", "--changed", "1"];
        let report = &reports(&[&arguments[..], &measured].concat())[0];
        assert_eq!(report["views"]["layout"], layout[0]);
        let tokens = report["tokens"]["count"].as_u64().unwrap();
        assert!(count.contains(&tokens), "{layout:?}: {tokens}");
        assert_eq!(number(&report["tokens"]["sampled_mean"]), tokens as f64, "{layout:?}");

        run(&[&arguments[..], &["--dump", path(folder.path())]].concat());
        let plan = fs::read(folder.path().join("plan.json")).unwrap();
        let plan: Value = serde_json::from_slice(&plan).unwrap();
        let view = plan["views"][0].as_array().unwrap();
        assert!(count.contains(&(view.len() as u64)), "{layout:?}: {} tokens", view.len());
        let steps = view.iter().flat_map(|token| [token[2].as_u64(), token[3].as_u64()]);
        let (least, most) = (steps.clone().min().flatten(), steps.max().flatten());
        assert!(Some(1) <= least && most <= Some(coarsest), "{layout:?}: {least:?} to {most:?}");
        let side = plan["patch_side"].as_u64().unwrap();
        let written = fs::metadata(folder.path().join("tokens-0.bin")).unwrap().len();
        assert_eq!(written, view.len() as u64 * 3 * side * side, "{layout:?}");
    }
}

#[test]
fn each_line_of_standard_input_is_one_measurement() {
    let mut child = command(&[
        "--size",
        "64x64",
        "--backend",
        "cpu",
        "--policy",
        "fixed",
        "--frames",
        "2",
        "--json",
        "--each-line",
    ])
    .stdin(Stdio::piped())
    .stdout(Stdio::piped())
    .spawn()
    .unwrap();
    child.stdin.take().unwrap().write_all(b"\n\n\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(parsed(&output).len(), 3);
}

#[test]
fn the_table_for_people_names_every_stage() {
    let text =
        text(&run(&["--size", "64x64", "--backend", "cpu", "--frames", "2", "--cold"]).stdout);
    assert!(text.starts_with("cpu on "), "{text}");
    assert!(text.contains("NV12 64x64") && text.contains("caches cold"), "{text}");
    for stage in CPU_STAGES {
        assert!(
            text.lines().any(|line| line.starts_with(&format!("  {stage} "))),
            "{stage}: {text}"
        );
    }
}

#[test]
fn bench_all_measures_the_cpu_and_reports_skipped_backends() {
    let output = run(&[
        "--size",
        "64x64",
        "--policy",
        "fixed",
        "--frames",
        "2",
        "--json",
        "--device",
        "no such device",
    ]);
    let reports = parsed(&output);
    assert_eq!(reports.len(), 1);
    assert_eq!(reports[0]["backend"], "cpu");
    let error = text(&output.stderr);
    assert!(error.starts_with("skipping vulkan: "), "{error}");
}

#[cfg(feature = "vulkan")]
#[test]
fn vulkan_reports_its_device_and_the_same_work_as_the_cpu() {
    if is_left_out(device::WITHOUT) {
        return;
    }
    let arguments = ["--size", SIZE, "--policy", "fixed", "--frames", "3", "--json", "--device"];
    let device = std::env::var("FOVEATE_TEST_DEVICE").unwrap_or_default();
    let output = run(&[&arguments[..], &[&device]].concat());
    let reports = parsed(&output);
    let [cpu, vulkan] = reports.as_slice() else {
        panic!("{}{}=1 leaves this test out", text(&output.stderr), device::WITHOUT);
    };
    assert_eq!(vulkan["backend"], "vulkan");
    assert!(vulkan["driver"].as_str().is_some_and(|driver| !driver.is_empty()));
    for stage in ["upload", "gpu", "collect"] {
        assert!(vulkan["stages"][stage].is_object(), "{stage}");
    }
    assert_eq!((&vulkan["tiles"], &vulkan["tokens"]), (&cpu["tiles"], &cpu["tokens"]));
    assert_eq!((&cpu["change_on"], &vulkan["change_on"]), (&"cpu".into(), &"cpu".into()));

    // Where the device finds what changed, it reads the frame where it lies, or in a copy of all of it.
    let output = run(&[&arguments[..], &[&device, "--change-on", "gpu"]].concat());
    let [_, on_gpu] = parsed(&output).try_into().unwrap();
    assert_eq!(on_gpu["change_on"], "gpu");
    assert_eq!((&on_gpu["tiles"], &on_gpu["tokens"]), (&cpu["tiles"], &cpu["tokens"]));
    assert_eq!(on_gpu["bytes"]["compared"], 345_600);
    let uploaded = number(&on_gpu["bytes"]["uploaded_mean"]);
    assert!([0.0, 345_600.0].contains(&uploaded), "{uploaded}");
    let mean = |name: &str| number(&on_gpu["stages"][name]["mean_us"]);
    assert!(0.0 < mean("change") && mean("change") < mean("gpu"), "{}", on_gpu["stages"]);
    let parts = ["upload", "gpu", "collect", "adapt", "publish", "rest"].map(mean);
    let parts: f64 = parts.iter().sum();
    assert!((parts - mean("total")).abs() < 0.01, "{parts} of {}", mean("total"));
}

#[test]
fn what_cannot_be_measured_is_refused_with_the_way_out() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let raw = file("clip.nv12", &[0; 100]);
    let deep = file("deep.y4m", b"YUV4MPEG2 W64 H64 C420p10\nFRAME\n");
    let cut = file("cut.y4m", b"YUV4MPEG2 W64 H64\nFRAME\nabc");
    let empty = file("empty.y4m", b"YUV4MPEG2 W64 H64 C420jpeg\n");
    let other = file("other.y4m", b"RIFF");
    for (arguments, code, reason) in [
        (&["--size", "1920"][..], 2, "such as 1920x1080"),
        (&["--size", "0x4"], 2, "from 1 to 16384"),
        (&["--format", "P010"], 2, "NV12, I420"),
        (&["--changed", "10"], 2, "from 0 to 1"),
        (&["--changed", "nan"], 2, "from 0 to 1"),
        (&["--budget", "0"], 2, "1..=5000"),
        (&["--frames", "0"], 2, "1..=100000"),
        (&["--patch", "15"], 2, "even number from 8 to 64"),
        (&["--patch", "224"], 2, "--patch: 224 is not allowed here"),
        (&["--layout", "windows"], 2, "--patch: windows of 16 texels"),
        (&["--layout", "stt172", "--patch", "14"], 2, "expected 16"),
        (&["--layout", "stt172", "--budget", "100"], 2, "--budget: 100 is less than the 172"),
        (&["--foveae", "9"], 2, "1..=8"),
        (&["--layout", "foveal", "--foveae", "5", "--budget", "4"], 2, "at most the budget, 4"),
        (
            &["--layout", "uniform", "--foveae", "2"],
            2,
            "--foveae 2 needs --layout foveal or inset, not uniform",
        ),
        (&["--dtype", "f64"], 2, "bf16"),
        (&["--backend", "cuda"], 2, "vulkan"),
        (&["--backend", "cpu", "--device", "llvmpipe"], 2, "--backend cpu"),
        (&["--backend", "cpu", "--change-on", "gpu"], 2, "--backend cpu"),
        (&["--change-on", "vulkan"], 2, "auto, cpu, gpu"),
        (&["--instructions", "mmx"], 2, "this processor has plain"),
        (&["--clip", &raw, "--changed", "0.1"], 2, "--clip"),
        (&["--clip", &raw], 2, "add --size"),
        (&["--clip", &deep, "--size", "64x64"], 2, "--size conflicts"),
        (&["--clip", &raw, "--size", "64x64"], 1, "cut short in frame 1"),
        (&["--clip", &deep], 1, "420p10"),
        (&["--clip", &cut], 1, "cut short in frame 1"),
        (&["--clip", &empty], 1, "no frame"),
        (&["--clip", &other], 1, "YUV4MPEG2"),
        (&["--clip", "nowhere.y4m"], 69, "nowhere.y4m"),
        (&["--backend", "vulkan", "--device", "no such device"], 69, "ulkan"),
    ] {
        let output = command(arguments).output().unwrap();
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
        assert!(error.contains(reason), "{arguments:?}: {error}");
    }
}

/// Readers are slower than frames at full speed, and each frame is either read or skipped.
#[test]
fn bench_readers_account_for_every_frame() {
    for readers in [0, 1, 3] {
        let arguments = ["ring", "--payload", "10000", "--frames", "200", "--interval-us", "0"];
        let found = reports(&[&arguments[..], &["--readers", &readers.to_string()]].concat());
        let ways: Vec<_> = found.iter().map(|report| &report["how"]).collect();
        assert_eq!(ways, ["futex", "notice", "spin"]);
        for report in found {
            assert_eq!(report["payload_bytes"], 9216, "whole tokens");
            let beside = size_of::<SlotHeader>() + 6 * size_of::<TokenRecord>();
            assert_eq!(report["frame_bytes"], 9216 + beside, "with their records and header");
            assert_eq!((&report["frames"], &report["readers"]), (&200.into(), &readers.into()));
            let read = number(&report["read"]);
            assert_eq!(read + number(&report["missed"]), f64::from(readers) * 200.0);
            assert_eq!(0.0 < read, 0 < readers, "{report}");
            for part in ["publish", "wake", "read_done", "total"] {
                let tail = ["p50_us", "p99_us", "p99_9_us"].map(|key| number(&report[part][key]));
                assert!(tail.is_sorted(), "{part}: {report}");
                let is_timed = 0 < readers || part == "publish" || part == "wake";
                assert_eq!(0.0 < tail[0], is_timed, "{part}: {report}");
            }
            if 0 < readers {
                let p50 = |part: &str| number(&report[part]["p50_us"]);
                assert!(p50("read_done") <= p50("total"), "{report}");
            }
        }
    }
}

#[test]
fn readers_that_are_stopped_hold_up_nobody() {
    let arguments =
        ["ring", "--payload", "1536", "--frames", "500", "--stopped", "2", "--slots", "2"];
    for report in reports(&[&arguments[..], &["--interval-us", "100"]].concat()) {
        assert_eq!(report["stopped"], 2);
        assert_eq!(number(&report["read"]) + number(&report["missed"]), 500.0);
    }
}

#[test]
fn the_ring_is_not_measured_with_what_measures_frames() {
    for (arguments, reason) in [
        (&["--size", "64x64", "ring"][..], "cannot be used with"),
        (&["ring", "--payload", "1535"], "1536"),
        (&["ring", "--readers", "65"], "0..=64"),
        (&["ring", "--slots", "1"], "2..=64"),
        (&["ring", "--how", "sleep"], "futex"),
    ] {
        let output = command(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let error = text(&output.stderr);
        assert!(error.contains(reason), "{arguments:?}: {error}");
    }
}

/// A file of 4:2:0 frames of 96x64.
fn y4m(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut file = b"YUV4MPEG2 W96 H64 F25:1 Ip A1:1 C420mpeg2\n".to_vec();
    for frame in frames {
        file.extend_from_slice(b"FRAME\n");
        file.extend_from_slice(frame);
    }
    file
}

#[track_caller]
fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is not a number"))
}

#[track_caller]
fn reports(arguments: &[&str]) -> Vec<Value> {
    parsed(&run(&[arguments, &["--json"]].concat()))
}

fn parsed(output: &Output) -> Vec<Value> {
    text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[track_caller]
fn run(arguments: &[&str]) -> Output {
    let output = command(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    output
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_foveate"));
    command.arg("bench").args(arguments).env_remove("RUST_LOG");
    command
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn batches_are_whole_and_every_picture_counts() {
    for (batch, frames, measured) in [("5", "7", 10), ("1", "3", 3)] {
        let arguments =
            ["--size", "64x48", "--format", "RGB", "--batch", batch, "--frames", frames];
        let report = &reports(&[&arguments[..], &["--backend", "cpu"]].concat())[0];
        assert_eq!(report["measured"], measured);
        assert_eq!(report["batch"].to_string(), batch);
        let [p50, p99] = ["p50_us", "p99_us"].map(|key| number(&report["picture"][key]));
        assert!(0.0 < p50 && p50 <= p99 && 0.0 < number(&report["pictures_per_second"]));
    }
}

#[test]
fn instructions_are_those_that_are_asked_for() {
    let size = ["--size", "64x48", "--frames", "2", "--backend", "cpu"];
    let used = |more: &[&str]| reports(&[&size[..], more].concat())[0]["instructions"].clone();
    assert_eq!(used(&["--instructions", "plain"]), "plain");
    let best = used(&[]);
    assert_eq!(used(&["--instructions", best.as_str().unwrap()]), best);
}
