//! Whatever a configuration says, it is refused with the place and the reason, or it is one that makes sense.

#![allow(clippy::cast_possible_truncation, reason = "of numbers below a bound")]

use std::collections::BTreeMap;
use std::env::VarError;
use std::fs;
use std::path::{Path, PathBuf};

use foveate_config::{Config, ConfigError, Mistake, Secrets, StreamConfig, ViewConfig};
use foveate_core::name::is_name;
use foveate_daemon::stream::ServedView;
use testkit::naive::Random;

const COUNT: usize = 5000;

/// Values at and beyond the edges of what keys take.
const VALUES: [&str; 24] = [
    "0",
    "-1",
    "1",
    "65536",
    "4294967296",
    "9223372036854775807",
    "0.0",
    "-0.0",
    "1e308",
    "nan",
    "inf",
    "true",
    "\"\"",
    "\"auto\"",
    "\"gpu\"",
    "\"when-read\"",
    "\"${SECRET}\"",
    "\"$${x}\"",
    "\"\\u0000\"",
    "[]",
    "[1, 2, 3]",
    "{}",
    "{ mean = [0, 0, 0], std = [1, 1, 1] }",
    "1979-05-27",
];

#[test]
fn any_configuration_is_valid_or_refused_with_reason() {
    let seeds = seeds();
    let mut random = Random(7);
    let (mut accepted, mut refused) = (0, 0);
    for _ in 0..COUNT {
        let mut text = seeds[random.below(seeds.len() as u32) as usize].clone();
        for _ in 0..1 + random.below(4) {
            text = mutated(&text, &seeds, &mut random);
        }
        match Config::parse_in(&text, Path::new("dir/fuzzed.toml"), environment) {
            Ok(config) => {
                accepted += 1;
                check_makes_sense(&config, &text);
            }
            Err(error) => {
                refused += 1;
                check_refusal(&error, &text);
            }
        }
    }
    assert!(
        COUNT / 20 < accepted && COUNT / 20 < refused,
        "{accepted} accepted, {refused} refused"
    );
}

/// What an operator sets goes through the same checks as a file, and nothing else changes.
#[test]
fn a_described_view_equals_its_configuration() {
    let mut random = Random(8);
    let keys = [
        "layout",
        "foveae",
        "budget",
        "patch",
        "dtype",
        "normalisation",
        "e0",
        "slots",
        "max_fps",
        "publish",
        "gaze.policy",
        "gaze.x",
        "gaze.saccade_hz",
        "gaze.dwell_min_ms",
        "gaze.log",
        "gaze.lease_ms",
        "gaze",
        "gaze.gaze.x",
        "",
        ".",
        "name",
    ];
    let words = [
        "foveal",
        "inset",
        "uniform",
        "u8",
        "f32",
        "none",
        "clip",
        "default",
        "saliency",
        "replay",
        "14",
        "0.25",
        "500",
        "a\nb = 1",
        "1 # x",
        "['saliency']",
        "['fixed', 'feedback']",
    ];
    let directory = Path::new("/somewhere");
    let mut view = ViewConfig::default();
    let mut accepted = 0;
    for _ in 0..COUNT {
        let mut changes = BTreeMap::new();
        for _ in 0..1 + random.below(3) {
            let key = keys[random.below(keys.len() as u32) as usize];
            let values = if random.below(2) == 0 { &words[..] } else { &VALUES[..] };
            let value = values[random.below(values.len() as u32) as usize];
            changes.insert(key.to_owned(), value.to_owned());
        }
        match view.with(&changes, directory) {
            Ok(changed) => {
                accepted += 1;
                assert_eq!(changed.name, view.name);
                assert_eq!(changed.with(&BTreeMap::new(), directory).unwrap(), changed);
                if !changes.contains_key("budget") {
                    assert_eq!(changed.budget, view.budget, "{changes:?}");
                }
                view = changed;
            }
            Err(error) => assert!(matches!(error, ConfigError::Refused { .. }), "{error}"),
        }
    }
    assert!(COUNT / 50 < accepted, "{accepted} accepted");
}

fn check_makes_sense(config: &Config, text: &str) {
    // Paths are those of the first reading, which started at "dir".
    let again = Config::parse_in(&config.to_toml(), Path::new("fuzzed.toml"), environment);
    let again = again.unwrap_or_else(|error| panic!("{error}\n{}\n{text}", config.to_toml()));
    // The written configuration does not say where values came from.
    let written =
        |stream: &StreamConfig| StreamConfig { secrets: Secrets::new(), ..stream.clone() };
    let streams = config.streams.iter().map(written).collect();
    assert_eq!((&again.daemon, &again.streams), (&config.daemon, &streams), "{text}");
    assert!(!config.streams.is_empty(), "{text}");
    for stream in &config.streams {
        let StreamConfig { name, views, capture, .. } = stream;
        assert!(is_name(name) && !views.is_empty(), "{text}");
        assert!(capture.max_fps.is_none_or(|rate| (0.01..=1000.0).contains(&rate)), "{text}");
        for view in views {
            assert!(is_name(&view.name) && (1..=5000).contains(&view.budget), "{text}");
            // As text and back it is the same; so whatever was accepted passes all checks of a view once more.
            let same = view.with(&BTreeMap::new(), Path::new("/")).unwrap();
            assert_eq!(same, *view, "{text}");
            // No log of these is there.
            let plan = ServedView::try_from(view);
            assert!(plan.is_ok() || view.gaze.policy.name() == "replay", "{text}");
        }
    }
}

fn check_refusal(error: &ConfigError, text: &str) {
    let ConfigError::Refused(mistakes) = error else { panic!("{error}") };
    let lines = text.split('\n').count();
    let mut before = (0, 0, "");
    for Mistake { file, line, column, message, .. } in mistakes {
        assert_eq!(file, Path::new("dir/fuzzed.toml"));
        assert!((1..=lines.max(1)).contains(line) && 1 <= *column, "{line}:{column} of\n{text}");
        let (at, told) = ((*line, *column), (before.0, before.1));
        assert!(told < at || told == at && before.2 != message, "{error}");
        before = (*line, *column, message);
        assert!(!message.trim().is_empty(), "{text}");
    }
    assert!(!mistakes.is_empty(), "{text}");
    assert!(!error.to_string().contains("hunter2"), "{error}");
}

/// All configurations that are shipped.
fn seeds() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("configs");
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    assert!(5 <= files.len(), "{files:?}");
    // Without comments, which are most of them, mutations hit what counts; and what is commented out counts, too.
    let strip = |line: &str| {
        let told = line.strip_prefix("# ").filter(|line| line.contains(" = ")).unwrap_or(line);
        Some(told.to_owned()).filter(|line| !line.starts_with('#'))
    };
    let seed = |file: &PathBuf| {
        let text = fs::read_to_string(file).unwrap();
        let plain: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let all: Vec<_> = text.lines().filter_map(strip).collect();
        [plain.join("\n"), all.join("\n")]
    };
    files.iter().flat_map(seed).collect()
}

fn mutated(text: &str, seeds: &[String], random: &mut Random) -> String {
    let mut lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
    let at = random.below(lines.len() as u32) as usize;
    match random.below(8) {
        0 => drop(lines.remove(at)),
        1 => {
            let line = lines[at].clone();
            lines.insert(random.below(lines.len() as u32) as usize, line);
        }
        2 => {
            // A line of another configuration.
            let other = &seeds[random.below(seeds.len() as u32) as usize];
            let other: Vec<_> = other.split('\n').collect();
            lines.insert(at, other[random.below(other.len() as u32) as usize].to_owned());
        }
        3 => {
            let length = lines[at].chars().count();
            let end = random.below(length as u32 + 1) as usize;
            lines[at] = lines[at].chars().take(end).collect();
        }
        4 => {
            let byte = char::from(random.below(128) as u8);
            let length = lines[at].chars().count();
            let place = random.below(length as u32 + 1) as usize;
            let (before, after): (String, String) =
                (lines[at].chars().take(place).collect(), lines[at].chars().skip(place).collect());
            lines[at] = format!("{before}{byte}{after}");
        }
        _ => {
            let value = VALUES[random.below(VALUES.len() as u32) as usize];
            if let Some((key, _)) = lines[at].clone().split_once(" = ") {
                lines[at] = format!("{key} = {value}");
            }
        }
    }
    if lines.is_empty() {
        lines.push(String::new());
    }
    lines.join("\n")
}

fn environment(name: &str) -> Result<String, VarError> {
    match name {
        "SECRET" => Ok("hunter2".to_owned()),
        _ => Err(VarError::NotPresent),
    }
}
