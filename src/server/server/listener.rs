//! The listening socket and its path.

use std::ffi::OsStr;
use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FlockOperation, Gid, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::geteuid;

use crate::{ServeError, socket};
use foveate::ControlError;
use foveate_config::SOCKET_MODE;

/// Permissions of the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketAccess {
    /// Mode of the socket.
    pub mode: u32,
    /// Group of the socket, and of its directory if that is created; `None` for the group of this process.
    pub group: Option<u32>,
}

impl Default for SocketAccess {
    /// The user and the group of this process.
    fn default() -> Self {
        Self { mode: SOCKET_MODE, group: None }
    }
}

/// Mode of the lock file.
const LOCK_MODE: u32 = 0o600;

#[derive(Debug)]
pub(super) struct Listener {
    pub(super) socket: OwnedFd,
    /// The path of the socket, removed when dropped; `None` if another process created the socket, and keeps it.
    _place: Option<SocketPath>,
}

/// The path, owned by this process while it listens there.
#[derive(Debug)]
struct SocketPath {
    path: PathBuf,
    /// Device and inode of the socket, which identify it as ours.
    identity: (u64, u64),
    /// Holds the lock, which is released when the file is closed.
    _lock: File,
}

impl Listener {
    /// Adopts a listening socket, and returns it with its path.
    pub(super) fn adopt(socket: OwnedFd) -> Result<(Self, PathBuf), ServeError> {
        let is_usable = sockopt::socket_domain(&socket) == Ok(AddressFamily::UNIX)
            && sockopt::socket_type(&socket) == Ok(SocketType::SEQPACKET)
            && sockopt::socket_acceptconn(&socket) == Ok(true);
        if !is_usable {
            return Err(ServeError::NotListening);
        }
        let address = rustix::net::getsockname(&socket).and_then(SocketAddrUnix::try_from);
        let path = address.ok().and_then(|address| address.path_bytes().map(path_of));
        let path = path.ok_or(ServeError::NotListening)?;
        rustix::io::ioctl_fionbio(&socket, true)
            .map_err(|errno| ControlError::io("set the flags of", &path, errno))?;
        socket::refuse_descriptors(&socket);
        Ok((Self { socket, _place: None }, path))
    }

    pub(super) fn bind(path: &Path, access: SocketAccess) -> Result<Self, ServeError> {
        let address = socket::address(path)?;
        make_directory_of(path, access)?;
        let lock = take_lock(path)?;
        remove_dead_socket(path)?;

        let socket = socket::unconnected(SocketFlags::NONBLOCK)
            .map_err(|errno| ControlError::io("create the socket", path, errno))?;
        rustix::net::bind(&socket, &address)
            .map_err(|errno| ControlError::io("bind", path, errno))?;
        let inode = Inode::at(path)?;
        let identity = inode.identity;
        let place = SocketPath { path: path.to_owned(), identity, _lock: lock };
        socket::refuse_descriptors(&socket);
        let listener = Self { socket, _place: Some(place) };
        // Set group and mode before `listen`, which lets clients connect.
        inode.give(access.group, access.mode)?;
        rustix::net::listen(&listener.socket, 64)
            .map_err(|errno| ControlError::io("listen on", path, errno))?;
        Ok(listener)
    }
}

fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

impl Drop for SocketPath {
    fn drop(&mut self) {
        let ours = std::fs::symlink_metadata(&self.path)
            .is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == self.identity);
        if ours && let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove the socket");
        }
    }
}

/// Creates the directory if there is none. The permissions of an existing one are left alone, with a warning if they lock out the
/// socket's group.
fn make_directory_of(path: &Path, access: SocketAccess) -> Result<(), ServeError> {
    let Some(directory) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) else {
        return Ok(());
    };
    let failed = |source| ControlError::io("create the directory", directory, source);
    if let Some(above) = directory.parent() {
        DirBuilder::new().recursive(true).mode(0o755).create(above).map_err(failed)?;
    }
    match DirBuilder::new().mode(0o750).create(directory) {
        // Whatever the umask is.
        Ok(()) => Inode::at(directory)?.give(access.group, 0o750),
        Err(_) if directory.is_dir() => {
            warn_if_group_locked_out(directory, access);
            Ok(())
        }
        Err(error) => Err(failed(error).into()),
    }
}

fn warn_if_group_locked_out(directory: &Path, access: SocketAccess) {
    let (Some(group), Ok(metadata)) = (access.group, std::fs::metadata(directory)) else { return };
    let may_enter = if metadata.gid() == group { 0o010 } else { 0o001 };
    if metadata.mode() & may_enter == 0 {
        let directory = directory.display();
        tracing::warn!(%directory, group, "members of the socket's group cannot enter its directory: chgrp or chmod it");
    }
}

/// A file that this process has just created at a path, held open so that its own group and mode are set even if another user replaces
/// the path.
struct Inode<'a> {
    path: &'a Path,
    descriptor: OwnedFd,
    /// Device and inode.
    identity: (u64, u64),
}

impl<'a> Inode<'a> {
    fn at(path: &'a Path) -> Result<Self, ServeError> {
        let failed = |errno: Errno| ControlError::io("look at", path, errno);
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let descriptor = rustix::fs::open(path, flags, Mode::empty()).map_err(failed)?;
        let found = rustix::fs::fstat(&descriptor).map_err(failed)?;
        if found.st_uid != geteuid().as_raw() {
            return Err(failed(Errno::PERM).into());
        }
        Ok(Self { path, descriptor, identity: (found.st_dev, found.st_ino) })
    }

    /// Sets its group, if one is given, and its mode.
    fn give(&self, group: Option<u32>, mode: u32) -> Result<(), ServeError> {
        let Self { path, descriptor, .. } = self;
        if let Some(group) = group {
            let flags = AtFlags::EMPTY_PATH;
            rustix::fs::chownat(descriptor, "", None, Some(Gid::from_raw(group)), flags).map_err(
                |errno| ServeError::Group { group, path: path.to_path_buf(), source: errno.into() },
            )?;
        }
        // `fchmod` refuses descriptors of O_PATH.
        let name = format!("/proc/self/fd/{}", descriptor.as_raw_fd());
        std::fs::set_permissions(name, Permissions::from_mode(mode))
            .map_err(|source| ControlError::io("set the mode of", path, source).into())
    }
}

/// Locks the file beside the socket and writes this process's ID into it.
fn take_lock(path: &Path) -> Result<File, ServeError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let lock_path = PathBuf::from(name);
    let failed = |source| ControlError::io("lock", &lock_path, source);
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        // A user who can open the file can lock it, and so keep the daemon from starting.
        .mode(LOCK_MODE)
        // Others may write the directory: do not follow their links or block on their FIFOs.
        .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed())
        .open(&lock_path)
        .map_err(failed)?;
    let found = file.metadata().map_err(failed)?;
    if !found.is_file() || found.uid() != geteuid().as_raw() {
        return Err(ServeError::ForeignLock { path: lock_path });
    }
    file.set_permissions(Permissions::from_mode(LOCK_MODE)).map_err(failed)?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => {
            let mut text = String::new();
            let pid = file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok());
            return Err(ServeError::InUse { path: path.to_owned(), pid });
        }
        Err(errno) => return Err(failed(errno.into()).into()),
    }
    file.set_len(0).map_err(failed)?;
    writeln!(file, "{}", std::process::id()).map_err(failed)?;
    Ok(file)
}

/// Removes the path if it is a socket without a listener.
fn remove_dead_socket(path: &Path) -> Result<(), ServeError> {
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if metadata.file_type().is_socket() => {}
        Ok(_) => return Err(ServeError::NotASocket { path: path.to_owned() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(ControlError::io("look at", path, error).into()),
    }
    let probe = socket::unconnected(SocketFlags::NONBLOCK)
        .map_err(|errno| ControlError::io("create a socket for", path, errno))?;
    match rustix::net::connect(&probe, &socket::address(path)?) {
        Err(Errno::CONNREFUSED) => {
            tracing::info!(path = %path.display(), "taking over the socket of a daemon that has ended");
            std::fs::remove_file(path)
                .map_err(|source| ControlError::io("remove", path, source))?;
            Ok(())
        }
        // Any other answer means that somebody listens.
        _ => {
            let pid = socket::peer(&probe).and_then(|peer| peer.process);
            Err(ServeError::InUse { path: path.to_owned(), pid })
        }
    }
}
