//! A gaze log is read as it was written, is small, and what is none is refused with the line that is wrong.

use std::error::Error;
use std::fs;
use std::sync::Arc;

use foveate_core::gaze::log::{GazeLog, GazeLogError, GazeLogParseError, entry_line, header_line};
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::{FOVEAE_MAX, Fixation, FixationReason, Fixations, Gaze};
use foveate_core::geometry::gaze_entry::GazeEntry;
use foveate_core::geometry::relevance::{Relevance, RelevanceMap};
use proptest::prelude::*;

const EXTENT: Extent = Extent::new(1920, 1080);
const LINE_BYTES_MAX: usize = 64 * 1024;

proptest! {
    #[test]
    fn a_log_is_read_as_it_was_written(
        gazes in prop::collection::btree_map(any::<u64>(), gaze(), 1..20), view in "[a-z\"\\\\é]{0,9}/m",
    ) {
        let entries: Vec<_> = gazes.into_iter().map(|(frame, gaze)| (frame, Arc::new(gaze))).collect();
        let lines = entries.iter().map(|(frame, gaze)| entry_line(&GazeEntry::new(gaze, *frame)));
        let text: Vec<String> = [header_line(&view, EXTENT)].into_iter().chain(lines).collect();
        prop_assert!(text.iter().all(|line| line.len() < LINE_BYTES_MAX && !line.contains('\n')));
        let log = GazeLog::parse(&(text.join("\n") + "\n")).unwrap();
        prop_assert_eq!(log, GazeLog { view, extent: EXTENT, entries });
    }

    #[test]
    fn no_text_is_too_broken_to_be_refused(text in "\\PC{0,80}", cut in 0..400usize) {
        prop_assert!(GazeLog::parse(&text).is_err());
        let (header, entry) = (header_line("a/b", EXTENT), entry_line(&GazeEntry::new(&any_gaze(), 3)));
        let whole = format!("{header}\n{entry}");
        let cut = cut.min(whole.len() - 1);
        prop_assert!(GazeLog::parse(&whole[..cut]).is_err(), "{}", &whole[..cut]);
        let after_header = [&header, text.as_str()].join("\n");
        prop_assert!(GazeLog::parse(&after_header).is_err());
    }
}

#[test]
fn a_broken_log_says_what_is_wrong_and_where() {
    let header = header_line("camera/main", EXTENT);
    let entry = |frame| entry_line(&GazeEntry::new(&any_gaze(), frame));
    let broken = entry(7).replace("\"x\"", "\"z\"");
    let heavy = entry(7).replace("\"weight\":0.5", "\"weight\":1.5");
    let short = entry(7).replace("\"codes\":\"80", "\"codes\":\"8");
    let odd = entry(7).replace("\"codes\":\"80", "\"codes\":\"g0");
    let other = header.replace(":2,", ":1,");
    let [none, many] = [0, FOVEAE_MAX + 1].map(|count| {
        let entry = GazeEntry::new(&any_gaze(), 7);
        let fixations = vec![entry.fixations[0]; count];
        entry_line(&GazeEntry { fixations, ..entry })
    });
    for (text, expected) in [
        (String::new(), "it is not a gaze log"),
        ("x,y\n1,2".to_owned(), "it is not a gaze log"),
        (entry(1), "it is not a gaze log"),
        (other, "it is a gaze log of version 1, and this program reads version 2"),
        (header.clone(), "it has no entries"),
        (header.replace("1920", "0"), "line 1 is broken"),
        (format!("{header}\n{}\n{broken}", entry(3)), "line 3 is broken: missing field `x`"),
        (format!("{header}\n{heavy}"), "line 2 is broken: a `weight` of 0 to 1 is expected"),
        (format!("{header}\n{none}"), "line 2 is broken: 1 to 8 fixations are expected"),
        (format!("{header}\n{many}"), "line 2 is broken: 1 to 8 fixations are expected"),
        (format!("{header}\n{short}"), "line 2 is broken: 4 hexadecimal digits"),
        (format!("{header}\n{odd}"), "line 2 is broken: hexadecimal digits"),
        (
            format!("{header}\n{}\n{}", entry(7), entry(7)),
            "line 3 has frame 7, which does not come after",
        ),
    ] {
        let error = GazeLog::parse(&text).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn a_file_that_cannot_be_replayed_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gaze.log");
    let error = GazeLog::load(&path).unwrap_err();
    assert!(matches!(error, GazeLogError::Unreadable { .. }));
    assert!(error.to_string().contains("gaze.log"));
    fs::write(&path, [0xFF, 0x00]).unwrap();
    let error = GazeLog::load(&path).unwrap_err();
    assert!(error.to_string().contains("gaze.log"));
    let source = error.source().and_then(|source| source.downcast_ref());
    assert!(matches!(source, Some(GazeLogParseError::NotALog)));
    fs::write(
        &path,
        [header_line("a/b", EXTENT), entry_line(&GazeEntry::new(&any_gaze(), 3))].join("\n"),
    )
    .unwrap();
    assert_eq!(GazeLog::load(&path).unwrap().entries, [(3, Arc::new(any_gaze()))]);
}

fn any_gaze() -> Gaze {
    let map = RelevanceMap::from_codes(Extent::new(2, 1), &[0x80, 0xFF]);
    let reason = FixationReason::Saliency;
    let fixation = Fixation {
        id: 2,
        x: 12.5,
        y: 7.0625,
        since_frame: 5,
        reason,
        weight: 0.5,
        ..Fixation::default()
    };
    Gaze::at(fixation, Some(Arc::new(Relevance { map, frame_seq: 4 })))
}

fn gaze() -> impl Strategy<Value = Gaze> {
    let reason = (0..4u32).prop_map(|code| FixationReason::from_code(code).unwrap());
    // Fixations lie on a grid of 1/16 pixel, which few decimals tell exactly.
    let side = |pixels: u32| (0..=16 * pixels).prop_map(|steps| f64::from(steps) / 16.0);
    let place = (side(1920), side(1080), 0.0..=1.0f32);
    let fixation = (any::<u64>(), place, any::<u64>(), reason);
    let fixation = fixation.prop_map(|(id, (x, y, weight), since_frame, reason)| Fixation {
        id,
        x,
        y,
        since_frame,
        reason,
        weight,
        ..Fixation::default()
    });
    let fixations = prop::collection::vec(fixation, 1..=FOVEAE_MAX);
    (fixations, prop::option::of(relevance())).prop_map(|(fixations, relevance)| Gaze {
        fixations: Fixations::from_iter(fixations),
        relevance,
    })
}

fn relevance() -> impl Strategy<Value = Arc<Relevance>> {
    let codes = prop::collection::vec(any::<u8>(), 64 * 64);
    (1..=64u32, 1..=64u32, codes, any::<u64>()).prop_map(|(width, height, codes, frame_seq)| {
        let grid = Extent::new(width, height);
        let map = RelevanceMap::from_codes(grid, &codes[..grid.area()]);
        Arc::new(Relevance { map, frame_seq })
    })
}
