//! Segments and frames for the tests of the ring. What a frame holds follows from its number, so that a reader
//! can tell which frame each byte belongs to.
use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;

use foveate_core::backend::BackendKind;
use foveate_core::camera::{Calibration, CameraFacts};
use foveate_core::color::{ColorMatrix, ColorRange, Colorimetry, Transfer};
use foveate_core::depth::DepthStamp;
use foveate_core::frame::{CaptureClock, FrameStamp, PictureMotion};
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::{Fixation, FixationReason};
use foveate_core::pixel::{PixelAspect, PixelFacts};
use foveate_core::plane::PlaneSpec;
use foveate_core::token::{DType, Normalisation, TokenFormat};
use foveate_ring::{
    BorrowedFrame, FrameHead, Reader, SegmentSpec, TokenFrame, TokenFrameBuf, TokenRecord, Writer,
    plane_list,
};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

/// A segment for `capacity` tokens of 14 x 14 bytes, with the planes `pixels` and `relevance`.
pub fn spec(capacity: usize) -> SegmentSpec {
    SegmentSpec {
        stream: "camera".to_owned(),
        view: "main".to_owned(),
        layout: "foveal".to_owned(),
        format: TokenFormat::new(14, DType::U8, Normalisation::NONE),
        capacity,
        grid: None,
        foveae: 8,
        extent: Extent::new(1918, 1079),
        pixel_format: "NV12".to_owned(),
        picture: PixelFacts::default(),
        backend: BackendKind::Cpu,
        device: "some processor".to_owned(),
        slot_count: 8,
        camera: Some(camera()),
        planes: vec![PlaneSpec::relevance()],
        channels: None,
    }
}

/// Facts of pictures, all at other than their defaults.
pub fn hdr_facts() -> PixelFacts {
    PixelFacts {
        pixel_aspect: PixelAspect { width: 64, height: 45 },
        color: Some(Colorimetry {
            matrix: Some(ColorMatrix::Bt2020),
            range: ColorRange::Limited,
            transfer: Some(Transfer::Smpte2084),
            is_matrix_assumed: false,
            is_range_assumed: true,
        }),
        gray_range: None,
    }
}

/// A camera all of whose numbers differ.
pub fn camera() -> CameraFacts {
    let number = |index: usize| index as f64 + 0.25;
    CameraFacts {
        calibration: Calibration {
            extent: Extent::new(640, 480),
            k: std::array::from_fn(number),
            distortion: "plumb_bob".to_owned(),
            coefficients: (100..105).map(number).collect(),
        },
        optical_frame: "front_optical".to_owned(),
        mount: Some(("base_link".to_owned(), std::array::from_fn(|index| number(200 + index)))),
        source_from_calibrated: std::array::from_fn(|index| number(300 + index)),
    }
}

/// A reader of `writer`'s segment.
pub fn reader_of(writer: &Writer) -> Reader {
    Reader::from_fd(writer.reader_fd().unwrap()).unwrap()
}

/// Publishes frame `number`, with `token_count` tokens of `format`.
pub fn publish(writer: &mut Writer, number: u64, token_count: usize, format: TokenFormat) -> u64 {
    let frame = frame(number, token_count, format);
    writer.publish(&as_token_frame(&frame))
}

/// Frame `number` with its `token_count` tokens of `format`, as a reader should get it, published as ring sequence
/// `number` at time 0.
pub fn frame(number: u64, token_count: usize, format: TokenFormat) -> TokenFrameBuf {
    frame_with(number, token_count, format, &[PlaneSpec::relevance()])
}

/// [`frame`] with other planes behind the pixels.
pub fn frame_with(
    number: u64,
    token_count: usize,
    format: TokenFormat,
    planes: &[PlaneSpec],
) -> TokenFrameBuf {
    let mut bits = Bits(number);
    let head = FrameHead {
        ring_sequence: number,
        stamp: FrameStamp {
            frame_seq: bits.next(),
            pts_ns: number.is_multiple_of(2).then_some(bits.next()),
            capture_ns: bits.next(),
            capture_unix_ns: bits.next(),
            capture_clock: CaptureClock::from_code(u32::try_from(number % 3).unwrap()).unwrap(),
            capture_error_ns: bits.next(),
            clock_steps: bits.next(),
            arrival_ns: bits.next(),
        },
        publish_ns: 0,
        fixations: (0..1 + number % 8).map(|index| fixation(&mut bits, number + index)).collect(),
        sample_bound: bits.next_u32(),
        rgb_bound: bits.next_u32(),
        dirty_tiles: bits.next_u32(),
        tile_count: bits.next_u32(),
        relevance_frame: bits.next(),
        asked_ns: bits.next(),
        channels_frame: planes.iter().any(|plane| plane.count.is_some()).into(),
        depth: DepthStamp::default(),
        motion: number.is_multiple_of(2).then(|| PictureMotion {
            frame_seq: number + 1,
            now_from_before: [1.0, 0.25, number as f32, -0.25, 1.0, -3.5],
        }),
    };
    let records = (0..token_count).map(|_| record(&mut bits)).collect();
    let mut bytes = |count: usize| (0..count).map(|_| bits.next().to_le_bytes()[0]).collect();
    let pixels = bytes(token_count * format.token_bytes());
    let items = |plane: &PlaneSpec| plane.count.map_or(token_count, |count| count as usize);
    let planes = planes.iter().map(|plane| bytes(items(plane) * plane.item_bytes())).collect();
    TokenFrameBuf { head, records, pixels, planes }
}

/// Items without history, as many as any test publishes.
static UNVERSIONED: [u64; 4096] = [0; 4096];

/// `frame`, to be published.
pub fn as_token_frame(frame: &TokenFrameBuf) -> TokenFrame<'_> {
    let TokenFrameBuf { head, records, pixels, .. } = frame;
    let mut planes = plane_list([pixels]);
    for (place, plane) in planes[1..].iter_mut().zip(&frame.planes) {
        *place = plane;
    }
    TokenFrame {
        head: head.clone(),
        records,
        planes,
        versions: &UNVERSIONED[..records.len()],
        whole_version: 0,
    }
}

/// Replaces `items` by the items of a plane of `borrowed`.
pub fn copy_items(borrowed: &BorrowedFrame<'_>, plane: usize, items: &mut Vec<u8>) {
    items.clear();
    let words = borrowed.plane_words(plane).iter().map(|word| word.load(Ordering::Relaxed));
    items.extend(words.flat_map(u64::to_le_bytes));
    items.truncate(borrowed.plane_bytes(plane));
}

/// Every byte of the segment of `writer`.
pub fn bytes_of(writer: &Writer) -> Vec<u8> {
    let file = File::from(writer.reader_fd().unwrap());
    let mut bytes = vec![0; usize::try_from(file.metadata().unwrap().len()).unwrap()];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

/// A memfd that holds `bytes`, with the seals that readers insist on.
pub fn sealed_copy(bytes: &[u8]) -> OwnedFd {
    let file = unsealed_copy(bytes);
    let seals = SealFlags::GROW | SealFlags::SHRINK | SealFlags::FUTURE_WRITE;
    fcntl_add_seals(file.as_fd(), seals).unwrap();
    file
}

/// A memfd that holds `bytes`, without seals.
pub fn unsealed_copy(bytes: &[u8]) -> OwnedFd {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let mut file = File::from(memfd_create("copy", flags).unwrap());
    file.write_all(bytes).unwrap();
    file.into()
}

fn record(bits: &mut Bits) -> TokenRecord {
    TokenRecord {
        changed_frame: bits.next(),
        x0: bits.next_u32(),
        y0: bits.next_u32(),
        x1: bits.next_u32(),
        y1: bits.next_u32(),
        x: bits.next_u32().cast_signed(),
        y: bits.next_u32().cast_signed(),
        sx: bits.next_u16(),
        sy: bits.next_u16(),
        size: bits.next_u16(),
        group: bits.next_u16(),
        first_column: bits.next_u16(),
        columns: bits.next_u16(),
        first_row: bits.next_u16(),
        rows: bits.next_u16(),
        fovea: bits.next_u16(),
        extra_width: bits.next().to_le_bytes()[0],
        extra_height: bits.next().to_le_bytes()[0],
        relevance: f32::from(bits.next_u16()),
    }
}

fn fixation(bits: &mut Bits, number: u64) -> Fixation {
    Fixation {
        id: bits.next(),
        x: bits.next() as f64 / 16.0,
        y: bits.next() as f64 / 16.0,
        since_frame: bits.next(),
        reason: FixationReason::from_code(u32::try_from(number % 4).unwrap()).unwrap(),
        weight: f32::from(bits.next_u16()) / 65536.0,
        region: None,
        share: None,
    }
}

/// Numbers that look random and follow from a seed: SplitMix64.
struct Bits(u64);

impl Bits {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    fn next_u32(&mut self) -> u32 {
        u32::from_le_bytes(self.next().to_le_bytes()[..4].try_into().unwrap())
    }

    fn next_u16(&mut self) -> u16 {
        u16::from_le_bytes(self.next().to_le_bytes()[..2].try_into().unwrap())
    }
}
