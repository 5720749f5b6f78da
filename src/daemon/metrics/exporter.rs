//! As much HTTP as it takes to be scraped: one thread, one poll, few connections, and nobody that it waits for.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};

use crate::channel::Bell;

/// Connections at a time; others wait in the listener's queue.
const CONNECTIONS_MAX: usize = 32;

/// How long a connection may take, from the first byte of the request to the last of the answer.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long it is safe from being closed because others wait.
const GRACE: Duration = Duration::from_secs(1);

/// How long an answer is good for others. Whoever asks again and again costs no more than copies of it.
const FRESHNESS: Duration = Duration::from_millis(100);

/// How long no connection is accepted after the system had no descriptor for one.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// The longest request that is read; a scraper's has a few hundred bytes.
const REQUEST_BYTES_MAX: usize = 8 * 1024;

/// What is served, or why it cannot be.
pub(super) type Body = Result<String, String>;

/// Serves one page until it is dropped.
#[derive(Debug)]
pub(super) struct Exporter {
    address: SocketAddr,
    stopping: Arc<AtomicBool>,
    bell: Arc<Bell>,
    thread: Option<JoinHandle<()>>,
}

impl Exporter {
    /// Listens at `address` and answers with what `page` says.
    ///
    /// # Errors
    ///
    /// If somebody else listens there, or it is no address of this machine.
    pub(super) fn bind(
        address: SocketAddr,
        page: impl Fn() -> Body + Send + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (stopping, bell) = (Arc::new(AtomicBool::new(false)), Arc::new(Bell::new()?));
        let mut service = Service {
            listener,
            page: Box::new(page),
            newest: None,
            connections: Vec::new(),
            accept_again_at: None,
            stopping: Arc::clone(&stopping),
            bell: Arc::clone(&bell),
        };
        let thread =
            thread::Builder::new().name("metrics".to_owned()).spawn(move || service.run())?;
        Ok(Self { address, stopping, bell, thread: Some(thread) })
    }

    /// Where it listens.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        self.bell.ring();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that serves metrics panicked");
        }
    }
}

/// What the thread owns.
struct Service {
    listener: TcpListener,
    page: Box<dyn Fn() -> Body + Send>,
    /// The newest page, and when it was made.
    newest: Option<(Instant, Body)>,
    /// The oldest first.
    connections: Vec<Connection>,
    /// When the system had no descriptor left: the listener is not polled until then.
    accept_again_at: Option<Instant>,
    stopping: Arc<AtomicBool>,
    bell: Arc<Bell>,
}

/// A scraper, or whoever else has found the port.
struct Connection {
    stream: TcpStream,
    since: Instant,
    request: Vec<u8>,
    answer: Vec<u8>,
    /// Bytes of the answer that were sent.
    sent: usize,
}

/// What becomes of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Keep,
    Close,
}

impl Service {
    fn run(&mut self) {
        while !self.stopping.load(Ordering::Relaxed) {
            if let Err(errno) = self.turn() {
                tracing::error!(%errno, "polling failed; no metrics are served");
                break;
            }
        }
    }

    /// Waits until there is something to do, and does it.
    fn turn(&mut self) -> Result<(), Errno> {
        let now = Instant::now();
        self.connections.retain(|connection| now < connection.since + EXCHANGE_TIMEOUT);
        self.accept_again_at.take_if(|at| *at <= now);
        let ready = self.wait(now)?;
        let mut ready_connections = ready.connections.into_iter();
        let mut kept = Vec::with_capacity(CONNECTIONS_MAX);
        for mut connection in std::mem::take(&mut self.connections) {
            let is_ready = ready_connections.next().unwrap_or(false);
            if !is_ready || self.serve(&mut connection) == Fate::Keep {
                kept.push(connection);
            }
        }
        self.connections = kept;
        if ready.listener {
            self.accept();
        }
        Ok(())
    }

    fn wait(&self, now: Instant) -> Result<Ready, Errno> {
        let listening = if self.may_accept(now) { PollFlags::IN } else { PollFlags::empty() };
        let mut entries = vec![
            PollFd::new(self.bell.as_ref(), PollFlags::IN),
            PollFd::new(&self.listener, listening),
        ];
        entries.extend(self.connections.iter().map(|connection| {
            let interest =
                if connection.answer.is_empty() { PollFlags::IN } else { PollFlags::OUT };
            PollFd::new(&connection.stream, interest)
        }));
        let pause = self.next_deadline(now).map(|at| at.saturating_duration_since(now));
        let timeout = pause.and_then(|pause| Timespec::try_from(pause).ok());
        retry_on_intr(|| poll(&mut entries, timeout.as_ref()))?;
        let mut ready = entries.iter().skip(1).map(|entry| !entry.revents().is_empty());
        Ok(Ready { listener: ready.next().unwrap_or(false), connections: ready.collect() })
    }

    /// Whether there is room for a connection, or one that has had its time.
    fn may_accept(&self, now: Instant) -> bool {
        let is_replaceable = |oldest: &Connection| oldest.since + GRACE <= now;
        self.accept_again_at.is_none()
            && (self.connections.len() < CONNECTIONS_MAX
                || self.connections.first().is_some_and(is_replaceable))
    }

    /// When something is to be done although nothing happens.
    fn next_deadline(&self, now: Instant) -> Option<Instant> {
        let oldest = self.connections.first().map(|oldest| oldest.since);
        let room = oldest.filter(|_| CONNECTIONS_MAX <= self.connections.len());
        let room = room.map(|since| since + GRACE).filter(|at| now < *at);
        let timeout = oldest.map(|since| since + EXCHANGE_TIMEOUT);
        [self.accept_again_at, room, timeout].into_iter().flatten().min()
    }

    /// Takes connections that wait, as many as there is room for.
    fn accept(&mut self) {
        while self.may_accept(Instant::now()) {
            match self.listener.accept() {
                Ok((stream, _)) => self.take_in(stream),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::Interrupted | ErrorKind::ConnectionAborted
                    ) => {}
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a scraper; trying again in a second");
                    self.accept_again_at = Some(Instant::now() + ACCEPT_PAUSE);
                }
            }
        }
    }

    fn take_in(&mut self, stream: TcpStream) {
        if CONNECTIONS_MAX <= self.connections.len() {
            self.connections.remove(0);
        }
        // One that would block the thread is not served.
        if stream.set_nonblocking(true).is_ok() {
            let (request, answer) = (Vec::new(), Vec::new());
            let since = Instant::now();
            self.connections.push(Connection { stream, since, request, answer, sent: 0 });
        }
    }

    /// Reads what has come, or sends what there is room for.
    fn serve(&mut self, connection: &mut Connection) -> Fate {
        if connection.answer.is_empty() {
            match connection.read() {
                Ok(Some(asked)) => connection.answer = self.answer(asked),
                Ok(None) => return Fate::Keep,
                Err(_) => return Fate::Close,
            }
        }
        connection.send()
    }

    fn answer(&mut self, asked: Asked) -> Vec<u8> {
        const TEXT: &str = "text/plain; charset=utf-8";
        match asked {
            Asked::Page { with_body } => match self.fresh_page() {
                Ok(body) => {
                    http("200 OK", "text/plain; version=0.0.4; charset=utf-8", body, with_body)
                }
                Err(reason) => http("500 Internal Server Error", TEXT, reason, with_body),
            },
            Asked::Elsewhere => http("404 Not Found", TEXT, "metrics are at /metrics\n", true),
            Asked::OtherMethod => {
                http("405 Method Not Allowed\r\nAllow: GET, HEAD", TEXT, "GET only\n", true)
            }
            Asked::Nonsense => http("400 Bad Request", TEXT, "this is no HTTP request\n", true),
            Asked::TooLong => {
                http("431 Request Header Fields Too Large", TEXT, "too long a request\n", true)
            }
        }
    }

    fn fresh_page(&mut self) -> Result<&str, &str> {
        let now = Instant::now();
        self.newest.take_if(|(made_at, _)| FRESHNESS < now - *made_at);
        let (_, page) = self.newest.get_or_insert_with(|| (now, (self.page)()));
        page.as_deref().map_err(String::as_str)
    }
}

/// What poll found.
struct Ready {
    listener: bool,
    connections: Vec<bool>,
}

/// What a request wants.
#[derive(Clone, Copy)]
enum Asked {
    /// The metrics, or what they would come with.
    Page {
        with_body: bool,
    },
    Elsewhere,
    OtherMethod,
    Nonsense,
    TooLong,
}

impl Connection {
    /// What the request wants, once all of it has come.
    fn read(&mut self) -> io::Result<Option<Asked>> {
        let mut buffer = [0; 2048];
        match self.stream.read(&mut buffer) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(len) => {
                self.request.extend_from_slice(&buffer[..len]);
                let is_whole = self.request.windows(4).any(|bytes| bytes == b"\r\n\r\n");
                if is_whole {
                    return Ok(Some(asked(&self.request)));
                }
                Ok((REQUEST_BYTES_MAX < self.request.len()).then_some(Asked::TooLong))
            }
            Err(error) if is_for_later(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn send(&mut self) -> Fate {
        while self.sent < self.answer.len() {
            match self.stream.write(&self.answer[self.sent..]) {
                Ok(len) => self.sent += len,
                Err(error) if is_for_later(&error) => return Fate::Keep,
                Err(_) => return Fate::Close,
            }
        }
        Fate::Close
    }
}

fn is_for_later(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// What the first line of a request says.
fn asked(request: &[u8]) -> Asked {
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut words = line.split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Asked::Nonsense;
    };
    let is_metrics = target.split('?').next() == Some("/metrics");
    match method {
        _ if !version.starts_with("HTTP/1.") => Asked::Nonsense,
        "GET" | "HEAD" if is_metrics => Asked::Page { with_body: method == "GET" },
        "GET" | "HEAD" => Asked::Elsewhere,
        _ => Asked::OtherMethod,
    }
}

/// An answer, behind which the connection is closed.
fn http(status: &str, content_type: &str, body: &str, with_body: bool) -> Vec<u8> {
    let len = body.len();
    let body = if with_body { body } else { "" };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n{body}"
    )
    .into_bytes()
}
