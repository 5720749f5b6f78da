//! `${NAME}` inside the strings of a document.

use std::borrow::Cow;
use std::env::VarError;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::Refusal;

/// Looks a variable up.
pub(super) type Environment<'a> = dyn Fn(&str) -> Result<String, VarError> + 'a;

/// Replaces every `${NAME}` in the string values of `table` and appends what stands there now to `secrets`.
pub(super) fn substitute(
    table: &mut DeTable<'_>,
    environment: &Environment<'_>,
    secrets: &mut Vec<String>,
) -> Result<(), Refusal> {
    table.iter_mut().try_for_each(|(_, value)| substitute_value(value, environment, secrets))
}

fn substitute_value(
    value: &mut Spanned<DeValue<'_>>,
    environment: &Environment<'_>,
    secrets: &mut Vec<String>,
) -> Result<(), Refusal> {
    let span = value.span();
    match value.get_mut() {
        DeValue::String(text) if text.contains("${") => {
            *text = Cow::Owned(substituted(text, span, environment, secrets)?);
            Ok(())
        }
        DeValue::Array(array) => {
            array.iter_mut().try_for_each(|element| substitute_value(element, environment, secrets))
        }
        DeValue::Table(table) => substitute(table, environment, secrets),
        _ => Ok(()),
    }
}

/// What is substituted is not looked at again, so a variable that holds `${` is harmless.
fn substituted(
    text: &str,
    span: Range<usize>,
    environment: &Environment<'_>,
    secrets: &mut Vec<String>,
) -> Result<String, Refusal> {
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
            .ok_or_else(|| Refusal::new(span.clone(), BAD_REFERENCE))?;
        let value = environment(name).map_err(|e| unusable(name, &e, span.clone()))?;
        result.push_str(before);
        result.push_str(&value);
        remember(value, secrets);
        rest = after;
    }
    result.push_str(rest);
    Ok(result)
}

const BAD_REFERENCE: &str = "`${` must be followed by the name of an environment variable and `}`; a literal `${` is written `$${`";

fn is_variable_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Does not print the [`VarError`] itself, because that may quote the value.
fn unusable(name: &str, error: &VarError, span: Range<usize>) -> Refusal {
    let message = match error {
        VarError::NotPresent => format!(
            "the environment variable {name} is not set; set it for the daemon, or write `$${{{name}}}` if no variable is meant"
        ),
        VarError::NotUnicode(_) => format!("the environment variable {name} is not UTF-8"),
    };
    Refusal::new(span, message)
}

fn remember(value: String, secrets: &mut Vec<String>) {
    if !value.is_empty() && !secrets.contains(&value) {
        secrets.push(value);
    }
}
