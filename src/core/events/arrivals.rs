//! Detects arrivals: a new area that differs from the background and stays for half a second.
//!
//! The background is that of the saliency, which learns what is usual at each place. Areas are followed from frame to frame by
//! their overlap; what splits off something known is not new, and what is hidden for a moment is still known.

#![expect(
    clippy::cast_possible_truncation,
    reason = "at most 128 texels a side, and seconds between frames"
)]

use arrayvec::ArrayVec;

use super::{Event, EventKind, Events, Moment, Phase};
use crate::gaze::saliency::change::Background;
use crate::gaze::saliency::smooth;
use crate::geometry::coarse::CoarseLevel;
use crate::geometry::extent::Extent;
use crate::geometry::region::Region;
use crate::geometry::tile::TileSet;

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

/// After a new scene nothing is new for so long: the background has to be learned.
const LEARN_NS: u64 = 4_000_000_000;

/// How far something may be from where it was, as a share of the longer side.
const MARGIN: f64 = 1.0 / 48.0;

/// A half-open box of texels.
#[derive(Clone, Copy, Debug)]
struct Box {
    x0: i32,
    y0: i32,
    x1: i32,
    y1: i32,
}

impl Box {
    fn touches(self, other: Self, margin: i32) -> bool {
        self.x0 < other.x1 + margin
            && other.x0 < self.x1 + margin
            && self.y0 < other.y1 + margin
            && other.y0 < self.y1 + margin
    }

    /// Between twice the centres, along the axes.
    fn distance(self, other: Self) -> i32 {
        (self.x0 + self.x1 - other.x0 - other.x1).abs()
            + (self.y0 + self.y1 - other.y0 - other.y1).abs()
    }

    fn with(self, other: Self) -> Self {
        Self {
            x0: self.x0.min(other.x0),
            y0: self.y0.min(other.y0),
            x1: self.x1.max(other.x1),
            y1: self.y1.max(other.y1),
        }
    }
}

/// An area of one frame.
#[derive(Clone, Copy, Debug)]
struct Area {
    place: Box,
    texels: usize,
}

/// Something that is followed.
#[derive(Clone, Copy, Debug)]
struct TrackedObject {
    place: Box,
    since: Moment,
    /// When it had an area of its own last, and in how many frames.
    seen: Moment,
    frames: u32,
    /// Whether it was reported, or need not be.
    is_known: bool,
    /// When it was reported.
    told: Option<Moment>,
}

impl TrackedObject {
    /// How long it may be hidden: no longer than it was seen, so that a fragment is forgotten at once.
    fn may_hide_ns(&self) -> u64 {
        HIDDEN_NS.min(self.seen.ns - self.since.ns)
    }

    fn is_told_within(&self, now: Moment, ns: u64) -> bool {
        self.told.is_some_and(|told| now.ns - told.ns < ns)
    }
}

/// Detects arrivals, which stay for at least 0.5 s and 3 frames; none in the first 4 s of a scene.
#[derive(Clone, Debug)]
pub(super) struct Arrivals {
    grid: Extent,
    extent: Extent,
    level: u32,
    margin: i32,
    background: Background,
    change: Vec<f32>,
    scratch: Vec<f32>,
    /// Texels yet to be visited of the area that is being filled.
    waiting: Vec<usize>,
    things: ArrayVec<TrackedObject, THINGS_MAX>,
    /// Since when the background is learned; `None` before the first frame.
    learned_since: Option<Moment>,
}

impl Arrivals {
    pub(super) fn new(grid: Extent, extent: Extent, level: u32) -> Self {
        let zeros = vec![0.0; grid.area()];
        Self {
            grid,
            extent,
            level,
            margin: (MARGIN * f64::from(grid.longer_side())).ceil() as i32,
            background: Background::new(grid),
            change: zeros.clone(),
            scratch: zeros,
            waiting: Vec::with_capacity(grid.area()),
            things: ArrayVec::new(),
            learned_since: None,
        }
    }

    /// Masks cover `texels` from the next frame on: forgets what was seen there.
    pub(super) fn hide(&mut self, texels: &TileSet) {
        self.background.hide(texels);
        let is_there = |thing: &TrackedObject| {
            let Box { x0, y0, x1, y1 } = thing.place;
            (y0..y1).any(|y| (x0..x1).any(|x| texels.contains(x as u32, y as u32)))
        };
        self.things.retain(|thing| !is_there(thing));
    }

    /// Takes a frame, `elapsed_s` after the one before.
    pub(super) fn take(
        &mut self,
        now: Moment,
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
        let is_learning = self.learned_since.is_some_and(|since| now.ns - since.ns < LEARN_NS);
        self.follow(now, &areas, is_learning);
        self.things.retain(|thing| now.ns - thing.seen.ns <= thing.may_hide_ns());
        for index in 0..self.things.len() {
            let thing = self.things[index];
            let stays = STAYS_NS <= now.ns - thing.since.ns && FRAMES_MIN <= thing.frames;
            if !stays || thing.is_known || thing.seen != now {
                continue;
            }
            let is_part = |other: &TrackedObject| {
                other.is_told_within(now, TOGETHER_NS)
                    && other.place.touches(thing.place, self.margin)
            };
            let is_part = self.things.iter().any(is_part);
            self.things[index].is_known = true;
            if !is_part {
                self.things[index].told = Some(now);
                events.push(event(now, &thing, self.level, self.extent, self.grid));
            }
        }
    }

    /// The areas of change, the largest first.
    fn areas(&mut self) -> ArrayVec<Area, THINGS_MAX> {
        let mut areas = ArrayVec::<Area, THINGS_MAX>::new();
        let mut total = 0;
        for index in 0..self.change.len() {
            let Some(area) = self.fill(index) else { continue };
            total += area.texels;
            if AREA_MIN <= area.texels {
                let place = areas.partition_point(|other| area.texels <= other.texels);
                if areas.is_full() && place < areas.len() {
                    areas.pop();
                }
                // The smallest of too many are left out.
                let _ = areas.try_insert(place, area);
            }
        }
        if AREA_MAX * (self.change.len() as f64) < total as f64 {
            areas.clear();
        }
        areas
    }

    /// The area that texel `index` belongs to, which is erased from the map.
    fn fill(&mut self, index: usize) -> Option<Area> {
        if self.change[index] < CHANGED {
            return None;
        }
        let (width, height) = (self.grid.width as usize, self.grid.height as usize);
        let mut texels = 0;
        let at = |index: usize| {
            let (x, y) = ((index % width) as i32, (index / width) as i32);
            Box { x0: x, y0: y, x1: x + 1, y1: y + 1 }
        };
        let mut place = at(index);
        self.change[index] = 0.0;
        self.waiting.push(index);
        while let Some(index) = self.waiting.pop() {
            texels += 1;
            place = place.with(at(index));
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
        Some(Area { place, texels })
    }

    /// Gives each area to one thing; what none may be is a new one.
    fn follow(&mut self, now: Moment, areas: &[Area], is_learning: bool) {
        let known = self.things.len();
        for area in areas {
            if let Some(index) = self.nearest(now, known, area.place) {
                let thing = &mut self.things[index];
                (thing.place, thing.seen) = (area.place, now);
                thing.frames += 1;
                continue;
            }
            // What splits off something is as new as that is.
            let parts = self.things[..known].iter();
            let mut parts = parts.filter(|thing| thing.place.touches(area.place, self.margin));
            let (is_known, since) = parts.next().map_or((is_learning, now), |whole| {
                (whole.is_known, if whole.is_known { now } else { whole.since })
            });
            let thing = TrackedObject {
                place: area.place,
                since,
                seen: now,
                frames: 1,
                is_known,
                told: None,
            };
            // With as many as can be followed, it is looked at again in the next frame.
            let _ = self.things.try_push(thing);
        }
        // What has no area of its own may be behind or before something that has.
        for index in 0..known {
            let TrackedObject { place, seen, .. } = self.things[index];
            if seen != now
                && let Some(area) = areas.iter().find(|area| area.place.touches(place, 0))
            {
                self.things[index].place = area.place;
            }
        }
    }

    /// The thing nearest to an area, of the first `known` that have no area of this frame yet and may be there.
    fn nearest(&self, now: Moment, known: usize, place: Box) -> Option<usize> {
        let may_be = |thing: &TrackedObject| {
            let hidden_s = now.seconds_since(thing.seen);
            let moved = HIDDEN_SPEED * hidden_s * f64::from(self.grid.longer_side());
            thing.seen != now && thing.place.touches(place, self.margin + moved.floor() as i32)
        };
        let things = self.things[..known].iter().enumerate().filter(|(_, thing)| may_be(thing));
        things.min_by_key(|(_, thing)| thing.place.distance(place)).map(|(index, _)| index)
    }
}

fn event(now: Moment, thing: &TrackedObject, level: u32, extent: Extent, grid: Extent) -> Event {
    let Box { x0, y0, x1, y1 } = thing.place;
    let edge = |texel: i32, side: u32| f64::from(texel << level).min(f64::from(side));
    let region = Region {
        x0: edge(x0, extent.width),
        y0: edge(y0, extent.height),
        x1: edge(x1, extent.width),
        y1: edge(y1, extent.height),
    };
    Event {
        kind: EventKind::Appeared,
        phase: Phase::Once,
        frame: now.frame,
        since_frame: thing.since.frame,
        region: Some(region),
        value: f64::from((x1 - x0) * (y1 - y0)) / grid.area() as f64,
    }
}
