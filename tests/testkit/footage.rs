//! Where the real clips of the tests, and other files that are fetched once, are: in the folder `FOVEATE_CLIPS`, or where `scripts/test.sh` puts them. Where there are
//! none, tests fail, or are left out if `FOVEATE_WITHOUT_CLIPS=1`.

use std::env;
use std::path::PathBuf;

use crate::left_out::is_left_out;

/// Where a clip is; `None` where the test that asks is left out.
pub fn clip(name: &str) -> Option<PathBuf> {
    const WITHOUT: &str = "FOVEATE_WITHOUT_CLIPS";
    if is_left_out(WITHOUT) {
        return None;
    }
    let path = folder().join(name);
    assert!(
        path.is_file(),
        "there is no {}: scripts/test.sh fetches it, and {WITHOUT}=1 leaves these tests out",
        path.display()
    );
    Some(path)
}

/// Where axe-core is, which checks pages; `None` where the test that asks is left out.
pub fn axe() -> Option<PathBuf> {
    const WITHOUT: &str = "FOVEATE_WITHOUT_AXE";
    if is_left_out(WITHOUT) {
        return None;
    }
    let path =
        env::var_os("FOVEATE_AXE").map_or_else(|| folder().join("axe.min.js"), PathBuf::from);
    assert!(
        path.is_file(),
        "there is no {}: scripts/test.sh fetches it, and {WITHOUT}=1 leaves its test out",
        path.display()
    );
    Some(path)
}

fn folder() -> PathBuf {
    let named = |variable| env::var_os(variable).map(PathBuf::from);
    let cache = || named("XDG_CACHE_HOME").or_else(|| Some(named("HOME")?.join(".cache")));
    named("FOVEATE_CLIPS").unwrap_or_else(|| cache().unwrap_or_default().join("foveate"))
}
