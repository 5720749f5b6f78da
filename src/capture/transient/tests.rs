//! Transient errors are retried, others end the stream. The table has the decision for each error.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;

use foveate_core::geometry::extent::Extent;
use foveate_stats::LossReason;

use super::Evidence;
use crate::{CaptureError, Pace, SourceChoice, SourceSpec};

const NOTHING: Evidence = Evidence { is_live: false, has_delivered: false };
const LIVE: Evidence = Evidence { is_live: true, has_delivered: false };
const DELIVERED: Evidence = Evidence { is_live: false, has_delivered: true };
const ALL: [Evidence; 3] = [NOTHING, LIVE, DELIVERED];

#[test]
fn a_text_that_cannot_work_never_passes() {
    for error in [
        CaptureError::UnknownSource { text: text() },
        CaptureError::InvalidAddress { address: text(), problem: "is wrong" },
        CaptureError::CaFile { path: PathBuf::new(), reason: text() },
        CaptureError::PipelineFile { path: PathBuf::new(), reason: text() },
        CaptureError::Parameter { name: text(), problem: "is wrong" },
        CaptureError::Parse { reason: text(), pipeline: text() },
        CaptureError::UnknownElement { element: text(), remedy: text() },
        CaptureError::NoAppsink { found: text() },
        CaptureError::NoPictures { folder: text(), kinds: text() },
        CaptureError::UnlikePictures {
            picture: text(),
            extent: Extent::new(1, 1),
            expected: Extent::new(2, 1),
        },
        CaptureError::NotACamera { device: text() },
        CaptureError::NoTrack { track: 2, count: 1 },
        CaptureError::EveryFrameLive,
        CaptureError::Closed,
    ] {
        assert_passes(&error, [false, false, false]);
    }
}

#[test]
fn what_hangs_on_the_world_outside_always_passes() {
    for error in [
        CaptureError::NoCamera { device: text() },
        CaptureError::Busy { device: text() },
        CaptureError::Unauthorised { reason: text() },
        CaptureError::WebPage { what: text() },
        CaptureError::Unreachable { reason: text() },
        CaptureError::Status { what: text(), status: 503, remedy: "wait" },
        CaptureError::Certificate { server: text(), reason: text() },
        CaptureError::Redirected { to: text() },
        CaptureError::Missing { what: "rtsp://192.0.2.7/main".to_owned() },
        CaptureError::Permission { what: "/dev/video0".to_owned(), remedy: "wait" },
        CaptureError::LiveEnded,
        CaptureError::BecameInterlaced,
        CaptureError::Silent { seconds: 10 },
        CaptureError::NotStopping { remedy: "" },
    ] {
        assert_passes(&error, [true, true, true]);
    }
}

#[test]
fn what_only_another_configuration_helps_passes_once_this_one_has_worked() {
    for error in [
        CaptureError::Missing { what: "/clips/a.mp4".to_owned() },
        CaptureError::Permission { what: "/clips/a.mp4".to_owned(), remedy: "wait" },
        CaptureError::NotRawVideo { offered: text() },
        CaptureError::NoVideo { what: text(), offered: text() },
        CaptureError::DeviceMemory { memory: text(), remedy: text() },
        CaptureError::NotNegotiated { offered: text(), reason: text() },
        CaptureError::NotDepth { offered: text() },
        CaptureError::MissingDecoder { what: text(), remedy: text() },
        CaptureError::Extent { extent: Extent::new(0, 0) },
        too_many_pixels(),
        CaptureError::Playlist { what: text(), playlist: "a playlist" },
        CaptureError::Undecodable { what: text(), reason: "unknown" },
        CaptureError::EndlessPicture { what: text(), mebibytes: 9 },
        CaptureError::Extent { extent: Extent::new(30_000, 30_000) },
    ] {
        assert_passes(&error, [false, false, true]);
    }
}

#[test]
fn what_a_web_server_sends_may_change() {
    for error in [
        CaptureError::NotRawVideo { offered: text() },
        CaptureError::NoVideo { what: text(), offered: text() },
        CaptureError::MissingDecoder { what: text(), remedy: "none".to_owned() },
        CaptureError::Playlist { what: text(), playlist: "a playlist" },
        CaptureError::Undecodable { what: text(), reason: "unknown" },
        CaptureError::EndlessPicture { what: text(), mebibytes: 9 },
        too_many_pixels(),
    ] {
        assert!(error.is_transient(&shorthand("http://192.0.2.7/"), NOTHING), "{error}");
        assert!(!error.is_transient(&shorthand("clip.mp4"), NOTHING), "{error}");
    }
}

#[test]
fn frames_that_do_not_come_pass_where_the_source_is_live() {
    let errors = [
        CaptureError::Corrupt { what: text(), reason: text() },
        CaptureError::NoFrames { what: text() },
        CaptureError::CapsTimeout { seconds: 10, seen: text() },
        CaptureError::Failed { element: text(), reason: text() },
    ];
    for error in &errors {
        assert_passes(error, [false, true, true]);
        for live in ["/dev/video0", "rtsp://192.0.2.7/main", "http://192.0.2.7/main", "test"] {
            assert!(error.is_transient(&shorthand(live), NOTHING), "{live}: {error}");
        }
    }
}

#[test]
fn files_and_sources_of_which_every_frame_counts_never_begin_again() {
    let error = CaptureError::Silent { seconds: 10 };
    for evidence in ALL {
        assert!(!error.is_transient(&shorthand("clip.mp4"), evidence));
        assert!(!error.is_transient(&shorthand("file:///clip.mp4"), evidence));
        assert!(
            !error.is_transient(&SourceSpec { looped: true, ..shorthand("clip.mp4") }, evidence)
        );
        assert!(
            !error.is_transient(&SourceSpec { pace: Pace::EveryFrame, ..pipeline() }, evidence)
        );
        assert!(!error.is_transient(&SourceSpec { restart: false, ..pipeline() }, evidence));
    }
}

#[test]
fn a_web_server_has_a_camera_until_a_clip_has_come() {
    const LIVE_AND_DELIVERED: Evidence = Evidence { is_live: true, has_delivered: true };
    let passes = |live| {
        let spec = SourceSpec { live, ..shorthand("http://192.0.2.7/stream") };
        let error = CaptureError::Unreachable { reason: text() };
        [NOTHING, LIVE, DELIVERED, LIVE_AND_DELIVERED].map(|at| error.is_transient(&spec, at))
    };
    assert_eq!(passes(None), [true, true, false, true]);
    assert_eq!(passes(Some(true)), [true; 4]);
    assert_eq!(passes(Some(false)), [false; 4]);
}

#[test]
fn losses_are_counted_by_what_an_operator_would_look_for() {
    for (error, reason) in [
        (CaptureError::NoCamera { device: text() }, LossReason::Unreachable),
        (CaptureError::Unauthorised { reason: text() }, LossReason::Unreachable),
        (CaptureError::Certificate { server: text(), reason: text() }, LossReason::Unreachable),
        (CaptureError::Undecodable { what: text(), reason: "unknown" }, LossReason::Unreadable),
        (CaptureError::LiveEnded, LossReason::Ended),
        (CaptureError::Silent { seconds: 10 }, LossReason::Silent),
        (CaptureError::CapsTimeout { seconds: 10, seen: text() }, LossReason::Silent),
        (CaptureError::Corrupt { what: text(), reason: text() }, LossReason::Unreadable),
        (CaptureError::NotStopping { remedy: "" }, LossReason::Stuck),
        (CaptureError::Failed { element: text(), reason: text() }, LossReason::Failed),
    ] {
        assert_eq!(error.loss_reason(), reason, "{error}");
    }
}

/// Checks whether `error` is transient without evidence, for a live pipeline, and for one that has delivered frames.
fn assert_passes(error: &CaptureError, expected: [bool; 3]) {
    let passes = ALL.map(|evidence| error.is_transient(&pipeline(), evidence));
    assert_eq!(passes, expected, "{error}");
}

fn pipeline() -> SourceSpec {
    SourceSpec::new("test", SourceChoice::Pipeline(text()))
}

fn shorthand(source: &str) -> SourceSpec {
    SourceSpec::new("test", SourceChoice::Shorthand(source.to_owned()))
}

fn too_many_pixels() -> CaptureError {
    CaptureError::TooManyPixels { picture: text(), extent: Extent::new(9, 9), max_pixels: 80 }
}

fn text() -> String {
    "text".to_owned()
}
