//! `foveate extract` takes files, whatever they are called.

use std::process::Command;

#[test]
fn a_file_may_be_named_like_a_shorthand() {
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

/// No mask of a configuration is left out in silence.
#[cfg(feature = "pictures")]
#[test]
fn masks_are_refused_where_they_are_not_applied() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("photos")).unwrap();
    let config = "[[stream]]\nname = 'street'\nsource = 'test'\n[[stream.mask]]\nname = 'door'\n\
                  points = [[0.1, 0.1], [0.2, 0.1], [0.2, 0.2]]\n[[stream.view]]\nname = 'main'\n";
    std::fs::write(folder.path().join("street.toml"), config).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_foveate"))
        .args(["extract", "photos", "--config", "street.toml", "--out", "arrays"])
        .current_dir(&folder)
        .output()
        .unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("privacy masks do not apply"), "{error}");
}
