//! Socket operations that only the server needs.

use std::os::fd::AsFd;

pub(super) use foveate::socket::{address, send, unconnected};
use nix::libc::{self, SOL_SOCKET, c_int};
use nix::sys::socket::{getsockopt, setsockopt, sockopt};
use nix::{setsockopt_impl, sockopt_impl};
use rustix::io::retry_on_intr;
use rustix::net::{RecvAncillaryBuffer, RecvFlags, ReturnFlags, Shutdown};

/// More empty datagrams than fit a socket's default buffers.
const EMPTY_DATAGRAMS_MAX: usize = 600;

/// `asm-generic/socket.h` of Linux 6.16.
const SO_PASSRIGHTS: c_int = 83;

sockopt_impl!(
    /// Whether others may send descriptors to the socket.
    PassRights,
    SetOnly,
    SOL_SOCKET,
    SO_PASSRIGHTS,
    bool
);

/// Lets nobody send descriptors to `socket`, nor to those that it accepts for clients that connect from now on: their `sendmsg` fails
/// with EPERM. Returns whether the kernel can do that, as Linux 6.16 can.
pub(super) fn refuse_descriptors(socket: impl AsFd) -> bool {
    setsockopt(&socket, PassRights, &false).is_ok()
}

/// Credentials of the process at the other end of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer {
    /// Its ID; `None` if it is in another PID namespace.
    pub(super) process: Option<i32>,
    pub(super) user: u32,
    pub(super) group: u32,
}

/// The peer's credentials, if the system knows them.
pub(super) fn peer(socket: impl AsFd) -> Option<Peer> {
    // Not rustix: it rejects ID 0, which processes of other namespaces have.
    let peer = getsockopt(&socket, sockopt::PeerCredentials).ok()?;
    let process = Some(peer.pid()).filter(|pid| *pid != 0);
    Some(Peer { process, user: peer.uid(), group: peer.gid() })
}

/// Receives one datagram, never a descriptor: without a control buffer the kernel discards attached ones before they become
/// descriptors of this process. The length exceeds that of the buffer if the datagram was truncated; 0 is a hang-up.
pub(super) fn receive_bytes(socket: impl AsFd, buffer: &mut [u8]) -> rustix::io::Result<usize> {
    let flags = RecvFlags::DONTWAIT | RecvFlags::TRUNC;
    retry_on_intr(|| rustix::net::recv(&socket, &mut *buffer, flags)).map(|(_, len)| len)
}

/// Whether descriptors are attached to the next datagram, which stays in the queue.
pub(super) fn brings_descriptors(socket: impl AsFd) -> rustix::io::Result<bool> {
    let mut no_descriptors = RecvAncillaryBuffer::new(&mut []);
    let flags = RecvFlags::DONTWAIT | RecvFlags::PEEK;
    let peeked =
        retry_on_intr(|| rustix::net::recvmsg(&socket, &mut [], &mut no_descriptors, flags))?;
    Ok(peeked.flags.contains(ReturnFlags::CTRUNC))
}

/// Shuts down a connection for all holders of the socket.
pub(super) fn shut_down(socket: impl AsFd) {
    // Fails if the peer has hung up first.
    let _ = rustix::net::shutdown(socket, Shutdown::Both);
}

/// Reads and drops what the peer sent before the socket was shut down. Stops with false at a datagram with descriptors, unless those
/// are `to_be_discarded`, which may take any time.
///
/// Linux resets the peer of a socket that is closed with unread datagrams, and the peer would see that before the last answer.
/// An empty datagram looks like the end of the queue, so more of them are skipped than a socket can hold.
pub(super) fn drain(socket: impl AsFd, to_be_discarded: bool) -> bool {
    let mut empty_count = 0;
    while empty_count < EMPTY_DATAGRAMS_MAX {
        match brings_descriptors(&socket) {
            Ok(true) if !to_be_discarded => return false,
            Ok(_) => {
                if !matches!(receive_bytes(&socket, &mut [0; 16]), Ok(1..)) {
                    empty_count += 1;
                }
            }
            // The peer's hang-up is reported once, before the data that it sent.
            Err(_) => empty_count += 1,
        }
    }
    true
}
