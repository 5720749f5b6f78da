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
    let mut sums = [0; 3];
    for (channel, sum) in sums.iter_mut().enumerate() {
        *sum = mip_column(&pixels[channel], channel, tile, levels);
    }
    sums
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
            let (u, v) = (every_nth::<4, HALF>(&packed, 1), every_nth::<4, HALF>(&packed, 3));
            *terms = chroma_terms(color, &u, &v);
            rgb_from_luma(color, &every_nth::<2, SIDE>(&packed, 0), terms)
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
    [every_nth::<2, HALF>(row, 0), every_nth::<2, HALF>(row, 1)]
}

/// `COUNT` bytes of a row, each `STEP` after the one before.
#[inline(always)]
fn every_nth<const STEP: usize, const COUNT: usize>(row: &[u8], offset: usize) -> [u8; COUNT] {
    let mut bytes = [0; COUNT];
    for (byte, group) in bytes.iter_mut().zip(row.as_chunks::<STEP>().0) {
        *byte = group[offset];
    }
    bytes
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
    let mut rgb = [[0; SIDE]; 3];
    for x in 0..SIDE {
        let scaled = (i32::from(luma[x]) - color.y_offset) * color.y;
        for channel in 0..3 {
            rgb[channel][x] = shifted(scaled + terms[channel][x]);
        }
    }
    rgb
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
    let mut rgb = [[0; SIDE]; 3];
    for (channel, offset) in rgb.iter_mut().zip(offsets) {
        *channel = every_nth::<4, SIDE>(&packed, offset);
        if color != ColorTransform::IDENTITY {
            for sample in channel.iter_mut() {
                *sample = shifted((i32::from(*sample) - color.y_offset) * color.y + ROUNDING);
            }
        }
    }
    rgb
}

#[inline(always)]
fn shifted(sum: i32) -> u8 {
    (sum >> FRACTION_BITS).clamp(0, 255) as u8
}

/// Writes every level of one channel of the tile, and returns the sum over it.
#[inline(always)]
fn mip_column(pixels: &[Row; SIDE], channel: usize, tile: Tile, levels: &mut [Level]) -> u32 {
    store(levels, 0, channel, tile, pixels);
    let mut first = [[0; HALF]; HALF];
    for (sums, [upper, lower]) in first.iter_mut().zip(pixels.as_chunks().0) {
        let mut rows = [0; SIDE];
        for x in 0..SIDE {
            rows[x] = u16::from(upper[x]) + u16::from(lower[x]);
        }
        add_pairs(&rows, sums);
    }
    let (mut second, mut third, mut fourth) = ([[0; 8]; 8], [[0; 4]; 4], [[0; 2]; 2]);
    halve(&first, &mut second);
    halve(&second, &mut third);
    // 256 samples of 255 are 65,280, and half of their count still fits.
    halve(&third, &mut fourth);
    store_means(levels, 1, channel, tile, &first);
    store_means(levels, 2, channel, tile, &second);
    store_means(levels, 3, channel, tile, &third);
    store_means(levels, 4, channel, tile, &fourth);
    let total = fourth.as_flattened().iter().copied().map(u32::from).sum();
    let count = tile.real.width * tile.real.height;
    store(levels, TILE_LEVEL_COUNT as usize - 1, channel, tile, &[[mean(total, count)]]);
    total
}

/// Adds up 2 x 2 boxes.
#[inline(always)]
fn halve<const FROM: usize, const TO: usize>(
    sums: &[[u16; FROM]; FROM],
    target: &mut [[u16; TO]; TO],
) {
    for (target, [upper, lower]) in target.iter_mut().zip(sums.as_chunks().0) {
        let mut rows = [0; FROM];
        for x in 0..FROM {
            rows[x] = upper[x] + lower[x];
        }
        add_pairs(&rows, target);
    }
}

#[inline(always)]
fn add_pairs<const FROM: usize, const TO: usize>(row: &[u16; FROM], target: &mut [u16; TO]) {
    for (target, [left, right]) in target.iter_mut().zip(row.as_chunks().0) {
        *target = left + right;
    }
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
    let mut means = [[0; N]; N];
    let texels = means.as_flattened_mut().iter_mut().zip(sums.as_flattened());
    if tile.is_whole() {
        let half = 1 << (2 * level - 1);
        for (texel, sum) in texels {
            *texel = ((sum + half) >> (2 * level)) as u8;
        }
    } else {
        for (index, (texel, sum)) in texels.enumerate() {
            let columns = real_pixels(index % N, level, tile.real.width);
            *texel = mean((*sum).into(), columns * real_pixels(index / N, level, tile.real.height));
        }
    }
    store(levels, level as usize, channel, tile, &means);
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
