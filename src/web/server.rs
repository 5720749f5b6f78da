//! HTTP server: the files of the page, and a WebSocket for each open page.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::extract::ws::WebSocketUpgrade;
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::follower::Followers;
use super::guard::{self, Hosts};
use super::page;
use super::reports::Reports;
use foveate::messages::ViewName;

/// Most pages at a time. Each costs a copy of the newest frame, and a lease if it steers.
pub(super) const PAGES_MAX: usize = 16;

/// Of a page.
const MESSAGE_BYTES_MAX: usize = 4096;

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JAVASCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// Path, content type and content of each file of the page.
const ASSETS: [(&str, &str, &str); 10] = [
    ("/", HTML, include_str!("assets/index.html")),
    ("/page.css", CSS, include_str!("assets/page.css")),
    ("/page.js", JAVASCRIPT, include_str!("assets/page.js")),
    ("/wire.js", JAVASCRIPT, include_str!("assets/wire.js")),
    ("/picture.js", JAVASCRIPT, include_str!("assets/picture.js")),
    ("/overlay.js", JAVASCRIPT, include_str!("assets/overlay.js")),
    ("/pane.js", JAVASCRIPT, include_str!("assets/pane.js")),
    ("/plots.js", JAVASCRIPT, include_str!("assets/plots.js")),
    ("/streams.js", JAVASCRIPT, include_str!("assets/streams.js")),
    ("/favicon.svg", SVG, include_str!("assets/favicon.svg")),
];

/// Settings from the command line.
#[derive(Debug)]
pub(super) struct Settings {
    /// The daemon's socket.
    pub(super) socket: PathBuf,
    /// The view that pages show first.
    pub(super) view: Option<ViewName>,
    /// Pages may not steer.
    pub(super) read_only: bool,
}

/// State shared by all pages.
#[derive(Debug)]
pub(super) struct Common {
    pub(super) settings: Settings,
    pub(super) hosts: Hosts,
    pub(super) followers: Arc<Followers>,
    pub(super) reports: Reports,
    /// Limits the number of pages.
    page_permits: Arc<Semaphore>,
}

pub(super) type Shared = Arc<Common>;

/// Serves `listener` for ever.
pub(super) async fn run(listener: TcpListener, settings: Settings, hosts: Hosts) -> io::Result<()> {
    let followers = Arc::new(Followers::new(settings.socket.clone()));
    let reports = Reports::begin(settings.socket.clone(), Arc::clone(&followers));
    let page_permits = Arc::new(Semaphore::new(PAGES_MAX));
    let shared = Arc::new(Common { settings, hosts, followers, reports, page_permits });
    axum::serve(listener, router(shared)).await
}

fn router(shared: Shared) -> Router {
    let mut router = Router::new().route("/live", get(open_page));
    for (path, kind, text) in ASSETS {
        router = router.route(path, get(move || async move { asset(kind, text) }));
    }
    let guard = middleware::from_fn_with_state(Arc::clone(&shared), guard::check_host);
    router.layer(guard).with_state(shared)
}

fn asset(kind: &'static str, text: &'static str) -> Response {
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

async fn open_page(
    State(shared): State<Shared>,
    headers: HeaderMap,
    upgrade: WebSocketUpgrade,
) -> Response {
    if !guard::is_own_page(&headers) {
        return guard::plain_text(
            StatusCode::FORBIDDEN,
            "Only pages of this server may connect: the Origin header is missing or does not match the Host header.",
        );
    }
    let permit = Arc::clone(&shared.page_permits).try_acquire_owned().ok();
    let upgrade = upgrade.max_message_size(MESSAGE_BYTES_MAX).max_frame_size(MESSAGE_BYTES_MAX);
    upgrade.on_upgrade(async move |socket| match permit {
        Some(permit) => {
            page::run(socket, shared).await;
            drop(permit);
        }
        // A page cannot read the response of a refused upgrade, but it can read the reason of a close.
        None => page::turn_away(socket, PAGES_MAX).await,
    })
}
