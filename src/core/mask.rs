//! Privacy masks: parts of the picture that are filled with black before anything reads them.

use std::ops::Range;

use crate::frame::{FrameKind, PixelFormat, Plane};
use crate::geometry::coarse::CoarseLevel;
use crate::geometry::pyramid::PyramidShape;
use crate::geometry::tile::TileSet;

#[cfg(feature = "serde")]
mod text;

/// Most masks of a configuration, and most that are set while a stream runs.
pub const MASKS_MAX: usize = 32;

/// Most corners of a mask.
pub const CORNERS_MAX: usize = 64;

/// A polygon of the picture.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default, deny_unknown_fields)
)]
pub struct Mask {
    /// 1 to 63 of a-z, 0-9, `_` and `-`.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "text::name"))]
    pub name: String,
    /// Corners x, y of a polygon in order, 3 to [`CORNERS_MAX`], as shares of the picture's sides from its top left: 0 to 1. If sides
    /// cross, the mask covers everything that they enclose, in either direction.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "text::corners"))]
    pub points: Vec<[f64; 2]>,
}

impl Mask {
    /// The rectangle between two corners, x, y, x, y.
    pub fn rectangle(name: &str, [left, top, right, bottom]: [f64; 4]) -> Self {
        let points = vec![[left, top], [right, top], [right, bottom], [left, bottom]];
        Self { name: name.to_owned(), points }
    }
}

/// Twice the area of the largest triangle of corners that count as on one line: far more than what rounding makes of a slanted one.
const LINE_AREA: f64 = 1e-9;

/// Checks that `points` may be the corners of a mask: 3 to [`CORNERS_MAX`] of them, all within the picture, and not all on one line.
///
/// # Errors
///
/// The mistake in the corners.
pub fn check_corners(points: &[[f64; 2]]) -> Result<(), String> {
    let count = points.len();
    if !(3..=CORNERS_MAX).contains(&count) {
        return Err(format!("invalid mask: {count} corners (expected 3 to {CORNERS_MAX})"));
    }
    let is_outside = |point: &&[f64; 2]| !point.iter().all(|share| (0.0..=1.0).contains(share));
    if let Some([x, y]) = points.iter().find(is_outside) {
        return Err(format!(
            "invalid mask: corner {x},{y} is outside the picture (expected shares of its width and height, 0 to 1)"
        ));
    }
    let [x, y] = points[0];
    let are_apart = |[ax, ay]: [f64; 2], [bx, by]: [f64; 2]| {
        LINE_AREA < ((ax - x) * (by - y) - (ay - y) * (bx - x)).abs()
    };
    let is_apart = |one: &[f64; 2]| points.iter().any(|other| are_apart(*one, *other));
    if points.iter().any(is_apart) {
        return Ok(());
    }
    Err("invalid mask: the corners lie on one line (expected an area)".to_owned())
}

/// The samples that masks fill in frames of one kind.
///
/// A pixel is filled if a mask covers a part of its area, and so are the pixels with which it shares a sample of chroma: no sample
/// keeps anything from behind a mask, and no pixel is half filled.
#[derive(Clone, Debug)]
pub struct MaskFill {
    kind: FrameKind,
    /// Filled bytes of each plane of the format, from the top.
    planes: [Vec<ByteRun>; 3],
    pixel_count: u64,
}

/// Bytes of a row of a plane.
#[derive(Clone, Copy, Debug)]
struct ByteRun {
    row: u32,
    start: u32,
    end: u32,
}

impl MaskFill {
    /// The fill of `masks` in frames of `kind`.
    pub fn new(masks: &[Mask], kind: FrameKind) -> Self {
        let (width, height) = (kind.extent.width, kind.extent.height);
        let polygons: Vec<_> = masks.iter().map(|mask| edges_of(mask, kind)).collect();
        let mut fill = Self { kind, planes: Default::default(), pixel_count: 0 };
        let (block_width, block_height) = chroma_block(kind.format);
        let (mut spans, mut crossings) = (Vec::new(), Vec::new());
        for top in (0..height).step_by(block_height as usize) {
            let rows = top..height.min(top + block_height);
            spans.clear();
            for row in rows.clone() {
                polygons.iter().for_each(|edges| cover(edges, row, &mut crossings, &mut spans));
            }
            for span in &mut spans {
                span.0 -= span.0 % block_width;
                span.1 = span.1.min(width).next_multiple_of(block_width);
            }
            for &(start, end) in &joined(&mut spans) {
                fill.pixel_count += u64::from(end.min(width) - start) * rows.len() as u64;
                fill.add(rows.clone(), start, end);
            }
        }
        fill
    }

    /// Adds the pixels `start..end` of `rows`, a row of blocks of chroma; in the last block of a row `end` may be a pixel beyond.
    fn add(&mut self, rows: Range<u32>, start: u32, end: u32) {
        let FrameKind { format, extent, .. } = self.kind;
        let within = end.min(extent.width);
        let chroma_row = rows.start / 2;
        let pixel_bytes = luma_bytes(format);
        // A pair of YUY2 pixels is whole even where only the first is in the picture.
        let end_pixel = if format == PixelFormat::Yuy2 { end } else { within };
        let (start_byte, end_byte) = (start * pixel_bytes, end_pixel * pixel_bytes);
        let runs = rows.map(|row| ByteRun { row, start: start_byte, end: end_byte });
        self.planes[0].extend(runs);
        match format {
            PixelFormat::Nv12 => self.planes[1].push(ByteRun { row: chroma_row, start, end }),
            PixelFormat::I420 => {
                let run = ByteRun { row: chroma_row, start: start / 2, end: end / 2 };
                self.planes[1].push(run);
                self.planes[2].push(run);
            }
            _ => {}
        }
    }

    /// Format, colour and extent that all frames share.
    pub fn kind(&self) -> FrameKind {
        self.kind
    }

    /// Pixels that are filled.
    pub fn pixel_count(&self) -> u64 {
        self.pixel_count
    }

    /// The texels of the [coarse level](CoarseLevel) with a pixel that is filled.
    pub fn coarse_texels(&self) -> TileSet {
        let shape = PyramidShape::new(self.kind.extent);
        let level = CoarseLevel::level_of(shape);
        let mut texels = TileSet::none_of(shape.level_extent(level));
        let pixel_bytes = luma_bytes(self.kind.format);
        for run in &self.planes[0] {
            let (first, past) = (run.start / pixel_bytes, run.end / pixel_bytes);
            let last = past.min(self.kind.extent.width) - 1;
            let columns = first >> level..=last >> level;
            columns.for_each(|column| texels.insert(column, run.row >> level));
        }
        texels
    }

    /// Fills plane `index` of a frame, whose rows begin `stride` bytes apart in `plane`.
    ///
    /// # Panics
    ///
    /// If the plane is too short for a frame of this kind.
    pub fn fill(&self, index: usize, plane: &mut [u8], stride: usize) {
        let [first, second] = self.black(index);
        for run in &self.planes[index] {
            let row = &mut plane[run.row as usize * stride..];
            let bytes = &mut row[run.start as usize..run.end as usize];
            if first == second {
                bytes.fill(first);
            } else {
                bytes.as_chunks_mut().0.fill([first, second]);
            }
        }
    }

    /// Sets the samples of a plane to 0, which is unknown depth, where each pixel has one of `sample_bytes` bytes.
    ///
    /// # Panics
    ///
    /// If the plane is too short for that, or the kind is not one of a sample a pixel.
    pub fn clear(&self, plane: &mut [u8], stride: usize, sample_bytes: usize) {
        assert_eq!(self.kind.format, PixelFormat::Gray8, "a sample for each pixel");
        for run in &self.planes[0] {
            let row = &mut plane[run.row as usize * stride..];
            row[run.start as usize * sample_bytes..run.end as usize * sample_bytes].fill(0);
        }
    }

    /// Whether all that [`fill`](Self::fill) fills in plane `index` is black.
    ///
    /// # Panics
    ///
    /// As [`fill`](Self::fill).
    pub fn is_filled(&self, index: usize, plane: Plane<'_>) -> bool {
        let [first, second] = self.black(index);
        self.planes[index].iter().all(|run| {
            let row = &plane.bytes[run.row as usize * plane.stride..];
            let (pairs, rest) = row[run.start as usize..run.end as usize].as_chunks();
            // In one pass without branches, which compiles to vector instructions.
            let other =
                pairs.iter().fold(0, |other, [one, next]| other | (one ^ first) | (next ^ second));
            rest.iter().fold(other, |other, byte| other | (byte ^ first)) == 0
        })
    }

    /// Whether all that [`clear`](Self::clear) sets is 0.
    ///
    /// # Panics
    ///
    /// As [`clear`](Self::clear).
    pub fn is_clear(&self, plane: Plane<'_>, sample_bytes: usize) -> bool {
        assert_eq!(self.kind.format, PixelFormat::Gray8, "a sample for each pixel");
        self.planes[0].iter().all(|run| {
            let row = &plane.bytes[run.row as usize * plane.stride..];
            let bytes = &row[run.start as usize * sample_bytes..run.end as usize * sample_bytes];
            bytes.iter().fold(0, |other, byte| other | byte) == 0
        })
    }

    /// Two bytes of plane `index` that repeat where it is black. The range of the samples says what black is.
    fn black(&self, index: usize) -> [u8; 2] {
        let black = u8::try_from(self.kind.color.y_offset).unwrap_or(0);
        match (self.kind.format, index) {
            (PixelFormat::Yuy2, _) => [black, 128],
            (_, 0) => [black; 2],
            _ => [128; 2],
        }
    }
}

/// Bytes of a pixel in the first plane.
fn luma_bytes(format: PixelFormat) -> u32 {
    match format {
        PixelFormat::Nv12 | PixelFormat::I420 | PixelFormat::Gray8 => 1,
        PixelFormat::Yuy2 => 2,
        PixelFormat::Rgb | PixelFormat::Bgr => 3,
        _ => 4,
    }
}

/// Width and height of the pixels that share a sample of chroma.
fn chroma_block(format: PixelFormat) -> (u32, u32) {
    match format {
        PixelFormat::Nv12 | PixelFormat::I420 => (2, 2),
        PixelFormat::Yuy2 => (2, 1),
        _ => (1, 1),
    }
}

/// `spans` in order and without overlaps.
fn joined(spans: &mut [(u32, u32)]) -> Vec<(u32, u32)> {
    spans.sort_unstable();
    let mut joined: Vec<(u32, u32)> = Vec::with_capacity(spans.len());
    for &(start, end) in &*spans {
        match joined.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => joined.push((start, end)),
        }
    }
    joined
}

/// A side of a polygon, from its upper end.
#[derive(Clone, Copy)]
struct Edge {
    top: [f64; 2],
    bottom: [f64; 2],
    /// 1 where the polygon goes down along it, -1 where it goes up.
    winding: i32,
}

/// The sides of a mask in pixels.
fn edges_of(mask: &Mask, kind: FrameKind) -> Vec<Edge> {
    let (width, height) = (f64::from(kind.extent.width), f64::from(kind.extent.height));
    let corner = |[x, y]: &[f64; 2]| [snapped(x * width), snapped(y * height)];
    let points: Vec<_> = mask.points.iter().map(corner).collect();
    let next = points.iter().cycle().skip(1);
    let edges = points.iter().zip(next).map(|(from, to)| {
        let (top, bottom, winding) = if from[1] <= to[1] { (from, to, 1) } else { (to, from, -1) };
        Edge { top: *top, bottom: *bottom, winding }
    });
    edges.collect()
}

/// Adds the columns of the pixels of `row` of which a polygon covers some area: those that an edge goes through, and those between the
/// edges. A pixel that no edge goes through is inside if its centre is.
fn cover(edges: &[Edge], row: u32, crossings: &mut Vec<(f64, i32)>, columns: &mut Vec<(u32, u32)>) {
    let (upper, lower) = (f64::from(row), f64::from(row + 1));
    let centre = f64::from(row) + 0.5;
    crossings.clear();
    for edge in edges {
        let [one, other] = [edge.top, edge.bottom].map(|[x, y]| {
            if upper <= y && y <= lower { x } else { edge.x_at(y.clamp(upper, lower)) }
        });
        if upper < edge.bottom[1] && edge.top[1] < lower {
            add_columns(columns, one.min(other), one.max(other));
        }
        if edge.top[1] <= centre && centre < edge.bottom[1] {
            crossings.push((edge.x_at(centre), edge.winding));
        }
    }
    crossings.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
    let mut winding = 0;
    for pair in crossings.windows(2) {
        winding += pair[0].1;
        if winding != 0 {
            add_columns(columns, pair[0].0, pair[1].0);
        }
    }
}

impl Edge {
    /// Column at which the edge crosses the horizontal line `y`, which is between its ends.
    fn x_at(&self, y: f64) -> f64 {
        let ([top_x, top_y], [bottom_x, bottom_y]) = (self.top, self.bottom);
        let part = (y - top_y) / (bottom_y - top_y);
        top_x + (bottom_x - top_x) * part
    }
}

/// Distance from a pixel's edge, in pixels, up to which a place counts as on it: far more than rounding moves a share of the picture, and
/// far less than a camera resolves.
const ON_EDGE: f64 = 1e-6;

/// Moves a place that rounding has moved off a pixel's edge back onto it; other places stay.
fn snapped(place: f64) -> f64 {
    if (place - place.round()).abs() < ON_EDGE { place.round() } else { place }
}

/// Adds the columns of pixels that the line from `left` to `right` goes through.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "within a picture, whose sides are at most 16384"
)]
fn add_columns(columns: &mut Vec<(u32, u32)>, left: f64, right: f64) {
    let (start, end) = (snapped(left).floor() as u32, snapped(right).ceil() as u32);
    if start < end {
        columns.push((start, end));
    }
}
