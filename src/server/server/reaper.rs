//! Closing connections without blocking the server.
//!
//! Closing the last descriptor of a file can take any time, such as the linger time of a TCP socket. Where the kernel lets the
//! listener refuse descriptors, no connection holds any. Elsewhere, and for clients that connected before the listener refused them,
//! threads take what was sent and end with it: at the end of a thread the kernel lingers nowhere.

use std::io;
use std::os::fd::OwnedFd;
use std::thread;

use crossbeam_channel::{Sender, unbounded};
use nix::sched::{CloneFlags, unshare};
use rustix::net::sockopt;

use crate::socket;

/// Starts the thread that closes connections that were shut down, and listeners, which may hold descriptors. It ends once everything
/// is closed and nothing more can be sent.
pub(super) fn start() -> io::Result<Sender<OwnedFd>> {
    let (sockets, queue) = unbounded();
    thread::Builder::new().name("reaper".to_owned()).spawn(move || {
        queue.into_iter().for_each(close);
    })?;
    Ok(sockets)
}

/// Closes a connection for all processes that hold it; they find it empty.
fn close(socket: OwnedFd) {
    if sockopt::socket_acceptconn(&socket) == Ok(true) {
        // The service manager goes on listening.
        return;
    }
    // Received descriptors belong to this thread, which has its own descriptor table.
    let take = || unshare(CloneFlags::CLONE_FILES).is_ok() && socket::take_datagrams(&socket);
    let is_more = || {
        thread::scope(|scope| {
            let taken =
                thread::Builder::new().name("reaper-end".to_owned()).spawn_scoped(scope, take);
            taken.is_ok_and(|taken| taken.join().unwrap_or(false))
        })
    };
    while is_more() {}
}
