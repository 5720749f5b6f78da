//! HTTP server: the files of the page, and a WebSocket for each open page.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::extract::ws::WebSocketUpgrade;
use axum::http::{Extensions, HeaderMap, StatusCode, Uri, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use foveate_http::{ConnectionEnds, Hosts, HttpLimits};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use super::PAGES_MAX;
use super::follower::Followers;
use super::guard;
use super::history::{Histories, PRUNE_INTERVAL};
use super::page::{self, Settings, Site};
use super::reports::LiveReports;
use super::seats::{Owner, Seats};
use super::thumbnails::Thumbnails;

/// Limits of connections before they become pages.
const LIMITS: HttpLimits = HttpLimits {
    connections: 128,
    exchange: Duration::from_secs(10),
    // Browsers send the cookies of everything else that is served on this machine.
    request_bytes: 64 * 1024,
};

/// Size limit of a message from a page.
const MESSAGE_BYTES_MAX: usize = 4096;

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JAVASCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// Path, content type and content of each file of the page.
const ASSETS: [(&str, &str, &str); 18] = [
    ("/", HTML, include_str!("assets/index.html")),
    ("/page.css", CSS, include_str!("assets/page.css")),
    ("/page.js", JAVASCRIPT, include_str!("assets/page.js")),
    ("/wire.js", JAVASCRIPT, include_str!("assets/wire.js")),
    ("/picture.js", JAVASCRIPT, include_str!("assets/picture.js")),
    ("/overlay.js", JAVASCRIPT, include_str!("assets/overlay.js")),
    ("/pane.js", JAVASCRIPT, include_str!("assets/pane.js")),
    ("/plots.js", JAVASCRIPT, include_str!("assets/plots.js")),
    ("/words.js", JAVASCRIPT, include_str!("assets/words.js")),
    ("/grid.js", JAVASCRIPT, include_str!("assets/grid.js")),
    ("/inspector.js", JAVASCRIPT, include_str!("assets/inspector.js")),
    ("/looks.js", JAVASCRIPT, include_str!("assets/looks.js")),
    ("/drawing.js", JAVASCRIPT, include_str!("assets/drawing.js")),
    ("/streams.js", JAVASCRIPT, include_str!("assets/streams.js")),
    ("/history.css", CSS, include_str!("assets/history.css")),
    ("/history.js", JAVASCRIPT, include_str!("assets/history.js")),
    ("/timeline.js", JAVASCRIPT, include_str!("assets/timeline.js")),
    ("/favicon.svg", SVG, include_str!("assets/favicon.svg")),
];

/// Serves `listener` for ever.
pub(super) async fn run(
    listener: &TcpListener,
    settings: Settings,
    histories: Histories,
    hosts: Hosts,
) {
    let followers = Arc::new(Followers::new(settings.socket.clone(), histories));
    let reports = match &settings.recording {
        Some(recording) => LiveReports::fixed(&recording.report()),
        None => LiveReports::begin(settings.socket.clone(), Arc::clone(&followers)),
    };
    let seats = Arc::new(Seats::new(PAGES_MAX));
    let thumbnails = Arc::new(Thumbnails::new(settings.socket.clone()));
    tokio::spawn(prune(Arc::clone(&followers)));
    let saving = Arc::new(Semaphore::new(1));
    let site = Arc::new(Site { settings, followers, thumbnails, reports, seats, saving });
    let service = TowerToHyperService::new(router(site, hosts));
    foveate_http::serve(listener, LIMITS, "page", service).await;
}

/// Frees the memory of views that no page shows any more.
async fn prune(followers: Arc<Followers>) {
    loop {
        tokio::time::sleep(PRUNE_INTERVAL).await;
        followers.histories.prune();
    }
}

fn router(site: Arc<Site>, hosts: Hosts) -> Router {
    let mut router = Router::new().route("/live", get(open_page));
    for (path, kind, text) in ASSETS {
        router = router.route(path, get(move || async move { asset(kind, text) }));
    }
    let guard = middleware::from_fn_with_state(Arc::new(hosts), guard::check_host);
    router.layer(guard).with_state(site)
}

fn asset(kind: &'static str, text: &'static str) -> Response {
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

async fn open_page(
    State(site): State<Arc<Site>>,
    headers: HeaderMap,
    uri: Uri,
    extensions: Extensions,
    upgrade: WebSocketUpgrade,
) -> Response {
    if !guard::is_own_page(&headers) {
        return guard::plain_text(
            StatusCode::FORBIDDEN,
            "the Origin header is missing or does not match the Host header: only pages of this server may connect",
        );
    }
    let upgrade = upgrade.max_message_size(MESSAGE_BYTES_MAX).max_frame_size(MESSAGE_BYTES_MAX);
    // A page cannot read the response of a refused upgrade, but it can read the reason of a close.
    if site.settings.token.as_ref().is_some_and(|token| !token.is_in(&uri)) {
        return upgrade.on_upgrade(page::reject_stranger);
    }
    let Some(&ConnectionEnds { peer, local }) = extensions.get::<ConnectionEnds>() else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    // Reading the kernel's tables takes a while where many connections are open.
    let owner = spawn_blocking(move || Owner::of(peer, local)).await;
    let owner = owner.unwrap_or(Owner::Address(peer.ip()));
    let seat = site.seats.claim(owner);
    upgrade.on_upgrade(async move |socket| match seat {
        Some(mut seat) => page::run(socket, site, owner, &mut seat.taken_over).await,
        None => page::reject_beyond(socket, PAGES_MAX).await,
    })
}
