//! `[stream.depth]`: a second pipeline, which gives the depth of what the first one shows.

use std::collections::BTreeMap;
use std::path::Path;

use super::reader::Table;
use super::validate::validate_source;
use super::{Pace, SourceChoice, StreamConfig};
use foveate_core::depth::DepthScale;
use foveate_core::value::{Keys, metres, real};

/// The source of depth, and what its samples mean.
#[derive(Clone, Debug, PartialEq)]
pub struct DepthConfig {
    /// The source of its pictures.
    pub source: SourceChoice,
    /// Values for `${name}` in its pipeline.
    pub parameters: BTreeMap<String, String>,
    /// Metres of the sample 1.
    pub scale_m: f64,
    /// Nearest depth that is believed, in metres; by default any.
    pub min_m: Option<f64>,
    /// Farthest depth that is believed, in metres; by default any.
    pub max_m: Option<f64>,
    /// Most by which the times of a frame and its depth differ, in milliseconds, 0 to 60000.
    pub bound_ms: f64,
}

impl Default for DepthConfig {
    fn default() -> Self {
        Self {
            source: SourceChoice::Shorthand("test".to_owned()),
            parameters: BTreeMap::new(),
            scale_m: 0.001,
            min_m: None,
            max_m: None,
            bound_ms: 17.0,
        }
    }
}

impl DepthConfig {
    pub(super) fn keys(&mut self, keys: &mut dyn Keys) {
        self.source.keys(keys);
        keys.map("parameters", &mut self.parameters);
        keys.key("scale_m", &mut self.scale_m, metres);
        keys.optional("min_m", &mut self.min_m, metres);
        keys.optional("max_m", &mut self.max_m, metres);
        keys.key("bound_ms", &mut self.bound_ms, real(0.0..=60_000.0));
    }

    /// Checks combinations of keys, and resolves relative paths against `directory`. `pace` is that of the stream.
    pub(super) fn validate(&mut self, table: &Table<'_>, directory: &Path, pace: Pace) {
        table.need("scale_m");
        let kind = validate_source(&mut self.source, table, directory);
        if kind.is_some_and(|kind| !kind.is_clip()) && pace == Pace::EveryFrame {
            let message = "a live source cannot follow the pace \"every-frame\" of the stream; expected a file here, or the \
                           pace \"realtime\"";
            table.refuse("source", message);
        }
        if let (Some(min_m), Some(max_m)) = (self.min_m, self.max_m)
            && max_m < min_m
        {
            table.refuse(
                "max_m",
                format!("{max_m} is less than `min_m`; expected at least {min_m}"),
            );
        }
    }

    /// The meaning of the depth samples.
    pub fn scale(&self) -> DepthScale {
        DepthScale {
            unit_m: self.scale_m,
            min_m: self.min_m.unwrap_or(0.0),
            max_m: self.max_m.unwrap_or(f64::INFINITY),
        }
    }

    /// The bound in nanoseconds.
    #[expect(clippy::cast_possible_truncation, reason = "at most 60 s")]
    #[expect(clippy::cast_sign_loss, reason = "at least 0")]
    pub fn bound_ns(&self) -> u64 {
        (self.bound_ms * 1e6).round() as u64
    }
}

impl StreamConfig {
    /// The views of the stream need what it has.
    pub(super) fn validate_depth_of_views(&self, tables: &[Table<'_>]) {
        for (view, table) in self.views.iter().zip(tables) {
            let without_depth =
                "the stream has no depth; expected [stream.depth] beside [[stream.view]]";
            let without_camera = "`boxes` needs the camera's rays; expected [stream.camera] with a `calibration` beside \
                                  [[stream.view]]";
            if view.boxes && self.camera.is_none() {
                table.refuse("boxes", without_camera);
            }
            if self.depth.is_none() {
                for (key, wants) in [
                    ("depth", view.depth != foveate_core::depth::DepthDetail::None),
                    ("boxes", view.boxes),
                ] {
                    if wants {
                        table.refuse(key, without_depth);
                    }
                }
            }
        }
    }
}
