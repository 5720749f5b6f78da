//! Where the real clips of the tests are.
//!
//! `FOVEATE_CLIPS` names their folder, which `scripts/test.sh` fills. Without it tests say that they did not run, or fail if
//! `FOVEATE_REQUIRE_CLIPS=1`.

#![allow(unreachable_pub, reason = "a module of several programs")]

use std::env;
use std::io::{Write, stderr};
use std::path::{Path, PathBuf};

/// Where a clip is; `None`, having said so, where there are none and none is required.
pub fn clip(name: &str) -> Option<PathBuf> {
    let path = env::var_os("FOVEATE_CLIPS").map(|folder| Path::new(&folder).join(name));
    let found = path.clone().filter(|path| path.is_file());
    let is_required = env::var_os("FOVEATE_REQUIRE_CLIPS").is_some_and(|value| value == "1");
    if found.is_none() {
        let reason = match path {
            Some(path) => format!("there is no {}", path.display()),
            None => {
                "FOVEATE_CLIPS names no folder of clips (scripts/test.sh fetches them)".to_owned()
            }
        };
        assert!(!is_required, "FOVEATE_REQUIRE_CLIPS=1, but {reason}");
        // Not through a macro: the test harness would swallow it.
        let _ = writeln!(stderr(), "\n*** A CLIP TEST DID NOT RUN: {reason} ***\n");
    }
    found
}
