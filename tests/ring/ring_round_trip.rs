//! What a writer publishes, a reader gets: every field and every byte, or word that it is gone.
#![allow(clippy::cast_possible_truncation, reason = "any byte will do")]

use std::time::Duration;

use foveate_core::backend::BackendKind;
use foveate_core::clock;
use foveate_core::depth::DepthStamp;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::plan::Token;
use foveate_core::plane::PlaneSpec;
use foveate_core::token::{DType, Normalisation, TokenFormat};
use foveate_ring::abi::{CAMERA_FRAME_OFFSET, HEADER_BYTES, LIVE_OFFSET, SlotHeader};
use foveate_ring::{
    ChannelFacts, FrameHead, Lapped, PlaneInfo, ReadOutcome, RingError, SegmentInfo, SegmentSpec,
    State, TokenFrame, TokenFrameBuf, TokenRecord, Writer,
};
use proptest::prelude::*;
use testkit::ring::{
    as_token_frame, bytes_of, copy_items, frame, frame_with, publish, reader_of, spec,
};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_field_and_byte_arrives(
        dtype in prop::sample::select(vec![DType::U8, DType::F16, DType::Bf16, DType::F32]),
        patch_side in prop::sample::select(vec![14, 16]),
        planes in planes(),
        token_counts in prop::collection::vec(0..=7usize, 1..24),
        slot_count in 2..9usize,
    ) {
        let format = TokenFormat::new(patch_side, dtype, Normalisation::CLIP);
        let spec = SegmentSpec { format, slot_count, planes, ..spec(7) };
        let mut writer = Writer::create(&spec).unwrap();
        let mut reader = reader_of(&writer);
        for (index, plane) in (1..).zip(&spec.planes) {
            let info = reader.header();
            prop_assert_eq!(info.plane_index(plane.name), Some(index));
            let PlaneInfo { name, order, dtype, shape, token_stride, .. } = &info.planes[index];
            prop_assert_eq!((name.as_str(), order.as_str(), *dtype), (plane.name, plane.order, plane.dtype));
            prop_assert_eq!((shape[0], &shape[1..]), (plane.count.unwrap_or(7), &plane.item_shape[..]));
            prop_assert_eq!(*token_stride, plane.item_bytes());
        }
        let mut read = TokenFrameBuf::default();
        for (number, token_count) in (1..).zip(token_counts) {
            let mut expected = frame_with(number, token_count, format, &spec.planes);
            let before_ns = clock::monotonic_ns();
            prop_assert_eq!(writer.publish(&as_token_frame(&expected)), number);
            let after_ns = clock::monotonic_ns();

            prop_assert_eq!(reader.read_newest(&mut read).unwrap(), ReadOutcome::Frame { missed: 0 });
            prop_assert!((before_ns..=after_ns).contains(&read.head.publish_ns));
            expected.head.publish_ns = read.head.publish_ns;
            prop_assert_eq!(&read, &expected);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A slot keeps what it holds of tokens that have not changed since, wherever they begin and end within words.
    #[test]
    fn unchanged_items_arrive_with_the_frame(
        patch_side in prop::sample::select(vec![14, 16]),
        item_bytes in 1..=9u32,
        changes in prop::collection::vec((0..=9usize, any::<u16>()), 1..40),
        slot_count in 2..5usize,
    ) {
        let format = TokenFormat::new(patch_side, DType::U8, Normalisation::NONE);
        let planes = vec![PlaneSpec { dtype: DType::U8, item_shape: vec![item_bytes], ..PlaneSpec::relevance() }];
        let mut writer = Writer::create(&SegmentSpec { format, slot_count, planes, ..spec(9) }).unwrap();
        let mut reader = reader_of(&writer);
        let mut read = TokenFrameBuf::default();
        let item_bytes = item_bytes as usize;
        let mut versions = [1; 9];
        for (number, (token_count, changed)) in (2..).zip(changes) {
            for (_, version) in versions.iter_mut().enumerate().filter(|(token, _)| changed >> token & 1 == 1) {
                *version = number;
            }
            let versions = &versions[..token_count];
            let items = |bytes: usize| versions.iter().flat_map(|&version| vec![version as u8; bytes]).collect();
            let mut expected = frame_with(number, token_count, format, &[]);
            expected.pixels = items(format.token_bytes());
            expected.planes = vec![items(item_bytes)];
            writer.publish(&TokenFrame { versions, ..as_token_frame(&expected) });
            prop_assert_eq!(reader.read_newest(&mut read).unwrap(), ReadOutcome::Frame { missed: 0 });
            prop_assert!(read.pixels == expected.pixels, "frame {number}");
            prop_assert_eq!(&read.planes, &expected.planes, "frame {}", number);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Only items that the frame before does not have are stored, each in two parts; some frames are begun again, with other items.
    #[test]
    fn early_stored_items_arrive_with_kept_ones(
        patch_side in prop::sample::select(vec![10, 14, 16]),
        steps in prop::collection::vec((0..=9usize, any::<u16>(), 0..3_usize), 1..40),
        slot_count in 2..5usize,
    ) {
        let format = TokenFormat::new(patch_side, DType::U8, Normalisation::NONE);
        let spec = SegmentSpec { format, slot_count, planes: vec![], ..spec(9) };
        let mut writer = Writer::create(&spec).unwrap();
        let mut reader = reader_of(&writer);
        let mut read = TokenFrameBuf::default();
        let (mut versions, mut before) = ([1; 9], vec![]);
        for (number, (token_count, changed, begun)) in (2..).zip(steps) {
            for (_, version) in versions.iter_mut().enumerate().filter(|(token, _)| changed >> token & 1 == 1) {
                // 0: never the same as before.
                *version = if changed < 1 << 14 { 0 } else { number };
            }
            let versions = &versions[..token_count];
            let mut expected = frame_with(number, token_count, format, &[]);
            let value = |version: u64| (if version == 0 { number } else { version }) as u8;
            expected.pixels = versions.iter().flat_map(|&version| vec![value(version); format.token_bytes()]).collect();
            for last in (0..begun).rev() {
                let items = writer.begin();
                for (token, &version) in versions.iter().enumerate() {
                    if version == 0 || before.get(token) != Some(&version) {
                        let bytes = vec![if last == 0 { value(version) } else { 255 }; format.token_bytes()];
                        let (first, second) = bytes.split_at(13);
                        items.store().item(token).put(0, first);
                        items.store().item(token).put(13, second);
                    }
                }
            }
            let mut frame = TokenFrame { versions, ..as_token_frame(&expected) };
            if 0 < begun {
                frame.planes[0] = &[];
            }
            writer.publish(&frame);
            prop_assert_eq!(reader.read_newest(&mut read).unwrap(), ReadOutcome::Frame { missed: 0 });
            prop_assert!(read.pixels == expected.pixels, "frame {number}");
            before = versions.to_vec();
        }
    }
}

/// While a frame is stored, its slot is nobody's, and the others are as they were.
#[test]
fn a_begun_frame_is_invisible_until_published() {
    let mut writer = Writer::create(&SegmentSpec { slot_count: 2, ..spec(2) }).unwrap();
    let mut reader = reader_of(&writer);
    let format = spec(2).format;
    let mut read = TokenFrameBuf::default();
    publish(&mut writer, 1, 2, format);
    publish(&mut writer, 2, 2, format);
    let items = writer.begin();
    items.store().item(0).put(0, &[7; 100]);
    // Not frame 1, whose slot it is.
    assert_eq!(reader.read_next(&mut read).unwrap(), ReadOutcome::Frame { missed: 1 });
    assert_eq!(read.head.ring_sequence, 2);
    assert!(read.pixels == frame(2, 2, format).pixels);
    assert_eq!(reader.read_next(&mut read).unwrap(), ReadOutcome::Nothing);
}

/// A plane whose items are not the tokens is stored once in each slot, as long as its version stays.
#[test]
fn an_unchanged_plane_is_not_stored_twice() {
    let spec = SegmentSpec { slot_count: 2, ..channels_spec() };
    let mut writer = Writer::create(&spec).unwrap();
    let mut reader = reader_of(&writer);
    let mut read = TokenFrameBuf::default();
    // Only a writer that breaks its word, and gives a version to other items, can show it.
    for (number, version, shown) in
        [(1, 5, 1), (2, 5, 2), (3, 5, 1), (4, 6, 4), (5, 0, 5), (6, 6, 4), (7, 0, 7)]
    {
        let mut expected = frame_with(number, 2, spec.format, &spec.planes);
        expected.planes[0].fill(u8::try_from(number).unwrap());
        writer.publish(&TokenFrame { whole_version: version, ..as_token_frame(&expected) });
        assert_eq!(reader.read_newest(&mut read).unwrap(), ReadOutcome::Frame { missed: 0 });
        assert_eq!(read.planes[0], vec![shown; 2 * 3 * 5 * 2], "frame {number}");
        assert_eq!(read.head.channels_frame, expected.head.channels_frame);
    }
}

/// Depth changes while the texels stay, so its planes are stored whatever the versions are; and each frame says which depth it is.
#[test]
fn independent_planes_are_stored_with_every_frame() {
    let planes = vec![PlaneSpec::relevance(), PlaneSpec::depth_of_tokens(), PlaneSpec::boxes()];
    let spec = SegmentSpec { slot_count: 2, planes, ..spec(7) };
    let mut writer = Writer::create(&spec).unwrap();
    let mut reader = reader_of(&writer);
    let mut read = TokenFrameBuf::default();
    let first = frame_with(1, 5, spec.format, &spec.planes);
    for number in 1..=6 {
        let mut expected = frame_with(number, 5, spec.format, &spec.planes);
        expected.head.depth = DepthStamp { capture_ns: 70 + number, frame_seq: 90 + number };
        writer.publish(&TokenFrame { versions: &[3; 5], ..as_token_frame(&expected) });
        assert_eq!(reader.read_newest(&mut read).unwrap(), ReadOutcome::Frame { missed: 0 });
        assert_eq!(read.head.depth, expected.head.depth);
        assert_eq!(read.planes[1..], expected.planes[1..], "frame {number}");
        // Of each slot, that of the first frame with this version.
        let kept = if number % 2 == 1 { 1 } else { 2 };
        let kept = frame_with(kept, 5, spec.format, &spec.planes);
        assert_eq!((&read.pixels, &read.planes[0]), (&kept.pixels, &kept.planes[0]));
    }
    assert_ne!(read.planes[1], first.planes[1]);
}

#[test]
fn channels_are_told_by_name() {
    let writer = Writer::create(&channels_spec()).unwrap();
    let reader = reader_of(&writer);
    let info = reader.header();
    assert_eq!(info.channels, channels_spec().channels);
    let plane = &info.planes[info.plane_index("channels").unwrap()];
    assert_eq!((plane.order.as_str(), &plane.shape[..]), ("CHW", &[2, 3, 5][..]));
}

/// Two channels on 5 x 3 cells.
fn channels_spec() -> SegmentSpec {
    let names = ["strokes", "query"].map(str::to_owned).to_vec();
    SegmentSpec {
        planes: vec![PlaneSpec::channels(DType::F16, 2, Extent::new(5, 3))],
        channels: Some(ChannelFacts { cell_side: 32, names }),
        ..spec(7)
    }
}

/// Only a writer that breaks its word, and gives a version to other items, can show it.
#[test]
fn unchanged_items_are_not_stored_twice() {
    let format = TokenFormat::new(16, DType::U8, Normalisation::NONE);
    // Items of whole words: what shares a word is stored with it.
    let wide = PlaneSpec { item_shape: vec![2], ..PlaneSpec::relevance() };
    let planes = vec![wide.clone()];
    let spec = SegmentSpec { format, slot_count: 2, planes, ..spec(2) };
    let mut writer = Writer::create(&spec).unwrap();
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
        let mut expected = frame_with(number, 2, format, &spec.planes);
        expected.pixels.fill(value);
        expected.planes[0].fill(value);
        writer.publish(&TokenFrame { versions: &versions, ..as_token_frame(&expected) });
        assert_eq!(reader.read_newest(&mut read).unwrap(), ReadOutcome::Frame { missed: 0 });
        for (plane, item_bytes) in [(0, format.token_bytes()), (1, wide.item_bytes())] {
            for (item, shown) in read.plane(plane).chunks_exact(item_bytes).zip(shown) {
                assert!(item.iter().all(|byte| *byte == shown), "plane {plane} of frame {number}");
            }
        }
    }
}

#[test]
fn the_segment_says_what_it_was_made_for() {
    let normalisation = Normalisation::IMAGENET;
    let format = TokenFormat::new(16, DType::F16, normalisation);
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
        offset: 15_808,
        token_stride: 1536,
        bytes: 273 * 1536,
    };
    let relevance = PlaneInfo {
        name: "relevance".to_owned(),
        order: "N".to_owned(),
        dtype: DType::F32,
        shape: vec![273],
        offset: 435_136,
        token_stride: 4,
        bytes: 273 * 4,
    };
    assert_eq!(info.planes, [pixels, relevance]);
    assert_eq!(
        ["pixels", "relevance", "depth"].map(|name| info.plane_index(name)),
        [Some(0), Some(1), None]
    );
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
fn read_next_returns_every_frame_and_counts_missed() {
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
fn nearest_frame_finds_the_closest_capture_time() {
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
fn a_reader_begins_with_the_newest_frame() {
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
    let places = |read: &TokenFrameBuf| {
        (read.records.as_ptr(), [0, 1].map(|index| read.plane(index).as_ptr()))
    };
    let warm = places(&read);
    for (number, token_count) in (2..).zip([9, 0, 3, 9]) {
        publish(&mut writer, number, token_count, spec.format);
        reader.read_newest(&mut read).unwrap();
        assert_eq!(places(&read), warm);
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
    for plane in 0..2 {
        let mut items = Vec::new();
        copy_items(&borrowed, plane, &mut items);
        assert_eq!(items, expected.plane(plane), "plane {plane}");
    }
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
fn waiting_reports_only_news_since_the_last_read() {
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
fn a_segment_larger_than_memory_is_refused() {
    let format = TokenFormat::new(16, DType::F32, Normalisation::UNIT);
    let huge = SegmentSpec { format, slot_count: 1024, ..spec(1 << 24) };
    let error = Writer::create(&huge).unwrap_err();
    let RingError::OutOfMemory { bytes, .. } = error else { panic!("{error}") };
    assert!(40 << 40 < bytes);
    let message = error.to_string();
    assert!(
        message.contains(&bytes.to_string()) && message.contains("lower `budget`"),
        "{message}"
    );
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
        ("foveae", SegmentSpec { foveae: 0, ..spec(1) }),
        ("foveae", SegmentSpec { foveae: 9, ..spec(1) }),
        ("grid", SegmentSpec { grid: Some(Extent::new(2, 2)), ..spec(3) }),
        ("grid", SegmentSpec { grid: Some(Extent::new(0, 2)), ..spec(3) }),
        ("planes", SegmentSpec { planes: vec![PlaneSpec::relevance(); 8], ..spec(1) }),
        ("channels", with_channels(64, "c")),
        ("channels.names", with_channels(1, &"c".repeat(32))),
        ("channels.names", with_channels(1, "a\0b")),
    ];
    for (expected, spec) in refused {
        let error = Writer::create(&spec).unwrap_err();
        assert!(matches!(error, RingError::Spec { field, .. } if field == expected), "{error}");
    }
}

fn with_channels(count: usize, name: &str) -> SegmentSpec {
    let names = vec![name.to_owned(); count];
    SegmentSpec { channels: Some(ChannelFacts { cell_side: 32, names }), ..spec(1) }
}

#[test]
fn a_record_tells_where_its_token_is() {
    let extent = Extent::new(1918, 1079);
    let places = [
        // A patch of a pyramid level that hangs over both edges.
        (Token::of_level(3, 224, 128), [1792, 1024, 1918, 1079], [0, 16, 0, 7]),
        // Steps that differ, over the upper left corner.
        (token(-10, -7, 4, 2), [0, 0, 54, 25], [2, 14, 3, 13]),
        // Left of the picture, and below it.
        (token(-64, 40, 4, 2), [0, 40, 0, 72], [16, 0, 0, 16]),
        (token(100, 1079, 1, 1), [100, 1079, 116, 1079], [0, 16, 0, 0]),
    ];
    for (token, [x0, y0, x1, y1], [first_column, columns, first_row, rows]) in places {
        let record = TokenRecord::new(token, extent, 16, 77, 1.5);
        let expected = TokenRecord {
            changed_frame: 77,
            x0,
            y0,
            x1,
            y1,
            x: token.x,
            y: token.y,
            sx: token.sx,
            sy: token.sy,
            size: 16,
            group: token.group,
            first_column,
            columns,
            first_row,
            rows,
            fovea: token.fovea,
            extra_width: 0,
            extra_height: 0,
            relevance: 1.5,
        };
        assert_eq!(record, expected);
        assert_eq!((record.token(), record.pixel_box()), (token, token.pixel_box(extent, 16)));
    }
}

fn token(x: i32, y: i32, sx: u16, sy: u16) -> Token {
    Token { x, y, sx, sy, group: 5, fovea: 7, ..Token::default() }
}

/// Planes behind the pixels: as many as there may be, of all formats and shapes, with items for tokens or a number of their own.
fn planes() -> impl Strategy<Value = Vec<PlaneSpec>> {
    const NAMES: [&str; 7] = ["relevance", "b", "c", "d", "e", "f", "g"];
    let dtypes = vec![DType::U8, DType::F16, DType::Bf16, DType::F32];
    let count = prop::option::of(1..=5u32);
    let plane = (prop::sample::select(dtypes), count, prop::collection::vec(1..=5u32, 0..=3));
    prop::collection::vec(plane, 0..=NAMES.len()).prop_map(|planes| {
        let named = NAMES.into_iter().zip(planes);
        named
            .map(|(name, (dtype, count, item_shape))| {
                let order = &"NABCD"[usize::from(count.is_some())..][..=item_shape.len()];
                PlaneSpec { name, order, dtype, count, item_shape }
            })
            .collect()
    })
}

/// What a recorder keeps beside the texels is what lies in memory, byte by byte.
#[test]
fn raw_headers_are_the_bytes_in_memory() {
    let mut writer = Writer::create(&spec(7)).unwrap();
    let mut reader = reader_of(&writer);
    let mut read = TokenFrameBuf::default();
    for number in 1..=12 {
        publish(&mut writer, number, 5, spec(7).format);
        reader.read_newest(&mut read).unwrap();
        let slot_count = reader.header().slot_count;
        let stride = (reader.header().total_bytes - HEADER_BYTES) / slot_count;
        let slot = HEADER_BYTES + number as usize % slot_count * stride;
        let held = &bytes_of(&writer)[slot..slot + size_of::<SlotHeader>()];
        assert!(bytemuck::bytes_of(&read.head.to_slot(5)) == held, "frame {number}");
        assert_eq!(FrameHead::from_slot(&read.head.to_slot(5)), read.head);
    }
    let mut page = bytes_of(&writer)[..HEADER_BYTES].to_vec();
    page[LIVE_OFFSET..CAMERA_FRAME_OFFSET].fill(0);
    assert!(reader.header_page()[..] == page);
    assert_eq!(&SegmentInfo::from_page(&reader.header_page()).unwrap(), reader.header());
}

#[test]
fn a_recreated_segment_changes_only_epoch_and_name() {
    let reader = reader_of(&Writer::create(&spec(7)).unwrap());
    for name in [None, Some("again")] {
        let mut writer = Writer::recreate(&reader.header_page(), name).unwrap();
        let mut again = reader_of(&writer);
        let stream = name.unwrap_or("camera").to_owned();
        assert_ne!(again.header().epoch, reader.header().epoch);
        assert_eq!(again.header().epoch, writer.epoch());
        let mut expected = reader.header().clone();
        (expected.epoch, expected.spec.stream) = (writer.epoch(), stream);
        assert_eq!(again.header(), &expected);
        publish(&mut writer, 1, 7, spec(7).format);
        let mut read = TokenFrameBuf::default();
        assert_eq!(again.read_newest(&mut read).unwrap(), ReadOutcome::Frame { missed: 0 });
    }
    let mut broken = reader.header_page();
    broken[0] = b'x';
    assert!(matches!(Writer::recreate(&broken, None), Err(RingError::NotASegment { .. })));
    let long = "x".repeat(64);
    let refused = Writer::recreate(&reader.header_page(), Some(&long));
    assert!(matches!(refused, Err(RingError::Spec { field: "stream", .. })));
}

/// A shorter frame leaves in its slot what a longer one had behind it, which no reader asks for; unless it is to be erased.
#[test]
fn unused_slot_memory_is_erased_on_demand() {
    for (patch_side, dtype) in [(14, DType::U8), (16, DType::F16), (9, DType::U8)] {
        let format = TokenFormat::new(patch_side, dtype, Normalisation::NONE);
        let mut writer = Writer::create(&SegmentSpec { format, slot_count: 3, ..spec(7) }).unwrap();
        let mut published = 0;
        let mut publish = |writer: &mut Writer, token_count: usize, byte: u8| {
            published += 1;
            let mut frame = frame(published, token_count, format);
            frame.pixels.fill(byte);
            frame.planes.iter_mut().for_each(|plane| plane.fill(byte));
            bytemuck::cast_slice_mut::<TokenRecord, u8>(&mut frame.records).fill(byte);
            writer.publish(&as_token_frame(&frame));
        };
        let count = |writer: &Writer, byte: u8| {
            bytes_of(writer).windows(4).filter(|window| *window == [byte; 4]).count()
        };
        (0..3).for_each(|_| publish(&mut writer, 7, 0xAB));
        (0..3).for_each(|_| publish(&mut writer, 2, 0x11));
        assert!(0 < count(&writer, 0xAB), "it is left");
        writer.erase_earlier();
        (0..3).for_each(|_| publish(&mut writer, 2, 0x11));
        assert_eq!(count(&writer, 0xAB), 0);
        (0..3).for_each(|_| publish(&mut writer, 7, 0xAB));
        (0..3).for_each(|_| publish(&mut writer, 2, 0x11));
        assert!(0 < count(&writer, 0xAB), "only as often as there are slots");
    }
}
