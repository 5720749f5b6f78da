//! Pixel aspect ratio, colour and scaling of a source.

use std::fmt;

use crate::color::Colorimetry;
use crate::gray::GrayRange;

/// Width and height of a pixel as it is meant to be shown, without a common divisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PixelAspect {
    /// Width, in units of its height.
    pub width: u32,
    /// Height, in units of its width.
    pub height: u32,
}

impl PixelAspect {
    /// A square pixel.
    pub const SQUARE: Self = Self { width: 1, height: 1 };

    /// Whether shapes in the picture are as they were before the camera.
    pub const fn is_square(self) -> bool {
        self.width == self.height
    }
}

impl Default for PixelAspect {
    fn default() -> Self {
        Self::SQUARE
    }
}

impl fmt::Display for PixelAspect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.width, self.height)
    }
}

/// Pixel aspect ratio, colour and scaling of a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PixelFacts {
    /// Shape of a pixel; square if unknown.
    pub pixel_aspect: PixelAspect,
    /// Colorimetry; `None` if unknown.
    pub color: Option<Colorimetry>,
    /// The samples of 16-bit gray that became 0 and 255; `None` if the source has 8 bits.
    pub gray_range: Option<GrayRange>,
}
