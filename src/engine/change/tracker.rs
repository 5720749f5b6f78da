//! Which tiles of each frame are ingested, and when each last changed, independent of where frames are compared.

use super::refresh::Refresh;
use super::threshold::ThresholdSource;
use foveate_core::change::ChangeConfig;
use foveate_core::frame::{FrameKind, FrameView};
use foveate_core::geometry::region::PixelBox;
use foveate_core::geometry::rule::IngestRule;
use foveate_core::geometry::tile::{TileSet, tiles_under};

/// Decides which tiles of each frame are ingested, and remembers when each last changed.
///
/// For each frame: [`rule`](Self::rule), then a comparison with the resident copy, then [`note`](Self::note).
#[derive(Clone, Debug)]
pub struct ChangeTracker {
    threshold: ThresholdSource,
    /// `None` if clean tiles are never refreshed.
    refresh: Option<Refresh>,
    kind: FrameKind,
    ingested: TileSet,
    /// For each tile, row by row, the `frame_seq` of the last frame that changed one of its resident samples.
    changed_frame: Vec<u64>,
    /// For each tile, row by row, the largest difference from the resident copy that the next frame has if it equals the newest.
    settled: Vec<u8>,
    /// Tiles with a sample that differs from the frame before.
    differing: usize,
    /// The newest frame that was noted.
    frame_seq: u64,
    started: bool,
    /// Whether every difference in the next frame counts, whatever the threshold.
    matches_next: bool,
}

impl ChangeTracker {
    /// A tracker for frames of `kind`, before the first.
    pub fn new(kind: FrameKind, config: ChangeConfig) -> Self {
        let ingested = TileSet::none(kind.extent);
        let tile_count = ingested.grid().area();
        Self {
            threshold: ThresholdSource::new(kind, config.threshold),
            refresh: config.refresh_frames.map(|frames| Refresh::new(tile_count, frames)),
            kind,
            ingested,
            changed_frame: vec![0; tile_count],
            settled: vec![0; tile_count],
            differing: 0,
            frame_seq: 0,
            started: false,
            matches_next: false,
        }
    }

    /// Has the resident copy match the next frame sample for sample, whatever the threshold.
    pub fn match_next(&mut self) {
        self.matches_next = true;
    }

    /// The rule for the next frame; all tiles of the first one are ingested.
    pub fn rule(&mut self) -> IngestRule {
        let threshold = self.threshold.advance();
        IngestRule {
            is_first: !std::mem::replace(&mut self.started, true),
            threshold: if std::mem::take(&mut self.matches_next) { 0 } else { threshold },
            refreshed: self.refresh.as_mut().map_or(0..0, Refresh::advance),
        }
    }

    /// Notes `frame`, number `frame_seq`, whose tiles were ingested by `rule`; `largest` is the largest difference of each tile from
    /// the resident copy, row by row. If the threshold follows the noise, looks at the frame for it, which comparing has left in the
    /// caches.
    ///
    /// # Panics
    ///
    /// If `frame` is of another kind than those that this was built for.
    pub fn note(
        &mut self,
        frame: &FrameView<'_>,
        frame_seq: u64,
        rule: &IngestRule,
        largest: &[u8],
    ) {
        assert_eq!(frame.kind(), self.kind, "frame of another kind");
        assert_eq!(largest.len(), self.changed_frame.len(), "a difference for each tile");
        self.threshold.observe(frame);
        self.ingested.clear();
        self.frame_seq = frame_seq;
        self.differing =
            if rule.is_first { largest.len() } else { differing(largest, &self.settled) };
        self.settled.copy_from_slice(largest);
        let most = largest.iter().fold(0, |most, largest| most.max(*largest));
        if !rule.is_first && rule.refreshed.is_empty() && most <= rule.threshold {
            // Fast path: most frames of a still scene ingest no tile.
            return;
        }
        for (index, &largest) in largest.iter().enumerate() {
            if rule.ingests(index, largest) {
                // The copy is of this frame now.
                self.settled[index] = 0;
                self.ingested.insert_index(index);
                if rule.changes(index, largest) {
                    self.changed_frame[index] = frame_seq;
                }
            }
        }
    }

    /// Tiles of the newest frame that are known to differ from the frame before: the largest difference from the resident copy is
    /// another one. With a threshold of 0 it is exactly the tiles that differ; with a higher one two frames that differ may
    /// have the same largest difference, but hardly in all tiles, and equal frames always have.
    pub fn differing(&self) -> usize {
        self.differing
    }

    /// The tiles that were ingested for the newest frame.
    pub fn ingested(&self) -> &TileSet {
        &self.ingested
    }

    /// The threshold of the newest frame, and the noise that it follows.
    pub fn threshold(&self) -> &ThresholdSource {
        &self.threshold
    }

    /// The largest possible difference between the resident copy and the newest frame.
    pub fn sample_bound(&self) -> u8 {
        self.threshold.current()
    }

    /// For each tile, row by row, the `frame_seq` of the last frame that changed one of its resident samples.
    pub fn changed_frames(&self) -> &[u64] {
        &self.changed_frame
    }

    /// The newest `frame_seq` that changed a resident sample of a tile under `region`.
    pub fn changed_frame(&self, region: PixelBox) -> u64 {
        let columns = tiles_under(region.x0, region.x1);
        let columns = columns.start as usize..columns.end as usize;
        let width = self.ingested.grid().width as usize;
        let mut newest = 0;
        for row in tiles_under(region.y0, region.y1) {
            let frames = &self.changed_frame[row as usize * width..][columns.clone()];
            newest = frames.iter().fold(newest, |newest, frame| newest.max(*frame));
            if newest == self.frame_seq {
                // No tile can be newer than this frame.
                break;
            }
        }
        newest
    }
}

/// The number of places at which `a` and `b` differ.
fn differing(a: &[u8], b: &[u8]) -> usize {
    // As many as a byte can count, so that the compiler counts many at once.
    let pieces = a.chunks(u8::MAX.into()).zip(b.chunks(u8::MAX.into()));
    let counts = pieces.map(|(a, b)| a.iter().zip(b).map(|(a, b)| u8::from(a != b)).sum::<u8>());
    counts.map(usize::from).sum()
}
