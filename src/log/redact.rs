//! Redaction of credentials in everything that leaves the process as text: logs, errors, listings.
//!
//! Two mechanisms back each other up. Patterns: the user part and the query of a URI, and the value after `password=` and the like.
//! Exact texts: what is [masked](Masked) while a stream uses it, in any spelling that GStreamer's messages use. Masking too much is
//! acceptable, too little is not.
//!
//! A secret shorter than [`MIN_SECRET_BYTES`] is masked only where it is the whole text or stands in quotes: masked everywhere, it
//! would damage ordinary words, and where `30` is missing from a frame rate, everybody reads it. The configuration's words that hold
//! it are masked as a whole.

use std::fmt::Write as _;
use std::mem;

use parking_lot::RwLock;

/// Replacement for a credential.
pub const MASK: &str = "***";

/// Shortest secret that is masked inside other words.
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

/// A text that is masked, in one of the spellings that a message may use.
struct Spelling {
    text: String,
    /// What is shown in its place.
    shown: String,
    /// Whether it is masked only where it is the whole text.
    alone: bool,
    /// How many [`Masked`] have it.
    users: usize,
}

/// The longest first.
static SPELLINGS: RwLock<Vec<Spelling>> = RwLock::new(Vec::new());

/// Texts that are masked until this is dropped.
#[derive(Debug, Default, PartialEq, Eq)]
#[must_use = "what it masks is shown once it is dropped"]
pub struct Masked(Vec<String>);

impl Masked {
    /// Masks each secret by the text beside it.
    pub fn new<'a>(secrets: impl IntoIterator<Item = (&'a String, &'a String)>) -> Self {
        let mut masked = Self::default();
        secrets.into_iter().for_each(|(secret, shown)| masked.add(secret, shown));
        masked
    }

    /// Masks what looks like a credential in `text`, a URI or pipeline description, since parts of it may be logged on their own.
    /// User names are not masked.
    pub fn and_credentials_in(mut self, text: &str) -> Self {
        for value in credentials_in(text) {
            let plain = unquoted(&value);
            for spelling in [percent_decoded(&plain), plain, value] {
                if MIN_SECRET_BYTES <= spelling.len() {
                    self.add(&spelling, MASK);
                }
            }
        }
        self
    }

    /// Masks them for the life of the process.
    pub fn for_good(self) {
        mem::forget(self);
    }

    fn add(&mut self, secret: &str, shown: &str) {
        let alone = secret.len() < MIN_SECRET_BYTES;
        let mut spellings = if alone {
            let quoted = |quote| {
                (format!("{quote}{secret}{quote}"), format!("{quote}{shown}{quote}"), false)
            };
            vec![(secret.to_owned(), shown.to_owned(), true), quoted('"'), quoted('\'')]
        } else {
            let texts = [secret.to_owned(), percent_encoded(secret), backslashed(secret)];
            texts.map(|text| (text, shown.to_owned(), false)).into()
        };
        spellings.retain(|_| !secret.is_empty());
        let mut known = SPELLINGS.write();
        for (text, shown, alone) in spellings {
            match known.iter_mut().find(|known| known.text == text) {
                Some(known) => known.users += 1,
                None => known.push(Spelling { text: text.clone(), shown, alone, users: 1 }),
            }
            self.0.push(text);
        }
        known.sort_by_key(|spelling| std::cmp::Reverse(spelling.text.len()));
    }
}

impl Drop for Masked {
    fn drop(&mut self) {
        let mut known = SPELLINGS.write();
        for spelling in known.iter_mut() {
            spelling.users -= self.0.iter().filter(|text| **text == spelling.text).count();
        }
        known.retain(|spelling| 0 < spelling.users);
    }
}

/// `text` with credentials masked. Idempotent.
pub fn redacted(text: &str) -> String {
    let mut text = text.to_owned();
    for spelling in SPELLINGS.read().iter() {
        if spelling.alone && text == spelling.text {
            return spelling.shown.clone();
        }
        if !spelling.alone && text.contains(&spelling.text) {
            text = text.replace(&spelling.text, &spelling.shown);
        }
    }
    without_named_values(&with_addresses(&text, address_shown), |_, _| {})
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

fn credentials_in(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut note = |address: &str| {
        let (user, rest) = address.rsplit_once('@').unwrap_or(("", address));
        found.extend(user.split_once(':').map(|(_, password)| password.to_owned()));
        found.extend((!user.is_empty()).then(|| user.to_owned()).filter(|user| user.contains(':')));
        found.extend(rest.split_once('?').map(|(_, query)| query.to_owned()));
        if user.contains(['/', '?', '#']) {
            let query = address.split_once(['?', '#']).map(|(_, query)| query.to_owned());
            found.extend([address.to_owned()].into_iter().chain(query));
        }
        address.to_owned()
    };
    // A source that is one address is not cut at blanks and quotes in its password.
    match text.split_once("://").filter(|(scheme, _)| is_scheme(scheme)) {
        Some((_, address)) => drop(note(address)),
        None => drop(with_addresses(text, note)),
    }
    without_named_values(text, |name, value| {
        if !name.trim_end().to_ascii_lowercase().ends_with("-id") {
            found.push(value.to_owned());
        }
    });
    found
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

/// `text` with what follows `://` in each URI as `shown` says, or `:/`, as a slip of the pen. A URI that stands in quotes ends with
/// them, another one at a blank.
fn with_addresses(text: &str, mut shown: impl FnMut(&str) -> String) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(":/") {
        let slashes = if rest[at..].starts_with("://") { 2 } else { 1 };
        let (before, after) = rest.split_at(at + 1 + slashes);
        out.push_str(before);
        let mut outside = before[..at].trim_end_matches(is_of_scheme).chars().rev();
        let quote = outside.next().filter(|character| "\"'".contains(*character));
        let len = match quote {
            Some(quote) if outside.next() == Some('\\') => {
                after.find(&format!("\\{quote}")).unwrap_or(after.len())
            }
            Some(quote) => unquoted_len(after, |character| character == quote),
            None => unquoted_len(after, char::is_whitespace),
        };
        let (address, next) = after.split_at(len);
        out.push_str(&shown(address));
        rest = next;
    }
    out.push_str(rest);
    out
}

/// Host, port and path of what follows `://`. Whoever writes `@` in a password means it, so the last one counts; behind a `/`, `?` or
/// `#` nobody knows whether it is that of a password or of a query, and where the host is.
fn address_shown(address: &str) -> String {
    let (user, rest) = match address.rfind('@') {
        Some(end) if address[..end].contains(['/', '?', '#']) => return MASK.to_owned(),
        Some(end) => (MASK, &address[end..]),
        None => ("", address),
    };
    let path = rest.find(['?', '#']).map_or(rest.len(), |end| end + 1);
    let query = if path < rest.len() { MASK } else { "" };
    format!("{user}{}{query}", &rest[..path])
}

fn is_scheme(text: &str) -> bool {
    !text.is_empty() && text.chars().all(is_of_scheme)
}

fn is_of_scheme(character: char) -> bool {
    character.is_ascii_alphanumeric() || "+-.".contains(character)
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
