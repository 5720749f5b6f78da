//! Substitution of `${NAME}` in strings: a credential, or an environment variable.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::env::VarError;
use std::io;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::reader::Mistakes;
use foveate_core::file;

/// Looks up an environment variable.
pub(super) type Environment<'a> = dyn Fn(&str) -> Result<String, VarError> + 'a;

/// Longest credential, in bytes, as of systemd.
const CREDENTIAL_BYTES_MAX: u64 = 1 << 20;

/// What is shown of a value.
const MASK: &str = "***";

/// What came from the environment or from credentials, each text with what may be shown in its place: every value, and every word
/// that holds one as the file has it. A short value is recognised by its word only.
pub type Secrets = BTreeMap<String, String>;

/// Replaces every `${NAME}` in the string values of a configuration. Returns what came from the environment: of each stream, and
/// of everything else.
pub(super) fn substitute(
    document: &mut DeTable<'_>,
    environment: &Environment<'_>,
    mistakes: &mut Mistakes,
) -> (Vec<Secrets>, Secrets) {
    let (mut of_streams, mut others) = (Vec::new(), Secrets::new());
    for (key, value) in document.iter_mut() {
        match value.get_mut() {
            DeValue::Array(streams) if key.get_ref() == "stream" => {
                for stream in streams.iter_mut() {
                    let mut secrets = Secrets::new();
                    substitute_value(stream, environment, &mut secrets, mistakes);
                    of_streams.push(secrets);
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
            let whole = substituted(text, environment, secrets);
            match whole.and_then(|whole| remember_words(text, environment, secrets).map(|()| whole))
            {
                Ok(substituted) => *text = Cow::Owned(substituted),
                Err(message) => mistakes.push((span, message)),
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

/// Values are not substituted again, so a variable that holds `${` is harmless.
fn substituted(
    text: &str,
    environment: &Environment<'_>,
    secrets: &mut Secrets,
) -> Result<String, String> {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        if let Some(before) = before.strip_suffix('$') {
            result.push_str(before);
            result.push_str("${");
            rest = after;
            continue;
        }
        let (name, after) = after
            .split_once('}')
            .filter(|(name, _)| is_variable_name(name))
            .ok_or(BAD_REFERENCE)?;
        let value = looked_up(name, environment)?;
        result.push_str(before);
        result.push_str(&value);
        if !value.is_empty() {
            secrets.insert(value, MASK.to_owned());
        }
        rest = after;
    }
    result.push_str(rest);
    Ok(result)
}

/// Adds the words of `text` in which something is substituted, each with its spelling in the file.
fn remember_words(
    text: &str,
    environment: &Environment<'_>,
    secrets: &mut Secrets,
) -> Result<(), String> {
    for word in text.split_whitespace().filter(|word| word.contains("${")) {
        let mut values = Secrets::new();
        let substituted = substituted(word, environment, &mut values)?;
        if !values.is_empty() {
            secrets.entry(substituted).or_insert_with(|| word.replace("$${", "${"));
        }
    }
    Ok(())
}

const BAD_REFERENCE: &str = "`${` must be followed by the name of a credential or an environment variable and `}`; a literal `${` is written `$${`";

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
        Err(error) => Err(format!("the credential {name} cannot be read: {error}")),
    }
}

/// Does not print the [`VarError`], which may quote the value.
fn unusable(name: &str, error: &VarError) -> String {
    match error {
        VarError::NotPresent => format!(
            "the environment variable {name} is not set, and there is no credential of that name; set it for the daemon, \
             place the credential (LoadCredential=), or write `$${{{name}}}` if neither is meant"
        ),
        VarError::NotUnicode(_) => format!("the environment variable {name} is not UTF-8"),
    }
}
