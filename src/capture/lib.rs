//! The GStreamer boundary: from a source's text to a mailbox of mapped frames with times.
//!
//! [`expansion`] turns what the user wrote into one pipeline description; `pipeline` builds it and inserts an
//! element before the appsink only where the caps need one; [`source`] watches it, plays files again,
//! and ends in a typed reason; `delivery` runs on GStreamer's streaming thread and fills the [`mailbox`]. A stream takes
//! its frames from a [`supply`], which begins a new pipeline where one was lost, if [`passing`] says that it may help.
//!
//! Nothing is lost uncounted: every buffer that reaches the appsink gets the next `frame_seq`, whatever becomes of it. Only those
//! that a [rate limit](foveate_core::rate) skips, because fewer were asked for, get none, and are counted apart.

use std::collections::BTreeMap;
use std::time::Duration;

use foveate_config::StreamConfig;
pub use foveate_config::{Pace, SourceChoice};

mod caps;
mod debug;
mod delivery;
mod error;
pub mod expansion;
mod frame;
pub mod hints;
pub mod mailbox;
pub mod passing;
mod pipeline;
pub mod source;
pub mod supply;
pub mod times;

pub use error::CaptureError;
pub use frame::CapturedFrame;
pub use source::Source;

/// What the mailbox of a source gives.
pub type Taken = mailbox::Taken<CapturedFrame>;

/// What to capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceSpec {
    /// Name of the stream, for logs and threads.
    pub stream: String,
    /// Where the pipeline comes from.
    pub source: SourceChoice,
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
    /// Frames are taken no closer than this on average; `None` where all are.
    pub frame_interval: Option<Duration>,
    /// Whether another pipeline may follow one that was lost.
    pub restart: bool,
    /// After how long without a frame a pipeline is given up as lost; `None` for never.
    pub restart_timeout: Option<Duration>,
}

impl SourceSpec {
    /// A source with the defaults of a configuration.
    pub fn new(stream: &str, source: SourceChoice) -> Self {
        let name = stream.to_owned();
        Self::from(&StreamConfig { name, source, ..StreamConfig::default() })
    }
}

impl From<&StreamConfig> for SourceSpec {
    fn from(config: &StreamConfig) -> Self {
        Self {
            stream: config.name.clone(),
            source: config.source.clone(),
            parameters: config.parameters.clone(),
            pace: config.pace,
            looped: config.looped,
            latency_ms: config.latency_ms,
            caps_timeout: Duration::from_millis(config.caps_timeout_ms.into()),
            frame_interval: config.max_fps.map(|rate| Duration::from_secs_f64(rate.recip())),
            restart: config.restart,
            restart_timeout: config.restart_timeout(),
        }
    }
}

/// Why no more frames come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The file is over.
    Eos,
    /// The source failed. [`CaptureError::is_passing`] says whether another try may help.
    Failed(CaptureError),
}
