//! Segments that were recorded when a version of the ABI was new are read by every later reader of the same major version.
//!
//! `tests/data/segments/ABI.segment` is the memory of a segment of that version. With `FOVEATE_RECORD=1` the test records the
//! present one, which is done once for each version.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use foveate_core::geometry::extent::Extent;
use foveate_core::token::{Outside, Rounding};
use foveate_ring::abi::{ABI_MAJOR, ABI_MINOR};
use foveate_ring::{ReadOutcome, Reader, RingError, SegmentSpec, State, TokenFrameBuf, Writer};
use testkit::ring::{bytes_of, camera, frame, hdr_facts, publish, sealed_copy, spec};

/// Tokens of its frames, and slots of its ring.
const TOKENS: usize = 2;
const SLOTS: usize = 2;

/// The frame that was published last; it has four fixations.
const NEWEST: u64 = 3;

#[test]
fn recorded_segments_of_this_major_version_are_readable() {
    let present = folder().join(format!("{ABI_MAJOR}.{ABI_MINOR}.segment"));
    if env::var_os("FOVEATE_RECORD").is_some_and(|value| value == "1") {
        record(&present);
    }
    assert!(present.exists(), "{}: record it with FOVEATE_RECORD=1", present.display());
    for (path, _, minor) in recorded().into_iter().filter(|(_, major, _)| *major == ABI_MAJOR) {
        let mut reader = opened(&path).unwrap();
        assert_eq!(reader.header().abi_minor, minor, "it is named by its version");
        assert_header(&reader);

        let mut read = TokenFrameBuf::default();
        assert_eq!(reader.read_newest(&mut read).unwrap(), ReadOutcome::Frame { missed: 0 });
        let mut expected = frame(NEWEST, TOKENS, reader.header().format);
        expected.head.publish_ns = read.head.publish_ns;
        assert_eq!(read, expected, "{}", path.display());
        assert_eq!(reader.state(), (State::Stalled, "no frame for 2 s".to_owned()));
    }
}

fn assert_header(reader: &Reader) {
    let (header, spec) = (reader.header(), recorded_spec());
    assert_eq!(
        (&header.stream, &header.view, &header.layout),
        (&spec.stream, &spec.view, &spec.layout)
    );
    assert_eq!((header.format, header.capacity, header.extent), (spec.format, TOKENS, spec.extent));
    assert_eq!((header.grid, header.foveae), (spec.grid, spec.foveae));
    assert_eq!((&header.pixel_format, &header.device), (&spec.pixel_format, &spec.device));
    assert_eq!((header.backend, header.slot_count), (spec.backend, SLOTS));
    assert_eq!(header.picture, spec.picture);
    assert_eq!(header.camera, Some(camera()));
    assert_eq!(header.plane_index("pixels"), Some(0));
    assert_eq!(header.plane_index("relevance"), Some(1));
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

/// A specification without a single default value.
fn recorded_spec() -> SegmentSpec {
    let mut spec =
        SegmentSpec { slot_count: SLOTS, grid: Some(Extent::new(2, 1)), foveae: 5, ..spec(TOKENS) };
    spec.format.outside = Outside::Mean;
    spec.format.rounding = Rounding::Floor;
    spec.picture = hdr_facts();
    spec
}

/// Path, major and minor version of each.
fn recorded() -> Vec<(PathBuf, u32, u32)> {
    let entries = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    entries
        .map(|path| {
            let version = path.file_stem().and_then(OsStr::to_str).unwrap();
            let (major, minor) = version.split_once('.').unwrap();
            let version = (major.parse().unwrap(), minor.parse().unwrap());
            (path, version.0, version.1)
        })
        .collect()
}

fn opened(path: &Path) -> Result<Reader, RingError> {
    Reader::from_fd(sealed_copy(&fs::read(path).unwrap()))
}

fn folder() -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/segments")).to_owned()
}
