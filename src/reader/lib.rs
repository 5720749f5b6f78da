//! Reads the foveated tokens that Foveate's daemon publishes, and steers its views.
//!
//! One Unix socket, `foveate.sock`, of type SOCK_SEQPACKET with one message per datagram: [`messages`] defines them, [`client`]
//! exchanges them. A subscription receives a view's [`ring`], shared memory that this process maps read-only.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

pub use error::ControlError;
pub use foveate_ring as ring;

mod beacon;
pub mod client;
mod error;
pub mod messages;
pub mod socket;

/// File name of the socket.
pub const SOCKET_NAME: &str = "foveate.sock";

/// Path of the socket, for daemon and clients alike: `explicit` (`--socket`), else `$FOVEATE_SOCKET`, else [`SOCKET_NAME`] in
/// `$RUNTIME_DIRECTORY` (its first entry), in `$XDG_RUNTIME_DIR/foveate`, or in `/run/foveate`.
pub fn socket_path(explicit: Option<&Path>) -> PathBuf {
    socket_path_in(explicit, |name| std::env::var_os(name))
}

/// [`socket_path`] with a given environment, a function from names to values. Empty values count as unset.
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
    // systemd separates multiple directories by colons.
    let runtime = value("RUNTIME_DIRECTORY")
        .and_then(|list| std::env::split_paths(&list).find(|path| !path.as_os_str().is_empty()));
    let directory = runtime
        .or_else(|| value("XDG_RUNTIME_DIR").map(|path| PathBuf::from(path).join("foveate")))
        .unwrap_or_else(|| PathBuf::from("/run/foveate"));
    directory.join(SOCKET_NAME)
}

/// Compiles the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
