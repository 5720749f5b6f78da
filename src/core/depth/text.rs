//! The depth of a view in configurations.

use super::DepthDetail;
use crate::value::ConfigValue;

impl DepthDetail {
    /// The depth that a configuration asks for.
    ///
    /// # Errors
    ///
    /// If the value is not allowed.
    pub fn from_config(given: &ConfigValue) -> Result<Self, String> {
        match given {
            ConfigValue::Switch(false) => Ok(Self::None),
            ConfigValue::Switch(true) => Ok(Self::Tokens),
            ConfigValue::Text(word) if word == "tokens" => Ok(Self::Tokens),
            ConfigValue::Text(word) if word == "texels" => Ok(Self::Texels),
            _ => Err(given.refused("true, false, \"tokens\" or \"texels\"")),
        }
    }
}

impl From<DepthDetail> for ConfigValue {
    fn from(detail: DepthDetail) -> Self {
        match detail {
            DepthDetail::None => false.into(),
            DepthDetail::Tokens => true.into(),
            DepthDetail::Texels => "texels".into(),
        }
    }
}
