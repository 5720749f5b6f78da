//! Files of pictures.

use std::io;
use std::path::PathBuf;

use foveate_pictures::{
    DecodeError, DecodeOptions, DecodedPicture, FolderReader, GrayFacts, ListError, PictureView,
    SampledPicture, SampledView, look_at,
};
use numpy::PyArray1;
use pyo3::prelude::*;

use crate::engine::{Engine, Info, info_of};
use crate::errors::{EngineError, backend_error, value_error};
use crate::owned::Owned;
use crate::picture::{GrayArgument, scaling_of};
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

/// Pixels, R, G and B, width and height, and what is worth a warning.
type Pixels<'py> = (Bytes<'py>, (u32, u32), Option<String>);

/// The pixels of a file's bytes.
#[pyfunction]
pub(crate) fn decode<'py>(
    py: Python<'py>,
    bytes: &[u8],
    max_pixels: u32,
    background: [u8; 3],
    gray_range: Option<GrayArgument>,
) -> PyResult<Pixels<'py>> {
    let options = DecodeOptions { max_pixels, background, gray_range: scaling_of(gray_range)? };
    pixels_of(py, py.detach(|| foveate_pictures::decode(bytes, options)), "the picture")
}

/// The pixels of a file.
#[pyfunction]
pub(crate) fn decode_file<'py>(
    py: Python<'py>,
    path: PathBuf,
    max_pixels: u32,
    background: [u8; 3],
    gray_range: Option<GrayArgument>,
) -> PyResult<Pixels<'py>> {
    let options = DecodeOptions { max_pixels, background, gray_range: scaling_of(gray_range)? };
    let name = path.display().to_string();
    pixels_of(py, py.detach(|| DecodedPicture::open(&path, options)), &name)
}

fn pixels_of<'py>(
    py: Python<'py>,
    decoded: Result<DecodedPicture, DecodeError>,
    name: &str,
) -> PyResult<Pixels<'py>> {
    let DecodedPicture { extent, rgb, gray } = decoded.map_err(|error| match error {
        DecodeError::File(source) => {
            PyErr::from(io::Error::new(source.kind(), format!("{name} cannot be read: {source}")))
        }
        error => EngineError::new_err(format!("{name} {error}")),
    })?;
    let warning = gray.and_then(|gray| gray.loss).map(|loss| format!("{name}: {loss}"));
    Ok((PyArray1::from_vec(py, rgb), (extent.width, extent.height), warning))
}

/// Samples files, many at a time.
#[pyclass(frozen, module = "foveate_engine._native")]
pub(crate) struct Folder {
    reader: Owned<FolderReader>,
}

/// A file: its path; width and height, where was looked, and its tokens; or why there are none; and how its 16-bit gray was scaled.
type File<'py> =
    (PathBuf, Option<((u32, u32), (f64, f64), Arrays<'py>)>, Option<String>, Option<Gray>);

/// The samples that became black and white, and what is worth a warning.
type Gray = ([u16; 2], Option<String>);

#[pymethods]
impl Folder {
    /// Looks at `place` of each picture, from 0 to 1 along both sides.
    #[new]
    #[expect(clippy::too_many_arguments, reason = "keywords in Python")]
    fn new(
        engine: &Engine,
        spec: &Spec,
        paths: Vec<PathBuf>,
        place: (f64, f64),
        decoders: usize,
        max_pixels: u32,
        background: [u8; 3],
        gray_range: Option<GrayArgument>,
    ) -> PyResult<Self> {
        let options = DecodeOptions { max_pixels, background, gray_range: scaling_of(gray_range)? };
        let view = PictureView { spec: spec.view.clone(), look: look_at(place) };
        let reader = FolderReader::new(paths, decoders, options, engine.chosen()?, vec![view]);
        Ok(Self { reader: Owned::new("folder", reader) })
    }

    /// The next few files; none at the end. Ctrl-C ends the wait for them.
    fn next_files<'py>(&self, py: Python<'py>) -> PyResult<Vec<File<'py>>> {
        let mut signalled = Ok(());
        let items = py.detach(|| {
            let goes_on = || {
                signalled = Python::attach(|py| py.check_signals());
                signalled.is_ok()
            };
            self.reader
                .with(|reader| reader.next_items(goes_on).map_err(|error| backend_error(&error)))
        })?;
        signalled?;
        let gray_of =
            |gray: GrayFacts| (gray.range.bounds(), gray.loss.map(|loss| loss.to_string()));
        let file = |SampledPicture { path, gray, seen }| match seen {
            Ok((kind, mut views)) => {
                let seen = views.pop().map(|SampledView { gaze, tokens }| {
                    let extent = (kind.extent.width, kind.extent.height);
                    (extent, gaze.points()[0], arrays_of(py, tokens.pixels, &tokens.records))
                });
                (path, seen, None, gray.map(gray_of))
            }
            Err(error) => (path, None, Some(error.to_string()), None),
        };
        Ok(items.into_iter().map(file).collect())
    }

    /// The pictures' facts, with the keys of `Engine.info`.
    fn info(&self, py: Python<'_>) -> PyResult<Info> {
        py.detach(|| self.reader.with(|reader| Ok(info_of(reader.backend().info()))))
    }

    /// Ends the decoding threads.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.reader.close())
    }
}
