//! Scorers: compute relevance from channels, by an affine normalisation and one or two small convolutions.

use std::collections::BTreeMap;

use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::relevance::RelevanceMap;

mod file;

pub use self::file::{ScorerError, ScorerMistake};

/// Scores are within so many octaves of 0: relevance of 1/16 to 16.
pub const OCTAVES_MAX: f32 = 4.0;

/// Most outputs of the first of two convolutions.
pub const FEATURES_MAX: usize = 64;

/// Reads channels, and gives each cell a score: the binary logarithm of its relevance.
///
/// All sums are of f32, in the order of the channels and within them of the kernel's rows and columns, so the score has the same
/// bits on any processor.
#[derive(Clone, Debug, PartialEq)]
pub struct Scorer {
    inputs: Vec<Input>,
    layers: Vec<Convolution>,
}

/// A channel that a scorer reads, and its normalisation: (value - mean) / std.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Input {
    pub(super) name: String,
    pub(super) mean: f32,
    pub(super) std: f32,
}

/// A convolution of 1 x 1 or 3 x 3; beyond the edge its input is 0.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Convolution {
    pub(super) outputs: usize,
    pub(super) side: usize,
    /// Weights by output, input, row and column.
    pub(super) weights: Vec<f32>,
    pub(super) bias: Vec<f32>,
}

/// What the untrained scorer adds up, in octaves for each of a channel's units. `docs/reference/relevance.md` says where they come from.
const UNTRAINED: &[(&str, f32)] = &[
    ("entropy", 1.0),
    ("high_pass", 4.0),
    ("strokes", 4.0),
    ("intensity", 1.0),
    ("red_green", 1.0),
    ("blue_yellow", 1.0),
    ("change", 12.0),
    ("unseen", 3.0),
    ("relevance", 0.5),
    ("eccentricity", -0.5),
];

impl Scorer {
    /// The scorer that needs no training: information, salience, and what was not looked at for long.
    pub fn untrained() -> Self {
        Self::weighted(UNTRAINED.iter().map(|&(name, weight)| (name.to_owned(), weight)))
    }

    /// The sum of channels, each by its weight.
    pub fn weighted(weights: impl IntoIterator<Item = (String, f32)>) -> Self {
        let (names, weights): (Vec<_>, Vec<_>) = weights.into_iter().unzip();
        let input = |name| Input { name, mean: 0.0, std: 1.0 };
        let layer = Convolution { outputs: 1, side: 1, weights, bias: vec![0.0] };
        Self { inputs: names.into_iter().map(input).collect(), layers: vec![layer] }
    }

    /// Names of the channels that it reads.
    pub fn channels(&self) -> impl Iterator<Item = &str> {
        self.inputs.iter().map(|input| input.name.as_str())
    }

    /// The score of each cell of `grid`, in octaves, row by row, to which `weights` add their channels. `channel` gives the cells of a
    /// channel; one that is not there counts as its mean everywhere.
    pub fn score<'a>(
        &self,
        grid: Extent,
        channel: impl Fn(&str) -> Option<&'a [f32]>,
        weights: &BTreeMap<String, f32>,
    ) -> Vec<f32> {
        let mut planes: Vec<Vec<f32>> = self
            .inputs
            .iter()
            .map(|input| {
                let normalised = |value: &f32| (value - input.mean) / input.std;
                let given =
                    channel(&input.name).map(|cells| cells.iter().map(normalised).collect());
                given.unwrap_or_else(|| vec![0.0; grid.area()])
            })
            .collect();
        for (number, layer) in self.layers.iter().enumerate() {
            if number != 0 {
                planes.iter_mut().flatten().for_each(|value| *value = value.max(0.0));
            }
            planes = layer.applied(grid, &planes);
        }
        let mut score = planes.swap_remove(0);
        settle(&mut score);
        if weights.is_empty() {
            return score;
        }
        for (name, weight) in weights {
            let Some(cells) = channel(name) else { continue };
            for (score, value) in score.iter_mut().zip(cells) {
                *score += weight * value;
            }
        }
        settle(&mut score);
        score
    }
}

/// 2 to the power of each score, within 1 %.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
pub fn relevance_of(score: &[f32]) -> Vec<f32> {
    let code = |octaves: &f32| (128.0 + 32.0 * octaves).round().clamp(0.0, 255.0) as u8;
    let codes: Vec<u8> = score.iter().map(code).collect();
    let grid = Extent::new(codes.len() as u32, 1);
    RelevanceMap::from_codes(grid, &codes).weights().iter().map(|weight| *weight as f32).collect()
}

/// Makes scores relative to their mean, and bounds them: at the top by scaling, so that their order stays.
fn settle(score: &mut [f32]) {
    let mean = score.iter().sum::<f32>() / score.len() as f32;
    let greatest = score.iter().map(|score| score - mean).fold(OCTAVES_MAX, f32::max);
    for score in score {
        *score = ((*score - mean) * (OCTAVES_MAX / greatest)).max(-OCTAVES_MAX);
    }
}

impl Convolution {
    fn applied(&self, grid: Extent, inputs: &[Vec<f32>]) -> Vec<Vec<f32>> {
        let (width, taps) = (grid.width as usize, self.side * self.side);
        let mut outputs: Vec<Vec<f32>> =
            self.bias.iter().map(|bias| vec![*bias; grid.area()]).collect();
        for (output, weights) in
            outputs.iter_mut().zip(self.weights.chunks((inputs.len() * taps).max(1)))
        {
            for (input, weights) in inputs.iter().zip(weights.chunks(taps)) {
                for (tap, weight) in weights.iter().enumerate() {
                    let reach = self.side / 2;
                    add_shifted(
                        output,
                        input,
                        width,
                        (tap % self.side, tap / self.side),
                        reach,
                        *weight,
                    );
                }
            }
        }
        outputs
    }
}

/// Adds `weight` times the cells that lie (`column` - `reach`, `row` - `reach`) from each.
fn add_shifted(
    output: &mut [f32],
    input: &[f32],
    width: usize,
    (column, row): (usize, usize),
    reach: usize,
    weight: f32,
) {
    let height = input.len() / width;
    for y in reach.saturating_sub(row)..height.min(height + reach - row) {
        let from = &input[(y + row - reach) * width..][..width];
        let to = &mut output[y * width..][..width];
        let start = reach.saturating_sub(column);
        let end = width.min(width + reach - column).max(start);
        for (output, input) in to[start..end].iter_mut().zip(&from[start + column - reach..]) {
            *output += weight * input;
        }
    }
}
