//! Checks of GStreamer and its plugins, by use.

use super::{Finding, Mark};
use foveate_capture::hints;

/// The oldest tested version of GStreamer: Debian 12's.
const TESTED: (u32, u32) = (1, 22);

/// Elements needed for each use, and the severity if one is missing.
const USES: [(&str, Mark, &[&str]); 7] = [
    ("every stream", Mark::Fail, &["appsink", "videoconvert", "videotestsrc"]),
    ("files", Mark::Warn, &["filesrc", "decodebin", "qtdemux", "avidemux", "matroskademux"]),
    ("H.264, MPEG-4", Mark::Warn, &["avdec_h264", "avdec_mpeg4", "h264parse"]),
    ("H.265", Mark::Warn, &["avdec_h265", "h265parse"]),
    ("rtsp://", Mark::Warn, &["rtspsrc", "rtph264depay", "rtph265depay"]),
    ("/dev/video*", Mark::Warn, &["v4l2src", "jpegdec"]),
    ("interlaced", Mark::Warn, &["deinterlace"]),
];

pub(super) fn findings() -> Vec<Finding> {
    match hints::gstreamer_version() {
        Ok(found) => std::iter::once(version(found)).chain(USES.iter().map(use_of)).collect(),
        Err(error) => {
            let remedy = "sudo apt install libgstreamer1.0-0 gstreamer1.0-plugins-base";
            vec![Finding::bad(Mark::Fail, "GStreamer", error.to_string(), remedy)]
        }
    }
}

fn version((major, minor, micro): (u32, u32, u32)) -> Finding {
    let found = format!("{major}.{minor}.{micro}");
    if TESTED <= (major, minor) {
        return Finding::ok("GStreamer", found);
    }
    let remedy = format!("{}.{} or later is tested; upgrade the system", TESTED.0, TESTED.1);
    Finding::bad(Mark::Warn, "GStreamer", found, remedy)
}

fn use_of(&(subject, mark, elements): &(&str, Mark, &[&str])) -> Finding {
    let missing = elements.iter().copied().filter(|element| !hints::is_installed(element));
    let missing: Vec<_> = missing.collect();
    if missing.is_empty() {
        return Finding::ok(subject, elements.join(" "));
    }
    let mut packages: Vec<_> =
        missing.iter().filter_map(|element| hints::package_of_element(element)).collect();
    packages.sort_unstable();
    packages.dedup();
    let remedy = format!("sudo apt install {}", packages.join(" "));
    Finding::bad(mark, subject, format!("missing: {}", missing.join(" ")), remedy)
}
