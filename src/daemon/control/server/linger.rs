//! Lingering close: connections are closed without blocking the server.
//!
//! A client may have sent descriptors, and closing the last descriptor of a file can take any time, such as the linger time of a TCP
//! socket. So a datagram with descriptors is never received on the server's thread.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread;

use crate::control::socket;

#[derive(Debug, Default)]
pub(super) struct LingeringClose {
    /// One reference more than there are closing threads.
    threads: Arc<()>,
}

impl LingeringClose {
    /// Closes a connection for all holders of its socket; what was sent still reaches the peer. If descriptors are queued in it, a new
    /// thread drains them.
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
            tracing::warn!(%error, "no thread to close a connection: the control socket may block");
        }
    }

    /// Connections that are being closed.
    pub(super) fn pending(&self) -> usize {
        Arc::strong_count(&self.threads) - 1
    }
}
