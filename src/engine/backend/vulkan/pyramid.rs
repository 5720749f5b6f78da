//! The pyramid's layout on the device.
//!
//! Levels 0 to 5 are the mips of one image. Vulkan's mips are floor-sized, so its extent is padded to whole tiles:
//! then each mip holds the ceil-sized level, and the padding is never read. The tail above is small, so it is a plain
//! buffer of texels, next to one of the exact sums that it is made from; both hold level after level, from the tile
//! grid (level 5) up.

use std::sync::Arc;

use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::pyramid::{PyramidShape, TILE_LEVEL_COUNT};
use foveate_core::geometry::tile::TILE_SIDE;
use foveate_gpu::{Binding, Buffer, BufferKind, Gpu, GpuError, Image, Lane, Recorder};

/// Bytes of an entry of [`GpuPyramid::sums`]: R, G, B and the number of pixels, 32 bits each.
const SUM_BYTES: usize = 16;

/// Bytes of a texel: R, G, B and an unused byte.
pub(super) const TEXEL_BYTES: usize = 4;

/// The resident pyramid of one stream, or the pyramids of several pictures of one size, a layer for each.
#[derive(Debug)]
pub(super) struct GpuPyramid {
    shape: PyramidShape,
    layer_count: u32,
    levels: Image,
    /// The sums of the tiles, and of the texels of the tail.
    pub(super) sums: Buffer,
    /// The texels of the tail, at the same indices as their sums.
    pub(super) tail: Buffer,
}

impl GpuPyramid {
    /// Memory for `layer_count` pyramids; their texels are undefined.
    ///
    /// # Errors
    ///
    /// If the device has too little memory, or does not allow images of this size.
    pub(super) fn new(
        gpu: &Arc<Gpu>,
        shape: PyramidShape,
        layer_count: u32,
    ) -> Result<Self, GpuError> {
        let grid = shape.extent().in_cells(TILE_SIDE);
        let padded = Extent::new(grid.width * TILE_SIDE, grid.height * TILE_SIDE);
        let sum_count = layer_sums(shape) * layer_count as usize;
        Ok(Self {
            shape,
            layer_count,
            levels: Image::new(gpu, "pyramid levels", padded, TILE_LEVEL_COUNT, layer_count)?,
            sums: Buffer::new(gpu, "tile sums", BufferKind::DeviceOnly, sum_count * SUM_BYTES)?,
            tail: Buffer::new(gpu, "tail texels", BufferKind::DeviceOnly, sum_count * TEXEL_BYTES)?,
        })
    }

    /// Number of layers, each of which is a pyramid.
    pub(super) fn layer_count(&self) -> u32 {
        self.layer_count
    }

    /// Levels 0 to 5, for fetching.
    pub(super) fn levels(&self) -> Binding<'_> {
        Binding::Fetch(&self.levels)
    }

    /// One of levels 0 to 5, for writing.
    pub(super) fn level(&self, level: u32) -> Binding<'_> {
        Binding::WriteLevel(&self.levels, level)
    }

    /// Copies a level of the first layer out: R, G, B interleaved, row by row.
    pub(super) fn read_level(
        &self,
        gpu: &Arc<Gpu>,
        lane: &mut Lane,
        level: u32,
    ) -> Result<Vec<u8>, GpuError> {
        assert!(level < self.shape.level_count(), "the pyramid has no level {level}");
        let size = self.shape.level_extent(level).area() * TEXEL_BYTES;
        let mut readback = Buffer::new(gpu, "level readback", BufferKind::Readback, size)?;
        lane.run(|recorder| self.record_copy(recorder, level, &readback))?;
        let texels = readback.mapped::<[u8; TEXEL_BYTES]>();
        Ok(texels.iter().flat_map(|&[r, g, b, _]| [r, g, b]).collect())
    }

    /// Copies the texels of a level of the first layer to `target`, which has the same size.
    pub(super) fn record_copy<'a>(
        &'a self,
        recorder: &mut Recorder<'a>,
        level: u32,
        target: &'a Buffer,
    ) {
        if level < TILE_LEVEL_COUNT {
            recorder.copy_level(&self.levels, level, self.shape.level_extent(level), target);
        } else {
            let offset = tail_offset(self.shape, level) * TEXEL_BYTES;
            recorder.copy_buffer(&self.tail, offset, target);
        }
    }
}

/// Sums, and texels of the tail, of a layer.
pub(super) fn layer_sums(shape: PyramidShape) -> usize {
    tail_offset(shape, shape.level_count().max(TILE_LEVEL_COUNT))
}

/// Where `level` starts in the sums and in the tail, in entries. The tile grid, level 5, starts at 0.
pub(super) fn tail_offset(shape: PyramidShape, level: u32) -> usize {
    (TILE_LEVEL_COUNT - 1..level).map(|below| shape.level_extent(below).area()).sum()
}
