//! Foveate's own messages of a recording, as Protocol Buffers. `docs/reference/recording.md` documents them.

use prost::Message;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet};

use foveate::messages::SceneEvent;
use foveate_core::event;
use foveate_core::geometry::fixation::Fixation;
use foveate_core::geometry::region::Region;

/// `version` of [`TokenFrameMessage`] and [`SegmentMessage`]. Incremented when an old reader would misread a new recording.
pub const VERSION: u32 = 1;

/// Package of the messages, with which their names begin.
const PACKAGE: &str = "foveate";

/// A token frame, as its slot of the ring held it.
#[derive(Clone, PartialEq, Message)]
pub struct TokenFrameMessage {
    /// Version of the message: [`VERSION`].
    #[prost(uint32, tag = "1")]
    pub version: u32,
    /// Identity of the segment.
    #[prost(fixed64, tag = "2")]
    pub epoch: u64,
    /// Frames before this one that were overwritten before they could be recorded.
    #[prost(uint64, tag = "3")]
    pub missed: u64,
    /// The slot's header.
    #[prost(bytes = "vec", tag = "4")]
    pub header: Vec<u8>,
    /// The records of its tokens.
    #[prost(bytes = "vec", tag = "5")]
    pub records: Vec<u8>,
    /// The valid items of each plane, in the order of the segment's table.
    #[prost(bytes = "vec", repeated, tag = "6")]
    pub planes: Vec<Vec<u8>>,
}

/// A segment that token frames are of.
#[derive(Clone, PartialEq, Message)]
pub struct SegmentMessage {
    /// Version of the message: [`VERSION`].
    #[prost(uint32, tag = "1")]
    pub version: u32,
    /// Identity of the segment.
    #[prost(fixed64, tag = "2")]
    pub epoch: u64,
    /// Header page of the segment.
    #[prost(bytes = "vec", tag = "3")]
    pub header: Vec<u8>,
}

/// A point that a view looked at.
#[derive(Clone, PartialEq, Message)]
pub struct FixationMessage {
    /// Counts the fixations of the view.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// Pixels right of the source's left edge.
    #[prost(double, tag = "2")]
    pub x: f64,
    /// Pixels below the source's top edge.
    #[prost(double, tag = "3")]
    pub y: f64,
    /// The first frame that was sampled around the point.
    #[prost(uint64, tag = "4")]
    pub since_frame: u64,
    /// Value of the map at the point when it was chosen.
    #[prost(float, tag = "5")]
    pub weight: f32,
    /// Why the point was chosen.
    #[prost(string, tag = "6")]
    pub reason: String,
}

/// The gaze of a view from a frame on.
#[derive(Clone, PartialEq, Message)]
pub struct GazeMessage {
    /// The frame.
    #[prost(uint64, tag = "1")]
    pub frame_seq: u64,
    /// All fixations, each in the place that it keeps.
    #[prost(message, repeated, tag = "2")]
    pub fixations: Vec<FixationMessage>,
}

/// What happened to a view, or to its recording.
#[derive(Clone, PartialEq, Message)]
pub struct StateMessage {
    /// Name of a [`StateKind`].
    #[prost(string, tag = "1")]
    pub kind: String,
    /// Reason, in words.
    #[prost(string, tag = "2")]
    pub reason: String,
    /// Identity of the segment at that time.
    #[prost(fixed64, tag = "3")]
    pub epoch: u64,
    /// Frames, if some were missed.
    #[prost(uint64, tag = "4")]
    pub missed: u64,
}

/// An event in the picture.
#[derive(Clone, PartialEq, Message)]
pub struct SceneMessage {
    /// Kind of the event, such as `covered`.
    #[prost(string, tag = "1")]
    pub kind: String,
    /// `once`, `began` or `ended`.
    #[prost(string, tag = "2")]
    pub phase: String,
    /// The frame at which the event is reported.
    #[prost(uint64, tag = "3")]
    pub frame_seq: u64,
    /// The frame from which on it holds; of an end, the frame with which it began.
    #[prost(uint64, tag = "4")]
    pub since_frame: u64,
    /// Strength of the event.
    #[prost(double, tag = "5")]
    pub value: f64,
    /// Left, top, right and bottom in source pixels; empty for the whole picture.
    #[prost(double, repeated, tag = "6")]
    pub r#box: Vec<f64>,
    /// Events that were lost before it.
    #[prost(uint64, tag = "7")]
    pub lost: u64,
}

/// Kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateKind {
    /// The view publishes frames.
    Live,
    /// No frames for a while.
    Stalled,
    /// The view has ended.
    Ended,
    /// Frames were overwritten before they could be recorded.
    Missed,
    /// The daemon is gone.
    Disconnected,
    /// The recording was ended.
    Stopped,
}

foveate_core::names!(StateKind {
    Live = "live",
    Stalled = "stalled",
    Ended = "ended",
    Missed = "missed",
    Disconnected = "disconnected",
    Stopped = "stopped",
});

impl From<&SceneEvent> for SceneMessage {
    fn from(event: &SceneEvent) -> Self {
        let event::Event { kind, phase, frame, since_frame, region, value } = event.scene;
        let region = region.map(|Region { x0, y0, x1, y1 }| vec![x0, y0, x1, y1]);
        Self {
            kind: kind.to_string(),
            phase: phase.to_string(),
            frame_seq: frame,
            since_frame,
            value,
            r#box: region.unwrap_or_default(),
            lost: event.lost,
        }
    }
}

impl From<&Fixation> for FixationMessage {
    fn from(fixation: &Fixation) -> Self {
        let Fixation { id, x, y, since_frame, reason, weight, .. } = *fixation;
        Self { id, x, y, since_frame, weight, reason: reason.to_string() }
    }
}

#[derive(Clone, Copy)]
enum FieldType {
    One(Type),
    Many(Type),
    ManyOf(&'static str),
}

use FieldType::{Many, ManyOf, One};

/// Names, numbers and types of the fields of a message.
type Fields = &'static [(&'static str, i32, FieldType)];

const MESSAGES: [(&str, Fields); 6] = [
    (
        "TokenFrame",
        &[
            ("version", 1, One(Type::Uint32)),
            ("epoch", 2, One(Type::Fixed64)),
            ("missed", 3, One(Type::Uint64)),
            ("header", 4, One(Type::Bytes)),
            ("records", 5, One(Type::Bytes)),
            ("planes", 6, Many(Type::Bytes)),
        ],
    ),
    (
        "Segment",
        &[
            ("version", 1, One(Type::Uint32)),
            ("epoch", 2, One(Type::Fixed64)),
            ("header", 3, One(Type::Bytes)),
        ],
    ),
    (
        "Fixation",
        &[
            ("id", 1, One(Type::Uint64)),
            ("x", 2, One(Type::Double)),
            ("y", 3, One(Type::Double)),
            ("since_frame", 4, One(Type::Uint64)),
            ("weight", 5, One(Type::Float)),
            ("reason", 6, One(Type::String)),
        ],
    ),
    ("Gaze", &[("frame_seq", 1, One(Type::Uint64)), ("fixations", 2, ManyOf("Fixation"))]),
    (
        "Event",
        &[
            ("kind", 1, One(Type::String)),
            ("reason", 2, One(Type::String)),
            ("epoch", 3, One(Type::Fixed64)),
            ("missed", 4, One(Type::Uint64)),
        ],
    ),
    (
        "SceneEvent",
        &[
            ("kind", 1, One(Type::String)),
            ("phase", 2, One(Type::String)),
            ("frame_seq", 3, One(Type::Uint64)),
            ("since_frame", 4, One(Type::Uint64)),
            ("value", 5, One(Type::Double)),
            ("box", 6, Many(Type::Double)),
            ("lost", 7, One(Type::Uint64)),
        ],
    ),
];

/// What a file says about these messages: a `FileDescriptorSet`, which `protoc` would make of the definitions in
/// `docs/reference/recording.md`.
pub fn descriptors() -> FileDescriptorSet {
    let field = |(name, number, kind): &(&str, i32, FieldType)| {
        let (label, kind, of) = match *kind {
            One(kind) => (Label::Optional, kind, None),
            Many(kind) => (Label::Repeated, kind, None),
            ManyOf(name) => (Label::Repeated, Type::Message, Some(format!(".{PACKAGE}.{name}"))),
        };
        FieldDescriptorProto {
            name: Some((*name).to_owned()),
            number: Some(*number),
            label: Some(label.into()),
            r#type: Some(kind.into()),
            type_name: of,
            ..FieldDescriptorProto::default()
        }
    };
    let message = |(name, fields): &(&str, &[(&str, i32, FieldType)])| DescriptorProto {
        name: Some((*name).to_owned()),
        field: fields.iter().map(field).collect(),
        ..DescriptorProto::default()
    };
    let file = FileDescriptorProto {
        name: Some("foveate.proto".to_owned()),
        package: Some(PACKAGE.to_owned()),
        syntax: Some("proto3".to_owned()),
        message_type: MESSAGES.iter().map(message).collect(),
        ..FileDescriptorProto::default()
    };
    FileDescriptorSet { file: vec![file] }
}
