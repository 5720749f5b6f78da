//! Change detection in configurations.

use std::num::NonZeroU32;

use super::{ChangeConfig, Threshold};
use crate::value::{ConfigValue, Keys, whole};

impl ChangeConfig {
    /// Its keys.
    pub fn keys(&mut self, keys: &mut dyn Keys) {
        keys.key("threshold", &mut self.threshold, threshold);
        let mut steps = match self.threshold {
            Threshold::Fixed(_) => None,
            Threshold::Auto { limit } | Threshold::BySource { limit } => Some(limit.into()),
        };
        keys.optional("threshold_limit", &mut steps, whole(1..=255));
        if let Threshold::Auto { limit } | Threshold::BySource { limit } = &mut self.threshold
            && let Some(steps) = steps
        {
            *limit = u8::try_from(steps).unwrap_or(u8::MAX);
        }
        let mut frames = self.refresh_frames.map(NonZeroU32::get);
        keys.optional("refresh_frames", &mut frames, whole(1..=1_000_000));
        self.refresh_frames = frames.and_then(NonZeroU32::new);
    }
}

fn threshold(given: &ConfigValue) -> Result<Threshold, String> {
    let limit = Threshold::LIMIT_DEFAULT;
    let taken = match given {
        ConfigValue::Whole(steps) => u8::try_from(*steps).ok().map(Threshold::Fixed),
        ConfigValue::Text(word) if word == "auto" => Some(Threshold::Auto { limit }),
        ConfigValue::Text(word) if word == "source" => Some(Threshold::BySource { limit }),
        _ => None,
    };
    given.expect(taken, "a whole number from 0 to 255, \"auto\" or \"source\"")
}

impl From<Threshold> for ConfigValue {
    fn from(threshold: Threshold) -> Self {
        match threshold {
            Threshold::Fixed(steps) => steps.into(),
            Threshold::Auto { .. } => "auto".into(),
            Threshold::BySource { .. } => "source".into(),
        }
    }
}
