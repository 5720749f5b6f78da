//! The socket that a service manager made, and passes to each daemon that it starts.

use std::io;
use std::os::fd::{OwnedFd, RawFd};

use rustix::io::Errno;
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

/// Why what the service manager passed cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ActivationError {
    /// `LISTEN_FDS` and its kin make no sense.
    #[error("what the service manager says of the sockets that it passes makes no sense")]
    Environment(#[source] io::Error),
    /// There is more than one socket.
    #[error(
        "the service manager passed {count} sockets, and one is served: list one path in the socket unit"
    )]
    TooMany {
        /// How many.
        count: usize,
    },
    /// The descriptor is not there, or the kernel does not hand it out.
    #[error("cannot take the socket that the service manager passed as descriptor {number}")]
    NoDescriptor {
        /// Its number.
        number: RawFd,
        /// What the system said.
        source: Errno,
    },
}

/// The socket that the service manager passed to this process, if it did: `$LISTEN_PID` and `$LISTEN_FDS` say so.
///
/// # Errors
///
/// If there is more than one, or what is passed cannot be taken.
pub fn passed_socket() -> Result<Option<OwnedFd>, ActivationError> {
    // They are no longer inherited from here on, either.
    let mut numbers = sd_notify::listen_fds().map_err(ActivationError::Environment)?;
    match (numbers.len(), numbers.next()) {
        (1, Some(number)) => descriptor(number).map(Some),
        (_, None) => Ok(None),
        (count, _) => Err(ActivationError::TooMany { count }),
    }
}

/// A descriptor of this process that is known by its number, as one that is owned. The kernel duplicates it, because whose a
/// number is cannot be checked otherwise.
fn descriptor(number: RawFd) -> Result<OwnedFd, ActivationError> {
    pidfd_open(getpid(), PidfdFlags::empty())
        .and_then(|own| pidfd_getfd(&own, number, PidfdGetfdFlags::empty()))
        .map_err(|source| ActivationError::NoDescriptor { number, source })
}
