//! `[stream.view.gaze]`: where a view looks.

use std::ops::Range;
use std::path::{self, Path, PathBuf};

use foveate_core::gaze::parameters::GazeParameters;
use serde::Deserialize;

use super::error::Refusal;
use super::values::{Fraction, GazePolicy, Maybe, OneOf, Real, Text, Whole, value};

/// Where a view looks, and how its eye moves.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GazeConfig {
    /// Who chooses.
    pub choice: GazeChoice,
    /// How the eye moves.
    pub parameters: GazeParameters,
}

/// Who chooses where a view looks.
#[derive(Clone, Debug, PartialEq)]
pub enum GazeChoice {
    /// One point, until a client moves it.
    Fixed {
        /// From 0 at the left edge of the source to 1 at the right one.
        x: f64,
        /// From 0 at the top edge of the source to 1 at the bottom one.
        y: f64,
    },
    /// The attention that clients send, and saliency where they are silent.
    Feedback,
    /// What stands out or moves.
    Saliency,
    /// A recorded gaze log.
    Replay {
        /// The log.
        log: PathBuf,
    },
}

impl GazeChoice {
    /// Its name in configurations.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Fixed { .. } => "fixed",
            Self::Feedback => "feedback",
            Self::Saliency => "saliency",
            Self::Replay { .. } => "replay",
        }
    }

    /// Whether the attention of clients decides.
    pub const fn is_feedback(&self) -> bool {
        matches!(self, Self::Feedback)
    }
}

impl Default for GazeChoice {
    /// Fixed on the middle of the image.
    fn default() -> Self {
        Self::Fixed { x: 0.5, y: 0.5 }
    }
}

/// The table as it stands in a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GazeTable {
    policy: Maybe<OneOf<GazePolicy>>,
    x: Maybe<Fraction>,
    y: Maybe<Fraction>,
    log: Maybe<Text>,
    saccade_hz: Maybe<Real<1, 100_000>>,
    dwell_min_ms: Maybe<Whole<0, 10_000>>,
    hysteresis: Maybe<Real<100, 1_000>>,
    inhibition: Maybe<Real<0, 100>>,
    inhibition_decay_ms: Maybe<Whole<1, 60_000>>,
    inhibition_radius: Maybe<Real<1, 100>>,
    centre_prior: Maybe<Real<0, 100>>,
    relevance_gain: Maybe<Real<0, 100>>,
    silence_ms: Maybe<Whole<1, 3_600_000>>,
    lease_ms: Maybe<Whole<1, 3_600_000>>,
}

impl GazeTable {
    /// Checks it; a relative path in it starts at `directory`.
    pub(super) fn checked(self, directory: &Path) -> Result<GazeConfig, Refusal> {
        let policy_span = self.policy.as_ref().map_or(0..0, |policy| policy.span());
        let policy = self.policy.as_ref().map_or(GazePolicy::Fixed, |policy| policy.get_ref().0);
        self.check_against(policy)?;
        let default = GazeParameters::default();
        let parameters = GazeParameters {
            saccade_hz: value(self.saccade_hz, default.saccade_hz),
            dwell_min_ms: value(self.dwell_min_ms, default.dwell_min_ms),
            hysteresis: value(self.hysteresis, default.hysteresis),
            inhibition: value(self.inhibition, default.inhibition),
            inhibition_decay_ms: value(self.inhibition_decay_ms, default.inhibition_decay_ms),
            inhibition_radius: value(self.inhibition_radius, default.inhibition_radius),
            centre_prior: value(self.centre_prior, default.centre_prior),
            relevance_gain: value(self.relevance_gain, default.relevance_gain),
            silence_ms: value(self.silence_ms, default.silence_ms),
            lease_ms: value(self.lease_ms, default.lease_ms),
        };
        let choice = match policy {
            GazePolicy::Fixed => GazeChoice::Fixed { x: value(self.x, 0.5), y: value(self.y, 0.5) },
            GazePolicy::Feedback => GazeChoice::Feedback,
            GazePolicy::Saliency => GazeChoice::Saliency,
            GazePolicy::Replay => {
                let Some(log) = self.log else {
                    let message =
                        "expected `log` beside it, the path of a log that `foveate record` wrote";
                    return Err(Refusal::new(policy_span, message));
                };
                let log = directory.join(log.into_inner().0);
                // It stays the same file when a view is set from elsewhere.
                GazeChoice::Replay { log: path::absolute(&log).unwrap_or(log) }
            }
        };
        Ok(GazeConfig { choice, parameters })
    }

    /// Refuses what belongs to another policy.
    fn check_against(&self, policy: GazePolicy) -> Result<(), Refusal> {
        let only = |given: Option<Range<usize>>, with: GazePolicy, word: &str| match given {
            Some(span) if policy != with => {
                let message = format!("expected this key only with the policy \"{word}\"");
                Err(Refusal::new(span, message))
            }
            _ => Ok(()),
        };
        only(self.x.as_ref().map(|x| x.span()), GazePolicy::Fixed, "fixed")?;
        only(self.y.as_ref().map(|y| y.span()), GazePolicy::Fixed, "fixed")?;
        only(self.log.as_ref().map(|log| log.span()), GazePolicy::Replay, "replay")
    }
}
