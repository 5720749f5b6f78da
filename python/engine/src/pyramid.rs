//! A resident pyramid: pictures in, tokens out.

use std::collections::BTreeMap;
use std::path::PathBuf;

use foveate_core::change::{ChangeConfig, Threshold};
use foveate_core::channel::{CHANNELS, cells_of};
use foveate_core::error::chain;
use foveate_core::frame::{FrameKind, FrameStamp};
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_core::geometry::tile::TILE_SIDE;
use foveate_engine::planes::{Sampler, SamplerSpec};
use foveate_engine::{Engine as Inner, Memory};
use foveate_gaze::GazeParameters;
use foveate_gaze::relevance::scene::Scene;
use foveate_gaze::relevance::scorer::{Scorer, relevance_of};
use foveate_gaze::saliency::Saliency;
use foveate_ring::TokenRecord;
use numpy::{PyArray1, PyReadonlyArray2};
use pyo3::prelude::*;

use crate::engine::Engine;
use crate::errors::{backend_error, value_error};
use crate::owned::Owned;
use crate::picture::{PictureArrays, bytes_of, frame_of, kind_of};
use crate::spec::{Spec, gaze};

/// Longest time between two pictures that counts, in seconds.
const LONGEST_GAP_S: f32 = 1.0;

/// The pyramid of a picture that may change.
#[pyclass(frozen, module = "foveate_engine._native")]
pub(crate) struct Pyramid {
    resident: Owned<Resident>,
    kind: FrameKind,
}

struct Resident {
    engine: Inner,
    /// Number of the newest picture, from 1.
    frame_seq: u64,
    time_ns: u64,
    /// Samplers of earlier calls, kept for reuse.
    samplers: Vec<(SamplerSpec, Sampler)>,
    /// `None` until channels are asked for.
    perception: Option<Perception>,
}

/// The channels of the picture, cell by cell.
struct Perception {
    scene: Scene,
    saliency: Saliency,
    /// Number and time of the picture that saliency has taken in last; 0 before any.
    absorbed: (u64, u64),
}

/// Bytes without a shape.
pub(crate) type Bytes<'py> = Bound<'py, PyArray1<u8>>;

/// Texels and records.
pub(crate) type Arrays<'py> = (Bytes<'py>, Bytes<'py>);

/// Tokens as Python takes them; the texels are not copied.
pub(crate) fn arrays_of<'py>(
    py: Python<'py>,
    pixels: Vec<u8>,
    records: &[TokenRecord],
) -> Arrays<'py> {
    (PyArray1::from_vec(py, pixels), PyArray1::from_slice(py, bytemuck::cast_slice(records)))
}

/// Numbers of cells, row by row, and their columns and rows.
type Cells<'py, T> = (Bound<'py, PyArray1<T>>, (u32, u32));

#[pymethods]
impl Pyramid {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "keywords in Python")]
    fn new(
        py: Python<'_>,
        engine: &Engine,
        planes: PictureArrays<'_>,
        format: &str,
        extent: (u32, u32),
        matrix: &str,
        range: &str,
        threshold: Option<u8>,
        time_ns: u64,
    ) -> PyResult<Self> {
        let kind = kind_of(format, extent, matrix, range)?;
        let planes = bytes_of(&planes)?;
        let limit = Threshold::LIMIT_DEFAULT;
        let threshold = threshold.map_or(Threshold::Auto { limit }, Threshold::Fixed);
        let resident = py.detach(|| {
            let change = ChangeConfig { threshold, ..ChangeConfig::default() };
            let mut resident = Resident {
                engine: Inner::new(engine.build(kind)?, change, 1),
                frame_seq: 0,
                time_ns: 0,
                samplers: Vec::new(),
                perception: None,
            };
            resident.update(kind, &planes, time_ns)?;
            PyResult::Ok(resident)
        })?;
        Ok(Self { resident: Owned::new("Pyramid", resident), kind })
    }

    /// Takes in the next picture of the same shape; returns 1 for each tile that changed, row by row.
    fn update<'py>(
        &self,
        py: Python<'py>,
        planes: PictureArrays<'py>,
        time_ns: u64,
    ) -> PyResult<Bytes<'py>> {
        let planes = bytes_of(&planes)?;
        let tiles = py.detach(|| {
            self.resident.with(|resident| {
                resident.update(self.kind, &planes, time_ns)?;
                let ingested = resident.engine.tracker().ingested();
                let mut tiles = vec![0; ingested.grid().area()];
                ingested.indices().for_each(|index| tiles[index] = 1);
                Ok(tiles)
            })
        })?;
        Ok(PyArray1::from_vec(py, tiles))
    }

    #[getter]
    fn frame_seq(&self) -> PyResult<u64> {
        self.resident.with(|resident| Ok(resident.frame_seq))
    }

    #[getter]
    fn time_ns(&self) -> PyResult<u64> {
        self.resident.with(|resident| Ok(resident.time_ns))
    }

    /// Bounds of the tokens' error: of a sample, and of a channel of an RGB pixel.
    #[getter]
    fn bounds(&self) -> PyResult<(u8, u32)> {
        self.resident.with(|resident| {
            let bound = resident.engine.tracker().sample_bound();
            Ok((bound, self.kind.color.rgb_bound(bound)))
        })
    }

    /// Extents of the levels, the finest first.
    #[getter]
    fn level_extents(&self) -> Vec<(u32, u32)> {
        let shape = PyramidShape::new(self.kind.extent);
        let extent = |level| shape.level_extent(level);
        (0..shape.level_count()).map(|level| (extent(level).width, extent(level).height)).collect()
    }

    /// Side of a cell of channels, in pixels.
    #[getter]
    fn cell(&self) -> u32 {
        cells_of(self.kind.extent).1
    }

    /// Columns and rows of tiles.
    #[getter]
    fn tile_grid(&self) -> (u32, u32) {
        let grid = self.kind.extent.in_cells(TILE_SIDE);
        (grid.width, grid.height)
    }

    /// A level, R, G and B interleaved, row by row.
    fn level<'py>(&self, py: Python<'py>, level: u32) -> PyResult<Bytes<'py>> {
        let read = |resident: &mut Resident| {
            resident.engine.read_level(level).map_err(|error| backend_error(&error))
        };
        let texels = py.detach(|| self.resident.with(read))?;
        Ok(PyArray1::from_vec(py, texels))
    }

    /// The texels and the records of a plan, as bytes.
    fn sample<'py>(
        &self,
        py: Python<'py>,
        spec: &Spec,
        fixations: Vec<(f64, f64)>,
        relevance: Option<PyReadonlyArray2<'py, f64>>,
    ) -> PyResult<Arrays<'py>> {
        let extent = self.kind.extent;
        let gaze = gaze(&spec.view, extent, &fixations, relevance.as_ref(), self.frame_seq()?)?;
        let (pixels, records) = py.detach(|| {
            self.resident.with(|resident| {
                let wanted = SamplerSpec::of(&spec.view);
                let kept = resident.samplers.iter().position(|(spec, _)| *spec == wanted);
                let engine = &mut resident.engine;
                let sampled = match kept {
                    Some(index) => Ok(resident.samplers.swap_remove(index).1),
                    None => engine.sampler(&spec.view),
                };
                let planes = sampled.and_then(|sampler| engine.sample(&spec.view, &gaze, sampler));
                let planes = planes.map_err(|error| backend_error(&error))?;
                let (pixels, records, sampler) = planes.into_parts();
                resident.samplers.push((wanted, sampler));
                Ok((pixels, records))
            })
        })?;
        Ok(arrays_of(py, pixels, &records))
    }

    /// What each tile looks like, row by row, as bytes.
    fn features<'py>(&self, py: Python<'py>) -> PyResult<Bytes<'py>> {
        let features = py.detach(|| {
            self.resident.with(|resident| {
                let seen = resident.engine.see(resident.frame_seq);
                let seen = seen.map_err(|error| backend_error(&error))?;
                let tiles = seen.tiles.map_or(&[][..], |tiles| tiles.features);
                Ok(bytemuck::cast_slice(tiles).to_vec())
            })
        })?;
        Ok(PyArray1::from_vec(py, features))
    }

    /// The cells of all channels, one channel after the other.
    fn channels<'py>(&self, py: Python<'py>) -> PyResult<Cells<'py, f32>> {
        let (cells, grid) = py.detach(|| {
            self.resident.with(|resident| {
                let scene = &resident.perceive()?.scene;
                let cells = CHANNELS.iter().flat_map(|channel| scene.channel(channel.name));
                Ok((cells.flatten().copied().collect(), scene.grid()))
            })
        })?;
        Ok((PyArray1::from_vec(py, cells), (grid.width, grid.height)))
    }

    /// What a scorer makes of the channels: a weight for each cell.
    fn relevance<'py>(
        &self,
        py: Python<'py>,
        scorer: Option<PathBuf>,
        weights: BTreeMap<String, f32>,
        gain: f64,
    ) -> PyResult<Cells<'py, f64>> {
        let scorer = match scorer {
            Some(path) => Scorer::load(&path)
                .map_err(|error| value_error(format!("scorer: {}", chain(&error))))?,
            None => Scorer::untrained(),
        };
        let (cells, grid) = py.detach(|| {
            self.resident.with(|resident| {
                let scene = &resident.perceive()?.scene;
                let grid = scene.grid();
                let score = scorer.score(grid, |name| scene.channel(name), &weights);
                let map = scene.map(&relevance_of(&score), gain);
                let even = || vec![1.0; grid.area()];
                Ok((map.map_or_else(even, |map| map.weights().to_vec()), grid))
            })
        })?;
        Ok((PyArray1::from_vec(py, cells), (grid.width, grid.height)))
    }

    /// Ends it. Arrays that were made from it stay.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.resident.close())
    }
}

impl Resident {
    /// Takes in a picture.
    fn update(&mut self, kind: FrameKind, planes: &[(&[u8], usize)], time_ns: u64) -> PyResult<()> {
        let frame = frame_of(kind, planes)?;
        let stamp =
            FrameStamp { pts_ns: Some(time_ns), ..FrameStamp::numbered(self.frame_seq + 1) };
        let stepped = self.engine.step::<Memory>(&frame, &stamp, &mut []);
        stepped.map_err(|error| backend_error(&error))?;
        (self.frame_seq, self.time_ns) = (stamp.frame_seq, time_ns);
        if self.perception.is_some() {
            self.absorb()?;
        }
        Ok(())
    }

    /// Takes the newest picture into what is known.
    fn absorb(&mut self) -> PyResult<()> {
        let Self { engine, frame_seq, time_ns, perception, .. } = self;
        let seen = engine.see(*frame_seq).map_err(|error| backend_error(&error))?;
        let Some(Perception { scene, saliency, absorbed }) = perception else { return Ok(()) };
        scene.absorb(&seen, *time_ns);
        // As a view does: a picture is weighed against those before it.
        saliency.weigh(seen.coarse);
        #[expect(clippy::cast_precision_loss, reason = "seconds since the picture before")]
        let elapsed_s = time_ns.saturating_sub(absorbed.1) as f32 * 1e-9;
        let is_first = absorbed.0 == 0;
        saliency.absorb(seen.coarse, if is_first { 0.0 } else { elapsed_s.min(LONGEST_GAP_S) });
        *absorbed = (*frame_seq, *time_ns);
        Ok(())
    }

    /// The channels of the newest picture; collected from the first call on.
    fn perceive(&mut self) -> PyResult<&Perception> {
        if self.perception.is_none() {
            let extent: Extent = self.engine.kind().extent;
            let centre_prior = GazeParameters::default().centre_prior;
            self.perception = Some(Perception {
                scene: Scene::new(extent),
                saliency: Saliency::new(extent, centre_prior),
                absorbed: (0, 0),
            });
            self.absorb()?;
        }
        let time_ns = self.time_ns;
        let perception = self.perception.as_mut().expect("made above");
        perception.scene.decide(&perception.saliency, &[], time_ns);
        Ok(perception)
    }
}
