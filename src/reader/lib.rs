//! Reads the foveated tokens that Foveate's daemon publishes, and tells it where to look.
//!
//! One Unix socket, `foveate.sock`, SOCK_SEQPACKET, one datagram per message: [`messages`] says what a datagram holds, and
//! [`client`] speaks them. A subscription brings a view's [`ring`], shared memory that this process maps read-only.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use messages::Refusal;

pub mod client;
pub mod messages;
pub mod operator;

pub use foveate_ring as ring;
pub mod socket;

/// Name of the socket in its directory.
pub const SOCKET_NAME: &str = "foveate.sock";

/// Where the socket is, for daemon and tools alike: `explicit` (`--socket`), else `$FOVEATE_SOCKET`, else
/// [`SOCKET_NAME`] in `$RUNTIME_DIRECTORY` (its first entry), in `$XDG_RUNTIME_DIR/foveate`, or in `/run/foveate`.
pub fn socket_path(explicit: Option<&Path>) -> PathBuf {
    socket_path_in(explicit, |name| std::env::var_os(name))
}

/// [`socket_path`] in an environment given as a function from names to values. Empty values count as unset.
pub fn socket_path_in(
    explicit: Option<&Path>,
    environment: impl Fn(&str) -> Option<OsString>,
) -> PathBuf {
    let value = |name| environment(name).filter(|value| !value.is_empty());
    if let Some(path) = explicit {
        return path.to_owned();
    }
    if let Some(path) = value("FOVEATE_SOCKET") {
        return path.into();
    }
    // systemd separates several directories by colons.
    let runtime = value("RUNTIME_DIRECTORY")
        .and_then(|list| std::env::split_paths(&list).find(|path| !path.as_os_str().is_empty()));
    let directory = runtime
        .or_else(|| value("XDG_RUNTIME_DIR").map(|path| PathBuf::from(path).join("foveate")))
        .unwrap_or_else(|| PathBuf::from("/run/foveate"));
    directory.join(SOCKET_NAME)
}

/// Why the socket cannot be served, or a request was not granted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
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

    /// The path does not fit a socket address.
    #[error("{} is too long for a socket (at most 107 bytes): choose a shorter path with --socket", path.display())]
    PathTooLong {
        /// The path.
        path: PathBuf,
    },

    /// Nobody listens there.
    #[error(
        "no daemon listens on {}: start `foveated`, or say where it listens with --socket or FOVEATE_SOCKET",
        path.display()
    )]
    NoDaemon {
        /// The socket.
        path: PathBuf,
    },

    /// A socket that was handed to the daemon is of no use to it.
    #[error(
        "the socket that the service manager passed is not a listening SOCK_SEQPACKET socket at a path: \
         use ListenSequentialPacket= with a path in the socket unit"
    )]
    NotListening,

    /// The user may not.
    #[error(
        "no permission for {}: run as the daemon's user or as a member of its group, or choose another path with \
         --socket or FOVEATE_SOCKET",
        path.display()
    )]
    Permission {
        /// The socket or its directory.
        path: PathBuf,
    },

    /// The system refused something else.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was tried, such as "create the directory".
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },

    /// The daemon did not answer in time.
    #[error("the daemon did not answer within {seconds} s: it may be overloaded or stopped")]
    TimedOut {
        /// How long it was given.
        seconds: u64,
    },

    /// The daemon closed the connection, or is gone.
    #[error("the daemon closed the connection: it has probably stopped")]
    Disconnected,

    /// The daemon said no, and why.
    #[error("the daemon refused: {0}")]
    Refused(Refusal),

    /// The daemon's answer makes no sense.
    #[error(
        "the daemon's answer is not understood ({detail}): daemon and tool may be of different versions"
    )]
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

fn in_parentheses(pid: Option<i32>) -> String {
    pid.map(|pid| format!(" (process {pid})")).unwrap_or_default()
}

/// Compiles the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
