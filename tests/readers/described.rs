//! A frame as `tests/c/dump.c` and `python/tests/dump.py` print it: every field, exactly.

use foveate_core::camera::CameraFacts;
use foveate_core::color::{ColorMatrix, Transfer};
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::Fixation;
use foveate_ring::{SegmentInfo, TokenFrameBuf, TokenRecord};
use serde_json::{Value, json};

use crate::daemon::Follower;

/// [`described`], of the next frame.
pub(crate) fn next_described(follower: &mut Follower) -> Value {
    follower.next_frame();
    described(follower.subscription.reader().unwrap().header(), &follower.frame)
}

/// Every field of a frame and of its segment, and digests of its arrays. Floating-point numbers are given by their bits.
pub(crate) fn described(info: &SegmentInfo, frame: &TokenFrameBuf) -> Value {
    let TokenFrameBuf { head, records, pixels, .. } = frame;
    let mut said = json!({
        "ring_sequence": head.ring_sequence,
        "frame_seq": head.stamp.frame_seq,
        "pts_ns": head.stamp.pts_ns,
        "capture_ns": head.stamp.capture_ns,
        "capture_unix_ns": head.stamp.capture_unix_ns,
        "capture_clock": head.stamp.capture_clock.code(),
        "capture_error_ns": head.stamp.capture_error_ns,
        "clock_steps": head.stamp.clock_steps,
        "arrival_ns": head.stamp.arrival_ns,
        "publish_ns": head.publish_ns,
        "fixations": head.fixations.iter().map(fixation).collect::<Vec<_>>(),
        "sample_bound": head.sample_bound,
        "rgb_bound": head.rgb_bound,
        "dirty_tiles": head.dirty_tiles,
        "tile_count": head.tile_count,
        "relevance_frame": head.relevance_frame,
        "asked_ns": head.asked_ns,
        "depth_capture_ns": head.depth.capture_ns,
        "depth_frame": head.depth.frame_seq,
        "motion": head.motion.map_or(Vec::new(), |motion| bits(&motion.now_from_before.map(f64::from))),
        "motion_frame": head.motion.map_or(0, |motion| motion.frame_seq),
        "tokens": records.iter().map(token).collect::<Vec<_>>(),
        "pixels": fnv1a_64(pixels),
        "relevance": fnv1a_64(frame.plane(1)),
    });
    let Value::Object(mut of_segment) = segment(info) else { unreachable!("an object") };
    let fields = said.as_object_mut().unwrap();
    fields.append(&mut of_segment);
    if 3 * info.extent.area() <= PICTURE_BYTES_MAX {
        let digest = |picture: Vec<[u8; 3]>| fnv1a_64(picture.as_flattened()).into();
        fields.insert("blocks".to_owned(), digest(frame.replicated(info)));
        fields.insert("smooth".to_owned(), digest(frame.smoothed(info)));
    }
    said
}

/// Larger pictures are not drawn.
const PICTURE_BYTES_MAX: usize = 1 << 20;

fn segment(info: &SegmentInfo) -> Value {
    let grid = info.grid.unwrap_or(Extent::new(0, 0));
    let color = info.picture.color;
    json!({
        "stream": info.stream,
        "view": info.view,
        "layout": info.layout,
        "pixel_format": info.pixel_format,
        "device": info.device,
        "abi_minor": info.abi_minor,
        "epoch": info.epoch,
        "patch": info.format.patch_side,
        "dtype": info.format.dtype.code(),
        "capacity": info.capacity,
        "grid_columns": grid.width,
        "grid_rows": grid.height,
        "foveae": info.foveae,
        "outside": info.format.outside.code(),
        "rounding": info.format.rounding.code(),
        "pixel_aspect_width": info.picture.pixel_aspect.width,
        "pixel_aspect_height": info.picture.pixel_aspect.height,
        "color_matrix": color.map_or(0, |color| color.matrix.map_or(1, ColorMatrix::code)),
        "color_range": color.map_or(0, |color| color.range.code()),
        "color_transfer": color.and_then(|color| color.transfer).map_or(0, Transfer::code),
        "color_assumed": color.map_or(0, |color| {
            u32::from(color.is_matrix_assumed) + 2 * u32::from(color.is_range_assumed)
        }),
        "width": info.extent.width,
        "height": info.extent.height,
        "backend": info.backend.code(),
        "slot_count": info.slot_count,
        "mean": bits(&info.format.normalisation.mean),
        "std": bits(&info.format.normalisation.std),
        "camera": info.camera.as_ref().map(camera),
    })
}

fn camera(camera: &CameraFacts) -> Value {
    let calibration = &camera.calibration;
    let (parent_frame, parent_from_optical) =
        camera.mount.as_ref().map_or(("", vec![]), |(frame, matrix)| (frame, bits(matrix)));
    json!({
        "distortion": calibration.distortion,
        "optical_frame": camera.optical_frame,
        "parent_frame": parent_frame,
        "k": bits(&calibration.k),
        "coefficients": bits(&calibration.coefficients),
        "parent_from_optical": parent_from_optical,
        "source_from_calibrated": bits(&camera.source_from_calibrated),
        "extent": [calibration.extent.width, calibration.extent.height],
    })
}

fn fixation(fixation: &Fixation) -> Value {
    let Fixation { id, x, y, since_frame, reason, weight, .. } = *fixation;
    json!([id, x.to_bits(), y.to_bits(), since_frame, f64::from(weight).to_bits(), reason.code()])
}

fn token(record: &TokenRecord) -> Value {
    let TokenRecord {
        changed_frame,
        x0,
        y0,
        x1,
        y1,
        x,
        y,
        sx,
        sy,
        size,
        group,
        first_column,
        columns,
        first_row,
        rows,
        fovea,
        extra_width,
        extra_height,
        relevance,
    } = *record;
    let relevance = f64::from(relevance).to_bits();
    json!([
        changed_frame,
        x0,
        y0,
        x1,
        y1,
        x,
        y,
        sx,
        sy,
        size,
        group,
        first_column,
        columns,
        first_row,
        rows,
        fovea,
        extra_width,
        extra_height,
        relevance
    ])
}

fn bits(numbers: &[f64]) -> Vec<u64> {
    numbers.iter().map(|number| number.to_bits()).collect()
}

/// The FNV-1a hash of 64 bits, in hexadecimal.
fn fnv1a_64(bytes: &[u8]) -> String {
    let hash = |state: u64, byte: &u8| (state ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    format!("{:016x}", bytes.iter().fold(0xcbf2_9ce4_8422_2325, hash))
}
