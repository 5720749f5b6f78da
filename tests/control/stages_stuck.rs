//! A stage that is at one thing for too long is named; one that waits, however long, is not.

use std::panic::{self, AssertUnwindSafe};
use std::time::Duration;

use foveate_config::ViewConfig;
use foveate_server::directory::Directory;
use foveate_stats::stages::{Stage, Stages};
use testkit::control::add_stream;

const AT_ONCE: Duration = Duration::ZERO;

#[test]
fn a_busy_stage_is_stuck_after_the_limit() {
    let stages = Stages::default();
    assert_eq!(stages.stuck(AT_ONCE), None, "nothing has begun");
    stages.frame_loop.during(|| {
        assert_eq!(stages.stuck(AT_ONCE).unwrap().0, Stage::FrameLoop);
        assert_eq!(stages.stuck(Duration::from_secs(3600)), None);
    });
    assert_eq!(stages.stuck(AT_ONCE), None, "it is done");
}

#[test]
fn the_innermost_stage_is_named() {
    let stages = Stages::default();
    let capture = stages.next_pipeline();
    capture.delivering.during(|| {
        assert_eq!(stages.stuck(AT_ONCE).unwrap().0, Stage::Capture);
        stages.frame_loop.during(|| {
            assert_eq!(stages.stuck(AT_ONCE).unwrap().0, Stage::FrameLoop);
            stages.publish.during(|| {
                assert_eq!(stages.stuck(AT_ONCE).unwrap().0, Stage::Publish);
            });
            assert_eq!(stages.stuck(AT_ONCE).unwrap().0, Stage::FrameLoop);
        });
    });
}

/// It has been replaced, so its hang does not count.
#[test]
fn a_pipeline_that_was_given_up_does_not_count() {
    let stages = Stages::default();
    let hanging = stages.next_pipeline();
    hanging.opening.during(|| {
        assert_eq!(stages.stuck(AT_ONCE).unwrap().0, Stage::Capture);
        let next = stages.next_pipeline();
        assert_eq!(stages.stuck(AT_ONCE), None);
        next.opening.during(|| assert_eq!(stages.stuck(AT_ONCE).unwrap().0, Stage::Capture));
    });
}

#[test]
fn who_panics_is_at_nothing() {
    let stages = Stages::default();
    let panics = AssertUnwindSafe(|| stages.publish.during(|| panic!("on purpose")));
    assert!(panic::catch_unwind(panics).is_err());
    assert_eq!(stages.stuck(AT_ONCE), None);
}

#[test]
fn the_directory_names_the_stream_and_the_stage() {
    let directory = Directory::new().unwrap();
    let ports =
        ["camera", "other"].map(|name| add_stream(&directory, name, vec![ViewConfig::default()]));
    assert!(directory.is_healthy());
    ports[1].counters().stages.publish.during(|| {
        let stuck = directory.stuck(AT_ONCE);
        assert_eq!(stuck.len(), 1);
        assert_eq!((stuck[0].0.as_str(), stuck[0].1), ("other", Stage::Publish));
        assert!(directory.is_healthy(), "it may take a moment");
    });
    assert_eq!(directory.stuck(AT_ONCE), []);
}
