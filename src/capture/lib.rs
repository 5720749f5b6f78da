//! The GStreamer boundary: from a configured source to a mailbox of mapped, timestamped frames.
//!
//! [`expansion`] makes a pipeline description of the configured source; `pipeline` builds it and inserts elements before the
//! appsink only if the caps need them; [`source`] watches it, loops files, and ends with a typed reason; `delivery` runs on
//! GStreamer's streaming thread and fills the `mailbox`; before that `damage` drops damaged frames, and `masking` fills privacy
//! masks. A stream takes its frames from a [`reconnecting`] source, which starts a new pipeline after `transient` errors.
//!
//! No loss goes uncounted: every buffer that reaches the appsink gets the next `frame_seq`, even if it is dropped later. Those
//! that a [rate limit](foveate_core::rate) skips get none, and have a counter of their own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use foveate_config::StreamConfig;
pub use foveate_config::{CorruptedFrames, Orientation, Pace, SourceChoice};

mod caps;
mod damage;
mod debug;
mod delivery;
pub mod discipline;
mod error;
pub mod expansion;
mod frame;
pub mod hints;
mod mailbox;
mod masking;
mod pipeline;
pub mod reconnecting;
pub mod source;
mod times;
mod transient;

pub use caps::{Content, warn_of_picture};
pub use error::CaptureError;
pub use frame::CapturedFrame;
pub use masking::{MaskChange, MaskCoverage, MaskRefusal, Masks};
pub use source::Source;

/// Result of taking a frame from a source.
pub type TakeResult = mailbox::TakeResult<CapturedFrame>;

/// What to capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceSpec {
    /// Name of the stream, for logs and threads.
    pub stream: String,
    /// What its frames are.
    pub content: Content,
    /// Shorthand, description or file of the pipeline.
    pub source: SourceChoice,
    /// Values for `${name}` and `${name:-default}` in the description.
    pub parameters: BTreeMap<String, String>,
    /// Whether the source waits for its consumer.
    pub pace: Pace,
    /// Whether a file starts over at its end.
    pub looped: bool,
    /// Jitter buffer of network sources: `${latency_ms}` in the description.
    pub latency_ms: u32,
    /// Limit for opening the source and for its first frame, together.
    pub caps_timeout: Duration,
    /// How pictures are turned.
    pub orientation: Orientation,
    /// What becomes of damaged frames.
    pub corrupted: CorruptedFrames,
    /// Whether it is live; `None` as what arrives says.
    pub live: Option<bool>,
    /// Number of the video track, from 1; `None` for that of the largest pictures.
    pub track: Option<u32>,
    /// Whether the pictures of a folder are scaled to the size of the first.
    pub scale_pictures: bool,
    /// Most pixels of a picture that is read from a file.
    pub max_pixels: u32,
    /// R, G and B behind what is transparent, unless the source is live.
    pub background: [u8; 3],
    /// Whether pictures are scaled so that their pixels are square.
    pub square_pixels: bool,
    /// Mean interval of the frames that are taken; `None` takes all.
    pub frame_interval: Option<Duration>,
    /// Whether a lost pipeline is replaced.
    pub restart: bool,
    /// A pipeline without a frame for this long is lost; `None` for never.
    pub restart_timeout: Option<Duration>,
    /// Parts of the picture that are filled before anything reads them.
    pub masks: Arc<Masks>,
}

impl SourceSpec {
    /// A source with the defaults of a configuration.
    pub fn new(stream: &str, source: SourceChoice) -> Self {
        let name = stream.to_owned();
        Self::from(&StreamConfig { name, source, ..StreamConfig::default() })
    }

    /// The source of the depth of a stream; `None` if it has none. It is paced, opened and reopened as that of its pictures.
    pub fn of_depth(config: &StreamConfig) -> Option<Self> {
        let depth = config.depth.as_ref()?;
        Some(Self {
            stream: format!("{}-depth", config.name),
            content: Content::Depth,
            source: depth.source.clone(),
            parameters: depth.parameters.clone(),
            // Of the pictures' own source.
            live: None,
            track: None,
            // Depths on both sides of an edge must not be mixed.
            scale_pictures: false,
            square_pixels: false,
            frame_interval: None,
            ..Self::from(config)
        })
    }
}

impl From<&StreamConfig> for SourceSpec {
    fn from(config: &StreamConfig) -> Self {
        Self {
            stream: config.name.clone(),
            content: Content::Pictures,
            source: config.source.clone(),
            parameters: config.parameters.clone(),
            pace: config.pace,
            looped: config.looped,
            latency_ms: config.latency_ms,
            caps_timeout: Duration::from_millis(config.caps_timeout_ms.into()),
            orientation: config.orientation,
            corrupted: config.corrupted,
            live: config.live,
            track: config.track,
            scale_pictures: config.scale_pictures,
            max_pixels: config.max_pixels,
            background: config.background,
            square_pixels: config.square_pixels,
            frame_interval: config.max_fps.map(|rate| Duration::from_secs_f64(rate.recip())),
            restart: config.restart,
            restart_timeout: config.restart_timeout(),
            masks: Arc::new(Masks::new(config.masks.clone())),
        }
    }
}

/// Why no more frames come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// End of file.
    Eos,
    /// The source failed. [`CaptureError::is_transient`] tells whether a retry may help.
    Failed(CaptureError),
}
