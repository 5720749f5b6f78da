//! What the appsink takes, what caps say about a frame, and which element brings other caps there.

use gstreamer as gst;
use gstreamer_video as gst_video;

use super::{CaptureError, hints};
use foveate_core::color::{ColorMatrix, ColorRange, ColorTransform};
use foveate_core::frame::PixelFormat;
use foveate_core::geometry::extent::Extent;
use foveate_log::redact::redacted;

/// What caps say about a frame.
#[derive(Clone, Debug)]
pub(super) struct FrameFormat {
    /// The caps themselves, to see when they change.
    pub(super) caps: gst::Caps,
    /// Memory layout where a buffer says nothing else.
    pub(super) info: gst_video::VideoInfo,
    /// Memory layout of the samples.
    pub(super) format: PixelFormat,
    /// Width and height in pixels.
    pub(super) extent: Extent,
    /// How samples become RGB.
    pub(super) color: ColorTransform,
}

/// The caps that are read as they are: progressive frames, or at least frames, in system memory.
pub(super) fn readable() -> gst::Caps {
    let formats = || gst::List::new(PixelFormat::ALL.map(PixelFormat::name));
    let raw = || gst::Structure::builder("video/x-raw").field("format", formats());
    let progressive = raw().field("interlace-mode", "progressive").build();
    // Caps need not say that they are progressive, so interlaced ones are sorted out when they come.
    [progressive, raw().build()].into_iter().collect()
}

/// What `caps` say, which [`readable`] has let in.
///
/// # Errors
///
/// If the size is not supported, or the caps contradict themselves.
pub(super) fn read(caps: &gst::Caps) -> Result<FrameFormat, CaptureError> {
    let (info, format, extent) = checked(caps)?;
    let color = color_of(&info, format);
    if !format.is_rgb() && !names_matrix(caps) {
        let matrix = info.colorimetry().matrix();
        tracing::info!(?matrix, "the caps name no colour matrix; GStreamer chooses by the height");
    }
    Ok(FrameFormat { caps: caps.clone(), info, format, extent, color })
}

/// Whether the lines of a frame of `caps` are of two moments.
///
/// # Errors
///
/// As [`read`].
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

/// Whether caps say themselves how RGB became luma and chroma.
fn names_matrix(caps: &gst::Caps) -> bool {
    let text = caps.structure(0).and_then(|structure| structure.get::<&str>("colorimetry").ok());
    let named = text.and_then(|text| text.parse::<gst_video::VideoColorimetry>().ok());
    named.is_some_and(|named| named.matrix() != gst_video::VideoColorMatrix::Unknown)
}

/// The conversion that the colorimetry asks for. Where caps have none, or one that makes no sense for the format, `info`
/// already holds GStreamer's own choice: BT.709 above 576 lines, else BT.601.
fn color_of(info: &gst_video::VideoInfo, format: PixelFormat) -> ColorTransform {
    let colorimetry = info.colorimetry();
    let full_by_default = format.is_rgb() || format == PixelFormat::Gray8;
    let range = match colorimetry.range() {
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
        // Not in caps of luma and chroma: GStreamer replaces what does not fit them.
        _ => ColorMatrix::Bt601,
    };
    ColorTransform::from_ycbcr(matrix, range)
}

/// An element that is inserted before the appsink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Adapter {
    /// Name of its factory.
    pub(super) element: &'static str,
    /// Properties to set, as text.
    pub(super) properties: &'static [(&'static str, &'static str)],
}

const CONVERT: Adapter = Adapter { element: "videoconvert", properties: &[] };

/// One frame for two fields: what a camera saw at one moment is worth more than twice the rate.
const DEINTERLACE: Adapter =
    Adapter { element: "deinterlace", properties: &[("fields", "top"), ("mode", "auto")] };

/// Elements that bring a device's frames to system memory, by caps feature, in the order in which they are tried.
const DOWNLOADS: [(&str, &[&str]); 7] = [
    ("memory:GLMemory", &["gldownload"]),
    ("memory:VAMemory", &["vapostproc"]),
    ("memory:VASurface", &["vaapipostproc"]),
    ("memory:DMABuf", &["vapostproc", "vaapipostproc"]),
    ("memory:NVMM", &["nvvidconv", "nvvideoconvert"]),
    ("memory:CUDAMemory", &["cudadownload"]),
    ("memory:VulkanImage", &["vulkandownload"]),
];

/// The elements that bring `offered` to [`readable`] caps, in the order of the pipeline.
///
/// # Errors
///
/// If they lie in a device's memory and nothing that is installed fetches them.
pub(super) fn adapters(offered: &gst::Caps) -> Result<Vec<Adapter>, CaptureError> {
    let mut adapters = Vec::new();
    if let Some(memory) = device_memory(offered) {
        adapters.push(download(&memory)?);
    }
    // First, because it takes every format, and interlaced frames as well.
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
