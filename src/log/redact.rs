//! Redaction of credentials in everything that leaves the process as text: logs, errors, listings.
//!
//! Two mechanisms back each other up. Patterns: the user part and the query of a URI, `user:password@host` without a scheme, and the
//! value after `password=` and the like, also where that name is misspelt.
//! Exact texts: what is [masked](SecretMask) while a stream uses it, in any spelling that GStreamer's messages use. Masking too much is
//! acceptable, too little is not.
//!
//! A secret shorter than [`MIN_SECRET_BYTES`] is masked only where it is the whole text or stands in quotes: masked everywhere, it
//! would damage ordinary words, and where `30` is missing from a frame rate, everybody reads it. The configuration's words that hold
//! it are masked as a whole.

use std::mem;

use parking_lot::RwLock;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// Replacement for a credential.
pub const MASK: &str = "***";

/// Shortest secret that is masked inside other words.
pub const MIN_SECRET_BYTES: usize = 4;

/// Endings of the names of credentials.
const SECRET_NAMES: [&str; 27] = [
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
    "pw",
    "psk",
    "pem",
    // Headers of HTTP, one by one and as a structure of all.
    "cookie",
    "cookies",
    "headers",
];

/// Names of this length are recognised with one letter wrong, too many or missing, or two letters swapped. In shorter ones, that
/// would be another word, such as `tokens`.
const MISSPELT_MIN: usize = 6;

/// Headers whose values everybody knows.
const OPEN_HEADERS: [&str; 8] = [
    "accept",
    "accept-encoding",
    "accept-language",
    "cache-control",
    "connection",
    "range",
    "referer",
    "user-agent",
];

/// A text that is masked, in one of the spellings that a message may use.
struct Spelling {
    text: String,
    /// The text shown in place of a secret.
    shown: String,
    /// Whether the spelling is masked only where it is the whole text.
    alone: bool,
    /// Number of [`SecretMask`]s with this spelling.
    users: usize,
}

/// Spellings, the longest first.
static SPELLINGS: RwLock<Vec<Spelling>> = RwLock::new(Vec::new());

/// Texts that are masked until this is dropped.
#[derive(Debug, Default, PartialEq, Eq)]
#[must_use = "what it masks is shown once it is dropped"]
pub struct SecretMask(Vec<String>);

impl SecretMask {
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
            let decoded = percent_decode_str(&plain).decode_utf8_lossy().into_owned();
            for spelling in [decoded, plain, value] {
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

impl Drop for SecretMask {
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
    let text = without_named_values(&with_addresses(&text, address_shown), |_, _| {});
    with_bare_addresses(&text, address_shown)
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
        None => {
            with_addresses(text, &mut note);
            with_bare_addresses(text, note);
        }
    }
    without_named_values(text, |name, value| {
        let name = name.trim_end().to_ascii_lowercase();
        if name.ends_with("headers") || name.ends_with("cookies") {
            found.extend(fields_of(&unquoted(value)));
        }
        if !name.ends_with("-id") {
            found.push(value.to_owned());
        }
    });
    found
}

/// The values of the fields of a GStreamer structure, such as `headers, Cookie=(string)"a=b", X-Key=(string)c`, without
/// [`OPEN_HEADERS`].
fn fields_of(structure: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = structure;
    while let Some((name, value)) = rest.split_once('=') {
        let value = &value[value_prefix_len(value)..];
        let len = match value.strip_prefix('"') {
            Some(inner) => (1 + unquoted_len(inner, |c| c == '"') + 1).min(value.len()),
            None => unquoted_len(value, |c| c.is_whitespace() || ",;{}<>".contains(c)),
        };
        let (value, after) = value.split_at(len);
        let name = name.rsplit(|c: char| c.is_whitespace() || ",;{<".contains(c)).next();
        let name = name.unwrap_or_default().to_ascii_lowercase();
        if !OPEN_HEADERS.contains(&name.as_str()) {
            let value = unquoted(value);
            // A cookie is itself `name=value`.
            found.extend(value.split_once('=').map(|(_, value)| value.to_owned()));
            found.push(value);
        }
        rest = after;
    }
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

/// `text` with each word such as `user:password@host/path`, an address whose scheme was forgotten, as `shown` says. GStreamer writes
/// `name@0x55d0` for an object.
fn with_bare_addresses(text: &str, mut shown: impl FnMut(&str) -> String) -> String {
    if !text.contains('@') {
        return text.to_owned();
    }
    let is_outside = |c: char| c.is_whitespace() || c == '"' || c == '\'';
    let mut out = String::with_capacity(text.len());
    for word_and_end in text.split_inclusive(is_outside) {
        let word = word_and_end.trim_end_matches(is_outside);
        let start = word.rfind('@').and_then(|at| {
            let colon = word[..at].find(':')?;
            let start = word[..colon].rfind(['=', '(']).map_or(0, |sign| sign + 1);
            let (password, host) = (&word[colon + 1..at], &word[at + 1..]);
            let is_user = start < colon && !password.is_empty() && !password.starts_with('/');
            let is_host = host.starts_with(|c: char| c.is_alphanumeric() || c == '[');
            (is_user && is_host && !host.starts_with("0x")).then_some(start)
        });
        let (before, address) = word.split_at(start.unwrap_or(word.len()));
        out.push_str(before);
        if start.is_some() {
            out.push_str(&shown(address));
        }
        out.push_str(&word_and_end[word.len()..]);
    }
    out
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
            let (value, after) = value.split_at(value_len(value, name, sign == ":"));
            found(name, value);
            out.push_str(prefix);
            out.push_str(if value.is_empty() { "" } else { MASK });
            rest = after;
        }
    }
    out.push_str(rest);
    out
}

/// Whether the text before a sign ends in the name of a credential, or nearly so. A colon assigns only in headers and JSON.
fn names_secret(before: &str, colon: bool) -> bool {
    let name = before.trim_end();
    let quoted = name.ends_with(['"', '\'']);
    let name = name.trim_end_matches(['"', '\'', '\\']).to_ascii_lowercase().replace('_', "-");
    let start = name
        .rfind(|c: char| !c.is_alphanumeric() && c != '-')
        .map_or(0, |at| at + name[at..].chars().next().map_or(0, char::len_utf8));
    let word = &name[start..];
    if colon && !quoted && !is_header(word) {
        return false;
    }
    SECRET_NAMES.iter().any(|secret| name.ends_with(secret) || is_misspelt(word, secret))
}

fn is_header(word: &str) -> bool {
    word.ends_with("authorization") || word.ends_with("cookie") || word.starts_with("x-")
}

/// Whether `word`, or what follows one of its hyphens, is `secret` with one mistake.
fn is_misspelt(word: &str, secret: &str) -> bool {
    let mut ends = word.match_indices('-').map(|(at, _)| &word[at + 1..]).chain([word]);
    MISSPELT_MIN <= secret.len()
        && ends.any(|end| differs_by_one_edit(end.as_bytes(), secret.as_bytes()))
}

/// Whether two texts differ by at most one letter, or by two that were swapped. Every `=` of the log passes here, so it allocates
/// nothing.
fn differs_by_one_edit(one: &[u8], other: &[u8]) -> bool {
    if 1 < one.len().abs_diff(other.len()) {
        return false;
    }
    let start = one.iter().zip(other).take_while(|(a, b)| a == b).count();
    let (one, other) = (&one[start..], &other[start..]);
    let end = one.iter().rev().zip(other.iter().rev()).take_while(|(a, b)| a == b).count();
    match (&one[..one.len() - end], &other[..other.len() - end]) {
        ([] | [_], [] | [_]) => true,
        ([a, b], [c, d]) => (a, b) == (d, c),
        _ => false,
    }
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

/// Length of a value: quoted, with its quotes; else up to the next blank or `&`. The value of a header after a colon ends with the
/// line.
fn value_len(value: &str, name: &str, colon: bool) -> usize {
    let name = name.trim_end().to_ascii_lowercase();
    let is_header = name.ends_with("authorization")
        || (colon && is_header(name.rsplit(char::is_whitespace).next().unwrap_or_default()));
    if is_header {
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
    const KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
    utf8_percent_encode(text, KEPT).to_string()
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
pub struct Redacting<W>(pub W);

impl<W: std::io::Write> std::io::Write for Redacting<W> {
    fn write(&mut self, message: &[u8]) -> std::io::Result<usize> {
        self.0.write_all(redacted(&String::from_utf8_lossy(message)).as_bytes())?;
        Ok(message.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}
