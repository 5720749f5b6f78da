//! Errors of serving a socket.

use std::path::PathBuf;

use foveate::ControlError;

/// Why a socket cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Another daemon uses the socket.
    #[error(
        "{} is in use by a running daemon{}: stop it, or choose another path with --socket",
        path.display(), in_parentheses(*pid)
    )]
    InUse {
        /// Path of the socket.
        path: PathBuf,
        /// The daemon's process, if known.
        pid: Option<i32>,
    },

    /// The socket cannot be given to its group.
    #[error(
        "cannot change the group of {} to {group}: make the daemon's user a member of it, or configure another socket_group",
        path.display()
    )]
    Group {
        /// The number of the group.
        group: u32,
        /// The socket, or its directory.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },

    /// The path exists and is not a socket.
    #[error("{} exists and is not a socket: move it away, or choose another path with --socket", path.display())]
    NotASocket {
        /// The path.
        path: PathBuf,
    },

    /// The lock file is another user's, or no regular file.
    #[error(
        "{} is not a regular file of the daemon's user: remove it, or choose a directory that no other user can write",
        path.display()
    )]
    ForeignLock {
        /// The lock file.
        path: PathBuf,
    },

    /// The passed socket is of the wrong kind.
    #[error(
        "invalid socket from the service manager (expected a listening SOCK_SEQPACKET socket at a path): use \
         ListenSequentialPacket= with a path in the socket unit"
    )]
    NotListening,

    /// The path cannot be used.
    #[error(transparent)]
    Path(#[from] ControlError),
}

fn in_parentheses(pid: Option<i32>) -> String {
    pid.map(|pid| format!(" (process {pid})")).unwrap_or_default()
}
