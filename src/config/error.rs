//! Errors of a configuration, with their places in the file.

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::STREAMS_MAX;
use super::environment::Secrets;
use super::reader::Mistakes;
use foveate_core::value::shown;

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file does not exist, may not be read, or is not UTF-8.
    #[error("cannot read the configuration {}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The system's error.
        source: io::Error,
    },

    /// No file has a stream.
    #[error(
        "no [[stream]] in {} and {}; expected at least one, with a `name` and a `source`",
        file.display(), directory.display()
    )]
    NoStream {
        /// The first file.
        file: PathBuf,
        /// The directory of the other files.
        directory: PathBuf,
    },

    /// The files have more streams than a daemon may have.
    #[error(
        "{count} streams, including those of {}; expected at most {STREAMS_MAX} in all files", file.display()
    )]
    TooManyStreams {
        /// The file with which they are too many.
        file: PathBuf,
        /// Streams up to there.
        count: usize,
    },

    /// The files have mistakes: at least one, in their order.
    #[error("{}", list(.0))]
    Refused(Vec<Mistake>),
}

/// One mistake in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The file.
    pub file: PathBuf,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The key with its tables, such as `stream.view.budget`; empty if the mistake does not concern a key.
    pub key: String,
    /// The mistake, and the allowed values.
    pub message: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, .. } = self;
        write!(f, "{}:{line}:{column}: {}", file.display(), self.reason())
    }
}

impl Mistake {
    /// The key and the message, without the place in the file.
    pub fn reason(&self) -> String {
        let Self { key, message, .. } = self;
        if key.is_empty() { message.clone() } else { format!("{key}: {message}") }
    }
}

impl ConfigError {
    pub(super) fn unreadable(file: &Path, source: io::Error) -> Self {
        Self::Unreadable { file: file.to_owned(), source }
    }

    /// The error for these mistakes, if there are any.
    pub(super) fn refused(mistakes: Vec<Mistake>) -> Result<(), Self> {
        if mistakes.is_empty() { Ok(()) } else { Err(Self::Refused(mistakes)) }
    }

    /// A mistake in a key that is in no file.
    pub(super) fn of_key(key: &str, message: String) -> Self {
        let key = key.to_owned();
        Self::Refused(vec![Mistake { file: PathBuf::new(), line: 1, column: 1, key, message }])
    }

    /// The mistakes without their places, for a client that has not seen the text.
    pub fn reason(&self) -> String {
        match self {
            Self::Refused(mistakes) => {
                mistakes.iter().map(Mistake::reason).collect::<Vec<_>>().join("; ")
            }
            error => foveate_core::error::chain(error),
        }
    }
}

/// The mistakes in `text` with their places, and with `secrets` masked.
pub(super) fn placed(
    mistakes: Mistakes,
    text: &str,
    file: &Path,
    secrets: &Secrets,
) -> Vec<Mistake> {
    // Recoverable, because after a syntax error the text before it still has keys. Parsed once, however many there are.
    let (document, _) = DeTable::parse_recoverable(if mistakes.is_empty() { "" } else { text });
    let mistake = |(span, message): (Range<usize>, _)| {
        let before = text.get(..span.start).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Mistake {
            file: file.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            key: if span == (0..0) {
                String::new()
            } else {
                key_at(document.get_ref(), span.start)
            },
            message: without(secrets, message),
        }
    };
    mistakes.into_iter().map(mistake).collect()
}

fn list(mistakes: &[Mistake]) -> String {
    let lines: Vec<_> = mistakes.iter().map(Mistake::to_string).collect();
    match &lines[..] {
        [line] => line.clone(),
        lines => format!("{} mistakes in the configuration\n{}", lines.len(), lines.join("\n")),
    }
}

/// `message` with every secret masked, also in quoted and escaped form.
fn without(secrets: &Secrets, message: String) -> String {
    let mut longest_first: Vec<_> = secrets.iter().collect();
    longest_first.sort_by_key(|(secret, _)| std::cmp::Reverse(secret.len()));
    longest_first.into_iter().fold(message, |message, (secret, shown)| {
        let escaped = secret.escape_debug().to_string();
        message.replace(secret.as_str(), shown).replace(&escaped, shown)
    })
}

/// The dotted key at byte `offset`, or "" if there is none.
fn key_at(document: &DeTable<'_>, offset: usize) -> String {
    let mut path = Vec::new();
    find_in_table(document, offset, &mut path);
    path.into_iter().map(shown).collect::<Vec<_>>().join(".")
}

/// Appends the keys on the path to `offset`, and returns whether there is one. Spans of tables cannot guide the search:
/// that of `[table]` covers only the header.
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
