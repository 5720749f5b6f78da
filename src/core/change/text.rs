//! Change detection in text: how configurations write its rules.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use super::{ChangeConfig, Threshold};
use crate::value::{ConfigValue, Whole, optional};

/// [`ChangeConfig`] as it is written.
#[derive(Serialize, Deserialize)]
#[serde(default)]
pub(super) struct ChangeKeys {
    threshold: Threshold,
    #[serde(deserialize_with = "optional::<Whole<1, 255>, _, _>")]
    threshold_limit: Option<u32>,
    #[serde(deserialize_with = "optional::<Whole<1, 1_000_000>, _, _>")]
    refresh_frames: Option<u32>,
}

impl Default for ChangeKeys {
    fn default() -> Self {
        let threshold = Threshold::BySource { limit: Threshold::LIMIT_DEFAULT };
        Self { threshold, threshold_limit: None, refresh_frames: None }
    }
}

impl From<ChangeKeys> for ChangeConfig {
    fn from(keys: ChangeKeys) -> Self {
        let limit = keys.threshold_limit.map(|limit| u8::try_from(limit).unwrap_or(u8::MAX));
        let threshold = match (keys.threshold, limit) {
            (Threshold::Auto { .. }, Some(limit)) => Threshold::Auto { limit },
            (Threshold::BySource { .. }, Some(limit)) => Threshold::BySource { limit },
            (threshold, _) => threshold,
        };
        Self { threshold, refresh_frames: keys.refresh_frames.and_then(NonZeroU32::new) }
    }
}

impl From<ChangeConfig> for ChangeKeys {
    fn from(ChangeConfig { threshold, refresh_frames }: ChangeConfig) -> Self {
        let threshold_limit = match threshold {
            Threshold::Fixed(_) => None,
            Threshold::Auto { limit } | Threshold::BySource { limit } => Some(limit.into()),
        };
        Self { threshold, threshold_limit, refresh_frames: refresh_frames.map(NonZeroU32::get) }
    }
}

impl TryFrom<ConfigValue> for Threshold {
    type Error = String;

    fn try_from(given: ConfigValue) -> Result<Self, String> {
        let fixed = |steps| u8::try_from(steps).ok().map(Self::Fixed);
        let threshold = match &given {
            ConfigValue::Whole(steps) => fixed(*steps),
            ConfigValue::Text(word) if word == "auto" => {
                Some(Self::Auto { limit: Self::LIMIT_DEFAULT })
            }
            ConfigValue::Text(word) if word == "source" => {
                Some(Self::BySource { limit: Self::LIMIT_DEFAULT })
            }
            _ => None,
        };
        threshold
            .ok_or_else(|| given.refused("a whole number from 0 to 255, \"auto\" or \"source\""))
    }
}

impl From<Threshold> for ConfigValue {
    fn from(threshold: Threshold) -> Self {
        match threshold {
            Threshold::Fixed(steps) => Self::Whole(steps.into()),
            Threshold::Auto { .. } => Self::Text("auto".to_owned()),
            Threshold::BySource { .. } => Self::Text("source".to_owned()),
        }
    }
}
