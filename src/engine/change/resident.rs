//! The resident copy: the samples that the pyramid was built from, in the camera's format.

use std::ops::Range;
use std::slice::ChunksMut;

use super::difference::{PlaneDifferences, tile_shape};
use crate::aligned::AlignedBytes;
use crate::simd::Instructions;
use foveate_core::frame::{FrameKind, FrameView, Plane, copy_row};

/// Owned samples of one frame, rows packed without gaps.
#[derive(Clone, Debug)]
pub struct ResidentFrame {
    kind: FrameKind,
    /// The planes of the format, then empty ones.
    planes: [AlignedBytes; 3],
}

impl ResidentFrame {
    /// A copy for frames of `kind`, all samples 0.
    pub fn new(kind: FrameKind) -> Self {
        let planes = std::array::from_fn(|index| {
            let rows = if index < kind.format.plane_count() { kind.rows(index) } else { 0 };
            AlignedBytes::new(rows * kind.row_bytes(index))
        });
        Self { kind, planes }
    }

    /// Format, colour and extent that all frames share.
    pub fn kind(&self) -> FrameKind {
        self.kind
    }

    /// The samples as a frame.
    pub fn view(&self) -> FrameView<'_> {
        let FrameKind { format, extent, color } = self.kind;
        let planes: [Plane<'_>; 3] = std::array::from_fn(|index| Plane {
            bytes: &self.planes[index],
            stride: self.kind.row_bytes(index),
        });
        FrameView::new(format, extent, color, &planes[..format.plane_count()])
            .expect("built from a frame of this format and extent")
    }

    /// Bands of `tile_rows` rows of tiles, from the top; the last may have fewer.
    pub fn bands(&mut self, tile_rows: usize) -> impl Iterator<Item = ResidentBand<'_>> {
        let kind = self.kind;
        let [luma, u, v] = &mut self.planes;
        let mut planes = [(0, luma), (1, u), (2, v)].map(|(index, plane)| {
            let rows = tile_rows * tile_shape(kind.format, index).rows as usize;
            plane.chunks_mut(rows * kind.row_bytes(index))
        });
        (0_usize..).step_by(tile_rows).map_while(move |first_tile_row| {
            let planes = planes.each_mut().map(ChunksMut::next);
            planes[0].is_some().then(|| {
                let planes = planes.map(Option::unwrap_or_default);
                ResidentBand { kind, first_tile_row, planes }
            })
        })
    }
}

/// A few rows of tiles of the copy, updated by one thread.
#[derive(Debug)]
pub struct ResidentBand<'a> {
    kind: FrameKind,
    first_tile_row: usize,
    planes: [&'a mut [u8]; 3],
}

impl ResidentBand<'_> {
    /// Rows of tiles, counted from the top of the image.
    pub fn tile_rows(&self) -> Range<usize> {
        let rows = self.planes[0].len() / self.kind.row_bytes(0);
        self.first_tile_row..self.first_tile_row + rows.div_ceil(self.rows_of_tile(0))
    }

    /// Sets `largest` to the largest difference between `frame` and the copy, for each tile in row `tile_row` of the
    /// image. `columns` is working memory for the longest row, all 0.
    pub fn measure(
        &self,
        frame: &FrameView<'_>,
        tile_row: usize,
        mask: &[u8],
        columns: &mut [u8],
        largest: &mut [u8],
        instructions: Instructions,
    ) {
        largest.fill(0);
        for plane in 0..self.kind.format.plane_count() {
            let rows = self.rows(plane, tile_row);
            let row_bytes = self.kind.row_bytes(plane);
            let first_byte = self.first_row(plane) * row_bytes;
            let old = rows.start * row_bytes - first_byte..rows.end * row_bytes - first_byte;
            instructions.run(PlaneDifferences {
                new: frame,
                plane,
                first_row: rows.start,
                old: &self.planes[plane][old],
                row_bytes,
                mask,
                columns: &mut *columns,
                largest: &mut *largest,
            });
        }
    }

    /// Copies the samples of the tiles in `columns` of row `tile_row` of the image from `frame`.
    pub fn copy_tiles(&mut self, frame: &FrameView<'_>, tile_row: usize, columns: Range<usize>) {
        for plane in 0..self.kind.format.plane_count() {
            let row_bytes = self.kind.row_bytes(plane);
            let tile_bytes = tile_shape(self.kind.format, plane).row_bytes as usize;
            let bytes = columns.start * tile_bytes..(columns.end * tile_bytes).min(row_bytes);
            let rows = self.rows(plane, tile_row);
            let skipped_rows = rows.start - self.first_row(plane);
            let Plane { bytes: source, stride } = frame.plane(plane);
            let sources = source[rows.start * stride..].chunks(stride);
            let targets = self.planes[plane].chunks_exact_mut(row_bytes).skip(skipped_rows);
            for (target, source) in targets.zip(sources).take(rows.len()) {
                copy_row(&mut target[bytes.clone()], &source[bytes.clone()]);
            }
        }
    }

    /// The band's first row of a plane.
    fn first_row(&self, plane: usize) -> usize {
        self.first_tile_row * self.rows_of_tile(plane)
    }

    /// The rows of a plane under row of tiles `tile_row`.
    fn rows(&self, plane: usize, tile_row: usize) -> Range<usize> {
        let rows = self.rows_of_tile(plane);
        let start = tile_row * rows;
        start..(start + rows).min(self.kind.rows(plane))
    }

    /// Rows of a plane under a tile.
    fn rows_of_tile(&self, plane: usize) -> usize {
        tile_shape(self.kind.format, plane).rows as usize
    }
}
