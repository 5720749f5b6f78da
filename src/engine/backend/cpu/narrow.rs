//! Tokens with real steps whose sums down a column fit 16 bits: nearly all those of the usual side.
//!
//! Gives the same means as `WeightedRows` in `sample`. First the level's rows are summed by weight, 16 columns at a time. Then pairs of
//! columns are transposed, so that the rows of the token are lanes, and summed by weight.

use std::ops::Range;

use super::convert::{Converter, SIDE, rgb_row};
use super::level::{BLOCK, CpuLevel, FOOTPRINT_ROWS, Footprint};
use super::sample::{Reciprocal, Rows, SampleToken, SumScratch, USUAL_SIDE};
use crate::simd::Vectors;
use foveate_core::frame::FrameView;
use foveate_core::geometry::plan::Texels;
use foveate_core::token::Rounding;

/// The most pixels down a column: 255 times as much is below 2^16.
const HEIGHT_MAX: u32 = 257;

/// The most texels of the level under one of the token, and pairs of them from an even place.
const TAPS: usize = 6;
const PAIRS: usize = TAPS / 2;

/// Columns from the first to the last that are converted at once.
const CONVERTED: usize = 3 * SIDE;

/// The most blocks of columns; the first block begins before the first column.
const BLOCKS: usize = CONVERTED / BLOCK;

/// Words of a group of 16 bytes.
const GROUP: usize = 8;

/// Sums of 16 bits are multiplied as signed numbers: each is stored as 2^15 less than it is.
const BIAS_BITS: u32 = 15;
const BIASED_ZERO: u16 = 1 << BIAS_BITS;

/// The weighted sums of the rows of a token in the columns of a block.
type BlockSums = [[u16; BLOCK]; USUAL_SIDE];

/// The weighted sums of the rows of a token in two columns, side by side.
type PairSums = [[u16; GROUP]; 4];

/// Working memory of one thread.
#[derive(Debug)]
pub(super) struct NarrowScratch {
    /// R, G and B of pixels.
    rgb: [[[[u8; BLOCK]; BLOCKS]; FOOTPRINT_ROWS]; 3],
    blocks: [BlockSums; BLOCKS],
    /// Behind the last pair are some with weight 0.
    pairs: [PairSums; GROUP * BLOCKS + PAIRS],
}

impl Default for NarrowScratch {
    fn default() -> Self {
        Self {
            rgb: [[[[0; BLOCK]; BLOCKS]; FOOTPRINT_ROWS]; 3],
            blocks: [[[0; BLOCK]; USUAL_SIDE]; BLOCKS],
            pairs: [[[0; GROUP]; 4]; GROUP * BLOCKS + PAIRS],
        }
    }
}

/// The texels of the level under one texel of the token along an axis.
#[derive(Clone, Copy, Debug, Default)]
struct Taps {
    /// The first texel, counted from where the axis begins.
    first: usize,
    /// Texels up to the last one that has a weight.
    count: usize,
    /// Weights of the texels from `first` on; 0 after the last.
    weights: [u16; TAPS],
    total: u32,
}

/// The texels of a token along an axis.
#[derive(Debug)]
struct TokenAxis {
    taps: [Taps; USUAL_SIDE],
    /// Start of the axis in the level.
    first: usize,
    /// Texels from the start to the last tap.
    count: usize,
}

impl TokenAxis {
    /// Taps of `texels`, where a texel of the level is 2^`shift` parts of a pixel long. The axis begins at a multiple of the first
    /// `alignment`, in texels of the level, and the taps of each texel at a multiple of the second, which divides the first.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "a token is not that long")]
    fn new(texels: Texels, shift: u32, alignment: [usize; 2]) -> Self {
        let [begin, unit] = alignment.map(|texels| texels as u32);
        let first = (texels.parts(0).start >> shift) / begin * begin;
        let mut taps = [Taps::default(); USUAL_SIDE];
        let mut past = first;
        for (index, taps) in (0..).zip(&mut taps) {
            let Range { start, end } = texels.parts(index);
            let from = (start >> shift) / unit * unit;
            past = ((end - 1) >> shift) + 1;
            taps.first = (from - first) as usize;
            taps.count = (past - from) as usize;
            for (place, weight) in (from..past).zip(&mut taps.weights) {
                let shared =
                    end.min((place + 1) << shift).saturating_sub(start.max(place << shift));
                *weight = shared as u16;
            }
            taps.total = end - start;
        }
        Self { taps, first: first as usize, count: (past - first) as usize }
    }

    fn is_whole(&self, whole: u32) -> bool {
        self.taps.iter().all(|taps| taps.total == whole)
    }
}

/// A token that is averaged with sums of 16 bits.
pub(super) struct NarrowRows<'a, V: Vectors> {
    vectors: V,
    converter: Converter<V>,
    frame: &'a FrameView<'a>,
    /// `None` for level 0.
    level: Option<&'a CpuLevel>,
    /// Columns of the level.
    width: usize,
    across: TokenAxis,
    down: TokenAxis,
    /// Reciprocal of the total weight of a texel that lies wholly in the source.
    reciprocal: Reciprocal,
    /// Whether some texels lie partly outside of the source.
    is_cut: bool,
    rounds_half_up: bool,
}

/// Whether the sums of a token that is read from `level` fit 16 bits, and the level's texels under it fit a [`Footprint`].
pub(super) fn is_narrow(sample: &SampleToken<'_>, level: u32) -> bool {
    let (token, side) = (sample.token, sample.encoder.format().patch_side);
    let longest = (4 * side) << level;
    side as usize == USUAL_SIDE
        && token.height(side) <= HEIGHT_MAX.min(longest)
        && token.width(side) <= longest
}

impl<'a, V: Vectors> NarrowRows<'a, V> {
    /// A token that [`is_narrow`].
    #[inline(always)]
    pub(super) fn new(vectors: V, sample: &SampleToken<'a>, level: u32) -> Self {
        let SampleToken { texels, encoder, token, .. } = sample;
        let (extent, format) = (texels.frame.extent(), encoder.format());
        let shift = USUAL_SIDE.ilog2() + level;
        // Blocks begin at a block of the level, or at level 0 with a pair of pixels that share their chroma.
        let begin = if level == 0 { 2 } else { BLOCK };
        let columns = token.columns(extent, format.patch_side);
        let across = TokenAxis::new(columns, shift, [begin, 2]);
        let down = TokenAxis::new(token.rows(extent, format.patch_side), shift, [1, 1]);
        let (width, height) = (token.width(format.patch_side), token.height(format.patch_side));
        let is_cut = !across.is_whole(width) || !down.is_whole(height);
        Self {
            vectors,
            converter: Converter::new(vectors, texels.frame.color()),
            frame: texels.frame,
            level: (level as usize).checked_sub(1).map(|index| &texels.levels[index]),
            width: texels.shape.level_extent(level).width as usize,
            across,
            down,
            reciprocal: Reciprocal::of(width * height),
            is_cut,
            rounds_half_up: format.rounding == Rounding::HalfUp,
        }
    }

    /// Fills `target` with R, G and B of the token.
    #[inline(always)]
    fn average(&self, target: [&mut [u8]; 3], scratch: &mut NarrowScratch) {
        let NarrowScratch { rgb, blocks, pairs } = scratch;
        let footprint = if let Some(level) = self.level {
            level.footprint(self.across.first, self.down.first, self.down.count)
        } else {
            self.convert(rgb);
            Footprint::of_rasters(rgb)
        };
        let blocks = &mut blocks[..self.across.count.div_ceil(BLOCK)];
        for (channel, target) in target.into_iter().enumerate() {
            self.sum_down(&footprint, channel, blocks);
            self.pair_columns(blocks, pairs);
            let target = target.first_chunk_mut().expect("room for a token of the usual side");
            self.sum_across(pairs, target);
        }
    }

    /// Converts the pixels under the token.
    #[inline(always)]
    fn convert(&self, rgb: &mut [[[[u8; BLOCK]; BLOCKS]; FOOTPRINT_ROWS]; 3]) {
        let TokenAxis { first, count, .. } = self.across;
        for row in 0..self.down.count {
            let y = self.down.first + row;
            for at in (0..count).step_by(SIDE) {
                let x = first + at;
                let pixels = rgb_row(&self.converter, self.frame, x, y, SIDE.min(self.width - x));
                for (rgb, pixels) in rgb.iter_mut().zip(&pixels) {
                    rgb[row].as_flattened_mut()[at..at + SIDE].copy_from_slice(pixels);
                }
            }
        }
    }

    /// The weighted sums of a channel down the columns, of two blocks at a time.
    #[inline(always)]
    fn sum_down(&self, footprint: &Footprint<'_>, channel: usize, blocks: &mut [BlockSums]) {
        let rows = footprint.rows();
        for (index, blocks) in blocks.chunks_mut(2).enumerate() {
            let last = 2 * index + blocks.len() - 1;
            let left = footprint.block(channel, 2 * index);
            let right = footprint.block(channel, last);
            for (row, taps) in self.down.taps.iter().enumerate() {
                let mut sums = [[BIASED_ZERO; BLOCK]; 2];
                let rows = &rows[taps.first..][..taps.count];
                for (place, weight) in rows.iter().zip(&taps.weights) {
                    add_weighted(&mut sums[0], &left[*place], *weight);
                    add_weighted(&mut sums[1], &right[*place], *weight);
                }
                for (block, sums) in blocks.iter_mut().zip(sums) {
                    block[row] = sums;
                }
            }
        }
    }

    /// Puts pairs of columns side by side.
    #[inline(always)]
    fn pair_columns(&self, blocks: &[BlockSums], pairs: &mut [PairSums]) {
        let pairs = pairs.as_chunks_mut::<{ BLOCK / 2 }>().0;
        for (block, pairs) in blocks.iter().zip(pairs) {
            for (part, rows) in block.as_chunks::<4>().0.iter().enumerate() {
                for (half, pairs) in pairs.as_chunks_mut::<4>().0.iter_mut().enumerate() {
                    let mut groups = [[0; GROUP]; 4];
                    for (group, row) in groups.iter_mut().zip(rows) {
                        *group = row.as_chunks().0[half];
                    }
                    let bytes = self.vectors.loaded_bytes(bytemuck::cast_ref(&groups));
                    for (pair, rows) in pairs.iter_mut().zip(self.vectors.transposed_4(bytes)) {
                        pair[part] = bytemuck::cast(rows);
                    }
                }
            }
        }
    }

    /// The texels of a channel.
    #[inline(always)]
    fn sum_across(&self, pairs: &[PairSums], target: &mut [u8; USUAL_SIDE * USUAL_SIDE]) {
        let half = if self.rounds_half_up { self.reciprocal.divisor / 2 } else { 0 };
        for (part, taps) in self.across.taps.as_chunks::<4>().0.iter().enumerate() {
            let mut means = [[0; USUAL_SIDE]; 4];
            for (taps, means) in taps.iter().zip(&mut means) {
                let sums = self.column(taps, &pairs[taps.first / 2..]);
                if self.is_cut {
                    self.divide_cut(taps.total, &sums, means);
                } else {
                    self.reciprocal.divide(&sums, half, means);
                }
            }
            let means = self.vectors.loaded_bytes(bytemuck::cast_ref(&means));
            let rows = self.vectors.transposed_1(means);
            for (row, texels) in rows.iter().enumerate() {
                target[row * USUAL_SIDE + 4 * part..][..4].copy_from_slice(texels);
            }
        }
    }

    /// The weighted sums of a column of the token, in each of its rows.
    #[inline(always)]
    fn column(&self, taps: &Taps, pairs: &[PairSums]) -> [u32; USUAL_SIDE] {
        // The weights times the bias of the sums, which applies to cut rows as well.
        let bias = (taps.total << BIAS_BITS).cast_signed();
        let mut sums = self.vectors.sums(bias);
        let weights = taps.weights.as_chunks::<2>().0;
        for (pair, weights) in pairs[..PAIRS].iter().zip(weights) {
            let pair = self.vectors.loaded(bytemuck::cast_ref(pair));
            let weights = self.vectors.words(weights.map(u16::cast_signed));
            sums = self.vectors.multiplied_and_added(sums, pair, weights);
        }
        self.vectors.stored_sums(sums)
    }

    /// The means of a column of a token that the source's edge cuts.
    #[inline(always)]
    fn divide_cut(
        &self,
        column_total: u32,
        sums: &[u32; USUAL_SIDE],
        means: &mut [u8; USUAL_SIDE],
    ) {
        for ((taps, sum), mean) in self.down.taps.iter().zip(sums).zip(means) {
            let divisor = taps.total * column_total;
            let half = if self.rounds_half_up { divisor / 2 } else { 0 };
            #[expect(clippy::cast_possible_truncation, reason = "a mean of bytes")]
            let exact = ((sum + half) / divisor) as u8;
            *mean = exact;
        }
    }
}

impl<V: Vectors> Rows for NarrowRows<'_, V> {
    fn gather(&self, _: usize, _: [&mut [u8]; 3]) {
        unreachable!("rows are gathered at once");
    }

    #[inline(always)]
    fn gather_at_once(
        &self,
        _first: usize,
        _count: usize,
        _side: usize,
        target: [&mut [u8]; 3],
        scratch: &mut SumScratch,
    ) -> bool {
        self.average(target, scratch.narrow.get_or_insert_default());
        true
    }
}

/// Adds values to sums by a weight, modulo 2^16.
#[inline(always)]
fn add_weighted(sums: &mut [u16; BLOCK], values: &[u8; BLOCK], weight: u16) {
    for (sum, value) in sums.iter_mut().zip(values) {
        *sum = sum.wrapping_add(weight.wrapping_mul(u16::from(*value)));
    }
}
