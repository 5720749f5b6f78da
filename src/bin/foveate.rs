//! `foveate`: arguments, logging, exit code. The work is in `foveate::tool`.

use std::process::ExitCode;

use clap::Parser;
use foveate::tool::{self, Arguments};
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let filter = EnvFilter::try_from_env("FOVEATE_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    match tool::run(arguments, &mut std::io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error may be closed, too, and then there is nobody to tell.
            let _ = std::io::Write::write_fmt(
                &mut std::io::stderr(),
                format_args!("foveate: {}\n", foveate::error::chain(&error)),
            );
            ExitCode::from(error.exit_code())
        }
    }
}
