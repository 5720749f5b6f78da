//! A frame as `tests/c/dump.c` and `python/tests/dump.py` print it: every field, exactly. Fields of the slot's header and of the tokens
//! follow from the definition of the ABI.

use foveate_core::camera::CameraFacts;
use foveate_core::color::{ColorMatrix, Transfer};
use foveate_core::geometry::extent::Extent;
use foveate_core::plane::TILES;
use foveate_ring::abi::SlotHeader;
use foveate_ring::canvas::Canvas;
use foveate_ring::schema::{Field, Form, Struct};
use foveate_ring::{SegmentInfo, TokenFrameBuf, TokenRecord};
use serde_json::{Map, Value, json};
use testkit::scene::FedStream;

/// [`described`], of the next frame.
pub(crate) fn next_described(fed: &mut FedStream<'_>) -> Value {
    fed.next_frame();
    described(fed.follower.segment(), &fed.follower.frame)
}

/// Every field of a frame and of its segment, and digests of its arrays. Floating-point numbers are given by the bits of a binary64.
pub(crate) fn described(info: &SegmentInfo, frame: &TokenFrameBuf) -> Value {
    let TokenFrameBuf { head, records, pixels, .. } = frame;
    let header = head.to_slot(records.len());
    let mut fields = fields_of(&SlotHeader::SCHEMA, bytemuck::bytes_of(&header));
    let Value::Object(mut of_segment) = segment(info) else { unreachable!("an object") };
    fields.append(&mut of_segment);
    fields.insert("tokens".to_owned(), tokens(bytemuck::cast_slice(records)));
    fields.insert("pixels".to_owned(), fnv1a_64(pixels).into());
    fields.insert("relevance".to_owned(), fnv1a_64(frame.plane(1)).into());
    if 3 * info.extent.area() <= PICTURE_BYTES_MAX {
        let digest = |picture: Vec<[u8; 3]>| fnv1a_64(picture.as_flattened()).into();
        fields.insert("blocks".to_owned(), digest(frame.replicated(info)));
        fields.insert("smooth".to_owned(), digest(frame.smoothed(info)));
    }
    fields.into()
}

/// What a canvas is after a frame of a view that is for one.
pub(crate) fn described_canvas(
    canvas: &mut Canvas,
    info: &SegmentInfo,
    frame: &TokenFrameBuf,
) -> Option<Value> {
    info.plane_index(TILES)?;
    let update = canvas.update(info, frame).unwrap();
    let drawn: Vec<u8> = canvas.drawn().iter().map(|drawn| u8::from(*drawn)).collect();
    let rgb = canvas.rgb();
    let arrays = [
        canvas.pixels(),
        bytemuck::cast_slice(canvas.steps()),
        bytemuck::cast_slice(canvas.frames()),
        &drawn,
        rgb.as_flattened(),
    ];
    let mut described: Vec<Value> = arrays.map(|bytes| fnv1a_64(bytes).into()).into();
    described.extend([update.is_new.into(), canvas.wants_refresh().into()]);
    Some(described.into())
}

/// A line of another reader as [`described`] has it: the bytes of `head`, which C prints, and of `tokens` become fields.
pub(crate) fn read_line(line: &str) -> Value {
    let mut fields: Map<String, Value> = serde_json::from_str(line).unwrap();
    if let Some(head) = fields.remove("head") {
        fields.append(&mut fields_of(&SlotHeader::SCHEMA, &bytes_of_hex(&head)));
    }
    let records = bytes_of_hex(&fields["tokens"]);
    fields.insert("tokens".to_owned(), tokens(&records));
    fields.into()
}

fn bytes_of_hex(text: &Value) -> Vec<u8> {
    let digits = text.as_str().unwrap();
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    (0..digits.len()).step_by(2).map(byte).collect()
}

fn tokens(records: &[u8]) -> Value {
    let records = records.chunks_exact(size_of::<TokenRecord>());
    records.map(|record| Value::from(fields_of(&TokenRecord::SCHEMA, record))).collect()
}

/// The fields of a struct by name.
fn fields_of(described: &Struct, bytes: &[u8]) -> Map<String, Value> {
    let field = |field: &Field| {
        let bytes = &bytes[field.offset..][..field.form.bytes()];
        (field.name.to_owned(), value_of(&field.form, bytes))
    };
    described.fields.iter().map(field).collect()
}

fn value_of(form: &Form, bytes: &[u8]) -> Value {
    match form {
        Form::Array(item, _) => {
            bytes.chunks_exact(item.bytes()).map(|bytes| value_of(item, bytes)).collect()
        }
        Form::Struct(described) => fields_of(described, bytes).into(),
        Form::F32 => f64::from(bytemuck::pod_read_unaligned::<f32>(bytes)).to_bits().into(),
        Form::I32 => bytemuck::pod_read_unaligned::<i32>(bytes).into(),
        Form::Text(_) => unreachable!("no text is in a slot"),
        Form::U8 | Form::U16 | Form::U32 | Form::U64 | Form::F64 => {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            u64::from_le_bytes(word).into()
        }
    }
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

fn bits(numbers: &[f64]) -> Vec<u64> {
    numbers.iter().map(|number| number.to_bits()).collect()
}

/// The FNV-1a hash of 64 bits, in hexadecimal.
fn fnv1a_64(bytes: &[u8]) -> String {
    let hash = |state: u64, byte: &u8| (state ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    format!("{:016x}", bytes.iter().fold(0xcbf2_9ce4_8422_2325, hash))
}
