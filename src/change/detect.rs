//! Finds the tiles in which any sample differs from the resident copy, and remembers when each last did.

use std::ops::Range;

use super::resident::{ResidentFrame, TileSpan};
use crate::frame::{FrameView, PixelFormat};
use crate::geometry::plan::PixelBox;
use crate::geometry::tile::{TILE_SIDE, TileSet};

/// Follows the changes of one stream of frames of one format and extent.
#[derive(Debug)]
pub struct ChangeDetector {
    resident: ResidentFrame,
    dirty: TileSet,
    /// For each tile, row by row, the `frame_seq` of the last frame that changed one of its samples.
    changed_frame: Vec<u64>,
    started: bool,
}

impl ChangeDetector {
    /// Follows frames like `frame`, of which none has been seen yet.
    pub fn new(frame: &FrameView<'_>) -> Self {
        let dirty = TileSet::none(frame.extent());
        let changed_frame = vec![0; dirty.grid().area()];
        Self { resident: ResidentFrame::like(frame), dirty, changed_frame, started: false }
    }

    /// Finds the tiles of `frame` that differ from the frame before, and takes them over into the resident copy.
    /// All tiles of the first frame are dirty.
    pub fn detect(&mut self, frame: &FrameView<'_>, frame_seq: u64) -> &TileSet {
        self.dirty.clear();
        if self.started {
            mark_changed_tiles(&mut self.dirty, frame, &self.resident.view());
        } else {
            self.dirty.fill();
            self.started = true;
        }
        for (column, row) in self.dirty.iter() {
            self.resident.copy_tile(frame, column, row);
        }
        for index in self.dirty.indices() {
            self.changed_frame[index] = frame_seq;
        }
        &self.dirty
    }

    /// What the pyramid is built from.
    pub fn resident(&self) -> FrameView<'_> {
        self.resident.view()
    }

    /// The newest `frame_seq` that changed a sample of a tile under `region`.
    pub fn changed_frame(&self, region: PixelBox) -> u64 {
        let columns = tiles(region.x0, region.x1);
        let width = self.dirty.grid().width as usize;
        let row = |row: usize| &self.changed_frame[row * width..][columns.clone()];
        tiles(region.y0, region.y1).flat_map(row).copied().max().unwrap_or(0)
    }
}

/// The tiles under the pixels `start..end` along one axis.
fn tiles(start: u32, end: u32) -> Range<usize> {
    (start / TILE_SIDE) as usize..end.div_ceil(TILE_SIDE) as usize
}

/// Walks both frames in the order of memory; rows that are equal throughout cost one comparison.
fn mark_changed_tiles(dirty: &mut TileSet, frame: &FrameView<'_>, resident: &FrameView<'_>) {
    let (format, extent) = (frame.format(), frame.extent());
    let grid = dirty.grid();
    let ends_in_half_a_pair = format == PixelFormat::Yuy2 && !extent.width.is_multiple_of(2);
    for index in 0..format.plane_count() {
        let span = TileSpan::new(format, index);
        let rows = format.plane_shape(index, extent).rows;
        for row in 0..grid.height {
            for y in span.rows(row, rows) {
                let (new, old) = (frame.row(index, y), resident.row(index, y));
                if new == old {
                    continue;
                }
                for column in 0..grid.width {
                    let bytes = span.bytes(column, new.len());
                    let samples = if format.is_rgb() {
                        Samples::ThreeOfFour
                    } else if ends_in_half_a_pair && column + 1 == grid.width {
                        Samples::AllButSecondToLast
                    } else {
                        Samples::All
                    };
                    if !dirty.contains(column, row)
                        && samples.differ(&new[bytes.clone()], &old[bytes])
                    {
                        dirty.insert(column, row);
                    }
                }
            }
        }
    }
}

/// Which bytes of a row are samples.
enum Samples {
    /// Every byte.
    All,
    /// Not the fourth of an RGB pixel.
    ThreeOfFour,
    /// Not the luma past the last pixel of a YUY2 row of odd width.
    AllButSecondToLast,
}

impl Samples {
    fn differ(&self, new: &[u8], old: &[u8]) -> bool {
        match self {
            Self::All => new != old,
            Self::ThreeOfFour => {
                new.chunks_exact(4).zip(old.chunks_exact(4)).any(|(new, old)| new[..3] != old[..3])
            }
            Self::AllButSecondToLast => {
                let unused = new.len() - 2;
                new[..unused] != old[..unused] || new[unused + 1..] != old[unused + 1..]
            }
        }
    }
}
