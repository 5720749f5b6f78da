//! Why a source gives no frames, with the way out.

use std::path::PathBuf;

use foveate_core::error::exit;
use foveate_core::geometry::extent::Extent;

/// A source cannot be used. Texts of GStreamer inside are redacted.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum CaptureError {
    /// The shorthand is none.
    #[error(
        "source {text:?} is not understood: write \"test\", \"/dev/videoN\", \"rtsp://...\" or the path of a \
         file, or put a gst-launch description into `pipeline`"
    )]
    UnknownSource {
        /// What was written.
        text: String,
    },
    /// A file of a pipeline cannot be read.
    #[error("pipeline file {} cannot be read: {reason}", path.display())]
    PipelineFile {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// A parameter is missing, unused or unusable.
    #[error("parameter {name:?} {problem}")]
    Parameter {
        /// Its name.
        name: String,
        /// What is wrong, as the rest of the sentence.
        problem: &'static str,
    },
    /// The description does not parse, or its elements do not link.
    #[error("the pipeline is not valid: {reason}. Try it with `gst-launch-1.0`: {pipeline}")]
    Parse {
        /// What GStreamer said.
        reason: String,
        /// The description.
        pipeline: String,
    },
    /// An element does not exist on this machine.
    #[error("there is no GStreamer element {element:?}: {remedy}")]
    UnknownElement {
        /// Its name.
        element: String,
        /// How to get it.
        remedy: String,
    },
    /// Frames have nowhere to go.
    #[error(
        "the pipeline has no `appsink name=frames` to take frames from (it ends in {found}): end it in `! appsink name=frames`"
    )]
    NoAppsink {
        /// The sinks that there are.
        found: String,
    },
    /// What arrives at the appsink is not raw video.
    #[error(
        "the pipeline gives {offered}, not raw video: put `decodebin` before the appsink, or choose the video branch"
    )]
    NotRawVideo {
        /// The caps.
        offered: String,
    },
    /// Frames lie in memory of a device, and no element is installed that fetches them.
    #[error("frames lie in {memory}, which the CPU cannot read: {remedy}")]
    DeviceMemory {
        /// The caps feature.
        memory: String,
        /// What to add or install.
        remedy: String,
    },
    /// Nothing that this source gives can be brought into a format that is read.
    #[error(
        "the pipeline gives {offered}, which cannot be brought into a readable format: {reason}"
    )]
    NotNegotiated {
        /// The caps.
        offered: String,
        /// What GStreamer said, or which element is missing.
        reason: String,
    },
    /// A camera cannot be made to wait.
    #[error("pace \"every-frame\" needs a file, but this source is live: use pace \"realtime\"")]
    EveryFrameLive,

    /// The file of the source is not there.
    #[error("{what:?} does not exist: check the path")]
    Missing {
        /// The path or address.
        what: String,
    },
    /// The camera is not there.
    #[error("there is no camera {device:?}: plug it in, or choose one from `ls /dev/video*`")]
    NoCamera {
        /// The device file.
        device: String,
    },
    /// Somebody else uses the camera.
    #[error("{device:?} is busy: another program uses it (`fuser -v {device}` names it)")]
    Busy {
        /// The device file.
        device: String,
    },
    /// This user may not read it.
    #[error("no permission to read {what:?}: {remedy}")]
    Permission {
        /// The path.
        what: String,
        /// What to do.
        remedy: &'static str,
    },
    /// The server wants other credentials.
    #[error("the server refused the credentials: {reason}")]
    Unauthorised {
        /// What GStreamer said.
        reason: String,
    },
    /// The other end does not answer.
    #[error(
        "the source cannot be opened: {reason}. Check the address, the network and that the device is on"
    )]
    Unreachable {
        /// What GStreamer said.
        reason: String,
    },
    /// No plugin decodes it.
    #[error("no plugin for {what}: install the Debian package {package}")]
    MissingDecoder {
        /// What cannot be decoded.
        what: String,
        /// Where to get it.
        package: &'static str,
    },
    /// The bytes are not what they should be.
    #[error("the file or stream is damaged, or no video: {reason}")]
    Corrupt {
        /// What GStreamer said.
        reason: String,
    },
    /// It ended before its first frame.
    #[error("the source ended without a single video frame")]
    NoFrames,
    /// Nothing came in time.
    #[error("no frame within {seconds} s ({seen}): check the source, or raise `caps_timeout_ms`")]
    CapsTimeout {
        /// How long it was waited for.
        seconds: u64,
        /// How far it came.
        seen: String,
    },
    /// Frames of a size that is not supported.
    #[error(
        "frames of {extent} pixels: both sides must lie in 1..={}; scale them with `videoscale`",
        Extent::MAX_SIDE
    )]
    Extent {
        /// The size.
        extent: Extent,
    },
    /// Frames became interlaced while the source ran.
    #[error("frames became interlaced in mid-stream; the source must be opened again")]
    BecameInterlaced,
    /// A camera stopped.
    #[error("the live source ended: the camera or its server is gone")]
    LiveEnded,
    /// Frames came and stay away, or the pipeline hangs while it opens.
    #[error(
        "no frame for {seconds} s: the source is silent or its decoder hangs (a slower one needs another `restart_timeout_ms`)"
    )]
    Silent {
        /// How long it was waited for.
        seconds: u64,
    },
    /// Pipelines that were given up hang, and no further one is risked.
    #[error(
        "{count} pipelines of this stream do not stop, so no other is begun: a driver hangs; plug the camera in anew, or \
         restart the daemon"
    )]
    NotStopping {
        /// How many.
        count: usize,
    },
    /// Anything else that GStreamer reports.
    #[error("{element}: {reason}")]
    Failed {
        /// The element that reports it.
        element: String,
        /// What it says.
        reason: String,
    },
    /// The source was dropped while it opened.
    #[error("the source was closed")]
    Closed,
}

impl CaptureError {
    /// The exit code of a program that ends because of it: 78 where only another configuration helps, 69 where
    /// the source may come back by itself.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::UnknownSource { .. }
            | Self::PipelineFile { .. }
            | Self::Parameter { .. }
            | Self::Parse { .. }
            | Self::UnknownElement { .. }
            | Self::NoAppsink { .. }
            | Self::NotRawVideo { .. }
            | Self::DeviceMemory { .. }
            | Self::NotNegotiated { .. }
            | Self::EveryFrameLive => exit::CONFIG,
            _ => exit::UNAVAILABLE,
        }
    }
}
