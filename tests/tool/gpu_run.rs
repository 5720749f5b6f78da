//! `run.sh` of the archive for GPUs, on small frames: its results are complete whatever fails.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use testkit::device;
use testkit::left_out::is_left_out;
use testkit::program::write_program;

/// What a test program prints of two tests, one of which fails.
const TWO_TESTS: &str = "#!/bin/sh
case \" $* \" in
*' --list '*) printf 'a::b: test\\nc::d: test\\n' ;;
*' --exact '*) exit 0 ;;
*) printf 'test a::b ... ok\\ntest c::d ... FAILED\\n'; exit 101 ;;
esac
";

#[test]
fn a_run_reports_what_passes_and_what_fails() {
    if is_left_out(device::WITHOUT) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let archive = unpacked(folder.path());
    let results = folder.path().join("results");
    let output = Command::new(archive.join("run.sh"))
        .arg(&results)
        .args([
            "--quick",
            "--device",
            &std::env::var("FOVEATE_TEST_DEVICE").unwrap_or("llvmpipe".into()),
        ])
        .env("PYTHON", "/no/such/python")
        .env("PATIENCE", "100")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "a test fails: {output:?}");

    let text = fs::read(results.join("results.json")).unwrap();
    let found: Value = serde_json::from_slice(&text).unwrap();
    let outcomes: Vec<_> = found["parts"].as_array().unwrap().iter().map(outcome).collect();
    let expected = [
        ("warm", "complete"),
        ("tests-gpu", "failed (101)"),
        ("tests-engine", "failed (101)"),
        ("batches", "complete"),
        ("tiers", "left out"),
        ("views", "complete"),
        ("policies", "complete"),
        ("cold", "complete"),
    ];
    assert_eq!(outcomes, expected.map(|(name, outcome)| (name.to_owned(), outcome.to_owned())));
    for program in found["tests"].as_array().unwrap() {
        assert_eq!((&program["passed"], &program["count"]), (&1.into(), &2.into()), "{program}");
        assert_eq!(program["failed"], serde_json::json!(["c::d"]));
    }
    let rows = found["bench"].as_array().unwrap();
    for backend in ["cpu", "vulkan"] {
        // Two rounds of 6 warm ones, 3 numbers of views and 2 policies; one of a batch and of 6 cold ones.
        let count = rows.iter().filter(|row| row["report"]["backend"] == backend).count();
        assert_eq!(count, 2 * (6 + 3 + 2) + 1 + 6, "{backend}");
    }
    assert!(found["facts"]["link"]["to_device_gb_s"].as_f64().is_some_and(|rate| 0.0 < rate));
    assert!(found["facts"]["is_software"].is_boolean());
    assert_eq!(found["crossover"].as_array().unwrap().len(), 2, "{}", found["crossover"]);

    let report = fs::read_to_string(results.join("report.md")).unwrap();
    for part in ["c::d", "| 1920x1080, 0.1 changed |", "| batch of 32, 1024x1024 |", ", cold |"] {
        assert!(report.contains(part), "{part:?} is missing in {report}");
    }
    check_row(folder.path(), &results.join("results.json"));
}

/// The name of a part, and how it ended, without the program's words.
fn outcome(part: &Value) -> (String, String) {
    let [name, outcome] = ["name", "outcome"].map(|key| part[key].as_str().unwrap());
    (name.to_owned(), outcome.split(':').next().unwrap().to_owned())
}

/// The row in a document replaces the one that the device had.
fn check_row(folder: &Path, results: &Path) {
    let document = folder.join("report.md");
    fs::write(&document, "before\n<!-- gpu begins -->\n<!-- gpu ends -->\nafter\n").unwrap();
    for _ in 0..2 {
        let row = Command::new("python3")
            .arg("-B")
            .arg(scripts().join("gpu/row.py"))
            .args([results, &document])
            .output()
            .unwrap();
        assert!(row.status.success(), "{row:?}");
    }
    let text = fs::read_to_string(&document).unwrap();
    assert!(text.starts_with("before\n") && text.ends_with("\nafter\n"), "{text}");
    assert_eq!(
        text.lines().filter(|line| line.contains("| 2 of 4, 2 failed |")).count(),
        1,
        "{text}"
    );
}

/// The archive with programs that do less: frames are small, and test programs have two tests.
fn unpacked(folder: &Path) -> PathBuf {
    let archive = folder.join("foveate-gpu");
    fs::create_dir_all(archive.join("bin")).unwrap();
    for name in ["run.sh", "report.awk"] {
        let text = fs::read_to_string(scripts().join("gpu").join(name)).unwrap();
        write_program(&archive.join(name), &text);
    }
    fs::write(archive.join("VERSION"), "tested\n").unwrap();
    let smaller = format!(
        "#!/bin/bash\n\
         arguments=(\"${{@/3840x2160/192x128}}\")\n\
         arguments=(\"${{arguments[@]/1920x1080/96x64}}\")\n\
         exec {} \"${{arguments[@]/1024x1024/64x64}}\"\n",
        env!("CARGO_BIN_EXE_foveate")
    );
    for (name, text) in
        [("foveate", smaller.as_str()), ("test-gpu", TWO_TESTS), ("test-engine", TWO_TESTS)]
    {
        write_program(&archive.join("bin").join(name), text);
    }
    archive
}

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts")
}
