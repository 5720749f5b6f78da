//! Sources in configurations.

use super::{Orientation, SourceChoice, SourceLimits, SourceSpec, Tls};
use crate::gray::GrayScaling;
use crate::mask::Mask;
use crate::value::{ConfigValue, Keys};
use crate::value::{color, milliseconds, one_of, path, real, switch, text, whole};

impl SourceSpec {
    /// Its keys.
    pub fn keys(&mut self, keys: &mut dyn Keys) {
        self.source.keys(keys);
        keys.key("isolation", &mut self.isolation, one_of);
        keys.table("limits", &mut self.limits, SourceLimits::keys);
        keys.map("parameters", &mut self.parameters);
        keys.key("pace", &mut self.pace, one_of);
        keys.key("loop", &mut self.looped, switch);
        keys.key("latency_ms", &mut self.latency_ms, whole(0..=60_000));
        keys.key("tls", &mut self.tls, tls);
        keys.key("follow_addresses", &mut self.follow_addresses, switch);
        keys.key("caps_timeout_ms", &mut self.caps_timeout, milliseconds(100..=600_000));
        keys.key("orientation", &mut self.orientation, orientation);
        keys.key("corrupted", &mut self.corrupted, one_of);
        keys.optional("live", &mut self.live, switch);
        keys.optional("track", &mut self.track, whole(1..=64));
        keys.key("scale_pictures", &mut self.scale_pictures, switch);
        keys.key("max_pixels", &mut self.max_pixels, whole(1..=268_435_456));
        keys.key("background", &mut self.background, color);
        keys.key("square_pixels", &mut self.square_pixels, switch);
        keys.key("interlaced", &mut self.interlaced, switch);
        keys.optional("range", &mut self.range, one_of);
        keys.optional("matrix", &mut self.matrix, one_of);
        keys.optional("gray_range", &mut self.gray_range, GrayScaling::from_config);
        keys.optional("max_fps", &mut self.max_fps, real(0.01..=1000.0));
        keys.key("restart", &mut self.restart, switch);
        let mut timeout = self.restart_timeout.unwrap_or_default();
        keys.key("restart_timeout_ms", &mut timeout, milliseconds(0..=3_600_000));
        self.restart_timeout = Some(timeout).filter(|timeout| !timeout.is_zero());
        keys.list("mask", &mut self.masks, Mask::keys);
    }
}

impl SourceLimits {
    fn keys(&mut self, keys: &mut dyn Keys) {
        keys.key("memory_mib", &mut self.memory_mib, whole(64..=65_536));
        keys.key("nice", &mut self.nice, whole(0..=19));
    }
}

impl SourceChoice {
    /// Its keys, of which one is given.
    pub fn keys(&mut self, keys: &mut dyn Keys) {
        let [mut source, mut pipeline, mut file] = [None, None, None];
        match self {
            Self::Shorthand(text) => source = Some(text.as_str().into()),
            Self::Pipeline(text) => pipeline = Some(text.as_str().into()),
            Self::PipelineFile(path) => file = Some(path.clone().into()),
        }
        let mut take = |key, present, form: fn(&ConfigValue) -> Result<Self, String>| {
            keys.value(key, present, &mut |given| form(given).map(|choice| *self = choice))
        };
        take("source", source, |given| text(given).map(Self::Shorthand));
        take("pipeline", pipeline, |given| text(given).map(Self::Pipeline));
        take("pipeline_file", file, |given| path(given).map(Self::PipelineFile));
    }
}

fn tls(given: &ConfigValue) -> Result<Tls, String> {
    match given.text() {
        Some("verify") => Ok(Tls::Verify),
        Some("insecure") => Ok(Tls::Insecure),
        Some(path) if path.contains(['/', '.']) => Ok(Tls::CaFile(path.into())),
        _ => Err(given.refused("\"verify\", \"insecure\" or the path of a PEM file")),
    }
}

impl From<Tls> for ConfigValue {
    fn from(tls: Tls) -> Self {
        match tls {
            Tls::Verify => "verify".into(),
            Tls::Insecure => "insecure".into(),
            Tls::CaFile(path) => path.into(),
        }
    }
}

fn orientation(given: &ConfigValue) -> Result<Orientation, String> {
    match given {
        ConfigValue::Text(word) if word == "auto" => Ok(Orientation::Auto),
        ConfigValue::Whole(0) => Ok(Orientation::Degrees0),
        ConfigValue::Whole(90) => Ok(Orientation::Degrees90),
        ConfigValue::Whole(180) => Ok(Orientation::Degrees180),
        ConfigValue::Whole(270) => Ok(Orientation::Degrees270),
        _ => Err(given.refused("\"auto\", 0, 90, 180 or 270")),
    }
}

impl From<Orientation> for ConfigValue {
    fn from(orientation: Orientation) -> Self {
        match orientation {
            Orientation::Auto => "auto".into(),
            Orientation::Degrees0 => 0_u32.into(),
            Orientation::Degrees90 => 90_u32.into(),
            Orientation::Degrees180 => 180_u32.into(),
            Orientation::Degrees270 => 270_u32.into(),
        }
    }
}
