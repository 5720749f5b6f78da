//! Arrays as frames.

use arrayvec::ArrayVec;
use foveate_core::color::{ColorMatrix, ColorRange, ColorTransform};
use foveate_core::frame::{FrameKind, FrameView, PixelFormat, Plane, pack_pixels};
use foveate_core::geometry::extent::Extent;
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;

use crate::errors::value_error;

/// Planes as Python gives them: their bytes, and the bytes from one row to the next.
pub(crate) type Given<'py> = Vec<(PyReadonlyArray1<'py, u8>, usize)>;

/// How arrays are to be read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Reading {
    /// What the engine reads.
    pub(crate) kind: FrameKind,
    /// Whether the array has three bytes a pixel, which the engine does not read.
    is_packed: bool,
}

impl Reading {
    /// Reads pictures of `extent` in `format`, a name of GStreamer's, with the colorimetry of these names.
    pub(crate) fn new(
        format: &str,
        extent: (u32, u32),
        matrix: &str,
        range: &str,
    ) -> PyResult<Self> {
        let (format, is_packed) = match format {
            "RGB" => (PixelFormat::Rgbx, true),
            "BGR" => (PixelFormat::Bgrx, true),
            name => (
                PixelFormat::from_name(name)
                    .ok_or_else(|| value_error(format!("format={name:?} is unknown")))?,
                false,
            ),
        };
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
        let extent = Extent::new(extent.0, extent.1);
        if !extent.is_supported() {
            let most = Extent::MAX_SIDE;
            return Err(value_error(format!(
                "image has {extent} pixels: both sides must lie in 1..={most}"
            )));
        }
        Ok(Self { kind: FrameKind { format, extent, color }, is_packed })
    }

    /// Shows `work` the frame in `planes`, the bytes of each with its stride. `packed` keeps the memory that some formats need.
    pub(crate) fn read<R>(
        self,
        planes: &[(&[u8], usize)],
        packed: &mut Vec<u8>,
        work: impl FnOnce(&FrameView<'_>) -> R,
    ) -> PyResult<R> {
        let FrameKind { format, extent, color } = self.kind;
        let (bytes, stride) = planes[0];
        let width = extent.width as usize;
        let planes: ArrayVec<_, 3> = if self.is_packed {
            packed.resize(width * 4 * extent.height as usize, 0);
            for (y, target) in packed.chunks_exact_mut(width * 4).enumerate() {
                pack_pixels(target, &bytes[y * stride..][..width * 3]);
            }
            ArrayVec::from_iter([Plane { bytes: packed, stride: width * 4 }])
        } else {
            planes.iter().map(|&(bytes, stride)| Plane { bytes, stride }).collect()
        };
        let frame = FrameView::new(format, extent, color, &planes);
        Ok(work(&frame.map_err(|error| value_error(format!("image: {error}")))?))
    }
}

/// The bytes of `given`, without Python.
pub(crate) fn bytes_of<'a>(given: &'a Given<'_>) -> PyResult<Vec<(&'a [u8], usize)>> {
    let bytes =
        |(bytes, stride): &'a (PyReadonlyArray1<'_, u8>, usize)| Ok((bytes.as_slice()?, *stride));
    given.iter().map(bytes).collect()
}
