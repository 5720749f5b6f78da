//! An event of a stream, as it is reported.

use crate::geometry::region::Region;
use crate::{names, object};

/// Kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventKind {
    /// The picture was replaced by another one.
    Cut,
    /// The camera moves against the scene.
    CameraMoved,
    /// The picture is black, or has lost its structure.
    Covered,
    /// Much of the picture is clipped at white.
    OverExposed,
    /// A live source repeats its newest frame.
    Frozen,
    /// The brightness of the picture changes periodically.
    Flicker,
    /// Something new is in the picture.
    Appeared,
    /// A view looks where a client asked it to look.
    Reached,
    /// A kind that this version does not know.
    Other,
}

names!(EventKind {
    Cut = "cut",
    CameraMoved = "camera-moved",
    Covered = "covered",
    OverExposed = "over-exposed",
    Frozen = "frozen",
    Flicker = "flicker",
    Appeared = "appeared",
    Reached = "reached",
} else Other = "other");

impl EventKind {
    /// Whether the event lasts, so that its end is reported too.
    pub const fn is_state(self) -> bool {
        matches!(
            self,
            Self::CameraMoved | Self::Covered | Self::OverExposed | Self::Frozen | Self::Flicker
        )
    }
}

/// The part of an event that is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The event has no duration.
    Once,
    /// The event began.
    Began,
    /// The event ended.
    Ended,
}

names!(Phase { Once = "once", Began = "began", Ended = "ended" });

/// An event of a stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Event {
    /// Kind of the event.
    pub kind: EventKind,
    /// Phase of the event.
    pub phase: Phase,
    /// `frame_seq` of the frame at which the event is reported, once it has lasted long enough.
    pub frame: u64,
    /// `frame_seq` of the frame with which the event began, also if this reports its end.
    pub since_frame: u64,
    /// Place in source pixels; `None` for the whole picture.
    pub region: Option<Region>,
    /// Strength of the event; `docs/guide/events.md` gives the unit of each kind.
    pub value: f64,
}

object!(Event {
    "kind": kind, "phase": phase, "frame": frame, "since_frame": since_frame, "value": value;
    "box": region,
});
