//! `[stream.camera]`: what is known of the camera, for robots.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Spanned;

use super::calibration::{CalibrationError, load_calibration};
use super::error::Refusal;
use super::values::{Kind, List, Maybe, OneOf, Text, value};
use foveate_core::camera::{Camera, Edit, FRAME_BYTES_MAX, Flip, Mount};

/// What is known of the camera.
#[derive(Clone, Debug, PartialEq)]
pub struct CameraConfig {
    /// The calibration, as `camera_calibration` of ROS writes it.
    pub calibration: PathBuf,
    /// Name of the frame of reference of its rays, at most 63 bytes; without it the stream's name and `_optical`.
    pub optical_frame: Option<String>,
    /// Where the camera is.
    pub mount: Option<Mount>,
    /// What the pipeline does to the calibrated picture.
    pub edit: Edit,
}

impl CameraConfig {
    /// The camera of stream `stream`, with its calibration.
    ///
    /// # Errors
    ///
    /// If its calibration cannot be read, or is none, or is for a smaller picture than is cut out of it.
    pub fn load(&self, stream: &str) -> Result<Camera, CalibrationError> {
        let calibration = load_calibration(&self.calibration)?;
        let extent = calibration.extent;
        if let Some([left, top, width, height]) = self.edit.crop
            && (extent.width < left + width || extent.height < top + height)
        {
            let path = self.calibration.clone();
            return Err(CalibrationError::CropOutside { path, extent });
        }
        let named = || format!("{stream}_optical");
        Ok(Camera {
            calibration,
            optical_frame: self.optical_frame.clone().unwrap_or_else(named),
            mount: self.mount.clone(),
            edit: self.edit,
        })
    }
}

/// The table as it stands in a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CameraTable {
    calibration: Spanned<super::values::Checked<Text>>,
    optical_frame: Maybe<FrameName>,
    parent_frame: Maybe<FrameName>,
    translation: Maybe<List<3>>,
    rotation: Maybe<List<4>>,
    crop: Maybe<List<4>>,
    flip: Maybe<OneOf<Flip>>,
    rotate: Maybe<QuarterTurns>,
}

impl CameraTable {
    /// Checks it; a relative path in it starts at `directory`.
    pub(super) fn checked(self, directory: &Path) -> Result<CameraConfig, Refusal> {
        let edit = Edit {
            crop: self.crop.map(pixels).transpose()?,
            flip: value(self.flip, Flip::None),
            quarter_turns: value(self.rotate, 0),
        };
        let mount = mount(self.parent_frame, self.translation, self.rotation)?;
        Ok(CameraConfig {
            calibration: directory.join(self.calibration.into_inner().0),
            optical_frame: self.optical_frame.map(|name| name.into_inner().0),
            mount,
            edit,
        })
    }
}

fn mount(
    parent_frame: Maybe<FrameName>,
    translation: Maybe<List<3>>,
    rotation: Maybe<List<4>>,
) -> Result<Option<Mount>, Refusal> {
    let Some(parent_frame) = parent_frame else {
        let spans = [translation.map(|t| t.span()), rotation.map(|r| r.span())];
        return match spans.into_iter().flatten().next() {
            None => Ok(None),
            Some(span) => {
                let message =
                    "expected `parent_frame` beside it, the frame that the camera is fixed in";
                Err(Refusal::new(span, message))
            }
        };
    };
    let span = rotation.as_ref().map_or(0..0, |rotation| rotation.span());
    let rotation = value(rotation, [0.0, 0.0, 0.0, 1.0]);
    let length = rotation.iter().map(|part| part * part).sum::<f64>().sqrt();
    if !(0.99..=1.01).contains(&length) {
        let message = "expected a quaternion [x, y, z, w] of length 1";
        return Err(Refusal::new(span, message));
    }
    Ok(Some(Mount {
        parent_frame: parent_frame.into_inner().0,
        translation: value(translation, [0.0; 3]),
        rotation: rotation.map(|part| part / length),
    }))
}

/// Left, top, width and height, in whole pixels.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be whole")]
fn pixels(crop: Spanned<super::values::Checked<List<4>>>) -> Result<[u32; 4], Refusal> {
    let numbers = crop.get_ref().0;
    let is_whole = |number: &f64| number.fract() == 0.0 && (0.0..=16384.0).contains(number);
    let [_, _, width, height] = numbers;
    if numbers.iter().all(is_whole) && 0.0 < width && 0.0 < height {
        Ok(numbers.map(|number| number as u32))
    } else {
        let message =
            "expected [left, top, width, height] in whole pixels of the calibrated picture";
        Err(Refusal::new(crop.span(), message))
    }
}

/// The name of a frame of reference.
struct FrameName;

impl Kind for FrameName {
    type Value = String;

    fn allowed(f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a name of 1 to {FRAME_BYTES_MAX} bytes")
    }

    fn from_text(value: &str) -> Option<String> {
        let fits = (1..=FRAME_BYTES_MAX).contains(&value.len()) && !value.contains('\0');
        fits.then(|| value.to_owned())
    }
}

/// A turn in degrees, clockwise.
struct QuarterTurns;

impl Kind for QuarterTurns {
    type Value = u8;

    fn allowed(f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("0, 90, 180 or 270")
    }

    fn from_whole(value: i64) -> Option<u8> {
        (0..4).find(|turns| 90 * i64::from(*turns) == value)
    }
}
