//! Cameras of this machine, and a configuration for them.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::{Finding, Mark};
use crate::on_one_line;
use foveate_config::{Config, SourceChoice, SourceSpec, StreamConfig};

/// A capture device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FoundCamera {
    /// Device node of the camera, such as `/dev/video0`.
    node: PathBuf,
    /// A path that does not depend on the order in which cameras are plugged in; the node if there is none.
    stable: PathBuf,
    /// The driver's name for it; empty if unknown.
    name: String,
}

/// The cameras of this machine.
pub(super) fn cameras() -> Vec<FoundCamera> {
    cameras_in(Path::new("/dev"), Path::new("/sys/class/video4linux"))
}

/// [`cameras`] from the device nodes in `devices` and the kernel's descriptions in `kernel`. Metadata nodes are left
/// out.
fn cameras_in(devices: &Path, kernel: &Path) -> Vec<FoundCamera> {
    let links = links_in(&devices.join("v4l/by-id"));
    let mut cameras = Vec::new();
    for node in entries(devices) {
        let Some(file_name) = node.file_name().and_then(|name| name.to_str()) else { continue };
        let about =
            |what: &str| fs::read_to_string(kernel.join(file_name).join(what)).unwrap_or_default();
        // A camera has a second node for metadata.
        let is_second = !matches!(about("index").trim(), "" | "0");
        if !file_name.starts_with("video") || is_second {
            continue;
        }
        let link = links.iter().find(|(_, target)| *target == node);
        let stable = link.map_or(&node, |(link, _)| link).clone();
        cameras.push(FoundCamera { stable, name: about("name").trim().to_owned(), node });
    }
    cameras.sort_by(|one, other| one.node.cmp(&other.node));
    cameras
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// Symbolic links in `folder`, each with its target.
fn links_in(folder: &Path) -> Vec<(PathBuf, PathBuf)> {
    let mut links = entries(folder);
    links.sort();
    links.into_iter().filter_map(|link| Some((link.clone(), link.canonicalize().ok()?))).collect()
}

/// Checks that this user may open each camera.
pub(super) fn findings(cameras: &[FoundCamera]) -> Vec<Finding> {
    if cameras.is_empty() {
        return vec![Finding::ok("cameras", "none at /dev/video*")];
    }
    cameras.iter().map(finding).collect()
}

fn finding(camera: &FoundCamera) -> Finding {
    let subject = camera.node.display().to_string();
    let name = on_one_line(&camera.name);
    match open(camera) {
        Ok(_) if name.is_empty() => Finding::ok(&subject, "can be opened"),
        Ok(_) => Finding::ok(&subject, format!("{name}, can be opened")),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Finding::bad(
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

fn open(camera: &FoundCamera) -> io::Result<File> {
    File::options().read(true).write(true).open(&camera.node)
}

/// A `[[stream]]` table for each camera; empty without cameras.
pub(super) fn stanzas(cameras: &[FoundCamera]) -> String {
    let stanza = |camera: &FoundCamera| {
        let name = camera.node.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let about = on_one_line(&camera.name);
        let about = if about.is_empty() { name.clone() } else { about };
        let source = SourceChoice::Shorthand(camera.stable.to_string_lossy().into_owned());
        let capture = SourceSpec { source, ..SourceSpec::default() };
        let stream = StreamConfig { name, capture, ..StreamConfig::default() };
        format!("\n# {about}\n{}", Config::from(stream).to_toml())
    };
    cameras.iter().map(stanza).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn the_stanzas_of_cameras_are_a_configuration() {
        let folder = tempfile::tempdir().unwrap();
        let (devices, kernel) = (folder.path().join("dev"), folder.path().join("sys"));
        let by_id = devices.join("v4l/by-id");
        fs::create_dir_all(&by_id).unwrap();
        for (node, name, index) in [
            ("video0", "A \"good\" camera\n", "0\n"),
            ("video1", "A \"good\" camera\n", "1\n"),
            ("video2", "Other\n[[stream]]\n", "0\n"),
        ] {
            fs::write(devices.join(node), "").unwrap();
            fs::create_dir_all(kernel.join(node)).unwrap();
            fs::write(kernel.join(node).join("name"), name).unwrap();
            fs::write(kernel.join(node).join("index"), index).unwrap();
        }
        fs::write(devices.join("null"), "").unwrap();
        let devices = devices.canonicalize().unwrap();
        let link = devices.join("v4l/by-id/usb-\"good\"");
        symlink(devices.join("video0"), &link).unwrap();

        let cameras = cameras_in(&devices, &kernel);
        let nodes: Vec<_> = cameras.iter().map(|camera| camera.node.clone()).collect();
        assert_eq!(nodes, [devices.join("video0"), devices.join("video2")]);
        let config = Config::parse(&stanzas(&cameras), Path::new("/x/foveate.toml")).unwrap();
        let names: Vec<_> = config.streams.iter().map(|stream| stream.name.as_str()).collect();
        assert_eq!(names, ["video0", "video2"]);
        let expected = SourceChoice::Shorthand(link.to_str().unwrap().to_owned());
        assert_eq!(config.streams[0].capture.source, expected, "the path that stays");
        assert_eq!(stanzas(&[]), "");
    }
}
