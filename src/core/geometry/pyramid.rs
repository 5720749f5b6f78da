//! The levels of a mip pyramid over a source of any extent.

use super::extent::Extent;

/// Levels whose texels depend on a single tile: 0 to 5, as 2^5 is the side of a tile.
pub const TILE_LEVEL_COUNT: u32 = super::tile::TILE_SIDE.ilog2() + 1;

/// Longest side of the last level.
const LAST_LEVEL_SIDE: u32 = 8;

/// Most levels any pyramid has: 16384 halves to 8 in eleven steps.
pub const LEVEL_COUNT_MAX: u32 = (Extent::SIDE_MAX / LAST_LEVEL_SIDE).ilog2() + 1;

/// The shape of a pyramid. Texel (L, x, y) is the mean of the real source pixels in
/// `[x * 2^L, (x + 1) * 2^L) x [y * 2^L, (y + 1) * 2^L)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PyramidShape {
    extent: Extent,
    level_count: u32,
}

impl PyramidShape {
    /// The pyramid over a source of `extent` pixels, ending at the first level whose sides are both at most 8.
    ///
    /// # Panics
    ///
    /// If the extent is not [supported](Extent::is_supported).
    pub fn new(extent: Extent) -> Self {
        assert!(extent.is_supported(), "a source of {extent}");
        let halvings = extent.longer_side().div_ceil(LAST_LEVEL_SIDE).next_power_of_two().ilog2();
        Self { extent, level_count: halvings + 1 }
    }

    /// Extent of the source, and so of level 0.
    pub fn extent(self) -> Extent {
        self.extent
    }

    /// Number of levels, at least 1.
    pub fn level_count(self) -> u32 {
        self.level_count
    }

    /// Extent of a level: ceil(side / 2^level). Defined for levels past the last one too.
    pub fn level_extent(self, level: u32) -> Extent {
        self.extent.in_cells(1 << level)
    }

    /// Source pixels under texel (`x`, `y`) of `level`: 4^level, or fewer where the box hangs over an edge.
    pub fn texel_pixel_count(self, level: u32, x: u32, y: u32) -> u32 {
        let columns = (self.extent.width - (x << level)).min(1 << level);
        let rows = (self.extent.height - (y << level)).min(1 << level);
        columns * rows
    }
}

/// The mean of `count` samples with sum `sum`, exactly rounded, half up.
///
/// Never overflows: a sum is at most 255 * 2^22, and half a count at most 2^21.
#[expect(clippy::cast_possible_truncation, reason = "a mean of 8-bit samples has 8 bits")]
pub const fn rounded_mean(sum: u32, count: u32) -> u8 {
    let sum = sum + count / 2;
    // A shift takes a few percent of the time of a division, and boxes away from the edges are of such counts.
    (if count.is_power_of_two() { sum >> count.trailing_zeros() } else { sum / count }) as u8
}
