//! What changes against a slow background, and more than it always does there.

use crate::geometry::extent::Extent;

/// How fast the background follows, in levels of 256 per second. A step no wider than its error makes it a running median, which
/// hardly sees what passes.
const FOLLOWED_PER_S: f32 = 10.0;

/// Time in seconds in which a place gets used to its own unrest, as leaves or a screen have it.
const HABITUATION_S: f32 = 4.0;

/// By how much a change must exceed the usual one of its place.
const USUAL_FACTOR: f32 = 2.0;

/// Below this a difference of a sample is noise, in levels of 256.
const NOISE: f32 = 5.0;

/// The difference, summed over the samples of a texel, that counts half of the greatest: what is seen at all is seen clearly.
const HALF_CHANGE: f32 = 40.0;

/// A mean difference over the picture, in levels of 256, that makes it another scene.
const CUT: f32 = 30.0;

/// What the picture looks like without what passes.
#[derive(Clone, Debug)]
pub(super) struct Background {
    /// Of each sample.
    level: Vec<f32>,
    /// The usual distance of each sample from its level.
    unrest: Vec<f32>,
    is_empty: bool,
}

impl Background {
    pub(super) fn new(grid: Extent) -> Self {
        let zeros = vec![0.0; 3 * grid.area()];
        Self { level: zeros.clone(), unrest: zeros, is_empty: true }
    }

    /// Says of each texel how much it changes, 0..=1, and begins anew if the scene is another one.
    pub(super) fn change_into(&mut self, samples: &[u8], change: &mut [f32]) {
        if self.is_empty {
            self.begin(samples);
        }
        let mut difference = 0.0;
        let levels = self.level.as_chunks::<3>().0.iter().zip(self.unrest.as_chunks::<3>().0);
        let texels = samples.as_chunks::<3>().0.iter().zip(levels);
        for (change, (samples, (levels, unrests))) in change.iter_mut().zip(texels) {
            let mut excess = 0.0;
            for ((sample, level), unrest) in samples.iter().zip(levels).zip(unrests) {
                let off = (f32::from(*sample) - level).abs();
                difference += off;
                excess += (off - NOISE - USUAL_FACTOR * unrest).max(0.0);
            }
            *change = excess / (excess + HALF_CHANGE);
        }
        if CUT * samples.len() as f32 <= difference {
            self.begin(samples);
            change.fill(0.0);
        }
    }

    /// Takes a picture in, `elapsed_s` seconds after the one before.
    pub(super) fn absorb(&mut self, samples: &[u8], elapsed_s: f32) {
        if self.is_empty {
            self.begin(samples);
        }
        let step = FOLLOWED_PER_S * elapsed_s;
        let share = 1.0 - (-elapsed_s / HABITUATION_S).exp();
        for ((sample, level), unrest) in samples.iter().zip(&mut self.level).zip(&mut self.unrest) {
            let off = f32::from(*sample) - *level;
            *unrest += share * (off.abs() - *unrest);
            *level += off.clamp(-step, step);
        }
    }

    fn begin(&mut self, samples: &[u8]) {
        for (level, sample) in self.level.iter_mut().zip(samples) {
            *level = f32::from(*sample);
        }
        self.unrest.fill(0.0);
        self.is_empty = false;
    }
}
