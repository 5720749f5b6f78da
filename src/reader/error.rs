//! Errors in talking to a daemon.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::messages::Refusal;

/// A socket error, or a request that was not granted.
#[derive(Debug)]
#[non_exhaustive]
pub enum ControlError {
    /// The path is too long for a socket address.
    PathTooLong {
        /// The path.
        path: PathBuf,
    },

    /// No daemon listens there.
    NoDaemon {
        /// The socket.
        path: PathBuf,
    },

    /// The user lacks permission.
    Permission {
        /// The socket or its directory.
        path: PathBuf,
    },

    /// A system call failed.
    Io {
        /// The failed action, such as "create the directory".
        action: &'static str,
        /// Path that the action was for.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },

    /// The daemon did not answer in time.
    TimedOut {
        /// The time limit.
        seconds: u64,
    },

    /// The daemon closed the connection or exited.
    Disconnected,

    /// The request was refused: by the daemon, or before it was sent, because it is invalid.
    Refused(Refusal),

    /// The daemon's answer is not valid.
    NotUnderstood {
        /// The mistake.
        detail: String,
    },
}

impl ControlError {
    /// A system error during `action` on `path`.
    pub fn io(action: &'static str, path: &Path, source: impl Into<io::Error>) -> Self {
        let (path, source) = (path.to_owned(), source.into());
        match source.kind() {
            io::ErrorKind::PermissionDenied => Self::Permission { path },
            _ => Self::Io { action, path, source },
        }
    }
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PathTooLong { path } => write!(
                f,
                "socket path {} is too long (expected at most 107 bytes): choose a shorter one with --socket",
                path.display()
            ),
            Self::NoDaemon { path } => write!(
                f,
                "no daemon listens on {}: start `foveated`, or name its socket with --socket or FOVEATE_SOCKET",
                path.display()
            ),
            Self::Permission { path } => write!(
                f,
                "no permission for {}: run as the daemon's user or a member of its group (for `admin.sock` as its user or \
                 root), or choose another path with --socket or FOVEATE_SOCKET",
                path.display()
            ),
            Self::Io { action, path, source } => {
                write!(f, "cannot {action} {}", path.display())?;
                match source.raw_os_error().map(Errno::from_raw_os_error) {
                    Some(Errno::MFILE) => f.write_str(" (close some files, or raise ulimit -n)"),
                    _ => Ok(()),
                }
            }
            Self::TimedOut { seconds } => write!(
                f,
                "the daemon did not answer within {seconds} s: it may be overloaded or stopped"
            ),
            Self::Disconnected => {
                f.write_str("the daemon closed the connection: it has probably stopped")
            }
            Self::Refused(refusal) => write!(f, "refused: {refusal}"),
            Self::NotUnderstood { detail } => write!(
                f,
                "cannot understand the daemon's answer ({detail}): daemon and client may have different versions"
            ),
        }
    }
}

impl Error for ControlError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
