//! HTTP for scrapers, on a thread of its own.

use std::convert::Infallible;
use std::future::ready;
use std::io;
use std::net::{self, SocketAddr};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use foveate_http::{Hosts, HttpLimits};
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, HOST, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::runtime;
use tokio::sync::oneshot;
use tokio::time::Instant;

const LIMITS: HttpLimits =
    HttpLimits { connections: 128, exchange: Duration::from_secs(5), request_bytes: 8 * 1024 };

/// Time for which a page is reused, so that frequent requests cost no more than copies.
const FRESHNESS: Duration = Duration::from_millis(100);

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const FOREIGN_NAME: &str =
    "unexpected host name: add it to `metrics_hosts` of [daemon], or use an address\n";
const METRICS: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

/// Serves one page until it is dropped.
#[derive(Debug)]
pub(crate) struct MetricsServer {
    address: SocketAddr,
    /// The thread ends without it.
    stop: Option<oneshot::Sender<Infallible>>,
    thread: Option<JoinHandle<()>>,
}

impl MetricsServer {
    /// Listens at `address`, also known as `names`, and answers with what `page` says.
    ///
    /// # Errors
    ///
    /// If the address is in use, or not one of this machine.
    pub(super) fn bind(
        address: SocketAddr,
        names: &[String],
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
        let page = Mutex::new(CachedPage { write: Box::new(page), newest: None });
        let context = Arc::new((page, Hosts::new(address, names.to_vec())));
        let service = service_fn(move |request| {
            let (page, hosts) = &*context;
            ready(Ok::<_, Infallible>(answer(&request, hosts, page)))
        });
        let (stop, stopped) = oneshot::channel();
        let serve = move || {
            runtime.block_on(async {
                tokio::select! {
                    () = foveate_http::serve(&listener, LIMITS, "scraper", service) => {}
                    _ = stopped => {}
                }
            });
        };
        let thread = thread::Builder::new().name("metrics".to_owned()).spawn(serve)?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    /// Address that the server listens on.
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

fn answer(
    request: &Request<Incoming>,
    hosts: &Hosts,
    page: &Mutex<CachedPage>,
) -> Response<String> {
    // Only clients other than browsers omit this header.
    let is_ours = request
        .headers()
        .get_all(HOST)
        .iter()
        .all(|host| host.to_str().is_ok_and(|host| hosts.allow(host)));
    let is_read = [Method::GET, Method::HEAD].contains(request.method());
    let (status, kind, text) = match request.uri().path() {
        _ if !is_ours => (StatusCode::MISDIRECTED_REQUEST, TEXT, FOREIGN_NAME.to_owned()),
        _ if !is_read => {
            (StatusCode::METHOD_NOT_ALLOWED, TEXT, "only GET is supported\n".to_owned())
        }
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
struct CachedPage {
    write: Box<dyn Fn() -> String + Send>,
    /// The newest text, and when it was written.
    newest: Option<(Instant, String)>,
}

impl CachedPage {
    fn fresh(&mut self) -> &str {
        let now = Instant::now();
        self.newest.take_if(|(written_at, _)| FRESHNESS < now - *written_at);
        &self.newest.get_or_insert_with(|| (now, (self.write)())).1
    }
}
