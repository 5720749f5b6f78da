//! The definition that every backend is held to, written as plainly as possible: nested loops, u64 sums.
//!
//! Uses the crate's types and its `ColorTransform`, and nothing else of it.

#![allow(clippy::cast_possible_truncation, reason = "a mean of 8-bit samples has 8 bits")]

use std::collections::HashMap;
use std::ops::Range;

use foveate_core::color::{ColorMatrix, ColorRange, ColorTransform};
use foveate_core::frame::{FrameKind, FrameView, PixelFormat, Plane};
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::plan::{Token, TokenPlan};
use foveate_core::geometry::tile::TILE_SIDE;
use foveate_core::token::{DType, Normalisation, Outside, Rounding, TokenFormat};
use foveate_gaze::relevance::features::{STROKE_MAX, STRONG, TileFeatures};

/// Formats, widths, and a byte of a row that is not a sample: the fourth of an RGB pixel, and the second luma of the last pair
/// of an odd row of YUY2.
pub const BYTES_WITHOUT_SAMPLES: [(PixelFormat, u32, usize); 4] = [
    (PixelFormat::Rgbx, 33, 4 * 32 + 3),
    (PixelFormat::Bgra, 8, 3),
    (PixelFormat::Yuy2, 33, 4 * 16 + 2),
    (PixelFormat::Yuy2, 63, 4 * 31 + 2),
];

/// A raster of R, G, B, row by row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    pub extent: Extent,
    pub texels: Vec<[u8; 3]>,
}

impl Picture {
    /// R, G, B interleaved, as `Backend::read_level` returns them.
    pub fn bytes(&self) -> &[u8] {
        self.texels.as_flattened()
    }

    /// Texel (x, y), or the nearest one inside.
    pub fn nearest(&self, x: u32, y: u32) -> [u8; 3] {
        let x = x.min(self.extent.width - 1);
        let y = y.min(self.extent.height - 1);
        self.texels[(y * self.extent.width + x) as usize]
    }
}

/// The source in RGB: level 0.
pub fn picture(frame: &OwnedFrame) -> Picture {
    let extent = frame.extent;
    let mut texels = Vec::with_capacity(extent.area());
    for y in 0..extent.height {
        for x in 0..extent.width {
            texels.push(frame.rgb(x, y));
        }
    }
    Picture { extent, texels }
}

/// One level over a source: texel (x, y) is the mean, rounded half up, of the source pixels that it covers.
pub fn level(source: &Picture, level: u32) -> Picture {
    let Extent { width, height } = source.extent;
    let extent = Extent::new(width.div_ceil(1 << level), height.div_ceil(1 << level));
    let mut sums = vec![[0_u64; 3]; extent.area()];
    let mut counts = vec![0_u64; extent.area()];
    for y in 0..height {
        for x in 0..width {
            let texel = ((y >> level) * extent.width + (x >> level)) as usize;
            let rgb = source.texels[(y * width + x) as usize];
            for channel in 0..3 {
                sums[texel][channel] += u64::from(rgb[channel]);
            }
            counts[texel] += 1;
        }
    }
    let mean =
        |(sum, count): ([u64; 3], u64)| sum.map(|sum| ((2 * sum + count) / (2 * count)) as u8);
    Picture { extent, texels: sums.into_iter().zip(counts).map(mean).collect() }
}

/// Every level over a source, down to the first with both sides at most 8.
pub fn pyramid(source: &Picture) -> Vec<Picture> {
    let mut levels = vec![source.clone()];
    while levels.last().unwrap().extent.longer_side() > 8 {
        levels.push(level(source, levels.len() as u32));
    }
    levels
}

/// What each tile of a frame looks like, row by row, by the definitions of `TileFeatures`.
pub fn features(frame: &OwnedFrame) -> Vec<TileFeatures> {
    let grid = frame.extent.in_cells(TILE_SIDE);
    let tiles = (0..grid.height).flat_map(|row| (0..grid.width).map(move |column| (column, row)));
    tiles
        .map(|(column, row)| features_of_tile(frame, column * TILE_SIDE, row * TILE_SIDE))
        .collect()
}

fn features_of_tile(frame: &OwnedFrame, left: u32, top: u32) -> TileFeatures {
    let (width, height) =
        ((frame.extent.width - left).min(TILE_SIDE), (frame.extent.height - top).min(TILE_SIDE));
    let luma = |x: u32, y: u32| {
        let [a, b, c] = frame.samples(left + x, top + y).map(i64::from);
        if frame.format.is_rgb() { (54 * a + 183 * b + 19 * c + 128) / 256 } else { a }
    };
    let dx = |x: u32, y: u32| (x + 1 < width && y < height).then(|| luma(x + 1, y) - luma(x, y));
    let dy = |x: u32, y: u32| (y + 1 < height && x < width).then(|| luma(x, y + 1) - luma(x, y));
    let mut features = TileFeatures::default();
    for (x, y) in (0..height).flat_map(|y| (0..width).map(move |x| (x, y))) {
        features.count += 1;
        features.luma += luma(x, y) as u32;
        features.luma_squared += luma(x, y).pow(2) as u32;
        features.histogram[luma(x, y) as usize / 16] += 1;
        for (sum, value) in features.color.iter_mut().zip(frame.rgb(left + x, top + y)) {
            *sum += u32::from(value);
        }
        for (axis, difference) in [dx(x, y), dy(x, y)].into_iter().enumerate() {
            let Some(difference) = difference else { continue };
            features.differences[axis] += 1;
            features.gradient[axis] += difference.unsigned_abs() as u32;
            features.gradient_squared[axis] += difference.pow(2) as u32;
            let later = |steps: u32| if axis == 0 { dx(x + steps, y) } else { dy(x, y + steps) };
            let strong = i64::from(STRONG);
            let turns = |other: i64| {
                (strong <= difference && other <= -strong)
                    || (difference <= -strong && strong <= other)
            };
            let is_stroke = (1..=STROKE_MAX).filter_map(later).any(turns);
            features.strokes[axis] += u32::from(is_stroke);
        }
        if let (Some(dx), Some(dy)) = (dx(x, y), dy(x, y)) {
            features.gradient_product += (dx * dy) as i32;
        }
    }
    let mean = |column: u32, row: u32| {
        let pixels = (0..16).map(|index| (column * 4 + index % 4, row * 4 + index / 4));
        let is_whole = column * 4 + 3 < width && row * 4 + 3 < height;
        is_whole.then(|| (pixels.map(|(x, y)| luma(x, y)).sum::<i64>() + 8) / 16)
    };
    for (column, row) in (0..8).flat_map(|row| (0..8).map(move |column| (column, row))) {
        for other in [mean(column + 1, row), mean(column, row + 1)] {
            if let (Some(here), Some(other)) = (mean(column, row), other) {
                features.coarse_differences += 1;
                features.coarse_squared += (here - other).pow(2) as u32;
            }
        }
    }
    features
}

/// The bytes of the tokens of a plan over a source: `[N, 3, P, P]`.
pub fn tokens(source: &Picture, plan: &TokenPlan, format: TokenFormat) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut levels = HashMap::new();
    for token in &plan.tokens {
        let mut texels = Vec::new();
        let weighted = weighted_level(source, *token, format.patch_side).map(|number| {
            (number, &*levels.entry(number).or_insert_with(|| level(source, number)))
        });
        for row in 0..format.patch_side {
            for column in 0..format.patch_side {
                texels.push(match weighted {
                    Some(level) => weighted_texel(source, level, *token, format, column, row),
                    None => texel(source, *token, format, column, row),
                });
            }
        }
        for channel in 0..3 {
            for texel in &texels {
                match texel {
                    Some(rgb) => push_number(&mut bytes, rgb[channel], channel, format),
                    None => bytes.extend(vec![0; format.dtype.bytes()]),
                }
            }
        }
    }
    bytes
}

/// A texel of a token: the mean of the real pixels in its box, rounded once. Without any it is that of the nearest box of the
/// token's grid that has some, or `None` for nothing.
fn texel(
    source: &Picture,
    token: Token,
    format: TokenFormat,
    column: u32,
    row: u32,
) -> Option<[u8; 3]> {
    let columns = real_parts(token.x.into(), token.sx.into(), column, source.extent.width);
    let rows = real_parts(token.y.into(), token.sy.into(), row, source.extent.height);
    if format.outside == Outside::Mean && !(columns.1 && rows.1) {
        return None;
    }
    let (mut sum, mut count) = ([0_u64; 3], 0_u64);
    for y in rows.0 {
        for x in columns.0.clone() {
            let rgb = source.texels[(y * i64::from(source.extent.width) + x) as usize];
            for channel in 0..3 {
                sum[channel] += u64::from(rgb[channel]);
            }
            count += 1;
        }
    }
    Some(sum.map(|sum| match format.rounding {
        Rounding::HalfUp => ((2 * sum + count) / (2 * count)) as u8,
        Rounding::Floor => (sum / count) as u8,
    }))
}

/// The level that a token with real steps is averaged from.
fn weighted_level(source: &Picture, token: Token, patch_side: u32) -> Option<u32> {
    let Token { sx, sy, extra_width, extra_height, .. } = token;
    if (extra_width, extra_height) == (0, 0) {
        return None;
    }
    let width = patch_side * u32::from(sx) + u32::from(extra_width);
    let height = patch_side * u32::from(sy) + u32::from(extra_height);
    let step = f64::from(width.min(height)) / f64::from(patch_side);
    let mut level = 0;
    while 2_f64.powi(level + 2) <= step && 8 << level < source.extent.longer_side() {
        level += 1;
    }
    Some(u32::try_from(level).unwrap())
}

/// A texel of a token with real steps: the mean of the texels of a level, each weighted by the area that its real pixels share with
/// the texel, in units of 1/P x 1/P pixel, rounded once.
fn weighted_texel(
    source: &Picture,
    (number, level): (u32, &Picture),
    token: Token,
    format: TokenFormat,
    column: u32,
    row: u32,
) -> Option<[u8; 3]> {
    let unit = format.patch_side;
    let Extent { width, height } = source.extent;
    let along = |origin: i32, step: u16, extra: u8, index: u32, length: u32| {
        let step = i64::from(unit) * i64::from(step) + i64::from(extra);
        real_parts(i64::from(origin) * i64::from(unit), step, index, length * unit)
    };
    let columns = along(token.x, token.sx, token.extra_width, column, width);
    let rows = along(token.y, token.sy, token.extra_height, row, height);
    if format.outside == Outside::Mean && !(columns.1 && rows.1) {
        return None;
    }
    let (mut sum, mut area) = ([0_u64; 3], 0_u64);
    let over_columns = overlaps(level.extent.width, number, width, unit, &columns.0);
    for (y, tall) in overlaps(level.extent.height, number, height, unit, &rows.0) {
        for (x, wide) in &over_columns {
            let weight = wide * tall;
            let rgb = level.texels[(y * level.extent.width + x) as usize];
            for channel in 0..3 {
                sum[channel] += weight * u64::from(rgb[channel]);
            }
            area += weight;
        }
    }
    Some(sum.map(|sum| match format.rounding {
        Rounding::HalfUp => ((2 * sum + area) / (2 * area)) as u8,
        Rounding::Floor => (sum / area) as u8,
    }))
}

/// The texels of a level that `parts` lie over, of `count` along an axis of `length` pixels of `unit` parts each, and how much of their
/// real pixels.
fn overlaps(count: u32, level: u32, length: u32, unit: u32, parts: &Range<i64>) -> Vec<(u32, u64)> {
    let overlap = |index: u32| {
        let start = i64::from(unit) * i64::from(index << level);
        let end = i64::from(unit) * i64::from(((index + 1) << level).min(length));
        u64::try_from(end.min(parts.end) - start.max(parts.start)).unwrap_or(0)
    };
    (0..count).map(|index| (index, overlap(index))).filter(|(_, overlap)| 0 < *overlap).collect()
}

/// The part of an axis of `length` that is real under texel `index`, and whether there is any; if not, that under the nearest texel
/// that has some.
fn real_parts(origin: i64, step: i64, index: u32, length: u32) -> (Range<i64>, bool) {
    let length = i64::from(length);
    let mut start = origin + i64::from(index) * step;
    let is_real = 0 < start + step && start < length;
    while start + step <= 0 {
        start += step;
    }
    while length <= start {
        start -= step;
    }
    (start.max(0)..(start + step).min(length), is_real)
}

fn push_number(bytes: &mut Vec<u8>, value: u8, channel: usize, format: TokenFormat) {
    let TokenFormat { dtype, normalisation: Normalisation { mean, std }, .. } = format;
    let number = if format.normalisation == Normalisation::NONE {
        f64::from(value)
    } else {
        (f64::from(value) / 255.0 - mean[channel]) / std[channel]
    };
    match dtype {
        DType::U8 => bytes.push(value),
        DType::F16 => bytes.extend(half::f16::from_f64(number).to_le_bytes()),
        DType::Bf16 => bytes.extend(half::bf16::from_f64(number).to_le_bytes()),
        DType::F32 => bytes.extend((number as f32).to_le_bytes()),
    }
}

/// A camera frame that owns its samples.
#[derive(Clone, Debug)]
pub struct OwnedFrame {
    pub format: PixelFormat,
    pub extent: Extent,
    pub color: ColorTransform,
    planes: Vec<OwnedPlane>,
}

#[derive(Clone, Debug)]
struct OwnedPlane {
    bytes: Vec<u8>,
    stride: usize,
}

impl OwnedFrame {
    /// Random samples in rows with up to 7 bytes of random padding; the last row ends with its last sample.
    pub fn random(
        format: PixelFormat,
        extent: Extent,
        color: ColorTransform,
        random: &mut Random,
    ) -> Self {
        let planes = (0..format.plane_count())
            .map(|index| {
                let shape = format.plane_shape(index, extent);
                let stride = (shape.row_bytes + random.below(8)) as usize;
                let len = (shape.rows as usize - 1) * stride + shape.row_bytes as usize;
                OwnedPlane { bytes: (0..len).map(|_| random.byte()).collect(), stride }
            })
            .collect();
        Self { format, extent, color, planes }
    }

    /// It without transparent pixels, as a clip's frames come out of a source.
    pub fn opaque(mut self) -> Self {
        if self.format.has_alpha() {
            let row_bytes = self.format.plane_shape(0, self.extent).row_bytes as usize;
            let OwnedPlane { bytes, stride } = &mut self.planes[0];
            for row in bytes.chunks_mut(*stride) {
                row[..row_bytes].chunks_exact_mut(4).for_each(|pixel| pixel[3] = 255);
            }
        }
        self
    }

    /// A frame without padding whose samples all are `value`.
    pub fn uniform(format: PixelFormat, extent: Extent, color: ColorTransform, value: u8) -> Self {
        let planes = (0..format.plane_count())
            .map(|index| {
                let shape = format.plane_shape(index, extent);
                let stride = shape.row_bytes as usize;
                OwnedPlane { bytes: vec![value; stride * shape.rows as usize], stride }
            })
            .collect();
        Self { format, extent, color, planes }
    }

    /// A copy of the samples of `frame`, without padding.
    pub fn copied(frame: &FrameView<'_>) -> Self {
        let (format, extent) = (frame.format(), frame.extent());
        let planes = (0..format.plane_count())
            .map(|index| {
                let shape = format.plane_shape(index, extent);
                let rows = (0..shape.rows as usize).flat_map(|y| frame.row(index, y));
                OwnedPlane { bytes: rows.copied().collect(), stride: shape.row_bytes as usize }
            })
            .collect();
        Self { format, extent, color: frame.color(), planes }
    }

    /// The frame as the stages take it.
    pub fn view(&self) -> FrameView<'_> {
        let planes: Vec<_> = self
            .planes
            .iter()
            .map(|plane| Plane { bytes: &plane.bytes, stride: plane.stride })
            .collect();
        FrameView::new(self.format, self.extent, self.color, &planes).unwrap()
    }

    /// The bytes of plane `index`, and those from one of its rows to the next.
    pub fn plane_mut(&mut self, index: usize) -> (&mut [u8], usize) {
        let OwnedPlane { bytes, stride } = &mut self.planes[index];
        (bytes, *stride)
    }

    /// What a backend for it is built for.
    pub fn kind(&self) -> FrameKind {
        FrameKind { format: self.format, extent: self.extent, color: self.color }
    }

    /// RGB of pixel (x, y).
    pub fn rgb(&self, x: u32, y: u32) -> [u8; 3] {
        let [a, b, c] = self.samples(x, y);
        if self.format.is_rgb() {
            [a, b, c].map(|sample| self.color.channel(sample))
        } else if self.format == PixelFormat::Gray8 {
            [self.color.channel(a); 3]
        } else {
            self.color.rgb(a, b, c)
        }
    }

    /// The samples of pixel (x, y): Y, U, V or R, G, B; for gray, the one three times.
    pub fn samples(&self, x: u32, y: u32) -> [u8; 3] {
        self.sample_places(x, y).map(|(plane, at)| self.planes[plane].bytes[at])
    }

    /// Draws new samples for the pixels of a box, cut at the edges, and for those that share their chroma.
    pub fn scramble(&mut self, x0: u32, y0: u32, side: u32, random: &mut Random) {
        self.adjust(x0, y0, side, |_| random.byte());
    }

    /// Takes the samples of a pixel over from another frame of the kind.
    pub fn copy_pixel(&mut self, other: &Self, x: u32, y: u32) {
        for (plane, at) in self.sample_places(x, y) {
            self.planes[plane].bytes[at] = other.planes[plane].bytes[at];
        }
    }

    /// Makes another of each sample of the pixels of a box, cut at the edges; of chroma once for each of those pixels.
    pub fn adjust(&mut self, x0: u32, y0: u32, side: u32, mut next: impl FnMut(u8) -> u8) {
        for y in y0..(y0 + side).min(self.extent.height) {
            for x in x0..(x0 + side).min(self.extent.width) {
                for (plane, at) in self.sample_places(x, y) {
                    let sample = &mut self.planes[plane].bytes[at];
                    *sample = next(*sample);
                }
            }
        }
    }

    /// Plane and byte of the samples of pixel (x, y): Y, U, V or R, G, B; for gray, the one three times.
    fn sample_places(&self, x: u32, y: u32) -> [(usize, usize); 3] {
        let (x, y) = (x as usize, y as usize);
        let place =
            |plane: usize, row: usize, byte: usize| (plane, row * self.planes[plane].stride + byte);
        match self.format {
            PixelFormat::Nv12 => {
                [place(0, y, x), place(1, y / 2, x / 2 * 2), place(1, y / 2, x / 2 * 2 + 1)]
            }
            PixelFormat::I420 => [place(0, y, x), place(1, y / 2, x / 2), place(2, y / 2, x / 2)],
            PixelFormat::Yuy2 => {
                [place(0, y, 2 * x), place(0, y, x / 2 * 4 + 1), place(0, y, x / 2 * 4 + 3)]
            }
            PixelFormat::Rgb => [0, 1, 2].map(|i| place(0, y, 3 * x + i)),
            PixelFormat::Bgr => [2, 1, 0].map(|i| place(0, y, 3 * x + i)),
            PixelFormat::Rgbx | PixelFormat::Rgba => [0, 1, 2].map(|i| place(0, y, 4 * x + i)),
            PixelFormat::Bgrx | PixelFormat::Bgra => [2, 1, 0].map(|i| place(0, y, 4 * x + i)),
            PixelFormat::Gray8 => [place(0, y, x); 3],
        }
    }
}

/// The colour transforms that `format` is tested with: every matrix and range that cameras send.
pub fn transforms(format: PixelFormat) -> Vec<ColorTransform> {
    let ranges = [ColorRange::Limited, ColorRange::Full];
    if format.is_rgb() {
        return ranges.map(ColorTransform::from_rgb).to_vec();
    }
    let matrices = [ColorMatrix::Bt601, ColorMatrix::Bt709, ColorMatrix::Bt2020];
    matrices
        .into_iter()
        .flat_map(|matrix| ranges.map(|range| ColorTransform::from_ycbcr(matrix, range)))
        .collect()
}

/// Tokens of every kind over a source of `extent`: texels of any level, at any place of it; boxes of any steps, whole and real,
/// anywhere.
pub fn random_plan(
    extent: Extent,
    patch_side: u32,
    count: usize,
    random: &mut Random,
) -> TokenPlan {
    let levels = 1 + extent.longer_side().div_ceil(8).next_power_of_two().ilog2();
    let mut token = || {
        let level = random.below(levels);
        let place = |length: u32, random: &mut Random| random.below(length.div_ceil(1 << level));
        let (x, y) = (place(extent.width, random), place(extent.height, random));
        let group = random.below(9) as u16;
        let fovea = random.below(8) as u16;
        if random.below(2) == 0 {
            return Token { group, fovea, ..Token::of_level(level, x, y) };
        }
        let steps = [1, 2, 3, 4, 5, 6, 7, 8, 11, 16, 33];
        let mut step = || steps[random.below(steps.len() as u32) as usize];
        let (sx, sy) = (step(), step());
        let sy = if random.below(3) == 0 { sx } else { sy };
        // Half of them have real steps, if tokens of the side may.
        let extras = if patch_side <= 64 && random.below(2) == 0 { patch_side } else { 1 };
        let (extra_width, extra_height) = (random.below(extras), random.below(extras));
        // Inside, over every edge and corner, and beside the source.
        let origin = |step: u16, extra: u32, length: u32, random: &mut Random| {
            let side = patch_side * u32::from(step) + extra;
            random.below(length + 2 * side).cast_signed() - (side + side / 2).cast_signed()
        };
        let x = origin(sx, extra_width, extent.width, random);
        let y = origin(sy, extra_height, extent.height, random);
        let (extra_width, extra_height) = (extra_width as u8, extra_height as u8);
        Token { x, y, sx, sy, extra_width, extra_height, group, fovea }
    };
    TokenPlan { patch_side, tokens: (0..count).map(|_| token()).collect() }
}

/// Numbers that look random and are the same in every run (splitmix64).
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// The next 64 bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number in 0..`bound`.
    pub fn below(&mut self, bound: u32) -> u32 {
        (self.next() % u64::from(bound)) as u32
    }

    /// Any byte; one in eight is black or white, so that sums reach their ends.
    pub fn byte(&mut self) -> u8 {
        let bits = self.next();
        match bits >> 60 {
            0 => 0,
            1 => 255,
            _ => bits as u8,
        }
    }
}
