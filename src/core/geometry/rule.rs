//! The rule by which tiles of a frame are ingested.

use std::ops::Range;

/// Decides for each tile of a frame whether it is ingested, that is, copied to the resident copy and the pyramid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IngestRule {
    /// The first frame is ingested whole, whatever the resident copy holds.
    pub is_first: bool,
    /// A tile is dirty if a sample differs from the resident copy by more than this.
    pub threshold: u8,
    /// Row-major indices of the tiles due for a refresh.
    pub refreshed: Range<usize>,
}

impl IngestRule {
    /// Whether tile `index` is ingested, given the largest difference of its samples.
    #[inline]
    pub fn ingests(&self, index: usize, largest: u8) -> bool {
        self.is_first || self.threshold < largest || self.refreshed.contains(&index)
    }

    /// Whether tile `index` is ingested and one of its resident samples changes.
    #[inline]
    pub fn changes(&self, index: usize, largest: u8) -> bool {
        self.is_first || 0 < largest && self.ingests(index, largest)
    }
}
