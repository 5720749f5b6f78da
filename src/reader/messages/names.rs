//! Names of views: `STREAM/VIEW`.

use std::fmt;
use std::str::FromStr;

use serde_core::de::Error as _;
use serde_core::{Deserialize, Deserializer, Serialize, Serializer};

use super::clipped;
use foveate_core::name::{NAME_BYTES_MAX, is_name};

/// The address of a view: `STREAM/VIEW`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ViewName {
    stream: String,
    view: String,
}

/// Text that is not the address of a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewNameError(String);

impl ViewName {
    /// The address of `view` of `stream`.
    ///
    /// # Errors
    ///
    /// If either is not a name.
    pub fn new(stream: &str, view: &str) -> Result<Self, ViewNameError> {
        if is_name(stream) && is_name(view) {
            Ok(Self { stream: stream.to_owned(), view: view.to_owned() })
        } else {
            Err(ViewNameError::of(&format!("{stream}/{view}")))
        }
    }

    /// Name of the stream.
    pub fn stream(&self) -> &str {
        &self.stream
    }

    /// Name of the view in its stream.
    pub fn view(&self) -> &str {
        &self.view
    }
}

impl ViewNameError {
    /// Quotes `text`, truncated to the longest valid length.
    fn of(text: &str) -> Self {
        Self(clipped(text, 2 * NAME_BYTES_MAX + 1))
    }
}

impl fmt::Display for ViewNameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "invalid view name {:?} (expected STREAM/VIEW, each 1 to 63 of a-z, 0-9, `_` and `-`, such as camera/main)",
            self.0
        )
    }
}

impl std::error::Error for ViewNameError {}

impl FromStr for ViewName {
    type Err = ViewNameError;

    fn from_str(text: &str) -> Result<Self, ViewNameError> {
        let (stream, view) = text.split_once('/').ok_or_else(|| ViewNameError::of(text))?;
        Self::new(stream, view)
    }
}

impl Serialize for ViewName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ViewName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl fmt::Display for ViewName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.stream, self.view)
    }
}
