//! Camera blocks of a segment, and their validation.

use bytemuck::Zeroable;

use super::abi::{CAMERA_PINHOLE, CameraBlock, CameraFrameBlock};
use super::error::{RingError, ensure, text};
use super::text::Text;
use foveate_core::camera::{COEFFICIENTS_MAX, Calibration, CameraFacts};
use foveate_core::geometry::extent::Extent;

/// The blocks for a camera; all 0 without one.
#[expect(clippy::cast_possible_truncation, reason = "at most 14 coefficients")]
pub(super) fn blocks(camera: Option<&CameraFacts>) -> (CameraBlock, CameraFrameBlock) {
    let Some(camera) = camera else { return (Zeroable::zeroed(), Zeroable::zeroed()) };
    let Calibration { extent, k, distortion, coefficients } = &camera.calibration;
    let (parent_frame, parent_from_optical) =
        camera.mount.as_ref().map_or(("", [0.0; 12]), |(frame, matrix)| (frame, *matrix));
    let mut padded = [0.0; COEFFICIENTS_MAX];
    padded[..coefficients.len()].copy_from_slice(coefficients);
    let block = CameraBlock {
        kind: CAMERA_PINHOLE,
        coefficient_count: coefficients.len() as u32,
        distortion_name: Text::truncated(distortion),
        k: *k,
        coefficients: padded,
    };
    let frame = CameraFrameBlock {
        optical_frame: Text::truncated(&camera.optical_frame),
        parent_frame: Text::truncated(parent_frame),
        parent_from_optical,
        source_from_calibrated: camera.source_from_calibrated,
        calibrated_width: extent.width,
        calibrated_height: extent.height,
    };
    (block, frame)
}

/// The camera of the blocks; `None` if there is none, or one of a kind unknown to this version.
pub(super) fn facts(
    block: &CameraBlock,
    frame: &CameraFrameBlock,
) -> Result<Option<CameraFacts>, RingError> {
    if block.kind != CAMERA_PINHOLE {
        return Ok(None);
    }
    let count = block.coefficient_count as usize;
    ensure(count <= COEFFICIENTS_MAX, "camera.coefficient_count", count)?;
    let extent = Extent::new(frame.calibrated_width, frame.calibrated_height);
    ensure(extent.is_supported(), "calibrated_width x calibrated_height", extent)?;
    let numbers = [&block.k[..], &block.coefficients, &frame.source_from_calibrated];
    let numbers = numbers.into_iter().flatten().chain(&frame.parent_from_optical);
    ensure(numbers.into_iter().all(|number| number.is_finite()), "camera", "not finite")?;
    let parent_frame = text("parent_frame", &frame.parent_frame)?;
    Ok(Some(CameraFacts {
        calibration: Calibration {
            extent,
            k: block.k,
            distortion: text("camera.distortion_name", &block.distortion_name)?,
            coefficients: block.coefficients[..count].to_vec(),
        },
        optical_frame: text("optical_frame", &frame.optical_frame)?,
        mount: (!parent_frame.is_empty()).then_some((parent_frame, frame.parent_from_optical)),
        source_from_calibrated: frame.source_from_calibrated,
    }))
}
