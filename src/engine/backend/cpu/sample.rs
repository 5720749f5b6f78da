//! Tokens: texels of the pyramid, or means of boxes of pixels, through the normalisation table into bytes.
//!
//! Twin of `glsl/sample.comp`. Texels of level 0 are converted from the camera's samples here.

use std::ops::Range;

use super::convert::{Converter, SIDE, rgb_row};
use super::level::Level;
use crate::simd::{Kernel, Vectors};
use foveate_core::frame::FrameView;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::plan::{self, Token};
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_core::token::{DType, Outside, Rounding, TokenFormat, WINDOW_SIDES};

/// Encodes texels in the number format of one view.
#[derive(Debug)]
pub struct Encoder {
    format: TokenFormat,
    table: Table,
}

/// The encoding of each value of each channel, by the width of the number format.
#[derive(Debug)]
enum Table {
    One(Box<[[[u8; 1]; 256]; 3]>),
    Two(Box<[[[u8; 2]; 256]; 3]>),
    Four(Box<[[[u8; 4]; 256]; 3]>),
}

impl Encoder {
    /// The encoder of tokens of `format`.
    pub fn new(format: TokenFormat) -> Self {
        let table = match format.dtype {
            DType::U8 => Table::One(byte_table(format)),
            DType::F16 | DType::Bf16 => Table::Two(byte_table(format)),
            DType::F32 => Table::Four(byte_table(format)),
        };
        Self { format, table }
    }

    /// What its tokens look like in memory.
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
    Box::new(format.table().0.map(|channel| channel.map(bytes)))
}

/// The pyramid that tokens are read from.
#[derive(Clone, Copy, Debug)]
pub struct Texels<'a> {
    /// Its levels.
    pub shape: PyramidShape,
    /// Level 0 in the camera's samples.
    pub frame: &'a FrameView<'a>,
    /// Level 1 and those above.
    pub levels: &'a [Level],
}

/// Samples one token.
#[derive(Debug)]
pub struct SampleToken<'a> {
    /// Source.
    pub texels: Texels<'a>,
    /// Number format.
    pub encoder: &'a Encoder,
    /// The token.
    pub token: Token,
    /// Target, `[3, P, P]`.
    pub pixels: &'a mut [u8],
}

impl Kernel for SampleToken<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vectors>(self, vectors: V) {
        if self.encoder.format.patch_side <= SMALL_SIDE {
            self.sample::<V, SMALL_TEXELS>(vectors);
        } else {
            self.sample::<V, LARGE_TEXELS>(vectors);
        }
    }
}

/// Longest side of a token whose texels are gathered at once.
const SMALL_SIDE: u32 = 16;
const SMALL_TEXELS: usize = (SMALL_SIDE * SMALL_SIDE) as usize;

/// Texels of a larger token that are gathered at a time: at least a row.
const LARGE_TEXELS: usize = *WINDOW_SIDES.end() as usize;

impl SampleToken<'_> {
    /// Samples as many rows at a time as have `TEXELS` texels.
    #[inline(always)]
    fn sample<V: Vectors, const TEXELS: usize>(self, vectors: V) {
        let Self { texels, encoder, token, pixels } = self;
        let format = encoder.format;
        let side = format.patch_side as usize;
        let source = RowSource::new(vectors, texels, token, format);
        let mut values = [[0; TEXELS]; 3];
        let (texel_bytes, channel_bytes) = (format.dtype.bytes(), pixels.len() / 3);
        let at_once = (TEXELS / side).min(side);
        for first in (0..side).step_by(at_once) {
            let count = at_once.min(side - first);
            source.gather(first, count, &mut values);
            let target = first * side * texel_bytes..(first + count) * side * texel_bytes;
            for (channel, pixels) in pixels.chunks_exact_mut(channel_bytes).enumerate() {
                let values = &values[channel][..count * side];
                encoder.encode(vectors, channel, values, &mut pixels[target.clone()]);
            }
        }
        if format.outside == Outside::Mean {
            clear_outside(token, texels.frame.extent(), format, pixels);
        }
    }
}

/// Fills texels without a real pixel with 0, in every number format all bits.
fn clear_outside(token: Token, extent: Extent, format: TokenFormat, pixels: &mut [u8]) {
    let side = format.patch_side;
    let (columns, rows) = (token.columns(extent, side).real(), token.rows(extent, side).real());
    let texel_bytes = format.dtype.bytes();
    let columns = columns.start as usize * texel_bytes..columns.end as usize * texel_bytes;
    for (row, texels) in pixels.chunks_exact_mut(side as usize * texel_bytes).enumerate() {
        // Channels follow one another.
        if rows.contains(&(row as u32 % side)) {
            texels[..columns.start].fill(0);
            texels[columns.end..].fill(0);
        } else {
            texels.fill(0);
        }
    }
}

/// Where the rows of a token come from.
struct RowSource<'a, V: Vectors> {
    texels: Texels<'a>,
    converter: Converter<V>,
    side: usize,
    columns: plan::Texels,
    rows: plan::Texels,
    /// The columns that are computed; the others repeat the first or the last of them.
    distinct: Range<usize>,
    /// The pixels under those.
    pixels: Range<usize>,
    /// The level that the texels are read from, and the row of it that the first one lies in.
    level: Option<(usize, i64)>,
    rounding: Rounding,
}

impl<'a, V: Vectors> RowSource<'a, V> {
    #[inline(always)]
    fn new(vectors: V, texels: Texels<'a>, token: Token, format: TokenFormat) -> Self {
        let extent = texels.frame.extent();
        let columns = token.columns(extent, format.patch_side);
        let distinct = columns.distinct();
        let pixels = columns.pixels(distinct.start).start..columns.pixels(distinct.end - 1).end;
        let level = token.level(texels.shape, format.rounding);
        Self {
            texels,
            converter: Converter::new(vectors, texels.frame.color()),
            side: format.patch_side as usize,
            columns,
            rows: token.rows(extent, format.patch_side),
            distinct: distinct.start as usize..distinct.end as usize,
            pixels: pixels.start as usize..pixels.end as usize,
            level: level.map(|level| (level as usize, i64::from(token.y >> level))),
            rounding: format.rounding,
        }
    }

    /// R, G and B of `count` rows of texels, from row `first` on.
    #[inline(always)]
    fn gather<const TEXELS: usize>(
        &self,
        first: usize,
        count: usize,
        values: &mut [[u8; TEXELS]; 3],
    ) {
        let mut before = None;
        for row in 0..count {
            let place = row * self.side..(row + 1) * self.side;
            #[expect(clippy::cast_possible_truncation, reason = "a row of a token")]
            let nearest = self.rows.nearest((first + row) as u32);
            if before.replace(nearest) == Some(nearest) {
                // Rows outside the source repeat the nearest one.
                for values in &mut *values {
                    values.copy_within(place.start - self.side..place.start, place.start);
                }
                continue;
            }
            let mut target = values.each_mut().map(|values| &mut values[place.clone()]);
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a row of a level"
            )]
            match self.level {
                Some((0, top)) => self.convert((top + nearest) as usize, &mut target),
                Some((level, top)) => self.copy(level, (top + nearest) as usize, &mut target),
                None => self.average(self.rows.pixels((first + row) as u32), &mut target),
            }
            if self.distinct.len() < self.side {
                target.into_iter().for_each(|target| self.spread(target));
            }
        }
    }

    /// Repeats the first and the last texel that was computed where there are none.
    fn spread(&self, target: &mut [u8]) {
        let Range { start, end } = self.distinct.clone();
        let (first, last) = (target[start], target[end - 1]);
        target[..start].fill(first);
        target[end..].fill(last);
    }

    /// Texels of level 0.
    #[inline(always)]
    fn convert(&self, y: usize, target: &mut [&mut [u8]; 3]) {
        let mut at = self.distinct.start;
        for piece in self.pieces() {
            let rgb = self.rgb(piece.clone(), y);
            for (target, rgb) in target.iter_mut().zip(&rgb) {
                copy_row(&rgb[piece.start % 2..][..piece.len()], &mut target[at..]);
            }
            at += piece.len();
        }
    }

    /// Texels of a level above 0.
    #[inline(always)]
    fn copy(&self, level: usize, y: usize, target: &mut [&mut [u8]; 3]) {
        let x = self.pixels.start >> level;
        let level = &self.texels.levels[level - 1];
        for (channel, target) in target.iter_mut().enumerate() {
            let texels = &level.row(channel, y)[x..][..self.distinct.len()];
            copy_row(texels, &mut target[self.distinct.start..]);
        }
    }

    /// Means of boxes of pixels, from exact sums.
    #[inline(always)]
    fn average(&self, rows: Range<u32>, target: &mut [&mut [u8]; 3]) {
        let mut texel = self.distinct.start;
        let mut under = self.under(texel);
        let mut sums = [0; 3];
        for piece in self.pieces() {
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
            let rgb = self.rgb(piece.clone(), y as usize);
            for (sums, rgb) in sums.iter_mut().zip(&rgb) {
                for (sum, value) in sums.iter_mut().zip(&rgb[skipped..]) {
                    *sum += u32::from(*value);
                }
            }
        }
        sums
    }

    /// R, G and B of the pixels of a piece of row `y`, after that of the pixel before if the piece begins in an odd column: pairs of
    /// pixels share their chroma.
    #[inline(always)]
    fn rgb(&self, piece: Range<usize>, y: usize) -> [[u8; SIDE]; 3] {
        let skipped = piece.start % 2;
        rgb_row(&self.converter, self.texels.frame, piece.start - skipped, y, piece.len() + skipped)
    }

    /// The pixels under the token in pieces that are converted at once; all but the first begin in an even column.
    #[inline(always)]
    fn pieces(&self) -> impl Iterator<Item = Range<usize>> {
        let Range { mut start, end } = self.pixels;
        std::iter::from_fn(move || {
            let piece = start..end.min(start - start % 2 + SIDE);
            start = piece.end;
            (!piece.is_empty()).then_some(piece)
        })
    }

    #[expect(clippy::cast_possible_truncation, reason = "a column of a token")]
    fn under(&self, texel: usize) -> Range<u32> {
        self.columns.pixels(texel as u32)
    }
}

/// Copies the texels of a row; of small tokens mostly in one piece.
#[inline(always)]
fn copy_row(texels: &[u8], target: &mut [u8]) {
    const WHOLE: usize = SMALL_SIDE as usize;
    match (texels.as_array::<WHOLE>(), target.first_chunk_mut::<WHOLE>()) {
        (Some(texels), Some(target)) => *target = *texels,
        _ => target[..texels.len()].copy_from_slice(texels),
    }
}

impl Encoder {
    #[inline(always)]
    fn encode<V: Vectors>(&self, vectors: V, channel: usize, values: &[u8], pixels: &mut [u8]) {
        match &self.table {
            Table::One(table) => encode(&table[channel], values, pixels.as_chunks_mut().0),
            Table::Two(table) => {
                vectors.looked_up(&table[channel], values, pixels.as_chunks_mut().0);
            }
            Table::Four(table) => encode(&table[channel], values, pixels.as_chunks_mut().0),
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
