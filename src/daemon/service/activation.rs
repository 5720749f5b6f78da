//! Socket activation: the socket that the service manager listens on and passes to the daemon.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};

use rustix::io::{Errno, fcntl_dupfd_cloexec};

/// Why the passed socket cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ActivationError {
    /// `LISTEN_FDS` or a variable like it is invalid.
    #[error("invalid socket activation in the environment (LISTEN_FDS, LISTEN_PID)")]
    Environment(#[source] io::Error),
    /// More than one socket was passed.
    #[error(
        "the service manager passed {count} sockets (expected one): list one path in the socket unit"
    )]
    TooMany {
        /// Number of sockets.
        count: usize,
    },
    /// The passed descriptor cannot be duplicated.
    #[error("cannot take the socket that the service manager passed as descriptor {number}")]
    NoDescriptor {
        /// Number of the passed descriptor.
        number: RawFd,
        /// The system's error.
        source: Errno,
    },
}

/// The socket that the service manager passed to this process, if any, by `$LISTEN_PID` and `$LISTEN_FDS`.
///
/// # Errors
///
/// If there is more than one, or it cannot be taken.
pub(crate) fn passed_socket() -> Result<Option<OwnedFd>, ActivationError> {
    // This also makes child processes not inherit them.
    let mut numbers = sd_notify::listen_fds().map_err(ActivationError::Environment)?;
    match (numbers.len(), numbers.next()) {
        (1, Some(number)) => descriptor(number).map(Some),
        (_, None) => Ok(None),
        (count, _) => Err(ActivationError::TooMany { count }),
    }
}

/// Descriptor `number` of this process as an `OwnedFd`: a duplicate, since nothing else proves that the number is not owned
/// elsewhere.
#[expect(
    unsafe_code,
    reason = "pidfd_getfd does it without, and a service that may call that can take others' descriptors"
)]
fn descriptor(number: RawFd) -> Result<OwnedFd, ActivationError> {
    // SAFETY: `listen_fds` has set a flag of it, so it is open, and nobody here closes a number that nobody owns.
    let passed = unsafe { BorrowedFd::borrow_raw(number) };
    fcntl_dupfd_cloexec(passed, 0)
        .map_err(|source| ActivationError::NoDescriptor { number, source })
}
