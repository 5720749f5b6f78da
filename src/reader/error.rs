//! Why a daemon cannot be talked to.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::messages::Refusal;

/// Why a socket cannot be used, or a request was not granted.
#[derive(Debug)]
#[non_exhaustive]
pub enum ControlError {
    /// The path does not fit a socket address.
    PathTooLong {
        /// The path.
        path: PathBuf,
    },

    /// Nobody listens there.
    NoDaemon {
        /// The socket.
        path: PathBuf,
    },

    /// The user may not.
    Permission {
        /// The socket or its directory.
        path: PathBuf,
    },

    /// The system refused something else.
    Io {
        /// What was tried, such as "create the directory".
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },

    /// The daemon did not answer in time.
    TimedOut {
        /// How long it was given.
        seconds: u64,
    },

    /// The daemon closed the connection, or is gone.
    Disconnected,

    /// The daemon said no, and why.
    Refused(Refusal),

    /// The daemon's answer makes no sense.
    NotUnderstood {
        /// What is wrong with it.
        detail: String,
    },
}

impl ControlError {
    /// An error of the system that happened while `action` was tried on `path`.
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
                "{} is too long for a socket (at most 107 bytes): choose a shorter path with --socket",
                path.display()
            ),
            Self::NoDaemon { path } => write!(
                f,
                "no daemon listens on {}: start `foveated`, or say where it listens with --socket or FOVEATE_SOCKET",
                path.display()
            ),
            Self::Permission { path } => write!(
                f,
                "no permission for {}: run as the daemon's user or as a member of its group, or choose another path \
                 with --socket or FOVEATE_SOCKET",
                path.display()
            ),
            Self::Io { action, path, .. } => write!(f, "cannot {action} {}", path.display()),
            Self::TimedOut { seconds } => write!(
                f,
                "the daemon did not answer within {seconds} s: it may be overloaded or stopped"
            ),
            Self::Disconnected => {
                f.write_str("the daemon closed the connection: it has probably stopped")
            }
            Self::Refused(refusal) => write!(f, "the daemon refused: {refusal}"),
            Self::NotUnderstood { detail } => write!(
                f,
                "the daemon's answer is not understood ({detail}): daemon and tool may be of different versions"
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
