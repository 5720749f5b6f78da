//! Socket operations that only the server needs.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;

pub(super) use foveate::socket::{address, send, unconnected};
use foveate_source::processes;
use nix::libc::{self, SOL_SOCKET, c_int};
use nix::sys::socket::{getsockopt, setsockopt, sockopt};
use nix::{setsockopt_impl, sockopt_impl};
use rustix::io::retry_on_intr;
use rustix::net::sockopt::set_socket_passcred;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, Shutdown};

/// The most descriptors that a datagram brings, `net/scm.h`.
const SCM_MAX_FD: usize = 253;

/// Descriptors that a thread takes, and at most a datagram more.
const TAKEN_AT_ONCE: usize = SCM_MAX_FD;

/// Datagrams that are dropped before a socket is closed; about as many as fit its default buffers.
const DATAGRAMS_DRAINED_MAX: usize = 600;

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
/// with EPERM. Before Linux 6.16 it does nothing.
pub(super) fn refuse_descriptors(socket: impl AsFd) {
    let _ = setsockopt(&socket, PassRights, &false);
}

/// Credentials of the process at the other end of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer {
    /// Process ID; `None` in another PID namespace.
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

/// Whether the peer is a source process, which has the daemon's user, but must not use its rights.
pub(super) fn is_source_process(socket: impl AsFd) -> bool {
    let process = peer(socket).and_then(|peer| u32::try_from(peer.process?).ok());
    let is_source = process.is_some_and(processes::is_running);
    if is_source {
        tracing::warn!(process, "a source process tried to connect, and was hung up on");
    }
    is_source
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

/// Whether a datagram is in the queue, if only an empty one, which is otherwise received like the end of the queue.
fn holds_datagram(socket: impl AsFd) -> rustix::io::Result<bool> {
    // Credentials come with each, and there is as little room for them as for descriptors.
    set_socket_passcred(&socket, true)?;
    let brings_something = brings_descriptors(&socket);
    set_socket_passcred(&socket, false)?;
    brings_something
}

/// Reads and drops what the peer sent before the socket was shut down. Returns whether nothing is left, so that closing waits for
/// nothing: false at a datagram with descriptors, and after very many.
///
/// Linux resets the peer of a socket that is closed with unread datagrams, and the peer would see that before the last answer.
pub(super) fn drain(socket: impl AsFd) -> bool {
    let mut failures = 0;
    for _ in 0..DATAGRAMS_DRAINED_MAX {
        match holds_datagram(&socket) {
            Ok(false) => return true,
            Ok(true) if brings_descriptors(&socket) == Ok(false) => {
                let _ = receive_bytes(&socket, &mut [0; 16]);
            }
            Ok(true) => return false,
            // The peer's hang-up is reported once, before the data that it sent.
            Err(_) => failures += 1,
        }
        if 1 < failures {
            return false;
        }
    }
    false
}

/// Receives what the peer sent before the socket was shut down, with descriptors, which are never closed: they belong to a descriptor
/// table that ends with its thread. Returns whether there may be more than that table can hold.
pub(super) fn take_datagrams(socket: impl AsFd) -> bool {
    let (mut taken, mut failures) = (0, 0);
    while taken < TAKEN_AT_ONCE && failures < 2 {
        match holds_datagram(&socket) {
            Ok(false) => return false,
            Ok(true) => taken += take_datagram(&socket),
            // A hang-up is reported once, before the data, so the first failure is not the end.
            Err(_) => failures += 1,
        }
    }
    TAKEN_AT_ONCE <= taken
}

/// Returns the number of descriptors that came with it.
fn take_datagram(socket: impl AsFd) -> usize {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SCM_MAX_FD))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let (mut bytes, flags) = ([0; 16], RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC);
    let _ = rustix::net::recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags);
    let descriptors = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    descriptors.flatten().map(std::mem::forget).count()
}
