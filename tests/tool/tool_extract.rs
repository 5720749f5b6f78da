//! `foveate extract` takes files, whatever they are called.

use std::process::Command;

#[test]
fn a_file_that_is_called_as_a_shorthand_is_still_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_foveate"))
        .args(["extract", "test", "--out", "arrays"])
        .current_dir(&folder)
        .output()
        .unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(69), "{error}");
    assert!(error.contains("/test\" does not exist"), "{error}");
    assert!(!folder.path().join("arrays").exists());
}
