//! The messages of the daemon's sockets as the daemon and its tools have them; a reader makes do with those of [`foveate`].
//!
//! ```text
//! client                                                         daemon
//! {"op":"list"}                                              ->
//!                        <- {"ok":true,"streams":[...],"next":"camera/main"}   (`next` where more follow)
//! {"op":"list","after":"camera/main"}                        ->
//!                        <- {"ok":true,"streams":[...]}
//! {"op":"stats"}                                             ->
//!                        <- {"ok":true,"daemon":{...},"streams":[...],"next":"camera"}        (`next` where more follow)
//! {"op":"look","view":"camera/main","x":320,"y":240}         ->
//!                        <- {"ok":true,"view":"camera/main","x":320.0,"y":240.0}
//! {"op":"attend","view":"camera/main","shape":[24,24],"dtype":"f16","frame":812}   + newline, 1152 bytes   ->
//!                        <- {"ok":true,"view":"camera/main","x":411.5,"y":92.25}
//! {"op":"attend_tokens","view":"camera/main","frame":812,"dtype":"f32"}            + newline, 1092 bytes   ->
//!                        <- {"ok":false,"reason":"held","error":"...","holder":"process 4711 (python3)"}
//! {"op":"release","view":"camera/main"}                      ->
//!                        <- {"ok":true,"view":"camera/main"}
//! {"op":"open_view","stream":"camera","view":{"name":"left","budget":128,"gaze":{"policy":"feedback"}}}    ->
//!                        <- {"ok":true,"view":"camera/left"}
//! {"op":"subscribe","view":"camera/main","notify":true,"gaze":true}                ->
//!                        <- {"ok":true,"view":"camera/main"}
//!                        <- {"event":"segment","view":"camera/main","epoch":"00c0ffee00c0ffee"}   + descriptor
//!                        <- 16 bytes: ring sequence, publish time                (where `notify` was asked)
//!                        <- {"event":"gaze","view":"camera/main","entry":{...},"lost":0}   (where `gaze` was asked)
//!                        <- {"event":"ended","view":"camera/main","reason":"end of the file"}
//! {"op":"jump"}                                              ->
//!                        <- {"ok":false,"reason":"bad-request","error":"unknown variant `jump`, expected ..."}
//! ```
//!
//! A subscriber gets its first `segment` event at once if the stream has started, otherwise when it does, and
//! another one whenever the picture's size or format changed and the view moved to a new segment. Hang-up
//! means that the daemon is gone. A notice is told from a message by its length: no message is that short.

use serde::{Deserialize, Serialize};

pub use self::listing::{
    ChangeListing, Listing, ServerListing, SteeringListing, StreamListing, StreamState,
    StuckListing, ViewListing,
};
pub use self::operator::{AdminRequest, admin_path, order};
pub use self::stats::{DaemonStats, Stats, StreamStats, ViewStats};
use foveate::ControlError;
use foveate::client::Client;
use foveate::messages::{
    Attend, AttendTokens, Look, NumberFormat, Refusal, RefusalReason, ViewName, clipped,
};

mod listing;
mod operator;
mod stats;

/// What a client asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Send me the view's segment, now and whenever it is replaced, and tell me when it ends. Once a connection.
    Subscribe {
        /// Which view.
        view: ViewName,
        /// Whether to send a notice of [`NOTICE_BYTES`](foveate::messages::NOTICE_BYTES) with every token frame, so that the
        /// socket can be polled.
        #[serde(default)]
        notify: bool,
        /// Whether to send an event whenever the view looks elsewhere.
        #[serde(default)]
        gaze: bool,
    },
    /// What streams and views are there?
    List {
        /// Where to go on: the `next` of the page before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<ViewName>,
    },
    /// What has been counted?
    Stats {
        /// Where to go on: the `next` of the page before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<String>,
    },
    /// Look at a point.
    Look(Look),
    /// Look where a map says.
    Attend(Attend),
    /// Look where the scores of tokens say.
    AttendTokens(AttendTokens),
    /// Look where the view's policy says, and let other clients steer it.
    Release {
        /// Which view.
        view: ViewName,
    },
    /// Make a view of my own, which lives as long as this connection.
    OpenView {
        /// The stream to look at.
        stream: String,
        /// The view, as a `[[stream.view]]` of a configuration has it; without a `name` it gets one.
        #[serde(default)]
        view: serde_json::Map<String, serde_json::Value>,
    },
}

impl Request {
    /// Reads a datagram: what is asked, and the raw bytes that come with it.
    ///
    /// # Errors
    ///
    /// A refusal that says what is wrong with it and what is allowed.
    pub fn from_datagram(datagram: &[u8]) -> Result<(Self, &[u8]), Refusal> {
        let (head, payload) = split(datagram);
        let request: Self = serde_json::from_slice(head).map_err(|error| {
            Refusal::new(RefusalReason::BadRequest, clipped(&error.to_string(), 1024))
        })?;
        if payload.is_empty() || request.takes_payload() {
            Ok((request, payload))
        } else {
            let error = format!("{} raw bytes follow a request that takes none", payload.len());
            Err(Refusal::new(RefusalReason::BadRequest, error))
        }
    }

    /// The request as a datagram, with the raw bytes that come with it, if any.
    pub fn to_datagram(&self, payload: &[u8]) -> Vec<u8> {
        let mut datagram = to_json(self);
        if self.takes_payload() {
            datagram.push(b'\n');
            datagram.extend_from_slice(payload);
        }
        datagram
    }

    fn takes_payload(&self) -> bool {
        matches!(self, Self::Attend(_) | Self::AttendTokens(_))
    }
}

/// The datagram that grants a request; `body` must serialise to an object.
pub fn accepted<T: Serialize>(body: &T) -> Vec<u8> {
    to_json(&Answer { ok: true, body })
}

/// The datagram that refuses a request.
pub fn refused(refusal: &Refusal) -> Vec<u8> {
    to_json(&Answer { ok: false, body: refusal })
}

/// What only tools ask a daemon.
pub trait ClientExt {
    /// All streams and views, and what the server has done, on one page.
    ///
    /// # Errors
    ///
    /// If the daemon does not answer or refuses.
    fn listing(&mut self) -> Result<Listing, ControlError>;

    /// All streams and views, streams in the order of their names.
    ///
    /// # Errors
    ///
    /// If the daemon does not answer or refuses.
    fn list(&mut self) -> Result<Vec<StreamListing>, ControlError> {
        self.listing().map(|listing| listing.streams)
    }

    /// What the daemon has counted, on one page.
    ///
    /// # Errors
    ///
    /// If the daemon does not answer or refuses.
    fn stats(&mut self) -> Result<Stats, ControlError>;
}

impl ClientExt for Client {
    fn listing(&mut self) -> Result<Listing, ControlError> {
        let mut listing: Listing = self.request(&Request::List { after: None }, &[])?;
        while let Some(after) = listing.next.take() {
            let page: Listing = self.request(&Request::List { after: Some(after) }, &[])?;
            for stream in page.streams {
                match listing.streams.last_mut() {
                    Some(last) if last.name == stream.name => last.views.extend(stream.views),
                    _ => listing.streams.push(stream),
                }
            }
            listing.next = page.next;
        }
        Ok(listing)
    }

    fn stats(&mut self) -> Result<Stats, ControlError> {
        let mut stats: Stats = self.request(&Request::Stats { after: None }, &[])?;
        while let Some(after) = stats.next.take() {
            let page: Stats = self.request(&Request::Stats { after: Some(after) }, &[])?;
            stats.streams.extend(page.streams);
            stats.next = page.next;
        }
        Ok(stats)
    }
}

/// Reads the numbers of a payload.
///
/// # Errors
///
/// If it ends within a number.
pub fn numbers(format: NumberFormat, payload: &[u8]) -> Result<Vec<f32>, Refusal> {
    let size = format.bytes();
    if !payload.len().is_multiple_of(size) {
        let error = format!("{} bytes are no array of numbers of {size} bytes", payload.len());
        return Err(Refusal::new(RefusalReason::WrongCount, error));
    }
    let numbers = payload.chunks_exact(size);
    Ok(match format {
        NumberFormat::F32 => {
            numbers.map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
        }
        NumberFormat::F16 => {
            numbers.map(|b| half::f16::from_le_bytes([b[0], b[1]]).to_f32()).collect()
        }
        NumberFormat::U8 => numbers.map(|b| f32::from(b[0])).collect(),
    })
}

#[derive(Serialize)]
struct Answer<'a, T> {
    ok: bool,
    #[serde(flatten)]
    body: &'a T,
}

fn to_json<T: Serialize>(message: &T) -> Vec<u8> {
    serde_json::to_vec(message).expect("messages have string keys and no failing parts")
}

/// The JSON of a datagram and the raw bytes after its newline.
fn split(datagram: &[u8]) -> (&[u8], &[u8]) {
    match datagram.iter().position(|&byte| byte == b'\n') {
        Some(end) => (&datagram[..end], &datagram[end + 1..]),
        None => (datagram, &[]),
    }
}
