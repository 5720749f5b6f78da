//! The daemon's end of the socket: one thread, one poll, and nobody that it waits for.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::FlockOperation;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::sockopt::socket_peercred;
use rustix::net::{SendFlags, SocketFlags};

use super::directory::{Directory, StreamEntry, ViewEntry};
use super::messages::{
    DATAGRAM_BYTES_MAX, Epoch, Event, Listing, Looking, Refusal, RefusalReason, Request,
    Subscribed, ViewName, accepted, refused,
};
use super::{ControlError, socket};
use crate::stats::Counter;

/// Bytes of a page of a listing; what one view adds to it stays far below the rest of a datagram.
const PAGE_BYTES: usize = 64 * 1024;

/// Names of views that a refusal lists.
const NAMES_LISTED_MAX: usize = 16;

/// How long no connection is accepted after the system had no descriptor for one.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// What clients may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at a time.
    pub clients: usize,
    /// Requests that one connection may send in a second, and at once.
    pub requests_per_second: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { clients: 64, requests_per_second: 200 }
    }
}

/// What the server has done since it started.
#[derive(Debug, Default)]
pub struct ServerCounters {
    /// Connections that were accepted.
    pub clients_accepted: Counter,
    /// Connections that were dropped because their socket was full.
    pub clients_dropped: Counter,
    /// Requests that were answered, refusals included.
    pub requests: Counter,
    /// Requests and connections that were refused.
    pub refusals: Counter,
}

/// Serves a [`Directory`] until it is dropped.
#[derive(Debug)]
pub struct Server {
    path: PathBuf,
    stopping: Arc<AtomicBool>,
    directory: Arc<Directory>,
    counters: Arc<ServerCounters>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens on `path` and starts to serve, with the usual [`Limits`].
    ///
    /// The directory is made if there is none (mode 0750). The socket gets mode 0660. Beside it lies a lock
    /// file, which stays: whoever holds its lock owns the path, so a socket left by a dead daemon is taken over.
    ///
    /// # Errors
    ///
    /// If a living daemon or a file that is not a socket has the path, or the system refuses.
    pub fn bind(path: &Path, directory: Arc<Directory>) -> Result<Self, ControlError> {
        Self::bind_limited(path, directory, Limits::default())
    }

    /// [`Server::bind`] with other limits.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn bind_limited(
        path: &Path,
        directory: Arc<Directory>,
        limits: Limits,
    ) -> Result<Self, ControlError> {
        let listener = Listener::bind(path)?;
        let stopping = Arc::new(AtomicBool::new(false));
        let counters = Arc::new(ServerCounters::default());
        let mut service = Service {
            listener,
            directory: Arc::clone(&directory),
            limits,
            counters: Arc::clone(&counters),
            connections: Vec::new(),
            accept_again_at: None,
            buffer: vec![0; DATAGRAM_BYTES_MAX],
        };
        let stop = Arc::clone(&stopping);
        let thread = std::thread::Builder::new()
            .name("control".to_owned())
            .spawn(move || service.run(&stop))
            .map_err(|source| ControlError::io("start the thread that serves", path, source))?;
        tracing::info!(path = %path.display(), "serving");
        Ok(Self { path: path.to_owned(), stopping, directory, counters, thread: Some(thread) })
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it has done.
    pub fn counters(&self) -> &Arc<ServerCounters> {
        &self.counters
    }

    /// Tells subscribers what they do not know yet, hangs up on everybody and removes the socket. Soon done.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        self.directory.bell().ring();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that serves the control socket panicked");
        }
    }
}

/// The listening socket and its place in the file system.
#[derive(Debug)]
struct Listener {
    socket: OwnedFd,
    path: PathBuf,
    /// Device and inode of the socket, by which it is known to be ours.
    identity: (u64, u64),
    /// Holds the lock; released when the file is closed.
    _lock: File,
}

impl Listener {
    fn bind(path: &Path) -> Result<Self, ControlError> {
        let address = socket::address(path)?;
        make_directory_of(path)?;
        let lock = take_lock(path)?;
        remove_dead_socket(path)?;

        let socket = socket::unconnected(SocketFlags::NONBLOCK)
            .map_err(|errno| ControlError::io("create the socket", path, errno))?;
        rustix::net::bind(&socket, &address)
            .map_err(|errno| ControlError::io("bind", path, errno))?;
        let metadata = std::fs::symlink_metadata(path)
            .map_err(|source| ControlError::io("look at", path, source))?;
        let identity = (metadata.dev(), metadata.ino());
        let listener = Self { socket, path: path.to_owned(), identity, _lock: lock };
        // Nobody can connect before `listen`, so nobody can before the mode is set.
        std::fs::set_permissions(path, Permissions::from_mode(0o660))
            .map_err(|source| ControlError::io("set the mode of", path, source))?;
        rustix::net::listen(&listener.socket, 64)
            .map_err(|errno| ControlError::io("listen on", path, errno))?;
        Ok(listener)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let ours = std::fs::symlink_metadata(&self.path)
            .is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == self.identity);
        if ours && let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "the socket stays behind");
        }
    }
}

fn make_directory_of(path: &Path) -> Result<(), ControlError> {
    let Some(directory) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) else {
        return Ok(());
    };
    DirBuilder::new()
        .recursive(true)
        .mode(0o750)
        .create(directory)
        .map_err(|source| ControlError::io("create the directory", directory, source))
}

/// Locks the file beside the socket and writes this process's number into it.
fn take_lock(path: &Path) -> Result<File, ControlError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let lock_path = PathBuf::from(name);
    let failed = |source| ControlError::io("lock", &lock_path, source);
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o640)
        .open(&lock_path)
        .map_err(failed)?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => {
            let mut text = String::new();
            let pid = file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok());
            return Err(ControlError::InUse { path: path.to_owned(), pid });
        }
        Err(errno) => return Err(failed(errno.into())),
    }
    file.set_len(0).map_err(failed)?;
    writeln!(file, "{}", std::process::id()).map_err(failed)?;
    Ok(file)
}

/// Makes room for our socket, if what is there is a socket that nobody listens on.
fn remove_dead_socket(path: &Path) -> Result<(), ControlError> {
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if metadata.file_type().is_socket() => {}
        Ok(_) => return Err(ControlError::NotASocket { path: path.to_owned() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(ControlError::io("look at", path, error)),
    }
    let probe = socket::unconnected(SocketFlags::NONBLOCK)
        .map_err(|errno| ControlError::io("create a socket for", path, errno))?;
    match rustix::net::connect(&probe, &socket::address(path)?) {
        Err(Errno::CONNREFUSED) => {
            tracing::info!(path = %path.display(), "taking over the socket of a daemon that is gone");
            std::fs::remove_file(path).map_err(|source| ControlError::io("remove", path, source))
        }
        // Whatever else it answers, somebody is there.
        _ => {
            let pid = socket_peercred(&probe).ok().map(|peer| peer.pid.as_raw_nonzero().get());
            Err(ControlError::InUse { path: path.to_owned(), pid })
        }
    }
}

/// What the thread owns.
#[derive(Debug)]
struct Service {
    listener: Listener,
    directory: Arc<Directory>,
    limits: Limits,
    counters: Arc<ServerCounters>,
    connections: Vec<Connection>,
    /// When the system had no descriptor left: the listener is not polled until then.
    accept_again_at: Option<Instant>,
    buffer: Vec<u8>,
}

/// One client.
#[derive(Debug)]
struct Connection {
    socket: OwnedFd,
    allowance: Allowance,
    subscription: Option<Subscription>,
}

/// What a client follows, and what it has been told of it.
#[derive(Debug)]
struct Subscription {
    stream: Arc<StreamEntry>,
    view: Arc<ViewEntry>,
    epoch_told: Option<Epoch>,
    end_told: bool,
    /// Asked for and not yet handed to the waker: the first notice must not overtake the answer.
    wants_notices: bool,
}

/// What becomes of a connection after it was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Keep,
    Close,
}

impl Service {
    fn run(&mut self, stopping: &AtomicBool) {
        while !stopping.load(Ordering::Relaxed) {
            if let Err(errno) = self.turn() {
                tracing::error!(%errno, "polling the control socket failed; no clients are served");
                break;
            }
        }
        self.tell_subscribers();
        for connection in self.connections.drain(..) {
            socket::close(connection.socket);
        }
    }

    /// Waits until there is something to do, and does it.
    fn turn(&mut self) -> Result<(), Errno> {
        let ready = self.wait()?;
        self.serve(&ready.connections);
        if ready.bell {
            self.directory.bell().silence();
            self.tell_subscribers();
        }
        if ready.listener {
            self.accept();
        }
        Ok(())
    }

    fn wait(&mut self) -> Result<Ready, Errno> {
        let pause = self.accept_again_at.map(|at| at.saturating_duration_since(Instant::now()));
        let pause = pause.filter(|pause| !pause.is_zero());
        if pause.is_none() {
            self.accept_again_at = None;
        }
        let interest = PollFlags::IN;
        let accepting = if pause.is_none() { interest } else { PollFlags::empty() };
        let mut entries = vec![
            PollFd::new(self.directory.bell().as_ref(), interest),
            PollFd::new(&self.listener.socket, accepting),
        ];
        let sockets = self.connections.iter().map(|connection| &connection.socket);
        entries.extend(sockets.map(|socket| PollFd::new(socket, interest)));
        let timeout = pause.and_then(|pause| Timespec::try_from(pause).ok());
        retry_on_intr(|| poll(&mut entries, timeout.as_ref()))?;

        let mut ready = entries.iter().map(|entry| !entry.revents().is_empty());
        Ok(Ready {
            bell: ready.next().unwrap_or(false),
            listener: ready.next().unwrap_or(false),
            connections: ready.collect(),
        })
    }

    /// Serves one request of every connection that is `ready`, so that a busy one delays no other for long.
    fn serve(&mut self, ready: &[bool]) {
        let connections = std::mem::take(&mut self.connections);
        let mut ready = ready.iter();
        for mut connection in connections {
            let is_ready = ready.next().copied().unwrap_or(false);
            if is_ready && self.serve_one(&mut connection) == Fate::Close {
                socket::close(connection.socket);
            } else {
                self.connections.push(connection);
            }
        }
    }

    fn serve_one(&mut self, connection: &mut Connection) -> Fate {
        let len = match socket::receive_bytes(&connection.socket, &mut self.buffer) {
            Ok(0) => return Fate::Close,
            Ok(len) => len,
            Err(Errno::AGAIN) => return Fate::Keep,
            Err(_) => return Fate::Close,
        };
        self.counters.requests.add(1);
        let allowed = connection.allowance.take(Instant::now(), self.limits.requests_per_second);
        let answer = if allowed {
            self.answer(len, connection)
        } else {
            let limit = self.limits.requests_per_second;
            let error = format!("a client may send {limit} requests a second");
            Err(Refusal::new(RefusalReason::RateLimit, error))
        };
        let datagram = answer.unwrap_or_else(|refusal| self.refusal(&refusal));
        let sent = self.send(connection, &datagram);
        if !allowed || sent == Fate::Close || self.tell(connection) == Fate::Close {
            return Fate::Close;
        }
        self.start_notices(connection)
    }

    /// Hands a connection that wants notices to the waker, once it has its answer and its segment.
    fn start_notices(&self, connection: &mut Connection) -> Fate {
        let Connection { socket, subscription: Some(subscription), .. } = connection else {
            return Fate::Keep;
        };
        if !std::mem::take(&mut subscription.wants_notices) {
            return Fate::Keep;
        }
        match socket.try_clone() {
            Ok(copy) => subscription.view.notify(copy),
            Err(error) => {
                tracing::warn!(%error, "dropping a subscriber: no descriptor is left for its notices");
                return Fate::Close;
            }
        }
        Fate::Keep
    }

    /// The answer to the datagram of `len` bytes in the buffer.
    fn answer(&self, len: usize, connection: &mut Connection) -> Result<Vec<u8>, Refusal> {
        let Some(datagram) = self.buffer.get(..len) else {
            let error = format!("{len} bytes are more than the {DATAGRAM_BYTES_MAX} of a message");
            return Err(Refusal::new(RefusalReason::TooLarge, error));
        };
        match Request::from_datagram(datagram)? {
            Request::Subscribe { view, notify } => self.subscribe(connection, view, notify),
            Request::List { after } => Ok(self.list(after.as_ref())),
            Request::Look { view, x, y } => self.look(view, x, y),
        }
    }

    fn subscribe(
        &self,
        connection: &mut Connection,
        name: ViewName,
        notify: bool,
    ) -> Result<Vec<u8>, Refusal> {
        if let Some(present) = &connection.subscription {
            let error = format!(
                "this connection has subscribed to `{}` already: open another one",
                present.view.name()
            );
            return Err(Refusal::new(RefusalReason::AlreadySubscribed, error));
        }
        let (stream, view) = self.find(&name)?;
        if notify {
            view.check_room_for_subscriber()?;
        }
        connection.subscription = Some(Subscription {
            stream,
            view,
            epoch_told: None,
            end_told: false,
            wants_notices: notify,
        });
        Ok(accepted(&Subscribed { view: name }))
    }

    fn look(&self, name: ViewName, x: f64, y: f64) -> Result<Vec<u8>, Refusal> {
        let (stream, view) = self.find(&name)?;
        let (x, y) = stream.look(&view, x, y)?;
        tracing::debug!(view = %name, x, y, "look");
        Ok(accepted(&Looking { view: name, x, y }))
    }

    /// One page of the directory, from the view after `after` on.
    fn list(&self, after: Option<&ViewName>) -> Vec<u8> {
        let mut page = Listing { streams: Vec::new(), next: None };
        let mut bytes = 0;
        let mut last = None;
        'page: for stream in self.directory.streams_from(after) {
            let mut listing = stream.listing();
            bytes += json_len(&listing);
            for view in stream.views_after(after) {
                let view = view.listing();
                bytes += json_len(&view);
                if PAGE_BYTES < bytes && last.is_some() {
                    page.next = last;
                    page.streams.push(listing);
                    break 'page;
                }
                last = Some(view.name.clone());
                listing.views.push(view);
            }
            page.streams.push(listing);
        }
        // The page before may have held the last view of a stream, or this one no more than its name.
        page.streams.retain(|stream| !stream.views.is_empty());
        accepted(&page)
    }

    fn find(&self, name: &ViewName) -> Result<(Arc<StreamEntry>, Arc<ViewEntry>), Refusal> {
        self.directory.find(name).ok_or_else(|| {
            let names = self.directory.view_names();
            let listed = names.iter().take(NAMES_LISTED_MAX).map(|name| format!("`{name}`"));
            let listed = listed.collect::<Vec<_>>().join(", ");
            let more = if NAMES_LISTED_MAX < names.len() { ", ..." } else { "" };
            let error = format!("there is no view `{name}`; there are: {listed}{more}");
            Refusal::new(RefusalReason::UnknownView, error)
        })
    }

    /// Tells every subscriber what changed since it was told last.
    fn tell_subscribers(&mut self) {
        for mut connection in std::mem::take(&mut self.connections) {
            match self.tell(&mut connection) {
                Fate::Keep => self.connections.push(connection),
                Fate::Close => socket::close(connection.socket),
            }
        }
    }

    fn tell(&self, connection: &mut Connection) -> Fate {
        let Some(subscription) = &mut connection.subscription else {
            return Fate::Keep;
        };
        let name = subscription.view.name();
        if let Some(segment) = subscription.view.segment()
            && subscription.epoch_told != Some(segment.epoch)
        {
            subscription.epoch_told = Some(segment.epoch);
            // To the subscriber, a new segment is a new beginning, whose end is news again.
            subscription.end_told = false;
            let event = Event::Segment { view: name.clone(), epoch: segment.epoch };
            let descriptor = Some(segment.descriptor.as_fd());
            let sent = socket::send(
                &connection.socket,
                &event.to_datagram(),
                descriptor,
                SendFlags::DONTWAIT,
            );
            if self.fate_after(sent) == Fate::Close {
                return Fate::Close;
            }
        }
        let end_reason = subscription.stream.end_reason();
        let was_told = std::mem::replace(&mut subscription.end_told, end_reason.is_some());
        match end_reason {
            Some(reason) if !was_told => {
                let event = Event::Ended { view: name.clone(), reason };
                self.send(connection, &event.to_datagram())
            }
            _ => Fate::Keep,
        }
    }

    fn send(&self, connection: &Connection, datagram: &[u8]) -> Fate {
        self.fate_after(socket::send(&connection.socket, datagram, None, SendFlags::DONTWAIT))
    }

    /// A client that does not read is dropped, never waited for.
    fn fate_after(&self, sent: Result<(), Errno>) -> Fate {
        match sent {
            Ok(()) => Fate::Keep,
            Err(Errno::AGAIN) => {
                self.counters.clients_dropped.add(1);
                tracing::warn!("dropping a client that does not read what it is sent");
                Fate::Close
            }
            // It hung up while it was served.
            Err(_) => Fate::Close,
        }
    }

    /// Takes every connection that waits; those above the limit are told so and closed.
    fn accept(&mut self) {
        loop {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket = match rustix::net::accept_with(&self.listener.socket, flags) {
                Ok(socket) => socket,
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                Err(Errno::AGAIN) => return,
                Err(errno) => {
                    tracing::warn!(%errno, "cannot accept a client; trying again in a second");
                    self.accept_again_at = Some(Instant::now() + ACCEPT_PAUSE);
                    return;
                }
            };
            if self.connections.len() < self.limits.clients {
                self.counters.clients_accepted.add(1);
                let allowance = Allowance::full(self.limits.requests_per_second);
                self.connections.push(Connection { socket, allowance, subscription: None });
            } else {
                self.turn_away(socket);
            }
        }
    }

    fn turn_away(&self, socket: OwnedFd) {
        let error = format!("{} clients are connected already", self.limits.clients);
        let refusal = self.refusal(&Refusal::new(RefusalReason::TooManyClients, error));
        // The socket is fresh, so there is room for it unless the client is gone.
        let _ = socket::send(&socket, &refusal, None, SendFlags::DONTWAIT);
        socket::close(socket);
    }

    /// Counts a refusal and puts it into a datagram.
    fn refusal(&self, refusal: &Refusal) -> Vec<u8> {
        self.counters.refusals.add(1);
        tracing::debug!(error = refusal.error, "refused");
        refused(refusal)
    }
}

/// What poll found.
struct Ready {
    bell: bool,
    listener: bool,
    connections: Vec<bool>,
}

/// A token bucket: requests that a client may send at once, refilled over time.
#[derive(Debug)]
struct Allowance {
    requests: f64,
    refilled_at: Instant,
}

impl Allowance {
    fn full(requests_per_second: u32) -> Self {
        Self { requests: f64::from(requests_per_second), refilled_at: Instant::now() }
    }

    /// Takes one request, if one is left.
    fn take(&mut self, now: Instant, requests_per_second: u32) -> bool {
        let limit = f64::from(requests_per_second);
        let refill = now.duration_since(self.refilled_at).as_secs_f64() * limit;
        self.requests = (self.requests + refill).min(limit);
        self.refilled_at = now;
        let allowed = 1.0 <= self.requests;
        if allowed {
            self.requests -= 1.0;
        }
        allowed
    }
}

fn json_len(part: &impl serde::Serialize) -> usize {
    serde_json::to_vec(part).map_or(0, |bytes| bytes.len())
}
