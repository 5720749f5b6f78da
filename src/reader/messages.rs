//! Messages of a reader: each is one JSON object on one line, optionally followed by a newline and raw bytes. `docs/reference/control.md`
//! documents all messages.

use std::fmt;

use serde_core::de::{DeserializeOwned, Error as _};
use serde_core::ser::SerializeMap;
use serde_core::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

pub use self::feedback::{
    Attend, AttendTokens, Inject, Injected, Look, Looking, NumberFormat, TTL_MS_DEFAULT, Weigh,
};
pub use self::names::{ViewName, ViewNameError};
use foveate_core::event::Event;
use foveate_core::geometry::gaze_entry::GazeEntry;
pub use foveate_core::name::{clipped, is_name};
use foveate_core::{names, object};
pub use foveate_ring::abi::NOTICE_BYTES;

mod feedback;
mod names;

/// Longest datagram in bytes.
pub const DATAGRAM_BYTES_MAX: usize = 128 * 1024;

/// Longest JSON of a request in bytes, without raw bytes behind it: parsing costs more than copying.
pub const JSON_BYTES_MAX: usize = 8 * 1024;

/// Reason, a code, of the end of a view whose daemon stops; the view may come back.
pub const DAEMON_STOPPED: &str = "daemon_stopped";

/// Reason, a code, of the end of a view whose stream restarts with another configuration; the view may come back.
pub const STREAM_RESTARTED: &str = "stream_restarted";

/// Whether a view that ended for this reason may come back.
pub fn is_coming_back(reason: &str) -> bool {
    [DAEMON_STOPPED, STREAM_RESTARTED].contains(&reason)
}

/// The reason of the end of a view in words, for people.
pub fn end_text(reason: &str) -> &str {
    match reason {
        DAEMON_STOPPED => "the daemon stopped",
        STREAM_RESTARTED => "the stream restarted with another configuration",
        other => other,
    }
}

/// Longest text of a refusal in bytes; it may quote a client's input.
const REFUSAL_BYTES_MAX: usize = 4096;

/// Reason of a refusal, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RefusalReason {
    /// Not JSON, an unknown operation, or a field that is missing, unknown or out of range.
    BadRequest,
    /// Longer than [`DATAGRAM_BYTES_MAX`], or its JSON longer than [`JSON_BYTES_MAX`].
    TooLarge,
    /// No such view.
    UnknownView,
    /// The connection already has a subscription.
    AlreadySubscribed,
    /// The stream has not delivered a frame yet.
    NotStarted,
    /// The stream has ended.
    Ended,
    /// The stream still has earlier requests to process.
    Busy,
    /// Too many requests a second: the connection is closed. Or too much feedback: the connection stays open.
    RateLimit,
    /// The frame named in feedback had another extent, or what is needed of it is not known any more.
    FrameTooOld,
    /// The frame named in feedback has not been published.
    UnknownFrame,
    /// The number of values does not match the cells of the map or the tokens of the frame.
    WrongCount,
    /// A value is NaN or infinite.
    NotFinite,
    /// A value is negative.
    Negative,
    /// All values over the image are 0.
    AllZero,
    /// No cells, or more than 128 a side.
    MapTooLarge,
    /// The box is empty or outside the image.
    BadBox,
    /// The ego motion moves all of the feedback out of the picture.
    OutOfPicture,
    /// A rotation needs a calibrated camera.
    NoCamera,
    /// Another client steers the view, or holds the name of the channel.
    Held,
    /// The view's policy does not accept this feedback.
    Policy,
    /// The stream is a replayed recording, whose views cannot be steered, and which takes no further views.
    Recording,
    /// The view has as many injected channels as it can have.
    TooManyChannels,
    /// No such stream.
    UnknownStream,
    /// A view of the requested name exists.
    NameTaken,
    /// Too many views, or too much memory for them, for this client or for all.
    TooManyViews,
    /// Too many clients; the connection is closed.
    TooManyClients,
    /// Something that the request needs is missing: a view that is restarting, a source, a device, memory, or a mask of the given name.
    Unavailable,
    /// A reason unknown to this version.
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
    OutOfPicture = "out-of-picture",
    NoCamera = "no-camera",
    Held = "held",
    Policy = "policy",
    Recording = "recording",
    TooManyChannels = "too-many-channels",
    UnknownStream = "unknown-stream",
    NameTaken = "name-taken",
    TooManyViews = "too-many-views",
    TooManyClients = "too-many-clients",
    Unavailable = "unavailable",
} else Other = "other");

/// The answer to a request that was not granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Reason, for programs.
    pub reason: RefusalReason,
    /// Text for people: what is wrong and what is allowed instead.
    pub error: String,
    /// The client that steers the view or has the name, with [`RefusalReason::Held`].
    pub holder: Option<String>,
}

object!(Refusal { "reason": reason, "error": error; "holder": holder });

impl Refusal {
    /// A refusal; a long text is truncated to fit a datagram.
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

/// The answer to `subscribe`, `weigh`, `release`, `refresh` and `open_view`.
#[derive(Clone, Debug, PartialEq)]
pub struct Granted {
    /// The view, or the one that was opened.
    pub view: ViewName,
}

object!(Granted { "view": view });

/// Identity of a segment: a random number, in JSON 16 hexadecimal digits, because many JSON readers round numbers above 2^53.
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

/// The gaze of a view from a frame on.
#[derive(Clone, Debug, PartialEq)]
pub struct GazeEvent {
    /// The view.
    pub view: ViewName,
    /// The frame and the gaze.
    pub entry: GazeEntry,
    /// Events of this view that this subscription lost because too many came at once.
    pub lost: u64,
}

object!(GazeEvent { "view": view, "entry": entry, "lost": lost });

/// Something happened in the picture of a view's stream.
#[derive(Clone, Debug, PartialEq)]
pub struct SceneEvent {
    /// The view.
    pub view: ViewName,
    /// What happened.
    pub scene: Event,
    /// Capture time of the frame at which the event is reported, CLOCK_MONOTONIC in nanoseconds.
    pub capture_ns: u64,
    /// Capture time of the same frame, CLOCK_REALTIME in nanoseconds since 1970.
    pub capture_unix_ns: u64,
    /// Events of this view that this subscription lost because too many came at once.
    pub lost: u64,
}

object!(SceneEvent {
    "view": view, "scene": scene, "capture_ns": capture_ns, "capture_unix_ns": capture_unix_ns,
    "lost": lost,
});

/// An unsolicited message to a subscriber.
#[derive(Clone, Debug, PartialEq)]
pub enum SubscriptionEvent {
    /// The view publishes in this segment from now on. Its read-only descriptor comes with the datagram.
    Segment {
        /// The view.
        view: ViewName,
        /// Identity of the segment.
        epoch: Epoch,
    },
    /// The view's gaze changes from this frame on.
    Gaze(GazeEvent),
    /// Something happened in the picture.
    Scene(SceneEvent),
    /// The view has stopped publishing.
    Ended {
        /// The view.
        view: ViewName,
        /// Reason: [`DAEMON_STOPPED`], [`STREAM_RESTARTED`], or for a final end a text. [`end_text`] is the text for people.
        reason: String,
    },
}

impl SubscriptionEvent {
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
            "scene" => SceneEvent::deserialize(event).map(Self::Scene),
            "ended" => Ok(Self::Ended {
                view: Deserialize::deserialize(event["view"].take())?,
                reason: Deserialize::deserialize(event["reason"].take())?,
            }),
            _ => Err(serde_json::Error::unknown_variant(
                &name,
                &["segment", "gaze", "scene", "ended"],
            )),
        }
    }
}

impl Serialize for SubscriptionEvent {
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
            Self::Scene(SceneEvent { view, scene, capture_ns, capture_unix_ns, lost }) => {
                object.serialize_entry("event", "scene")?;
                object.serialize_entry("view", view)?;
                object.serialize_entry("scene", scene)?;
                object.serialize_entry("capture_ns", capture_ns)?;
                object.serialize_entry("capture_unix_ns", capture_unix_ns)?;
                object.serialize_entry("lost", lost)?;
            }
            Self::Ended { view, reason } => {
                object.serialize_entry("event", "ended")?;
                object.serialize_entry("view", view)?;
                object.serialize_entry("reason", reason)?;
                object.serialize_entry("text", end_text(reason))?;
            }
        }
        object.end()
    }
}

/// A message from the daemon.
#[derive(Clone, Debug, PartialEq)]
pub enum FromDaemon<T> {
    /// The request was granted.
    Accepted(T),
    /// The request was not granted.
    Refused(Refusal),
    /// An event for a subscriber.
    Event(SubscriptionEvent),
    /// A token frame was published; the ring holds all that the notice says.
    Notice,
}

impl<T: DeserializeOwned> FromDaemon<T> {
    /// Parses a datagram. Unknown fields are ignored.
    ///
    /// # Errors
    ///
    /// If the datagram is not one of these messages.
    pub fn from_datagram(datagram: &[u8]) -> Result<Self, serde_json::Error> {
        if datagram.len() == NOTICE_BYTES {
            return Ok(Self::Notice);
        }
        let head = datagram.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let message: Value = serde_json::from_slice(head)?;
        if !message["event"].is_null() {
            SubscriptionEvent::from_json(message).map(Self::Event)
        } else if message["ok"] == true {
            T::deserialize(message).map(Self::Accepted)
        } else {
            Refusal::deserialize(message).map(Self::Refused)
        }
    }
}
