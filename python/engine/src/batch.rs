//! Samples many pictures of one size at a time.

use foveate_core::frame::FrameKind;
use foveate_engine::batch::{Batch as Inner, PictureTokens};
use numpy::PyReadonlyArray2;
use pyo3::prelude::*;

use crate::engine::Engine;
use crate::errors::backend_error;
use crate::owned::Owned;
use crate::picture::{PictureArrays, bytes_of, frame_of, kind_of};
use crate::pyramid::{Arrays, arrays_of};
use crate::spec::{Spec, gaze};

/// Samples pictures of one size and format, many at a time.
#[pyclass(frozen, module = "foveate_engine._native")]
pub(crate) struct Batch {
    inner: Owned<Inner>,
    engine: Py<Engine>,
    spec: Py<Spec>,
    kind: FrameKind,
}

#[pymethods]
impl Batch {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "keywords in Python")]
    fn new(
        py: Python<'_>,
        engine: Py<Engine>,
        spec: Py<Spec>,
        format: &str,
        extent: (u32, u32),
        matrix: &str,
        range: &str,
        size: usize,
    ) -> PyResult<Self> {
        let kind = kind_of(format, extent, matrix, range)?;
        let view = spec.get().view.clone();
        let inner = py.detach(|| engine.get().batch(kind, view, size))?;
        Ok(Self { inner: Owned::new("batch", inner), engine, spec, kind })
    }

    /// The texels and the records of each picture, as bytes.
    fn sample<'py>(
        &self,
        py: Python<'py>,
        pictures: Vec<PictureArrays<'py>>,
        fixations: Vec<Vec<(f64, f64)>>,
        relevance: Vec<Option<PyReadonlyArray2<'py, f64>>>,
    ) -> PyResult<Vec<Arrays<'py>>> {
        let view = &self.spec.get().view;
        let planes = pictures.iter().map(bytes_of).collect::<PyResult<Vec<_>>>()?;
        let gazes = fixations
            .iter()
            .zip(&relevance)
            .map(|(points, map)| gaze(view, self.kind.extent, points, map.as_ref(), 1))
            .collect::<PyResult<Vec<_>>>()?;
        let sampled = py.detach(|| {
            let pictures = planes
                .iter()
                .zip(&gazes)
                .map(|(planes, gaze)| Ok((frame_of(self.kind, planes)?, gaze)));
            let pictures = pictures.collect::<PyResult<Vec<_>>>()?;
            self.inner.with(|batch| {
                batch.sample(&pictures).or_else(|error| {
                    self.engine.get().move_to_cpu(batch, &error)?;
                    batch.sample(&pictures).map_err(|error| backend_error(&error))
                })
            })
        })?;
        let arrays = |PictureTokens { pixels, records }| arrays_of(py, pixels, &records);
        Ok(sampled.into_iter().map(arrays).collect())
    }

    /// Gives its memory back.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.inner.close())
    }
}
