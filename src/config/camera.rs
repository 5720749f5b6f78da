//! `[stream.camera]`: calibration and pose of the camera, for robots.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::calibration::{CalibrationError, load_calibration};
use super::reader::Table;
use foveate_core::camera::{Camera, Edit, Flip, parent_from_optical};
use foveate_core::value::{
    Crop, Degrees, FrameName, Location, Position, Quaternion, checked, optional,
};

/// Calibration and pose of the camera.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CameraConfig {
    /// Calibration file of ROS's `camera_calibration`.
    #[serde(deserialize_with = "checked::<Location, _, _>")]
    pub calibration: PathBuf,
    /// Name of the camera's optical frame, at most 63 bytes; by default the stream's name and `_optical`.
    #[serde(deserialize_with = "optional::<FrameName, _, _>")]
    pub optical_frame: Option<String>,
    /// The frame of reference that the camera is mounted in.
    #[serde(deserialize_with = "optional::<FrameName, _, _>")]
    pub parent_frame: Option<String>,
    /// Position of the camera in `parent_frame`, in metres; only with that key.
    #[serde(deserialize_with = "optional::<Position, _, _>")]
    pub translation: Option<[f64; 3]>,
    /// Orientation of the camera: a unit quaternion x, y, z, w from the optical frame to `parent_frame`; only with that key.
    #[serde(deserialize_with = "optional::<Quaternion, _, _>")]
    pub rotation: Option<[f64; 4]>,
    /// The pipeline's crop of the calibrated picture: left, top, width and height in pixels.
    #[serde(deserialize_with = "optional::<Crop, _, _>")]
    pub crop: Option<[u32; 4]>,
    /// How the cropped picture is flipped.
    pub flip: Flip,
    /// Clockwise rotation after crop and flip, in degrees: 0, 90, 180 or 270.
    #[serde(deserialize_with = "checked::<Degrees, _, _>")]
    pub rotate: u32,
}

impl CameraConfig {
    /// Checks combinations of keys, and resolves relative paths against `directory`.
    pub(super) fn validate(&mut self, table: &Table<'_>, directory: &Path) {
        table.need("calibration");
        self.calibration = directory.join(&self.calibration);
        for key in ["translation", "rotation"] {
            let where_ = "with `parent_frame` beside it, the frame that the camera is fixed in";
            table.allow(key, self.parent_frame.is_some(), "parent_frame", where_);
        }
    }

    /// The camera of stream `stream`, with its calibration.
    ///
    /// # Errors
    ///
    /// If its calibration cannot be read, is invalid, or is for a picture smaller than the crop.
    pub fn load(&self, stream: &str) -> Result<Camera, CalibrationError> {
        let calibration = load_calibration(&self.calibration)?;
        let extent = calibration.extent;
        if let Some([left, top, width, height]) = self.crop
            && (extent.width < left + width || extent.height < top + height)
        {
            return Err(CalibrationError::new(format!(
                "`crop` in [stream.camera] exceeds the calibrated picture, {extent} pixels in {}",
                self.calibration.display()
            )));
        }
        let mount = |parent_frame: &String| {
            let translation = self.translation.unwrap_or_default();
            let rotation = self.rotation.unwrap_or([0.0, 0.0, 0.0, 1.0]);
            (parent_frame.clone(), parent_from_optical(translation, rotation))
        };
        Ok(Camera {
            calibration,
            optical_frame: self.optical_frame.clone().unwrap_or(format!("{stream}_optical")),
            mount: self.parent_frame.as_ref().map(mount),
            edit: Edit { crop: self.crop, flip: self.flip, quarter_turns: self.rotate / 90 },
        })
    }
}
