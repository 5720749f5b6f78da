//! A segment that is broken, or made to hurt, leads to an error: never to a panic, never out of the mapping.

use std::mem::offset_of;
use std::time::Duration;

use foveate_core::geometry::extent::Extent;
use foveate_core::plane::PlaneSpec;
use foveate_core::token::DType;
use foveate_ring::abi::{
    CHANNEL_OFFSET, ChannelBlock, HEADER_BYTES, LIVE_OFFSET, LiveBlock, PlaneEntry, SegmentHeader,
    SlotHeader, StateBlock,
};
use foveate_ring::{
    ChannelFacts, ReadOutcome, Reader, RingError, SegmentSpec, State, TokenFrameBuf, Writer,
};
use proptest::prelude::*;
use rustix::fs::{SealFlags, fcntl_add_seals, ftruncate};
use testkit::ring::{bytes_of, frame, publish, sealed_copy, spec, unsealed_copy};

const NEWEST: usize = LIVE_OFFSET + offset_of!(LiveBlock, newest);
const STATES: usize = LIVE_OFFSET + offset_of!(LiveBlock, states);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_change_of_bytes_makes_a_reader_panic(
        changes in prop::collection::vec((interesting_offset(), any::<u8>()), 1..6),
    ) {
        let mut bytes = valid_segment();
        for (offset, value) in changes {
            bytes[offset] = value;
        }
        read_all_that_opens(&bytes);
    }

    #[test]
    fn no_extreme_number_makes_a_reader_panic(
        offset in (0..LIVE_OFFSET + size_of::<LiveBlock>()).prop_map(|offset| offset & !3),
        value in prop::sample::select(vec![
            0, 1, 2, 3, 7, 63, 64, 4095, 4096, u64::from(u32::MAX), 1 << 32, 1 << 63, u64::MAX - 1, u64::MAX,
        ]),
        is_wide: bool,
    ) {
        let mut bytes = valid_segment();
        let value = value.to_le_bytes();
        let value = if is_wide { &value[..] } else { &value[..4] };
        let room = (bytes.len() - offset).min(value.len());
        bytes[offset..][..room].copy_from_slice(&value[..room]);
        read_all_that_opens(&bytes);
    }
}

#[test]
fn a_whole_copy_opens() {
    let mut reader = opened(&valid_segment()).unwrap();
    let outcome = reader.read_next(&mut TokenFrameBuf::default()).unwrap();
    assert_eq!(outcome, ReadOutcome::Frame { missed: 0 });
}

#[test]
fn what_is_no_segment_is_refused() {
    let mut bytes = valid_segment();
    bytes[0] = b'f';
    let said = refused(&bytes);
    assert!(said.contains("not a Foveate segment") && said.contains("fOVEATE"), "{said}");

    let said = refused(&bytes[..HEADER_BYTES - 8]);
    assert!(said.contains("4088 bytes"), "{said}");
    let said = refused(&[]);
    assert!(said.contains("0 bytes"), "{said}");
    let file = tempfile::tempfile().unwrap();
    let said = Reader::from_fd(file.into()).unwrap_err().to_string();
    assert!(said.contains("not a Foveate segment"), "{said}");
}

#[test]
fn another_major_version_is_refused_with_both_versions() {
    let mut bytes = valid_segment();
    bytes[offset_of!(SegmentHeader, abi_major)] = 3;
    bytes[offset_of!(SegmentHeader, abi_minor)] = 7;
    let said = refused(&bytes);
    assert!(said.contains("follows ABI 3.7, but this reader supports 1.0"), "{said}");
}

#[test]
fn a_later_minor_version_opens() {
    let mut bytes = valid_segment();
    bytes[offset_of!(SegmentHeader, abi_minor)] = 7;
    assert_eq!(opened(&bytes).unwrap().header().abi_minor, 7);
}

#[test]
fn memory_that_could_change_or_shrink_is_refused() {
    let bytes = valid_segment();
    let all = [SealFlags::GROW, SealFlags::SHRINK, SealFlags::FUTURE_WRITE];
    for missing in all {
        let file = unsealed_copy(&bytes);
        for seal in all.into_iter().filter(|&seal| seal != missing) {
            fcntl_add_seals(&file, seal).unwrap();
        }
        let said = Reader::from_fd(file).unwrap_err().to_string();
        assert!(said.contains("seal"), "{said}");
    }
}

#[test]
fn memory_that_is_not_reserved_is_refused() {
    let bytes = valid_segment();
    // All of it is there in size; the last pages are not in memory.
    let file = unsealed_copy(&bytes[..HEADER_BYTES]);
    ftruncate(&file, bytes.len() as u64).unwrap();
    fcntl_add_seals(&file, SealFlags::GROW | SealFlags::SHRINK | SealFlags::FUTURE_WRITE).unwrap();
    let said = Reader::from_fd(file).unwrap_err().to_string();
    assert!(said.contains("reserved"), "{said}");
}

#[test]
fn each_field_that_contradicts_the_size_is_named() {
    let plane = offset_of!(SegmentHeader, planes);
    let second = plane + size_of::<PlaneEntry>();
    let changes: &[(&str, usize, u64, usize)] = &[
        ("total_bytes", offset_of!(SegmentHeader, total_bytes), 1 << 40, 8),
        ("header_bytes", offset_of!(SegmentHeader, header_bytes), 64, 4),
        ("slot_count", offset_of!(SegmentHeader, slot_count), 1, 4),
        ("slot_stride", offset_of!(SegmentHeader, slot_count), 9, 4),
        ("slot_stride", offset_of!(SegmentHeader, slot_stride), u64::MAX - 63, 8),
        ("slot_header_bytes", offset_of!(SegmentHeader, slot_header_bytes), 0, 4),
        ("record_bytes", offset_of!(SegmentHeader, record_bytes), 57, 4),
        ("records_offset", offset_of!(SegmentHeader, records_offset), 0, 4),
        ("token_capacity", offset_of!(SegmentHeader, token_capacity), u64::MAX, 4),
        ("token_capacity", offset_of!(SegmentHeader, token_capacity), 0, 4),
        ("planes[0].shape", offset_of!(SegmentHeader, patch_side), 16, 4),
        ("plane_count", offset_of!(SegmentHeader, plane_count), 9, 4),
        ("source_width x source_height", offset_of!(SegmentHeader, source_width), 0, 4),
        ("backend_kind", offset_of!(SegmentHeader, backend_kind), 0, 4),
        ("fovea_capacity", offset_of!(SegmentHeader, fovea_capacity), 0, 4),
        ("fovea_capacity", offset_of!(SegmentHeader, fovea_capacity), 9, 4),
        // There is room for three tokens.
        ("grid_columns x grid_rows", offset_of!(SegmentHeader, grid_columns), 2 | 2 << 32, 8),
        ("grid_columns x grid_rows", offset_of!(SegmentHeader, grid_columns), u64::MAX, 8),
        ("grid_columns x grid_rows", offset_of!(SegmentHeader, grid_columns), 1 << 31 | 2 << 32, 8),
        ("grid_columns x grid_rows", offset_of!(SegmentHeader, grid_columns), 1, 4),
        ("grid_columns x grid_rows", offset_of!(SegmentHeader, grid_rows), 1, 4),
        ("outside", offset_of!(SegmentHeader, outside), 2, 4),
        ("rounding", offset_of!(SegmentHeader, rounding), 2, 4),
        (
            "pixel_aspect_width : pixel_aspect_height",
            offset_of!(SegmentHeader, pixel_aspect_height),
            0,
            4,
        ),
        ("view_name", offset_of!(SegmentHeader, view_name), 0xFF, 1),
        ("planes.dtype", plane + offset_of!(PlaneEntry, dtype), 0, 4),
        ("planes.token_stride", plane + offset_of!(PlaneEntry, dtype), 4, 4),
        ("planes.ndim", plane + offset_of!(PlaneEntry, ndim), 5, 4),
        ("planes.shape", plane + offset_of!(PlaneEntry, shape), 4, 4),
        ("planes.offset", plane + offset_of!(PlaneEntry, offset), 64, 8),
        ("planes.bytes", plane + offset_of!(PlaneEntry, offset), u64::MAX - 63, 8),
        ("planes.bytes", plane + offset_of!(PlaneEntry, bytes), 4096, 8),
        ("planes.token_stride", plane + offset_of!(PlaneEntry, token_stride), u64::MAX, 8),
        ("planes[0].name", plane + offset_of!(PlaneEntry, name), 0x70, 8),
        ("plane_count", offset_of!(SegmentHeader, plane_count), 0, 4),
        ("planes.dtype", second + offset_of!(PlaneEntry, dtype), 5, 4),
        ("planes.ndim", second + offset_of!(PlaneEntry, ndim), 0, 4),
        ("planes.shape", second + offset_of!(PlaneEntry, shape), 4, 4),
        ("planes.offset", second + offset_of!(PlaneEntry, offset), 64, 8),
        ("planes.bytes", second + offset_of!(PlaneEntry, offset), 4096, 8),
        ("planes.bytes", second + offset_of!(PlaneEntry, bytes), 4096, 8),
        ("planes.token_stride", second + offset_of!(PlaneEntry, token_stride), 3, 8),
        ("planes.name", second + offset_of!(PlaneEntry, name), 0xFF, 1),
        (
            "planes.name",
            second + offset_of!(PlaneEntry, name),
            u64::from_le_bytes(*b"pixels\0\0"),
            8,
        ),
        ("planes.shape", plane + offset_of!(PlaneEntry, shape) + 8, 0, 4),
    ];
    for &(expected, offset, value, width) in changes {
        let mut bytes = valid_segment();
        bytes[offset..][..width].copy_from_slice(&value.to_le_bytes()[..width]);
        let error = opened(&bytes).unwrap_err();
        assert!(
            matches!(error, RingError::Malformed { field, .. } if field == expected),
            "{expected}: {error}"
        );
    }
}

#[test]
fn channels_that_contradict_their_plane_are_named() {
    let plane = offset_of!(SegmentHeader, planes) + size_of::<PlaneEntry>();
    let block = |offset: usize| CHANNEL_OFFSET + offset;
    let changes: &[(&str, usize, u64, usize)] = &[
        ("channels.count", block(offset_of!(ChannelBlock, count)), 1, 4),
        ("channels.count", block(offset_of!(ChannelBlock, count)), u64::MAX, 4),
        ("channels.cell_side", block(offset_of!(ChannelBlock, cell_side)), 0, 4),
        ("channels.names", block(offset_of!(ChannelBlock, names) + 32), 0xFF, 1),
        ("channels.count", plane + offset_of!(PlaneEntry, shape), 1, 4),
        ("planes.order", plane + offset_of!(PlaneEntry, order), 0x5743, 8),
        ("planes.ndim", plane + offset_of!(PlaneEntry, ndim), 2, 4),
        ("planes.token_stride", plane + offset_of!(PlaneEntry, shape), 1000, 4),
        ("planes.shape", plane + offset_of!(PlaneEntry, shape), 0, 4),
    ];
    let planes = vec![PlaneSpec::channels(DType::F16, 2, Extent::new(5, 3))];
    let names = ["strokes", "query"].map(str::to_owned).to_vec();
    let channels = Some(ChannelFacts { cell_side: 32, names });
    let spec = SegmentSpec { planes, channels, ..spec(3) };
    let segment = bytes_of(&Writer::create(&spec).unwrap());
    assert_eq!(opened(&segment).unwrap().header().channels, spec.channels);
    for &(expected, offset, value, width) in changes {
        let mut bytes = segment.clone();
        bytes[offset..][..width].copy_from_slice(&value.to_le_bytes()[..width]);
        let error = opened(&bytes).unwrap_err();
        assert!(
            matches!(error, RingError::Malformed { field, .. } if field == expected),
            "{expected}: {error}"
        );
    }
}

#[test]
fn a_frame_with_too_many_tokens_is_refused() {
    assert_eq!(malformed_when(offset_of!(SlotHeader, token_count)), "token_count");
}

#[test]
fn a_slot_that_names_another_frame_is_refused() {
    assert_eq!(malformed_when(offset_of!(SlotHeader, ring_sequence)), "ring_sequence");
}

#[test]
fn a_count_of_fixations_out_of_bounds_is_clamped() {
    let all = frame(7, 3, spec(3).format).head.fixations;
    assert_eq!(all.len(), 8);
    let mut writer = Writer::create(&spec(3)).unwrap();
    for number in 1..=7 {
        publish(&mut writer, number, 3, spec(3).format);
    }
    let bytes = bytes_of(&writer);
    for (count, clamped) in [(0_u32, 1), (1, 1), (8, 8), (9, 8), (200, 8), (u32::MAX, 8)] {
        let mut bytes = bytes.clone();
        let place = HEADER_BYTES + 7 * 4096 + offset_of!(SlotHeader, fixation_count);
        bytes[place..][..4].copy_from_slice(&count.to_le_bytes());
        let mut read = TokenFrameBuf::default();
        opened(&bytes).unwrap().read_newest(&mut read).unwrap();
        assert_eq!(read.head.fixations[..], all[..clamped], "{count}");
        let mut reader = opened(&bytes).unwrap();
        let borrowed = reader.borrow_newest().unwrap().unwrap();
        assert_eq!(borrowed.head().fixations[..], all[..clamped], "{count}");
    }
}

#[test]
fn a_newest_frame_that_never_comes_is_given_up() {
    let mut bytes = valid_segment();
    bytes[NEWEST..][..8].copy_from_slice(&1000_u64.to_le_bytes());
    let (mut reader, mut frame) = (opened(&bytes).unwrap(), TokenFrameBuf::default());
    assert!(matches!(reader.read_newest(&mut frame), Err(RingError::Overtaken { .. })));
    assert!(matches!(reader.read_next(&mut frame), Err(RingError::Overtaken { .. })));
    assert!(matches!(reader.borrow_newest(), Err(RingError::Overtaken { .. })));
}

/// The writer may be killed at any instruction; the state before is then still whole.
#[test]
fn a_state_that_was_never_finished_does_not_count() {
    let mut bytes = valid_segment();
    bytes[STATES..][..8].copy_from_slice(b"\x03\0\0\0\0\0\0\0");
    bytes[STATES + offset_of!(StateBlock, reason)] = b'e';
    assert_eq!(opened(&bytes).unwrap().state(), (State::Stalled, "no frame".to_owned()));
}

#[test]
fn an_unknown_state_reads_as_the_end() {
    let mut bytes = valid_segment();
    bytes[STATES + size_of::<StateBlock>()] = 9;
    let (state, reason) = opened(&bytes).unwrap().state();
    assert_eq!(state, State::Ended);
    assert!(reason.contains('9'), "{reason}");
}

/// A byte of the headers, or of the first two slots.
fn interesting_offset() -> impl Strategy<Value = usize> {
    let slots = HEADER_BYTES..HEADER_BYTES + 2 * 4096;
    prop_oneof![
        3 => 0..LIVE_OFFSET,
        1 => LIVE_OFFSET..LIVE_OFFSET + size_of::<LiveBlock>(),
        1 => slots,
    ]
}

/// The bytes of a segment of eight slots of a page each, in which three frames were published.
fn valid_segment() -> Vec<u8> {
    let spec = spec(3);
    let mut writer = Writer::create(&spec).unwrap();
    for number in 1..=3 {
        publish(&mut writer, number, 3, spec.format);
    }
    writer.set_state(State::Stalled, "no frame");
    bytes_of(&writer)
}

fn opened(bytes: &[u8]) -> Result<Reader, RingError> {
    Reader::from_fd(sealed_copy(bytes))
}

fn refused(bytes: &[u8]) -> String {
    opened(bytes).unwrap_err().to_string()
}

/// Calls everything that a reader has. What it returns does not matter.
fn read_all_that_opens(bytes: &[u8]) {
    let Ok(mut reader) = opened(bytes) else { return };
    let mut frame = TokenFrameBuf::default();
    let _ = (reader.state(), reader.wait(Duration::ZERO), reader.read_next(&mut frame));
    let _ = (reader.read_next(&mut frame), reader.read_newest(&mut frame));
    let plane_count = reader.header().planes.len();
    if let Ok(mut reader) = opened(bytes)
        && let Ok(Some(borrowed)) = reader.borrow_newest()
    {
        for index in 0..borrowed.token_count() {
            borrowed.record(index);
        }
        for plane in 0..plane_count {
            assert!(borrowed.plane_bytes(plane) <= size_of_val(borrowed.plane_words(plane)));
        }
        let _ = borrowed.finish();
    }
}

/// Which field a reader objects to when the newest slot's number at `offset` is 4000.
fn malformed_when(offset: usize) -> &'static str {
    let mut bytes = valid_segment();
    let slot = HEADER_BYTES + 3 * 4096;
    bytes[slot + offset..][..4].copy_from_slice(&4000_u32.to_le_bytes());
    match opened(&bytes).unwrap().read_newest(&mut TokenFrameBuf::default()) {
        Err(RingError::Malformed { field, .. }) => field,
        other => panic!("{other:?}"),
    }
}
