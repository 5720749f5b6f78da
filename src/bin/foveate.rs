//! `foveate`, the command line tool: arguments, logging, exit code.

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use foveate_core::error::chain;
use foveate_log::redact::{printable, redacted};
use foveate_tool::ToolArguments;

fn main() -> ExitCode {
    let arguments = ToolArguments::parse();
    // As on a full disk, writing beyond the limit on file sizes (`ulimit -f`) has to fail, not to end the program.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
    let log = foveate_log::to_stderr("warn");
    match foveate_tool::run(arguments, &mut io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log.flush();
            // Fails if standard error is closed.
            let _ = writeln!(io::stderr(), "foveate: {}", printable(&redacted(&chain(&error))));
            ExitCode::from(error.exit_code())
        }
    }
}
