//! Finds the tiles that the pyramid must take over from a frame, and remembers when each last changed.

use std::ops::Range;

use super::difference::TileDifferences;
use super::refresh::Refresh;
use super::resident::ResidentFrame;
use super::threshold::ThresholdSource;
use crate::config::ChangeConfig;
use crate::frame::FrameView;
use crate::geometry::plan::PixelBox;
use crate::geometry::tile::{TILE_SIDE, TileSet};

/// Follows the changes of one stream of frames of one kind.
///
/// A tile is *dirty* when one of its samples differs from the resident copy by more than the threshold. The resident
/// copy of a tile that is not dirty stays as it is, so differences that build up over many frames count in full, and
/// no sample of the copy is ever further from the newest frame than the threshold.
#[derive(Debug)]
pub struct ChangeDetector {
    threshold: ThresholdSource,
    /// `None` where a tile may rest for as long as it is not dirty.
    refresh: Option<Refresh>,
    resident: ResidentFrame,
    differences: TileDifferences,
    ingested: TileSet,
    /// For each tile, row by row, the `frame_seq` of the last frame that changed one of its resident samples.
    changed_frame: Vec<u64>,
    started: bool,
}

impl ChangeDetector {
    /// Follows frames like `frame`, of which none has been seen yet.
    pub fn new(frame: &FrameView<'_>, config: ChangeConfig) -> Self {
        let ingested = TileSet::none(frame.extent());
        let tile_count = ingested.grid().area();
        Self {
            threshold: ThresholdSource::new(frame.kind(), config.threshold),
            refresh: config.refresh_frames.map(|frames| Refresh::new(tile_count, frames)),
            resident: ResidentFrame::like(frame),
            differences: TileDifferences::new(frame.kind()),
            ingested,
            changed_frame: vec![0; tile_count],
            started: false,
        }
    }

    /// Takes the tiles of `frame` that are dirty, and those whose turn to be refreshed it is, over into the resident
    /// copy; [`ingested`](Self::ingested) are those. All tiles of the first frame are dirty.
    ///
    /// # Panics
    ///
    /// If `frame` is of another kind than those that this was built for.
    pub fn detect(&mut self, frame: &FrameView<'_>, frame_seq: u64) {
        let threshold = self.threshold.advance(frame);
        let refreshed = self.refresh.as_mut().map_or(0..0, Refresh::advance);
        if self.started {
            self.take_changes(frame, frame_seq, threshold, &refreshed);
        } else {
            self.take_all(frame, frame_seq);
            self.started = true;
        }
    }

    /// The tiles that the newest frame changed or refreshed.
    pub fn ingested(&self) -> &TileSet {
        &self.ingested
    }

    /// Where the threshold comes from: what it was for the newest frame, which is the most by which a sample of the
    /// resident copy differs from that frame, and the noise that it follows.
    pub fn threshold(&self) -> &ThresholdSource {
        &self.threshold
    }

    /// The most by which a sample of the resident copy differs from the newest frame.
    pub fn sample_bound(&self) -> u8 {
        self.threshold.current()
    }

    /// What the pyramid is built from.
    pub fn resident(&self) -> FrameView<'_> {
        self.resident.view()
    }

    /// The newest `frame_seq` that changed a resident sample of a tile under `region`.
    pub fn changed_frame(&self, region: PixelBox) -> u64 {
        let columns = tiles(region.x0, region.x1);
        let width = self.ingested.grid().width as usize;
        let row = |row: usize| &self.changed_frame[row * width..][columns.clone()];
        tiles(region.y0, region.y1).flat_map(row).copied().max().unwrap_or(0)
    }

    fn take_all(&mut self, frame: &FrameView<'_>, frame_seq: u64) {
        self.ingested.fill();
        for (column, row) in self.ingested.iter() {
            self.resident.copy_tile(frame, column, row);
        }
        self.changed_frame.fill(frame_seq);
    }

    fn take_changes(
        &mut self,
        frame: &FrameView<'_>,
        frame_seq: u64,
        threshold: u8,
        refreshed: &Range<usize>,
    ) {
        self.ingested.clear();
        let grid = self.ingested.grid();
        let largest = self.differences.measure(frame, &self.resident.view());
        let places =
            (0..grid.height).flat_map(|row| (0..grid.width).map(move |column| (column, row)));
        for (index, ((column, row), &largest)) in places.zip(largest).enumerate() {
            if largest <= threshold && !refreshed.contains(&index) {
                continue;
            }
            self.ingested.insert(column, row);
            if 0 < largest {
                self.resident.copy_tile(frame, column, row);
                self.changed_frame[index] = frame_seq;
            }
        }
    }
}

/// The tiles under the pixels `start..end` along one axis.
fn tiles(start: u32, end: u32) -> Range<usize> {
    (start / TILE_SIDE) as usize..end.div_ceil(TILE_SIDE) as usize
}
