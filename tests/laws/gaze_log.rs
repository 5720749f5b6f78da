//! A gaze log is read as it was written, is small, and what is none is refused with the line that is wrong.

use std::error::Error;
use std::fs;
use std::sync::Arc;

use foveate_core::frame::FrameTime;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::{FOVEAE_MAX, Fixation, FixationReason, Fixations, Gaze};
use foveate_core::geometry::gaze_entry::GazeEntry;
use foveate_core::geometry::plan::TokenPlan;
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_core::geometry::region::{PixelBox, Region};
use foveate_core::geometry::relevance::{Relevance, RelevanceMap};
use foveate_gaze::GazeParameters;
use foveate_gaze::controller::{Controller, Policy};
use foveate_gaze::layout::Layout;
use foveate_gaze::layout::inset::Inset;
use foveate_gaze::log::{
    GazeLog, GazeLogError, GazeLogParseError, LogEntry, entry_line, header_line,
};
use foveate_gaze::view::ViewSpec;
use proptest::prelude::*;

const EXTENT: Extent = Extent::new(1920, 1080);
const LINE_BYTES_MAX: usize = 64 * 1024;

proptest! {
    #[test]
    fn a_log_is_read_as_it_was_written(
        gazes in prop::collection::btree_map(any::<u64>(), (gaze(), any::<bool>()), 1..20),
        view in "[a-z\"\\\\é]{0,9}/m",
    ) {
        let entries: Vec<_> = gazes.into_iter().map(|(frame, (gaze, is_planned_afresh))| {
            LogEntry { is_planned_afresh, ..entry(frame, gaze) }
        }).collect();
        let lines = entries.iter().map(|LogEntry { frame, gaze, is_planned_afresh }| {
            let is_planned_afresh = *is_planned_afresh;
            entry_line(&GazeEntry { is_planned_afresh, ..GazeEntry::new(gaze, *frame) })
        });
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
    let other = header.replace(":1,", ":2,");
    let empty = entry(7).replace("\"weight\":0.5", "\"weight\":0.5,\"box\":[3,4,3,9]");
    let whole = entry(7).replace("\"weight\":0.5", "\"weight\":0.5,\"share\":1.5");
    let [none, many] = [0, FOVEAE_MAX + 1].map(|count| {
        let entry = GazeEntry::new(&any_gaze(), 7);
        let fixations = vec![entry.fixations[0]; count];
        entry_line(&GazeEntry { fixations, ..entry })
    });
    for (text, expected) in [
        (String::new(), "not a gaze log"),
        ("x,y\n1,2".to_owned(), "not a gaze log"),
        (entry(1), "not a gaze log"),
        (other, "unsupported gaze log version 2 (expected 1; record it again)"),
        (format!("{header}\n{empty}"), "invalid line 2: invalid `box`"),
        (format!("{header}\n{whole}"), "invalid line 2: invalid `share`"),
        (header.clone(), "no entries"),
        (header.replace("1920", "0"), "invalid line 1"),
        (format!("{header}\n{}\n{broken}", entry(3)), "invalid line 3: missing field `x`"),
        (format!("{header}\n{heavy}"), "invalid line 2: invalid `weight` (expected 0 to 1)"),
        (
            format!("{header}\n{none}"),
            "invalid line 2: invalid number of fixations (expected 1 to 8)",
        ),
        (
            format!("{header}\n{many}"),
            "invalid line 2: invalid number of fixations (expected 1 to 8)",
        ),
        (format!("{header}\n{short}"), "invalid line 2: invalid \"codes\" (expected 4"),
        (format!("{header}\n{odd}"), "invalid line 2: invalid \"codes\" (expected hex"),
        (
            format!("{header}\n{}\n{}", entry(7), entry(7)),
            "invalid line 3: frame 7 does not follow",
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
    assert_eq!(GazeLog::load(&path).unwrap().entries, [entry(3, any_gaze())]);
}

/// The digests are of the plans of this version: where another plan follows from the same gaze, logs have another version.
#[test]
fn a_log_replays_to_the_same_plans() {
    let codes = concat!(
        "db7df997ecf9e2c343b37be24964589bb47b9dc756ce7b3ff773a4836a9f64ff4e5fdadaad5c5d3c",
        "3d71736666868c6ec6e9dc706aec6e9e884198a666617f4c9089d6d23cd4e9f1924c8b968ab7ee8c",
    );
    let entry = |frame: u64, reason: &str, (x, y): (f64, f64), asked: &str| {
        format!(
            r#"{{"frame":{frame},"fixations":[{{"id":{frame},"x":{x},"y":{y},"since_frame":{frame},"reason":"{reason}","weight":1.0{asked}}}],"relevance":{{"frame":{frame},"grid":[10,8],"codes":"{codes}"}}}}"#
        )
    };
    let text = [
        header_line("camera/main", Extent::new(640, 480)),
        entry(1, "look", (101.5, 333.0625), ""),
        entry(2, "attend", (500.0, 77.25), r#","box":[450,60,550,90]"#),
        entry(3, "relevance", (320.0, 240.0), ""),
        entry(4, "look", (12.5, 470.0), r#","box":[0,400,40,480],"share":0.5"#),
    ];
    let digests = |layout: Layout| replayed(&text.join("\n"), layout).map(|plan| digest(&plan));
    let foveal = digests(Layout::Foveal { e0_px: None, foveae: 1, coarsest: None });
    assert_eq!(foveal[..2], [3434765945394117365, 4300679537276558725]);
    assert_eq!(foveal[2..], [12521050778947701957, 1564991846245920693]);
    let directional = digests(Layout::Directional { e0_px: None });
    assert_eq!(directional[..2], [9945211391343374261, 3135357489223538805]);
    assert_eq!(directional[2..], [8773256338880948469, 17625356112568756053]);
    let inset = digests(Layout::Inset(Inset::default()));
    assert_eq!(inset[..2], [6249539026265426558, 404959853492427193]);
    assert_eq!(inset[2..], [4504778879624378990, 5406631044985019013]);
}

fn entry(frame: u64, gaze: Gaze) -> LogEntry {
    LogEntry { frame, gaze: Arc::new(gaze), is_planned_afresh: false }
}

/// The plans of the first four frames of a log.
fn replayed(text: &str, layout: Layout) -> [TokenPlan; 4] {
    let log = Arc::new(GazeLog::parse(text).unwrap());
    let spec = ViewSpec { layout, budget: 160, ..ViewSpec::default() };
    let extent = Extent::new(640, 480);
    let at = |frame_seq: u64| FrameTime { frame_seq, time_ns: frame_seq * 100_000_000 };
    let policy = Policy::Replay { log };
    let mut controller =
        Controller::new(policy, GazeParameters::default(), false, extent, 1, at(1));
    [1, 2, 3, 4].map(|frame_seq| {
        controller.arrive(at(frame_seq), None);
        spec.plan(controller.gaze(), PyramidShape::new(extent), None)
    })
}

/// FNV-1a of the places and sides of tokens in pixels, a number at a time.
fn digest(plan: &TokenPlan) -> u64 {
    let side = plan.patch_side;
    let numbers = plan.tokens.iter().flat_map(|token| {
        let (x, y) = (token.x.cast_unsigned(), token.y.cast_unsigned());
        [x, y, token.width(side), token.height(side)]
    });
    numbers.fold(0xcbf2_9ce4_8422_2325, |digest, number| {
        (digest ^ u64::from(number)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

fn any_gaze() -> Gaze {
    let map = RelevanceMap::from_codes(Extent::new(2, 1), &[0x80, 0xFF]);
    let reason = FixationReason::Saliency;
    let fixation =
        Fixation { id: 2, since_frame: 5, weight: 0.5, ..Fixation::at((12.5, 7.0625), reason) };
    Gaze::at(fixation, Some(Arc::new(Relevance { map, frame_seq: 4 })))
}

fn gaze() -> impl Strategy<Value = Gaze> {
    let reason = (0..4u32).prop_map(|code| FixationReason::from_code(code).unwrap());
    // Fixations lie on a grid of 1/16 pixel, which few decimals tell exactly.
    let side = |pixels: u32| (0..=16 * pixels).prop_map(|steps| f64::from(steps) / 16.0);
    let place = (side(1920), side(1080), 0.0..=1.0f32);
    let asked = (
        prop::option::of(region()),
        prop::option::of((1..=64u32).prop_map(|parts| f64::from(parts) / 64.0)),
    );
    let fixation = (any::<u64>(), place, any::<u64>(), reason, asked);
    let fixation =
        fixation.prop_map(|(id, (x, y, weight), since_frame, reason, (region, share))| Fixation {
            id,
            x,
            y,
            since_frame,
            reason,
            weight,
            region,
            share,
        });
    let fixations = prop::collection::vec(fixation, 1..=FOVEAE_MAX);
    let gaze = (fixations, prop::option::of(relevance()));
    gaze.prop_map(|(fixations, relevance)| Gaze::new(Fixations::from_iter(fixations), relevance))
}

fn region() -> impl Strategy<Value = Region> {
    let span = |side: u32| (0..side, 1..=side).prop_map(|(from, length)| from..from + length);
    (span(1920), span(1080)).prop_map(|(columns, rows)| Region::from(PixelBox::of(columns, rows)))
}

fn relevance() -> impl Strategy<Value = Arc<Relevance>> {
    let codes = prop::collection::vec(any::<u8>(), 64 * 64);
    (1..=64u32, 1..=64u32, codes, any::<u64>()).prop_map(|(width, height, codes, frame_seq)| {
        let grid = Extent::new(width, height);
        let map = RelevanceMap::from_codes(grid, &codes[..grid.area()]);
        Arc::new(Relevance { map, frame_seq })
    })
}
