//! Why a configuration is refused, and where in the file.

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::reader::Mistakes;

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file is not there, not ours to read, or not UTF-8.
    #[error("cannot read the configuration {}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// What the system says.
        source: io::Error,
    },

    /// No file says where frames come from.
    #[error(
        "no [[stream]] in {}, and none in {}: expected at least one, with a `name` and a `source`",
        file.display(), directory.display()
    )]
    NoStream {
        /// The first file.
        file: PathBuf,
        /// Where the others are looked for.
        directory: PathBuf,
    },

    /// Files say what is not allowed: at least one mistake, in their order.
    #[error("{}", list(.0))]
    Refused(Vec<Mistake>),
}

/// One thing that is wrong in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The file.
    pub file: PathBuf,
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    /// The key with its tables, such as `stream.view.budget`; empty where no key is to blame.
    pub key: String,
    /// What is wrong, and what is allowed.
    pub message: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, .. } = self;
        write!(f, "{}:{line}:{column}: {}", file.display(), self.reason())
    }
}

impl Mistake {
    /// The key and the message, for whoever has not written the file.
    pub fn reason(&self) -> String {
        let Self { key, message, .. } = self;
        if key.is_empty() { message.clone() } else { format!("{key}: {message}") }
    }
}

impl ConfigError {
    pub(super) fn unreadable(file: &Path, source: io::Error) -> Self {
        Self::Unreadable { file: file.to_owned(), source }
    }

    /// What is wrong, without the places in a text that whoever is told has not seen.
    pub fn reason(&self) -> String {
        match self {
            Self::Refused(mistakes) => {
                mistakes.iter().map(Mistake::reason).collect::<Vec<_>>().join("; ")
            }
            error => foveate_core::error::chain(error),
        }
    }
}

/// An error if there are mistakes in `text`, without showing any of `secrets`.
pub(super) fn refused(
    mistakes: Mistakes,
    text: &str,
    file: &Path,
    secrets: &[String],
) -> Result<(), ConfigError> {
    if mistakes.is_empty() {
        return Ok(());
    }
    let mistake = |(span, message): (Range<usize>, _)| {
        let before = text.get(..span.start).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Mistake {
            file: file.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            key: if span == (0..0) { String::new() } else { key_at(text, span.start) },
            message: without(secrets, message),
        }
    };
    Err(ConfigError::Refused(mistakes.into_iter().map(mistake).collect()))
}

fn list(mistakes: &[Mistake]) -> String {
    let lines: Vec<_> = mistakes.iter().map(Mistake::to_string).collect();
    match &lines[..] {
        [line] => line.clone(),
        lines => format!("{} mistakes in the configuration\n{}", lines.len(), lines.join("\n")),
    }
}

/// `message` with every secret replaced, also where it was quoted with escapes.
fn without(secrets: &[String], message: String) -> String {
    secrets.iter().fold(message, |message, secret| {
        let escaped = secret.escape_debug().to_string();
        message.replace(secret.as_str(), "***").replace(&escaped, "***")
    })
}

/// The dotted key that the byte at `offset` belongs to, or "" if it belongs to none.
fn key_at(text: &str, offset: usize) -> String {
    // Recovery, because the text may be refused for its syntax; what was read before the error still has keys.
    let (document, _) = DeTable::parse_recoverable(text);
    let mut path = Vec::new();
    find_in_table(document.get_ref(), offset, &mut path);
    path.join(".")
}

/// Appends the keys on the way to `offset`, and says whether there was one. The spans of tables cannot guide the
/// search: those of `[table]` cover no more than the header.
fn find_in_table<'a>(table: &'a DeTable<'_>, offset: usize, path: &mut Vec<&'a str>) -> bool {
    table.iter().any(|(key, value)| {
        path.push(key.get_ref());
        let found = find_in_value(value, offset, path)
            || key.span().contains(&offset)
            || value.span().contains(&offset);
        if !found {
            path.pop();
        }
        found
    })
}

fn find_in_value<'a>(
    value: &'a Spanned<DeValue<'_>>,
    offset: usize,
    path: &mut Vec<&'a str>,
) -> bool {
    match value.get_ref() {
        DeValue::Table(table) => find_in_table(table, offset, path),
        DeValue::Array(array) => array.iter().any(|element| {
            find_in_value(element, offset, path) || element.span().contains(&offset)
        }),
        _ => false,
    }
}
