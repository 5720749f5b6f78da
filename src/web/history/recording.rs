//! Recordings, as far as a page needs them. The program that has this page knows their format.

use std::fs::File;
use std::io;
use std::sync::Arc;

use serde_json::json;

use super::stored::FrameSegment;
use super::timeline::Timeline;
use foveate::messages::ViewName;
use foveate_ring::TokenFrameBuf;

/// A recording that is open.
pub struct RecordedView {
    /// The view that was recorded.
    pub view: ViewName,
    /// Title with the names of the files.
    pub title: String,
    /// When each frame was published, in milliseconds since 1970.
    pub times_ms: Vec<f64>,
    /// The segment of the first frame.
    pub segment: Arc<FrameSegment>,
    /// Timeline of the recording.
    pub timeline: Timeline,
    /// The recorded frames.
    pub frames: Box<dyn RecordedFrames>,
}

impl RecordedView {
    /// A report as of a daemon that has this view alone, in JSON.
    pub(crate) fn report(&self) -> String {
        let info = &self.segment.info;
        let view = json!({
            "name": self.view,
            "layout": info.layout,
            "budget": info.capacity,
            "policy": "recorded",
            "steering": {},
        });
        let stream = json!({
            "name": self.view.stream(),
            "state": "live",
            "reason": "",
            "reasons": [],
            "source": self.title,
            "format": info.pixel_format,
            "extent": [info.extent.width, info.extent.height],
            "backend": { "kind": info.backend.to_string(), "device": info.device },
            "masks": [],
            "frames_dropped": 0,
            "rates": null,
            "views": [view],
        });
        json!({
            "type": "report",
            "daemon": null,
            "error": null,
            "recording": self.title,
            "streams": [stream],
        })
        .to_string()
    }
}

impl std::fmt::Debug for RecordedView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordedView").field("view", &self.view).finish_non_exhaustive()
    }
}

/// The frames of a recording.
pub trait RecordedFrames: Send + Sync {
    /// Reads frame `index`.
    ///
    /// # Errors
    ///
    /// If the file has changed since it was opened, or cannot be read.
    fn read(&self, index: usize) -> io::Result<(TokenFrameBuf, Arc<FrameSegment>)>;
}

/// A frame to be recorded.
#[derive(Debug)]
pub struct FrameToRecord {
    /// The segment of the frame; may differ from that of the frame before.
    pub segment: Arc<FrameSegment>,
    /// Frames before it that are missing.
    pub missed: u64,
    /// The frame as it was read from the ring.
    pub frame: TokenFrameBuf,
}

/// Makes a recording of frames, oldest first, in a file that has no name any more, and is at its beginning.
pub type MakeRecording = fn(&ViewName, &mut dyn Iterator<Item = FrameToRecord>) -> io::Result<File>;
