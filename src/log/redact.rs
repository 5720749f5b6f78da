//! Redaction of credentials in everything that leaves the process as text: logs, errors, listings.
//!
//! Two mechanisms back each other up. Patterns: the user part of a URI, and the value after `password=` and the like. Exact
//! values: what was passed to [`register`], in any spelling that GStreamer's messages use. Masking too much is acceptable, too
//! little is not.

use std::fmt::Write as _;

use parking_lot::RwLock;

/// Replacement for a credential.
pub const MASK: &str = "***";

/// Shortest secret; masking a shorter value would damage ordinary words.
pub const MIN_SECRET_BYTES: usize = 4;

/// Endings of the names of credentials.
const SECRET_NAMES: [&str; 21] = [
    "user-id",
    "user-pw",
    "proxy-id",
    "proxy-pw",
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "token",
    "secret",
    "api-key",
    "apikey",
    "credentials",
    "authorization",
    // As in the addresses of IP cameras and of SRT.
    "pass",
    "psw",
    "loginpas",
    "auth",
    "key",
    "signature",
    "streamid",
];

/// Registered secrets in every spelling that a message may use, longest first.
static SECRETS: RwLock<Vec<String>> = RwLock::new(Vec::new());

/// Masks `secret` from now on, for the life of the process, also percent-encoded and backslash-escaped. Values shorter than
/// [`MIN_SECRET_BYTES`] are ignored.
pub fn register(secret: &str) {
    if secret.len() < MIN_SECRET_BYTES {
        return;
    }
    let mut secrets = SECRETS.write();
    for spelling in [secret.to_owned(), percent_encoded(secret), backslashed(secret)] {
        if !secrets.contains(&spelling) {
            secrets.push(spelling);
        }
    }
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
}

/// `text` with credentials masked. Idempotent.
pub fn redacted(text: &str) -> String {
    let mut text = text.to_owned();
    for secret in SECRETS.read().iter() {
        if text.contains(secret.as_str()) {
            text = text.replace(secret.as_str(), MASK);
        }
    }
    without_named_values(&without_user_parts(&text, |_| {}), |_, _| {})
}

/// `text` without control characters other than line ends, which could steer a terminal. They are shown escaped.
pub fn printable(text: &str) -> String {
    let shown = |character: char| match character {
        '\n' | '\t' => character.to_string(),
        _ if character.is_control() => character.escape_default().to_string(),
        _ => character.to_string(),
    };
    text.chars().map(shown).collect()
}

/// Registers what looks like a credential in `text`, a URI or pipeline description, since parts of it may be logged on their own.
/// User names are not registered.
pub fn register_credentials_in(text: &str) {
    let mut found = Vec::new();
    without_user_parts(text, |user| {
        found.extend(user.split_once(':').map(|(_, password)| password.to_owned()));
    });
    without_named_values(text, |name, value| {
        if !name.trim_end().to_ascii_lowercase().ends_with("-id") {
            found.push(value.to_owned());
        }
    });
    for value in found {
        let plain = unquoted(&value);
        register(&percent_decoded(&plain));
        register(&plain);
        register(&value);
    }
}

/// A value of a pipeline description without quotes and escapes.
fn unquoted(value: &str) -> String {
    let inner = ['"', '\''].iter().find_map(|&quote| {
        value.strip_prefix(quote).map(|inner| inner.strip_suffix(quote).unwrap_or(inner))
    });
    let mut characters = inner.unwrap_or(value).chars();
    let mut out = String::with_capacity(value.len());
    while let Some(character) = characters.next() {
        match character {
            '\\' => out.extend(characters.next()),
            other => out.push(other),
        }
    }
    out
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.get(..2).filter(|_| first == b'%');
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let decoded = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(decoded.unwrap_or(first));
        rest = if decoded.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Masks the text between `://` and the last `@` of each URI, and passes it to `found`.
fn without_user_parts(text: &str, mut found: impl FnMut(&str)) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        out.push_str(before);
        let (uri, next) = after.split_at(unquoted_len(after, |c| c.is_whitespace() || c == '"'));
        match uri.rfind('@') {
            Some(end) => {
                found(&uri[..end]);
                out.push_str(MASK);
                out.push_str(&uri[end..]);
            }
            None => {
                // Nothing to mask up to here, but a second "://" may follow in the same word.
                let inner = uri.find("://").unwrap_or(uri.len());
                out.push_str(&uri[..inner]);
                rest = &after[inner..];
                continue;
            }
        }
        rest = next;
    }
    out.push_str(rest);
    out
}

/// Masks the values of [`SECRET_NAMES`], and passes the text before each and the value to `found`.
fn without_named_values(text: &str, mut found: impl FnMut(&str, &str)) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['=', ':']) {
        let (name, sign_and_value) = rest.split_at(at);
        let (sign, value) = sign_and_value.split_at(1);
        out.push_str(name);
        out.push_str(sign);
        rest = value;
        if names_secret(name, sign == ":") {
            let (prefix, value) = value.split_at(value_prefix_len(value));
            let (value, after) = value.split_at(value_len(value, name));
            found(name, value);
            out.push_str(prefix);
            out.push_str(if value.is_empty() { "" } else { MASK });
            rest = after;
        }
    }
    out.push_str(rest);
    out
}

/// Whether the text before a sign ends in the name of a credential. A colon assigns only in headers and JSON.
fn names_secret(before: &str, colon: bool) -> bool {
    let name = before.trim_end();
    let quoted = name.ends_with(['"', '\'']);
    let name = name.trim_end_matches(['"', '\'', '\\']).to_ascii_lowercase().replace('_', "-");
    let header = name.ends_with("authorization");
    SECRET_NAMES.iter().any(|secret| name.ends_with(secret)) && (!colon || quoted || header)
}

/// Length of the blanks and of a type such as `(string)`, perhaps escaped, before a value.
fn value_prefix_len(value: &str) -> usize {
    let blanks = value.len() - value.trim_start().len();
    let typed = &value[blanks..];
    if typed.starts_with('(') || typed.starts_with("\\(") {
        let end = typed.find(')').map_or(0, |end| end + 1);
        return blanks + end;
    }
    blanks
}

/// Length of a value: quoted, with its quotes; else up to the next blank or `&`. A header's value ends with the line.
fn value_len(value: &str, name: &str) -> usize {
    if name.trim_end().to_ascii_lowercase().ends_with("authorization") {
        return value.find(['\n', '\r']).unwrap_or(value.len());
    }
    for quote in ['"', '\''] {
        if let Some(inner) = value.strip_prefix(quote) {
            return (1 + unquoted_len(inner, |c| c == quote) + 1).min(value.len());
        }
    }
    unquoted_len(value, |c| c.is_whitespace() || c == '&' || c == '"')
}

/// Length up to the first unescaped character for which `ends` holds.
fn unquoted_len(text: &str, ends: impl Fn(char) -> bool) -> usize {
    let mut escaped = false;
    for (index, character) in text.char_indices() {
        if !escaped && ends(character) {
            return index;
        }
        escaped = !escaped && character == '\\';
    }
    text.len()
}

fn percent_encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// `text` escaped for use without quotes in a pipeline description: a backslash before everything that could have a meaning
/// there.
pub fn backslashed(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if !(character.is_alphanumeric() || "_-./:@%+".contains(character)) {
            out.push('\\');
        }
        out.push(character);
    }
    out
}

/// A writer that redacts; each call is one whole message.
#[derive(Debug)]
pub struct Redacting<W> {
    target: W,
}

impl<W: std::io::Write> Redacting<W> {
    /// Wraps `target`.
    pub fn new(target: W) -> Self {
        Self { target }
    }
}

impl<W: std::io::Write> std::io::Write for Redacting<W> {
    fn write(&mut self, message: &[u8]) -> std::io::Result<usize> {
        self.target.write_all(redacted(&String::from_utf8_lossy(message)).as_bytes())?;
        Ok(message.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.target.flush()
    }
}
