//! A client of the daemon's socket, for tools and readers in Rust.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use foveate::client::{Client, Next};
//! use foveate::ring::TokenFrameBuf;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::connect(&foveate::socket_path(None))?;
//! let mut subscription = client.subscribe(&"camera/main".parse()?, false)?;
//! let mut frame = TokenFrameBuf::default();
//! loop {
//!     match subscription.next_frame(&mut frame, Duration::from_secs(1))? {
//!         Next::Frame { .. } => println!("{} tokens", frame.records.len()),
//!         Next::NewSegment | Next::TimedOut => {}
//!         Next::Ended(reason) => break println!("the stream ended: {reason}"),
//!     }
//! }
//! # Ok(())
//! # }
//! ```

use std::error::Error;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{RecvFlags, SendFlags, SocketFlags};
use serde_core::Serialize;
use serde_core::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Map, Value, json};

use super::messages::{
    Attend, AttendTokens, DATAGRAM_BYTES_MAX, FromDaemon, GazeEvent, Granted, Inject, Injected,
    Look, Looking, Refusal, RefusalReason, SceneEvent, SubscriptionEvent, ViewName, Weigh,
    is_coming_back,
};
use super::reconnector::Reconnector;
use super::{ControlError, socket};
use foveate_ring::{ReadOutcome, Reader, RingError, TokenFrameBuf};

/// Default time limit for an answer.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// A connection for requests and answers. No call takes much longer than [`ANSWER_TIMEOUT`], or the timeout it was connected
/// with.
#[derive(Debug)]
pub struct Client {
    socket: OwnedFd,
    path: PathBuf,
    buffer: Vec<u8>,
    timeout: Duration,
}

impl Client {
    /// Connects to the daemon that listens on `path`.
    ///
    /// # Errors
    ///
    /// If there is no daemon, or the user lacks permission.
    pub fn connect(path: &Path) -> Result<Self, ControlError> {
        Self::connect_for(path, ANSWER_TIMEOUT)
    }

    /// Connects to the daemon that listens on `path`, with a time limit for each answer.
    ///
    /// # Errors
    ///
    /// As [`Client::connect`].
    pub fn connect_for(path: &Path, timeout: Duration) -> Result<Self, ControlError> {
        let address = socket::address(path)?;
        let failed = |errno| connect_error(path, timeout, errno);
        let socket = socket::unconnected(SocketFlags::empty()).map_err(failed)?;
        for direction in [Timeout::Send, Timeout::Recv] {
            set_socket_timeout(&socket, direction, Some(timeout)).map_err(failed)?;
        }
        retry_on_intr(|| rustix::net::connect(&socket, &address)).map_err(failed)?;
        Ok(Self { socket, path: path.to_owned(), buffer: vec![0; DATAGRAM_BYTES_MAX], timeout })
    }

    /// Makes a view look at points, and returns the nearest valid ones, which are its fixations from the next frame on.
    ///
    /// # Errors
    ///
    /// If the daemon does not answer or refuses, if the points are not 1 to 8, and if shares of the sides are not within 0 to 1.
    pub fn look(&mut self, look: Look) -> Result<Looking, ControlError> {
        look.check().map_err(ControlError::Refused)?;
        self.request(&operation("look", &look), &[])
    }

    /// Makes a view look at the peaks of a map. `numbers` are its rows, in the format that `attend` states.
    ///
    /// # Errors
    ///
    /// If the daemon does not answer or refuses.
    pub fn attend(&mut self, attend: Attend, numbers: &[u8]) -> Result<Looking, ControlError> {
        attend.ego_motion().map_err(ControlError::Refused)?;
        self.request(&operation("attend", &attend), numbers)
    }

    /// Makes a view look at the tokens of a frame with the highest score. `scores` has one number per token, in the order of the
    /// frame and the format that `attend` states; anything after that is padding.
    ///
    /// # Errors
    ///
    /// If the daemon does not answer or refuses.
    pub fn attend_tokens(
        &mut self,
        attend: AttendTokens,
        scores: &[u8],
    ) -> Result<Looking, ControlError> {
        attend.ego_motion().map_err(ControlError::Refused)?;
        self.request(&operation("attend_tokens", &attend), scores)
    }

    /// Gives a view a map by name. `numbers` are its rows, in the format that `inject` states. The name is this connection's until the
    /// map's time is over.
    ///
    /// # Errors
    ///
    /// If the daemon does not answer or refuses.
    pub fn inject(&mut self, inject: Inject, numbers: &[u8]) -> Result<Injected, ControlError> {
        self.request(&operation("inject", &inject), numbers)
    }

    /// Sets what channels of a view add to its score.
    ///
    /// # Errors
    ///
    /// If the daemon does not answer or refuses.
    pub fn weigh(&mut self, weigh: Weigh) -> Result<(), ControlError> {
        self.request(&operation("weigh", &weigh), &[]).map(|Granted { .. }| ())
    }

    /// Returns control of a view to its policy and to other clients.
    ///
    /// # Errors
    ///
    /// If the daemon does not answer or refuses.
    pub fn release(&mut self, view: &ViewName) -> Result<(), ControlError> {
        self.request(&json!({ "op": "release", "view": view }), &[]).map(|Granted { .. }| ())
    }

    /// Has a view with `memory = "canvas"` forget, within a second of stream time, what it takes for delivered, for a
    /// [canvas](crate::ring::canvas) that joined late or missed frames.
    ///
    /// # Errors
    ///
    /// If the daemon does not answer or refuses.
    pub fn refresh(&mut self, view: &ViewName) -> Result<(), ControlError> {
        self.request(&json!({ "op": "refresh", "view": view }), &[]).map(|Granted { .. }| ())
    }

    /// Opens a view on a stream for the life of this connection, and returns its address. `view` has the keys of a `[[stream.view]]`
    /// of a configuration; without a `name` it is given one.
    ///
    /// # Errors
    ///
    /// If the daemon does not answer or refuses.
    pub fn open_view(
        &mut self,
        stream: &str,
        view: Map<String, Value>,
    ) -> Result<ViewName, ControlError> {
        let request = json!({ "op": "open_view", "stream": stream, "view": view });
        self.request(&request, &[]).map(|Granted { view }| view)
    }

    /// Subscribes to `view`. With `notify`, the subscription's descriptor becomes readable with every frame.
    ///
    /// # Errors
    ///
    /// If the daemon does not answer or refuses.
    pub fn subscribe(self, view: &ViewName, notify: bool) -> Result<Subscription, ControlError> {
        self.subscribe_to(view, SubscribeOptions { notify, ..SubscribeOptions::default() })
    }

    /// Subscribes to `view` with these options.
    ///
    /// # Errors
    ///
    /// If the daemon does not answer or refuses.
    pub fn subscribe_to(
        mut self,
        view: &ViewName,
        options: SubscribeOptions,
    ) -> Result<Subscription, ControlError> {
        let mut subscription = Subscription::new(&self.path, view, options);
        let Granted { .. } = self.request(&subscription.request(), &[])?;
        subscription.connection = Connection::Granted(self.socket);
        Ok(subscription)
    }

    /// Sends a request, a JSON object with an `op`, and its raw bytes, and waits for the answer.
    ///
    /// # Errors
    ///
    /// If the daemon does not answer or refuses.
    ///
    /// # Panics
    ///
    /// If `request` cannot be serialized as JSON.
    pub fn request<T: DeserializeOwned>(
        &mut self,
        request: &impl Serialize,
        payload: &[u8],
    ) -> Result<T, ControlError> {
        let mut datagram = serde_json::to_vec(request).expect("a request is JSON");
        if !payload.is_empty() {
            datagram.push(b'\n');
            datagram.extend_from_slice(payload);
        }
        if DATAGRAM_BYTES_MAX < datagram.len() {
            let error = format!(
                "a message of {} bytes exceeds the limit of {DATAGRAM_BYTES_MAX}",
                datagram.len()
            );
            return Err(ControlError::Refused(Refusal::new(RefusalReason::TooLarge, error)));
        }
        match socket::send(&self.socket, &datagram, None, SendFlags::empty()) {
            // A daemon that rejects a client says why before it hangs up.
            Ok(()) | Err(Errno::PIPE | Errno::CONNRESET) => {}
            Err(Errno::AGAIN) => return Err(timed_out(self.timeout)),
            Err(errno) => return Err(ControlError::io("send to", &self.path, errno)),
        }
        match self.receive()? {
            FromDaemon::Accepted(answer) => Ok(answer),
            FromDaemon::Refused(refusal) => Err(ControlError::Refused(refusal)),
            FromDaemon::Event(_) | FromDaemon::Notice => Err(ControlError::NotUnderstood {
                detail: "an event for a client that has not subscribed".to_owned(),
            }),
        }
    }

    fn receive<T: DeserializeOwned>(&mut self) -> Result<FromDaemon<T>, ControlError> {
        match socket::receive(&self.socket, &mut self.buffer, RecvFlags::empty()) {
            Ok((0, _)) => Err(ControlError::Disconnected),
            Ok((len, _)) => parsed(&self.buffer, len),
            Err(Errno::AGAIN) => Err(timed_out(self.timeout)),
            Err(Errno::CONNRESET) => Err(ControlError::Disconnected),
            Err(errno) => Err(ControlError::io("receive from", &self.path, errno)),
        }
    }
}

impl ControlError {
    /// Whether a retry may succeed: there is no daemon, it is starting or stopping, it does not answer, it does not know the frame
    /// yet, or it has too many clients, which may include some that have just disconnected.
    ///
    /// A loop that steers and survives a restart of the daemon skips such errors, and [connects](Client::connect) again after all
    /// but [`ControlError::Refused`].
    pub fn is_transient(&self) -> bool {
        match self {
            Self::NoDaemon { .. } | Self::TimedOut { .. } | Self::Disconnected => true,
            Self::Refused(Refusal { reason, .. }) => matches!(
                reason,
                RefusalReason::Busy
                    | RefusalReason::NotStarted
                    | RefusalReason::TooManyClients
                    | RefusalReason::Unavailable
                    | RefusalReason::UnknownFrame
            ),
            _ => false,
        }
    }
}

/// Messages that a subscriber gets beside segments and the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubscribeOptions {
    /// A notice with every frame, so that the subscription's descriptor becomes readable.
    pub notify: bool,
    /// Changes of the gaze: see [`Subscription::take_gazes`].
    pub gaze: bool,
    /// Events in the picture: see [`Subscription::take_events`].
    pub events: bool,
}

/// Result of waiting for a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// A token frame was read.
    Frame {
        /// Frames that were published since the last one read and not read: skipped by [`Subscription::next_frame`], or overwritten before
        /// [`Subscription::next_in_order`] reached them.
        missed: u64,
    },
    /// The view publishes in another segment from now on, including the first: [`Subscription::reader`] has changed.
    NewSegment,
    /// The time-out elapsed.
    TimedOut,
    /// The view has stopped publishing, for this reason, and every frame has been read.
    Ended(String),
}

/// An error of a subscription.
#[derive(Debug)]
#[non_exhaustive]
pub enum SubscriptionError {
    /// The connection was closed, or the daemon died: call [`Subscription::reconnect`]. For a subscription that
    /// [reconnects](Subscription::reconnecting), no daemon has answered within the time-out: read on.
    Disconnected,

    /// The ring cannot be read.
    Ring(RingError),

    /// A message of the daemon cannot be read.
    Control(ControlError),
}

impl fmt::Display for SubscriptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disconnected => {
                f.write_str("the daemon is gone: it has stopped, or it dropped this connection")
            }
            Self::Ring(_) => f.write_str("cannot read the view's segment"),
            Self::Control(error) => error.fmt(f),
        }
    }
}

impl Error for SubscriptionError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Disconnected => None,
            Self::Ring(error) => Some(error),
            Self::Control(error) => error.source(),
        }
    }
}

impl From<RingError> for SubscriptionError {
    fn from(error: RingError) -> Self {
        Self::Ring(error)
    }
}

impl From<ControlError> for SubscriptionError {
    fn from(error: ControlError) -> Self {
        Self::Control(error)
    }
}

/// Whether and how a subscription has ended.
#[derive(Debug)]
enum Ending {
    None,
    /// The daemon ended it, for this reason.
    Ended(String),
    /// The connection closed without a reason.
    HungUp,
}

/// Connection of a subscription to its daemon.
#[derive(Debug)]
enum Connection {
    /// There is no connection; a subscription that reconnects looks for the daemon.
    Away,
    /// The daemon was asked for a subscription and has not answered yet.
    Requested(OwnedFd),
    /// The daemon has granted the subscription.
    Granted(OwnedFd),
}

impl Connection {
    fn socket(&self) -> Option<&OwnedFd> {
        match self {
            Self::Away => None,
            Self::Requested(socket) | Self::Granted(socket) => Some(socket),
        }
    }

    /// Removes the socket.
    fn take_socket(&mut self) -> Option<OwnedFd> {
        match std::mem::replace(self, Self::Away) {
            Self::Away => None,
            Self::Requested(socket) | Self::Granted(socket) => Some(socket),
        }
    }

    /// Notes the daemon's answer; false if no answer was due.
    fn grant(&mut self) -> bool {
        let is_due = matches!(self, Self::Requested(_));
        if is_due {
            *self = self.take_socket().map_or(Self::Away, Self::Granted);
        }
        is_due
    }
}

/// A subscription to a view: its connection, and the ring received over it.
///
/// Dropping it ends the subscription.
#[derive(Debug)]
pub struct Subscription {
    connection: Connection,
    /// Reopens the connection; `None` if the subscription does not reconnect.
    reconnector: Option<Reconnector>,
    path: PathBuf,
    buffer: Vec<u8>,
    view: ViewName,
    options: SubscribeOptions,
    reader: Option<Reader>,
    /// The reader of the next ring, which replaces `reader` once that has read every frame.
    next_reader: Option<Reader>,
    /// Whether no ring has arrived over this connection yet. The ring of `reader`, if any, then came over an earlier connection.
    awaits_segment: bool,
    gazes: Vec<GazeEvent>,
    events: Vec<SceneEvent>,
    ending: Ending,
    /// Frames captured longer ago than this are skipped.
    max_age: Option<Duration>,
    /// Frames that were skipped as too old since the last one returned.
    skipped: u64,
}

impl Subscription {
    /// A subscription to `view` that connects and reconnects automatically to the daemon that listens on `path`.
    ///
    /// Each read tries to connect, at most ten times a second. It returns [`SubscriptionError::Disconnected`] if no daemon
    /// answers within its time-out; keep reading. The descriptor never changes; it becomes readable when a read is due, and
    /// with `notify` for every frame.
    ///
    /// Does not wait: a refusal, such as that of an unknown view, is returned by reads.
    ///
    /// # Errors
    ///
    /// If the path is too long, or there are too many open files.
    pub fn reconnecting(path: &Path, view: &ViewName, notify: bool) -> Result<Self, ControlError> {
        socket::address(path)?;
        let failed = |errno| ControlError::io("wait for", path, errno);
        let reconnector = Reconnector::new().map_err(failed)?;
        let mut subscription =
            Self::new(path, view, SubscribeOptions { notify, ..SubscribeOptions::default() });
        subscription.reconnector = Some(reconnector);
        subscription.hang_up();
        Ok(subscription)
    }

    /// A subscription that has no connection yet.
    fn new(path: &Path, view: &ViewName, options: SubscribeOptions) -> Self {
        Self {
            connection: Connection::Away,
            reconnector: None,
            path: path.to_owned(),
            buffer: vec![0; DATAGRAM_BYTES_MAX],
            view: view.clone(),
            options,
            reader: None,
            next_reader: None,
            awaits_segment: true,
            gazes: Vec::new(),
            events: Vec::new(),
            ending: Ending::None,
            max_age: None,
            skipped: 0,
        }
    }

    /// The request that subscribes.
    fn request(&self) -> Value {
        let Self { view, options: SubscribeOptions { notify, gaze, events }, .. } = self;
        let mut request =
            json!({ "op": "subscribe", "view": view, "notify": notify, "gaze": gaze });
        // An older daemon refuses unknown fields.
        if *events {
            request["events"] = json!(true);
        }
        request
    }

    /// Whether a subscription that [reconnects](Self::reconnecting) has no daemon: it is gone, or has not answered yet.
    pub fn is_disconnected(&self) -> bool {
        self.reconnector.is_some() && !matches!(self.connection, Connection::Granted(_))
    }

    /// Skips frames captured longer ago than this, and counts them as missed: a robot must not act on outdated frames. There is no
    /// limit initially; [`FrameHead::age`](foveate_ring::FrameHead::age) is the age of a frame.
    pub fn set_max_age(&mut self, max_age: Option<Duration>) {
        self.max_age = max_age;
    }

    /// The gaze events since the last call, if the subscription [asked for them](SubscribeOptions::gaze). They arrive while
    /// frames are read.
    pub fn take_gazes(&mut self) -> Vec<GazeEvent> {
        std::mem::take(&mut self.gazes)
    }

    /// The picture events since the last call, if the subscription [asked for them](SubscribeOptions::events). They arrive
    /// while frames are read.
    pub fn take_events(&mut self) -> Vec<SceneEvent> {
        std::mem::take(&mut self.events)
    }

    /// Subscribes again with the original options: after [`SubscriptionError::Disconnected`], or after an end with reason
    /// [`DAEMON_STOPPED`](super::messages::DAEMON_STOPPED).
    ///
    /// Tries once; retries are up to the caller. It fails at once if there is no daemon, and after [`ANSWER_TIMEOUT`] if it does not
    /// answer; [`ControlError::is_transient`] tells whether a retry may succeed. Frames left in the current ring are read before
    /// [`Next::NewSegment`], also between tries. If the daemon only dropped the connection, there is no new segment: reading
    /// continues in the current ring.
    ///
    /// # Errors
    ///
    /// If there is no daemon, or it does not answer or refuses. The subscription is then as it was.
    pub fn reconnect(&mut self) -> Result<(), ControlError> {
        let client = Client::connect(&self.path)?;
        let Self { connection, .. } = client.subscribe_to(&self.view, self.options)?;
        self.hang_up();
        self.adopt(connection)
    }

    /// Replaces the connection, and waits for the segment that comes over the new one.
    fn adopt(&mut self, connection: Connection) -> Result<(), ControlError> {
        if let (Some(reconnector), Some(socket)) = (&self.reconnector, connection.socket()) {
            reconnector
                .watch(socket)
                .map_err(|errno| ControlError::io("watch a connection to", &self.path, errno))?;
        }
        self.connection = connection;
        self.awaits_segment = true;
        self.ending = Ending::None;
        Ok(())
    }

    /// Drops the connection, if it can be replaced.
    fn hang_up(&mut self) {
        let Some(reconnector) = &self.reconnector else { return };
        if let Some(socket) = self.connection.take_socket() {
            reconnector.unwatch(socket).expect("the socket is watched");
        }
        if !self.is_over() {
            reconnector.wake_when_due().expect("a timer can be set");
        }
    }

    /// Connects and asks for a subscription, without waiting for the answer, if there is no connection and it is time to.
    fn look_for_daemon(&mut self) -> Result<(), ControlError> {
        if self.is_over() || self.connection.socket().is_some() {
            return Ok(());
        }
        if !self.reconnector.as_mut().is_some_and(Reconnector::begin_attempt) {
            return Ok(());
        }
        match self.request_subscription() {
            Ok(socket) => self.adopt(Connection::Requested(socket))?,
            Err(error) => {
                self.hang_up();
                if !error.is_transient() {
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Whether the view has ended for a reason after which it does not come back.
    fn is_over(&self) -> bool {
        matches!(&self.ending, Ending::Ended(reason) if !is_coming_back(reason))
    }

    /// Connects and asks for a subscription, and returns the connection without waiting for the answer. A local socket accepts a connection
    /// at once, or fails if its queue is full.
    fn request_subscription(&self) -> Result<OwnedFd, ControlError> {
        let failed = |errno| connect_error(&self.path, Duration::ZERO, errno);
        let address = socket::address(&self.path)?;
        let socket = socket::unconnected(SocketFlags::NONBLOCK).map_err(failed)?;
        retry_on_intr(|| rustix::net::connect(&socket, &address)).map_err(failed)?;
        let request = serde_json::to_vec(&self.request()).expect("a request is JSON");
        match socket::send(&socket, &request, None, SendFlags::DONTWAIT) {
            // A daemon that rejects a client says why before it hangs up.
            Ok(()) | Err(Errno::PIPE | Errno::CONNRESET) => Ok(socket),
            Err(errno) => Err(failed(errno)),
        }
    }

    /// The subscribed view.
    pub fn view(&self) -> &ViewName {
        &self.view
    }

    /// The ring in use; `None` until the first [`Next::NewSegment`].
    pub fn reader(&self) -> Option<&Reader> {
        self.reader.as_ref()
    }

    /// Waits at most `timeout` for an event; if that is a new frame, copies the newest one into `frame`.
    ///
    /// Frames come before an end and before a new segment: everything published is read first. A hang-up is noticed within 100 ms.
    ///
    /// # Errors
    ///
    /// If the daemon is gone or what it sent cannot be read.
    pub fn next_frame(
        &mut self,
        frame: &mut TokenFrameBuf,
        timeout: Duration,
    ) -> Result<Next, SubscriptionError> {
        self.next_fresh(frame, timeout, Reader::read_newest)
    }

    /// Like [`Subscription::next_frame`], but for every frame: copies the oldest unread one that is still in the ring.
    ///
    /// # Errors
    ///
    /// As [`Subscription::next_frame`].
    pub fn next_in_order(
        &mut self,
        frame: &mut TokenFrameBuf,
        timeout: Duration,
    ) -> Result<Next, SubscriptionError> {
        self.next_fresh(frame, timeout, Reader::read_next)
    }

    /// Copies the frame captured nearest to `capture_ns` (CLOCK_MONOTONIC, in nanoseconds) into `frame`, even if read before and
    /// however old, as [`Reader::read_nearest`] does: to match another sensor's data. Waits at most `timeout`, and only while there
    /// is no frame at all.
    ///
    /// # Errors
    ///
    /// As [`Subscription::next_frame`].
    pub fn nearest_frame(
        &mut self,
        capture_ns: u64,
        frame: &mut TokenFrameBuf,
        timeout: Duration,
    ) -> Result<Next, SubscriptionError> {
        self.next(timeout, |reader| {
            let found = reader.read_nearest(capture_ns, frame)?;
            Ok(if found { ReadOutcome::Frame { missed: 0 } } else { ReadOutcome::Nothing })
        })
    }

    /// Waits for a frame within the age limit.
    fn next_fresh(
        &mut self,
        frame: &mut TokenFrameBuf,
        timeout: Duration,
        read: impl Fn(&mut Reader, &mut TokenFrameBuf) -> Result<ReadOutcome, RingError>,
    ) -> Result<Next, SubscriptionError> {
        let started = Instant::now();
        loop {
            let left = timeout.saturating_sub(started.elapsed());
            let next = self.next(left, |reader| read(reader, frame))?;
            let Next::Frame { missed } = next else { return Ok(next) };
            let missed = missed + std::mem::take(&mut self.skipped);
            if self.max_age.is_none_or(|most| frame.head.age() <= most) {
                return Ok(Next::Frame { missed });
            }
            self.skipped = missed + 1;
        }
    }

    fn next(
        &mut self,
        timeout: Duration,
        mut read: impl FnMut(&mut Reader) -> Result<ReadOutcome, RingError>,
    ) -> Result<Next, SubscriptionError> {
        let started = Instant::now();
        loop {
            self.look_for_daemon()?;
            // Before reading frames: a replaced segment gets no more.
            self.take_messages()?;
            if let Some(reader) = &mut self.reader {
                match read(reader) {
                    Ok(ReadOutcome::Frame { missed }) => return Ok(Next::Frame { missed }),
                    // Errors of a replaced segment no longer matter.
                    Ok(_) => {}
                    Err(_) if self.next_reader.is_some() => {}
                    Err(error) => return Err(error.into()),
                }
            }
            if let Some(next_reader) = self.next_reader.take() {
                self.reader = Some(next_reader);
                self.skipped = 0;
                return Ok(Next::NewSegment);
            }
            match &self.ending {
                Ending::None => {}
                Ending::Ended(reason) if self.reconnector.is_some() && is_coming_back(reason) => {
                    // The reason says that the daemon stops, so do not wait for the hang-up.
                    self.ending = Ending::HungUp;
                    self.hang_up();
                }
                Ending::Ended(reason) => return Ok(Next::Ended(reason.clone())),
                Ending::HungUp if self.reconnector.is_some() => {}
                Ending::HungUp => return Err(SubscriptionError::Disconnected),
            }
            let left = timeout.saturating_sub(started.elapsed());
            if left.is_zero() {
                return if self.is_disconnected() {
                    Err(SubscriptionError::Disconnected)
                } else {
                    Ok(Next::TimedOut)
                };
            }
            self.wait(left)?;
        }
    }

    /// Waits briefly for a frame, or for a message until the connection has delivered a segment.
    fn wait(&self, left: Duration) -> Result<(), SubscriptionError> {
        if let Some(reader) = self.reader.as_ref().filter(|_| !self.awaits_segment) {
            reader.wait(left.min(reader.patience()));
            return Ok(());
        }
        let timeout = Timespec::try_from(left.min(ANSWER_TIMEOUT)).ok();
        let mut entries = [PollFd::new(self, PollFlags::IN)];
        match poll(&mut entries, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(self.failed("wait for", errno).into()),
        }
    }

    /// Processes pending messages, up to a new segment.
    fn take_messages(&mut self) -> Result<(), SubscriptionError> {
        while self.next_reader.is_none()
            && let Some(socket) = self.connection.socket()
        {
            let received = socket::receive(socket, &mut self.buffer, RecvFlags::DONTWAIT);
            let (len, descriptor) = match received {
                Ok(received) => received,
                Err(Errno::AGAIN) => break,
                Err(Errno::CONNRESET) => (0, None),
                Err(errno) => return Err(self.failed("receive from", errno).into()),
            };
            if len == 0 {
                // If the daemon has stated a reason, keep it.
                if matches!(self.ending, Ending::None) {
                    self.ending = Ending::HungUp;
                }
                self.hang_up();
                break;
            }
            match parsed::<IgnoredAny>(&self.buffer, len)? {
                FromDaemon::Notice => {}
                FromDaemon::Event(SubscriptionEvent::Segment { .. }) => {
                    self.take_segment(descriptor)?;
                }
                FromDaemon::Event(SubscriptionEvent::Gaze(gaze)) => self.gazes.push(gaze),
                FromDaemon::Event(SubscriptionEvent::Scene(scene)) => self.events.push(scene),
                FromDaemon::Event(SubscriptionEvent::Ended { reason, .. }) => {
                    self.ending = Ending::Ended(reason);
                }
                FromDaemon::Refused(refusal) => {
                    // `ended` means that the daemon is about to stop.
                    let is_stopping = refusal.reason == RefusalReason::Ended;
                    let error = ControlError::Refused(refusal);
                    if self.reconnector.is_none() {
                        return Err(error.into());
                    }
                    self.ending = Ending::HungUp;
                    self.hang_up();
                    if !is_stopping && !error.is_transient() {
                        return Err(error.into());
                    }
                }
                FromDaemon::Accepted(_) if self.connection.grant() => {}
                FromDaemon::Accepted(_) => {
                    let detail = "an answer without a request".to_owned();
                    return Err(ControlError::NotUnderstood { detail }.into());
                }
            }
        }
        Ok(())
    }

    fn take_segment(&mut self, descriptor: Option<OwnedFd>) -> Result<(), SubscriptionError> {
        let descriptor = descriptor.ok_or_else(|| ControlError::NotUnderstood {
            detail: "a segment without a descriptor".to_owned(),
        })?;
        let mut reader = Reader::from_fd(descriptor)?;
        let is_first = std::mem::replace(&mut self.awaits_segment, false);
        self.ending = Ending::None;
        if let Some(present) = &self.reader {
            // A daemon that only dropped the connection starts with the current segment.
            if is_first && present.header().epoch == reader.header().epoch {
                return Ok(());
            }
            reader.rewind();
        }
        self.next_reader = Some(reader);
        Ok(())
    }

    fn failed(&self, action: &'static str, errno: Errno) -> ControlError {
        ControlError::io(action, Path::new(&self.view.to_string()), errno)
    }
}

impl AsFd for Subscription {
    /// The connection, or for a subscription that [reconnects](Subscription::reconnecting) a descriptor that never changes. With `notify` it
    /// becomes readable with every frame; messages and hang-ups make it readable, too. Read until [`Next::TimedOut`], or
    /// [`SubscriptionError::Disconnected`], before polling again, as a message may follow a frame.
    fn as_fd(&self) -> BorrowedFd<'_> {
        match (&self.reconnector, self.connection.socket()) {
            (Some(reconnector), _) => reconnector.as_fd(),
            (None, Some(socket)) => socket.as_fd(),
            (None, None) => unreachable!("only a subscription that reconnects has no connection"),
        }
    }
}

/// The error of a failed attempt to connect to `path`.
fn connect_error(path: &Path, timeout: Duration, errno: Errno) -> ControlError {
    match errno {
        Errno::NOENT | Errno::NOTDIR | Errno::CONNREFUSED => {
            ControlError::NoDaemon { path: path.to_owned() }
        }
        Errno::AGAIN => timed_out(timeout),
        errno => ControlError::io("connect to", path, errno),
    }
}

/// The request `name` with the fields of `fields`.
fn operation(name: &str, fields: &impl Serialize) -> Value {
    let mut request = json!(fields);
    request["op"] = name.into();
    request
}

/// Parses the first `len` bytes of `buffer` as a datagram.
fn parsed<T: DeserializeOwned>(buffer: &[u8], len: usize) -> Result<FromDaemon<T>, ControlError> {
    let datagram = buffer.get(..len).ok_or_else(|| ControlError::NotUnderstood {
        detail: format!("a message of {len} bytes exceeds the limit of {DATAGRAM_BYTES_MAX}"),
    })?;
    FromDaemon::from_datagram(datagram)
        .map_err(|error| ControlError::NotUnderstood { detail: error.to_string() })
}

fn timed_out(timeout: Duration) -> ControlError {
    ControlError::TimedOut { seconds: timeout.as_secs() }
}
