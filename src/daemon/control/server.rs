//! The daemon's end of the socket: one thread, one poll, and nobody that it waits for.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{SendFlags, SocketFlags};

pub use self::admin::{AdminServer, PendingAdminRequest};
use self::connection::{Connection, PendingAnswer, Subscription};
pub use self::limits::Limits;
use self::linger::LingeringClose;
pub use self::listener::Access;
use self::listener::Listener;
use self::visitors::Visitors;
use super::directory::{Directory, StreamEntry, ViewEntry};
use super::steering::{Steered, SteeringRequest};
use super::tally::Tally;
use super::{ServeError, socket};
use crate::channel::{GazeChange, SUBSCRIBERS_PENDING_MAX};
use foveate::ControlError;
use foveate::messages::{
    DATAGRAM_BYTES_MAX, Event, GazeEvent, Granted, Looking, Refusal, RefusalReason, ViewName,
};
use foveate_control::{Listing, Request, ServerListing, accepted, refused};
use foveate_core::geometry::gaze_entry::GazeEntry;
use foveate_stats::{Counter, Level};

mod admin;
mod connection;
mod limits;
mod linger;
mod listener;
mod opening;
mod visitors;

/// Bytes of a page of a listing; what one view adds to it stays far below the rest of a datagram.
const PAGE_BYTES: usize = 64 * 1024;

/// Names of views that a refusal lists.
const NAMES_LISTED_MAX: usize = 16;

/// How long a client that wants to wait for a decision may wait.
const DECISION_TIMEOUT: Duration = Duration::from_secs(1);

/// Connections that are accepted before those that are open are served again.
const ACCEPTED_AT_ONCE: usize = 16;

/// How long no connection is accepted after the system had no descriptor for one.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// What the server has done since it started.
#[derive(Debug, Default)]
pub struct ServerCounters {
    /// Connections at present.
    pub clients: Level,
    /// Connections that were accepted.
    pub clients_accepted: Counter,
    /// Connections that were dropped because their socket was full.
    pub clients_dropped: Counter,
    /// Requests that were answered, refusals included.
    pub requests: Counter,
    /// Requests and connections that were refused.
    pub refusals: Counter,
    /// The same, by reason.
    pub refusals_by_reason: Mutex<BTreeMap<RefusalReason, u64>>,
}

impl ServerCounters {
    /// What the server has done.
    pub(super) fn listing(&self) -> ServerListing {
        ServerListing {
            clients: self.clients.get(),
            clients_accepted: self.clients_accepted.get(),
            clients_dropped: self.clients_dropped.get(),
            requests: self.requests.get(),
            refused: self.refusals_by_reason.lock().clone(),
        }
    }
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
    /// Listens on `path` and starts to serve, for those who have `access` and within `limits`.
    ///
    /// The directory is made if there is none (mode 0750). Beside the socket lies a lock file, which stays: whoever holds
    /// its lock owns the path, so a socket left by a dead daemon is taken over.
    ///
    /// # Errors
    ///
    /// If a living daemon or a file that is not a socket has the path, or the system refuses, such as a group that this process
    /// is not in.
    pub fn bind(
        path: &Path,
        directory: Arc<Directory>,
        access: Access,
        limits: Limits,
    ) -> Result<Self, ServeError> {
        Self::serve(Listener::bind(path, access)?, path, directory, limits)
    }

    /// Starts to serve on a socket that somebody else has bound to a path and listens on, such as a service manager. Who may
    /// connect is theirs to say, and the socket stays when the server ends: clients wait in it for the next one.
    ///
    /// # Errors
    ///
    /// If it is no such socket: Unix, SOCK_SEQPACKET, listening.
    pub fn adopt(
        socket: OwnedFd,
        directory: Arc<Directory>,
        limits: Limits,
    ) -> Result<Self, ServeError> {
        let (listener, path) = Listener::adopt(socket)?;
        Self::serve(listener, &path, directory, limits)
    }

    fn serve(
        listener: Listener,
        path: &Path,
        directory: Arc<Directory>,
        limits: Limits,
    ) -> Result<Self, ServeError> {
        let stopping = Arc::new(AtomicBool::new(false));
        let counters = Arc::new(ServerCounters::default());
        let mut service = ServerThread {
            listener,
            directory: Arc::clone(&directory),
            limits,
            tally: Tally::new(Arc::clone(&directory), Arc::clone(&counters)),
            counters: Arc::clone(&counters),
            connections: Vec::new(),
            clients_seen: 0,
            visitors: Visitors::new(),
            lingering: LingeringClose::default(),
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

    /// Reads what the daemon counts, from any thread.
    pub fn tally(&self) -> Tally {
        Tally::new(Arc::clone(&self.directory), Arc::clone(&self.counters))
    }

    /// What it has done.
    pub fn counters(&self) -> &Arc<ServerCounters> {
        &self.counters
    }

    /// Tells subscribers what they do not know yet, hangs up on everybody and removes the socket where it made it. Soon done.
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

/// What the thread owns.
#[derive(Debug)]
struct ServerThread {
    listener: Listener,
    directory: Arc<Directory>,
    limits: Limits,
    counters: Arc<ServerCounters>,
    tally: Tally,
    connections: Vec<Connection>,
    /// Connections so far.
    clients_seen: u64,
    visitors: Visitors,
    lingering: LingeringClose,
    /// When the system had no descriptor left: the listener is not polled until then.
    accept_again_at: Option<Instant>,
    buffer: Vec<u8>,
}

/// What becomes of a connection after it was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Keep,
    Close,
}

impl ServerThread {
    fn run(&mut self, stopping: &AtomicBool) {
        while !stopping.load(Ordering::Relaxed) {
            if let Err(errno) = self.turn() {
                tracing::error!(%errno, "polling the control socket failed; no clients are served");
                break;
            }
        }
        self.tell_all();
        for connection in std::mem::take(&mut self.connections) {
            self.lingering.close(connection.socket);
        }
    }

    /// Waits until there is something to do, and does it.
    fn turn(&mut self) -> Result<(), Errno> {
        let ready = self.wait()?;
        self.serve(&ready.connections);
        if ready.bell {
            self.directory.bell().silence();
            self.tell_all();
        }
        self.answer_awaiting();
        if ready.listener {
            self.accept();
        }
        Ok(())
    }

    fn wait(&mut self) -> Result<Ready, Errno> {
        let now = Instant::now();
        self.accept_again_at.take_if(|at| *at <= now);
        let interest = PollFlags::IN;
        let accepting = if self.accept_again_at.is_none() { interest } else { PollFlags::empty() };
        let mut entries = vec![
            PollFd::new(self.directory.bell().as_ref(), interest),
            PollFd::new(&self.listener.socket, accepting),
        ];
        entries.extend(self.connections.iter().map(|connection| {
            // Who waits for an answer is not heard before it has it, but for a hang-up.
            let interest =
                if connection.awaiting.is_some() { PollFlags::empty() } else { interest };
            PollFd::new(&connection.socket, interest)
        }));
        let awaited = self.connections.iter().filter_map(|connection| connection.awaiting.as_ref());
        let deadline = awaited.map(|awaiting| awaiting.until).chain(self.accept_again_at).min();
        let pause = deadline.map(|deadline| deadline.saturating_duration_since(now));
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
        let mut ready = ready.iter();
        self.for_each(|service, connection| {
            let is_ready = ready.next().copied().unwrap_or(false);
            if is_ready { service.serve_one(connection) } else { Fate::Keep }
        });
    }

    /// Does something for every connection. Those to be closed are hung up on after the last, because what one leaves behind
    /// depends on who is still there.
    fn for_each(&mut self, mut serve: impl FnMut(&mut Self, &mut Connection) -> Fate) {
        let mut leaving = Vec::new();
        for mut connection in std::mem::take(&mut self.connections) {
            match serve(self, &mut connection) {
                Fate::Keep => self.connections.push(connection),
                Fate::Close => leaving.push(connection),
            }
        }
        for connection in leaving {
            self.hang_up(connection);
        }
    }

    fn serve_one(&mut self, connection: &mut Connection) -> Fate {
        if connection.awaiting.is_some() {
            return Fate::Close;
        }
        let received = match socket::brings_descriptors(&connection.socket) {
            Ok(true) => return self.turn_out(connection),
            Ok(false) => socket::receive_bytes(&connection.socket, &mut self.buffer),
            Err(errno) => Err(errno),
        };
        let len = match received {
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
        let datagram = answer.unwrap_or_else(|refusal| Some(self.refusal(&refusal)));
        let sent = datagram.map_or(Fate::Keep, |datagram| self.send(connection, &datagram));
        if !allowed || sent == Fate::Close || self.tell(connection) == Fate::Close {
            return Fate::Close;
        }
        connection.start_notices()
    }

    /// Refuses a request that comes with descriptors, unread.
    fn turn_out(&self, connection: &Connection) -> Fate {
        self.counters.requests.add(1);
        let error = "descriptors come with the request, and no request takes any";
        let refusal = self.refusal(&Refusal::new(RefusalReason::BadRequest, error));
        self.send(connection, &refusal);
        Fate::Close
    }

    /// The answer to the datagram of `len` bytes in the buffer.
    fn answer(&self, len: usize, connection: &mut Connection) -> Result<Option<Vec<u8>>, Refusal> {
        let Some(datagram) = self.buffer.get(..len) else {
            let error = format!("{len} bytes are more than the {DATAGRAM_BYTES_MAX} of a message");
            return Err(Refusal::new(RefusalReason::TooLarge, error));
        };
        let (request, payload) = Request::from_datagram(datagram)?;
        match request {
            Request::Subscribe { view, notify, gaze } => {
                self.subscribe(connection, view, notify, gaze).map(Some)
            }
            Request::List { after } => Ok(Some(self.list(after.as_ref()))),
            Request::Stats { after } => Ok(Some(self.stats(after.as_deref()))),
            Request::Look(look) => {
                self.steer(connection, &look.view, look.wait, |helm| helm.look(&look))
            }
            Request::Attend(attend) => self
                .steer(connection, &attend.view, attend.wait, |helm| helm.attend(&attend, payload)),
            Request::AttendTokens(attend) => {
                self.steer(connection, &attend.view, attend.wait, |helm| {
                    helm.attend_tokens(&attend, payload)
                })
            }
            Request::Release { view } => {
                self.steer_with(connection, &view, |helm| helm.release())?;
                Ok(Some(accepted(&Granted { view })))
            }
            Request::OpenView { stream, view } => {
                self.open_view(connection, &stream, view).map(Some)
            }
        }
    }

    fn subscribe(
        &self,
        connection: &mut Connection,
        name: ViewName,
        notify: bool,
        gaze: bool,
    ) -> Result<Vec<u8>, Refusal> {
        if let Some(present) = &connection.subscription {
            let error = format!(
                "this connection has subscribed to `{}` already: open another one",
                present.view.name()
            );
            return Err(Refusal::new(RefusalReason::AlreadySubscribed, error));
        }
        let (stream, view) = self.find(&name)?;
        if notify && view.channel().subscriber_queue_is_full() {
            let error = format!(
                "view `{name}` publishes no frames and has {SUBSCRIBERS_PENDING_MAX} subscribers to take"
            );
            return Err(Refusal::new(RefusalReason::Busy, error));
        }
        if gaze {
            view.channel().set_recorded(true);
        }
        view.channel().counters().subscribers.enter();
        connection.subscription = Some(Subscription::new(stream, view, notify, gaze));
        Ok(accepted(&Granted { view: name }))
    }

    /// Lets the client of `connection` steer a view. There is no answer yet where it wants to wait for what it leads to.
    fn steer(
        &self,
        connection: &mut Connection,
        name: &ViewName,
        wait: bool,
        steer: impl FnOnce(SteeringRequest<'_>) -> Result<Steered, Refusal>,
    ) -> Result<Option<Vec<u8>>, Refusal> {
        let (view, Steered { ticket, point: (x, y) }) = self.steer_with(connection, name, steer)?;
        tracing::debug!(view = %name, x, y, "asked to look");
        let looking = Looking { view: name.clone(), x, y, fixation: None };
        if !wait {
            return Ok(Some(accepted(&looking)));
        }
        view.channel().set_awaited(true);
        let until = Instant::now() + DECISION_TIMEOUT;
        connection.awaiting = Some(PendingAnswer { view, ticket, looking, until });
        Ok(None)
    }

    /// Lets the client of `connection` steer a view; refusals are counted there.
    fn steer_with<T>(
        &self,
        connection: &mut Connection,
        name: &ViewName,
        steer: impl FnOnce(SteeringRequest<'_>) -> Result<T, Refusal>,
    ) -> Result<(Arc<ViewEntry>, T), Refusal> {
        let (stream, view) = self.find(name)?;
        let limit = self.limits.feedback_per_second;
        let steered = if connection.feedback_allowance.take(Instant::now(), limit) {
            steer(SteeringRequest { stream: &stream, view: &view, client: &connection.client })
        } else {
            let error =
                format!("a client may send {limit} of these a second: send the newest only");
            Err(Refusal::new(RefusalReason::RateLimit, error))
        };
        let steered =
            steered.inspect_err(|refusal| view.steering().lock().refuse(refusal.reason))?;
        Ok((view, steered))
    }

    /// One page of the directory, from the view after `after` on.
    fn list(&self, after: Option<&ViewName>) -> Vec<u8> {
        let server = after.is_none().then(|| self.counters.listing());
        let mut page = Listing { streams: Vec::new(), server, next: None };
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
            let names = self.directory.views();
            let listed = names.iter().take(NAMES_LISTED_MAX);
            let listed = listed.map(|view| format!("`{}`", view.name()));
            let listed = listed.collect::<Vec<_>>().join(", ");
            let more = if NAMES_LISTED_MAX < names.len() { ", ..." } else { "" };
            let error = format!("there is no view `{name}`; there are: {listed}{more}");
            Refusal::new(RefusalReason::UnknownView, error)
        })
    }

    /// What has been counted, from the stream behind `after` on.
    fn stats(&self, after: Option<&str>) -> Vec<u8> {
        accepted(&self.tally.page(after, PAGE_BYTES))
    }

    /// Tells everybody what changed since they were told last.
    fn tell_all(&mut self) {
        let gazes = self.take_gazes();
        self.for_each(|service, connection| match service.tell_gazes(connection, &gazes) {
            Fate::Keep => service.tell(connection),
            Fate::Close => Fate::Close,
        });
    }

    /// Where the views that somebody records have looked.
    fn take_gazes(&self) -> Vec<(Arc<ViewEntry>, Vec<GazeChange>)> {
        let mut taken: Vec<(Arc<ViewEntry>, Vec<GazeChange>)> = Vec::new();
        for view in self.connections.iter().filter_map(Connection::recorded) {
            if taken.iter().all(|(other, _)| !Arc::ptr_eq(other, view)) {
                taken.push((Arc::clone(view), view.channel().take_gazes()));
            }
        }
        taken
    }

    fn tell_gazes(
        &self,
        connection: &Connection,
        gazes: &[(Arc<ViewEntry>, Vec<GazeChange>)],
    ) -> Fate {
        let Some(view) = connection.recorded() else { return Fate::Keep };
        let lost = connection.gazes_lost();
        let notes = gazes.iter().filter(|(other, _)| Arc::ptr_eq(other, view));
        let mut fates = notes.flat_map(|(_, notes)| notes).map(|note| {
            let entry = GazeEntry::new(&note.gaze, note.frame_seq);
            let event = Event::Gaze(GazeEvent { view: view.name().clone(), entry, lost });
            self.send(connection, &event.to_datagram())
        });
        fates.find(|fate| *fate == Fate::Close).unwrap_or(Fate::Keep)
    }

    /// Answers those who waited for a decision that has been made, or for too long.
    fn answer_awaiting(&mut self) {
        let now = Instant::now();
        let mut answered = Vec::new();
        self.for_each(|service, connection| {
            let Some(awaiting) = connection.awaiting.take_if(|awaiting| awaiting.is_over(now))
            else {
                return Fate::Keep;
            };
            let fate = service.send(connection, &awaiting.answer());
            answered.push(awaiting.view);
            fate
        });
        for view in answered {
            self.await_no_more(&view);
        }
    }

    /// Has the bell left alone by a view that nobody waits for any more.
    fn await_no_more(&self, view: &Arc<ViewEntry>) {
        let mut awaited = self.connections.iter().filter_map(|other| other.awaiting.as_ref());
        if awaited.all(|awaiting| !Arc::ptr_eq(&awaiting.view, view)) {
            view.channel().set_awaited(false);
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
        let end_reason = subscription.end_reason();
        let was_told = std::mem::replace(&mut subscription.end_told, end_reason.is_some());
        match end_reason {
            Some(reason) if !was_told => {
                let event = Event::Ended { view: name.clone(), reason };
                self.send(connection, &event.to_datagram())
            }
            _ => Fate::Keep,
        }
    }

    /// A client is gone, or has to go: what it holds is given up.
    fn hang_up(&mut self, connection: Connection) {
        self.counters.clients.leave();
        let number = connection.client.number;
        for view in self.directory.views() {
            view.steering().lock().release(number);
        }
        if 0 < connection.opened {
            for stream in self.directory.streams_from(None) {
                stream.close_views_of(number);
            }
            self.directory.bell().ring();
        }
        let others = &self.connections;
        let is_with_others = |view: &ViewEntry| {
            others.iter().filter_map(Connection::recorded).any(|other| other.name() == view.name())
        };
        if let Some(view) = connection.recorded().filter(|view| !is_with_others(view)) {
            view.channel().set_recorded(false);
        }
        if let Some(awaiting) = &connection.awaiting {
            self.await_no_more(&awaiting.view);
        }
        self.lingering.close(connection.socket);
        if let Some(subscription) = &connection.subscription {
            subscription.view.channel().drop_closed_subscribers();
            subscription.view.channel().counters().subscribers.leave();
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

    /// Takes connections that wait; those above the limit are told so and closed.
    fn accept(&mut self) {
        for _ in 0..ACCEPTED_AT_ONCE {
            if self.limits.clients <= self.lingering.pending() {
                tracing::warn!(
                    "too many connections are being closed; accepting again in a second"
                );
                self.accept_again_at = Some(Instant::now() + ACCEPT_PAUSE);
                return;
            }
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
                self.clients_seen += 1;
                self.counters.clients.enter();
                let connection = Connection::new(socket, self.clients_seen, self.limits);
                self.visitors.note(&connection);
                self.connections.push(connection);
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
        self.lingering.close(socket);
    }

    /// Counts a refusal and puts it into a datagram.
    fn refusal(&self, refusal: &Refusal) -> Vec<u8> {
        self.counters.refusals.add(1);
        *self.counters.refusals_by_reason.lock().entry(refusal.reason).or_default() += 1;
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

fn json_len(part: &impl serde::Serialize) -> usize {
    serde_json::to_vec(part).map_or(0, |bytes| bytes.len())
}
