//! Masks in configurations and messages.

use serde::de::{Deserialize, Deserializer, Error};

use super::Mask;
use crate::value::{self, ConfigValue, Keys};

impl Mask {
    /// Its keys.
    pub fn keys(&mut self, keys: &mut dyn Keys) {
        keys.key("name", &mut self.name, value::name);
        keys.key("points", &mut self.points, value::corners);
    }
}

pub(super) fn name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    value::name(&ConfigValue::deserialize(deserializer)?).map_err(D::Error::custom)
}

pub(super) fn corners<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<[f64; 2]>, D::Error> {
    value::corners(&ConfigValue::deserialize(deserializer)?).map_err(D::Error::custom)
}
