//! A view as the keys of a file say it, and with other values for some of them.

use std::collections::BTreeMap;
use std::path::Path;

use toml::{Table, Value};

use super::document;
use super::error::Refusal;
use super::values::Choices;
use super::{ConfigError, GazeChoice, GazeConfig, GazeParameters, ViewConfig};
use foveate_core::token::Normalisation;

/// What a key is set to in order to be as if nobody had set it.
const DEFAULT: &str = "default";

/// The table of a view in which those stand that say where it looks.
const GAZE: &str = "gaze";

/// Keys that belong to one policy each.
const KEYS_OF_POLICIES: [&str; 3] = ["x", "y", "log"];

impl ViewConfig {
    /// This view with other values for some keys, such as `budget`, or `gaze.policy` for one of its tables. A value is TOML, or a
    /// bare word for a string; `default` takes the key back to its default. Another policy comes without what belonged to
    /// the one before. A relative path starts at `directory`.
    ///
    /// # Errors
    ///
    /// If there is no such key, it is the name, or the view would make no sense.
    pub fn with(
        &self,
        changes: &BTreeMap<String, String>,
        directory: &Path,
    ) -> Result<Self, ConfigError> {
        let mut table = table_of(self);
        if changes.contains_key("gaze.policy") {
            let gaze = table.get_mut(GAZE).and_then(Value::as_table_mut);
            gaze.into_iter().for_each(|gaze| gaze.retain(|key, _| !is_of_policy(key)));
        }
        for (key, value) in changes {
            set(&mut table, key, value);
        }
        let text = table.to_string();
        let named = document::read_view(&text, directory).and_then(|view| {
            let message = "a view keeps its name: add a view to the file, or open one";
            if view.name == self.name { Ok(view) } else { Err(Refusal::new(0..0, message)) }
        });
        named.map_err(|refusal| refusal.at(&text, Path::new("view"), &[]))
    }
}

fn is_of_policy(key: &str) -> bool {
    KEYS_OF_POLICIES.contains(&key)
}

/// Sets one key of a view, or of its table that stands before the dot.
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

/// What a text stands for: TOML, or itself.
fn value_of(text: &str) -> Value {
    // One line, so that nothing else can stand beside the value.
    let parsed = Some(text).filter(|text| !text.contains(['\n', '\r', '#']));
    let parsed = parsed.and_then(|text| format!("value = {text}").parse::<Table>().ok());
    let value = parsed.and_then(|mut table| table.remove("value"));
    value.unwrap_or_else(|| Value::String(text.to_owned()))
}

/// All keys of a view that have a value.
fn table_of(view: &ViewConfig) -> Table {
    let ViewConfig { name, layout, budget, format, e0, slots, max_fps, publish, gaze } = view;
    let mut table = Table::new();
    let mut put = |key: &str, value: Value| table.insert(key.to_owned(), value);
    put("name", name.as_str().into());
    put("layout", layout.name().into());
    put("budget", i64::from(*budget).into());
    put("patch", i64::from(format.patch_side).into());
    put("dtype", word_of(format.dtype).into());
    put("normalisation", normalisation(format.normalisation));
    put("slots", i64::from(*slots).into());
    put("publish", publish.name().into());
    for (key, value) in [("e0", e0), ("max_fps", max_fps)] {
        if let Some(value) = value {
            put(key, (*value).into());
        }
    }
    put(GAZE, gaze_table(gaze).into());
    table
}

fn gaze_table(gaze: &GazeConfig) -> Table {
    let GazeConfig { choice, parameters } = gaze;
    let GazeParameters {
        saccade_hz,
        dwell_min_ms,
        hysteresis,
        inhibition,
        inhibition_decay_ms,
        inhibition_radius,
        centre_prior,
        relevance_gain,
        silence_ms,
        lease_ms,
    } = *parameters;
    let mut table = Table::new();
    let mut put = |key: &str, value: Value| table.insert(key.to_owned(), value);
    put("policy", choice.name().into());
    match choice {
        GazeChoice::Fixed { x, y } => {
            put("x", (*x).into());
            put("y", (*y).into());
        }
        GazeChoice::Replay { log } => {
            put("log", log.to_string_lossy().as_ref().into());
        }
        GazeChoice::Feedback | GazeChoice::Saliency => {}
    }
    put("saccade_hz", saccade_hz.into());
    put("dwell_min_ms", i64::from(dwell_min_ms).into());
    put("hysteresis", hysteresis.into());
    put("inhibition", inhibition.into());
    put("inhibition_decay_ms", i64::from(inhibition_decay_ms).into());
    put("inhibition_radius", inhibition_radius.into());
    put("centre_prior", centre_prior.into());
    put("relevance_gain", relevance_gain.into());
    put("silence_ms", i64::from(silence_ms).into());
    put("lease_ms", i64::from(lease_ms).into());
    table
}

/// The word that stands for a choice.
fn word_of<T: Choices + PartialEq>(choice: T) -> &'static str {
    let word = T::CHOICES.iter().find(|(_, other)| *other == choice);
    word.map_or_else(|| unreachable!("every choice has a word"), |(word, _)| word)
}

fn normalisation(normalisation: Normalisation) -> Value {
    let preset = Normalisation::PRESETS.iter().find(|(_, preset)| *preset == normalisation);
    let Normalisation { mean, std } = normalisation;
    preset.map_or_else(
        || {
            let rows = [("mean", mean), ("std", std)];
            Value::Table(
                rows.map(|(key, row)| (key.to_owned(), row.to_vec().into())).into_iter().collect(),
            )
        },
        |(word, _)| (*word).into(),
    )
}
