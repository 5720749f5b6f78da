//! Arrays as frames.
//!
//! Python's own memory is read only while the interpreter's lock is held: NumPy lets any thread move it at other times, as
//! `ndarray.resize(..., refcheck=False)` does. What is read without the lock is a copy that nobody else has, from [`owned`].

use foveate_core::color::{ColorMatrix, ColorRange, ColorTransform};
use foveate_core::frame::{self, FrameKind, FrameView, PixelFormat, Plane};
use foveate_core::geometry::extent::Extent;
use foveate_core::gray::{GrayRange, GrayScaling};
use half::f16;
use numpy::ndarray::{Array, ArrayViewD, Axis, Dimension as _, IxDyn};
use numpy::{Element, IntoPyArray, PyReadonlyArray1, PyReadonlyArrayDyn, PyReadwriteArrayDyn};
use pyo3::exceptions::{PyIndexError, PyTypeError};
use pyo3::prelude::*;

use crate::errors::value_error;

/// Samples of 16-bit gray that become black and white, or the word `auto`.
#[derive(FromPyObject)]
pub(crate) enum GrayArgument {
    Range((u16, u16)),
    Word(String),
}

/// The scaling of 16-bit gray that an argument names.
pub(crate) fn scaling_of(given: Option<GrayArgument>) -> PyResult<Option<GrayScaling>> {
    let scaling = match given {
        None => return Ok(None),
        Some(GrayArgument::Range((low, high))) => GrayRange::new(low, high).map(GrayScaling::Fixed),
        Some(GrayArgument::Word(word)) => (word == "auto").then_some(GrayScaling::Auto),
    };
    let refused = || value_error("gray_range: (low, high) or \"auto\" is expected".to_owned());
    scaling.map(Some).ok_or_else(refused)
}

/// Planes as Python gives them, [`owned`] by the call: their bytes, and the bytes from one row to the next.
pub(crate) type PictureArrays<'py> = Vec<(PyReadonlyArray1<'py, u8>, usize)>;

/// A copy of an array of uint8, float16 or float32, or of one element of its first axis, in C order. The interpreter's lock is held
/// meanwhile.
#[pyfunction]
#[pyo3(signature = (array, index = None))]
pub(crate) fn owned<'py>(
    array: &Bound<'py, PyAny>,
    index: Option<usize>,
) -> PyResult<Bound<'py, PyAny>> {
    if let Ok(array) = array.extract::<PyReadonlyArrayDyn<'py, u8>>() {
        copied(array.as_array(), index, array.py())
    } else if let Ok(array) = array.extract::<PyReadonlyArrayDyn<'py, f32>>() {
        copied(array.as_array(), index, array.py())
    } else if let Ok(array) = array.extract::<PyReadonlyArrayDyn<'py, f16>>() {
        copied(array.as_array(), index, array.py())
    } else {
        Err(PyTypeError::new_err("an array of uint8, float16 or float32 is expected"))
    }
}

fn copied<'py, T: Element + Copy>(
    mut array: ArrayViewD<'_, T>,
    index: Option<usize>,
    py: Python<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    if let Some(index) = index {
        if array.shape().first().is_none_or(|&length| length <= index) {
            return Err(PyIndexError::new_err(index));
        }
        array = array.index_axis_move(Axis(0), index);
    }
    let mut items = Vec::with_capacity(array.len());
    if let Some(whole) = array.as_slice() {
        items.extend_from_slice(whole);
    } else if array.outer_iter().all(|row| row.as_slice().is_some()) {
        // Rows that lie apart, as those of a crop.
        array.outer_iter().for_each(|row| items.extend_from_slice(row.as_slice().unwrap_or(&[])));
    } else {
        items.extend(array.iter().copied());
    }
    let copy = Array::from_shape_vec(IxDyn(array.raw_dim().slice()), items);
    Ok(copy.expect("as many items as the array has").into_pyarray(py).into_any())
}

/// Composites pixels, [H, W, 4] with alpha last, in place on `background`, in their order of channels.
#[pyfunction]
pub(crate) fn composite(
    py: Python<'_>,
    mut pixels: PyReadwriteArrayDyn<'_, u8>,
    background: [u8; 3],
) -> PyResult<()> {
    let pixels = pixels.as_slice_mut()?;
    py.detach(|| frame::composite(pixels, background));
    Ok(())
}

/// Pictures of `extent` in `format`, a name of GStreamer's, with the colorimetry of these names.
pub(crate) fn kind_of(
    format: &str,
    (width, height): (u32, u32),
    matrix: &str,
    range: &str,
) -> PyResult<FrameKind> {
    let unknown = || value_error(format!("format={format:?} is unknown"));
    let format = PixelFormat::from_name(format).ok_or_else(unknown)?;
    let range = match range {
        "full" => ColorRange::Full,
        "limited" => ColorRange::Limited,
        _ => {
            return Err(value_error(format!(
                "range={range:?}: \"full\" or \"limited\" is expected"
            )));
        }
    };
    let matrices = [
        ColorMatrix::Bt601,
        ColorMatrix::Bt709,
        ColorMatrix::Bt2020,
        ColorMatrix::Fcc,
        ColorMatrix::Smpte240m,
    ];
    let named = matrices.into_iter().find(|known| known.name() == matrix).ok_or_else(|| {
        let names = matrices.map(ColorMatrix::name).join(", ");
        value_error(format!("matrix={matrix:?} (expected one of {names})"))
    })?;
    let color = if format.is_rgb() {
        ColorTransform::from_rgb(range)
    } else {
        ColorTransform::from_ycbcr(named, range)
    };
    let extent = Extent::new(width, height);
    if !extent.is_supported() {
        let most = Extent::SIDE_MAX;
        return Err(value_error(format!(
            "image has {extent} pixels: both sides must lie in 1..={most}"
        )));
    }
    Ok(FrameKind { format, extent, color })
}

/// The frame in `planes`, the bytes of each with its stride.
pub(crate) fn frame_of<'a>(
    kind: FrameKind,
    planes: &[(&'a [u8], usize)],
) -> PyResult<FrameView<'a>> {
    let FrameKind { format, extent, color } = kind;
    if planes.len() != format.plane_count() {
        let (given, expected) = (planes.len(), format.plane_count());
        return Err(value_error(format!(
            "image has {given} planes, and {} has {expected}",
            format.name()
        )));
    }
    let planes: Vec<_> = planes.iter().map(|&(bytes, stride)| Plane { bytes, stride }).collect();
    FrameView::new(format, extent, color, &planes)
        .map_err(|error| value_error(format!("image: {error}")))
}

/// The bytes of `given`, without Python.
pub(crate) fn bytes_of<'a>(given: &'a PictureArrays<'_>) -> PyResult<Vec<(&'a [u8], usize)>> {
    let bytes =
        |(bytes, stride): &'a (PyReadonlyArray1<'_, u8>, usize)| Ok((bytes.as_slice()?, *stride));
    given.iter().map(bytes).collect()
}
