//! The copy, in the camera's format, of what the pyramid was built from.

use crate::color::ColorTransform;
use crate::frame::{FrameView, PixelFormat, Plane, PlaneShape};
use crate::geometry::extent::Extent;
use crate::geometry::tile::TILE_SIDE;

/// Owned samples of one frame, rows packed without gaps.
#[derive(Clone, Debug)]
pub struct ResidentFrame {
    format: PixelFormat,
    extent: Extent,
    color: ColorTransform,
    planes: Vec<Vec<u8>>,
}

impl ResidentFrame {
    /// Room for frames like `frame`, all samples 0.
    pub fn like(frame: &FrameView<'_>) -> Self {
        let (format, extent) = (frame.format(), frame.extent());
        let bytes = |index| {
            let PlaneShape { row_bytes, rows } = format.plane_shape(index, extent);
            vec![0; row_bytes as usize * rows as usize]
        };
        let planes = (0..format.plane_count()).map(bytes).collect();
        Self { format, extent, color: frame.color(), planes }
    }

    /// The samples as a frame.
    pub fn view(&self) -> FrameView<'_> {
        let plane =
            |index: usize| Plane { bytes: &self.planes[index], stride: self.row_bytes(index) };
        let planes: [Plane<'_>; 3] =
            std::array::from_fn(|index| plane(index.min(self.planes.len() - 1)));
        FrameView::new(self.format, self.extent, self.color, &planes[..self.planes.len()])
            .expect("built from a frame of this format and extent")
    }

    /// Takes over the samples of the tile in `column` and `row` from `frame`.
    pub fn copy_tile(&mut self, frame: &FrameView<'_>, column: u32, row: u32) {
        for index in 0..self.planes.len() {
            let span = TileSpan::new(self.format, index);
            let row_bytes = self.row_bytes(index);
            let bytes = span.bytes(column, row_bytes);
            let rows = self.format.plane_shape(index, self.extent).rows;
            for y in span.rows(row, rows) {
                let target = &mut self.planes[index][y * row_bytes..][bytes.clone()];
                target.copy_from_slice(&frame.row(index, y)[bytes.clone()]);
            }
        }
    }

    fn row_bytes(&self, index: usize) -> usize {
        self.format.plane_shape(index, self.extent).row_bytes as usize
    }
}

/// What one tile takes of one plane.
#[derive(Clone, Copy, Debug)]
pub struct TileSpan {
    /// Bytes of a row.
    pub row_bytes: usize,
    /// Rows.
    pub rows: usize,
}

impl TileSpan {
    /// What a tile takes of plane `index` of `format`, away from the edges of the image.
    pub fn new(format: PixelFormat, index: usize) -> Self {
        let PlaneShape { row_bytes, rows } =
            format.plane_shape(index, Extent::new(TILE_SIDE, TILE_SIDE));
        Self { row_bytes: row_bytes as usize, rows: rows as usize }
    }

    /// The bytes of tile `column` in a row of `row_bytes`.
    pub fn bytes(self, column: u32, row_bytes: usize) -> std::ops::Range<usize> {
        let start = column as usize * self.row_bytes;
        start..(start + self.row_bytes).min(row_bytes)
    }

    /// The rows of tile `row` in a plane of `rows`.
    pub fn rows(self, row: u32, rows: u32) -> std::ops::Range<usize> {
        let start = row as usize * self.rows;
        start..(start + self.rows).min(rows as usize)
    }
}
