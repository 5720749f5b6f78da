//! `foveate`, run against a socket.

use std::path::Path;
use std::process::Command;

use crate::daemon::{Outcome, Process};

/// Runs it to its end.
pub fn foveate(socket: &Path, arguments: &[&str]) -> Outcome {
    spawned(socket, arguments).finish()
}

/// Starts it.
pub fn spawned(socket: &Path, arguments: &[&str]) -> Process {
    let mut command = Command::new(crate::program("foveate"));
    command.arg("--socket").arg(socket).args(arguments);
    Process::start(command, &[])
}
