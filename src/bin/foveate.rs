//! `foveate`: arguments, logging, exit code. The work is in `foveate_tool`.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use foveate_core::error::chain;
use foveate_log::redact::redacted;
use foveate_tool::Arguments;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    foveate_log::to_stderr("warn");
    match foveate_tool::run(arguments, &mut io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error may be closed, too, and then there is nobody to tell.
            let _ = writeln!(io::stderr(), "foveate: {}", redacted(&chain(&error)));
            ExitCode::from(error.exit_code())
        }
    }
}
