//! Types of single values, each of which knows what is allowed in its place and says so when it is refused.

use std::fmt::{self, Write as _};
use std::marker::PhantomData;
use std::net::SocketAddr;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Unexpected, Visitor};

use toml::Spanned;

use super::{BackendChoice, ChangeOn, LayoutChoice, Pace, PublishChoice, Threshold};
use foveate_core::camera::Flip;
use foveate_core::name::is_name;
use foveate_core::token::{DType, Normalisation};

/// An optional value of a kind.
pub(super) type Maybe<K> = Option<Spanned<Checked<K>>>;

/// A kind of value. Every conversion that is not given refuses.
pub(super) trait Kind: Sized {
    /// What the value becomes.
    type Value;

    /// What is allowed, to follow the word "expected".
    fn allowed(f: &mut fmt::Formatter<'_>) -> fmt::Result;

    /// From a whole number.
    fn from_whole(_: i64) -> Option<Self::Value> {
        None
    }

    /// From a number with a point.
    fn from_real(_: f64) -> Option<Self::Value> {
        None
    }

    /// From `true` or `false`.
    fn from_bool(_: bool) -> Option<Self::Value> {
        None
    }

    /// From a string.
    fn from_text(_: &str) -> Option<Self::Value> {
        None
    }

    /// From a list of numbers.
    fn from_list(_: &[f64]) -> Option<Self::Value> {
        None
    }

    /// From a table.
    fn from_table<'de, A: MapAccess<'de>>(_: A) -> Result<Self::Value, A::Error> {
        Err(A::Error::invalid_type(Unexpected::Map, &KindVisitor::<Self>(PhantomData)))
    }
}

/// A value that has passed its kind's checks.
pub(super) struct Checked<K: Kind>(pub(super) K::Value);

impl<'de, K: Kind> Deserialize<'de> for Checked<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(KindVisitor::<K>(PhantomData)).map(Self)
    }
}

struct KindVisitor<K>(PhantomData<K>);

impl<'de, K: Kind> Visitor<'de> for KindVisitor<K> {
    type Value = K::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        K::allowed(f)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<K::Value, E> {
        K::from_whole(value).ok_or_else(|| E::invalid_value(Unexpected::Signed(value), &self))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<K::Value, E> {
        K::from_real(value).ok_or_else(|| E::invalid_value(Unexpected::Float(value), &self))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<K::Value, E> {
        K::from_bool(value).ok_or_else(|| E::invalid_value(Unexpected::Bool(value), &self))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<K::Value, E> {
        K::from_text(value).ok_or_else(|| E::invalid_value(Unexpected::Str(value), &self))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<K::Value, A::Error> {
        let mut numbers = Vec::new();
        while let Some(number) = list.next_element::<f64>()? {
            numbers.push(number);
        }
        K::from_list(&numbers).ok_or_else(|| A::Error::invalid_value(Unexpected::Seq, &self))
    }

    fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<K::Value, A::Error> {
        K::from_table(table)
    }
}

/// A whole number from `MIN` to `MAX`.
pub(super) struct Whole<const MIN: u32, const MAX: u32>;

impl<const MIN: u32, const MAX: u32> Kind for Whole<MIN, MAX> {
    type Value = u32;

    fn allowed(f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from {MIN} to {MAX}")
    }

    fn from_whole(value: i64) -> Option<u32> {
        u32::try_from(value).ok().filter(|value| (MIN..=MAX).contains(value))
    }
}

/// A difference between two samples of 8 bits, not 0.
pub(super) struct SampleDifference;

impl Kind for SampleDifference {
    type Value = u8;

    fn allowed(f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number from 1 to 255")
    }

    fn from_whole(value: i64) -> Option<u8> {
        u8::try_from(value).ok().filter(|value| 0 < *value)
    }
}

/// A difference between two samples of 8 bits, or `"auto"`.
pub(super) struct SampleThreshold;

impl Kind for SampleThreshold {
    type Value = Threshold;

    fn allowed(f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number from 0 to 255, or \"auto\"")
    }

    fn from_whole(value: i64) -> Option<Threshold> {
        u8::try_from(value).ok().map(Threshold::Fixed)
    }

    fn from_text(value: &str) -> Option<Threshold> {
        (value == "auto").then_some(Threshold::Auto { limit: Threshold::LIMIT_DEFAULT })
    }
}

/// Side of a patch in texels.
pub(super) struct PatchSide;

impl Kind for PatchSide {
    type Value = u32;

    fn allowed(f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("14 or 16")
    }

    fn from_whole(value: i64) -> Option<u32> {
        [14, 16].into_iter().find(|side| i64::from(*side) == value)
    }
}

/// A place along a side of the image.
pub(super) struct Fraction;

impl Kind for Fraction {
    type Value = f64;

    fn allowed(f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number from 0.0 (left or top edge) to 1.0 (right or bottom edge)")
    }

    fn from_whole(value: i64) -> Option<f64> {
        Self::from_real(value as f64)
    }

    fn from_real(value: f64) -> Option<f64> {
        (0.0..=1.0).contains(&value).then_some(value)
    }
}

/// A length in source pixels.
pub(super) struct Length;

impl Kind for Length {
    type Value = f64;

    fn allowed(f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of pixels above 0")
    }

    fn from_whole(value: i64) -> Option<f64> {
        Self::from_real(value as f64)
    }

    fn from_real(value: f64) -> Option<f64> {
        (0.0 < value && value.is_finite()).then_some(value)
    }
}

/// So many finite numbers.
pub(super) struct List<const COUNT: usize>;

impl<const COUNT: usize> Kind for List<COUNT> {
    type Value = [f64; COUNT];

    fn allowed(f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of {COUNT} numbers")
    }

    fn from_list(numbers: &[f64]) -> Option<[f64; COUNT]> {
        <[f64; COUNT]>::try_from(numbers).ok().filter(|list| list.iter().all(|n| n.is_finite()))
    }
}

/// The name of a stream or a view.
pub(super) struct Name;

impl Kind for Name {
    type Value = String;

    fn allowed(f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name of 1 to 63 of the characters a-z, 0-9, _ and -")
    }

    fn from_text(value: &str) -> Option<String> {
        is_name(value).then(|| value.to_owned())
    }
}

/// A string that says something.
pub(super) struct Text;

impl Kind for Text {
    type Value = String;

    fn allowed(f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string that is not empty")
    }

    fn from_text(value: &str) -> Option<String> {
        (!value.trim().is_empty()).then(|| value.to_owned())
    }
}

/// Who may connect to a socket.
pub(super) struct SocketMode;

impl Kind for SocketMode {
    type Value = u32;

    fn allowed(f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a mode in octal digits, of reading and writing, such as \"0660\" or \"0600\"")
    }

    fn from_text(value: &str) -> Option<u32> {
        // Without both bits for itself a daemon could not be told from a dead one.
        let is_for_sockets = |mode: &u32| mode & !0o666 == 0 && mode & 0o600 == 0o600;
        let digits = value.bytes().all(|byte| byte.is_ascii_digit()).then_some(value)?;
        u32::from_str_radix(digits, 8).ok().filter(is_for_sockets)
    }
}

/// Where to listen for HTTP.
pub(super) struct Address;

impl Kind for Address {
    type Value = SocketAddr;

    fn allowed(f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an IP address and a port, such as \"127.0.0.1:9187\" or \"[::1]:9187\"")
    }

    fn from_text(value: &str) -> Option<SocketAddr> {
        value.parse().ok()
    }
}

/// `true` or `false`.
pub(super) struct Switch;

impl Kind for Switch {
    type Value = bool;

    fn allowed(f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("true or false")
    }

    fn from_bool(value: bool) -> Option<bool> {
        Some(value)
    }
}

/// The value of a pipeline's parameter, as the text that it becomes in the pipeline.
pub(super) struct Parameter;

impl Kind for Parameter {
    type Value = String;

    fn allowed(f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, a number, true or false")
    }

    fn from_whole(value: i64) -> Option<String> {
        Some(value.to_string())
    }

    fn from_real(value: f64) -> Option<String> {
        value.is_finite().then(|| value.to_string())
    }

    fn from_bool(value: bool) -> Option<String> {
        Some(value.to_string())
    }

    fn from_text(value: &str) -> Option<String> {
        Some(value.to_owned())
    }
}

/// One of a few words.
pub(super) struct OneOf<T>(PhantomData<T>);

/// What a word may be, and what it stands for.
pub(super) trait Choices: Copy + 'static {
    /// In the order in which they are offered.
    const CHOICES: &'static [(&'static str, Self)];
}

impl<T: Choices> Kind for OneOf<T> {
    type Value = T;

    fn allowed(f: &mut fmt::Formatter<'_>) -> fmt::Result {
        offer(f, T::CHOICES.iter().map(|(word, _)| *word))
    }

    fn from_text(value: &str) -> Option<T> {
        T::CHOICES.iter().find(|(word, _)| *word == value).map(|(_, choice)| *choice)
    }
}

impl Choices for Pace {
    const CHOICES: &'static [(&'static str, Self)] =
        &[("realtime", Self::Realtime), ("every-frame", Self::EveryFrame)];
}

impl Choices for BackendChoice {
    const CHOICES: &'static [(&'static str, Self)] =
        &[("auto", Self::Auto), ("cpu", Self::Cpu), ("vulkan", Self::Vulkan)];
}

impl Choices for ChangeOn {
    const CHOICES: &'static [(&'static str, Self)] =
        &[("auto", Self::Auto), ("cpu", Self::Cpu), ("gpu", Self::Gpu)];
}

impl Choices for Flip {
    const CHOICES: &'static [(&'static str, Self)] =
        &[("none", Self::None), ("horizontal", Self::Horizontal), ("vertical", Self::Vertical)];
}

impl Choices for LayoutChoice {
    const CHOICES: &'static [(&'static str, Self)] =
        &[("foveal", Self::Foveal), ("uniform", Self::Uniform)];
}

impl Choices for PublishChoice {
    const CHOICES: &'static [(&'static str, Self)] =
        &[(Self::Always.name(), Self::Always), (Self::WhenRead.name(), Self::WhenRead)];
}

impl Choices for DType {
    const CHOICES: &'static [(&'static str, Self)] =
        &[("u8", Self::U8), ("f16", Self::F16), ("bf16", Self::Bf16), ("f32", Self::F32)];
}

/// Who chooses where a view looks, without what that takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GazePolicy {
    Fixed,
    Feedback,
    Saliency,
    Replay,
}

impl Choices for GazePolicy {
    const CHOICES: &'static [(&'static str, Self)] = &[
        ("fixed", Self::Fixed),
        ("feedback", Self::Feedback),
        ("saliency", Self::Saliency),
        ("replay", Self::Replay),
    ];
}

/// A number from `MIN` to `MAX` hundredths.
pub(super) struct Real<const MIN: u32, const MAX: u32>;

impl<const MIN: u32, const MAX: u32> Kind for Real<MIN, MAX> {
    type Value = f64;

    fn allowed(f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a number from {} to {}", f64::from(MIN) / 100.0, f64::from(MAX) / 100.0)
    }

    fn from_whole(value: i64) -> Option<f64> {
        Self::from_real(value as f64)
    }

    fn from_real(value: f64) -> Option<f64> {
        let bounds = f64::from(MIN) / 100.0..=f64::from(MAX) / 100.0;
        bounds.contains(&value).then_some(value)
    }
}

/// A preset's name, or a table with `mean` and `std`.
pub(super) struct NormalisationKind;

/// Three numbers for R, G and B, of 0..=1.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct MeanAndStd {
    mean: [f64; 3],
    std: [f64; 3],
}

impl Kind for NormalisationKind {
    type Value = Normalisation;

    fn allowed(f: &mut fmt::Formatter<'_>) -> fmt::Result {
        offer(f, Normalisation::PRESETS.iter().map(|(word, _)| *word))?;
        f.write_str(" or { mean = [r, g, b], std = [r, g, b] } with every std above 0")
    }

    fn from_text(value: &str) -> Option<Normalisation> {
        Normalisation::PRESETS.iter().find(|(word, _)| *word == value).map(|(_, preset)| *preset)
    }

    fn from_table<'de, A: MapAccess<'de>>(table: A) -> Result<Normalisation, A::Error> {
        let MeanAndStd { mean, std } = MeanAndStd::deserialize(MapAccessDeserializer::new(table))?;
        let usable = mean.iter().all(|mean| mean.is_finite())
            && std.iter().all(|std| 0.0 < *std && std.is_finite());
        usable.then_some(Normalisation { mean, std }).ok_or_else(|| {
            A::Error::invalid_value(Unexpected::Map, &KindVisitor::<Self>(PhantomData))
        })
    }
}

/// `"a", "b", "c"`.
fn offer(f: &mut fmt::Formatter<'_>, words: impl Iterator<Item = &'static str>) -> fmt::Result {
    for (index, word) in words.enumerate() {
        if index > 0 {
            f.write_str(", ")?;
        }
        f.write_char('"')?;
        f.write_str(word)?;
        f.write_char('"')?;
    }
    Ok(())
}

/// What the file says, or `default`.
pub(super) fn value<K: Kind>(maybe: Maybe<K>, default: K::Value) -> K::Value {
    maybe.map_or(default, |value| value.into_inner().0)
}
