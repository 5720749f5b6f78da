//! HTTP for a few untrusted clients: the accept loop of metrics and live page, and the host names that they answer to.

use std::collections::VecDeque;
use std::error::Error;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::header::{CONNECTION, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep, sleep_until, timeout};

pub use self::hosts::Hosts;

mod hosts;

/// Age from which a connection may be closed for one that waits: enough for an answer to an honest client, and so short that a queue of
/// a thousand others is passed in a second.
const GRACE: Duration = Duration::from_millis(100);

/// Pause after the system had no descriptor for a connection.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// Shortest time between two reports of closed connections.
const REPORT_PAUSE: Duration = Duration::from_secs(60);

/// Limits of the server's connections. An upgraded connection no longer counts.
#[derive(Clone, Copy, Debug)]
pub struct HttpLimits {
    /// Connections at a time; others wait in the listener's queue.
    pub connections: usize,
    /// Time limit of a connection, from accept to the last byte of the answer.
    pub exchange: Duration,
    /// The longest request that is read, from 8 KiB.
    pub request_bytes: usize,
}

/// The ends of a connection: an extension of each of its requests.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionEnds {
    /// Address of the client.
    pub peer: SocketAddr,
    /// Address of the server.
    pub local: SocketAddr,
}

/// Accepts connections for ever. If there is no room, a new one replaces the oldest once that may be closed. Each gets one answer of `service`.
/// `who` names a client in the log.
pub async fn serve<S, B>(listener: &TcpListener, limits: HttpLimits, who: &str, service: S)
where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let mut tasks = JoinSet::new();
    // Start and task of each, the oldest first.
    let mut connections = VecDeque::<(Instant, AbortHandle)>::new();
    let mut closed = ClosedConnections { connections: 0, reported_at: None };
    loop {
        let is_full = limits.connections <= connections.len();
        let oldest = connections.front().filter(|_| is_full);
        let room_at = oldest.map_or_else(Instant::now, |(since, _)| *since + GRACE);
        tokio::select! {
            // Remove finished connections first, so that a new one does not replace an open one needlessly.
            biased;
            Some(_) = tasks.join_next() => connections.retain(|(_, task)| !task.is_finished()),
            stream = accept(listener, who, room_at) => {
                if is_full && let Some((_, oldest)) = connections.pop_front() {
                    oldest.abort();
                    closed.count(who, limits.connections);
                }
                let task = tasks.spawn(exchange(stream, limits, service.clone()));
                connections.push_back((Instant::now(), task));
            }
        }
    }
}

/// Connections that were closed for others.
struct ClosedConnections {
    connections: u64,
    reported_at: Option<Instant>,
}

impl ClosedConnections {
    fn count(&mut self, who: &str, most: usize) {
        self.connections += 1;
        if self.reported_at.is_none_or(|reported| REPORT_PAUSE < reported.elapsed()) {
            self.reported_at = Some(Instant::now());
            tracing::warn!(
                closed = self.connections,
                "too many connections (limit {most}): closing the oldest for each new {who}"
            );
        }
    }
}

/// The next connection, at `earliest` or later.
async fn accept(listener: &TcpListener, who: &str, earliest: Instant) -> TcpStream {
    sleep_until(earliest).await;
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
            Err(error) => {
                tracing::warn!(%error, "cannot accept a {who}; retrying in a second");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Reads one request, answers it, and closes the connection or hands it over.
async fn exchange<S, B>(stream: TcpStream, limits: HttpLimits, service: S)
where
    S: Service<Request<Incoming>, Response = Response<B>>,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let ends = stream
        .peer_addr()
        .and_then(|peer| Ok(ConnectionEnds { peer, local: stream.local_addr()? }));
    // It is gone already.
    let Ok(ends) = ends else { return };
    // Without keep-alive, hyper would say "close" of an upgrade, too.
    let closing = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(ends);
        let answer = service.call(request);
        async move {
            let mut answer = answer.await?;
            if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
                answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, S::Error>(answer)
        }
    });
    let connection = http1::Builder::new()
        .half_close(true)
        .title_case_headers(true)
        .max_buf_size(limits.request_bytes)
        .serve_connection(TokioIo::new(stream), closing)
        .with_upgrades();
    // Time-outs, hang-ups and malformed requests only concern their client.
    let _ = timeout(limits.exchange, connection).await;
}
