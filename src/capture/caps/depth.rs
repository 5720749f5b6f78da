//! Caps of depth: 16-bit gray video, and tensors of floats, for which GStreamer's video has no format.

use gstreamer as gst;
use gstreamer_video as gst_video;

use super::{FrameFormat, SampleFormat, extent_of};
use crate::CaptureError;
use foveate_core::depth::DepthFormat;
use foveate_core::geometry::extent::Extent;
use foveate_core::pixel::PixelAspect;
use foveate_log::redact::redacted;

/// The name of the caps of tensors, as NNStreamer has them.
const TENSORS: &str = "other/tensors";

/// Formats of video whose samples are whole numbers of 16 bits.
pub(in super::super) const WHOLE: [DepthFormat; 2] = [DepthFormat::Gray16Le, DepthFormat::Gray16Be];

/// Caps that can be read as depth.
pub(in super::super) fn readable() -> gst::Caps {
    let formats = WHOLE.map(DepthFormat::name);
    let video =
        gst::Structure::builder("video/x-raw").field("format", gst::List::new(formats)).build();
    let tensors = gst::Structure::builder(TENSORS)
        .field("format", "static")
        .field("num_tensors", 1_i32)
        .field("types", DepthFormat::Float32Le.name())
        .build();
    [video, tensors].into_iter().collect()
}

/// Parses [`readable`] caps. Fails if the size is not supported, or they are others.
pub(in super::super) fn read(caps: &gst::Caps) -> Result<FrameFormat, CaptureError> {
    let pixel_aspect = PixelAspect::SQUARE;
    let format = |info, samples, extent| FrameFormat {
        caps: caps.clone(),
        info,
        wide: None,
        samples,
        extent,
        pixel_aspect,
    };
    if let Some(extent) = tensor_extent(caps) {
        if !extent.is_supported() {
            return Err(CaptureError::Extent { extent });
        }
        return Ok(format(None, SampleFormat::Depth(DepthFormat::Float32Le), extent));
    }
    if caps.structure(0).is_none_or(|structure| structure.name() == TENSORS) {
        return Err(refused(caps));
    }
    let extent = extent_of(caps)?;
    let info = gst_video::VideoInfo::from_caps(caps).map_err(|_| refused(caps))?;
    let found = DepthFormat::from_name(info.format().to_str());
    let samples = SampleFormat::Depth(found.ok_or_else(|| refused(caps))?);
    if info.is_interlaced() {
        return Err(refused(caps));
    }
    Ok(format(Some(info), samples, extent))
}

/// Why `caps` are not read as depth.
pub(in super::super) fn refused(caps: &gst::Caps) -> CaptureError {
    CaptureError::NotDepth { offered: redacted(&caps.to_string()) }
}

/// The size of a static tensor of floats with one number a pixel: innermost first, as `1:640:480` or `1:640:480:1`.
fn tensor_extent(caps: &gst::Caps) -> Option<Extent> {
    let structure = caps.structure(0).filter(|structure| structure.name() == TENSORS)?;
    let dimensions = structure.get::<&str>("dimensions").ok()?;
    let sides: Vec<u32> = dimensions.split(':').map(str::parse).collect::<Result<_, _>>().ok()?;
    match sides[..] {
        [1, width, height, ref rest @ ..] if rest.iter().all(|side| *side == 1) => {
            Some(Extent::new(width, height))
        }
        _ => None,
    }
}
