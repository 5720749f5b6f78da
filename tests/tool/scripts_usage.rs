//! A wrong command line of a script ends at once with exit code 2 and a reason, before anything is installed or built.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

#[test]
fn help_is_given_and_names_every_option() {
    let demo =
        ["seconds", "out", "clip", "camera", "uri", "test-pattern", "backend", "device", "yes"];
    for (script, options) in [
        ("demo.sh", &demo[..]),
        ("test.sh", &["long", "no-clips", "yes"]),
        ("bench_peers.sh", &["quick", "clip", "device", "json", "refresh-docs", "yes"]),
        ("bench_ipc.sh", &["quick", "refresh-docs", "yes"]),
        ("bench_load.sh", &["quick", "refresh-docs", "yes"]),
        ("soak.sh", &["minutes", "seed", "plot", "csv", "yes"]),
        ("plot_scaling.sh", &["out", "backend", "device", "quick", "yes"]),
        ("fuzz.sh", &["seconds", "yes"]),
        ("screenshots.sh", &["out", "yes"]),
        ("gpu_bundle.sh", &["out", "refresh-docs", "yes"]),
        ("gpu/run.sh", &["quick", "device"]),
        ("arm.sh", &["short", "count", "yes"]),
        ("install.sh", &["prefix", "destdir", "binaries", "uninstall", "yes"]),
        ("package.sh", &["arch", "out", "binaries", "yes"]),
        ("test_package.sh", &["packages", "yes"]),
    ] {
        let output = run(script, &["--help"]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        for option in options {
            assert!(
                text.contains(&format!("--{option}")),
                "{script} --help lacks --{option}: {text}"
            );
        }
    }
}

#[test]
fn wrong_usage_is_refused_with_the_reason() {
    for (arguments, reason) in [
        (&["--wat"][..], "unknown option --wat"),
        (&["--seconds"], "--seconds needs a value"),
        (&["--seconds", "0"], "whole number from 1"),
        (&["--seconds", "2.5"], "whole number from 1"),
        (&["--clip", "no/such/clip.avi"], "no such file"),
        (&["--camera", "video0"], "/dev/video0"),
        (&["--uri", "ftp://192.0.2.1/"], "rtsp://"),
        (&["--backend", "cuda"], "auto, cpu or vulkan"),
        (&["--test-pattern", "--camera", "/dev/video0"], "only one of"),
        (&["--backend", "cpu", "--device", "llvmpipe"], "--backend cpu"),
    ] {
        refused("demo.sh", arguments, reason);
    }
    for script in [
        "demo.sh",
        "test.sh",
        "bench_peers.sh",
        "bench_ipc.sh",
        "bench_load.sh",
        "soak.sh",
        "plot_scaling.sh",
        "fuzz.sh",
        "install.sh",
        "package.sh",
        "test_package.sh",
        "screenshots.sh",
        "gpu_bundle.sh",
        "value.sh",
    ] {
        refused(script, &["--short"], "unknown option --short");
        refused(script, &["--yes", ""], "unknown option ''");
        refused(script, &["--yes --help"], "unknown option '--yes --help'");
    }
    refused("arm.sh", &["--long"], "unknown option --long");
    refused("bench_peers.sh", &["--device"], "--device needs a value");
    refused("bench_peers.sh", &["--clip", "no/such/clip.avi"], "no such file");
    refused("plot_scaling.sh", &["--backend", "cuda"], "cpu or vulkan");
    refused("fuzz.sh", &["--seconds", "0"], "whole number from 1");
    refused(
        "value.sh",
        &["--only", "clouds"],
        "expected one of small_print people faces new_sign reuse text relevance features formats",
    );
    refused("install.sh", &["--prefix", "usr"], "expected an absolute path");
    refused("install.sh", &["--destdir", "/a b"], "without blanks");
    refused("install.sh", &["--binaries", "no/such/folder"], "there is no program foveated");
    refused("package.sh", &["--arch", "riscv64"], "expected amd64 or arm64");
    refused("package.sh", &["--binaries", "no/such/folder"], "there is no program foveated");
    refused("test_package.sh", &["--packages", "no/such/folder"], "expected one foveate_*.deb");
    refused("plot_scaling.sh", &["--out"], "--out needs a value");
    refused("gpu_bundle.sh", &["--refresh-docs", "no/such.json"], "no such file");
    refused("gpu/run.sh", &[], "the folder OUT is missing");
    refused("gpu/run.sh", &["out", "--device"], "--device needs a value");
    refused("gpu/run.sh", &["out", "--slow"], "unknown option --slow");
    refused("soak.sh", &["--yes"], "--minutes is needed");
    refused("soak.sh", &["--minutes", "0"], "whole number from 1");
    refused("soak.sh", &["--minutes", "2", "--seed", "x"], "whole number");
    refused("soak.sh", &["--minutes", "2", "--plot", "soak.gif"], ".png or .svg");
    refused("soak.sh", &["--minutes", "2", "--csv"], "--csv needs a value");
}

#[track_caller]
fn refused(script: &str, arguments: &[&str], reason: &str) {
    let output = run(script, arguments);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
    assert!(text.contains(reason), "{arguments:?}: {text}");
}

fn run(script: &str, arguments: &[&str]) -> Output {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts").join(script);
    Command::new(path).args(arguments).output().unwrap()
}

#[test]
fn builds_say_how_long_only_after_a_tenth() {
    let folder = tempfile::tempdir().unwrap();
    // Each call is 20 s after the one before, and the first crate comes an hour after the start.
    let clock = folder.path().join("clock");
    let date = format!(
        "#!/bin/sh\nnow=$(cat {0} 2>/dev/null || echo 0)\necho $((now == 0 ? 3600 : now + 20)) >{0}\necho $now\n",
        clock.display()
    );
    let program = folder.path().join("date");
    fs::write(&program, date).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let artifact = |number: usize| {
        format!(
            r#"{{"reason":"compiler-artifact","package_id":"p{number}","target":{{"kind":["lib"],"name":"c{number}"}},"fresh":false}}"#
        )
    };
    let artifacts: Vec<_> = (1..=30).map(artifact).collect();
    fs::write(folder.path().join("artifacts"), artifacts.join("\n")).unwrap();
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/lib");
    let command = format!(
        ". '{0}/say.sh'; . '{0}/build.sh'; show_crates 165 <'{1}/artifacts'",
        scripts.display(),
        folder.path().display()
    );
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let output = Command::new("bash").args(["-c", &command]).env("PATH", path).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 30, "{text}");
    assert_eq!(lines[0], "  1 of 165: c1");
    assert!(lines[..16].iter().all(|line| !line.contains("left")), "{text}");
    assert_eq!(lines[29], "  30 of 165: c30, about 45 min left");
}
