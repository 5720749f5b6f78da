//! Writes a configuration as TOML.

use std::collections::BTreeMap;
use std::path::Path;

use toml::{Table, Value};

use super::{Config, ConfigError, ViewConfig};
use foveate_core::value::{ConfigValue, Keys};
use foveate_gaze::GazeParameters;

/// Keys that are written even with their default values, because they are required.
const NEEDED: [&str; 3] = ["stream", "name", "source"];

/// The value that resets a key to its default.
const DEFAULT: &str = "default";

/// The gaze table of a view.
const GAZE: &str = "gaze";

impl Config {
    /// The configuration as TOML, without defaults. Values from the environment are written out.
    pub fn to_toml(&self) -> String {
        // `${` occurs only in strings, and must not be substituted again.
        keys(self, Self::keys).to_string().replace("${", "$${")
    }
}

impl ViewConfig {
    /// This view with some keys changed, such as `budget`, or `gaze.policy` in a table. A value is TOML, or a bare word
    /// for a string; `default` resets the key. Changing the policy drops the keys of the policy before. A relative path
    /// starts at `directory`.
    ///
    /// # Errors
    ///
    /// If there is no such key, it is the name, or the view would be invalid.
    pub fn with(
        &self,
        changes: &BTreeMap<String, String>,
        directory: &Path,
    ) -> Result<Self, ConfigError> {
        let mut table = keys(self, Self::keys);
        if changes.contains_key("gaze.policy") {
            let gaze = table.get_mut(GAZE).and_then(Value::as_table_mut);
            // All other keys belong to a policy.
            let parameters = written(&GazeParameters::default(), GazeParameters::keys);
            gaze.into_iter().for_each(|gaze| gaze.retain(|key, _| parameters.contains_key(key)));
        }
        for (key, value) in changes {
            set(&mut table, key, value);
        }
        Self::read(&table.to_string(), directory, Some(&self.name))
    }
}

/// Sets one key of a view, or of the table named before the dot.
fn set(view: &mut Table, key: &str, text: &str) {
    let (table, key) = match key.split_once('.') {
        Some((GAZE, key)) => {
            let gaze = view.entry(GAZE).or_insert_with(|| Table::new().into());
            (gaze.as_table_mut(), key)
        }
        _ => (Some(view), key),
    };
    let Some(table) = table else { return };
    if text == DEFAULT {
        table.remove(key);
    } else {
        table.insert(key.to_owned(), value_of(text));
    }
}

/// Parses `text` as a TOML value, or else takes it as a string.
fn value_of(text: &str) -> Value {
    // One line, so that it cannot add further keys.
    let parsed = Some(text).filter(|text| !text.contains(['\n', '\r', '#']));
    let parsed = parsed.and_then(|text| format!("value = {text}").parse::<Table>().ok());
    let value = parsed.and_then(|mut table| table.remove("value"));
    value.unwrap_or_else(|| Value::String(text.to_owned()))
}

/// The keys of `value` that differ from the default.
fn keys<T: Clone + Default>(value: &T, fill: fn(&mut T, &mut dyn Keys)) -> Table {
    let mut keys = written(value, fill);
    prune(&mut keys, &written(&T::default(), fill));
    keys
}

/// All keys of `value`.
fn written<T: Clone>(value: &T, fill: fn(&mut T, &mut dyn Keys)) -> Table {
    let mut written = TomlWriter(Table::new());
    fill(&mut value.clone(), &mut written);
    written.0
}

/// A table that is written.
struct TomlWriter(Table);

impl Keys for TomlWriter {
    fn value(
        &mut self,
        key: &'static str,
        present: Option<ConfigValue>,
        _: &mut dyn FnMut(&ConfigValue) -> Result<(), String>,
    ) -> bool {
        if let Some(present) = present.and_then(|present| Value::try_from(present).ok()) {
            self.0.insert(key.to_owned(), present);
        }
        true
    }

    fn map(&mut self, key: &'static str, map: &mut BTreeMap<String, String>) {
        self.value(key, Some(map.clone().into()), &mut |_| Ok(()));
    }

    fn tables(
        &mut self,
        key: &'static str,
        is_list: bool,
        present: usize,
        each: &mut dyn FnMut(usize, &mut dyn Keys),
    ) {
        let table = |place| {
            let mut written = Self(Table::new());
            each(place, &mut written);
            Value::Table(written.0)
        };
        let mut tables: Vec<_> = (0..present).map(table).collect();
        let tables = if is_list { Some(tables.into()) } else { tables.pop() };
        self.0.extend(tables.map(|tables| (key.to_owned(), tables)));
    }
}

/// Removes keys with default values.
fn prune(table: &mut Table, default: &Table) {
    table.retain(|key, value| {
        let is_default = default.get(key) == Some(value);
        match (value, default.get(key)) {
            (Value::Table(table), Some(Value::Table(default))) => {
                prune(table, default);
                !table.is_empty()
            }
            (Value::Array(list), Some(Value::Array(default))) if !is_default || key == "stream" => {
                for element in list {
                    if let (Value::Table(table), Some(Value::Table(default))) =
                        (element, default.first())
                    {
                        prune(table, default);
                    }
                }
                true
            }
            _ => !is_default || NEEDED.contains(&key),
        }
    });
}
