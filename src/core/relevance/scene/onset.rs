//! Detects onsets: cells that change from one frame to the next by more than is usual there and around.
//!
//! Abrupt onsets capture attention: Yantis and Jonides, "Abrupt visual onsets and selective attention", Journal of Experimental
//! Psychology: Human Perception and Performance 10 (1984). What moves comes from a cell beside, which changes before; what flickers
//! has changed before, too; and while the camera moves, everything changes by about as much from frame to frame.

use crate::geometry::extent::Extent;
use crate::geometry::region::Region;

/// Difference of a cell from one frame to the next, as a share of the range, from which on something appeared in it.
const ONSET: f32 = 0.06;

/// How many times the usual difference of a cell and of those around it that must be.
const UNUSUAL: f32 = 3.0;

/// Time constant in seconds in which a difference ceases to be usual.
const USUAL_S: f64 = 0.5;

/// The fewest frames in it: of a slow stream, nothing is known of what was between two.
const USUAL_FRAMES: f64 = 4.0;

/// How long an onset counts that is not seen, in seconds.
const HOLD_S: f64 = 1.0;

/// How many times less what appeared changes in the next frame if it is at rest: a sign does, somebody who walks does not.
const REST: f32 = 4.0;

/// Pixels around what appeared, as a share of a cell: a cell of which it covers less looks as before.
const MARGIN: f64 = 0.5;

/// The greatest share of the cells in which something appears at once; where it is more, the scene is another one.
const CUT: f64 = 0.25;

/// Onsets of the cells of a source.
#[derive(Debug)]
pub(super) struct Onsets {
    grid: Extent,
    /// Difference of each cell in the frame that is taken in.
    difference: Vec<f32>,
    /// The difference that is usual in each cell: the greatest one, which decays.
    usual: Vec<f32>,
    /// Time of the frame before.
    settled_ns: u64,
    /// Time at which something last appeared in each cell; `None` for never.
    appeared_ns: Vec<Option<u64>>,
    /// The newest of these.
    newest_ns: Option<u64>,
    /// The cells in which something appeared in the newest frame, each with its difference.
    appeared: Vec<(usize, f32)>,
    /// Box of cells around the largest thing that appeared in the frame before the newest one and is at rest since.
    at_rest: Option<Region>,
}

impl Onsets {
    pub(super) fn new(grid: Extent) -> Self {
        Self {
            grid,
            difference: vec![0.0; grid.area()],
            usual: vec![0.0; grid.area()],
            settled_ns: 0,
            appeared_ns: vec![None; grid.area()],
            newest_ns: None,
            appeared: Vec::new(),
            at_rest: None,
        }
    }

    /// Nothing is known of what was before.
    pub(super) fn restart(&mut self, now_ns: u64) {
        // At rest once that has decayed.
        self.usual.fill(ONSET);
        self.settled_ns = now_ns;
        self.difference.fill(0.0);
        self.appeared.clear();
        self.at_rest = None;
    }

    /// Masks that covered the cells `before` cover those `hidden` from now on: forgets what appeared there, and when. What a mask no
    /// longer covers has not appeared.
    pub(super) fn hide(&mut self, before: &[bool], hidden: &[bool]) {
        for (index, (was_hidden, is_hidden)) in before.iter().zip(hidden).enumerate() {
            if *is_hidden {
                (self.usual[index], self.appeared_ns[index]) = (0.0, None);
            } else if *was_hidden {
                self.usual[index] = 1.0;
            }
        }
        self.newest_ns = self.appeared_ns.iter().copied().max().flatten();
        self.appeared.clear();
        self.at_rest = None;
    }

    /// Notes how much a cell differs from the frame before.
    pub(super) fn change(&mut self, index: usize, difference: f32) {
        self.difference[index] = difference;
    }

    /// Finds what appeared by what was noted of a frame.
    pub(super) fn settle(&mut self, now_ns: u64) {
        let elapsed_s = seconds(self.settled_ns, now_ns).min(USUAL_S / USUAL_FRAMES);
        let kept = (USUAL_S / (USUAL_S + elapsed_s)) as f32;
        self.settled_ns = now_ns;
        self.usual.iter_mut().for_each(|usual| *usual *= kept);
        self.at_rest = self.came_to_rest();
        let has_appeared = |index: &usize| {
            let difference = self.difference[*index];
            ONSET <= difference && UNUSUAL * self.usual_around(*index) <= difference
        };
        let appeared = (0..self.difference.len()).filter(has_appeared);
        self.appeared = appeared.map(|index| (index, self.difference[index])).collect();
        if CUT * self.grid.area() as f64 <= self.appeared.len() as f64 {
            self.appeared.clear();
        }
        for (index, _) in &self.appeared {
            self.appeared_ns[*index] = Some(now_ns);
            self.newest_ns = Some(now_ns);
        }
        for (difference, usual) in self.difference.iter_mut().zip(&mut self.usual) {
            *usual = usual.max(std::mem::take(difference));
        }
    }

    /// When something last appeared.
    pub(super) fn newest_ns(&self) -> Option<u64> {
        self.newest_ns
    }

    /// Whether any onset may still count.
    pub(super) fn holds(&self, now_ns: u64) -> bool {
        self.newest_ns.is_some_and(|onset_ns| seconds(onset_ns, now_ns) < HOLD_S)
    }

    /// Box in pixels, with a margin, around the largest thing that appeared in the frame before the newest one and is at rest since.
    /// `None` unless the newest frame was taken in at `now_ns`.
    pub(super) fn at_rest(&self, now_ns: u64, cell_px: u32) -> Option<Region> {
        let at_rest = self.at_rest.filter(|_| self.settled_ns == now_ns);
        at_rest.map(|region| in_pixels(region, cell_px))
    }

    /// Whether something appeared in a cell and was not seen since. What was just being looked at counts, too: the plan was not made for
    /// what appeared.
    pub(super) fn is_at(&self, index: usize, seen_ns: Option<u64>, now_ns: u64) -> bool {
        self.appeared_ns[index].is_some_and(|onset_ns| {
            seconds(onset_ns, now_ns) < HOLD_S && seen_ns.is_none_or(|seen_ns| seen_ns <= onset_ns)
        })
    }

    /// Boxes in pixels around the cells where that is so, one for those that touch each other, with a margin; the largest first.
    pub(super) fn regions(
        &self,
        seen_ns: &[Option<u64>],
        now_ns: u64,
        cell_px: u32,
    ) -> Vec<Region> {
        let is_onset = |index: &usize| self.is_at(*index, seen_ns[*index], now_ns);
        let boxes = self.boxes((0..seen_ns.len()).filter(is_onset));
        boxes.into_iter().map(|region| in_pixels(region, cell_px)).collect()
    }

    /// The box of the largest thing that appeared in the newest frame and hardly differs in the one that is taken in.
    fn came_to_rest(&self) -> Option<Region> {
        let moves = |(index, before): &&(usize, f32)| *before < REST * self.difference[*index];
        let moving: Vec<Region> =
            self.appeared.iter().filter(moves).map(|(index, _)| self.cell(*index)).collect();
        let boxes = self.boxes(self.appeared.iter().map(|(index, _)| *index));
        let rests = |region: &&Region| !moving.iter().any(|cell| touch(*cell, **region));
        boxes.iter().find(rests).copied()
    }

    /// Boxes around cells, one for those that touch each other; the largest first.
    fn boxes(&self, cells: impl Iterator<Item = usize>) -> Vec<Region> {
        let mut boxes: Vec<Region> = Vec::new();
        for index in cells {
            let mut grown = self.cell(index);
            while let Some(at) = boxes.iter().position(|other| touch(*other, grown)) {
                grown = around(boxes.swap_remove(at), grown);
            }
            boxes.push(grown);
        }
        boxes.sort_by(|a, b| area(*b).total_cmp(&area(*a)));
        boxes
    }

    /// The box of a cell, in cells.
    fn cell(&self, index: usize) -> Region {
        let columns = self.grid.width as usize;
        let (x0, y0) = ((index % columns) as f64, (index / columns) as f64);
        Region { x0, y0, x1: x0 + 1.0, y1: y0 + 1.0 }
    }

    /// The greatest usual difference of a cell and of those around it.
    fn usual_around(&self, index: usize) -> f32 {
        let columns = self.grid.width as usize;
        let (column, row) = (index % columns, index / columns);
        let near = |at: usize, count: u32| at.saturating_sub(1)..(at + 2).min(count as usize);
        let rows = near(row, self.grid.height).map(|row| row * columns);
        let cells = rows.flat_map(|first| near(column, self.grid.width).map(move |at| first + at));
        cells.map(|cell| self.usual[cell]).fold(0.0, f32::max)
    }
}

/// How much a cell differs from what it was, by the channel that differs most.
pub(super) fn difference(before: [f32; 4], now: [f32; 4]) -> f32 {
    before.into_iter().zip(now).map(|(before, now)| (before - now).abs()).fold(0.0, f32::max)
}

/// A box of cells in pixels, with a margin.
fn in_pixels(Region { x0, y0, x1, y1 }: Region, cell_px: u32) -> Region {
    let side = f64::from(cell_px);
    let (x0, y0, x1, y1) = (x0 - MARGIN, y0 - MARGIN, x1 + MARGIN, y1 + MARGIN);
    Region { x0, y0, x1, y1 }.scaled((side, side))
}

/// Whether two boxes have a part, an edge or a corner in common.
fn touch(a: Region, b: Region) -> bool {
    a.x0 <= b.x1 && b.x0 <= a.x1 && a.y0 <= b.y1 && b.y0 <= a.y1
}

/// The box around two.
fn around(a: Region, b: Region) -> Region {
    Region { x0: a.x0.min(b.x0), y0: a.y0.min(b.y0), x1: a.x1.max(b.x1), y1: a.y1.max(b.y1) }
}

fn area(Region { x0, y0, x1, y1 }: Region) -> f64 {
    (x1 - x0) * (y1 - y0)
}

fn seconds(since_ns: u64, now_ns: u64) -> f64 {
    now_ns.saturating_sub(since_ns) as f64 * 1e-9
}
