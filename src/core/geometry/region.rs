//! Boxes in source pixels.

use std::ops::Range;

use serde_core::{Deserialize, Deserializer, Serialize, Serializer};

use super::extent::Extent;

/// A half-open box of source pixels, or of texels of a level; origin top left.
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

    /// Whether the box is empty.
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

    /// The region in coordinates relative to a point.
    pub fn relative_to(self, (x, y): (f64, f64)) -> Self {
        self.moved((-x, -y))
    }

    /// The box moved by (`dx`, `dy`) pixels.
    pub fn moved(self, (dx, dy): (f64, f64)) -> Self {
        Self { x0: self.x0 + dx, y0: self.y0 + dy, x1: self.x1 + dx, y1: self.y1 + dy }
    }

    /// The part of it in an image; it may have no area.
    pub fn within(self, extent: Extent) -> Self {
        let whole = Self::of(extent);
        Self {
            x0: self.x0.max(whole.x0),
            y0: self.y0.max(whole.y0),
            x1: self.x1.min(whole.x1),
            y1: self.y1.min(whole.y1),
        }
    }

    /// The pixels of an image of `extent` whose edges are nearest, at least one along each axis.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
    pub fn pixels(self, extent: Extent) -> PixelBox {
        let span = |from: f64, to: f64, side: u32| {
            let edge = |place: f64| place.round().clamp(0.0, f64::from(side)) as u32;
            let start = edge(from).min(side - 1);
            start..edge(to).max(start + 1)
        };
        PixelBox::of(span(self.x0, self.x1, extent.width), span(self.y0, self.y1, extent.height))
    }

    /// Whether a point is inside the region or on its edge.
    pub fn contains(self, (x, y): (f64, f64)) -> bool {
        (self.x0..=self.x1).contains(&x) && (self.y0..=self.y1).contains(&y)
    }

    /// Middle of the region.
    pub fn middle(self) -> (f64, f64) {
        (0.5 * (self.x0 + self.x1), 0.5 * (self.y0 + self.y1))
    }

    /// The region of a picture that is wider and higher by the factors of `scale`.
    pub fn scaled(self, (x, y): (f64, f64)) -> Self {
        Self { x0: self.x0 * x, y0: self.y0 * y, x1: self.x1 * x, y1: self.y1 * y }
    }

    /// Whether its width and height are finite and above 0.
    pub fn has_area(self) -> bool {
        let (width, height) = (self.x1 - self.x0, self.y1 - self.y0);
        width.is_finite() && height.is_finite() && 0.0 < width && 0.0 < height
    }
}

impl From<PixelBox> for Region {
    fn from(PixelBox { x0, y0, x1, y1 }: PixelBox) -> Self {
        Self { x0: x0.into(), y0: y0.into(), x1: x1.into(), y1: y1.into() }
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
