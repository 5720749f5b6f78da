//! `foveate`: arguments, logging, exit code. The work is in `foveate::tool`.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use clap::Parser;
use foveate::error::chain;
use foveate::redact::{Redacting, redacted};
use foveate::tool::{self, Arguments};
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    // Every line passes the redactor, whoever wrote it.
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(io::stderr().is_terminal())
        .with_target(false)
        .with_writer(|| Redacting::new(io::stderr()))
        .init();
    match tool::run(arguments, &mut io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error may be closed, too, and then there is nobody to tell.
            let _ = writeln!(io::stderr(), "foveate: {}", redacted(&chain(&error)));
            ExitCode::from(error.exit_code())
        }
    }
}
