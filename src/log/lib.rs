//! Logging to standard error as lines, or to systemd's journal with fields.

use std::env;
use std::io::{self, IsTerminal};

use tracing::dispatcher::Dispatch;
use tracing_journald::{Priority, PriorityMappings};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

pub use self::queue::{Log, dropped};
use crate::redact::Redacting;

mod queue;
pub mod redact;

/// Installs a logger to standard error, filtered by `RUST_LOG` or else by `level`. Every line is redacted.
pub fn to_stderr(level: &str) -> Log {
    install(level, stderr())
}

/// Like [`to_stderr`]; where standard error is the journal, writes entries with fields, each redacted.
pub fn to_journal_or_stderr(level: &str) -> Log {
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
    install(level, Dispatch::new(tracing_subscriber::registry().with(journal)))
}

/// Like [`to_stderr`], for a process whose lines its parent logs: each line begins with its level, and has no time.
pub fn to_parent(level: &str) -> Log {
    let lines = tracing_subscriber::fmt()
        .with_max_level(LevelFilter::TRACE)
        .without_time()
        .with_ansi(false)
        .with_target(false)
        .log_internal_errors(false)
        .with_writer(|| Redacting(io::stderr()));
    install(level, Dispatch::new(lines.finish()))
}

fn stderr() -> Dispatch {
    let lines = tracing_subscriber::fmt()
        .with_max_level(LevelFilter::TRACE)
        .with_ansi(io::stderr().is_terminal())
        .with_target(false)
        // A line that cannot be written is lost: there is nowhere else to say so.
        .log_internal_errors(false)
        .with_writer(|| Redacting(io::stderr()));
    Dispatch::new(lines.finish())
}

/// Logs to `target` from a thread, or without one if the system has none left.
fn install(level: &str, target: Dispatch) -> Log {
    let subscriber = tracing_subscriber::registry().with(filter(level));
    match queue::queue_to(target) {
        Ok((queue, log)) => {
            subscriber.with(queue).init();
            log
        }
        Err(error) => {
            let lines = tracing_subscriber::fmt::layer()
                .with_target(false)
                .log_internal_errors(false)
                .with_writer(|| Redacting(io::stderr()));
            subscriber.with(lines).init();
            tracing::warn!(%error, "cannot start the log thread; logging synchronously");
            Log::direct()
        }
    }
}

/// `RUST_LOG`, as `level`, has a level, or one for each target: `foveate_daemon=debug,warn`.
fn filter(level: &str) -> Targets {
    let wanted = env::var("RUST_LOG").ok().filter(|text| !text.is_empty());
    let wanted = wanted.and_then(|text| text.parse().ok());
    let wanted = wanted.or_else(|| level.parse().ok());
    wanted.unwrap_or_else(|| Targets::new().with_default(LevelFilter::INFO))
}

/// Whether `$JOURNAL_STREAM` matches the device and inode of standard error. The variable alone is not enough: processes inherit it
/// whose standard error goes elsewhere.
fn stderr_is_journal() -> bool {
    let named = env::var("JOURNAL_STREAM").unwrap_or_default();
    rustix::fs::fstat(io::stderr())
        .is_ok_and(|stderr| named == format!("{}:{}", stderr.st_dev, stderr.st_ino))
}
