//! Reads a TOML document into any serde type, and reports every mistake in it.
//!
//! A refused value is noted, and the type is read again without its key, so that the default takes its place: types of
//! tables have a default for every key. A field whose name begins with `+` has no key of its own: its keys are in the
//! enclosing table. For an enum, the name after `+` is the key that names the variant, by default the first, and the
//! variant's fields are beside it. Where that key is a list, the variant is `[]`, with a field of that name for the list.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;

use serde::de::value::{SeqDeserializer, StrDeserializer};
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error, IntoDeserializer,
    MapAccess, VariantAccess, Visitor,
};
use serde::{Deserialize, forward_to_deserialize_any};
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use foveate_core::value::{ConfigValue, shown};

/// Most mistakes reported for one file. A file with more is not a configuration.
const MISTAKES_MAX: usize = 50;

/// Most keys of a document, and tables in its lists.
const KEYS_MAX: usize = 20_000;

/// The variant that a list stands for.
const LIST: &str = "[]";

/// Byte range and message of each mistake.
pub(super) type Mistakes = Vec<(Range<usize>, String)>;

/// A table of a configuration, such as `[[stream.view]]`, and the keys that it may have.
pub(super) type KnownTable = (String, Vec<&'static str>);

/// The keys of each table of a `T` in a document that has all of them.
pub(super) fn known_keys<T: DeserializeOwned + Default>(all_tables: &str) -> Vec<KnownTable> {
    let (document, _) = DeTable::parse_recoverable(all_tables);
    let notes = RefCell::default();
    let table = Table { keys: document.get_ref(), span: 0..0, notes: &notes };
    let _: T = read_table(&table);
    let mut found = Vec::new();
    table.note_known("", &mut found);
    found
}

/// Reads a `T` from `text` after `prepare` has changed the document, lets `validate` check combinations of keys, and
/// looks for unknown keys, which `tables` may have elsewhere. The value is valid only without mistakes, which are in text order.
pub(super) fn read<T: DeserializeOwned + Default>(
    text: &str,
    tables: &[KnownTable],
    prepare: impl FnOnce(&mut DeTable<'_>, &mut Mistakes),
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
    let table = Table { keys: document.get_ref(), span: 0..0, notes: &notes };
    let mut value = read_table(&table);
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

fn read_table<'a, T: Deserialize<'a> + Default>(table: &Table<'a>) -> T {
    loop {
        let Fault { message, span, key } =
            match T::deserialize(ValuePath::Around(table.clone(), "")) {
                Ok(value) => return value,
                Err(fault) => fault,
            };
        let mut notes = table.notes.borrow_mut();
        let span = span.unwrap_or(0..0);
        if notes.mistakes.iter().all(|(told, _)| *told != span) {
            notes.mistakes.push((span, message));
        }
        if MISTAKES_MAX <= notes.mistakes.len() || !key.is_some_and(|key| notes.bad.insert(key)) {
            return T::default();
        }
    }
}

/// Mistakes of a document, and the keys read so far.
#[derive(Debug, Default)]
struct Notes {
    mistakes: Mistakes,
    /// Whether the text is not TOML, so that a missing key may only have been lost.
    is_broken: bool,
    /// Keys to skip because their values were refused, each with the address of its table.
    bad: BTreeSet<(usize, String)>,
    /// The keys that each table may have.
    known: BTreeMap<usize, Vec<&'static str>>,
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
        values.into_iter().filter_map(|value| ValuePath::At(value, self.notes).table()).collect()
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
        if !key.is_empty() && !known.contains(&key) {
            known.push(key);
        }
    }

    /// The keys that it may have.
    fn known(&self) -> Vec<&'static str> {
        self.notes.borrow().known.get(&self.address()).cloned().unwrap_or_default()
    }

    /// Adds this table, which is at `path`, and those in it.
    fn note_known(&self, path: &str, found: &mut Vec<KnownTable>) {
        found.push((path.to_owned(), self.known()));
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
        // If the variant is unknown, so are its fields; a map may have any keys.
        let is_open = known.is_empty() || known.iter().any(|key| self.is_bad(&format!("+{key}")));
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

/// The place that a value is read from.
#[derive(Clone, Debug)]
enum ValuePath<'a> {
    At(&'a Spanned<DeValue<'a>>, &'a RefCell<Notes>),
    /// Some keys of a table, and the one that names the variant of an enum.
    Around(Table<'a>, &'static str),
}

impl<'a> ValuePath<'a> {
    fn table(&self) -> Option<Table<'a>> {
        match self {
            Self::At(value, notes) => {
                let keys = value.get_ref().as_table()?;
                Some(Table { keys, span: value.span(), notes })
            }
            Self::Around(table, _) => Some(table.clone()),
        }
    }

    /// The value, if it is a single one.
    fn value(&self) -> Option<&'a Spanned<DeValue<'a>>> {
        match self {
            Self::At(value, _) => Some(value),
            Self::Around(table, tag) => table.keys.get(*tag),
        }
    }

    fn refused(&self, allowed: impl fmt::Display) -> Fault {
        let given = self
            .value()
            .map(|value| ConfigValue::deserialize(ValueDeserializer::from(value.clone())));
        match given {
            Some(Ok(given)) => Fault::custom(given.refused(allowed)),
            _ => Fault::custom(format_args!("expected {allowed}")),
        }
    }
}

impl<'a> IntoDeserializer<'a, Fault> for ValuePath<'a> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'a> Deserializer<'a> for ValuePath<'a> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Fault> {
        let Self::At(value, _) = self else {
            unreachable!("only structs and enums have keys among others")
        };
        match value.get_ref() {
            DeValue::Datetime(_) => visitor.visit_unit(),
            // A number that does not fit is out of every range.
            DeValue::Integer(number)
                if i64::from_str_radix(number.as_str(), number.radix()).is_err() =>
            {
                visitor.visit_f64(number.as_str().parse().unwrap_or(f64::MAX))
            }
            _ => Ok(ValueDeserializer::from(value.clone()).deserialize_any(visitor)?),
        }
    }

    fn deserialize_bool<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.value() {
            Some(value) if value.get_ref().is_bool() => self.deserialize_any(visitor),
            _ => Err(self.refused("true or false")),
        }
    }

    fn deserialize_seq<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Fault> {
        match (self.value().and_then(|value| value.get_ref().as_array()), &self) {
            (Some(list), Self::At(_, notes)) => {
                let places = list.iter().map(|value| ValuePath::At(value, notes));
                visitor.visit_seq(SeqDeserializer::new(places))
            }
            _ => Err(self.refused(
                "tables, each below its name in double brackets, such as [[stream]] or [[stream.view]]",
            )),
        }
    }

    fn deserialize_option<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_some(self)
    }

    fn deserialize_struct<V: Visitor<'a>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let table = self.table().ok_or_else(|| self.refused("a table"))?;
        visitor.visit_map(StructKeys { table, left: fields.iter(), next: None })
    }

    fn deserialize_enum<V: Visitor<'a>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let mut offered = variants.iter().copied().filter(|name| *name != LIST);
        let name = match self.value().map(Spanned::get_ref) {
            None => offered.next(),
            Some(DeValue::Array(_)) => variants.contains(&LIST).then_some(LIST),
            Some(given) => offered.find(|name| given.as_str() == Some(name)),
        };
        if let Some(name) = name {
            return visitor.visit_enum(NamedVariant { name, fields: self });
        }
        let names: Vec<_> = variants.iter().copied().filter(|name| *name != LIST).collect();
        let or_list = if variants.contains(&LIST) { ", or a list of policies" } else { "" };
        Err(self.refused(format_args!("\"{}\"{or_list}", names.join("\", \""))))
    }

    forward_to_deserialize_any! {
        <V: Visitor<'a>>
        i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct newtype_struct
        tuple tuple_struct map identifier ignored_any
    }
}

/// The keys of a struct.
struct StructKeys<'a> {
    table: Table<'a>,
    left: std::slice::Iter<'static, &'static str>,
    next: Option<(&'static str, ValuePath<'a>)>,
}

impl<'a> MapAccess<'a> for StructKeys<'a> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'a>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Fault> {
        let Self { table, left, next } = self;
        let place = |name: &&'static str| {
            let tag = name.strip_prefix('+');
            table.know(tag.unwrap_or(name));
            let place = match tag {
                Some(tag) => ValuePath::Around(table.clone(), tag),
                None => ValuePath::At(table.keys.get(*name)?, table.notes),
            };
            (!table.is_bad(name)).then_some((*name, place))
        };
        *next = left.find_map(place);
        next.as_ref().map(|(name, _)| seed.deserialize(StrDeserializer::new(name))).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'a>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        let Some((name, place)) = self.next.take() else { unreachable!("a key comes first") };
        let span = place.value().map_or(self.table.span.clone(), Spanned::span);
        seed.deserialize(place).map_err(|Fault { message, span: inner, key }| Fault {
            message,
            span: inner.or(Some(span)),
            key: key.or_else(|| Some((self.table.address(), name.to_owned()))),
        })
    }
}

/// A variant of an enum, and the place of its fields.
struct NamedVariant<'a> {
    name: &'static str,
    fields: ValuePath<'a>,
}

impl<'a> EnumAccess<'a> for NamedVariant<'a> {
    type Error = Fault;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'a>>(self, seed: V) -> Result<(V::Value, Self), Fault> {
        Ok((seed.deserialize(StrDeserializer::<Fault>::new(self.name))?, self))
    }
}

impl<'a> VariantAccess<'a> for NamedVariant<'a> {
    type Error = Fault;

    fn unit_variant(self) -> Result<(), Fault> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'a>>(self, seed: T) -> Result<T::Value, Fault> {
        seed.deserialize(self.fields)
    }

    fn tuple_variant<V: Visitor<'a>>(self, _: usize, visitor: V) -> Result<V::Value, Fault> {
        self.fields.deserialize_seq(visitor)
    }

    fn struct_variant<V: Visitor<'a>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.fields.deserialize_struct(self.name, fields, visitor)
    }
}

/// Why and where a value is refused, and its innermost key.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
struct Fault {
    message: String,
    span: Option<Range<usize>>,
    key: Option<(usize, String)>,
}

impl de::Error for Fault {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self { message: message.to_string(), span: None, key: None }
    }
}

impl From<toml::de::Error> for Fault {
    fn from(error: toml::de::Error) -> Self {
        Self { message: error.message().to_owned(), span: error.span(), key: None }
    }
}
