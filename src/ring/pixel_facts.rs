//! Pixel aspect ratio and colour in a segment's header.

use super::abi::{ASSUMED_MATRIX, ASSUMED_RANGE, COLOR_MATRIX_RGB, SegmentHeader};
use super::error::{RingError, ensure};
use foveate_core::color::{ColorMatrix, ColorRange, Colorimetry, Transfer};
use foveate_core::pixel::{PixelAspect, PixelFacts};

/// Writes `facts` into `header`.
#[expect(clippy::cast_possible_truncation, reason = "codes are small")]
pub(super) fn write(header: &mut SegmentHeader, facts: &PixelFacts) {
    let PixelAspect { width, height } = facts.pixel_aspect;
    (header.pixel_aspect_width, header.pixel_aspect_height) = (width, height);
    let Some(color) = facts.color else { return };
    header.color_matrix = color.matrix.map_or(COLOR_MATRIX_RGB, |matrix| matrix.code() as u16);
    header.color_range = color.range.code() as u16;
    header.color_transfer = color.transfer.map_or(0, |transfer| transfer.code() as u16);
    let assumed =
        [(color.is_matrix_assumed, ASSUMED_MATRIX), (color.is_range_assumed, ASSUMED_RANGE)];
    header.color_assumed =
        assumed.into_iter().filter(|(is_assumed, _)| *is_assumed).map(|(_, bit)| bit).sum();
}

/// What `header` says. Codes of later versions count as unknown.
pub(super) fn read(header: &SegmentHeader) -> Result<PixelFacts, RingError> {
    let (width, height) = (header.pixel_aspect_width, header.pixel_aspect_height);
    let is_whole = (width == 0) == (height == 0);
    ensure(is_whole, "pixel_aspect_width : pixel_aspect_height", format!("{width}:{height}"))?;
    let pixel_aspect = if width == 0 { PixelAspect::SQUARE } else { PixelAspect { width, height } };
    Ok(PixelFacts { pixel_aspect, color: color(header), gray_range: None })
}

fn color(header: &SegmentHeader) -> Option<Colorimetry> {
    let matrix = match header.color_matrix {
        COLOR_MATRIX_RGB => None,
        code => Some(ColorMatrix::from_code(code.into())?),
    };
    let is_assumed = |bit| header.color_assumed & bit != 0;
    Some(Colorimetry {
        matrix,
        range: ColorRange::from_code(header.color_range.into())?,
        transfer: Transfer::from_code(header.color_transfer.into()),
        is_matrix_assumed: is_assumed(ASSUMED_MATRIX),
        is_range_assumed: is_assumed(ASSUMED_RANGE),
    })
}
