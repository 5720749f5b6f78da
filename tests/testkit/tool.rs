//! `foveate`, run against a socket.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// Runs it to its end.
pub fn foveate(socket: &Path, arguments: &[&str]) -> Output {
    spawned(socket, arguments).wait_with_output().unwrap()
}

/// Starts it.
pub fn spawned(socket: &Path, arguments: &[&str]) -> Child {
    Command::new(crate::program("foveate"))
        .arg("--socket")
        .arg(socket)
        .args(arguments)
        .env_remove("RUST_LOG")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Its output.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}
