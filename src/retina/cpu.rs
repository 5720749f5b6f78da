//! The retina in safe Rust: production code on machines without a GPU, and the oracle of the shaders' tests.

use crate::clock::{Span, monotonic_ns};
use crate::frame::{FrameKind, FrameView};
use crate::geometry::extent::Extent;
use crate::geometry::pyramid::{PyramidShape, TILE_LEVEL_COUNT};
use crate::geometry::tile::{TILE_SIDE, TileSet};

use self::ingest::TilePixels;
use self::reduce::Tail;
use self::sample::Encoder;
use self::simd::Instructions;
use super::{Retina, RetinaError, UpdateTimes, ViewSample, ViewSpec, check_update};

pub mod ingest;
pub mod reduce;
pub mod sample;
pub mod simd;

/// One level of the pyramid: a raster for each of R, G and B.
#[derive(Clone, Debug)]
pub struct Level {
    /// Texels that exist.
    pub extent: Extent,
    /// Texels from one row to the next; those past the extent mean nothing.
    pub stride: usize,
    /// Row by row.
    pub channels: [Vec<u8>; 3],
}

impl Level {
    /// A level of `extent`, with room for the rows and columns of `padded`.
    fn new(extent: Extent, padded: Extent) -> Self {
        let channels = std::array::from_fn(|_| vec![0; padded.area()]);
        Self { extent, stride: padded.width as usize, channels }
    }

    /// The texels of row `y` of `channel` that exist.
    pub fn row(&self, channel: usize, y: usize) -> &[u8] {
        &self.channels[channel][y * self.stride..][..self.extent.width as usize]
    }
}

/// A pyramid in this process's memory.
#[derive(Debug)]
pub struct CpuRetina {
    shape: PyramidShape,
    kind: FrameKind,
    levels: Vec<Level>,
    tail: Tail,
    pixels: Box<TilePixels>,
    instructions: Instructions,
    encoders: Vec<Encoder>,
}

impl CpuRetina {
    /// A retina for frames of `kind`, sampled by `views`.
    ///
    /// # Panics
    ///
    /// If the extent is not [supported](Extent::is_supported).
    pub fn new(kind: FrameKind, views: &[ViewSpec]) -> Self {
        let shape = PyramidShape::new(kind.extent);
        let grid = kind.extent.in_cells(TILE_SIDE);
        let level = |level: u32| {
            let texels = TILE_SIDE.checked_shr(level).unwrap_or(0);
            let padded = Extent::new(grid.width * texels, grid.height * texels);
            let extent = shape.level_extent(level);
            Level::new(extent, if level < TILE_LEVEL_COUNT { padded } else { extent })
        };
        Self {
            shape,
            kind,
            levels: (0..shape.level_count()).map(level).collect(),
            tail: Tail::new(shape),
            pixels: Box::new([[[0; TILE_SIDE as usize]; TILE_SIDE as usize]; 3]),
            instructions: Instructions::best(),
            encoders: views.iter().map(|view| Encoder::new(view.format)).collect(),
        }
    }
}

impl CpuRetina {
    /// Uses other instructions than the best that the processor has; the bytes are the same.
    #[must_use]
    pub fn with_instructions(self, instructions: Instructions) -> Self {
        Self { instructions, ..self }
    }
}

impl Retina for CpuRetina {
    fn update(
        &mut self,
        frame: &FrameView<'_>,
        dirty: &TileSet,
        samples: &mut [ViewSample],
    ) -> Result<UpdateTimes, RetinaError> {
        check_update(self.kind, self.encoders.iter().map(Encoder::format), frame, samples);
        let start_ns = monotonic_ns();
        for (column, row) in dirty.iter() {
            let sums = self.instructions.ingest(
                frame,
                (column, row),
                self.shape,
                &mut self.pixels,
                &mut self.levels,
            );
            self.tail.set_tile(column, row, sums);
        }
        let ingest = Span::since(start_ns);
        reduce::reduce(&mut self.tail, dirty, self.shape, &mut self.levels);
        let reduce = ingest.next();
        for (encoder, target) in self.encoders.iter().zip(samples) {
            target.find_stale(dirty, self.shape);
            sample::sample(&self.levels, encoder, target);
        }
        let sample = reduce.next();
        Ok(UpdateTimes { ingest, reduce, sample, ..UpdateTimes::default() })
    }

    fn read_level(&mut self, _frame: &FrameView<'_>, level: u32) -> Result<Vec<u8>, RetinaError> {
        let level = &self.levels[level as usize];
        let [red, green, blue] = &level.channels;
        let row = |y: usize| y * level.stride..y * level.stride + level.extent.width as usize;
        let texels = (0..level.extent.height as usize).flat_map(row);
        Ok(texels.flat_map(|texel| [red[texel], green[texel], blue[texel]]).collect())
    }

    fn shape(&self) -> PyramidShape {
        self.shape
    }
}
