//! Arrays as frames.

use foveate_core::color::{ColorMatrix, ColorRange, ColorTransform};
use foveate_core::frame::{FrameKind, FrameView, PixelFormat, Plane};
use foveate_core::geometry::extent::Extent;
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;

use crate::errors::value_error;

/// Planes as Python gives them: their bytes, and the bytes from one row to the next.
pub(crate) type Given<'py> = Vec<(PyReadonlyArray1<'py, u8>, usize)>;

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
        value_error(format!("matrix={matrix:?}: one of {names} is expected"))
    })?;
    let color = if format.is_rgb() {
        ColorTransform::from_rgb(range)
    } else {
        ColorTransform::from_ycbcr(named, range)
    };
    let extent = Extent::new(width, height);
    if !extent.is_supported() {
        let most = Extent::MAX_SIDE;
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
pub(crate) fn bytes_of<'a>(given: &'a Given<'_>) -> PyResult<Vec<(&'a [u8], usize)>> {
    let bytes =
        |(bytes, stride): &'a (PyReadonlyArray1<'_, u8>, usize)| Ok((bytes.as_slice()?, *stride));
    given.iter().map(bytes).collect()
}
