//! The sockets of the daemon, and their addresses.

use std::path::Path;

pub use foveate_socket::{receive, send, unconnected};
use rustix::io::Errno;
use rustix::net::SocketAddrUnix;

use super::ControlError;

/// `path` as an address.
pub fn address(path: &Path) -> Result<SocketAddrUnix, ControlError> {
    SocketAddrUnix::new(path).map_err(|errno| match errno {
        Errno::NAMETOOLONG => ControlError::PathTooLong { path: path.to_owned() },
        errno => ControlError::io("use as a socket address", path, errno),
    })
}
