//! Why a socket cannot be served.

use std::path::PathBuf;

use foveate::ControlError;

/// Why a socket cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Another daemon listens there.
    #[error(
        "{} is in use by a running daemon{}: stop it, or choose another path with --socket",
        path.display(), in_parentheses(*pid)
    )]
    InUse {
        /// The socket.
        path: PathBuf,
        /// The daemon's process, where it is known.
        pid: Option<i32>,
    },

    /// The socket cannot be given to its group.
    #[error(
        "{} cannot be given to group {group}: make the daemon's user a member of it, or configure another socket_group",
        path.display()
    )]
    Group {
        /// The number of the group.
        group: u32,
        /// The socket, or its directory.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },

    /// Something that is not a socket is in the way.
    #[error("{} exists and is not a socket: move it away, or choose another path with --socket", path.display())]
    NotASocket {
        /// What is in the way.
        path: PathBuf,
    },

    /// A socket that was handed to the daemon is of no use to it.
    #[error(
        "the socket that the service manager passed is not a listening SOCK_SEQPACKET socket at a path: \
         use ListenSequentialPacket= with a path in the socket unit"
    )]
    NotListening,

    /// The path cannot be used, as it could not by a client.
    #[error(transparent)]
    Path(#[from] ControlError),
}

fn in_parentheses(pid: Option<i32>) -> String {
    pid.map(|pid| format!(" (process {pid})")).unwrap_or_default()
}
