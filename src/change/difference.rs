//! By how much the samples of each tile differ between two frames.

use super::resident::TileSpan;
use crate::frame::{FrameKind, FrameView, PixelFormat};
use crate::geometry::extent::Extent;
use crate::geometry::tile::TILE_SIDE;

/// Measures frames of one kind, tile by tile, with all the memory that it takes.
#[derive(Debug)]
pub struct TileDifferences {
    kind: FrameKind,
    grid: Extent,
    /// For each tile, row by row, the largest difference of one of its samples.
    largest: Vec<u8>,
    /// For each byte of a row, the largest difference in the rows of one plane within one row of tiles; 0 between
    /// two rows of tiles.
    columns: Vec<u8>,
    /// For each byte of a row, 255 if it is a sample and 0 if it means nothing.
    sample_mask: Vec<u8>,
}

impl TileDifferences {
    /// Room for the tiles of frames of `kind`.
    pub fn new(kind: FrameKind) -> Self {
        let grid = kind.extent.in_cells(TILE_SIDE);
        let sample_mask = sample_mask(kind);
        let columns = vec![0; sample_mask.len()];
        Self { kind, grid, largest: vec![0; grid.area()], columns, sample_mask }
    }

    /// For each tile, row by row, the largest difference between a sample of `new` and the same one of `old`.
    ///
    /// Walks both frames in the order of memory; rows that are equal throughout cost one comparison.
    ///
    /// # Panics
    ///
    /// If a frame is of another kind.
    pub fn measure(&mut self, new: &FrameView<'_>, old: &FrameView<'_>) -> &[u8] {
        assert!(
            new.kind() == self.kind && old.kind() == self.kind,
            "frames unlike {:?}",
            self.kind
        );
        self.largest.fill(0);
        for plane in 0..self.kind.format.plane_count() {
            self.measure_plane(plane, new, old);
        }
        &self.largest
    }

    fn measure_plane(&mut self, plane: usize, new: &FrameView<'_>, old: &FrameView<'_>) {
        let span = TileSpan::new(self.kind.format, plane);
        let shape = self.kind.format.plane_shape(plane, self.kind.extent);
        let columns = &mut self.columns[..shape.row_bytes as usize];
        let tile_rows = self.largest.chunks_exact_mut(self.grid.width as usize);
        for (row, tiles) in (0..self.grid.height).zip(tile_rows) {
            let mut differs = false;
            for y in span.rows(row, shape.rows) {
                let (new, old) = (new.row(plane, y), old.row(plane, y));
                if new != old {
                    differs = true;
                    raise(columns, new, old);
                }
            }
            if differs {
                let bytes = columns.chunks(span.row_bytes);
                let masks = self.sample_mask.chunks(span.row_bytes);
                for (tile, (bytes, mask)) in tiles.iter_mut().zip(bytes.zip(masks)) {
                    *tile = (*tile).max(largest_sample(bytes, mask));
                }
                columns.fill(0);
            }
        }
    }
}

/// Raises each byte of `columns` to the difference of the bytes at its place in two rows of as many.
///
/// No branch and no mask, so that the compiler makes it a loop over whole registers.
fn raise(columns: &mut [u8], new: &[u8], old: &[u8]) {
    for (column, (new, old)) in columns.iter_mut().zip(new.iter().zip(old)) {
        *column = (*column).max(new.abs_diff(*old));
    }
}

/// The largest of `bytes` where `mask` has a sample.
fn largest_sample(bytes: &[u8], mask: &[u8]) -> u8 {
    bytes.iter().zip(mask).fold(0, |largest, (byte, mask)| largest.max(byte & mask))
}

/// 255 for each byte of a row that is a sample, 0 for each that means nothing, over the longest row of any plane. Only
/// formats of one plane have such bytes.
fn sample_mask(FrameKind { format, extent, .. }: FrameKind) -> Vec<u8> {
    let row_bytes = |plane| format.plane_shape(plane, extent).row_bytes as usize;
    let longest = (0..format.plane_count()).map(row_bytes).max().unwrap_or(0);
    let mut mask = vec![u8::MAX; longest];
    if format.is_rgb() {
        // The fourth byte of a pixel.
        mask.iter_mut().skip(3).step_by(4).for_each(|byte| *byte = 0);
    } else if format == PixelFormat::Yuy2 && !extent.width.is_multiple_of(2) {
        // The second luma of the last pair, which has one pixel.
        mask[longest - 2] = 0;
    }
    mask
}
