//! What appears: a cell that looks otherwise from one frame to the next, where nothing moved before.
//!
//! Abrupt onsets capture attention: Yantis and Jonides, "Abrupt visual onsets and selective attention", Journal of Experimental
//! Psychology: Human Perception and Performance 10 (1984). What moves comes from a cell beside, which changes before; what flickers
//! has changed before, too; and while the camera moves, everything changes.

use crate::geometry::extent::Extent;

/// Difference of a cell from one frame to the next, as a share of the range, from which on something appeared in it.
const ONSET: f32 = 0.06;

/// The same from which on a cell is restless.
const RESTLESS: f32 = 0.02;

/// How long a cell and those around it must have been at rest before, in seconds.
const REST_S: f64 = 0.5;

/// How long an onset counts that is not sampled at full resolution, in seconds.
const HOLD_S: f64 = 1.0;

/// The same in frames: of a slow stream, nothing is known of what was between two.
const REST_FRAMES: u32 = 4;

/// The greatest share of the cells in which something appears at once; where it is more, the scene is another one.
const CUT: f64 = 0.25;

/// Onsets of the cells of a source.
#[derive(Debug)]
pub(super) struct Onsets {
    grid: Extent,
    /// Difference of each cell in the frame that is taken in.
    difference: Vec<f32>,
    /// Time at which each cell was last restless, and the number of that frame.
    restless: Vec<(u64, u32)>,
    /// The number of the frame that is taken in.
    frame: u32,
    /// Time at which something last appeared in each cell; `None` for never.
    appeared_ns: Vec<Option<u64>>,
    /// The newest of these.
    newest_ns: Option<u64>,
}

impl Onsets {
    pub(super) fn new(grid: Extent) -> Self {
        Self {
            grid,
            difference: vec![0.0; grid.area()],
            restless: vec![(0, 0); grid.area()],
            frame: 0,
            appeared_ns: vec![None; grid.area()],
            newest_ns: None,
        }
    }

    /// Nothing is known of what was before.
    pub(super) fn restart(&mut self, now_ns: u64) {
        self.restless.fill((now_ns, self.frame));
        self.difference.fill(0.0);
    }

    /// Masks cover these cells from now on: forgets what appeared there, and when.
    pub(super) fn hide(&mut self, hidden: &[bool]) {
        for index in (0..hidden.len()).filter(|index| hidden[*index]) {
            (self.restless[index], self.appeared_ns[index]) = ((0, 0), None);
        }
        self.newest_ns = self.appeared_ns.iter().copied().max().flatten();
    }

    /// Notes how much a cell differs from the frame before.
    pub(super) fn change(&mut self, index: usize, difference: f32) {
        self.difference[index] = difference;
    }

    /// Finds what appeared by what was noted of a frame.
    pub(super) fn settle(&mut self, now_ns: u64) {
        self.frame = self.frame.wrapping_add(1);
        let has_changed = |difference: &&f32| ONSET <= **difference;
        let changed = self.difference.iter().filter(has_changed).count();
        let is_cut = CUT * self.grid.area() as f64 <= changed as f64;
        for index in 0..self.difference.len() {
            let has_changed = ONSET <= self.difference[index];
            if has_changed && !is_cut && self.is_at_rest_around(index, now_ns) {
                self.appeared_ns[index] = Some(now_ns);
                self.newest_ns = Some(now_ns);
            }
        }
        for (difference, restless) in self.difference.iter_mut().zip(&mut self.restless) {
            if RESTLESS <= std::mem::take(difference) {
                *restless = (now_ns, self.frame);
            }
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

    /// Whether something appeared in a cell and was not sampled at full resolution since.
    pub(super) fn is_at(&self, index: usize, seen_ns: Option<u64>, now_ns: u64) -> bool {
        self.appeared_ns[index].is_some_and(|onset_ns| {
            seconds(onset_ns, now_ns) < HOLD_S && seen_ns.is_none_or(|seen_ns| seen_ns < onset_ns)
        })
    }

    fn is_at_rest_around(&self, index: usize, now_ns: u64) -> bool {
        let columns = self.grid.width as usize;
        let (column, row) = (index % columns, index / columns);
        let near = |at: usize, count: u32| at.saturating_sub(1)..(at + 2).min(count as usize);
        let columns_near = near(column, self.grid.width);
        near(row, self.grid.height).all(|row| {
            columns_near.clone().all(|column| {
                let (restless_ns, frame) = self.restless[row * columns + column];
                let is_still = REST_FRAMES < self.frame.wrapping_sub(frame);
                is_still && REST_S <= seconds(restless_ns, now_ns)
            })
        })
    }
}

/// How much a cell differs from what it was, by the channel that differs most.
pub(super) fn difference(before: [f32; 4], now: [f32; 4]) -> f32 {
    before.into_iter().zip(now).map(|(before, now)| (before - now).abs()).fold(0.0, f32::max)
}

fn seconds(since_ns: u64, now_ns: u64) -> f64 {
    now_ns.saturating_sub(since_ns) as f64 * 1e-9
}
