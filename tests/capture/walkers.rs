//! Who walks where before a fixed camera: the ground truth of tests on such a clip, found by background subtraction.
//!
//! The background is the median of frames from all over the clip. What differs from it is cleaned, joined to blobs and
//! followed from frame to frame; blobs of several walkers are split among them as far as they were separate before.

#![allow(dead_code, unreachable_pub, reason = "each program uses a part")]

use foveate_core::frame::FrameView;

/// Side of a cell in pixels; each has one value of each plane.
const CELL: usize = 4;

/// Every so many frames count for the background.
const BACKGROUND_STEP: usize = 8;

/// Differences of a cell from the background that make it foreground: of luma, and of both chroma planes together.
const LUMA: i32 = 22;
const CHROMA: i32 = 14;

/// Fewest cells of a walker, and fewest rows of them.
const LEAST_CELLS: usize = 24;
const LEAST_ROWS: usize = 6;

/// Frames that a walker may be out of sight, as behind a lamp.
const MISSED_MAX: usize = 5;

/// Frames after which a walker takes the size of its blob, if it is alone in it.
const NARROW_MAX: usize = 3;

/// A half-open box in pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PixelBox {
    pub x0: f64,
    pub y0: f64,
    pub x1: f64,
    pub y1: f64,
}

impl PixelBox {
    pub fn centre(self) -> (f64, f64) {
        ((self.x0 + self.x1) / 2.0, (self.y0 + self.y1) / 2.0)
    }

    /// Whether a point lies in it, or at most `margin` pixels outside.
    pub fn contains(self, (x, y): (f64, f64), margin: f64) -> bool {
        (self.x0 - margin..self.x1 + margin).contains(&x)
            && (self.y0 - margin..self.y1 + margin).contains(&y)
    }

    /// Whether both have a part in common.
    pub fn touches(self, other: Self) -> bool {
        0.0 < self.common(other)
    }

    fn size(self) -> (f64, f64) {
        (self.x1 - self.x0, self.y1 - self.y0)
    }

    fn area(self) -> f64 {
        self.size().0.max(0.0) * self.size().1.max(0.0)
    }

    fn common(self, other: Self) -> f64 {
        let (x0, y0) = (self.x0.max(other.x0), self.y0.max(other.y0));
        let (x1, y1) = (self.x1.min(other.x1), self.y1.min(other.y1));
        if x0 < x1 && y0 < y1 { (x1 - x0) * (y1 - y0) } else { 0.0 }
    }

    /// The common part of the smaller of both, 0..=1.
    fn overlap(self, other: Self) -> f64 {
        self.common(other) / self.area().min(other.area())
    }

    /// The common part of both together, 0..=1.
    fn likeness(self, other: Self) -> f64 {
        let common = self.common(other);
        common / (self.area() + other.area() - common)
    }

    /// Whether somebody who filled this box fills that one a frame later. Who comes in from an edge grows fast.
    fn may_become(self, next: Self) -> bool {
        let grows_in = |before: f64, now: f64| now < 1.35 * before.max(28.0);
        grows_in(self.size().0, next.size().0) && grows_in(self.size().1, next.size().1)
    }

    /// So far to the right and down.
    pub fn moved(self, (dx, dy): (f64, f64)) -> Self {
        Self { x0: self.x0 + dx, y0: self.y0 + dy, x1: self.x1 + dx, y1: self.y1 + dy }
    }

    fn union(self, other: Self) -> Self {
        Self {
            x0: self.x0.min(other.x0),
            y0: self.y0.min(other.y0),
            x1: self.x1.max(other.x1),
            y1: self.y1.max(other.y1),
        }
    }

    /// Moved as little as it takes to lie in `other`, as far as it fits.
    fn kept_in(self, other: Self) -> Self {
        let shift = |start: f64, end: f64, low: f64, high: f64| {
            if high - low <= end - start {
                (low + high - start - end) / 2.0
            } else {
                (low - start).max(0.0) + (high - end).min(0.0)
            }
        };
        self.moved((
            shift(self.x0, self.x1, other.x0, other.x1),
            shift(self.y0, self.y1, other.y0, other.y1),
        ))
    }
}

/// One walker, from the first frame in sight to the last.
#[derive(Clone, Debug)]
pub struct Walker {
    /// Index of the first frame.
    pub first: usize,
    /// In each frame from then on.
    pub boxes: Vec<PixelBox>,
    velocity: (f64, f64),
    missed: usize,
    /// Frames for which the blob has been larger than its walker could have become.
    narrow: usize,
}

impl Walker {
    /// Where the walker is in the frame of this index.
    pub fn at(&self, index: usize) -> Option<PixelBox> {
        self.boxes.get(index.checked_sub(self.first)?).copied()
    }

    fn predicted(&self) -> PixelBox {
        self.boxes[self.boxes.len() - 1].moved(self.velocity)
    }

    fn go_on(&mut self, to: PixelBox) {
        let (from, now) = (self.boxes[self.boxes.len() - 1].centre(), to.centre());
        let eased = |velocity: f64, step: f64| 0.7 * velocity + 0.3 * step;
        self.velocity =
            (eased(self.velocity.0, now.0 - from.0), eased(self.velocity.1, now.1 - from.1));
        self.boxes.push(to);
    }
}

/// Frames on the way to walkers: small copies of them.
#[derive(Default)]
pub struct Footage {
    columns: usize,
    rows: usize,
    /// Of each frame, luma and both chroma planes of each cell.
    frames: Vec<Vec<[u8; 3]>>,
}

impl Footage {
    /// Takes a frame in I420 whose sides are multiples of a cell.
    pub fn push(&mut self, frame: &FrameView<'_>) {
        let (width, height) = (frame.extent().width as usize, frame.extent().height as usize);
        (self.columns, self.rows) = (width / CELL, height / CELL);
        let mut cells = vec![[0; 3]; self.columns * self.rows];
        for plane in 0..3 {
            let side = if plane == 0 { CELL } else { CELL / 2 };
            let mut sums = vec![0_u32; cells.len()];
            for y in 0..self.rows * side {
                for (x, sample) in frame.row(plane, y).iter().take(self.columns * side).enumerate()
                {
                    sums[y / side * self.columns + x / side] += u32::from(*sample);
                }
            }
            let count = u32::try_from(side * side).unwrap();
            for (cell, sum) in cells.iter_mut().zip(sums) {
                cell[plane] = u8::try_from(sum / count).unwrap();
            }
        }
        self.frames.push(cells);
    }

    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Everybody who is in sight for at least `least_frames` frames.
    pub fn walkers(&self, least_frames: usize) -> Vec<Walker> {
        let background = self.background();
        let (mut gone, mut there) = (Vec::new(), Vec::new());
        for (index, frame) in self.frames.iter().enumerate() {
            follow(&mut there, &self.blobs(frame, &background), index);
            gone.extend(there.extract_if(.., |walker: &mut Walker| MISSED_MAX < walker.missed));
        }
        gone.extend(there);
        for walker in &mut gone {
            walker.boxes.truncate(walker.boxes.len() - walker.missed);
        }
        gone.retain(|walker| least_frames <= walker.boxes.len());
        gone.sort_by_key(|walker| walker.first);
        gone
    }

    fn background(&self) -> Vec<[u8; 3]> {
        let median = |cell: usize, plane: usize| {
            let mut values: Vec<u8> = self
                .frames
                .iter()
                .step_by(BACKGROUND_STEP)
                .map(|frame| frame[cell][plane])
                .collect();
            let middle = values.len() / 2;
            *values.select_nth_unstable(middle).1
        };
        (0..self.columns * self.rows)
            .map(|cell| [0, 1, 2].map(|plane| median(cell, plane)))
            .collect()
    }

    fn blobs(&self, frame: &[[u8; 3]], background: &[[u8; 3]]) -> Vec<PixelBox> {
        let differs = |(cell, ground): (&[u8; 3], &[u8; 3])| {
            let [luma, u, v] =
                [0, 1, 2].map(|plane| i32::from(cell[plane].abs_diff(ground[plane])));
            LUMA < luma || CHROMA < u + v
        };
        let mask: Vec<bool> = frame.iter().zip(background).map(differs).collect();
        // What a dark coat and a grey path have in common leaves gaps, most of all between head, body and legs.
        let closed = self.eroded(&self.dilated(&mask));
        let mut is_seen = vec![false; closed.len()];
        let starts = (0..closed.len()).filter(|start| closed[*start]);
        let grown = starts.filter_map(|start| self.blob(start, &closed, &mut is_seen));
        grown.collect()
    }

    /// The box of the connected cells around `start`, if they were not seen before and are enough.
    fn blob(&self, start: usize, mask: &[bool], is_seen: &mut [bool]) -> Option<PixelBox> {
        if std::mem::replace(&mut is_seen[start], true) {
            return None;
        }
        let mut cells = vec![start];
        let mut next = 0;
        while let Some(&cell) = cells.get(next) {
            next += 1;
            for near in self.around(cell, 1, 1) {
                if mask[near] && !std::mem::replace(&mut is_seen[near], true) {
                    cells.push(near);
                }
            }
        }
        let columns = cells.iter().map(|cell| cell % self.columns);
        let rows = cells.iter().map(|cell| cell / self.columns);
        let pixel = |cell: usize| (cell * CELL) as f64;
        let found = PixelBox {
            x0: pixel(columns.clone().min()?),
            y0: pixel(rows.clone().min()?),
            x1: pixel(columns.max()? + 1),
            y1: pixel(rows.max()? + 1),
        };
        let is_high = pixel(LEAST_ROWS) <= found.size().1;
        (LEAST_CELLS <= cells.len() && is_high).then_some(found)
    }

    fn dilated(&self, mask: &[bool]) -> Vec<bool> {
        let across: Vec<bool> =
            (0..mask.len()).map(|cell| self.around(cell, 1, 0).any(|near| mask[near])).collect();
        (0..mask.len()).map(|cell| self.around(cell, 0, 2).any(|near| across[near])).collect()
    }

    fn eroded(&self, mask: &[bool]) -> Vec<bool> {
        let across: Vec<bool> =
            (0..mask.len()).map(|cell| self.around(cell, 1, 0).all(|near| mask[near])).collect();
        (0..mask.len()).map(|cell| self.around(cell, 0, 2).all(|near| across[near])).collect()
    }

    /// The cells at most so many columns and rows away, as far as there are any.
    fn around(&self, cell: usize, dx: usize, dy: usize) -> impl Iterator<Item = usize> + use<> {
        let (column, row) = (cell % self.columns, cell / self.columns);
        let (columns, rows) = (self.columns, self.rows);
        let near = move |place: usize, most: usize, count: usize| {
            place.saturating_sub(most)..(place + most + 1).min(count)
        };
        near(row, dy, rows).flat_map(move |row| {
            near(column, dx, columns).map(move |column| row * columns + column)
        })
    }
}

/// Advances to the next frame: finds the known walkers in its blobs, and new ones.
fn follow(walkers: &mut Vec<Walker>, blobs: &[PixelBox], index: usize) {
    let predicted: Vec<PixelBox> = walkers.iter().map(Walker::predicted).collect();
    let found = matched(&predicted, blobs);
    for (at, walker) in walkers.iter_mut().enumerate() {
        let (expected, size) = (predicted[at], walker.boxes[walker.boxes.len() - 1]);
        let Some(blob) = found[at] else {
            walker.missed += 1;
            walker.boxes.push(expected);
            continue;
        };
        walker.missed = 0;
        let parts = (0..blobs.len()).filter(|part| !found.contains(&Some(*part)));
        let parts = parts.map(|part| blobs[part]).filter(|part| belongs(*part, expected));
        let whole = parts.fold(blobs[blob], PixelBox::union);
        let is_shared = found.iter().filter(|other| **other == Some(blob)).count() > 1;
        let grown = [whole, blobs[blob]].into_iter().find(|place| size.may_become(*place));
        walker.narrow = if is_shared || grown.is_some() { 0 } else { walker.narrow + 1 };
        walker.go_on(match grown {
            Some(place) if !is_shared => place,
            // Somebody who was taken for smaller than all of him.
            None if NARROW_MAX < walker.narrow => blobs[blob],
            _ => expected.kept_in(blobs[blob]),
        });
    }
    for (blob, place) in blobs.iter().enumerate() {
        let is_known =
            found.contains(&Some(blob)) || predicted.iter().any(|other| belongs(*place, *other));
        if !is_known {
            let (boxes, velocity) = (vec![*place], (0.0, 0.0));
            walkers.push(Walker { first: index, boxes, velocity, missed: 0, narrow: 0 });
        }
    }
}

/// In which blob each walker is found. Several share one only if it has room for more than the one that it fits best;
/// otherwise they are hidden.
fn matched(predicted: &[PixelBox], blobs: &[PixelBox]) -> Vec<Option<usize>> {
    let mut found = vec![None; predicted.len()];
    let mut pairs: Vec<(usize, usize)> = (0..predicted.len())
        .flat_map(|walker| (0..blobs.len()).map(move |blob| (walker, blob)))
        .filter(|&(walker, blob)| 0.3 < predicted[walker].overlap(blobs[blob]))
        .collect();
    let likeness = |&(walker, blob): &(usize, usize)| predicted[walker].likeness(blobs[blob]);
    pairs.sort_by(|a, b| likeness(b).total_cmp(&likeness(a)));
    let mut room: Vec<f64> = blobs.iter().map(|blob| blob.area()).collect();
    let mut is_taken = vec![false; blobs.len()];
    for (walker, blob) in pairs {
        let has_room = !is_taken[blob] || 0.4 * predicted[walker].area() < room[blob];
        if found[walker].is_none() && has_room {
            found[walker] = Some(blob);
            is_taken[blob] = true;
            room[blob] -= predicted[walker].area();
        }
    }
    found
}

/// Whether a blob is a part of a walker: most of it is where a walker is expected.
fn belongs(fragment: PixelBox, predicted: PixelBox) -> bool {
    0.6 * fragment.area() < fragment.common(predicted)
}
