//! SOCK_SEQPACKET sockets: whole datagrams, each with an optional descriptor.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

/// An unconnected socket that closes on exec.
///
/// # Errors
///
/// Those of the system.
pub fn unconnected(flags: SocketFlags) -> rustix::io::Result<OwnedFd> {
    let flags = flags | SocketFlags::CLOEXEC;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
}

/// Sends one datagram, with a copy of `descriptor`.
///
/// # Errors
///
/// Those of the system.
pub fn send(
    socket: impl AsFd,
    datagram: &[u8],
    descriptor: Option<BorrowedFd<'_>>,
    flags: SendFlags,
) -> rustix::io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if let Some(descriptor) = &descriptor {
        let fits = control.push(SendAncillaryMessage::ScmRights(std::slice::from_ref(descriptor)));
        debug_assert!(fits, "the space holds one descriptor");
    }
    let parts = [IoSlice::new(datagram)];
    let flags = flags | SendFlags::NOSIGNAL;
    retry_on_intr(|| rustix::net::sendmsg(&socket, &parts, &mut control, flags)).map(drop)
}

/// Receives one datagram, and returns its length, which exceeds the buffer's if it was truncated, and the first descriptor that came
/// with it. A length of 0 is a hang-up.
///
/// # Errors
///
/// Those of the system, and `MFILE` if a descriptor came that this process cannot have. With [`RecvFlags::PEEK`] the datagram is still
/// there then.
pub fn receive(
    socket: impl AsFd,
    buffer: &mut [u8],
    flags: RecvFlags,
) -> rustix::io::Result<(usize, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = flags | RecvFlags::CMSG_CLOEXEC | RecvFlags::TRUNC;
    let message = retry_on_intr(|| {
        let mut parts = [IoSliceMut::new(buffer)];
        rustix::net::recvmsg(&socket, &mut parts, &mut control, flags)
    })?;
    let mut descriptors = control.drain().filter_map(|part| match part {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    let descriptor = descriptors.next().and_then(|mut descriptors| descriptors.next());
    if descriptor.is_none() && message.flags.contains(ReturnFlags::CTRUNC) {
        return Err(Errno::MFILE);
    }
    Ok((message.bytes, descriptor))
}

/// Drops the next datagram, if there is one.
///
/// # Errors
///
/// Those of the system.
pub fn discard(socket: impl AsFd) -> rustix::io::Result<()> {
    retry_on_intr(|| rustix::net::recv(&socket, &mut [0; 1], RecvFlags::DONTWAIT)).map(drop)
}
