//! Caps: those that the appsink accepts, the frame format that they describe, and the elements that convert others.

use gstreamer as gst;
use gstreamer_video as gst_video;

use super::{CaptureError, hints};
use foveate_core::color::{ColorMatrix, ColorRange, ColorTransform};
use foveate_core::frame::PixelFormat;
use foveate_core::geometry::extent::Extent;
use foveate_log::redact::redacted;

/// Frame format that caps describe.
#[derive(Clone, Debug)]
pub(super) struct FrameFormat {
    /// To notice when they change.
    pub(super) caps: gst::Caps,
    /// Memory layout of a buffer without VideoMeta.
    pub(super) info: gst_video::VideoInfo,
    pub(super) format: PixelFormat,
    /// Width and height in pixels.
    pub(super) extent: Extent,
    pub(super) color: ColorTransform,
}

/// Caps that need no conversion: raw frames in system memory, preferably progressive.
pub(super) fn readable() -> gst::Caps {
    let formats = || gst::List::new(PixelFormat::ALL.map(PixelFormat::name));
    let raw = || gst::Structure::builder("video/x-raw").field("format", formats());
    let progressive = raw().field("interlace-mode", "progressive").build();
    // Progressive caps need not say so; interlaced ones are refused when they arrive.
    [progressive, raw().build()].into_iter().collect()
}

/// Parses [`readable`] caps. Fails if the size is not supported, or the caps are incomplete.
pub(super) fn read(caps: &gst::Caps) -> Result<FrameFormat, CaptureError> {
    let (info, format, extent) = checked(caps)?;
    let named = named_colorimetry(caps);
    let color = color_of(&info, named.as_ref(), format);
    let is_matrix_known =
        named.is_some_and(|named| named.matrix() != gst_video::VideoColorMatrix::Unknown);
    if !format.is_rgb() && !is_matrix_known {
        let matrix = info.colorimetry().matrix();
        tracing::info!(
            ?matrix,
            "the caps name no colour matrix; GStreamer chose one by the frame height"
        );
    }
    Ok(FrameFormat { caps: caps.clone(), info, format, extent, color })
}

/// Fails as [`read`] does.
pub(super) fn is_interlaced(caps: &gst::Caps) -> Result<bool, CaptureError> {
    checked(caps).map(|(info, ..)| info.is_interlaced())
}

type Checked = (gst_video::VideoInfo, PixelFormat, Extent);

fn checked(caps: &gst::Caps) -> Result<Checked, CaptureError> {
    let extent = extent_of(caps)?;
    let refused = || CaptureError::NotNegotiated {
        offered: redacted(&caps.to_string()),
        reason: "they are not complete caps of raw video".to_owned(),
    };
    let info = gst_video::VideoInfo::from_caps(caps).map_err(|_| refused())?;
    let format = PixelFormat::from_name(info.format().to_str()).ok_or_else(refused)?;
    Ok((info, format, extent))
}

fn extent_of(caps: &gst::Caps) -> Result<Extent, CaptureError> {
    let side = |name| {
        let structure = caps.structure(0)?;
        u32::try_from(structure.get::<i32>(name).ok()?).ok()
    };
    let extent = Extent::new(side("width").unwrap_or(0), side("height").unwrap_or(0));
    if extent.is_supported() { Ok(extent) } else { Err(CaptureError::Extent { extent }) }
}

/// The colorimetry of the caps themselves.
fn named_colorimetry(caps: &gst::Caps) -> Option<gst_video::VideoColorimetry> {
    let text = caps.structure(0).and_then(|structure| structure.get::<&str>("colorimetry").ok());
    text.and_then(|text| text.parse().ok())
}

/// Where caps have no colorimetry, or one that does not fit the format, `info` holds GStreamer's own choice: BT.709 above
/// 576 lines, else BT.601. With an unknown matrix GStreamer also replaces the range that the caps have `named`, which is then
/// wrong.
fn color_of(
    info: &gst_video::VideoInfo,
    named: Option<&gst_video::VideoColorimetry>,
    format: PixelFormat,
) -> ColorTransform {
    let colorimetry = info.colorimetry();
    let full_by_default = format.is_rgb() || format == PixelFormat::Gray8;
    let named = named.map(gst_video::VideoColorimetry::range);
    let known = named.filter(|range| *range != gst_video::VideoColorRange::Unknown);
    let range = match known.unwrap_or_else(|| colorimetry.range()) {
        gst_video::VideoColorRange::Range0_255 => ColorRange::Full,
        gst_video::VideoColorRange::Range16_235 => ColorRange::Limited,
        _ if full_by_default => ColorRange::Full,
        _ => ColorRange::Limited,
    };
    if format.is_rgb() {
        return ColorTransform::from_rgb(range);
    }
    let matrix = match colorimetry.matrix() {
        gst_video::VideoColorMatrix::Bt601 => ColorMatrix::Bt601,
        gst_video::VideoColorMatrix::Bt709 => ColorMatrix::Bt709,
        gst_video::VideoColorMatrix::Bt2020 => ColorMatrix::Bt2020,
        gst_video::VideoColorMatrix::Fcc => ColorMatrix::Fcc,
        gst_video::VideoColorMatrix::Smpte240m => ColorMatrix::Smpte240m,
        // Impossible for YCbCr: GStreamer has replaced what does not fit.
        _ => ColorMatrix::Bt601,
    };
    ColorTransform::from_ycbcr(matrix, range)
}

/// An element to insert before the appsink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Adapter {
    /// Factory name.
    pub(super) element: &'static str,
    pub(super) properties: &'static [(&'static str, &'static str)],
}

const CONVERT: Adapter = Adapter { element: "videoconvert", properties: &[] };

/// One frame for two fields: frames of a single point in time are preferable to twice the rate.
const DEINTERLACE: Adapter =
    Adapter { element: "deinterlace", properties: &[("fields", "top"), ("mode", "auto")] };

/// Elements that copy device memory to system memory, by caps feature, in the order in which they are tried.
const DOWNLOADS: [(&str, &[&str]); 7] = [
    ("memory:GLMemory", &["gldownload"]),
    ("memory:VAMemory", &["vapostproc"]),
    ("memory:VASurface", &["vaapipostproc"]),
    ("memory:DMABuf", &["vapostproc", "vaapipostproc"]),
    ("memory:NVMM", &["nvvidconv", "nvvideoconvert"]),
    ("memory:CUDAMemory", &["cudadownload"]),
    ("memory:VulkanImage", &["vulkandownload"]),
];

/// The elements that convert `offered` to [`readable`] caps, in pipeline order. Fails if the frames lie in device memory and no
/// installed element copies them to system memory.
pub(super) fn adapters(offered: &gst::Caps) -> Result<Vec<Adapter>, CaptureError> {
    let mut adapters = Vec::new();
    if let Some(memory) = device_memory(offered) {
        adapters.push(download(&memory)?);
    }
    // Before the deinterlacer, because it accepts every format, interlaced or not.
    if !offered.can_intersect(&readable()) {
        adapters.push(CONVERT);
    }
    if names_interlaced(offered) {
        adapters.push(DEINTERLACE);
    }
    Ok(adapters)
}

fn device_memory(caps: &gst::Caps) -> Option<String> {
    let features = caps.features(0)?;
    let mut names = features.iter().map(|feature| feature.to_string());
    names.find(|name| name.starts_with("memory:") && name != "memory:SystemMemory")
}

fn names_interlaced(caps: &gst::Caps) -> bool {
    let mode = caps.structure(0).and_then(|structure| structure.get::<&str>("interlace-mode").ok());
    mode.is_some_and(|mode| mode != "progressive")
}

fn download(memory: &str) -> Result<Adapter, CaptureError> {
    let known = DOWNLOADS.iter().find(|(name, _)| *name == memory).map_or(&[][..], |entry| entry.1);
    let installed = |element: &&&'static str| hints::is_installed(element);
    if let Some(element) = known.iter().find(installed) {
        return Ok(Adapter { element, properties: &[] });
    }
    let remedy = match known.first() {
        Some(element) => {
            format!("install `{element}`: {}", hints::remedy_of_element(element))
        }
        None => "add the element that copies it to system memory before the appsink".to_owned(),
    };
    Err(CaptureError::DeviceMemory { memory: memory.to_owned(), remedy })
}
