//! Which tiles a frame brings up to date.

use std::ops::Range;

/// Says of each tile of one frame whether it is ingested, that is, taken over into the resident copy and the pyramid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IngestRule {
    /// Of the first frame all tiles are taken over, whatever the resident copy holds.
    pub is_first: bool,
    /// A tile with a sample that differs from the resident copy by more is dirty.
    pub threshold: u8,
    /// Row-major indices of the tiles whose turn to be refreshed it is.
    pub refreshed: Range<usize>,
}

impl IngestRule {
    /// Whether the tile of this index, whose samples differ by at most `largest`, is ingested.
    pub fn ingests(&self, index: usize, largest: u8) -> bool {
        self.is_first || self.threshold < largest || self.refreshed.contains(&index)
    }

    /// Whether ingesting it changes one of its samples.
    pub fn changes(&self, index: usize, largest: u8) -> bool {
        self.is_first || 0 < largest && self.ingests(index, largest)
    }
}
