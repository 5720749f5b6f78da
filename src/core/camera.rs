//! The model of a camera: how rays of light become pixels, as ROS describes it in `camera_info`, and what the pipeline
//! did to the picture since it was calibrated.

use crate::geometry::affine::Affine;
use crate::geometry::extent::Extent;

pub mod rays;

/// Coefficients of a distortion that are published.
pub const COEFFICIENTS_MAX: usize = 14;

/// Bytes of the name of a distortion model; a segment cuts it after 15.
pub const MODEL_BYTES_MAX: usize = 63;

/// Bytes of the name of a frame of reference.
pub const FRAME_BYTES_MAX: usize = 63;

/// A calibrated pinhole camera.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    /// Width and height in pixels of the pictures of the calibration.
    pub extent: Extent,
    /// The camera matrix, row by row, in pixels of the pictures of the calibration. As in ROS, the centre of the first pixel lies at (0, 0).
    pub k: [f64; 9],
    /// Name of the distortion model, such as `plumb_bob`.
    pub distortion: String,
    /// Coefficients of the distortion, in the order of `D` of `camera_info`.
    pub coefficients: Vec<f64>,
}

/// A camera: calibration, pose, and the transform of its pictures.
#[derive(Clone, Debug, PartialEq)]
pub struct Camera {
    /// Projection of rays to pixels.
    pub calibration: Calibration,
    /// Name of the frame of reference of its rays: x right, y down, z forward.
    pub optical_frame: String,
    /// The frame of reference that the camera is fixed in, and rows of [R | t] from the optical frame to it, in metres; `None` if unknown.
    pub mount: Option<(String, [f64; 12])>,
    /// Changes of the calibrated picture in the pipeline.
    pub edit: Edit,
}

/// Changes of the calibrated picture in a pipeline, which crops, mirrors and turns it, in this order, and scales the result
/// to the size of the source.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Edit {
    /// The crop: left, top, width and height in pixels; `None` for the whole picture.
    pub crop: Option<[u32; 4]>,
    /// Mirroring of the picture.
    pub flip: Flip,
    /// Quarter turns clockwise, 0 to 3.
    pub quarter_turns: u32,
}

/// Mirroring of a picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flip {
    /// No mirroring.
    #[default]
    None,
    /// Left and right.
    Horizontal,
    /// Top and bottom.
    Vertical,
}

crate::names!(Flip { None = "none", Horizontal = "horizontal", Vertical = "vertical" });

/// The published calibration of a camera, for sources of one extent.
#[derive(Clone, Debug, PartialEq)]
pub struct CameraFacts {
    /// How rays become pixels of the calibrated picture.
    pub calibration: Calibration,
    /// Name of the frame of reference of its rays: x right, y down, z forward.
    pub optical_frame: String,
    /// The frame of reference that it is fixed in, and rows of [R | t] from the optical frame to that one, in metres.
    pub mount: Option<(String, [f64; 12])>,
    /// Rows of a 2 x 3 matrix: from (x, y, 1) of the calibrated picture to pixels of the source.
    pub source_from_calibrated: [f64; 6],
}

impl Camera {
    /// The calibration as it is published for sources of `source` pixels.
    pub fn facts(&self, source: Extent) -> CameraFacts {
        CameraFacts {
            calibration: self.calibration.clone(),
            optical_frame: self.optical_frame.clone(),
            mount: self.mount.clone(),
            source_from_calibrated: self.source_from_calibrated(source),
        }
    }

    /// The 2 x 3 matrix, row by row, that takes a point of the calibrated picture, (x, y, 1), to one of a source of
    /// `source` pixels.
    pub fn source_from_calibrated(&self, source: Extent) -> [f64; 6] {
        let Extent { width, height } = self.calibration.extent;
        let [left, top, width, height] =
            self.edit.crop.unwrap_or([0, 0, width, height]).map(f64::from);
        let mut affine = Affine([1.0, 0.0, -left, 0.0, 1.0, -top]);
        affine = match self.edit.flip {
            Flip::None => affine,
            Flip::Horizontal => affine.then(Affine([-1.0, 0.0, width, 0.0, 1.0, 0.0])),
            Flip::Vertical => affine.then(Affine([1.0, 0.0, 0.0, 0.0, -1.0, height])),
        };
        let (mut width, mut height) = (width, height);
        for _ in 0..self.edit.quarter_turns {
            // The top left corner becomes the top right one.
            affine = affine.then(Affine([0.0, -1.0, height, 1.0, 0.0, 0.0]));
            (width, height) = (height, width);
        }
        let scale = [f64::from(source.width) / width, f64::from(source.height) / height];
        affine.then(Affine([scale[0], 0.0, 0.0, 0.0, scale[1], 0.0])).0
    }
}

/// Rows of [R | t], from the optical frame of a camera to a parent's, in metres: of the place of its centre in that frame, and of a
/// quaternion x, y, z, w of length 1.
pub fn parent_from_optical([x, y, z]: [f64; 3], rotation: [f64; 4]) -> [f64; 12] {
    let [[a, b, c], [d, e, f], [g, h, i]] = rotation_matrix(rotation);
    [a, b, c, x, d, e, f, y, g, h, i, z]
}

/// Rows of the matrix of a quaternion x, y, z, w of length 1.
pub(crate) fn rotation_matrix([x, y, z, w]: [f64; 4]) -> [[f64; 3]; 3] {
    [
        [1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - z * w), 2.0 * (x * z + y * w)],
        [2.0 * (x * y + z * w), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - x * w)],
        [2.0 * (x * z - y * w), 2.0 * (y * z + x * w), 1.0 - 2.0 * (x * x + y * y)],
    ]
}
