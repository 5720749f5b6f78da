//! What a machine may be without: a Vulkan device, the real clips, namespaces for a service manager. Tests that need one fail
//! where it is missing, unless the environment says that they are to be left out.
//!
//! A test that is left out passes, as the harness sees it. `scripts/test.sh` therefore reads these lines, and sums them up.

use std::env;
use std::io::{Write, stderr};
use std::thread;

/// Whether `variable` is 1, and so the test that calls this is left out.
pub fn is_left_out(variable: &str) -> bool {
    let is_left_out = env::var_os(variable).is_some_and(|value| value == "1");
    if is_left_out {
        leave_out(&format!("{variable}=1"));
    }
    is_left_out
}

/// Says that the test of this thread, or a part of it, cannot run here.
pub fn leave_out(reason: &str) {
    let test = thread::current().name().unwrap_or("a thread").to_owned();
    // Not through a macro: the harness would swallow it.
    let _ = writeln!(stderr(), "\n*** {reason} LEFT OUT {test} ***\n");
}
