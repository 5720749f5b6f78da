//! Who may talk to the server: pages that it served itself, under a name that is its own.
//!
//! A page of another site could otherwise reach it through the browser of a user: directly, or under a name of its
//! own that it lets point at 127.0.0.1. Such a request tells by its `Origin`, or by its `Host`.

use std::net::{IpAddr, SocketAddr};

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::server::Shared;

/// What every answer says: nothing but what this server serves may be loaded, nothing may be framed, kept or guessed.
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

/// The names under which browsers may ask for the page.
#[derive(Debug)]
pub(super) struct Hosts {
    names: Vec<String>,
    /// Any address will do: the server is reached by addresses that it does not know. No page of another site has
    /// one as its name and leads here.
    any_address: bool,
}

impl Hosts {
    /// Those of a server on `address`, and `others`.
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

/// Lets requests for one of the server's names pass, and gives every answer the same headers.
pub(super) async fn check_host(
    State(shared): State<Shared>,
    request: Request,
    next: Next,
) -> Response {
    let host = text_of(request.headers(), &header::HOST);
    let mut response = match host {
        Some(host) if shared.hosts.allow(host) => next.run(request).await,
        _ => refusal(
            StatusCode::MISDIRECTED_REQUEST,
            "This server is not known by that name. Ask for it as localhost or 127.0.0.1, or start it with \
             --allow-host NAME.",
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
    // Behind a proxy that ends TLS it is https.
    let origin = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    origin.is_some_and(|origin| origin.eq_ignore_ascii_case(host))
}

/// An answer in words.
pub(super) fn refusal(status: StatusCode, words: &'static str) -> Response {
    (status, format!("{words}\n")).into_response()
}

fn text_of<'a>(headers: &'a HeaderMap, name: &header::HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    // Two of them would be two answers to one question.
    let value = values.next().filter(|_| values.next().is_none())?;
    value.to_str().ok()
}
