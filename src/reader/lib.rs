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

/// Path of the socket for clients: `explicit` (`--socket`), else `$FOVEATE_SOCKET`, else that of the [`socket_places`] where there
/// is one.
pub fn socket_path(explicit: Option<&Path>) -> PathBuf {
    existing(socket_places(explicit, |name| std::env::var_os(name)))
}

/// Path of the socket for a daemon, which makes it: the first of the [`socket_places`].
pub fn socket_path_to_serve(explicit: Option<&Path>) -> PathBuf {
    socket_places(explicit, |name| std::env::var_os(name)).swap_remove(0)
}

/// Where the socket may be, in order and at least one: `explicit` alone, else `$FOVEATE_SOCKET` alone, else [`SOCKET_NAME`] in
/// `$RUNTIME_DIRECTORY` (its first entry), in `$XDG_RUNTIME_DIR/foveate`, and in `/run/foveate`.
///
/// `environment` is a function from names to values. Empty values count as unset, and a relative `$XDG_RUNTIME_DIR`, too, as its
/// specification demands.
pub fn socket_places(
    explicit: Option<&Path>,
    environment: impl Fn(&str) -> Option<OsString>,
) -> Vec<PathBuf> {
    let value = |name| environment(name).filter(|value| !value.is_empty());
    let named = explicit.map(Path::to_owned).or_else(|| value("FOVEATE_SOCKET").map(PathBuf::from));
    if let Some(path) = named {
        return vec![path];
    }
    // systemd separates multiple directories by colons.
    let runtime = value("RUNTIME_DIRECTORY")
        .and_then(|list| std::env::split_paths(&list).find(|path| !path.as_os_str().is_empty()));
    let user = value("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    let user = user.map(|path| path.join("foveate"));
    let directories = [runtime, user, Some(PathBuf::from("/run/foveate"))];
    directories.into_iter().flatten().map(|directory| directory.join(SOCKET_NAME)).collect()
}

/// The first of `places` where there is a file, else the first, where a daemon will make one.
///
/// # Panics
///
/// Without a place.
pub fn existing(mut places: Vec<PathBuf>) -> PathBuf {
    let index = places.iter().position(|place| place.exists()).unwrap_or(0);
    places.swap_remove(index)
}

/// Compiles the examples of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../docs/guide/rust.md")]
struct Guide;
