//! Global motion of a picture: an affine fit to the motion of its blocks, without those of moving objects.
//!
//! Iteratively reweighted least squares with the biweight of Beaton and Tukey (Technometrics 16, 1974), as by Odobez and
//! Bouthemy, "Robust multiresolution estimation of parametric motion models", Journal of Visual Communication and Image
//! Representation 6 (1995), whose weights fall to 0 as well.

/// Rounds of least squares; the first finds the shift alone.
const ROUNDS: usize = 8;

/// Distance in texels at which a block has no weight: at first, and the least and the most later.
const REACH_FIRST: f64 = 1.5;
const REACH_MIN: f64 = 0.06;
const REACH_MAX: f64 = 1.0;

/// The reach by the median distance: 4.7 standard deviations, and the median is at 0.67 of one.
const REACH_OF_MEDIAN: f64 = 7.0;

/// Votes for no turning, stretching and shearing at all, so that a few blocks in a row do not decide on them.
const PRIOR: f64 = 0.5;

/// A round that moves the fit by less, in texels, is the last.
const SETTLED: f64 = 1e-3;

/// Votes that a picture must be able to give.
const VOTES_MIN: f64 = 4.0;

/// Share of these that are given where blocks match, and the share of the votes that must agree.
const MATCHED_MIN: f64 = 0.25;
const SHARE_MIN: f64 = 0.4;

/// Why the motion of a picture is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// The picture has hardly any texture.
    NoTexture,
    /// The pictures show different scenes: too few blocks match, or agree.
    Cut,
}

/// Motion of one block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Vote {
    /// Place of its centre: -1..=1 over the longer side.
    pub(super) at: (f64, f64),
    /// Shift in texels.
    pub(super) shift: (f64, f64),
    /// Weight along each axis: a matrix xx, xy, yy, and its greater eigenvalue, at most 1.
    pub(super) weight: [f64; 3],
    pub(super) greatest: f64,
}

/// Coefficients of (1, x, y) for the shift along x, and along y, in texels, with places as in [`Vote`].
pub(super) type Fit = [f64; 6];

impl Vote {
    /// How far it is from a fit in texels, across the edges that it has.
    fn distance(&self, fit: &Fit) -> f64 {
        let (x, y) = shift_of(fit, self.at);
        let (x, y) = (self.shift.0 - x, self.shift.1 - y);
        let [xx, xy, yy] = self.weight;
        if 0.0 < self.greatest {
            ((xx * x * x + 2.0 * xy * x * y + yy * y * y).max(0.0) / self.greatest).sqrt()
        } else {
            f64::INFINITY
        }
    }

    /// Weight of the vote, 0..=1.
    fn size(&self) -> f64 {
        0.5 * (self.weight[0] + self.weight[2])
    }
}

/// The shift of a fit at a place.
pub(super) fn shift_of(fit: &Fit, (x, y): (f64, f64)) -> (f64, f64) {
    (fit[0] + fit[1] * x + fit[2] * y, fit[3] + fit[4] * x + fit[5] * y)
}

/// Working memory of [`fit`], with room for all votes.
#[derive(Clone, Debug)]
pub(super) struct Distances {
    /// Distance of each vote from the newest fit.
    all: Vec<f64>,
    /// Distances of the nearer votes, in any order.
    near: Vec<f64>,
}

impl Distances {
    pub(super) fn with_capacity(votes: usize) -> Self {
        Self { all: Vec::with_capacity(votes), near: Vec::with_capacity(votes) }
    }

    fn measure(&mut self, votes: &[Vote], fit: &Fit) {
        self.all.clear();
        self.all.extend(votes.iter().map(|vote| vote.distance(fit)));
    }

    /// Median of the distances below [`REACH_FIRST`]; `None` without any.
    fn median(&mut self) -> Option<f64> {
        self.near.clear();
        self.near.extend(self.all.iter().filter(|distance| **distance < REACH_FIRST));
        let middle = self.near.len() / 2;
        let median = |near: &mut Vec<f64>| *near.select_nth_unstable_by(middle, f64::total_cmp).1;
        (!self.near.is_empty()).then(|| median(&mut self.near))
    }
}

/// Fits the votes, from the one of the `starts` that most of them are near. `possible` is what the votes would count if every block
/// matched.
///
/// # Errors
///
/// Why nothing is known.
pub(super) fn fit(
    votes: &[Vote],
    possible: f64,
    starts: &[(f64, f64)],
    distances: &mut Distances,
) -> Result<Fit, Unknown> {
    if possible < VOTES_MIN {
        return Err(Unknown::NoTexture);
    }
    let total: f64 = votes.iter().map(Vote::size).sum();
    if total < MATCHED_MIN * possible {
        return Err(Unknown::Cut);
    }
    let begin = |(x, y): &(f64, f64)| [*x, 0.0, 0.0, *y, 0.0, 0.0];
    let mut fit: Fit = [0.0; 6];
    let mut most = -1.0;
    for start in starts.iter().map(begin) {
        distances.measure(votes, &start);
        let supported = supported(votes, &distances.all);
        if most < supported {
            (fit, most) = (start, supported);
        }
    }
    distances.measure(votes, &fit);
    let mut reach = REACH_FIRST;
    for round in 0..ROUNDS {
        let before = fit;
        let prior = if round == 0 { f64::INFINITY } else { PRIOR };
        fit = round_of(votes, &distances.all, reach, prior).ok_or(Unknown::Cut)?;
        distances.measure(votes, &fit);
        let median = distances.median().ok_or(Unknown::Cut)?;
        let narrower = (REACH_OF_MEDIAN * median).clamp(REACH_MIN, REACH_MAX);
        let is_near = |(now, before): (&f64, &f64)| (now - before).abs() < SETTLED;
        if 0 < round && narrower == reach && fit.iter().zip(&before).all(is_near) {
            break;
        }
        reach = narrower;
    }
    let agrees = |(_, distance): &(&Vote, &f64)| **distance < reach.max(0.25);
    let agreeing = votes.iter().zip(&distances.all).filter(agrees);
    let share = agreeing.map(|(vote, _)| vote.size()).sum::<f64>() / total;
    if SHARE_MIN <= share { Ok(fit) } else { Err(Unknown::Cut) }
}

/// How much the votes count that are near a fit.
fn supported(votes: &[Vote], distances: &[f64]) -> f64 {
    let votes = votes.iter().zip(distances);
    votes.map(|(vote, distance)| vote.size() * biweight(distance / REACH_FIRST)).sum()
}

/// 1 at 0, falling to 0 at 1.
fn biweight(distance: f64) -> f64 {
    let rest = (1.0 - distance * distance).max(0.0);
    rest * rest
}

/// One round of weighted least squares, around the fit from which the votes have these distances. With an infinite `prior`, it fits the
/// shift alone.
fn round_of(votes: &[Vote], distances: &[f64], reach: f64, prior: f64) -> Option<Fit> {
    let mut rows = [[0.0; 7]; 6];
    for (vote, distance) in votes.iter().zip(distances) {
        let share = biweight(distance / reach);
        if share == 0.0 {
            continue;
        }
        let [xx, xy, yy] = vote.weight.map(|weight| share * weight);
        let basis = [1.0, vote.at.0, vote.at.1];
        let (x, y) = vote.shift;
        let pulls = [xx * x + xy * y, xy * x + yy * y];
        for (axis, weights) in [[xx, xy], [xy, yy]].into_iter().enumerate() {
            for first in 0..3 {
                let row = &mut rows[3 * axis + first];
                for second in 0..3 {
                    row[second] += weights[0] * basis[first] * basis[second];
                    row[3 + second] += weights[1] * basis[first] * basis[second];
                }
                row[6] += pulls[axis] * basis[first];
            }
        }
    }
    for index in [1, 2, 4, 5] {
        if prior.is_finite() {
            rows[index][index] += prior;
        } else {
            rows.iter_mut().for_each(|row| row[index] = 0.0);
            rows[index] = [0.0; 7];
            rows[index][index] = 1.0;
        }
    }
    solved(&mut rows)
}

/// Solves six equations by elimination; `None` if they hardly determine the shift. They are symmetric and not negative, so no
/// rows need to change places.
fn solved(rows: &mut [[f64; 7]; 6]) -> Option<Fit> {
    for pivot in 0..6 {
        let row = rows[pivot];
        if row[pivot] < 1e-3 {
            return None;
        }
        for other in (0..6).filter(|other| *other != pivot) {
            let share = rows[other][pivot] / row[pivot];
            for column in pivot..7 {
                rows[other][column] -= share * row[column];
            }
        }
    }
    Some(std::array::from_fn(|index| rows[index][6] / rows[index][index]))
}
