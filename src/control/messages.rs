//! What a datagram holds: one JSON object on one line, optionally a newline and raw bytes after it.
//!
//! ```text
//! client                                                         daemon
//! {"op":"list"}                                              ->
//!                        <- {"ok":true,"streams":[...],"next":"camera/main"}   (`next` where more follow)
//! {"op":"list","after":"camera/main"}                        ->
//!                        <- {"ok":true,"streams":[...]}
//! {"op":"look","view":"camera/main","x":320,"y":240}         ->
//!                        <- {"ok":true,"view":"camera/main","x":320.0,"y":240.0}
//! {"op":"subscribe","view":"camera/main","notify":true}      ->
//!                        <- {"ok":true,"view":"camera/main"}
//!                        <- {"event":"segment","view":"camera/main","epoch":"00c0ffee00c0ffee"}   + descriptor
//!                        <- 16 bytes: ring sequence, publish time                (where `notify` was asked)
//!                        <- {"event":"ended","view":"camera/main","reason":"end of the file"}
//! {"op":"jump"}                                              ->
//!                        <- {"ok":false,"reason":"bad-request","error":"unknown variant `jump`, expected ..."}
//! ```
//!
//! A subscriber gets its first `segment` event at once if the stream has started, otherwise when it does, and
//! another one whenever the picture's size or format changed and the view moved to a new segment. Hang-up
//! means that the daemon is gone. A notice is told from a message by its length: no message is that short.

use std::fmt;
use std::str::FromStr;

use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::backend::Backend;
pub use crate::config::{NAME_BYTES_MAX, is_name};
use crate::geometry::fixation::{Fixation, FixationReason};
pub use crate::ring::abi::NOTICE_BYTES;
use crate::token::DType;

/// The longest datagram, in bytes.
pub const DATAGRAM_BYTES_MAX: usize = 128 * 1024;

/// The address of a view: `STREAM/VIEW`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct ViewName {
    stream: String,
    view: String,
}

/// Text that is not the address of a view.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not the name of a view: it takes STREAM/VIEW, each 1 to 63 of a-z, 0-9, `_` and `-`, \
     such as camera/main"
)]
pub struct ViewNameError(String);

impl ViewName {
    /// The address of `view` of `stream`.
    ///
    /// # Errors
    ///
    /// If either is not a name.
    pub fn new(stream: &str, view: &str) -> Result<Self, ViewNameError> {
        if is_name(stream) && is_name(view) {
            Ok(Self { stream: stream.to_owned(), view: view.to_owned() })
        } else {
            Err(ViewNameError::of(&format!("{stream}/{view}")))
        }
    }

    /// Name of the stream.
    pub fn stream(&self) -> &str {
        &self.stream
    }

    /// Name of the view in its stream.
    pub fn view(&self) -> &str {
        &self.view
    }
}

impl ViewNameError {
    /// Quotes `text`, or the beginning of it where it is longer than any name.
    fn of(text: &str) -> Self {
        Self(clipped(text, 2 * NAME_BYTES_MAX + 1))
    }
}

impl FromStr for ViewName {
    type Err = ViewNameError;

    fn from_str(text: &str) -> Result<Self, ViewNameError> {
        let (stream, view) = text.split_once('/').ok_or_else(|| ViewNameError::of(text))?;
        Self::new(stream, view)
    }
}

impl TryFrom<String> for ViewName {
    type Error = ViewNameError;

    fn try_from(text: String) -> Result<Self, ViewNameError> {
        text.parse()
    }
}

impl From<ViewName> for String {
    fn from(name: ViewName) -> Self {
        name.to_string()
    }
}

impl fmt::Display for ViewName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.stream, self.view)
    }
}

/// What a client asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "lowercase", deny_unknown_fields)]
pub enum Request {
    /// Send me the view's segment, now and whenever it is replaced, and tell me when it ends. Once a connection.
    Subscribe {
        /// Which view.
        view: ViewName,
        /// Whether to send a notice of [`NOTICE_BYTES`] with every token frame, so that the socket can be polled.
        #[serde(default)]
        notify: bool,
    },
    /// What streams and views are there?
    List {
        /// Where to go on: the `next` of the page before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<ViewName>,
    },
    /// Look there from the next frame on.
    Look {
        /// Which view.
        view: ViewName,
        /// Pixels right of the source's left edge.
        x: f64,
        /// Pixels below the source's top edge.
        y: f64,
    },
}

impl Request {
    /// Reads a datagram.
    ///
    /// # Errors
    ///
    /// A refusal that says what is wrong with it and what is allowed.
    pub fn from_datagram(datagram: &[u8]) -> Result<Self, Refusal> {
        let (head, payload) = split(datagram);
        let request = serde_json::from_slice(head).map_err(|error| {
            Refusal::new(RefusalReason::BadRequest, clipped(&error.to_string(), 1024))
        })?;
        if payload.is_empty() {
            Ok(request)
        } else {
            let error = format!("{} raw bytes follow a request that takes none", payload.len());
            Err(Refusal::new(RefusalReason::BadRequest, error))
        }
    }

    /// The request as a datagram.
    pub fn to_datagram(&self) -> Vec<u8> {
        to_json(self)
    }
}

/// Why a request was not granted, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    /// More requests a second than one client may send. The connection is closed.
    RateLimit,
    /// More clients than the daemon serves. The connection is closed.
    TooManyClients,
    /// A reason that this version does not know.
    #[serde(other)]
    Other,
}

/// Why a request was not granted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{error}")]
pub struct Refusal {
    /// For programs.
    pub reason: RefusalReason,
    /// For people: what is wrong and what is allowed.
    pub error: String,
}

impl Refusal {
    /// A refusal.
    pub fn new(reason: RefusalReason, error: impl Into<String>) -> Self {
        Self { reason, error: error.into() }
    }
}

/// The answer to [`Request::Subscribe`]; a `segment` event follows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Subscribed {
    /// Which view.
    pub view: ViewName,
}

/// The answer to [`Request::Look`]: the nearest point that the view can look at, from its next frame on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Looking {
    /// Which view.
    pub view: ViewName,
    /// Pixels right of the source's left edge, inside the image and rounded to 1/16.
    pub x: f64,
    /// Pixels below the source's top edge, inside the image and rounded to 1/16.
    pub y: f64,
}

/// The answer to [`Request::List`]: streams in the order of their names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Listing {
    /// The streams. One whose views do not fit a page goes on under the same name in the next.
    pub streams: Vec<StreamListing>,
    /// Where more follow: what to ask for next, as `after`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<ViewName>,
}

/// What a stream is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StreamState {
    /// No frame has come yet.
    Starting,
    /// Frames come.
    Live,
    /// Frames came and stay away.
    Stalled,
    /// No frame will come again.
    Ended,
}

impl fmt::Display for StreamState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Starting => "starting",
            Self::Live => "live",
            Self::Stalled => "stalled",
            Self::Ended => "ended",
        })
    }
}

/// One stream of a [`Listing`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamListing {
    /// Its name.
    pub name: String,
    /// What it is doing.
    pub state: StreamState,
    /// Why, in words; empty where there is nothing to say.
    pub reason: String,
    /// Where its frames come from, without secrets.
    pub source: String,
    /// Pixel format as GStreamer's caps name it; absent before the first frame.
    pub format: Option<String>,
    /// Width and height in pixels; absent before the first frame.
    pub extent: Option<[u32; 2]>,
    /// What computes its pyramid, and why; absent before the first frame.
    pub backend: Option<Backend>,
    /// Frames that the pipeline delivered.
    pub frames_captured: u64,
    /// Frames that a newer one replaced before they were taken.
    pub frames_dropped: u64,
    /// Frames whose tokens were published.
    pub frames_published: u64,
    /// Frames that could not be read.
    pub frames_refused: u64,
    /// Tiles that were ingested: those that changed, and those whose turn to be refreshed it was.
    pub tiles_dirty: u64,
    /// Times the stream went on on the CPU because its GPU was lost or refused.
    pub backend_fallbacks: u64,
    /// What counts as a change; absent before the first frame.
    pub change: Option<ChangeListing>,
    /// Its views, in the order of the configuration.
    pub views: Vec<ViewListing>,
}

/// What counts as a change of a stream now.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChangeListing {
    /// The most by which a camera sample may differ from the one that the pyramid was built from, in steps of 8 bits.
    pub threshold: u64,
    /// What the threshold never exceeds; absent where it is fixed.
    pub threshold_limit: Option<u64>,
    /// Noise of a sample, a standard deviation, in steps of 8 bits; absent where the threshold is fixed, and until
    /// enough has been seen.
    pub noise: Option<f64>,
    /// Tiles that were ingested for the newest frame.
    pub tiles_dirty: u64,
    /// Tiles of a frame.
    pub tile_count: u64,
}

/// One view of a [`StreamListing`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ViewListing {
    /// Its address.
    pub name: ViewName,
    /// Name of its layout.
    pub layout: String,
    /// P: side of a token in texels.
    pub patch_side: u32,
    /// Number format of a texel.
    pub dtype: DType,
    /// Most tokens of a frame.
    pub budget: u32,
    /// Identity of its present segment; absent before the first frame.
    pub epoch: Option<Epoch>,
    /// Where it looks; absent before the first frame.
    pub fixation: Option<FixationListing>,
}

/// Where a view looks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FixationListing {
    /// Grows by one with every new fixation of the view, from 1.
    pub id: u64,
    /// Pixels right of the source's left edge.
    pub x: f64,
    /// Pixels below the source's top edge.
    pub y: f64,
    /// `frame_seq` of the first frame that was sampled around it.
    pub since_frame: u64,
    /// Why it was chosen.
    pub reason: FixationReason,
}

impl From<Fixation> for FixationListing {
    fn from(fixation: Fixation) -> Self {
        let Fixation { id, x, y, since_frame, reason } = fixation;
        Self { id, x, y, since_frame, reason }
    }
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
