//! Access control: only pages of this server, under one of its names, may use it.
//!
//! Otherwise a page of another site could reach it through the user's browser: directly (its `Origin` differs), or by DNS
//! rebinding, with a name of its own that resolves to 127.0.0.1 (its `Host` differs).

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// Headers of every response: no resources of other origins, no framing, no caching, no content sniffing.
const HEADERS: [(header::HeaderName, &str); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::CACHE_CONTROL, "no-store"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// Host names that the server answers to.
#[derive(Debug)]
pub(super) struct Hosts {
    names: Vec<String>,
    /// Accept any IP address, because the server does not know all of its own. DNS rebinding needs a name.
    any_address: bool,
}

impl Hosts {
    /// The names of a server on `address`, and `others`.
    pub(super) fn new(address: SocketAddr, others: Vec<String>) -> Self {
        let others = others.into_iter().map(|name| name.to_ascii_lowercase());
        let names = ["localhost".to_owned()].into_iter().chain(others).collect();
        Self { names, any_address: !address.ip().is_loopback() }
    }

    /// Whether `host`, with or without a port, is one of them.
    pub(super) fn allow(&self, host: &str) -> bool {
        let Some(name) = without_port(host) else { return false };
        let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        match bare.parse::<IpAddr>() {
            Ok(ip) => self.any_address || ip.is_loopback(),
            Err(_) => self.names.iter().any(|known| known.eq_ignore_ascii_case(name)),
        }
    }
}

/// The name in `NAME`, `NAME:PORT`, `[V6]` or `[V6]:PORT`.
fn without_port(host: &str) -> Option<&str> {
    let end_of_name = host.rfind(']').map_or(0, |end| end + 1);
    match host[end_of_name..].split_once(':') {
        None => Some(host),
        Some((rest, port)) => {
            let is_port = port.parse::<u16>().is_ok();
            is_port.then(|| &host[..end_of_name + rest.len()])
        }
    }
}

/// Refuses requests for foreign host names, and adds [`HEADERS`] to every response.
pub(super) async fn check_host(
    State(hosts): State<Arc<Hosts>>,
    request: Request,
    next: Next,
) -> Response {
    let host = text_of(request.headers(), &header::HOST);
    let mut response = match host {
        Some(host) if hosts.allow(host) => next.run(request).await,
        _ => plain_text(
            StatusCode::MISDIRECTED_REQUEST,
            "This server does not answer to that host name. Use localhost or 127.0.0.1, or start it with --allow-host NAME.",
        ),
    };
    for (name, value) in HEADERS {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

/// Whether a request comes from a page of this server: its `Origin` names the same host and port as its `Host`.
pub(super) fn is_own_page(headers: &HeaderMap) -> bool {
    let (Some(origin), Some(host)) =
        (text_of(headers, &header::ORIGIN), text_of(headers, &header::HOST))
    else {
        return false;
    };
    // It is https behind a proxy that terminates TLS.
    let origin = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    origin.is_some_and(|origin| origin.eq_ignore_ascii_case(host))
}

pub(super) fn plain_text(status: StatusCode, words: &'static str) -> Response {
    (status, format!("{words}\n")).into_response()
}

fn text_of<'a>(headers: &'a HeaderMap, name: &header::HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    // A repeated header is ambiguous.
    let value = values.next().filter(|_| values.next().is_none())?;
    value.to_str().ok()
}
