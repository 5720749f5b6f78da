//! `foveate`: arguments, logging, exit code. The work is in `foveate::tool`.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use foveate::error::chain;
use foveate::log;
use foveate::redact::redacted;
use foveate::tool::{self, Arguments};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    log::to_stderr("warn");
    match tool::run(arguments, &mut io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error may be closed, too, and then there is nobody to tell.
            let _ = writeln!(io::stderr(), "foveate: {}", redacted(&chain(&error)));
            ExitCode::from(error.exit_code())
        }
    }
}
