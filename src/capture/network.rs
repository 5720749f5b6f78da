//! Network elements of a pipeline: which servers they may open, how certificates are checked, and why a server gave nothing.
//!
//! A source opens what the configuration names. What a server or a file names in turn is opened only where `follow_addresses` says so:
//! an element that would open it gets no data, and a redirect is followed, by a new pipeline, only on the same server.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use std::{cell::Cell, fmt, rc::Rc, thread};

use gio::glib;
use gio::prelude::*;
use gstreamer as gst;
use gstreamer::prelude::*;
use parking_lot::Mutex;

use super::{CaptureError, SourceSpec};
use foveate_core::address::Server;
use foveate_core::source::Tls;
use foveate_log::redact::redacted;

/// Redirects that are followed for one source.
const REDIRECTS_MAX: usize = 5;

/// Limit for finding out why a server gave nothing.
const DIAGNOSIS: Duration = Duration::from_secs(5);

/// What the network elements of a source may do.
#[derive(Clone, Debug)]
pub(super) struct Network {
    tls: Tls,
    follows: bool,
    redirects: Vec<Redirect>,
}

/// A redirect from one address to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Redirect {
    from: String,
    to: String,
}

impl fmt::Display for Redirect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", redacted(&self.from), redacted(&self.to))
    }
}

impl Network {
    /// The permissions that `spec` gives.
    pub(super) fn of(spec: &SourceSpec) -> Self {
        let follows = spec.follow_addresses;
        Self { tls: spec.tls.clone(), follows, redirects: Vec::new() }
    }

    /// Checks that its certificate authorities can be read.
    pub(super) fn check(&self) -> Result<(), CaptureError> {
        match &self.tls {
            Tls::CaFile(path) => authorities(path).map(drop),
            Tls::Verify | Tls::Insecure => Ok(()),
        }
    }

    /// Prepares `element` of a pipeline before it opens anything.
    pub(super) fn prepare(&self, element: &gst::Element) {
        match &self.tls {
            Tls::Verify => {}
            Tls::Insecure => {
                set(element, "ssl-strict", false);
                set(element, "tls-validation-flags", gio::TlsCertificateFlags::empty());
            }
            Tls::CaFile(path) => {
                // If the file has become unreadable, the system's authorities apply.
                if let Ok(authorities) = authorities(path) {
                    set(element, "tls-database", authorities.upcast::<gio::TlsDatabase>());
                }
            }
        }
        if !self.follows {
            set(element, "automatic-redirect", false);
        }
        for Redirect { from, to } in &self.redirects {
            if location_of(element).as_ref() == Some(from) {
                set(element, "location", to.as_str());
            }
        }
    }

    /// Keeps all data from `element`, which another element has added, if it would open what the data names; returns the error.
    pub(super) fn refusal_of(&self, element: &gst::Element) -> Option<CaptureError> {
        let factory = element.factory().filter(|_| !self.follows)?;
        let playlist = match factory.name().trim_end_matches('2') {
            "hlsdemux" => "an HLS playlist",
            "dashdemux" => "a DASH manifest",
            "mssdemux" => "a Smooth Streaming manifest",
            "sdpdemux" => "a session description (SDP)",
            _ if factory.metadata("klass")?.contains("Adaptive") => "a playlist",
            _ => return None,
        };
        for pad in element.sink_pads() {
            pad.add_probe(gst::PadProbeType::DATA_DOWNSTREAM, |_, info| match &info.data {
                // It opens what it has read at the end.
                Some(gst::PadProbeData::Event(event)) if event.type_() != gst::EventType::Eos => {
                    gst::PadProbeReturn::Ok
                }
                _ => gst::PadProbeReturn::Handled,
            });
        }
        Some(CaptureError::Playlist { what: "the source".to_owned(), playlist })
    }

    /// The redirect of `answer`, if it may be followed.
    pub(super) fn redirect(&self, answer: &Answer) -> Option<Redirect> {
        let to = answer.redirects_to()?;
        let may_follow = self.redirects.len() < REDIRECTS_MAX && stays(&answer.address, &to);
        may_follow.then(|| Redirect { from: answer.address.clone(), to })
    }

    /// A watch on the servers to which a pipeline connects; `None` if every redirect is followed.
    pub(super) fn first_servers(&self) -> Option<FirstServers> {
        (!self.follows).then(FirstServers::default)
    }

    /// Follows `redirect` in the next pipeline.
    pub(super) fn follow(&mut self, redirect: Redirect) {
        self.redirects.push(redirect);
    }

    /// `error` in words of the network, where `answer` of a web server, or the lack of an answer at `address`, says more. May take
    /// [as long](Self::diagnosis_limit) as a connection.
    pub(super) fn explained(
        &self,
        error: CaptureError,
        answer: Option<&Answer>,
        address: Option<&str>,
    ) -> CaptureError {
        let is_vague = matches!(
            error,
            CaptureError::Failed { .. }
                | CaptureError::Corrupt { .. }
                | CaptureError::NoFrames { .. }
                | CaptureError::Missing { .. }
                | CaptureError::Unreachable { .. }
        );
        match answer {
            Some(answer) if answer.status == 0 && is_vague => {
                self.diagnosis(&answer.address).unwrap_or_else(|| CaptureError::Unreachable {
                    reason: format!("{} closes the connection without an answer", answer.shown()),
                })
            }
            Some(answer) => answer.error().unwrap_or_else(|| match error {
                CaptureError::Failed { .. } => CaptureError::Corrupt {
                    what: answer.shown(),
                    reason: format!("nothing decodes what the server sends ({})", answer.media()),
                },
                error => error,
            }),
            None if matches!(error, CaptureError::Unreachable { .. }) => {
                address.and_then(|address| self.diagnosis(address)).unwrap_or(error)
            }
            None => error,
        }
    }

    /// The longest that [`explained`](Self::explained) takes.
    pub(super) const fn diagnosis_limit() -> Duration {
        DIAGNOSIS
    }

    /// Why no connection to `address` is possible; `None` if it is.
    fn diagnosis(&self, address: &str) -> Option<CaptureError> {
        let Server { host, port, .. } = Server::of(address).ok()?;
        let has_tls = Server::of(address).is_ok_and(|server| server.has_tls());
        let client = gio::SocketClient::new();
        client.set_timeout(u32::try_from(DIAGNOSIS.as_secs()).unwrap_or(u32::MAX));
        client.set_tls(has_tls);
        let faults = Rc::new(Cell::new(None));
        let (own_faults, tls) = (Rc::clone(&faults), self.tls.clone());
        client.connect_event(move |_, event, _, connection| {
            let connection =
                connection.and_then(|stream| stream.downcast_ref::<gio::TlsConnection>());
            if let (gio::SocketClientEvent::TlsHandshaking, Some(connection)) = (event, connection)
            {
                if let Tls::CaFile(path) = &tls {
                    connection.set_database(authorities(path).ok().as_ref());
                }
                let (faults, tls) = (Rc::clone(&own_faults), tls.clone());
                connection.connect_accept_certificate(move |_, _, found| {
                    faults.set(Some(found));
                    tls == Tls::Insecure
                });
            }
        });
        let place = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        let place = format!("{place}:{port}");
        let error = client.connect_to_host(&place, port, gio::Cancellable::NONE).err()?;
        if error.is::<gio::ResolverError>() {
            return Some(CaptureError::Unreachable { reason: format!("unknown host {host:?}") });
        }
        if let Some(found) = faults.take().filter(|_| error.is::<gio::TlsError>()) {
            return Some(CaptureError::Certificate { server: place, reason: fault(found) });
        }
        let reason = match error.kind::<gio::IOErrorEnum>() {
            Some(gio::IOErrorEnum::ConnectionRefused) => format!("{place} refuses the connection"),
            Some(gio::IOErrorEnum::TimedOut) => format!("{place} does not answer"),
            _ => format!("{place}: {}", error.message()),
        };
        Some(CaptureError::Unreachable { reason: redacted(&reason) })
    }
}

/// The server to which each `rtspsrc` of a pipeline connected first, because `rtspsrc` follows redirects on its own.
#[derive(Debug, Default)]
pub(super) struct FirstServers(Mutex<BTreeMap<String, String>>);

impl FirstServers {
    /// The error if `message` says that its element is about to connect to another server than at first.
    pub(super) fn refusal_of(&self, message: &gst::message::Progress) -> Option<CaptureError> {
        let element = message.src()?.downcast_ref::<gst::Element>()?;
        let (_, code, _) = message.get();
        let to = location_of(element).filter(|_| code == "connect")?;
        let mut servers = self.0.lock();
        let first = servers.entry(element.name().to_string()).or_insert_with(|| to.clone());
        (!stays(first, &to)).then(|| CaptureError::Redirected { to: redacted(&to) })
    }
}

/// Keeps the thread of an element that is about to connect until it is stopped, which makes the connection fail.
pub(super) fn hold(element: &gst::Element) {
    while gst::State::Ready < element.current_state() {
        thread::sleep(Duration::from_millis(10));
    }
}

/// The answer of a web server.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    address: String,
    /// 0 without an answer.
    status: u32,
    location: Option<String>,
    media: Option<String>,
}

/// The newest answer of a pipeline.
pub(super) type NewestAnswer = Arc<Mutex<Option<Answer>>>;

impl Answer {
    /// The answer in a message of `souphttpsrc`; `None` for other messages.
    pub(super) fn of(message: &gst::message::Element) -> Option<Self> {
        let answer = message.structure().filter(|answer| answer.name() == "http-headers")?;
        let headers = answer.get::<gst::Structure>("response-headers").ok();
        let header = |wanted: &str| {
            let headers = headers.as_ref()?;
            let name = headers.fields().find(|name| name.eq_ignore_ascii_case(wanted))?;
            headers.get::<String>(name.as_str()).ok()
        };
        Some(Self {
            address: answer.get("uri").ok()?,
            status: answer.get("http-status-code").ok()?,
            location: header("location"),
            media: header("content-type"),
        })
    }

    /// Whether the answer is a web page.
    pub(super) fn is_web_page(&self) -> bool {
        let media = self.media.as_deref().unwrap_or_default().to_ascii_lowercase();
        ["text/html", "application/xhtml"].iter().any(|page| media.starts_with(page))
    }

    fn shown(&self) -> String {
        redacted(&self.address)
    }

    fn media(&self) -> String {
        let media = self.media.as_deref().map(redacted);
        media.map_or("no Content-Type".to_owned(), |media| format!("Content-Type {media}"))
    }

    fn redirects_to(&self) -> Option<String> {
        let location = self.location.as_ref().filter(|_| (300..400).contains(&self.status))?;
        let to = resolved(&self.address, location)?;
        Some(with_credentials_of(&self.address, to))
    }

    /// The error that its status means.
    fn error(&self) -> Option<CaptureError> {
        let (what, status) = (self.shown(), self.status);
        match status {
            0..300 => None,
            300..400 if self.location.is_some() => {
                let to = self.redirects_to().or_else(|| self.location.clone());
                Some(CaptureError::Redirected { to: redacted(&to.unwrap_or_default()) })
            }
            _ => Some(error_of_status(what, status)),
        }
    }
}

/// The error of `what`, an address, by a status of HTTP or RTSP.
pub(super) fn error_of_status(what: String, status: u32) -> CaptureError {
    let remedy = match status {
        401 | 403 | 407 => {
            return CaptureError::Unauthorised { reason: format!("{what} answers {status}") };
        }
        404 | 410 => return CaptureError::Missing { what },
        429 | 453 | 503 => "it is starting, or has too many viewers: close other viewers, or wait",
        500.. => "restart the camera or server, or look at its log",
        _ => "check the address",
    };
    CaptureError::Status { what, status, remedy }
}

/// Whether an address leads to the server of `from` again.
fn stays(from: &str, to: &str) -> bool {
    match (Server::of(from), Server::of(to)) {
        (Ok(from), Ok(to)) => from.may_redirect_to(&to),
        // What GStreamer opens at `from` is left to it.
        _ => from == to,
    }
}

/// The address of `location` in an answer of the server at `base`. Segments such as `..` are left to the server.
fn resolved(base: &str, location: &str) -> Option<String> {
    let (scheme, rest) = base.split_once("://")?;
    if location.split(['/', '?', '#']).next()?.ends_with(':') {
        return Some(location.to_owned());
    }
    if location.starts_with("//") {
        return Some(format!("{scheme}:{location}"));
    }
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let path = path.split(['?', '#']).next()?;
    let folder = match location.bytes().next() {
        Some(b'/') => "",
        Some(b'?') => path,
        _ => path.rsplit_once('/').map_or("/", |(folder, _)| &path[..=folder.len()]),
    };
    Some(format!("{scheme}://{authority}{folder}{location}"))
}

/// `to` with user and password of `from`, which a redirect does not repeat. Both are addresses of one server.
fn with_credentials_of(from: &str, to: String) -> String {
    let authority = |address: &str| {
        let (_, rest) = address.split_once("://")?;
        rest.split(['/', '?', '#']).next().map(str::to_owned)
    };
    match (authority(from), authority(&to)) {
        (Some(own), Some(other)) if stays(from, &to) && !other.contains('@') => {
            let credentials = own.rsplit_once('@').map(|(credentials, _)| credentials);
            credentials.map_or(to.clone(), |user| to.replacen("://", &format!("://{user}@"), 1))
        }
        _ => to,
    }
}

/// The certificate authorities in the file at `path`.
fn authorities(path: &Path) -> Result<gio::TlsFileDatabase, CaptureError> {
    // A relative path is an error of GLib's.
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    gio::TlsFileDatabase::new(absolute).map_err(|error| CaptureError::CaFile {
        path: path.to_owned(),
        reason: error.message().to_owned(),
    })
}

/// The faults of a certificate, in words.
fn fault(found: gio::TlsCertificateFlags) -> String {
    let names = [
        (gio::TlsCertificateFlags::UNKNOWN_CA, "no known authority has signed it"),
        (gio::TlsCertificateFlags::BAD_IDENTITY, "it is for another host"),
        (gio::TlsCertificateFlags::NOT_ACTIVATED, "it is not valid yet: check the clock"),
        (gio::TlsCertificateFlags::EXPIRED, "it has expired"),
        (gio::TlsCertificateFlags::REVOKED, "it has been revoked"),
        (gio::TlsCertificateFlags::INSECURE, "its algorithm is insecure"),
    ];
    let named: Vec<_> =
        names.into_iter().filter(|(flag, _)| found.contains(*flag)).map(|(_, text)| text).collect();
    if named.is_empty() { "it cannot be checked".to_owned() } else { named.join(", ") }
}

/// The address that `element` opens, if it has one.
pub(super) fn location_of(element: &gst::Element) -> Option<String> {
    let property = element.find_property("location")?;
    let is_text = property.value_type() == glib::Type::STRING;
    element.property_value(property.name()).get().ok().filter(|_| is_text)?
}

/// Sets a property, if there is one of this type.
fn set<V: Into<glib::Value>>(element: &gst::Element, name: &str, value: V) {
    let value = value.into();
    let fits = |property: glib::ParamSpec| value.type_().is_a(property.value_type());
    if element.find_property(name).is_some_and(fits) {
        element.set_property_from_value(name, &value);
    }
}

#[cfg(test)]
mod tests;
