//! The places of the best scores of a row.

use std::cmp::Ordering;

use crate::lanes::{LANES, Lanes};

/// Once so few scores are left to choose from they are compared one by one.
const FEW: usize = 64;

/// The second guess differs so many standard deviations from the first.
const FIRST_STEP: f32 = 0.2;

/// After so many guesses all scores that are left are compared.
const GUESSES_MAX: usize = 12;

/// A score that may be among the best.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    score: f32,
    rank: u32,
    place: u32,
}

/// Finds the best scores of rows; its memory is reused.
#[derive(Debug, Default)]
pub(crate) struct Selector {
    candidates: Vec<Candidate>,
}

impl Selector {
    /// Appends the places of the best `wanted` scores of `row` to `found`, in no order: of equal ones those of lower
    /// `rank`. Scores of negative infinity are never taken. `row` is whole vectors.
    #[inline(always)]
    pub(crate) fn best<L: Lanes>(
        &mut self,
        lanes: L,
        row: &[f32],
        wanted: usize,
        rank: impl Fn(u32) -> u32,
        found: &mut Vec<u32>,
    ) {
        let (row, _) = row.as_chunks::<LANES>();
        let real = above(lanes, row, f32::NEG_INFINITY);
        let (low, high) = if real <= wanted {
            (f32::NEG_INFINITY, f32::NEG_INFINITY)
        } else {
            bracket(lanes, row, real, wanted)
        };
        self.candidates.clear();
        let already = found.len();
        let threshold = lanes.splat(low);
        for (start, scores) in (0..).step_by(LANES).zip(row) {
            let mut mask = lanes.exceeding(lanes.load(scores), threshold);
            while mask != 0 {
                let lane = mask.trailing_zeros();
                mask &= mask - 1;
                let (score, place) = (scores[lane as usize], start + lane);
                if high < score {
                    found.push(place);
                } else {
                    self.candidates.push(Candidate { score, rank: rank(place), place });
                }
            }
        }
        let missing = (already + wanted).saturating_sub(found.len()).min(self.candidates.len());
        if 0 < missing && missing < self.candidates.len() {
            self.candidates.select_nth_unstable_by(missing, Candidate::best_first);
        }
        found.extend(self.candidates[..missing].iter().map(|candidate| candidate.place));
    }
}

impl Candidate {
    /// Candidates are numbers, so their order is total.
    fn best_first(&self, other: &Self) -> Ordering {
        let scores = other.score.partial_cmp(&self.score).unwrap_or(Ordering::Equal);
        scores.then(self.rank.cmp(&other.rank))
    }
}

/// Bounds of the worst of the best `wanted` scores: fewer exceed the upper bound, and at least as many the lower one. Few
/// scores lie between, unless they are oddly distributed.
#[inline(always)]
fn bracket<L: Lanes>(
    lanes: L,
    row: &[[f32; LANES]],
    real: usize,
    wanted: usize,
) -> (f32, f32) {
    let (mean, deviation) = spread(lanes, row, real);
    let (mut low, mut above_low) = (f32::NEG_INFINITY, real);
    let (mut high, mut above_high) = (f32::INFINITY, 0);
    let mut guess = mean + deviation * normal_quantile(wanted as f32 / real as f32);
    let mut step = deviation * FIRST_STEP;
    for _ in 0..GUESSES_MAX {
        // Never true if the scores are too large for their spread to be a number.
        let is_between = low < guess && guess < high;
        if !is_between || above_low - above_high <= FEW {
            break;
        }
        let count = above(lanes, row, guess);
        if count < wanted {
            (high, above_high) = (guess, count);
        } else {
            (low, above_low) = (guess, count);
        }
        guess = if low == f32::NEG_INFINITY {
            high - step
        } else if high == f32::INFINITY {
            low + step
        } else {
            low + (high - low) * 0.5
        };
        step *= 2.0;
    }
    (low, high)
}

/// How far above the mean of a normal distribution, in standard deviations, `share` of it begins.
///
/// Formula 26.2.23 of Abramowitz and Stegun, Handbook of Mathematical Functions (1964), for shares up to a half; for
/// others it is mirrored.
fn normal_quantile(share: f32) -> f32 {
    let t = (-2.0 * share.min(1.0 - share).ln()).sqrt();
    let above = (0.010_328 * t + 0.802_853) * t + 2.515_517;
    let below = ((0.001_308 * t + 0.189_269) * t + 1.432_788) * t + 1.0;
    (t - above / below).copysign(0.5 - share)
}

/// Mean and standard deviation of the scores, of which `real` are above negative infinity.
#[inline(always)]
fn spread<L: Lanes>(lanes: L, row: &[[f32; LANES]], real: usize) -> (f32, f32) {
    let none = lanes.splat(f32::NEG_INFINITY);
    let zero = lanes.splat(0.0);
    let (mut sum, mut square) = (zero, zero);
    for scores in row {
        let scores = lanes.load(scores);
        let scores = lanes.where_exceeding(scores, none, scores);
        sum = lanes.add(sum, scores);
        square = lanes.multiply_add(scores, scores, square);
    }
    let [sum, square, ..] = lanes.sums([sum, square, zero, zero]);
    let mean = sum / real as f32;
    (mean, (square / real as f32 - mean * mean).max(0.0).sqrt())
}

/// How many scores exceed `bound`.
#[inline(always)]
fn above<L: Lanes>(lanes: L, row: &[[f32; LANES]], bound: f32) -> usize {
    let (bound, one) = (lanes.splat(bound), lanes.splat(1.0));
    let zero = lanes.splat(0.0);
    let mut counts = [zero; 4];
    let (quads, rest) = row.as_chunks::<4>();
    for quad in quads {
        for (count, scores) in counts.iter_mut().zip(quad) {
            let is_above = lanes.where_exceeding(lanes.load(scores), bound, one);
            *count = lanes.add(*count, is_above);
        }
    }
    for scores in rest {
        let is_above = lanes.where_exceeding(lanes.load(scores), bound, one);
        counts[0] = lanes.add(counts[0], is_above);
    }
    let [a, b, c, d] = lanes.sums(counts);
    whole(a) + whole(b) + whole(c) + whole(d)
}

/// A count that was made in `f32`, where a lane counts up to 2^24 and there are at most 2^28 keys.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
fn whole(count: f32) -> usize {
    count as usize
}
