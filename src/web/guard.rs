//! Access control: only pages of this server, under one of its names, may use it.
//!
//! Otherwise a page of another site could reach it through the user's browser: directly (its `Origin` differs), or by DNS
//! rebinding, with a name of its own that resolves to 127.0.0.1 (its `Host` differs).

use std::io;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use foveate_http::Hosts;
use rustix::io::retry_on_intr;
use rustix::rand::{GetRandomFlags, getrandom};

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
            "unexpected host name: use localhost or 127.0.0.1, or start the server with --allow-host NAME",
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

/// The secret of `--token`, which lets pages in.
#[derive(Debug)]
pub(super) struct AccessToken(String);

impl AccessToken {
    /// A random token of 128 bits.
    pub(super) fn random() -> io::Result<Self> {
        let mut bytes = [0u8; 16];
        let filled = retry_on_intr(|| getrandom(&mut bytes, GetRandomFlags::empty()))?;
        debug_assert_eq!(filled, bytes.len(), "getrandom gives up to 256 bytes at once");
        Ok(Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// The token as the query of an address.
    pub(super) fn query(&self) -> String {
        format!("?token={}", self.0)
    }

    /// Whether `uri` has the token. The time of the comparison does not depend on the token.
    pub(super) fn is_in(&self, uri: &Uri) -> bool {
        let mut parts = uri.query().unwrap_or_default().split('&');
        let token = parts.find_map(|part| part.strip_prefix("token=")).unwrap_or_default();
        let differences = token.bytes().zip(self.0.bytes()).map(|(token, own)| token ^ own);
        token.len() == self.0.len() && differences.fold(0, |all, one| all | one) == 0
    }
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
