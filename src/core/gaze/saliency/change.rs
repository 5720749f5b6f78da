//! Change against a slowly adapting background, in excess of what is usual at each place.

use crate::geometry::extent::Extent;

/// Adaptation rate of the background, in levels of 256 per second. With steps no wider than the error it is a running median,
/// which passing objects hardly affect.
const FOLLOWED_PER_S: f32 = 10.0;

/// Time constant in seconds of habituation to restless places, such as leaves or screens.
const HABITUATION_S: f32 = 4.0;

/// Factor by which change must exceed what is usual at its place.
const USUAL_FACTOR: f32 = 2.0;

/// Noise of a sample, in levels of 256.
const NOISE: f32 = 5.0;

/// Difference, summed over the samples of a texel, at which change is 1/2: soft saturation.
const HALF_CHANGE: f32 = 40.0;

/// Mean difference over the picture, in levels of 256, that counts as a scene cut.
const CUT: f32 = 30.0;

/// Background model.
#[derive(Clone, Debug)]
pub(crate) struct Background {
    /// Of each sample.
    level: Vec<f32>,
    /// Usual distance of each sample from its level.
    unrest: Vec<f32>,
    is_empty: bool,
}

impl Background {
    pub(crate) fn new(grid: Extent) -> Self {
        let zeros = vec![0.0; 3 * grid.area()];
        Self { level: zeros.clone(), unrest: zeros, is_empty: true }
    }

    /// Writes the change of each texel, 0..=1; starts over at a scene cut. Returns whether it did.
    pub(crate) fn change_into(&mut self, samples: &[u8], change: &mut [f32]) -> bool {
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
        let is_cut = CUT * samples.len() as f32 <= difference;
        if is_cut {
            self.begin(samples);
            change.fill(0.0);
        }
        is_cut
    }

    /// Starts over with the next picture.
    pub(crate) fn forget(&mut self) {
        self.is_empty = true;
    }

    /// Adapts to a picture, `elapsed_s` seconds after the one before.
    pub(crate) fn absorb(&mut self, samples: &[u8], elapsed_s: f32) {
        if self.is_empty {
            self.begin(samples);
        }
        let step = FOLLOWED_PER_S * elapsed_s;
        let share = elapsed_s / (elapsed_s + HABITUATION_S);
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
