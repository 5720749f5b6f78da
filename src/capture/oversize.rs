//! Encoded pictures that would take more memory than `max_pixels` allows. They are refused before a decoder allocates them: by the
//! caps of a parser, by the header of a JPEG or PNG, or where a picture does not end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use gstreamer as gst;
use gstreamer::prelude::*;

use super::CaptureError;
use super::pipeline::{EventReporter, MULTIPART, PipelineEvent, is_made_by};
use foveate_core::geometry::extent::Extent;
use foveate_core::jpeg::FrameHeader;

/// Most bytes of an encoded picture, if `max_pixels` would allow fewer.
const PICTURE_BYTES_MIN: u64 = 1 << 20;

/// The source's name in errors until its address is known.
const STREAM: &str = "the stream";

/// Keeps pictures of more than `max_pixels` from `element`, if it parses, decodes or demuxes pictures, and reports the first.
pub(super) fn guard(element: &gst::Element, max_pixels: u32, reports: &EventReporter) {
    let kinds = gst::ElementFactoryType::DECODER | gst::ElementFactoryType::PARSER;
    let reads_pictures = element.factory().is_some_and(|factory| factory.has_type(kinds));
    let is_multipart = is_made_by(element, MULTIPART);
    if !(reads_pictures || is_multipart) || element.is::<gst::Bin>() {
        return;
    }
    let Some(pad) = element.static_pad("sink") else { return };
    let (reports, is_refused) = (reports.clone(), AtomicBool::new(false));
    // An encoded picture has at most a byte for each pixel.
    let bytes_max = u64::from(max_pixels).max(PICTURE_BYTES_MIN);
    let unanswered = Arc::new(AtomicU64::new(0));
    reset_by_output(element, &unanswered);
    let kinds = gst::PadProbeType::BUFFER | gst::PadProbeType::EVENT_DOWNSTREAM;
    pad.add_probe(kinds, move |pad, info| {
        if is_refused.load(Ordering::Relaxed) {
            return match info.data {
                Some(gst::PadProbeData::Buffer(_)) => gst::PadProbeReturn::Handled,
                _ => gst::PadProbeReturn::Ok,
            };
        }
        let error = match &info.data {
            Some(gst::PadProbeData::Event(event)) => match event.view() {
                gst::EventView::Caps(caps) => too_large(extent_of(caps.caps()), max_pixels),
                _ => None,
            },
            Some(gst::PadProbeData::Buffer(buffer)) => {
                let is_picture =
                    is_multipart || media_of(pad).is_some_and(|media| media.is_picture());
                let so_far = unanswered.fetch_add(buffer.size() as u64, Ordering::Relaxed);
                if is_picture && bytes_max < so_far {
                    let what = STREAM.to_owned();
                    Some(CaptureError::EndlessPicture { what, mebibytes: so_far >> 20 })
                } else {
                    media_of(pad).and_then(|media| media.refusal_of(buffer, max_pixels))
                }
            }
            _ => None,
        };
        let Some(error) = error else { return gst::PadProbeReturn::Ok };
        is_refused.store(true, Ordering::Relaxed);
        reports.send(PipelineEvent::Refused(error));
        gst::PadProbeReturn::Handled
    });
}

/// Sets `unanswered` to 0 whenever `element` gives something.
fn reset_by_output(element: &gst::Element, unanswered: &Arc<AtomicU64>) {
    let watch = |pad: &gst::Pad, unanswered: &Arc<AtomicU64>| {
        let unanswered = Arc::clone(unanswered);
        pad.add_probe(gst::PadProbeType::BUFFER, move |_, _| {
            unanswered.store(0, Ordering::Relaxed);
            gst::PadProbeReturn::Ok
        });
    };
    for pad in element.src_pads() {
        watch(&pad, unanswered);
    }
    let unanswered = Arc::clone(unanswered);
    element.connect_pad_added(move |_, pad| {
        if pad.direction() == gst::PadDirection::Src {
            watch(pad, &unanswered);
        }
    });
}

/// Encoded pictures that are looked into.
#[derive(Clone, Copy, Debug)]
enum Media {
    Jpeg,
    Png,
    OtherPicture,
    Video,
}

impl Media {
    fn is_picture(self) -> bool {
        !matches!(self, Self::Video)
    }

    /// Why a picture is refused that begins with `buffer`.
    fn refusal_of(self, buffer: &gst::Buffer, max_pixels: u32) -> Option<CaptureError> {
        let bytes = buffer.map_readable().ok()?;
        match self {
            Self::Jpeg => {
                let header = FrameHeader::of(&bytes)?;
                if header.components == 4 {
                    return Some(CaptureError::Undecodable {
                        what: STREAM.to_owned(),
                        reason: "its JPEG pictures are CMYK (expected gray or YCbCr): change the encoder, or convert them",
                    });
                }
                too_large(Some(header.extent), max_pixels)
            }
            Self::Png => {
                let header = bytes.strip_prefix(b"\x89PNG\r\n\x1a\n")?.get(4..)?;
                let sides: [u8; 8] = *header.strip_prefix(b"IHDR")?.first_chunk()?;
                let [width, height] = [&sides[..4], &sides[4..]]
                    .map(|side| side.iter().fold(0, |value, byte| value << 8 | u32::from(*byte)));
                too_large(Some(Extent::new(width, height)), max_pixels)
            }
            Self::OtherPicture | Self::Video => None,
        }
    }
}

fn media_of(pad: &gst::Pad) -> Option<Media> {
    let caps = pad.current_caps()?;
    Some(match caps.structure(0)?.name().as_str() {
        "image/jpeg" => Media::Jpeg,
        "image/png" => Media::Png,
        media if media.starts_with("image/") => Media::OtherPicture,
        _ => Media::Video,
    })
}

/// The size that encoded caps give.
fn extent_of(caps: &gst::CapsRef) -> Option<Extent> {
    let structure = caps.structure(0)?;
    let side = |name| u32::try_from(structure.get::<i32>(name).ok()?).ok();
    Some(Extent::new(side("width")?, side("height")?))
}

fn too_large(extent: Option<Extent>, max_pixels: u32) -> Option<CaptureError> {
    let extent = extent.filter(|extent| {
        u64::from(max_pixels) < u64::from(extent.width) * u64::from(extent.height)
    })?;
    Some(CaptureError::TooManyPixels { picture: STREAM.to_owned(), extent, max_pixels })
}
