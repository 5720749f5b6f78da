//! The tile grid and sets of tiles.

use std::ops::Range;

use super::extent::Extent;
use super::region::PixelBox;

/// Side of a tile in pixels. Each texel of levels 0 to 5 depends on a single tile.
pub const TILE_SIDE: u32 = 32;

/// The columns or rows of tiles under the pixels `start..end` along that axis.
pub fn tiles_under(start: u32, end: u32) -> Range<u32> {
    start / TILE_SIDE..end.div_ceil(TILE_SIDE)
}

/// A set of tiles of one source, as a bitmap in row-major order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TileSet {
    grid: Extent,
    words: Vec<u64>,
}

impl TileSet {
    /// The empty set for a source of `extent` pixels.
    pub fn none(extent: Extent) -> Self {
        Self::none_of(extent.in_cells(TILE_SIDE))
    }

    /// The empty set for a grid.
    pub fn none_of(grid: Extent) -> Self {
        Self { grid, words: vec![0; grid.area().div_ceil(64)] }
    }

    /// All tiles of a source of `extent` pixels.
    pub fn all(extent: Extent) -> Self {
        let mut set = Self::none(extent);
        set.fill();
        set
    }

    /// Columns and rows of the tile grid.
    pub fn grid(&self) -> Extent {
        self.grid
    }

    /// Removes every tile.
    pub fn clear(&mut self) {
        self.words.fill(0);
    }

    /// Adds every tile.
    pub fn fill(&mut self) {
        self.words.fill(u64::MAX);
        let beyond = self.words.len() * 64 - self.grid.area();
        if let Some(last) = self.words.last_mut() {
            *last >>= beyond;
        }
    }

    /// Adds the tile in `column` and `row` of the grid.
    #[inline]
    pub fn insert(&mut self, column: u32, row: u32) {
        self.insert_index(self.index(column, row));
    }

    /// Adds the tile with a row-major index.
    #[inline]
    pub fn insert_index(&mut self, index: usize) {
        assert!(index < self.grid.area(), "tile {index} is outside a grid of {}", self.grid);
        self.words[index / 64] |= 1 << (index % 64);
    }

    /// Sets exactly the cells that lie over cells of `finer`, a grid with cells of half the side.
    pub fn cover(&mut self, finer: &Self) {
        self.clear();
        for (column, row) in finer.iter() {
            self.insert(column / 2, row / 2);
        }
    }

    /// Runs of adjacent tiles in row `row`, as ranges of columns from left to right.
    pub fn runs(&self, row: usize) -> impl Iterator<Item = Range<usize>> {
        let width = self.grid.width as usize;
        let mut from = row * width;
        let end = from + width;
        let first = from;
        std::iter::from_fn(move || {
            let start = self.next_index(from..end, true)?;
            from = self.next_index(start..end, false).unwrap_or(end);
            Some(start - first..from - first)
        })
    }

    /// First index of a range that is in the set (`is_in`) or not in it.
    fn next_index(&self, range: Range<usize>, is_in: bool) -> Option<usize> {
        let mut at = range.start;
        while at < range.end {
            let word = self.words[at / 64];
            let wanted = if is_in { word } else { !word } >> (at % 64);
            if wanted != 0 {
                let found = at + wanted.trailing_zeros() as usize;
                return (found < range.end).then_some(found);
            }
            at = (at / 64 + 1) * 64;
        }
        None
    }

    /// Whether the tile in `column` and `row` is in the set.
    #[inline]
    pub fn contains(&self, column: u32, row: u32) -> bool {
        self.contains_index(self.index(column, row))
    }

    /// Whether the tile with a row-major index is in the set.
    pub fn contains_index(&self, index: usize) -> bool {
        self.words[index / 64] >> (index % 64) & 1 == 1
    }

    /// Whether any tile of the box `columns` x `rows` is in the set.
    pub fn intersects(&self, columns: Range<u32>, rows: Range<u32>) -> bool {
        rows.into_iter().any(|row| {
            let start = self.index(columns.start, row);
            self.any_within(start..start + columns.len())
        })
    }

    /// Whether any index of a non-empty range is in the set.
    fn any_within(&self, indices: Range<usize>) -> bool {
        let (first, last) = (indices.start / 64, (indices.end - 1) / 64);
        let from_start = u64::MAX << (indices.start % 64);
        let to_end = u64::MAX >> (63 - (indices.end - 1) % 64);
        if first == last {
            return self.words[first] & from_start & to_end != 0;
        }
        self.words[first] & from_start != 0
            || self.words[first + 1..last].iter().any(|&word| word != 0)
            || self.words[last] & to_end != 0
    }

    /// Number of tiles in the set.
    pub fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether any tile under the non-empty pixel box `region` is in the set.
    #[inline]
    pub fn reaches(&self, region: PixelBox) -> bool {
        self.intersects(tiles_under(region.x0, region.x1), tiles_under(region.y0, region.y1))
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }

    /// Row-major indices of the tiles in the set, ascending.
    pub fn indices(&self) -> impl Iterator<Item = usize> {
        self.words
            .iter()
            .enumerate()
            .flat_map(|(position, &word)| set_bits(word).map(move |bit| position * 64 + bit))
    }

    /// (column, row) of the tiles in the set, in row-major order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u32)> {
        let width = self.grid.width as usize;
        self.indices().map(move |index| grid_position(index, width))
    }

    fn index(&self, column: u32, row: u32) -> usize {
        assert!(
            self.grid.contains(column, row),
            "tile ({column}, {row}) is outside a grid of {}",
            self.grid
        );
        row as usize * self.grid.width as usize + column as usize
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a grid side is a u32")]
fn grid_position(index: usize, width: usize) -> (u32, u32) {
    ((index % width) as u32, (index / width) as u32)
}

/// The positions of the set bits of a word, ascending.
fn set_bits(mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        (word != 0).then(|| {
            let bit = word.trailing_zeros() as usize;
            word &= word - 1;
            bit
        })
    })
}
