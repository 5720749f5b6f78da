//! Errors of reading and writing a ring.

use std::error::Error;
use std::fmt;

use super::Text;
use super::abi::{ABI_MAJOR, ABI_MINOR};

/// A segment could not be created, opened or read. Misuse of this crate is a bug and panics instead.
#[derive(Debug)]
#[non_exhaustive]
pub enum RingError {
    /// The specification does not fit a segment.
    Spec {
        /// The field of [`SegmentSpec`](super::SegmentSpec).
        field: &'static str,
        /// Value of the field.
        value: String,
        /// The allowed values.
        allowed: &'static str,
    },

    /// Not enough memory for one or more segments.
    OutOfMemory {
        /// Their size.
        bytes: u64,
        /// The memory that is available, or the kernel's error.
        reason: String,
    },

    /// A system call failed.
    System {
        /// The call, such as `memfd_create`.
        call: &'static str,
        /// The system's error.
        source: std::io::Error,
    },

    /// The descriptor does not refer to a segment.
    NotASegment {
        /// Evidence.
        reason: String,
    },

    /// The segment has another ABI version.
    Version {
        /// Major version of the segment.
        major: u32,
        /// Minor version of the segment.
        minor: u32,
    },

    /// A field contradicts the ABI or the segment's size: its writer is broken.
    Malformed {
        /// The field, as `docs/reference/abi.md` names it.
        field: &'static str,
        /// Value of the field.
        value: String,
    },

    /// The writer kept overwriting the frame being read.
    Overtaken {
        /// Copies attempted.
        tries: u32,
    },
}

impl fmt::Display for RingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spec { field, value, allowed } => {
                write!(f, "invalid `{field}` of a segment: {value} (expected {allowed})")
            }
            Self::OutOfMemory { bytes, reason } => write!(
                f,
                "cannot reserve {bytes} bytes of shared memory ({reason}): lower `budget` or `slots`, or free memory"
            ),
            Self::System { call, .. } => write!(f, "{call} failed"),
            Self::NotASegment { reason } => {
                write!(f, "the descriptor is not a Foveate segment: {reason}")
            }
            Self::Version { major, minor } => write!(
                f,
                "the segment follows ABI {major}.{minor}, but this reader supports {ABI_MAJOR}.{ABI_MINOR}: use a \
                 reader of the daemon's version"
            ),
            Self::Malformed { field, value } => {
                write!(f, "invalid segment: {field} is {value}")
            }
            Self::Overtaken { tries } => write!(
                f,
                "the writer overtook this reader {tries} times in a row: the reader is suspended for too long while copying, or the segment is invalid"
            ),
        }
    }
}

impl Error for RingError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::System { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// Adds the name of the failed call to a result of `rustix`.
pub(super) trait SystemResultExt<T> {
    fn during(self, call: &'static str) -> Result<T, RingError>;
}

impl<T> SystemResultExt<T> for rustix::io::Result<T> {
    fn during(self, call: &'static str) -> Result<T, RingError> {
        self.map_err(|errno| RingError::System { call, source: errno.into() })
    }
}

/// `field` of a segment contradicts the ABI.
pub(super) fn malformed(field: &'static str, value: impl ToString) -> RingError {
    RingError::Malformed { field, value: value.to_string() }
}

/// Returns the error that `field` is malformed unless `holds`.
pub(super) fn ensure(
    holds: bool,
    field: &'static str,
    value: impl ToString,
) -> Result<(), RingError> {
    if holds { Ok(()) } else { Err(malformed(field, value)) }
}

/// The text of a field that NULs pad.
pub(super) fn text<const BYTES: usize>(
    field: &'static str,
    text: &Text<BYTES>,
) -> Result<String, RingError> {
    String::from_utf8(text.bytes().to_vec()).map_err(|_| malformed(field, format!("{text:?}")))
}

/// `text` as a field of the header. Names are addresses, so long ones are an error rather than truncated.
pub(super) fn whole_text<const BYTES: usize>(
    field: &'static str,
    text: &str,
    allowed: &'static str,
) -> Result<Text<BYTES>, RingError> {
    let padded = Text::truncated(text);
    if padded.bytes() == text.as_bytes() {
        Ok(padded)
    } else {
        Err(RingError::Spec { field, value: format!("{text:?}"), allowed })
    }
}
