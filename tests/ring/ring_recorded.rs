//! Segments that were recorded when a version of the ABI was new are read by every later reader as they were then.
//!
//! `tests/data/segments/ABI.segment` is the memory of a segment of that version. With `FOVEATE_RECORD=1` the test records the
//! present one, which is done once for each version.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use foveate_ring::abi::{ABI_MAJOR, ABI_MINOR};
use foveate_ring::{ReadOutcome, Reader, SegmentSpec, State, TokenFrameBuf, Writer};

use crate::ring::{bytes_of, camera, frame, publish, sealed_copy, spec};

/// Tokens of its frames, and slots of its ring.
const TOKENS: usize = 2;
const SLOTS: usize = 2;

/// The frame that was published last.
const NEWEST: u64 = 3;

/// The first minor version with the plane `relevance`.
const RELEVANCE_MINOR: u32 = 3;

#[test]
fn every_recorded_segment_is_read_as_it_was_written() {
    let present = file_of(ABI_MAJOR, ABI_MINOR);
    if env::var_os("FOVEATE_RECORD").is_some_and(|value| value == "1") {
        record(&present);
    }
    assert!(present.exists(), "{}: record it with FOVEATE_RECORD=1", present.display());
    let folder = present.parent().unwrap();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let mut reader = Reader::from_fd(sealed_copy(&fs::read(&path).unwrap())).unwrap();
        let minor = reader.header().abi_minor;
        assert_eq!(path, file_of(ABI_MAJOR, minor), "it is named by its version");
        assert_header(&reader, minor);

        let mut read = TokenFrameBuf::default();
        assert_eq!(reader.read_newest(&mut read).unwrap(), ReadOutcome::Frame { missed: 0 });
        let mut expected = frame(NEWEST, TOKENS, reader.header().format);
        expected.head.publish_ns = read.head.publish_ns;
        if minor < RELEVANCE_MINOR {
            expected.planes.clear();
        }
        assert_eq!(read, expected, "{}", path.display());
        assert_eq!(reader.state(), (State::Stalled, "no frame for 2 s".to_owned()));
    }
}

fn assert_header(reader: &Reader, minor: u32) {
    let (header, spec) = (reader.header(), recorded_spec());
    assert_eq!(
        (&header.stream, &header.view, &header.layout),
        (&spec.stream, &spec.view, &spec.layout)
    );
    assert_eq!((header.format, header.capacity, header.extent), (spec.format, TOKENS, spec.extent));
    assert_eq!((&header.pixel_format, &header.device), (&spec.pixel_format, &spec.device));
    assert_eq!((header.backend, header.slot_count), (spec.backend, SLOTS));
    // Since 1.2.
    assert_eq!(header.camera, (2 <= minor).then(camera));
    assert_eq!(header.plane_index("pixels"), Some(0));
    assert_eq!(header.plane_index("relevance"), (RELEVANCE_MINOR <= minor).then_some(1));
}

fn record(path: &Path) {
    assert!(!path.exists(), "{} was recorded before, and stays as it is", path.display());
    let mut writer = Writer::create(&recorded_spec()).unwrap();
    for number in 1..=NEWEST {
        publish(&mut writer, number, TOKENS, recorded_spec().format);
    }
    writer.set_state(State::Stalled, "no frame for 2 s");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes_of(&writer)).unwrap();
}

fn recorded_spec() -> SegmentSpec {
    SegmentSpec { slot_count: SLOTS, ..spec(TOKENS) }
}

fn file_of(major: u32, minor: u32) -> PathBuf {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/segments"));
    folder.join(format!("{major}.{minor}.segment"))
}
