//! Streams whose frames a test sends one by one, and what they show.

use foveate_core::color::{ColorMatrix, ColorRange, ColorTransform};
use foveate_core::frame::PixelFormat;
use foveate_core::geometry::extent::Extent;

use crate::daemon::Place;
use crate::device;
use crate::film::{Film, raw_pipeline};
use crate::naive::{OwnedFrame, Random};

/// Runs a test with the lines that choose the Vulkan device of the tests.
pub fn with_vulkan(test: impl FnOnce(&str)) {
    device::with_gpu(|gpu| {
        test(&format!("backend = 'vulkan'\ndevice = '{}'", gpu.summary().name));
    });
}

/// A table of a stream, in every-frame pace.
pub fn stream(name: &str, source: &str, settings: &str) -> String {
    format!("[[stream]]\nname = '{name}'\n{source}\npace = 'every-frame'\n{settings}\n")
}

/// A table of a view, which looks at the middle if `settings` say nothing else.
pub fn view(name: &str, settings: &str) -> String {
    let gaze = if settings.contains("gaze") { "" } else { "gaze = { policy = 'fixed' }\n" };
    format!("[[stream.view]]\nname = '{name}'\n{gaze}{settings}\n")
}

/// The key of a stream that reads the frames of `film` from the feed at `name`.
pub fn fed(place: &Place, name: &str, film: &Film) -> String {
    let OwnedFrame { format, extent, .. } = *film.frame(1);
    format!("pipeline = '{}'", raw_pipeline(&place.path(name), format, extent, "bt601"))
}

pub fn random_film(
    format: PixelFormat,
    extent: Extent,
    color: ColorTransform,
    count: usize,
) -> Film {
    let mut random = Random(u64::from(extent.width) << 32 | u64::from(extent.height));
    let first = OwnedFrame::random(format, extent, color, &mut random);
    Film::random(first, count, &mut random)
}

pub fn bt601() -> ColorTransform {
    ColorTransform::from_ycbcr(ColorMatrix::Bt601, ColorRange::Limited)
}
