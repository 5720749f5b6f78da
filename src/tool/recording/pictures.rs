//! Messages for Foxglove and Rerun: the picture rebuilt from a token frame, boxes, fixations, and the camera.

use foxglove::messages::points_annotation::Type;
use foxglove::messages::{
    CameraCalibration, CircleAnnotation, Color, CompressedImage, ImageAnnotations, Point2,
    PointsAnnotation, Timestamp,
};
use image::codecs::jpeg::JpegEncoder;
use image::{ExtendedColorType, ImageError};

use crate::picture::{self, COLORS, Picture, rank};
use foveate_core::camera::{Calibration, CameraFacts};
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::Fixation;
use foveate_ring::picture::Rgb;
use foveate_ring::{SegmentInfo, TokenFrameBuf, TokenRecord};

/// JPEG quality, of 100: an error of 1 in 255 is hardly seen, and a picture takes a tenth of its bytes.
const JPEG_QUALITY: u8 = 90;

/// The picture rebuilt from the tokens, as `foveate snap` draws it.
///
/// # Errors
///
/// If it cannot be encoded.
pub(super) fn image(
    segment: &SegmentInfo,
    frame: &TokenFrameBuf,
) -> Result<CompressedImage, ImageError> {
    compressed(segment, frame, &picture::rebuilt(segment, frame))
}

/// The boxes as `foveate snap` draws them: a picture for what does not draw [`annotations`].
///
/// # Errors
///
/// If it cannot be encoded.
pub(super) fn boxes(
    segment: &SegmentInfo,
    frame: &TokenFrameBuf,
) -> Result<CompressedImage, ImageError> {
    compressed(segment, frame, &picture::boxes(segment, frame))
}

fn compressed(
    segment: &SegmentInfo,
    frame: &TokenFrameBuf,
    picture: &Picture,
) -> Result<CompressedImage, ImageError> {
    let (mut jpeg, Extent { width, height }) = (Vec::new(), segment.extent);
    JpegEncoder::new_with_quality(&mut jpeg, JPEG_QUALITY).encode(
        picture.texels(),
        width,
        height,
        ExtendedColorType::Rgb8,
    )?;
    Ok(CompressedImage {
        timestamp: captured(frame),
        frame_id: frame_id(segment),
        data: jpeg.into(),
        format: "jpeg".to_owned(),
    })
}

/// The boxes of the tokens in the colours of `foveate snap`, and a circle around each fixation.
pub(super) fn annotations(segment: &SegmentInfo, frame: &TokenFrameBuf) -> ImageAnnotations {
    let mut lines: [Vec<Point2>; COLORS.len()] = Default::default();
    for record in &frame.records {
        lines[rank(segment, record).min(COLORS.len() - 1)].extend(outline(record));
    }
    let drawn = COLORS.iter().zip(lines).filter(|(_, points)| !points.is_empty());
    let boxes = drawn.map(|(color, points)| PointsAnnotation {
        timestamp: captured(frame),
        r#type: Type::LineList.into(),
        points,
        outline_color: Some(opaque(*color)),
        thickness: 1.0,
        ..PointsAnnotation::default()
    });
    let circle = |fixation: &Fixation| CircleAnnotation {
        timestamp: captured(frame),
        position: Some(Point2 { x: fixation.x, y: fixation.y }),
        diameter: f64::from(segment.extent.longer_side()) / 30.0,
        thickness: 2.0,
        outline_color: Some(opaque([255; 3])),
        ..CircleAnnotation::default()
    };
    ImageAnnotations {
        timestamp: captured(frame),
        circles: frame.head.fixations.iter().map(circle).collect(),
        points: boxes.collect(),
        ..ImageAnnotations::default()
    }
}

/// The camera of the pictures; `None` without a calibration, and where the pipeline turns or mirrors the picture, which no camera
/// matrix says.
pub(super) fn calibration(
    segment: &SegmentInfo,
    frame: &TokenFrameBuf,
) -> Option<CameraCalibration> {
    let CameraFacts { calibration, source_from_calibrated, .. } = segment.camera.as_ref()?;
    let Calibration { k, distortion, coefficients, .. } = calibration;
    let [scale_x, 0.0, left, 0.0, scale_y, top] = *source_from_calibrated else { return None };
    if !(0.0 < scale_x && 0.0 < scale_y) {
        return None;
    }
    let [fx, skew, cx, _, fy, cy, ..] = *k;
    // The centre of the first pixel is (0, 0) in `k`, and (0.5, 0.5) in the transform.
    let centred = |centre: f64, scale: f64, edge: f64| scale * (centre + 0.5) + edge - 0.5;
    let (cx, cy) = (centred(cx, scale_x, left), centred(cy, scale_y, top));
    let (fx, skew, fy) = (scale_x * fx, scale_x * skew, scale_y * fy);
    // ROS and Foxglove name the same model differently.
    let distortion = if distortion == "equidistant" { "kannala_brandt" } else { distortion };
    Some(CameraCalibration {
        timestamp: captured(frame),
        frame_id: frame_id(segment),
        width: segment.extent.width,
        height: segment.extent.height,
        distortion_model: distortion.to_owned(),
        d: coefficients.clone(),
        k: vec![fx, skew, cx, 0.0, fy, cy, 0.0, 0.0, 1.0],
        r: vec![1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0],
        p: vec![fx, skew, cx, 0.0, 0.0, fy, cy, 0.0, 0.0, 0.0, 1.0, 0.0],
    })
}

/// The frame of reference of the rays; without a calibration, the stream.
fn frame_id(segment: &SegmentInfo) -> String {
    let camera = segment.camera.as_ref();
    camera.map_or_else(|| segment.stream.clone(), |camera| camera.optical_frame.clone())
}

#[expect(clippy::cast_possible_truncation, reason = "below a thousand million, and until 2106")]
fn captured(frame: &TokenFrameBuf) -> Option<Timestamp> {
    let ns = frame.head.stamp.capture_unix_ns;
    Timestamp::new_checked((ns / 1_000_000_000) as u32, (ns % 1_000_000_000) as u32)
}

/// The four sides of a token, as pairs of points.
fn outline(record: &TokenRecord) -> [Point2; 8] {
    let corner = |x: u32, y: u32| Point2 { x: f64::from(x), y: f64::from(y) };
    let TokenRecord { x0, y0, x1, y1, .. } = *record;
    let corners = [corner(x0, y0), corner(x1, y0), corner(x1, y1), corner(x0, y1)];
    std::array::from_fn(|index| corners[index.div_ceil(2) % 4])
}

fn opaque(color: Rgb) -> Color {
    let [r, g, b] = color.map(|value| f64::from(value) / 255.0);
    Color { r, g, b, a: 1.0 }
}
