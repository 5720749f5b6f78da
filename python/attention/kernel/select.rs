//! Selects the indices of the best scores of a row.

use std::cmp::Ordering;

use foveate_simd::{LANES, Lanes};

/// Once so few scores are left to choose from they are compared one by one.
const FEW: usize = 24;

/// The second guess differs so many standard deviations from the first.
const FIRST_STEP: f32 = 0.2;

/// After so many guesses all scores that are left are compared.
const GUESSES_MAX: usize = 12;

/// Finds the best scores of rows; its memory is reused.
#[derive(Debug, Default)]
pub(crate) struct Selector {
    /// Places that may be among the best, and then some more numbers.
    above: Vec<u32>,
    /// Score, rank and place of each of them that has to be compared.
    candidates: Vec<(f32, u32, u32)>,
}

impl Selector {
    /// Sets `found` to the places of the best `wanted` scores of `row`, in no order: of equal ones those of lower
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
        let (low, high) = bracket(lanes, row, wanted);
        let above = collect(lanes, row, low, &mut self.above);
        self.candidates.clear();
        found.clear();
        for place in above {
            let score = row.as_flattened()[*place as usize];
            if high < score {
                found.push(*place);
            } else {
                self.candidates.push((score, rank(*place), *place));
            }
        }
        let missing = wanted.saturating_sub(found.len());
        if missing < self.candidates.len() {
            self.candidates.select_nth_unstable_by(missing, best_first);
            self.candidates.truncate(missing);
        }
        found.extend(self.candidates.iter().map(|(.., place)| *place));
    }
}

/// Of a score, rank and place before others. Scores are numbers, so their order is total.
fn best_first(one: &(f32, u32, u32), other: &(f32, u32, u32)) -> Ordering {
    let scores = other.0.partial_cmp(&one.0).unwrap_or(Ordering::Equal);
    scores.then(one.1.cmp(&other.1))
}

/// Bounds of the worst of the best `wanted` scores: fewer exceed the upper bound, and at least as many the lower one. Few
/// scores lie between, unless they are oddly distributed.
#[inline(always)]
fn bracket<L: Lanes>(lanes: L, row: &[[f32; LANES]], wanted: usize) -> (f32, f32) {
    let (real, mean, deviation) = spread(lanes, row);
    if real <= wanted {
        return (f32::NEG_INFINITY, f32::NEG_INFINITY);
    }
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

/// How many scores are above negative infinity, and the mean and standard deviation of these.
#[inline(always)]
fn spread<L: Lanes>(lanes: L, row: &[[f32; LANES]]) -> (usize, f32, f32) {
    let none = lanes.splat(f32::NEG_INFINITY);
    let (zero, one) = (lanes.splat(0.0), lanes.splat(1.0));
    let (mut count, mut sum, mut square) = (zero, zero, zero);
    for scores in row {
        let scores = lanes.load(scores);
        count = lanes.add(count, lanes.where_exceeding(scores, none, one));
        let scores = lanes.where_exceeding(scores, none, scores);
        sum = lanes.add(sum, scores);
        square = lanes.multiply_add(scores, scores, square);
    }
    let [count, sum, square, _] = lanes.lane_sums([count, sum, square, zero]);
    let mean = sum / count;
    (whole(count), mean, (square / count - mean * mean).max(0.0).sqrt())
}

/// For each mask of lanes, which they are, from the lowest.
const LANES_OF: [[u8; LANES]; 256] = {
    let mut table = [[0; LANES]; 256];
    let mut mask = 0;
    while mask < 256 {
        let (mut lane, mut end) = (0, 0);
        while lane < 8 {
            if mask >> lane & 1 == 1 {
                table[mask][end] = lane;
                end += 1;
            }
            lane += 1;
        }
        mask += 1;
    }
    table
};

/// The places of scores above `bound`, in the memory of `places`.
#[inline(always)]
fn collect<'a, L: Lanes>(
    lanes: L,
    row: &[[f32; LANES]],
    bound: f32,
    places: &'a mut Vec<u32>,
) -> &'a [u32] {
    if places.len() < (row.len() + 1) * LANES {
        places.resize((row.len() + 1) * LANES, 0);
    }
    let bound = lanes.splat(bound);
    let mut end = 0;
    for (start, scores) in (0_u32..).step_by(LANES).zip(row) {
        let mask = lanes.exceeding(lanes.load(scores), bound);
        // Whole vectors are written, without a branch, and the next one begins where the mask's lanes end.
        let lanes = &LANES_OF[mask as usize];
        for (place, lane) in places[end..end + LANES].iter_mut().zip(lanes) {
            *place = start + u32::from(*lane);
        }
        end += mask.count_ones() as usize;
    }
    &places[..end]
}

/// How many scores exceed `bound`.
#[inline(always)]
fn above<L: Lanes>(lanes: L, row: &[[f32; LANES]], bound: f32) -> usize {
    let (bound, one) = (lanes.splat(bound), lanes.splat(1.0));
    let zero = lanes.splat(0.0);
    let mut counts = [zero; 4];
    let (quads, rest) = row.as_chunks::<4>();
    for quad in quads {
        for part in 0..4 {
            let is_above = lanes.where_exceeding(lanes.load(&quad[part]), bound, one);
            counts[part] = lanes.add(counts[part], is_above);
        }
    }
    for scores in rest {
        let is_above = lanes.where_exceeding(lanes.load(scores), bound, one);
        counts[0] = lanes.add(counts[0], is_above);
    }
    let [a, b, c, d] = lanes.lane_sums(counts);
    whole(a) + whole(b) + whole(c) + whole(d)
}

/// A count that was made in `f32`, where a lane counts up to 2^24 and there are at most 2^28 keys.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
fn whole(count: f32) -> usize {
    count as usize
}
