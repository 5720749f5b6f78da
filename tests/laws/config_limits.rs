//! A configuration that passes the checks exceeds no limit of the engine, and one that is too large is refused early.

use std::collections::BTreeMap;
use std::env::VarError;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use foveate_config::{Config, ConfigError, ViewConfig};
use foveate_core::channel::PUBLISHED_MAX;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::FOVEAE_MAX;
use foveate_core::geometry::plan::STEP_MAX;
use foveate_core::mask::{CORNERS_MAX, MASKS_MAX};
use foveate_core::name::NAME_BYTES_MAX;
use foveate_gaze::feedback::{CHANNEL_WEIGHT_MAX, CHANNEL_WEIGHTS_MAX};
use foveate_gaze::layout::rings::RINGS_MAX;
use foveate_gaze::relevance::injection::CHANNEL_NAME_BYTES_MAX;
use foveate_gaze::view::VIEWS_MAX;
use foveate_ring::abi::SLOT_COUNT_MAX;

const STREAM: &str = "[[stream]]\nname = 'a'\nsource = 'clip.mp4'\n";

/// Limits that no key of a configuration can exceed.
const LIMITS_WITHOUT_KEY: [&str; 23] = [
    // There are fewer kinds of planes.
    "PLANE_COUNT_MAX",
    // The budget has a lower limit.
    "CAPACITY_MAX",
    // The key `patch` has a list of values.
    "PATCH_SIDE_MAX",
    // Limits of files that are read when their stream starts.
    "COEFFICIENTS_MAX",
    "MODEL_BYTES_MAX",
    "FEATURES_MAX",
    "ROWS_MAX",
    "OFFSET_MAX",
    "PIXELS_MAX",
    // Limits of what clients send.
    "INJECTED_MAX",
    "TTL_MS_MAX",
    "VALUE_MAX",
    "ATTENTION_SIDE_MAX",
    // Bounds of what the engine computes, whatever the configuration.
    "WAITING_MAX",
    "EVENTS_MAX",
    "COARSE_SIDE_MAX",
    "LEVEL_COUNT_MAX",
    "CELLS_MAX",
    "STROKE_MAX",
    "OCTAVES_MAX",
    "BANDS_MAX",
    "REAL_SIDE_MAX",
    "PLACE_MAX",
];

/// For each other limit, by name, a configuration that exceeds it.
#[expect(clippy::too_many_lines, reason = "a table")]
fn excessive_configurations() -> BTreeMap<&'static str, String> {
    let view = |keys: &str| format!("{STREAM}[[stream.view]]\nname = 'v'\n{keys}\n");
    let list = |count: usize, item: &dyn Fn(usize) -> String| {
        let items: Vec<_> = (0..count).map(item).collect();
        format!("[{}]", items.join(", "))
    };
    let tables = |count: usize, table: &dyn Fn(usize) -> String| {
        (0..count).fold(STREAM.to_owned(), |text, index| text + &table(index))
    };
    let channels =
        |names: &str| view(&format!("channels = {names}\ngaze = {{ policy = 'relevance' }}"));
    let weights =
        |table: &str| view(&format!("gaze = {{ policy = 'relevance', weights = {{ {table} }} }}"));
    BTreeMap::from([
        (
            "VIEWS_MAX",
            tables(VIEWS_MAX + 1, &|index| format!("[[stream.view]]\nname = 'v{index}'\n")),
        ),
        (
            "MASKS_MAX",
            tables(MASKS_MAX + 1, &|_| {
                "[[stream.mask]]\npoints = [[0, 0], [1, 0], [0, 1]]\n".to_owned()
            }),
        ),
        (
            "CORNERS_MAX",
            format!(
                "{STREAM}[[stream.mask]]\npoints = {}\n",
                list(CORNERS_MAX + 1, &|index| format!(
                    "[{}, {}]",
                    index % 2,
                    index as f64 / 100.0
                ))
            ),
        ),
        (
            "NAME_BYTES_MAX",
            format!("[[stream]]\nname = '{}'\nsource = 'test'\n", "a".repeat(NAME_BYTES_MAX + 1)),
        ),
        ("FOVEAE_MAX", view(&format!("layout = 'foveal'\nfoveae = {}", FOVEAE_MAX + 1))),
        (
            "RINGS_MAX",
            view(&format!(
                "layout = 'rings'\nstrides = {}\ngrids = {}",
                list(RINGS_MAX + 1, &|index| (1 << index).to_string()),
                list(RINGS_MAX + 1, &|_| "2".to_owned())
            )),
        ),
        (
            "STEP_MAX",
            view(&format!(
                "layout = 'rings'\nstrides = [1, {}]\ngrids = [2, 2]\npatch = 8",
                2 * STEP_MAX
            )),
        ),
        (
            "SIDE_MAX",
            view(&format!(
                "layout = 'rings'\nstrides = [1, 64]\ngrids = [64, {}]",
                Extent::SIDE_MAX / 64 / 16 + 1
            )),
        ),
        ("PUBLISHED_MAX", channels(&list(PUBLISHED_MAX + 1, &|index| format!("'c{index}'")))),
        (
            "CHANNEL_NAME_BYTES_MAX",
            channels(&format!("['{}']", "c".repeat(CHANNEL_NAME_BYTES_MAX + 1))),
        ),
        (
            "CHANNEL_WEIGHTS_MAX",
            weights(
                &(0..=CHANNEL_WEIGHTS_MAX)
                    .map(|index| format!("c{index} = 1"))
                    .collect::<Vec<_>>()
                    .join(", "),
            ),
        ),
        ("CHANNEL_WEIGHT_MAX", weights(&format!("change = {}", CHANNEL_WEIGHT_MAX + 1.0))),
        (
            "FRAME_BYTES_MAX",
            format!(
                "{STREAM}[stream.camera]\ncalibration = 'c.yaml'\noptical_frame = '{}'\n",
                "f".repeat(64)
            ),
        ),
        ("SLOT_COUNT_MAX", view(&format!("slots = {}", SLOT_COUNT_MAX + 1))),
    ])
}

#[test]
fn every_limit_of_the_engine_is_checked() {
    let excessive = excessive_configurations();
    for (name, text) in &excessive {
        assert!(parse(text).is_err(), "{name}: {text}");
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut limits = Vec::new();
    for crate_name in ["core", "engine", "gaze", "ring"] {
        limits_in(&root.join(crate_name), &mut limits);
    }
    limits.sort();
    let mut known: Vec<_> = excessive.into_keys().chain(LIMITS_WITHOUT_KEY).collect();
    known.sort_unstable();
    assert_eq!(limits, known, "limits in the code, and those that this test knows");
}

/// The names of the public constants that are limits.
fn limits_in(folder: &Path, limits: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            limits_in(&path, limits);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let constants = text.lines().filter_map(|line| line.trim().strip_prefix("pub const "));
            let names = constants.filter_map(|line| line.split(':').next());
            let is_limit = |name: &&str| name.starts_with("MAX_") || name.ends_with("_MAX");
            limits.extend(names.filter(is_limit).map(str::to_owned));
        }
    }
}

/// A configuration that a program wrote may be too large for what the checks were made for.
#[test]
fn huge_configurations_are_refused_early() {
    let keys = (0..100_000).fold(STREAM.to_owned(), |mut text, index| {
        writeln!(text, "k{index} = 1").unwrap();
        text
    });
    let streams = "[[stream]]\n".repeat(100_000);
    let views = format!("{STREAM}{}", "[[stream.view]]\n".repeat(100_000));
    let pairs = (0..100_000).fold(STREAM.to_owned(), |text, _| text + "a = 1\n");
    for (text, message) in [
        (&keys, "100004 keys are too many; expected at most 20000"),
        (&streams, "keys are too many"),
        (&views, "keys are too many"),
        (&pairs, "duplicate key `a`"),
    ] {
        let ConfigError::Refused(mistakes) = parse(text).unwrap_err() else { panic!("{message}") };
        assert!(mistakes.len() <= 50, "{} mistakes", mistakes.len());
        let is_told = mistakes.iter().any(|mistake| mistake.message.contains(message));
        assert!(is_told, "{}", mistakes[0]);
    }
    let streams = (0..=256).fold(String::new(), |text, index| {
        text + &format!("[[stream]]\nname = 's{index}'\nsource = 'test'\n")
    });
    let error = parse(&streams).unwrap_err().to_string();
    assert!(error.contains("257 streams are too many; expected at most 256"), "{error}");

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("c.toml");
    fs::write(&file, "#".repeat((1 << 20) + 1)).unwrap();
    for error in [Config::load(&file).unwrap_err(), Config::reload(&file, None).unwrap_err()] {
        let reason = error.reason();
        assert!(reason.contains("too large (expected at most 1048576 bytes)"), "{reason}");
    }
}

#[test]
fn a_long_value_is_cut_where_it_is_shown() {
    let long = "x".repeat(100_000);
    for text in [
        format!("{STREAM}loop = '{long}'\n"),
        format!("{STREAM}{long} = 1\n"),
        format!("{STREAM}{long} = 1\n{long} = 2\n"),
        format!("[[stream]]\nname = '{long}'\nsource = 'test'\n"),
        format!("{STREAM}[[stream.view]]\nname = 'v'\nlayout = '{long}'\n"),
    ] {
        let error = parse(&text).unwrap_err().to_string();
        assert!(error.len() < 2_000, "{} bytes", error.len());
    }
    let error = ViewConfig::parse(&format!("name = 'v'\n{long} = 1\n")).unwrap_err();
    assert!(error.reason().len() < 1_000, "{} bytes", error.reason().len());
}

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse_in(text, Path::new("c.toml"), |_| Err(VarError::NotPresent))
}
