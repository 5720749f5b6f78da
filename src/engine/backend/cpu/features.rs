//! Features of the dirty tiles, in sums of integers.
//!
//! Twin of `glsl/features.comp`.

#![expect(clippy::cast_possible_truncation, reason = "samples of 8 bits, counts within a tile")]
#![expect(clippy::needless_range_loop, reason = "zipped iterators are calls inside of kernels")]

use std::ops::Range;

use super::convert::{Converter, SIDE, pixels, rgb_row};
use super::level::RealPixels;
use crate::simd::{Instructions, Kernel, Vectors};
use foveate_core::frame::{FrameView, PixelFormat, Plane};
use foveate_core::geometry::tile::TILE_SIDE;
use foveate_gaze::relevance::features::{BINS, STROKE_MAX, STRONG, TileFeatures};

/// Side of a block, whose mean is one of the coarse ones.
const BLOCK: usize = 4;

/// Blocks along a side of a tile.
const BLOCKS: usize = SIDE / BLOCK;

/// Bytes of two rows of a tile.
const PAIR: usize = 2 * SIDE;

/// Samples of a tile, row by row.
type Raster = [u8; SIDE * SIDE];

/// Luma of a tile and what lies right of and below each pixel. Where that would be outside of the tile or of the source, it is
/// the pixel itself, so that nothing differs there. Columns beyond the source are 0, rows beyond it repeat the last one.
#[repr(align(64))]
pub(super) struct Luma {
    /// The tile, and its last row once more.
    own: [u8; (SIDE + 1) * SIDE],
    right: Raster,
}

/// Computes the features of the tiles of `columns`, neighbours in one row of tiles, but their colour, which ingesting sums up.
#[derive(Debug)]
pub struct FeatureRun<'a> {
    /// The resident copy.
    pub frame: &'a FrameView<'a>,
    /// The row of tiles.
    pub row: usize,
    /// The tiles of the run.
    pub columns: Range<usize>,
    /// The features of the whole row of tiles.
    pub target: &'a mut [TileFeatures],
}

/// The features of all tiles of a frame.
pub fn features_of(frame: &FrameView<'_>, target: &mut [TileFeatures]) {
    let columns = frame.extent().in_cells(TILE_SIDE).width as usize;
    for (row, target) in target.chunks_mut(columns).enumerate() {
        Instructions::best().run(FeatureRun { frame, row, columns: 0..columns, target });
        Instructions::best().run(ColorSums { frame, row, target });
    }
}

/// Sums up the colours of a row of tiles that were not ingested here.
struct ColorSums<'a> {
    frame: &'a FrameView<'a>,
    row: usize,
    target: &'a mut [TileFeatures],
}

impl Kernel for ColorSums<'_> {
    #[inline(always)]
    fn run<V: Vectors>(self, vectors: V) {
        let Self { frame, row, target } = self;
        let (width, height) = (frame.extent().width as usize, frame.extent().height as usize);
        let converter = Converter::new(vectors, frame.color());
        for (column, features) in target.iter_mut().enumerate() {
            features.color = [0; 3];
            let count = (width - column * SIDE).min(SIDE);
            for y in row * SIDE..height.min((row + 1) * SIDE) {
                let rgb = rgb_row(&converter, frame, column * SIDE, y, count);
                for (sum, samples) in features.color.iter_mut().zip(rgb) {
                    *sum += samples[..count].iter().map(|sample| u32::from(*sample)).sum::<u32>();
                }
            }
        }
    }
}

impl Kernel for FeatureRun<'_> {
    #[inline(always)]
    fn run<V: Vectors>(self, vectors: V) {
        let Self { frame, row, columns, target } = self;
        let (width, height) = (frame.extent().width as usize, frame.extent().height as usize);
        let mut luma = Luma::default();
        for column in columns {
            let (x, y) = (column * SIDE, row * SIDE);
            let real = RealPixels { columns: (width - x).min(SIDE), rows: (height - y).min(SIDE) };
            let is_whole = real.columns == SIDE && real.rows == SIDE;
            if is_whole {
                luma.load(vectors, frame, x, y);
            } else {
                luma.load_cut(frame, x, y, real);
            }
            let means = luma.means(vectors);
            let mut features = luma.features(vectors);
            if is_whole {
                features.coarse_squared = means.differences_squared(vectors);
            } else {
                luma.correct_cut(&mut features, &means, real);
            }
            target[column] = features;
        }
    }
}

impl Default for Luma {
    fn default() -> Self {
        Self { own: [0; _], right: [0; _] }
    }
}

impl Luma {
    /// The samples of the tile, row by row, [`SIDE`] each.
    pub(super) fn samples(&self) -> &[u8] {
        &self.own
    }

    /// Loads the whole tile at (`x`, `y`).
    #[inline(always)]
    fn load<V: Vectors>(&mut self, vectors: V, frame: &FrameView<'_>, x: usize, y: usize) {
        self.load_samples(vectors, frame, x, y);
        self.own.copy_within((SIDE - 1) * SIDE..SIDE * SIDE, SIDE * SIDE);
        for y in 0..SIDE {
            let right: [u8; SIDE] = *chunk(&self.own, y * SIDE + 1);
            self.right[y * SIDE..][..SIDE].copy_from_slice(&right);
            self.right[y * SIDE + SIDE - 1] = self.own[y * SIDE + SIDE - 1];
        }
    }

    /// Loads [`Self::samples`] alone.
    #[inline(always)]
    pub(super) fn load_samples<V: Vectors>(
        &mut self,
        vectors: V,
        frame: &FrameView<'_>,
        x: usize,
        y: usize,
    ) {
        let Plane { bytes, stride } = frame.plane(0);
        let rows = &bytes[y * stride..];
        match frame.format() {
            PixelFormat::Nv12 | PixelFormat::I420 | PixelFormat::Gray8 => {
                for y in 0..SIDE {
                    let luma: &[_; SIDE] = chunk(rows, y * stride + x);
                    self.own[y * SIDE..][..SIDE].copy_from_slice(luma);
                }
            }
            PixelFormat::Yuy2 => {
                for y in 0..SIDE {
                    let [luma, _] = vectors.unzipped(chunk(rows, y * stride + 2 * x));
                    self.own[y * SIDE..][..SIDE].copy_from_slice(&vectors.clamped(luma));
                }
            }
            format => {
                let (r, b) = if is_reversed(format) { (19, 54) } else { (54, 19) };
                let [first_and_third, second] = [vectors.words([r, b]), vectors.words([183, 0])];
                for pair in 0..SIDE / 2 {
                    let mut luma = [vectors.words([0; 2]); 2];
                    for row in 0..2 {
                        let mut halves = [vectors.sums(0); 2];
                        let start = (2 * pair + row) * stride;
                        let packed: [u8; 4 * SIDE] = if format.has_fourth_byte() {
                            *chunk(rows, start + 4 * x)
                        } else {
                            bytemuck::cast(pixels::<3>(&rows[start + 3 * x..]))
                        };
                        for half in 0..2 {
                            let [even, odd] = vectors.unzipped(chunk(&packed, half * 2 * SIDE));
                            let sums = vectors.sums(0);
                            let sums = vectors.multiplied_and_added(sums, even, first_and_third);
                            let sums = vectors.multiplied_and_added(sums, odd, second);
                            halves[half] = vectors.rounded_sums_down::<8>(sums);
                        }
                        luma[row] = vectors.narrowed_sums(halves[0], halves[1]);
                    }
                    // Each group has four pixels of either half of both rows.
                    let quarters = vectors.transposed_4(vectors.narrowed(luma[0], luma[1]));
                    self.own[pair * PAIR..][..PAIR].copy_from_slice(quarters.as_flattened());
                }
            }
        }
    }

    /// Loads a tile of which only the `real` columns and rows are there.
    #[inline(never)]
    pub(super) fn load_cut(&mut self, frame: &FrameView<'_>, x: usize, y: usize, real: RealPixels) {
        self.own.fill(0);
        let (rows, beyond) = self.own.split_at_mut(real.rows * SIDE);
        for (row, target) in rows.as_chunks_mut::<SIDE>().0.iter_mut().enumerate() {
            load_cut_row(frame, x, y + row, &mut target[..real.columns]);
        }
        for target in beyond.as_chunks_mut::<SIDE>().0 {
            target.copy_from_slice(&rows[(real.rows - 1) * SIDE..]);
        }
        self.right.copy_from_slice(&self.own[..SIDE * SIDE]);
        for right in self.right.as_chunks_mut::<SIDE>().0.iter_mut().take(real.rows) {
            right.copy_within(1..real.columns, 0);
        }
    }

    /// All but the coarse squares. Of a tile that is cut off, what [`Self::correct_cut`] says is still to be corrected.
    #[inline(always)]
    fn features<V: Vectors>(&self, vectors: V) -> TileFeatures {
        let none = vectors.sums(0);
        let nothing = vectors.loaded_bytes(&[0; PAIR]);
        let [mut total, mut across, mut down] = [none; 3];
        let [mut squares, mut across_squares, mut down_squares, mut products] = [none; 4];
        let mut strong = StrongGradients::default();
        for pair in 0..SIDE / 2 {
            let own = chunk(&self.own, pair * PAIR);
            let right = chunk(&self.right, pair * PAIR);
            let below = chunk(&self.own, pair * PAIR + SIDE);

            let words = vectors.unzipped(own);
            let [right_words, below_words] = [vectors.unzipped(right), vectors.unzipped(below)];
            for half in 0..2 {
                let value = words[half];
                let dx = vectors.subtracted(right_words[half], value);
                let dy = vectors.subtracted(below_words[half], value);
                squares = vectors.multiplied_and_added(squares, value, value);
                across_squares = vectors.multiplied_and_added(across_squares, dx, dx);
                down_squares = vectors.multiplied_and_added(down_squares, dy, dy);
                products = vectors.multiplied_and_added(products, dx, dy);
            }

            let own = vectors.loaded_bytes(own);
            let [right, below] = [vectors.loaded_bytes(right), vectors.loaded_bytes(below)];
            total = vectors.added_distances(total, own, nothing);
            across = vectors.added_distances(across, own, right);
            down = vectors.added_distances(down, own, below);
            strong.right.rises.set(pair, vectors.exceeding::<STRONG>(right, own));
            strong.right.falls.set(pair, vectors.exceeding::<STRONG>(own, right));
            strong.below.rises.set(pair, vectors.exceeding::<STRONG>(below, own));
            strong.below.falls.set(pair, vectors.exceeding::<STRONG>(own, below));
        }
        const PIXELS: u32 = (SIDE * SIDE) as u32;
        const BLOCK_PAIRS: u32 = (2 * BLOCKS * (BLOCKS - 1)) as u32;
        TileFeatures {
            count: PIXELS,
            luma: sum(vectors, total),
            luma_squared: sum(vectors, squares),
            differences: [PIXELS - SIDE as u32; 2],
            gradient: [sum(vectors, across), sum(vectors, down)],
            gradient_squared: [sum(vectors, across_squares), sum(vectors, down_squares)],
            gradient_product: sum(vectors, products).cast_signed(),
            coarse_differences: BLOCK_PAIRS,
            strokes: strong.strokes(),
            histogram: self.histogram(vectors),
            ..TileFeatures::default()
        }
    }

    /// Pixels by luma / 16, one counter per bin.
    #[inline(always)]
    fn histogram<V: Vectors>(&self, vectors: V) -> [u32; BINS] {
        let none = vectors.loaded_bytes(&[0; PAIR]);
        let mut shares = [0; SIDE * SIDE];
        for i in 0..SIDE * SIDE {
            shares[i] = self.own[i] & 0xF0;
        }
        let mut bins = [0; BINS];
        let mut left = (SIDE * SIDE) as u32;
        for (bin, number) in bins.iter_mut().enumerate() {
            let mut counts = none;
            for pair in 0..SIDE / 2 {
                let shares = vectors.loaded_bytes(chunk(&shares, pair * PAIR));
                counts = vectors.counted(counts, shares, (bin << 4) as u8);
            }
            *number = sum(vectors, vectors.added_distances(vectors.sums(0), counts, none));
            left -= *number;
            if left == 0 {
                break;
            }
        }
        bins
    }

    /// Rounded means of the blocks.
    #[inline(always)]
    fn means<V: Vectors>(&self, vectors: V) -> Means {
        let ones = vectors.words([1; 2]);
        let mut means = [0; (BLOCKS + 1) * BLOCKS];
        for y in 0..BLOCKS {
            let upper = vectors.loaded_bytes(chunk(&self.own, 2 * y * PAIR));
            let lower = vectors.loaded_bytes(chunk(&self.own, (2 * y + 1) * PAIR));
            let pairs = vectors.added(vectors.added_pairs(upper), vectors.added_pairs(lower));
            let sums = vectors.multiplied_and_added(vectors.sums(0), pairs, ones);
            let sums = vectors.stored_sums(sums);
            for x in 0..BLOCKS {
                means[y * BLOCKS + x] = ((sums[x] + sums[BLOCKS + x] + 8) >> 4) as u16;
            }
        }
        means.copy_within((BLOCKS - 1) * BLOCKS..BLOCKS * BLOCKS, BLOCKS * BLOCKS);
        Means(means)
    }

    /// Corrects what the pixels beyond the source have changed.
    #[inline(never)]
    fn correct_cut(&self, features: &mut TileFeatures, means: &Means, real: RealPixels) {
        let RealPixels { columns, rows } = real;
        features.count = (columns * rows) as u32;
        features.differences =
            [(columns - 1) * rows, columns * (rows - 1)].map(|count| count as u32);
        let (across, down) = (columns / BLOCK, rows / BLOCK);
        let block_pairs = across.saturating_sub(1) * down + across * down.saturating_sub(1);
        features.coarse_differences = block_pairs as u32;
        features.coarse_squared = means.differences_squared_cut(across, down);
        features.histogram[0] -= ((SIDE - columns) * SIDE) as u32;
        let copies = (SIDE - rows) as u32;
        for value in &self.own[(rows - 1) * SIDE..][..columns] {
            let value = u32::from(*value);
            features.luma -= copies * value;
            features.luma_squared -= copies * value * value;
            features.histogram[value as usize * BINS / 256] -= copies;
        }
    }
}

/// The `N` values from `start` on.
#[inline(always)]
pub(super) fn chunk<T, const N: usize>(values: &[T], start: usize) -> &[T; N] {
    values[start..].first_chunk().expect("a whole tile")
}

fn is_reversed(format: PixelFormat) -> bool {
    matches!(format, PixelFormat::Bgr | PixelFormat::Bgrx | PixelFormat::Bgra)
}

fn load_cut_row(frame: &FrameView<'_>, x: usize, y: usize, target: &mut [u8]) {
    let samples = frame.row(0, y);
    match frame.format() {
        PixelFormat::Nv12 | PixelFormat::I420 | PixelFormat::Gray8 => {
            target.copy_from_slice(&samples[x..x + target.len()]);
        }
        PixelFormat::Yuy2 => {
            for (luma, pair) in target.iter_mut().zip(samples[2 * x..].as_chunks::<2>().0) {
                *luma = pair[0];
            }
        }
        format => {
            let pixel_bytes = if format.has_fourth_byte() { 4 } else { 3 };
            let pixels = samples[pixel_bytes * x..].chunks_exact(pixel_bytes);
            for (luma, pixel) in target.iter_mut().zip(pixels) {
                let [first, g, third] = [pixel[0], pixel[1], pixel[2]].map(u32::from);
                let (r, b) = if is_reversed(format) { (third, first) } else { (first, third) };
                *luma = ((54 * r + 183 * g + 19 * b + 128) >> 8) as u8;
            }
        }
    }
}

#[inline(always)]
fn sum<V: Vectors>(vectors: V, sums: V::Sums) -> u32 {
    let mut total = 0u32;
    for sum in vectors.stored_sums(sums) {
        total = total.wrapping_add(sum);
    }
    total
}

/// A bit for each pixel of a tile, those of a row in a word, and rows of zeros.
struct Bits([u32; SIDE + STROKE_MAX as usize]);

impl Bits {
    /// Sets the bits of the rows `2 * pair` and `2 * pair + 1`.
    #[inline(always)]
    fn set(&mut self, pair: usize, bits: u64) {
        self.0[2 * pair] = bits as u32;
        self.0[2 * pair + 1] = (bits >> SIDE) as u32;
    }
}

/// Strong differences in one direction.
struct Axis {
    rises: Bits,
    falls: Bits,
}

/// Strong differences.
struct StrongGradients {
    right: Axis,
    below: Axis,
}

impl Default for StrongGradients {
    #[inline(always)]
    fn default() -> Self {
        let axis = || Axis { rises: Bits([0; _]), falls: Bits([0; _]) };
        Self { right: axis(), below: axis() }
    }
}

impl StrongGradients {
    /// Number of strong differences along each axis that are followed by one of the opposite sign: rises and falls are counted together,
    /// since no difference is both.
    #[inline(always)]
    fn strokes(&self) -> [u32; 2] {
        let Axis { rises: Bits(rises_right), falls: Bits(falls_right) } = &self.right;
        let Axis { rises: Bits(rises_below), falls: Bits(falls_below) } = &self.below;
        let [mut across, mut down] = [[0; SIDE]; 2];
        for y in 0..SIDE {
            let [mut rises, mut falls] = [0; 2];
            for step in 0..STROKE_MAX {
                rises |= rises_right[y] >> (step + 1);
                falls |= falls_right[y] >> (step + 1);
            }
            across[y] = rises_right[y] & falls | falls_right[y] & rises;
        }
        for y in 0..SIDE {
            let [mut rises, mut falls] = [0; 2];
            for step in 0..STROKE_MAX as usize {
                rises |= rises_below[y + step + 1];
                falls |= falls_below[y + step + 1];
            }
            down[y] = rises_below[y] & falls | falls_below[y] & rises;
        }
        [number_of_bits(&across), number_of_bits(&down)]
    }
}

#[inline(always)]
fn number_of_bits(rows: &[u32; SIDE]) -> u32 {
    let mut number = 0;
    for bits in rows {
        number += bits.count_ones();
    }
    number
}

/// Rounded means of the blocks of a tile, row by row, and the last row once more.
struct Means([u16; (BLOCKS + 1) * BLOCKS]);

impl Means {
    /// The sum of the squares of the differences between neighbours.
    #[inline(always)]
    fn differences_squared<V: Vectors>(&self, vectors: V) -> u32 {
        let mut right = [0; BLOCKS * BLOCKS];
        for y in 0..BLOCKS {
            let row: [u16; BLOCKS] = *chunk(&self.0, y * BLOCKS + 1);
            right[y * BLOCKS..][..BLOCKS].copy_from_slice(&row);
            right[y * BLOCKS + BLOCKS - 1] = self.0[y * BLOCKS + BLOCKS - 1];
        }
        let mut squares = vectors.sums(0);
        for half in 0..2 {
            let own = vectors.loaded(chunk(&self.0, half * SIDE));
            let below = vectors.loaded(chunk(&self.0, half * SIDE + BLOCKS));
            let right = vectors.loaded(chunk(&right, half * SIDE));
            let (dx, dy) = (vectors.subtracted(right, own), vectors.subtracted(below, own));
            squares = vectors.multiplied_and_added(squares, dx, dx);
            squares = vectors.multiplied_and_added(squares, dy, dy);
        }
        sum(vectors, squares)
    }

    /// [`differences_squared`](Self::differences_squared) over the first `columns` and `rows` of blocks only.
    #[inline(never)]
    fn differences_squared_cut(&self, columns: usize, rows: usize) -> u32 {
        let squared = |a: u16, b: u16| u32::from(a.abs_diff(b)).pow(2);
        let mut squares = 0;
        let means = self.0.as_chunks::<BLOCKS>().0;
        for row in &means[..rows] {
            squares += row[..columns].windows(2).map(|pair| squared(pair[0], pair[1])).sum::<u32>();
        }
        for rows in means[..rows].windows(2) {
            squares += (0..columns).map(|x| squared(rows[0][x], rows[1][x])).sum::<u32>();
        }
        squares
    }
}
