//! One dirty tile: from the camera's samples to its whole mip column, levels 0 to 5, and its sums.
//!
//! Twin of `glsl/ingest.comp`. The camera's bytes are read once; every level is rounded once, from sums of level 0.

use super::Level;
use crate::color::ColorTransform;
use crate::frame::{FrameView, PixelFormat};
use crate::geometry::extent::Extent;
use crate::geometry::pyramid::{PyramidShape, TILE_LEVEL_COUNT, rounded_mean};
use crate::geometry::tile::TILE_SIDE;

const SIDE: usize = TILE_SIDE as usize;

/// A row of one tile.
type Row = [u8; SIDE];

/// Working memory for one tile.
#[derive(Debug, Default)]
pub struct TileScratch {
    /// Sums over boxes of the level at hand, row by row, `SIDE >> level` to a row.
    sums: [Sums; 3],
}

/// Sums of one channel.
#[derive(Debug)]
struct Sums([u32; SIDE * SIDE]);

impl Default for Sums {
    fn default() -> Self {
        Self([0; SIDE * SIDE])
    }
}

/// Writes the mip column of the tile in `(column, row)` into `levels`, and returns the sums of R, G and B over
/// its real pixels.
pub fn ingest(
    frame: &FrameView<'_>,
    (column, row): (u32, u32),
    shape: PyramidShape,
    scratch: &mut TileScratch,
    levels: &mut [Level],
) -> [u32; 3] {
    let real = Extent::new(
        TILE_SIDE.min(shape.extent().width - column * TILE_SIDE),
        TILE_SIDE.min(shape.extent().height - row * TILE_SIDE),
    );
    let tile = Tile { origin: (column * TILE_SIDE, row * TILE_SIDE), real };
    convert(frame, tile, scratch, &mut levels[0]);
    for level in 1..TILE_LEVEL_COUNT {
        for (channel, Sums(sums)) in scratch.sums.iter_mut().enumerate() {
            halve(sums, SIDE >> level);
            if let Some(target) = levels.get_mut(level as usize) {
                round(sums, tile, level, &mut target.channels[channel], target.stride);
            }
        }
    }
    std::array::from_fn(|channel| scratch.sums[channel].0[0])
}

/// Where a tile lies, and how much of it is real.
#[derive(Clone, Copy)]
struct Tile {
    origin: (u32, u32),
    real: Extent,
}

/// Converts the tile to RGB: into level 0, and into the sums, where pixels past the image's edges count nothing.
fn convert(frame: &FrameView<'_>, tile: Tile, scratch: &mut TileScratch, level: &mut Level) {
    let (x, y) = (tile.origin.0 as usize, tile.origin.1 as usize);
    let (width, height) = (tile.real.width as usize, tile.real.height as usize);
    for row in 0..SIDE {
        let mut rgb = [[0; SIDE]; 3];
        if row < height {
            rgb = rgb_row(frame, x, y + row, width);
        }
        for (channel, texels) in rgb.iter_mut().enumerate() {
            texels[width..].fill(0);
            level.channels[channel][(y + row) * level.stride + x..][..SIDE].copy_from_slice(texels);
            let sums = &mut scratch.sums[channel].0[row * SIDE..][..SIDE];
            for (sum, texel) in sums.iter_mut().zip(texels) {
                *sum = u32::from(*texel);
            }
        }
    }
}

/// R, G and B of `width` pixels from (`x`, `y`) on; what comes after them means nothing.
fn rgb_row(frame: &FrameView<'_>, x: usize, y: usize, width: usize) -> [Row; 3] {
    let color = frame.color();
    match frame.format() {
        PixelFormat::Nv12 => {
            let chroma = &frame.row(1, y / 2)[x..];
            let (u, v) = (
                samples(chroma, 0, 2, width.div_ceil(2)),
                samples(chroma, 1, 2, width.div_ceil(2)),
            );
            rgb_from_ycbcr(color, &samples(&frame.row(0, y)[x..], 0, 1, width), &u, &v)
        }
        PixelFormat::I420 => {
            let chroma =
                |plane| samples(&frame.row(plane, y / 2)[x / 2..], 0, 1, width.div_ceil(2));
            rgb_from_ycbcr(
                color,
                &samples(&frame.row(0, y)[x..], 0, 1, width),
                &chroma(1),
                &chroma(2),
            )
        }
        PixelFormat::Yuy2 => {
            let pairs = &frame.row(0, y)[2 * x..];
            let chroma = |offset| samples(pairs, offset, 4, width.div_ceil(2));
            rgb_from_ycbcr(color, &samples(pairs, 0, 2, width), &chroma(1), &chroma(3))
        }
        PixelFormat::Rgbx | PixelFormat::Rgba => {
            rgb_from_channels(color, &frame.row(0, y)[4 * x..], [0, 1, 2], width)
        }
        PixelFormat::Bgrx | PixelFormat::Bgra => {
            rgb_from_channels(color, &frame.row(0, y)[4 * x..], [2, 1, 0], width)
        }
        PixelFormat::Gray8 => {
            let gray =
                samples(&frame.row(0, y)[x..], 0, 1, width).map(|sample| color.channel(sample));
            [gray; 3]
        }
    }
}

/// `count` samples of an interleaved row, each `step` bytes after the one before.
fn samples(row: &[u8], offset: usize, step: usize, count: usize) -> Row {
    let mut samples = [0; SIDE];
    for (sample, byte) in samples[..count].iter_mut().zip(row[offset..].iter().step_by(step)) {
        *sample = *byte;
    }
    samples
}

/// Chroma has half as many samples as luma, each for two pixels.
fn rgb_from_ycbcr(color: ColorTransform, luma: &Row, u: &Row, v: &Row) -> [Row; 3] {
    let mut rgb = [[0; SIDE]; 3];
    for (x, &y) in luma.iter().enumerate() {
        let texel = color.rgb(y, u[x / 2], v[x / 2]);
        for (channel, value) in rgb.iter_mut().zip(texel) {
            channel[x] = value;
        }
    }
    rgb
}

/// The bytes of a pixel that hold R, G and B are at `offsets`.
fn rgb_from_channels(
    color: ColorTransform,
    row: &[u8],
    offsets: [usize; 3],
    width: usize,
) -> [Row; 3] {
    offsets.map(|offset| samples(row, offset, 4, width).map(|sample| color.channel(sample)))
}

/// Adds up 2 x 2 boxes, in place: from rows of `2 * side` sums to rows of `side`.
fn halve(sums: &mut [u32; SIDE * SIDE], side: usize) {
    for y in 0..side {
        for x in 0..side {
            let upper = 2 * y * 2 * side + 2 * x;
            let lower = upper + 2 * side;
            sums[y * side + x] = sums[upper] + sums[upper + 1] + sums[lower] + sums[lower + 1];
        }
    }
}

/// Rounds the sums of one level of a tile into its texels.
fn round(sums: &[u32], tile: Tile, level: u32, texels: &mut [u8], stride: usize) {
    let side = SIDE >> level;
    let (x, y) = (tile.origin.0 as usize >> level, tile.origin.1 as usize >> level);
    let is_whole = tile.real == Extent::new(TILE_SIDE, TILE_SIDE);
    for (row, sums) in sums[..side * side].chunks_exact(side).enumerate() {
        let texels = &mut texels[(y + row) * stride + x..][..side];
        if is_whole {
            for (texel, &sum) in texels.iter_mut().zip(sums) {
                *texel = rounded_mean(sum, 1 << (2 * level));
            }
        } else {
            let rows = real_pixels(row, level, tile.real.height);
            for (column, (texel, &sum)) in texels.iter_mut().zip(sums).enumerate() {
                let count = rows * real_pixels(column, level, tile.real.width);
                *texel = if count == 0 { 0 } else { rounded_mean(sum, count) };
            }
        }
    }
}

/// How many of the pixels under texel `index` of a tile's row or column at `level` lie before `end`.
#[expect(clippy::cast_possible_truncation, reason = "an index within a tile")]
fn real_pixels(index: usize, level: u32, end: u32) -> u32 {
    end.saturating_sub((index as u32) << level).min(1 << level)
}
