//! Gaze logs: where a view looked, frame by frame.
//!
//! A log is text with one JSON object a line. The first line is the header:
//!
//! ```json
//! {"foveate_gaze_log":1,"view":"camera/main","extent":[768,576]}
//! ```
//!
//! The number is the version of the format, and of how plans follow from gazes.
//!
//! Each further line holds the gaze from frame `frame` on: 1 to 8 fixations, in the order of the foveae. Relevance is a grid of codes, two hexadecimal digits a cell, row by row, as in
//! [`RelevanceMap::from_codes`](foveate_core::geometry::relevance::RelevanceMap::from_codes); `null` where all of the image matters equally.
//!
//! ```json
//! {"frame":5,"fixations":[{"id":2,"x":12.5,"y":7.0625,"since_frame":5,"reason":"saliency","weight":1.0}],"relevance":{"frame":4,"grid":[2,1],"codes":"80ff"}}
//! ```
//!
//! With `"afresh":true` the token plan of frame `frame` did not depend on the plan before: masks changed, or a recorder subscribed, whose
//! log begins there. An entry that only repeats the gaze changes nothing.

use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_core::Serialize;

use foveate_core::file;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::fixation::Gaze;
use foveate_core::geometry::gaze_entry::GazeEntry;

/// Longest file, in bytes: weeks of a gaze that moves three times a second.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// Format version.
const VERSION: u32 = 1;

/// A recorded gaze.
#[derive(Clone, Debug, PartialEq)]
pub struct GazeLog {
    /// The recorded view, as `stream/view`.
    pub view: String,
    /// Extent of the source, in whose pixels fixations are.
    pub extent: Extent,
    /// Ascending by frame.
    pub entries: Vec<LogEntry>,
}

/// A recorded gaze, and the frame from which it applies.
#[derive(Clone, Debug, PartialEq)]
pub struct LogEntry {
    /// `frame_seq` of the first frame with the gaze.
    pub frame: u64,
    /// The gaze.
    pub gaze: Arc<Gaze>,
    /// Whether the first frame with the gaze was planned without regard to the plan before.
    pub is_planned_afresh: bool,
}

/// A gaze log that cannot be replayed, and why.
#[derive(Debug)]
#[non_exhaustive]
pub enum GazeLogError {
    /// The file cannot be read.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The file is readable, but not a valid log.
    Malformed {
        /// The file.
        path: PathBuf,
        /// The mistake in the file.
        source: GazeLogParseError,
    },
}

impl fmt::Display for GazeLogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { path, .. } => {
                write!(f, "cannot read the gaze log {}", path.display())
            }
            Self::Malformed { path, .. } => write!(f, "cannot replay {}", path.display()),
        }
    }
}

impl Error for GazeLogError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Unreadable { source, .. } => Some(source),
            Self::Malformed { source, .. } => Some(source),
        }
    }
}

/// A mistake in a gaze log.
#[derive(Debug)]
#[non_exhaustive]
pub enum GazeLogParseError {
    /// The file is not a gaze log.
    NotALog,
    /// A version of the format that this program does not read.
    OtherVersion {
        /// The version that it names.
        version: u64,
    },
    /// A line is cut off, or was edited.
    BrokenLine {
        /// Number of the line, from 1.
        line: usize,
        /// The mistake, and what was expected.
        reason: String,
    },
    /// Frames do not ascend.
    NotAscending {
        /// Number of the line, from 1.
        line: usize,
        /// Frame of the entry.
        frame: u64,
        /// The frame of the entry before.
        before: u64,
    },
    /// The log has no entries.
    Empty,
}

impl fmt::Display for GazeLogParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotALog => f.write_str(
                "not a gaze log (expected \"foveate_gaze_log\" in the first line, as `foveate record` writes it)",
            ),
            Self::OtherVersion { version } => write!(
                f,
                "unsupported gaze log version {version} (expected {VERSION}; record it again)"
            ),
            Self::BrokenLine { line, reason } => write!(f, "invalid line {line}: {reason}"),
            Self::NotAscending { line, frame, before } => write!(
                f,
                "invalid line {line}: frame {frame} does not follow frame {before} of the line above"
            ),
            Self::Empty => f.write_str("no entries (expected at least one frame)"),
        }
    }
}

impl Error for GazeLogParseError {}

impl GazeLog {
    /// Reads the log at `path`.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or is not a gaze log.
    pub fn load(path: &Path) -> Result<Self, GazeLogError> {
        let unreadable = |source| GazeLogError::Unreadable { path: path.to_owned(), source };
        let bytes = file::read(path, FILE_BYTES_MAX).map_err(unreadable)?;
        Self::parse(&String::from_utf8_lossy(&bytes))
            .map_err(|source| GazeLogError::Malformed { path: path.to_owned(), source })
    }

    /// Reads the text of a log.
    ///
    /// # Errors
    ///
    /// If it is not a gaze log, has another version, or is broken.
    pub fn parse(text: &str) -> Result<Self, GazeLogParseError> {
        let mut lines = (1..).zip(text.lines());
        let Some((_, first)) = lines.next() else { return Err(GazeLogParseError::NotALog) };
        let Header { view, extent, .. } = parse_header(first)?;
        let mut entries: Vec<LogEntry> = Vec::new();
        for (line, text) in lines.filter(|(_, text)| !text.trim().is_empty()) {
            let (GazeEntry { frame, is_planned_afresh, .. }, gaze) = parse_entry(text)
                .map_err(|reason| GazeLogParseError::BrokenLine { line, reason })?;
            let gaze = Arc::new(gaze);
            match entries.last() {
                Some(&LogEntry { frame: before, .. }) if frame <= before => {
                    return Err(GazeLogParseError::NotAscending { line, frame, before });
                }
                _ => entries.push(LogEntry { frame, gaze, is_planned_afresh }),
            }
        }
        if entries.is_empty() {
            return Err(GazeLogParseError::Empty);
        }
        Ok(Self { view, extent: Extent::new(extent[0], extent[1]), entries })
    }
}

/// First line of a log of `view` (as `stream/view`) over a source of `extent`, without a newline.
pub fn header_line(view: &str, extent: Extent) -> String {
    let extent = [extent.width, extent.height];
    line(&Header { foveate_gaze_log: VERSION, view: view.to_owned(), extent })
}

/// Line of an entry, without a newline.
pub fn entry_line(entry: &GazeEntry) -> String {
    line(entry)
}

struct Header {
    foveate_gaze_log: u32,
    view: String,
    extent: [u32; 2],
}

foveate_core::object!(Header { "foveate_gaze_log": foveate_gaze_log, "view": view, "extent": extent });

fn parse_header(text: &str) -> Result<Header, GazeLogParseError> {
    let value: serde_json::Value =
        serde_json::from_str(text).map_err(|_| GazeLogParseError::NotALog)?;
    let version = value.get("foveate_gaze_log").and_then(serde_json::Value::as_u64);
    let version = version.ok_or(GazeLogParseError::NotALog)?;
    if version != u64::from(VERSION) {
        return Err(GazeLogParseError::OtherVersion { version });
    }
    let broken = |reason: String| GazeLogParseError::BrokenLine { line: 1, reason };
    let header: Header =
        serde_json::from_value(value).map_err(|error| broken(error.to_string()))?;
    if !Extent::new(header.extent[0], header.extent[1]).is_supported() {
        return Err(broken("unsupported \"extent\"".to_owned()));
    }
    Ok(header)
}

fn parse_entry(text: &str) -> Result<(GazeEntry, Gaze), String> {
    let entry: GazeEntry = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let gaze = entry.gaze()?;
    Ok((entry, gaze))
}

fn line(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
