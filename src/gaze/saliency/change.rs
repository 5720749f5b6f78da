//! Change against a slowly adapting background, in excess of what is usual at each place.

use super::aligned::{Aligned, RowPlaces, shares};
use foveate_core::geometry::affine::Affine;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::tile::TileSet;

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

/// Background model. It moves along with the picture if the camera moves; what comes into sight is unknown at first, a NaN.
#[derive(Clone, Debug)]
pub(crate) struct Background {
    aligned: Aligned,
    /// Level of each sample.
    level: Vec<f32>,
    /// Usual distance of each sample from its level.
    unrest: Vec<f32>,
    is_empty: bool,
    /// Whether the picture that is absorbed next was found to be of another scene.
    is_cut: bool,
    places: RowPlaces,
    /// For the samples of a row: the distance from the model, and the excess of that distance over the usual one.
    row: [Vec<f32>; 2],
}

impl Background {
    pub(crate) fn new(grid: Extent) -> Self {
        let zeros = vec![0.0; 3 * grid.area()];
        let row = vec![0.0; 3 * grid.width as usize];
        Self {
            aligned: Aligned::new(grid),
            level: zeros.clone(),
            unrest: zeros,
            is_empty: true,
            is_cut: false,
            places: RowPlaces::new(grid),
            row: [row.clone(), row],
        }
    }

    /// The next picture has moved against the one before; places are in texels. `None` if it is not known how, so that a model that was
    /// moved fits no longer.
    pub(super) fn follow(&mut self, before_from_now: Option<Affine>) {
        match before_from_now {
            Some(map) => self.aligned.follow(map, [&mut self.level, &mut self.unrest]),
            None => self.is_empty |= !self.aligned.is_still(),
        }
    }

    /// Writes the change of each texel, 0..=1. At a scene cut that is 0, and the model starts over with the picture once it is absorbed.
    /// Returns whether it is one.
    pub(crate) fn change_into(&mut self, samples: &[u8], change: &mut [f32]) -> bool {
        if self.is_empty {
            self.begin(samples);
        }
        self.is_cut = if self.aligned.is_still() {
            self.still_change_into(samples, change)
        } else {
            self.moved_change_into(samples, change)
        };
        if self.is_cut {
            change.fill(0.0);
        }
        self.is_cut
    }

    /// The change of each texel where the model lies texel on texel. Returns whether the scene is another one.
    fn still_change_into(&mut self, samples: &[u8], change: &mut [f32]) -> bool {
        let Self { level, unrest, row: [offs, excesses], .. } = self;
        let (width, mut differences) = (offs.len(), [0.0; LANES]);
        let models = level.chunks_exact(width).zip(unrest.chunks_exact(width));
        let rows = samples.chunks_exact(width).zip(change.chunks_exact_mut(width / 3));
        for ((samples, change), (levels, unrests)) in rows.zip(models) {
            let models = levels.iter().zip(unrests);
            let measured = offs.iter_mut().zip(excesses.iter_mut());
            for ((sample, (level, unrest)), (off, excess)) in
                samples.iter().zip(models).zip(measured)
            {
                *off = (f32::from(*sample) - level).abs();
                *excess = excess_of(*off, *unrest);
            }
            add_in_lanes(&mut differences, offs);
            for (change, excesses) in change.iter_mut().zip(excesses.as_chunks::<3>().0) {
                *change = change_of(excesses);
            }
        }
        CUT * samples.len() as f32 <= differences.iter().sum()
    }

    /// Forgets what was seen in `texels` of the newest picture, which are black in it.
    pub(crate) fn apply_mask(&mut self, texels: &TileSet) {
        if self.aligned.is_still() {
            for index in texels.indices() {
                self.level[3 * index..][..3].fill(0.0);
                self.unrest[3 * index..][..3].fill(0.0);
            }
            return;
        }
        let Self { aligned, level, unrest, places, row: [row, _], .. } = self;
        let width = row.len();
        let models = level.chunks_exact_mut(width).zip(unrest.chunks_exact_mut(width));
        for (index, (levels, unrests)) in models.enumerate() {
            aligned.places_in_picture(index, places);
            for (run, near) in places.runs() {
                for at in (0..run.len()).step_by(3) {
                    if near.into_iter().any(|near| texels.contains_index((near + at) / 3)) {
                        levels[run.start + at..][..3].fill(f32::NAN);
                        unrests[run.start + at..][..3].fill(f32::NAN);
                    }
                }
            }
        }
    }

    /// Starts over with the next picture.
    pub(crate) fn forget(&mut self) {
        self.is_empty = true;
    }

    /// Adapts to a picture, `elapsed_s` seconds after the one before.
    pub(crate) fn absorb(&mut self, samples: &[u8], elapsed_s: f32) {
        if self.is_empty || std::mem::take(&mut self.is_cut) {
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

    /// Measures change where the model is shifted by fractions of a texel. A value between the model's texels around its place does not count
    /// as change.
    fn moved_change_into(&mut self, samples: &[u8], change: &mut [f32]) -> bool {
        let (mut difference, mut count) = (0.0, 0.0);
        let Self { aligned, level, unrest, places, row: [offs, excesses], .. } = self;
        let width = offs.len();
        let rows = samples.chunks_exact(width).zip(change.chunks_exact_mut(width / 3));
        for (index, (samples, change)) in rows.enumerate() {
            offs.fill(f32::NAN);
            aligned.places_in_model(index, places);
            for (run, near) in places.runs() {
                let around = |near: usize| near..near + run.len();
                let levels = near.map(|near| &level[around(near)]);
                let unrests = near.map(|near| &unrest[around(near)]);
                let measured = (&mut offs[run.clone()], &mut excesses[run.clone()]);
                measure_moved(&samples[run], levels, unrests, measured);
            }
            let measured = offs.as_chunks::<3>().0.iter().zip(excesses.as_chunks::<3>().0);
            for (change, (offs, excesses)) in change.iter_mut().zip(measured) {
                *change = 0.0;
                let off_all = offs[0] + offs[1] + offs[2];
                if !off_all.is_nan() {
                    difference += off_all;
                    count += 3.0;
                    *change = change_of(excesses);
                }
            }
        }
        CUT * count <= difference
    }

    fn absorb_moved(&mut self, samples: &[u8], step: f32, share: f32) {
        let Self { aligned, level, unrest, places, row: [row, _], .. } = self;
        let width = row.len();
        let models = level.chunks_exact_mut(width).zip(unrest.chunks_exact_mut(width));
        for (index, (levels, unrests)) in models.enumerate() {
            aligned.places_in_picture(index, places);
            for (run, near) in places.runs() {
                let near = near.map(|near| &samples[near..][..run.len()]);
                let parts = places.parts(run.clone());
                let models = (&mut levels[run.clone()], &mut unrests[run]);
                absorb_between(models, near, parts, (step, share));
            }
        }
    }

    fn begin(&mut self, samples: &[u8]) {
        self.aligned.restart();
        for (level, sample) in self.level.iter_mut().zip(samples) {
            *level = f32::from(*sample);
        }
        self.unrest.fill(0.0);
        (self.is_empty, self.is_cut) = (false, false);
    }
}

/// Lanes that a sum over a picture is made in: a single running sum would be bound by its latency.
const LANES: usize = 8;

fn add_in_lanes(sums: &mut [f32; LANES], values: &[f32]) {
    let (chunks, rest) = values.as_chunks::<LANES>();
    for chunk in chunks {
        for lane in 0..LANES {
            sums[lane] += chunk[lane];
        }
    }
    for (sum, value) in sums.iter_mut().zip(rest) {
        *sum += value;
    }
}

/// The excess of a distance over the usual one; 0 for NaN.
#[inline(always)]
fn excess_of(off: f32, unrest: f32) -> f32 {
    let excess = off - NOISE - USUAL_FACTOR * unrest;
    if 0.0 < excess { excess } else { 0.0 }
}

/// The change of a texel by the excess of its samples, 0..=1.
#[inline(always)]
fn change_of(excesses: &[f32; 3]) -> f32 {
    let excess = excesses[0] + excesses[1] + excesses[2];
    excess / (excess + HALF_CHANGE)
}

/// Measures the distance of samples from the levels around their places, and the excess of the distance over the usual one there. The
/// distance is NaN where one of the levels is NaN.
#[inline(always)]
fn measure_moved(
    samples: &[u8],
    levels: [&[f32]; 4],
    unrests: [&[f32]; 4],
    (offs, excesses): (&mut [f32], &mut [f32]),
) {
    let count = samples.len();
    let (levels, unrests) =
        (levels.map(|levels| &levels[..count]), unrests.map(|unrests| &unrests[..count]));
    let (offs, excesses) = (&mut offs[..count], &mut excesses[..count]);
    for index in 0..count {
        let [a, b, c, d] = levels.map(|levels| levels[index]);
        let (least, most) = (less(less(less(a, b), c), d), more(more(more(a, b), c), d));
        let sample = f32::from(samples[index]);
        let off = more(more(sample - most, least - sample), 0.0);
        let [p, q, r, s] = unrests.map(|unrests| unrests[index]);
        let unrest = more(more(more(more(p, 0.0), q), r), s);
        offs[index] = off + 0.0 * (a + b + c + d);
        excesses[index] = excess_of(off, unrest);
    }
}

/// Adapts levels and what is usual at them, along with the samples between which they lie; takes the samples where nothing is known.
#[inline(always)]
fn absorb_between(
    (levels, unrests): (&mut [f32], &mut [f32]),
    near: [&[u8]; 4],
    [across, down]: [&[f32]; 2],
    (step, share): (f32, f32),
) {
    let count = levels.len();
    let near = near.map(|near| &near[..count]);
    let (unrests, across, down) = (&mut unrests[..count], &across[..count], &down[..count]);
    for index in 0..count {
        let shares = shares(across[index], down[index]);
        let [a, b, c, d] = near.map(|near| f32::from(near[index]));
        let sample = a * shares[0] + b * shares[1] + c * shares[2] + d * shares[3];
        let off = sample - levels[index];
        let is_new = off.is_nan();
        let unrest = unrests[index] + share * (off.abs() - unrests[index]);
        let level = levels[index] + less(more(off, -step), step);
        unrests[index] = if is_new { 0.0 } else { unrest };
        levels[index] = if is_new { sample } else { level };
    }
}

/// The lesser of two numbers. A single instruction, as `f32::min` is not: if one is NaN, the second.
#[inline(always)]
fn less(a: f32, b: f32) -> f32 {
    if a < b { a } else { b }
}

/// The greater of two numbers, by a comparison that vectorises.
#[inline(always)]
fn more(a: f32, b: f32) -> f32 {
    if b < a { a } else { b }
}
