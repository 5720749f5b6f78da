//! Substitution of `${NAME}` in strings: a credential, or an environment variable. In the user part of an address the value is
//! percent-encoded.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::env::VarError;
use std::io;
use std::path::Path;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::reader::Mistakes;
use foveate_core::file;

/// Looks up an environment variable.
pub(super) type Environment<'a> = dyn Fn(&str) -> Result<String, VarError> + 'a;

/// Longest credential, in bytes, as of systemd.
const CREDENTIAL_BYTES_MAX: u64 = 1 << 20;

/// The part of a value that may be shown.
const MASK: &str = "***";

/// Texts from the environment or from credentials, each with the text to show in its place: every value, and every word of the file with
/// its value substituted. A short value is hidden only as a part of its word.
pub type Secrets = BTreeMap<String, String>;

/// Replaces every `${NAME}` in the string values of a configuration. Returns what came into each stream, with whether all of it could be
/// substituted, and what came into everything else.
pub(super) fn substitute(
    document: &mut DeTable<'_>,
    environment: &Environment<'_>,
    mistakes: &mut Mistakes,
) -> (Vec<(Secrets, bool)>, Secrets) {
    let (mut of_streams, mut others) = (Vec::new(), Secrets::new());
    for (key, value) in document.iter_mut() {
        match value.get_mut() {
            DeValue::Array(streams) if key.get_ref() == "stream" => {
                for stream in streams.iter_mut() {
                    let (mut secrets, before) = (Secrets::new(), mistakes.len());
                    substitute_value(stream, environment, &mut secrets, mistakes);
                    of_streams.push((secrets, mistakes.len() == before));
                }
            }
            _ => substitute_value(value, environment, &mut others, mistakes),
        }
    }
    (of_streams, others)
}

fn substitute_value(
    value: &mut Spanned<DeValue<'_>>,
    environment: &Environment<'_>,
    secrets: &mut Secrets,
    mistakes: &mut Mistakes,
) {
    let span = value.span();
    match value.get_mut() {
        DeValue::String(text) if text.contains("${") => {
            match substituted(text, environment, secrets) {
                Ok(substituted) => {
                    remember_words(text, environment, secrets);
                    *text = Cow::Owned(substituted);
                }
                Err(messages) => {
                    mistakes.extend(messages.into_iter().map(|message| (span.clone(), message)));
                }
            }
        }
        DeValue::Array(array) => array
            .iter_mut()
            .for_each(|element| substitute_value(element, environment, secrets, mistakes)),
        DeValue::Table(table) => table
            .iter_mut()
            .for_each(|(_, value)| substitute_value(value, environment, secrets, mistakes)),
        _ => {}
    }
}

/// Returns all mistakes of `text`, or the text. Values are not substituted again, so a variable may hold `${`.
fn substituted(
    text: &str,
    environment: &Environment<'_>,
    secrets: &mut Secrets,
) -> Result<String, Vec<String>> {
    let mut result = String::with_capacity(text.len());
    let mut mistakes = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        if let Some(before) = before.strip_suffix('$') {
            result.push_str(before);
            result.push_str("${");
            rest = after;
            continue;
        }
        result.push_str(before);
        let reference = after.split_once('}').filter(|(name, _)| is_variable_name(name));
        let Some((name, after)) = reference else {
            mistakes.push(BAD_REFERENCE.to_owned());
            rest = after;
            continue;
        };
        let before = &text[..text.len() - rest.len() + before.len()];
        match looked_up(name, environment) {
            Ok(value) if !value.is_empty() => {
                let encoded = is_in_userinfo(before, after).then(|| userinfo_encoded(&value));
                result.push_str(encoded.as_ref().unwrap_or(&value));
                secrets
                    .extend(encoded.into_iter().chain([value]).map(|text| (text, MASK.to_owned())));
            }
            Ok(_) => {}
            Err(message) => mistakes.push(message),
        }
        rest = after;
    }
    result.push_str(rest);
    if mistakes.is_empty() { Ok(result) } else { Err(mistakes) }
}

/// Whether a reference between `before` and `after` is in the user part of an address, as in `rtsp://${USER}:${PASSWORD}@host/`.
fn is_in_userinfo(before: &str, after: &str) -> bool {
    let ends = |character: char| character.is_whitespace() || "/?#\"'".contains(character);
    let start = before.rsplit_once("://").map(|(_, start)| start);
    let is_open = start.is_some_and(|start| !start.contains(ends) && !start.contains('@'));
    is_open && after.split(ends).next().is_some_and(|end| end.contains('@'))
}

/// Percent-encodes all that could end the user part of an address. A colon stays, so that one variable may hold user and password:
/// the first colon separates them, and the others are part of the password.
fn userinfo_encoded(value: &str) -> String {
    const KEPT: &AsciiSet =
        &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':');
    utf8_percent_encode(value, KEPT).to_string()
}

/// Adds the words of `text` in which something is substituted, each with its spelling in the file.
fn remember_words(text: &str, environment: &Environment<'_>, secrets: &mut Secrets) {
    for word in text.split_whitespace().filter(|word| word.contains("${")) {
        let mut values = Secrets::new();
        if let Ok(substituted) = substituted(word, environment, &mut values)
            && !values.is_empty()
        {
            secrets.entry(substituted).or_insert_with(|| word.replace("$${", "${"));
        }
    }
}

const BAD_REFERENCE: &str = "invalid `${` (expected the name of a credential or an environment variable and `}` after it); \
                             write a literal `${` as `$${`";

fn is_variable_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The credential of the service manager, or else the environment variable. Credentials come first because other
/// processes may read an environment.
fn looked_up(name: &str, environment: &Environment<'_>) -> Result<String, String> {
    let directory = environment("CREDENTIALS_DIRECTORY").unwrap_or_default();
    if directory.is_empty() {
        return environment(name).map_err(|error| unusable(name, &error));
    }
    match file::read_text(&Path::new(&directory).join(name), CREDENTIAL_BYTES_MAX) {
        // Editors and `echo` add a newline at the end of a file; passwords have none.
        Ok(value) => Ok(value.strip_suffix('\n').unwrap_or(&value).to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            environment(name).map_err(|error| unusable(name, &error))
        }
        Err(error) => Err(format!("cannot read the credential {name}: {error}")),
    }
}

/// Does not print the [`VarError`], which may quote the value.
fn unusable(name: &str, error: &VarError) -> String {
    match error {
        VarError::NotPresent => format!(
            "the environment variable {name} is not set, and no credential has that name; set it for the daemon, provide the \
             credential (LoadCredential=), or write `$${{{name}}}` for the literal text"
        ),
        VarError::NotUnicode(_) => format!("the environment variable {name} is not UTF-8"),
    }
}
