//! The GStreamer boundary: from a source's text to a mailbox of mapped frames with times.
//!
//! [`expansion`] turns what the user wrote into one pipeline description; `pipeline` builds it and inserts an
//! element before the appsink only where the caps need one; [`source`] watches it, plays files again,
//! and ends in a typed reason; `delivery` runs on GStreamer's streaming thread and fills the [`mailbox`].
//!
//! Nothing is lost uncounted: every buffer that reaches the appsink gets the next `frame_seq`, whatever becomes of it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

mod caps;
mod delivery;
mod error;
pub mod expansion;
mod frame;
pub mod hints;
pub mod mailbox;
mod pipeline;
pub mod source;
pub mod times;

pub use error::CaptureError;
pub use frame::CapturedFrame;
pub use source::Source;

/// What the mailbox of a source gives.
pub type Taken = mailbox::Taken<CapturedFrame>;

/// Where a pipeline comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceText {
    /// `test`, `/dev/videoN`, an `rtsp://` or `rtsps://` address, or a file: one of the shipped pipelines.
    Shorthand(String),
    /// A gst-launch description that ends in `appsink name=frames`.
    Pipeline(String),
    /// A file that holds such a description; lines that begin with `#` are comments.
    PipelineFile(PathBuf),
}

/// Who waits for whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pace {
    /// The newest frame wins; files play at their own speed.
    #[default]
    Realtime,
    /// The decoder waits until each frame was taken. For files: a camera waits for nobody.
    EveryFrame,
}

/// What to capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceSpec {
    /// Name of the stream, for logs and threads.
    pub stream: String,
    /// Where the pipeline comes from.
    pub source: SourceText,
    /// Values for `${name}` and `${name:-default}` in its text.
    pub parameters: BTreeMap<String, String>,
    /// Who waits for whom.
    pub pace: Pace,
    /// Whether a file begins anew when it ends.
    pub looped: bool,
    /// How long network sources hold packets back for late ones: `${latency_ms}` in the text.
    pub latency_ms: u32,
    /// How long the first frame may take.
    pub caps_timeout: Duration,
}

impl SourceSpec {
    /// A source with the defaults: in real time, once, 50 ms latency, 10 s for the first frame.
    pub fn new(stream: &str, source: SourceText) -> Self {
        Self {
            stream: stream.to_owned(),
            source,
            parameters: BTreeMap::new(),
            pace: Pace::Realtime,
            looped: false,
            latency_ms: 50,
            caps_timeout: Duration::from_secs(10),
        }
    }
}

/// Why no more frames come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The file is over.
    Eos,
    /// The source failed. It may be worth another try when [`CaptureError::exit_code`] is 69.
    Failed(CaptureError),
}
