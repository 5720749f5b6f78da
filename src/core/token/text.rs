//! Token formats in configurations.

use std::collections::BTreeMap;

use super::is_patch_side;
use super::{DType, Normalisation, TokenFormat};
use crate::value::{ConfigValue, Keys, one_of};

impl TokenFormat {
    /// Its keys. By default, whole numbers are not normalised.
    pub fn keys(&mut self, keys: &mut dyn Keys) {
        keys.key("patch", &mut self.patch_side, patch_side);
        keys.key("dtype", &mut self.dtype, one_of);
        if self.dtype == DType::U8 {
            self.normalisation = Normalisation::NONE;
        }
        keys.key("normalisation", &mut self.normalisation, normalisation);
        keys.key("outside", &mut self.outside, one_of);
        keys.key("rounding", &mut self.rounding, one_of);
    }
}

fn patch_side(given: &ConfigValue) -> Result<u32, String> {
    let allowed = "an even number from 8 to 64, or, with the layout \"windows\", from 224 to 1024, or, with \"samples\", 1";
    given.expect(given.whole().filter(|side| is_patch_side(*side)), allowed)
}

fn normalisation(given: &ConfigValue) -> Result<Normalisation, String> {
    let presets = Normalisation::PRESETS;
    let taken = match given {
        ConfigValue::Text(word) => {
            presets.iter().find(|(name, _)| name == word).map(|(_, preset)| *preset)
        }
        ConfigValue::Table(keys) if keys.len() == 2 => {
            let row = |key| keys.get(key).and_then(ConfigValue::numbers::<3>);
            row("mean").zip(row("std")).map(|(mean, std)| Normalisation { mean, std })
        }
        _ => None,
    };
    let taken = taken.filter(|taken| taken.std.iter().all(|std| 0.0 < *std));
    let presets = presets.map(|(name, _)| format!("{name:?}")).join(", ");
    given.expect(
        taken,
        format_args!("{presets} or {{ mean = [r, g, b], std = [r, g, b] }} with every std above 0"),
    )
}

impl From<Normalisation> for ConfigValue {
    fn from(normalisation: Normalisation) -> Self {
        let mut presets = Normalisation::PRESETS.into_iter();
        if let Some((name, _)) = presets.find(|(_, preset)| *preset == normalisation) {
            return name.into();
        }
        let Normalisation { mean, std } = normalisation;
        BTreeMap::from([("mean".to_owned(), mean), ("std".to_owned(), std)]).into()
    }
}
