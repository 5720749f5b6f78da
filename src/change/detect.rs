//! Finds the tiles that the pyramid must take over from a frame, and remembers when each last changed.

use std::ops::Range;

use parking_lot::Mutex;

use super::difference::SampleMask;
use super::refresh::Refresh;
use super::resident::ResidentFrame;
use super::threshold::ThresholdSource;
use crate::config::ChangeConfig;
use crate::crew::Crew;
use crate::frame::{FrameKind, FrameView};
use crate::geometry::plan::PixelBox;
use crate::geometry::tile::{TILE_SIDE, TileSet};
use crate::simd::Instructions;

/// Most bands that the image is cut into, to be shared out among threads.
const MOST_BANDS: usize = 16;

/// Tiles below which a thread is quicker alone than it finds another: about 10 us of work.
const WORTH_SHARING: usize = 300;

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
    kind: FrameKind,
    resident: ResidentFrame,
    differences: TileDifferences,
    ingested: TileSet,
    /// For each tile, row by row, the `frame_seq` of the last frame that changed one of its resident samples.
    changed_frame: Vec<u64>,
    started: bool,
    crew: &'static Crew,
    instructions: Instructions,
}

impl ChangeDetector {
    /// Follows frames like `frame`, of which none has been seen yet.
    pub fn new(frame: &FrameView<'_>, config: ChangeConfig) -> Self {
        let ingested = TileSet::none(frame.extent());
        let tile_count = ingested.grid().area();
        let mask = SampleMask::new(frame.kind());
        let columns = vec![0; MOST_BANDS * mask.longest_row()];
        Self {
            threshold: ThresholdSource::new(frame.kind(), config.threshold),
            refresh: config.refresh_frames.map(|frames| Refresh::new(tile_count, frames)),
            kind: frame.kind(),
            resident: ResidentFrame::like(frame),
            differences: TileDifferences { mask, columns, largest: vec![0; tile_count] },
            ingested,
            changed_frame: vec![0; tile_count],
            started: false,
            crew: Crew::of_process(),
            instructions: Instructions::best(),
        }
    }

    /// Uses another crew and other instructions than the process has; what is found is the same.
    #[must_use]
    pub fn with_means(self, crew: &'static Crew, instructions: Instructions) -> Self {
        Self { crew, instructions, ..self }
    }

    /// Takes the tiles of `frame` that are dirty, and those whose turn to be refreshed it is, over into the resident
    /// copy; [`ingested`](Self::ingested) are those. All tiles of the first frame are dirty.
    ///
    /// # Panics
    ///
    /// If `frame` is of another kind than those that this was built for.
    pub fn detect(&mut self, frame: &FrameView<'_>, frame_seq: u64) {
        assert_eq!(frame.kind(), self.kind, "a frame unlike those before");
        let rule = Rule {
            is_first: !std::mem::replace(&mut self.started, true),
            threshold: self.threshold.advance(frame),
            refreshed: self.refresh.as_mut().map_or(0..0, Refresh::advance),
        };
        self.take_over(frame, &rule);
        self.note(frame_seq, &rule);
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

    /// Compares the frame with the copy, takes over what is to be ingested, and leaves in `largest` by how much each tile
    /// differed.
    fn take_over(&mut self, frame: &FrameView<'_>, rule: &Rule) {
        let Self { resident, differences, ingested, crew, instructions, .. } = self;
        let width = ingested.grid().width as usize;
        let worth_sharing = WORTH_SHARING <= ingested.grid().area();
        let band_count = if worth_sharing { MOST_BANDS } else { 1 };
        let tile_rows = (ingested.grid().height as usize).div_ceil(band_count);
        let TileDifferences { mask, columns, largest } = differences;
        let columns = columns.chunks_mut(mask.longest_row());
        let largest = largest.chunks_mut(tile_rows * width);
        let mut bands = resident.bands(tile_rows).zip(columns.zip(largest));
        let bands: [_; MOST_BANDS] = std::array::from_fn(|_| bands.next().map(Mutex::new));
        crew.share_out(band_count, &|index| {
            let Some(band) = &bands[index] else { return };
            let (band, (columns, largest)) = &mut *band.lock();
            let rows = band.tile_rows();
            for (row, largest) in rows.zip(largest.chunks_mut(width)) {
                band.measure(frame, row, mask, columns, largest, *instructions);
                for run in rule.changed_runs(row * width, largest) {
                    band.copy_tiles(frame, row, run);
                }
            }
        });
    }

    /// Keeps the books of what was taken over.
    fn note(&mut self, frame_seq: u64, rule: &Rule) {
        self.ingested.clear();
        for (index, &largest) in self.differences.largest.iter().enumerate() {
            if rule.ingests(index, largest) {
                self.ingested.insert_index(index);
                if rule.changes(index, largest) {
                    self.changed_frame[index] = frame_seq;
                }
            }
        }
    }
}

/// Which tiles of one frame are ingested.
#[derive(Clone, Debug)]
struct Rule {
    /// Of the first frame all tiles are taken over, whatever the copy holds.
    is_first: bool,
    threshold: u8,
    /// Indices of the tiles whose turn to be refreshed it is.
    refreshed: Range<usize>,
}

impl Rule {
    /// Whether the tile of this index, whose samples differ by at most `largest`, is ingested.
    fn ingests(&self, index: usize, largest: u8) -> bool {
        self.is_first || self.threshold < largest || self.refreshed.contains(&index)
    }

    /// Whether ingesting it changes one of its samples.
    fn changes(&self, index: usize, largest: u8) -> bool {
        self.is_first || 0 < largest && self.ingests(index, largest)
    }

    /// The runs of neighbours that change in a row of tiles that begins with tile `first`, as columns.
    fn changed_runs(&self, first: usize, largest: &[u8]) -> impl Iterator<Item = Range<usize>> {
        let changes = move |column: &usize| self.changes(first + column, largest[*column]);
        let mut next = 0;
        std::iter::from_fn(move || {
            let start = (next..largest.len()).find(&changes)?;
            let end = (start..largest.len()).find(|column| !changes(column));
            next = end.unwrap_or(largest.len());
            Some(start..next)
        })
    }
}

/// By how much each tile differs, and the memory that it takes to measure that.
#[derive(Debug)]
struct TileDifferences {
    mask: SampleMask,
    /// A row for each band.
    columns: Vec<u8>,
    /// For each tile, row by row, the largest difference of one of its samples.
    largest: Vec<u8>,
}

/// The tiles under the pixels `start..end` along one axis.
fn tiles(start: u32, end: u32) -> Range<usize> {
    (start / TILE_SIDE) as usize..end.div_ceil(TILE_SIDE) as usize
}
