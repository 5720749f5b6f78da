//! Expands a configured source to a gst-launch description.
//!
//! A shorthand stands for a shipped file of `pipelines/` with its parameters filled in. Special characters of a value are
//! escaped, so that it stays a single value: a path cannot inject an element.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::Arc;

use gstreamer::glib;

use super::{CaptureError, SourceChoice, SourceSpec};
use foveate_config::ShorthandKind;
use foveate_log::redact::{Masked, backslashed, redacted};

/// The shipped descriptions and their names in `pipelines/`.
pub const SHIPPED: [(&str, &str); 5] = [
    ("test", include_str!("../../pipelines/test.gst")),
    ("v4l2", include_str!("../../pipelines/v4l2.gst")),
    ("v4l2-jpeg", include_str!("../../pipelines/v4l2-jpeg.gst")),
    ("rtsp", include_str!("../../pipelines/rtsp.gst")),
    ("file", include_str!("../../pipelines/file.gst")),
];

/// A description ready for the parser.
#[derive(Clone, PartialEq, Eq)]
pub struct Expansion {
    /// As GStreamer parses it.
    pub text: String,
    /// Without credentials, for logs and errors.
    pub shown: String,
    /// GStreamer's own messages quote parts of the description.
    masked: Arc<Masked>,
}

impl std::fmt::Debug for Expansion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Expansion").field("shown", &self.shown).finish_non_exhaustive()
    }
}

/// Expands `spec`. Checks that the files and cameras of shorthands exist, so that errors name them.
///
/// # Errors
///
/// If the source or its file does not exist or is not readable, or the parameters do not match the description.
pub fn expand(spec: &SourceSpec) -> Result<Expansion, CaptureError> {
    let (template, own) = match &spec.source {
        SourceChoice::Shorthand(text) => shorthand(text)?,
        SourceChoice::Pipeline(text) => (text.clone(), None),
        SourceChoice::PipelineFile(path) => (read_pipeline(path)?, None),
    };
    let template = without_comments(&template);
    let mut values = spec.parameters.clone();
    if let Some((name, value)) = own
        && values.insert(name.to_owned(), value).is_some()
    {
        return Err(parameter(name, "is already given by `source`: remove it"));
    }
    let built_in = ("latency_ms", spec.latency_ms.to_string());
    let text = substituted(&template, &values, &built_in)?;
    let masked = Arc::new(Masked::default().and_credentials_in(&text));
    let shown = values.iter().map(|(name, value)| (name.clone(), redacted(value))).collect();
    let shown = redacted(&substituted(&template, &shown, &built_in)?);
    Ok(Expansion { text, shown, masked })
}

/// Description of a shorthand, and the parameter that it fills in.
type Shorthand = (String, Option<(&'static str, String)>);

fn shorthand(text: &str) -> Result<Shorthand, CaptureError> {
    let unknown = || CaptureError::UnknownSource { text: redacted(text) };
    match ShorthandKind::of(text).filter(|_| !text.is_empty()).ok_or_else(unknown)? {
        ShorthandKind::Test => Ok((shipped("test"), None)),
        ShorthandKind::Rtsp => Ok((shipped("rtsp"), Some(("location", text.to_owned())))),
        ShorthandKind::Camera => {
            check_camera(text)?;
            Ok((shipped("v4l2"), Some(("device", text.to_owned()))))
        }
        ShorthandKind::File => {
            let path = if text.starts_with("file://") {
                glib::filename_from_uri(text).map_err(|_| unknown())?.0
            } else {
                text.into()
            };
            Ok((shipped("file"), Some(("location", checked_file(&path)?))))
        }
    }
}

fn shipped(name: &str) -> String {
    let found = SHIPPED.iter().find(|(shipped, _)| *shipped == name);
    found.expect("a shipped pipeline").1.to_owned()
}

/// The absolute path of a readable file.
fn checked_file(path: &Path) -> Result<String, CaptureError> {
    let what = path.display().to_string();
    let denied = "let this user read it, with `chmod` or by its group";
    let opened = File::open(path).map_err(|error| unreadable(&error, &what, denied))?;
    let is_file = opened.metadata().is_ok_and(|metadata| !metadata.is_dir());
    let absolute = fs::canonicalize(path).map_err(|error| unreadable(&error, &what, denied))?;
    match absolute.into_os_string().into_string() {
        Ok(absolute) if is_file => Ok(absolute),
        _ => Err(CaptureError::UnknownSource { text: what }),
    }
}

fn check_camera(device: &str) -> Result<(), CaptureError> {
    let denied =
        "add this user to the group `video` (`sudo usermod -aG video $USER`) and log in again";
    match File::options().read(true).write(true).open(device) {
        Ok(_) => Ok(()),
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::BUSY.raw_os_error()) => {
            Err(CaptureError::Busy { device: device.to_owned() })
        }
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Err(CaptureError::Permission { what: device.to_owned(), remedy: denied })
        }
        Err(_) => Err(CaptureError::NoCamera { device: device.to_owned() }),
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
    fs::read_to_string(path).map_err(|error| CaptureError::PipelineFile {
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
    if value.is_empty() {
        return Err(parameter(name, "is empty"));
    }
    // A line break ends a word even after a backslash.
    if value.chars().any(char::is_control) {
        return Err(parameter(name, "contains a control character"));
    }
    // In GStreamer's lexer the last backslash would escape the space after the word.
    if value.ends_with('\\') {
        return Err(parameter(name, "ends with a backslash"));
    }
    Ok(backslashed(value))
}

fn parameter(name: &str, problem: &'static str) -> CaptureError {
    CaptureError::Parameter { name: name.to_owned(), problem }
}
