//! How the samples of a frame lie in memory.

use foveate_core::color::{ColorRange, ColorTransform, Colorimetry};
use foveate_core::depth::{DepthFormat, DepthView};
use foveate_core::frame::{FrameError, FrameKind, FrameView, PixelFormat, Plane};
use foveate_core::geometry::extent::Extent;
use foveate_core::gray::GrayRange;
use foveate_core::mask::MaskFill;
use foveate_core::pixel::{PixelAspect, PixelFacts};

/// The samples of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleFormat {
    /// Samples of a picture.
    Picture(PixelFormat, Colorimetry),
    /// Samples of depth.
    Depth(DepthFormat),
}

/// Where a plane lies in a buffer, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlaneLayout {
    /// Bytes from the start of the buffer to the first row.
    pub offset: usize,
    /// Bytes from one row to the next.
    pub stride: usize,
}

/// How the samples of a frame lie in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameLayout {
    /// Format of the samples.
    pub samples: SampleFormat,
    /// Width and height in pixels.
    pub extent: Extent,
    /// Shape of a pixel.
    pub pixel_aspect: PixelAspect,
    /// The samples of 16-bit gray that became 0 and 255; `None` if the source has 8 bits.
    pub gray_range: Option<GrayRange>,
    /// The planes of the format; the others are empty.
    pub planes: [PlaneLayout; 3],
}

/// Rows of a buffer of our own begin at multiples of this many bytes, as vector instructions like them.
const ROW_ALIGNMENT: usize = 64;

/// Most bytes of a buffer for frames of at most `pixels_max` pixels: four for each, a quarter more for edges that decoders add, and what
/// these and the alignment of rows take of small pictures.
pub const fn buffer_bytes_max(pixels_max: u32) -> u64 {
    5 * pixels_max as u64 + (4 << 20)
}

impl FrameLayout {
    /// A layout without needless gaps, and the bytes that it needs.
    pub fn packed(
        samples: SampleFormat,
        extent: Extent,
        pixel_aspect: PixelAspect,
    ) -> (Self, usize) {
        let (mut planes, mut end) = ([PlaneLayout::default(); 3], 0);
        let layout = Self { samples, extent, pixel_aspect, gray_range: None, planes };
        for (plane, (row_bytes, rows)) in planes.iter_mut().zip(layout.rows()) {
            let stride = row_bytes.next_multiple_of(ROW_ALIGNMENT);
            *plane = PlaneLayout { offset: end, stride };
            end += stride * rows;
        }
        (Self { planes, ..layout }, end)
    }

    /// The layout, moved `offset` bytes further into a buffer.
    pub fn moved(self, offset: usize) -> Self {
        let mut planes = self.planes;
        planes.iter_mut().zip(self.rows()).for_each(|(plane, _)| plane.offset += offset);
        Self { planes, ..self }
    }

    /// Bytes of the samples of a row of each plane, and its rows.
    fn rows(&self) -> impl Iterator<Item = (usize, usize)> {
        let Self { samples, extent, .. } = *self;
        let count = match samples {
            SampleFormat::Picture(format, _) => format.plane_count(),
            SampleFormat::Depth(_) => 1,
        };
        (0..count).map(move |index| match samples {
            SampleFormat::Picture(format, _) => {
                let shape = format.plane_shape(index, extent);
                (shape.row_bytes as usize, shape.rows as usize)
            }
            SampleFormat::Depth(format) => {
                (extent.width as usize * format.sample_bytes(), extent.height as usize)
            }
        })
    }

    /// Format, colour and extent of the frame; depth counts as gray, which also has one sample a pixel.
    pub fn kind(&self) -> FrameKind {
        let (format, color) = match self.samples {
            SampleFormat::Picture(format, color) => (format, color.transform()),
            SampleFormat::Depth(_) => {
                (PixelFormat::Gray8, ColorTransform::from_rgb(ColorRange::Full))
            }
        };
        FrameKind { format, extent: self.extent, color }
    }

    /// Pixel aspect ratio, colour and range of gray.
    pub fn facts(&self) -> PixelFacts {
        let color = match self.samples {
            SampleFormat::Picture(_, color) => Some(color),
            SampleFormat::Depth(_) => None,
        };
        PixelFacts { pixel_aspect: self.pixel_aspect, color, gray_range: self.gray_range }
    }

    fn plane<'a>(&self, index: usize, bytes: &'a [u8]) -> Plane<'a> {
        let PlaneLayout { offset, stride } = self.planes[index];
        Plane { bytes: bytes.get(offset..).unwrap_or_default(), stride }
    }

    /// The picture in `bytes`.
    ///
    /// # Errors
    ///
    /// If it is depth, its size is not supported, or a plane is too short.
    pub fn picture<'a>(&self, bytes: &'a [u8]) -> Result<FrameView<'a>, FrameError> {
        let SampleFormat::Picture(format, color) = self.samples else {
            return Err(FrameError::other_content());
        };
        let planes = [0, 1, 2].map(|index| self.plane(index, bytes));
        FrameView::new(format, self.extent, color.transform(), &planes[..format.plane_count()])
    }

    /// The depth in `bytes`.
    ///
    /// # Errors
    ///
    /// If it is a picture, its size is not supported, or the plane is too short.
    pub fn depth<'a>(&self, bytes: &'a [u8]) -> Result<DepthView<'a>, FrameError> {
        match self.samples {
            SampleFormat::Picture(..) => Err(FrameError::other_content()),
            SampleFormat::Depth(format) => {
                DepthView::new(format, self.extent, self.plane(0, bytes))
            }
        }
    }

    /// Checks that all samples lie in `bytes`.
    ///
    /// # Errors
    ///
    /// If the size is not supported, or a plane is too short.
    pub fn check(&self, bytes: &[u8]) -> Result<(), FrameError> {
        match self.samples {
            SampleFormat::Picture(..) => self.picture(bytes).map(drop),
            SampleFormat::Depth(_) => self.depth(bytes).map(drop),
        }
    }

    /// Copies the samples of a frame of `source`, which lie in `bytes`, to `target`, where they lie as this says. Both must hold all.
    pub fn copy_from(&self, target: &mut [u8], source: &Self, bytes: &[u8]) {
        for (index, (row_bytes, rows)) in self.rows().enumerate() {
            let PlaneLayout { offset, stride } = self.planes[index];
            let from = source.plane(index, bytes);
            if from.stride == stride {
                let len = stride * (rows - 1) + row_bytes;
                target[offset..][..len].copy_from_slice(&from.bytes[..len]);
                continue;
            }
            for row in 0..rows {
                let to = &mut target[offset + row * stride..][..row_bytes];
                to.copy_from_slice(&from.bytes[row * from.stride..][..row_bytes]);
            }
        }
    }

    /// Whether `fill`, of frames of this kind, has been applied to the samples in `bytes`, which hold all.
    pub fn is_filled(&self, bytes: &[u8], fill: &MaskFill) -> bool {
        let plane = |index| self.plane(index, bytes);
        match self.samples {
            SampleFormat::Picture(format, _) => {
                (0..format.plane_count()).all(|index| fill.is_filled(index, plane(index)))
            }
            SampleFormat::Depth(format) => fill.is_clear(plane(0), format.sample_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use foveate_core::color::ColorRange;

    use super::*;

    #[test]
    fn every_frame_fits_a_buffer_of_the_largest_size() {
        let color = Colorimetry {
            matrix: None,
            range: ColorRange::Full,
            transfer: None,
            is_matrix_assumed: false,
            is_range_assumed: false,
        };
        let pictures = PixelFormat::ALL.map(|format| SampleFormat::Picture(format, color));
        let depths = DepthFormat::ALL.map(SampleFormat::Depth);
        let longest = Extent::SIDE_MAX;
        let sides = [(1, 1), (1, longest), (longest, 1), (65, longest), (longest, longest)];
        for samples in pictures.into_iter().chain(depths) {
            for (width, height) in sides {
                let extent = Extent::new(width, height);
                let (_, bytes) = FrameLayout::packed(samples, extent, PixelAspect::SQUARE);
                let pixels = u32::try_from(extent.area()).unwrap();
                assert!(bytes as u64 <= buffer_bytes_max(pixels), "{samples:?} {extent}");
            }
        }
    }
}
