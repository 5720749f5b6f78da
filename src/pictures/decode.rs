//! From the bytes of a file to pixels.

use std::io::{BufRead, Cursor, Seek};
use std::path::Path;

use foveate_core::color::ColorTransform;
use foveate_core::frame::{FrameKind, FrameView, PixelFormat, Plane};
use foveate_core::geometry::extent::Extent;
use image::{DynamicImage, ImageDecoder, ImageError, ImageReader, Limits};

/// Most bytes that a picture may take while it is decoded: that of the largest source, in 16 bits a channel.
const BYTES_MAX: u64 = Extent::MAX_SIDE as u64 * Extent::MAX_SIDE as u64 * 8;

/// A decoded picture: R, G and B of 8 bits, row by row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// Width and height in pixels, upright.
    pub extent: Extent,
    /// Three bytes a pixel.
    pub rgb: Vec<u8>,
}

/// Why a picture cannot be decoded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The file cannot be read.
    #[error("cannot be read: {0}")]
    File(#[source] std::io::Error),
    /// Its bytes are no picture of a known format, or a damaged one.
    #[error("is no picture that can be decoded: {0}")]
    Picture(#[source] ImageError),
    /// It has no pixels, or too many.
    #[error("has {0} pixels: both sides must lie in 1..={max}", max = Extent::MAX_SIDE)]
    Extent(Extent),
}

impl Decoded {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or holds no picture.
    pub fn open(path: &Path) -> Result<Self, DecodeError> {
        let reader = ImageReader::open(path).map_err(DecodeError::File)?;
        decoded(reader.with_guessed_format().map_err(DecodeError::File)?)
    }

    /// What it has in common with pictures of its size.
    pub fn kind(&self) -> FrameKind {
        let (format, color) = (PixelFormat::Rgb, ColorTransform::IDENTITY);
        FrameKind { format, extent: self.extent, color }
    }

    /// As the engine reads it.
    pub fn view(&self) -> FrameView<'_> {
        let FrameKind { format, extent, color } = self.kind();
        let plane = Plane { bytes: &self.rgb, stride: extent.width as usize * 3 };
        FrameView::new(format, extent, color, &[plane]).expect("as many bytes as pixels")
    }
}

/// Decodes the bytes of a file: its first picture, upright as its EXIF says, without alpha, in 8 bits.
///
/// # Errors
///
/// If they are no picture.
pub fn decode(bytes: &[u8]) -> Result<Decoded, DecodeError> {
    let reader = ImageReader::new(Cursor::new(bytes));
    decoded(reader.with_guessed_format().map_err(DecodeError::File)?)
}

fn decoded(mut reader: ImageReader<impl BufRead + Seek>) -> Result<Decoded, DecodeError> {
    let mut limits = Limits::default();
    (limits.max_image_width, limits.max_image_height) =
        (Some(Extent::MAX_SIDE), Some(Extent::MAX_SIDE));
    limits.max_alloc = Some(BYTES_MAX);
    reader.limits(limits);
    let mut decoder = reader.into_decoder().map_err(DecodeError::Picture)?;
    let orientation = decoder.orientation().map_err(DecodeError::Picture)?;
    let mut picture = DynamicImage::from_decoder(decoder).map_err(DecodeError::Picture)?;
    picture.apply_orientation(orientation);
    let pixels = picture.into_rgb8();
    let extent = Extent::new(pixels.width(), pixels.height());
    if extent.is_supported() {
        Ok(Decoded { extent, rgb: pixels.into_raw() })
    } else {
        Err(DecodeError::Extent(extent))
    }
}
