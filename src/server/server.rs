//! The control server: one thread with one poll loop, which never waits for a client.

use std::ops::Bound;
use std::ops::ControlFlow::{self, Break, Continue};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{SendFlags, SocketFlags};

pub use self::admin::{AdminServer, PendingAdminRequest};
use self::connection::{Connection, ConnectionLog, PendingAnswer, ViewSubscription};
pub use self::limits::ServerLimits;
pub(crate) use self::limits::left_for;
use self::listener::Listener;
pub use self::listener::SocketAccess;
use self::news::{EVENTS, GAZES, News};
use super::directory::{Directory, StreamEntry, ViewEntry};
use super::snapshot::StatsSource;
use super::steering::{SteeringRequest, withdraw};
use super::{ServeError, socket};
use crate::channel::SUBSCRIBERS_PENDING_MAX;
use foveate::ControlError;
use foveate::client::SubscribeOptions;
use foveate::messages::{
    DATAGRAM_BYTES_MAX, Granted, Injected, Looking, Refusal, RefusalReason, SubscriptionEvent,
    ViewName,
};
use foveate_control::{Request, accepted, json_bytes, refused};
use foveate_stats::ServerCounters;

mod admin;
mod connection;
mod limits;
mod listener;
mod news;
mod opening;
mod reaper;

/// Size of a page of a listing, in bytes; one view more is far below the rest of a datagram.
const PAGE_BYTES: usize = 64 * 1024;

/// Views listed in a refusal.
const NAMES_LISTED_MAX: usize = 16;

/// How long a request with `wait` is held before it is answered without a result.
const DECISION_TIMEOUT: Duration = Duration::from_secs(1);

/// Connections accepted per turn, before the open ones are served again.
const ACCEPTED_AT_ONCE: usize = 16;

/// How long a connection without a request is safe from making room for another.
const IDLE_GRACE: Duration = Duration::from_secs(1);

/// How often the memory of opened views is counted, while readers keep some that is old.
const COUNT_MEMORY_PERIOD: Duration = Duration::from_millis(200);

/// How long no connection is accepted after the system ran out of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// Serves a [`Directory`] until it is dropped.
#[derive(Debug)]
pub struct Server {
    path: PathBuf,
    stopping: Arc<AtomicBool>,
    directory: Arc<Directory>,
    stats: Arc<StatsSource>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens on `path` with permissions `access`, and starts to serve within `limits`.
    ///
    /// The directory is created if there is none (mode 0750). A lock file beside the socket is never removed: the holder of its lock
    /// owns the path, so a socket left by a dead daemon is taken over.
    ///
    /// # Errors
    ///
    /// If a running daemon has the path, it is not a socket, or the system refuses, such as for a group that this process is not
    /// in.
    pub fn bind(
        path: &Path,
        directory: Arc<Directory>,
        access: SocketAccess,
        limits: ServerLimits,
    ) -> Result<Self, ServeError> {
        Self::serve(Listener::bind(path, access)?, path, directory, limits)
    }

    /// Starts to serve on a socket that another process, such as a service manager, has bound and listens on. That process sets the
    /// permissions, and the socket outlives the server: clients queue there for the next one.
    ///
    /// # Errors
    ///
    /// If it is not a listening Unix socket of type SOCK_SEQPACKET.
    pub fn adopt(
        socket: OwnedFd,
        directory: Arc<Directory>,
        limits: ServerLimits,
    ) -> Result<Self, ServeError> {
        let (listener, path) = Listener::adopt(socket)?;
        Self::serve(listener, &path, directory, limits)
    }

    fn serve(
        listener: Listener,
        path: &Path,
        directory: Arc<Directory>,
        limits: ServerLimits,
    ) -> Result<Self, ServeError> {
        let stopping = Arc::new(AtomicBool::new(false));
        let stats = Arc::new(StatsSource::new(Arc::clone(&directory)));
        let started = |source| ControlError::io("start the threads that serve", path, source);
        let service = ServerThread {
            listener,
            directory: Arc::clone(&directory),
            limits,
            stats: Arc::clone(&stats),
            connections: Vec::new(),
            clients_seen: 0,
            connection_log: ConnectionLog::new(),
            reaper: reaper::start().map_err(started)?,
            accept_again_at: None,
            count_memory_at: None,
            buffer: vec![0; DATAGRAM_BYTES_MAX],
        };
        let stop = Arc::clone(&stopping);
        let thread = std::thread::Builder::new()
            .name("control".to_owned())
            .spawn(move || service.run(&stop))
            .map_err(started)?;
        tracing::info!(path = %path.display(), "serving");
        Ok(Self { path: path.to_owned(), stopping, directory, stats, thread: Some(thread) })
    }

    /// The path that it listens on.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads what the daemon counts, from any thread.
    pub fn stats(&self) -> &Arc<StatsSource> {
        &self.stats
    }

    /// Counters of the server.
    pub fn counters(&self) -> &ServerCounters {
        self.stats.counters()
    }

    /// Sends pending events, hangs up on all clients, and removes the socket if it created it. Takes milliseconds.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        self.directory.wakeup().signal();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that serves the control socket panicked");
        }
    }
}

#[derive(Debug)]
struct ServerThread {
    listener: Listener,
    directory: Arc<Directory>,
    limits: ServerLimits,
    stats: Arc<StatsSource>,
    connections: Vec<Connection>,
    /// Connections accepted so far.
    clients_seen: u64,
    connection_log: ConnectionLog,
    /// Closes sockets on a thread of its own, which ends only after this is dropped.
    reaper: Sender<OwnedFd>,
    /// The listener is not polled until then; set when the system ran out of descriptors.
    accept_again_at: Option<Instant>,
    /// When to count the memory of opened views again; `None` if readers keep none that is old.
    count_memory_at: Option<Instant>,
    buffer: Vec<u8>,
}

/// Methods that serve a connection break if it has to be closed.
impl ServerThread {
    fn run(mut self, stopping: &AtomicBool) {
        while !stopping.load(Ordering::Relaxed) {
            if let Err(errno) = self.poll_once() {
                tracing::error!(%errno, "polling the control socket failed; no clients are served");
                break;
            }
        }
        self.notify_all();
        for connection in std::mem::take(&mut self.connections) {
            self.close(connection.socket);
        }
        // Waiting clients may have sent descriptors already, which take time to close.
        let _ = self.reaper.send(self.listener.socket);
    }

    /// One iteration of the poll loop.
    fn poll_once(&mut self) -> Result<(), Errno> {
        let ready = self.wait()?;
        self.serve(&ready.connections);
        if ready.wakeup {
            self.directory.wakeup().clear();
            self.notify_all();
        }
        if ready.wakeup || self.count_memory_at.is_some_and(|at| at <= Instant::now()) {
            self.count_memory();
        }
        self.answer_pending();
        if ready.listener {
            self.accept();
        }
        Ok(())
    }

    /// Counts the memory of opened views, without freed memory.
    fn count_memory(&mut self) {
        let is_more = self.directory.forget_memory();
        self.count_memory_at = is_more.then(|| Instant::now() + COUNT_MEMORY_PERIOD);
        let bytes = self
            .directory
            .views_of_clients()
            .iter()
            .map(|view| view.channel().bytes() as u64)
            .sum();
        self.stats.counters().opened_bytes.set(bytes);
    }

    fn wait(&mut self) -> Result<Ready, Errno> {
        let now = Instant::now();
        self.accept_again_at.take_if(|at| *at <= now);
        let interest = PollFlags::IN;
        let accepting = if self.accept_again_at.is_none() { interest } else { PollFlags::empty() };
        let mut entries = vec![
            PollFd::new(self.directory.wakeup().as_ref(), interest),
            PollFd::new(&self.listener.socket, accepting),
        ];
        entries.extend(self.connections.iter().map(|connection| {
            // A client that waits for an answer is polled for hang-ups only.
            let interest =
                if connection.pending_answer.is_some() { PollFlags::empty() } else { interest };
            PollFd::new(&connection.socket, interest)
        }));
        let pending =
            self.connections.iter().filter_map(|connection| connection.pending_answer.as_ref());
        let deadline = pending.map(|pending| pending.until);
        let deadline = deadline.chain(self.accept_again_at).chain(self.count_memory_at).min();
        let pause = deadline.map(|deadline| deadline.saturating_duration_since(now));
        let timeout = pause.and_then(|pause| Timespec::try_from(pause).ok());
        retry_on_intr(|| poll(&mut entries, timeout.as_ref()))?;

        let mut ready = entries.iter().map(|entry| !entry.revents().is_empty());
        Ok(Ready {
            wakeup: ready.next().unwrap_or(false),
            listener: ready.next().unwrap_or(false),
            connections: ready.collect(),
        })
    }

    /// Serves one request of every `ready` connection, so that a busy client does not delay others for long.
    fn serve(&mut self, ready: &[bool]) {
        let mut ready = ready.iter();
        self.for_each(|server, connection| {
            let is_ready = ready.next().copied().unwrap_or(false);
            if is_ready { server.serve_one(connection) } else { Continue(()) }
        });
    }

    /// Calls `serve` for every connection. Those to be closed are closed after the last, because their cleanup depends on which
    /// others remain.
    fn for_each(&mut self, mut serve: impl FnMut(&mut Self, &mut Connection) -> ControlFlow<()>) {
        let mut leaving = Vec::new();
        for mut connection in std::mem::take(&mut self.connections) {
            match serve(self, &mut connection) {
                Continue(()) => self.connections.push(connection),
                Break(()) => leaving.push(connection),
            }
        }
        for connection in leaving {
            self.hang_up(connection);
        }
    }

    fn serve_one(&mut self, connection: &mut Connection) -> ControlFlow<()> {
        if connection.pending_answer.is_some() {
            return Break(());
        }
        let received = match socket::brings_descriptors(&connection.socket) {
            Ok(true) => {
                self.refuse_descriptors(connection);
                return Break(());
            }
            Ok(false) => socket::receive_bytes(&connection.socket, &mut self.buffer),
            Err(errno) => Err(errno),
        };
        let len = match received {
            Ok(0) => return Break(()),
            Ok(len) => len,
            Err(Errno::AGAIN) => return Continue(()),
            Err(_) => return Break(()),
        };
        self.stats.counters().requests.add(1);
        connection.has_asked = true;
        let json_bytes = json_bytes(&self.buffer[..len.min(DATAGRAM_BYTES_MAX)]);
        let limit = self.limits.requests_per_second;
        let cost = json_bytes.div_ceil(1024).max(1);
        let allowed = connection.request_bucket.try_spend(Instant::now(), limit, cost);
        let answer = if allowed {
            self.answer(len, connection)
        } else {
            let error = format!(
                "too many requests (expected at most {limit} a second, counted by the KiB of JSON)"
            );
            Err(Refusal::new(RefusalReason::RateLimit, error))
        };
        if let Some(datagram) = answer.unwrap_or_else(|refusal| Some(self.refusal(&refusal))) {
            self.send(connection, &datagram)?;
        }
        if !allowed {
            return Break(());
        }
        // The segment comes after notices have started: it makes the client look at the ring, and so find a frame that was
        // published too early for a notice.
        connection.start_notices()?;
        self.notify(connection)
    }

    /// Refuses a request with descriptors attached, without reading it. The connection has to be closed.
    fn refuse_descriptors(&self, connection: &Connection) {
        self.stats.counters().requests.add(1);
        let error = "unexpected descriptors with the request (expected none)";
        let refusal = self.refusal(&Refusal::new(RefusalReason::BadRequest, error));
        let _ = self.send(connection, &refusal);
    }

    /// The answer to the datagram of `len` bytes in the buffer; `None` if it comes later.
    fn answer(&self, len: usize, connection: &mut Connection) -> Result<Option<Vec<u8>>, Refusal> {
        let Some(datagram) = self.buffer.get(..len) else {
            let error =
                format!("message too large: {len} bytes (expected at most {DATAGRAM_BYTES_MAX})");
            return Err(Refusal::new(RefusalReason::TooLarge, error));
        };
        let (request, payload) = Request::from_datagram(datagram)?;
        match request {
            Request::Subscribe { view, notify, gaze, events } => self
                .subscribe(connection, view, SubscribeOptions { notify, gaze, events })
                .map(Some),
            Request::List { after } => {
                Ok(Some(accepted(&self.stats.listing_page(after.as_ref(), PAGE_BYTES))))
            }
            Request::Stats { after } => {
                Ok(Some(accepted(&self.stats.stats_page(after.as_deref(), PAGE_BYTES))))
            }
            Request::Look(look) => {
                self.steer(connection, &look.view, look.wait, |steering| steering.look(&look))
            }
            Request::Attend(attend) => {
                self.steer(connection, &attend.view, attend.wait, |steering| {
                    steering.attend(&attend, payload)
                })
            }
            Request::AttendTokens(attend) => {
                self.steer(connection, &attend.view, attend.wait, |steering| {
                    steering.attend_tokens(&attend, payload)
                })
            }
            Request::Inject(inject) => {
                let steer = |steering: SteeringRequest<'_>| steering.inject(&inject, payload);
                let (_, taken_for) = self.steer_with(connection, &inject.view, steer)?;
                Ok(Some(accepted(&Injected { view: inject.view, taken_for })))
            }
            Request::Weigh(weigh) => {
                self.steer_with(connection, &weigh.view, |steering| steering.weigh(&weigh))?;
                Ok(Some(accepted(&Granted { view: weigh.view })))
            }
            Request::Release { view } => {
                self.steer_with(connection, &view, |steering| steering.release())?;
                Ok(Some(accepted(&Granted { view })))
            }
            Request::Refresh { view } => {
                self.steer_with(connection, &view, |steering| steering.refresh())?;
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
        wants: SubscribeOptions,
    ) -> Result<Vec<u8>, Refusal> {
        if let Some(present) = &connection.subscription {
            let error = format!(
                "this connection has subscribed to `{}` already: connect again for another view",
                present.view.name()
            );
            return Err(Refusal::new(RefusalReason::AlreadySubscribed, error));
        }
        let (stream, view) = self.find(&name)?;
        if wants.notify && view.channel().subscriber_queue_is_full() {
            let error = format!(
                "view `{name}` does not publish, and {SUBSCRIBERS_PENDING_MAX} subscribers are waiting already: try again later"
            );
            return Err(Refusal::new(RefusalReason::Busy, error));
        }
        if wants.gaze {
            view.channel().gazes.set_wanted(true);
        }
        if wants.events {
            view.channel().events.set_wanted(true);
        }
        view.channel().counters().subscribers.add(1);
        connection.subscription = Some(ViewSubscription::new(stream, view, wants));
        Ok(accepted(&Granted { view: name }))
    }

    /// Lets the client of `connection` steer a view. With `wait` the answer comes later, with the fixation that follows.
    fn steer(
        &self,
        connection: &mut Connection,
        name: &ViewName,
        wait: bool,
        steer: impl FnOnce(SteeringRequest<'_>) -> Result<(u64, Looking), Refusal>,
    ) -> Result<Option<Vec<u8>>, Refusal> {
        let (view, (ticket, looking)) = self.steer_with(connection, name, steer)?;
        let Looking { points, taken_for, .. } = &looking;
        tracing::debug!(view = %name, ?points, ?taken_for, "feedback accepted");
        if !wait {
            return Ok(Some(accepted(&looking)));
        }
        view.channel().set_awaited(true);
        let until = Instant::now() + DECISION_TIMEOUT;
        connection.pending_answer = Some(PendingAnswer { view, ticket, looking, until });
        Ok(None)
    }

    /// Lets the client of `connection` steer a view, and counts a refusal in the view.
    fn steer_with<T>(
        &self,
        connection: &mut Connection,
        name: &ViewName,
        steer: impl FnOnce(SteeringRequest<'_>) -> Result<T, Refusal>,
    ) -> Result<(Arc<ViewEntry>, T), Refusal> {
        let (stream, view) = self.find(name)?;
        let limit = self.limits.feedback_per_second;
        let steered = if connection.feedback_bucket.try_spend(Instant::now(), limit, 1) {
            steer(SteeringRequest { stream: &stream, view: &view, client: &connection.client })
        } else {
            let error = format!(
                "too much feedback (expected at most {limit} messages a second): send only the newest"
            );
            Err(Refusal::new(RefusalReason::RateLimit, error))
        };
        let steered =
            steered.inspect_err(|refusal| view.steering().lock().refuse(refusal.reason))?;
        Ok((view, steered))
    }

    fn find(&self, name: &ViewName) -> Result<(Arc<StreamEntry>, Arc<ViewEntry>), Refusal> {
        self.directory.find(name).ok_or_else(|| {
            let names = self.directory.views();
            let listed = names.iter().take(NAMES_LISTED_MAX);
            let listed = listed.map(|view| format!("`{}`", view.name()));
            let listed = listed.collect::<Vec<_>>().join(", ");
            let more = if NAMES_LISTED_MAX < names.len() { ", ..." } else { "" };
            let error = format!("unknown view `{name}` (expected one of: {listed}{more})");
            Refusal::new(RefusalReason::UnknownView, error)
        })
    }

    /// Sends all subscribers the news since the last call.
    fn notify_all(&mut self) {
        let (gazes, events) = (GAZES.drain(&self.connections), EVENTS.drain(&self.connections));
        self.for_each(|server, connection| {
            server.send_news(connection, &GAZES, &gazes)?;
            server.send_news(connection, &EVENTS, &events)?;
            server.notify(connection)
        });
    }

    /// Sends a subscriber what is of its view among `taken`.
    fn send_news<T>(
        &self,
        connection: &Connection,
        news: &News<T>,
        taken: &[(Arc<ViewEntry>, Vec<T>)],
    ) -> ControlFlow<()> {
        let Some((view, lost_before)) = news.subscribed(connection) else { return Continue(()) };
        let lost = (news.inbox)(view.channel()).lost() - lost_before;
        let items = taken.iter().filter(|(other, _)| Arc::ptr_eq(other, view));
        items.flat_map(|(_, items)| items).try_for_each(|item| {
            let event = (news.event)(view.name(), item, lost);
            self.send(connection, &event.to_datagram())
        })
    }

    /// Sends the pending answers that are decided or have timed out.
    fn answer_pending(&mut self) {
        let now = Instant::now();
        let mut answered = Vec::new();
        self.for_each(|server, connection| {
            let Some(pending) = connection.pending_answer.take_if(|pending| pending.is_due(now))
            else {
                return Continue(());
            };
            let sent = server.send(connection, &pending.answer());
            answered.push(pending.view);
            sent
        });
        for view in answered {
            self.update_awaited(&view);
        }
    }

    /// The view wakes the server for its fixations only while an answer is pending on it.
    fn update_awaited(&self, view: &Arc<ViewEntry>) {
        let mut pending = self.connections.iter().filter_map(|other| other.pending_answer.as_ref());
        if pending.all(|pending| !Arc::ptr_eq(&pending.view, view)) {
            view.channel().set_awaited(false);
        }
    }

    /// Sends a subscriber the segment or the end of its view, unless it has been sent.
    fn notify(&self, connection: &mut Connection) -> ControlFlow<()> {
        let Some(subscription) = &mut connection.subscription else {
            return Continue(());
        };
        let name = subscription.view.name();
        if let Some(segment) = subscription.view.channel().segment()
            && subscription.sent_epoch != Some(segment.epoch)
        {
            subscription.sent_epoch = Some(segment.epoch);
            // A new segment may end in its turn.
            subscription.sent_end = false;
            let event = SubscriptionEvent::Segment { view: name.clone(), epoch: segment.epoch };
            let descriptor = Some(segment.descriptor.as_fd());
            let sent = socket::send(
                &connection.socket,
                &event.to_datagram(),
                descriptor,
                SendFlags::DONTWAIT,
            );
            self.check_sent(sent)?;
        }
        let end_reason = subscription.end_reason();
        let was_sent = std::mem::replace(&mut subscription.sent_end, end_reason.is_some());
        match end_reason {
            Some(reason) if !was_sent => {
                let event = SubscriptionEvent::Ended { view: name.clone(), reason };
                self.send(connection, &event.to_datagram())
            }
            _ => Continue(()),
        }
    }

    /// Closes a connection and releases what it holds.
    fn hang_up(&mut self, connection: Connection) {
        self.stats.counters().clients.remove(1);
        let number = connection.client.number;
        for stream in self.directory.streams_from(Bound::Unbounded) {
            for view in stream.views() {
                view.steering().lock().release(number);
                withdraw(&stream, &view, number);
            }
        }
        if 0 < connection.opened {
            for stream in self.directory.streams_from(Bound::Unbounded) {
                stream.close_views_of(number);
            }
            self.directory.wakeup().signal();
        }
        GAZES.leave(&connection, &self.connections);
        EVENTS.leave(&connection, &self.connections);
        if let Some(pending) = &connection.pending_answer {
            self.update_awaited(&pending.view);
        }
        self.close(connection.socket);
        if let Some(subscription) = &connection.subscription {
            subscription.view.channel().drop_closed_subscribers();
            subscription.view.channel().counters().subscribers.remove(1);
        }
    }

    fn send(&self, connection: &Connection, datagram: &[u8]) -> ControlFlow<()> {
        self.check_sent(socket::send(&connection.socket, datagram, None, SendFlags::DONTWAIT))
    }

    /// A client whose socket is full is dropped, never waited for.
    fn check_sent(&self, sent: Result<(), Errno>) -> ControlFlow<()> {
        match sent {
            Ok(()) => Continue(()),
            Err(Errno::AGAIN) => {
                self.stats.counters().clients_dropped.add(1);
                tracing::warn!("dropping a client that does not read its socket");
                Break(())
            }
            // It has hung up.
            Err(_) => Break(()),
        }
    }

    /// Accepts waiting connections; those above the limits are refused.
    fn accept(&mut self) {
        for _ in 0..ACCEPTED_AT_ONCE {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket = match rustix::net::accept_with(&self.listener.socket, flags) {
                Ok(socket) => socket,
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                Err(Errno::AGAIN) => return,
                Err(errno) => {
                    tracing::warn!(%errno, "cannot accept a client; retrying in a second");
                    self.accept_again_at = Some(Instant::now() + ACCEPT_PAUSE);
                    return;
                }
            };
            if socket::is_source_process(&socket) {
                self.close(socket);
                continue;
            }
            let connection = Connection::new(socket, self.clients_seen + 1, self.limits);
            if !self.make_room(connection.client.user) {
                let (present, most) = (self.connections.len(), self.limits.clients);
                let error = if present < most {
                    format!(
                        "too many connections for this user (of {most} some are kept for others): close one"
                    )
                } else {
                    format!("too many clients: {present} are connected; try again later")
                };
                self.turn_away(connection, error);
                continue;
            }
            self.stats.counters().clients_accepted.add(1);
            self.clients_seen += 1;
            self.stats.counters().clients.add(1);
            self.connection_log.note(&connection);
            self.connections.push(connection);
        }
    }

    /// Whether there is room for a connection of `user`, if need be that of one that has never sent a request.
    fn make_room(&mut self, user: u32) -> bool {
        if self.has_room(user, None) {
            return true;
        }
        let idle = |connection: &Connection| {
            !connection.has_asked && IDLE_GRACE <= connection.since.elapsed()
        };
        let evicted = (0..self.connections.len())
            .find(|&index| idle(&self.connections[index]) && self.has_room(user, Some(index)));
        let Some(index) = evicted else { return false };
        let connection = self.connections.remove(index);
        tracing::warn!(
            client = connection.client.name,
            "closing a connection that has sent no request, to make room for another"
        );
        let counters = self.stats.counters();
        counters.clients.remove(1);
        counters.clients_evicted.add(1);
        let error = "closed without a request, to make room for another client: connect again when there is one";
        self.turn_away(connection, error.to_owned());
        true
    }

    /// Whether `user` may have one more connection, without that at index `except`.
    fn has_room(&self, user: u32, except: Option<usize>) -> bool {
        let users = self.connections.iter().map(|connection| connection.client.user).enumerate();
        let held = users.filter(|(index, _)| Some(*index) != except);
        let open = held.map(|(_, user)| (user, 1));
        0 < left_for(user, self.limits.clients, open)
    }

    /// Closes a connection that holds nothing, and tells the client why.
    fn turn_away(&self, connection: Connection, error: String) {
        let refusal = self.refusal(&Refusal::new(RefusalReason::TooManyClients, error));
        // Fails only if the client is gone: a new socket has room.
        let _ = socket::send(&connection.socket, &refusal, None, SendFlags::DONTWAIT);
        self.close(connection.socket);
    }

    /// Closes a connection for all holders of its socket; what was sent still reaches the peer.
    fn close(&self, socket: OwnedFd) {
        socket::shut_down(&socket);
        if !socket::drain(&socket) {
            let _ = self.reaper.send(socket);
        }
    }

    /// Counts a refusal, and returns its datagram.
    fn refusal(&self, refusal: &Refusal) -> Vec<u8> {
        self.stats.count_refusal(refusal.reason);
        tracing::debug!(error = refusal.error, "refused");
        refused(refusal)
    }
}

/// The result of a poll.
struct Ready {
    wakeup: bool,
    listener: bool,
    connections: Vec<bool>,
}
