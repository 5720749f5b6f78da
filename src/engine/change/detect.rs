//! Finds the tiles of a frame to ingest, on the CPU.
//!
//! Twin, for GPUs that share the CPU's memory: `glsl/detect.comp`

use std::ops::Range;
use std::sync::Arc;

use super::difference::sample_mask;
use super::resident::ResidentFrame;
use crate::aligned::{AlignedBytes, LINE};
use crate::pool::Pool;
use foveate_core::clock::monotonic_ns;
use foveate_core::frame::{FrameKind, FrameView};
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::rule::IngestRule;
use foveate_core::geometry::tile::TILE_SIDE;

/// Most bands that the image is split into for the thread pool.
pub const BANDS_MAX: usize = 16;

/// Fewest tiles whose work is shared; with fewer, about 10 us of work, one thread is faster.
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
    /// For each byte of the longest row, 255 for a sample and 0 for padding.
    mask: Vec<u8>,
    /// Working memory: a row for each band.
    columns: AlignedBytes,
    /// For each tile, row by row, the largest difference of one of its samples.
    largest: Vec<u8>,
    pool: Arc<Pool>,
}

impl Detector {
    /// A detector for frames of `kind`, before the first; `pool` does the work.
    pub fn new(kind: FrameKind, pool: &Arc<Pool>) -> Self {
        let grid = kind.extent.in_cells(TILE_SIDE);
        let mask = sample_mask(kind);
        let columns = AlignedBytes::new(bands_of(grid) * columns_bytes(&mask));
        Self {
            grid,
            resident: ResidentFrame::new(kind),
            mask,
            columns,
            largest: vec![0; grid.area()],
            pool: Arc::clone(pool),
        }
    }

    /// Copies the tiles of `frame` that `rule` selects into the resident copy, and returns the largest difference of a
    /// sample of each tile, row by row.
    ///
    /// # Panics
    ///
    /// If `frame` is not of the kind that the detector was built for.
    pub fn compare(&mut self, frame: &FrameView<'_>, rule: &IngestRule) -> &[u8] {
        self.compare_and(frame, rule, std::iter::repeat(()), &|(), _, _| ()).0
    }

    /// Does what [`compare`](Self::compare) does, and calls `then` after each row of tiles in which `rule` ingests some, while the samples
    /// of the row are in the caches. The arguments of `then` are the part of the row's band, which is [`band_rows`](Self::band_rows) rows
    /// high, the number of the row, and the runs of neighbouring tiles to ingest, as columns. Also returns the share of the time that
    /// `then` took, 0 to 1.
    ///
    /// # Panics
    ///
    /// As [`compare`](Self::compare), and if there are fewer `parts` than bands.
    pub fn compare_and<P: Send>(
        &mut self,
        frame: &FrameView<'_>,
        rule: &IngestRule,
        parts: impl IntoIterator<Item = P>,
        then: &(impl Fn(&mut P, usize, &mut dyn Iterator<Item = Range<usize>>) + Sync),
    ) -> (&[u8], f64) {
        assert_eq!(frame.kind(), self.kind(), "frame of another kind");
        let (width, tile_rows) = (self.grid.width as usize, self.band_rows());
        let Self { grid, resident, mask, columns, largest, pool } = self;
        let (mask, instructions) = (&*mask, pool.instructions());
        let band_count = (grid.height as usize).div_ceil(tile_rows);
        let columns = columns.chunks_mut(columns_bytes(mask));
        let bands_largest = largest.chunks_mut(tile_rows * width);
        let mut parts = parts.into_iter();
        let mut bands = resident.bands(tile_rows).zip(columns.zip(bands_largest)).map(|band| {
            let part = parts.next().expect("a part for each band");
            (band, part, [0_u64; 2])
        });
        let mut bands: [_; BANDS_MAX] = std::array::from_fn(|_| bands.next());
        pool.for_each(&mut bands[..band_count], &|band| {
            let Some(((band, (columns, largest)), part, spent_ns)) = band else { return };
            let rows = band.tile_rows();
            let start_ns = monotonic_ns();
            // A look at the clock takes a tenth of the time of a tile: the first row stands for the others.
            let (mut first_ns, mut rows_then) = (0, 0);
            for (row, largest) in rows.zip(largest.chunks_mut(width)) {
                band.measure(frame, row, mask, columns, largest, instructions);
                let changes = |column, largest| rule.changes(row * width + column, largest);
                for run in runs(largest, changes) {
                    band.copy_tiles(frame, row, run);
                }
                let ingests = |column, largest| rule.ingests(row * width + column, largest);
                let mut runs = runs(largest, ingests).peekable();
                if runs.peek().is_some() {
                    let then_ns = if rows_then == 0 { monotonic_ns() } else { 0 };
                    then(part, row, &mut runs);
                    if rows_then == 0 {
                        first_ns = monotonic_ns() - then_ns;
                    }
                    rows_then += 1;
                }
            }
            let all_ns = monotonic_ns() - start_ns;
            *spent_ns = [(first_ns * rows_then).min(all_ns), all_ns];
        });
        let [then_ns, all_ns] = bands
            .iter()
            .flatten()
            .fold([0, 0], |[then, all], (_, _, spent_ns)| [then + spent_ns[0], all + spent_ns[1]]);
        let share = then_ns as f64 / all_ns.max(1) as f64;
        (&self.largest, share)
    }

    /// Rows of tiles that one thread works on at a time.
    pub fn band_rows(&self) -> usize {
        (self.grid.height as usize).div_ceil(bands_of(self.grid))
    }

    /// The resident copy.
    pub fn resident(&self) -> FrameView<'_> {
        self.resident.view()
    }

    /// Format, colour and extent that all frames share.
    pub fn kind(&self) -> FrameKind {
        self.resident.kind()
    }
}

/// Most bands that an image of so many tiles is split into.
pub fn bands_of(grid: Extent) -> usize {
    if grid.area() < WORTH_SHARING { 1 } else { BANDS_MAX }
}

/// Bytes of a band's row of working memory.
fn columns_bytes(mask: &[u8]) -> usize {
    mask.len().next_multiple_of(LINE)
}

/// The runs of neighbouring tiles of a row that are `wanted`, as columns; `largest` are its largest differences.
pub fn runs(
    largest: &[u8],
    wanted: impl Fn(usize, u8) -> bool,
) -> impl Iterator<Item = Range<usize>> {
    let wanted = move |column: &usize| wanted(*column, largest[*column]);
    let mut next = 0;
    std::iter::from_fn(move || {
        let start = (next..largest.len()).find(&wanted)?;
        let end = (start..largest.len()).find(|column| !wanted(column));
        next = end.unwrap_or(largest.len());
        Some(start..next)
    })
}
