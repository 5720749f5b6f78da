//! Sources: where the frames of a stream come from, and how they are taken.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};

use crate::color::{ColorMatrix, ColorRange};
use crate::file;
use crate::geometry::extent::Extent;
use crate::gray::GrayScaling;
use crate::mask::Mask;

#[cfg(feature = "serde")]
mod text;

/// Description of a source: the keys of a `[[stream]]` that are about it.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct SourceSpec {
    /// Name of the stream, for logs and threads.
    pub stream: String,
    /// Content of the frames.
    pub content: Content,
    /// Shorthand, description or file of the pipeline.
    pub source: SourceChoice,
    /// Process that the pipeline runs in.
    pub isolation: Isolation,
    /// Limits of its process, if it has one.
    pub limits: SourceLimits,
    /// Values for `${name}` and `${name:-default}` in the description.
    pub parameters: BTreeMap<String, String>,
    /// Whether frames that arrive faster than they are processed are dropped or delay the source.
    pub pace: Pace,
    /// Whether a file starts over at its end.
    pub looped: bool,
    /// Jitter buffer of an RTSP source, in milliseconds: `${latency_ms}` in the description.
    pub latency_ms: u32,
    /// Check of the certificates of `https://` and `rtsps://` servers.
    pub tls: Tls,
    /// Whether addresses and files that the source itself names are opened: a playlist's segments, a redirect to another server.
    pub follow_addresses: bool,
    /// Limit for opening the source and for its first frame, together.
    pub caps_timeout: Duration,
    /// Rotation of decoded pictures.
    pub orientation: Orientation,
    /// Handling of damaged frames.
    pub corrupted: CorruptedFrames,
    /// Whether a source of a web server or a pipeline is live; `None` to decide by what arrives.
    pub live: Option<bool>,
    /// Number of the video track of a clip, from 1; `None` for that of the largest pictures.
    pub track: Option<u32>,
    /// Whether the pictures of a folder are scaled to the size of the first; otherwise they must have it.
    pub scale_pictures: bool,
    /// Most pixels of a picture, before it is turned or scaled.
    pub max_pixels: u32,
    /// R, G and B behind transparent pixels, unless the source is live.
    pub background: [u8; 3],
    /// Whether pictures are scaled so that their pixels are square.
    pub square_pixels: bool,
    /// Whether the pictures are interlaced, whatever their source says.
    pub interlaced: bool,
    /// Which samples are black and white, whatever the source says; `None` to use what it says.
    pub range: Option<ColorRange>,
    /// The matrix of pictures in Y'CbCr, whatever the source says; `None` to use what it says.
    pub matrix: Option<ColorMatrix>,
    /// The samples of 16-bit gray that become black and white; `None` for all.
    pub gray_range: Option<GrayScaling>,
    /// Most frames a second that are taken, 0.01 to 1000; `None` takes all.
    pub max_fps: Option<f64>,
    /// Whether a lost camera or pipeline is reopened.
    pub restart: bool,
    /// A pipeline without a frame for this long is lost; `None` for never.
    pub restart_timeout: Option<Duration>,
    /// Parts of the picture that are filled before anything reads them; names are unique.
    pub masks: Vec<Mask>,
}

impl Default for SourceSpec {
    /// The test scene of the stream `camera`.
    fn default() -> Self {
        Self {
            stream: "camera".to_owned(),
            content: Content::Pictures,
            source: SourceChoice::Shorthand("test".to_owned()),
            isolation: Isolation::default(),
            limits: SourceLimits::default(),
            parameters: BTreeMap::new(),
            pace: Pace::Realtime,
            looped: false,
            latency_ms: 100,
            tls: Tls::default(),
            follow_addresses: false,
            caps_timeout: Duration::from_secs(10),
            orientation: Orientation::Auto,
            corrupted: CorruptedFrames::Drop,
            live: None,
            track: None,
            scale_pictures: false,
            max_pixels: Extent::DEFAULT_MAX_PIXELS,
            background: [0; 3],
            square_pixels: false,
            interlaced: false,
            range: None,
            matrix: None,
            gray_range: None,
            max_fps: None,
            restart: true,
            restart_timeout: Some(Duration::from_secs(10)),
            masks: Vec::new(),
        }
    }
}

impl SourceSpec {
    /// A source of pictures in this process, with the defaults of a configuration.
    pub fn new(stream: &str, source: SourceChoice) -> Self {
        Self { stream: stream.to_owned(), source, isolation: Isolation::None, ..Self::default() }
    }

    /// Mean interval of the frames that are taken; `None` takes all.
    pub fn frame_interval(&self) -> Option<Duration> {
        self.max_fps.map(|rate| Duration::from_secs_f64(rate.recip()))
    }

    /// The kind of a shorthand.
    pub fn kind(&self) -> Option<ShorthandKind> {
        self.source.kind()
    }
}

/// Process that the pipeline of a source runs in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// The process that takes the frames.
    None,
    /// A process of its own, with limits.
    #[default]
    Process,
}

crate::names!(Isolation { None = "none", Process = "process" });

/// Limits of the process of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct SourceLimits {
    /// Most MiB of the heap, the stacks and the shared memory of the process, without its frames, 64 to 65536.
    pub memory_mib: u32,
    /// Niceness of the process, 0 to 19: it gets less processor time than processes of a smaller niceness.
    pub nice: u32,
}

impl Default for SourceLimits {
    fn default() -> Self {
        Self { memory_mib: 512, nice: 0 }
    }
}

/// Content of the frames of a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub enum Content {
    /// Pictures; formats that cannot be read are converted.
    #[default]
    Pictures,
    /// Depth; other content cannot be converted to it.
    Depth,
}

/// The source of a stream's frames.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub enum SourceChoice {
    /// `source`: `test`, a camera such as `/dev/video0`, an `rtsp://` or `rtsps://` URI, an `http://` or `https://` URI of a
    /// camera or a clip, or a clip: a file or a folder of pictures.
    Shorthand(String),
    /// `pipeline`: a gst-launch description that ends in `appsink name=frames`.
    Pipeline(String),
    /// `pipeline_file`: a file with a gst-launch description.
    PipelineFile(PathBuf),
}

impl SourceChoice {
    /// The configured text, for listings.
    pub fn text(&self) -> String {
        match self {
            Self::Shorthand(text) | Self::Pipeline(text) => text.clone(),
            Self::PipelineFile(path) => path.display().to_string(),
        }
    }

    /// The kind of a shorthand that is understood; what a pipeline can do is known only once it runs.
    pub fn kind(&self) -> Option<ShorthandKind> {
        match self {
            Self::Shorthand(text) => ShorthandKind::of(text),
            Self::Pipeline(_) | Self::PipelineFile(_) => None,
        }
    }
}

/// The kinds of [`SourceChoice::Shorthand`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShorthandKind {
    /// The street that the program draws, or a ball.
    Test,
    /// A Video4Linux device, by any of its paths below `/dev`, plugged in or not.
    Camera,
    /// A network camera.
    Rtsp,
    /// A camera or a clip on a web server: what arrives tells.
    Http,
    /// The path of a clip or of a folder of pictures, or a `file://` URI.
    File,
}

impl ShorthandKind {
    /// The kind of `source`; `None` for a URI of another scheme.
    pub fn of(source: &str) -> Option<Self> {
        match source.split_once("://") {
            Some(("rtsp" | "rtsps", _)) => Some(Self::Rtsp),
            Some(("http" | "https", _)) => Some(Self::Http),
            Some(("file", _)) => Some(Self::File),
            Some((scheme, _)) if scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()) => None,
            _ if ["test", "test:ball"].contains(&source) => Some(Self::Test),
            _ if file::is_device(source) => Some(Self::Camera),
            _ => Some(Self::File),
        }
    }

    /// Whether a source of this kind may have an end, and can wait for its consumer.
    pub fn is_clip(self) -> bool {
        matches!(self, Self::Http | Self::File)
    }
}

/// Check of servers' certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub enum Tls {
    /// The system's certificate authorities.
    #[default]
    Verify,
    /// Any certificate is taken.
    Insecure,
    /// The certificate authorities, or the server's own certificate, in a PEM file.
    CaFile(PathBuf),
}

/// Handling of damaged frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CorruptedFrames {
    /// Drop and count damaged frames.
    #[default]
    Drop,
    /// Publish damaged frames like others.
    Show,
}

crate::names!(CorruptedFrames { Drop = "drop", Show = "show" });

/// Whether frames that arrive faster than they are processed are dropped or delay the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// The newest frame wins; the others are dropped and counted.
    Realtime,
    /// The decoder waits. For files.
    EveryFrame,
}

crate::names!(Pace { Realtime = "realtime", EveryFrame = "every-frame" });

/// Rotation of decoded pictures, clockwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub enum Orientation {
    /// By the tags of the source: the matrix of an MP4 file, the EXIF data of a JPEG.
    #[default]
    Auto,
    /// As stored, whatever the tags say.
    Degrees0,
    /// A quarter to the right.
    Degrees90,
    /// Upside down.
    Degrees180,
    /// A quarter to the left.
    Degrees270,
}
