//! The messages, as bytes of CDR, little-endian. Types of ROS are as in Jazzy; they are the same in Humble and later.

use foveate_core::camera::CameraFacts;
use foveate_core::token::DType;
use foveate_ring::{FrameHead, SegmentInfo, TokenFrameBuf};
use hiroz_cdr::{CdrReader, CdrWriter, LittleEndian};

/// A type: its name in DDS, and its hash (REP 2016).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Type {
    /// Name.
    pub name: &'static str,
    /// Hash.
    pub hash: &'static str,
}

/// `sensor_msgs/msg/CompressedImage`.
pub const COMPRESSED_IMAGE: Type = Type {
    name: "sensor_msgs::msg::dds_::CompressedImage_",
    hash: "RIHS01_15640771531571185e2efc8a100baf923961a4d15d5569652e6cb6691e8e371a",
};

/// `sensor_msgs/msg/CameraInfo`.
pub const CAMERA_INFO: Type = Type {
    name: "sensor_msgs::msg::dds_::CameraInfo_",
    hash: "RIHS01_b3dfd68ff46c9d56c80fd3bd4ed22c7a4ddce8c8348f2f59c299e73118e7e275",
};

/// `geometry_msgs/msg/PointStamped`.
pub const POINT_STAMPED: Type = Type {
    name: "geometry_msgs::msg::dds_::PointStamped_",
    hash: "RIHS01_4c0296af86e01e562e9e0405d138a01537247580076c58ea38d7923ac1045897",
};

/// `foveate_msgs/msg/TokenFrame`, in `bridges/ros2/foveate_msgs`.
pub const TOKEN_FRAME: Type = Type {
    name: "foveate_msgs::msg::dds_::TokenFrame_",
    hash: "RIHS01_b4cc62f4afcdf373bbbab8e1342ac8acba16424e1fe6214cf423a5f4c7a625f8",
};

/// CDR, little-endian, without options.
const CDR_LE: [u8; 4] = [0, 1, 0, 0];

type Writer<'a> = CdrWriter<'a, LittleEndian>;

/// A `std_msgs/msg/Header`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    /// Nanoseconds since 1970.
    pub stamp_ns: u64,
    /// Name of the frame.
    pub frame_id: &'a str,
}

impl<'a> Header<'a> {
    /// The header of a frame: its capture time.
    pub fn of(head: &FrameHead, frame_id: &'a str) -> Self {
        Self { stamp_ns: head.stamp.capture_unix_ns, frame_id }
    }

    fn write(&self, writer: &mut Writer<'_>) {
        const SECOND: u64 = 1_000_000_000;
        // Until 2038, as all of ROS.
        writer.write_i32(i32::try_from(self.stamp_ns / SECOND).unwrap_or(i32::MAX));
        writer.write_u32(u32::try_from(self.stamp_ns % SECOND).unwrap_or(0));
        writer.write_string(self.frame_id);
    }
}

fn message(fill: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut bytes = CDR_LE.to_vec();
    // Aligns from here on.
    fill(&mut Writer::new(&mut bytes));
    bytes
}

/// A `CompressedImage` of the PNG file `data`.
pub fn compressed_image(header: &Header<'_>, data: &[u8]) -> Vec<u8> {
    message(|writer| {
        header.write(writer);
        writer.write_string("png");
        writer.write_bytes(data);
    })
}

/// A `CameraInfo` of a picture as large as the source, or `None` if the pipeline turns or mirrors what the camera sees: this has no
/// intrinsics of its own in ROS.
pub fn camera_info(
    header: &Header<'_>,
    segment: &SegmentInfo,
    camera: &CameraFacts,
) -> Option<Vec<u8>> {
    let [a, b, tx, c, d, ty] = camera.source_from_calibrated;
    if b != 0.0 || c != 0.0 || a <= 0.0 || d <= 0.0 {
        return None;
    }
    let k = camera.calibration.k;
    // ROS has the centre of the first pixel at 0, Foveate at 0.5.
    let cx = a * (k[2] + 0.5) + tx - 0.5;
    let cy = d * (k[5] + 0.5) + ty - 0.5;
    let k = [a * k[0], a * k[1], cx, d * k[3], d * k[4], cy, k[6], k[7], k[8]];
    let r = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0];
    let p = [k[0], k[1], k[2], 0.0, k[3], k[4], k[5], 0.0, k[6], k[7], k[8], 0.0];
    Some(message(|writer| {
        header.write(writer);
        writer.write_u32(segment.extent.height);
        writer.write_u32(segment.extent.width);
        writer.write_string(&camera.calibration.distortion);
        sequence(writer, &camera.calibration.coefficients, Writer::write_f64);
        k.into_iter().chain(r).chain(p).for_each(|number| writer.write_f64(number));
        // Binning and region of interest: none.
        (0..6).for_each(|_| writer.write_u32(0));
        writer.write_bool(false);
    }))
}

/// A `TokenFrame`.
pub fn token_frame(header: &Header<'_>, segment: &SegmentInfo, frame: &TokenFrameBuf) -> Vec<u8> {
    let TokenFrameBuf { head, records, pixels, .. } = frame;
    let format = &segment.format;
    message(|writer| {
        header.write(writer);
        writer.write_string(&segment.stream);
        writer.write_string(&segment.view);
        writer.write_u64(segment.epoch);
        writer.write_u64(head.stamp.frame_seq);
        writer.write_u32(segment.extent.width);
        writer.write_u32(segment.extent.height);
        writer.write_u32(format.patch_side);
        writer.write_string(dtype_name(format.dtype));
        let normalisation = &format.normalisation;
        let numbers = normalisation.mean.into_iter().chain(normalisation.std);
        numbers.for_each(|number| writer.write_f64(number));
        let fixations = &head.fixations;
        sequence(writer, &fixations.iter().map(|at| at.x).collect::<Vec<_>>(), Writer::write_f64);
        sequence(writer, &fixations.iter().map(|at| at.y).collect::<Vec<_>>(), Writer::write_f64);
        let of = records.iter();
        sequence(writer, &of.clone().map(|token| token.x).collect::<Vec<_>>(), Writer::write_i32);
        sequence(writer, &of.clone().map(|token| token.y).collect::<Vec<_>>(), Writer::write_i32);
        sequence(writer, &of.clone().map(|token| token.sx).collect::<Vec<_>>(), Writer::write_u16);
        sequence(writer, &of.clone().map(|token| token.sy).collect::<Vec<_>>(), Writer::write_u16);
        writer.write_bytes(&of.clone().map(|token| token.extra_width).collect::<Vec<_>>());
        writer.write_bytes(&of.clone().map(|token| token.extra_height).collect::<Vec<_>>());
        let changed: Vec<_> = of.clone().map(|token| token.changed_frame).collect();
        sequence(writer, &changed, Writer::write_u64);
        sequence(writer, &of.map(|token| token.relevance).collect::<Vec<_>>(), Writer::write_f32);
        writer.write_bytes(pixels);
    })
}

fn dtype_name(dtype: DType) -> &'static str {
    match dtype {
        DType::U8 => "u8",
        DType::F16 => "f16",
        DType::Bf16 => "bf16",
        DType::F32 => "f32",
    }
}

fn sequence<'a, T: Copy>(writer: &mut Writer<'a>, items: &[T], write: impl Fn(&mut Writer<'a>, T)) {
    writer.write_sequence_length(items.len());
    items.iter().for_each(|item| write(writer, *item));
}

/// A `PointStamped`.
#[derive(Clone, Debug, PartialEq)]
pub struct PointStamped {
    /// Nanoseconds since 1970; 0 for now.
    pub stamp_ns: u64,
    /// Name of the frame.
    pub frame_id: String,
    /// x, y and z.
    pub point: [f64; 3],
}

impl PointStamped {
    /// Parses a message.
    ///
    /// # Errors
    ///
    /// If the bytes are none.
    pub fn from_cdr(bytes: &[u8]) -> Result<Self, hiroz_cdr::Error> {
        let body = bytes.get(CDR_LE.len()..).unwrap_or_default();
        let mut reader = CdrReader::<LittleEndian>::new(body);
        let seconds = u64::try_from(reader.read_i32()?).unwrap_or(0);
        let nanoseconds = u64::from(reader.read_u32()?);
        let frame_id = reader.read_string()?;
        let point = [reader.read_f64()?, reader.read_f64()?, reader.read_f64()?];
        Ok(Self { stamp_ns: seconds * 1_000_000_000 + nanoseconds, frame_id, point })
    }
}
