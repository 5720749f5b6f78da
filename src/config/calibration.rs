//! Camera calibration files of ROS.

use std::io;
use std::path::Path;

use foveate_core::camera::{COEFFICIENTS_MAX, Calibration, MODEL_BYTES_MAX};
use foveate_core::file;
use foveate_core::geometry::extent::Extent;
use yaml_rust2::parser::{Event, Parser};
use yaml_rust2::{Yaml, YamlLoader};

/// Longest file, in bytes: a calibration has about 1,000.
const FILE_BYTES_MAX: u64 = 1 << 16;

/// Deepest nesting of lists and tables: a calibration has three levels.
const DEPTH_MAX: usize = 16;

/// Why a calibration cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct CalibrationError {
    text: String,
    /// The system's error, if the file cannot be read.
    source: Option<io::Error>,
}

impl CalibrationError {
    /// A file that can be read has this mistake.
    pub(super) fn new(text: String) -> Self {
        Self { text, source: None }
    }
}

/// Reads a file as `camera_calibration` of ROS writes it: YAML with `image_width`, `image_height`, `camera_matrix`,
/// `distortion_model` and `distortion_coefficients`.
///
/// # Errors
///
/// If it cannot be read, or a key is missing or invalid.
pub(super) fn load_calibration(path: &Path) -> Result<Calibration, CalibrationError> {
    let shown = path.display();
    let text = file::read_text(path, FILE_BYTES_MAX).map_err(|source| CalibrationError {
        text: format!("cannot read the calibration {shown}"),
        source: Some(source),
    })?;
    parse_calibration(&text).map_err(|reason| {
        let text = format!("{shown} is not a calibration of ROS's camera_calibration: {reason}");
        CalibrationError::new(text)
    })
}

/// Reads the text of such a file, or says what is wrong with it, and what is expected.
fn parse_calibration(text: &str) -> Result<Calibration, String> {
    check_size(text)?;
    let documents = YamlLoader::load_from_str(text).map_err(|error| error.to_string())?;
    let document = documents.first().ok_or("it is empty")?;
    let extent = Extent::new(side(document, "image_width")?, side(document, "image_height")?);
    let k = numbers(&document["camera_matrix"]["data"], "camera_matrix")?;
    let k: [f64; 9] = k.try_into().map_err(|_| "invalid `camera_matrix` (expected 9 numbers)")?;
    let [fx, _, _, _, fy, _, below @ ..] = k;
    if !(0.0 < fx && 0.0 < fy) || below != [0.0, 0.0, 1.0] {
        return Err(
            "invalid `camera_matrix` (expected focal lengths above 0 and a last row of 0, 0, 1)"
                .into(),
        );
    }
    let distortion = document["distortion_model"].as_str().unwrap_or("plumb_bob").to_owned();
    if MODEL_BYTES_MAX < distortion.len() {
        return Err(format!(
            "invalid `distortion_model` (expected at most {MODEL_BYTES_MAX} bytes)"
        ));
    }
    let coefficients = &document["distortion_coefficients"]["data"];
    let coefficients = numbers(coefficients, "distortion_coefficients")?;
    if COEFFICIENTS_MAX < coefficients.len() {
        return Err(format!(
            "invalid `distortion_coefficients` (expected at most {COEFFICIENTS_MAX} numbers)"
        ));
    }
    Ok(Calibration { extent, k, distortion, coefficients })
}

/// Refuses what would take more memory than the text: aliases, which the loader copies, and nesting, for which it calls itself.
fn check_size(text: &str) -> Result<(), String> {
    let mut parser = Parser::new_from_str(text);
    let mut depth = 0;
    loop {
        match parser.next_token().map_err(|error| error.to_string())? {
            (Event::Alias(_), at) => {
                return Err(format!(
                    "line {}: an alias (`*`) is not allowed; expected the value itself",
                    at.line()
                ));
            }
            (Event::SequenceStart(..) | Event::MappingStart(..), at) => {
                depth += 1;
                if DEPTH_MAX < depth {
                    return Err(format!(
                        "line {}: nested too deeply; expected at most {DEPTH_MAX} levels",
                        at.line()
                    ));
                }
            }
            (Event::SequenceEnd | Event::MappingEnd, _) => depth -= 1,
            (Event::StreamEnd, _) => return Ok(()),
            _ => {}
        }
    }
}

fn side(document: &Yaml, key: &str) -> Result<u32, String> {
    let side = document[key].as_i64().and_then(|side| u32::try_from(side).ok());
    side.filter(|side| (1..=Extent::SIDE_MAX).contains(side))
        .ok_or_else(|| format!("invalid `{key}` (expected 1 to {} pixels)", Extent::SIDE_MAX))
}

fn numbers(list: &Yaml, key: &str) -> Result<Vec<f64>, String> {
    let expected = || format!("invalid `{key}` (expected `data`, a list of numbers)");
    let number = |item: &Yaml| match item {
        Yaml::Integer(number) => Some(*number as f64),
        item => item.as_f64().filter(|number| number.is_finite()),
    };
    let list = list.as_vec().ok_or_else(expected)?;
    list.iter().map(number).collect::<Option<_>>().ok_or_else(expected)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    /// A calibration in the form of ROS's `camera_calibration`.
    const CALIBRATION: &str = "\
image_width: 1280
image_height: 720
camera_name: front
camera_matrix:
  rows: 3
  cols: 3
  data: [910.5, 0, 641.25, 0., 911.5, 359.75, 0, 0, 1]
distortion_model: plumb_bob
distortion_coefficients:
  rows: 1
  cols: 5
  data: [0.0831, -0.1917, 0.0005, -1.2e-4, 0]
rectification_matrix:
  rows: 3
  cols: 3
  data: [1, 0, 0, 0, 1, 0, 0, 0, 1]
";

    #[test]
    fn a_calibration_of_ros_is_read() {
        let calibration = parse_calibration(CALIBRATION).unwrap();
        assert_eq!(calibration.extent, Extent::new(1280, 720));
        assert_eq!(calibration.k, [910.5, 0.0, 641.25, 0.0, 911.5, 359.75, 0.0, 0.0, 1.0]);
        assert_eq!(calibration.distortion, "plumb_bob");
        assert_eq!(calibration.coefficients, [0.0831, -0.1917, 0.0005, -1.2e-4, 0.0]);
    }

    #[test]
    fn what_is_no_calibration_is_refused_with_what_was_expected() {
        for (from, to, part) in [
            ("image_width: 1280", "image_width: wide", "`image_width`"),
            ("image_height: 720", "image_height: 99999", "1 to 16384"),
            ("camera_matrix:", "camera_metrics:", "`camera_matrix`"),
            (", 0, 0, 1]\ndist", ", 0, 1]\ndist", "9 numbers"),
            (", 0, 0, 1]\ndist", ", 0, 1, 1]\ndist", "last row"),
            ("[910.5,", "[-910.5,", "focal lengths above 0"),
            ("[0.0831,", "[.nan,", "list of numbers"),
            ("data: [0.0831", "data: [0,0,0,0,0,0,0,0,0,0, 0.0831", "at most 14"),
            ("image_width: 1280", "\timage_width: [", ""),
        ] {
            let text = CALIBRATION.replace(from, to);
            assert_ne!(text, CALIBRATION, "{from:?}");
            let error = parse_calibration(&text).unwrap_err();
            assert!(error.contains(part), "{to:?}: {error}");
        }
        assert!(parse_calibration("").unwrap_err().contains("empty"));
    }

    #[test]
    fn calibrations_that_would_grow_are_refused() {
        let mut aliases = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]\n".to_owned();
        for index in 1..20 {
            let before = format!("*a{}", index - 1);
            writeln!(aliases, "a{index}: &a{index} [{}]", [&before[..]; 9].join(", ")).unwrap();
        }
        let refused = parse_calibration(&aliases).unwrap_err();
        assert_eq!(refused, "line 2: an alias (`*`) is not allowed; expected the value itself");
        for deep in ["[".repeat(100), "- ".repeat(10_000)] {
            let refused = parse_calibration(&deep).unwrap_err();
            assert!(refused.contains("nested too deeply; expected at most 16 levels"), "{refused}");
        }
    }
}
