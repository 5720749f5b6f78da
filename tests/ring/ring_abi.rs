//! `docs/reference/abi.md` and the code describe the same bytes.

use std::mem::offset_of;

use foveate_core::backend::BackendKind;
use foveate_core::color::{ColorMatrix, ColorRange, Transfer};
use foveate_core::frame::CaptureClock;
use foveate_core::geometry::fixation::{FOVEAE_MAX, FixationReason};
use foveate_core::geometry::plan::STEP_MAX;
use foveate_core::token::{DType, Outside, Rounding};
use foveate_ring::abi::{
    ABI_MAJOR, ABI_MINOR, ASSUMED_MATRIX, ASSUMED_RANGE, CAMERA_FRAME_OFFSET, CHANNEL_OFFSET,
    COLOR_MATRIX_RGB, CameraBlock, CameraFrameBlock, ChannelBlock, FixationBlock, HEADER_BYTES,
    LIVE_OFFSET, LiveBlock, MAGIC, MAX_PLANE_COUNT, MAX_SLOT_COUNT, MIN_SLOT_COUNT, NOTICE_BYTES,
    PlaneEntry, SegmentHeader, SlotHeader, StateBlock, TokenRecord,
};
use foveate_ring::{State, TokenFrameBuf, Writer};

use crate::ring::{bytes_of, camera, frame, publish, reader_of, spec};

const DOCUMENT: &str = include_str!("../../docs/reference/abi.md");

/// One row of a table of the document.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    offset: usize,
    bytes: usize,
    field: String,
}

/// The rows that the document should have for a struct that lies at an offset, and its size.
macro_rules! rows {
    ($of:ident at $base:expr => $($field:ident),+ $(,)?) => {{
        fn bytes<T>(_: impl Fn(&$of) -> &T) -> usize {
            size_of::<T>()
        }
        // The pattern is exhaustive, so that no field can be left out here.
        let _ = |$of { $($field: _),+ }: $of| {};
        let rows = vec![$(Row {
            offset: $base + offset_of!($of, $field),
            bytes: bytes(|of| &of.$field),
            field: stringify!($field).to_owned(),
        }),+];
        (stringify!($of), rows, $base + size_of::<$of>())
    }};
}

#[test]
fn the_document_gives_every_field_its_place() {
    let structs = [
        rows!(SegmentHeader at 0 => magic, abi_major, abi_minor, total_bytes, header_bytes, slot_count,
            slot_stride, slot_header_bytes, record_bytes, records_offset, token_capacity, patch_side,
            plane_count, epoch, source_width, source_height, backend_kind, fovea_capacity, mean, std,
            pixel_format, stream_name, view_name, layout_name, backend_device, grid_columns, grid_rows,
            camera, outside, rounding, pixel_aspect_width, pixel_aspect_height, color_matrix, color_range,
            color_transfer, color_assumed, reserved, planes),
        rows!(CameraBlock at 0 => kind, coefficient_count, distortion_name, k, coefficients),
        rows!(PlaneEntry at 0 => name, order, dtype, ndim, shape, offset, token_stride, bytes, reserved),
        rows!(LiveBlock at LIVE_OFFSET => newest, futex, reserved_0, reserved_1, state_sequence,
            reserved_2, states, reserved_3),
        rows!(StateBlock at 0 => code, reserved, reason),
        rows!(CameraFrameBlock at CAMERA_FRAME_OFFSET => optical_frame, parent_frame, parent_from_optical,
            source_from_calibrated, calibrated_width, calibrated_height),
        rows!(ChannelBlock at CHANNEL_OFFSET => cell_side, count, names),
        rows!(SlotHeader at 0 => lock, ring_sequence, frame_seq, pts_ns, capture_ns, capture_unix_ns,
            arrival_ns, publish_ns, flags, capture_clock, sample_bound, rgb_bound, token_count,
            dirty_tiles, tile_count, fixation_count, relevance_frame, asked_ns, fixations,
            channels_frame, motion, motion_frame, capture_error_ns, clock_steps, depth_capture_ns,
            depth_frame, reserved),
        rows!(FixationBlock at 0 => id, x, y, since_frame, weight, reason),
        rows!(TokenRecord at 0 => changed_frame, x0, y0, x1, y1, x, y, sx, sy, size, group,
            first_column, columns, first_row, rows, fovea, extra_width, extra_height, relevance),
    ];
    for (name, rows, end) in structs {
        assert_eq!(documented_rows(name), rows, "{name}");
        let last = rows.last().unwrap();
        assert_eq!(last.offset + last.bytes, end, "{name} has no padding");
    }
}

#[test]
fn the_document_gives_every_type_its_size() {
    let is_row = |line: &&str| line.contains(" | `") && line.matches(" | ").count() == 4;
    for line in DOCUMENT.lines().filter(is_row) {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let (bytes, kind): (usize, _) = (cells[2].parse().unwrap(), cells[4]);
        if !kind.starts_with("text") {
            let (item, count) = kind.strip_suffix(']').map_or((kind, 1), |array| {
                let (item, count) = array.split_once('[').unwrap();
                (item, count.parse().unwrap())
            });
            assert_eq!(bytes, type_bytes(item) * count, "{line}");
        }
    }
}

/// What the document says in words.
#[test]
fn the_documents_numbers_are_the_codes() {
    let codes = (ABI_MAJOR, ABI_MINOR, HEADER_BYTES, LIVE_OFFSET, &MAGIC, NOTICE_BYTES);
    assert_eq!(codes, (2, 3, 4096, 1408, b"FOVEATE\0", 16));
    assert_eq!((LIVE_OFFSET + size_of::<LiveBlock>(), CAMERA_FRAME_OFFSET), (1792, 1792));
    assert_eq!(CHANNEL_OFFSET, 2072);
    let colors = (ColorMatrix::Bt2020.code(), ColorRange::Limited.code());
    assert_eq!((COLOR_MATRIX_RGB, colors, ASSUMED_MATRIX, ASSUMED_RANGE), (1, (6, 2), 1, 2));
    for code in 1..=16 {
        let documented = format!("{code} `{}`", Transfer::from_code(code).unwrap());
        assert!(DOCUMENT.contains(&documented), "{documented}");
    }
    assert_eq!((size_of::<SlotHeader>(), size_of::<TokenRecord>()), (512, 56));
    assert_eq!((MAX_PLANE_COUNT, MIN_SLOT_COUNT, MAX_SLOT_COUNT), (8, 2, 1024));
    assert_eq!((FOVEAE_MAX, STEP_MAX), (8, 2048));
}

#[test]
fn codes_lead_back_to_what_they_stand_for() {
    let known = |from_code: fn(u32) -> Option<u32>| -> Vec<u32> {
        (0..100).filter(|&code| from_code(code) == Some(code)).collect()
    };
    assert_eq!(known(|code| DType::from_code(code).map(DType::code)), [1, 2, 3, 4]);
    assert_eq!(known(|code| BackendKind::from_code(code).map(BackendKind::code)), [1, 2]);
    assert_eq!(known(|code| State::from_code(code).map(State::code)), [1, 2, 3]);
    assert_eq!(known(|code| Outside::from_code(code).map(Outside::code)), [0, 1]);
    assert_eq!(known(|code| Rounding::from_code(code).map(Rounding::code)), [0, 1]);
    assert_eq!(known(|code| CaptureClock::from_code(code).map(CaptureClock::code)), [0, 1, 2]);
    assert_eq!(
        known(|code| FixationReason::from_code(code).map(FixationReason::code)),
        [0, 1, 2, 3, 4]
    );
}

/// A reader that knows the document and no Rust: every number by its offset.
#[test]
fn a_frame_lies_where_the_document_says() {
    let spec = spec(3);
    let mut writer = Writer::create(&spec).unwrap();
    for number in 1..=11 {
        publish(&mut writer, number, 3, spec.format);
    }
    let bytes = bytes_of(&writer);
    let u32_at = |offset: usize| u32::from_le_bytes(bytes[offset..][..4].try_into().unwrap());
    let u64_at = |offset: usize| u64::from_le_bytes(bytes[offset..][..8].try_into().unwrap());
    let place = |at: usize| usize::try_from(u64_at(at)).unwrap();

    assert_eq!((&bytes[..8], u32_at(8), u32_at(12)), (&b"FOVEATE\0"[..], 2, 3));
    assert_eq!(place(16), bytes.len());
    let camera = camera();
    assert_eq!((u32_at(384), u32_at(388)), (1, 5));
    assert_eq!(f64::from_bits(u64_at(384 + 40 + 8)), camera.calibration.k[1]);
    assert_eq!(f64::from_bits(u64_at(384 + 112)), camera.calibration.coefficients[0]);
    assert_eq!(&bytes[1792..1806], b"front_optical\0");
    assert_eq!(&bytes[1856..1866], b"base_link\0");
    assert_eq!(f64::from_bits(u64_at(1920)), camera.mount.unwrap().1[0]);
    assert_eq!(f64::from_bits(u64_at(2016)), camera.source_from_calibrated[0]);
    assert_eq!((u32_at(2064), u32_at(2068)), (640, 480));
    assert_eq!(u64_at(64), writer.epoch());
    assert_eq!(&bytes[216..221], b"main\0");
    assert_eq!((u64_at(1408), u32_at(1416)), (11, 11));
    assert_eq!((u32_at(1472), u32_at(1480)), (0, 1));

    let slot = 4096 + 11 % 8 * place(32);
    let mut read = TokenFrameBuf::default();
    reader_of(&writer).read_newest(&mut read).unwrap();
    let expected = frame(11, 3, spec.format);
    assert_eq!((u64_at(slot), u64_at(slot + 8)), (22, 11));
    assert_eq!(u64_at(slot + 16), expected.head.stamp.frame_seq);
    assert_eq!(u64_at(slot + 56), read.head.publish_ns);
    assert_eq!(u32_at(slot + 80), 3);
    let fixations = &expected.head.fixations;
    assert_eq!(u32_at(slot + 92) as usize, fixations.len());
    assert_eq!(u64_at(slot + 96), expected.head.relevance_frame);
    assert_eq!(u64_at(slot + 104), expected.head.asked_ns);
    assert_eq!(u64_at(slot + 472), expected.head.stamp.capture_error_ns);
    assert_eq!(u64_at(slot + 480), expected.head.stamp.clock_steps);
    for (index, fixation) in fixations.iter().enumerate() {
        let block = slot + 112 + 40 * index;
        assert_eq!((u64_at(block), f64::from_bits(u64_at(block + 8))), (fixation.id, fixation.x));
        assert_eq!(f32::from_bits(u32_at(block + 32)), fixation.weight);
    }
    let record = slot + 512 + 2 * 56;
    assert_eq!(u64_at(record), expected.records[2].changed_frame);
    assert_eq!(u32_at(record + 28).cast_signed(), expected.records[2].y);
    assert_eq!(f32::from_bits(u32_at(record + 52)), expected.records[2].relevance);
    let pixels = slot + place(640 + 64);
    assert_eq!(bytes[pixels..][..expected.pixels.len()], expected.pixels);
    let relevance = 640 + 96;
    assert_eq!((u32_at(60), &bytes[relevance..][..10]), (2, &b"relevance\0"[..]));
    assert_eq!((u32_at(relevance + 40), u32_at(relevance + 44), u32_at(relevance + 48)), (4, 1, 3));
    assert_eq!((place(relevance + 72), place(relevance + 80)), (4, 12));
    let items = slot + place(relevance + 64);
    assert_eq!(bytes[items..][..12], expected.planes[0]);
}

/// The rows of the table under the heading `name` that begin with an offset.
fn documented_rows(name: &str) -> Vec<Row> {
    let heading = format!("## {name}\n");
    let (_, section) = DOCUMENT.split_once(&heading).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let is_field = |line: &&str| {
        let offset = line.strip_prefix("| ").and_then(|row| row.split(' ').next());
        offset.is_some_and(|offset| offset.parse::<usize>().is_ok()) && line.contains(" | `")
    };
    let rows = section.lines().filter(is_field);
    rows.map(|line| {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        Row {
            offset: cells[1].parse().unwrap(),
            bytes: cells[2].parse().unwrap(),
            field: cells[3].trim_matches('`').to_owned(),
        }
    })
    .collect()
}

fn type_bytes(name: &str) -> usize {
    match name {
        "u8" => 1,
        "u16" => 2,
        "u32" | "i32" | "f32" => 4,
        "u64" | "f64" => 8,
        "CameraBlock" => size_of::<CameraBlock>(),
        "FixationBlock" => size_of::<FixationBlock>(),
        "PlaneEntry" => size_of::<PlaneEntry>(),
        "StateBlock" => size_of::<StateBlock>(),
        other => panic!("what is a {other}?"),
    }
}
