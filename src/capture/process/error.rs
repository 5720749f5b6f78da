//! Errors of a source process.

use foveate_core::error::exit;
use foveate_core::source::SourceLimits;
use foveate_source::ledger::Violation;
use foveate_source::wire::Failure;
use foveate_stats::LossReason;

/// Why a source process gives no more frames.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProcessError {
    /// The process cannot be started.
    #[error("cannot start the source process: {reason}; {remedy}")]
    NotStarted {
        /// The system's error.
        reason: String,
        /// The next step for the user.
        remedy: &'static str,
    },
    /// The process ended unexpectedly.
    #[error(
        "the source process {how}{}: a plugin has crashed on what the source sent, or was ended from outside",
        quoted(words)
    )]
    Crashed {
        /// The signal or exit status.
        how: String,
        /// The last line that it wrote.
        words: String,
    },
    /// The process reached its memory limit.
    #[error(
        "the source process {how} at its limit of {limit_mib} MiB of memory{}: it needs more for what the source sends; lower the size or \
         rate of the pictures, or raise `memory_mib` in [stream.limits]",
        quoted(words)
    )]
    OutOfMemory {
        /// The signal or exit status.
        how: String,
        /// The limit.
        limit_mib: u32,
        /// The last line that it wrote.
        words: String,
    },
    /// The process stopped answering.
    #[error("the source process has not answered for {seconds} s and was ended{}", quoted(words))]
    Hung {
        /// Time without a message.
        seconds: u64,
        /// The last line that it wrote.
        words: String,
    },
    /// The daemon had no descriptor for a buffer of the process.
    #[error(
        "this process has had no descriptor left for a buffer of the source for {seconds} s; raise the limit of open files (LimitNOFILE= of \
         the service, or ulimit -n)"
    )]
    NoDescriptor {
        /// Time without one.
        seconds: u64,
    },
    /// The process broke the protocol.
    #[error("the source process broke the protocol and was ended: {violation}")]
    Misbehaved {
        /// The law that it broke.
        violation: String,
    },
    /// The pipeline failed, and the process reported why.
    #[error("{}", .0.text)]
    Reported(Failure),
}

impl From<Violation> for ProcessError {
    fn from(violation: Violation) -> Self {
        Self::Misbehaved { violation: violation.to_string() }
    }
}

impl ProcessError {
    /// Error of a process that ended as `how` says, with `words` as its last line.
    pub(super) fn out_of_memory(how: &str, limits: SourceLimits, words: String) -> Self {
        Self::OutOfMemory { how: how.to_owned(), limit_mib: limits.memory_mib, words }
    }

    /// Whether the process reported the error itself.
    pub(crate) fn is_reported(&self) -> bool {
        matches!(self, Self::Reported(_))
    }

    /// Exit code of the program, as for [`CaptureError`](crate::CaptureError).
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Reported(failure) if failure.is_configuration => exit::CONFIG,
            _ => exit::UNAVAILABLE,
        }
    }

    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Reported(failure) => failure.is_transient,
            _ => true,
        }
    }

    pub(crate) fn loss_reason(&self) -> LossReason {
        match self {
            Self::Reported(failure) => failure.reason,
            Self::Crashed { .. } | Self::Misbehaved { .. } => LossReason::Crashed,
            Self::OutOfMemory { .. } => LossReason::OutOfMemory,
            Self::Hung { .. } => LossReason::Stuck,
            Self::NotStarted { .. } | Self::NoDescriptor { .. } => LossReason::Failed,
        }
    }
}

/// The last line of a process, for the end of a clause; empty without one.
fn quoted(words: &str) -> String {
    if words.is_empty() { String::new() } else { format!(" (its last line: {words:?})") }
}
