//! Boxes in source pixels.

use std::ops::Range;

use serde_core::{Deserialize, Deserializer, Serialize, Serializer};

use super::extent::Extent;

/// A half-open box of source pixels, origin top left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PixelBox {
    /// First column.
    pub x0: u32,
    /// First row.
    pub y0: u32,
    /// One past the last column.
    pub x1: u32,
    /// One past the last row.
    pub y1: u32,
}

impl PixelBox {
    /// The box over `columns` and `rows`.
    pub fn of(columns: Range<u32>, rows: Range<u32>) -> Self {
        Self { x0: columns.start, y0: rows.start, x1: columns.end, y1: rows.end }
    }

    /// Whether it holds no pixel.
    pub fn is_empty(self) -> bool {
        self.x1 <= self.x0 || self.y1 <= self.y0
    }
}

/// A box in source pixels. It may reach beyond the image, as the model input that attention was computed on may have been
/// letterboxed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Region {
    /// Left edge.
    pub x0: f64,
    /// Top edge.
    pub y0: f64,
    /// Right edge, above `x0`.
    pub x1: f64,
    /// Bottom edge, above `y0`.
    pub y1: f64,
}

impl Region {
    /// The whole of an image.
    pub fn of(extent: Extent) -> Self {
        Self { x0: 0.0, y0: 0.0, x1: f64::from(extent.width), y1: f64::from(extent.height) }
    }

    /// The same part of a picture that is wider and higher by the factors of `scale`.
    pub fn scaled(self, (x, y): (f64, f64)) -> Self {
        Self { x0: self.x0 * x, y0: self.y0 * y, x1: self.x1 * x, y1: self.y1 * y }
    }

    /// Whether its width and height are finite and above 0.
    pub fn has_area(self) -> bool {
        let (width, height) = (self.x1 - self.x0, self.y1 - self.y0);
        width.is_finite() && height.is_finite() && 0.0 < width && 0.0 < height
    }
}

impl From<[f64; 4]> for Region {
    fn from([x0, y0, x1, y1]: [f64; 4]) -> Self {
        Self { x0, y0, x1, y1 }
    }
}

impl Serialize for Region {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { x0, y0, x1, y1 } = *self;
        [x0, y0, x1, y1].serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Region {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <[f64; 4]>::deserialize(deserializer).map(Self::from)
    }
}
