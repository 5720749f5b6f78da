//! Detects arrivals: a new area that differs from the background and stays for half a second.
//!
//! The background is that of the saliency, which learns what is usual at each place. Areas are followed from frame to frame by
//! their overlap; what splits off something known is not new, and what is hidden for a moment is still known.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "at most 128 texels a side, and seconds between frames"
)]

use arrayvec::ArrayVec;

use super::Events;
use crate::saliency::change::Background;
use crate::saliency::smooth;
use foveate_core::event::{Event, EventKind, Phase};
use foveate_core::frame::FrameTime;
use foveate_core::geometry::coarse::CoarseLevel;
use foveate_core::geometry::extent::Extent;
use foveate_core::geometry::region::{PixelBox, Region};
use foveate_core::geometry::tile::TileSet;

/// Most objects tracked at a time. While there are so many, further ones are not reported.
pub(super) const THINGS_MAX: usize = 32;

/// Change of a texel, 0..=1, smoothed, from which on it belongs to an area.
const CHANGED: f32 = 0.35;

/// Smallest area in texels. If all areas together exceed `AREA_MAX` of the picture, the lighting changed and none counts.
const AREA_MIN: usize = 6;
const AREA_MAX: f64 = 0.4;

/// How long something must be there, and in how many frames at least.
const STAYS_NS: u64 = 500_000_000;
const FRAMES_MIN: u32 = 3;

/// How long something that is not seen is still known, and how fast it may move meanwhile, in longer sides a second.
const HIDDEN_NS: u64 = 2_000_000_000;
const HIDDEN_SPEED: f64 = 0.05;

/// An arrival beside another one that was reported within this time belongs to it.
const TOGETHER_NS: u64 = 1_000_000_000;

/// Time after a new scene in which nothing counts as new, because the background has to be learned.
const LEARN_NS: u64 = 4_000_000_000;

/// How far something may be from where it was, as a share of the longer side.
const MARGIN: f64 = 1.0 / 48.0;

/// Whether two boxes of texels overlap, one of them widened by `margin`.
fn are_near(one: PixelBox, other: PixelBox, margin: u32) -> bool {
    one.x0 < other.x1 + margin
        && other.x0 < one.x1 + margin
        && one.y0 < other.y1 + margin
        && other.y0 < one.y1 + margin
}

/// Between twice the centres of two boxes, along the axes.
fn distance(one: PixelBox, other: PixelBox) -> u32 {
    (one.x0 + one.x1).abs_diff(other.x0 + other.x1)
        + (one.y0 + one.y1).abs_diff(other.y0 + other.y1)
}

/// An object that is followed.
#[derive(Clone, Copy, Debug)]
struct TrackedObject {
    /// Texels of the object.
    place: PixelBox,
    since: FrameTime,
    /// When the object last had an area of its own.
    seen: FrameTime,
    /// Frames in which the object had an area of its own.
    frames: u32,
    /// Whether the object was reported, or need not be.
    is_known: bool,
    /// Time at which the object was reported.
    reported_at: Option<FrameTime>,
}

impl TrackedObject {
    /// How long the object may be hidden: no longer than it was seen, so that a fragment is forgotten at once.
    fn may_hide_ns(&self) -> u64 {
        HIDDEN_NS.min(self.seen.time_ns - self.since.time_ns)
    }

    fn was_reported_within(&self, now: FrameTime, ns: u64) -> bool {
        self.reported_at.is_some_and(|reported_at| now.time_ns - reported_at.time_ns < ns)
    }
}

/// Detects arrivals, which stay for at least 0.5 s and 3 frames; none in the first 4 s of a scene.
#[derive(Clone, Debug)]
pub(super) struct Arrivals {
    grid: Extent,
    extent: Extent,
    level: u32,
    margin: u32,
    background: Background,
    change: Vec<f32>,
    scratch: Vec<f32>,
    /// Texels yet to be visited of the area that is being filled.
    waiting: Vec<usize>,
    things: ArrayVec<TrackedObject, THINGS_MAX>,
    /// The frame since which the background is learned; `None` before the first frame.
    learned_since: Option<FrameTime>,
}

impl Arrivals {
    pub(super) fn new(grid: Extent, extent: Extent, level: u32) -> Self {
        let zeros = vec![0.0; grid.area()];
        Self {
            grid,
            extent,
            level,
            margin: (MARGIN * f64::from(grid.longer_side())).ceil() as u32,
            background: Background::new(grid),
            change: zeros.clone(),
            scratch: zeros,
            waiting: Vec::with_capacity(grid.area()),
            things: ArrayVec::new(),
            learned_since: None,
        }
    }

    /// Masks cover `texels` from the next frame on: forgets what was seen there.
    pub(super) fn apply_mask(&mut self, texels: &TileSet) {
        self.background.apply_mask(texels);
        let is_there = |thing: &TrackedObject| {
            let PixelBox { x0, y0, x1, y1 } = thing.place;
            (y0..y1).any(|y| (x0..x1).any(|x| texels.contains(x, y)))
        };
        self.things.retain(|thing| !is_there(thing));
    }

    /// Takes a frame, `elapsed_s` after the one before.
    pub(super) fn detect(
        &mut self,
        now: FrameTime,
        elapsed_s: f64,
        coarse: &CoarseLevel,
        is_new_scene: bool,
        events: &mut Events,
    ) {
        if is_new_scene {
            self.background.forget();
        }
        let samples = coarse.texels.as_flattened();
        let restarted = self.background.change_into(samples, &mut self.change);
        self.background.absorb(samples, elapsed_s as f32);
        if is_new_scene || restarted || self.learned_since.is_none() {
            self.learned_since = Some(now);
            self.things.clear();
            return;
        }
        smooth(&mut self.change, &mut self.scratch, self.grid.width as usize);
        let areas = self.areas();
        let is_learning =
            self.learned_since.is_some_and(|since| now.time_ns - since.time_ns < LEARN_NS);
        self.follow(now, &areas, is_learning);
        self.things.retain(|thing| now.time_ns - thing.seen.time_ns <= thing.may_hide_ns());
        for index in 0..self.things.len() {
            let thing = self.things[index];
            let stays = STAYS_NS <= now.time_ns - thing.since.time_ns && FRAMES_MIN <= thing.frames;
            if !stays || thing.is_known || thing.seen != now {
                continue;
            }
            let is_part = |other: &TrackedObject| {
                other.was_reported_within(now, TOGETHER_NS)
                    && are_near(other.place, thing.place, self.margin)
            };
            let is_part = self.things.iter().any(is_part);
            self.things[index].is_known = true;
            if !is_part {
                self.things[index].reported_at = Some(now);
                events.push(event(now, &thing, self.level, self.extent, self.grid));
            }
        }
    }

    /// Boxes of the areas of change and how many texels change, the largest first.
    fn areas(&mut self) -> ArrayVec<(PixelBox, usize), THINGS_MAX> {
        let mut areas = ArrayVec::<(PixelBox, usize), THINGS_MAX>::new();
        let mut total = 0;
        for index in 0..self.change.len() {
            let Some((place, texels)) = self.fill(index) else { continue };
            total += texels;
            if AREA_MIN <= texels {
                let rank = areas.partition_point(|(_, other)| texels <= *other);
                if areas.is_full() && rank < areas.len() {
                    areas.pop();
                }
                // The smallest of too many are left out.
                let _ = areas.try_insert(rank, (place, texels));
            }
        }
        if AREA_MAX * (self.change.len() as f64) < total as f64 {
            areas.clear();
        }
        areas
    }

    /// The area that texel `index` belongs to, which is erased from the map: its box and the number of its texels.
    fn fill(&mut self, index: usize) -> Option<(PixelBox, usize)> {
        if self.change[index] < CHANGED {
            return None;
        }
        let (width, height) = (self.grid.width as usize, self.grid.height as usize);
        let mut texels = 0;
        let at = |index: usize| ((index % width) as u32, (index / width) as u32);
        let (x, y) = at(index);
        let mut place = PixelBox::of(x..x + 1, y..y + 1);
        self.change[index] = 0.0;
        self.waiting.push(index);
        while let Some(index) = self.waiting.pop() {
            texels += 1;
            let (x, y) = at(index);
            place = PixelBox {
                x0: place.x0.min(x),
                y0: place.y0.min(y),
                x1: place.x1.max(x + 1),
                y1: place.y1.max(y + 1),
            };
            let (x, y) = (index % width, index / width);
            for row in y.saturating_sub(1)..(y + 2).min(height) {
                for column in x.saturating_sub(1)..(x + 2).min(width) {
                    let near = row * width + column;
                    if CHANGED <= self.change[near] {
                        self.change[near] = 0.0;
                        self.waiting.push(near);
                    }
                }
            }
        }
        Some((place, texels))
    }

    /// Gives each area to one thing; what none may be is a new one.
    fn follow(&mut self, now: FrameTime, areas: &[(PixelBox, usize)], is_learning: bool) {
        let known = self.things.len();
        for (place, _) in areas {
            let place = *place;
            if let Some(index) = self.nearest(now, known, place) {
                let thing = &mut self.things[index];
                (thing.place, thing.seen) = (place, now);
                thing.frames += 1;
                continue;
            }
            // A part that splits off is as new as the object that it was a part of.
            let parts = self.things[..known].iter();
            let mut parts = parts.filter(|thing| are_near(thing.place, place, self.margin));
            let (is_known, since) = parts.next().map_or((is_learning, now), |whole| {
                (whole.is_known, if whole.is_known { now } else { whole.since })
            });
            let thing =
                TrackedObject { place, since, seen: now, frames: 1, is_known, reported_at: None };
            // With as many as can be followed, it is looked at again in the next frame.
            let _ = self.things.try_push(thing);
        }
        // An object without an area of its own may be behind or in front of an object that has one.
        for index in 0..known {
            let TrackedObject { place, seen, .. } = self.things[index];
            if seen != now
                && let Some((found, _)) = areas.iter().find(|(found, _)| are_near(*found, place, 0))
            {
                self.things[index].place = *found;
            }
        }
    }

    /// The thing nearest to an area, of the first `known` that have no area of this frame yet and may be there.
    fn nearest(&self, now: FrameTime, known: usize, place: PixelBox) -> Option<usize> {
        let may_be = |thing: &TrackedObject| {
            let hidden_s = now.seconds_since(thing.seen);
            let moved = HIDDEN_SPEED * hidden_s * f64::from(self.grid.longer_side());
            thing.seen != now && are_near(thing.place, place, self.margin + moved.floor() as u32)
        };
        let things = self.things[..known].iter().enumerate().filter(|(_, thing)| may_be(thing));
        things.min_by_key(|(_, thing)| distance(thing.place, place)).map(|(index, _)| index)
    }
}

fn event(now: FrameTime, thing: &TrackedObject, level: u32, extent: Extent, grid: Extent) -> Event {
    let PixelBox { x0, y0, x1, y1 } = thing.place;
    let edge = |texel: u32, side: u32| f64::from(texel << level).min(f64::from(side));
    let region = Region {
        x0: edge(x0, extent.width),
        y0: edge(y0, extent.height),
        x1: edge(x1, extent.width),
        y1: edge(y1, extent.height),
    };
    Event {
        kind: EventKind::Appeared,
        phase: Phase::Once,
        frame: now.frame_seq,
        since_frame: thing.since.frame_seq,
        region: Some(region),
        value: f64::from((x1 - x0) * (y1 - y0)) / grid.area() as f64,
    }
}
