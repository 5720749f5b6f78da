//! Tokens: texels of the pyramid, means of boxes of pixels, or weighted means of texels of a level, through the normalisation table
//! into bytes.
//!
//! Twin of `glsl/sample.comp`. Texels of level 0 are converted from the camera's samples here.

use std::ops::Range;

use super::convert::{Converter, SIDE, rgb_row};
use super::level::{BLOCK, CpuLevel};
use super::narrow::{NarrowRows, NarrowScratch, is_narrow};
use super::sent::Sent;
use crate::simd::{Instructions, Kernel, Lookup, Vectors};
use foveate_core::frame::FrameView;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::plan::{self, Token};
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_core::token::{DType, Outside, PATCH_SIDES, Rounding, TokenFormat, WINDOW_SIDES};
use foveate_ring::Item;

/// Encodes texels in the number format of one view.
#[derive(Debug)]
pub struct Encoder {
    format: TokenFormat,
    table: EncodingTable,
}

/// The encoding of each value of each channel, by the width of the number format.
#[derive(Debug)]
enum EncodingTable {
    One(Box<[[[u8; 1]; 256]; 3]>),
    Two(Box<[Lookup; 3]>),
    Four(Box<[[[u8; 4]; 256]; 3]>),
}

impl Encoder {
    /// The encoder of tokens of `format`.
    pub fn new(format: TokenFormat) -> Self {
        let table = match format.dtype {
            DType::U8 => EncodingTable::One(byte_table(format)),
            DType::F16 => EncodingTable::Two(Box::new(half_tables(format))),
            DType::Bf16 => EncodingTable::Two(Box::new(byte_table(format).map(Lookup::new))),
            DType::F32 => EncodingTable::Four(byte_table(format)),
        };
        Self { format, table }
    }

    /// Number format of the tokens that it encodes.
    pub fn format(&self) -> TokenFormat {
        self.format
    }
}

/// The low `BYTES` bytes of each word of the normalisation table, little-endian.
fn byte_table<const BYTES: usize>(format: TokenFormat) -> Box<[[[u8; BYTES]; 256]; 3]> {
    let bytes = |word: u32| {
        let word = word.to_le_bytes();
        std::array::from_fn(|index| word[index])
    };
    Box::new(format.table().map(|channel| channel.map(bytes)))
}

/// Tables of half floats, whose values lie on a line.
fn half_tables(format: TokenFormat) -> [Lookup; 3] {
    let words = *byte_table(format);
    std::array::from_fn(|channel| {
        let (factor, offset) = format.line(channel);
        Lookup::near(words[channel], factor, offset)
    })
}

/// The pyramid that tokens are read from.
#[derive(Clone, Copy, Debug)]
pub struct PyramidTexels<'a> {
    /// Extents of all levels.
    pub shape: PyramidShape,
    /// Level 0 in the camera's samples.
    pub frame: &'a FrameView<'a>,
    /// Level 1 and those above.
    pub levels: &'a [CpuLevel],
}

/// Samples one token whose texels equal texels of a level.
#[derive(Debug)]
struct SampleLevel<'a, 'b>(&'a mut SampleToken<'b>, u32);

/// Samples one token of any boxes of whole pixels.
#[derive(Debug)]
struct SampleBoxes<'a, 'b>(&'a mut SampleToken<'b>);

/// Samples one token with real steps from a level.
#[derive(Debug)]
struct SampleWeighted<'a, 'b>(&'a mut SampleToken<'b>, u32);

/// [`SampleWeighted`] with sums of 16 bits, which are faster and suffice for most tokens.
#[derive(Debug)]
struct SampleNarrow<'a, 'b>(&'a mut SampleToken<'b>, u32);

/// A token to sample.
#[derive(Debug)]
pub struct SampleToken<'a> {
    /// Source.
    pub texels: PyramidTexels<'a>,
    /// Number format.
    pub encoder: &'a Encoder,
    /// The token.
    pub token: Token,
    /// Target, `[3, P, P]`.
    pub target: TexelTarget<'a>,
    /// Working memory.
    pub scratch: &'a mut SampleScratch,
    /// The bytes that the token was last published with, if they are compared.
    pub sent: Option<Sent<'a>>,
}

/// Working memory of one thread: some rows of a token.
#[derive(Debug)]
pub struct SampleScratch {
    values: [[u8; SCRATCH_TEXELS]; 3],
    encoded: [[u8; MOST_BYTES]; SCRATCH_TEXELS],
    sums: SumScratch,
}

/// Working memory for tokens with real steps.
#[derive(Debug, Default)]
pub(super) struct SumScratch {
    strip: Option<Strip>,
    pub(super) narrow: Option<NarrowScratch>,
}

/// Texels of the working memory: at least a row of the largest token, and all of a token with the [usual side](USUAL_SIDE).
const SCRATCH_TEXELS: usize = *WINDOW_SIDES.end() as usize;

impl Default for SampleScratch {
    fn default() -> Self {
        Self {
            values: [[0; SCRATCH_TEXELS]; 3],
            encoded: [[0; MOST_BYTES]; SCRATCH_TEXELS],
            sums: SumScratch::default(),
        }
    }
}

/// Where the bytes of a token go.
#[derive(Debug)]
pub enum TexelTarget<'a> {
    /// Memory that others may read meanwhile.
    Item(Item<'a>),
    /// Memory that only the sampler uses.
    Bytes(&'a mut [u8]),
}

impl TexelTarget<'_> {
    #[inline(always)]
    fn put(&mut self, offset: usize, bytes: &[u8]) {
        match self {
            Self::Item(item) => item.put(offset, bytes),
            Self::Bytes(target) => target[offset..offset + bytes.len()].copy_from_slice(bytes),
        }
    }
}

// Separate kernels, because the rarer ones would slow down the others.

impl SampleToken<'_> {
    /// Samples it with the kernel that fits.
    pub fn run(mut self, instructions: Instructions) {
        let (shape, format) = (self.texels.shape, self.encoder.format);
        if let Some(level) = self.token.level(shape, format.rounding) {
            instructions.run(SampleLevel(&mut self, level));
        } else if let Some(level) = self.token.weighted_level(shape, format.patch_side) {
            if is_narrow(&self, level) {
                instructions.run(SampleNarrow(&mut self, level));
            } else {
                instructions.run(SampleWeighted(&mut self, level));
            }
        } else {
            instructions.run(SampleBoxes(&mut self));
        }
    }
}

impl Kernel for SampleLevel<'_, '_> {
    #[inline(always)]
    fn run<V: Vectors>(self, vectors: V) {
        let Self(sample, level) = self;
        let rows = LevelRows::new(vectors, sample, level);
        sample.sample(vectors, &rows);
    }
}

impl Kernel for SampleBoxes<'_, '_> {
    #[inline(always)]
    fn run<V: Vectors>(self, vectors: V) {
        let Self(sample) = self;
        let rows = BoxRows::new(vectors, sample);
        sample.sample(vectors, &rows);
    }
}

impl Kernel for SampleWeighted<'_, '_> {
    #[inline(always)]
    fn run<V: Vectors>(self, vectors: V) {
        let Self(sample, level) = self;
        let rows = WeightedRows::new(vectors, sample, level);
        sample.scratch.sums.strip.get_or_insert_default().converted = None;
        sample.sample(vectors, &rows);
    }
}

impl Kernel for SampleNarrow<'_, '_> {
    #[inline(always)]
    fn run<V: Vectors>(self, vectors: V) {
        let Self(sample, level) = self;
        let rows = NarrowRows::new(vectors, sample, level);
        sample.sample(vectors, &rows);
    }
}

/// The usual side of a token, which is that of the squares that levels are copied in.
pub(super) const USUAL_SIDE: usize = BLOCK;

/// Where the rows of a token come from.
pub(super) trait Rows {
    /// R, G and B of row `row` of the token, in its columns.
    fn gather(&self, row: usize, target: [&mut [u8]; 3]);

    /// Gathers R, G and B of `count` rows of `side` texels from row `first`, if the source can do so at once. Returns whether it did.
    #[inline(always)]
    fn gather_at_once(
        &self,
        _first: usize,
        _count: usize,
        _side: usize,
        _target: [&mut [u8]; 3],
        _scratch: &mut SumScratch,
    ) -> bool {
        false
    }
}

impl SampleToken<'_> {
    /// Samples as many rows at a time as there is room for.
    #[inline(always)]
    fn sample<V: Vectors>(&mut self, vectors: V, rows: &impl Rows) {
        let Self { texels, encoder, token, target, scratch, sent } = self;
        let SampleScratch { values, encoded, sums } = &mut **scratch;
        let format = encoder.format;
        let side = format.patch_side as usize;
        let real = (format.outside == Outside::Mean)
            .then(|| RealTexels::new(*token, texels.frame.extent(), format));
        let texel_bytes = format.dtype.bytes();
        let at_once = (SCRATCH_TEXELS / side).min(side);
        if let Some(sent) = sent
            && at_once < side
        {
            // Compare the whole token before any texel is written.
            for first in (0..side).step_by(at_once) {
                let count = at_once.min(side - first);
                gather(rows, first, count, side, values, sums);
                let places = first * side..(first + count) * side;
                sent.compare(
                    places.clone(),
                    values.each_ref().map(|values| &values[..places.len()]),
                );
            }
        }
        for first in (0..side).step_by(at_once) {
            let count = at_once.min(side - first);
            gather(rows, first, count, side, values, sums);
            if let Some(sent) = sent {
                let places = first * side..(first + count) * side;
                if at_once == side {
                    sent.compare(
                        places.clone(),
                        values.each_ref().map(|values| &values[..places.len()]),
                    );
                }
                sent.settle(
                    places.clone(),
                    values.each_mut().map(|values| &mut values[..places.len()]),
                );
            }
            for (channel, values) in values.iter().enumerate() {
                let encoded = &mut encoded.as_flattened_mut()[..count * side * texel_bytes];
                encoder.encode(vectors, channel, &values[..count * side], encoded);
                if let Some(real) = &real {
                    real.clear_others(first, encoded);
                }
                target.put((channel * side + first) * side * texel_bytes, encoded);
            }
        }
    }
}

/// Samples `count` rows of a token of `side` texels from row `first` on.
#[inline(always)]
fn gather(
    rows: &impl Rows,
    first: usize,
    count: usize,
    side: usize,
    [red, green, blue]: &mut [[u8; SCRATCH_TEXELS]; 3],
    scratch: &mut SumScratch,
) {
    if rows.gather_at_once(first, count, side, [red, green, blue], scratch) {
        return;
    }
    for row in 0..count {
        let place = row * side..(row + 1) * side;
        rows.gather(
            first + row,
            [&mut red[place.clone()], &mut green[place.clone()], &mut blue[place]],
        );
    }
}

/// Bytes of a texel in the widest number format.
const MOST_BYTES: usize = 4;

/// The texels of a token that have a real pixel.
struct RealTexels {
    rows: Range<usize>,
    /// Bytes of each row that belong to real pixels.
    columns: Range<usize>,
    row_bytes: usize,
}

impl RealTexels {
    fn new(
        token: Token,
        extent: Extent,
        TokenFormat { patch_side, dtype, .. }: TokenFormat,
    ) -> Self {
        let rows = token.rows(extent, patch_side).real();
        let columns = token.columns(extent, patch_side).real();
        let bytes = |texels: u32| texels as usize * dtype.bytes();
        Self {
            rows: rows.start as usize..rows.end as usize,
            columns: bytes(columns.start)..bytes(columns.end),
            row_bytes: bytes(patch_side),
        }
    }

    /// Fills the other texels with 0, in every number format all bits; `encoded` begins with row `first`.
    fn clear_others(&self, first: usize, encoded: &mut [u8]) {
        for (row, texels) in (first..).zip(encoded.chunks_exact_mut(self.row_bytes)) {
            if self.rows.contains(&row) {
                texels[..self.columns.start].fill(0);
                texels[self.columns.end..].fill(0);
            } else {
                texels.fill(0);
            }
        }
    }
}

/// Rows of a level.
struct LevelRows<'a, V: Vectors> {
    converter: Converter<V>,
    frame: &'a FrameView<'a>,
    /// `None` for level 0.
    level: Option<&'a CpuLevel>,
    /// Row of the level that the first row of the token lies in; it may lie outside.
    top: i64,
    last_row: i64,
    /// The first column of the level that is read.
    x: usize,
    /// The columns of the token that are read; the others repeat the first or the last of them.
    distinct: Range<usize>,
}

impl<'a, V: Vectors> LevelRows<'a, V> {
    #[inline(always)]
    fn new(vectors: V, sample: &SampleToken<'a>, level: u32) -> Self {
        let SampleToken { texels, encoder, token, .. } = sample;
        let extent = texels.shape.level_extent(level);
        let (x, side) = (i64::from(token.x >> level), i64::from(encoder.format.patch_side));
        let width = i64::from(extent.width);
        let [first, last] = [x, x + side - 1].map(|column| column.clamp(0, width - 1));
        // Of a token that lies outside, the column nearest to it stands in its first or its last.
        let start = (first - x).clamp(0, side - 1);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
        let distinct = start as usize..(start + last - first + 1) as usize;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
        let x = first as usize;
        Self {
            converter: Converter::new(vectors, texels.frame.color()),
            frame: texels.frame,
            level: (level as usize).checked_sub(1).map(|index| &texels.levels[index]),
            top: i64::from(token.y >> level),
            last_row: i64::from(extent.height) - 1,
            x,
            distinct,
        }
    }
}

impl<V: Vectors> Rows for LevelRows<'_, V> {
    #[inline(always)]
    fn gather(&self, row: usize, target: [&mut [u8]; 3]) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
        let y = (self.top + row as i64).clamp(0, self.last_row) as usize;
        let (start, count) = (self.distinct.start, self.distinct.len());
        if let Some(level) = self.level {
            for (channel, target) in target.into_iter().enumerate() {
                level.copy_row(channel, self.x, y, &mut target[start..][..count]);
                repeat_ends(self.distinct.clone(), target);
            }
            return;
        }
        // Pairs of pixels share their chroma.
        let skipped = self.x % 2;
        if skipped + count <= SIDE {
            let rgb = rgb_row(&self.converter, self.frame, self.x - skipped, y, skipped + count);
            for (target, rgb) in target.into_iter().zip(&rgb) {
                spread(&rgb[skipped..][..count], start, target);
            }
            return;
        }
        let mut texels = [[0; SCRATCH_TEXELS]; 3];
        for piece in pieces(self.x..self.x + count) {
            let rgb = rgb_of(&self.converter, self.frame, piece.clone(), y);
            let at = piece.start - self.x;
            for (texels, rgb) in texels.iter_mut().zip(&rgb) {
                texels[at..][..piece.len()].copy_from_slice(&rgb[piece.start % 2..][..piece.len()]);
            }
        }
        for (target, texels) in target.into_iter().zip(&texels) {
            spread(&texels[..count], start, target);
        }
    }

    /// Nearly every token is a rectangle of its level.
    #[inline(always)]
    fn gather_at_once(
        &self,
        first: usize,
        count: usize,
        side: usize,
        target: [&mut [u8]; 3],
        _scratch: &mut SumScratch,
    ) -> bool {
        let (top, bottom) = (self.top + first as i64, self.top + (first + count) as i64);
        let is_inside = 0 <= top && bottom <= self.last_row + 1 && self.distinct.len() == side;
        let (Some(level), (USUAL_SIDE, USUAL_SIDE), true) = (self.level, (side, count), is_inside)
        else {
            return false;
        };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "inside")]
        let top = top as usize;
        let target = target.map(|target| target.first_chunk_mut().expect("room for a row more"));
        level.copy_square(self.x, top, target);
        true
    }
}

/// Fills a row with `texels` from column `start` on, and repeats the first and the last of them where there are none.
#[inline(always)]
fn spread(texels: &[u8], start: usize, row: &mut [u8]) {
    match (texels.first_chunk::<USUAL_SIDE>(), row.as_mut_array::<USUAL_SIDE>()) {
        (Some(texels), Some(row)) => *row = *texels,
        _ => {
            let (before, rest) = row.split_at_mut(start);
            let (inside, after) = rest.split_at_mut(texels.len());
            inside.copy_from_slice(texels);
            before.fill(texels[0]);
            after.fill(texels[texels.len() - 1]);
        }
    }
}

/// Repeats the first and the last of the `distinct` texels of a row where there are no others.
#[inline(always)]
fn repeat_ends(Range { start, end }: Range<usize>, row: &mut [u8]) {
    let (first, last) = (row[start], row[end - 1]);
    row[..start].fill(first);
    row[end..].fill(last);
}

/// Rows of means of boxes of pixels.
struct BoxRows<'a, V: Vectors> {
    converter: Converter<V>,
    frame: &'a FrameView<'a>,
    columns: plan::Texels,
    rows: plan::Texels,
    /// The columns that are computed; the others repeat the first or the last of them.
    distinct: Range<usize>,
    /// The pixels under those.
    pixels: Range<usize>,
    rounding: Rounding,
}

impl<'a, V: Vectors> BoxRows<'a, V> {
    #[inline(always)]
    fn new(vectors: V, sample: &SampleToken<'a>) -> Self {
        let SampleToken { texels, encoder: Encoder { format, .. }, token, .. } = sample;
        let extent = texels.frame.extent();
        let columns = token.columns(extent, format.patch_side);
        let distinct = columns.distinct();
        let pixels = columns.pixels(distinct.start).start..columns.pixels(distinct.end - 1).end;
        Self {
            converter: Converter::new(vectors, texels.frame.color()),
            frame: texels.frame,
            columns,
            rows: token.rows(extent, format.patch_side),
            distinct: distinct.start as usize..distinct.end as usize,
            pixels: pixels.start as usize..pixels.end as usize,
            rounding: format.rounding,
        }
    }

    /// Means of boxes of pixels, from exact sums.
    #[inline(always)]
    fn average(&self, rows: Range<u32>, target: &mut [&mut [u8]; 3]) {
        let mut texel = self.distinct.start;
        let mut under = self.under(texel);
        let mut sums = [0; 3];
        for piece in pieces(self.pixels.clone()) {
            let column_sums = self.column_sums(piece.clone(), rows.clone());
            for x in piece.clone() {
                for (sum, columns) in sums.iter_mut().zip(&column_sums) {
                    *sum += columns[x - piece.start];
                }
                if x + 1 == under.end as usize {
                    #[expect(clippy::cast_possible_truncation, reason = "at most 16384 a side")]
                    let count = (under.len() * rows.len()) as u32;
                    for (target, sum) in target.iter_mut().zip(&mut sums) {
                        target[texel] = self.rounding.mean(std::mem::take(sum), count);
                    }
                    texel += 1;
                    under = self.under(texel);
                }
            }
        }
    }

    /// Sums of R, G and B down the columns of a piece.
    #[inline(always)]
    fn column_sums(&self, piece: Range<usize>, rows: Range<u32>) -> [[u32; SIDE]; 3] {
        let mut sums = [[0; SIDE]; 3];
        let skipped = piece.start % 2;
        for y in rows {
            let rgb = rgb_of(&self.converter, self.frame, piece.clone(), y as usize);
            for (sums, rgb) in sums.iter_mut().zip(&rgb) {
                for (sum, value) in sums.iter_mut().zip(&rgb[skipped..]) {
                    *sum += u32::from(*value);
                }
            }
        }
        sums
    }

    #[expect(clippy::cast_possible_truncation, reason = "a column of a token")]
    fn under(&self, texel: usize) -> Range<u32> {
        self.columns.pixels(texel as u32)
    }
}

impl<V: Vectors> Rows for BoxRows<'_, V> {
    #[inline(always)]
    fn gather(&self, row: usize, mut target: [&mut [u8]; 3]) {
        #[expect(clippy::cast_possible_truncation, reason = "a row of a token")]
        self.average(self.rows.pixels(row as u32), &mut target);
        for target in target {
            repeat_ends(self.distinct.clone(), target);
        }
    }
}

/// Columns of pixels, or of a level, that are summed at once: as many as a texel of a token is wide at most, 4096 / 8, one more where
/// it ends inside one, and those before it in a piece that is converted at once.
const STRIP: usize = 17 * SIDE;

/// Pieces of a strip that are added at once: each is as wide as a block of a level, which is half as wide as a piece that is converted.
const STRIP_BLOCKS: usize = STRIP / BLOCK;

/// Rows of a token with real steps that are computed at once, so that each has a lane of a vector.
const LANES: usize = 4;

/// Working memory for a few rows of texels with real steps.
#[derive(Debug)]
struct Strip {
    /// R, G and B of the columns, summed over the pixels or texels under each row by their weights.
    sums: [[[[u32; BLOCK]; STRIP_BLOCKS]; LANES]; 3],
    /// The sums of one channel, column by column.
    columns: [[u32; LANES]; STRIP],
    /// The weighted sums of texels, column by column.
    texels: [[u32; LANES]; REAL_COLUMNS],
    /// The weighted sums of texels, row by row.
    rows: [[u32; REAL_COLUMNS]; LANES],
    /// R, G and B of a row of pixels.
    rgb: [[[u8; SIDE]; STRIP / SIDE]; 3],
    /// The row that `rgb` has, and its first column.
    converted: Option<(usize, usize)>,
}

impl Default for Strip {
    fn default() -> Self {
        Self {
            sums: [[[[0; BLOCK]; STRIP_BLOCKS]; LANES]; 3],
            columns: [[0; LANES]; STRIP],
            texels: [[0; LANES]; REAL_COLUMNS],
            rows: [[0; REAL_COLUMNS]; LANES],
            rgb: [[[0; SIDE]; STRIP / SIDE]; 3],
            converted: None,
        }
    }
}

/// The overlap of a texel of a token with the texels of a level under it along one axis, in parts of a pixel.
#[derive(Clone, Copy, Debug, Default)]
struct Overlap {
    /// The first texel of the level, and the last.
    first: usize,
    last: usize,
    /// Overlap with the first and with the last pixel; 0 with the last if there is only one. Pixels between are covered entirely.
    shared: [u32; 2],
}

impl Overlap {
    /// The overlap of texel `index` of the token with the level, whose texels are `side` long.
    #[inline(always)]
    fn of(texels: plan::Texels, index: usize, side: u32) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "a texel of a token")]
        let Range { start, end } = texels.parts(index as u32);
        let (first, last) = (start / side, (end - 1) / side);
        let shared = if first == last {
            [end - start, 0]
        } else {
            [(first + 1) * side - start, end - last * side]
        };
        Self { first: first as usize, last: last as usize, shared }
    }

    /// The weight of texel `index` of the level, where texels are `side` long.
    #[inline(always)]
    fn weight(&self, index: usize, side: u32) -> u32 {
        let [first, last] = self.shared;
        if index == self.first {
            first
        } else if index == self.last {
            last
        } else {
            side
        }
    }

    /// The sums of the columns that it lies over, by their weights. The first of `columns` is number `start`.
    #[inline(always)]
    fn weighted(&self, side: u32, columns: &[[u32; LANES]; STRIP], start: usize) -> [u32; LANES] {
        let (first, last) = (self.first - start, self.last - start);
        let mut between = [0; LANES];
        for column in &columns[(first + 1).min(last)..last] {
            for (sum, column) in between.iter_mut().zip(column) {
                *sum = u32::wrapping_add(*sum, *column);
            }
        }
        let [on_first, on_last] = self.shared;
        let mut sums = [0; LANES];
        for (lane, sum) in sums.iter_mut().enumerate() {
            // Unused lanes hold arbitrary values.
            *sum = on_first
                .wrapping_mul(columns[first][lane])
                .wrapping_add(side.wrapping_mul(between[lane]))
                .wrapping_add(on_last.wrapping_mul(columns[last][lane]));
        }
        sums
    }

    /// Total overlap with all columns.
    #[inline(always)]
    fn total(&self, side: u32) -> u32 {
        let between = (self.last - self.first).saturating_sub(1);
        #[expect(clippy::cast_possible_truncation, reason = "at most 4096 pixels")]
        let between = between as u32 * side;
        self.shared[0] + between + self.shared[1]
    }
}

/// Division by a number of at most 2^24, as a multiplication.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reciprocal {
    pub(super) divisor: u32,
    /// 2^shift / divisor, rounded up; 32 bits, so that vectors multiply it.
    factor: u32,
    shift: u32,
    /// Whether the product is the quotient.
    ///
    /// The factor is too great by at most 1, so a quotient by at most dividend / 2^shift. If that is less than 1 / divisor, it never
    /// reaches the next whole number. Dividends are less than 256 times the divisor, and 2^shift at least 2^30 times.
    is_exact: bool,
}

impl Reciprocal {
    pub(super) fn of(divisor: u32) -> Self {
        let shift = 31 + divisor.ilog2();
        #[expect(clippy::cast_possible_truncation, reason = "at most 2^31 + 1")]
        let factor = ((1u64 << shift) / u64::from(divisor) + 1) as u32;
        Self { divisor, factor, shift, is_exact: divisor < 1 << 22 }
    }

    /// The quotients, rounded down, of `dividends` and what is `added` to each; all are below 256.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "a quotient is below 256")]
    pub(super) fn divide(self, dividends: &[u32], added: u32, quotients: &mut [u8]) {
        let Self { divisor, factor, shift, is_exact } = self;
        if is_exact {
            for (quotient, dividend) in quotients.iter_mut().zip(dividends) {
                let product = u64::from(*dividend + added) * u64::from(factor);
                *quotient = (product >> shift) as u8;
            }
        } else {
            for (quotient, dividend) in quotients.iter_mut().zip(dividends) {
                *quotient = ((*dividend + added) / divisor) as u8;
            }
        }
    }
}

/// Rows of means of the texels of a level, weighted by what they share with the texels of a token.
struct WeightedRows<'a, V: Vectors> {
    converter: Converter<V>,
    frame: &'a FrameView<'a>,
    /// `None` for level 0.
    level: Option<&'a CpuLevel>,
    rows: plan::Texels,
    /// Length of a texel of the level, in parts of a pixel.
    side: u32,
    /// Columns of the level.
    width: usize,
    /// The columns that are computed; the others repeat the first or the last of them.
    distinct: Range<usize>,
    overlaps: [Overlap; REAL_COLUMNS],
    /// Parts of a pixel under a row and under a column that are not cut.
    whole: [u32; 2],
    /// Reciprocal of the product of the numbers in `whole`.
    reciprocal: Reciprocal,
    /// Whether half the divisor is added to a sum.
    rounds_half_up: bool,
}

/// Columns of the largest token with real steps.
const REAL_COLUMNS: usize = *PATCH_SIDES.end() as usize;

impl<'a, V: Vectors> WeightedRows<'a, V> {
    #[inline(always)]
    fn new(vectors: V, sample: &SampleToken<'a>, level: u32) -> Self {
        let SampleToken { texels, encoder: Encoder { format, .. }, token, .. } = sample;
        let (extent, patch_side) = (texels.frame.extent(), format.patch_side);
        let columns = token.columns(extent, patch_side);
        let distinct = columns.distinct();
        let distinct = distinct.start as usize..distinct.end as usize;
        let side = columns.unit() << level;
        let mut overlaps = [Overlap::default(); REAL_COLUMNS];
        for index in distinct.clone() {
            overlaps[index] = Overlap::of(columns, index, side);
        }
        let whole = [token.height(patch_side), token.width(patch_side)];
        Self {
            converter: Converter::new(vectors, texels.frame.color()),
            frame: texels.frame,
            level: (level as usize).checked_sub(1).map(|index| &texels.levels[index]),
            rows: token.rows(extent, patch_side),
            side,
            width: texels.shape.level_extent(level).width as usize,
            distinct,
            overlaps,
            whole,
            reciprocal: Reciprocal::of(whole[0] * whole[1]),
            rounds_half_up: format.rounding == Rounding::HalfUp,
        }
    }

    /// The texels of `columns`, whose columns of the level fit in a strip, in some rows. `target` has those rows, `side` texels each.
    #[inline(always)]
    fn average(
        &self,
        rows: &[Overlap],
        columns: Range<usize>,
        side: usize,
        target: &mut [&mut [u8]; 3],
        strip: &mut Strip,
    ) {
        let overlaps = &self.overlaps[columns.clone()];
        let (first, end) = (overlaps[0].first, overlaps[overlaps.len() - 1].last + 1);
        let start = first / SIDE * SIDE;
        for (lane, rows) in rows.iter().enumerate() {
            self.sum(rows, lane, start..end, strip);
        }
        for (channel, target) in target.iter_mut().enumerate() {
            interleave(&strip.sums[channel], first - start..end - start, &mut strip.columns);
            for (sums, overlap) in strip.texels.iter_mut().zip(overlaps) {
                *sums = overlap.weighted(self.side, &strip.columns, start);
            }
            transpose(&strip.texels, overlaps.len(), &mut strip.rows);
            for (index, (rows, sums)) in rows.iter().zip(&strip.rows).enumerate() {
                let target = &mut target[index * side..][columns.clone()];
                self.divide(rows.total(self.side), overlaps, sums, target);
            }
        }
    }

    /// The means of a row of texels from their weighted sums.
    #[inline(always)]
    fn divide(&self, row_total: u32, overlaps: &[Overlap], sums: &[u32], means: &mut [u8]) {
        let half = |divisor: u32| if self.rounds_half_up { divisor / 2 } else { 0 };
        let [row_whole, column_whole] = self.whole;
        let is_whole = row_total == row_whole;
        if is_whole {
            self.reciprocal.divide(sums, half(self.reciprocal.divisor), means);
        }
        for ((overlap, sum), mean) in overlaps.iter().zip(sums).zip(means) {
            let column_total = overlap.total(self.side);
            if !is_whole || column_total != column_whole {
                let count = row_total * column_total;
                #[expect(clippy::cast_possible_truncation, reason = "a mean of bytes")]
                let exact = ((*sum + half(count)) / count) as u8;
                *mean = exact;
            }
        }
    }

    /// The weighted sums of a row down the `columns` of the level, which begin a piece that is converted at once.
    #[inline(always)]
    fn sum(&self, rows: &Overlap, lane: usize, columns: Range<usize>, strip: &mut Strip) {
        let blocks = columns.len().div_ceil(BLOCK);
        if let Some(level) = self.level {
            for (channel, sums) in strip.sums.iter_mut().enumerate() {
                let sums = &mut sums[lane][..blocks];
                level.sum_rows(
                    channel,
                    columns.start,
                    rows.first..=rows.last,
                    self.side,
                    rows.shared,
                    sums,
                );
            }
            return;
        }
        for sums in &mut strip.sums {
            sums[lane][..blocks].fill([0; BLOCK]);
        }
        for y in rows.first..=rows.last {
            let weight = rows.weight(y, self.side);
            self.convert(y, columns.clone(), strip);
            for (sums, rgb) in strip.sums.iter_mut().zip(&strip.rgb) {
                let rgb = rgb.as_flattened().as_chunks().0;
                for (sums, rgb) in sums[lane][..blocks].iter_mut().zip(rgb) {
                    add_weighted(sums, rgb, weight);
                }
            }
        }
    }

    /// Converts a row of pixels, unless that was just done.
    #[inline(always)]
    fn convert(&self, y: usize, columns: Range<usize>, strip: &mut Strip) {
        if strip.converted == Some((y, columns.start)) {
            return;
        }
        strip.converted = Some((y, columns.start));
        for (index, x) in columns.clone().step_by(SIDE).enumerate() {
            let count = SIDE.min(self.width - x);
            let rgb = rgb_row(&self.converter, self.frame, x, y, count);
            for (target, rgb) in strip.rgb.iter_mut().zip(rgb) {
                target[index] = rgb;
            }
        }
    }

    /// Number of texels from `first` on whose columns of the level fit one strip.
    #[inline(always)]
    fn in_strip(&self, first: usize) -> usize {
        let start = self.overlaps[first].first / SIDE * SIDE;
        let fits = |overlap: &&Overlap| overlap.last < start + STRIP;
        self.overlaps[first..self.distinct.end].iter().take_while(fits).count()
    }
}

impl<V: Vectors> Rows for WeightedRows<'_, V> {
    fn gather(&self, _: usize, _: [&mut [u8]; 3]) {
        unreachable!("rows are gathered at once");
    }

    #[inline(always)]
    fn gather_at_once(
        &self,
        first: usize,
        count: usize,
        side: usize,
        mut target: [&mut [u8]; 3],
        scratch: &mut SumScratch,
    ) -> bool {
        let strip = scratch.strip.get_or_insert_default();
        for row in (0..count).step_by(LANES) {
            let lanes = LANES.min(count - row);
            let mut rows = [Overlap::default(); LANES];
            for (lane, overlap) in rows[..lanes].iter_mut().enumerate() {
                *overlap = Overlap::of(self.rows, first + row + lane, self.side);
            }
            let mut target = target.each_mut().map(|target| &mut target[row * side..]);
            let mut column = self.distinct.start;
            while column < self.distinct.end {
                let columns = column..column + self.in_strip(column);
                self.average(&rows[..lanes], columns.clone(), side, &mut target, strip);
                column = columns.end;
            }
        }
        for target in target {
            for row in target[..count * side].chunks_exact_mut(side) {
                repeat_ends(self.distinct.clone(), row);
            }
        }
        true
    }
}

/// The sums of each column of `range` together, and those of some more.
#[inline(always)]
fn interleave(
    sums: &[[[u32; BLOCK]; STRIP_BLOCKS]; LANES],
    range: Range<usize>,
    columns: &mut [[u32; LANES]; STRIP],
) {
    let [a, b, c, d] = sums;
    let [a, b, c, d] = [a, b, c, d].map(|sums| sums.as_flattened().as_chunks::<LANES>().0);
    let pieces = range.start / LANES..range.end.div_ceil(LANES);
    let columns = &mut columns.as_chunks_mut::<LANES>().0[pieces.clone()];
    for (index, columns) in pieces.zip(columns) {
        let (a, b, c, d) = (a[index], b[index], c[index], d[index]);
        *columns = [
            [a[0], b[0], c[0], d[0]],
            [a[1], b[1], c[1], d[1]],
            [a[2], b[2], c[2], d[2]],
            [a[3], b[3], c[3], d[3]],
        ];
    }
}

/// The sums of the first `count` texels, row by row, and those of some more.
#[inline(always)]
fn transpose(
    texels: &[[u32; LANES]; REAL_COLUMNS],
    count: usize,
    rows: &mut [[u32; REAL_COLUMNS]; LANES],
) {
    let [first, second, third, fourth] = rows;
    let pieces = texels.as_chunks::<LANES>().0.iter().take(count.div_ceil(LANES));
    for (index, [a, b, c, d]) in pieces.enumerate() {
        let at = index * LANES;
        first[at..at + LANES].copy_from_slice(&[a[0], b[0], c[0], d[0]]);
        second[at..at + LANES].copy_from_slice(&[a[1], b[1], c[1], d[1]]);
        third[at..at + LANES].copy_from_slice(&[a[2], b[2], c[2], d[2]]);
        fourth[at..at + LANES].copy_from_slice(&[a[3], b[3], c[3], d[3]]);
    }
}

/// Adds values to sums by a weight.
#[inline(always)]
fn add_weighted(sums: &mut [u32; BLOCK], values: &[u8; BLOCK], weight: u32) {
    for (sum, value) in sums.iter_mut().zip(values) {
        *sum += weight * u32::from(*value);
    }
}

/// The pixels of a row in pieces that are converted at once; all but the first begin in an even column.
#[inline(always)]
fn pieces(Range { mut start, end }: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    std::iter::from_fn(move || {
        let piece = start..end.min(start - start % 2 + SIDE);
        start = piece.end;
        (!piece.is_empty()).then_some(piece)
    })
}

/// R, G and B of the pixels of a piece of row `y`, after that of the pixel before if the piece begins in an odd column: pairs of
/// pixels share their chroma.
#[inline(always)]
fn rgb_of<V: Vectors>(
    converter: &Converter<V>,
    frame: &FrameView<'_>,
    piece: Range<usize>,
    y: usize,
) -> [[u8; SIDE]; 3] {
    let skipped = piece.start % 2;
    rgb_row(converter, frame, piece.start - skipped, y, piece.len() + skipped)
}

impl Encoder {
    #[inline(always)]
    fn encode<V: Vectors>(&self, vectors: V, channel: usize, values: &[u8], pixels: &mut [u8]) {
        match &self.table {
            EncodingTable::One(table) => encode(&table[channel], values, pixels.as_chunks_mut().0),
            EncodingTable::Two(table) => {
                vectors.looked_up(&table[channel], values, pixels.as_chunks_mut().0);
            }
            EncodingTable::Four(table) => encode(&table[channel], values, pixels.as_chunks_mut().0),
        }
    }
}

#[inline(always)]
fn encode<const BYTES: usize>(
    table: &[[u8; BYTES]; 256],
    values: &[u8],
    pixels: &mut [[u8; BYTES]],
) {
    for (pixel, value) in pixels.iter_mut().zip(values) {
        *pixel = table[usize::from(*value)];
    }
}
