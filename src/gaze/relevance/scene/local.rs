//! Channels of a cell that depend on its own pixels alone.

use crate::relevance::features::TileFeatures;
use foveate_core::channel::Computed;
use foveate_core::geometry::tile::TILE_SIDE;

/// Share of the differences that are strokes at which the channel is 1.
const STROKES_FULL: f32 = 0.08;

/// The channels of cell `index`.
pub(super) fn fill(channels: &mut [Vec<f32>], index: usize, features: &TileFeatures, black: u8) {
    let span = if black == 0 { 255.0 } else { 219.0 };
    let share = |sum: u32, count: u32| if count == 0 { 0.0 } else { sum as f32 / count as f32 };
    let TileFeatures { count, color, luma, luma_squared, differences, gradient, .. } = *features;
    let [red, green, blue] = color.map(|sum| share(sum, count) / 255.0);
    let mean = share(luma, count);
    let [xx, yy] = [0, 1].map(|axis| share(features.gradient_squared[axis], differences[axis]));
    let pairs = differences[0].max(differences[1]).max(1);
    let xy = features.gradient_product as f32 / pairs as f32;
    let edges = ((xx + yy) / 2.0).sqrt() / span;
    let low_pass = share(features.coarse_squared, features.coarse_differences).sqrt() / span;
    let (cos, sin) = (xx - yy, 2.0 * xy);
    let tensor = (cos * cos + sin * sin).sqrt();
    let of_tensor = |value: f32| if tensor == 0.0 { 0.0 } else { value / tensor };
    let strokes = features.strokes[0] + features.strokes[1];

    let mut set = |channel: Computed, value: f32| channels[channel as usize][index] = value;
    set(Computed::Red, red);
    set(Computed::Green, green);
    set(Computed::Blue, blue);
    set(Computed::Dx, (share(gradient[0], differences[0]) / span).min(1.0));
    set(Computed::Dy, (share(gradient[1], differences[1]) / span).min(1.0));
    set(Computed::Edges, edges.min(1.0));
    set(Computed::Mean, ((mean - f32::from(black)) / span).clamp(0.0, 1.0));
    set(Computed::Variance, (variance(count, luma, luma_squared) / (span * span / 4.0)).min(1.0));
    set(Computed::Entropy, entropy(features));
    set(Computed::OrientationCos, of_tensor(cos));
    set(Computed::OrientationSin, of_tensor(sin));
    set(Computed::Coherence, if xx + yy == 0.0 { 0.0 } else { (tensor / (xx + yy)).min(1.0) });
    let strokes = share(strokes, differences[0] + differences[1]);
    set(Computed::Strokes, (strokes / STROKES_FULL).min(1.0));
    set(Computed::HighPass, (edges - low_pass / 3.0).clamp(0.0, 1.0));
    set(Computed::LowPass, low_pass.min(1.0));
}

/// Exact until it is rounded: (count * sum of squares - sum^2) / count^2.
fn variance(count: u32, sum: u32, squares: u32) -> f32 {
    let [count, sum, squares] = [count, sum, squares].map(u64::from);
    if count == 0 { 0.0 } else { (count * squares - sum * sum) as f32 / (count * count) as f32 }
}

/// Entropy of the histogram, as a share of 4 bits.
fn entropy(features: &TileFeatures) -> f32 {
    let count = u64::from(features.count);
    if count == 0 {
        return 0.0;
    }
    // sum of h (log n - log h), in units of 2^-16 bits.
    let of_count = log2(features.count);
    let bits = |&bin: &u32| {
        let less = of_count - log2(bin);
        u64::from(bin) * u64::from(less)
    };
    let sum: u64 = features.histogram.iter().map(bits).sum();
    (sum as f32 / count as f32) / (4.0 * 65_536.0)
}

/// The binary logarithm of a number in units of 2^-16, rounded down; 0 for 0.
fn log2(number: u32) -> u32 {
    LOGARITHMS.get(number as usize).copied().unwrap_or_else(|| computed_log2(number))
}

/// A logarithm for every count of the pixels of one tile.
static LOGARITHMS: [u32; LOGARITHM_COUNT] = {
    let mut logarithms = [0; LOGARITHM_COUNT];
    let mut number = 1;
    while number < LOGARITHM_COUNT {
        logarithms[number] = computed_log2(number as u32);
        number += 1;
    }
    logarithms
};

const LOGARITHM_COUNT: usize = (TILE_SIDE * TILE_SIDE) as usize + 1;

/// The logarithm of a number above 0, by squaring, bit by bit.
const fn computed_log2(number: u32) -> u32 {
    let whole = number.ilog2();
    // 1 to 2, in units of 2^-31.
    let mut mantissa = (number as u64) << (31 - whole);
    let mut log = whole;
    let mut bit = 0;
    while bit < 16 {
        bit += 1;
        mantissa = (mantissa * mantissa) >> 31;
        let carry = (mantissa >> 32) as u32;
        mantissa >>= carry;
        log = log << 1 | carry;
    }
    log
}
