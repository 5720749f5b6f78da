//! The largest sample difference of each tile in one row of tiles, between two frames.

use crate::simd::{Kernel, Vectors};
use foveate_core::frame::{FrameKind, FrameView, PixelFormat, PlaneShape};
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::tile::TILE_SIDE;

/// Which bytes of a row of frames of `kind` are samples: 255 for a sample and 0 for padding. As long as the longest row of any plane, as
/// only formats of one plane have such padding.
pub fn sample_mask(FrameKind { format, extent, .. }: FrameKind) -> Vec<u8> {
    let row_bytes = |plane| format.plane_shape(plane, extent).row_bytes as usize;
    let longest = (0..format.plane_count()).map(row_bytes).max().unwrap_or(0);
    let mut mask = vec![u8::MAX; longest];
    if format.has_fourth_byte() {
        // The fourth byte of a pixel.
        mask.iter_mut().skip(3).step_by(4).for_each(|byte| *byte = 0);
    } else if format == PixelFormat::Yuy2 && !extent.width.is_multiple_of(2) {
        // The second luma of the last pair, which has one pixel.
        mask[longest - 2] = 0;
    }
    mask
}

/// Raises, for each tile of one row of tiles, the largest difference so far to that of the samples of one plane.
///
/// Walks both frames in the order of memory; rows that are equal throughout cost one comparison.
#[derive(Debug)]
pub struct PlaneDifferences<'a> {
    /// The frame to compare.
    pub new: &'a FrameView<'a>,
    /// Index of the plane to compare.
    pub plane: usize,
    /// First row of the plane to compare.
    pub first_row: usize,
    /// The rows of the older frame, of `row_bytes` each, without gaps.
    pub old: &'a [u8],
    /// Bytes of a row.
    pub row_bytes: usize,
    /// Bytes of a row that are samples, from [`sample_mask`].
    pub mask: &'a [u8],
    /// Working memory for a row; 0 before and after.
    pub columns: &'a mut [u8],
    /// The largest difference of each tile.
    pub largest: &'a mut [u8],
}

impl Kernel for PlaneDifferences<'_> {
    #[inline(always)]
    fn run<V: Vectors>(self, _vectors: V) {
        let Self { new, plane, first_row, old, row_bytes, mask, columns, largest } = self;
        let columns = &mut columns[..row_bytes];
        let mut differs = false;
        for (y, old) in old.chunks_exact(row_bytes).enumerate() {
            let new = new.row(plane, first_row + y);
            // After a row that differs the next one mostly does too, and comparing it first would read it twice.
            if differs || new != old {
                differs = true;
                raise(columns, new, old);
            }
        }
        if differs {
            // A length that is known when this is compiled takes a few instructions.
            match tile_shape(new.format(), plane).row_bytes {
                16 => raise_tiles::<16>(largest, columns, mask),
                32 => raise_tiles::<32>(largest, columns, mask),
                64 => raise_tiles::<64>(largest, columns, mask),
                96 => raise_tiles::<96>(largest, columns, mask),
                128 => raise_tiles::<128>(largest, columns, mask),
                bytes => unreachable!("a tile of {bytes} bytes a row"),
            }
            columns.fill(0);
        }
    }
}

/// Raises each byte of `columns` to the difference of the corresponding bytes of two rows.
///
/// No branch and no mask, so that the compiler vectorises it.
#[inline(always)]
fn raise(columns: &mut [u8], new: &[u8], old: &[u8]) {
    for (column, (new, old)) in columns.iter_mut().zip(new.iter().zip(old)) {
        *column = (*column).max(new.abs_diff(*old));
    }
}

/// Raises the largest difference of each tile, `BYTES` wide, to that of the samples in `columns`.
#[inline(always)]
fn raise_tiles<const BYTES: usize>(largest: &mut [u8], columns: &[u8], mask: &[u8]) {
    let (whole, cut) = columns.as_chunks::<BYTES>();
    let (masks, _) = mask.as_chunks::<BYTES>();
    for ((largest, bytes), mask) in largest.iter_mut().zip(whole).zip(masks) {
        *largest = (*largest).max(largest_sample(bytes, mask));
    }
    if let Some(largest) = largest.get_mut(whole.len()) {
        *largest = (*largest).max(largest_sample(cut, &mask[whole.len() * BYTES..]));
    }
}

/// The largest of `bytes` where `mask` has a sample.
#[inline(always)]
fn largest_sample(bytes: &[u8], mask: &[u8]) -> u8 {
    bytes.iter().zip(mask).fold(0, |largest, (byte, mask)| largest.max(byte & mask))
}

/// The part of plane `index` of `format` under a tile away from the image's edges.
pub fn tile_shape(format: PixelFormat, index: usize) -> PlaneShape {
    format.plane_shape(index, Extent::new(TILE_SIDE, TILE_SIDE))
}
