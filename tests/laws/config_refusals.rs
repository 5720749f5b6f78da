//! Every refusal names the file, the line, the key and what is allowed.

use std::env::VarError;
use std::fs;
use std::path::Path;
use std::slice;

use foveate_config::{Config, ConfigError, Mistake, StreamConfig, ViewConfig};
use foveate_core::token::{DType, Rounding};
use foveate_gaze::layout::Layout;

/// A complete stream, so that a line appended to it is the only thing wrong. Appended lines are line 4.
const STREAM: &str = "[[stream]]\nname = \"a\"\nsource = \"clip.mp4\"\n";

/// A complete view of the stream. Appended lines are line 6.
const VIEW: &str =
    "[[stream]]\nname = \"a\"\nsource = \"clip.mp4\"\n[[stream.view]]\nname = \"v\"\n";

/// A complete view with a layout that has foveae. Appended lines are line 7.
const FOVEAL: &str = "[[stream]]\nname = \"a\"\nsource = \"clip.mp4\"\n[[stream.view]]\nname = \"v\"\nlayout = \"foveal\"\n";

#[test]
fn unknown_keys_are_refused_with_the_known_ones() {
    refused(
        &format!("{STREAM}sauce = 1\n"),
        4,
        "stream.sauce",
        &["unknown key `sauce`", "`source`"],
    );
    refused(&format!("{VIEW}bugdet = 9\n"), 6, "stream.view.bugdet", &["unknown key", "`budget`"]);
    refused(
        &format!("{VIEW}gaze = {{ z = 1 }}\n"),
        6,
        "stream.view.gaze.z",
        &["`policy`, `saccade_hz`"],
    );
    refused(
        &format!("{STREAM}change = {{ treshold = 1 }}\n"),
        4,
        "stream.change.treshold",
        &["`threshold`, `threshold_limit`, `refresh_frames`, `on`"],
    );
    refused(&format!("[deamon]\n{STREAM}"), 1, "deamon", &["did you mean `daemon`"]);
    refused(&format!("[daemon]\nport = 1\n{STREAM}"), 2, "daemon.port", &["`socket`"]);
}

#[test]
fn keys_in_the_wrong_table_are_told_the_right_one() {
    for (text, line, key, home) in [
        (format!("{VIEW}policy = \"fixed\"\n"), 6, "stream.view.policy", "[stream.view.gaze]"),
        (format!("{VIEW}saccade_hz = 3\n"), 6, "stream.view.saccade_hz", "[stream.view.gaze]"),
        (format!("{VIEW}threshold = 3\n"), 6, "stream.view.threshold", "[stream.change]"),
        (format!("{VIEW}latency_ms = 3\n"), 6, "stream.view.latency_ms", "[[stream]]"),
        (format!("{VIEW}calibration = \"a\"\n"), 6, "stream.view.calibration", "[stream.camera]"),
        (format!("{STREAM}budget = 3\n"), 4, "stream.budget", "[[stream.view]]"),
        (format!("{STREAM}points = []\n"), 4, "stream.points", "[[stream.mask]]"),
        (format!("{STREAM}metrics = \"\"\n"), 4, "stream.metrics", "[daemon]"),
        (format!("bound_ms = 3\n{STREAM}"), 1, "bound_ms", "[stream.depth]"),
        (format!("source = \"test\"\n{STREAM}"), 1, "source", "[[stream]] or [stream.depth]"),
    ] {
        refused(&text, line, key, &["unknown key", &format!("here; it belongs in {home}")]);
    }
    let (mut table, mut count) = (String::new(), 0);
    for line in include_str!("../../configs/default.toml").lines() {
        let line = line.strip_prefix("# ").unwrap_or(line);
        if line.starts_with('[') && line.ends_with(']') && !line.contains(' ') {
            line.clone_into(&mut table);
        } else if let Some((key, _)) = line.split_once(" = ")
            && key.bytes().all(|byte| byte.is_ascii_lowercase() || b"_0123456789".contains(&byte))
        {
            let error = parse(&format!("{key} = 1\n{STREAM}")).unwrap_err().to_string();
            let homes = error.split_once("here; it belongs in ").map_or("", |(_, homes)| homes);
            assert!(homes.contains(&table), "`{key}` of {table}: {error}");
            count += 1;
        }
    }
    assert!(80 < count);
    // Some write what others call it.
    refused(&format!("{STREAM}fps = 3\n"), 4, "stream.fps", &["did you mean `max_fps`"]);
    refused(&format!("{VIEW}fps = 3\n"), 6, "stream.view.fps", &["did you mean `max_fps`"]);
    let error = ViewConfig::parse("name = \"a\"\npolicy = \"fixed\"").unwrap_err();
    assert!(error.to_string().contains("it belongs in [stream.view.gaze]"), "{error}");
}

/// The mistake itself is enough: the key that is missing for it is not another one.
#[test]
fn a_misspelt_key_is_one_mistake() {
    let sorce = "[[stream]]\nname = \"a\"\nsorce = \"test\"\n";
    refused(sorce, 3, "stream.sorce", &["did you mean `source`"]);
    let nmae = "[[stream]]\nnmae = \"a\"\nsource = \"test\"\n";
    refused(nmae, 2, "stream.nmae", &["did you mean `name`"]);
    let point = format!("{STREAM}[[stream.mask]]\npoint = []\n");
    refused(&point, 5, "stream.mask.point", &["did you mean `points`"]);
}

#[test]
fn a_value_without_quotes_is_told_them() {
    for word in
        ["front", "true-colour", "north", "inside", "camera", "/dev/video0", "rtsp://192.0.2.1/x"]
    {
        let text = format!("[[stream]]\nname = {word}\nsource = \"test\"\n");
        refused(
            &text,
            2,
            "stream.name",
            &[&format!("{word} is not in quotes"), &format!("\"{word}\"")],
        );
    }
    refused(&format!("{STREAM}loop = True\n"), 4, "stream.loop", &["expected `true`"]);
}

#[test]
fn an_address_without_its_scheme_is_not_a_file() {
    for address in [
        "192.0.2.1",
        "192.0.2.1/main",
        "192.0.2.1:554/main",
        "camera.local:8554",
        "[2001:db8::1]:554/main",
        "2001:db8::1",
    ] {
        let text = format!("[[stream]]\nname = \"a\"\nsource = \"{address}\"\n");
        refused(&text, 3, "stream.source", &[&format!("\"rtsp://{address}\""), "\"./"]);
        accepted(&format!("[[stream]]\nname = \"a\"\nsource = \"./{address}\"\n"));
    }
    let secret = "[[stream]]\nname = \"a\"\nsource = \"admin:s3cret@camera.local/main\"\n";
    let error = Config::parse_in(secret, Path::new("a.toml"), |_| Err(VarError::NotPresent));
    let error = error.unwrap_err().to_string();
    assert!(error.contains("\"rtsp://USER:PASSWORD@camera.local/main\""), "{error}");
    assert!(!error.contains("s3cret"), "{error}");
    for file in ["clip@2x.mp4", "1.2.3.mp4", "a:b.mp4", "[2024]/clip.mp4", "10:30/clip.mp4"] {
        let text = format!("[[stream]]\nname = \"a\"\nsource = \"{file}\"\n");
        accepted(&text);
    }
}

#[test]
fn wrong_types_are_refused_with_the_right_values() {
    refused(
        &format!("{VIEW}budget = \"many\"\n"),
        6,
        "stream.view.budget",
        &["\"many\"", "from 1 to 5000"],
    );
    refused(&format!("{VIEW}budget = 2.5\n"), 6, "stream.view.budget", &["2.5", "whole number"]);
    refused(
        &format!("{VIEW}layout = 3\n"),
        6,
        "stream.view.layout",
        &["3", "\"foveal\", \"inset\""],
    );
    refused(&format!("{VIEW}layout = [1]\n"), 6, "stream.view.layout", &["\"foveal\", \"inset\""]);
    refused(&format!("{VIEW}layout = {{ a = 1 }}\n"), 6, "stream.view.layout", &["\"foveal\""]);
    refused(&format!("{STREAM}loop = \"yes\"\n"), 4, "stream.loop", &["\"yes\"", "true or false"]);
    refused(
        &format!("{STREAM}parameters = {{ w = [] }}\n"),
        4,
        "stream.parameters.w",
        &["a string"],
    );
    refused(&format!("{VIEW}e0 = nan\nlayout = \"foveal\"\n"), 6, "stream.view.e0", &["above 0"]);
    let fixed = format!("{VIEW}gaze.policy = \"fixed\"\n");
    refused(&format!("{fixed}gaze.x = inf\n"), 7, "stream.view.gaze.x", &["0.0", "1.0"]);
    refused("stream = 5\n", 1, "stream", &["5"]);
}

#[test]
fn values_out_of_range_are_refused_with_the_range() {
    for (line, allowed) in [
        ("budget = 0", "from 1 to 5000"),
        ("budget = 5001", "from 1 to 5000"),
        ("budget = 18446744073709551617", "from 1 to 5000"),
        ("slots = 1", "from 2 to 64"),
        ("slots = 65", "from 2 to 64"),
        ("patch = 15", "even number from 8 to 64"),
        ("e0 = 0", "above 0"),
        ("coarsest = 12", "from 0 to 11"),
        ("dtype = \"f64\"", "\"u8\", \"f16\", \"bf16\", \"f32\""),
        ("normalisation = \"vgg\"", "\"none\", \"unit\", \"imagenet\", \"clip\", \"siglip\""),
        ("normalisation = { mean = [0.0, 0.0, 0.0], std = [0.0, 1.0, 1.0] }", "every std above 0"),
        ("normalisation = { mean = [nan, 0.0, 0.0], std = [1.0, 1.0, 1.0] }", "mean = [r, g, b]"),
    ] {
        let key = format!("stream.view.{}", line.split(' ').next().unwrap());
        refused(&format!("{VIEW}{line}\nlayout = \"foveal\"\n"), 6, &key, &[allowed]);
    }
    for (line, allowed) in [
        ("share = 1.0", "from 0.0 to 0.99"),
        ("blocks = 0", "from 1 to 8"),
        ("blocks = 9", "from 1 to 8"),
        ("min_step = 0.9", "from 1.0 to 64.0"),
        ("aspect = 0.0", "from 0.05 to 20.0"),
        ("aspect = nan", "from 0.05 to 20.0"),
    ] {
        let key = format!("stream.view.{}", line.split(' ').next().unwrap());
        refused(&format!("{VIEW}layout = \"inset\"\n{line}\n"), 7, &key, &[allowed]);
    }
    for (line, allowed) in [
        ("caps_timeout_ms = 99", "from 100 to 600000"),
        ("max_fps = 0", "from 0.01 to 1000"),
        ("stall_timeout_ms = 99", "from 100 to 600000"),
        ("restart = \"always\"", "true or false"),
        ("restart_timeout_ms = 3600001", "from 0 to 3600000"),
        ("pace = \"fast\"", "\"realtime\", \"every-frame\""),
        ("corrupted = \"hide\"", "\"drop\", \"show\""),
        ("track = 0", "from 1 to 64"),
        ("range = \"pc\"", "\"limited\", \"full\""),
        ("matrix = \"rgb\"", "\"bt601\", \"bt709\""),
        ("backend = \"cuda\"", "\"auto\", \"cpu\", \"vulkan\""),
        ("device = \" \"", "not empty"),
        ("change.threshold = 256", "from 0 to 255"),
        ("change.threshold = -1", "from 0 to 255"),
        ("change.threshold = \"noise\"", "from 0 to 255, \"auto\" or \"source\""),
        ("change.threshold_limit = 0", "from 1 to 255"),
        ("change.threshold_limit = 256", "from 1 to 255"),
        ("change.refresh_frames = 0", "from 1 to 1000000"),
        ("change.refresh_frames = 1000001", "from 1 to 1000000"),
        ("change.on = \"vulkan\"", "\"auto\", \"cpu\", \"gpu\""),
    ] {
        let key = format!("stream.{}", line.split(' ').next().unwrap());
        refused(&format!("{STREAM}{line}\n"), 4, &key, &[allowed]);
    }
    refused(
        &format!("{VIEW}gaze.policy = \"fixed\"\ngaze.y = 1.01\n"),
        7,
        "stream.view.gaze.y",
        &["0.0", "1.0"],
    );
    refused(
        &format!("{VIEW}gaze.policy = \"random\"\n"),
        6,
        "stream.view.gaze.policy",
        &["\"fixed\""],
    );
}

#[test]
fn several_policies_are_as_many_as_foveae_and_side_by_side() {
    for (foveae, policy, said) in [
        (3, "[\"feedback\", \"saliency\"]", "2 policies for 3 foveae"),
        (1, "[\"feedback\", \"saliency\"]", "2 policies for 1 fovea; expected one for each"),
        (1, "[]", "0 policies for 1 fovea;"),
        (
            3,
            "[\"saliency\", \"feedback\", \"saliency\"]",
            "\"saliency\" stands apart from its equal",
        ),
        (2, "[\"fixed\", \"fixed\"]", "2 fixed foveae"),
        (2, "[\"feedback\", \"replay\"]", "\"fixed\", \"feedback\", \"saliency\", \"relevance\""),
        (2, "[\"feedback\", 3]", "\"fixed\", \"feedback\", \"saliency\", \"relevance\""),
        (2, "\"several\"", "\"replay\", or a list of policies"),
        (2, "\"[]\"", "\"replay\", or a list of policies"),
    ] {
        let text = format!("{FOVEAL}foveae = {foveae}\ngaze.policy = {policy}\n");
        refused(&text, 8, "stream.view.gaze.policy", &[said]);
    }
    // With the default layout the list says how many there are.
    let nine = format!("{:?}", [vec!["saliency"; 8], vec!["fixed"]].concat());
    for (policy, said) in [("[]", "0 policies for 8 foveae"), (&nine, "9 policies for 8 foveae")] {
        let text = format!("{VIEW}gaze.policy = {policy}\n");
        refused(&text, 6, "stream.view.gaze.policy", &[said]);
    }
    let keys = "gaze.policy = [\"feedback\", \"relevance\"]\ngaze.weights = { strokes = 1 }\n";
    let text = format!("{FOVEAL}foveae = 2\n{keys}");
    refused(&text, 9, "stream.view.gaze.weights", &["with the policy \"relevance\""]);
    let text =
        format!("{FOVEAL}foveae = 2\ngaze.policy = [\"feedback\", \"saliency\"]\ngaze.x = 0.5\n");
    refused(&text, 9, "stream.view.gaze.x", &["with the policy \"fixed\""]);
    refused(&format!("{VIEW}layout = [\"foveal\"]\n"), 6, "stream.view.layout", &["\"foveal\""]);
}

#[test]
fn names_are_few_plain_characters_and_unique() {
    let long = "x".repeat(64);
    for name in ["", "Camera", "a b", "a/b", "ü", &long] {
        let text = format!("[[stream]]\nname = \"{name}\"\nsource = \"test\"\n");
        refused(&text, 2, "stream.name", &["1 to 63", "a-z, 0-9, _ and -"]);
    }
    refused(&format!("{STREAM}{STREAM}"), 5, "stream.name", &["another stream `a`"]);
    let twice = format!("{VIEW}[[stream.view]]\nname = \"v\"\n");
    refused(&twice, 7, "stream.view.name", &["another view of this stream `v`"]);
}

#[test]
fn a_mask_is_a_polygon_within_the_picture() {
    let mask = |points: &str| format!("{STREAM}[[stream.mask]]\npoints = {points}\n");
    accepted(&mask("[[0, 0], [1, 0.5], [0.5, 1.0]]"));
    let corners = |count: usize| vec!["[0.1, 0.2]"; count - 2].join(", ");
    accepted(&mask(&format!("[[1, 1], [1, 0], {}]", corners(64))));
    let too_many = format!("[[1, 1], [1, 0], {}]", corners(65));
    let line = "[[1, 1], [0.9, 0.925], [0.2, 0.4]]".to_owned();
    for wrong in [
        "[]",
        "[[0, 0], [1, 1]]",
        "[[0, 0], [1, 1], [1.01, 0]]",
        "[[0, 0], [1, 1], [-0.1, 0]]",
        "[[0, 0], [1, 1], [nan, 0]]",
        "[[0, 0], [1, 1], [1]]",
        "[[0, 0], [0, 1], [0, 0.5]]",
        "[0, 0, 1, 1]",
        "\"left\"",
        &too_many,
        &line,
    ] {
        let words = ["3 to 64 corners [x, y]", "from 0 to 1", "not all on one line"];
        refused(&mask(wrong), 5, "stream.mask.points", &words);
    }
    let pixels = mask("[[0, 0], [640, 0], [640, 480]]");
    refused(&pixels, 5, "stream.mask.points", &["corner 2 is [640, 0]; expected"]);
    let named = |name: &str| {
        format!("{STREAM}[[stream.mask]]\npoints = [[0, 0], [1, 0], [0, 1]]\n{name}\n")
    };
    refused(&named("name = \"Door\""), 6, "stream.mask.name", &["a-z, 0-9, _ and -"]);
    refused(&named("box = [0, 0, 1, 1]"), 6, "stream.mask.box", &["unknown key", "`points`"]);
    refused(&format!("{STREAM}[[stream.mask]]\n"), 4, "stream.mask", &["missing key `points`"]);
    refused(&format!("{STREAM}mask = true\n"), 4, "stream.mask", &["double brackets"]);
    let second = named("name = \"door\"").replace(STREAM, "");
    let twice = format!("{}{second}", named("name = \"door\""));
    refused(&twice, 9, "stream.mask.name", &["another mask of this stream `door`"]);
    // The second without a name would be `mask-2`.
    let second = named("").replace(STREAM, "");
    let taken = format!("{}{second}", named("name = \"mask-2\""));
    refused(&taken, 7, "stream.mask", &["another mask of this stream `mask-2`"]);
    let many = named("").replace(STREAM, "").repeat(33);
    refused(&format!("{STREAM}{many}"), 4, "stream.mask", &["33 masks", "at most 32"]);
}

#[test]
fn a_stream_has_exactly_one_source() {
    let expected = "exactly one of `source`, `pipeline` and `pipeline_file`";
    refused("[[stream]]\nname = \"a\"\n", 1, "stream", &["no source", expected]);
    refused(&format!("{STREAM}pipeline = \"x\"\n"), 4, "stream.pipeline", &[expected]);
    refused(&format!("{STREAM}pipeline_file = \"x\"\n"), 4, "stream.pipeline_file", &[expected]);
    refused("", 1, "", &["no [[stream]]", "expected at least one"]);
    refused("[[stream]]\nsource = \"test\"\n", 1, "stream", &["missing key `name`"]);
    refused(
        "[[stream]]\nname = \"a\"\nsource = \"ftp://x/y\"\n",
        3,
        "stream.source",
        &["\"test\"", "rtsp://", "`pipeline`"],
    );
}

#[test]
fn what_a_source_cannot_do_is_refused() {
    for source in ["test", "/dev/video0", "rtsp://192.0.2.1/"] {
        let stream = format!("[[stream]]\nname = \"a\"\nsource = \"{source}\"\n");
        refused(&format!("{stream}pace = \"every-frame\"\n"), 4, "stream.pace", &["\"realtime\""]);
        refused(&format!("{stream}loop = true\n"), 4, "stream.loop", &["false"]);
        accepted(&format!("{stream}pace = \"realtime\"\nloop = false\n"));
        refused(&format!("{stream}live = true\n"), 4, "stream.live", &["`http://`"]);
        refused(&format!("{stream}track = 2\n"), 4, "stream.track", &["a clip"]);
    }
    refused(&format!("{STREAM}live = true\n"), 4, "stream.live", &["`http://`"]);
    accepted(&format!("{STREAM}track = 2\n"));
    refused(&format!("{STREAM}latency_ms = 50\n"), 4, "stream.latency_ms", &["`rtsp://`"]);
    let without = format!("{STREAM}restart = false\n");
    accepted(&without);
    let limit = format!("{without}restart_timeout_ms = 500\n");
    refused(&limit, 5, "stream.restart_timeout_ms", &["`restart`"]);
    accepted(&format!("{STREAM}pace = \"every-frame\"\nloop = true\n"));
    let clip = "[[stream]]\nname = \"a\"\nsource = \"https://192.0.2.1/a.mp4\"\n";
    accepted(&format!("{clip}pace = \"every-frame\"\nloop = true\nlive = false\n"));
    accepted(&format!("{clip}live = true\n"));
    refused(&format!("{clip}live = true\nloop = true\n"), 5, "stream.loop", &["false"]);
    let waits = format!("{clip}live = true\npace = \"every-frame\"\n");
    refused(&waits, 5, "stream.pace", &["\"realtime\""]);
    accepted("[[stream]]\nname = \"a\"\npipeline = \"x\"\nlive = true\ntrack = 2\n");
    let home = "[[stream]]\nname = \"a\"\nsource = \"~/clip.mp4\"\n";
    refused(home, 3, "stream.source", &["`~`", "/home/NAME"]);
    let home = "[[stream]]\nname = \"a\"\npipeline_file = \"~/camera.gst\"\n";
    refused(home, 3, "stream.pipeline_file", &["`~`"]);
    for source in ["source = \"rtsp://192.0.2.1/\"", "pipeline = \"x\"", "pipeline_file = \"x\""] {
        accepted(&format!("[[stream]]\nname = \"a\"\n{source}\nlatency_ms = 50\n"));
    }
}

#[test]
fn malformed_addresses_are_refused() {
    for (address, problem) in [
        ("http://::1:80/", "in brackets"),
        ("rtsp://[fe80::1", "without `]`"),
        ("https://:443/", "no host"),
        ("rtsp://192.0.2.7:99999/", "invalid port"),
        ("rtsp://192.0.2.700/", "not an IPv4 address"),
    ] {
        let stream = format!("[[stream]]\nname = \"a\"\nsource = \"{address}\"\n");
        refused(&stream, 3, "stream.source", &[problem]);
        let depth = format!("{STREAM}[stream.depth]\nscale_m = 0.1\nsource = \"{address}\"\n");
        refused(&depth, 6, "stream.depth.source", &[problem]);
    }
    for address in ["http://[::1]:80/", "rtsps://user:p%40ss@[fe80::1%25eth0]:322/main"] {
        accepted(&format!("[[stream]]\nname = \"a\"\nsource = \"{address}\"\n"));
    }
}

#[test]
fn keys_of_servers_need_a_server() {
    let with = |source: &str, key: &str| format!("[[stream]]\nname = \"a\"\n{source}\n{key}\n");
    for source in ["source = \"test\"", "source = \"http://192.0.2.7/\"", "source = \"a.mp4\""] {
        refused(
            &with(source, "tls = \"insecure\""),
            4,
            "stream.tls",
            &["`https://` or `rtsps://`"],
        );
    }
    for source in
        ["source = \"https://192.0.2.7/\"", "source = \"rtsps://192.0.2.7/\"", "pipeline = \"x\""]
    {
        for tls in ["verify", "insecure", "camera.pem", "/etc/camera.pem"] {
            accepted(&with(source, &format!("tls = \"{tls}\"")));
        }
        refused(
            &with(source, "tls = \"unsafe\""),
            4,
            "stream.tls",
            &["\"verify\", \"insecure\" or the path"],
        );
        refused(&with(source, "tls = true"), 4, "stream.tls", &["\"verify\""]);
        refused(&with(source, "tls = \"~/camera.pem\""), 4, "stream.tls", &["`~`"]);
    }
    let follows = "follow_addresses = true";
    for source in ["test", "/dev/video0"] {
        let text = with(&format!("source = \"{source}\""), follows);
        refused(&text, 4, "stream.follow_addresses", &["an address, a clip or a pipeline"]);
    }
    for source in ["rtsp://192.0.2.7/", "http://192.0.2.7/", "a.m3u8"] {
        accepted(&with(&format!("source = \"{source}\""), follows));
    }
}

#[test]
fn what_pictures_are_may_be_given() {
    for line in [
        "gray_range = \"auto\"",
        "gray_range = [0, 1]",
        "gray_range = [7000, 65535]",
        "range = \"full\"",
        "range = \"limited\"",
        "matrix = \"bt2020\"",
        "interlaced = true",
    ] {
        accepted(&format!("{STREAM}{line}\n"));
    }
    for gray_range in ["[9, 9]", "[9, 8]", "[0, 65536]", "[-1, 5]", "[1, 2, 3]", "\"full\"", "5"] {
        let text = format!("{STREAM}gray_range = {gray_range}\n");
        refused(&text, 4, "stream.gray_range", &["\"auto\", or [low, high]"]);
    }
}

#[test]
fn an_orientation_is_a_quarter_turn() {
    for orientation in ["\"auto\"", "0", "90", "180", "270"] {
        accepted(&format!("{STREAM}orientation = {orientation}\n"));
    }
    for orientation in ["45", "-90", "360", "\"90\"", "true", "90.0"] {
        let text = format!("{STREAM}orientation = {orientation}\n");
        refused(&text, 4, "stream.orientation", &["\"auto\", 0, 90, 180 or 270"]);
    }
}

/// Single brackets are a frequent mistake.
#[test]
fn a_table_in_place_of_a_list_is_told_the_brackets() {
    let text = format!("{STREAM}[stream.view]\nname = \"v\"\n");
    refused(&text, 4, "stream.view", &["[[stream.view]]"]);
    refused("[stream]\nname = \"a\"\nsource = \"test\"\n", 1, "stream", &["[[stream]]"]);
}

#[test]
fn what_excludes_each_other_is_refused() {
    let device = format!("{STREAM}backend = \"cpu\"\ndevice = \"llvmpipe\"\n");
    refused(&device, 5, "stream.device", &["`backend`", "\"auto\" or \"vulkan\""]);
    let bytes = format!("{VIEW}dtype = \"u8\"\nnormalisation = \"clip\"\n");
    refused(&bytes, 7, "stream.view.normalisation", &["\"none\""]);
    let overflow = "normalisation = { mean = [0.5, 0.5, 0.5], std = [0.5, 0.5, 1e-6] }";
    refused(&format!("{VIEW}{overflow}\n"), 6, "stream.view.normalisation", &["6.5504e4"]);
    accepted(&format!("{VIEW}dtype = \"f32\"\n{overflow}\n"));
    let limit = format!("{STREAM}change = {{ threshold = 4, threshold_limit = 4 }}\n");
    refused(&limit, 4, "stream.change.threshold_limit", &["threshold \"auto\""]);
    accepted(&format!("{STREAM}change = {{ threshold_limit = 255, threshold = \"auto\" }}\n"));
    let on_gpu = format!("{STREAM}backend = \"cpu\"\nchange = {{ on = \"gpu\" }}\n");
    refused(&on_gpu, 5, "stream.change.on", &["\"auto\" or \"cpu\"", "`backend`"]);
    for (backend, on) in [("cpu", "cpu"), ("cpu", "auto"), ("auto", "gpu"), ("vulkan", "gpu")] {
        accepted(&format!("{STREAM}backend = \"{backend}\"\nchange = {{ on = \"{on}\" }}\n"));
    }
    let flat = format!("{VIEW}layout = \"uniform\"\ne0 = 4.0\n");
    refused(&flat, 7, "stream.view.e0", &["\"foveal\""]);
    let flat = format!("{VIEW}layout = \"uniform\"\ncoarsest = 3\n");
    refused(&flat, 7, "stream.view.coarsest", &["\"foveal\""]);
    for key in ["share", "blocks", "min_step", "aspect"] {
        let flat = format!("{VIEW}layout = \"uniform\"\n{key} = 1\n");
        refused(&flat, 7, &format!("stream.view.{key}"), &["\"inset\""]);
    }
    refused(
        "[daemon]\nsocket = \"s\"\n[[stream]]\nname=\"a\"\nsource=\"test\"",
        2,
        "daemon.socket",
        &["absolute path"],
    );
    for mode in ["0770", "0640x", "", "0400", "-1", "+660", "4660"] {
        let text = format!("[daemon]\nsocket_mode = \"{mode}\"\n{STREAM}");
        refused(&text, 2, "daemon.socket_mode", &["octal"]);
    }
    let number = format!("[daemon]\nsocket_mode = 660\n{STREAM}");
    refused(&number, 2, "daemon.socket_mode", &["octal"]);
    for address in ["9187", ":9187", "localhost:9187", "127.0.0.1", "127.0.0.1:65536", ""] {
        let text = format!("[daemon]\nmetrics = \"{address}\"\n{STREAM}");
        refused(&text, 2, "daemon.metrics", &["an IP address and a port"]);
    }
    let blank = format!("[daemon]\nsocket_group = \" \"\n{STREAM}");
    refused(&blank, 2, "daemon.socket_group", &["not empty"]);
}

/// A mistake that only follows from another is left out.
#[test]
fn all_mistakes_of_a_file_are_reported_in_order() {
    let text = r#"
        [daemon]
        metric = "127.0.0.1:9187"
        [[stream]]
        name = "Front"
        source = "rtsp://${NOT_THERE}@192.0.2.1/"
        pace = tru
        latency_ms = 5
        [[stream]]
        name = "b"
        source = "test"
        pipeline = "x"
        loop = "yes"
        change = { threshold = 256, threshold_limit = 4 }
        [[stream.view]]
        name = "v"
        budget = 0
        e0 = 4
        layout = "uniform"
        gaze = { policy = "repaly", log = "x", saccade_hz = 0 }
        [[stream.view]]
        name = "v"
        normalisation = { mean = [0, 0, 0], std = [0, 1, 1] }
        gaze.x = 2
        gaze.log = "x"
        [[stream]]
        name = "b"
        [stream.camera]
        rotation = [1, 2, 3]
        crop = 5
    "#;
    let expected = [
        (3, "daemon.metric", "did you mean `metrics`?"),
        (5, "stream.name", "a-z, 0-9, _ and -"),
        (6, "stream.source", "NOT_THERE is not set"),
        (7, "stream.pace", ""),
        (12, "stream.pipeline", "exactly one of"),
        (13, "stream.loop", "true or false"),
        (14, "stream.change.threshold", "from 0 to 255"),
        (17, "stream.view.budget", "from 1 to 5000"),
        (18, "stream.view.e0", "\"foveal\""),
        (20, "stream.view.gaze.policy", "\"replay\""),
        (20, "stream.view.gaze.saccade_hz", "from 0.01 to 1000"),
        (22, "stream.view.name", "another view"),
        (23, "stream.view.normalisation", "every std above 0"),
        (24, "stream.view.gaze.x", "\"fixed\""),
        (25, "stream.view.gaze.log", "\"replay\""),
        (27, "stream.name", "another stream `b`"),
        (29, "stream.camera.rotation", "of length 1"),
        (30, "stream.camera.crop", "[left, top, width, height]"),
    ];
    // Missing keys are reported only if they cannot be the result of a syntax error.
    let missing = [(26, "stream", "no source"), (28, "stream.camera", "missing key `calibration`")];
    let mut complete: Vec<_> = expected.into_iter().filter(|(line, ..)| *line != 7).collect();
    complete.extend(missing);
    complete.sort_unstable();
    assert_mistakes(text, &expected);
    assert_mistakes(&text.replace("pace = tru", ""), &complete);
}

/// Asserts that these are the mistakes of `text`: their lines, keys, and a part of their messages.
#[track_caller]
fn assert_mistakes(text: &str, expected: &[(usize, &str, &str)]) {
    let error = parse(text).expect_err(text);
    let ConfigError::Refused(mistakes) = &error else { panic!("{error}") };
    let places: Vec<_> =
        mistakes.iter().map(|mistake| (mistake.line, mistake.key.as_str())).collect();
    let wanted: Vec<_> = expected.iter().map(|(line, key, _)| (*line, *key)).collect();
    assert_eq!(places, wanted, "{error}");
    for (mistake, (_, _, words)) in mistakes.iter().zip(expected) {
        assert!(mistake.message.contains(words), "{words:?} is missing in: {mistake}");
    }
    let shown = error.to_string();
    assert_eq!(shown.lines().count(), 1 + mistakes.len(), "{shown}");
    assert!(shown.starts_with(&format!("{} mistakes", mistakes.len())), "{shown}");
}

#[test]
fn broken_toml_is_refused_where_it_breaks() {
    refused(&format!("{STREAM}loop = tru\n"), 4, "stream.loop", &[]);
    refused(&format!("{STREAM}name = \"b\"\n"), 4, "", &["duplicate key `name`"]);
    refused("[[stream]\n", 1, "", &["expected"]);
    refused("a = \"\u{e4}\u{e4}\" b\n", 1, "", &["expected"]);
}

#[test]
fn an_unset_variable_is_refused_by_name() {
    let text = "[[stream]]\nname = \"a\"\nsource = \"rtsp://${NOT_THERE}@192.0.2.1/\"\n";
    refused(text, 3, "stream.source", &["NOT_THERE is not set"]);
    for reference in ["${", "${}", "${1A}", "${A B}", "${A"] {
        let text = format!("[[stream]]\nname = \"a\"\nsource = \"{reference}\"\n");
        refused(&text, 3, "stream.source", &["$${"]);
    }
}

#[test]
fn every_unset_variable_of_a_string_is_refused() {
    let text = "[[stream]]\nname = \"a\"\nsource = \"rtsp://${ONE}:${TWO}@${/\"\n";
    let error = parse(text).unwrap_err().to_string();
    for words in ["ONE is not set", "TWO is not set", "invalid `${`"] {
        assert!(error.contains(words), "{words:?} is missing in: {error}");
    }
    assert!(error.starts_with("3 mistakes"), "{error}");
}

#[test]
fn no_refusal_shows_what_came_from_the_environment() {
    let environment = |_: &str| Ok("hunter\"2".to_owned());
    for text in [
        format!("{STREAM}backend = \"${{SECRET}}\"\n"),
        format!("{STREAM}parameters = {{ a = \"${{SECRET}}\" }}\npace = \"${{SECRET}}\"\n"),
        "[[stream]]\nname = \"${SECRET}\"\nsource = \"test\"\n".to_owned(),
    ] {
        let error = Config::parse_in(&text, Path::new("c.toml"), environment).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter"), "{error}");
        assert!(error.to_string().contains("***"), "{error}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let error = Config::load(Path::new("no/such.toml")).unwrap_err();
    assert!(matches!(error, ConfigError::Unreadable { .. }));
    assert!(error.to_string().contains("no/such.toml"), "{error}");
}

/// Asserts that `text` is refused at `line` for `key`, with all of `words` in the message.
#[track_caller]
fn refused(text: &str, line: usize, key: &str, words: &[&str]) {
    let error = parse(text).expect_err(text);
    let shown = error.to_string();
    let ConfigError::Refused(mistakes) = &error else { panic!("{shown}") };
    let [Mistake { line: at, key: blamed, .. }] = &mistakes[..] else { panic!("{shown}") };
    assert_eq!((*at, blamed.as_str()), (line, key), "{shown}");
    assert!(shown.starts_with(&format!("dir/c.toml:{line}:")), "{shown}");
    for word in words {
        assert!(shown.contains(word), "{word:?} is missing in: {shown}");
    }
}

#[track_caller]
fn accepted(text: &str) {
    parse(text).unwrap_or_else(|error| panic!("{error}"));
}

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse_in(text, Path::new("dir/c.toml"), |_| Err(VarError::NotPresent))
}

/// Layouts that cannot be: each names the key, what was given, and what would do.
#[test]
fn layouts_that_cannot_be_are_refused() {
    let view = |keys: &str| format!("{VIEW}{keys}\n");
    for (keys, line, key, expected) in [
        ("patch = 15", 6, "patch", &["15", "even number from 8 to 64"][..]),
        ("patch = 6", 6, "patch", &["6", "even number from 8 to 64"]),
        ("patch = 128", 6, "patch", &["128", "from 224 to 1024"]),
        ("patch = 448", 6, "patch", &["448", "\"windows\""]),
        ("layout = \"windows\"", 6, "layout", &["windows of 16 texels", "from 224 to 1024"]),
        ("layout = \"windows\"\npatch = 64", 7, "patch", &["windows of 64 texels"]),
        ("layout = \"spiral\"", 6, "layout", &["\"spiral\"", "\"samples\", \"windows\""]),
        ("foveae = 9\nlayout = \"foveal\"", 6, "foveae", &["9", "from 1 to 8"]),
        (
            "foveae = 3\nbudget = 2\nlayout = \"foveal\"",
            6,
            "foveae",
            &["exceed the tokens", "the budget, 2"],
        ),
        ("layout = \"uniform\"\nfoveae = 2", 7, "foveae", &["only with the layout \"foveal\""]),
        ("preset = \"stt172\"", 6, "preset", &["only with the layout \"rings\""]),
        ("strides = [1]", 6, "strides", &["only with the layout \"rings\""]),
        ("layout = \"rings\"", 6, "layout", &["`preset`", "`strides` and `grids`"]),
        ("layout = \"rings\"\npreset = \"stt\"", 7, "preset", &["\"stt\"", "\"giava20\""]),
        (
            "layout = \"rings\"\nstrides = [1, 3]\ngrids = [4, 4]",
            6,
            "layout",
            &["1 * 4 must be a multiple of 3"],
        ),
        (
            "layout = \"rings\"\nstrides = [1, 2]\ngrids = [4]",
            6,
            "layout",
            &["2 strides and 1 grids"],
        ),
        (
            "layout = \"rings\"\nstrides = \"1\"\ngrids = [4]",
            7,
            "strides",
            &["a list of whole numbers"],
        ),
        (
            "layout = \"rings\"\npreset = \"giava20\"\ngrids = [2]",
            6,
            "layout",
            &["either `preset`"],
        ),
        (
            "layout = \"rings\"\npreset = \"giava20\"\npatch = 14",
            8,
            "patch",
            &["14", "expected 16"],
        ),
        (
            "layout = \"rings\"\npreset = \"stt172\"\nbudget = 171",
            8,
            "budget",
            &["171", "172 tokens"],
        ),
        (
            "layout = \"rings\"\nstrides = [1, 64]\ngrids = [64, 17]",
            8,
            "grids",
            &["17408 pixels", "16384"],
        ),
        ("outside = \"zero\"", 6, "outside", &["\"zero\"", "\"edge\", \"mean\""]),
        ("rounding = \"up\"", 6, "rounding", &["\"up\"", "\"half-up\", \"floor\""]),
    ] {
        refused(&view(keys), line, &format!("stream.view.{key}"), expected);
    }
}

#[test]
fn samples_need_a_table_that_can_be_read() {
    let view = |keys: &str| format!("{VIEW}{keys}\n");
    for (keys, line, key, expected) in [
        ("patch = 1", 6, "patch", &["1 is not allowed here", "from 8 to 64", "\"samples\""][..]),
        ("table = \"a.npy\"", 6, "table", &["only with the layout \"samples\""]),
        ("layout = \"samples\"", 6, "layout", &["`table` beside it", ".npy"]),
        (
            "layout = \"samples\"\ntable = \"a.npy\"",
            7,
            "table",
            &["cannot read ", "dir/a.npy: No such file"],
        ),
        ("layout = \"samples\"\ntable = 3", 7, "table", &["the path of a file"]),
    ] {
        refused(&view(keys), line, &format!("stream.view.{key}"), expected);
    }
}

/// A table brings tokens of one texel, and as many as it has rows, unless something else is asked for.
#[test]
fn a_table_brings_what_suits_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.safetensors");
    let write = |rows: &[[f32; 3]]| {
        let bytes: Vec<u8> = rows.as_flattened().iter().flat_map(|x| x.to_le_bytes()).collect();
        let shape = vec![rows.len(), 3];
        let view =
            safetensors::tensor::TensorView::new(safetensors::tensor::Dtype::F32, shape, &bytes);
        fs::write(&path, safetensors::serialize([("table", view.unwrap())], None).unwrap())
            .unwrap();
    };
    write(&[[0.0, 0.0, 1.0], [4.5, -3.0, 2.0], [90.0, 0.0, 7.0]]);
    let keys = |keys: &str| {
        let path = path.to_str().unwrap();
        format!("name = \"v\"\nlayout = \"samples\"\ntable = \"{path}\"\n{keys}")
    };
    let view = |given: &str| ViewConfig::parse(&keys(given));
    let plain = view("").unwrap();
    assert_eq!((plain.budget, plain.capacity()), (3, 3));
    assert_eq!((plain.format.patch_side, plain.format.dtype), (1, DType::F32));
    let Layout::Samples(samples) = &plain.layout else { panic!("{:?}", plain.layout) };
    assert_eq!((samples.rows.len(), &samples.file), (3, &path));
    let wide = view("patch = 16\nbudget = 90").unwrap();
    assert_eq!((wide.budget, wide.capacity(), wide.format.dtype), (90, 3, DType::F16));

    // The written configuration is read back equal; another table in the file is another view.
    let stream = StreamConfig { views: vec![plain.clone()], ..StreamConfig::default() };
    let written = Config::from(stream).to_toml();
    assert_eq!(parse(&written).unwrap().streams[0].views, slice::from_ref(&plain), "{written}");
    write(&[[0.0, 0.0, 1.0], [4.5, -3.0, 2.0], [91.0, 0.0, 7.0]]);
    assert_ne!(view("").unwrap(), plain);

    for (given, parts) in [
        ("dtype = \"f16\"", &["f16 with tokens of one texel", "\"f32\""][..]),
        ("budget = 2", &["2 is less than the 3 rows"]),
        ("patch = 224", &["224", "from 8 to 64"]),
    ] {
        let error = view(given).unwrap_err().to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    }
    write(&[[0.0, 0.0, 2048.0]; 9]);
    let error = view("").unwrap_err().to_string();
    assert!(error.contains("37748736 pixels") && error.contains("at most 33554432"), "{error}");
    for (bytes, part) in [(vec![0; (1 << 20) + 1], "too large"), (vec![0; 90], "neither .npy nor")]
    {
        fs::write(&path, bytes).unwrap();
        let error = view("").unwrap_err().to_string();
        assert!(error.contains(part) && error.contains(path.to_str().unwrap()), "{error}");
    }
}

/// A preset brings what its model was trained with, unless something else is asked for.
#[test]
fn a_preset_brings_its_rounding() {
    let rings = "layout = \"rings\"\n";
    let view = |keys: &str| format!("{VIEW}{keys}\n");
    let parsed = |keys: &str| Config::parse(&view(keys), Path::new("c.toml")).unwrap();
    let format = |keys: &str| parsed(keys).streams[0].views[0].format;
    assert_eq!(format(&format!("{rings}preset = \"stt172\"")).rounding, Rounding::Floor);
    assert_eq!(
        format(&format!("{rings}preset = \"stt172\"\nrounding = \"half-up\"")).rounding,
        Rounding::HalfUp
    );
    assert_eq!(format(&format!("{rings}preset = \"giava20\"")).rounding, Rounding::HalfUp);
}
