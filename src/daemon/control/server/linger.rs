//! How the server closes connections without waiting for anybody.
//!
//! A client may have sent descriptors, and closing the last one of a file can take any time: a TCP socket lingers as long as
//! its owner has set. So a datagram with descriptors is never received on the server's thread.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread;

use crate::control::socket;

/// Closes connections.
#[derive(Debug, Default)]
pub(super) struct LingeringClose {
    /// One reference more than there are threads.
    threads: Arc<()>,
}

impl LingeringClose {
    /// Closes a connection for everybody who holds its socket, such that what was sent still reaches the peer. Where descriptors
    /// are left in it, a thread of its own waits for them.
    pub(super) fn close(&self, socket: OwnedFd) {
        socket::shut_down(&socket);
        if socket::drain(&socket, false) {
            return;
        }
        let presence = Arc::clone(&self.threads);
        let started = thread::Builder::new().name("lingering-close".to_owned()).spawn(move || {
            socket::drain(&socket, true);
            drop(socket);
            drop(presence);
        });
        if let Err(error) = started {
            tracing::warn!(%error, "no thread for what a client left: the control socket may stand still");
        }
    }

    /// Connections that are being closed.
    pub(super) fn pending(&self) -> usize {
        Arc::strong_count(&self.threads) - 1
    }
}
