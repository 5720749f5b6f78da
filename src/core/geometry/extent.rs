//! Width and height of a raster.

/// Width and height in pixels, texels or cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Extent {
    /// Columns.
    pub width: u32,
    /// Rows.
    pub height: u32,
}

impl Extent {
    /// Longest side of a source in pixels. Keeps the largest box sum (2048 x 2048 samples of 8 bits, plus half the count for
    /// rounding) below 2^32.
    pub const SIDE_MAX: u32 = 16_384;

    /// Most pixels of a picture that is read from a file, where no other number is given.
    pub const DEFAULT_MAX_PIXELS: u32 = 128_000_000;

    /// An extent of `width` columns and `height` rows.
    pub const fn new(width: u32, height: u32) -> Self {
        Self { width, height }
    }

    /// Whether a source may have this extent: both sides in 1..=[`Extent::SIDE_MAX`].
    pub const fn is_supported(self) -> bool {
        let sides = 1..=Self::SIDE_MAX;
        *sides.start() <= self.width
            && self.width <= *sides.end()
            && *sides.start() <= self.height
            && self.height <= *sides.end()
    }

    /// Columns and rows of cells of `side` x `side` that cover this extent; the last ones may hang over.
    pub const fn in_cells(self, side: u32) -> Self {
        Self { width: self.width.div_ceil(side), height: self.height.div_ceil(side) }
    }

    /// Number of cells.
    pub const fn area(self) -> usize {
        self.width as usize * self.height as usize
    }

    /// Whether the cell (`x`, `y`) lies inside.
    pub const fn contains(self, x: u32, y: u32) -> bool {
        x < self.width && y < self.height
    }

    /// The longer of the two sides.
    pub const fn longer_side(self) -> u32 {
        if self.width < self.height { self.height } else { self.width }
    }
}

impl std::fmt::Display for Extent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}x{}", self.width, self.height)
    }
}
