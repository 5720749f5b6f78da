//! Logging to standard error as lines, or to systemd's journal with fields.

use std::env;
use std::io::{self, IsTerminal};

use tracing_journald::{Priority, PriorityMappings};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use self::fields::RedactedFields;
use crate::redact::Redacting;

mod fields;
pub mod redact;

/// Installs a logger to standard error, filtered by `RUST_LOG` or else by `level`. Every line is redacted.
pub fn to_stderr(level: &str) {
    tracing_subscriber::fmt()
        .with_env_filter(filter(level))
        .with_ansi(io::stderr().is_terminal())
        .with_target(false)
        .with_writer(|| Redacting::new(io::stderr()))
        .init();
}

/// Like [`to_stderr`]; where standard error is the journal, writes entries with fields, each redacted.
pub fn to_journal_or_stderr(level: &str) {
    let journal = stderr_is_journal().then(tracing_journald::layer).and_then(Result::ok);
    let Some(journal) = journal else { return to_stderr(level) };
    // As in syslog, where operators read `info` but not `debug`.
    let priorities = PriorityMappings {
        error: Priority::Error,
        warn: Priority::Warning,
        info: Priority::Informational,
        debug: Priority::Debug,
        trace: Priority::Debug,
    };
    // STREAM=front instead of F_STREAM=front, so that `journalctl STREAM=front` finds it.
    let journal = journal.with_priority_mappings(priorities).with_field_prefix(None);
    tracing_subscriber::registry().with(filter(level)).with(RedactedFields::new(journal)).init();
}

fn filter(level: &str) -> EnvFilter {
    EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level))
}

/// Whether `$JOURNAL_STREAM` matches the device and inode of standard error. The variable alone is not enough: processes inherit it
/// whose standard error goes elsewhere.
fn stderr_is_journal() -> bool {
    let named = env::var("JOURNAL_STREAM").unwrap_or_default();
    rustix::fs::fstat(io::stderr())
        .is_ok_and(|stderr| named == format!("{}:{}", stderr.st_dev, stderr.st_ino))
}
