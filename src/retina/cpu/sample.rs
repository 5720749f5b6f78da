//! Tokens: texels of the pyramid through the normalisation table into bytes.
//!
//! Twin of `glsl/sample.comp`. Texels of level 0 are converted from the camera's samples here.

use super::convert::{SIDE, rgb_row};
use super::level::Level;
use crate::frame::FrameView;
use crate::geometry::extent::Extent;
use crate::geometry::plan::Token;
use crate::simd::Kernel;
use crate::token::{DType, TokenFormat};

/// Turns texels into the bytes of one view's tokens.
#[derive(Debug)]
pub struct Encoder {
    format: TokenFormat,
    table: Table,
}

/// The bytes that each value of each channel becomes, by the width of the number format.
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

/// The pyramid as tokens see it.
#[derive(Clone, Copy, Debug)]
pub struct Texels<'a> {
    /// Level 0 in the camera's samples.
    pub frame: &'a FrameView<'a>,
    /// Level 1 and those above.
    pub levels: &'a [Level],
}

/// Samples one token.
#[derive(Debug)]
pub struct SampleToken<'a> {
    /// Where from.
    pub texels: Texels<'a>,
    /// How.
    pub encoder: &'a Encoder,
    /// Which.
    pub token: Token,
    /// Where to.
    pub pixels: &'a mut [u8],
}

impl Kernel for SampleToken<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { texels, encoder, token, pixels } = self;
        let side = encoder.format.patch_side as usize;
        match &encoder.table {
            Table::One(table) => sample(texels, token, side, table, pixels),
            Table::Two(table) => sample(texels, token, side, table, pixels),
            Table::Four(table) => sample(texels, token, side, table, pixels),
        }
    }
}

/// Columns and rows past the level's edges repeat the last one inside.
#[inline(always)]
fn sample<const BYTES: usize>(
    texels: Texels<'_>,
    token: Token,
    side: usize,
    table: &[[[u8; BYTES]; 256]; 3],
    pixels: &mut [u8],
) {
    let extent = texels.extent(token.level);
    let (x, y) = (token.x as usize, token.y as usize);
    let columns = side.min(extent.width as usize - x);
    let last_row = extent.height as usize - 1;
    let (pixels, _) = pixels.as_chunks_mut::<BYTES>();
    for row in 0..side {
        let y = (y + row).min(last_row);
        let rows = (0..3).map(|channel| (channel * side + row) * side..);
        if let Some(level) = texels.above_0(token.level) {
            for (channel, from) in rows.enumerate() {
                let row = &mut pixels[from][..side];
                encode(&table[channel], &level.row(channel, y)[x..][..columns], row);
            }
        } else {
            let values = level_0_row(texels.frame, x, y, columns);
            for (channel, from) in rows.enumerate() {
                let row = &mut pixels[from][..side];
                encode(&table[channel], &values[channel][..columns], row);
            }
        }
    }
}

/// Most columns of a token.
const MOST_COLUMNS: usize = 64;

/// R, G and B of `count` pixels from column `x` of row `y`.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "values of 8 bits")]
fn level_0_row(frame: &FrameView<'_>, x: usize, y: usize, count: usize) -> [[u8; MOST_COLUMNS]; 3] {
    let mut values = [[0; MOST_COLUMNS]; 3];
    let mut done = 0;
    while done < count {
        // Pairs of pixels share their chroma.
        let skipped = (x + done) % 2;
        let taken = (count - done).min(SIDE - skipped);
        let rgb = rgb_row(frame, x + done - skipped, y, skipped + taken);
        for (values, rgb) in values.iter_mut().zip(&rgb) {
            for (value, rgb) in values[done..done + taken].iter_mut().zip(&rgb[skipped..]) {
                *value = *rgb as u8;
            }
        }
        done += taken;
    }
    values
}

#[inline(always)]
fn encode<const BYTES: usize>(
    table: &[[u8; BYTES]; 256],
    texels: &[u8],
    pixels: &mut [[u8; BYTES]],
) {
    for (pixel, texel) in pixels.iter_mut().zip(texels) {
        *pixel = table[usize::from(*texel)];
    }
    let (inside, outside) = pixels.split_at_mut(texels.len());
    outside.fill(inside[texels.len() - 1]);
}

impl<'a> Texels<'a> {
    fn extent(&self, level: u32) -> Extent {
        self.above_0(level).map_or(self.frame.extent(), |level| level.extent)
    }

    /// A level that is kept.
    fn above_0(&self, level: u32) -> Option<&'a Level> {
        (level as usize).checked_sub(1).map(|index| &self.levels[index])
    }
}
