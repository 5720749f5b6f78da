//! HTTP for scrapers: one thread, few connections, each with a time limit.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::ready;
use std::io::{self, ErrorKind};
use std::net::{self, SocketAddr};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime;
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// Connections at a time; others wait in the listener's queue.
const CONNECTIONS_MAX: usize = 32;

/// Time limit of a connection, from accept to the last byte of the answer.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(5);

/// Age from which a connection may be closed for one that waits.
const GRACE: Duration = Duration::from_secs(1);

/// Time for which a page is reused, so that frequent requests cost no more than copies.
const FRESHNESS: Duration = Duration::from_millis(100);

/// Pause after the system had no descriptor for a connection.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// The longest request that is read; a scraper's has a few hundred bytes.
const REQUEST_BYTES_MAX: usize = 8 * 1024;

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const METRICS: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

/// Serves one page until it is dropped.
#[derive(Debug)]
pub(super) struct MetricsServer {
    address: SocketAddr,
    /// The thread ends without it.
    stop: Option<oneshot::Sender<Infallible>>,
    thread: Option<JoinHandle<()>>,
}

impl MetricsServer {
    /// Listens at `address` and answers with what `page` says.
    ///
    /// # Errors
    ///
    /// If the address is in use, or not one of this machine.
    pub(super) fn bind(
        address: SocketAddr,
        page: impl Fn() -> String + Send + 'static,
    ) -> io::Result<Self> {
        let listener = net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = {
            let _within = runtime.enter();
            TcpListener::from_std(listener)?
        };
        let page = Arc::new(Mutex::new(Page { write: Box::new(page), newest: None }));
        let (stop, stopped) = oneshot::channel();
        let serve = move || {
            runtime.block_on(async {
                tokio::select! {
                    () = serve(&listener, &page) => {}
                    _ = stopped => {}
                }
            });
        };
        let thread = thread::Builder::new().name("metrics".to_owned()).spawn(serve)?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it listens.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that serves metrics panicked");
        }
    }
}

/// Accepts connections for ever; without room, in place of the oldest once that may be closed.
async fn serve(listener: &TcpListener, page: &Arc<Mutex<Page>>) {
    let mut tasks = JoinSet::new();
    // Start and task of each, the oldest first.
    let mut connections = VecDeque::<(Instant, AbortHandle)>::new();
    loop {
        let is_full = CONNECTIONS_MAX <= connections.len();
        let oldest = connections.front().filter(|_| is_full);
        let room_at = oldest.map_or_else(Instant::now, |(since, _)| *since + GRACE);
        tokio::select! {
            // Finished connections first: one that waits may then not cost another its place.
            biased;
            Some(_) = tasks.join_next() => connections.retain(|(_, task)| !task.is_finished()),
            stream = accept(listener, room_at) => {
                if is_full && let Some((_, oldest)) = connections.pop_front() {
                    oldest.abort();
                }
                let task = tasks.spawn(exchange(stream, Arc::clone(page)));
                connections.push_back((Instant::now(), task));
            }
        }
    }
}

/// The next connection, at `earliest` or later.
async fn accept(listener: &TcpListener, earliest: Instant) -> TcpStream {
    sleep_until(earliest).await;
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
            Err(error) => {
                tracing::warn!(%error, "cannot accept a scraper; trying again in a second");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Reads one request, answers it, and closes the connection.
async fn exchange(stream: TcpStream, page: Arc<Mutex<Page>>) {
    let service = service_fn(|request| ready(Ok::<_, Infallible>(answer(&request, &page))));
    let connection = http1::Builder::new()
        .keep_alive(false)
        .half_close(true)
        .title_case_headers(true)
        .max_buf_size(REQUEST_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    // Timeouts, hang-ups and malformed requests concern nobody else.
    let _ = timeout(EXCHANGE_TIMEOUT, connection).await;
}

fn answer(request: &Request<Incoming>, page: &Mutex<Page>) -> Response<String> {
    let is_read = [Method::GET, Method::HEAD].contains(request.method());
    let (status, kind, text) = match request.uri().path() {
        _ if !is_read => (StatusCode::METHOD_NOT_ALLOWED, TEXT, "GET only\n".to_owned()),
        "/metrics" => (StatusCode::OK, METRICS, page.lock().fresh().to_owned()),
        _ => (StatusCode::NOT_FOUND, TEXT, "metrics are at /metrics\n".to_owned()),
    };
    let mut response = Response::new(text);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, kind);
    if !is_read {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
    response
}

/// The page, cached.
struct Page {
    write: Box<dyn Fn() -> String + Send>,
    /// The newest text, and when it was written.
    newest: Option<(Instant, String)>,
}

impl Page {
    fn fresh(&mut self) -> &str {
        let now = Instant::now();
        self.newest.take_if(|(written_at, _)| FRESHNESS < now - *written_at);
        &self.newest.get_or_insert_with(|| (now, (self.write)())).1
    }
}
