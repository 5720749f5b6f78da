//! `foveate doctor`: what this machine has and lacks, each finding with its remedy.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, MemfdFlags, SealFlags, access, fcntl_add_seals, memfd_create};

use super::ToolError;

mod backends;

/// How good a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mark {
    /// As it should be.
    Ok,
    /// Some uses do not work.
    Warn,
    /// Nothing works before this is mended.
    Fail,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How good it is.
    pub mark: Mark,
    /// What was looked at.
    pub subject: String,
    /// What was found.
    pub detail: String,
    /// What to do about it; always there unless the mark is [`Mark::Ok`].
    pub remedy: Option<String>,
}

impl Finding {
    /// A finding that needs no remedy.
    pub fn ok(subject: &str, detail: impl Into<String>) -> Self {
        Self { mark: Mark::Ok, subject: subject.to_owned(), detail: detail.into(), remedy: None }
    }

    /// A finding with its remedy.
    pub fn bad(
        mark: Mark,
        subject: &str,
        detail: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        let remedy = Some(remedy.into());
        Self { mark, subject: subject.to_owned(), detail: detail.into(), remedy }
    }
}

/// Looks at everything and prints it.
pub(super) fn run(socket: &Path, out: &mut dyn Write) -> Result<(), ToolError> {
    let findings = findings(socket.parent().unwrap_or(Path::new("/")));
    print(&findings, out).map_err(ToolError::Output)?;
    if is_fit(&findings) { Ok(()) } else { Err(ToolError::Unfit) }
}

/// Whether nothing is missing that everything needs.
pub fn is_fit(findings: &[Finding]) -> bool {
    findings.iter().all(|finding| finding.mark != Mark::Fail)
}

/// GStreamer, Vulkan, cameras, sockets in `socket_directory`, shared memory.
pub fn findings(socket_directory: &Path) -> Vec<Finding> {
    let mut findings = Vec::new();
    #[cfg(feature = "gst")]
    findings.extend(plugins::findings());
    findings.extend(backends::findings());
    findings.extend(cameras());
    findings.push(sockets(socket_directory));
    findings.push(shared_memory());
    findings
}

/// Writes one line a finding, and its remedy below it.
///
/// # Errors
///
/// If `out` cannot be written.
pub fn print(findings: &[Finding], out: &mut dyn Write) -> io::Result<()> {
    let width = findings.iter().map(|finding| finding.subject.chars().count()).max().unwrap_or(0);
    for Finding { mark, subject, detail, remedy } in findings {
        let mark = match mark {
            Mark::Ok => "ok  ",
            Mark::Warn => "warn",
            Mark::Fail => "FAIL",
        };
        writeln!(out, "{mark}  {subject:width$}  {detail}")?;
        if let Some(remedy) = remedy {
            writeln!(out, "      {:width$}  -> {remedy}", "")?;
        }
    }
    Ok(())
}

/// Cameras, and whether this user may use them.
fn cameras() -> Vec<Finding> {
    let entries = std::fs::read_dir("/dev").into_iter().flatten().flatten();
    let is_camera = |path: &PathBuf| path.to_string_lossy().starts_with("/dev/video");
    let mut devices: Vec<_> = entries.map(|entry| entry.path()).filter(is_camera).collect();
    devices.sort();
    if devices.is_empty() {
        return vec![Finding::ok("cameras", "none at /dev/video*")];
    }
    devices.iter().map(|device| camera(device)).collect()
}

fn camera(device: &Path) -> Finding {
    let subject = device.display().to_string();
    match File::options().read(true).write(true).open(device) {
        Ok(_) => Finding::ok(&subject, "can be opened"),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Finding::bad(
            Mark::Warn,
            &subject,
            "no permission",
            "sudo usermod -aG video $USER, then log in again",
        ),
        Err(error) => Finding::bad(
            Mark::Warn,
            &subject,
            error.to_string(),
            "another program may use it: fuser -v /dev/video*",
        ),
    }
}

/// Whether the daemon could make its sockets.
fn sockets(directory: &Path) -> Finding {
    let subject = "sockets";
    let existing = directory.ancestors().find(|ancestor| ancestor.exists());
    let shown = directory.display();
    match existing.map(|existing| access(existing, Access::WRITE_OK | Access::EXEC_OK)) {
        Some(Ok(())) => Finding::ok(subject, format!("can be made in {shown}")),
        _ => Finding::bad(
            Mark::Fail,
            subject,
            format!("cannot be made in {shown}"),
            "choose another place with --socket or FOVEATE_SOCKET, or run under systemd",
        ),
    }
}

/// Whether shared memory can be sealed as the ring needs it.
fn shared_memory() -> Finding {
    let subject = "shared memory";
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let seals = SealFlags::GROW | SealFlags::SHRINK | SealFlags::FUTURE_WRITE | SealFlags::SEAL;
    match memfd_create("foveate-doctor", flags).and_then(|fd| fcntl_add_seals(&fd, seals)) {
        Ok(()) => Finding::ok(subject, "memfd with seals"),
        Err(error) => Finding::bad(
            Mark::Fail,
            subject,
            format!("a memfd cannot be sealed: {error}"),
            "Linux 5.1 or later is needed, and a container must allow memfd_create",
        ),
    }
}

#[cfg(feature = "gst")]
mod plugins {
    use gstreamer as gst;

    use super::{Finding, Mark};
    use crate::capture::hints;

    /// The oldest GStreamer that is tested: Debian 12's.
    const TESTED: (u32, u32) = (1, 22);

    /// What a use needs, and how bad it is without.
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
        if let Err(error) = gst::init() {
            let remedy = "sudo apt install libgstreamer1.0-0 gstreamer1.0-plugins-base";
            return vec![Finding::bad(Mark::Fail, "GStreamer", error.to_string(), remedy)];
        }
        std::iter::once(version()).chain(USES.iter().map(use_of)).collect()
    }

    fn version() -> Finding {
        let (major, minor, micro, _) = gst::version();
        let found = format!("{major}.{minor}.{micro}");
        if TESTED <= (major, minor) {
            return Finding::ok("GStreamer", found);
        }
        let remedy = format!("{}.{} or later is tested; upgrade the system", TESTED.0, TESTED.1);
        Finding::bad(Mark::Warn, "GStreamer", found, remedy)
    }

    fn use_of(&(subject, mark, elements): &(&str, Mark, &[&str])) -> Finding {
        let missing = |element: &&&str| gst::ElementFactory::find(element).is_none();
        let missing: Vec<_> = elements.iter().filter(missing).copied().collect();
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
}
