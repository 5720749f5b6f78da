//! Measurements of a coarse level: luma, sharpness, exposure.

use foveate_core::geometry::coarse::CoarseLevel;
use foveate_core::geometry::extent::Extent;

/// Luma, of 255, up to which a texel is black.
const BLACK: u8 = 24;

/// Luma, of 255, from which on a texel is clipped: it is a mean, so nearly all pixels under it are at the limit.
const WHITE: u8 = 250;

/// Difference in luma from the texel to the right or below that counts as structure. Noise is far below: a texel is the mean of
/// at least 64 pixels of a picture of 768 columns.
const EDGE: u8 = 6;

/// The luma of a picture, and what follows from it.
#[derive(Clone, Debug)]
pub(super) struct PictureStats {
    pub(super) grid: Extent,
    /// (77 R + 150 G + 29 B) / 256 of each texel, row by row: BT.601 in whole numbers.
    pub(super) luma: Vec<u8>,
    /// Picture of the frame before.
    pub(super) before: Vec<u8>,
    /// Whether there was one.
    pub(super) has_before: bool,
    /// Mean luma, 0 to 255.
    pub(super) mean: f64,
    /// Share of texels that are black, 0 to 1.
    pub(super) dark: f64,
    /// Share of texels that are clipped at white.
    pub(super) clipped: f64,
    /// Share of texels with structure.
    pub(super) structured: f64,
}

impl PictureStats {
    pub(super) fn new(grid: Extent) -> Self {
        let none = vec![0; grid.area()];
        Self {
            grid,
            luma: none.clone(),
            before: none,
            has_before: false,
            mean: 0.0,
            dark: 0.0,
            clipped: 0.0,
            structured: 0.0,
        }
    }

    pub(super) fn update(&mut self, coarse: &CoarseLevel) {
        for (luma, texel) in self.luma.iter_mut().zip(&coarse.texels) {
            *luma = luma_of(*texel);
        }
        let area = self.luma.len() as f64;
        // A coarse level has at most 128 x 128 texels.
        let dark = self.luma.iter().map(|luma| u32::from(*luma <= BLACK)).sum::<u32>();
        let clipped = self.luma.iter().map(|luma| u32::from(WHITE <= *luma)).sum::<u32>();
        let sum = self.luma.iter().map(|luma| u32::from(*luma)).sum::<u32>();
        self.dark = f64::from(dark) / area;
        self.clipped = f64::from(clipped) / area;
        self.mean = f64::from(sum) / area;
        self.structured = self.count_structured() as f64 / area;
    }

    /// The picture becomes the one before.
    pub(super) fn keep(&mut self) {
        self.before.copy_from_slice(&self.luma);
        self.has_before = true;
    }

    /// Texels of a row.
    pub(super) fn width(&self) -> usize {
        self.grid.width as usize
    }

    fn count_structured(&self) -> usize {
        let width = self.width();
        let mut count = 0;
        for (index, row) in self.luma.chunks_exact(width).enumerate() {
            let below = self.luma.get((index + 1) * width..(index + 2) * width).unwrap_or(row);
            // The last texel of a row has none to its right.
            let (last, last_below) = (row[width - 1], below[width - 1]);
            let texels = row.iter().zip(&row[1..]).zip(below);
            let is_edge = |((here, right), below): ((&u8, &u8), &u8)| {
                u32::from(EDGE <= here.abs_diff(*right).max(here.abs_diff(*below)))
            };
            count += texels.map(is_edge).sum::<u32>();
            count += u32::from(EDGE <= last.abs_diff(last_below));
        }
        count as usize
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the weights sum to 256")]
fn luma_of([r, g, b]: [u8; 3]) -> u8 {
    ((77 * u32::from(r) + 150 * u32::from(g) + 29 * u32::from(b)) >> 8) as u8
}

/// Similarity of two pictures apart from brightness and contrast: the correlation of their luma, -1 to 1; `None` if one of them has
/// less contrast than a standard deviation of [`CONTRAST_MIN`].
pub(super) fn correlation(one: &[u8], other: &[u8]) -> Option<f64> {
    let count = one.len() as u64;
    let (mut sums, mut squares, mut product) = ([0_u64; 2], [0_u64; 2], 0_u64);
    for (one, other) in one.chunks(SUMMED).zip(other.chunks(SUMMED)) {
        let mut short = [0_u32; 5];
        for (one, other) in one.iter().zip(other) {
            let (one, other) = (u32::from(*one), u32::from(*other));
            let terms = [one, other, one * one, other * other, one * other];
            for (sum, term) in short.iter_mut().zip(terms) {
                *sum += term;
            }
        }
        let [one, other, one_squared, other_squared, both] = short.map(u64::from);
        sums = [sums[0] + one, sums[1] + other];
        squares = [squares[0] + one_squared, squares[1] + other_squared];
        product += both;
    }
    let spread = |index: usize| count * squares[index] - sums[index] * sums[index];
    let least = (CONTRAST_MIN * CONTRAST_MIN) * count * count;
    let (one, other) = (spread(0), spread(1));
    if one < least || other < least {
        return None;
    }
    let shared = i128::from(count * product) - i128::from(sums[0] * sums[1]);
    Some(shared as f64 / ((one as f64).sqrt() * (other as f64).sqrt()))
}

/// Texels whose products are summed in 32 bits, for speed.
const SUMMED: usize = 4096;

/// Standard deviation of luma below which a picture has nothing to compare.
const CONTRAST_MIN: u64 = 4;
