//! The address of a view.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::clipped;
use foveate_core::name::{NAME_BYTES_MAX, is_name};

/// The address of a view: `STREAM/VIEW`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct ViewName {
    stream: String,
    view: String,
}

/// Text that is not the address of a view.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not the name of a view: it takes STREAM/VIEW, each 1 to 63 of a-z, 0-9, `_` and `-`, \
     such as camera/main"
)]
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
    /// Quotes `text`, or the beginning of it where it is longer than any name.
    fn of(text: &str) -> Self {
        Self(clipped(text, 2 * NAME_BYTES_MAX + 1))
    }
}

impl FromStr for ViewName {
    type Err = ViewNameError;

    fn from_str(text: &str) -> Result<Self, ViewNameError> {
        let (stream, view) = text.split_once('/').ok_or_else(|| ViewNameError::of(text))?;
        Self::new(stream, view)
    }
}

impl TryFrom<String> for ViewName {
    type Error = ViewNameError;

    fn try_from(text: String) -> Result<Self, ViewNameError> {
        text.parse()
    }
}

impl From<ViewName> for String {
    fn from(name: ViewName) -> Self {
        name.to_string()
    }
}

impl fmt::Display for ViewName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.stream, self.view)
    }
}
