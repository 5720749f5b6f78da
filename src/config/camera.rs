//! `[stream.camera]`: calibration and pose of the camera, for robots.

use std::path::{Path, PathBuf};

use super::calibration::{CalibrationError, load_calibration};
use super::reader::Table;
use foveate_core::camera::{Camera, Edit, Flip, parent_from_optical};
use foveate_core::value::{ConfigValue, Keys};
use foveate_core::value::{crop, frame_name, one_of, path, position, quaternion};

/// Calibration and pose of the camera.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CameraConfig {
    /// Calibration file of ROS's `camera_calibration`.
    pub calibration: PathBuf,
    /// Name of the camera's optical frame, at most 63 bytes; by default the stream's name and `_optical`.
    pub optical_frame: Option<String>,
    /// The frame of reference that the camera is mounted in.
    pub parent_frame: Option<String>,
    /// Position of the camera in `parent_frame`, in metres; only with that key.
    pub translation: Option<[f64; 3]>,
    /// Orientation of the camera: a unit quaternion x, y, z, w from the optical frame to `parent_frame`; only with that key.
    pub rotation: Option<[f64; 4]>,
    /// The pipeline's crop of the calibrated picture: left, top, width and height in pixels.
    pub crop: Option<[u32; 4]>,
    /// How the cropped picture is flipped.
    pub flip: Flip,
    /// Clockwise rotation after crop and flip, in degrees: 0, 90, 180 or 270.
    pub rotate: u32,
}

impl CameraConfig {
    pub(super) fn keys(&mut self, keys: &mut dyn Keys) {
        keys.key("calibration", &mut self.calibration, path);
        keys.optional("optical_frame", &mut self.optical_frame, frame_name);
        keys.optional("parent_frame", &mut self.parent_frame, frame_name);
        keys.optional("translation", &mut self.translation, position);
        keys.optional("rotation", &mut self.rotation, quaternion);
        keys.optional("crop", &mut self.crop, crop);
        keys.key("flip", &mut self.flip, one_of);
        keys.key("rotate", &mut self.rotate, degrees);
    }

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

/// A turn in degrees, clockwise.
fn degrees(given: &ConfigValue) -> Result<u32, String> {
    let degrees = given.whole().filter(|degrees| [0, 90, 180, 270].contains(degrees));
    given.expect(degrees, "0, 90, 180 or 270")
}
