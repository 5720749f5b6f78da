//! Topics of a recording, one MCAP channel each.

use foxglove::messages::{CameraCalibration, CompressedImage, ImageAnnotations};
use foxglove::{Encode, Schema};
use prost::Message;

use super::messages::descriptors;

/// A channel of a view: `/STREAM/VIEW/` and its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Topic {
    /// The headers of segments.
    Segment,
    /// Token frames.
    Tokens,
    /// Changes of the gaze.
    Gaze,
    /// What happened to the view or the recording.
    Status,
    /// Events in the picture.
    Events,
    /// The picture rebuilt from the tokens.
    Image,
    /// The picture rebuilt from the tokens, with the boxes of the tokens and the fixations drawn into it.
    Boxes,
    /// The boxes of the tokens and the fixations.
    Annotations,
    /// The camera.
    Calibration,
}

foveate_core::names!(Topic {
    Segment = "segment",
    Tokens = "tokens",
    Gaze = "gaze",
    Status = "status",
    Events = "events",
    Image = "image",
    Boxes = "boxes",
    Annotations = "annotations",
    Calibration = "calibration",
});

impl Topic {
    /// Schema of the messages.
    pub(super) fn schema(self) -> Schema {
        let foxglove = match self {
            Self::Segment => return own("foveate.Segment"),
            Self::Tokens => return own("foveate.TokenFrame"),
            Self::Gaze => return own("foveate.Gaze"),
            Self::Status => return own("foveate.Event"),
            Self::Events => return own("foveate.SceneEvent"),
            Self::Image | Self::Boxes => CompressedImage::get_schema(),
            Self::Annotations => ImageAnnotations::get_schema(),
            Self::Calibration => CameraCalibration::get_schema(),
        };
        foxglove.expect("Foxglove's own messages have schemas")
    }
}

fn own(name: &str) -> Schema {
    Schema::new(name, "protobuf", descriptors().encode_to_vec())
}
