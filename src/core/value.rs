//! Values of a configuration, and types that accept a part of them. Their errors state the allowed values.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use crate::camera::FRAME_BYTES_MAX;
use crate::mask::{CORNERS_MAX, check_corners};
use crate::name::{clipped, is_name};

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

    /// The value as a finite number.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Whole(number) => Some(*number as f64),
            Self::Real(number) => Some(*number).filter(|number| number.is_finite()),
            _ => None,
        }
    }

    /// The value as a list of `N` finite numbers.
    pub fn numbers<const N: usize>(&self) -> Option<[f64; N]> {
        let Self::List(list) = self else { return None };
        list.iter().map(Self::number).collect::<Option<Vec<_>>>()?.try_into().ok()
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

/// Reads a `V` by way of the type that checks it.
///
/// # Errors
///
/// The error of the type that checks it.
pub fn checked<'de, T: Deserialize<'de> + Into<V>, V, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<V, D::Error> {
    T::deserialize(deserializer).map(Into::into)
}

/// Reads as [`checked`] does the value of an optional key.
///
/// # Errors
///
/// The error of the type that checks it.
pub fn optional<'de, T: Deserialize<'de> + Into<V>, V, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<V>, D::Error> {
    checked::<T, V, D>(deserializer).map(Some)
}

/// Reads a value that `take` takes; others are refused with what is `allowed`.
///
/// # Errors
///
/// If it is not allowed.
pub fn taken<'de, V, D: Deserializer<'de>>(
    deserializer: D,
    allowed: &str,
    take: impl FnOnce(&ConfigValue) -> Option<V>,
) -> Result<V, D::Error> {
    let given = ConfigValue::deserialize(deserializer)?;
    take(&given).ok_or_else(|| D::Error::custom(given.refused(allowed)))
}

/// A type of values: what it holds, what is allowed, and how it takes that.
#[macro_export]
macro_rules! newtype {
    ($(#[$about:meta])* $name:ident $(<$($bound:ident),+>)? ($holds:ty): $allowed:expr, $take:expr) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, Deserialize)]
        #[serde(try_from = "ConfigValue")]
        pub struct $name $(<$(const $bound: u32),+>)? ($holds);

        impl $(<$(const $bound: u32),+>)? TryFrom<ConfigValue> for $name $(<$($bound),+>)? {
            type Error = String;

            fn try_from(given: ConfigValue) -> Result<Self, String> {
                let take: fn(&ConfigValue) -> Option<$holds> = $take;
                take(&given).map(Self).ok_or_else(|| given.refused($allowed))
            }
        }

        impl $(<$(const $bound: u32),+>)? From<$name $(<$($bound),+>)?> for $holds {
            fn from(value: $name $(<$($bound),+>)?) -> Self {
                value.0
            }
        }
    };
}

pub use newtype;

newtype!(
    /// A whole number from `MIN` to `MAX`.
    Whole<MIN, MAX>(u32):
    format_args!("a whole number from {MIN} to {MAX}"),
    |given| given.whole().filter(|number| (MIN..=MAX).contains(number))
);

newtype!(
    /// R, G and B.
    Color([u8; 3]):
    "R, G and B, each a whole number from 0 to 255, such as [255, 255, 255]",
    |given| {
        let ConfigValue::List(list) = given else { return None };
        let byte = |given: &ConfigValue| u8::try_from(given.whole()?).ok();
        list.iter().map(byte).collect::<Option<Vec<_>>>()?.try_into().ok()
    }
);

newtype!(
    /// A number from `MIN` to `MAX` hundredths.
    Real<MIN, MAX>(f64):
    format_args!("a number from {:?} to {:?}", f64::from(MIN) / 100.0, f64::from(MAX) / 100.0),
    |given| {
        let bounds = f64::from(MIN) / 100.0..=f64::from(MAX) / 100.0;
        given.number().filter(|number| bounds.contains(number))
    }
);

newtype!(
    /// A length in pixels of the source.
    Pixels(f64):
    "a number of pixels above 0",
    |given| given.number().filter(|number| 0.0 < *number)
);

newtype!(
    /// A length in metres.
    Metres(f64):
    "a number of metres above 0",
    |given| given.number().filter(|number| 0.0 < *number)
);

newtype!(
    /// A list of whole numbers.
    Wholes(Vec<u32>):
    "a list of whole numbers, such as [1, 2, 4]",
    |given| {
        let ConfigValue::List(list) = given else { return None };
        list.iter().map(ConfigValue::whole).collect()
    }
);

newtype!(
    /// A turn in degrees, clockwise.
    Degrees(u32):
    "0, 90, 180 or 270",
    |given| given.whole().filter(|degrees| [0, 90, 180, 270].contains(degrees))
);

newtype!(
    /// The name of a stream or a view.
    Name(String):
    "a name of 1 to 63 of the characters a-z, 0-9, _ and -",
    |given| given.text().filter(|text| is_name(text)).map(str::to_owned)
);

newtype!(
    /// A string that is not blank.
    Text(String):
    "a string that is not empty",
    |given| given.text().map(str::to_owned)
);

newtype!(
    /// The path of a file.
    Location(PathBuf):
    "the path of a file, without `~`, which only shells expand",
    |given| given.text().filter(|text| !text.starts_with("~/")).map(PathBuf::from)
);

newtype!(
    /// The name of a frame of reference.
    FrameName(String):
    format_args!("a name of 1 to {FRAME_BYTES_MAX} bytes"),
    |given| {
        let ConfigValue::Text(name) = given else { return None };
        let fits = (1..=FRAME_BYTES_MAX).contains(&name.len()) && !name.contains('\0');
        fits.then(|| name.clone())
    }
);

newtype!(
    /// A place in metres.
    Position([f64; 3]):
    "a list of 3 numbers",
    ConfigValue::numbers
);

newtype!(
    /// A turn in space.
    Quaternion([f64; 4]):
    "a quaternion [x, y, z, w] of length 1",
    |given| {
        let parts = given.numbers::<4>()?;
        let length = parts.iter().map(|part| part * part).sum::<f64>().sqrt();
        // Valid values are returned unchanged.
        match (length - 1.0).abs() {
            ..=1e-15 => Some(parts),
            ..=0.01 => Some(parts.map(|part| part / length)),
            _ => None,
        }
    }
);

newtype!(
    /// A part of a picture.
    Crop([u32; 4]):
    "[left, top, width, height] in whole pixels of the calibrated picture",
    |given| {
        let ConfigValue::List(list) = given else { return None };
        let side = |side: &ConfigValue| side.number().filter(|side| side.fract() == 0.0 && (0.0..=16384.0).contains(side));
        let sides: [f64; 4] = list.iter().map(side).collect::<Option<Vec<_>>>()?.try_into().ok()?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be whole")]
        Some(sides.map(|side| side as u32)).filter(|[_, _, width, height]| 0 < width * height)
    }
);

/// The corners of a polygon in a picture, as shares of its sides.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "ConfigValue")]
pub struct Corners(Vec<[f64; 2]>);

impl TryFrom<ConfigValue> for Corners {
    type Error = String;

    fn try_from(given: ConfigValue) -> Result<Self, String> {
        let allowed = format!(
            "a list of 3 to {CORNERS_MAX} corners [x, y] of a polygon, each a share of the picture's width and height from 0 to 1, \
             not all on one line"
        );
        let ConfigValue::List(list) = &given else { return Err(given.refused(allowed)) };
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
        check_corners(&corners).map_err(|_| given.refused(allowed))?;
        Ok(Self(corners))
    }
}

impl From<Corners> for Vec<[f64; 2]> {
    fn from(corners: Corners) -> Self {
        corners.0
    }
}

newtype!(
    /// The value of a pipeline's parameter, as the text that it becomes there.
    Parameter(String):
    "a string, a number, true or false",
    |given| match given {
        ConfigValue::Text(text) => Some(text.clone()),
        ConfigValue::Whole(number) => Some(number.to_string()),
        ConfigValue::Real(number) => number.is_finite().then(|| number.to_string()),
        ConfigValue::Switch(switch) => Some(switch.to_string()),
        ConfigValue::List(_) | ConfigValue::Table(_) | ConfigValue::Date(()) => None,
    }
);
