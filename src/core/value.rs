//! Keys of a configuration and their values.
//!
//! A key is one line in the function `keys` of its table: its name, its field, and a function that takes what is allowed.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::camera::FRAME_BYTES_MAX;
use crate::json::Named;
use crate::mask::{CORNERS_MAX, check_corners};
use crate::name::{clipped, is_name};

/// A table of a configuration: it is read into fields, or written from them.
pub trait Keys {
    /// Reads the value at `key` with `take`, if there is one, or writes the `present` one. Returns whether it is allowed.
    fn value(
        &mut self,
        key: &'static str,
        present: Option<ConfigValue>,
        take: &mut dyn FnMut(&ConfigValue) -> Result<(), String>,
    ) -> bool;

    /// Reads or writes a table whose keys are free.
    fn map(&mut self, key: &'static str, map: &mut BTreeMap<String, String>);

    /// Reads each table at `key`, with its place in the list, or writes as many as are `present`.
    fn tables(
        &mut self,
        key: &'static str,
        is_list: bool,
        present: usize,
        each: &mut dyn FnMut(usize, &mut dyn Keys),
    );

    /// Refuses the value of a key that was read.
    fn refuse(&mut self, _key: &str, _message: String) {}

    /// Refuses `key` unless it has been read, as it belongs to these values of the key `variant`.
    fn only_with(&mut self, _key: &'static str, _variant: &str, _names: &[&str]) {}

    /// Allows unknown keys: the key that decides which ones there are was refused.
    fn leave_open(&mut self) {}
}

/// The names of keys.
struct KeyNames(Vec<&'static str>);

impl Keys for KeyNames {
    fn value(
        &mut self,
        key: &'static str,
        _: Option<ConfigValue>,
        _: &mut dyn FnMut(&ConfigValue) -> Result<(), String>,
    ) -> bool {
        self.0.push(key);
        true
    }

    fn map(&mut self, key: &'static str, _: &mut BTreeMap<String, String>) {
        self.0.push(key);
    }

    fn tables(
        &mut self,
        key: &'static str,
        _: bool,
        _: usize,
        _: &mut dyn FnMut(usize, &mut dyn Keys),
    ) {
        self.0.push(key);
    }
}

impl dyn Keys + '_ {
    /// A key whose values `form` takes. Without it the field stays as it is.
    pub fn key<T: Clone + Into<ConfigValue>>(
        &mut self,
        key: &'static str,
        field: &mut T,
        form: impl Fn(&ConfigValue) -> Result<T, String>,
    ) {
        let present = field.clone().into();
        self.value(key, Some(present), &mut |given| form(given).map(|value| *field = value));
    }

    /// A key without a default.
    pub fn optional<T: Clone + Into<ConfigValue>>(
        &mut self,
        key: &'static str,
        field: &mut Option<T>,
        form: impl Fn(&ConfigValue) -> Result<T, String>,
    ) {
        let present = field.clone().map(Into::into);
        self.value(key, present, &mut |given| form(given).map(|value| *field = Some(value)));
    }

    /// A key that decides which keys are beside it: those of `fill`, which differ between `all` values.
    pub fn variant<T: Clone + Into<ConfigValue>>(
        &mut self,
        key: &'static str,
        field: &mut T,
        form: impl Fn(&ConfigValue) -> Result<T, String>,
        all: impl IntoIterator<Item = (&'static str, T)>,
        fill: fn(&mut T, &mut dyn Keys),
    ) {
        let present = field.clone().into();
        if !self.value(key, Some(present), &mut |given| form(given).map(|value| *field = value)) {
            return self.leave_open();
        }
        fill(field, self);
        let mut names: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (name, mut value) in all {
            let mut keys = KeyNames(Vec::new());
            fill(&mut value, &mut keys);
            keys.0.into_iter().for_each(|key| names.entry(key).or_default().push(name));
        }
        for (other, names) in names {
            self.only_with(other, key, &names);
        }
    }

    /// A table, whose keys are those of `fill`.
    pub fn table<T>(&mut self, key: &'static str, table: &mut T, fill: fn(&mut T, &mut dyn Keys)) {
        self.tables(key, false, 1, &mut |_, keys| fill(table, keys));
    }

    /// A table that is absent by default.
    pub fn optional_table<T: Default>(
        &mut self,
        key: &'static str,
        table: &mut Option<T>,
        fill: fn(&mut T, &mut dyn Keys),
    ) {
        let present = usize::from(table.is_some());
        self.tables(key, false, present, &mut |_, keys| fill(table.get_or_insert_default(), keys));
    }

    /// A list of tables.
    pub fn list<T: Default>(
        &mut self,
        key: &'static str,
        list: &mut Vec<T>,
        fill: fn(&mut T, &mut dyn Keys),
    ) {
        self.tables(key, true, list.len(), &mut |place, keys| {
            if list.len() == place {
                list.push(T::default());
            }
            fill(&mut list[place], keys);
        });
    }
}

/// A value of any type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ConfigValue {
    /// A whole number.
    Whole(i64),
    /// Any other number.
    Real(f64),
    /// `true` or `false`.
    Switch(bool),
    /// A string.
    Text(String),
    /// A list.
    List(Vec<ConfigValue>),
    /// A table.
    Table(BTreeMap<String, ConfigValue>),
    /// A date or a time, for which JSON has no type.
    Date(()),
}

/// Longest part of a value that a message shows, in bytes.
const SHOWN_BYTES_MAX: usize = 120;

/// A text as a message shows it: only the beginning of a long one.
pub fn shown(text: &str) -> String {
    clipped(text, SHOWN_BYTES_MAX)
}

impl fmt::Display for ConfigValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(number) => number.fmt(f),
            Self::Real(number) => write!(f, "{number:?}"),
            Self::Switch(switch) => switch.fmt(f),
            Self::Text(text) => write!(f, "{:?}", shown(text)),
            Self::List(_) => f.write_str("this list"),
            Self::Table(_) => f.write_str("this table"),
            Self::Date(()) => f.write_str("a date"),
        }
    }
}

impl ConfigValue {
    /// The message that the value is refused where only `allowed` may be.
    pub fn refused(&self, allowed: impl fmt::Display) -> String {
        format!("{self} is not allowed here; expected {allowed}")
    }

    /// What was `taken` of the value, or the message that only `allowed` may be here.
    ///
    /// # Errors
    ///
    /// If nothing was taken.
    pub fn expect<T>(&self, taken: Option<T>, allowed: impl fmt::Display) -> Result<T, String> {
        taken.ok_or_else(|| self.refused(allowed))
    }

    /// The value as a finite number.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Whole(number) => Some(*number as f64),
            Self::Real(number) => Some(*number).filter(|number| number.is_finite()),
            _ => None,
        }
    }

    /// The value as a list, of which `take` takes every part.
    pub fn list<T>(&self, take: impl Fn(&Self) -> Option<T>) -> Option<Vec<T>> {
        let Self::List(list) = self else { return None };
        list.iter().map(take).collect()
    }

    /// The value as a list of `N` finite numbers.
    pub fn numbers<const N: usize>(&self) -> Option<[f64; N]> {
        self.list(Self::number)?.try_into().ok()
    }

    /// The value as a whole number from 0 on.
    pub fn whole(&self) -> Option<u32> {
        let Self::Whole(number) = self else { return None };
        u32::try_from(*number).ok()
    }

    /// The value as a string that is not blank.
    pub fn text(&self) -> Option<&str> {
        let Self::Text(text) = self else { return None };
        Some(text.as_str()).filter(|text| !text.trim().is_empty())
    }
}

/// `values!(Type: |value| written, ...)` says how the values of types are written.
macro_rules! values {
    ($($Type:ty: |$value:ident| $written:expr),+ $(,)?) => {
        $(impl From<$Type> for ConfigValue {
            fn from($value: $Type) -> Self {
                $written
            }
        })+
    };
}

values!(
    u8: |number| Self::Whole(number.into()),
    u16: |number| Self::Whole(number.into()),
    u32: |number| Self::Whole(number.into()),
    f32: |number| Self::Real(number.into()),
    f64: |number| Self::Real(number),
    bool: |switch| Self::Switch(switch),
    &str: |text| Self::Text(text.to_owned()),
    String: |text| Self::Text(text),
    PathBuf: |path| Self::Text(path.to_string_lossy().into_owned()),
    SocketAddr: |address| Self::Text(address.to_string()),
    Duration: |time| Self::Whole(i64::try_from(time.as_millis()).unwrap_or(i64::MAX)),
);

impl<T: Named> From<T> for ConfigValue {
    fn from(named: T) -> Self {
        named.name().into()
    }
}

impl<T: Into<Self>> From<Vec<T>> for ConfigValue {
    fn from(list: Vec<T>) -> Self {
        Self::List(list.into_iter().map(Into::into).collect())
    }
}

impl<T: Into<Self>, const N: usize> From<[T; N]> for ConfigValue {
    fn from(list: [T; N]) -> Self {
        Self::List(list.map(Into::into).into())
    }
}

impl<T: Into<Self>> From<BTreeMap<String, T>> for ConfigValue {
    fn from(map: BTreeMap<String, T>) -> Self {
        Self::Table(map.into_iter().map(|(key, value)| (key, value.into())).collect())
    }
}

/// `true` or `false`.
pub fn switch(given: &ConfigValue) -> Result<bool, String> {
    let ConfigValue::Switch(switch) = given else { return Err(given.refused("true or false")) };
    Ok(*switch)
}

/// One of all values, by name.
pub fn one_of<T: Named>(given: &ConfigValue) -> Result<T, String> {
    let all = T::all();
    let names: Vec<_> = all.iter().map(T::name).collect();
    let allowed = format!("\"{}\"", names.join("\", \""));
    given.expect(all.into_iter().find(|one| given.text() == Some(one.name())), allowed)
}

/// A whole number.
pub fn whole(range: RangeInclusive<u32>) -> impl Fn(&ConfigValue) -> Result<u32, String> {
    move |given| {
        let number = given.whole().filter(|number| range.contains(number));
        let (least, most) = (range.start(), range.end());
        given.expect(number, format_args!("a whole number from {least} to {most}"))
    }
}

/// A time in milliseconds.
pub fn milliseconds(
    range: RangeInclusive<u32>,
) -> impl Fn(&ConfigValue) -> Result<Duration, String> {
    move |given| whole(range.clone())(given).map(|ms| Duration::from_millis(ms.into()))
}

/// A number.
pub fn real(range: RangeInclusive<f64>) -> impl Fn(&ConfigValue) -> Result<f64, String> {
    move |given| {
        let number = given.number().filter(|number| range.contains(number));
        let (least, most) = (range.start(), range.end());
        given.expect(number, format_args!("a number from {least:?} to {most:?}"))
    }
}

/// A length in pixels of the source.
pub fn pixels(given: &ConfigValue) -> Result<f64, String> {
    given.expect(given.number().filter(|number| 0.0 < *number), "a number of pixels above 0")
}

/// A length in metres.
pub fn metres(given: &ConfigValue) -> Result<f64, String> {
    given.expect(given.number().filter(|number| 0.0 < *number), "a number of metres above 0")
}

/// A list of whole numbers.
pub fn wholes(given: &ConfigValue) -> Result<Vec<u32>, String> {
    given.expect(given.list(ConfigValue::whole), "a list of whole numbers, such as [1, 2, 4]")
}

/// R, G and B.
pub fn color(given: &ConfigValue) -> Result<[u8; 3], String> {
    let bytes = given.list(|given| u8::try_from(given.whole()?).ok());
    let allowed = "R, G and B, each a whole number from 0 to 255, such as [255, 255, 255]";
    given.expect(bytes.and_then(|bytes| bytes.try_into().ok()), allowed)
}

/// The name of a stream or a view.
pub fn name(given: &ConfigValue) -> Result<String, String> {
    let name = given.text().filter(|text| is_name(text)).map(str::to_owned);
    given.expect(name, "a name of 1 to 63 of the characters a-z, 0-9, _ and -")
}

/// A string that is not blank.
pub fn text(given: &ConfigValue) -> Result<String, String> {
    given.expect(given.text().map(str::to_owned), "a string that is not empty")
}

/// The path of a file.
pub fn path(given: &ConfigValue) -> Result<PathBuf, String> {
    let path = given.text().filter(|text| !text.starts_with("~/")).map(PathBuf::from);
    given.expect(path, "the path of a file, without `~`, which only shells expand")
}

/// The name of a frame of reference.
pub fn frame_name(given: &ConfigValue) -> Result<String, String> {
    let fits = |name: &String| (1..=FRAME_BYTES_MAX).contains(&name.len()) && !name.contains('\0');
    let name = if let ConfigValue::Text(name) = given { Some(name.clone()) } else { None };
    given.expect(name.filter(fits), format_args!("a name of 1 to {FRAME_BYTES_MAX} bytes"))
}

/// A place in metres.
pub fn position(given: &ConfigValue) -> Result<[f64; 3], String> {
    given.expect(given.numbers(), "a list of 3 numbers")
}

/// A turn in space.
pub fn quaternion(given: &ConfigValue) -> Result<[f64; 4], String> {
    let unit = |parts: [f64; 4]| {
        let length = parts.iter().map(|part| part * part).sum::<f64>().sqrt();
        // Valid values are returned unchanged.
        match (length - 1.0).abs() {
            ..=1e-15 => Some(parts),
            ..=0.01 => Some(parts.map(|part| part / length)),
            _ => None,
        }
    };
    given.expect(given.numbers().and_then(unit), "a quaternion [x, y, z, w] of length 1")
}

/// A part of a picture.
pub fn crop(given: &ConfigValue) -> Result<[u32; 4], String> {
    let is_side = |side: &f64| side.fract() == 0.0 && (0.0..=16384.0).contains(side);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked before")]
    let crop = |sides: [f64; 4]| sides.iter().all(is_side).then(|| sides.map(|side| side as u32));
    let crop = given.numbers().and_then(crop).filter(|[_, _, width, height]| 0 < width * height);
    given.expect(crop, "[left, top, width, height] in whole pixels of the calibrated picture")
}

/// The corners of a polygon in a picture, as shares of its sides.
pub fn corners(given: &ConfigValue) -> Result<Vec<[f64; 2]>, String> {
    let allowed = format!(
        "a list of 3 to {CORNERS_MAX} corners [x, y] of a polygon, each a share of the picture's width and height from 0 to 1, \
         not all on one line"
    );
    let ConfigValue::List(list) = given else { return Err(given.refused(allowed)) };
    let mut corners = Vec::new();
    for (index, corner) in list.iter().enumerate() {
        let number = index + 1;
        let Some([x, y]) = corner.numbers() else {
            return Err(format!("corner {number} is not [x, y]; expected {allowed}"));
        };
        if ![x, y].iter().all(|share| (0.0..=1.0).contains(share)) {
            return Err(format!("corner {number} is [{x}, {y}]; expected {allowed}"));
        }
        corners.push([x, y]);
    }
    given.expect(check_corners(&corners).is_ok().then_some(corners), allowed)
}

/// The value of a pipeline's parameter, as the text that it becomes there.
pub fn parameter(given: &ConfigValue) -> Result<String, String> {
    let text = match given {
        ConfigValue::Text(text) => Some(text.clone()),
        ConfigValue::Whole(number) => Some(number.to_string()),
        ConfigValue::Real(number) => number.is_finite().then(|| number.to_string()),
        ConfigValue::Switch(switch) => Some(switch.to_string()),
        ConfigValue::List(_) | ConfigValue::Table(_) | ConfigValue::Date(()) => None,
    };
    given.expect(text, "a string, a number, true or false")
}
