//! Depth pictures: how far what a pixel shows is from the camera, along its optical axis.
//!
//! Depth is counted in whole *steps*, so that sums of it are exact: the samples themselves where they are whole numbers, and
//! [`FLOAT_STEP_M`] where they are floats. A step of 0 is an unknown depth.

use crate::frame::{FrameError, Plane};
use crate::geometry::extent::Extent;

pub mod pairing;

/// The step of depth in floats, in metres: 15 micrometres, so that 32 bits reach 65 km.
pub const FLOAT_STEP_M: f64 = 1.0 / 65536.0;

/// Memory layouts of depth samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DepthFormat {
    /// 16 bits without sign, low byte first.
    Gray16Le,
    /// 16 bits without sign, high byte first.
    Gray16Be,
    /// IEEE binary32, low byte first.
    Float32Le,
}

impl DepthFormat {
    /// Bytes of a sample.
    pub const fn sample_bytes(self) -> usize {
        match self {
            Self::Gray16Le | Self::Gray16Be => 2,
            Self::Float32Le => 4,
        }
    }
}

// That of a format of video is the one in GStreamer's caps.
crate::names!(DepthFormat {
    Gray16Le = "GRAY16_LE", Gray16Be = "GRAY16_BE", Float32Le = "float32",
});

/// The meaning of the samples of a depth picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DepthScale {
    /// Metres of the sample 1.
    pub unit_m: f64,
    /// Nearest depth that is believed, in metres.
    pub min_m: f64,
    /// Farthest depth that is believed, in metres; may be infinite.
    pub max_m: f64,
}

impl DepthScale {
    /// Metres of a step.
    pub fn step_m(&self, format: DepthFormat) -> f64 {
        match format {
            DepthFormat::Gray16Le | DepthFormat::Gray16Be => self.unit_m,
            DepthFormat::Float32Le => FLOAT_STEP_M,
        }
    }

    /// The steps of row `y` of `picture`: 0 where the sample is 0, negative, not a number, or outside the believed depths.
    ///
    /// # Panics
    ///
    /// If `steps` is not as long as the row.
    pub fn read_row(&self, picture: &DepthView<'_>, y: usize, steps: &mut [u32]) {
        let format = picture.format;
        let row = picture.plane.row(y, steps.len() * format.sample_bytes());
        let (least, most) = self.believed(self.step_m(format));
        let believed = |step: u32| if least <= step && step <= most { step } else { 0 };
        let (pairs, _) = row.as_chunks::<2>();
        match format {
            DepthFormat::Gray16Le => {
                for (step, pair) in steps.iter_mut().zip(pairs) {
                    *step = believed(u16::from_le_bytes(*pair).into());
                }
            }
            DepthFormat::Gray16Be => {
                for (step, pair) in steps.iter_mut().zip(pairs) {
                    *step = believed(u16::from_be_bytes(*pair).into());
                }
            }
            DepthFormat::Float32Le => {
                let steps_per_unit = self.unit_m / FLOAT_STEP_M;
                for (step, sample) in steps.iter_mut().zip(row.as_chunks::<4>().0) {
                    *step = believed(whole_steps(f32::from_le_bytes(*sample), steps_per_unit));
                }
            }
        }
    }

    /// The least and the greatest step that is believed; 0 never is.
    #[expect(clippy::cast_possible_truncation, reason = "saturates, as wanted")]
    #[expect(clippy::cast_sign_loss, reason = "depths are not negative")]
    fn believed(&self, step_m: f64) -> (u32, u32) {
        (((self.min_m / step_m).ceil() as u32).max(1), (self.max_m / step_m).floor() as u32)
    }
}

/// The step nearest to a sample; 0 for a sample without depth and for one beyond the last step.
#[expect(clippy::cast_possible_truncation, reason = "checked before")]
#[expect(clippy::cast_sign_loss, reason = "checked before")]
fn whole_steps(sample: f32, steps_per_unit: f64) -> u32 {
    let steps = (f64::from(sample) * steps_per_unit).round();
    // Comparisons with NaN are false.
    if 0.0 < steps && steps <= f64::from(u32::MAX) { steps as u32 } else { 0 }
}

/// A depth picture, borrowed.
#[derive(Clone, Copy, Debug)]
pub struct DepthView<'a> {
    format: DepthFormat,
    extent: Extent,
    plane: Plane<'a>,
}

impl<'a> DepthView<'a> {
    /// A picture of `extent` pixels in `plane`.
    ///
    /// # Errors
    ///
    /// If the extent is not supported or the plane is too short for it.
    pub fn new(format: DepthFormat, extent: Extent, plane: Plane<'a>) -> Result<Self, FrameError> {
        if !extent.is_supported() {
            return Err(FrameError::extent(extent));
        }
        let row_bytes = extent.width as usize * format.sample_bytes();
        let checked = plane.checked(extent.height as usize, row_bytes);
        let too_short =
            |needed| FrameError::too_short(&format!("{extent} {format}"), 0, plane, needed);
        let plane = checked.map_err(too_short)?;
        Ok(Self { format, extent, plane })
    }

    /// Memory layout of the samples.
    pub fn format(&self) -> DepthFormat {
        self.format
    }

    /// Width and height in pixels.
    pub fn extent(&self) -> Extent {
        self.extent
    }
}

/// Identity of a depth picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DepthStamp {
    /// Capture time on CLOCK_MONOTONIC, in nanoseconds; 0 without a picture.
    pub capture_ns: u64,
    /// Counts the pictures of the depth pipeline, from 1; 0 for none.
    pub frame_seq: u64,
}

/// The depth that a view publishes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DepthDetail {
    /// No depth.
    #[default]
    None,
    /// Three numbers a token.
    Tokens,
    /// Three numbers a texel.
    Texels,
}

#[cfg(feature = "serde")]
mod text;
