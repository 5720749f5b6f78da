//! What a writer publishes, a reader gets: every field and every byte, or word that it is gone.
#![allow(clippy::cast_possible_truncation, reason = "any byte will do")]

use std::sync::atomic::Ordering;
use std::time::Duration;

use foveate_core::backend::BackendKind;
use foveate_core::clock;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::plan::Token;
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_core::token::{DType, Normalisation, TokenFormat};
use foveate_ring::{
    Lapped, PlaneInfo, ReadOutcome, RingError, SegmentSpec, State, TokenFrame, TokenFrameBuf,
    TokenRecord, Writer,
};
use proptest::prelude::*;

use crate::ring::{as_token_frame, bytes_of, frame, publish, reader_of, spec};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_field_and_byte_arrives(
        dtype in prop::sample::select(vec![DType::U8, DType::F16, DType::Bf16, DType::F32]),
        patch_side in prop::sample::select(vec![14, 16]),
        token_counts in prop::collection::vec(0..=7usize, 1..24),
        slot_count in 2..9usize,
    ) {
        let format = TokenFormat { patch_side, dtype, normalisation: Normalisation::CLIP };
        let mut writer = Writer::create(&SegmentSpec { format, slot_count, ..spec(7) }).unwrap();
        let mut reader = reader_of(&writer);
        let mut read = TokenFrameBuf::default();
        for (number, token_count) in (1..).zip(token_counts) {
            let before_ns = clock::monotonic_ns();
            prop_assert_eq!(publish(&mut writer, number, token_count, format), number);
            let after_ns = clock::monotonic_ns();

            prop_assert_eq!(reader.read_newest(&mut read).unwrap(), ReadOutcome::Frame { missed: 0 });
            prop_assert!((before_ns..=after_ns).contains(&read.head.publish_ns));
            let mut expected = frame(number, token_count, format);
            expected.head.publish_ns = read.head.publish_ns;
            prop_assert_eq!(&read, &expected);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A slot keeps what it holds of tokens that have not changed since, wherever they begin and end within words.
    #[test]
    fn pixels_of_a_version_that_a_slot_holds_arrive_as_well(
        patch_side in prop::sample::select(vec![14, 16]),
        changes in prop::collection::vec((0..=9usize, any::<u16>()), 1..40),
        slot_count in 2..5usize,
    ) {
        let format = TokenFormat { patch_side, dtype: DType::U8, normalisation: Normalisation::NONE };
        let mut writer = Writer::create(&SegmentSpec { format, slot_count, ..spec(9) }).unwrap();
        let mut reader = reader_of(&writer);
        let mut read = TokenFrameBuf::default();
        let mut pixels = vec![0; 9 * format.token_bytes()];
        let mut versions = [1; 9];
        for (number, (token_count, changed)) in (2..).zip(changes) {
            for (token, pixels) in pixels.chunks_exact_mut(format.token_bytes()).enumerate() {
                if changed >> token & 1 == 1 {
                    versions[token] = number;
                    pixels.fill(number as u8);
                }
            }
            let mut expected = frame(number, token_count, format);
            let versions = &versions[..token_count];
            expected.pixels.copy_from_slice(&pixels[..token_count * format.token_bytes()]);
            writer.publish(&TokenFrame { versions, ..as_token_frame(&expected) });
            prop_assert_eq!(reader.read_newest(&mut read).unwrap(), ReadOutcome::Frame { missed: 0 });
            prop_assert!(read.pixels == expected.pixels, "frame {number}");
        }
    }
}

/// Only a writer that breaks its word, and gives a version to other pixels, can show it.
#[test]
fn pixels_of_a_version_that_a_slot_holds_are_not_stored_again() {
    let format =
        TokenFormat { patch_side: 16, dtype: DType::U8, normalisation: Normalisation::NONE };
    let mut writer = Writer::create(&SegmentSpec { format, slot_count: 2, ..spec(2) }).unwrap();
    let mut reader = reader_of(&writer);
    let mut read = TokenFrameBuf::default();
    for (number, value, versions, shown) in [
        (1, 1, [5, 6], [1, 1]),
        (2, 2, [5, 6], [2, 2]),
        (3, 3, [5, 7], [1, 3]),
        (4, 4, [0, 6], [4, 2]),
        (5, 5, [0, 7], [5, 3]),
        (6, 6, [0, 0], [6, 6]),
    ] {
        let mut expected = frame(number, 2, format);
        expected.pixels.fill(value);
        writer.publish(&TokenFrame { versions: &versions, ..as_token_frame(&expected) });
        assert_eq!(reader.read_newest(&mut read).unwrap(), ReadOutcome::Frame { missed: 0 });
        let tokens = read.pixels.chunks_exact(format.token_bytes());
        for (pixels, shown) in tokens.zip(shown) {
            assert!(pixels.iter().all(|pixel| *pixel == shown), "frame {number}");
        }
    }
}

#[test]
fn the_segment_says_what_it_was_made_for() {
    let normalisation = Normalisation::IMAGENET;
    let format = TokenFormat { patch_side: 16, dtype: DType::F16, normalisation };
    let spec = SegmentSpec { format, backend: BackendKind::Vulkan, ..spec(273) };
    let writer = Writer::create(&spec).unwrap();
    let reader = reader_of(&writer);

    let info = reader.header();
    assert_eq!((&info.stream, &info.view, &info.layout), (&spec.stream, &spec.view, &spec.layout));
    assert_eq!(info.format, spec.format);
    assert_eq!((info.capacity, info.slot_count), (spec.capacity, spec.slot_count));
    assert_eq!((info.extent, &info.pixel_format), (spec.extent, &spec.pixel_format));
    assert_eq!((info.backend, &info.device), (spec.backend, &spec.device));
    assert_eq!(info.epoch, writer.epoch());
    assert_eq!(info.total_bytes, bytes_of(&writer).len());
    let pixels = PlaneInfo {
        name: "pixels".to_owned(),
        order: "NCHW".to_owned(),
        dtype: DType::F16,
        shape: vec![273, 3, 16, 16],
        offset: 13_376,
        token_stride: 1536,
        bytes: 273 * 1536,
    };
    assert_eq!(info.planes, [pixels]);
}

#[test]
fn a_long_device_name_is_cut_between_characters() {
    let device = "é".repeat(40);
    let writer = Writer::create(&SegmentSpec { device, ..spec(1) }).unwrap();
    assert_eq!(reader_of(&writer).header().device, "é".repeat(31));
}

#[test]
fn segments_have_different_epochs() {
    let [one, other] = [(); 2].map(|()| Writer::create(&spec(1)).unwrap());
    assert_ne!(one.epoch(), other.epoch());
}

#[test]
fn the_newest_frame_wins_and_those_passed_over_are_counted() {
    let (spec, mut read) = (spec(2), TokenFrameBuf::default());
    let mut writer = Writer::create(&spec).unwrap();
    let mut reader = reader_of(&writer);
    assert_eq!(reader.read_newest(&mut read).unwrap(), ReadOutcome::Nothing);
    for number in 1..=20 {
        publish(&mut writer, number, 2, spec.format);
    }
    assert_eq!(reader.read_newest(&mut read).unwrap(), ReadOutcome::Frame { missed: 19 });
    assert_eq!(read.head.ring_sequence, 20);
    assert_eq!(reader.read_newest(&mut read).unwrap(), ReadOutcome::Nothing);
    assert_eq!(read.head.ring_sequence, 20, "the buffer stays as it was");
}

#[test]
fn read_next_gives_every_frame_that_the_ring_holds_and_counts_the_others() {
    let (spec, mut read) = (spec(2), TokenFrameBuf::default());
    let mut writer = Writer::create(&spec).unwrap();
    let mut reader = reader_of(&writer);
    for number in 1..=8 {
        publish(&mut writer, number, 2, spec.format);
    }
    for number in 1..=8 {
        assert_eq!(reader.read_next(&mut read).unwrap(), ReadOutcome::Frame { missed: 0 });
        assert_eq!(read.head.ring_sequence, number);
    }
    assert_eq!(reader.read_next(&mut read).unwrap(), ReadOutcome::Nothing);

    for number in 9..=19 {
        publish(&mut writer, number, 2, spec.format);
    }
    // Frames 9, 10 and 11 were replaced by 17, 18 and 19.
    assert_eq!(reader.read_next(&mut read).unwrap(), ReadOutcome::Frame { missed: 3 });
    assert_eq!(read.head.ring_sequence, 12);
}

#[test]
fn the_frame_nearest_in_time_is_found_read_or_not_and_of_two_as_near_the_older() {
    let spec = SegmentSpec { slot_count: 4, ..spec(1) };
    let mut writer = Writer::create(&spec).unwrap();
    let (mut reader, mut read) = (reader_of(&writer), TokenFrameBuf::default());
    assert!(!reader.read_nearest(0, &mut read).unwrap(), "the ring is empty");
    for number in 1..=6 {
        let mut frame = frame(number, 1, spec.format);
        frame.head.stamp.capture_ns = 100 * number;
        writer.publish(&as_token_frame(&frame));
    }
    reader.read_newest(&mut read).unwrap();
    for (capture_ns, nearest) in [(0, 3), (340, 3), (350, 3), (351, 4), (500, 5), (u64::MAX, 6)] {
        assert!(reader.read_nearest(capture_ns, &mut read).unwrap());
        assert_eq!(read.head.ring_sequence, nearest, "{capture_ns}");
        assert_eq!(read.pixels, frame(nearest, 1, spec.format).pixels);
    }
    let nothing = reader.read_newest(&mut read).unwrap();
    assert_eq!(nothing, ReadOutcome::Nothing, "what counts as read has not changed");
}

#[test]
fn a_reader_begins_with_the_frame_that_was_newest_when_it_was_opened() {
    let (spec, mut read) = (spec(2), TokenFrameBuf::default());
    let mut writer = Writer::create(&spec).unwrap();
    for number in 1..=5 {
        publish(&mut writer, number, 2, spec.format);
    }
    let mut reader = reader_of(&writer);
    publish(&mut writer, 6, 2, spec.format);
    for number in 5..=6 {
        assert_eq!(reader.read_next(&mut read).unwrap(), ReadOutcome::Frame { missed: 0 });
        assert_eq!(read.head.ring_sequence, number);
    }
}

#[test]
fn reading_allocates_nothing_once_warm() {
    let (spec, mut read) = (spec(9), TokenFrameBuf::default());
    let mut writer = Writer::create(&spec).unwrap();
    let mut reader = reader_of(&writer);
    publish(&mut writer, 1, 0, spec.format);
    reader.read_newest(&mut read).unwrap();
    let warm = (read.records.as_ptr(), read.pixels.as_ptr());
    for (number, token_count) in (2..).zip([9, 0, 3, 9]) {
        publish(&mut writer, number, token_count, spec.format);
        reader.read_newest(&mut read).unwrap();
        assert_eq!((read.records.as_ptr(), read.pixels.as_ptr()), warm);
    }
}

#[test]
fn a_borrowed_frame_is_read_in_place() {
    let spec = spec(3);
    let mut writer = Writer::create(&spec).unwrap();
    let mut reader = reader_of(&writer);
    assert!(reader.borrow_newest().unwrap().is_none());
    publish(&mut writer, 1, 3, spec.format);
    publish(&mut writer, 2, 3, spec.format);

    let borrowed = reader.borrow_newest().unwrap().unwrap();
    let mut expected = frame(2, 3, spec.format);
    expected.head.publish_ns = borrowed.head().publish_ns;
    assert_eq!((borrowed.head(), borrowed.missed()), (&expected.head, 1));
    let records: Vec<_> = (0..borrowed.token_count()).map(|i| borrowed.record(i)).collect();
    assert_eq!(records, expected.records);
    let words = borrowed.pixel_words().iter().map(|word| word.load(Ordering::Relaxed));
    let mut pixels: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    pixels.truncate(borrowed.pixel_bytes());
    assert_eq!(pixels, expected.pixels);
    assert_eq!(borrowed.finish(), Ok(()));
    assert!(reader.borrow_newest().unwrap().is_none(), "it was read");
}

#[test]
fn who_borrows_for_too_long_is_told() {
    let spec = spec(1);
    let mut writer = Writer::create(&spec).unwrap();
    let mut reader = reader_of(&writer);
    publish(&mut writer, 1, 1, spec.format);
    let borrowed = reader.borrow_newest().unwrap().unwrap();
    for number in 2..=8 {
        publish(&mut writer, number, 1, spec.format);
        assert!(borrowed.still_valid(), "{number} frames fit");
    }
    publish(&mut writer, 9, 1, spec.format);
    assert!(!borrowed.still_valid());
    assert_eq!(borrowed.finish(), Err(Lapped { ring_sequence: 1 }));
}

#[test]
fn a_change_of_the_state_is_seen() {
    let mut writer = Writer::create(&spec(1)).unwrap();
    let reader = reader_of(&writer);
    assert_eq!(reader.state(), (State::Live, String::new()));
    writer.set_state(State::Stalled, "no frame for 2 s");
    assert_eq!(reader.state(), (State::Stalled, "no frame for 2 s".to_owned()));
    writer.set_state(State::Ended, &"ß".repeat(100));
    assert_eq!(reader.state(), (State::Ended, "ß".repeat(63)));
    writer.set_state(State::Live, "");
    assert_eq!(reader.state(), (State::Live, String::new()));
}

#[test]
fn waiting_tells_of_what_came_since_the_last_read_and_of_nothing_else() {
    let (spec, mut read) = (spec(1), TokenFrameBuf::default());
    let mut writer = Writer::create(&spec).unwrap();
    publish(&mut writer, 1, 1, spec.format);
    let mut reader = reader_of(&writer);
    assert!(reader.wait(Duration::ZERO), "the frame that was there is not read yet");
    reader.read_newest(&mut read).unwrap();
    assert!(!reader.wait(Duration::ZERO));
    writer.set_state(State::Stalled, "");
    assert!(reader.wait(Duration::ZERO));
    reader.read_newest(&mut read).unwrap();
    assert!(!reader.wait(Duration::from_millis(1)));
    publish(&mut writer, 2, 1, spec.format);
    assert!(reader.wait(Duration::MAX));
}

#[test]
fn a_segment_outlives_its_writer() {
    let (spec, mut read) = (spec(1), TokenFrameBuf::default());
    let mut writer = Writer::create(&spec).unwrap();
    let mut reader = reader_of(&writer);
    publish(&mut writer, 1, 1, spec.format);
    drop(writer);
    assert_eq!(reader.read_newest(&mut read).unwrap(), ReadOutcome::Frame { missed: 0 });
    assert_eq!(read.pixels, frame(1, 1, spec.format).pixels);
}

#[test]
fn a_segment_larger_than_memory_is_refused_with_its_size_and_the_way_out() {
    let format =
        TokenFormat { patch_side: 16, dtype: DType::F32, normalisation: Normalisation::UNIT };
    let huge = SegmentSpec { format, slot_count: 1024, ..spec(1 << 24) };
    let error = Writer::create(&huge).unwrap_err();
    let RingError::OutOfMemory { bytes, .. } = error else { panic!("{error}") };
    assert!(40 << 40 < bytes);
    let message = error.to_string();
    assert!(message.contains(&bytes.to_string()) && message.contains("token budget"), "{message}");
}

#[test]
fn what_has_no_place_in_a_segment_is_refused_by_name() {
    let format = TokenFormat { patch_side: 0, ..spec(1).format };
    let refused = [
        ("stream", SegmentSpec { stream: "s".repeat(64), ..spec(1) }),
        ("view", SegmentSpec { view: "a\0b".to_owned(), ..spec(1) }),
        ("layout", SegmentSpec { layout: "l".repeat(32), ..spec(1) }),
        ("pixel_format", SegmentSpec { pixel_format: "p".repeat(16), ..spec(1) }),
        ("slot_count", SegmentSpec { slot_count: 1, ..spec(1) }),
        ("slot_count", SegmentSpec { slot_count: 1025, ..spec(1) }),
        ("capacity", spec(0)),
        ("capacity", spec(usize::MAX)),
        ("patch_side", SegmentSpec { format, ..spec(1) }),
    ];
    for (expected, spec) in refused {
        let error = Writer::create(&spec).unwrap_err();
        assert!(matches!(error, RingError::Spec { field, .. } if field == expected), "{error}");
    }
}

#[test]
fn a_record_tells_where_its_token_is() {
    let shape = PyramidShape::new(Extent::new(1918, 1079));
    let token = Token { level: 3, x: 224, y: 128 };
    let record = TokenRecord::new(token, shape, 16, 77, 1.5);
    let expected = TokenRecord {
        changed_frame: 77,
        x0: 1792,
        y0: 1024,
        x1: 1918,
        y1: 1079,
        x: 224,
        y: 128,
        level: 3,
        size: 16,
        columns: 16,
        rows: 7,
        relevance: 1.5,
        reserved: 0,
    };
    assert_eq!(record, expected);
    assert_eq!((record.token(), record.pixel_box()), (token, token.pixel_box(shape, 16)));
}
