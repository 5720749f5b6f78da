//! Messages of the daemon's sockets for the daemon and its tools; readers need only those of [`foveate`].
//!
//! ```text
//! client                                                         daemon
//! {"op":"list"}                                              ->
//!                        <- {"ok":true,"streams":[...],"next":"camera/main"}   (`next` where more follow)
//! {"op":"list","after":"camera/main"}                        ->
//!                        <- {"ok":true,"streams":[...]}
//! {"op":"stats"}                                             ->
//!                        <- {"ok":true,"daemon":{...},"streams":[...],"next":"camera"}        (`next` where more follow)
//! {"op":"look","view":"camera/main","points":[[320,240]]}     ->
//!                        <- {"ok":true,"view":"camera/main","points":[[320.0,240.0]]}
//! {"op":"attend","view":"camera/main","shape":[24,24],"dtype":"f16","frame":812}   + newline, 1152 bytes   ->
//!                        <- {"ok":true,"view":"camera/main","points":[[411.5,92.25]]}
//! {"op":"attend_tokens","view":"camera/main","frame":812,"dtype":"f32"}            + newline, 1092 bytes   ->
//!                        <- {"ok":false,"reason":"held","error":"...","holder":"process 4711 (python3)"}
//! {"op":"inject","view":"camera/main","name":"depth","shape":[24,24],"dtype":"f16"}   + newline, 1152 bytes      ->
//!                        <- {"ok":true,"view":"camera/main"}
//! {"op":"weigh","view":"camera/main","weights":{"depth":1.0,"edges":0.2}}          ->
//!                        <- {"ok":true,"view":"camera/main"}
//! {"op":"release","view":"camera/main"}                      ->
//!                        <- {"ok":true,"view":"camera/main"}
//! {"op":"refresh","view":"camera/main"}                      ->
//!                        <- {"ok":true,"view":"camera/main"}
//! {"op":"open_view","stream":"camera","view":{"name":"left","budget":128,"gaze":{"policy":"feedback"}}}    ->
//!                        <- {"ok":true,"view":"camera/left"}
//! {"op":"subscribe","view":"camera/main","notify":true,"gaze":true}                ->
//!                        <- {"ok":true,"view":"camera/main"}
//!                        <- {"event":"segment","view":"camera/main","epoch":"00c0ffee00c0ffee"}   + descriptor
//!                        <- 16 bytes: ring sequence, publish time                (where `notify` was asked)
//!                        <- {"event":"gaze","view":"camera/main","entry":{...},"lost":0}   (where `gaze` was asked)
//!                        <- {"event":"scene","view":"camera/main","scene":{...},...,"lost":0}   (where `events` was asked)
//!                        <- {"event":"ended","view":"camera/main","reason":"end of the file"}
//! {"op":"jump"}                                              ->
//!                        <- {"ok":false,"reason":"bad-request","error":"unknown variant `jump`, expected ..."}
//! ```
//!
//! A subscriber gets its first `segment` event at once if the stream has started, otherwise when it starts, and another one
//! whenever a change of size or format moves the view to a new segment. A hang-up means that the daemon is gone. A notice is
//! distinguished by its length: no message is that short.

use serde::{Deserialize, Serialize};

pub use self::listing::{
    ChangeListing, ChannelListing, DepthListing, Listing, MaskListing, ServerListing,
    SteeringListing, StreamInput, StreamListing, StreamSnapshot, StreamState, StuckListing,
    ViewListing,
};
pub use self::operator::{AdminRequest, admin_path, order};
pub use self::stats::{
    DaemonStats, Stats, StreamPace, StreamRates, StreamStats, ViewStats, per_second,
};
use foveate::ControlError;
use foveate::client::Client;
use foveate::messages::{
    Attend, AttendTokens, Inject, JSON_BYTES_MAX, Look, NumberFormat, Refusal, RefusalReason,
    ViewName, Weigh, clipped,
};

mod listing;
mod operator;
mod stats;

/// A request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Subscribe to a view: its segments, now and whenever they are replaced, and its end. Once per connection.
    Subscribe {
        /// The view.
        view: ViewName,
        /// Whether to send a notice of [`NOTICE_BYTES`](foveate::messages::NOTICE_BYTES) with every token frame, so that the
        /// socket can be polled.
        #[serde(default)]
        notify: bool,
        /// Whether to send an event for every change of gaze.
        #[serde(default)]
        gaze: bool,
        /// Whether to send an event for whatever happens in the picture.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        events: bool,
    },
    /// List streams and views.
    List {
        /// Where to continue: the `next` of the previous page.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<ViewName>,
    },
    /// Get statistics.
    Stats {
        /// Where to continue: the `next` of the previous page.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<String>,
    },
    /// Look at a point.
    Look(Look),
    /// Look at the peak of a map.
    Attend(Attend),
    /// Look at the peak of the scores of tokens.
    AttendTokens(AttendTokens),
    /// Give a view a map by name.
    Inject(Inject),
    /// Set what channels add to the score.
    Weigh(Weigh),
    /// Return control of a view to its policy and to other clients.
    Release {
        /// The view.
        view: ViewName,
    },
    /// Have a view deliver again what it takes for delivered.
    Refresh {
        /// The view.
        view: ViewName,
    },
    /// Open a view that lives as long as this connection.
    OpenView {
        /// The stream.
        stream: String,
        /// The view, with the keys of a `[[stream.view]]` of a configuration; without a `name` it is given one.
        #[serde(default)]
        view: serde_json::Map<String, serde_json::Value>,
    },
}

impl Request {
    /// Parses a datagram into a request and its raw bytes.
    ///
    /// # Errors
    ///
    /// A refusal that says what is wrong and what is allowed.
    pub fn from_datagram(datagram: &[u8]) -> Result<(Self, &[u8]), Refusal> {
        let (head, payload) = split(datagram);
        if JSON_BYTES_MAX < head.len() {
            let error = format!(
                "request too large: {} bytes of JSON (expected at most {JSON_BYTES_MAX}); send numbers as raw bytes behind a \
                 newline",
                head.len()
            );
            return Err(Refusal::new(RefusalReason::TooLarge, error));
        }
        let request: Self = serde_json::from_slice(head).map_err(|error| {
            Refusal::new(RefusalReason::BadRequest, clipped(&error.to_string(), 1024))
        })?;
        if payload.is_empty() || request.takes_payload() {
            Ok((request, payload))
        } else {
            let error =
                format!("unexpected {} raw bytes after the request (expected none)", payload.len());
            Err(Refusal::new(RefusalReason::BadRequest, error))
        }
    }

    /// The request as a datagram, with its raw bytes, if any.
    pub fn to_datagram(&self, payload: &[u8]) -> Vec<u8> {
        let mut datagram = to_json(self);
        if self.takes_payload() {
            datagram.push(b'\n');
            datagram.extend_from_slice(payload);
        }
        datagram
    }

    fn takes_payload(&self) -> bool {
        matches!(self, Self::Attend(_) | Self::AttendTokens(_) | Self::Inject(_))
    }
}

/// Datagram that grants a request; `body` must serialize to an object.
pub fn accepted<T: Serialize>(body: &T) -> Vec<u8> {
    to_json(&Answer { ok: true, body })
}

/// Datagram that refuses a request.
pub fn refused(refusal: &Refusal) -> Vec<u8> {
    to_json(&Answer { ok: false, body: refusal })
}

/// Requests of tools.
pub trait ClientExt {
    /// All pages of streams and views, and the server's statistics.
    ///
    /// # Errors
    ///
    /// If the daemon does not answer or refuses.
    fn listing(&mut self) -> Result<Listing, ControlError>;

    /// All streams and views, in the order of stream names.
    ///
    /// # Errors
    ///
    /// If the daemon does not answer or refuses.
    fn list(&mut self) -> Result<Vec<StreamListing>, ControlError> {
        self.listing().map(|listing| listing.streams)
    }

    /// All pages of statistics.
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

/// Parses the numbers of a payload.
///
/// # Errors
///
/// If its length is not a multiple of a number's.
pub fn numbers(format: NumberFormat, payload: &[u8]) -> Result<Vec<f32>, Refusal> {
    let size = format.bytes();
    if !payload.len().is_multiple_of(size) {
        let error =
            format!("invalid payload: {} bytes (expected a multiple of {size})", payload.len());
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

/// Bytes of JSON in a request's datagram.
pub fn json_bytes(datagram: &[u8]) -> usize {
    split(datagram).0.len()
}

/// Splits a datagram at its newline into JSON and raw bytes.
fn split(datagram: &[u8]) -> (&[u8], &[u8]) {
    match datagram.iter().position(|&byte| byte == b'\n') {
        Some(end) => (&datagram[..end], &datagram[end + 1..]),
        None => (datagram, &[]),
    }
}
