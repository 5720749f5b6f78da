//! The CPU backend: production code on machines without a GPU, and the oracle in the shaders' tests.

use std::ops::Range;
use std::sync::Arc;

use self::convert::{Converter, SIDE, rgb_row};
use self::features::FeatureRun;
use self::ingest::{IngestRuns, IngestScratch};
use self::level::{Band, CpuLevel};
use self::reduce::PyramidTail;
use self::sample::{Encoder, PyramidTexels, SampleScratch, SampleToken, TexelTarget};
use self::sent::SentTexels;
use super::{Backend, BackendError, SamplerMaker, UpdateTimes};
use crate::change::detect::{Detector, bands_of};
use crate::planes::{Planes, Sampler};
use crate::pool::Pool;
use crate::simd::{Kernel, Vectors};
use foveate_core::clock::{Span, monotonic_ns};
use foveate_core::frame::{FrameKind, FrameView};
use foveate_core::geometry::coarse::CoarseLevel;
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_core::geometry::rule::IngestRule;
use foveate_core::geometry::tile::{TILE_SIDE, TileSet};
use foveate_gaze::relevance::features::TileFeatures;

pub(crate) mod batch;
pub mod convert;
pub mod detail;
pub mod features;
pub mod ingest;
pub mod level;
mod narrow;
pub mod reduce;
pub mod sample;
mod sent;

/// Most parts that a stage is split into for the thread pool.
const PARTS_MAX: usize = 16;

/// Fewest dirty tiles, or tokens, whose work is shared; with fewer, one thread is faster.
const WORTH_SHARING: usize = 32;

/// A pyramid in memory. Its level 0 is the resident copy, converted where a token needs it.
#[derive(Debug)]
pub struct CpuBackend {
    detector: Detector,
    pyramid: CpuPyramid,
    /// Row by row; `None` while they are not wanted, empty before they are made.
    features: Option<Vec<TileFeatures>>,
    /// Time in which the newest frame was compared.
    change: Span,
    /// Time in which the dirty tiles of the newest frame were ingested.
    ingest: Span,
}

/// Encoder and published texels of one view.
#[derive(Debug)]
struct CpuSampler {
    encoder: Encoder,
    sent: SentTexels,
}

/// The levels above 0.
#[derive(Debug)]
struct CpuPyramid {
    shape: PyramidShape,
    /// Level 1 and those above it.
    levels: Vec<CpuLevel>,
    tail: PyramidTail,
    /// Working memory of each band.
    scratch: Vec<IngestScratch>,
    pool: Arc<Pool>,
}

impl CpuBackend {
    /// A backend for frames of `kind`, whose stages run on `pool`.
    ///
    /// # Panics
    ///
    /// If the extent is not [supported](foveate_core::geometry::extent::Extent::is_supported).
    pub fn new(kind: FrameKind, pool: &Arc<Pool>) -> Self {
        Self {
            detector: Detector::new(kind, pool),
            pyramid: CpuPyramid::new(PyramidShape::new(kind.extent), pool),
            features: None,
            change: Span::NONE,
            ingest: Span::NONE,
        }
    }
}

impl Backend for CpuBackend {
    fn begin_update(
        &mut self,
        frame: &FrameView<'_>,
        rule: &IngestRule,
        _views: &mut [&mut Planes],
    ) -> Result<&[u8], BackendError> {
        let start_ns = monotonic_ns();
        let Self { detector, pyramid: CpuPyramid { levels, tail, scratch, pool, .. }, .. } = self;
        let instructions = pool.instructions();
        let (tile_rows, grid_width) =
            (detector.band_rows(), detector.kind().extent.in_cells(TILE_SIDE).width as usize);
        let bands = level::bands(levels, tail.tiles_mut(), tile_rows, grid_width);
        let bands = bands.zip(scratch);
        let ingest = |(band, scratch): &mut (Band<'_>, &mut IngestScratch),
                      row,
                      runs: &mut dyn Iterator<Item = Range<usize>>| {
            let target = &mut band.tile_row(row);
            // From the frame: these samples are now those of the resident copy.
            instructions.run(IngestRuns { frame, target, runs, scratch });
        };
        let (differences, share) = detector.compare_and(frame, rule, bands, &ingest);
        (self.change, self.ingest) = Span::since(start_ns).split(1.0 - share);
        Ok(differences)
    }

    fn end_update(
        &mut self,
        ingested: &TileSet,
        views: &mut [&mut Planes],
    ) -> Result<UpdateTimes, BackendError> {
        let Self { detector, pyramid, change, ingest, .. } = self;
        let resident = detector.resident();
        let start_ns = monotonic_ns();
        reduce::reduce(&mut pyramid.tail, ingested, pyramid.shape, &mut pyramid.levels);
        let reduce = Span::since(start_ns);
        for view in views {
            view.find_stale(ingested);
            pyramid.sample(&resident, view);
        }
        let sample = reduce.next();
        Ok(UpdateTimes {
            change: *change,
            ingest: *ingest,
            reduce,
            sample,
            ..UpdateTimes::default()
        })
    }

    fn sample(&mut self, ingested: &TileSet, view: &mut Planes) -> Result<u64, BackendError> {
        view.find_stale(ingested);
        self.pyramid.sample(&self.detector.resident(), view);
        Ok(0)
    }

    fn resident(&self) -> Option<FrameView<'_>> {
        Some(self.detector.resident())
    }

    fn samplers(&self) -> SamplerMaker {
        Arc::new(|spec| {
            let encoder = Encoder::new(spec.format);
            Ok(Sampler::new(CpuSampler { encoder, sent: SentTexels::new(spec) }))
        })
    }

    fn keep_coarse(&mut self, _wanted: bool) {
        // It always is in memory.
    }

    fn read_coarse(&mut self, target: &mut CoarseLevel) -> Result<(), BackendError> {
        let (level, shape) = (target.level(), self.pyramid.shape);
        let own = (CoarseLevel::level_of(shape), shape.level_extent(level));
        assert_eq!((level, target.extent()), own, "coarse level of another pyramid");
        self.pyramid.copy_level(&self.detector.resident(), level, &mut target.texels);
        Ok(())
    }

    fn keep_features(&mut self, wanted: bool) {
        self.features = wanted.then(Vec::new);
    }

    fn note_features(&mut self, ingested: &TileSet) -> Span {
        let Self { detector, pyramid, features: Some(features), .. } = self else {
            return Span::NONE;
        };
        let start_ns = monotonic_ns();
        pyramid.note_features(&detector.resident(), ingested, features);
        Span::since(start_ns)
    }

    fn pool(&self) -> Option<&Pool> {
        Some(&self.pyramid.pool)
    }

    fn features(&self) -> Option<&[TileFeatures]> {
        self.features.as_deref().filter(|features| !features.is_empty())
    }

    fn read_level(&mut self, level: u32) -> Result<Vec<u8>, BackendError> {
        let mut texels = vec![[0; 3]; self.pyramid.shape.level_extent(level).area()];
        self.pyramid.copy_level(&self.detector.resident(), level, &mut texels);
        Ok(texels.into_flattened())
    }

    fn kind(&self) -> FrameKind {
        self.detector.kind()
    }
}

impl CpuPyramid {
    /// Memory for a pyramid; its texels are 0.
    fn new(shape: PyramidShape, pool: &Arc<Pool>) -> Self {
        Self {
            shape,
            levels: level::levels_above_0(shape),
            tail: PyramidTail::new(shape),
            scratch: vec![IngestScratch::default(); bands_of(shape.extent().in_cells(TILE_SIDE))],
            pool: Arc::clone(pool),
        }
    }

    /// Brings the features of the dirty tiles, which are ingested, up to date; those of all if there are none yet.
    fn note_features(
        &mut self,
        frame: &FrameView<'_>,
        dirty: &TileSet,
        features: &mut Vec<TileFeatures>,
    ) {
        let grid = dirty.grid();
        let all = features.is_empty().then(|| TileSet::all(frame.extent()));
        let dirty = all.as_ref().unwrap_or(dirty);
        features.resize(grid.area(), TileFeatures::default());
        let part_count = parts(dirty.count());
        let (width, tile_rows) = (grid.width as usize, (grid.height as usize).div_ceil(part_count));
        let mut bands = features.chunks_mut(tile_rows * width).enumerate();
        let mut bands: [_; PARTS_MAX] = std::array::from_fn(|_| bands.next());
        let (instructions, colors) = (self.pool.instructions(), self.tail.tiles());
        self.pool.for_each(&mut bands[..part_count], &|band| {
            let Some((band, features)) = band else { return };
            let rows = features.chunks_mut(width).enumerate();
            for (row, target) in rows.map(|(row, target)| (*band * tile_rows + row, target)) {
                for columns in dirty.runs(row) {
                    let sums = &colors[row * width..][columns.clone()];
                    let run = FeatureRun { frame, row, columns: columns.clone(), target };
                    instructions.run(run);
                    for (features, sums) in target[columns].iter_mut().zip(sums) {
                        features.color = *sums;
                    }
                }
            }
        });
    }

    /// Brings levels 1 to 5 and the sums of all tiles up to date, on this thread.
    fn ingest_all(&mut self, frame: &FrameView<'_>) {
        let grid = frame.extent().in_cells(TILE_SIDE);
        let (tile_rows, grid_width) = (grid.height as usize, grid.width as usize);
        let bands = level::bands(&mut self.levels, self.tail.tiles_mut(), tile_rows, grid_width);
        for (mut band, scratch) in bands.zip(&mut self.scratch) {
            for row in 0..tile_rows {
                let target = &mut band.tile_row(row);
                let runs = &mut std::iter::once(0..grid_width);
                self.pool.instructions().run(IngestRuns { frame, target, runs, scratch });
            }
        }
    }

    /// Samples the stale tokens of one view.
    fn sample(&self, frame: &FrameView<'_>, view: &mut Planes) {
        let texels = PyramidTexels { shape: self.shape, frame, levels: &self.levels };
        let Planes { sampler, plan, items, stale, reuse, .. } = view;
        let CpuSampler { encoder, sent } = sampler.get_mut();
        let (encoder, items, tokens) = (&*encoder, &*items, &plan.tokens);
        let part_count = if items.are_apart() { parts(stale.len()) } else { 1 };
        let mut stale = stale.chunks(stale.len().div_ceil(part_count).max(1));
        let mut sent = sent.rows(reuse);
        // The stale tokens of each part, and what they were last published with, if they are compared with that.
        let mut parts: [_; PARTS_MAX] = std::array::from_fn(|_| {
            let stale = stale.next().unwrap_or_default();
            // Ascending, so that parts have rows of their own.
            let end = stale.last().map_or(0, |last| *last as usize + 1);
            let sent = sent.as_mut().filter(|_| 0 < end).map(|rows| rows.take_before(end));
            (stale, sent)
        });
        let instructions = self.pool.instructions();
        self.pool.for_each(&mut parts[..part_count], &|(stale, sent)| {
            let (store, mut scratch) = (items.store(), SampleScratch::default());
            for index in stale.iter().map(|&index| index as usize) {
                let (token, target) = (tokens[index], TexelTarget::Item(store.item(index)));
                let (scratch, sent) = (&mut scratch, sent.as_mut().map(|sent| sent.token(index)));
                SampleToken { texels, encoder, token, target, scratch, sent }.run(instructions);
            }
        });
    }

    /// Copies a level, as large as `target`, out of the pyramid whose level 0 is `frame`.
    fn copy_level(&self, frame: &FrameView<'_>, level: u32, target: &mut [[u8; 3]]) {
        match level.checked_sub(1) {
            None => self.pool.instructions().run(CopyLevel0 { frame, target }),
            Some(index) => self.levels[index as usize].copy_to(target),
        }
    }
}

/// Number of parts to split `work` tiles or tokens into.
fn parts(work: usize) -> usize {
    if work < WORTH_SHARING { 1 } else { PARTS_MAX }
}

/// Converts a frame to R, G, B, row by row.
struct CopyLevel0<'a> {
    frame: &'a FrameView<'a>,
    target: &'a mut [[u8; 3]],
}

impl Kernel for CopyLevel0<'_> {
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
