//! Token formats in text: how configurations write them.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::is_patch_side;
use super::{DType, Normalisation, Outside, Rounding, TokenFormat};
use crate::value::{ConfigValue, checked, newtype};

impl TryFrom<ConfigValue> for Normalisation {
    type Error = String;

    fn try_from(given: ConfigValue) -> Result<Self, String> {
        let taken = match &given {
            ConfigValue::Text(word) => {
                let preset = Self::PRESETS.into_iter().find(|(name, _)| name == word);
                preset.map(|(_, preset)| preset)
            }
            ConfigValue::Table(keys) if keys.len() == 2 => {
                let row = |key| keys.get(key).and_then(ConfigValue::numbers::<3>);
                row("mean").zip(row("std")).map(|(mean, std)| Self { mean, std })
            }
            _ => None,
        };
        taken.filter(|taken| taken.std.iter().all(|std| 0.0 < *std)).ok_or_else(|| {
            let presets = Self::PRESETS.map(|(name, _)| format!("{name:?}")).join(", ");
            given.refused(format_args!(
                "{presets} or {{ mean = [r, g, b], std = [r, g, b] }} with every std above 0"
            ))
        })
    }
}

impl From<Normalisation> for ConfigValue {
    fn from(normalisation: Normalisation) -> Self {
        let presets = Normalisation::PRESETS;
        if let Some((name, _)) = presets.iter().find(|(_, preset)| *preset == normalisation) {
            return Self::Text((*name).to_owned());
        }
        let Normalisation { mean, std } = normalisation;
        let row = |row: [f64; 3]| Self::List(row.map(Self::Real).into());
        Self::Table(BTreeMap::from([("mean".to_owned(), row(mean)), ("std".to_owned(), row(std))]))
    }
}

newtype!(
    /// The side of a token in texels.
    PatchSide(u32):
    "an even number from 8 to 64, or, with the layout \"windows\", from 224 to 1024, or, with \"samples\", 1",
    |given| given.whole().filter(|side| is_patch_side(*side))
);

/// [`TokenFormat`] as it is read.
#[derive(Deserialize)]
#[serde(default)]
pub(super) struct FormatKeys {
    #[serde(deserialize_with = "checked::<PatchSide, _, _>")]
    patch: u32,
    #[serde(deserialize_with = "DTypeName::deserialize")]
    dtype: DType,
    normalisation: Option<Normalisation>,
    outside: Outside,
    rounding: Rounding,
}

/// [`DType`] as an enum of serde's, so that a reader knows all names of it.
#[derive(Deserialize)]
#[serde(remote = "DType", rename_all = "lowercase")]
enum DTypeName {
    U8,
    F16,
    Bf16,
    F32,
}

impl Default for FormatKeys {
    fn default() -> Self {
        let TokenFormat { patch_side: patch, dtype, outside, rounding, .. } =
            TokenFormat::default();
        Self { patch, dtype, normalisation: None, outside, rounding }
    }
}

impl From<FormatKeys> for TokenFormat {
    /// The format of the keys. By default, whole numbers are not normalised, and others as ImageNet.
    fn from(FormatKeys { patch, dtype, normalisation, outside, rounding }: FormatKeys) -> Self {
        let default =
            if dtype == DType::U8 { Normalisation::NONE } else { Normalisation::IMAGENET };
        let normalisation = normalisation.unwrap_or(default);
        Self { patch_side: patch, dtype, normalisation, outside, rounding }
    }
}
