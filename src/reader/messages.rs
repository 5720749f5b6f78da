//! What a datagram holds: one JSON object on one line, optionally a newline and raw bytes after it.
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

use std::fmt;

use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use self::feedback::{Attend, AttendTokens, Look, Looking, NumberFormat, Released};
pub use self::gaze::GazeEvent;
pub use self::listing::{
    ChangeListing, FixationListing, Listing, NoticeListing, ServerListing, SteeringListing,
    StreamListing, StreamState, StuckListing, ViewListing,
};
pub use self::names::{ViewName, ViewNameError};
pub use self::stats::{DaemonStats, Stats, StreamStats, ViewStats};
pub use foveate_core::name::is_name;
pub use foveate_ring::abi::NOTICE_BYTES;

mod feedback;
mod gaze;
mod listing;
mod names;
mod stats;

/// The longest datagram, in bytes.
pub const DATAGRAM_BYTES_MAX: usize = 128 * 1024;

/// Why a view ends whose daemon stops: it may come again.
pub const DAEMON_STOPS: &str = "restart";

/// Why a view ends whose stream begins anew, with another configuration: it may come again.
pub const STREAM_RESTARTS: &str = "the stream begins anew";

/// The longest reason in words, in bytes, of a refusal; it may quote what a client sent.
const REFUSAL_BYTES_MAX: usize = 4096;

/// What a client asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Send me the view's segment, now and whenever it is replaced, and tell me when it ends. Once a connection.
    Subscribe {
        /// Which view.
        view: ViewName,
        /// Whether to send a notice of [`NOTICE_BYTES`] with every token frame, so that the socket can be polled.
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

/// Why a request was not granted, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RefusalReason {
    /// Not JSON, no such operation, a field that is missing, unknown or out of range.
    BadRequest,
    /// Longer than [`DATAGRAM_BYTES_MAX`].
    TooLarge,
    /// No such view.
    UnknownView,
    /// The connection has a subscription already.
    AlreadySubscribed,
    /// The stream has not delivered a frame yet.
    NotStarted,
    /// The stream has ended.
    Ended,
    /// The stream has not taken earlier requests yet.
    Busy,
    /// More requests a second than one client may send: the connection is closed. Or more feedback: it is kept.
    RateLimit,
    /// The frame that feedback names is not among the last 64 any more, or had another extent.
    FrameTooOld,
    /// The frame that feedback names has not been published.
    UnknownFrame,
    /// Not as many numbers as a map has cells or a frame has tokens.
    WrongCount,
    /// NaN or infinity among the numbers.
    NotFinite,
    /// A number below 0.
    Negative,
    /// Nothing but zeros over the image.
    AllZero,
    /// More than 128 cells a side, or none.
    MapTooLarge,
    /// A box without area, or beside the image.
    BadBox,
    /// Another client steers the view.
    Held,
    /// The view's policy takes no such feedback.
    Policy,
    /// No such stream.
    UnknownStream,
    /// There is a view of that name already.
    NameTaken,
    /// More views, or more memory for them, than a client or all of them may open.
    TooManyViews,
    /// More clients than the daemon serves. The connection is closed.
    TooManyClients,
    /// A reason that this version does not know.
    #[serde(other)]
    Other,
}

impl fmt::Display for RefusalReason {
    /// As in JSON.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// Why a request was not granted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{error}")]
pub struct Refusal {
    /// For programs.
    pub reason: RefusalReason,
    /// For people: what is wrong and what is allowed.
    pub error: String,
    /// With [`RefusalReason::Held`]: who steers the view.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
}

impl Refusal {
    /// A refusal. A long reason is cut, so that it fits a datagram.
    pub fn new(reason: RefusalReason, error: impl Into<String>) -> Self {
        Self { reason, error: clipped(&error.into(), REFUSAL_BYTES_MAX), holder: None }
    }
}

/// The answer to [`Request::Subscribe`]; a `segment` event follows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Subscribed {
    /// Which view.
    pub view: ViewName,
}

/// The answer to [`Request::OpenView`]. The view's first `segment` event comes once it publishes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Opened {
    /// Its address.
    pub view: ViewName,
}

/// Identity of a segment, a random number. 16 hexadecimal digits in JSON, because many readers of JSON round
/// numbers above 2^53.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Epoch(pub u64);

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Serialize for Epoch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Epoch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let digits = String::deserialize(deserializer)?;
        u64::from_str_radix(&digits, 16).map(Self).map_err(serde::de::Error::custom)
    }
}

/// What the daemon tells a subscriber unasked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Event {
    /// The view publishes in this segment from now on. A read-only descriptor of it comes with the datagram.
    Segment {
        /// Which view.
        view: ViewName,
        /// Identity of the segment.
        epoch: Epoch,
    },
    /// The view looks elsewhere from this frame on.
    Gaze(GazeEvent),
    /// The view publishes no more.
    Ended {
        /// Which view.
        view: ViewName,
        /// Why, in words.
        reason: String,
    },
}

impl Event {
    /// The event as a datagram.
    pub fn to_datagram(&self) -> Vec<u8> {
        to_json(self)
    }
}

/// What the daemon sends to a client.
#[derive(Clone, Debug, PartialEq)]
pub enum FromDaemon<T> {
    /// The request was granted.
    Accepted(T),
    /// The request was not granted.
    Refused(Refusal),
    /// News for a subscriber.
    Event(Event),
    /// A token frame was published. What the notice holds stands in the ring, too.
    Notice,
}

impl<T: DeserializeOwned> FromDaemon<T> {
    /// Reads a datagram. Fields that this version does not know are ignored.
    ///
    /// # Errors
    ///
    /// If it is none of these messages.
    pub fn from_datagram(datagram: &[u8]) -> Result<Self, serde_json::Error> {
        /// The field that says which message it is.
        #[derive(Deserialize)]
        struct Kind {
            ok: Option<bool>,
            event: Option<IgnoredAny>,
        }

        if datagram.len() == NOTICE_BYTES {
            return Ok(Self::Notice);
        }
        let (head, _) = split(datagram);
        match serde_json::from_slice(head)? {
            Kind { event: Some(_), .. } => serde_json::from_slice(head).map(Self::Event),
            Kind { ok: Some(true), .. } => serde_json::from_slice(head).map(Self::Accepted),
            _ => serde_json::from_slice(head).map(Self::Refused),
        }
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

/// At most `bytes_max` bytes of `text`; where it is cut, at the end of a character, and marked by an ellipsis.
pub fn clipped(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(bytes_max)])
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
