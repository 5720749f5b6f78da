//! Camera calibration files of ROS.

use std::path::{Path, PathBuf};

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
#[non_exhaustive]
pub enum CalibrationError {
    /// It cannot be read.
    #[error("cannot read the calibration {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// It is not a file of ROS's `camera_calibration`.
    #[error("{} is not a calibration of ROS's camera_calibration: {reason}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The mistake, and the expected value.
        reason: String,
    },
    /// `crop` exceeds the calibrated picture.
    #[error(
        "`crop` in [stream.camera] exceeds the calibrated picture, {extent} pixels in {}",
        path.display()
    )]
    CropOutside {
        /// The calibration.
        path: PathBuf,
        /// The extent that it is for.
        extent: Extent,
    },
}

/// Reads a file as `camera_calibration` of ROS writes it: YAML with `image_width`, `image_height`, `camera_matrix`,
/// `distortion_model` and `distortion_coefficients`.
///
/// # Errors
///
/// If it cannot be read, or a key is missing or invalid.
pub fn load_calibration(path: &Path) -> Result<Calibration, CalibrationError> {
    let text = file::read_text(path, FILE_BYTES_MAX)
        .map_err(|source| CalibrationError::Unreadable { path: path.to_owned(), source })?;
    parse_calibration(&text)
        .map_err(|reason| CalibrationError::Malformed { path: path.to_owned(), reason })
}

/// Reads the text of such a file.
///
/// # Errors
///
/// Says what is wrong, and what is expected.
pub fn parse_calibration(text: &str) -> Result<Calibration, String> {
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
    side.filter(|side| (1..=Extent::MAX_SIDE).contains(side))
        .ok_or_else(|| format!("invalid `{key}` (expected 1 to {} pixels)", Extent::MAX_SIDE))
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
