//! Damaged frames: those that a decoder could only guess at. They are kept from decoders, or from the appsink where a decoder or a
//! driver marks them itself.
//!
//! After a lost buffer, and at the start of a stream that is joined between two keyframes, each frame is damaged until the next
//! keyframe. FFmpeg marks such frames for H.264 only, and other decoders drop them without a word. A JPEG picture is damaged if it has no
//! end.

use std::sync::Arc;

use gstreamer as gst;
use gstreamer::prelude::*;

use foveate_core::jpeg;

use super::delivery::Delivery;

/// What a decoder needs to decode a buffer whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coding {
    /// All of the picture.
    Jpeg,
    /// All buffers since the last keyframe. A parser marks the others as deltas, so that marks of containers are not relied on.
    Predicted,
}

impl Coding {
    /// The coding of caps; `None` for codings whose damage cannot be recognised.
    fn of(caps: &gst::CapsRef) -> Option<Self> {
        match caps.structure(0)?.name().as_str() {
            "image/jpeg" => Some(Self::Jpeg),
            "video/mpeg" | "video/x-av1" | "video/x-h264" | "video/x-h265" | "video/x-vp8"
            | "video/x-vp9" => Some(Self::Predicted),
            _ => None,
        }
    }
}

/// Keeps damaged buffers from `element`, if it is a decoder, and counts them.
pub(super) fn guard(element: &gst::Element, delivery: &Arc<Delivery>) {
    let is_decoder =
        element.factory().is_some_and(|factory| factory.has_type(gst::ElementFactoryType::DECODER));
    // A bin has its decoder inside.
    if !is_decoder || element.is::<gst::Bin>() {
        return;
    }
    let Some(pad) = element.static_pad("sink") else { return };
    let delivery = Arc::clone(delivery);
    let has_all = parking_lot::Mutex::new(false);
    pad.add_probe(gst::PadProbeType::BUFFER, move |pad, info| {
        let coding = pad.current_caps().and_then(|caps| Coding::of(&caps));
        let (Some(gst::PadProbeData::Buffer(buffer)), Some(coding)) = (&info.data, coding) else {
            return gst::PadProbeReturn::Ok;
        };
        let is_whole = match coding {
            Coding::Jpeg => is_whole_picture(pad, buffer),
            Coding::Predicted => is_decodable(&mut has_all.lock(), buffer.flags()),
        };
        if is_whole {
            return gst::PadProbeReturn::Ok;
        }
        delivery.note_corrupted();
        gst::PadProbeReturn::Handled
    });
}

/// Whether a buffer with these flags can be decoded whole. `has_all` says whether the decoder has all buffers since a keyframe.
fn is_decodable(has_all: &mut bool, flags: gst::BufferFlags) -> bool {
    let is_keyframe = !flags.contains(gst::BufferFlags::DELTA_UNIT);
    let is_damaged = flags.contains(gst::BufferFlags::CORRUPTED);
    let follows = *has_all && !flags.contains(gst::BufferFlags::DISCONT);
    *has_all = !is_damaged && (is_keyframe || follows);
    *has_all
}

/// Whether a buffer of JPEG has its end. Only in segments of time is a buffer one picture, and not a piece of a file. What does not begin
/// as a JPEG picture is left to the decoder.
fn is_whole_picture(pad: &gst::Pad, buffer: &gst::Buffer) -> bool {
    let segment = pad.sticky_event::<gst::event::Segment>(0);
    let is_picture = segment.is_some_and(|event| event.segment().format() == gst::Format::Time);
    if !is_picture {
        return true;
    }
    let is_damaged = buffer.flags().contains(gst::BufferFlags::CORRUPTED);
    let has_end = |bytes: &[u8]| {
        !bytes.starts_with(&[0xFF, 0xD8]) || jpeg::has_end(bytes).is_ok_and(|has_end| has_end)
    };
    !is_damaged && buffer.map_readable().is_ok_and(|bytes| has_end(&bytes))
}
