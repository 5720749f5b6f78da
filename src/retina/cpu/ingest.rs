//! One dirty tile: from the camera's samples to its whole mip column, levels 0 to 5, and its sums.
//!
//! Twin of `glsl/ingest.comp`. The camera's bytes are read once; every level is rounded once, from sums of level 0.
//! Rows are arrays of a tile's side and loops have no branches, so that the compiler turns them into vector
//! instructions; [`super::simd`] compiles this file once for each set of them.

use super::Level;
use crate::color::{ColorTransform, FRACTION_BITS, ROUNDING};
use crate::frame::{FrameView, PixelFormat};
use crate::geometry::extent::Extent;
use crate::geometry::pyramid::{PyramidShape, TILE_LEVEL_COUNT, rounded_mean};
use crate::geometry::tile::TILE_SIDE;

const SIDE: usize = TILE_SIDE as usize;
const HALF: usize = SIDE / 2;

/// A row of one channel of a tile.
type Row = [u8; SIDE];

/// A row of one channel of chroma at half width.
type HalfRow = [u8; HALF];

/// R, G and B of one tile; pixels past the image's edges are 0.
pub type TilePixels = [[Row; SIDE]; 3];

/// What chroma adds to each pixel of a row, before the shift, with the rounding.
type ChromaTerms = [[i32; SIDE]; 3];

/// Writes the mip column of the tile in `(column, row)` into `levels`, and returns the sums of R, G and B over
/// its real pixels. `pixels` is working memory.
#[inline(always)]
pub fn ingest(
    frame: &FrameView<'_>,
    (column, row): (u32, u32),
    shape: PyramidShape,
    pixels: &mut TilePixels,
    levels: &mut [Level],
) -> [u32; 3] {
    let origin = (column * TILE_SIDE, row * TILE_SIDE);
    let real = Extent::new(
        TILE_SIDE.min(shape.extent().width - origin.0),
        TILE_SIDE.min(shape.extent().height - origin.1),
    );
    let tile = Tile { origin, real };
    convert(frame, tile, pixels);
    std::array::from_fn(|channel| mip_column(&pixels[channel], channel, tile, levels))
}

/// Where a tile lies, and how much of it is real.
#[derive(Clone, Copy)]
struct Tile {
    origin: (u32, u32),
    real: Extent,
}

impl Tile {
    #[inline(always)]
    fn is_whole(self) -> bool {
        self.real.width == TILE_SIDE && self.real.height == TILE_SIDE
    }
}

/// Converts the tile to RGB.
#[inline(always)]
fn convert(frame: &FrameView<'_>, tile: Tile, pixels: &mut TilePixels) {
    if !tile.is_whole() {
        pixels.as_flattened_mut().fill([0; SIDE]);
    }
    let (x, y) = (tile.origin.0 as usize, tile.origin.1 as usize);
    let (width, height) = (tile.real.width as usize, tile.real.height as usize);
    let mut terms = [[0; SIDE]; 3];
    for row in 0..height {
        let mut rgb = rgb_row(frame, (x, y + row), width, &mut terms);
        for (target, texels) in pixels.iter_mut().zip(&mut rgb) {
            if width < SIDE {
                texels[width..].fill(0);
            }
            target[row] = *texels;
        }
    }
}

/// R, G and B of `width` pixels from (`x`, `y`) on; what comes after them means nothing. Where two rows share their
/// chroma, `terms` keeps it from the even row to the odd one.
#[inline(always)]
fn rgb_row(
    frame: &FrameView<'_>,
    (x, y): (usize, usize),
    width: usize,
    terms: &mut ChromaTerms,
) -> [Row; 3] {
    let color = frame.color();
    let pairs = width.div_ceil(2);
    let is_even = y.is_multiple_of(2);
    match frame.format() {
        PixelFormat::Nv12 => {
            if is_even {
                let [u, v] = interleaved(&samples(&frame.row(1, y / 2)[x..], 2 * pairs));
                *terms = chroma_terms(color, &u, &v);
            }
            rgb_from_luma(color, &samples(&frame.row(0, y)[x..], width), terms)
        }
        PixelFormat::I420 => {
            if is_even {
                let chroma = |plane: usize| samples(&frame.row(plane, y / 2)[x / 2..], pairs);
                *terms = chroma_terms(color, &chroma(1), &chroma(2));
            }
            rgb_from_luma(color, &samples(&frame.row(0, y)[x..], width), terms)
        }
        PixelFormat::Yuy2 => {
            let packed: [u8; 2 * SIDE] = samples(&frame.row(0, y)[2 * x..], 4 * pairs);
            let byte = |offset: usize| std::array::from_fn(|pair| packed[4 * pair + offset]);
            *terms = chroma_terms(color, &byte(1), &byte(3));
            rgb_from_luma(color, &std::array::from_fn(|x| packed[2 * x]), terms)
        }
        PixelFormat::Rgbx | PixelFormat::Rgba => {
            rgb_from_channels(color, &frame.row(0, y)[4 * x..], [0, 1, 2], width)
        }
        PixelFormat::Bgrx | PixelFormat::Bgra => {
            rgb_from_channels(color, &frame.row(0, y)[4 * x..], [2, 1, 0], width)
        }
        PixelFormat::Gray8 => {
            [rgb_from_luma(color, &samples(&frame.row(0, y)[x..], width), &[[ROUNDING; SIDE]; 3])
                [0]; 3]
        }
    }
}

/// The first `count` bytes of a row; the others are 0.
#[inline(always)]
fn samples<const N: usize>(row: &[u8], count: usize) -> [u8; N] {
    if count == N
        && let Some(all) = row.first_chunk()
    {
        return *all;
    }
    let mut samples = [0; N];
    samples[..count].copy_from_slice(&row[..count]);
    samples
}

/// The even and the odd bytes of a row.
#[inline(always)]
fn interleaved(row: &Row) -> [HalfRow; 2] {
    [std::array::from_fn(|pair| row[2 * pair]), std::array::from_fn(|pair| row[2 * pair + 1])]
}

/// What the chroma of 16 pixel pairs adds to R, G and B of their 32 pixels.
#[inline(always)]
fn chroma_terms(color: ColorTransform, u: &HalfRow, v: &HalfRow) -> ChromaTerms {
    let mut terms = [[0; SIDE]; 3];
    for pair in 0..HALF {
        let (u, v) = (i32::from(u[pair]) - 128, i32::from(v[pair]) - 128);
        let rgb = [color.rv * v, color.gu * u + color.gv * v, color.bu * u];
        for (channel, term) in rgb.into_iter().enumerate() {
            terms[channel][2 * pair] = term + ROUNDING;
            terms[channel][2 * pair + 1] = term + ROUNDING;
        }
    }
    terms
}

#[inline(always)]
fn rgb_from_luma(color: ColorTransform, luma: &Row, terms: &ChromaTerms) -> [Row; 3] {
    let scaled: [i32; SIDE] =
        std::array::from_fn(|x| (i32::from(luma[x]) - color.y_offset) * color.y);
    terms.map(|terms| std::array::from_fn(|x| shifted(scaled[x] + terms[x])))
}

/// The bytes of a pixel that hold R, G and B are at `offsets`.
#[inline(always)]
fn rgb_from_channels(
    color: ColorTransform,
    row: &[u8],
    offsets: [usize; 3],
    width: usize,
) -> [Row; 3] {
    let packed: [u8; 4 * SIDE] = samples(row, 4 * width);
    offsets.map(|offset| {
        let channel: Row = std::array::from_fn(|x| packed[4 * x + offset]);
        if color == ColorTransform::IDENTITY {
            return channel;
        }
        std::array::from_fn(|x| {
            shifted((i32::from(channel[x]) - color.y_offset) * color.y + ROUNDING)
        })
    })
}

#[inline(always)]
fn shifted(sum: i32) -> u8 {
    (sum >> FRACTION_BITS).clamp(0, 255) as u8
}

/// Writes every level of one channel of the tile, and returns the sum over it.
#[inline(always)]
fn mip_column(pixels: &[Row; SIDE], channel: usize, tile: Tile, levels: &mut [Level]) -> u32 {
    store(levels, 0, channel, tile, pixels);
    let first: [[u16; HALF]; HALF] = std::array::from_fn(|y| {
        let (upper, lower) = (&pixels[2 * y], &pixels[2 * y + 1]);
        let rows: [u16; SIDE] = std::array::from_fn(|x| u16::from(upper[x]) + u16::from(lower[x]));
        std::array::from_fn(|x| rows[2 * x] + rows[2 * x + 1])
    });
    store_means(levels, 1, channel, tile, &first);
    let second: [[u16; 8]; 8] = halved(&first);
    store_means(levels, 2, channel, tile, &second);
    let third: [[u16; 4]; 4] = halved(&second);
    store_means(levels, 3, channel, tile, &third);
    // 256 samples of 255 are 65,280, and half of their count still fits.
    let fourth: [[u16; 2]; 2] = halved(&third);
    store_means(levels, 4, channel, tile, &fourth);
    let total = fourth.as_flattened().iter().copied().map(u32::from).sum();
    store_top(levels, channel, tile, total);
    total
}

/// Adds up 2 x 2 boxes.
#[inline(always)]
fn halved<const FROM: usize, const TO: usize>(sums: &[[u16; FROM]; FROM]) -> [[u16; TO]; TO] {
    std::array::from_fn(|y| {
        let (upper, lower) = (&sums[2 * y], &sums[2 * y + 1]);
        let rows: [u16; FROM] = std::array::from_fn(|x| upper[x] + lower[x]);
        std::array::from_fn(|x| rows[2 * x] + rows[2 * x + 1])
    })
}

/// Rounds the sums of one level and stores them.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "a mean of 8-bit samples has 8 bits")]
fn store_means<const N: usize>(
    levels: &mut [Level],
    level: u32,
    channel: usize,
    tile: Tile,
    sums: &[[u16; N]; N],
) {
    let means: [[u8; N]; N] = if tile.is_whole() {
        let half = 1 << (2 * level - 1);
        sums.map(|row| row.map(|sum| ((sum + half) >> (2 * level)) as u8))
    } else {
        let counts = |side: u32| -> [u32; N] {
            std::array::from_fn(|index| real_pixels(index, level, side))
        };
        let (columns, rows) = (counts(tile.real.width), counts(tile.real.height));
        std::array::from_fn(|y| {
            std::array::from_fn(|x| mean(sums[y][x].into(), columns[x] * rows[y]))
        })
    };
    store(levels, level as usize, channel, tile, &means);
}

/// The one texel of level 5.
#[inline(always)]
fn store_top(levels: &mut [Level], channel: usize, tile: Tile, total: u32) {
    let count = tile.real.width * tile.real.height;
    store(levels, TILE_LEVEL_COUNT as usize - 1, channel, tile, &[[mean(total, count)]]);
}

/// 0 where there is no real pixel: such a texel is past its level's edges.
#[inline(always)]
fn mean(sum: u32, count: u32) -> u8 {
    if count == 0 { 0 } else { rounded_mean(sum, count) }
}

/// Copies a tile's texels of one level into it, if the pyramid has that level.
#[inline(always)]
fn store<const N: usize>(
    levels: &mut [Level],
    level: usize,
    channel: usize,
    tile: Tile,
    texels: &[[u8; N]; N],
) {
    let Some(target) = levels.get_mut(level) else { return };
    let (x, y) = (tile.origin.0 as usize >> level, tile.origin.1 as usize >> level);
    let rows = target.channels[channel][y * target.stride + x..].chunks_mut(target.stride);
    for (row, texels) in rows.zip(texels) {
        row[..N].copy_from_slice(texels);
    }
}

/// How many of the pixels under texel `index` of a tile's row or column at `level` lie before `end`.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "an index within a tile")]
fn real_pixels(index: usize, level: u32, end: u32) -> u32 {
    end.saturating_sub((index as u32) << level).min(1 << level)
}
