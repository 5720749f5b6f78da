//! Colour of the samples of a source: by the caps that leave the decoder, or by the configuration, which overrides them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use foveate_core::color::{ColorMatrix, ColorRange, Colorimetry};
use gstreamer as gst;
use gstreamer::prelude::*;
use gstreamer_video as gst_video;

use super::caps::named_colorimetry;

/// Range and matrix that the configuration gives, whatever the source says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ColorOverrides {
    pub(super) range: Option<ColorRange>,
    pub(super) matrix: Option<ColorMatrix>,
}

/// Which parts of the colorimetry were assumed before a converter: its output names them as if they were known.
#[derive(Debug, Default)]
pub(super) struct AssumedColor {
    matrix: AtomicBool,
    range: AtomicBool,
}

impl AssumedColor {
    /// `color`, with the parts marked as assumed that were assumed before a converter.
    pub(super) fn noted_in(&self, color: Colorimetry) -> Colorimetry {
        Colorimetry {
            is_matrix_assumed: color.is_matrix_assumed || self.matrix.load(Ordering::Relaxed),
            is_range_assumed: color.is_range_assumed || self.range.load(Ordering::Relaxed),
            ..color
        }
    }
}

/// Has the caps that reach `pad` say what `overrides` say, and notes in `assumed` what they still leave open.
pub(super) fn settle(pad: &gst::Pad, overrides: ColorOverrides, assumed: &Arc<AssumedColor>) {
    let assumed = Arc::clone(assumed);
    pad.add_probe(gst::PadProbeType::EVENT_DOWNSTREAM, move |_, info| {
        if let Some(gst::PadProbeData::Event(event)) = &mut info.data
            && let gst::EventView::Caps(caps) = event.view()
            && let Some(settled) = settled(caps.caps(), overrides, &assumed)
        {
            *event = gst::event::Caps::builder(&settled).seqnum(event.seqnum()).build();
        }
        gst::PadProbeReturn::Ok
    });
}

/// `caps` with the colorimetry of `overrides`; `None` if that changes nothing.
fn settled(
    caps: &gst::CapsRef,
    overrides: ColorOverrides,
    assumed: &AssumedColor,
) -> Option<gst::Caps> {
    let ColorOverrides { range, matrix } = overrides;
    let (caps, unknown) = (caps.to_owned(), gst_video::VideoColorRange::Unknown);
    let info = gst_video::VideoInfo::from_caps(&caps).ok()?;
    let (named, default) = (named_colorimetry(&caps), info.colorimetry());
    // Neither RGB nor gray has a matrix.
    let matrix = matrix.filter(|_| info.is_yuv());
    let has_range = named.as_ref().is_some_and(|named| named.range() != unknown);
    let unknown_matrix = gst_video::VideoColorMatrix::Unknown;
    let has_matrix = named.as_ref().is_some_and(|named| named.matrix() != unknown_matrix);
    assumed.range.store(range.is_none() && !has_range, Ordering::Relaxed);
    assumed.matrix.store(info.is_yuv() && matrix.is_none() && !has_matrix, Ordering::Relaxed);
    if range.is_none() && matrix.is_none() {
        return None;
    }
    let named_range = named.as_ref().filter(|_| has_range).map(gst_video::VideoColorimetry::range);
    let colorimetry = gst_video::VideoColorimetry::new(
        range.map_or_else(|| named_range.unwrap_or_else(|| default.range()), range_of),
        matrix.map_or_else(|| default.matrix(), matrix_of),
        named.as_ref().map_or_else(|| default.transfer(), gst_video::VideoColorimetry::transfer),
        named.as_ref().map_or_else(|| default.primaries(), gst_video::VideoColorimetry::primaries),
    );
    let mut settled = caps;
    settled.make_mut().set("colorimetry", colorimetry.to_string());
    Some(settled)
}

fn range_of(range: ColorRange) -> gst_video::VideoColorRange {
    match range {
        ColorRange::Full => gst_video::VideoColorRange::Range0_255,
        ColorRange::Limited => gst_video::VideoColorRange::Range16_235,
    }
}

fn matrix_of(matrix: ColorMatrix) -> gst_video::VideoColorMatrix {
    match matrix {
        ColorMatrix::Bt601 => gst_video::VideoColorMatrix::Bt601,
        ColorMatrix::Bt709 => gst_video::VideoColorMatrix::Bt709,
        ColorMatrix::Bt2020 => gst_video::VideoColorMatrix::Bt2020,
        ColorMatrix::Fcc => gst_video::VideoColorMatrix::Fcc,
        ColorMatrix::Smpte240m => gst_video::VideoColorMatrix::Smpte240m,
    }
}

/// Removes the range from the colour that a demuxer of MP4 gives, so that decoders say what their streams say: GStreamer's ignores the
/// flag of the box `colr` and always says limited.
pub(super) fn leave_range_to_decoder(demuxer: &gst::Element) {
    demuxer.connect_pad_added(|_, pad| {
        pad.add_probe(gst::PadProbeType::EVENT_DOWNSTREAM, |_, info| {
            if let Some(gst::PadProbeData::Event(event)) = &mut info.data
                && let gst::EventView::Caps(caps) = event.view()
                && let Some(open) = without_range(caps.caps())
            {
                *event = gst::event::Caps::builder(&open).seqnum(event.seqnum()).build();
            }
            gst::PadProbeReturn::Ok
        });
    });
}

fn without_range(caps: &gst::CapsRef) -> Option<gst::Caps> {
    let mut caps = caps.to_owned();
    let named = named_colorimetry(&caps)?;
    let colorimetry = gst_video::VideoColorimetry::new(
        gst_video::VideoColorRange::Unknown,
        named.matrix(),
        named.transfer(),
        named.primaries(),
    );
    caps.make_mut().set("colorimetry", colorimetry.to_string());
    Some(caps)
}
