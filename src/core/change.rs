//! What counts as a change of the picture.

use std::num::NonZeroU32;

#[cfg(feature = "serde")]
use crate::value::Given;

#[cfg(feature = "serde")]
mod text;

/// What counts as a change of the picture. By default every change, however small, and no tile is read again without one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(from = "text::ChangeKeys", into = "text::ChangeKeys"))]
pub struct ChangeConfig {
    /// The most by which a camera sample may differ from the one that the pyramid was built from.
    pub threshold: Threshold,
    /// Every tile is read again at least once in so many frames, at most 1000000.
    pub refresh_frames: Option<NonZeroU32>,
}

/// The difference that a sample may have. As text it is the number, or `"auto"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "Given", into = "Given"))]
pub enum Threshold {
    /// So many steps of 8 bits.
    Fixed(u8),
    /// As many as the noise of the camera needs.
    Auto {
        /// The most steps.
        limit: u8,
    },
}

impl Threshold {
    /// The limit where none is given. It bridges noise of two and a half steps (40 dB), as of a camera in poor light;
    /// where there is more, a picture that changes by a sixteenth of its range must not be ignored.
    pub const LIMIT_DEFAULT: u8 = 16;
}

impl Default for Threshold {
    /// Every change counts.
    fn default() -> Self {
        Self::Fixed(0)
    }
}
