//! Shipped configurations and those in documents are accepted, and the commented default is the built-in one.

use std::env::VarError;
use std::fs;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use foveate_config::{
    ChangeTable, Config, CorruptedFrames, Pace, ShorthandKind, SourceChoice, StreamConfig,
    ViewConfig,
};
use foveate_core::backend::ChangeOn;
use foveate_core::change::{ChangeConfig, Threshold};
use foveate_core::channel::CHANNELS;
use foveate_core::mask::Mask;
use foveate_core::token::{DType, Normalisation};
use foveate_gaze::controller::{FoveaPolicy, Policy};
use foveate_gaze::layout::Layout;
use foveate_gaze::layout::inset::Inset;
use proptest::prelude::*;

#[test]
fn the_default_file_equals_the_built_in_defaults() {
    assert_eq!(load("configs/default.toml"), Config::default());
}

/// Every key that is commented out in the default file may be given, with the value that stands there.
#[test]
fn the_optional_keys_of_the_default_file_are_accepted() {
    let text = fs::read_to_string(in_repository("configs/default.toml")).unwrap();
    // The other two sources, and what belongs to them, exclude the source that stands there.
    let optional = [
        "socket",
        "socket_group",
        "metrics",
        "threads",
        "max_fps",
        "range",
        "matrix",
        "gray_range",
        "device",
        "threshold_limit",
        "refresh_frames",
        "e0",
        "foveae",
        "coarsest",
        "slots",
    ];
    let uncommented = optional.iter().fold(text, |text, key| {
        let commented = format!("# {key} = ");
        assert!(text.contains(&commented), "{key} is not in the default file");
        text.replace(&commented, &format!("{key} = "))
    });
    let config = parse(&with_layout(&uncommented, "foveal"), "configs/default.toml");
    assert_eq!(config.daemon.socket.as_deref(), Some(Path::new("/run/foveate/foveate.sock")));
    assert_eq!(config.daemon.socket_group.as_deref(), Some("foveate"));
    assert_eq!(config.daemon.metrics, Some(([127, 0, 0, 1], 9187).into()));
    assert_eq!(config.streams[0].capture.max_fps, Some(10.0));
    assert_eq!(config.streams[0].device.as_deref(), Some("llvmpipe"));
    assert_eq!(config.streams[0].views[0].slots, Some(8));
    let change = ChangeConfig {
        threshold: Threshold::BySource { limit: Threshold::LIMIT_DEFAULT },
        refresh_frames: NonZeroU32::new(300),
    };
    assert_eq!(config.streams[0].change.config, change);
    assert_eq!(
        config.streams[0].views[0].layout,
        Layout::Foveal { e0_px: Some(48.0), foveae: 1, coarsest: Some(3) }
    );
}

#[test]
fn the_keys_of_inset_in_the_default_file_are_accepted() {
    let text = fs::read_to_string(in_repository("configs/default.toml")).unwrap();
    let keys = [
        ("share", "0.1", "0.3"),
        ("blocks", "4", "2"),
        ("min_step", "1.5", "1.25"),
        ("aspect", "1.0", "2"),
    ];
    let text = keys.iter().fold(text, |text, (key, default, other)| {
        let commented = format!("\n# {key} = {default}\n");
        assert!(text.contains(&commented), "{key} is not in the default file");
        text.replace(&commented, &format!("\n{key} = {other}\n"))
    });
    let text = with_layout(&text, "inset");
    let inset = Inset { share: 0.3, blocks: 2, min_step: 1.25, aspect: 2.0 };
    assert_eq!(
        parse(&text, "configs/default.toml").streams[0].views[0].layout,
        Layout::Inset(inset)
    );
}

/// The default file with another layout than `adaptive`, without the key that belongs to that.
fn with_layout(text: &str, layout: &str) -> String {
    let [own, memory] = ["\nlayout = \"adaptive\"\n", "\nmemory = \"none\"\n"];
    assert!(text.contains(own) && text.contains(memory), "they are in the default file");
    text.replace(own, &format!("\nlayout = \"{layout}\"\n")).replace(memory, "\n")
}

#[test]
fn small_budgets_have_fewer_blocks_than_the_default() {
    let view = |keys: &str| ViewConfig::parse(&format!("name = \"v\"\nlayout = \"inset\"\n{keys}"));
    assert_eq!(view("budget = 1").unwrap().layout, Layout::Inset(Inset::default()));
    assert!(view("budget = 1\nblocks = 4").is_err());
}

/// So may those of relevance, with the policy that they belong to.
#[test]
fn the_keys_of_relevance_in_the_default_file_are_accepted() {
    let text = fs::read_to_string(in_repository("configs/default.toml")).unwrap();
    let text = ["channels", "scorer", "weights", "passes"].iter().fold(text, |text, key| {
        let commented = format!("\n# {key} = ");
        assert!(text.contains(&commented), "{key} is not in the default file");
        text.replace(&commented, &format!("\n{key} = "))
    });
    let text = text.replace("\npolicy = \"auto\"", "\npolicy = \"relevance\"");
    let config = parse(&text, "/etc/foveate/default.toml");
    let view = &config.streams[0].views[0];
    assert_eq!(view.channels, ["strokes", "change"]);
    let weights = [("strokes".to_owned(), 4.0), ("unseen".to_owned(), 3.0)].into();
    let scorer = Some("/etc/foveate/people.safetensors".into());
    assert_eq!(view.gaze.policy, Policy::Relevance { scorer, weights, passes: 2 });
}

/// A list of policies is one for each fovea, and stays what it is when it is written, changed and read again.
#[test]
fn a_list_of_policies_is_one_for_each_fovea() {
    let text = "name = \"v\"\nlayout = \"foveal\"\nfoveae = 3\ngaze.policy = [\"fixed\", \"feedback\", \"saliency\"]\ngaze.y = 0.25";
    let view = ViewConfig::parse(text).unwrap();
    let policy = vec![FoveaPolicy::Fixed, FoveaPolicy::Feedback, FoveaPolicy::Saliency];
    assert_eq!(view.gaze.policy, Policy::Several { policy, x: 0.5, y: 0.25 });
    assert_eq!(view.gaze.policy.to_string(), "fixed, feedback, saliency");
    let stream = StreamConfig { views: vec![view.clone()], ..StreamConfig::default() };
    let written = Config::from(stream).to_toml();
    assert_eq!(
        parse(&written, "foveate.toml").streams[0].views,
        std::slice::from_ref(&view),
        "{written}"
    );

    let with = |view: &ViewConfig, changes: &[(&str, &str)]| {
        let changes = changes.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        view.with(&changes.collect(), Path::new("/")).unwrap()
    };
    let one = with(&view, &[("gaze.policy", "saliency")]);
    assert_eq!(one.gaze.policy, Policy::Saliency, "its keys are gone, too");
    let two = with(&one, &[("gaze.policy", "['feedback', 'saliency']"), ("foveae", "2")]);
    assert_eq!(two.gaze.policy.to_string(), "feedback, saliency");
}

#[test]
fn all_channels_are_those_that_are_computed() {
    let view = |channels: &str| {
        let text = format!("name = \"v\"\nchannels = {channels}\ngaze.policy = \"relevance\"");
        ViewConfig::parse(&text)
    };
    let all: Vec<_> = CHANNELS.iter().map(|channel| channel.name).collect();
    assert_eq!(view("\"all\"").unwrap().channels, all);
    assert_eq!(view("[]").unwrap().channels, [""; 0]);
    assert_eq!(view("[\"query\", \"x\"]").unwrap().channels, ["query", "x"]);
    let many: Vec<_> = (0..64).map(|number| format!("c{number}")).collect();
    assert!(view(&format!("{:?}", &many[..63])).is_ok());
    for refused in
        [format!("{many:?}"), "[\"a\", \"a\"]".into(), "\"some\"".into(), "[\"A b\"]".into()]
    {
        let said = view(&refused).unwrap_err().to_string();
        assert!(said.contains("\"all\", or a list of at most 63 different names"), "{said}");
    }
}

/// So may the camera, whose table is commented out as a whole.
#[test]
fn the_camera_of_the_default_file_is_accepted() {
    let text = fs::read_to_string(in_repository("configs/default.toml")).unwrap();
    let begin = text.find("# [stream.camera]").unwrap();
    let end = begin + text[begin..].find("\n\n").unwrap();
    let is_comment = |line: &str| !line.contains(" = ") && !line.starts_with("# [");
    let table: String = text[begin..end]
        .lines()
        .filter(|line| !is_comment(line))
        .map(|line| format!("{}\n", line.trim_start_matches("# ")))
        .collect();
    let config = parse(&format!("{}{table}{}", &text[..begin], &text[end..]), "default.toml");
    let camera = config.streams[0].camera.clone().unwrap();
    assert!(camera.calibration.ends_with("front.yaml"));
    assert_eq!(camera.optical_frame.as_deref(), Some("front_optical"));
    assert_eq!(camera.parent_frame.as_deref(), Some("base_link"));
    assert_eq!(camera.rotation, Some([-0.5, 0.5, -0.5, 0.5]));
    assert_eq!(camera.crop, Some([160, 0, 960, 720]));
    assert_eq!(table.lines().count(), 9, "{table}");
}

/// And the depth, of which another table is commented out.
#[test]
fn the_depth_of_the_default_file_is_accepted() {
    let text = fs::read_to_string(in_repository("configs/default.toml")).unwrap();
    let begin = text.find("# [stream.depth]").unwrap();
    let end = begin + text[begin..].find("\n\n").unwrap();
    let table: String = text[begin..end]
        .lines()
        .filter(|line| line.contains(" = ") || line.starts_with("# ["))
        .map(|line| format!("{}\n", line.trim_start_matches("# ")))
        .collect();
    let config = parse(&format!("{}{table}{}", &text[..begin], &text[end..]), "default.toml");
    let depth = config.streams[0].depth.clone().unwrap();
    assert_eq!((depth.scale_m, depth.min_m, depth.max_m), (0.001, Some(0.3), Some(10.0)));
    assert_eq!((depth.bound_ms, depth.bound_ns()), (17.0, 17_000_000));
    assert!(depth.source.text().ends_with("appsink name=frames"));
    assert_eq!(table.lines().count(), 6, "{table}");
}

#[test]
fn every_shipped_file_is_accepted() {
    let files = files_below("configs", "toml");
    assert!(files.len() >= 5, "{files:?}");
    for file in files {
        load(file.to_str().unwrap());
    }
}

/// A block without `[[stream]]` is only a part of a file, not a configuration.
#[test]
fn every_configuration_shown_in_a_document_is_accepted() {
    let mut documents = files_below("docs", "md");
    documents.push(in_repository("README.md"));
    for document in documents {
        let text = fs::read_to_string(&document).unwrap();
        for block in toml_blocks(&text).filter(|block| block.contains("[[stream]]")) {
            // A table is read with the configuration.
            let table = in_repository("tests/data/table.npy");
            let block = block.replace("fovi.npy", table.to_str().unwrap());
            parse(&block, document.to_str().unwrap());
        }
    }
}

#[test]
fn only_a_name_and_a_source_are_needed() {
    let config = parse("[[stream]]\nname = \"camera\"\nsource = \"test\"\n", "c.toml");
    assert_eq!(config, Config::default());
}

#[test]
fn every_key_reaches_its_place() {
    let config = parse(
        r#"
        [[stream]]
        name = "a"
        pipeline_file = "p.gst"
        parameters = { width = 640, rate = 2.5, live = true, location = "x" }
        pace = "every-frame"
        loop = true
        caps_timeout_ms = 100
        corrupted = "show"
        live = false
        track = 64
        max_fps = 1000
        stall_timeout_ms = 600000
        restart = true
        restart_timeout_ms = 0
        change = { threshold = 255, refresh_frames = 1000000, on = "gpu" }
        [[stream.mask]]
        points = [[0, 0], [0.25, 0], [0, 1]]
        [[stream.mask]]
        name = "door"
        points = [[0.5, 0.5], [1, 0.5], [1, 1], [0.5, 1]]
        [[stream.view]]
        name = "v"
        layout = "uniform"
        budget = 5000
        patch = 14
        dtype = "bf16"
        normalisation = { mean = [0, 0.5, 1], std = [1, 2, 3.0] }
        slots = 64
        gaze = { policy = "fixed", x = 0, y = 0.25 }
        "#,
        "/etc/foveate/c.toml",
    );
    let stream = &config.streams[0];
    assert_eq!(stream.capture.source, SourceChoice::PipelineFile("/etc/foveate/p.gst".into()));
    let parameters: Vec<_> =
        stream.capture.parameters.iter().map(|(k, v)| format!("{k}={v}")).collect();
    assert_eq!(parameters, ["live=true", "location=x", "rate=2.5", "width=640"]);
    assert_eq!((stream.capture.pace, stream.capture.looped), (Pace::EveryFrame, true));
    assert_eq!(stream.capture.caps_timeout, Duration::from_millis(100));
    assert_eq!(stream.capture.max_fps, Some(1000.0));
    assert_eq!(stream.capture.corrupted, CorruptedFrames::Show);
    assert_eq!((stream.capture.live, stream.capture.track), (Some(false), Some(64)));
    assert_eq!((stream.stall_timeout_ms, stream.capture.restart), (600_000, true));
    assert_eq!(stream.capture.restart_timeout, None);
    let refresh_frames = NonZeroU32::new(1_000_000);
    let change = ChangeConfig { threshold: Threshold::Fixed(255), refresh_frames };
    assert_eq!(stream.change, ChangeTable { config: change, on: ChangeOn::Gpu });
    let unnamed =
        Mask { name: "mask-1".to_owned(), points: vec![[0.0, 0.0], [0.25, 0.0], [0.0, 1.0]] };
    assert_eq!(stream.capture.masks, [unnamed, Mask::rectangle("door", [0.5, 0.5, 1.0, 1.0])]);
    let again = parse(&config.to_toml(), "/etc/foveate/c.toml");
    assert_eq!(again.streams[0].capture.masks, stream.capture.masks);
    let ViewConfig { layout, budget, format, slots, gaze, .. } = &stream.views[0];
    assert_eq!((layout, *budget, *slots), (&Layout::Uniform, 5000, Some(64)));
    assert_eq!((format.patch_side, format.dtype), (14, DType::Bf16));
    let expected = Normalisation { mean: [0.0, 0.5, 1.0], std: [1.0, 2.0, 3.0] };
    assert_eq!(format.normalisation, expected);
    assert_eq!(gaze.policy, Policy::Fixed { x: 0.0, y: 0.25 });
}

#[test]
fn default_slots_fit_a_cache() {
    let slots =
        |keys: &str| ViewConfig::parse(&format!("name = 'v'\n{keys}")).unwrap().slot_count();
    // 1536 bytes a token.
    for (budget, expected) in [(1, 8), (85, 8), (86, 7), (136, 5), (137, 4), (228, 3), (5000, 3)] {
        assert_eq!(
            slots(&format!("layout = 'foveal'\nbudget = {budget}")),
            expected,
            "{budget} tokens"
        );
    }
    assert_eq!(slots("layout = 'foveal'\nbudget = 137\ndtype = 'u8'\nnormalisation = 'none'"), 8);
    assert_eq!(slots("budget = 5000\nslots = 2"), 2);
    let view = ViewConfig::parse("name = 'v'\nlayout = 'foveal'").unwrap();
    assert_eq!(view.ring_bytes(), 3 * 273 * 1536);
}

#[test]
fn a_path_below_dev_is_a_camera_or_a_file() {
    use ShorthandKind::{Camera, File};
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let clip = folder.path().join("clip.mp4");
    fs::write(&clip, "").unwrap();
    for (path, kind) in [
        // A camera that is not plugged in has no file.
        ("/dev/video987", Camera),
        ("/dev/v4l/by-id/usb-none", Camera),
        ("/dev/front-camera", Camera),
        ("/dev/null", Camera),
        (clip.to_str().unwrap(), File),
        (folder.path().to_str().unwrap(), File),
        ("/dev/shm/none.mp4", File),
        ("/dev/fd/987", File),
    ] {
        assert_eq!(ShorthandKind::of(path), Some(kind), "{path}");
    }
}

#[test]
fn the_threshold_is_by_default_the_one_of_the_source() {
    for (change, limit) in [
        ("", Threshold::LIMIT_DEFAULT),
        ("change = { refresh_frames = 9 }", Threshold::LIMIT_DEFAULT),
        ("change = { threshold = \"source\" }", Threshold::LIMIT_DEFAULT),
        ("change = { threshold_limit = 4 }", 4),
    ] {
        let text = format!("[[stream]]\nname = \"a\"\nsource = \"test\"\n{change}\n");
        let config = parse(&text, "c.toml").streams[0].change.config;
        assert_eq!(config.threshold, Threshold::BySource { limit }, "{change}");
        assert_eq!(config.for_source(true).threshold, Threshold::Fixed(0));
        assert_eq!(config.for_source(false).threshold, Threshold::Auto { limit });
    }
}

#[test]
fn a_threshold_that_follows_the_noise_has_a_limit() {
    for (change, limit) in [
        ("threshold = \"auto\"", Threshold::LIMIT_DEFAULT),
        ("threshold = \"auto\", threshold_limit = 1", 1),
        ("threshold_limit = 255, threshold = \"auto\"", 255),
    ] {
        let text =
            format!("[[stream]]\nname = \"a\"\nsource = \"test\"\nchange = {{ {change} }}\n");
        let threshold = parse(&text, "c.toml").streams[0].change.config.threshold;
        assert_eq!(threshold, Threshold::Auto { limit }, "{change}");
    }
}

#[test]
fn relative_paths_start_at_the_directory_of_the_file() {
    let source = |source: &str| {
        let text = format!("[[stream]]\nname = \"a\"\nsource = \"{source}\"\n");
        parse(&text, "/etc/foveate/c.toml").streams[0].capture.source.clone()
    };
    for (given, expected) in [
        ("clip.mp4", "/etc/foveate/clip.mp4"),
        ("/srv/clip.mp4", "/srv/clip.mp4"),
        ("file:///srv/clip.mp4", "file:///srv/clip.mp4"),
        ("/dev/video0", "/dev/video0"),
        ("rtsp://192.0.2.1/a", "rtsp://192.0.2.1/a"),
        ("test", "test"),
    ] {
        assert_eq!(source(given), SourceChoice::Shorthand(expected.to_owned()));
    }
}

#[test]
fn bytes_are_not_normalised_unless_asked() {
    let text = "[[stream]]\nname = \"a\"\nsource = \"test\"\n[[stream.view]]\nname = \"v\"\ndtype = \"u8\"\n";
    let format = parse(text, "c.toml").streams[0].views[0].format;
    assert_eq!((format.dtype, format.normalisation), (DType::U8, Normalisation::NONE));
}

#[test]
fn variables_are_replaced_once_and_remembered() {
    let text = r#"
        [[stream]]
        name = "${NAME}"
        pipeline = "a user-pw=${PASSWORD} b=${EMPTY} c=$${literal} d=$$ ${PASSWORD} ! appsink name=frames"
        parameters = { location = "${PASSWORD}" }
    "#;
    let environment = |name: &str| {
        Ok(match name {
            "NAME" => "door",
            "PASSWORD" => "p${NAME}$${w",
            "EMPTY" | "CREDENTIALS_DIRECTORY" => "",
            other => panic!("{other} was asked for"),
        }
        .to_owned())
    };
    let config = Config::parse_in(text, Path::new("c.toml"), environment).unwrap();
    let stream = &config.streams[0];
    assert_eq!(stream.name, "door");
    assert_eq!(
        stream.capture.source,
        SourceChoice::Pipeline(
            "a user-pw=p${NAME}$${w b= c=${literal} d=$$ p${NAME}$${w ! appsink name=frames".into()
        )
    );
    assert_eq!(stream.capture.parameters["location"], "p${NAME}$${w");
    assert!(config.secrets().is_empty());
    let secrets: Vec<_> =
        stream.secrets.iter().map(|(text, shown)| (&text[..], &shown[..])).collect();
    assert_eq!(
        secrets,
        [("door", "***"), ("p${NAME}$${w", "***"), ("user-pw=p${NAME}$${w", "user-pw=${PASSWORD}"),]
    );
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in "\\PC{0,200}") {
        let _ = Config::parse(&text, Path::new("c.toml"));
    }

    #[test]
    fn no_value_makes_the_checks_panic(
        key in "name|source|pace|loop|restart|restart_timeout_ms|latency_ms|backend|device|parameters|change|view",
        value in "\"\\PC{0,20}\"|-?[0-9]{1,25}|-?[0-9]{1,3}\\.[0-9]{1,3}e[0-9]{1,3}|true|\\[\\]|\\{ x = 1 \\}|nan",
    ) {
        let text = format!("[[stream]]\nname = \"a\"\nsource = \"test\"\n{key} = {value}\n");
        let _ = Config::parse(&text, Path::new("c.toml"));
        let _ = Config::parse(&format!("[[stream]]\n{key} = {value}\n"), Path::new("c.toml"));
    }
}

/// The contents of the ```` ```toml ```` blocks of a document.
#[test]
fn directory_files_add_streams_in_name_order() {
    let folder = tempfile::tempdir().unwrap();
    let (first, directory) = (folder.path().join("foveate.toml"), folder.path().join("conf.d"));
    let add = |name: &str, text: &str| fs::write(directory.join(name), text).unwrap();
    fs::create_dir(&directory).unwrap();
    fs::write(&first, "[daemon]\nsocket_mode = '0600'\n").unwrap();
    let error = Config::load_with(&first, &directory).unwrap_err().to_string();
    assert!(error.contains("foveate.toml and ") && error.contains("conf.d"), "{error}");

    add("20-rear.toml", "[[stream]]\nname = 'rear'\nsource = 'rear.avi'\n");
    add("10-front.toml", "[[stream]]\nname = 'front'\nsource = 'test'\nrequired = true\n");
    add(".hidden.toml", "what an editor leaves behind");
    add("README", "no configuration");
    let config = Config::load_with(&first, &directory).unwrap();
    assert_eq!(config.daemon.socket_mode, 0o600);
    let names: Vec<_> = config.streams.iter().map(|stream| stream.name.as_str()).collect();
    assert_eq!(names, ["front", "rear"]);
    assert!(config.streams[0].required && !config.streams[1].required);
    let beside_it = directory.join("rear.avi").to_str().unwrap().to_owned();
    assert_eq!(config.streams[1].capture.source, SourceChoice::Shorthand(beside_it));

    for (text, words) in [
        ("[[stream]]\nname = 'rear'\nsource = 'test'\n", &["30.toml:2:", "20-rear.toml"][..]),
        ("[daemon]\n", &["30.toml:1:", "only [[stream]]"]),
        ("[[stream]]\nname = 'a'\nsource = 'test'\nlop = true\n", &["30.toml:4:", "lop"]),
    ] {
        add("30.toml", text);
        let error = Config::load_with(&first, &directory).unwrap_err().to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    }
    let error = Config::load_with(&first, &folder.path().join("absent")).unwrap_err();
    assert!(error.to_string().contains("absent"), "{error}");
}

#[test]
fn credentials_come_before_variables_and_are_remembered() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("PASSWORD"), "mellon\n").unwrap();
    let environment = |name: &str| match name {
        "CREDENTIALS_DIRECTORY" => Ok(folder.path().to_str().unwrap().to_owned()),
        "PASSWORD" | "USER" => Ok("of the environment".to_owned()),
        _ => Err(VarError::NotPresent),
    };
    let parse = |source: &str| {
        let text = format!("[[stream]]\nname = 'a'\nsource = 'rtsp://{source}@192.0.2.1/'\n");
        Config::parse_in(&text, Path::new("foveate.toml"), environment)
    };
    let config = parse("${USER}:${PASSWORD}").unwrap();
    assert_eq!(
        config.streams[0].capture.source.text(),
        "rtsp://of%20the%20environment:mellon@192.0.2.1/"
    );
    let secrets = &config.streams[0].secrets;
    assert_eq!(secrets["of the environment"], "***");
    assert_eq!(secrets["mellon"], "***");
    let error = parse("${OTHER}").unwrap_err().to_string();
    assert!(error.contains("OTHER is not set, and no credential has"), "{error}");
    fs::create_dir(folder.path().join("BROKEN")).unwrap();
    let error = parse("${BROKEN}").unwrap_err().to_string();
    assert!(error.contains("cannot read the credential BROKEN"), "{error}");
}

fn toml_blocks(text: &str) -> impl Iterator<Item = &str> {
    text.split("```toml\n").skip(1).filter_map(|after| after.split("```").next())
}

fn load(file: &str) -> Config {
    parse(&fs::read_to_string(in_repository(file)).unwrap(), file)
}

/// Parses where every variable is set.
#[track_caller]
fn parse(text: &str, file: &str) -> Config {
    Config::parse_in(text, Path::new(file), |name| Ok(format!("value-of-{name}")))
        .unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn files_below(directory: &str, extension: &str) -> Vec<PathBuf> {
    let (mut folders, mut files) = (vec![in_repository(directory)], Vec::new());
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                files.push(path);
            }
        }
    }
    files
}

pub(crate) fn in_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

#[test]
fn userinfo_from_the_environment_is_percent_encoded() {
    let parse = |source: &str, value: &str| {
        let text = format!("[[stream]]\nname = 'a'\n{source}\n");
        let environment = |name: &str| match name {
            "CREDENTIALS_DIRECTORY" => Err(VarError::NotPresent),
            _ => Ok(value.to_owned()),
        };
        Config::parse_in(&text, Path::new("c.toml"), environment).unwrap().streams.remove(0)
    };
    // Every reserved character of RFC 3986, the percent sign, and what ends a word of a pipeline.
    for reserved in "@%/?#[]!$&'()*+,;= \"\\<>{}|^`".chars() {
        let value = format!("p{reserved}w");
        let encoded = format!("p%{:02X}w", u32::from(reserved));
        let stream = parse("source = 'rtsp://${USER}:${PASSWORD}@192.0.2.7/main'", &value);
        assert_eq!(
            stream.capture.source.text(),
            format!("rtsp://{encoded}:{encoded}@192.0.2.7/main")
        );
        assert!(stream.secrets.contains_key(&value) && stream.secrets.contains_key(&encoded));
    }
    let text = |source: &str, value: &str| parse(source, value).capture.source.text();
    assert_eq!(text("source = 'rtsp://u:${PW}@h/x'", "a:\u{e4}~-._"), "rtsp://u:a:%C3%A4~-._@h/x");
    assert_eq!(text("source = 'http://${BOTH}@h/x'", "u:p@w"), "http://u:p%40w@h/x");
    let pipeline = "pipeline = 'rtspsrc location=rtsp://u:${PW}@h/${PW} user-pw=${PW} ! a@b'";
    assert_eq!(text(pipeline, "p@w"), "rtspsrc location=rtsp://u:p%40w@h/p@w user-pw=p@w ! a@b");
    for elsewhere in
        ["rtsp://${HOST}/x", "rtsp://u:p@${HOST}/x", "rtsp://h/x?a=${PW}", "rtsp://${HOST}/x@2"]
    {
        let expected = elsewhere.replace("${HOST}", "a/b").replace("${PW}", "a/b");
        assert_eq!(text(&format!("source = '{elsewhere}'"), "a/b"), expected);
    }
    let parameters = parse("pipeline = 'x'\nparameters = { l = 'rtsp://u:${PW}@h/x' }", "p/w")
        .capture
        .parameters;
    assert_eq!(parameters["l"], "rtsp://u:p%2Fw@h/x");
}
