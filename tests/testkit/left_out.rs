//! What a machine may be without: a Vulkan device, the real clips, namespaces for a service manager. Tests that need one fail
//! where it is missing, unless the environment says that they are to be left out.
//!
//! A test that is left out passes, as the harness sees it. `scripts/test.sh` therefore names a file in `FOVEATE_LEFT_OUT`, and ends
//! with what it holds: lines of a program, a test and a reason, with tabs between them.

use std::env;
use std::fs::OpenOptions;
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

/// Says that the test of this thread cannot run here. The caller then returns.
pub fn leave_out(reason: &str) {
    let test = thread::current().name().unwrap_or("a thread").to_owned();
    say(&test, reason);
}

/// Says that a part of the test of this thread cannot run here.
pub fn leave_part_out(reason: &str) {
    let test = thread::current().name().unwrap_or("a thread").to_owned();
    say(&format!("a part of {test}"), reason);
}

fn say(what: &str, reason: &str) {
    // Not through a macro: the harness would swallow it.
    let _ = writeln!(stderr(), "\n*** {reason} LEFT OUT {what} ***\n");
    if let Some(path) = env::var_os("FOVEATE_LEFT_OUT") {
        let line = format!("{}\t{what}\t{reason}\n", program());
        let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
        file.write_all(line.as_bytes()).unwrap();
    }
}

/// The name of this test program, without the hash that Cargo appends.
fn program() -> String {
    let path = env::current_exe().unwrap();
    let name = path.file_name().unwrap().to_string_lossy();
    name.rsplit_once('-').map_or(&*name, |(name, _)| name).to_owned()
}
