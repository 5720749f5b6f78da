//! The picture of a view's finest texels so far, kept from frame to frame.

use std::fmt;

use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::tile::TILE_SIDE;
use foveate_core::plane::TILES;
use foveate_core::token::TokenFormat;

use super::abi::TokenRecord;
use super::picture::Rgb;
use super::reader::TokenFrameBuf;
use super::segment::SegmentInfo;

/// The picture of the finest texels so far of a view with `memory = "canvas"`.
///
/// A *place* is a square of [`side`](Self::side) pixels, the greatest that lies in one token and in one tile of change detection. Each
/// frame draws a place if its token there is at least as fine as what the canvas has, or if a tile under the texel that it was drawn
/// from has changed since; so no place shows what is not in the picture any more. Memory is allocated with the first frame of a
/// segment, and constant then. `docs/reference/canvas.md` is the definition, which all languages follow byte for byte.
///
/// Feed it every frame, in order, as [`read_next`](super::Reader::read_next) gives them.
#[derive(Clone, Debug, Default)]
pub struct Canvas {
    /// `None` before the first frame.
    of: Option<Source>,
    ring_sequence: u64,
    frame_seq: u64,
    wants_refresh: bool,
    tiles: Vec<u64>,
    steps: Vec<u16>,
    frames: Vec<u64>,
    /// `changed_frame` of the token that each place was drawn from.
    tokens: Vec<u64>,
    drawn: Vec<bool>,
    pixels: Vec<u8>,
}

/// Properties that all frames of a segment share.
#[derive(Clone, Copy, Debug)]
struct Source {
    epoch: u64,
    extent: Extent,
    format: TokenFormat,
    side: u32,
    grid: Extent,
}

/// The effect of a frame on a canvas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CanvasUpdate {
    /// Whether the frame cleared the canvas, as the first frame of a segment does.
    pub is_new: bool,
    /// Number of places that the frame drew.
    pub drawn: usize,
}

/// A frame that a canvas cannot be drawn from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CanvasError {
    /// The view does not publish when tiles change.
    NoTiles {
        /// Address of the view.
        view: String,
    },
    /// The frame is older than the newest one of the canvas.
    NotNewer {
        /// Number of the frame that was to be drawn.
        ring_sequence: u64,
        /// Number of the newest frame drawn so far.
        newest: u64,
    },
}

impl fmt::Display for CanvasError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTiles { view } => write!(
                f,
                "{view} does not publish the plane `{TILES}`: open the view with layout = \"adaptive\" and memory = \"canvas\""
            ),
            Self::NotNewer { ring_sequence, newest } => write!(
                f,
                "frame {ring_sequence} of the segment after frame {newest} (expected newer frames, in order)"
            ),
        }
    }
}

impl std::error::Error for CanvasError {}

/// For each tile of the picture, row by row, the newest frame that changed it or that had other masks than the frame before. `None` if
/// the view does not publish the plane.
pub fn tile_frames<'a>(
    segment: &SegmentInfo,
    frame: &'a TokenFrameBuf,
) -> Option<impl Iterator<Item = u64> + use<'a>> {
    let plane = segment.plane_index(TILES)?;
    let tiles = segment.extent.in_cells(TILE_SIDE).area();
    let is_whole = segment.planes[plane].items_bytes(0) == tiles * size_of::<u64>();
    let numbers = frame.plane(plane).as_chunks().0.iter();
    is_whole.then(|| numbers.map(|bytes| u64::from_le_bytes(*bytes)))
}

impl Canvas {
    /// Draws a frame of `segment`.
    ///
    /// # Errors
    ///
    /// If the view does not publish when tiles change, or the frame is not newer than the newest one.
    pub fn update(
        &mut self,
        segment: &SegmentInfo,
        frame: &TokenFrameBuf,
    ) -> Result<CanvasUpdate, CanvasError> {
        let Some(tiles) = tile_frames(segment, frame) else {
            return Err(CanvasError::NoTiles {
                view: format!("{}/{}", segment.stream, segment.view),
            });
        };
        let ring_sequence = frame.head.ring_sequence;
        let known = self.of.filter(|of| of.epoch == segment.epoch);
        if known.is_some() && ring_sequence <= self.ring_sequence {
            return Err(CanvasError::NotNewer { ring_sequence, newest: self.ring_sequence });
        }
        let source = known.unwrap_or_else(|| self.open(segment));
        self.tiles.clear();
        self.tiles.extend(tiles);
        self.draw(source, frame);
        self.wants_refresh |= ring_sequence != self.ring_sequence + 1;
        (self.ring_sequence, self.frame_seq) = (ring_sequence, frame.head.stamp.frame_seq);
        let drawn = self.drawn.iter().filter(|drawn| **drawn).count();
        Ok(CanvasUpdate { is_new: known.is_none(), drawn })
    }

    /// Clears the canvas for frames of another segment.
    fn open(&mut self, segment: &SegmentInfo) -> Source {
        let (epoch, extent, format) = (segment.epoch, segment.extent, segment.format);
        // The greatest power of two that divides both.
        let side = TILE_SIDE.min(1 << format.patch_side.trailing_zeros());
        let grid = extent.in_cells(side);
        let source = Source { epoch, extent, format, side, grid };
        let count = grid.area();
        *self = Self {
            of: Some(source),
            tiles: Vec::with_capacity(extent.in_cells(TILE_SIDE).area()),
            steps: vec![0; count],
            frames: vec![0; count],
            tokens: vec![0; count],
            drawn: vec![false; count],
            pixels: vec![0; extent.area() * 3 * format.dtype.bytes()],
            ..Self::default()
        };
        source
    }

    fn draw(&mut self, source: Source, frame: &TokenFrameBuf) {
        self.drawn.fill(false);
        for place in source.places() {
            let index = source.index(place);
            if self.steps[index] != 0
                && self.frames[index] < self.newest(source, place, self.steps[index])
            {
                self.steps[index] = 0;
            }
        }
        let items = frame.pixels.chunks_exact(source.format.token_bytes());
        for (record, texels) in frame.records.iter().zip(items) {
            if source.is_aligned(record) {
                self.draw_token(source, record, texels);
            }
        }
        for place in source.places() {
            let index = source.index(place);
            // Only a broken writer leaves a place out.
            if self.steps[index] == 0 && self.frames[index] != 0 {
                source.fill(place, &mut self.pixels, |_, _| [&[0; 4][..source.element()]; 3], 1);
                (self.frames[index], self.tokens[index], self.drawn[index]) = (0, 0, true);
            }
        }
    }

    fn draw_token(&mut self, source: Source, record: &TokenRecord, texels: &[u8]) {
        let (step, [x, y]) = (record.sx, [record.x, record.y].map(i32::cast_unsigned));
        let patch_side = source.format.patch_side;
        let length = patch_side * u32::from(step) / source.side;
        let [first_column, first_row] = [x, y].map(|edge| edge / source.side);
        for row in first_row..source.grid.height.min(first_row + length) {
            for column in first_column..source.grid.width.min(first_column + length) {
                let place = [column, row];
                let index = source.index(place);
                let had = self.steps[index];
                let is_newer = step == had && record.changed_frame != self.tokens[index];
                if had != 0 && had <= step && !is_newer {
                    continue;
                }
                let element = source.element();
                let texel = |pixel_x: u32, pixel_y: u32| {
                    let [u, v] = [pixel_x - x, pixel_y - y].map(|pixel| pixel / u32::from(step));
                    let first = (v * patch_side + u) as usize * element;
                    let plane = (patch_side * patch_side) as usize * element;
                    [0, 1, 2].map(|channel| &texels[first + channel * plane..][..element])
                };
                source.fill(place, &mut self.pixels, texel, step.into());
                self.steps[index] = step;
                self.tokens[index] = record.changed_frame;
                self.frames[index] = self.newest(source, place, step);
                self.drawn[index] = true;
            }
        }
    }

    /// The newest change of a tile under the texel of `step` that a place is part of.
    fn newest(&self, source: Source, place: [u32; 2], step: u16) -> u64 {
        let grid = source.extent.in_cells(TILE_SIDE);
        let side = TILE_SIDE.max(step.into());
        let [columns, rows] =
            [(place[0], grid.width), (place[1], grid.height)].map(|(at, count)| {
                let first = at * source.side / side * (side / TILE_SIDE);
                first..count.min(first + side / TILE_SIDE)
            });
        let row = |row: u32| {
            let row = &self.tiles[(row * grid.width) as usize..];
            row[columns.start as usize..columns.end as usize].iter().copied()
        };
        rows.flat_map(row).max().unwrap_or(0)
    }

    /// Whether the daemon may count tokens as delivered that this canvas did not get: the canvas joined late, or missed frames.
    pub fn wants_refresh(&self) -> bool {
        self.wants_refresh
    }

    /// Notes that the daemon has forgotten which tokens it had delivered.
    pub fn refreshed(&mut self) {
        self.wants_refresh = false;
    }

    /// `frame_seq` of the newest frame; 0 before the first.
    pub fn frame_seq(&self) -> u64 {
        self.frame_seq
    }

    /// Side of a place in pixels; 0 before the first frame.
    pub fn side(&self) -> u32 {
        self.of.map_or(0, |of| of.side)
    }

    /// Columns and rows of the places; none before the first frame.
    pub fn grid(&self) -> Extent {
        self.of.map_or(Extent::new(0, 0), |of| of.grid)
    }

    /// For each place, row by row, the width in source pixels of the texel drawn there; 0 where nothing was drawn yet.
    pub fn steps(&self) -> &[u16] {
        &self.steps
    }

    /// For each place, row by row, `frame_seq` of the newest frame that changed the pixels under the texel drawn there, as far as tiles tell.
    pub fn frames(&self) -> &[u64] {
        &self.frames
    }

    /// For each place, row by row, whether the newest frame drew it.
    pub fn drawn(&self) -> &[bool] {
        &self.drawn
    }

    /// R, G and B of each pixel, row by row, in the number format of the view; 0 where nothing was drawn.
    pub fn pixels(&self) -> &[u8] {
        &self.pixels
    }

    /// The picture, row by row; places without a token are black.
    pub fn rgb(&self) -> Vec<Rgb> {
        let Some(source) = self.of else { return Vec::new() };
        let Source { extent, format, side, .. } = source;
        let element = source.element();
        let places =
            (0..extent.height).flat_map(|y| (0..extent.width).map(move |x| [x / side, y / side]));
        let pixels = self.pixels.chunks_exact(3 * element);
        places
            .zip(pixels)
            .map(|(place, pixel)| {
                if self.steps[source.index(place)] == 0 {
                    return [0; 3];
                }
                std::array::from_fn(|channel| {
                    format.denormalised(channel, &pixel[channel * element..])
                })
            })
            .collect()
    }
}

impl Source {
    /// Bytes of a number.
    fn element(self) -> usize {
        self.format.dtype.bytes()
    }

    /// All places, by column and row.
    fn places(self) -> impl Iterator<Item = [u32; 2]> {
        (0..self.grid.height)
            .flat_map(move |row| (0..self.grid.width).map(move |column| [column, row]))
    }

    fn index(self, [column, row]: [u32; 2]) -> usize {
        (row * self.grid.width + column) as usize
    }

    /// Whether a record is of a pyramid-aligned token. Others are a broken writer's.
    fn is_aligned(self, record: &TokenRecord) -> bool {
        let side = self.format.patch_side * u32::from(record.sx);
        let lies = |edge: i32, length: u32| {
            u32::try_from(edge).is_ok_and(|edge| edge < length && edge.is_multiple_of(side))
        };
        record.sx.is_power_of_two()
            && record.sy == record.sx
            && u32::from(record.size) == self.format.patch_side
            && (record.extra_width, record.extra_height) == (0, 0)
            && lies(record.x, self.extent.width)
            && lies(record.y, self.extent.height)
    }

    /// Fills a place with the R, G and B that `texel` gives for pixels; squares of `step` pixels have the same.
    fn fill<'a>(
        self,
        [column, row]: [u32; 2],
        pixels: &mut [u8],
        texel: impl Fn(u32, u32) -> [&'a [u8]; 3],
        step: u32,
    ) {
        let Self { extent, side, .. } = self;
        let [x, y] = [column * side, row * side];
        let count = side.min(extent.width - x) as usize;
        let element = self.element();
        let pixel_bytes = 3 * element;
        let start = |y: u32| (y as usize * extent.width as usize + x as usize) * pixel_bytes;
        for pixel_y in y..extent.height.min(y + side) {
            if y < pixel_y && !pixel_y.is_multiple_of(step) {
                let above = start(pixel_y - 1);
                pixels.copy_within(above..above + count * pixel_bytes, start(pixel_y));
                continue;
            }
            let line = &mut pixels[start(pixel_y)..][..count * pixel_bytes];
            for (pixel_x, pixel) in (x..).zip(line.chunks_exact_mut(pixel_bytes)) {
                for (target, value) in pixel.chunks_exact_mut(element).zip(texel(pixel_x, pixel_y))
                {
                    target.copy_from_slice(value);
                }
            }
        }
    }
}
