//! Tests that need an environment of their own.

#![allow(unreachable_pub, reason = "a module of several programs")]

use std::env;
use std::process::Command;
use std::thread;

/// Runs the body of the calling test in a separate process with additional environment variables.
pub fn in_child(variables: &[(&str, &str)], body: impl FnOnce()) {
    const MARK: &str = "FOVEATE_TEST_CHILD";
    // Tests run on threads of their name.
    let test = thread::current().name().unwrap().to_owned();
    if env::var(MARK).is_ok_and(|value| value == test) {
        return body();
    }
    let child = Command::new(env::current_exe().unwrap())
        .args([&test, "--exact", "--nocapture"])
        .envs(variables.iter().copied())
        .env(MARK, &test)
        .output()
        .unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
}
