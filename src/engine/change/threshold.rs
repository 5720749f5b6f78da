//! The threshold of change detection: fixed, or adapted to the noise.

use super::light::LightSwing;
use super::noise::NoiseEstimator;
use foveate_core::change::Threshold;
use foveate_core::frame::{FrameKind, FrameView, PixelFormat};

/// Gives each frame its threshold, which depends only on the frames before it.
#[derive(Clone, Debug)]
pub struct ThresholdSource {
    /// The threshold of the newest frame.
    current: u8,
    /// `None` if the threshold is fixed.
    adaptive: Option<AdaptiveThreshold>,
}

/// Adapts the threshold to the noise, and to light that flickers.
#[derive(Clone, Debug)]
struct AdaptiveThreshold {
    noise: NoiseEstimator,
    light: LightSwing,
    format: PixelFormat,
    limit: u8,
    /// The noise estimate so far.
    sigma: Option<f64>,
}

impl ThresholdSource {
    /// The thresholds of frames of `kind`, before the first.
    pub fn new(kind: FrameKind, config: Threshold) -> Self {
        match config {
            Threshold::Fixed(threshold) => Self { current: threshold, adaptive: None },
            Threshold::Auto { limit } | Threshold::BySource { limit } => {
                let (noise, light) = (NoiseEstimator::new(kind), LightSwing::new(kind));
                let adaptive =
                    AdaptiveThreshold { noise, light, format: kind.format, limit, sigma: None };
                Self { current: 0, adaptive: Some(adaptive) }
            }
        }
    }

    /// Returns the threshold of the next frame, from those before it.
    pub fn advance(&mut self) -> u8 {
        if let Some(adaptive) = &self.adaptive {
            self.current = adaptive.threshold();
        }
        self.current
    }

    /// Updates the estimates from the newest frame: a few hundred of its blocks.
    pub fn observe(&mut self, frame: &FrameView<'_>) {
        if let Some(adaptive) = &mut self.adaptive {
            adaptive.noise.observe(frame);
            adaptive.sigma = adaptive.noise.sigma();
            adaptive.light.observe(frame, adaptive.sigma.unwrap_or(0.0));
        }
    }

    /// The threshold of the newest frame; 0 before the first if it follows the noise.
    pub fn current(&self) -> u8 {
        self.current
    }

    /// The noise of a sample, as in [`NoiseEstimator::sigma`]; also `None` if the threshold is fixed.
    pub fn sigma(&self) -> Option<f64> {
        self.adaptive.as_ref().and_then(|adaptive| adaptive.sigma)
    }

    /// Upper limit of the threshold; `None` if it is fixed.
    pub fn limit(&self) -> Option<u8> {
        self.adaptive.as_ref().map(|adaptive| adaptive.limit)
    }
}

impl AdaptiveThreshold {
    fn threshold(&self) -> u8 {
        let of_noise = threshold_for(self.sigma.unwrap_or(0.0), self.format);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
        let of_light = self.light.steps().ceil() as u8;
        of_noise.saturating_add(of_light).min(self.limit)
    }
}

/// The smallest threshold that keeps a still tile clean with a probability of at least 99 %, in Gaussian noise of
/// standard deviation `sigma`, in steps of 8 bits.
///
/// Two samples of the same place differ by noise of deviation `sigma` * sqrt(2). Rounding both moves their difference by
/// at most a step, so one of at least t + 1 was at least t before. A tile has N samples, and it is clean with a
/// probability of at least (1 - 2 Q(t / (`sigma` sqrt(2))))^N, where Q is the upper tail of the normal distribution. That
/// is 99 % at t = c * `sigma` with c = sqrt(2) Q^-1((1 - 0.99^(1 / N)) / 2).
/// A copy taken from a very noisy frame is soon replaced, so in the long run tiles stay clean longer.
#[expect(clippy::cast_possible_truncation, reason = "a float saturates")]
pub fn threshold_for(sigma: f64, format: PixelFormat) -> u8 {
    (thresholds_per_sigma(format) * sigma).ceil() as u8
}

/// c, for the number of samples of a tile in a format.
fn thresholds_per_sigma(format: PixelFormat) -> f64 {
    match format {
        // 1024 samples.
        PixelFormat::Gray8 => 6.2525,
        // 1536 samples.
        PixelFormat::Nv12 | PixelFormat::I420 => 6.3753,
        // 2048 samples.
        PixelFormat::Yuy2 => 6.4611,
        // 3072 samples.
        _ => 6.5803,
    }
}
