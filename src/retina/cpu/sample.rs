//! Tokens: texels of the pyramid through the normalisation table into bytes.
//!
//! Twin of `glsl/sample.comp`.

use super::Level;
use crate::geometry::plan::Token;
use crate::retina::ViewSample;
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

/// Samples the stale tokens of `target`.
pub fn sample(levels: &[Level], encoder: &Encoder, target: &mut ViewSample) {
    let side = encoder.format.patch_side as usize;
    for (token, pixels) in target.stale_tokens() {
        let level = &levels[token.level as usize];
        match &encoder.table {
            Table::One(table) => sample_token(level, token, side, table, pixels),
            Table::Two(table) => sample_token(level, token, side, table, pixels),
            Table::Four(table) => sample_token(level, token, side, table, pixels),
        }
    }
}

/// Columns and rows past the level's edges repeat the last one inside.
fn sample_token<const BYTES: usize>(
    level: &Level,
    token: Token,
    side: usize,
    table: &[[[u8; BYTES]; 256]; 3],
    pixels: &mut [u8],
) {
    let (x, y) = (token.x as usize, token.y as usize);
    let columns = side.min(level.extent.width as usize - x);
    let last_row = level.extent.height as usize - 1;
    let (pixels, _) = pixels.as_chunks_mut::<BYTES>();
    for (row, pixels) in pixels.chunks_exact_mut(side).enumerate() {
        let (channel, row) = (row / side, row % side);
        let texels = &level.row(channel, (y + row).min(last_row))[x..][..columns];
        for (pixel, texel) in pixels.iter_mut().zip(texels) {
            *pixel = table[channel][*texel as usize];
        }
        let (inside, outside) = pixels.split_at_mut(columns);
        outside.fill(inside[columns - 1]);
    }
}
