//! `[stream.depth]` and what views make of it: read, refused with the way out, and written again.

use std::path::Path;

use foveate_config::{Config, ConfigError, SourceChoice};
use foveate_core::depth::DepthDetail;
use foveate_core::geometry::extent::Extent;
use foveate_core::plane::{BOXES, DEPTH};
use foveate_gaze::view::ViewSpec;

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(text, Path::new("/etc/foveate/foveate.toml"))
}

const STREAM: &str = "[[stream]]\nname = 'front'\nsource = 'test'\n";
const DEPTH_TABLE: &str = "[stream.depth]\nsource = 'depth'\nscale_m = 0.00025\n";
const CAMERA_TABLE: &str = "[stream.camera]\ncalibration = 'front.yaml'\n";
const VIEW: &str = "[[stream.view]]\nname = 'main'\n";

#[test]
fn depth_is_read_and_written_as_it_is_configured() {
    for (depth, boxes, detail) in [
        ("", "", DepthDetail::None),
        ("depth = false", "", DepthDetail::None),
        ("depth = true", "", DepthDetail::Tokens),
        ("depth = 'tokens'", "boxes = true", DepthDetail::Tokens),
        ("depth = 'texels'", "boxes = true", DepthDetail::Texels),
        ("", "boxes = true", DepthDetail::None),
    ] {
        let text =
            format!("{STREAM}{CAMERA_TABLE}{DEPTH_TABLE}min_m = 0.2\n{VIEW}{depth}\n{boxes}\n");
        let config = parse(&text).unwrap();
        let stream = &config.streams[0];
        let found = stream.depth.clone().unwrap();
        // A relative path starts at the file's directory, as that of the stream does.
        assert_eq!(found.source, SourceChoice::Shorthand("/etc/foveate/depth".to_owned()));
        let scale = found.scale();
        assert_eq!((scale.unit_m, scale.min_m, scale.max_m), (0.00025, 0.2, f64::INFINITY));
        assert_eq!(found.bound_ns(), 17_000_000);
        let view = &stream.views[0];
        assert_eq!((view.depth, view.boxes), (detail, !boxes.is_empty()));
        let planes = ViewSpec::try_from(view).unwrap().planes(Extent::new(64, 48));
        let names: Vec<_> = planes.iter().skip(2).map(|plane| plane.name).collect();
        let expected = [(detail != DepthDetail::None, DEPTH), (view.boxes, BOXES)];
        let expected: Vec<_> =
            expected.into_iter().filter(|(is_there, _)| *is_there).map(|(_, name)| name).collect();
        assert_eq!(names, expected);
        let with_depth = view.ring_bytes();
        let plain = parse(&format!("{STREAM}{VIEW}")).unwrap().streams[0].views[0].ring_bytes();
        assert_eq!(plain < with_depth, !expected.is_empty());
        assert_eq!(parse(&config.to_toml()).unwrap(), config);
    }
}

#[test]
fn what_depth_needs_is_said() {
    for (text, key, part) in [
        (format!("{STREAM}{VIEW}depth = true"), "stream.view.depth", "expected [stream.depth]"),
        (
            format!("{STREAM}{CAMERA_TABLE}{VIEW}boxes = true"),
            "stream.view.boxes",
            "expected [stream.depth]",
        ),
        (
            format!("{STREAM}{DEPTH_TABLE}{VIEW}boxes = true"),
            "stream.view.boxes",
            "expected [stream.camera]",
        ),
        (format!("{STREAM}{DEPTH_TABLE}{VIEW}depth = 'pixels'"), "stream.view.depth", "\"texels\""),
        (
            format!("{STREAM}[stream.depth]\nsource = 'depth'\n"),
            "stream.depth",
            "missing key `scale_m`",
        ),
        (format!("{STREAM}[stream.depth]\nscale_m = 0.001\n"), "stream.depth", "no source"),
        (format!("{STREAM}{DEPTH_TABLE}pipeline = 'x'\n"), "stream.depth.pipeline", "exactly one"),
        (format!("{STREAM}{DEPTH_TABLE}max_m = 0\n"), "stream.depth.max_m", "metres above 0"),
        (
            format!("{STREAM}{DEPTH_TABLE}min_m = 2.0\nmax_m = 1.5\n"),
            "stream.depth.max_m",
            "at least 2",
        ),
        (format!("{STREAM}{DEPTH_TABLE}bound_ms = 60001\n"), "stream.depth.bound_ms", "60000"),
        (
            format!("{STREAM}{DEPTH_TABLE}scale = 2\n"),
            "stream.depth.scale",
            "did you mean `scale_m`",
        ),
        (
            "[[stream]]\nname = 'front'\nsource = 'clip.mp4'\npace = 'every-frame'\n\
             [stream.depth]\nsource = '/dev/video2'\nscale_m = 0.001\n"
                .to_owned(),
            "stream.depth.source",
            "cannot follow the pace",
        ),
    ] {
        let error = parse(&text).unwrap_err().to_string();
        assert!(error.contains(key) && error.contains(part), "{text}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}
