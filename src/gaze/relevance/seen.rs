//! The input of gaze decisions: coarse level, motion and channels of a frame.

use super::features::TileFeatures;
use crate::motion::Motions;
use foveate_core::geometry::coarse::CoarseLevel;
use foveate_core::geometry::plan::TokenPlan;

/// What was seen of a frame, for the gaze at the next one.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The coarse level.
    pub coarse: &'a CoarseLevel,
    /// `frame_seq` of the frame.
    pub frame_seq: u64,
    /// Motion of the picture up to the frame, if it is known.
    pub motion: Option<&'a Motions>,
    /// Tiles of the frame; `None` if no policy reads them.
    pub tiles: Option<SeenTiles<'a>>,
    /// The tokens of the view.
    pub plan: Option<&'a TokenPlan>,
}

/// The tiles of a frame, row by row.
#[derive(Clone, Copy, Debug)]
pub struct SeenTiles<'a> {
    /// Features of each tile.
    pub features: &'a [TileFeatures],
    /// For each tile, `frame_seq` of the last frame that changed it.
    pub changed_frame: &'a [u64],
    /// Luma of black: 16 in limited range, else 0.
    pub black: u8,
}

/// Parts of a frame that somebody [reads](Seen).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameParts {
    /// Whether the coarse level and the motion are read.
    pub coarse: bool,
    /// Whether the tiles are read.
    pub tiles: bool,
}

impl FrameParts {
    /// The parts of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { coarse: self.coarse || other.coarse, tiles: self.tiles || other.tiles }
    }
}

impl<'a> Seen<'a> {
    /// The coarse level alone.
    pub fn coarsely(coarse: &'a CoarseLevel, frame_seq: u64) -> Self {
        Self { coarse, frame_seq, motion: None, tiles: None, plan: None }
    }
}
