//! `docs/reference/abi.md` and the code describe the same bytes. Its tables are the subject of `abi_files`.

use foveate_core::backend::BackendKind;
use foveate_core::color::Transfer;
use foveate_core::frame::CaptureClock;
use foveate_core::geometry::fixation::FixationReason;
use foveate_core::token::{DType, Outside, Rounding};
use foveate_ring::{State, TokenFrameBuf, Writer};
use testkit::ring::{bytes_of, camera, frame, publish, reader_of, spec};

#[test]
fn documented_transfer_codes_are_those_of_the_code() {
    let document = include_str!("../../docs/reference/abi.md");
    for code in 1..=16 {
        let documented = format!("{code} `{}`", Transfer::from_code(code).unwrap());
        assert!(document.contains(&documented), "{documented}");
    }
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
        [0, 1, 2, 3, 4, 5, 6]
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

    assert_eq!((&bytes[..8], u32_at(8), u32_at(12)), (&b"FOVEATE\0"[..], 1, 0));
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
