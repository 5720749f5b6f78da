//! Tokens: texels of the pyramid through the normalisation table into bytes.
//!
//! Twin of `glsl/sample.comp`. Texels of level 0 are converted from the camera's samples here.

use super::convert::{Converter, SIDE, rgb_row};
use super::level::Level;
use crate::simd::{Kernel, Vectors};
use foveate_core::frame::FrameView;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::plan::Token;
use foveate_core::token::{DType, TokenFormat};

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
        let Self { texels, encoder, token, pixels } = self;
        let side = encoder.format.patch_side as usize;
        let mut values = [[0; TEXELS_MAX]; 3];
        gather(vectors, texels, token, side, &mut values);
        let channel_bytes = pixels.len() / 3;
        for (channel, pixels) in pixels.chunks_exact_mut(channel_bytes).enumerate() {
            let values = &values[channel][..side * side];
            match &encoder.table {
                Table::One(table) => encode(&table[channel], values, pixels.as_chunks_mut().0),
                Table::Two(table) => {
                    vectors.looked_up(&table[channel], values, pixels.as_chunks_mut().0);
                }
                Table::Four(table) => encode(&table[channel], values, pixels.as_chunks_mut().0),
            }
        }
    }
}

/// Most columns of a token, and most rows.
const PATCH_SIDE_MAX: usize = 16;

const TEXELS_MAX: usize = PATCH_SIDE_MAX * PATCH_SIDE_MAX;

/// A row of level 0 is converted in one piece, with the pixel before it that shares its chroma.
const _: () = assert!(PATCH_SIDE_MAX < SIDE);

/// R, G and B of the texels of a token. Columns and rows past the level's edges repeat the last one inside.
#[inline(always)]
fn gather<V: Vectors>(
    vectors: V,
    texels: Texels<'_>,
    token: Token,
    side: usize,
    values: &mut [[u8; TEXELS_MAX]; 3],
) {
    let extent = texels.extent(token.level);
    let (x, y) = (token.x as usize, token.y as usize);
    let columns = side.min(extent.width as usize - x);
    let last_row = extent.height as usize - 1;
    let converter = Converter::new(vectors, texels.frame.color());
    for row in 0..side {
        let y = (y + row).min(last_row);
        let place = row * side..(row + 1) * side;
        if let Some(level) = texels.above_0(token.level) {
            for (channel, values) in values.iter_mut().enumerate() {
                spread(&level.row(channel, y)[x..][..columns], &mut values[place.clone()]);
            }
        } else {
            // Pairs of pixels share their chroma.
            let skipped = x % 2;
            let rgb = rgb_row(&converter, texels.frame, x - skipped, y, skipped + columns);
            for (values, rgb) in values.iter_mut().zip(&rgb) {
                spread(&rgb[skipped..][..columns], &mut values[place.clone()]);
            }
        }
    }
}

/// Fills a row, and repeats the last texel where there are no more.
#[inline(always)]
fn spread(texels: &[u8], row: &mut [u8]) {
    match (texels.first_chunk::<PATCH_SIDE_MAX>(), row.first_chunk_mut::<PATCH_SIDE_MAX>()) {
        (Some(texels), Some(row)) => *row = *texels,
        _ => {
            let (inside, outside) = row.split_at_mut(texels.len());
            inside.copy_from_slice(texels);
            outside.fill(texels[texels.len() - 1]);
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

impl<'a> Texels<'a> {
    fn extent(&self, level: u32) -> Extent {
        self.above_0(level).map_or(self.frame.extent(), |level| level.extent)
    }

    /// A stored level.
    fn above_0(&self, level: u32) -> Option<&'a Level> {
        (level as usize).checked_sub(1).map(|index| &self.levels[index])
    }
}
