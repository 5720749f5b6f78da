//! Tests that need an environment of their own. Include it in a test file with
//! `#[path = "common/child.rs"] mod child;`.

#![allow(unreachable_pub, reason = "a module of whichever test file includes it")]

use std::env;
use std::process::Command;

/// Runs the body of the test `name` in a process of its own with more in its environment.
pub fn in_child(name: &str, variables: &[(&str, &str)], body: impl FnOnce()) {
    const MARK: &str = "FOVEATE_TEST_CHILD";
    if env::var(MARK).is_ok_and(|value| value == name) {
        return body();
    }
    let child = Command::new(env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture"])
        .envs(variables.iter().copied())
        .env(MARK, name)
        .output()
        .unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
}
