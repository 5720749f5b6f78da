//! Reads the tables of a TOML document into the fields of a configuration, and reports every mistake in it.
//!
//! A refused value is noted, and its field keeps the default.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use foveate_core::value::{ConfigValue, Keys, parameter, shown};

/// Most mistakes reported for one file. A file with more is not a configuration.
const MISTAKES_MAX: usize = 50;

/// Most keys of a document, and tables in its lists.
const KEYS_MAX: usize = 20_000;

/// Byte range and message of each mistake.
pub(super) type Mistakes = Vec<(Range<usize>, String)>;

/// A table of a configuration, such as `[[stream.view]]`, and the keys that it may have.
pub(super) type KnownTable = (String, Vec<&'static str>);

/// The keys of each table in a document that has all of them, which `fill` reads.
pub(super) fn known_keys(all_tables: &str, fill: impl FnOnce(&mut dyn Keys)) -> Vec<KnownTable> {
    let (document, _) = DeTable::parse_recoverable(all_tables);
    let notes = RefCell::default();
    let mut table = Table { keys: document.get_ref(), span: 0..0, notes: &notes };
    fill(&mut table);
    let mut found = Vec::new();
    table.note_known("", &mut found);
    found
}

/// Reads a `T` from `text` after `prepare` has changed the document. `fill` reads its keys, `validate` checks combinations of them; unknown
/// keys may belong in others of `tables`. The value is valid only without mistakes, which are in text order.
pub(super) fn read<T: Default>(
    text: &str,
    tables: &[KnownTable],
    prepare: impl FnOnce(&mut DeTable<'_>, &mut Mistakes),
    fill: fn(&mut T, &mut dyn Keys),
    validate: impl FnOnce(&mut T, &Table<'_>),
) -> (T, Mistakes) {
    let (mut document, errors) = DeTable::parse_recoverable(text);
    let keys = keys_in(document.get_ref());
    if KEYS_MAX < keys {
        let message = format!("{keys} keys are too many; expected at most {KEYS_MAX}");
        return (T::default(), vec![(0..0, message)]);
    }
    let errors = errors.iter().take(MISTAKES_MAX);
    let unread: Mistakes = errors.map(|error| syntax_error(text, error)).collect();
    let mut mistakes = Mistakes::new();
    prepare(document.get_mut(), &mut mistakes);
    let notes = RefCell::new(Notes { mistakes, is_broken: !unread.is_empty(), ..Notes::default() });
    let mut table = Table { keys: document.get_ref(), span: 0..0, notes: &notes };
    let mut value = T::default();
    fill(&mut value, &mut table);
    validate(&mut value, &table);
    table.note_unknown_keys(tables);
    // Further mistakes in a line with a syntax error may not be real.
    let line = |(span, _): &(Range<usize>, String)| {
        text.bytes().take(span.start).filter(|byte| *byte == b'\n').count()
    };
    let lines: BTreeSet<_> = unread.iter().map(line).collect();
    let mut mistakes = std::mem::take(&mut notes.borrow_mut().mistakes);
    mistakes.retain(|mistake| !lines.contains(&line(mistake)));
    mistakes.extend(unread);
    mistakes.sort_by_cached_key(|(span, message)| (span.start, message.clone()));
    mistakes.dedup_by(|one, other| (one.0.start, &one.1) == (other.0.start, &other.1));
    mistakes.truncate(MISTAKES_MAX);
    (value, mistakes)
}

/// Keys of a table, those of tables in it included; a table in a list counts as a key.
fn keys_in(table: &DeTable<'_>) -> usize {
    fn keys(value: &DeValue<'_>) -> usize {
        match value {
            DeValue::Table(table) => keys_in(table),
            DeValue::Array(list) => list
                .iter()
                .map(Spanned::get_ref)
                .map(|value| usize::from(value.is_table()) + keys(value))
                .sum(),
            _ => 0,
        }
    }
    table.values().map(|value| 1 + keys(value.get_ref())).sum()
}

/// The parser drops the second of two equal keys, so its name is taken from the text. It takes a word for what begins with the same
/// letter, such as `front` for a boolean.
fn syntax_error(text: &str, error: &toml::de::Error) -> (Range<usize>, String) {
    let span = error.span().unwrap_or(0..0);
    match (error.message(), text.get(span.clone())) {
        ("duplicate key", Some(key)) => (span, format!("duplicate key `{}`", shown(key))),
        (_, Some(word)) if is_unquoted(word) => {
            let message = format!(
                "{} is not in quotes; expected a string, such as \"{}\"",
                shown(word),
                shown(word)
            );
            (span, message)
        }
        (message, _) => (span, message.to_owned()),
    }
}

/// Whether a value that cannot be read is a word that lacks its quotes, not a misspelt number or boolean.
fn is_unquoted(word: &str) -> bool {
    const SYMBOLS: [&str; 4] = ["true", "false", "inf", "nan"];
    let is_symbol = SYMBOLS.iter().any(|symbol| word.eq_ignore_ascii_case(symbol));
    let is_bare = !word.contains(['"', '\'', '[', ']', '{', '}', '=', ',', '#', '\n']);
    word.starts_with(|c: char| c.is_ascii_alphabetic() || "/~$".contains(c))
        && is_bare
        && !is_symbol
}

fn value_of(value: &DeValue<'_>) -> ConfigValue {
    match value {
        DeValue::String(text) => ConfigValue::Text(text.clone().into_owned()),
        DeValue::Integer(number) => {
            let whole = i64::from_str_radix(number.as_str(), number.radix());
            // A number that does not fit is out of every range.
            let real = || number.as_str().parse().unwrap_or(f64::MAX);
            whole.map_or_else(|_| ConfigValue::Real(real()), ConfigValue::Whole)
        }
        DeValue::Float(number) => ConfigValue::Real(number.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(switch) => ConfigValue::Switch(*switch),
        DeValue::Datetime(_) => ConfigValue::Date(()),
        DeValue::Array(list) => {
            ConfigValue::List(list.iter().map(|value| value_of(value.get_ref())).collect())
        }
        DeValue::Table(table) => {
            let entry = |(key, value): (&Spanned<Cow<'_, str>>, &Spanned<DeValue<'_>>)| {
                (key.get_ref().clone().into_owned(), value_of(value.get_ref()))
            };
            ConfigValue::Table(table.iter().map(entry).collect())
        }
    }
}

/// Mistakes of a document, and the keys read so far.
#[derive(Debug, Default)]
struct Notes {
    mistakes: Mistakes,
    /// Whether the text is not TOML, so that a missing key may only have been lost.
    is_broken: bool,
    /// Keys whose values were refused, each with the address of its table.
    bad: BTreeSet<(usize, String)>,
    /// The keys that each table may have.
    known: BTreeMap<usize, Vec<&'static str>>,
    /// The keys that each table may have with one layout or policy or another.
    elsewhere: BTreeMap<usize, Vec<&'static str>>,
    /// Tables that may have further keys.
    open: BTreeSet<usize>,
}

/// A table of a document.
#[derive(Clone, Debug)]
pub(super) struct Table<'a> {
    keys: &'a DeTable<'a>,
    span: Range<usize>,
    notes: &'a RefCell<Notes>,
}

impl<'a> Table<'a> {
    /// Whether `key` is given and its value was not refused.
    pub(super) fn has(&self, key: &str) -> bool {
        self.keys.contains_key(key) && !self.is_bad(key)
    }

    /// Notes a mistake at `key`, given or missing.
    pub(super) fn refuse(&self, key: &str, message: impl Into<String>) {
        let value = self.keys.get(key);
        let mut notes = self.notes.borrow_mut();
        let is_new = notes.bad.insert((self.address(), key.to_owned()));
        if is_new && (value.is_some() || !notes.is_broken) {
            let span = value.map_or(self.span.clone(), Spanned::span);
            notes.mistakes.push((span, message.into()));
        }
    }

    /// Refuses a table without `key`, unless it is misspelt, which is a mistake of its own.
    pub(super) fn need(&self, key: &str) {
        if !self.keys.contains_key(key) && !self.misspells(&[key]) {
            self.refuse(key, format!("missing key `{key}`"));
        }
    }

    /// Whether an unknown key stands for one of `keys`.
    pub(super) fn misspells(&self, keys: &[&str]) -> bool {
        let known = self.known();
        let unknown = self.names().filter(|name| !known.contains(name)).take(MISTAKES_MAX);
        unknown.filter_map(|name| meant(name, &known)).any(|meant| keys.contains(&meant))
    }

    /// Refuses `key` unless it `may` be given; `reason` is the key that decides this, and `place` says where `key` is
    /// allowed.
    pub(super) fn allow(&self, key: &str, may: bool, reason: &str, place: &str) {
        if self.has(key) && !may && !self.is_bad(reason) {
            self.refuse(key, format!("expected this key only {place}"));
        }
    }

    /// The text at `key`, if its value is one and was not refused.
    pub(super) fn text(&self, key: &str) -> Option<&'a str> {
        let value = self.keys.get(key).filter(|_| !self.is_bad(key))?;
        value.get_ref().as_str()
    }

    /// All keys.
    pub(super) fn names(&self) -> impl Iterator<Item = &'a str> {
        self.keys.keys().map(|key| key.get_ref().as_ref())
    }

    /// The tables at `key`, one or a list of them.
    pub(super) fn tables(&self, key: &str) -> Vec<Table<'a>> {
        let value = self.keys.get(key).filter(|_| !self.is_bad(key));
        let values = match value.map(Spanned::get_ref) {
            Some(DeValue::Array(list)) => list.iter().collect(),
            _ => Vec::from_iter(value),
        };
        values.into_iter().filter_map(|value| self.table_in(value)).collect()
    }

    fn table_in(&self, value: &'a Spanned<DeValue<'a>>) -> Option<Self> {
        let keys = value.get_ref().as_table()?;
        Some(Table { keys, span: value.span(), notes: self.notes })
    }

    /// Refuses a value unless there is a mistake in it already, such as a variable that is not set.
    fn refuse_value(&self, key: &str, value: &Spanned<DeValue<'_>>, message: String) {
        let mut notes = self.notes.borrow_mut();
        notes.bad.insert((self.address(), key.to_owned()));
        let has_room = notes.mistakes.len() < MISTAKES_MAX;
        if has_room && notes.mistakes.iter().all(|(span, _)| *span != value.span()) {
            notes.mistakes.push((value.span(), message));
        }
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self.keys).addr()
    }

    fn is_bad(&self, key: &str) -> bool {
        self.notes.borrow().bad.contains(&(self.address(), key.to_owned()))
    }

    fn know(&self, key: &'static str) {
        let mut notes = self.notes.borrow_mut();
        let known = notes.known.entry(self.address()).or_default();
        if !known.contains(&key) {
            known.push(key);
        }
    }

    /// The keys that it may have.
    fn known(&self) -> Vec<&'static str> {
        self.notes.borrow().known.get(&self.address()).cloned().unwrap_or_default()
    }

    /// Adds this table, which is at `path`, and those in it.
    fn note_known(&self, path: &str, found: &mut Vec<KnownTable>) {
        let elsewhere = self.notes.borrow().elsewhere.get(&self.address()).cloned();
        found.push((path.to_owned(), [self.known(), elsewhere.unwrap_or_default()].concat()));
        for (key, value) in self.keys {
            let name = key.get_ref().as_ref();
            let inner = path.trim_matches(['[', ']']);
            let inner = if inner.is_empty() { name.to_owned() } else { format!("{inner}.{name}") };
            let is_list = value.get_ref().is_array();
            let inner = if is_list { format!("[[{inner}]]") } else { format!("[{inner}]") };
            self.tables(name).iter().for_each(|table| table.note_known(&inner, found));
        }
    }

    fn note_unknown_keys(&self, tables: &[KnownTable]) {
        let known = self.known();
        // Nothing is known of a map, which may have any keys.
        let is_open = known.is_empty() || self.notes.borrow().open.contains(&self.address());
        for (key, _) in self.keys {
            let name = key.get_ref().as_ref();
            if known.contains(&name) {
                self.tables(name).iter().for_each(|table| table.note_unknown_keys(tables));
            } else if !is_open
                && !self.is_bad(name)
                && self.notes.borrow().mistakes.len() < MISTAKES_MAX
            {
                let message = unknown(name, &known, tables);
                self.notes.borrow_mut().mistakes.push((key.span(), message));
            }
        }
    }
}

impl Keys for Table<'_> {
    fn value(
        &mut self,
        key: &'static str,
        _: Option<ConfigValue>,
        take: &mut dyn FnMut(&ConfigValue) -> Result<(), String>,
    ) -> bool {
        self.know(key);
        let Some(value) = self.keys.get(key) else { return true };
        let taken = take(&value_of(value.get_ref()));
        taken.map_err(|message| self.refuse_value(key, value, message)).is_ok()
    }

    fn map(&mut self, key: &'static str, map: &mut BTreeMap<String, String>) {
        self.know(key);
        let Some(value) = self.keys.get(key) else { return };
        let Some(table) = self.table_in(value) else {
            let message =
                value_of(value.get_ref()).refused("a table, such as { name = \"value\" }");
            return self.refuse_value(key, value, message);
        };
        for (key, value) in table.keys {
            let key = key.get_ref().as_ref();
            match parameter(&value_of(value.get_ref())) {
                Ok(text) => drop(map.insert(key.to_owned(), text)),
                Err(message) => table.refuse_value(key, value, message),
            }
        }
    }

    fn tables(
        &mut self,
        key: &'static str,
        is_list: bool,
        _: usize,
        each: &mut dyn FnMut(usize, &mut dyn Keys),
    ) {
        const TABLES: &str =
            "tables, each below its name in double brackets, such as [[stream]] or [[stream.view]]";
        self.know(key);
        let Some(value) = self.keys.get(key) else { return };
        let table = |value| self.table_in(value).ok_or((value, "a table"));
        let tables: Result<Vec<_>, _> = match value.get_ref() {
            DeValue::Array(list) if is_list => list.iter().map(table).collect(),
            _ if is_list => Err((value, TABLES)),
            _ => table(value).map(|table| vec![table]),
        };
        match tables {
            Ok(tables) => (0..).zip(tables).for_each(|(place, mut table)| each(place, &mut table)),
            Err((wrong, allowed)) => {
                self.refuse_value(key, value, value_of(wrong.get_ref()).refused(allowed));
            }
        }
    }

    fn refuse(&mut self, key: &str, message: String) {
        Table::refuse(self, key, message);
    }

    fn only_with(&mut self, key: &'static str, variant: &str, names: &[&str]) {
        let mut notes = self.notes.borrow_mut();
        notes.elsewhere.entry(self.address()).or_default().push(key);
        drop(notes);
        if !self.known().contains(&key) {
            let names: Vec<_> = names.iter().map(|name| format!("\"{name}\"")).collect();
            let plural = if names.len() == 1 { "" } else { "s" };
            let place = format!("with the {variant}{plural} {}", names.join(" and "));
            self.allow(key, false, variant, &place);
        }
    }

    fn leave_open(&mut self) {
        let address = self.address();
        self.notes.borrow_mut().open.insert(address);
    }
}

/// Why `key` is refused in a table that may have `known`, with the place where it belongs if one of `tables` has it.
fn unknown(key: &str, known: &[&str], tables: &[KnownTable]) -> String {
    let homes = tables.iter().filter(|(table, keys)| !table.is_empty() && keys.contains(&key));
    let mut homes: Vec<_> = homes.map(|(table, _)| table.as_str()).collect();
    homes.dedup();
    let name = shown(key);
    match (meant(key, known), homes.as_slice()) {
        (None, [_, ..]) => {
            format!("unknown key `{name}` here; it belongs in {}", homes.join(" or "))
        }
        (meant, _) => {
            let meant = meant.map(|meant| format!(" (did you mean `{meant}`?)"));
            let meant = meant.unwrap_or_default();
            format!("unknown key `{name}`{meant}; expected one of `{}`", known.join("`, `"))
        }
    }
}

/// The known key that an unknown one probably stands for: one that is spelt nearly the same, or the only one that has it as a part, as
/// `max_fps` has `fps`.
fn meant<'a>(key: &str, known: &[&'a str]) -> Option<&'a str> {
    let distance = |other: &str| strsim::damerau_levenshtein(key, other);
    let nearest = known.iter().copied().min_by_key(|other| distance(other));
    let nearest = nearest.filter(|other| distance(other) <= other.len().div_ceil(3));
    let mut whole = known.iter().copied().filter(|other| other.split('_').any(|part| part == key));
    nearest.or_else(|| whole.next().filter(|_| whole.next().is_none()))
}
