//! Decodes the bytes of a picture file to pixels.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Cursor, Read, Seek};
use std::path::Path;

use foveate_core::color::ColorTransform;
use foveate_core::frame::{FrameKind, FrameView, PixelFormat, Plane, composite};
use foveate_core::geometry::extent::Extent;
use foveate_core::gray::{GrayLoss, GrayRange, GrayScale, GrayScaling};
use foveate_core::{exif, jpeg};
use image::error::DecodingError;
use image::metadata::Orientation;
use image::{
    DynamicImage, GrayAlphaImage, GrayImage, ImageDecoder, ImageError, ImageFormat, ImageReader,
    Limits, RgbImage,
};
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

/// Most bytes of thumbnails, profiles and the like, in a file or once they are unpacked.
const METADATA_BYTES_MAX: u64 = 64 << 20;

/// Most bytes of a file, and of what a decoder allocates, for a picture of `pixels`: four channels of 16 bits each, and
/// [`METADATA_BYTES_MAX`].
fn bytes_max(pixels: u64) -> u64 {
    pixels * 8 + METADATA_BYTES_MAX
}

/// Limits of the image decoders.
fn limits(bytes: u64) -> Limits {
    let mut limits = Limits::default();
    limits.max_alloc = Some(bytes);
    limits
}

/// Options for decoding pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeOptions {
    /// A picture of more pixels is refused before it is decoded.
    pub max_pixels: u32,
    /// R, G and B behind what is transparent.
    pub background: [u8; 3],
    /// The samples of 16-bit gray that become black and white; `None` for all, which is worth a warning where levels are lost.
    pub gray_range: Option<GrayScaling>,
}

impl Default for DecodeOptions {
    /// 128 million pixels, on black, gray as it is.
    fn default() -> Self {
        Self { max_pixels: Extent::DEFAULT_MAX_PIXELS, background: [0; 3], gray_range: None }
    }
}

/// A decoded picture: R, G and B of 8 bits, row by row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodedPicture {
    /// Width and height in pixels, upright.
    pub extent: Extent,
    /// Three bytes a pixel.
    pub rgb: Vec<u8>,
    /// How 16-bit gray was scaled; `None` for other pictures.
    pub gray: Option<GrayFacts>,
}

/// How 16-bit gray was scaled to 8 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrayFacts {
    /// The samples that became black and white.
    pub range: GrayRange,
    /// Reason for a warning.
    pub loss: Option<GrayLoss>,
}

/// Why a picture cannot be decoded. The messages continue the name of the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The file cannot be read.
    #[error("cannot be read: {0}")]
    File(#[source] std::io::Error),
    /// The bytes are not a picture of a known format, or are damaged.
    #[error("cannot be decoded: {0}")]
    Picture(#[source] ImageError),
    /// The picture is not decoded, for the reason in words.
    #[error("{0}")]
    Refused(String),
}

impl DecodeError {
    fn unsupported(extent: Extent) -> Self {
        let most = Extent::SIDE_MAX;
        Self::Refused(format!("has {extent} pixels (expected sides of 1 to {most})"))
    }
}

impl DecodedPicture {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or holds no whole picture.
    pub fn open(path: &Path, options: DecodeOptions) -> Result<Self, DecodeError> {
        EncodedPicture::open(path, options)?.decode()
    }

    /// Facts shared by pictures of its size and format.
    pub fn kind(&self) -> FrameKind {
        let (format, color) = (PixelFormat::Rgb, ColorTransform::IDENTITY);
        FrameKind { format, extent: self.extent, color }
    }

    /// The frame for the engine.
    pub fn view(&self) -> FrameView<'_> {
        let FrameKind { format, extent, color } = self.kind();
        let plane = Plane { bytes: &self.rgb, stride: extent.width as usize * 3 };
        FrameView::new(format, extent, color, &[plane]).expect("as many bytes as pixels")
    }
}

/// Decodes the bytes of a file: its first picture, upright as its EXIF says, composited on the background, in 8 bits.
///
/// # Errors
///
/// If their picture is damaged, cut off, too large, or of an unknown format.
pub fn decode(bytes: &[u8], options: DecodeOptions) -> Result<DecodedPicture, DecodeError> {
    EncodedPicture::read(Cursor::new(bytes), bytes.len() as u64, options)?.decode()
}

/// A picture whose header was read.
pub(crate) struct EncodedPicture<'a> {
    pixels: Pixels<'a>,
    /// Size before the picture is turned upright.
    extent: Extent,
    orientation: Orientation,
    /// Most bytes that are in use while it is decoded.
    pub(crate) working_bytes: u64,
    options: DecodeOptions,
}

/// Pixels or bytes to decode.
enum Pixels<'a> {
    Jpeg(Vec<u8>),
    Other(Box<dyn ImageDecoder + 'a>),
}

impl EncodedPicture<'static> {
    /// Reads the header of a regular file.
    pub(crate) fn open(path: &Path, options: DecodeOptions) -> Result<Self, DecodeError> {
        let metadata = fs::metadata(path).map_err(DecodeError::File)?;
        if !metadata.is_file() {
            let text = "cannot be read: not a regular file (expected a picture)";
            return Err(DecodeError::Refused(text.to_owned()));
        }
        let (bytes, max_pixels) = (metadata.len(), options.max_pixels);
        if bytes_max(max_pixels.into()) < bytes {
            return Err(DecodeError::Refused(format!(
                "is too large: {bytes} bytes for at most {max_pixels} pixels (`max_pixels`)"
            )));
        }
        let file = File::open(path).map_err(DecodeError::File)?;
        Self::read(BufReader::new(file), bytes, options)
    }
}

impl<'a> EncodedPicture<'a> {
    /// Reads the header of a file of `bytes` bytes.
    fn read(
        file: impl BufRead + Seek + 'a,
        bytes: u64,
        options: DecodeOptions,
    ) -> Result<Self, DecodeError> {
        let mut reader = ImageReader::new(file).with_guessed_format().map_err(DecodeError::File)?;
        if reader.format() == Some(ImageFormat::Jpeg) {
            return Self::jpeg(reader.into_inner(), options);
        }
        // Before the size is known: a profile of a kilobyte may unpack to a gigabyte.
        reader.limits(limits(METADATA_BYTES_MAX));
        let mut decoder = reader.into_decoder().map_err(DecodeError::Picture)?;
        let (width, height) = decoder.dimensions();
        let extent = checked(Extent::new(width, height), bytes, options)?;
        let most = bytes_max(extent.area() as u64);
        decoder.set_limits(limits(most)).map_err(DecodeError::Picture)?;
        let exif = decoder.exif_metadata().map_err(DecodeError::Picture)?;
        let orientation = match exif.as_deref().and_then(orientation_in) {
            Some(orientation) => orientation,
            None => decoder.orientation().map_err(DecodeError::Picture)?,
        };
        let working_bytes = decoder.total_bytes() + rgb_bytes(extent);
        let pixels = Pixels::Other(Box::new(decoder));
        Ok(Self { pixels, extent, orientation, working_bytes, options })
    }

    fn jpeg(mut file: impl BufRead + Seek, options: DecodeOptions) -> Result<Self, DecodeError> {
        let outline = jpeg::outline(&mut file).map_err(DecodeError::File)?;
        let Some(length) = outline.bytes else {
            let text =
                "cannot be decoded: the JPEG is cut off (no end marker); copy the file again";
            return Err(DecodeError::Refused(text.to_owned()));
        };
        if let Some(extent) = outline.extent {
            checked(extent, length, options)?;
        }
        file.rewind().map_err(DecodeError::File)?;
        let mut bytes = Vec::new();
        file.take(length).read_to_end(&mut bytes).map_err(DecodeError::File)?;
        let mut decoder = jpeg_decoder(&bytes);
        decoder.decode_headers().map_err(damaged)?;
        let (width, height) = decoder.dimensions().unwrap_or_default();
        #[expect(clippy::cast_possible_truncation, reason = "a JPEG's sides have 16 bits")]
        let extent = checked(Extent::new(width as u32, height as u32), length, options)?;
        let orientation = outline.orientation.and_then(Orientation::from_exif);
        let orientation = orientation.unwrap_or(Orientation::NoTransforms);
        // All coefficients of a progressive one are kept, of 16 bits.
        let is_sequential = decoder.info().is_some_and(|info| info.sof.is_sequential_dct());
        let coefficients = if is_sequential { 0 } else { 2 * rgb_bytes(extent) };
        let working_bytes = bytes.len() as u64 + coefficients + rgb_bytes(extent);
        Ok(Self { pixels: Pixels::Jpeg(bytes), extent, orientation, working_bytes, options })
    }

    /// Decodes the picture.
    pub(crate) fn decode(self) -> Result<DecodedPicture, DecodeError> {
        let mut picture = match self.pixels {
            Pixels::Jpeg(bytes) => {
                let rgb = jpeg_decoder(&bytes).decode().map_err(damaged)?;
                let picture = RgbImage::from_raw(self.extent.width, self.extent.height, rgb);
                DynamicImage::ImageRgb8(
                    picture.ok_or_else(|| DecodeError::unsupported(self.extent))?,
                )
            }
            Pixels::Other(decoder) => {
                DynamicImage::from_decoder(decoder).map_err(DecodeError::Picture)?
            }
        };
        let gray;
        (picture, gray) = scaled(picture, self.options.gray_range);
        if picture.color().has_alpha() {
            let mut pixels = picture.into_rgba8();
            composite(&mut pixels, self.options.background);
            picture = DynamicImage::ImageRgba8(pixels);
        }
        picture.apply_orientation(self.orientation);
        let pixels = picture.into_rgb8();
        let extent = Extent::new(pixels.width(), pixels.height());
        Ok(DecodedPicture { extent, rgb: pixels.into_raw(), gray })
    }
}

/// `extent`, if a file of `bytes` bytes may hold a picture of it.
fn checked(extent: Extent, bytes: u64, options: DecodeOptions) -> Result<Extent, DecodeError> {
    let max_pixels = options.max_pixels;
    if !extent.is_supported() {
        Err(DecodeError::unsupported(extent))
    } else if (max_pixels as usize) < extent.area() {
        Err(DecodeError::Refused(format!(
            "is too large: {extent} pixels (expected at most {max_pixels} in all): raise `max_pixels`, or scale it down"
        )))
    } else if bytes_max(extent.area() as u64) < bytes {
        let most = bytes_max(extent.area() as u64);
        Err(DecodeError::Refused(format!(
            "is too large: {bytes} bytes for {extent} pixels (expected at most {most}): save the picture without its metadata"
        )))
    } else {
        Ok(extent)
    }
}

/// The orientation in EXIF data.
fn orientation_in(exif: &[u8]) -> Option<Orientation> {
    exif::orientation(exif).and_then(Orientation::from_exif)
}

/// 16-bit gray as 8 bits; other pictures as they are.
fn scaled(
    picture: DynamicImage,
    scaling: Option<GrayScaling>,
) -> (DynamicImage, Option<GrayFacts>) {
    let (width, height) = (picture.width(), picture.height());
    let facts = |scale: &GrayScale| Some(GrayFacts { range: scale.range, loss: scale.loss });
    match picture {
        DynamicImage::ImageLuma16(samples) => {
            let scale = GrayScale::new(scaling, samples.iter().copied());
            let levels = samples.iter().map(|sample| scale.level(*sample)).collect();
            let gray = GrayImage::from_raw(width, height, levels).expect("a level a pixel");
            (DynamicImage::ImageLuma8(gray), facts(&scale))
        }
        DynamicImage::ImageLumaA16(samples) => {
            let pairs = || samples.as_chunks::<2>().0.iter();
            let scale = GrayScale::new(scaling, pairs().map(|[gray, _]| *gray));
            let alpha = |alpha: u16| GrayRange::FULL.level(alpha);
            let levels = pairs().flat_map(|pair| [scale.level(pair[0]), alpha(pair[1])]).collect();
            let gray = GrayAlphaImage::from_raw(width, height, levels).expect("two bytes a pixel");
            (DynamicImage::ImageLumaA8(gray), facts(&scale))
        }
        picture => (picture, None),
    }
}

fn rgb_bytes(extent: Extent) -> u64 {
    3 * extent.area() as u64
}

/// Refuses damaged data, which other decoders show in part.
fn jpeg_decoder(bytes: &[u8]) -> JpegDecoder<ZCursor<&[u8]>> {
    let options = DecoderOptions::default()
        .set_strict_mode(true)
        // The limits of the format.
        .set_max_width(usize::from(u16::MAX))
        .set_max_height(usize::from(u16::MAX))
        .jpeg_set_out_colorspace(ColorSpace::RGB);
    JpegDecoder::new_with_options(ZCursor::new(bytes), options)
}

fn damaged(error: zune_jpeg::errors::DecodeErrors) -> DecodeError {
    DecodeError::Picture(ImageError::Decoding(DecodingError::new(ImageFormat::Jpeg.into(), error)))
}
