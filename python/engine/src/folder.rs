//! Files of pictures.

use std::io;
use std::path::PathBuf;

use foveate_pictures::{Decoded, Item, ListError, PictureView, Reader, Seen, look_at};
use numpy::PyArray1;
use pyo3::prelude::*;

use crate::engine::{Engine, Info, told};
use crate::errors::{EngineError, backend_error, value_error};
use crate::owned::Owned;
use crate::pyramid::{Arrays, Bytes, arrays_of};
use crate::spec::Spec;

/// The pictures of a folder, and of its folders if `deep`.
#[pyfunction]
pub(crate) fn listed(py: Python<'_>, folder: PathBuf, deep: bool) -> PyResult<Vec<PathBuf>> {
    let listed = py.detach(|| foveate_pictures::list(&folder, deep));
    listed.map_err(|error| match error {
        ListError::Unreadable { ref source, .. } => {
            PyErr::from(io::Error::new(source.kind(), format!("{error}: {source}")))
        }
        error => value_error(error.to_string()),
    })
}

/// The pixels of a file's bytes, R, G and B, and width and height.
#[pyfunction]
pub(crate) fn decode<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<(Bytes<'py>, (u32, u32))> {
    let decoded = py.detach(|| foveate_pictures::decode(bytes));
    let Decoded { extent, rgb } =
        decoded.map_err(|error| EngineError::new_err(error.to_string()))?;
    Ok((PyArray1::from_vec(py, rgb), (extent.width, extent.height)))
}

/// Samples files, many at a time.
#[pyclass(frozen, module = "foveate_engine._native")]
pub(crate) struct Folder {
    reader: Owned<Reader>,
}

/// A file: its path; width and height, where was looked, and its tokens; or why there are none.
type File<'py> = (PathBuf, Option<((u32, u32), (f64, f64), Arrays<'py>)>, Option<String>);

#[pymethods]
impl Folder {
    /// Looks at `place` of each picture, from 0 to 1 along both sides.
    #[new]
    fn new(
        engine: &Engine,
        spec: &Spec,
        paths: Vec<PathBuf>,
        place: (f64, f64),
        decoders: usize,
    ) -> PyResult<Self> {
        let view = PictureView { spec: spec.view.clone(), look: look_at(place) };
        let reader = Reader::new(paths, decoders, engine.chosen()?, vec![view]);
        Ok(Self { reader: Owned::new("folder", reader) })
    }

    /// The next few files; none at the end.
    fn next_files<'py>(&self, py: Python<'py>) -> PyResult<Vec<File<'py>>> {
        let items = py.detach(|| {
            self.reader.with(|reader| reader.next_items().map_err(|error| backend_error(&error)))
        })?;
        let file = |Item { path, seen }| match seen {
            Ok((kind, mut views)) => {
                let seen = views.pop().map(|Seen { gaze, tokens }| {
                    let extent = (kind.extent.width, kind.extent.height);
                    (extent, gaze.points()[0], arrays_of(py, tokens.pixels, &tokens.records))
                });
                (path, seen, None)
            }
            Err(error) => (path, None, Some(error.to_string())),
        };
        Ok(items.into_iter().map(file).collect())
    }

    /// As that of an engine.
    fn info(&self, py: Python<'_>) -> PyResult<Info> {
        py.detach(|| self.reader.with(|reader| Ok(told(reader.backend().info()))))
    }

    /// Ends the decoding threads.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.reader.close())
    }
}
