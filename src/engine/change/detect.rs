//! Finds the tiles of a frame to ingest, on the CPU.
//!
//! Twin, for GPUs that share the CPU's memory: `glsl/detect.comp`

use std::ops::Range;
use std::sync::Arc;

use super::difference::SampleMask;
use super::resident::ResidentFrame;
use crate::pool::Pool;
use crate::simd::Instructions;
use foveate_core::frame::{FrameKind, FrameView};
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::rule::IngestRule;
use foveate_core::geometry::tile::TILE_SIDE;

/// Most bands that the image is split into for the thread pool.
const BANDS_MAX: usize = 16;

/// With fewer tiles one thread is faster than sharing the work: about 10 us.
const WORTH_SHARING: usize = 300;

/// Compares the frames of one stream with its resident copy.
///
/// A tile is *dirty* when one of its samples differs from the resident copy by more than the threshold. The resident
/// copy of a tile that is not dirty stays as it is, so differences that build up over many frames count in full, and
/// no sample of the copy is ever further from the newest frame than the threshold.
#[derive(Debug)]
pub struct Detector {
    grid: Extent,
    resident: ResidentFrame,
    differences: TileDifferences,
    pool: Arc<Pool>,
    instructions: Instructions,
}

impl Detector {
    /// A detector for frames of `kind`, before the first.
    pub fn new(kind: FrameKind, pool: &Arc<Pool>, instructions: Instructions) -> Self {
        let grid = kind.extent.in_cells(TILE_SIDE);
        let mask = SampleMask::new(kind);
        let columns = vec![0; BANDS_MAX * mask.longest_row()];
        Self {
            grid,
            resident: ResidentFrame::new(kind),
            differences: TileDifferences { mask, columns, largest: vec![0; grid.area()] },
            pool: Arc::clone(pool),
            instructions,
        }
    }

    /// Copies the tiles of `frame` that `rule` selects into the resident copy, and returns the largest difference of a
    /// sample of each tile, row by row.
    ///
    /// # Panics
    ///
    /// If `frame` is of another kind than those that this was built for.
    pub fn compare(&mut self, frame: &FrameView<'_>, rule: &IngestRule) -> &[u8] {
        assert_eq!(frame.kind(), self.kind(), "frame of another kind");
        let Self { grid, resident, differences, pool, instructions } = self;
        let width = grid.width as usize;
        let worth_sharing = WORTH_SHARING <= grid.area();
        let band_count = if worth_sharing { BANDS_MAX } else { 1 };
        let tile_rows = (grid.height as usize).div_ceil(band_count);
        let TileDifferences { mask, columns, largest } = differences;
        let columns = columns.chunks_mut(mask.longest_row());
        let bands_largest = largest.chunks_mut(tile_rows * width);
        let mut bands = resident.bands(tile_rows).zip(columns.zip(bands_largest));
        let mut bands: [_; BANDS_MAX] = std::array::from_fn(|_| bands.next());
        pool.for_each(&mut bands[..band_count], &|band| {
            let Some((band, (columns, largest))) = band else { return };
            let rows = band.tile_rows();
            for (row, largest) in rows.zip(largest.chunks_mut(width)) {
                band.measure(frame, row, mask, columns, largest, *instructions);
                for run in changed_runs(rule, row * width, largest) {
                    band.copy_tiles(frame, row, run);
                }
            }
        });
        &self.differences.largest
    }

    /// The resident copy.
    pub fn resident(&self) -> FrameView<'_> {
        self.resident.view()
    }

    /// What the frames have in common.
    pub fn kind(&self) -> FrameKind {
        self.resident.kind()
    }
}

/// The runs of neighbouring tiles that `rule` selects in the row of tiles that begins with tile `first`, as columns.
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

/// The largest difference of each tile, and working memory to compute it.
#[derive(Debug)]
struct TileDifferences {
    mask: SampleMask,
    /// A row for each band.
    columns: Vec<u8>,
    /// For each tile, row by row, the largest difference of one of its samples.
    largest: Vec<u8>,
}
