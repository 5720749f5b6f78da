//! Closing connections without blocking the server.
//!
//! Closing the last descriptor of a file can take any time, such as the linger time of a TCP socket. Where the kernel lets the
//! listener refuse descriptors, no connection holds any. Elsewhere, and for clients that connected before the listener refused them,
//! a connection that was sent some is closed on a thread of its own, and nobody waits for it.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::{io, thread};

use crossbeam_channel::{Sender, unbounded};
use parking_lot::Mutex;

use crate::control::socket;

/// Sockets that are being closed, for each user whose they were.
type Pending = Arc<Mutex<BTreeMap<u32, usize>>>;

#[derive(Debug)]
pub(super) struct Reaper {
    sockets: Sender<(u32, OwnedFd)>,
    pending: Pending,
}

impl Reaper {
    /// Starts the thread. It ends by itself once everything is closed; at the end of the process the kernel waits for no linger time.
    pub(super) fn start() -> io::Result<Self> {
        let (sockets, queue) = unbounded::<(u32, OwnedFd)>();
        let pending = Pending::default();
        let counts = Arc::clone(&pending);
        thread::Builder::new().name("reaper".to_owned()).spawn(move || {
            for (user, socket) in queue {
                socket::drain(&socket, true);
                drop(socket);
                let mut counts = counts.lock();
                counts.entry(user).and_modify(|count| *count -= 1);
                counts.retain(|_, count| *count != 0);
            }
        })?;
        Ok(Self { sockets, pending })
    }

    /// Closes a connection of `user` for all holders of its socket; what was sent still reaches the peer.
    pub(super) fn close(&self, user: u32, socket: OwnedFd) {
        socket::shut_down(&socket);
        if !socket::drain(&socket, false) {
            self.hand_over(user, socket);
        }
    }

    /// Has a socket closed that may hold descriptors.
    pub(super) fn hand_over(&self, user: u32, socket: OwnedFd) {
        *self.pending.lock().entry(user).or_default() += 1;
        // Does not fail: the thread ends only after this end is dropped.
        let _ = self.sockets.send((user, socket));
    }

    /// Connections of `user` that are being closed.
    pub(super) fn pending_of(&self, user: u32) -> usize {
        self.pending.lock().get(&user).copied().unwrap_or(0)
    }
}
