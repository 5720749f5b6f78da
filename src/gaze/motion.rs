//! Motion between two pictures of a stream: block by block, and of the whole picture.
//!
//! Computed on the coarse level, whose texels are 8 to 32 pixels wide, to a fraction of a texel, in a fixed order of operations; so it
//! is the same on every backend. It costs in proportion to the blocks that changed.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "a coarse level has at most 128 texels a side"
)]

use std::mem::swap;

use arrayvec::ArrayVec;

use self::brightness::{BLOCK, Brightness};
pub use self::global::Unknown;
use self::global::{Distances, Fit, Vote, fit, shift_of};
use self::matching::{Match, NOISE, matched, picture_shift, unmoved};
use foveate_core::frame::{FrameTime, KEPT_NS, NEWEST_KEPT, PictureMotion};
use foveate_core::geometry::affine::Affine;
use foveate_core::geometry::coarse::{COARSE_SIDE_MAX, CoarseLevel};
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::pyramid::PyramidShape;
use foveate_core::geometry::tile::TileSet;

mod brightness;
mod global;
mod matching;

/// The picture stands still if no corner of it moves by so many texels.
const STILL: f64 = 1.0 / 64.0;

/// The shift of the picture is looked for if this share of the blocks has changed.
const CHANGED_MIN: f32 = 0.125;

/// A block counts as moving if it moves against the background by this many texels.
const OWN_MIN: f64 = 0.2;

/// A place counts as moving if this share of the known blocks around it moves.
const OWN_SHARE: f64 = 0.25;

/// Blocks with a common motion differ by less than this, in texels.
const ALIKE: f64 = 1.0;

/// Most blocks from which that mean begins; of more, evenly many. Otherwise the time would grow with their square.
const MODES_MAX: usize = 64;

/// Motions kept besides the newest, each of several frames where those come fast: together of [`KEPT_NS`] or more.
const OLDER_KEPT: usize = 64;

/// Such a motion takes on no further frame once it is as long as this.
const OLDER_NS: u64 = KEPT_NS / OLDER_KEPT as u64;

/// Iterations of the mean of blocks with a common motion.
const MODE_ROUNDS: usize = 3;

/// Most blocks of a coarse level.
const BLOCKS_MAX: usize = (COARSE_SIDE_MAX as usize / BLOCK) * (COARSE_SIDE_MAX as usize / BLOCK);

/// Blocks that are matched together, and from how many on it is worth sharing them among threads.
const PART: usize = 8;
const WORTH_SHARING: usize = 8 * PART;

/// Most parts.
const PARTS_MAX: usize = BLOCKS_MAX / PART;

/// A block to be matched, and where it came from.
#[derive(Clone, Copy, Debug)]
pub struct ChangedBlock {
    index: usize,
    found: Match,
}

/// Calls a function once for each part of the changed blocks, on any threads, and returns when all calls have.
pub type Share<'s> = &'s dyn for<'b> Fn(
    &mut [&'b mut [ChangedBlock]],
    &(dyn Fn(&mut &'b mut [ChangedBlock]) + Sync),
);

/// Motion of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BlockMotion {
    /// Motion to the right since the picture before, in source pixels.
    pub dx: f32,
    /// Motion downwards since the picture before, in source pixels.
    pub dy: f32,
    /// How well the motion is known: 0 (not at all, as without texture) to 1.
    pub confidence: f32,
}

/// Motion between two pictures.
#[derive(Clone, Debug)]
pub struct Motion {
    before_seq: u64,
    frame_seq: u64,
    elapsed_ns: u64,
    grid: Extent,
    /// Sides of a block and of a texel in source pixels.
    block_px: f64,
    texel_px: f64,
    /// Motion of the blocks of the newer picture, row by row.
    blocks: Vec<BlockMotion>,
    before_from_now: Result<Affine, Unknown>,
}

/// Motion of a place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LocalMotion {
    /// Motion to the right since the picture before, in source pixels.
    pub dx: f64,
    /// Motion downwards since the picture before, in source pixels.
    pub dy: f64,
    /// Whether something moves at the place against the background, and `dx`, `dy` is its motion. Otherwise they are the background's.
    pub is_own: bool,
    /// Which share of what is known around the place moves against the background, 0..=1.
    pub own_share: f64,
    /// Motion of the background at the place; `None` if it is [unknown](Motion::before_from_now). It counts as still then.
    pub background: Option<(f64, f64)>,
}

/// Motion of the newest pictures of one stream. All memory is allocated at construction.
#[derive(Clone, Debug)]
pub struct Motions {
    now: Brightness,
    before: Brightness,
    /// Matches of the blocks of `now`, row by row.
    matches: Vec<Match>,
    votes: Vec<Vote>,
    distances: Distances,
    /// Blocks of the newest picture that changed.
    changed: Vec<ChangedBlock>,
    /// The frame of the picture in `now`; `None` before the first.
    seen: Option<FrameTime>,
    /// The newest last; the first of them are not valid until as many were followed. The last [`NEWEST_KEPT`] are from one picture to the
    /// next.
    kept: Vec<Motion>,
    valid: usize,
    scratch: Vec<BlockMotion>,
}

impl Motion {
    /// `frame_seq` of the older and of the newer picture.
    pub fn frames(&self) -> (u64, u64) {
        (self.before_seq, self.frame_seq)
    }

    /// Stream time between the two, in nanoseconds; 0 where it jumped back.
    pub fn elapsed_ns(&self) -> u64 {
        self.elapsed_ns
    }

    /// Columns and rows of blocks.
    pub fn grid(&self) -> Extent {
        self.grid
    }

    /// Side of a block in source pixels; the first begins at the top left corner.
    pub fn block_px(&self) -> f64 {
        self.block_px
    }

    /// The blocks of the newer picture, row by row.
    pub fn blocks(&self) -> &[BlockMotion] {
        &self.blocks
    }

    /// How most of the picture moved: from source pixels of the older picture to those of the newer one. `None` if that is
    /// [unknown](Self::before_from_now).
    pub fn global(&self) -> Option<Affine> {
        self.before_from_now.ok()?.inverse()
    }

    /// How most of the picture moved, from source pixels of the newer picture to those of the older one: the inverse of
    /// [`global`](Self::global). Exactly [`Affine::IDENTITY`] for a camera that stands still.
    ///
    /// # Errors
    ///
    /// Why the motion is not known.
    pub fn before_from_now(&self) -> Result<Affine, Unknown> {
        self.before_from_now
    }

    /// How most of the picture moved, as it is published.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "pixels, to fractions of which seven digits do"
    )]
    pub fn published(&self) -> Option<PictureMotion> {
        let now_from_before = self.global()?.0.map(|cell| cell as f32);
        Some(PictureMotion { frame_seq: self.frame_seq, now_from_before })
    }

    /// What moves within `radius` pixels of a place of the newer picture.
    pub fn around(&self, place: (f64, f64), radius: f64) -> LocalMotion {
        self.local(place, radius, |centre, _| centre)
    }

    /// Motion since the older picture of what was there within `radius` pixels of a place.
    pub fn onward(&self, place: (f64, f64), radius: f64) -> LocalMotion {
        self.local(place, radius, |centre, block| {
            (centre.0 - f64::from(block.dx), centre.1 - f64::from(block.dy))
        })
    }

    /// Goes on to the picture of the `next` motion, which begins where this one ended.
    fn go_on(&mut self, next: &Self, scratch: &mut Vec<BlockMotion>) {
        let columns = self.grid.width as usize;
        let block_at = |place: f64, count: u32| {
            ((place / self.block_px).floor() as i64).clamp(0, i64::from(count) - 1) as usize
        };
        scratch.clear();
        for (index, now) in next.blocks.iter().enumerate() {
            let middle = |block: usize| (block as f64 + 0.5) * self.block_px;
            let from_x = middle(index % columns) - f64::from(now.dx);
            let from_y = middle(index / columns) - f64::from(now.dy);
            let column = block_at(from_x, self.grid.width);
            let before = self.blocks[block_at(from_y, self.grid.height) * columns + column];
            scratch.push(BlockMotion {
                dx: now.dx + before.dx,
                dy: now.dy + before.dy,
                confidence: now.confidence.min(before.confidence),
            });
        }
        self.blocks.copy_from_slice(scratch);
        self.before_from_now = match (next.before_from_now, self.before_from_now) {
            (Ok(next), Ok(before)) => Ok(next.then(before)),
            (Err(Unknown::Cut), _) | (_, Err(Unknown::Cut)) => Err(Unknown::Cut),
            // A block without texture counts as still.
            (Ok(known), _) | (_, Ok(known)) => Ok(known),
            (unknown, _) => unknown,
        };
        self.frame_seq = next.frame_seq;
        self.elapsed_ns = self.elapsed_ns.saturating_add(next.elapsed_ns);
    }

    fn background_at(&self, (x, y): (f64, f64)) -> Option<(f64, f64)> {
        let (from_x, from_y) = self.before_from_now.ok()?.at((x, y));
        Some((x - from_x, y - from_y))
    }

    /// The motion of most of the blocks that move against the background and whose place, as `place_of` has it from their centre, is
    /// near one; that of the background if they are few.
    fn local(
        &self,
        place: (f64, f64),
        radius: f64,
        place_of: impl Fn((f64, f64), &BlockMotion) -> (f64, f64),
    ) -> LocalMotion {
        let reach = (radius + 0.5 * self.block_px).max(self.block_px);
        let columns = self.grid.width as usize;
        let (mut total, mut moving) = (0.0, 0.0);
        let mut own = ArrayVec::<Mover, BLOCKS_MAX>::new();
        for (index, block) in self.blocks.iter().enumerate() {
            let middle = |block: usize| (block as f64 + 0.5) * self.block_px;
            let centre = (middle(index % columns), middle(index / columns));
            let (x, y) = place_of(centre, block);
            let near = biweight(length(x - place.0, y - place.1) / reach);
            let weight = f64::from(block.confidence) * near;
            if weight == 0.0 {
                continue;
            }
            total += weight;
            let (dx, dy) = (f64::from(block.dx), f64::from(block.dy));
            let (x, y) = self.background_at(centre).unwrap_or_default();
            if OWN_MIN * self.texel_px <= length(dx - x, dy - y) {
                moving += weight;
                own.push(Mover { dx, dy, weight });
            }
        }
        let own_share = if 0.0 < total { moving / total } else { 0.0 };
        let background = self.background_at(place);
        let is_own = OWN_SHARE <= own_share;
        let (dx, dy) =
            if is_own { mode(&own, ALIKE * self.texel_px) } else { background.unwrap_or_default() };
        LocalMotion { dx, dy, is_own, own_share, background }
    }
}

/// A block that moves against the background.
#[derive(Clone, Copy, Debug)]
struct Mover {
    dx: f64,
    dy: f64,
    weight: f64,
}

/// The motion of most blocks: the mean of the motions within `radius` of it, starting at the block with the most neighbours.
fn mode(movers: &[Mover], radius: f64) -> (f64, f64) {
    let near = |mover: &Mover, to: (f64, f64)| {
        mover.weight * biweight(length(mover.dx - to.0, mover.dy - to.1) / radius)
    };
    let (mut best, mut most) = ((0.0, 0.0), 0.0);
    let candidates = movers.iter().step_by(movers.len().div_ceil(MODES_MAX).max(1));
    for candidate in candidates.map(|mover| (mover.dx, mover.dy)) {
        let supported: f64 = movers.iter().map(|mover| near(mover, candidate)).sum();
        if most < supported {
            (best, most) = (candidate, supported);
        }
    }
    for _ in 0..MODE_ROUNDS {
        let (mut sum, mut sum_x, mut sum_y) = (0.0, 0.0, 0.0);
        for mover in movers {
            let weight = near(mover, best);
            sum += weight;
            sum_x += weight * mover.dx;
            sum_y += weight * mover.dy;
        }
        if 0.0 < sum {
            best = (sum_x / sum, sum_y / sum);
        }
    }
    best
}

/// Rounded in the same way on every machine, unlike `hypot`.
pub(crate) fn length(x: f64, y: f64) -> f64 {
    (x * x + y * y).sqrt()
}

/// 1 at 0, falling to 0 at 1.
fn biweight(distance: f64) -> f64 {
    let rest = (1.0 - distance * distance).max(0.0);
    rest * rest
}

impl Motions {
    /// The motions of a source with a pyramid of `shape`, before its first picture.
    pub fn new(shape: PyramidShape) -> Self {
        let level = CoarseLevel::level_of(shape);
        let extent = shape.level_extent(level);
        let texel_px = f64::from(1u32 << level);
        let now = Brightness::new(extent);
        let grid = now.blocks();
        let block_px = BLOCK as f64 * texel_px;
        let blocks = vec![BlockMotion::default(); grid.area()];
        let none = Motion {
            before_seq: 0,
            frame_seq: 0,
            elapsed_ns: 0,
            grid,
            block_px,
            texel_px,
            blocks,
            before_from_now: Err(Unknown::Cut),
        };
        Self {
            before: now.clone(),
            now,
            matches: vec![Match::default(); grid.area()],
            votes: Vec::with_capacity(grid.area()),
            distances: Distances::with_capacity(grid.area()),
            changed: Vec::with_capacity(grid.area()),
            seen: None,
            kept: vec![none; OLDER_KEPT + NEWEST_KEPT],
            valid: 0,
            scratch: Vec::with_capacity(grid.area()),
        }
    }

    /// Takes the next picture, once, and finds what moved since the one before.
    pub fn follow(&mut self, coarse: &CoarseLevel, at: FrameTime) {
        self.follow_shared(coarse, at, &|parts, work| parts.iter_mut().for_each(work));
    }

    /// Does what [`follow`](Self::follow) does; `share` spreads the work over threads where much has changed.
    pub fn follow_shared(&mut self, coarse: &CoarseLevel, at: FrameTime, share: Share<'_>) {
        let is_seen = self.seen.is_some_and(|seen| seen.frame_seq == at.frame_seq);
        if coarse.extent() != self.now.extent || is_seen {
            return;
        }
        swap(&mut self.now, &mut self.before);
        self.now.update(coarse);
        let Some(before) = self.seen.replace(at) else {
            return self.begin();
        };
        self.make_room();
        let Some(newest) = self.kept.last_mut() else { return };
        (newest.before_seq, newest.frame_seq) = (before.frame_seq, at.frame_seq);
        newest.elapsed_ns = at.time_ns.saturating_sub(before.time_ns);
        self.measure(share);
    }

    /// Frees the last of the kept motions. The oldest of the newest ones is appended to the older motion before it, or becomes the start of
    /// another older one.
    fn make_room(&mut self) {
        let (older, newest) = self.kept.split_at_mut(OLDER_KEPT);
        match (older.last_mut(), newest.first()) {
            (Some(last), Some(next)) if NEWEST_KEPT < self.valid && last.elapsed_ns < OLDER_NS => {
                last.go_on(next, &mut self.scratch);
                newest.rotate_left(1);
            }
            _ => {
                self.kept.rotate_left(1);
                self.valid = (self.valid + 1).min(self.kept.len());
            }
        }
    }

    /// Finds what moved between the newest two pictures.
    fn measure(&mut self, share: Share<'_>) {
        let is_changed = self.now.levels() != self.before.levels();
        let fitted = if is_changed { self.compare(share) } else { Ok([0.0; 6]) };
        let Some(newest) = self.kept.last_mut() else { return };
        newest.before_from_now =
            fitted.map(|fitted| affine(&fitted, self.now.extent, newest.texel_px));
        let texel_px = newest.texel_px as f32;
        for (block, found) in newest.blocks.iter_mut().zip(&mut self.matches) {
            if !is_changed {
                *found = Match { tensor: found.tensor, ..Match::default() };
            }
            let Match { dx, dy, .. } = *found;
            let confidence = found.confidence();
            *block = BlockMotion { dx: dx * texel_px, dy: dy * texel_px, confidence };
        }
    }

    /// Masks cover `texels` from now on: the newest two pictures count as black there, and their motion is measured again.
    pub fn apply_mask(&mut self, texels: &TileSet) {
        self.now.apply_mask(texels);
        self.before.apply_mask(texels);
        self.begin();
        if 0 < self.valid {
            self.measure(&|parts, work| parts.iter_mut().for_each(work));
        }
    }

    /// The frame of the newest picture; `None` before the first.
    pub fn seen(&self) -> Option<FrameTime> {
        self.seen
    }

    /// Motion up to the newest picture; `None` before the second.
    pub fn newest(&self) -> Option<&Motion> {
        self.kept.last().filter(|_| 0 < self.valid)
    }

    /// Motion since frame `frame_seq`, the oldest first, each from where the one before ended; `None` if that is not known any more. That of
    /// older frames is of several at once: the first begins up to 1/12 s before or after the frame.
    pub fn since(&self, frame_seq: u64) -> Option<&[Motion]> {
        let valid = &self.kept[self.kept.len() - self.valid..];
        let first = valid.partition_point(|motion| motion.frame_seq <= frame_seq);
        let reaches_back = match valid.get(first) {
            Some(motion) => motion.before_seq <= frame_seq,
            None => self.seen.is_some_and(|seen| seen.frame_seq <= frame_seq),
        };
        let is_of_several = NEWEST_KEPT < valid.len() - first;
        let ends_nearer = |motion: &&Motion| {
            motion.frame_seq - frame_seq < frame_seq.saturating_sub(motion.before_seq)
        };
        let left_out = valid.get(first).filter(|_| is_of_several).filter(ends_nearer);
        reaches_back.then_some(&valid[first + usize::from(left_out.is_some())..])
    }

    /// Where what was at a place of frame `frame_seq` is in the newest picture: moved by what came from within `radius` pixels of it,
    /// picture by picture. `None` if that is not known any more, or after a cut.
    pub fn carried(&self, frame_seq: u64, place: (f64, f64), radius: f64) -> Option<(f64, f64)> {
        let mut at = place;
        for motion in self.since(frame_seq)? {
            if motion.before_from_now == Err(Unknown::Cut) {
                return None;
            }
            let local = motion.onward(at, radius);
            at = (at.0 + local.dx, at.1 + local.dy);
        }
        Some(at)
    }

    /// How most of the picture moved since frame `frame_seq`: from its source pixels to those of the newest picture. `None` if that
    /// is not known.
    pub fn global_since(&self, frame_seq: u64) -> Option<Affine> {
        let steps = self.since(frame_seq)?.iter();
        steps.map(Motion::global).try_fold(Affine::IDENTITY, |all, step| Some(all.then(step?)))
    }

    fn begin(&mut self) {
        let columns = self.now.blocks().width as usize;
        for (index, found) in self.matches.iter_mut().enumerate() {
            *found = unmoved(&self.now, (index % columns, index / columns));
        }
    }

    /// Matches all blocks, and fits the motion of the picture to the motion of the blocks.
    fn compare(&mut self, share: Share<'_>) -> Result<Fit, Unknown> {
        let guess = self.guess();
        self.match_blocks(guess, share);
        let Self { now, matches, votes, distances, .. } = self;
        let columns = now.blocks().width as usize;
        votes.clear();
        let places = places(now.extent);
        votes.extend(matches.iter().enumerate().map(|(index, found)| {
            let centre = |block: usize| (block * BLOCK + BLOCK / 2) as f64;
            vote(found, places.of((centre(index % columns), centre(index / columns))))
        }));
        let starts = [(0.0, 0.0), (f64::from(guess.0), f64::from(guess.1))];
        let possible = matches.iter().map(possible).sum();
        let fitted = fit(votes, possible, &starts, distances)?;
        let corner = |x: f64, y: f64| {
            let (dx, dy) = shift_of(&fitted, places.of((x, y)));
            dx.abs().max(dy.abs())
        };
        let (right, bottom) = (f64::from(now.extent.width), f64::from(now.extent.height));
        let corners =
            [corner(0.0, 0.0), corner(right, 0.0), corner(0.0, bottom), corner(right, bottom)];
        Ok(if corners.into_iter().all(|moves| moves < STILL) { [0.0; 6] } else { fitted })
    }

    /// The shift of the picture, if so much has changed that it may have one.
    fn guess(&self) -> (f32, f32) {
        let Self { now, before, .. } = self;
        let differs = |(now, before): (&f32, &f32)| NOISE < (now - before) * (now - before);
        let changed = now.means().iter().zip(before.means()).filter(|pair| differs(*pair)).count();
        if CHANGED_MIN * now.blocks().area() as f32 <= changed as f32 {
            picture_shift(now, before)
        } else {
            (0.0, 0.0)
        }
    }

    /// Finds where each block came from.
    fn match_blocks(&mut self, guess: (f32, f32), share: Share<'_>) {
        let Self { now, before, matches, changed, .. } = self;
        let columns = now.blocks().width as usize;
        changed.clear();
        for (index, found) in matches.iter_mut().enumerate() {
            if now.is_same_at(before, index % columns, index / columns) {
                *found = Match { tensor: found.tensor, ..Match::default() };
            } else {
                changed.push(ChangedBlock { index, found: *found });
            }
        }
        let work = |blocks: &mut &mut [ChangedBlock]| {
            for ChangedBlock { index, found } in blocks.iter_mut() {
                *found = matched(now, before, (*index % columns, *index / columns), guess);
            }
        };
        if changed.len() < WORTH_SHARING {
            work(&mut changed.as_mut_slice());
        } else {
            let mut parts: ArrayVec<_, PARTS_MAX> = changed.chunks_mut(PART).collect();
            share(&mut parts, &work);
        }
        for ChangedBlock { index, found } in changed {
            matches[*index] = *found;
        }
    }
}

/// Places in texels as the fit has them.
#[derive(Clone, Copy)]
struct Places {
    middle: (f64, f64),
    half: f64,
}

fn places(extent: Extent) -> Places {
    let middle = (0.5 * f64::from(extent.width), 0.5 * f64::from(extent.height));
    Places { middle, half: middle.0.max(middle.1) }
}

impl Places {
    fn of(self, (x, y): (f64, f64)) -> (f64, f64) {
        ((x - self.middle.0) / self.half, (y - self.middle.1) / self.half)
    }
}

/// A vote counts along each axis as far as the block has edges across it: by the structure tensor, relative to what is left of noise
/// and of the match.
fn vote(found: &Match, at: (f64, f64)) -> Vote {
    let (greatest, _) = found.eigenvalues();
    let full = f64::from(greatest + found.left + NOISE);
    let weight = found.tensor.map(|product| f64::from(product) / full);
    let greatest = f64::from(greatest) / full;
    Vote { at, shift: (f64::from(found.dx), f64::from(found.dy)), weight, greatest }
}

/// The weight that the vote of a block would have if it matched.
fn possible(found: &Match) -> f64 {
    let (greatest, least) = found.eigenvalues();
    f64::from(0.5 * (greatest + least) / (greatest + NOISE))
}

/// The map from pixels of the newer picture to those of the older one.
fn affine(fitted: &Fit, extent: Extent, texel_px: f64) -> Affine {
    if *fitted == [0.0; 6] {
        return Affine::IDENTITY;
    }
    let Places { middle: (x, y), half } = places(extent);
    let row = |shift: f64, along_x: f64, along_y: f64| {
        [along_x / half, along_y / half, texel_px * (shift - (along_x * x + along_y * y) / half)]
    };
    let [a, b, c] = row(fitted[0], fitted[1], fitted[2]);
    let [d, e, f] = row(fitted[3], fitted[4], fitted[5]);
    Affine([1.0 - a, -b, -c, -d, 1.0 - e, -f])
}
