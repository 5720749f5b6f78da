//! Finds the tiles that the pyramid must take over from a frame, on the CPU.
//!
//! Twin, where memory is shared with a GPU: `glsl/detect.comp`

use std::ops::Range;

use super::books::ChangeBooks;
use super::difference::SampleMask;
use super::resident::ResidentFrame;
use crate::config::ChangeConfig;
use crate::crew::Crew;
use crate::frame::FrameView;
use crate::geometry::rule::IngestRule;
use crate::geometry::tile::TileSet;
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
    books: ChangeBooks,
    resident: ResidentFrame,
    differences: TileDifferences,
    crew: &'static Crew,
    instructions: Instructions,
}

impl ChangeDetector {
    /// Follows frames like `frame`, of which none has been seen yet.
    pub fn new(frame: &FrameView<'_>, config: ChangeConfig) -> Self {
        let books = ChangeBooks::new(frame.kind(), config);
        let tile_count = books.ingested().grid().area();
        let mask = SampleMask::new(frame.kind());
        let columns = vec![0; MOST_BANDS * mask.longest_row()];
        Self {
            books,
            resident: ResidentFrame::like(frame),
            differences: TileDifferences { mask, columns, largest: vec![0; tile_count] },
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
        let rule = self.books.rule(frame);
        self.take_over(frame, &rule);
        self.books.note(frame_seq, &rule, &self.differences.largest);
    }

    /// What is known of the changes so far.
    pub fn books(&self) -> &ChangeBooks {
        &self.books
    }

    /// The tiles that the newest frame changed or refreshed.
    pub fn ingested(&self) -> &TileSet {
        self.books.ingested()
    }

    /// What the pyramid is built from.
    pub fn resident(&self) -> FrameView<'_> {
        self.resident.view()
    }

    /// Compares the frame with the copy, takes over what is to be ingested, and leaves in `largest` by how much each tile
    /// differed.
    fn take_over(&mut self, frame: &FrameView<'_>, rule: &IngestRule) {
        let Self { books, resident, differences, crew, instructions } = self;
        let grid = books.ingested().grid();
        let width = grid.width as usize;
        let worth_sharing = WORTH_SHARING <= grid.area();
        let band_count = if worth_sharing { MOST_BANDS } else { 1 };
        let tile_rows = (grid.height as usize).div_ceil(band_count);
        let TileDifferences { mask, columns, largest } = differences;
        let columns = columns.chunks_mut(mask.longest_row());
        let largest = largest.chunks_mut(tile_rows * width);
        let mut bands = resident.bands(tile_rows).zip(columns.zip(largest));
        let mut bands: [_; MOST_BANDS] = std::array::from_fn(|_| bands.next());
        crew.share_each(&mut bands[..band_count], &|band| {
            let Some((band, (columns, largest))) = band else { return };
            let rows = band.tile_rows();
            for (row, largest) in rows.zip(largest.chunks_mut(width)) {
                band.measure(frame, row, mask, columns, largest, *instructions);
                for run in changed_runs(rule, row * width, largest) {
                    band.copy_tiles(frame, row, run);
                }
            }
        });
    }
}

/// The runs of neighbours that change by `rule` in a row of tiles that begins with tile `first`, as columns.
fn changed_runs(
    rule: &IngestRule,
    first: usize,
    largest: &[u8],
) -> impl Iterator<Item = Range<usize>> {
    let changes = move |column: &usize| rule.changes(first + column, largest[*column]);
    let mut next = 0;
    std::iter::from_fn(move || {
        let start = (next..largest.len()).find(&changes)?;
        let end = (start..largest.len()).find(|column| !changes(column));
        next = end.unwrap_or(largest.len());
        Some(start..next)
    })
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
