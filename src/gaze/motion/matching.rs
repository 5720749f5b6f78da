//! Block matching: finds each block of a picture in the one before.
//!
//! Whole texels by comparing at every shift (Jain and Jain, "Displacement measurement and its application in interframe image
//! coding", IEEE Transactions on Communications 29, 1981), fractions of one by least squares on gradients (Lucas and Kanade, "An
//! iterative image registration technique", IJCAI 1981), with the gradients of the new picture (Baker and Matthews,
//! "Lucas-Kanade 20 years on", IJCV 56, 2004).

use super::brightness::{BLOCK, Brightness, LANES, SIDE, Window};

/// Furthest shift of the whole picture that is looked for, in blocks.
const PICTURE_REACH: isize = 8;

/// Furthest shift of a block from that of the picture, or from none, in texels.
const BLOCK_REACH: i32 = 3;

/// Side of what is searched for a window, and the length of its rows: every lane has a shift of its own, and one of them none.
const SEARCHED_SIDE: usize = SIDE + 2 * BLOCK_REACH as usize;
const SEARCHED_ROW: usize = SEARCHED_SIDE + 1;
const _: () = assert!(LANES == 2 * BLOCK_REACH as usize + 2);

/// Blocks as different as this, in levels, count as much as any worse.
const DIFFERENCE_MAX: f32 = 24.0;

/// Mean squared difference of brightness that is noise, in levels squared.
pub(super) const NOISE: f32 = 1.0;

/// A match is good if it leaves no more than [`SEARCHED`] times this share of the mean squared gradient, which is what a shift of
/// some three tenths of a texel leaves.
const SEARCHED: f32 = 4.0;
const LEFT_OF_GRADIENT: f32 = 0.1;

/// Gauss-Newton steps, the longest of them, and one that is short enough to be the last; in texels.
const STEPS: usize = 5;
const STEP_MAX: f32 = 1.0;
const STEP_LAST: f32 = 0.01;

/// Where a block came from, in texels, and how well that is known.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Match {
    pub(super) dx: f32,
    pub(super) dy: f32,
    /// Mean products of gradients, xx, xy and yy: the structure tensor.
    pub(super) tensor: [f32; 3],
    /// Mean squared difference of what matches, in levels squared.
    pub(super) left: f32,
}

impl Match {
    /// The greater and the lesser eigenvalue of the structure tensor.
    pub(super) fn eigenvalues(&self) -> (f32, f32) {
        let [xx, xy, yy] = self.tensor;
        let (middle, half) = (0.5 * (xx + yy), 0.5 * (xx - yy));
        let spread = (half * half + xy * xy).sqrt();
        (middle + spread, (middle - spread).max(0.0))
    }

    /// How well both coordinates are known, 0..=1: 1 / (1 + (s / s0)^2), where s is the standard error of the worse one, with
    /// independent noise of one texel in four, and s0 a third of a texel.
    pub(super) fn confidence(&self) -> f32 {
        let (_, least) = self.eigenvalues();
        least / (least + self.left + NOISE)
    }
}

/// The shift of most of the picture in texels, whole blocks first.
pub(super) fn picture_shift(now: &Brightness, before: &Brightness) -> (f32, f32) {
    let blocks = now.blocks();
    let (dx, dy) = best_shift((0, 0), PICTURE_REACH, |shift, most| {
        mean_difference(now.means(), before.means(), blocks.width as usize, shift, most)
    });
    let whole = (dx * BLOCK as isize, dy * BLOCK as isize);
    let width = now.extent.width as usize;
    let (dx, dy) = best_shift(whole, BLOCK as isize / 2, |shift, most| {
        mean_difference(now.levels(), before.levels(), width, shift, most)
    });
    (dx as f32, dy as f32)
}

/// The shift from `around` by at most `reach` with the least difference; of equal ones the shortest. A difference above the one that is
/// passed need not be exact.
fn best_shift(
    around: (isize, isize),
    reach: isize,
    difference: impl Fn((isize, isize), f32) -> f32,
) -> (isize, isize) {
    let length = |(dx, dy): (isize, isize)| dx * dx + dy * dy;
    let (mut best, mut least) = (around, difference(around, f32::INFINITY));
    for dy in around.1 - reach..=around.1 + reach {
        for dx in around.0 - reach..=around.0 + reach {
            let here = difference((dx, dy), least);
            if here < least || (here == least && length((dx, dy)) < length(best)) {
                (best, least) = ((dx, dy), here);
            }
        }
    }
    best
}

/// Mean difference of what two pictures in rows of `width` have in common at a shift; infinite if that is less than a third, or the
/// difference is above `most`.
fn mean_difference(
    now: &[f32],
    before: &[f32],
    width: usize,
    (dx, dy): (isize, isize),
    most: f32,
) -> f32 {
    let height = now.len() / width;
    // The texels of `now` whose origin lies in the picture.
    let common = |shift: isize, side: usize| {
        let from = shift.clamp(0, side as isize).unsigned_abs();
        from..(side as isize + shift).clamp(0, side as isize).unsigned_abs().max(from)
    };
    let (columns, rows) = (common(dx, width), common(dy, height));
    let count = columns.len() * rows.len();
    if 3 * count < now.len() || count == 0 {
        return f32::INFINITY;
    }
    let mut sum = 0.0;
    for y in rows {
        let from = y.wrapping_add_signed(-dy) * width + columns.start.wrapping_add_signed(-dx);
        let origins = &before[from..from + columns.len()];
        let targets = &now[y * width + columns.start..][..columns.len()];
        sum += row_difference(targets, origins);
        // It only grows.
        if most < sum / count as f32 {
            return f32::INFINITY;
        }
    }
    sum / count as f32
}

/// Sum of capped differences of a row, in eight lanes, because a single running sum would be bound by its latency.
fn row_difference(now: &[f32], before: &[f32]) -> f32 {
    let capped = |now: &f32, before: &f32| (now - before).abs().min(DIFFERENCE_MAX);
    let ((chunks, rest), (origins, other)) = (now.as_chunks::<8>(), before.as_chunks::<8>());
    let mut sums = [0.0; 8];
    for (chunk, origin) in chunks.iter().zip(origins) {
        for lane in 0..8 {
            sums[lane] += capped(&chunk[lane], &origin[lane]);
        }
    }
    let rest: f32 = rest.iter().zip(other).map(|(now, before)| capped(now, before)).sum();
    sums.iter().sum::<f32>() + rest
}

/// What block `at` (column, row) of `now` looks like, as if it had not moved.
pub(super) fn unmoved(now: &Brightness, at: (usize, usize)) -> Match {
    let [_, across, down] = now.with_gradients(at);
    Match { dx: 0.0, dy: 0.0, tensor: tensor(&across, &down), left: 0.0 }
}

/// Where block `at` (column, row) of `now` came from. It is looked for around where it is, and around `guess`, the shift of the
/// picture.
pub(super) fn matched(
    now: &Brightness,
    before: &Brightness,
    at: (usize, usize),
    guess: (f32, f32),
) -> Match {
    let [target, across, down] = now.with_gradients(at);
    let block = Block { before, at, target, across, down };
    let fits = |found: &Match| {
        let [xx, _, yy] = found.tensor;
        found.left <= SEARCHED + LEFT_OF_GRADIENT * (xx + yy)
    };
    let mut best = block.refined(guess);
    let starts = if guess == NONE { &[NONE][..] } else { &[guess, NONE] };
    if !fits(&best) && guess != NONE {
        best = better(best, block.refined(NONE));
    }
    for start in starts {
        if !fits(&best) {
            best = better(best, block.refined(block.searched(*start)));
        }
    }
    best
}

/// No shift.
const NONE: (f32, f32) = (0.0, 0.0);

/// The match that leaves less difference; of equal ones the first.
fn better(first: Match, second: Match) -> Match {
    if second.left < first.left { second } else { first }
}

/// A block of the new picture, and the picture that it came from.
struct Block<'a> {
    before: &'a Brightness,
    at: (usize, usize),
    target: Window,
    across: Window,
    down: Window,
}

impl Block<'_> {
    /// What the picture before shows where the block came from if it moved by (`dx`, `dy`).
    fn origin(&self, (dx, dy): (f32, f32)) -> Window {
        self.before.window(self.at, (-dx, -dy))
    }

    /// The whole shift from `around`, which is whole, that matches best; of equal ones the shortest.
    fn searched(&self, around: (f32, f32)) -> (f32, f32) {
        let corner = |shift: f32| -(shift as isize) - BLOCK_REACH as isize;
        let texels = self
            .before
            .patch::<SEARCHED_SIDE, SEARCHED_ROW>(self.at, (corner(around.0), corner(around.1)));
        let length = |(dx, dy): (f32, f32)| dx * dx + dy * dy;
        let (mut best, mut least) = (around, f32::INFINITY);
        for (top, row) in (-BLOCK_REACH..=BLOCK_REACH).rev().enumerate() {
            let lefts = lefts(&self.target, &texels[top..]);
            for (here, column) in lefts.into_iter().zip((-BLOCK_REACH..=BLOCK_REACH).rev()) {
                let shift = (around.0 + column as f32, around.1 + row as f32);
                if here < least || (here == least && length(shift) < length(best)) {
                    (best, least) = (shift, here);
                }
            }
        }
        best
    }

    /// The best shift near `start`, between texels.
    fn refined(&self, start: (f32, f32)) -> Match {
        let tensor = tensor(&self.across, &self.down);
        let [xx, xy, yy] = tensor;
        // With as much noise a flat block stays, and one with a single edge moves across that alone.
        let (xx, yy) = (xx + NOISE, yy + NOISE);
        let area = xx * yy - xy * xy;
        let origin = self.origin(start);
        let mut best =
            Match { dx: start.0, dy: start.1, tensor, left: left(&self.target, &origin) };
        let (mut shift, mut origin) = (start, origin);
        for _ in 0..STEPS {
            let [x, y] = products(&self.across, &self.down, &origin, &self.target);
            let step_x = ((yy * x - xy * y) / area).clamp(-STEP_MAX, STEP_MAX);
            let step_y = ((xx * y - xy * x) / area).clamp(-STEP_MAX, STEP_MAX);
            shift = (shift.0 + step_x, shift.1 + step_y);
            origin = self.origin(shift);
            let left = left(&self.target, &origin);
            if best.left <= left {
                break;
            }
            best = Match { dx: shift.0, dy: shift.1, tensor, left };
            if step_x.abs().max(step_y.abs()) < STEP_LAST {
                break;
            }
        }
        best
    }
}

const TEXELS: f32 = (SIDE * SIDE) as f32;

/// Mean squared difference of two windows.
fn left(target: &Window, origin: &Window) -> f32 {
    let mut sums = [0.0; LANES];
    for (target, origin) in target.iter().zip(origin) {
        for x in 0..LANES {
            let difference = target[x] - origin[x];
            sums[x] += difference * difference;
        }
    }
    mean(&sums)
}

/// The difference left between a window and each of the windows that begin in a column of `texels`. The levels of texels are quarters, so
/// the sums are exact, in any
/// order, up to a mean of 29 000.
fn lefts(target: &Window, texels: &[[f32; SEARCHED_ROW]]) -> [f32; LANES] {
    let mut sums = [0.0; LANES];
    for (target, texels) in target.iter().zip(texels) {
        for x in 0..SIDE {
            for column in 0..LANES {
                let difference = texels[x + column] - target[x];
                sums[column] += difference * difference;
            }
        }
    }
    sums.map(|sum| sum / TEXELS)
}

/// Mean products of gradients: xx, xy and yy.
fn tensor(across: &Window, down: &Window) -> [f32; 3] {
    let mut sums = [[0.0; LANES]; 3];
    for (across, down) in across.iter().zip(down) {
        for x in 0..LANES {
            sums[0][x] += across[x] * across[x];
            sums[1][x] += across[x] * down[x];
            sums[2][x] += down[x] * down[x];
        }
    }
    sums.map(|sums| mean(&sums))
}

/// Mean products of the gradients along each axis and what `origin` exceeds `target` by.
fn products(across: &Window, down: &Window, origin: &Window, target: &Window) -> [f32; 2] {
    let mut sums = [[0.0; LANES]; 2];
    for (y, (across, down)) in across.iter().zip(down).enumerate() {
        for x in 0..LANES {
            let excess = origin[y][x] - target[y][x];
            sums[0][x] += across[x] * excess;
            sums[1][x] += down[x] * excess;
        }
    }
    sums.map(|sums| mean(&sums))
}

/// The mean over a window of what was summed up in its columns.
fn mean(sums: &[f32; LANES]) -> f32 {
    sums[..SIDE].iter().sum::<f32>() / TEXELS
}
