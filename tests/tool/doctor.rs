//! The doctor names a remedy for everything that is not well, and fails only for what everything needs.

use foveate_tool::doctor::{Finding, Mark, findings, is_fit, print};

#[test]
fn a_directory_that_cannot_be_made_is_a_failure() {
    let found = findings(std::path::Path::new("/proc/self/nonesuch"));
    let sockets = found.iter().find(|finding| finding.subject == "sockets").unwrap();
    assert_eq!(sockets.mark, Mark::Fail, "{sockets:?}");
    assert!(!is_fit(&found));
    let subjects: Vec<_> = found.iter().map(|finding| finding.subject.as_str()).collect();
    for subject in ["GStreamer", "rtsp://", "/dev/video*", "files", "shared memory"] {
        assert!(subjects.contains(&subject), "{subjects:?}");
    }
}

#[test]
fn every_finding_is_a_line_with_its_remedy_below() {
    let found =
        [Finding::ok("one", "fine"), Finding::bad(Mark::Warn, "another", "missing", "install it")];
    let mut out = Vec::new();
    print(&found, &mut out).unwrap();
    let expected = "ok    one      fine\nwarn  another  missing\n               -> install it\n";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
    assert!(is_fit(&found));
}
