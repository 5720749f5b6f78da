//! What the server serves: the files of the page, and one WebSocket for each page.

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

/// Pages at a time. Each costs a copy of the newest frame, and a lease where it steers.
pub(super) const PAGES_MAX: usize = 16;

/// The longest message of a page, in bytes.
const MESSAGE_BYTES_MAX: usize = 4096;

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JAVASCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// Where a file of the page is found, what it is, and what it holds.
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

/// What the command line says of the page.
#[derive(Debug)]
pub(super) struct Site {
    /// The daemon's socket.
    pub(super) socket: PathBuf,
    /// What the page shows first.
    pub(super) view: Option<ViewName>,
    /// The page steers no view.
    pub(super) read_only: bool,
}

/// What all pages share.
#[derive(Debug)]
pub(super) struct Common {
    pub(super) site: Site,
    pub(super) hosts: Hosts,
    pub(super) followers: Arc<Followers>,
    pub(super) reports: Reports,
    /// Room for pages.
    seats: Arc<Semaphore>,
}

pub(super) type Shared = Arc<Common>;

/// Serves `listener` for ever.
pub(super) async fn run(listener: TcpListener, site: Site, hosts: Hosts) -> io::Result<()> {
    let followers = Arc::new(Followers::new(site.socket.clone()));
    let reports = Reports::begin(site.socket.clone(), Arc::clone(&followers));
    let seats = Arc::new(Semaphore::new(PAGES_MAX));
    let shared = Arc::new(Common { site, hosts, followers, reports, seats });
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

/// The WebSocket of a page.
async fn open_page(
    State(shared): State<Shared>,
    headers: HeaderMap,
    upgrade: WebSocketUpgrade,
) -> Response {
    if !guard::is_own_page(&headers) {
        return guard::refusal(
            StatusCode::FORBIDDEN,
            "Only the page that this server serves may connect: the Origin is missing or is not the Host.",
        );
    }
    let seat = Arc::clone(&shared.seats).try_acquire_owned().ok();
    let upgrade = upgrade.max_message_size(MESSAGE_BYTES_MAX).max_frame_size(MESSAGE_BYTES_MAX);
    upgrade.on_upgrade(async move |socket| match seat {
        Some(seat) => {
            page::run(socket, shared).await;
            drop(seat);
        }
        // A browser shows a page nothing of an answer that opens no WebSocket, but the reason for which one closes.
        None => page::turn_away(socket, PAGES_MAX).await,
    })
}
