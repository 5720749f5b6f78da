//! The log of both programs: lines on standard error.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

use crate::redact::Redacting;

/// Logs from now on what `RUST_LOG` says, or else from `level` on. Every line passes the redactor, whoever wrote it.
pub fn to_stderr(level: &str) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(io::stderr().is_terminal())
        .with_target(false)
        .with_writer(|| Redacting::new(io::stderr()))
        .init();
}
