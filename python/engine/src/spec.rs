//! Layouts and token formats by the keys of a view.

use std::sync::Arc;

use foveate_config::ViewConfig;
use foveate_core::channel::CHANNELS;
use foveate_core::frame::PixelFormat;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::{
    FOVEAE_MAX, Fixation, FixationReason, Fixations, Gaze, snapped,
};
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_core::geometry::relevance::{Relevance, RelevanceMap};
use foveate_core::token::Outside;
use foveate_engine::batch::planned;
use foveate_gaze::view::ViewSpec;
use numpy::{PyArray1, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;

use crate::errors::value_error;

/// How tokens lie, and what they look like in memory.
#[pyclass(frozen, module = "foveate_engine._native")]
pub(crate) struct Spec {
    pub(crate) view: ViewSpec,
    /// The arguments that it was read from.
    #[cfg(feature = "gst")]
    pub(crate) config: ViewConfig,
}

#[pymethods]
impl Spec {
    /// From the keys of a `[[stream.view]]` as a JSON object.
    #[new]
    fn new(keys: &str) -> PyResult<Self> {
        let table = serde_json::from_str(keys).map_err(|error| value_error(error.to_string()))?;
        let config = ViewConfig::from_table(&table).map_err(|error| value_error(error.reason()))?;
        let view = ViewSpec::try_from(&config).map_err(|error| value_error(error.to_string()))?;
        Ok(Self {
            view,
            #[cfg(feature = "gst")]
            config,
        })
    }

    #[getter]
    fn layout(&self) -> &'static str {
        self.view.layout.name()
    }

    #[getter]
    fn patch(&self) -> u32 {
        self.view.format.patch_side
    }

    #[getter]
    fn dtype(&self) -> String {
        self.view.format.dtype.to_string()
    }

    #[getter]
    fn mean(&self) -> [f64; 3] {
        self.view.format.normalisation.mean
    }

    #[getter]
    fn std(&self) -> [f64; 3] {
        self.view.format.normalisation.std
    }

    #[getter]
    fn outside(&self) -> &'static str {
        match self.view.format.outside {
            Outside::Edge => "edge",
            Outside::Mean => "mean",
        }
    }

    #[getter]
    fn capacity(&self) -> usize {
        self.view.capacity()
    }

    /// Columns and rows of the grid that the tokens form over a picture of `extent`, if they form one.
    fn grid(&self, extent: (u32, u32)) -> PyResult<Option<(u32, u32)>> {
        let shape = PyramidShape::new(supported(extent)?);
        let ViewSpec { layout, budget, format, .. } = &self.view;
        let grid = layout.grid(shape, format.patch_side, *budget);
        Ok(grid.map(|grid| (grid.width, grid.height)))
    }

    /// The records of a plan over a picture of `extent`, as bytes.
    fn plan<'py>(
        &self,
        py: Python<'py>,
        extent: (u32, u32),
        fixations: Vec<(f64, f64)>,
        relevance: Option<PyReadonlyArray2<'py, f64>>,
    ) -> PyResult<Bound<'py, PyArray1<u8>>> {
        let extent = supported(extent)?;
        if self.view.layout.follows_detail() {
            return Err(value_error(
                "the layout \"adaptive\" follows what the picture shows (expected another layout, or a picture)",
            ));
        }
        let gaze = gaze(&self.view, extent, &fixations, relevance.as_ref(), 0)?;
        let (_, records) = py.detach(|| planned(&self.view, &gaze, extent));
        Ok(PyArray1::from_slice(py, bytemuck::cast_slice(&records)))
    }
}

/// The formats of pictures that are read as they are.
#[pyfunction]
pub(crate) fn formats() -> Vec<&'static str> {
    PixelFormat::ALL.iter().map(|format| format.name()).collect()
}

/// Names of the channels, in order.
#[pyfunction]
pub(crate) fn channel_names() -> Vec<&'static str> {
    CHANNELS.iter().map(|channel| channel.name).collect()
}

fn supported((width, height): (u32, u32)) -> PyResult<Extent> {
    let extent = Extent::new(width, height);
    let most = Extent::SIDE_MAX;
    let refused =
        || value_error(format!("a picture of {extent} pixels: both sides must lie in 1..={most}"));
    if extent.is_supported() { Ok(extent) } else { Err(refused()) }
}

/// The gaze at `fixations`, in pixels, and with `relevance`, a weight for each cell.
pub(crate) fn gaze(
    view: &ViewSpec,
    extent: Extent,
    fixations: &[(f64, f64)],
    relevance: Option<&PyReadonlyArray2<'_, f64>>,
    frame_seq: u64,
) -> PyResult<Gaze> {
    let most = view.layout.foveae();
    if fixations.is_empty() || most < fixations.len() {
        let allowed = if most == 1 { "one is".to_owned() } else { format!("1 to {most} are") };
        let way_out = if most < FOVEAE_MAX { "; `foveae` allows more" } else { "" };
        return Err(value_error(format!(
            "fixation: {} points were given, and {allowed} expected with the layout {:?}{way_out}",
            fixations.len(),
            view.layout.name()
        )));
    }
    let mut places = Fixations::new();
    for (id, &(x, y)) in (1..).zip(fixations) {
        if !x.is_finite() || !y.is_finite() {
            return Err(value_error("fixation: x and y must be finite, in source pixels"));
        }
        let (x, y) = snapped(extent, x, y);
        let reason = FixationReason::Policy;
        places.push(Fixation { id, since_frame: frame_seq, ..Fixation::at((x, y), reason) });
    }
    let relevance = relevance.map(|given| map_of(given, frame_seq)).transpose()?;
    Ok(Gaze::new(places, relevance))
}

/// The most cells along a side of a map.
const MAP_SIDE_MAX: usize = 1024;

fn map_of(given: &PyReadonlyArray2<'_, f64>, frame_seq: u64) -> PyResult<Arc<Relevance>> {
    let [rows, columns] = [given.shape()[0], given.shape()[1]];
    let side = |cells: usize| {
        u32::try_from(cells).ok().filter(|_| (1..=MAP_SIDE_MAX).contains(&cells)).ok_or_else(|| {
            value_error(format!(
                "relevance has {rows} x {columns} cells (expected 1 to {MAP_SIDE_MAX} along each side)"
            ))
        })
    };
    let grid = Extent::new(side(columns)?, side(rows)?);
    let weights = given.as_slice().map_err(|_| value_error("relevance must be C-contiguous"))?;
    if let Some(weight) = weights.iter().find(|weight| !weight.is_finite() || **weight < 0.0) {
        return Err(value_error(format!(
            "relevance has the weight {weight} (expected finite numbers from 0 on)"
        )));
    }
    let map = RelevanceMap::new(grid, weights.iter().copied());
    Ok(Arc::new(Relevance { map, frame_seq }))
}
