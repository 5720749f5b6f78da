//! Expands a configured source to a gst-launch description.
//!
//! A shorthand stands for a shipped file of `pipelines/` with its parameters filled in. Special characters of a value are
//! escaped, so that it stays a single value: a path cannot inject an element.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gstreamer::glib;
use rustix::fs::{Access, AtFlags, CWD, accessat, major};
use rustix::io::Errno;

use super::pipeline::checked_address;
use super::{CaptureError, SourceChoice, SourceSpec};
use foveate_core::file;
use foveate_core::jpeg::{self, Outline};
use foveate_core::name::natural_order;
use foveate_core::source::ShorthandKind;
use foveate_log::redact::{SecretMask, backslashed, redacted};

/// Longest file of a pipeline, in bytes.
const PIPELINE_BYTES_MAX: u64 = 1 << 16;

/// The shipped descriptions and their names in `pipelines/`.
const SHIPPED: [(&str, &str); 7] = [
    ("test", include_str!("../../pipelines/test.gst")),
    ("ball", include_str!("../../pipelines/ball.gst")),
    ("v4l2", include_str!("../../pipelines/v4l2.gst")),
    ("v4l2-jpeg", include_str!("../../pipelines/v4l2-jpeg.gst")),
    ("rtsp", include_str!("../../pipelines/rtsp.gst")),
    ("file", include_str!("../../pipelines/file.gst")),
    ("http", include_str!("../../pipelines/http.gst")),
];

/// A description ready for the parser.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Expansion {
    /// Description for GStreamer's parser.
    pub(super) text: String,
    /// Description without credentials, for logs and errors.
    pub(super) shown: String,
    /// The file or address of a shorthand, without credentials.
    pub(super) clip: Option<String>,
    /// The orientation of EXIF, 1 to 8, that a JPEG file has.
    pub(super) exif_orientation: Option<u8>,
    /// The FIFO that it reads through the element `fifo`. It can be opened only once.
    pub(super) fifo: Option<PathBuf>,
    /// GStreamer's own messages quote parts of the description.
    masked: Arc<SecretMask>,
}

impl std::fmt::Debug for Expansion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Expansion").field("shown", &self.shown).finish_non_exhaustive()
    }
}

/// The name of the element that reads a FIFO.
pub(super) const FIFO: &str = "fifo";

impl Expansion {
    /// Whether the pipeline plays a file whose name is that of a picture.
    pub(super) fn is_picture(&self) -> bool {
        self.clip.as_ref().is_some_and(|clip| is_picture(Path::new(clip)))
    }

    /// Whether the file is a PNG with more than one picture: the chunk `acTL` is before the first `IDAT`.
    pub(super) fn is_animated_png(&self) -> bool {
        let Some((start, _)) = self.start_of_file() else { return false };
        let Some(chunks) = start.strip_prefix(b"\x89PNG\r\n\x1a\n") else { return false };
        let at = |kind: &[u8; 4]| chunks.windows(4).position(|window| window == kind);
        at(b"acTL").is_some_and(|control| at(b"IDAT").is_none_or(|data| control < data))
    }

    /// Whether the file is an AVI that is shorter than its header says. `avidemux` then counts the frames, and gives the duration of
    /// those.
    pub(super) fn is_short_avi(&self) -> bool {
        let Some((start, file_bytes)) = self.start_of_file() else { return false };
        let size = start.strip_prefix(b"RIFF").and_then(|rest| rest.first_chunk());
        size.is_some_and(|size| file_bytes < u64::from(u32::from_le_bytes(*size)) + 8)
    }

    /// The first bytes of a regular file, and its size.
    fn start_of_file(&self) -> Option<(Vec<u8>, u64)> {
        let clip =
            self.clip.as_ref().filter(|clip| self.fifo.is_none() && clip.starts_with('/'))?;
        let (mut start, file) = (Vec::new(), File::open(clip).ok()?);
        let bytes = file.metadata().ok().filter(fs::Metadata::is_file)?.len();
        file.take(4096).read_to_end(&mut start).ok()?;
        Some((start, bytes))
    }
}

/// The pipelines that play a source, one after the other.
#[derive(Debug)]
pub(super) enum Playlist {
    One(Expansion),
    /// The pictures of a folder.
    Pictures(Vec<String>),
}

impl Playlist {
    /// [Expands](expand) `spec`; the path of a folder stands for its pictures.
    pub(super) fn of(spec: &SourceSpec) -> Result<Self, CaptureError> {
        if let (Some(ShorthandKind::File), SourceChoice::Shorthand(text)) =
            (spec.kind(), &spec.source)
            && let Ok(path) = path_of(text)
            && path.is_dir()
        {
            return pictures_in(&path).map(Self::Pictures);
        }
        expand(spec).map(Self::One)
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Pictures(paths) => paths.len(),
        }
    }

    pub(super) fn expansion(
        &self,
        index: usize,
        spec: &SourceSpec,
    ) -> Result<Expansion, CaptureError> {
        match self {
            Self::One(expansion) => Ok(expansion.clone()),
            Self::Pictures(paths) => {
                let source = SourceChoice::Shorthand(paths[index].clone());
                expand(&SourceSpec { source, ..spec.clone() })
            }
        }
    }
}

/// Endings of the names of pictures.
const PICTURES: [&str; 10] =
    ["bmp", "jp2", "jpeg", "jpg", "pgm", "png", "ppm", "tif", "tiff", "webp"];

fn is_picture(path: &Path) -> bool {
    let ending = path.extension().map(|ending| ending.to_ascii_lowercase());
    ending.is_some_and(|ending| PICTURES.iter().any(|known| ending == **known))
}

/// The pictures in `folder`, in the natural order of their names. Hidden files and others are left out, and with a warning those that
/// cannot be played.
fn pictures_in(folder: &Path) -> Result<Vec<String>, CaptureError> {
    let what = folder.display().to_string();
    let failed = |error: io::Error| unreadable(&error, &what, FILE_DENIED);
    let mut pictures = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let is_hidden =
            path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if !is_picture(&path) || is_hidden || path.is_dir() {
            continue;
        }
        // A link to nothing is an error when its turn comes.
        let is_special = fs::metadata(&path).is_ok_and(|metadata| !metadata.is_file());
        match path.into_os_string().into_string() {
            Ok(path) if is_special => {
                tracing::warn!(path, "skipped: not a regular file (a FIFO, a device or a socket)");
            }
            Ok(path) => pictures.push(path),
            Err(path) => {
                tracing::warn!(?path, "skipped: the name is not UTF-8; rename the file");
            }
        }
    }
    if pictures.is_empty() {
        return Err(CaptureError::NoPictures { folder: what, kinds: PICTURES.join(", ") });
    }
    pictures.sort_by(|one, other| natural_order(one, other));
    Ok(pictures)
}

/// Expands `spec`. Checks that the files and cameras of shorthands exist, so that errors name them.
pub(super) fn expand(spec: &SourceSpec) -> Result<Expansion, CaptureError> {
    let (mut clip, mut fifo, mut exif_orientation) = (None, None, None);
    let (mut template, mut own) = match &spec.source {
        SourceChoice::Shorthand(text) => {
            let (template, own, orientation) = shorthand(text)?;
            exif_orientation = orientation;
            (template, own)
        }
        SourceChoice::Pipeline(text) => (text.clone(), None),
        SourceChoice::PipelineFile(path) => (read_pipeline(path)?, None),
    };
    if let Some(("location", location)) = &own {
        clip = Some(redacted(location));
        if fs::metadata(location).is_ok_and(|file| file.file_type().is_fifo()) {
            fifo = Some(PathBuf::from(location));
            (template, own) =
                (format!("fdsrc name={FIFO} ! decodebin ! appsink name=frames"), None);
        } else if unusable(location).is_some()
            && let Ok(uri) = glib::filename_to_uri(location, None)
        {
            // The URI of a path is always one word.
            (template, own) = (template.replace("filesrc location=${location}", &uri), None);
        }
    }
    let template = without_comments(&template);
    let mut values = spec.parameters.clone();
    if let Some((name, value)) = own
        && values.insert(name.to_owned(), value).is_some()
    {
        return Err(parameter(name, "is already given by `source`: remove it"));
    }
    let built_in = ("latency_ms", spec.latency_ms.to_string());
    let text = substituted(&template, &values, &built_in)?;
    let masked = Arc::new(SecretMask::default().and_credentials_in(&text));
    let shown = values.iter().map(|(name, value)| (name.clone(), redacted(value))).collect();
    let shown = redacted(&substituted(&template, &shown, &built_in)?);
    Ok(Expansion { text, shown, clip, exif_orientation, fifo, masked })
}

/// Description of a shorthand, the parameter that it fills in, and the orientation in the EXIF data of a JPEG.
type Shorthand = (String, Option<(&'static str, String)>, Option<u8>);

fn shorthand(text: &str) -> Result<Shorthand, CaptureError> {
    let unknown = || CaptureError::UnknownSource { text: redacted(text) };
    match ShorthandKind::of(text).filter(|_| !text.is_empty()).ok_or_else(unknown)? {
        ShorthandKind::Test => {
            Ok((shipped(text.strip_prefix("test:").unwrap_or(text)), None, None))
        }
        ShorthandKind::Rtsp => {
            checked_address(text)?;
            Ok((shipped("rtsp"), Some(("location", text.to_owned())), None))
        }
        ShorthandKind::Camera => {
            check_camera(text)?;
            Ok((shipped("v4l2"), Some(("device", text.to_owned())), None))
        }
        ShorthandKind::Http => {
            checked_address(text)?;
            Ok((shipped("http"), Some(("location", text.to_owned())), None))
        }
        ShorthandKind::File => {
            let path = path_of(text).map_err(|_| unknown())?;
            let location = checked_file(&path)?;
            let jpeg = jpeg_at(&location);
            if jpeg.is_some_and(|outline| outline.bytes.is_none()) {
                let reason = "the JPEG is cut off (no end marker); copy the file again".to_owned();
                return Err(CaptureError::Corrupt { what: location, reason });
            }
            let orientation = jpeg.and_then(|outline| outline.orientation);
            Ok((shipped("file"), Some(("location", location)), orientation))
        }
    }
}

/// The path of a file, which may be given as a URI.
pub(super) fn path_of(text: &str) -> Result<PathBuf, glib::Error> {
    if text.starts_with("file://") {
        return glib::filename_from_uri(text).map(|(path, _)| path);
    }
    Ok(text.into())
}

fn shipped(name: &str) -> String {
    let found = SHIPPED.iter().find(|(shipped, _)| *shipped == name);
    found.expect("a shipped pipeline").1.to_owned()
}

const FILE_DENIED: &str = "let this user read it, with `chmod` or by its group";

/// The absolute path of a readable file. A FIFO is not opened: that would take its data, or wait for its writer.
fn checked_file(path: &Path) -> Result<String, CaptureError> {
    let what = path.display().to_string();
    let failed = |error: io::Error| unreadable(&error, &what, FILE_DENIED);
    let is_folder = fs::metadata(path).map_err(failed)?.is_dir();
    accessat(CWD, path, Access::READ_OK, AtFlags::EACCESS).map_err(|errno| failed(errno.into()))?;
    // A file that is open as `/dev/fd/N` may have no other name.
    let absolute = fs::canonicalize(path).or_else(|_| std::path::absolute(path)).map_err(failed)?;
    match absolute.into_os_string().into_string() {
        Ok(_) if is_folder => {
            Err(CaptureError::NoPictures { folder: what, kinds: PICTURES.join(", ") })
        }
        Ok(absolute) => Ok(absolute),
        Err(_) => Err(CaptureError::UnknownSource { text: what }),
    }
}

/// The outline of a regular file, if it is a JPEG picture. A file that cannot be read is an error when it is played.
fn jpeg_at(path: &str) -> Option<Outline> {
    if !fs::metadata(path).is_ok_and(|metadata| metadata.is_file()) {
        return None;
    }
    let mut file = BufReader::new(File::open(path).ok()?);
    let is_jpeg = file.fill_buf().is_ok_and(|start| start.starts_with(&[0xFF, 0xD8, 0xFF]));
    if is_jpeg { jpeg::outline(file).ok() } else { None }
}

/// The major number of Video4Linux devices.
const VIDEO4LINUX: u32 = 81;

fn check_camera(device: &str) -> Result<(), CaptureError> {
    let denied =
        "add this user to the group `video` (`sudo usermod -aG video $USER`) and log in again";
    let device = || device.to_owned();
    let Ok(metadata) = fs::metadata(device()) else {
        return Err(CaptureError::NoCamera { device: device() });
    };
    if major(metadata.rdev()) != VIDEO4LINUX {
        return Err(CaptureError::NotACamera { device: device() });
    }
    match File::options().read(true).write(true).open(device()) {
        Ok(_) => Ok(()),
        Err(error) if error.raw_os_error() == Some(Errno::BUSY.raw_os_error()) => {
            Err(CaptureError::Busy { device: device() })
        }
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Err(CaptureError::Permission { what: device(), remedy: denied })
        }
        Err(_) => Err(CaptureError::NoCamera { device: device() }),
    }
}

fn unreadable(error: &io::Error, what: &str, remedy: &'static str) -> CaptureError {
    let what = what.to_owned();
    match error.kind() {
        io::ErrorKind::PermissionDenied => CaptureError::Permission { what, remedy },
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => CaptureError::Missing { what },
        _ => CaptureError::Unreachable { reason: format!("{what:?}: {error}") },
    }
}

fn read_pipeline(path: &Path) -> Result<String, CaptureError> {
    file::read_text(path, PIPELINE_BYTES_MAX).map_err(|error| CaptureError::PipelineFile {
        path: path.to_owned(),
        reason: error.to_string(),
    })
}

/// gst-launch has no comments.
fn without_comments(text: &str) -> String {
    let lines =
        text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.collect::<Vec<_>>().join(" ")
}

/// `template` with each `${name}` and `${name:-default}` replaced. Defaults are not escaped.
fn substituted(
    template: &str,
    values: &BTreeMap<String, String>,
    built_in: &(&str, String),
) -> Result<String, CaptureError> {
    let mut out = String::with_capacity(template.len());
    let mut unused: BTreeSet<&str> = values.keys().map(String::as_str).collect();
    let mut rest = template;
    while let Some(at) = rest.find("${") {
        out.push_str(&rest[..at]);
        let Some(end) = rest[at..].find('}') else {
            return Err(parameter(&rest[at..], "has no closing brace"));
        };
        let inside = &rest[at + 2..at + end];
        let (name, default) = match inside.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inside, None),
        };
        unused.remove(name);
        match (values.get(name), default) {
            (Some(value), _) => out.push_str(&one_value(name, value)?),
            (None, _) if name == built_in.0 => out.push_str(&built_in.1),
            (None, Some(default)) => out.push_str(default),
            (None, None) => return Err(parameter(name, "has no value: add it to `parameters`")),
        }
        rest = &rest[at + end + 1..];
    }
    out.push_str(rest);
    match unused.first() {
        Some(name) => Err(parameter(name, "is not used by the pipeline: check its spelling")),
        None => Ok(out),
    }
}

/// `value` escaped as one word of a description.
fn one_value(name: &str, value: &str) -> Result<String, CaptureError> {
    match unusable(value) {
        Some(problem) => Err(parameter(name, problem)),
        None => Ok(backslashed(value)),
    }
}

/// Why `value` cannot be a word of a description, even escaped.
fn unusable(value: &str) -> Option<&'static str> {
    if value.is_empty() {
        Some("is empty")
    } else if value.chars().any(char::is_control) {
        // A line break ends a word even after a backslash.
        Some("contains a control character")
    } else if value.ends_with('\\') {
        // In GStreamer's lexer the last backslash would escape the space after the word.
        Some("ends with a backslash")
    } else {
        None
    }
}

fn parameter(name: &str, problem: &'static str) -> CaptureError {
    CaptureError::Parameter { name: name.to_owned(), problem }
}

#[cfg(test)]
mod tests;
