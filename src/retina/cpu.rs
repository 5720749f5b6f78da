//! The retina in safe Rust: production code on machines without a GPU, and the oracle of the shaders' tests.

use self::convert::{Converter, SIDE, rgb_row};
use self::ingest::{IngestRun, Scratch};
use self::level::{Band, Level};
use self::reduce::Tail;
use self::sample::{Encoder, SampleToken, Texels};
use super::{
    RefusedView, Retina, RetinaError, UpdateTimes, ViewMaker, ViewPass, ViewSample, ViewSpec,
    check_update, view_room,
};
use crate::clock::{Span, monotonic_ns};
use crate::crew::Crew;
use crate::frame::{FrameKind, FrameView};
use crate::geometry::coarse::CoarseLevel;
use crate::geometry::pyramid::PyramidShape;
use crate::geometry::tile::TileSet;
use crate::simd::{Instructions, Kernel, Vectors};

pub mod convert;
pub mod ingest;
pub mod level;
pub mod reduce;
pub mod sample;

/// Most parts that a stage is cut into, to be shared out among threads.
const MOST_PARTS: usize = 16;

/// Dirty tiles, and tokens, below which a thread is quicker alone than it finds another.
const WORTH_SHARING: usize = 32;

/// A pyramid in this process's memory.
#[derive(Debug)]
pub struct CpuRetina {
    shape: PyramidShape,
    kind: FrameKind,
    /// Level 1 and those above it.
    levels: Vec<Level>,
    tail: Tail,
    /// One for each part.
    scratch: Vec<Scratch>,
    encoders: Vec<Encoder>,
    /// What makes those of views that come later.
    maker: ViewMaker,
    crew: &'static Crew,
    instructions: Instructions,
}

impl CpuRetina {
    /// A retina for frames of `kind`, sampled by `views`.
    ///
    /// # Panics
    ///
    /// If the extent is not [supported](crate::geometry::extent::Extent::is_supported).
    pub fn new(kind: FrameKind, views: &[ViewSpec]) -> Self {
        let shape = PyramidShape::new(kind.extent);
        let mut encoders = Vec::with_capacity(view_room(views.len()));
        encoders.extend(views.iter().map(|view| Encoder::new(view.format)));
        Self {
            shape,
            kind,
            levels: level::levels_above_0(shape),
            tail: Tail::new(shape),
            scratch: vec![Scratch::default(); MOST_PARTS],
            encoders,
            maker: ViewMaker::on_cpu(shape),
            crew: Crew::of_process(),
            instructions: Instructions::best(),
        }
    }

    /// Uses another crew and other instructions than the process has; the bytes are the same.
    #[must_use]
    pub fn with_means(self, crew: &'static Crew, instructions: Instructions) -> Self {
        Self { crew, instructions, ..self }
    }

    /// Brings levels 1 to 5 and the sums of the dirty tiles up to date.
    fn ingest(&mut self, frame: &FrameView<'_>, dirty: &TileSet) {
        let grid = dirty.grid();
        let part_count = parts(dirty.count());
        let tile_rows = (grid.height as usize).div_ceil(part_count);
        let sums = self.tail.tiles_mut();
        let bands = level::bands(&mut self.levels, sums, tile_rows, grid.width as usize);
        let mut bands = bands.zip(&mut self.scratch);
        let mut bands: [_; MOST_PARTS] = std::array::from_fn(|_| bands.next());
        let instructions = self.instructions;
        self.crew.share_each(&mut bands[..part_count], &|band| {
            let Some((band, scratch)) = band else { return };
            ingest_band(frame, dirty, band, scratch, instructions);
        });
    }

    /// Samples the stale tokens of one view.
    fn sample(&self, encoder: &Encoder, frame: &FrameView<'_>, target: &mut ViewSample) {
        let texels = Texels { frame, levels: &self.levels };
        let part_count = parts(target.stale().len());
        let mut tokens = target.stale_tokens(part_count);
        let mut tokens: [_; MOST_PARTS] = std::array::from_fn(|_| tokens.next());
        self.crew.share_each(&mut tokens[..part_count], &|tokens| {
            for (token, pixels) in tokens.iter_mut().flatten() {
                self.instructions.run(SampleToken { texels, encoder, token, pixels });
            }
        });
    }

    /// Copies a level, as large as `target`, out of the pyramid whose level 0 is `frame`.
    fn copy_level(&self, frame: &FrameView<'_>, level: u32, target: &mut [[u8; 3]]) {
        match level.checked_sub(1) {
            None => self.instructions.run(CopyLevel0 { frame, target }),
            Some(index) => self.levels[index as usize].copy_to(target),
        }
    }
}

/// Ingests the dirty tiles of a band, run by run.
fn ingest_band(
    frame: &FrameView<'_>,
    dirty: &TileSet,
    band: &mut Band<'_>,
    scratch: &mut Scratch,
    instructions: Instructions,
) {
    for mut target in band.tile_rows() {
        for columns in dirty.runs(target.index) {
            let target = &mut target;
            instructions.run(IngestRun { frame, target, columns, scratch });
        }
    }
}

/// Into how many parts to cut so much work.
fn parts(work: usize) -> usize {
    if work < WORTH_SHARING { 1 } else { MOST_PARTS }
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
        self.ingest(frame, dirty);
        let ingest = Span::since(start_ns);
        reduce::reduce(&mut self.tail, dirty, self.shape, &mut self.levels);
        let reduce = ingest.next();
        for (encoder, target) in self.encoders.iter().zip(samples) {
            target.find_stale(dirty, self.shape);
            self.sample(encoder, frame, target);
        }
        let sample = reduce.next();
        Ok(UpdateTimes { ingest, reduce, sample, ..UpdateTimes::default() })
    }

    fn view_maker(&self) -> ViewMaker {
        self.maker.clone()
    }

    fn add_view(&mut self, view: ViewPass) -> Result<(), RefusedView> {
        self.encoders.push(view.into_cpu(&self.maker, self.encoders.len())?);
        Ok(())
    }

    fn remove_view(&mut self, index: usize) -> ViewPass {
        ViewPass::of_cpu(&self.maker, self.encoders.remove(index))
    }

    fn keep_coarse(&mut self, _wanted: bool) {
        // It is always at hand.
    }

    fn read_coarse(
        &mut self,
        frame: &FrameView<'_>,
        target: &mut CoarseLevel,
    ) -> Result<(), RetinaError> {
        let level = target.level();
        let own = (CoarseLevel::level_of(self.shape), self.shape.level_extent(level));
        assert_eq!((level, target.extent()), own, "the coarse level of another pyramid");
        self.copy_level(frame, level, &mut target.texels);
        Ok(())
    }

    fn read_level(&mut self, frame: &FrameView<'_>, level: u32) -> Result<Vec<u8>, RetinaError> {
        let mut texels = vec![[0; 3]; self.shape.level_extent(level).area()];
        self.copy_level(frame, level, &mut texels);
        Ok(texels.into_flattened())
    }

    fn shape(&self) -> PyramidShape {
        self.shape
    }
}

/// Converts a frame to R, G, B, row by row.
struct CopyLevel0<'a> {
    frame: &'a FrameView<'a>,
    target: &'a mut [[u8; 3]],
}

impl Kernel for CopyLevel0<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vectors>(self, vectors: V) {
        let Self { frame, target } = self;
        let converter = Converter::new(vectors, frame.color());
        let width = frame.extent().width as usize;
        for (y, row) in target.chunks_exact_mut(width).enumerate() {
            for (index, target) in row.chunks_mut(SIDE).enumerate() {
                let [red, green, blue] = rgb_row(&converter, frame, index * SIDE, y, target.len());
                for (column, target) in target.iter_mut().enumerate() {
                    *target = [red[column], green[column], blue[column]];
                }
            }
        }
    }
}
