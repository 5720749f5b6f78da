//! The pyramid-aligned patch grid: a quadtree whose nodes are P x P texels of one level.

use super::extent::Extent;
use super::pyramid::{LEVEL_COUNT_MAX, PyramidShape};
use super::tile::TileSet;

/// Patch (L, i, j) covers texels `[i * P, (i + 1) * P) x [j * P, (j + 1) * P)` of level L.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Patch {
    /// Pyramid level.
    pub level: u32,
    /// Column in the level's patch grid.
    pub i: u32,
    /// Row in the level's patch grid.
    pub j: u32,
}

impl Patch {
    /// Position on the Morton curve of its level: the bits of `j` and `i` interleaved, `i` lowest.
    pub fn morton(self) -> u64 {
        spread(self.i) | spread(self.j) << 1
    }

    /// Side in source pixels.
    pub fn side_px(self, patch_side: u32) -> u32 {
        patch_side << self.level
    }

    /// The patch one level coarser that it is a child of.
    pub fn parent(self) -> Self {
        Self { level: self.level + 1, i: self.i / 2, j: self.j / 2 }
    }

    /// The children, one level finer, that contain a real pixel: one, two or four; none at level 0.
    pub fn children(self, grids: PatchGrids) -> impl Iterator<Item = Patch> + Clone {
        let finer = self.level.checked_sub(1).map(|level| (level, grids.level(level)));
        finer.into_iter().flat_map(move |(level, grid)| {
            [(0, 0), (1, 0), (0, 1), (1, 1)]
                .map(|(di, dj)| Patch { level, i: 2 * self.i + di, j: 2 * self.j + dj })
                .into_iter()
                .filter(move |child| grid.contains(child.i, child.j))
        })
    }
}

/// The patch grids of all levels of one pyramid.
#[derive(Clone, Copy, Debug)]
pub struct PatchGrids {
    shape: PyramidShape,
    patch_side: u32,
    /// Columns and rows at each level. Divisions take most of the time of a walk over patches.
    levels: [Extent; LEVEL_COUNT_MAX as usize],
}

impl PatchGrids {
    /// The grids of patches of `patch_side` texels.
    pub fn new(shape: PyramidShape, patch_side: u32) -> Self {
        let mut levels = [shape.extent(); _];
        for (level, grid) in (0..).zip(&mut levels) {
            *grid = shape.level_extent(level).in_cells(patch_side);
        }
        Self { shape, patch_side, levels }
    }

    /// The pyramid.
    pub fn shape(self) -> PyramidShape {
        self.shape
    }

    /// P: side of a patch in texels.
    pub fn patch_side(self) -> u32 {
        self.patch_side
    }

    /// Columns and rows at `level`.
    pub fn level(self, level: u32) -> Extent {
        self.levels[level as usize]
    }

    /// The finest level with at most `budget` patches, or the last level, which has one.
    pub fn finest_level_within(self, budget: usize) -> u32 {
        let last = self.shape.level_count() - 1;
        (0..last).find(|&level| self.level(level).area() <= budget).unwrap_or(last)
    }

    /// All patches of `level`, row by row.
    pub fn patches(self, level: u32) -> impl Iterator<Item = Patch> {
        let grid = self.level(level);
        (0..grid.height).flat_map(move |j| (0..grid.width).map(move |i| Patch { level, i, j }))
    }
}

/// Patches above level 0 of one pyramid: a bitmap for each level.
#[derive(Clone, Debug)]
pub struct PatchSet(Vec<TileSet>);

impl PatchSet {
    /// The empty set.
    pub fn none(grids: PatchGrids) -> Self {
        let levels = 1..grids.shape().level_count();
        Self(levels.map(|level| TileSet::none_of(grids.level(level))).collect())
    }

    /// Adds a patch. Returns whether it was not in the set.
    pub fn insert(&mut self, patch: Patch) -> bool {
        let level = &mut self.0[patch.level as usize - 1];
        let is_new = !level.contains(patch.i, patch.j);
        level.insert(patch.i, patch.j);
        is_new
    }

    /// Whether a patch is in the set; none of level 0 is.
    pub fn contains(&self, patch: Patch) -> bool {
        0 < patch.level && self.0[patch.level as usize - 1].contains(patch.i, patch.j)
    }

    /// Indices of its patches of a level above 0, row by row.
    pub fn indices(&self, level: u32) -> impl Iterator<Item = usize> {
        self.0[level as usize - 1].indices()
    }
}

/// Moves bit n of `value` to bit 2n.
fn spread(value: u32) -> u64 {
    let mut bits = u64::from(value);
    for (shift, mask) in [
        (16, 0x0000_FFFF_0000_FFFF),
        (8, 0x00FF_00FF_00FF_00FF),
        (4, 0x0F0F_0F0F_0F0F_0F0F),
        (2, 0x3333_3333_3333_3333),
        (1, 0x5555_5555_5555_5555),
    ] {
        bits = (bits | bits << shift) & mask;
    }
    bits
}
