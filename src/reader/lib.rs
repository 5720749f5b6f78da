//! Reads the foveated tokens that Foveate's daemon publishes, and steers its views.
//!
//! One Unix socket, `foveate.sock`, of type SOCK_SEQPACKET with one message per datagram: [`messages`] defines them, [`client`]
//! exchanges them. A subscription receives a view's [`ring`], shared memory that this process maps read-only.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

pub use error::ControlError;
pub use foveate_ring as ring;

pub mod client;
mod error;
pub mod messages;
mod reconnector;
pub mod socket;

/// File name of the socket.
pub const SOCKET_NAME: &str = "foveate.sock";

/// Path of the socket for clients: `explicit` (`--socket`), else `$FOVEATE_SOCKET`, else the first [`SOCKET_NAME`] in
/// `$RUNTIME_DIRECTORY` (its first entry), in `$XDG_RUNTIME_DIR/foveate` and in `/run/foveate`. If there is none, the first of these
/// places, where a daemon will make it.
///
/// Empty values count as unset, and a relative `$XDG_RUNTIME_DIR`, too, as its specification demands.
pub fn socket_path(explicit: Option<&Path>) -> PathBuf {
    existing(socket_places(explicit, |name| std::env::var_os(name)))
}

/// Path of the socket for a daemon, which makes it: the first place where [`socket_path`] looks.
pub fn socket_path_to_serve(explicit: Option<&Path>) -> PathBuf {
    socket_places(explicit, |name| std::env::var_os(name)).swap_remove(0)
}

/// The places where [`socket_path`] looks, at least one; `environment` is a function from names to values.
fn socket_places(
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

/// The first of `places` where there is a file, else the first.
fn existing(mut places: Vec<PathBuf>) -> PathBuf {
    let index = places.iter().position(|place| place.exists()).unwrap_or(0);
    places.swap_remove(index)
}

/// Compiles the examples of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../docs/guide/rust.md")]
#[doc = include_str!("../../docs/guide/canvas.md")]
mod guide {}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn the_places_follow_the_option_then_the_environment() {
        let all = [
            ("FOVEATE_SOCKET", "/s/own.sock"),
            ("RUNTIME_DIRECTORY", "/run/foveate-a:/run/other"),
            ("XDG_RUNTIME_DIR", "/run/user/7"),
        ];
        let places = |explicit: Option<&str>, variables: &[(&str, &str)]| {
            let variables = variables.iter().copied().collect::<HashMap<_, _>>();
            socket_places(explicit.map(Path::new), |name| variables.get(name).map(OsString::from))
        };
        let [runtime, user, system] = [
            "/run/foveate-a/foveate.sock",
            "/run/user/7/foveate/foveate.sock",
            "/run/foveate/foveate.sock",
        ]
        .map(PathBuf::from);
        assert_eq!(places(Some("x.sock"), &all), [PathBuf::from("x.sock")]);
        assert_eq!(places(None, &all), [PathBuf::from("/s/own.sock")]);
        assert_eq!(places(None, &all[1..]), [runtime, user.clone(), system.clone()]);
        assert_eq!(places(None, &all[2..]), [user, system.clone()]);
        assert_eq!(places(None, &[]), std::slice::from_ref(&system));
        let empty = all.map(|(name, _)| (name, ""));
        assert_eq!(places(None, &empty), std::slice::from_ref(&system));
        // The XDG specification has relative paths ignored.
        assert_eq!(places(None, &[("XDG_RUNTIME_DIR", "run/user")]), [system]);
    }

    #[test]
    fn a_client_takes_the_first_existing_socket() {
        let first_of = |places: &[&str]| existing(places.iter().map(PathBuf::from).collect());
        assert_eq!(first_of(&["/no/a", "/no/b"]), Path::new("/no/a"));
        assert_eq!(first_of(&["/no/a", "/no/b", "/proc"]), Path::new("/proc"));
        assert_eq!(first_of(&["/no/a", "/dev", "/proc"]), Path::new("/dev"));
    }
}
