//! Installed GStreamer elements, and the Debian packages of missing ones. Ubuntu's packages have the same names.

use std::sync::Once;

use gstreamer as gst;

use super::CaptureError;

/// Debian packages, each with its elements or their prefixes. No prefix of one package begins one of another.
const PACKAGES: [(&str, &str); 9] = [
    ("gstreamer1.0-libav", "avdec_ avenc_ avdemux_ avmux_"),
    (
        "gstreamer1.0-plugins-good",
        "rtspsrc rtp udpsrc v4l2 souphttpsrc jpegdec jpegenc pngdec qtdemux avidemux avimux matroska \
         deinterlace videocrop videoflip vp8 vp9 multifilesrc",
    ),
    (
        "gstreamer1.0-plugins-base",
        "videotestsrc videoconvert videoscale videorate decodebin uridecodebin parsebin app",
    ),
    ("gstreamer1.0-gl", "gl"),
    (
        "gstreamer1.0-plugins-bad",
        "interlace h264parse h265parse av1 mpegvideoparse tsdemux srt rist webrtc openh264 va x265enc",
    ),
    (
        "gstreamer1.0-plugins-bad, and NVIDIA's driver",
        "nvh26 nvav1 nvvp nvmpeg nvjpegenc nvcuda nvautogpu cuda",
    ),
    ("gstreamer1.0-plugins-ugly", "x264enc mpeg2dec"),
    ("gstreamer1.0-libcamera", "libcamerasrc"),
    ("gstreamer1.0-pipewire", "pipewiresrc"),
];

/// Hints for elements that no Debian package has, each with the elements or their prefixes.
const FROM_NVIDIA: [(&str, &str); 2] = [
    (
        "it is part of NVIDIA's own package nvidia-l4t-gstreamer for Jetson",
        "nvarguscamerasrc nvv4l2 nvvidconv nvcompositor nvivafilter nvjpegdec nveglglessink nvoverlaysink",
    ),
    (
        "it is part of NVIDIA DeepStream",
        "nvvideoconvert nvstreammux nvinfer nvds nvurisrcbin nvmultiurisrcbin",
    ),
];

/// The Debian package of `element`, if known. Core elements are always installed.
pub fn package_of_element(element: &str) -> Option<&'static str> {
    found(&PACKAGES, element)
}

fn found(origins: &[(&'static str, &str)], element: &str) -> Option<&'static str> {
    let has_element =
        |prefixes: &str| prefixes.split_whitespace().any(|prefix| element.starts_with(prefix));
    origins.iter().find(|(_, prefixes)| has_element(prefixes)).map(|(origin, _)| *origin)
}

/// The Debian package of a decoder for `media`, such as `video/x-h264`.
fn package_of_decoder(media: &str) -> &'static str {
    match media {
        "image/jpeg" | "image/png" | "video/x-vp8" | "video/x-vp9" => "gstreamer1.0-plugins-good",
        "video/x-av1" => "gstreamer1.0-plugins-bad",
        "video/x-theora" => "gstreamer1.0-plugins-base",
        _ => "gstreamer1.0-libav",
    }
}

/// A plugin of each package that has decoders.
const PLUGINS: [(&str, &str); 4] = [
    ("gstreamer1.0-libav", "libav"),
    ("gstreamer1.0-plugins-good", "jpeg"),
    ("gstreamer1.0-plugins-base", "theora"),
    ("gstreamer1.0-plugins-bad", "videoparsersbad"),
];

/// How to decode `media`, such as `video/x-h264`, as a clause.
pub(super) fn remedy_of_decoder(media: &str) -> String {
    let package = package_of_decoder(media);
    let plugin = PLUGINS.iter().find(|(of, _)| *of == package).map(|(_, plugin)| plugin);
    if plugin.is_some_and(|plugin| gst::Registry::get().find_plugin(plugin).is_some()) {
        return format!(
            "the Debian package {package} is installed and does not decode it; convert the clip, as with `ffmpeg -i CLIP -c:v \
             libx264 COPY.mp4`"
        );
    }
    format!("install the Debian package {package}")
}

/// How to install `element`, as a clause.
pub(super) fn remedy_of_element(element: &str) -> String {
    if let Some(remedy) = found(&FROM_NVIDIA, element) {
        return remedy.to_owned();
    }
    match package_of_element(element) {
        Some(package) => format!("it is in the Debian package {package}"),
        None => "check its spelling with `gst-inspect-1.0`, or install its plugin".to_owned(),
    }
}

/// Major, minor and micro version of the installed GStreamer.
///
/// # Errors
///
/// If it cannot be initialised.
pub fn gstreamer_version() -> Result<(u32, u32, u32), CaptureError> {
    initialised()?;
    let (major, minor, micro, _) = gst::version();
    Ok((major, minor, micro))
}

/// Whether `element` is installed. GStreamer must be initialised, as [`gstreamer_version`] does.
pub fn is_installed(element: &str) -> bool {
    gst::ElementFactory::find(element).is_some()
}

/// Initialises GStreamer once, with its debug log redacted.
pub(super) fn initialised() -> Result<(), CaptureError> {
    static REDACTED: Once = Once::new();
    gst::init().map_err(|error| CaptureError::Failed {
        element: "GStreamer".to_owned(),
        reason: error.to_string(),
    })?;
    REDACTED.call_once(super::debug::redact_messages);
    Ok(())
}
