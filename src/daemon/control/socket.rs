//! What only the server does with the sockets of its clients.

use std::os::fd::AsFd;

pub(super) use foveate::socket::{address, send, unconnected};
use nix::sys::socket::{getsockopt, sockopt};
use rustix::io::retry_on_intr;
use rustix::net::{RecvAncillaryBuffer, RecvFlags, ReturnFlags, Shutdown};

/// More datagrams without bytes than the default limits of a socket's memory allow.
const EMPTY_DATAGRAMS_MAX: usize = 600;

/// Who is at the other end of a connection: whoever connected or, seen from there, whoever listens.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer {
    /// The process; `None` where it has no number here, because it lives in another namespace.
    pub(super) process: Option<i32>,
    pub(super) user: u32,
    pub(super) group: u32,
}

/// Who is at the other end of `socket`, if the system says so.
pub(super) fn peer(socket: impl AsFd) -> Option<Peer> {
    // rustix takes the number 0 for impossible, which processes of other namespaces have.
    let peer = getsockopt(&socket, sockopt::PeerCredentials).ok()?;
    let process = Some(peer.pid()).filter(|pid| *pid != 0);
    Some(Peer { process, user: peer.uid(), group: peer.gid() })
}

/// Receives one datagram and no descriptor: without a control buffer the kernel discards what the sender
/// attached before it becomes a descriptor of this process. The length exceeds the buffer's where it was
/// cut; 0 is a hang-up.
pub(super) fn receive_bytes(socket: impl AsFd, buffer: &mut [u8]) -> rustix::io::Result<usize> {
    let flags = RecvFlags::DONTWAIT | RecvFlags::TRUNC;
    retry_on_intr(|| rustix::net::recv(&socket, &mut *buffer, flags)).map(|(_, len)| len)
}

/// Whether a descriptor comes with the next datagram, which stays where it is.
pub(super) fn brings_descriptors(socket: impl AsFd) -> rustix::io::Result<bool> {
    let mut nothing = RecvAncillaryBuffer::new(&mut []);
    let flags = RecvFlags::DONTWAIT | RecvFlags::PEEK;
    let peeked = retry_on_intr(|| rustix::net::recvmsg(&socket, &mut [], &mut nothing, flags))?;
    Ok(peeked.flags.contains(ReturnFlags::CTRUNC))
}

/// Hangs up on a peer for everybody who holds the socket.
pub(super) fn shut_down(socket: impl AsFd) {
    // It fails where the peer was faster.
    let _ = rustix::net::shutdown(socket, Shutdown::Both);
}

/// Reads away what a peer has sent before the socket was shut down, up to a datagram with descriptors unless those are
/// `to_be_discarded`, which may take any time. Returns whether there was no such datagram.
///
/// Linux resets the peer of a socket that is closed with datagrams unread, and the peer would see that before the last answer.
/// A datagram without bytes looks as the end does; a socket holds fewer than are passed over here.
pub(super) fn drain(socket: impl AsFd, to_be_discarded: bool) -> bool {
    let mut nothing_count = 0;
    while nothing_count < EMPTY_DATAGRAMS_MAX {
        match brings_descriptors(&socket) {
            Ok(true) if !to_be_discarded => return false,
            Ok(_) => {
                if !matches!(receive_bytes(&socket, &mut [0; 16]), Ok(1..)) {
                    nothing_count += 1;
                }
            }
            // That the peer has gone is told once, and before what it sent.
            Err(_) => nothing_count += 1,
        }
    }
    true
}
