//! What a datagram holds: one JSON object on one line, optionally a newline and raw bytes after it. `docs/control.md` has all
//! messages; these are those of a reader.

use std::fmt;

use serde_core::de::{DeserializeOwned, Error as _};
use serde_core::ser::SerializeMap;
use serde_core::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

pub use self::feedback::{Attend, AttendTokens, Look, Looking, NumberFormat};
pub use self::gaze::GazeEvent;
pub use self::names::{ViewName, ViewNameError};
pub use foveate_core::name::is_name;
use foveate_core::{names, object};
pub use foveate_ring::abi::NOTICE_BYTES;

mod feedback;
mod gaze;
mod names;

/// The longest datagram, in bytes.
pub const DATAGRAM_BYTES_MAX: usize = 128 * 1024;

/// Why a view ends whose daemon stops: it may come again.
pub const DAEMON_STOPS: &str = "restart";

/// Why a view ends whose stream begins anew, with another configuration: it may come again.
pub const STREAM_RESTARTS: &str = "the stream begins anew";

/// The longest reason in words, in bytes, of a refusal; it may quote what a client sent.
const REFUSAL_BYTES_MAX: usize = 4096;

/// Why a request was not granted, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
    Other,
}

names!(RefusalReason {
    BadRequest = "bad-request",
    TooLarge = "too-large",
    UnknownView = "unknown-view",
    AlreadySubscribed = "already-subscribed",
    NotStarted = "not-started",
    Ended = "ended",
    Busy = "busy",
    RateLimit = "rate-limit",
    FrameTooOld = "frame-too-old",
    UnknownFrame = "unknown-frame",
    WrongCount = "wrong-count",
    NotFinite = "not-finite",
    Negative = "negative",
    AllZero = "all-zero",
    MapTooLarge = "map-too-large",
    BadBox = "bad-box",
    Held = "held",
    Policy = "policy",
    UnknownStream = "unknown-stream",
    NameTaken = "name-taken",
    TooManyViews = "too-many-views",
    TooManyClients = "too-many-clients",
    Other = "other",
} else Other);

/// Why a request was not granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// For programs.
    pub reason: RefusalReason,
    /// For people: what is wrong and what is allowed.
    pub error: String,
    /// With [`RefusalReason::Held`]: who steers the view.
    pub holder: Option<String>,
}

object!(Refusal { "reason": reason, "error": error; "holder": holder });

impl Refusal {
    /// A refusal. A long reason is cut, so that it fits a datagram.
    pub fn new(reason: RefusalReason, error: impl Into<String>) -> Self {
        Self { reason, error: clipped(&error.into(), REFUSAL_BYTES_MAX), holder: None }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.error)
    }
}

impl std::error::Error for Refusal {}

/// The answer to `subscribe`, `release` and `open_view`.
#[derive(Clone, Debug, PartialEq)]
pub struct Granted {
    /// For which view, or the address of the one that was opened.
    pub view: ViewName,
}

object!(Granted { "view": view });

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
        u64::from_str_radix(&digits, 16).map(Self).map_err(D::Error::custom)
    }
}

/// What the daemon tells a subscriber unasked.
#[derive(Clone, Debug, PartialEq)]
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
        serde_json::to_vec(self).expect("an event has string keys and no failing parts")
    }

    fn from_json(mut event: Value) -> Result<Self, serde_json::Error> {
        let name = String::deserialize(event["event"].take())?;
        match name.as_str() {
            "segment" => Ok(Self::Segment {
                view: Deserialize::deserialize(event["view"].take())?,
                epoch: Deserialize::deserialize(event["epoch"].take())?,
            }),
            "gaze" => GazeEvent::deserialize(event).map(Self::Gaze),
            "ended" => Ok(Self::Ended {
                view: Deserialize::deserialize(event["view"].take())?,
                reason: Deserialize::deserialize(event["reason"].take())?,
            }),
            _ => Err(serde_json::Error::unknown_variant(&name, &["segment", "gaze", "ended"])),
        }
    }
}

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_map(None)?;
        match self {
            Self::Segment { view, epoch } => {
                object.serialize_entry("event", "segment")?;
                object.serialize_entry("view", view)?;
                object.serialize_entry("epoch", epoch)?;
            }
            Self::Gaze(GazeEvent { view, entry, lost }) => {
                object.serialize_entry("event", "gaze")?;
                object.serialize_entry("view", view)?;
                object.serialize_entry("entry", entry)?;
                object.serialize_entry("lost", lost)?;
            }
            Self::Ended { view, reason } => {
                object.serialize_entry("event", "ended")?;
                object.serialize_entry("view", view)?;
                object.serialize_entry("reason", reason)?;
            }
        }
        object.end()
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
        if datagram.len() == NOTICE_BYTES {
            return Ok(Self::Notice);
        }
        let head = datagram.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let message: Value = serde_json::from_slice(head)?;
        if !message["event"].is_null() {
            Event::from_json(message).map(Self::Event)
        } else if message["ok"] == true {
            T::deserialize(message).map(Self::Accepted)
        } else {
            Refusal::deserialize(message).map(Self::Refused)
        }
    }
}

/// At most `bytes_max` bytes of `text`; where it is cut, at the end of a character, and marked by an ellipsis.
pub fn clipped(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(bytes_max)])
}
