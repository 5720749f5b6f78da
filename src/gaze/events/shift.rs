//! Detects moved cameras: most blocks of the picture lie elsewhere than in a picture of the last seconds.
//!
//! Blocks of the coarse level are looked for around their place (Jain and Jain, Displacement measurement and its application in
//! interframe image coding, IEEE Transactions on Communications 29, 1981). What moves before the camera moves few blocks, and
//! blocks without structure have no vote.

use super::picture::PictureStats;
use super::state::Hysteresis;
use foveate_core::event::{Event, EventKind};
use foveate_core::frame::FrameTime;
use foveate_core::geometry::extent::Extent;

/// Side of a block in texels.
const BLOCK: usize = 16;

/// Texels of a block.
const BLOCK_TEXELS: u32 = 256;
const _: () = assert!(BLOCK * BLOCK == BLOCK_TEXELS as usize);

/// Furthest shift that is looked for, in texels: first every second one, then those beside the best.
const FURTHEST: i32 = 8;

/// Least mean difference in luma between a block's neighbouring texels for a vote.
const TEXTURE_MIN: u32 = 2;

/// Mean difference from the block at the same place that is noise.
const NOISE: u32 = 2;

/// A block has moved if what it matches elsewhere differs at most by this share of what is at its place.
const BETTER: f64 = 0.6;

/// Fewest blocks with a vote, and the share of them that must have moved.
const VOTES_MIN: u32 = 4;
const MOVED: f64 = 0.6;

/// Quarters of the picture with at least two votes; half of each must have moved, so that one large object does not look like a moving camera.
const QUARTERS_MIN: usize = 3;
const QUARTER_VOTES_MIN: u32 = 2;

/// How long pictures are compared with the same key picture, and the shift in texels from which on another one is taken sooner.
const KEY_NS: u64 = 2_000_000_000;
const KEY_AWAY: i32 = 4;

/// Milliseconds that a beginning and an end must hold. Two frames begin a shift. It ends once nothing has moved for longer than
/// [`KEY_NS`], because a slow camera needs all of that time to move by a texel.
const LEAST_MS: [u32; 2] = [1, 2500];

#[derive(Clone, Debug)]
pub(super) struct Shift {
    state: Hysteresis,
    /// The picture that others are compared with, and when it was taken.
    pub(super) key: Vec<u8>,
    key_at: Option<FrameTime>,
    /// The blocks of the key with enough structure for a vote.
    voters: Vec<MatchedBlock>,
    /// Source pixels that the picture has moved by since it began to move, up to the key.
    travelled: f64,
    /// Whether the picture of the frame before was far away from the key.
    was_away: bool,
    /// Whether the newest frame lies elsewhere than the key.
    has_shifted: bool,
    /// Shifts of the blocks with a vote.
    shifts: Vec<(i32, i32)>,
}

impl Shift {
    pub(super) fn new(grid: Extent) -> Self {
        let blocks = (grid.width as usize / BLOCK) * (grid.height as usize / BLOCK);
        Self {
            state: Hysteresis::new(EventKind::CameraMoved, LEAST_MS),
            key: vec![0; grid.area()],
            key_at: None,
            voters: Vec::with_capacity(blocks),
            travelled: 0.0,
            was_away: false,
            has_shifted: false,
            shifts: Vec::with_capacity(blocks),
        }
    }

    pub(super) fn state(&self) -> &Hysteresis {
        &self.state
    }

    /// Whether the camera moves.
    pub(super) fn is_moving(&self) -> bool {
        self.state.is_on()
    }

    /// Whether the newest frame lies elsewhere than the key.
    pub(super) fn has_shifted(&self) -> bool {
        self.has_shifted
    }

    /// `texel_px` is the side of a texel in source pixels.
    pub(super) fn detect(
        &mut self,
        now: FrameTime,
        picture: &PictureStats,
        texel_px: f64,
    ) -> Option<Event> {
        let Some(key_at) = self.key_at else {
            self.set_key(now, picture);
            return None;
        };
        let Self { key, voters, shifts, .. } = self;
        shifts.clear();
        shifts.extend(voters.iter().map(|block| block.shift(&picture.luma, key)));
        let (dx, dy) = self.median();
        let has_moved = self.has_moved((dx, dy));
        let distance = f64::from(dx * dx + dy * dy).sqrt() * texel_px;
        let distance = if has_moved { distance } else { 0.0 };
        let had_shifted = std::mem::replace(&mut self.has_shifted, has_moved);
        if has_moved && !self.state.is_on() {
            self.travelled = 0.0;
        }
        let event = self.state.update(now, Some(has_moved), self.travelled + distance);
        let is_away = has_moved && KEY_AWAY <= dx.abs().max(dy.abs());
        let was_away = std::mem::replace(&mut self.was_away, is_away);
        // The second frame after a blow needs the key of the first.
        let is_old = KEY_NS <= now.time_ns - key_at.time_ns && (had_shifted || !has_moved);
        if is_old || is_away && was_away {
            self.travelled += distance;
            self.set_key(now, picture);
        }
        event
    }

    fn set_key(&mut self, now: FrameTime, picture: &PictureStats) {
        self.key.copy_from_slice(&picture.luma);
        (self.key_at, self.was_away) = (Some(now), false);
        self.voters.clear();
        let (width, height) = (picture.width(), picture.grid.height as usize);
        for top in starts(height) {
            let blocks = starts(width).map(|left| MatchedBlock { width, height, left, top });
            self.voters.extend(blocks.filter(|block| TEXTURE_MIN <= block.texture(&self.key)));
        }
    }

    /// Whether most blocks have moved, all over the picture. Those that came from outside, by the `median`, have no vote.
    fn has_moved(&self, median: (i32, i32)) -> bool {
        // Counts of all votes, and of votes of blocks that have moved.
        let mut quarters = [(0_u32, 0_u32); 4];
        for (block, shift) in self.voters.iter().zip(&self.shifts) {
            if block.is_inside(median) {
                let (votes, moved) = &mut quarters[block.quarter()];
                *votes += 1;
                *moved += u32::from(*shift != (0, 0));
            }
        }
        let sum = |all: (u32, u32), quarter: &(u32, u32)| (all.0 + quarter.0, all.1 + quarter.1);
        let (all, moved) = quarters.iter().fold((0, 0), sum);
        let heard = || quarters.iter().filter(|(votes, _)| QUARTER_VOTES_MIN <= *votes);
        VOTES_MIN <= all
            && MOVED * f64::from(all) <= f64::from(moved)
            && QUARTERS_MIN <= heard().count()
            && heard().all(|(votes, moved)| *votes <= 2 * moved)
    }

    /// The median of the shifts of the blocks that have moved, along each axis.
    fn median(&self) -> (i32, i32) {
        let moved = || self.shifts.iter().filter(|shift| **shift != (0, 0));
        let count = moved().count();
        let middle = |axis: fn(&(i32, i32)) -> i32| {
            // Few values: the first with half of the blocks at or below it.
            let below = |most: i32| moved().filter(|shift| axis(shift) <= most).count();
            (-FURTHEST - 1..=FURTHEST + 1).find(|most| count < 2 * below(*most)).unwrap_or(0)
        };
        (middle(|shift| shift.0), middle(|shift| shift.1))
    }
}

/// Starts of the blocks along a side, which leave as much at either end.
fn starts(side: usize) -> impl Iterator<Item = usize> {
    let count = side / BLOCK;
    let first = (side - count * BLOCK) / 2;
    (0..count).map(move |index| first + index * BLOCK)
}

/// A block of a picture of some columns and rows.
#[derive(Clone, Copy, Debug)]
struct MatchedBlock {
    width: usize,
    height: usize,
    left: usize,
    top: usize,
}

impl MatchedBlock {
    /// Whether the block is inside the picture when shifted.
    fn is_inside(self, (dx, dy): (i32, i32)) -> bool {
        let left = self.left.checked_add_signed(dx as isize);
        let top = self.top.checked_add_signed(dy as isize);
        left.is_some_and(|left| left + BLOCK <= self.width)
            && top.is_some_and(|top| top + BLOCK <= self.height)
    }

    /// The quarter of the picture that its centre is in, 0 to 3.
    fn quarter(self) -> usize {
        let right = self.width <= 2 * self.left + BLOCK;
        let low = self.height <= 2 * self.top + BLOCK;
        usize::from(right) + 2 * usize::from(low)
    }

    /// Mean difference of a texel from its neighbours to the right and below.
    fn texture(self, luma: &[u8]) -> u32 {
        let mut sum = 0;
        for row in self.top..self.top + BLOCK - 1 {
            let here = &luma[row * self.width + self.left..][..BLOCK];
            let below = &luma[(row + 1) * self.width + self.left..][..BLOCK];
            for column in 0..BLOCK - 1 {
                sum += u32::from(here[column].abs_diff(here[column + 1]));
                sum += u32::from(here[column].abs_diff(below[column]));
            }
        }
        sum / BLOCK_TEXELS / 2
    }

    /// Where the block came from, if that place of the key picture matches much better than the block's own.
    fn shift(self, luma: &[u8], key: &[u8]) -> (i32, i32) {
        let Some(stays) = self.difference(luma, key, (0, 0), u32::MAX) else { return (0, 0) };
        if stays <= NOISE * BLOCK_TEXELS {
            return (0, 0);
        }
        let mut best = (stays, (0, 0));
        let mut consider = |shift| {
            if let Some(differs) = self.difference(luma, key, shift, best.0) {
                best = (differs, shift);
            }
        };
        let coarse = || (-FURTHEST..=FURTHEST).step_by(2);
        coarse().for_each(|dy| coarse().for_each(|dx| consider((dx, dy))));
        let (x, y) = best.1;
        let mut consider = |shift| {
            if let Some(differs) = self.difference(luma, key, shift, best.0) {
                best = (differs, shift);
            }
        };
        (-1..=1).for_each(|dy| (-1..=1).for_each(|dx| consider((x + dx, y + dy))));
        if f64::from(best.0) <= BETTER * f64::from(stays) { best.1 } else { (0, 0) }
    }

    /// Sum of the differences from the key, shifted; `None` if it is not below `limit`, or outside.
    fn difference(self, luma: &[u8], key: &[u8], (dx, dy): (i32, i32), limit: u32) -> Option<u32> {
        let left = self.left.checked_add_signed(dx as isize)?;
        let top = self.top.checked_add_signed(dy as isize)?;
        if self.width < left + BLOCK || self.height < top + BLOCK {
            return None;
        }
        let here = &luma[self.top * self.width + self.left..];
        let there = &key[top * self.width + left..];
        let mut sum = 0;
        for (here, there) in here.chunks(self.width).zip(there.chunks(self.width)).take(BLOCK) {
            // Arrays, so that a row is one instruction.
            let (here, there) = (here.first_chunk::<BLOCK>()?, there.first_chunk::<BLOCK>()?);
            sum += here.iter().zip(there).map(|(a, b)| u32::from(a.abs_diff(*b))).sum::<u32>();
            if limit <= sum {
                return None;
            }
        }
        Some(sum)
    }
}
