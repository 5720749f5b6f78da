//! Change against a slowly adapting background, in excess of what is usual at each place.

use super::aligned::{Aligned, Bilinear};
use crate::geometry::affine::Affine;
use crate::geometry::extent::Extent;
use crate::geometry::tile::TileSet;

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

/// Background model. It is moved along with the picture, if the camera moves; what comes into sight is unknown at first, a NaN.
#[derive(Clone, Debug)]
pub(crate) struct Background {
    aligned: Aligned,
    /// Of each sample.
    level: Vec<f32>,
    /// Usual distance of each sample from its level.
    unrest: Vec<f32>,
    is_empty: bool,
}

impl Background {
    pub(crate) fn new(grid: Extent) -> Self {
        let zeros = vec![0.0; 3 * grid.area()];
        let aligned = Aligned::new(grid);
        Self { aligned, level: zeros.clone(), unrest: zeros, is_empty: true }
    }

    /// The next picture has moved against the one before; places are in texels. `None` if it is not known how, so that a model that was
    /// moved fits no longer.
    pub(super) fn follow(&mut self, before_from_now: Option<Affine>) {
        match before_from_now {
            Some(map) => self.aligned.follow(map, [&mut self.level, &mut self.unrest]),
            None => self.is_empty |= !self.aligned.is_still(),
        }
    }

    /// Writes the change of each texel, 0..=1; starts over at a scene cut. Returns whether it did.
    pub(crate) fn change_into(&mut self, samples: &[u8], change: &mut [f32]) -> bool {
        if self.is_empty {
            self.begin(samples);
        }
        if !self.aligned.is_still() {
            return self.moved_change_into(samples, change);
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

    /// Forgets what was seen in `texels` of the newest picture, which are black in it.
    pub(crate) fn hide(&mut self, texels: &TileSet) {
        if self.aligned.is_still() {
            for index in texels.indices() {
                self.level[3 * index..][..3].fill(0.0);
                self.unrest[3 * index..][..3].fill(0.0);
            }
            return;
        }
        for index in 0..self.level.len() / 3 {
            let Some(near) = self.aligned.picture_at(index) else { continue };
            if near.texels.into_iter().any(|texel| texels.contains_index(texel)) {
                self.level[3 * index..][..3].fill(f32::NAN);
                self.unrest[3 * index..][..3].fill(f32::NAN);
            }
        }
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
        if !self.aligned.is_still() {
            return self.absorb_moved(samples, step, share);
        }
        for ((sample, level), unrest) in samples.iter().zip(&mut self.level).zip(&mut self.unrest) {
            let off = f32::from(*sample) - *level;
            *unrest += share * (off.abs() - *unrest);
            *level += off.clamp(-step, step);
        }
    }

    /// The same where the model does not lie texel on texel: what is between the model's texels around a place is no change.
    fn moved_change_into(&mut self, samples: &[u8], change: &mut [f32]) -> bool {
        let (mut difference, mut count) = (0.0, 0.0);
        let Self { aligned, level, unrest, .. } = self;
        for (index, (change, texel)) in
            change.iter_mut().zip(samples.as_chunks::<3>().0).enumerate()
        {
            *change = 0.0;
            let Some(near) = aligned.model_at(index) else { continue };
            let mut excess = 0.0;
            let mut off_all = 0.0;
            for (channel, sample) in texel.iter().enumerate() {
                let levels = near.texels.map(|texel| level[3 * texel + channel]);
                let unrests = near.texels.map(|texel| unrest[3 * texel + channel]);
                let (least, most) = (
                    levels.into_iter().fold(f32::MAX, f32::min),
                    levels.into_iter().fold(f32::MIN, f32::max),
                );
                let sample = f32::from(*sample);
                let off = (sample - most).max(least - sample).max(0.0);
                // NaN, if one of them is unknown.
                off_all += off + 0.0 * levels.into_iter().sum::<f32>();
                excess +=
                    (off - NOISE - USUAL_FACTOR * unrests.into_iter().fold(0.0, f32::max)).max(0.0);
            }
            if off_all.is_nan() {
                continue;
            }
            difference += off_all;
            count += 3.0;
            *change = excess / (excess + HALF_CHANGE);
        }
        let is_cut = CUT * count <= difference;
        if is_cut {
            self.begin(samples);
            change.fill(0.0);
        }
        is_cut
    }

    fn absorb_moved(&mut self, samples: &[u8], step: f32, share: f32) {
        let Self { aligned, level, unrest, .. } = self;
        let models = level.as_chunks_mut::<3>().0.iter_mut().zip(unrest.as_chunks_mut::<3>().0);
        for (index, (levels, unrests)) in models.enumerate() {
            let Some(Bilinear { texels, shares }) = aligned.picture_at(index) else { continue };
            for channel in 0..3 {
                let near = texels.map(|texel| f32::from(samples[3 * texel + channel]));
                let sample: f32 =
                    near.into_iter().zip(shares).map(|(near, share)| near * share).sum();
                let (level, unrest) = (&mut levels[channel], &mut unrests[channel]);
                let off = sample - *level;
                if off.is_nan() {
                    (*level, *unrest) = (sample, 0.0);
                    continue;
                }
                *unrest += share * (off.abs() - *unrest);
                *level += off.clamp(-step, step);
            }
        }
    }

    fn begin(&mut self, samples: &[u8]) {
        self.aligned.restart();
        for (level, sample) in self.level.iter_mut().zip(samples) {
            *level = f32::from(*sample);
        }
        self.unrest.fill(0.0);
        self.is_empty = false;
    }
}
