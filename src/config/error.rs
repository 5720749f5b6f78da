//! Why a configuration is refused, and where in the file.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Why there is no configuration. The messages name the file and, past reading it, the line and the key.
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

    /// The file says something that is not allowed.
    #[error("{}:{line}:{column}: {key}{message}", file.display(), key = prefix(key))]
    Refused {
        /// The file.
        file: PathBuf,
        /// From 1.
        line: usize,
        /// In characters, from 1.
        column: usize,
        /// The key with its tables, such as `stream.view.budget`; empty where no key is to blame.
        key: String,
        /// What is wrong, and what is allowed.
        message: String,
    },
}

impl ConfigError {
    pub(super) fn unreadable(file: &Path, source: io::Error) -> Self {
        Self::Unreadable { file: file.to_owned(), source }
    }
}

fn prefix(key: &str) -> String {
    if key.is_empty() { String::new() } else { format!("{key}: ") }
}

/// A [`ConfigError::Refused`] that does not know its file yet.
#[derive(Debug)]
pub(super) struct Refusal {
    span: Range<usize>,
    message: String,
}

impl Refusal {
    /// Blames the bytes of `span`.
    pub(super) fn new(span: Range<usize>, message: impl Into<String>) -> Self {
        Self { span, message: message.into() }
    }

    /// The error for whoever wrote `text`, without showing them any of `secrets`.
    pub(super) fn at(self, text: &str, file: &Path, secrets: &[String]) -> ConfigError {
        let before = text.get(..self.span.start).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        ConfigError::Refused {
            file: file.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            key: key_at(text, self.span.start),
            message: without(secrets, self.completed(text)),
        }
    }
}

impl Refusal {
    /// The parser drops the second of two equal keys, so that only the text still knows its name.
    fn completed(self, text: &str) -> String {
        match (self.message.as_str(), text.get(self.span)) {
            ("duplicate key", Some(key)) => format!("duplicate key `{key}`"),
            _ => self.message,
        }
    }
}

impl From<toml::de::Error> for Refusal {
    /// Says "key" and "value" where serde says "field" and "variant", which are words of Rust and not of TOML.
    fn from(error: toml::de::Error) -> Self {
        let message = error
            .message()
            .replace("unknown field", "unknown key")
            .replace("missing field", "missing key")
            .replace("duplicate field", "duplicate key");
        Self { span: error.span().unwrap_or(0..0), message }
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
