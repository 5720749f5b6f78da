//! What a machine may be without: a Vulkan device, the real clips, namespaces for a service manager. Tests that need one fail
//! where it is missing, unless the environment says that they are to be left out.

#![allow(unreachable_pub, reason = "a module of several programs")]

use std::env;
use std::io::{Write, stderr};
use std::thread;

/// Whether `variable` is 1, and so the test that calls this is left out.
pub fn is_left_out(variable: &str) -> bool {
    let is_left_out = env::var_os(variable).is_some_and(|value| value == "1");
    if is_left_out {
        let test = thread::current().name().unwrap().to_owned();
        // Not through a macro: the test harness would swallow it.
        let _ = writeln!(stderr(), "\n*** {variable}=1 LEFT OUT {test} ***\n");
    }
    is_left_out
}
