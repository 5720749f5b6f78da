//! The log of both programs: lines on standard error, or entries with fields in systemd's journal.

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

/// Logs from now on what `RUST_LOG` says, or else from `level` on. Every line passes the redactor, whoever wrote it.
pub fn to_stderr(level: &str) {
    tracing_subscriber::fmt()
        .with_env_filter(filter(level))
        .with_ansi(io::stderr().is_terminal())
        .with_target(false)
        .with_writer(|| Redacting::new(io::stderr()))
        .init();
}

/// [`to_stderr`]; but where standard error is the journal, entries with their fields, which the redactor passes one by one.
pub fn to_journal_or_stderr(level: &str) {
    let journal = stderr_is_journal().then(tracing_journald::layer).and_then(Result::ok);
    let Some(journal) = journal else { return to_stderr(level) };
    // As in syslog: `info` is what an operator reads, and `debug` is not.
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

/// Whether `$JOURNAL_STREAM` names what standard error is: its device and its inode. The variable is inherited by processes whose
/// standard error goes elsewhere.
fn stderr_is_journal() -> bool {
    let named = env::var("JOURNAL_STREAM").unwrap_or_default();
    rustix::fs::fstat(io::stderr())
        .is_ok_and(|stderr| named == format!("{}:{}", stderr.st_dev, stderr.st_ino))
}
