//! What of GStreamer is installed, and which Debian package brings what is missing. Ubuntu's packages have the same
//! names.

use std::sync::Once;

use gstreamer as gst;

use super::CaptureError;

/// Elements and beginnings of their names, each with its package; the first that fits counts.
const PACKAGES: [(&str, &str); 50] = [
    ("avdec_", "gstreamer1.0-libav"),
    ("avenc_", "gstreamer1.0-libav"),
    ("avdemux_", "gstreamer1.0-libav"),
    ("avmux_", "gstreamer1.0-libav"),
    ("rtspsrc", "gstreamer1.0-plugins-good"),
    ("rtp", "gstreamer1.0-plugins-good"),
    ("udpsrc", "gstreamer1.0-plugins-good"),
    ("v4l2", "gstreamer1.0-plugins-good"),
    ("souphttpsrc", "gstreamer1.0-plugins-good"),
    ("jpegdec", "gstreamer1.0-plugins-good"),
    ("jpegenc", "gstreamer1.0-plugins-good"),
    ("pngdec", "gstreamer1.0-plugins-good"),
    ("qtdemux", "gstreamer1.0-plugins-good"),
    ("avidemux", "gstreamer1.0-plugins-good"),
    ("avimux", "gstreamer1.0-plugins-good"),
    ("matroska", "gstreamer1.0-plugins-good"),
    ("deinterlace", "gstreamer1.0-plugins-good"),
    ("interlace", "gstreamer1.0-plugins-bad"),
    ("videocrop", "gstreamer1.0-plugins-good"),
    ("videoflip", "gstreamer1.0-plugins-good"),
    ("vp8", "gstreamer1.0-plugins-good"),
    ("vp9", "gstreamer1.0-plugins-good"),
    ("multifilesrc", "gstreamer1.0-plugins-good"),
    ("videotestsrc", "gstreamer1.0-plugins-base"),
    ("videoconvert", "gstreamer1.0-plugins-base"),
    ("videoscale", "gstreamer1.0-plugins-base"),
    ("videorate", "gstreamer1.0-plugins-base"),
    ("decodebin", "gstreamer1.0-plugins-base"),
    ("uridecodebin", "gstreamer1.0-plugins-base"),
    ("parsebin", "gstreamer1.0-plugins-base"),
    ("app", "gstreamer1.0-plugins-base"),
    ("gldownload", "gstreamer1.0-gl"),
    ("gl", "gstreamer1.0-gl"),
    ("h264parse", "gstreamer1.0-plugins-bad"),
    ("h265parse", "gstreamer1.0-plugins-bad"),
    ("av1", "gstreamer1.0-plugins-bad"),
    ("mpegvideoparse", "gstreamer1.0-plugins-bad"),
    ("tsdemux", "gstreamer1.0-plugins-bad"),
    ("srt", "gstreamer1.0-plugins-bad"),
    ("rist", "gstreamer1.0-plugins-bad"),
    ("webrtc", "gstreamer1.0-plugins-bad"),
    ("openh264", "gstreamer1.0-plugins-bad"),
    ("va", "gstreamer1.0-plugins-bad"),
    ("nv", "gstreamer1.0-plugins-bad, and NVIDIA's driver"),
    ("cuda", "gstreamer1.0-plugins-bad, and NVIDIA's driver"),
    ("x264enc", "gstreamer1.0-plugins-ugly"),
    ("x265enc", "gstreamer1.0-plugins-bad"),
    ("mpeg2dec", "gstreamer1.0-plugins-ugly"),
    ("libcamerasrc", "gstreamer1.0-libcamera"),
    ("pipewiresrc", "gstreamer1.0-pipewire"),
];

/// The Debian package that brings `element`, where it is known. Elements of the core always are there.
pub fn package_of_element(element: &str) -> Option<&'static str> {
    PACKAGES.iter().find(|(name, _)| element.starts_with(name)).map(|(_, package)| *package)
}

/// The Debian package that brings a decoder of `media`, such as `video/x-h264`.
pub fn package_of_decoder(media: &str) -> &'static str {
    match media {
        "image/jpeg" | "image/png" | "video/x-vp8" | "video/x-vp9" => "gstreamer1.0-plugins-good",
        "video/x-av1" => "gstreamer1.0-plugins-bad",
        "video/x-theora" => "gstreamer1.0-plugins-base",
        _ => "gstreamer1.0-libav",
    }
}

/// The sentence that tells how to get `element`.
pub fn remedy_of_element(element: &str) -> String {
    match package_of_element(element) {
        Some(package) => format!("it is in the Debian package {package}"),
        None => "check its spelling with `gst-inspect-1.0`, or install the plugin that has it"
            .to_owned(),
    }
}

/// The version of GStreamer that runs here: major, minor, micro.
///
/// # Errors
///
/// If it cannot be initialised.
pub fn gstreamer_version() -> Result<(u32, u32, u32), CaptureError> {
    initialised()?;
    let (major, minor, micro, _) = gst::version();
    Ok((major, minor, micro))
}

/// Whether this machine has `element`. Only after [`gstreamer_version`], or another use of GStreamer, said yes.
pub fn is_installed(element: &str) -> bool {
    gst::ElementFactory::find(element).is_some()
}

/// Initialises GStreamer where that was not done.
pub(super) fn initialised() -> Result<(), CaptureError> {
    static REDACTED: Once = Once::new();
    gst::init().map_err(|error| CaptureError::Failed {
        element: "GStreamer".to_owned(),
        reason: error.to_string(),
    })?;
    REDACTED.call_once(super::debug::redact_messages);
    Ok(())
}
