//! `foveate demo`: a daemon and its page in one command.

use rustix::process::Signal;
use testkit::daemon::Place;

/// The demo ends all its processes, and leaves no files.
#[test]
fn a_demo_shows_the_scene_until_it_is_interrupted() {
    let place = Place::new();
    let temporary = place.path("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let environment = [("TMPDIR", temporary.to_str().unwrap())];
    let arguments = ["demo", "--no-open", "--listen", "127.0.0.1:0"];
    let demo = place.foveate_in(&arguments, &environment);
    demo.stdout.wait_for("#boxes&gaze shows what foveated sees");
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 1);
    demo.signal(Signal::INT);
    let outcome = demo.finish();
    outcome.assert_clean_exit(0);
    assert!(outcome.stdout.contains("look demo/gaze 0.4 0.4"), "{outcome:#?}");
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0);
}

#[test]
fn a_demo_of_what_is_not_there_says_so() {
    let place = Place::new();
    let outcome = place.foveate(&["demo", "nowhere.mp4", "--no-open"]).finish();
    assert_eq!(outcome.code, Some(69), "{outcome:#?}");
    assert!(outcome.stderr.contains("nowhere.mp4\" does not exist"), "{outcome:#?}");
}
