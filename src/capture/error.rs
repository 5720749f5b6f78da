//! Errors of a source, each with its remedy.

use std::path::{Path, PathBuf};

use super::ProcessError;
use foveate_core::geometry::extent::Extent;

/// What to do where no thread or process can be started.
pub(super) const PROCESSES_REMEDY: &str =
    "raise the limit of processes and threads (`ulimit -u`, `TasksMax=`)";

/// A source cannot be used. Texts from GStreamer are redacted.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum CaptureError {
    /// The source is not a known shorthand.
    #[error(
        "invalid source {text:?} (expected \"test\", \"/dev/videoN\", \"rtsp://...\", \"http://...\", or the path of a file or \
         a folder of pictures): put a gst-launch description into `pipeline`"
    )]
    UnknownSource {
        /// The source as configured.
        text: String,
    },
    /// An address cannot be read.
    #[error("invalid address {address:?}: {problem}")]
    InvalidAddress {
        /// The address as configured, without credentials.
        address: String,
        /// The mistake, and what is expected.
        problem: &'static str,
    },
    /// The certificate authorities cannot be read.
    #[error("cannot read the certificates of `tls` in {}: {reason} (expected PEM)", path.display())]
    CaFile {
        /// The file.
        path: PathBuf,
        /// GLib's error.
        reason: String,
    },
    /// A pipeline file cannot be read.
    #[error("cannot read the pipeline file {}: {reason}", path.display())]
    PipelineFile {
        /// The file.
        path: PathBuf,
        /// The system's error.
        reason: String,
    },
    /// A parameter is missing, unused or unusable.
    #[error("parameter {name:?} {problem}")]
    Parameter {
        /// Name of the parameter.
        name: String,
        /// The rest of the sentence.
        problem: &'static str,
    },
    /// The description does not parse, or its elements do not link.
    #[error("invalid pipeline: {reason}; try it with `gst-launch-1.0`: {pipeline}")]
    Parse {
        /// GStreamer's error.
        reason: String,
        /// The description.
        pipeline: String,
    },
    /// An element is not installed.
    #[error("missing GStreamer element {element:?}: {remedy}")]
    UnknownElement {
        /// Name of the element.
        element: String,
        /// The package that has it, as a command or clause.
        remedy: String,
    },
    /// The pipeline has no appsink of the expected name.
    #[error(
        "the pipeline has no `appsink name=frames` to take frames from (it ends in {found}): end it in `! appsink name=frames`"
    )]
    NoAppsink {
        /// The sinks that it has.
        found: String,
    },
    /// What arrives at the appsink is not raw video.
    #[error("the pipeline gives {offered} (expected raw video): {}", remedy_of_coded(offered))]
    NotRawVideo {
        /// The caps.
        offered: String,
    },
    /// A clip has no video.
    #[error("no video in {what:?}, only {offered}: {}", remedy_of_sound(what))]
    NoVideo {
        /// The path or address.
        what: String,
        /// The caps of what it has.
        offered: String,
    },
    /// A folder has no pictures.
    #[error("no pictures in the folder {folder:?} (expected {kinds}, or the path of a file)")]
    NoPictures {
        /// Path of the folder.
        folder: String,
        /// Endings of the names of pictures.
        kinds: String,
    },
    /// The pictures of a folder differ in size.
    #[error(
        "{picture:?} has {extent} pixels (expected {expected}, as the pictures before it): remove it, or set `scale_pictures = \
         true` (`foveate extract --scale`)"
    )]
    UnlikePictures {
        /// Path of the first that differs.
        picture: String,
        /// Size of this picture.
        extent: Extent,
        /// Size of the pictures before.
        expected: Extent,
    },
    /// A picture has too many pixels.
    #[error(
        "{picture:?} is too large: {extent} pixels (expected at most {max_pixels} in all): raise `max_pixels`, or scale it down"
    )]
    TooManyPixels {
        /// Path of the picture.
        picture: String,
        /// Size of the picture.
        extent: Extent,
        /// Most pixels.
        max_pixels: u32,
    },
    /// Frames are in device memory, and no installed element copies them to system memory.
    #[error("frames are in {memory}, which the CPU cannot read: {remedy}")]
    DeviceMemory {
        /// The caps feature.
        memory: String,
        /// The element to add, or the package to install.
        remedy: String,
    },
    /// No conversion leads to a supported format.
    #[error("cannot convert {offered} of the pipeline to a readable format: {reason}")]
    NotNegotiated {
        /// The caps.
        offered: String,
        /// GStreamer's error, or the missing element.
        reason: String,
    },
    /// The pipeline gives pictures that are not depth, and cannot be converted to it.
    #[error(
        "the pipeline gives {offered}, which is not depth (expected GRAY16_LE or GRAY16_BE of video/x-raw, or one static \
         float32 tensor of other/tensors with the dimensions 1:WIDTH:HEIGHT)"
    )]
    NotDepth {
        /// The caps.
        offered: String,
    },
    /// A live source cannot wait for its consumer.
    #[error(
        "this source is live and cannot wait for its consumer (expected a clip, or pace \"realtime\" in a configuration)"
    )]
    EveryFrameLive,

    /// The source's file does not exist.
    #[error("{what:?} does not exist: {}", remedy_of_missing(what))]
    Missing {
        /// The path or address.
        what: String,
    },
    /// The camera does not exist.
    #[error("no camera {device:?}: plug it in, or choose one from `ls /dev/video*`")]
    NoCamera {
        /// The device file.
        device: String,
    },
    /// The configured device is not a camera.
    #[error("{device:?} is not a V4L2 device: choose one from `ls /dev/video*`")]
    NotACamera {
        /// Path of the device.
        device: String,
    },
    /// Another program uses the camera.
    #[error("{device:?} is busy: another program uses it (`fuser -v {device}` names it)")]
    Busy {
        /// The device file.
        device: String,
    },
    /// This user may not read the file or device.
    #[error("no permission to read {what:?}: {remedy}")]
    Permission {
        /// The path.
        what: String,
        /// The command or group that gives the permission.
        remedy: &'static str,
    },
    /// The server refused the credentials.
    #[error(
        "the server refused the credentials: {reason}; check user and password, which go into the address, in front of the host"
    )]
    Unauthorised {
        /// GStreamer's error.
        reason: String,
    },
    /// The source does not answer.
    #[error(
        "cannot open the source: {reason}; check the address, the network, and that the device is on"
    )]
    Unreachable {
        /// GStreamer's error.
        reason: String,
    },
    /// A server answers with an error.
    #[error("{what} answers {status}: {remedy}")]
    Status {
        /// The address.
        what: String,
        /// Status code of HTTP or RTSP.
        status: u32,
        /// The next step for the user.
        remedy: &'static str,
    },
    /// The certificate of a server is not trusted.
    #[error(
        "the certificate of {server} is not trusted: {reason}; set `tls` to a PEM file with it or its authority, or to \
         \"insecure\""
    )]
    Certificate {
        /// Host and port.
        server: String,
        /// Verdict of the TLS library.
        reason: String,
    },
    /// A server redirects to another one.
    #[error(
        "the server redirects to {to}, which the configuration does not name: put that address there, or set \
         `follow_addresses = true` if you trust the server"
    )]
    Redirected {
        /// The address of the other server.
        to: String,
    },
    /// A source names other addresses instead of having video itself.
    #[error(
        "{what} is {playlist}, which names other addresses or files: set `follow_addresses = true` if you trust it with opening \
         any of them"
    )]
    Playlist {
        /// The clip or address, or that it is the source.
        what: String,
        /// Kind of the playlist.
        playlist: &'static str,
    },
    /// Pictures are of a kind that no decoder takes.
    #[error("cannot decode {what}: {reason}")]
    Undecodable {
        /// The clip or address, or that it is the stream.
        what: String,
        /// The kind, and what to do.
        reason: &'static str,
    },
    /// A part of a stream never ends.
    #[error(
        "{what} sends a picture without an end ({mebibytes} MiB so far): restart the camera, or raise `max_pixels`"
    )]
    EndlessPicture {
        /// The address, or that it is the stream.
        what: String,
        /// Mebibytes of the picture.
        mebibytes: u64,
    },
    /// No installed plugin decodes the source.
    #[error("missing plugin for {what}: {remedy}")]
    MissingDecoder {
        /// The media that cannot be decoded.
        what: String,
        /// The package to install, or the way to do without.
        remedy: String,
    },
    /// A web page arrived instead of video.
    #[error(
        "{what} is a web page (HTML), not video: check the address, and whether the server asks for a login (user and password \
         go into the address, in front of the host)"
    )]
    WebPage {
        /// The address, or that it is the source.
        what: String,
    },
    /// The video track does not exist.
    #[error("invalid `track`: {track} (the source has {count} video tracks)")]
    NoTrack {
        /// The number that is configured.
        track: u32,
        /// Video tracks of the source.
        count: usize,
    },
    /// The file or stream is damaged.
    #[error("{what} is damaged, or not a video: {reason}")]
    Corrupt {
        /// The clip, or that it is the stream.
        what: String,
        /// GStreamer's error.
        reason: String,
    },
    /// The source ended before its first frame.
    #[error("{what} ended without a video frame")]
    NoFrames {
        /// The clip, or that it is the source.
        what: String,
    },
    /// No frame arrived within the caps timeout.
    #[error("no frame within {seconds} s ({seen}): check the source, or raise `caps_timeout_ms`")]
    CapsTimeout {
        /// The timeout.
        seconds: u64,
        /// Caps that the pipeline offered until then.
        seen: String,
    },
    /// The frame size is not supported.
    #[error(
        "unsupported frame size: {extent} pixels (expected sides of 1 to {}); scale them with `videoscale`",
        Extent::SIDE_MAX
    )]
    Extent {
        /// Size of the frames.
        extent: Extent,
    },
    /// A frame cannot be filled where a mask is.
    #[error(
        "cannot apply a privacy mask, so the frame is dropped: {reason}; put `videoconvert` before the appsink for frames in \
         system memory, or remove the mask"
    )]
    NotMasked {
        /// The mistake in the frame.
        reason: String,
    },
    /// Frames became interlaced while the source was running.
    #[error("frames became interlaced in mid-stream; reopen the source")]
    BecameInterlaced,
    /// A live source ended.
    #[error("the live source ended: the camera or its server is gone")]
    LiveEnded,
    /// Frames stopped arriving, or the pipeline hangs while it opens.
    #[error(
        "no frame for {seconds} s: the source is silent or its decoder hangs (raise `restart_timeout_ms` for a slower one)"
    )]
    Silent {
        /// Time without a frame.
        seconds: u64,
    },
    /// A pipeline hangs, so the next one is not started.
    #[error(
        "the pipeline does not stop, because a driver, a network mount or a FIFO hangs: {remedy}"
    )]
    NotStopping {
        /// The next step for the user.
        remedy: &'static str,
    },
    /// Anything else that GStreamer reports.
    #[error("{element}: {reason}")]
    Failed {
        /// The reporting element.
        element: String,
        /// GStreamer's error.
        reason: String,
    },
    /// A source process failed, or what it runs.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// The source was dropped while it was opening.
    #[error("the source was closed")]
    Closed,
}

fn remedy_of_coded(offered: &str) -> &'static str {
    if offered.starts_with("video/x-bayer") {
        "put `bayer2rgb` before the appsink"
    } else {
        "put `decodebin` before the appsink, or choose the video branch"
    }
}

/// GStreamer's demuxer leaves out what `short_track` keeps in a file.
fn remedy_of_sound(what: &str) -> &'static str {
    if what.contains("://") {
        "choose another clip, or play a copy of the file (in an MP4 from a server a video shorter than a fifth of its sound is not found)"
    } else {
        "choose another clip"
    }
}

fn remedy_of_missing(what: &str) -> &'static str {
    if Path::new(what).components().any(|part| part.as_os_str() == "~") {
        "`~` is expanded by shells only: write the home directory in full, such as /home/NAME"
    } else {
        "check the path"
    }
}
