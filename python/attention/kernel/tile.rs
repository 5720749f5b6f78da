//! Products of matrices, six rows by sixteen columns at a time: as much as fits into the registers of AVX2.

use crate::plan::PANEL;
use foveate_simd::{LANES, Lanes};

/// Rows of a tile.
pub(crate) const TILE: usize = 6;

/// The product of the first numbers of six `rows` and a panel of sixteen columns, number by number: each row of sums in two vectors.
#[inline(always)]
pub(crate) fn product<L: Lanes>(
    lanes: L,
    rows: [&[f32]; TILE],
    panel: &[[f32; PANEL]],
) -> [[L::Vector; 2]; TILE] {
    let mut sums = [[lanes.splat(0.0); 2]; TILE];
    let len = panel.len();
    let [a, b, c, d, e, f] = rows;
    let rows = [&a[..len], &b[..len], &c[..len], &d[..len], &e[..len], &f[..len]];
    for place in 0..len {
        let columns = halves(lanes, &panel[place]);
        for row in 0..TILE {
            let factor = lanes.splat(rows[row][place]);
            sums[row][0] = lanes.multiply_add(factor, columns[0], sums[row][0]);
            sums[row][1] = lanes.multiply_add(factor, columns[1], sums[row][1]);
        }
    }
    sums
}

/// Sixteen numbers as two vectors.
#[inline(always)]
pub(crate) fn halves<L: Lanes>(lanes: L, numbers: &[f32; PANEL]) -> [L::Vector; 2] {
    let ([first, second], _) = numbers.as_chunks::<LANES>() else { unreachable!("two vectors") };
    [lanes.load(first), lanes.load(second)]
}
