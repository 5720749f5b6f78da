//! Which tiles are ingested again in a frame even if they did not change.

use std::num::NonZeroU32;
use std::ops::Range;

/// Cycles through the tiles in row-major order, once in a fixed number of frames.
#[derive(Clone, Debug)]
pub struct Refresh {
    tile_count: u64,
    round_frames: u64,
    /// Frames of this round so far; less than `round_frames`.
    frame: u64,
}

impl Refresh {
    /// Refreshes each of `tile_count` tiles within any `round_frames` consecutive frames.
    pub fn new(tile_count: usize, round_frames: NonZeroU32) -> Self {
        let round_frames = u64::from(round_frames.get());
        Self { tile_count: tile_count as u64, round_frames, frame: 0 }
    }

    /// The tiles to refresh in the next frame: `tile_count / round_frames` of them, rounded up in some frames and down
    /// in the others.
    pub fn advance(&mut self) -> Range<usize> {
        let turn = self.first_tile(self.frame)..self.first_tile(self.frame + 1);
        self.frame = (self.frame + 1) % self.round_frames;
        turn
    }

    /// The first tile of frame `frame` of a round.
    #[expect(clippy::cast_possible_truncation, reason = "at most the number of tiles, a usize")]
    fn first_tile(&self, frame: u64) -> usize {
        (frame * self.tile_count / self.round_frames) as usize
    }
}
