//! Rebuilds RGB pictures from token frames, and gives channels as images to draw.

use std::cmp::Reverse;
use std::ops::Range;

use foveate_core::channel;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::plan::Token;
use foveate_core::geometry::region::PixelBox;
use foveate_core::plane::CHANNELS;
use foveate_core::token::TokenFormat;

use super::abi::TokenRecord;
use super::reader::TokenFrameBuf;
use super::segment::{PlaneInfo, SegmentInfo};

/// R, G, B.
pub type Rgb = [u8; 3];

/// A channel on the cells of a picture.
#[derive(Clone, Debug, PartialEq)]
pub struct ChannelImage<'a> {
    /// Name of the channel.
    pub name: &'a str,
    /// Columns and rows of cells.
    pub grid: Extent,
    /// Side of a cell in pixels.
    pub cell_side: u32,
    /// Row by row.
    pub cells: Vec<f64>,
}

impl ChannelImage<'_> {
    /// Value range of the channel; for an injected channel, from the least of its cells, or 0 if all are greater, to the
    /// greatest.
    pub fn range(&self) -> (f64, f64) {
        if let Some(channel) = channel::Channel::named(self.name) {
            let (least, greatest) = channel.range;
            return (f64::from(least), f64::from(greatest));
        }
        let least = self.cells.iter().copied().fold(0.0, f64::min);
        (least, self.cells.iter().copied().fold(least, f64::max))
    }

    /// The cells scaled to 0..=1 over the [range](Self::range).
    pub fn normalised(&self) -> impl Iterator<Item = f64> {
        let (least, greatest) = self.range();
        let length = if least < greatest { greatest - least } else { 1.0 };
        self.cells.iter().map(move |cell| ((cell - least) / length).clamp(0.0, 1.0))
    }
}

/// Cells beyond each edge of a token that its pixels are interpolated from.
const MARGIN: usize = 2;

/// Weights are whole numbers of this part of 1.
const ONE: i32 = 1 << 14;

impl TokenFrameBuf {
    /// The picture of a frame of `segment`, row by row; black where no token lies.
    ///
    /// Shows the raw tokens, without smoothing. Each texel fills the pixels whose centres it covers; where tokens overlap,
    /// those with smaller steps are on top.
    pub fn replicated(&self, segment: &SegmentInfo) -> Vec<Rgb> {
        let mut picture = RgbImage::black(segment.extent);
        for patch in self.coarse_first(segment) {
            picture.fill(&patch);
        }
        picture.texels
    }

    /// The picture of a frame of `segment` without the edges of texels and tokens, row by row; exact where the steps are 1. It is for
    /// models and people.
    ///
    /// The texels of a token are cells of a grid that goes on beyond the token. A cell outside it has the mean of its pixels in
    /// the [replicated](Self::replicated) picture, each by what it shares with the cell, rounded half up; that picture goes on beyond its
    /// edges with the pixels at its edges. A pixel is interpolated between the centres of 4 x 4 cells by Catmull-Rom splines, with weights rounded to 2^-14 along
    /// each axis, and rounded half up. Every reader draws the same bytes.
    pub fn smoothed(&self, segment: &SegmentInfo) -> Vec<Rgb> {
        let extent = segment.extent;
        let plain = RgbImage { extent, texels: self.replicated(segment) };
        let mut picture = RgbImage::black(extent);
        for patch in self.coarse_first(segment) {
            picture.interpolate(&plain, &patch);
        }
        picture.texels
    }

    /// The channels that a frame of `segment` holds, in the order of the plane.
    pub fn channels<'a>(
        &'a self,
        segment: &'a SegmentInfo,
    ) -> impl Iterator<Item = ChannelImage<'a>> {
        let facts = segment.plane_index(CHANNELS).zip(segment.channels.as_ref());
        facts.into_iter().flat_map(|(index, facts)| {
            let PlaneInfo { dtype, ref shape, token_stride, .. } = segment.planes[index];
            let (grid, cell_side) = (Extent::new(shape[2], shape[1]), facts.cell_side);
            let items = self.plane(index).chunks_exact(token_stride);
            facts.names.iter().zip(items).map(move |(name, items)| {
                let numbers = items.chunks_exact(dtype.bytes()).take(grid.area());
                let cells = numbers.map(|number| dtype.number(number)).collect();
                ChannelImage { name, grid, cell_side, cells }
            })
        })
    }

    /// The tokens in the order of painting: falling area of a texel, then as they come.
    fn coarse_first<'a>(&'a self, segment: &SegmentInfo) -> Vec<DrawnToken<'a>> {
        let (extent, format) = (segment.extent, segment.format);
        let values = self.pixels.chunks_exact(format.token_bytes());
        let patch = |(record, values): (&TokenRecord, &'a [u8])| {
            let (token, side) = (record.token(), u32::from(record.size));
            let (columns, rows) =
                (token.columns(extent, side).real(), token.rows(extent, side).real());
            let pixels = token.pixel_box(extent, side);
            DrawnToken { token, side, columns, rows, pixels, format, values }
        };
        // Other records are a broken writer's.
        let is_drawable = |(record, _): &(&TokenRecord, &[u8])| {
            record.is_within_limits(extent, format.patch_side)
        };
        let placed = self.records.iter().zip(values).filter(is_drawable);
        let mut patches: Vec<_> = placed.map(patch).collect();
        patches.sort_by_key(|patch| {
            let (width, height) = (patch.token.width(patch.side), patch.token.height(patch.side));
            Reverse(u64::from(width) * u64::from(height))
        });
        patches
    }
}

/// A token and its texels.
struct DrawnToken<'a> {
    token: Token,
    /// P: side of the token in texels.
    side: u32,
    /// The texels with real pixels.
    columns: Range<u32>,
    rows: Range<u32>,
    /// The real pixels.
    pixels: PixelBox,
    format: TokenFormat,
    values: &'a [u8],
}

impl DrawnToken<'_> {
    fn texel(&self, column: u32, row: u32) -> Rgb {
        std::array::from_fn(|channel| {
            let (side, row, column) = (self.side as usize, row as usize, column as usize);
            let index = (channel * side + row) * side + column;
            self.format.denormalised(channel, &self.values[index * self.format.dtype.bytes()..])
        })
    }
}

struct RgbImage {
    extent: Extent,
    texels: Vec<Rgb>,
}

impl RgbImage {
    fn black(extent: Extent) -> Self {
        Self { extent, texels: vec![[0; 3]; extent.area()] }
    }

    fn row(&mut self, y: u32, columns: Range<u32>) -> &mut [Rgb] {
        let start = y as usize * self.extent.width as usize;
        &mut self.texels[start + columns.start as usize..start + columns.end as usize]
    }

    fn fill(&mut self, patch: &DrawnToken<'_>) {
        let token = patch.token;
        let (columns, rows) =
            (token.columns(self.extent, patch.side), token.rows(self.extent, patch.side));
        for row in patch.rows.clone() {
            for column in patch.columns.clone() {
                let color = patch.texel(column, row);
                for y in rows.centres(row) {
                    self.row(y, columns.centres(column)).fill(color);
                }
            }
        }
    }

    fn interpolate(&mut self, plain: &Self, patch: &DrawnToken<'_>) {
        let PixelBox { x0, y0, x1, y1 } = patch.pixels;
        let (Token { x, y, .. }, side) = (patch.token, patch.side);
        let (width, height) = (patch.token.width(side), patch.token.height(side));
        let count = side as usize + 2 * MARGIN;
        let cells = plain.cells(patch);
        let columns: Vec<_> = (x0..x1).map(|pixel| SplineTaps::of(pixel, x, width, side)).collect();
        for row in y0..y1 {
            let taps = SplineTaps::of(row, y, height, side);
            let along: Vec<[i32; 3]> =
                (0..count).map(|column| taps.sum(|cell| cells[cell * count + column])).collect();
            for (texel, taps) in self.row(row, x0..x1).iter_mut().zip(&columns) {
                *texel = taps.rounded(&along);
            }
        }
    }

    /// The cells of a token and of the margin around it, row by row.
    fn cells(&self, patch: &DrawnToken<'_>) -> Vec<[i32; 3]> {
        let along_row = CellAxis::of(patch.token.x, patch.token.width(patch.side), patch.side);
        let down_column = CellAxis::of(patch.token.y, patch.token.height(patch.side), patch.side);
        let margin = MARGIN as i64;
        let indices = || -margin..i64::from(patch.side) + margin;
        let inside = |index: i64, real: &Range<u32>| {
            u32::try_from(index).ok().filter(|index| real.contains(index))
        };
        let cell = |row: i64, column: i64| {
            let own = inside(row, &patch.rows).zip(inside(column, &patch.columns));
            own.map_or_else(
                || self.mean((&along_row, column), (&down_column, row)),
                |(row, column)| patch.texel(column, row).map(i32::from),
            )
        };
        indices()
            .flat_map(|row| indices().map(move |column| (row, column)))
            .map(|(row, column)| cell(row, column))
            .collect()
    }

    /// Mean of a cell, rounded half up. Beyond its edges the picture goes on with the pixels at its edges.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped; a mean of bytes"
    )]
    fn mean(
        &self,
        (along_row, column): (&CellAxis, i64),
        (down_column, row): (&CellAxis, i64),
    ) -> [i32; 3] {
        let count = along_row.step * down_column.step;
        let clamped = |place: i64, side: u32| place.clamp(0, i64::from(side) - 1) as usize;
        let mut sums = [0i64; 3];
        for (y, height) in down_column.pixels(row) {
            let row = &self.texels[clamped(y, self.extent.height) * self.extent.width as usize..];
            for (x, width) in along_row.pixels(column) {
                let texel = row[clamped(x, self.extent.width)];
                for (sum, value) in sums.iter_mut().zip(texel) {
                    *sum += width * height * i64::from(value);
                }
            }
        }
        sums.map(|sum| ((sum + count / 2) / count) as i32)
    }
}

/// The cells of a token's grid along one axis, in parts of a pixel.
struct CellAxis {
    /// Parts of a pixel: P, or 1 where cells begin and end between pixels.
    unit: i64,
    /// Start of cell 0.
    origin: i64,
    /// Length of a cell.
    step: i64,
}

impl CellAxis {
    /// The axis of a token that has P texels, begins at `origin` and is `side` pixels long.
    fn of(origin: i32, side: u32, patch_side: u32) -> Self {
        let (unit, step) = if side.is_multiple_of(patch_side) {
            (1, side / patch_side)
        } else {
            (patch_side, side)
        };
        Self { unit: unit.into(), origin: i64::from(origin) * i64::from(unit), step: step.into() }
    }

    /// The pixels under cell `index`, each with the parts that they share.
    fn pixels(&self, index: i64) -> impl Iterator<Item = (i64, i64)> {
        let Self { unit, origin, step } = *self;
        let start = origin + index * step;
        let end = start + step;
        let pixels = start.div_euclid(unit)..(end - 1).div_euclid(unit) + 1;
        pixels.map(move |pixel| (pixel, end.min((pixel + 1) * unit) - start.max(pixel * unit)))
    }
}

/// The four cells that a pixel is interpolated from along one axis.
struct SplineTaps {
    /// Index of the first, from the start of the margin.
    first: usize,
    weights: [i32; 4],
}

impl SplineTaps {
    /// The taps of `pixel` in a token that has P texels, begins at `origin` and is `side` pixels long.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a pixel lies inside its token"
    )]
    fn of(pixel: u32, origin: i32, side: u32, patch_side: u32) -> Self {
        let offset = i64::from(pixel) - i64::from(origin);
        let (step, unit) = (i64::from(side), i64::from(patch_side));
        // In halves of a part of a pixel, P of them, from the centre of the first cell of the margin.
        let place = (2 * offset + 1) * unit - step + 2 * MARGIN as i64 * step;
        let cell = place / (2 * step);
        let t = (place - 2 * step * cell) as f64 / (2 * step) as f64;
        let [before, here, after] = [
            ((2.0 - t) * t - 1.0) * t / 2.0,
            ((3.0 * t - 5.0) * t * t + 2.0) / 2.0,
            ((4.0 - 3.0 * t) * t + 1.0) * t / 2.0,
        ]
        .map(|weight| (weight * f64::from(ONE) + 0.5).floor() as i32);
        Self {
            first: cell as usize - 1,
            weights: [before, here, after, ONE - before - here - after],
        }
    }

    /// The weighted sum of `cell`s, in parts of [`ONE`].
    fn sum(&self, cell: impl Fn(usize) -> [i32; 3]) -> [i32; 3] {
        let mut sums = [0; 3];
        for (index, weight) in self.weights.into_iter().enumerate() {
            for (sum, value) in sums.iter_mut().zip(cell(self.first + index)) {
                *sum += weight * value;
            }
        }
        sums
    }

    /// The weighted sum of values in parts of [`ONE`], rounded to 8 bits.
    fn rounded(&self, along: &[[i32; 3]]) -> Rgb {
        let one = i64::from(ONE);
        std::array::from_fn(|channel| {
            let term =
                |(weight, cell): (i32, &[i32; 3])| i64::from(weight) * i64::from(cell[channel]);
            let sum: i64 = self.weights.into_iter().zip(&along[self.first..]).map(term).sum();
            (sum + one * one / 2).div_euclid(one * one).clamp(0, 255) as u8
        })
    }
}
