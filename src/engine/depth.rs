//! The depth pyramid: exact depth statistics of any box of pixels, in time proportional to the box's border.
//!
//! Depth pictures are few bytes a pixel and are measured in whole steps, so this is code for the CPU beside every backend: its
//! numbers cannot depend on one.

use std::ops::Range;

use foveate_core::camera::rays::Rays;
use foveate_core::depth::{DepthScale, DepthStamp, DepthView};
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::region::PixelBox;

pub use self::planes::DepthPlanes;

mod planes;

/// Side of the smallest cells, in pixels. Below it pixels are read one by one.
const CELL_SIDE: u32 = 8;

/// The depth that the views of a stream publish.
#[derive(Debug, Default)]
pub struct StreamDepth {
    pyramid: Option<DepthPyramid>,
    /// Identity of the picture in the pyramid; `None` if the frame has no depth picture.
    stamp: Option<DepthStamp>,
    rays: Option<Rays>,
}

impl StreamDepth {
    /// The depth of a stream whose camera has these rays; `None` if the rays are unknown.
    pub fn of(rays: Option<Rays>) -> Self {
        Self { rays, ..Self::default() }
    }

    /// Takes the picture that the next frames were paired with; `None` if they have none. Setting the same picture again costs
    /// nothing.
    pub fn set_picture(&mut self, picture: Option<&DepthPicture<'_>>) {
        let stamp = picture.map(|picture| picture.stamp);
        if let Some(DepthPicture { view, scale, .. }) = picture
            && self.stamp != stamp
        {
            match &mut self.pyramid {
                Some(pyramid) if pyramid.extent == view.extent() => pyramid.fill(view, scale),
                pyramid => *pyramid = Some(DepthPyramid::of(view, scale)),
            }
        }
        self.stamp = stamp;
    }

    /// The pyramid of the present picture; `None` if there is none.
    pub fn pyramid(&self) -> Option<&DepthPyramid> {
        self.pyramid.as_ref().filter(|_| self.stamp.is_some())
    }

    /// Identity of the depth picture; zeros before the first.
    pub fn stamp(&self) -> DepthStamp {
        self.stamp.unwrap_or_default()
    }
}

/// A depth picture with its meaning.
#[derive(Clone, Copy, Debug)]
pub struct DepthPicture<'a> {
    /// Samples of the picture.
    pub view: DepthView<'a>,
    /// Unit and range of the samples.
    pub scale: DepthScale,
    /// Identity of the picture.
    pub stamp: DepthStamp,
}

/// Statistics of the depth of some pixels, in steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measure {
    /// Sum of the known depths.
    pub sum: u64,
    /// Pixels whose depth is known.
    pub count: u32,
    /// The least known depth; the greatest number if none is known.
    pub nearest: u32,
    /// The greatest known depth; 0 if none is known.
    pub farthest: u32,
}

impl Measure {
    /// The statistics of an empty set of pixels.
    pub const NONE: Self = Self { sum: 0, count: 0, nearest: u32::MAX, farthest: 0 };

    /// Adds a pixel; 0 is unknown.
    #[inline]
    fn add_step(&mut self, step: u32) {
        self.sum += u64::from(step);
        self.count += u32::from(step != 0);
        // Unknown depth (0) wraps to the greatest number.
        self.nearest = self.nearest.min(step.wrapping_sub(1));
        self.farthest = self.farthest.max(step);
    }

    #[inline]
    fn add(&mut self, other: &Self) {
        self.sum += other.sum;
        self.count += other.count;
        self.nearest = self.nearest.min(other.nearest);
        self.farthest = self.farthest.max(other.farthest);
    }
}

/// Depth on cells of 8x8 pixels, 16x16 and so on, over one picture.
#[derive(Debug)]
pub struct DepthPyramid {
    extent: Extent,
    step_m: f64,
    /// Depth of each pixel, row by row; 0 is unknown.
    steps: Vec<u32>,
    levels: Vec<DepthLevel>,
}

/// Cells of one size, row by row. In them `nearest` is one less.
#[derive(Debug)]
struct DepthLevel {
    grid: Extent,
    cells: Vec<Measure>,
}

impl DepthPyramid {
    /// The pyramid of a picture.
    pub fn of(picture: &DepthView<'_>, scale: &DepthScale) -> Self {
        let extent = picture.extent();
        let mut grid = cells_of(extent, CELL_SIDE);
        let mut levels = Vec::new();
        loop {
            levels.push(DepthLevel { grid, cells: vec![Measure::NONE; grid.area()] });
            if grid.area() == 1 {
                break;
            }
            grid = cells_of(grid, 2);
        }
        let mut pyramid = Self { extent, step_m: 1.0, steps: vec![0; extent.area()], levels };
        pyramid.fill(picture, scale);
        pyramid
    }

    /// Fills the pyramid from another picture of the same extent.
    fn fill(&mut self, picture: &DepthView<'_>, scale: &DepthScale) {
        self.step_m = scale.step_m(picture.format());
        let width = self.extent.width as usize;
        for (y, row) in self.steps.chunks_exact_mut(width).enumerate() {
            scale.read_row(picture, y, row);
        }
        let (first, above) = self.levels.split_at_mut(1);
        let DepthLevel { grid, cells } = &mut first[0];
        let rows_of_cells = self.steps.chunks(width * CELL_SIDE as usize);
        for (cells, rows) in cells.chunks_exact_mut(grid.width as usize).zip(rows_of_cells) {
            cells.fill(Measure::NONE);
            for row in rows.chunks_exact(width) {
                for (cell, steps) in cells.iter_mut().zip(row.chunks(CELL_SIDE as usize)) {
                    steps.iter().for_each(|step| cell.add_step(*step));
                }
            }
        }
        let mut below = &first[0];
        for level in above {
            level.reduce(below);
            below = level;
        }
    }

    /// Metres of a step.
    pub fn step_m(&self) -> f64 {
        self.step_m
    }

    /// The depth pixels that `pixels` touch, of a source of `source` pixels that shows the same: where the two differ in size, the
    /// picture is stretched to the source.
    pub fn under(&self, pixels: PixelBox, source: Extent) -> PixelBox {
        let columns = scaled(pixels.x0..pixels.x1, source.width, self.extent.width);
        PixelBox::of(columns, scaled(pixels.y0..pixels.y1, source.height, self.extent.height))
    }

    /// Depth of a box of the token's pixels.
    pub fn measure(&self, pixels: PixelBox) -> Measure {
        let mut measure = Measure::NONE;
        if !pixels.is_empty() {
            let longer = (pixels.x1 - pixels.x0).max(pixels.y1 - pixels.y0);
            // Cells that are at most as long as the box: it touches few of them.
            let level = (longer / CELL_SIDE).checked_ilog2().unwrap_or(0) as usize;
            self.add_cells(level.min(self.levels.len() - 1), pixels, &mut measure);
        }
        if 0 < measure.count {
            measure.nearest += 1;
        }
        measure
    }

    /// Adds the cells of a level inside a box, and of cells across the border of the box the part inside.
    fn add_cells(&self, level: usize, pixels: PixelBox, measure: &mut Measure) {
        let DepthLevel { grid, cells } = &self.levels[level];
        let side = CELL_SIDE << level;
        for row in pixels.y0 / side..pixels.y1.div_ceil(side) {
            let (y0, y1) = (row * side, ((row + 1) * side).min(self.extent.height));
            let is_inside = pixels.y0 <= y0 && y1 <= pixels.y1;
            for column in pixels.x0 / side..pixels.x1.div_ceil(side) {
                let (x0, x1) = (column * side, ((column + 1) * side).min(self.extent.width));
                if is_inside && pixels.x0 <= x0 && x1 <= pixels.x1 {
                    measure.add(&cells[(row * grid.width + column) as usize]);
                    continue;
                }
                let part = PixelBox {
                    x0: pixels.x0.max(x0),
                    y0: pixels.y0.max(y0),
                    x1: pixels.x1.min(x1),
                    y1: pixels.y1.min(y1),
                };
                match level {
                    0 => self.add_pixels(part, measure),
                    _ => self.add_cells(level - 1, part, measure),
                }
            }
        }
    }

    fn add_pixels(&self, pixels: PixelBox, measure: &mut Measure) {
        let columns = pixels.x0 as usize..pixels.x1 as usize;
        let rows = self.steps.chunks_exact(self.extent.width as usize);
        for row in rows.take(pixels.y1 as usize).skip(pixels.y0 as usize) {
            row[columns.clone()].iter().for_each(|step| measure.add_step(*step));
        }
    }
}

impl DepthLevel {
    /// Each cell from the four below it.
    fn reduce(&mut self, below: &Self) {
        let (width, below_width) = (self.grid.width as usize, below.grid.width as usize);
        let pairs_of_rows = below.cells.chunks(2 * below_width);
        for (cells, rows) in self.cells.chunks_exact_mut(width).zip(pairs_of_rows) {
            cells.fill(Measure::NONE);
            for row in rows.chunks_exact(below_width) {
                for (cell, pair) in cells.iter_mut().zip(row.chunks(2)) {
                    pair.iter().for_each(|below| cell.add(below));
                }
            }
        }
    }
}

/// Cells of `side` that cover `extent`.
fn cells_of(extent: Extent, side: u32) -> Extent {
    Extent::new(extent.width.div_ceil(side), extent.height.div_ceil(side))
}

/// The pixels, of `to` along an axis, that the pixels `along` touch, of `from` along the same axis.
#[expect(clippy::cast_possible_truncation, reason = "at most `to`")]
fn scaled(along: Range<u32>, from: u32, to: u32) -> Range<u32> {
    if from == to {
        return along;
    }
    let at = |at: u32| u64::from(at) * u64::from(to);
    (at(along.start) / u64::from(from)) as u32..at(along.end).div_ceil(from.into()) as u32
}
