//! Weights on a grid of cells: peak, value at a point, and pooling to a coarser grid.

use std::ops::Range;

use super::extent::Extent;
use super::region::Region;

/// The greatest share of an image that counts as one place.
pub const PLACE_MAX: f64 = 0.25;

/// Weights of the cells of a grid over a box of source pixels. Cells that do not touch the image are ignored.
#[derive(Clone, Copy, Debug)]
pub struct Weights<'a> {
    /// Columns and rows.
    pub grid: Extent,
    /// The box that the grid covers, in source pixels.
    pub region: Region,
    /// Row by row; finite and not negative.
    pub cells: &'a [f32],
}

/// The peak of a map.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Peak {
    /// Pixels right of the source's left edge.
    pub x: f64,
    /// Pixels below the source's top edge.
    pub y: f64,
    /// Weight of the greatest cell.
    pub weight: f32,
}

/// The cells that touch the image.
#[derive(Clone, Debug)]
pub(super) struct CellWindow {
    pub(super) columns: Range<usize>,
    pub(super) rows: Range<usize>,
}

impl CellWindow {
    /// Row-major indices of the window's cells in a grid of `width` columns.
    pub(super) fn indices(&self, width: usize) -> impl Iterator<Item = usize> {
        let Self { columns, rows } = self.clone();
        rows.flat_map(move |row| columns.clone().map(move |column| row * width + column))
    }
}

impl Weights<'_> {
    /// The place of the greatest weight (the first of several), located within its cell, always inside the image. `None` if no cell with a
    /// weight touches the image.
    ///
    /// A bump wider than a cell is located to within half a cell; among connected cells that share the greatest weight, their
    /// centroid is taken.
    pub fn peak(&self, image: Extent) -> Option<Peak> {
        let window = self.window(image)?;
        let width = self.grid.width as usize;
        let mut best = window.indices(width).next()?;
        for row in window.rows.clone() {
            let first = row * width + window.columns.start;
            for (at, cell) in (first..).zip(&self.cells[first..][..window.columns.len()]) {
                if self.cells[best] < *cell {
                    best = at;
                }
            }
        }
        let weight = self.cells[best];
        if weight <= 0.0 {
            return None;
        }
        let (column, row) = (best % width, best / width);
        let level = self.plateau(&window, column, row);
        let (x, y) = level.unwrap_or_else(|| self.refined(&window, column, row));
        let (x, y) = self.pixel_from_cell(x, y);
        let (right, bottom) = (f64::from(image.width), f64::from(image.height));
        Some(Peak { x: x.clamp(0.0, right), y: y.clamp(0.0, bottom), weight })
    }

    /// The box in pixels of an image around the cells with at least half of the greatest weight, if these are connected and the box is no
    /// more than [`PLACE_MAX`] of the image: what the map asks for, where it asks for one place.
    pub fn only_place(&self, image: Extent) -> Option<Region> {
        let window = self.window(image)?;
        let columns = self.grid.width as usize;
        let greatest = window.indices(columns).map(|at| self.cells[at]).fold(0.0, f32::max);
        let is_high = |at: usize| 0.0 < greatest && 0.5 * greatest <= self.cells[at];
        let high: Vec<usize> = window.indices(columns).filter(|at| is_high(*at)).collect();
        let first = high.first()?;
        let place = self.connected(&window, (first % columns, first / columns), is_high);
        if place.len() < high.len() {
            return None;
        }
        let span = |along: fn(&(usize, usize)) -> usize| {
            let (first, last) = (place.iter().map(along).min(), place.iter().map(along).max());
            (first.unwrap_or(0) as f64, last.unwrap_or(0) as f64 + 1.0)
        };
        let (left, right) = span(|(column, _)| *column);
        let (top, bottom) = span(|(_, row)| *row);
        let ((x0, y0), (x1, y1)) =
            (self.pixel_from_cell(left, top), self.pixel_from_cell(right, bottom));
        let region = Region { x0, y0, x1, y1 }.within(image);
        let area = (region.x1 - region.x0) * (region.y1 - region.y0);
        let is_place = area <= PLACE_MAX * f64::from(image.width) * f64::from(image.height);
        (is_place && region.has_area()).then_some(region)
    }

    /// Weight of the cell that contains the point (`x`, `y`) in pixels; 0 outside the region.
    pub fn at(&self, x: f64, y: f64) -> f32 {
        let Region { x0, y0, x1, y1 } = self.region;
        if !(x0..=x1).contains(&x) || !(y0..=y1).contains(&y) {
            return 0.0;
        }
        let index = |point: f64, from: f64, to: f64, count: u32| {
            bounded(cell_at(point, from, to, count), count - 1)
        };
        self.cell(index(x, x0, x1, self.grid.width), index(y, y0, y1, self.grid.height))
    }

    /// Weight at a point in pixels, between the middles of cells; 0 outside the region.
    #[expect(clippy::cast_possible_truncation, reason = "a weight needs no more digits")]
    pub fn between(&self, (x, y): (f64, f64)) -> f32 {
        let Region { x0, y0, x1, y1 } = self.region;
        if !(x0..=x1).contains(&x) || !(y0..=y1).contains(&y) {
            return 0.0;
        }
        let along = |point: f64, from: f64, to: f64, count: u32| {
            let cell = (cell_at(point, from, to, count) - 0.5).clamp(0.0, f64::from(count - 1));
            let first = bounded(cell, count - 1);
            (first, bounded(cell + 1.0, count - 1), (cell - first as f64) as f32)
        };
        let (left, right, across) = along(x, x0, x1, self.grid.width);
        let (top, bottom, down) = along(y, y0, y1, self.grid.height);
        let mix = |row: usize| {
            let (left, right) = (self.cell(left, row), self.cell(right, row));
            left + across * (right - left)
        };
        let (above, below) = (mix(top), mix(bottom));
        above + down * (below - above)
    }

    /// Greatest weight under each cell of a grid of `target` cells over the whole image, row by row; 0 where nothing lies.
    pub fn pooled(&self, image: Extent, target: Extent) -> Vec<f32> {
        let Region { x0, y0, x1, y1 } = self.region;
        let spans = |side: u32, count: u32, from: f64, to: f64, cells: u32| -> Vec<Range<usize>> {
            let edge = |index: u32| f64::from(index) * f64::from(side) / f64::from(count);
            let span = |index| touched(edge(index), edge(index + 1), from, to, cells);
            (0..count).map(span).collect()
        };
        let columns = spans(image.width, target.width, x0, x1, self.grid.width);
        let rows = spans(image.height, target.height, y0, y1, self.grid.height);
        let greatest = |rows: &Range<usize>, columns: &Range<usize>| {
            let window = CellWindow { columns: columns.clone(), rows: rows.clone() };
            let under = window.indices(self.grid.width as usize).map(|at| self.cells[at]);
            under.fold(0.0, f32::max)
        };
        rows.iter().flat_map(|rows| columns.iter().map(|columns| greatest(rows, columns))).collect()
    }

    pub(super) fn window(&self, image: Extent) -> Option<CellWindow> {
        let Region { x0, y0, x1, y1 } = self.region;
        let columns = touched(0.0, f64::from(image.width), x0, x1, self.grid.width);
        let rows = touched(0.0, f64::from(image.height), y0, y1, self.grid.height);
        (!columns.is_empty() && !rows.is_empty()).then_some(CellWindow { columns, rows })
    }

    /// Centroid, in cells, of the connected cells with the same weight as this one; `None` if it stands alone. Where that falls
    /// outside them, as in a ring, the cell nearest to it.
    fn plateau(&self, window: &CellWindow, column: usize, row: usize) -> Option<(f64, f64)> {
        let weight = self.cell(column, row);
        let is_same = |(column, row): (usize, usize)| self.cell(column, row) == weight;
        if !neighbours(window, column, row).any(is_same) {
            return None;
        }
        let found = self.connected(window, (column, row), |at| self.cells[at] == weight);
        let centre = |(column, row): (usize, usize)| (column as f64 + 0.5, row as f64 + 0.5);
        let count = found.len() as f64;
        let sum =
            found.iter().map(|cell| centre(*cell)).fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1));
        let middle = (sum.0 / count, sum.1 / count);
        let off = |cell: &(usize, usize)| {
            let (x, y) = centre(*cell);
            (x - middle.0).abs().max((y - middle.1).abs())
        };
        let nearest = found.iter().copied().min_by(|a, b| off(a).total_cmp(&off(b)))?;
        Some(if off(&nearest) <= 0.5 { middle } else { centre(nearest) })
    }

    /// The cells that are connected with `first` by 4-neighbours for which `belongs`, which has their indices, itself before all.
    fn connected(
        &self,
        window: &CellWindow,
        first: (usize, usize),
        belongs: impl Fn(usize) -> bool,
    ) -> Vec<(usize, usize)> {
        let index = |(column, row): (usize, usize)| row * self.grid.width as usize + column;
        let mut is_found = vec![false; self.cells.len()];
        is_found[index(first)] = true;
        let mut found = vec![first];
        let mut next = 0;
        while let Some(&(column, row)) = found.get(next) {
            next += 1;
            for cell in neighbours(window, column, row) {
                let is_new = !std::mem::replace(&mut is_found[index(cell)], true);
                if is_new && belongs(index(cell)) {
                    found.push(cell);
                }
            }
        }
        found
    }

    /// The peak in cells, by a parabola through the cell and its neighbours along each axis.
    fn refined(&self, window: &CellWindow, column: usize, row: usize) -> (f64, f64) {
        let here = self.cell(column, row);
        let interior = |at: usize, range: &Range<usize>| range.start < at && at + 1 < range.end;
        let dx = if interior(column, &window.columns) {
            summit(self.cell(column - 1, row), here, self.cell(column + 1, row))
        } else {
            0.0
        };
        let dy = if interior(row, &window.rows) {
            summit(self.cell(column, row - 1), here, self.cell(column, row + 1))
        } else {
            0.0
        };
        (column as f64 + 0.5 + dx, row as f64 + 0.5 + dy)
    }

    fn cell(&self, column: usize, row: usize) -> f32 {
        self.cells[row * self.grid.width as usize + column]
    }

    fn pixel_from_cell(&self, x: f64, y: f64) -> (f64, f64) {
        let Region { x0, y0, x1, y1 } = self.region;
        let place = |cell: f64, from: f64, to: f64, count: u32| {
            let share = cell / f64::from(count);
            from * (1.0 - share) + to * share
        };
        (place(x, x0, x1, self.grid.width), place(y, y0, y1, self.grid.height))
    }
}

/// Offset of the peak of a bump through three neighbours, the middle one the greatest, in -0.5..=0.5 cells.
///
/// Fits their logarithms where all are above 0, which is exact for a Gaussian.
fn summit(before: f32, here: f32, after: f32) -> f64 {
    let [before, here, after] = [before, here, after].map(f64::from);
    let [before, here, after] = if 0.0 < before.min(after) {
        [before.ln(), here.ln(), after.ln()]
    } else {
        [before, here, after]
    };
    let bend = 2.0 * here - before - after;
    if 0.0 < bend { (0.5 * (after - before) / bend).clamp(-0.5, 0.5) } else { 0.0 }
}

/// The 4-neighbours of a cell within the window.
fn neighbours(
    window: &CellWindow,
    column: usize,
    row: usize,
) -> impl Iterator<Item = (usize, usize)> {
    let CellWindow { columns, rows } = window.clone();
    [
        (column.wrapping_sub(1), row),
        (column + 1, row),
        (column, row.wrapping_sub(1)),
        (column, row + 1),
    ]
    .into_iter()
    .filter(move |(column, row)| columns.contains(column) && rows.contains(row))
}

/// The cells, of `count` between `from` and `to`, that `[start, end)` touches.
fn touched(start: f64, end: f64, from: f64, to: f64, count: u32) -> Range<usize> {
    if end <= from || to <= start {
        return 0..0;
    }
    let past = bounded(cell_at(end, from, to, count).ceil(), count);
    bounded(cell_at(start, from, to, count).floor(), count).min(past)..past
}

/// Position of a point among `count` cells between `from` and `to`, in cells.
fn cell_at(point: f64, from: f64, to: f64, count: u32) -> f64 {
    (point - from) / (to - from) * f64::from(count)
}

/// `cells` as an index in 0..=`count`.
#[expect(clippy::cast_possible_truncation, reason = "clamped")]
fn bounded(cells: f64, count: u32) -> usize {
    cells.clamp(0.0, f64::from(count)) as usize
}
