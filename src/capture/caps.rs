//! Caps: those that the appsink accepts, the frame format that they describe, and the elements that convert others.

use gstreamer as gst;
use gstreamer::glib::translate::IntoGlib;
use gstreamer_video as gst_video;

use super::gray::WideGray;
use super::{CaptureError, hints};
use foveate_core::color::{ColorMatrix, ColorRange, Colorimetry, Transfer};
use foveate_core::depth::DepthFormat;
use foveate_core::frame::{FrameKind, PixelFormat};
use foveate_core::geometry::extent::Extent;
use foveate_core::gray::GrayRange;
use foveate_core::pixel::{PixelAspect, PixelFacts};
use foveate_core::source::{Content, Orientation};
use foveate_log::redact::redacted;
use foveate_source::frame::FrameLayout;
pub(super) use foveate_source::frame::SampleFormat;

pub(super) mod depth;

/// Caps that need no conversion, of `extent` if one is given, and perhaps of square pixels.
pub(super) fn readable(content: Content, extent: Option<Extent>, is_square: bool) -> gst::Caps {
    match content {
        Content::Pictures => readable_pictures(extent, is_square),
        Content::Depth => depth::readable(),
    }
}

/// Parses them.
pub(super) fn read(content: Content, caps: &gst::Caps) -> Result<FrameFormat, CaptureError> {
    match content {
        Content::Pictures => read_pictures(caps),
        Content::Depth => depth::read(caps),
    }
}

/// Whether pictures of these caps are interlaced. Fails as [`read`] does.
pub(super) fn is_interlaced(content: Content, caps: &gst::Caps) -> Result<bool, CaptureError> {
    match content {
        Content::Pictures => checked(caps).map(|(info, ..)| info.is_interlaced()),
        Content::Depth => depth::read(caps).map(|_| false),
    }
}

/// The elements that convert `offered` to readable caps.
pub(super) fn adapters(
    content: Content,
    offered: &gst::Caps,
) -> Result<Vec<Adapter>, CaptureError> {
    match content {
        Content::Pictures => picture_adapters(offered),
        Content::Depth => Err(depth::refused(offered)),
    }
}

/// Frame format that caps describe.
#[derive(Clone, Debug)]
pub(super) struct FrameFormat {
    /// The caps, compared with later ones to notice a change.
    pub(super) caps: gst::Caps,
    /// Memory layout of a buffer without VideoMeta; `None` for rows without gaps.
    pub(super) info: Option<gst_video::VideoInfo>,
    /// The 16-bit gray that becomes the samples.
    pub(super) wide: Option<WideGray>,
    pub(super) samples: SampleFormat,
    /// Width and height in pixels.
    pub(super) extent: Extent,
    pub(super) pixel_aspect: PixelAspect,
}

impl FrameFormat {
    /// Layout of the samples in a buffer, without their planes. Gray of 16 bits was scaled by `gray_range`.
    pub(super) fn layout(&self, gray_range: Option<GrayRange>) -> FrameLayout {
        let Self { samples, extent, pixel_aspect, .. } = *self;
        let gray_range = gray_range.filter(|_| self.wide.is_some());
        FrameLayout { samples, extent, pixel_aspect, gray_range, planes: Default::default() }
    }

    /// Format, colour and extent that all frames share.
    pub(super) fn kind(&self) -> FrameKind {
        self.layout(None).kind()
    }
}

/// Caps that need no conversion by an element: raw frames in system memory, of `extent` if one is given, preferably of 8 bits and
/// progressive. With `is_square` pixels, which a scaler must be asked for: else it would stretch a picture of another shape.
fn readable_pictures(extent: Option<Extent>, is_square: bool) -> gst::Caps {
    let narrow = || gst::List::new(PixelFormat::ALL.map(PixelFormat::name));
    let wide = || gst::List::new(depth::WHOLE.map(DepthFormat::name));
    let size = |extent: Extent| [extent.width, extent.height].map(u32::cast_signed);
    let raw = |formats: gst::List| {
        let mut raw = gst::Structure::builder("video/x-raw").field("format", formats);
        if let Some([width, height]) = extent.map(size) {
            raw = raw.field("width", width).field("height", height);
        }
        if is_square {
            raw = raw.field("pixel-aspect-ratio", gst::Fraction::new(1, 1));
        }
        raw
    };
    let progressive = |formats| raw(formats).field("interlace-mode", "progressive").build();
    // Progressive caps need not say so; interlaced ones are refused when they arrive.
    [progressive(narrow()), raw(narrow()).build(), progressive(wide()), raw(wide()).build()]
        .into_iter()
        .collect()
}

/// Parses [`readable_pictures`] caps. Fails if the size is not supported, or the caps are incomplete.
fn read_pictures(caps: &gst::Caps) -> Result<FrameFormat, CaptureError> {
    let (info, format, extent) = checked(caps)?;
    let colorimetry = colorimetry_of(&info, named_colorimetry(caps), format);
    let samples = SampleFormat::Picture(format, colorimetry);
    let pixel_aspect = aspect_of(&info);
    let caps = caps.clone();
    let Some(wide) = wide_gray(&info) else {
        return Ok(FrameFormat {
            caps,
            info: Some(info),
            wide: None,
            samples,
            extent,
            pixel_aspect,
        });
    };
    let narrow = gst_video::VideoFormat::Gray8;
    let narrow = gst_video::VideoInfo::builder(narrow, extent.width, extent.height).build();
    let narrow = narrow.map_err(|_| CaptureError::Extent { extent })?;
    let wide = Some(WideGray { samples: wide, info });
    Ok(FrameFormat { caps, info: Some(narrow), wide, samples, extent, pixel_aspect })
}

fn checked(caps: &gst::Caps) -> Result<(gst_video::VideoInfo, PixelFormat, Extent), CaptureError> {
    let extent = extent_of(caps)?;
    let refused = || CaptureError::NotNegotiated {
        offered: redacted(&caps.to_string()),
        reason: "incomplete caps of raw video".to_owned(),
    };
    let info = gst_video::VideoInfo::from_caps(caps).map_err(|_| refused())?;
    let wide = wide_gray(&info).map(|_| PixelFormat::Gray8);
    let format = wide.or_else(|| PixelFormat::from_name(info.format().to_str()));
    Ok((info, format.ok_or_else(refused)?, extent))
}

/// The samples of 16-bit gray.
fn wide_gray(info: &gst_video::VideoInfo) -> Option<DepthFormat> {
    DepthFormat::from_name(info.format().to_str()).filter(|format| depth::WHOLE.contains(format))
}

/// The size of its frames.
pub(super) fn extent_of(caps: &gst::Caps) -> Result<Extent, CaptureError> {
    let side = |name| {
        let structure = caps.structure(0)?;
        u32::try_from(structure.get::<i32>(name).ok()?).ok()
    };
    let extent = Extent::new(side("width").unwrap_or(0), side("height").unwrap_or(0));
    if extent.is_supported() { Ok(extent) } else { Err(CaptureError::Extent { extent }) }
}

/// The shape of a pixel; GStreamer's fractions have no common divisor.
fn aspect_of(info: &gst_video::VideoInfo) -> PixelAspect {
    let par = info.par();
    match (u32::try_from(par.numer()), u32::try_from(par.denom())) {
        (Ok(width @ 1..), Ok(height @ 1..)) => PixelAspect { width, height },
        _ => PixelAspect::SQUARE,
    }
}

/// Warns if the pixels are not square, or HDR.
pub fn warn_of_picture(stream: &str, facts: &PixelFacts) {
    let PixelFacts { pixel_aspect, color, .. } = facts;
    if !pixel_aspect.is_square() {
        tracing::warn!(
            stream,
            %pixel_aspect,
            "the pixels are not square, so shapes are distorted: set `square_pixels = true`, or use the pixel aspect ratio of \
             the segment"
        );
    }
    if let Some(transfer) = color.and_then(Colorimetry::hdr_name) {
        tracing::warn!(
            stream,
            transfer,
            "HDR samples are treated as SDR, so contrast and colours are wrong: tone-map them in the pipeline \
             (docs/guide/troubleshooting.md#hdr)"
        );
    }
}

/// The colorimetry of the caps themselves.
pub(super) fn named_colorimetry(caps: &gst::CapsRef) -> Option<gst_video::VideoColorimetry> {
    let text = caps.structure(0).and_then(|structure| structure.get::<&str>("colorimetry").ok());
    text.and_then(|text| text.parse().ok())
}

/// Colour of the samples. Where caps have no colorimetry, or one that does not fit the format, `info` holds GStreamer's own choice:
/// BT.709 above 576 lines, else BT.601. With an unknown matrix GStreamer also replaces the range that the caps have `named`, which is then
/// wrong.
fn colorimetry_of(
    info: &gst_video::VideoInfo,
    named: Option<gst_video::VideoColorimetry>,
    format: PixelFormat,
) -> Colorimetry {
    let full_by_default = format.is_rgb() || format == PixelFormat::Gray8;
    let is_known =
        |range: &gst_video::VideoColorRange| *range != gst_video::VideoColorRange::Unknown;
    let known = named.as_ref().map(gst_video::VideoColorimetry::range).filter(is_known);
    let range = match known.unwrap_or_else(|| info.colorimetry().range()) {
        gst_video::VideoColorRange::Range0_255 => ColorRange::Full,
        gst_video::VideoColorRange::Range16_235 => ColorRange::Limited,
        _ if full_by_default => ColorRange::Full,
        _ => ColorRange::Limited,
    };
    let transfer = named.as_ref().and_then(|named| transfer_of(named.transfer()));
    let is_matrix_named =
        named.is_some_and(|named| named.matrix() != gst_video::VideoColorMatrix::Unknown);
    let matrix = match info.colorimetry().matrix() {
        _ if format.is_rgb() => None,
        gst_video::VideoColorMatrix::Bt709 => Some(ColorMatrix::Bt709),
        gst_video::VideoColorMatrix::Bt2020 => Some(ColorMatrix::Bt2020),
        gst_video::VideoColorMatrix::Fcc => Some(ColorMatrix::Fcc),
        gst_video::VideoColorMatrix::Smpte240m => Some(ColorMatrix::Smpte240m),
        // GStreamer has replaced any other matrix, none of which suits YCbCr.
        _ => Some(ColorMatrix::Bt601),
    };
    // Gray samples have no chroma, so that no matrix is applied.
    let is_matrix_assumed = matrix.is_some() && format != PixelFormat::Gray8 && !is_matrix_named;
    let is_range_assumed = known.is_none();
    Colorimetry { matrix, range, transfer, is_matrix_assumed, is_range_assumed }
}

/// The codes of [`Transfer`] are GStreamer's numbers.
fn transfer_of(transfer: gst_video::VideoTransferFunction) -> Option<Transfer> {
    u32::try_from(transfer.into_glib()).ok().and_then(Transfer::from_code)
}

/// An element to insert before the appsink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Adapter {
    /// Factory name.
    pub(super) element: &'static str,
    pub(super) properties: &'static [(&'static str, &'static str)],
}

const CONVERT: Adapter = Adapter { element: "videoconvert", properties: &[] };

/// Deinterlaces; one frame for two fields, since frames of a single point in time are preferable to twice the rate.
const DEINTERLACE: Adapter =
    Adapter { element: "deinterlace", properties: &[("fields", "top"), ("mode", "auto")] };

/// As [`DEINTERLACE`], for pictures whose caps say that they are progressive.
const DEINTERLACE_ALL: Adapter =
    Adapter { element: "deinterlace", properties: &[("fields", "top"), ("mode", "interlaced")] };

/// Adapters of pictures that are interlaced, whatever their caps say; the deinterlacer takes few formats.
pub(super) const INTERLACED: [Adapter; 2] = [CONVERT, DEINTERLACE_ALL];

/// The element that turns pictures by an `orientation` of EXIF, 1 to 8.
pub(super) fn turning_by_exif(orientation: u8) -> Option<Adapter> {
    let properties = match orientation {
        2 => &[("video-direction", "horiz")],
        3 => &[("video-direction", "180")],
        4 => &[("video-direction", "vert")],
        5 => &[("video-direction", "ul-lr")],
        6 => &[("video-direction", "90r")],
        7 => &[("video-direction", "ur-ll")],
        8 => &[("video-direction", "90l")],
        _ => return None,
    };
    Some(Adapter { element: TURNING, properties })
}

/// The factory of elements that turn pictures.
pub(super) const TURNING: &str = "videoflip";

/// The element that turns pictures by `orientation`, where they have to be: with [`Orientation::Auto`] if their tags say so.
pub(super) fn turning(orientation: Orientation) -> Option<Adapter> {
    let properties = match orientation {
        Orientation::Auto => &[("video-direction", "auto")],
        Orientation::Degrees0 => return None,
        Orientation::Degrees90 => &[("video-direction", "90r")],
        Orientation::Degrees180 => &[("video-direction", "180")],
        Orientation::Degrees270 => &[("video-direction", "90l")],
    };
    Some(Adapter { element: TURNING, properties })
}

/// Brings pictures to the size that the appsink asks for, with black borders where their shape is another, and their pixels to squares.
pub(super) const SCALE: Adapter = Adapter { element: "videoscale", properties: &[] };

/// Adapters of a source that cannot be opened a second time to find out which it needs. An adapter that is not needed is idle.
pub(super) const CONVERSIONS: [Adapter; 2] = [CONVERT, DEINTERLACE];

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

/// The elements that convert `offered` to [`readable_pictures`] caps, in pipeline order. Fails if the frames lie in device memory and no
/// installed element copies them to system memory.
fn picture_adapters(offered: &gst::Caps) -> Result<Vec<Adapter>, CaptureError> {
    let mut adapters = Vec::new();
    if let Some(memory) = device_memory(offered) {
        adapters.push(download(&memory)?);
    }
    // Before the deinterlacer, because it accepts every format, interlaced or not.
    if !offered.can_intersect(&readable_pictures(None, false)) {
        adapters.push(CONVERT);
    }
    if names_interlaced(offered) {
        adapters.push(DEINTERLACE);
    }
    Ok(adapters)
}

/// `present` and `others` without a second of the same factory, in pipeline order.
pub(super) fn joined(
    present: &[Adapter],
    others: impl IntoIterator<Item = Adapter>,
) -> Vec<Adapter> {
    let mut adapters = present.to_vec();
    let is_present = |other: &Adapter| present.iter().any(|one| one.element == other.element);
    adapters.extend(others.into_iter().filter(|other| !is_present(other)));
    let order = ["videoconvert", "deinterlace", TURNING, "videoscale"];
    // Downloads are first.
    adapters.sort_by_key(|adapter| order.iter().position(|element| *element == adapter.element));
    adapters
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
